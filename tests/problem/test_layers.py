"""Layers behind walls: what becomes of a problem, and that waves leave through them."""

import numpy as np
import pytest
from scipy.special import hankel1

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


WAVENUMBER, NARROW = 12.0, 0.08
PARTS = ts.Field("a"), ts.Field("b")
HELMHOLTZ = ts.Laplacian() + WAVENUMBER**2


def antenna(*conditions, operators=None, domain=None, k=WAVENUMBER, source=0.0, **more):
    domain = domain or ts.Box(x=(-1.5, 1.5), y=(-0.5, 0.5))
    conditions = conditions or ts.Outgoing(k, of=PARTS)
    a, b = operators or (HELMHOLTZ @ part for part in PARTS)
    equations = [ts.Equation(a, source, name="real part"), ts.Equation(b, name="imaginary part")]
    return ts.Problem(domain, equations, conditions, fields=("a", "b"), **more)


def test_a_source_radiates_as_in_open_space_at_all_angles():
    """Outside of a narrow source, u is Hankel's function times what the source amounts to; waves
    meet the long walls at up to 70 degrees."""

    def source(p):
        return -np.exp(-np.sum(p**2, axis=1) / (2 * NARROW**2))

    x = np.random.default_rng(0).uniform([-1.5, -0.5], [1.5, 0.5], (1_000, 2))
    r = np.linalg.norm(x, axis=1)
    x, r = x[r > 6 * NARROW], r[r > 6 * NARROW]
    amount = 2 * np.pi * NARROW**2 * np.exp(-((WAVENUMBER * NARROW) ** 2) / 2)
    right = 0.25j * amount * hankel1(0, WAVENUMBER * r)
    problem = antenna(source=source)

    def wrong(problem, cells):
        u = ts.solve(problem, subdomains=cells, features=250, coupling="interfaces", estimate=False)
        return np.max(np.abs(u(x) @ [1, 1j] - right)) / np.max(np.abs(right))

    assert wrong(problem, (6, 2)) > 0.05
    assert wrong(ts.with_layers(problem, 0.5), (8, 4)) < 1e-5


def test_a_wave_in_a_stretched_layer_is_the_wave_outside():
    """u = exp(i k.X) with X' = s solves the equations, at any angle."""
    layered = ts.with_layers(antenna(), 0.5, damping=3.0)
    angle, where = 0.7, np.array([[1.8, -0.85]])
    along = WAVENUMBER * np.array([np.cos(angle), np.sin(angle)])
    depth = np.array([0.3, 0.35]) / 0.5
    steep = 4 * 3.0 / (WAVENUMBER * 0.5)
    s = 1 + 1j * steep * depth**3
    slope = 3j * steep * depth**2 / 0.5 * np.array([1, -1])
    first = 1j * along * s
    second = first**2 + 1j * along * slope
    of = {(0, 0): 1.0, (1, 0): first[0], (0, 1): first[1], (2, 0): second[0], (0, 2): second[1]}
    for equation in layered.equations:
        total, size = 0.0, 0.0
        for field, part in (("a", np.real), ("b", np.imag)):
            for alpha, c in layered.symbol(equation.operator, where, field=field).items():
                total, size = total + c[0] * part(of[alpha]), size + abs(c[0] * of[alpha])
        assert abs(total) <= 1e-12 * size


def test_layers_stand_around_holes():
    square = ts.Box(x=(-1, 1), y=(-1, 1))
    ball = ts.Ball(x=0, y=0, radius=0.3, name="ball")
    outer = ts.Outgoing(WAVENUMBER, of=PARTS, on=("xmin", "ymax"))
    hard = [ts.Neumann(1.0, on=("ball", "xmax", "ymin"), of=part) for part in PARTS]
    layered = ts.with_layers(antenna(*outer, *hard, domain=square - ball), 0.5)
    assert layered.domain == ts.Box(x=(-1.5, 1), y=(-1, 1.5)) - ball
    names = {c.name for c in layered.conditions}
    assert names >= {"neumann of a", "outlet xmin, real", "outlet ymax, imaginary"}
    assert not any("outgoing" in name for name in names)


A, B = PARTS
DISC = ts.Ball(x=0, y=0, radius=1)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (antenna(ts.Dirichlet(of=A), ts.Dirichlet(of=B)), r"there is none: add \*Outgoing"),
        (antenna(domain=DISC), "needs a Box, or a Box - shape"),
        (antenna(domain=ts.Box(x=(-2, 2), y=(-2, 2)) - DISC), "which is no side of"),
        (antenna(k=7.0), r"k = 7, but 'real part' has k\^2 = 144"),
        (
            antenna(*ts.Outgoing(12.0, of=PARTS, on=lambda p: p[:, 0] > 0)),
            "name whole walls",
        ),
        (antenna(*ts.Outgoing(12.0, of=PARTS), ts.Integral(0.0, of=A)), "drop it"),
        (
            antenna(operators=((HELMHOLTZ + ts.D(x=1)) @ A, HELMHOLTZ @ B)),
            "knows Helmholtz's equation",
        ),
        (
            antenna(
                *ts.Outgoing(12.0, of=PARTS, on="xmin"), *ts.Outgoing(9.0, of=PARTS, on="xmax")
            ),
            "layers need one k",
        ),
        (antenna(ansatz={"a": ts.Ansatz(2.0)}), "without an ansatz"),
    ],
)  # fmt: skip
def test_what_stretching_cannot_do_is_refused(problem, message):
    with pytest.raises(ValueError, match=message):
        ts.with_layers(problem, 0.5)


def test_outgoing_waves_need_a_wavenumber_and_two_parts():
    with pytest.raises(ValueError, match=r"outgoing k must be a positive number, got -1"):
        ts.Outgoing(-1.0, of=PARTS)
    with pytest.raises(TypeError, match="name the real and the imaginary part"):
        ts.Outgoing(1.0, of=A)
