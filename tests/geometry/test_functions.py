"""Functions of points as users write them: what goes wrong is said in one line."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.geometry import functions
from tessella.geometry.functions import derivatives, function_values
from tessella.machine import processes

POINTS = np.random.default_rng(0).random((5, 2))
SHAPE = r"it must map an \(n, 2\) array of points to an \(n,\) array of values"


def of_coordinates(x, y):
    return x * y


def with_math(p):
    return math.sin(p[:, 0])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (of_coordinates, r"of_coordinates\(\) missing 1 required positional argument: 'y'"),
        (lambda x, y: x * y, r"missing 1 required positional argument: 'y'"),
        (with_math, r"only .* arrays can be converted to Python scalars"),
    ],
)
def test_python_own_type_errors_are_explained(function, reason):
    message = rf"the data fails, .*{reason}: {SHAPE}, e\.g\. lambda p: .*, with functions of np"
    with pytest.raises(TypeError, match=message) as caught:
        function_values(function, POINTS, "the data")
    assert "\n" not in str(caught.value)


def test_a_derivative_of_such_a_function_is_explained_too():
    for function in (of_coordinates, with_math):
        with pytest.raises(TypeError, match=rf"'{function.__name__}' fails, .*: {SHAPE}") as caught:
            derivatives(function, [(1, 0)], POINTS)
        assert "\n" not in str(caught.value)


def test_a_problem_says_which_of_its_functions_is_wrong():
    box = ts.Box(x=(0, 1), y=(0, 1))
    wrong = ts.Problem(box, ts.Equation(ts.Laplacian(), of_coordinates), [ts.Dirichlet(0.0)])
    with pytest.raises(TypeError, match=rf"equation right-hand side fails, of_coord.*: {SHAPE}"):
        ts.solve(wrong, subdomains=2, features=4)
    wrong = ts.Problem(box, ts.Equation(ts.Laplacian()), [ts.Dirichlet(with_math)])
    with pytest.raises(TypeError, match=rf"dirichlet value fails, only .*: {SHAPE}"):
        ts.solve(wrong, subdomains=2, features=4)


class Table:
    """A value for every pair of points; notes how many points it was asked at."""

    def __init__(self):
        self.asked = []

    def __call__(self, p):
        self.asked.append(len(p))
        return p[:, :1] * p[:, 0]


@pytest.mark.parametrize("gamma", [(0, 0), (1, 0)])
def test_a_value_for_every_pair_of_points_is_refused_before_it_is_computed(gamma):
    """At a million points the table would have 8 TB."""
    table = Table()
    many = np.zeros((1_000_000, 2))
    with pytest.raises(ValueError, match=rf"returned shape \(3, 3\) for 3 points: {SHAPE}"):
        derivatives(table, [gamma], many)
    assert max(table.asked) == 3


def test_a_function_that_knows_all_points_only_is_asked_for_all(monkeypatch):
    monkeypatch.setattr(functions, "MANY", len(POINTS))

    def known(p):
        if len(p) != len(POINTS):
            raise ValueError("known at these points only")
        return p[:, 0]

    np.testing.assert_array_equal(function_values(known, POINTS), POINTS[:, 0])


def test_few_points_are_tried_only_where_there_are_many(monkeypatch):
    asked = []

    def ones(p):
        asked.append(len(p))
        return jnp.ones(len(p))

    function_values(ones, POINTS)
    assert asked == [5]
    monkeypatch.setattr(functions, "MANY", 5)
    function_values(ones, POINTS)
    assert asked == [5, 3, 5]
    monkeypatch.setattr(processes, "alone", lambda: False)
    function_values(ones, POINTS)  # maybe a solution in parts, which all call equally often
    assert asked == [5, 3, 5, 5]


def test_points_that_are_asked_twice_count_once():
    """Of several processes some have fewer points than others, and ask for the last one again."""
    padded = np.concatenate([POINTS, np.tile(POINTS[-1], (7, 1))])
    for x in (POINTS, padded):
        with pytest.raises(ValueError, match="not finite at 2 of 5 points"):
            function_values(lambda p: np.where(np.isin(p, POINTS[3:])[:, 0], np.nan, 1.0), x)


RATE = 2.0


class Growth:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, p):
        return self.rate * p[:, 0] ** 2

    def at(self, p):
        return self.rate * p[:, 0] ** 2


def test_what_a_function_closes_over_may_change(monkeypatch):
    """A program is kept for its derivatives; it must not outlive the numbers in it."""
    own, within = {"rate": 2.0}, Growth(2.0)
    table = np.array([2.0])

    def by_global(p):
        return RATE * p[:, 0] ** 2

    def by_closure(p):
        return own["rate"] * p[:, 0] ** 2

    def by_array(p):
        return (lambda x: jnp.asarray(table)[0] * x**2)(p[:, 0])

    def by_another(p):
        return by_global(p)

    def slopes():
        each = (by_global, by_closure, by_array, by_another, within, within.at)
        return [derivatives(f, [(1, 0)], POINTS)[1, 0] for f in each]

    for found in slopes():
        np.testing.assert_allclose(found, 4 * POINTS[:, 0])
    monkeypatch.setattr(f"{__name__}.RATE", 3.0)
    own["rate"], within.rate, table[0] = 3.0, 3.0, 3.0
    for found in slopes():
        np.testing.assert_allclose(found, 6 * POINTS[:, 0])


def test_a_method_is_known_again_by_its_object(compilations):
    """Every `growth.at` is another object to Python."""
    growth = Growth(2.0)
    derivatives(growth.at, [(1, 0)], POINTS)
    before = compilations()
    derivatives(growth.at, [(1, 0)], POINTS)
    assert compilations() == before
