"""Nothing a user passes is silently ignored, and JSON stays JSON."""

import dataclasses
import json

import numpy as np
import pytest

import tessella as ts


def small_problem():
    return ts.Problem(
        ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Dirichlet(0.0)], name="bar"
    )


@pytest.mark.parametrize(
    ("whole", "shorthand"),
    [
        ("basis", {"overlap": 3.0}),
        ("basis", {"features": 9}),
        ("basis", {"seed": 4}),
        ("collocation", {"oversampling": 4.0}),
        ("filter", {"sigma": 1e-3}),
    ],
)
def test_a_whole_object_and_its_shorthand_are_refused_together(whole, shorthand):
    problem = small_problem()
    objects = {
        "basis": ts.Basis(ts.Decomposition(problem.domain, 3), ts.RandomFeatures(6)),
        "collocation": ts.Grid(3.0),
        "filter": ts.RRQR(1e-6),
    }
    rest = {} if whole == "basis" else {"subdomains": 3, "features": 6}
    with pytest.raises(ValueError, match=f"pass either `{whole}` or its shorthand"):
        ts.solve(problem, **{whole: objects[whole]}, **rest, **shorthand)


def test_an_infinite_condition_number_is_null_in_json():
    solution = ts.solve(small_problem(), subdomains=3, features=6)
    report = dataclasses.replace(
        solution.report, condition={"M": np.inf, "M_hat": np.nan, "preconditioned": 2.0}
    )
    text = json.dumps(report.to_json(), allow_nan=False)
    assert json.loads(text)["condition"] == {"M": None, "M_hat": None, "preconditioned": 2.0}


def test_a_solution_loaded_without_its_problem_refuses_to_state_a_residual(tmp_path):
    solution = ts.solve(small_problem(), subdomains=3, features=6)
    points = np.linspace(0, 1, 5)
    assert np.max(np.abs(solution.residual(points))) < 1e-3
    loaded = ts.load(solution.save(tmp_path / "bar"))
    assert np.array_equal(loaded(points), solution(points))
    with pytest.raises(ValueError, match="loaded without its problem"):
        loaded.residual(points)
