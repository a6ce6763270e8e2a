"""Layers behind walls: what becomes of a problem, and that waves leave through them."""

import numpy as np
import pytest

import tessella as ts

WAVE = ts.Equation(ts.D(t=2) - ts.Laplacian())
AT_REST = ts.InitialVelocity(0.0)


def pulse(p):
    return np.exp(-40 * np.sum(p[:, :-1] ** 2, axis=1))


def square(*conditions, equation=WAVE, domain=None, **more):
    domain = domain or ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 1))
    return ts.Problem(domain, equation, [*conditions, ts.Initial(pulse), AT_REST], **more)


def test_only_the_walls_that_absorb_get_a_layer():
    problem = square(ts.Absorbing(on=("xmax", "ymin")), ts.Dirichlet(0.0, on=("xmin", "ymax")))
    layered = ts.with_layers(problem, 0.5)
    assert layered.domain == ts.Box(x=(-1, 1.5), y=(-1.5, 1), t=(0, 1))
    names = {c.name for c in layered.conditions}
    assert names >= {"dirichlet", "outlet xmax", "outlet ymin", "initial value"}
    assert "absorbing" not in names


def test_inside_it_is_the_same_equation():
    """Where nothing damps, a function has the defect it had, and memories stay what they are."""
    layered = ts.with_layers(square(ts.Absorbing()), 0.5)
    x = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    for equation, of_u in zip(layered.equations, (WAVE.operator, None, None), strict=True):
        found = {
            a: c for a, c in layered.symbol(equation.operator, x, field="u").items() if c.any()
        }
        known = square(ts.Absorbing()).symbol(of_u, x) if of_u else {}
        assert found.keys() == known.keys()
        for alpha, c in known.items():
            np.testing.assert_array_equal(found[alpha], c)


def test_a_wave_in_a_layer_is_the_wave_outside_in_stretched_space():
    """u = exp(s t - k.X) with X' = 1 + sigma / s solves the equations, at any angle."""
    damping, width = 3.0, 0.5
    layered = ts.with_layers(square(ts.Absorbing()), width, damping)
    rate, angle, sigma = 2.0, 0.7, damping / width
    kx, ky = rate * np.cos(angle), rate * np.sin(angle)
    for where, stretch in (([1.2, 0.3, 0.5], (1, 0)), ([1.2, 1.4, 0.5], (1, 1))):
        sx, sy = (sigma * own for own in stretch)
        gx, gy = kx * (1 + sx / rate), ky * (1 + sy / rate)
        memory = {
            "memory_x": (sy - sx) * -gx / (rate + sx),
            "memory_y": (sx - sy) * -gy / (rate + sy),
        }
        amplitude = {"u": 1.0, **memory}
        growth = np.array([-gx, -gy, rate])
        for equation in layered.equations:
            total, size = 0.0, 0.0
            for field, a in amplitude.items():
                for alpha, c in layered.symbol(
                    equation.operator, np.array([where]), field=field
                ).items():
                    part = a * c[0] * np.prod(growth ** np.array(alpha))
                    total, size = total + part, size + abs(part)
            assert abs(total) <= 1e-12 * size


def test_a_pulse_on_a_line_leaves():
    problem = square(
        ts.Absorbing(on="xmax"), ts.Neumann(on="xmin"), domain=ts.Box(x=(0, 1.2), t=(0, 2))
    )
    layered = ts.with_layers(problem, 0.4)
    marched = ts.march(
        layered, 5, subdomains=(4, 1), features=220, coupling="interfaces", estimate=False
    )
    x = np.column_stack([np.linspace(0, 1.2, 200), np.full(200, 1.0)])
    right = 0.5 * np.exp(-40 * (x[:, 0] - 1) ** 2)
    assert np.max(np.abs(marched["u"](x) - right)) < 1e-5
    x[:, 1] = 2.0
    assert np.max(np.abs(marched["u"](x))) < 1e-5


K, XI, S = 10.0, 5.8, 0.4


def start(x):
    return np.exp(-((x / S) ** 2) / 2) * np.cos(XI * x)


def beam(x, t):
    """v_tt = v_xx - K^2 v on the whole line, from `start` at rest: by Fourier."""
    step = np.pi / 40
    xi = np.arange(-800, 801) * step
    hat = np.exp(-((S * (xi - XI)) ** 2) / 2) + np.exp(-((S * (xi + XI)) ** 2) / 2)
    hat *= S * np.sqrt(2 * np.pi) / 2 * step / (2 * np.pi)
    waves = np.cos(np.outer(x, xi)) * np.cos(np.outer(t, np.sqrt(xi**2 + K**2)))
    return waves @ hat


def test_waves_leave_at_sixty_degrees():
    """In a channel, u = v(x, t) cos(K y) meets the ends at an angle of about atan(K / XI)."""
    box = ts.Box(x=(-1.8, 1.8), y=(0, np.pi / K), t=(0, 3))
    problem = ts.Problem(
        box,
        WAVE,
        [
            ts.Absorbing(on=("xmin", "xmax")),
            ts.Neumann(on=("ymin", "ymax")),
            ts.Initial(lambda p: start(p[:, 0]) * np.cos(K * p[:, 1])),
            AT_REST,
        ],
    )
    x = np.random.default_rng(0).uniform(*np.transpose(box.bounds), (1_000, 3))
    np.testing.assert_allclose(beam(x[:, 0], 0 * x[:, 0]), start(x[:, 0]), atol=1e-12)
    right = beam(x[:, 0], x[:, 2]) * np.cos(K * x[:, 1])
    method = {"features": 350, "coupling": "interfaces", "estimate": False}
    alone = ts.march(problem, 10, subdomains=(12, 1, 1), **method)
    assert np.max(np.abs(alone(x) - right)) > 0.05
    layered = ts.march(ts.with_layers(problem, 0.3), 10, subdomains=(14, 1, 1), **method)
    assert np.max(np.abs(layered["u"](x) - right)) < 3e-4


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (square(ts.Dirichlet(0.0)), "there is none: add Absorbing"),
        (square(ts.Absorbing(), ts.Integral(0.0)), "'integral' is an integral over the domain"),
        (square(ts.Absorbing(on=lambda p: p[:, 0] > 0)), "name whole walls"),
        (
            square(ts.Absorbing(), equation=ts.Equation(ts.D(t=2) - ts.Laplacian() + 1.0)),
            r"knows the wave equation .*Laplacian\(\) \+ 1",
        ),
        (
            square(ts.Absorbing(), equation=ts.Equation(ts.D(t=2) - ts.D(x=2) - 2 * ts.D(y=2))),
            "knows the wave equation",
        ),
        (
            square(ts.Absorbing(), domain=ts.Ball(x=0, y=0, radius=1).over(t=(0, 1))),
            "needs a Box with time",
        ),
        (square(ts.Absorbing(), ansatz=ts.Ansatz(2.0)), "without an ansatz"),
    ],
)  # fmt: skip
def test_what_layers_cannot_do_is_refused(problem, message):
    with pytest.raises(ValueError, match=message):
        ts.with_layers(problem, 0.5)


def test_widths_and_dampings_are_positive():
    for wrong in ({"width": 0.0}, {"width": 0.5, "damping": -1.0}, {"width": np.inf}):
        with pytest.raises(ValueError, match=r"with_layers\(\) (width|damping) must be a positive"):
            ts.with_layers(square(ts.Absorbing()), **wrong)


def test_the_equation_may_be_written_the_other_way_round():
    turned = square(ts.Absorbing(2.0), equation=ts.Equation(ts.Laplacian() - 0.25 * ts.D(t=2), 3.0))
    layered = ts.with_layers(turned, 0.5, damping=4.0)
    first = layered.equations[0]
    x = np.array([[1.2, 0.0, 0.5]])
    symbol = {alpha: c[0] for alpha, c in layered.symbol(first.operator, x, field="u").items()}
    assert symbol[0, 0, 2] == 1.0
    assert symbol[2, 0, 0] == symbol[0, 2, 0] == -4.0
    assert symbol[0, 0, 1] == pytest.approx(4.0 * 2 / 0.5)
    assert first.rhs == -12.0
