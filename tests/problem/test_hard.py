"""What an ansatz builds in, stated as conditions: the same solution."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.problem.hard import stated

STRIP = ts.Box(x=(0, 1), t=(0, 1))
WAVE = ts.Equation(ts.D(t=2) - ts.D(x=2))


def exact(p):
    return np.sin(np.pi * p[:, 0]) * np.cos(np.pi * p[:, 1])


def start(p):
    return jnp.sin(jnp.pi * p[:, 0])


def factor(p):
    return p[:, 0] * (1 - p[:, 0]) * p[:, 1] ** 2


def test_walls_start_and_velocity_are_found():
    problem = ts.Problem(STRIP, WAVE, ansatz=ts.Ansatz(factor, start), exact=exact)
    soft = stated(problem)
    assert soft.ansatz == ts.Ansatz()
    held = {c.name: c.faces(STRIP) for c in soft.conditions}
    assert held == {
        "initial value of u": ("tmin",),
        "initial velocity of u": ("tmin",),
        "walls of u": ("xmin", "xmax"),
    }
    solution = ts.solve(soft, subdomains=(3, 3), features=60, coupling="interfaces")
    assert solution.report.error["max"] < 1e-4


def test_a_velocity_that_the_offset_has_is_kept():
    def moving(p):
        return p[:, 1] * jnp.sin(jnp.pi * p[:, 0])

    soft = stated(ts.Problem(STRIP, WAVE, ansatz=ts.Ansatz(lambda p: p[:, 1] ** 2, moving)))
    velocity = next(c for c in soft.conditions if "velocity" in c.name)
    x = np.array([[0.5, 0.0], [0.25, 0.0]])
    np.testing.assert_allclose(velocity.values(x), np.sin(np.pi * x[:, 0]), atol=1e-12)


def test_a_single_zero_builds_in_no_velocity():
    soft = stated(ts.Problem(STRIP, WAVE, ansatz=ts.Ansatz(lambda p: p[:, 1], start)))
    assert [c.name for c in soft.conditions] == ["initial value of u"]


def test_without_an_ansatz_nothing_changes():
    problem = ts.Problem(STRIP, WAVE, [ts.Dirichlet()])
    assert stated(problem) is problem


@pytest.mark.parametrize(
    "problem",
    [
        ts.Problem(
            ts.Ball(x=0, y=0, radius=1),
            ts.Equation(ts.Laplacian()),
            ansatz=ts.Ansatz(lambda p: 1 - p[:, 0] ** 2 - p[:, 1] ** 2),
        ),
        ts.Problem(STRIP, WAVE, ansatz=ts.Ansatz(2.0, start)),
    ],
    ids=["a shape", "a factor"],
)
def test_what_cannot_be_stated_is_left(problem):
    assert stated(problem) is None
