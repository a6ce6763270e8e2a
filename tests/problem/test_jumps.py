"""A coefficient that jumps under a derivative is refused, wherever it jumps; steep ones are not."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.problem.jumps import jump

LINE, SQUARE = ts.Box(x=(0, 1)), ts.Box(x=(0, 1), y=(0, 1))
PLACES = st.floats(0.05, 0.95)


def step(place, low=1.0, high=10.0):
    return lambda p: jnp.where(p[:, 0] < place, low, high)


def conduction(a, domain=LINE):
    parts = (ts.D(**{axis: 1}) @ (a * ts.D(**{axis: 1})) for axis in domain.axes)
    return -sum(parts, start=0.0 * ts.Identity())


@given(PLACES)
def test_a_jump_on_a_line_is_found_at_its_place(place):
    at, *values = jump(step(place), LINE)
    assert at[0] == pytest.approx(place, abs=1e-9)
    assert values == [1.0, 10.0]


@given(PLACES, PLACES, st.floats(0.05, 0.3))
def test_a_disc_of_another_material_is_found(x, y, radius):
    def disc(p):
        return jnp.where((p[:, 0] - x) ** 2 + (p[:, 1] - y) ** 2 < radius**2, 1000.0, 1.0)

    at, *_ = jump(disc, SQUARE)
    assert np.hypot(at[0] - x, at[1] - y) == pytest.approx(radius, abs=1e-6)


@pytest.mark.parametrize(
    "smooth",
    [
        lambda p: 2 + jnp.tanh((p[:, 0] - 0.31) / 1e-6),
        lambda p: 2 + jnp.abs(p[:, 0] - 0.31),
        lambda p: 1 / p[:, 0],
        lambda p: 0 * p[:, 0] + 3.0,
        lambda p: jnp.sin(200 * p[:, 0]),
        lambda p: jnp.sqrt(p[:, 0]),
    ],
    ids=["steep", "kink", "singular", "constant", "fast", "root"],
)
def test_continuous_functions_are_not_refused(smooth):
    assert jump(smooth, LINE) is None
    ts.Problem(LINE, ts.Equation(conduction(smooth), 1.0), [ts.Dirichlet()])


def test_a_flux_that_would_be_lost_is_refused_with_the_remedy():
    words = r"jumps from 1 to 10 at \(0.5\), and 'equation' differentiates.*Divided.*Transmission"
    with pytest.raises(ValueError, match=words):
        ts.Problem(LINE, ts.Equation(conduction(step(0.5)), 1.0), [ts.Dirichlet()])


def test_the_remedy_gives_the_right_answer():
    """u'' = -1 and 10 u'' = -1 with equal fluxes: u(0.5) = 0.0227, not 0.0688."""
    problem = ts.Problem(
        ts.Divided(LINE, left=ts.Box(x=(0, 0.5))),
        [
            ts.Equation(-ts.D(x=2), 1.0, where="left"),
            ts.Equation(-10 * ts.D(x=2), 1.0, where="rest"),
        ],
        [ts.Dirichlet(), *ts.Transmission("left", "rest", flux=(1.0, 10.0))],
    )
    flux = (1 / 8 + 1 / 80 + 1 / 40) / (1 / 2 + 1 / 20)
    assert ts.solve(problem, tol=1e-8)(0.5)[0] == pytest.approx(flux / 2 - 1 / 8, abs=1e-7)


def test_a_jump_between_regions_and_one_that_is_not_differentiated_are_fine():
    regions = ts.Divided(LINE, left=ts.Box(x=(0, 0.5)))
    joined = ts.Transmission("left", "rest", flux=(1.0, 10.0))
    ts.Problem(regions, ts.Equation(conduction(step(0.5)), 1.0), [ts.Dirichlet(), *joined])
    ts.Problem(LINE, ts.Equation(-ts.D(x=2) + step(0.5) * ts.Identity(), 1.0), [ts.Dirichlet()])
    with pytest.raises(ValueError, match=r"at \(0.25\)"):
        ts.Problem(regions, ts.Equation(conduction(step(0.25)), 1.0), [ts.Dirichlet(), *joined])
