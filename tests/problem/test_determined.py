"""What was forgotten is said: conditions, by counting, and an exact solution that is none."""

import dataclasses
import importlib
import re

import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.estimate import Judgement, disagreement
from tessella.problem.determined import missing_conditions
from tessella.solving.plan import Plan
from tessella.solving.tolerance import _Walk

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
STRIP = ts.Box(x=(0, 1), t=(0, 1))
HEAT = ts.Equation(ts.D(t=1) - ts.D(x=2))
WAVE = ts.Equation(ts.D(t=2) - ts.D(x=2))
POISSON = ts.Equation(-ts.Laplacian(), 1.0)


@pytest.mark.parametrize(
    ("domain", "equation", "conditions", "words"),
    [
        (SQUARE, POISSON, [ts.Dirichlet(on=["xmin", "ymin", "ymax"])], "order 2 along x.*on xmax"),
        (SQUARE, POISSON, [], "order 2 along x.*0 conditions.*on xmin or xmax"),
        (STRIP, HEAT, [ts.Dirichlet()], "order 1 along t.*on tmin"),
        (STRIP, WAVE, [ts.Dirichlet(), ts.Initial(0.0)], "order 2 along t.*1 condition at"),
        (STRIP, HEAT, [ts.Initial(0.0)], "order 2 along x"),
    ],
)
def test_a_forgotten_condition_is_named(domain, equation, conditions, words):
    problem = ts.Problem(domain, equation, conditions)
    assert re.search(words, missing_conditions(problem))


@pytest.mark.parametrize(
    ("domain", "equation", "conditions"),
    [
        (SQUARE, POISSON, [ts.Dirichlet()]),
        (STRIP, HEAT, [ts.Dirichlet(), ts.Initial(0.0)]),
        (STRIP, WAVE, [ts.Dirichlet(), ts.Initial(0.0), ts.InitialVelocity(0.0)]),
        (STRIP, ts.Equation(ts.D(t=1) + ts.D(x=1)), [ts.Initial(0.0), ts.Dirichlet(on="xmin")]),
        (SQUARE, POISSON, [ts.Dirichlet(on=["ymin", "ymax"]), ts.Periodic("x")]),
        (SQUARE, POISSON, [ts.Neumann(0.0), ts.MeanZero()]),
        (ts.Ball(x=0, y=0, radius=1), POISSON, [ts.Dirichlet()]),
    ],
)
def test_enough_conditions_are_not_remarked_upon(domain, equation, conditions):
    assert missing_conditions(ts.Problem(domain, equation, conditions)) == ""


def test_gallery_problems_have_all_their_conditions():
    for name in ts.gallery.names():
        assert missing_conditions(ts.gallery.get(name).problem()) == "", name


def test_the_report_says_what_is_missing():
    problem = ts.Problem(SQUARE, POISSON, [ts.Dirichlet(on=["xmin", "ymin", "ymax"])])
    for solution in (
        ts.solve(problem, tol=1e-1),
        ts.solve(problem, subdomains=2, features=20, coupling="interfaces"),
    ):
        assert "add a condition on xmax" in str(solution)


def test_an_exact_solution_that_cannot_be_right_is_doubted():
    assert disagreement({"l1_normalised": 1e-3}, 1e-4) == ""
    assert disagreement(None, 1e-4) == ""
    assert "1e+03 times more" in disagreement({"l1_normalised": 1e-1}, 1e-4)
    problem = ts.Problem(
        ts.Box(x=(0, 1)),
        ts.Equation(ts.D(x=2), 0.0),
        [ts.Dirichlet(lambda p: p[:, 0])],
        exact=lambda p: 2 * p[:, 0],
    )
    assert "check it, and whether a condition" in ts.solve(problem, tol=1e-4).report.advice


def test_a_bad_exact_solution_shows_itself_before_the_work(monkeypatch):
    problem = ts.Problem(SQUARE, POISSON, [ts.Dirichlet()], exact=lambda p: p)
    module = importlib.import_module("tessella.solving.solve")
    monkeypatch.setattr(module, "refine", lambda *_: pytest.fail("solved first"))
    with pytest.raises(ValueError, match="the exact solution"):
        ts.solve(problem, tol=1e-2)


def test_where_a_tolerance_is_missed_the_smallest_estimate_wins():
    problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Dirichlet()])
    estimates = iter([None, 1e-2, 1e-3, 1e-1])

    class Told(_Walk):
        """A refinement whose residual falls at every step, whatever the estimate."""

        def _judge(self, solution):
            self.estimate, self.seen = next(estimates), None
            return Judgement(1.0, 2.0, 1.0)

    def engine(blind, plan):
        return ts.solve(blind, subdomains=2, features=4, seed=plan.rung)

    walk = Told(problem, 1e-9, engine, 10.0, None)
    walk._take(Plan((2,)), "start")
    assert walk.surest() == (walk.best, None)
    for rung in (1, 2, 3):
        walk._take(Plan((2,), rung=rung), "features")
    solution, estimate = walk.surest()
    assert (solution.basis.seed, estimate) == (2, 1e-3)
    assert walk.best.basis.seed == 3


def test_an_edge_that_was_cut_off_is_outside():
    shape = SQUARE - ts.Box(x=(0.5, 1), y=(0.5, 1))
    points = np.array([[1, 0.75], [0.75, 1], [1, 0.25], [0.5, 0.5], [0.5, 0.75], [1, 0.5], [0, 0]])
    assert shape.contains(points).tolist() == [False, False, True, True, True, True, True]


def test_operators_print_as_they_are_written():
    assert repr(ts.D(x=2, t=1)) == "D(x=2, t=1)"
    assert repr(ts.Laplacian("x")) == "Laplacian('x')"
    problem = ts.Problem(SQUARE, POISSON, [ts.Dirichlet()])
    with pytest.raises(ValueError, match=r"D\(z=2\) uses the axis 'z', but the domain has x, y"):
        dataclasses.replace(problem, equation=ts.Equation(ts.D(z=2)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ts.D("x"), r"got 'x': write D\(x=1\)"),
        (lambda: ts.Box((0, 2)), r"got \(0, 2\): write Box\(x=\(0, 1\)"),
        (lambda: ts.D(x=1) * ts.D(x=1), "operators are composed by @"),
        (lambda: ts.D(x=2) + np.sin, r"f \* Identity\(\)"),
        (lambda: SQUARE.part("xmim"), "did you mean 'xmin'"),
        (lambda: ts.Problem(SQUARE, POISSON, [ts.Initial(0.0)]), "needs an axis t"),
        (
            lambda: ts.solve(
                ts.Problem(SQUARE, ts.Equation(ts.Laplacian(), lambda p: None), [ts.Dirichlet()]),
                subdomains=2,
                features=9,
            ),
            "returned None: is a `return` missing",
        ),
        *(
            (
                lambda how=how: ts.solve(
                    ts.Problem(SQUARE, POISSON, [ts.Dirichlet()]), test_grid=50, **how
                ),
                r"test_grid must be a Grid, got 50",
            )
            for how in ({"tol": 0.1}, {"subdomains": 2, "features": 9})
        ),
    ],
)
def test_slips_are_met_with_what_to_write(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
