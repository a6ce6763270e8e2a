"""What a problem shows of its scales, and along which axes a solution is too coarse."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.marking import coarse_axes
from tessella.accuracy.scales import degrees, total_degree
from tessella.solving.plan import first_plan

SQUARE = ts.Box(x=(0, 1), y=(0, 1))


def wave(k, axis):
    return lambda p: jnp.sin(k * p[:, axis])


def stated(operator=None, rhs=0.0, conditions=None, **keywords):
    operator = ts.Laplacian() if operator is None else operator
    conditions = [ts.Dirichlet(0.0)] if conditions is None else conditions
    return ts.Problem(SQUARE, ts.Equation(operator, rhs), conditions, **keywords)


def test_constant_data_and_a_plain_operator_ask_for_nothing():
    assert degrees(stated(rhs=3.0)) == (0, 0)
    assert degrees(stated(rhs=lambda p: np.ones(len(p)))) == (0, 0)
    assert degrees(stated(rhs=lambda p: np.zeros(len(p)))) == (0, 0)


def test_polynomials_ask_for_their_degree():
    def product(p):
        return np.cos(5 * np.arccos(2 * p[:, 0] - 1)) * np.cos(2 * np.arccos(2 * p[:, 1] - 1))

    assert degrees(stated(rhs=product)) == (5, 2)


@pytest.mark.parametrize(
    "problem",
    [
        stated(rhs=wave(60, 0)),
        stated(conditions=[ts.Dirichlet(wave(60, 0), on="ymin")]),
        stated(ansatz=ts.Ansatz(wave(60, 0))),
        stated(ansatz=ts.Ansatz(1.0, wave(60, 0))),
        stated(wave(60, 0) * ts.Laplacian()),
    ],
    ids=["rhs", "condition", "multiplier", "offset", "coefficient"],
)
def test_waves_in_any_data_ask_for_half_their_phase_and_a_little_more(problem):
    along, across = degrees(problem)
    assert 30 <= along <= 45
    assert across == 0


def test_data_on_a_face_say_nothing_about_the_axis_across_it():
    problem = stated(conditions=[ts.Dirichlet(lambda p: np.sin(50 * p[:, 0] + p[:, 1]), on="xmin")])
    assert degrees(problem)[0] == 0


def test_scales_of_the_operator_count():
    assert degrees(stated(ts.Laplacian() + 40.0**2)) == (20, 20)
    assert degrees(stated(ts.D(x=1) - 0.01 * ts.Laplacian())) == (50, 0)


def test_data_that_are_infinite_somewhere_are_left_to_the_assembly():
    def half(p):
        return np.where(p[:, 0] < 0.5, np.nan, 1.0)

    assert degrees(stated(rhs=half)) == (0, 0)


@pytest.mark.parametrize(
    ("k", "coarse"), [((16, 1), (0,)), ((1, 16), (1,)), ((16, 16), (0, 1))], ids=str
)
def test_axes_with_waves_are_the_ones_to_split(k, coarse):
    def exact(p):
        return np.sin(k[0] * p[:, 0] + 1) * np.sin(k[1] * p[:, 1] + 1)

    problem = ts.Problem(
        SQUARE,
        ts.Equation(ts.Laplacian(), lambda p: -(k[0] ** 2 + k[1] ** 2) * exact(p)),
        [ts.Dirichlet(exact)],
    )
    sizes = {"subdomains": 2, "features": 40, "coupling": "interfaces", "estimate": False}
    assert coarse_axes(ts.solve(problem, **sizes)) == coarse


def test_a_line_has_one_axis(line_solution):
    assert coarse_axes(line_solution) == (0,)


@pytest.mark.parametrize(("columns", "d", "degree"), [(9, 1, 9), (50, 2, 10), (36, 3, 6)])
def test_total_degree(columns, d, degree):
    assert total_degree(columns, d) == pytest.approx(degree)


def test_a_shape_in_space_begins_with_few_cells_and_features_come_first():
    shell = ts.Ball(x=0, y=0, z=0, radius=1) - ts.Ball(x=0.2, y=0, z=0, radius=0.3, name="core")
    problem = ts.Problem(shell, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
    plan = first_plan(problem)
    assert plan.subdomains == (2, 2, 2)
    assert plan.richer().work() < plan.finer((0, 1, 2)).work()
