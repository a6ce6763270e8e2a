"""Branches: folds to many digits, bifurcations, both solutions, and what is refused."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import tessella as ts
from tessella.problem.family import Moved
from tessella.problem.linearised import Around, linearised
from tessella.solving.nonlinear.newton import LostError

LINE = ts.Box(x=(0, 1))
CELLS = {"subdomains": 4, "features": 20, "coupling": "interfaces"}
TURN = brentq(lambda c: c * math.tanh(c) - 1, 1, 2)
FOLD = 8 * (TURN / math.cosh(TURN)) ** 2
"""Of Bratu's problem on a line, whose solutions are 2 log(cosh(c) / cosh(c (1 - 2 x)))."""
X = np.linspace(0, 1, 41)


def bratu(lam):
    equation = ts.Equation(lambda d, x: -d(x=2) - lam * jnp.exp(d()))
    return ts.Problem(LINE, equation, [ts.Dirichlet(0.0)], name="Bratu")


def buckled(load):
    equation = ts.Equation(lambda d, x: d(x=2) + load * jnp.sin(d()))
    return ts.Problem(LINE, equation, [ts.Dirichlet(0.0)])


@pytest.fixture(scope="module")
def round_the_fold():
    return ts.branch(bratu, "lam", (2.5, 4), measure=0.5, points=30, **CELLS)


def test_the_fold_is_found_to_ten_digits(round_the_fold):
    (fold,) = round_the_fold.folds
    assert fold.parameter == pytest.approx(FOLD, abs=1e-10)
    assert fold.measure == pytest.approx(2 * math.log(math.cosh(TURN)), abs=1e-4)


def test_all_points_solve_their_problems(round_the_fold):
    for point in round_the_fold:
        u = point.solution
        residual = u.apply(ts.D(x=2), X) + point.parameter * np.exp(u(X))
        assert np.max(np.abs(residual)) < 1e-6
        assert np.max(np.abs(u.residual(X))) < 1e-6
        assert point.measure == u(0.5)[0]


def test_the_branch_comes_back_on_the_other_side(round_the_fold):
    first, last = round_the_fold[0], round_the_fold[-1]
    assert first.parameter == last.parameter == 2.5
    assert (first.crossings, last.crossings) == (0, 1)
    assert round_the_fold.reason == "lam = 2.5 is reached"
    k = math.sqrt(8 / 2.5)
    for point in (first, last):
        c = math.acosh(math.exp(point.measure / 2))
        assert math.cosh(c) == pytest.approx(k * c, abs=1e-8)
    assert last.measure > first.measure + 1


def test_solutions_near_a_value_are_starts_for_it(round_the_fold):
    low, high = round_the_fold.near(3.0)
    found = [ts.solve(bratu(3.0), start=u, **CELLS) for u in (low, high)]
    assert [len(one.report.newton) < 9 for one in found] == [True, True]
    assert found[1](0.5)[0] > found[0](0.5)[0] + 0.5
    assert round_the_fold.near(3.9) == []


def test_a_branch_says_what_it_is(round_the_fold, tmp_path):
    assert f"fold at lam = {FOLD:.10g}, u(0.5) 1.1868" in str(round_the_fold)
    assert "1 fold, 0 bifurcations" in repr(round_the_fold)
    assert len(round_the_fold) == len(round_the_fold.parameters) == len(round_the_fold.measures)
    path = tmp_path / "branch.png"
    figure = round_the_fold.plot(path)
    ax = figure.axes[0]
    assert path.stat().st_size > 1_000
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lam", "u(0.5)")
    assert [line.get_linestyle() for line in ax.lines[:2]] == ["-", "--"]
    assert [text.get_text() for text in ax.texts] == [f"{FOLD:.6g}"]


def test_the_straight_column_buckles_where_theory_says():
    straight = ts.branch(buckled, "load", (5, 45), **CELLS)
    assert straight.reason == "load = 45 is reached"
    found = [(one.kind, one.parameter) for one in straight.singular]
    assert [kind for kind, _ in found] == ["bifurcation", "bifurcation"]
    assert [place for _, place in found] == pytest.approx([math.pi**2, 4 * math.pi**2], rel=1e-5)
    assert [straight[0].crossings, straight[-1].crossings] == [0, 2]
    assert np.all(straight.measures < 1e-12)


def test_a_start_on_the_buckled_branch_stays_there():
    bent = ts.branch(buckled, "load", (11, 16), start=lambda x: jnp.sin(math.pi * x[:, 0]), **CELLS)
    assert bent.reason == "load = 16 is reached" and not bent.singular
    assert np.all(np.diff(bent.measures) > 0) and bent.measures[0] > 0.5
    assert bent.measured == "root mean square"


def test_the_parameter_may_stand_in_data_and_conditions():
    """-u'' + u^3 = s, u_n + s u = s: a path that Newton's method checks at its end."""

    def family(s):
        equation = ts.Equation(-ts.Laplacian() + ts.operator(lambda d, x: d() ** 3), s)
        robin = ts.NormalDerivative() + s * ts.Identity()
        return ts.Problem(LINE, equation, [ts.Condition(robin, lambda x: s * jnp.cos(x[:, 0]))])

    path = ts.branch(family, "s", (1, 3), measure=lambda u: u.integral(), **CELLS)
    direct = ts.solve(family(3.0), **CELLS)
    np.testing.assert_allclose(path[-1].solution(X), direct(X), atol=1e-9)
    middle = path[len(path) // 2]
    np.testing.assert_allclose(
        middle.solution(X), ts.solve(family(middle.parameter), **CELLS)(X), atol=1e-8
    )


def test_data_for_another_value_lead_to_its_solution():
    """Fixed points: a solution of the other problem is Newton's next iterate after itself."""

    def family(s):
        return ts.Problem(
            LINE,
            ts.Equation(-(1 + s) * ts.D(x=2) + s * ts.operator(lambda d, x: d() ** 2), s),
            [ts.Dirichlet(0.0)],
        )

    here, there = family(1.0), family(1.5)
    state = ts.solve(there, **CELLS)
    slopes = Around(here, ts.solve(here, **CELLS))
    tangent = linearised(here, slopes).equations[0].operator
    x = np.linspace(0.05, 0.95, 19)[:, None]
    data = Moved(state, slopes, x).data(there.equations[0], here.equations[0])
    np.testing.assert_allclose(state.apply(tangent, x), data, atol=1e-8)


def test_a_branch_to_a_tolerance_begins_where_nothing_is():
    found = ts.branch(bratu, "lam", (0, 4), points=20, tol=1e-6)
    assert found.folds[0].parameter == pytest.approx(FOLD, abs=1e-7)
    assert np.max(np.abs(found[-1].solution.residual(X))) < 1e-3


def test_a_branch_without_a_first_point_says_why():
    with pytest.raises(LostError, match=r"the branch has no first point: .*past a fold"):
        ts.branch(bratu, "lam", (3.6, 4), **CELLS)


def moving(lam):
    line = ts.Box(x=(0, 1 + lam))
    return ts.Problem(line, ts.Equation(lambda d, x: -d(x=2) + d() ** 3, 1.0), [ts.Dirichlet(0.0)])


def lifted(lam):
    equation = ts.Equation(lambda d, x: -d(x=2) + d() ** 3, 1.0)
    ansatz = ts.Ansatz(lambda x: x[:, 0] * (1 - x[:, 0]), offset=lam)
    return ts.Problem(LINE, equation, ansatz=ansatz)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((bratu(1.0), "lam", (1, 2)), TypeError, "needs a function of the parameter"),
        ((bratu, 3, (1, 2)), TypeError, "the parameter must be named"),
        ((bratu, "lam", (1, 2, 3)), ValueError, "values must be the first and the last of lam"),
        ((bratu, "lam", (1, 1)), ValueError, "values must differ"),
        ((moving, "lam", (1, 2)), ValueError, "the domain depends on lam"),
        ((lifted, "lam", (1, 2)), ValueError, "the ansatz depends on lam"),
    ],
)
def test_what_is_no_branch(arguments, error, said):
    with pytest.raises(error, match=said):
        ts.branch(*arguments, **CELLS)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"points": 2}, "points must be a whole number >= 3, got 2"),
        ({"measure": (0.5, 0.5)}, "measure must be a point with 1 coordinates"),
    ],
)
def test_choices_of_a_branch_are_checked(choice, said):
    with pytest.raises(ValueError, match=said):
        ts.branch(bratu, "lam", (1, 2), **choice, **CELLS)


def test_solutions_from_several_starts_are_told_apart():
    starts = [0.0, 0.3, lambda x: 16 * x[:, 0] * (1 - x[:, 0])]
    assert len(ts.solutions(bratu(1.0), starts, **CELLS)) == 2
    assert ts.solutions(bratu(4.0), starts[:1], **CELLS) == []
    with pytest.raises(TypeError, match="starts must be a list with at least one start"):
        ts.solutions(bratu(1.0), [], **CELLS)
