"""All choices of a solve are one object: every door builds it and refuses wrong names alike."""

import dataclasses
import inspect

import numpy as np
import pytest

import tessella as ts
from tessella.solving.method import BESIDE_TOL, ITERATIVE, SHORTHAND

LINE = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=1), 1.0), [ts.Dirichlet(0.0, on="xmin")])
HEAT = ts.Problem(
    ts.Box(x=(0, 1), t=(0, 1)),
    ts.Equation(ts.D(t=1) - ts.D(x=2)),
    [ts.Dirichlet(0.0), ts.Initial(0.0)],
)
FIELDS = [field.name for field in dataclasses.fields(ts.Method)]


def test_keywords_and_a_method_are_the_same():
    method = ts.Method(subdomains=2, features=6, seed=3)
    x = np.linspace(0, 1, 7)
    by_keywords = ts.solve(LINE, subdomains=2, features=6, seed=3)(x)
    np.testing.assert_array_equal(ts.solve(LINE, method)(x), by_keywords)
    other = ts.solve(LINE, dataclasses.replace(method, seed=0), seed=3)(x)
    np.testing.assert_array_equal(other, by_keywords)


@pytest.mark.parametrize(
    "door",
    [
        lambda **choices: ts.solve(LINE, **choices),
        lambda **choices: ts.march(HEAT, 2, **choices),
        lambda **choices: ts.fbpinn(LINE, 4, **choices),
        lambda **choices: ts.pinn(LINE, 4, **choices),
        lambda **choices: ts.gallery.get("airy").solve(**choices),
        lambda **choices: ts.gallery.get("wave").march(**choices),
    ],
    ids=["solve", "march", "fbpinn", "pinn", "gallery.solve", "gallery.march"],
)
def test_every_door_names_the_nearest_right_name(door):
    with pytest.raises(TypeError, match=r"has no argument 'sed': did you mean 'seed'\? there are"):
        door(sed=1)


@pytest.mark.parametrize("door", [ts.solve, ts.march, ts.pinn, ts.fbpinn])
def test_the_signature_shows_the_choices(door):
    shown = inspect.signature(door).parameters
    assert "choices" not in shown
    assert (
        {"seed", "activation", "test_grid"}
        <= set(shown)
        <= {
            *FIELDS,
            *("problem", "method", "start", "continuation", "progress", "checkpoint"),
            *("slabs", "hidden", "training"),
        }
    )


def test_every_field_is_documented():
    told = inspect.getdoc(ts.Method)
    assert all(name in told for name in FIELDS)


def test_a_method_prints_what_was_chosen():
    shown = repr(ts.Method(features=10, solver=ts.LSQR(), coupling="overlap"))
    assert shown.startswith("Method(coupling='overlap', features=10, solver=LSQR(")


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in BESIDE_TOL])
def test_what_a_tolerance_chooses_cannot_be_chosen_beside_it(name):
    given = {"test_grid": ts.Grid(2.0), "collocation": ts.Grid(2.0), "coupling": "overlap"}
    with pytest.raises(ValueError, match=f"tol chooses .*: leave out {name}="):
        ts.Method(tol=1e-3, **{name: given.get(name, 1)})


@pytest.mark.parametrize(
    ("whole", "name"), [(whole, name) for whole, names in SHORTHAND.items() for name in names]
)
def test_a_whole_object_and_its_shorthand_exclude_each_other(whole, name):
    given = {"collocation": ts.Grid(2.0), "coupling": "overlap"}
    with pytest.raises(ValueError, match=f"pass either `{whole}` or its shorthand .*{name}"):
        ts.Method(**{whole: given.get(whole, 1), name: given.get(name, 1)})


@pytest.mark.parametrize("name", ITERATIVE)
def test_numbers_that_a_solver_does_not_have_are_refused(name):
    method = ts.Method(subdomains=2, features=4, solver="nested-qr", **{name: 1})
    with pytest.raises(ValueError, match=f"{name}=1 has no meaning for solver='nested-qr'"):
        ts.solve(LINE, method)


def test_numbers_reach_the_solver_that_is_named():
    report = ts.solve(LINE, subdomains=2, features=4, solver="rrqr-lsqr", max_iterations=1).report
    assert report.iterations == 1


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"solver": ts.LSQR}, r"solver=LSQR is a class: write LSQR\(\)"),
        ({"coupling": "glue"}, "unknown coupling 'glue': choose one of overlap, interfaces"),
        ({"tol": 1e-3, "patience": "a"}, "patience must be a number of seconds, got 'a'"),
        ({"tol": 1e-3, "patience": np.nan}, "patience must be a number of seconds"),
        ({"patience": 3.0}, r"patience=3.0 is for meeting a tolerance: add tol="),
        ({"test_grid": 50}, "test_grid must be a Grid, got 50"),
        ({"solver": ts.LSQR(), "atol": 0.1}, r"atol belongs into the solver: write LSQR\(atol="),
    ],
)
def test_misuse_is_named(choices, words):
    with pytest.raises(ValueError, match=words):
        ts.solve(LINE, **{"subdomains": 2, "features": 4} | choices)


@pytest.mark.parametrize("door", [ts.solve, ts.march])
def test_the_first_argument_is_a_problem(door):
    with pytest.raises(TypeError, match=r"needs a Problem\(domain, equation, conditions\) first"):
        door(None)
    with pytest.raises(TypeError, match="takes a Method or keywords, got 8"):
        door(HEAT, *([2] if door is ts.march else []), 8)
