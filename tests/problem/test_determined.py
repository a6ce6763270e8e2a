"""What was forgotten is said: conditions, by counting, and an exact solution that is none."""

import dataclasses
import importlib
import re

import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.estimate import Errors, Judgement, disagreement
from tessella.problem.determined import (
    asks_for_much,
    contradictions,
    leaves_open,
    missing_conditions,
)
from tessella.solving.plan import Plan
from tessella.solving.refinement import Walk

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
        (STRIP, HEAT, [ts.Dirichlet()], r"order 1 along t.*add Initial\(...\) on tmin"),
        (
            STRIP,
            WAVE,
            [ts.Dirichlet(), ts.Initial(0.0)],
            r"order 2 along t.*1 condition at.*add InitialVelocity\(",
        ),
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
        assert len(solution.report.refinement) <= 2, "nobody waits for what cannot be met"


def test_what_conditions_leave_open_does_not_meet_a_tolerance():
    for domain, equation, given in (
        (STRIP, HEAT, [ts.Dirichlet()]),
        (SQUARE, POISSON, [ts.Dirichlet(on=["xmin", "ymin", "ymax"])]),
    ):
        problem = ts.Problem(domain, equation, given)
        assert leaves_open(problem)
        assert ts.solve(problem, tol=1e-1, patience=3).report.stop_reason == "tolerance not met"


def test_a_coefficient_that_may_vanish_is_given_the_benefit_of_the_doubt():
    radial = ts.D(r=2) + (lambda p: 1 / p[:, 0]) * ts.D(r=1)
    axis = ts.Problem(ts.Box(r=(1e-9, 1)), ts.Equation(radial, 1.0), [ts.Dirichlet(on="rmax")])
    assert missing_conditions(axis) and leaves_open(axis)
    degenerate = (lambda p: p[:, 0]) * ts.D(r=2) + ts.D(r=1)
    axis = ts.Problem(ts.Box(r=(0, 1)), ts.Equation(degenerate, 1.0), [ts.Dirichlet(on="rmax")])
    assert missing_conditions(axis) and not leaves_open(axis)


def bump(p):
    return np.sin(np.pi * p[:, 0])


@pytest.mark.parametrize(
    ("domain", "equation", "conditions", "words"),
    [
        (STRIP, HEAT, [ts.Dirichlet(), ts.Initial(1.0)], r"at \(0, 0\), .* for 0 and .* for 1"),
        (STRIP, HEAT, [ts.Dirichlet(), ts.Initial(bump)], ""),
        (STRIP, HEAT, [ts.Neumann(), ts.Initial(1.0)], ""),
        (
            SQUARE,
            POISSON,
            [ts.Dirichlet(on=["xmin", "xmax", "ymin"]), ts.Dirichlet(3.0, on="ymax", name="lid")],
            r"'dirichlet' and 'lid' contradict each other at \(0, 1\)",
        ),
        (SQUARE, POISSON, [ts.Dirichlet(lambda p: p[:, 0] * p[:, 1])], ""),
    ],
)
def test_values_that_contradict_each_other_on_an_edge_are_named(
    domain, equation, conditions, words
):
    found = contradictions(ts.Problem(domain, equation, conditions))
    assert re.search(words, found) if words else found == ""


SOME = np.array([[0.3, 0.3], [0.7, 0.4], [0.4, 0.8]])

CONTRADICTORY = {
    "incompatible source": ts.Problem(SQUARE, POISSON, [ts.Neumann(0.0), ts.MeanZero()]),
    "on a line": ts.Problem(
        ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Neumann(0.0), ts.MeanZero()]
    ),
    "two conditions on a wall": ts.Problem(
        SQUARE, POISSON, [ts.Dirichlet(0.0), ts.Neumann(5.0, on="xmin")]
    ),
    "three conditions on a line": ts.Problem(
        ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Dirichlet(), ts.Neumann(3.0, on="xmax")]
    ),
    "measured otherwise": ts.Problem(
        SQUARE, POISSON, [ts.Dirichlet(0.0), ts.Measured(SOME, [1.0, -2.0, 1.0])]
    ),
}


@pytest.mark.parametrize("name", CONTRADICTORY)
def test_a_tolerance_names_contradictions_after_few_steps(name):
    report = ts.solve(CONTRADICTORY[name], tol=1e-3).report
    assert report.stop_reason == "tolerance not met"
    assert "is missed, and refining does not change that" in report.advice
    assert len(report.refinement) <= 5 and report.error_estimate > 1e-3


def wave_of(p):
    return np.cos(np.pi * p[:, 0])


@pytest.mark.parametrize(
    "conditions",
    [
        [ts.Neumann(0.0), ts.MeanZero()],
        [ts.Neumann(0.0), ts.Dirichlet(wave_of, on=("ymin", "ymax"))],
        [ts.Dirichlet(wave_of), ts.Measured(SOME, wave_of(SOME))],
    ],
    ids=["compatible source", "two conditions on walls", "measured"],
)
def test_more_than_enough_data_that_agree_are_met(conditions):
    equation = ts.Equation(-ts.Laplacian(), lambda p: np.pi**2 * wave_of(p))
    problem = ts.Problem(SQUARE, equation, conditions, exact=wave_of)
    assert asks_for_much(problem)
    report = ts.solve(problem, tol=1e-5).report
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-5


def test_what_may_contradict_itself():
    disc = ts.Ball(x=0, y=0, radius=1)
    plate = ts.Equation(ts.Laplacian() @ ts.Laplacian())
    assert not asks_for_much(ts.Problem(SQUARE, POISSON, [ts.Dirichlet()]))
    assert not asks_for_much(ts.Problem(SQUARE, plate, [ts.Dirichlet(), ts.Neumann(0.0)]))
    assert not asks_for_much(ts.Problem(STRIP, HEAT, [ts.Dirichlet(), ts.Initial(0.0)]))
    assert asks_for_much(ts.Problem(disc, POISSON, [ts.Dirichlet(), ts.Neumann(0.0)]))
    assert not asks_for_much(ts.Problem(disc, plate, [ts.Dirichlet(), ts.Neumann(0.0)]))
    assert asks_for_much(ts.Problem(STRIP, [HEAT, HEAT], [ts.Dirichlet(), ts.Initial(0.0)]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ts.Problem(ts.Box(x=(0, 1e100)), ts.Equation(ts.D(x=1))), "axis 'x' reaches from"),
        (lambda: ts.Problem(ts.Box(x=(0, 1)), ts.Equation(1e-200 * ts.D(x=1))), "of 1.0e-200, too"),
        (lambda: ts.Dirichlet(weight=1e300), "weight must lie between 1e-100 and 1e\\+100"),
    ],
)
def test_units_beyond_double_precision_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_data_beyond_double_precision_are_refused():
    problem = ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 1e170), [ts.Dirichlet()])
    with pytest.raises(ValueError, match=r"equation right-hand side is as large as 1.0e\+170"):
        ts.solve(problem, tol=1e-6)


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
    module = importlib.import_module("tessella.solving.tolerance")
    monkeypatch.setattr(module, "refine", lambda *_: pytest.fail("solved first"))
    with pytest.raises(ValueError, match="the exact solution"):
        ts.solve(problem, tol=1e-2)


def test_where_a_tolerance_is_missed_the_smallest_estimate_wins():
    problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Dirichlet()])
    estimates = iter([None, 1e-2, 1e-3, 1e-1])

    class Told(Walk):
        """A refinement whose residual falls at every step, whatever the estimate."""

        def _judge(self, solution):
            told, self.seen = next(estimates), None
            self.errors = None if told is None else Errors(told, told)
            return Judgement(1.0, 2.0, 1.0)

    def engine(blind, plan):
        return ts.solve(blind, subdomains=2, features=4, seed=plan.rung)

    walk = Told(problem, 1e-9, engine, 10.0)
    walk._take(Plan((2,)), "start")
    assert walk.surest() == (walk.best, None)
    for rung in (1, 2, 3):
        walk._take(Plan((2,), rung=rung), "features")
    solution, errors = walk.surest()
    assert (solution.basis.seed, errors) == (2, Errors(1e-3, 1e-3))
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
