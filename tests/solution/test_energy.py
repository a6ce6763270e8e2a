"""The energy of waves: its value, that it is kept, and when nothing is said of it."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.solution.energy import keeps_energy

AT_REST = [ts.Initial(lambda p: np.sin(np.pi * p[:, 0])), ts.InitialVelocity(0.0)]
STRING = ts.Box(x=(0, 1), t=(0, 1))
WAVE = ts.D(t=2) - 4 * ts.D(x=2)


def string(operator=WAVE, wall=None, rhs=0.0, start=AT_REST):
    return ts.Problem(STRING, ts.Equation(operator, rhs), [wall or ts.Dirichlet(0.0), *start])


def marched(problem, slabs=2, subdomains=(2, 1), features=60):
    return ts.march(
        problem, slabs, subdomains=subdomains, features=features, coupling="interfaces",
        estimate=False,
    )  # fmt: skip


def test_of_a_string():
    """u = sin(pi x) cos(2 pi t) has the energy c^2 pi^2 / 4 = pi^2, now here, now there."""
    solution = marched(string())
    np.testing.assert_allclose(solution.energy(), np.pi**2, rtol=1e-6)
    np.testing.assert_allclose(solution.energy([0.125, 0.7]), np.pi**2, rtol=1e-6)
    printed = str(solution).splitlines()
    (line,) = [line for line in printed if line.strip().startswith("energy")]
    drift = float(line.split("kept to ")[1].split()[0])
    assert drift < 1e-6
    np.testing.assert_allclose(solution.slabs[0].energy([0.3]), np.pi**2, rtol=1e-6)


def test_sign_and_factor_of_the_equation_do_not_turn_it_around():
    turned = marched(string(ts.D(x=2) - 0.25 * ts.D(t=2)))
    np.testing.assert_allclose(turned.energy([0.0, 0.4]), np.pi**2 / 4, rtol=1e-6)


def speed(p):
    return 1 + 0.5 * jnp.sin(3 * p[:, 0])


@pytest.mark.parametrize(
    "operator",
    [
        ts.D(t=2) - ts.D(x=1) @ speed @ ts.D(x=1),
        ts.D(t=2) - speed * ts.D(x=2),
        ts.D(t=2) - ts.D(x=2) + 9.0,
    ],
    ids=["in a flux", "in front", "on a spring"],
)
def test_is_kept_where_coefficients_vary(operator):
    start = [ts.Initial(lambda p: np.cos(np.pi * p[:, 0])), ts.InitialVelocity(0.0)]
    solution = marched(string(operator, ts.Neumann(0.0), start=start), 3, (2, 1), 90)
    found = solution.energy([0.0, 0.3, 0.61, 1.0])
    np.testing.assert_allclose(found, found[0], rtol=1e-4)
    u_x = solution.apply(ts.D(x=1), np.array([[0.3, 0.4], [0.3, 0.8]]))
    assert abs(u_x[1] / u_x[0] - 1) > 0.1


def test_over_a_disc():
    """exp(-a r^2 / 2) at rest, far from the walls: pi / 2 whatever a is."""
    disc = ts.Ball(x=0, y=0, radius=1).over(t=(0, 0.1))
    pulse = ts.Initial(lambda p: np.exp(-12 * (p[:, 0] ** 2 + p[:, 1] ** 2)))
    problem = ts.Problem(
        disc,
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(0.0), pulse, ts.InitialVelocity(0.0)],
    )
    solution = ts.solve(
        problem, subdomains=(4, 4, 1), features=150, coupling="interfaces", estimate=False
    )
    np.testing.assert_allclose(solution.energy([0.0, 0.1]), np.pi / 2, rtol=2e-3)


def test_nothing_is_said_where_it_is_not_kept():
    assert keeps_energy(string())
    assert keeps_energy(string(wall=ts.Dirichlet(2.0)))
    assert keeps_energy(string(wall=ts.Neumann(0.0)))
    assert keeps_energy(string(wall=ts.Periodic("x")))
    changing = string((lambda p: 1 + p[:, 1]) * ts.D(t=2) - ts.D(x=2))
    for problem in (
        string(wall=ts.Robin(1.0, 1.0)),
        string(wall=ts.Absorbing(2.0)),
        string(wall=ts.Neumann(1.0)),
        string(wall=ts.Dirichlet(lambda p: p[:, 1])),
        string(rhs=1.0),
        string(ts.D(t=2) + ts.D(t=1) - ts.D(x=2)),
        string(ts.D(t=2) - ts.D(x=2) - speed * ts.D(x=1)),
        string(ts.D(t=1) - ts.D(x=2), start=AT_REST[:1]),
        changing,
    ):
        assert not keeps_energy(problem)


def test_leaves_through_open_walls():
    solution = marched(string(wall=ts.Absorbing(2.0)))
    first, last = solution.energy([0.0, 1.0])
    assert last < 1e-3 * first
    assert "energy" not in str(solution)


def test_what_is_no_wave_has_none():
    heat = marched(string(ts.D(t=1) - ts.D(x=2), start=AT_REST[:1]))
    with pytest.raises(ValueError, match=r"energy\(\) needs a wave equation.*D\(t=1\) - D\(x=2\)"):
        heat.energy()
    assert "energy" not in str(heat)
