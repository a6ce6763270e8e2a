"""Problems are checked when they are stated; an ansatz is a composition of operators."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.problem.normal_form import apply_to_function, symbol

LINE = ts.Box(x=(0, 1))
SQUARE = ts.Box(x=(0, 1), y=(0, 1))
POINTS = np.random.default_rng(2).uniform(0, 1, (9, 2))
EQUATION = ts.Equation(ts.Laplacian(), 1.0)


def multiplier(p):
    return jnp.tanh(p[:, 0]) * (2 - p[:, 1] ** 2)


def offset(p):
    return jnp.exp(p[:, 0]) * p[:, 1]


HARD = ts.Problem(SQUARE, EQUATION, ansatz=ts.Ansatz(multiplier, offset))
OPERATORS = {
    "identity": ts.Identity(),
    "laplacian": ts.Laplacian(),
    "advection": ts.D(x=1) + multiplier * ts.D(y=1) + 2,
}


def v(p):
    return jnp.cos(2 * p[:, 0] - p[:, 1])


def u(p):
    return offset(p) + multiplier(p) * v(p)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_an_ansatz_is_the_composition_with_its_multiplier(operator):
    found = HARD.symbol(operator, POINTS)
    expected = symbol((operator @ multiplier).expand(SQUARE.axes), POINTS)
    assert found.keys() == expected.keys()
    for alpha in found:
        np.testing.assert_allclose(found[alpha], expected[alpha], rtol=1e-13)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_operator_of_u_is_its_symbol_on_v_plus_the_lift(operator):
    """L(offset + multiplier v) = sum_alpha symbol[alpha] D^alpha v + lift."""
    on_v = sum(
        c * apply_to_function(ts.D(x=a[0], y=a[1]).expand(SQUARE.axes), v, POINTS)
        for a, c in HARD.symbol(operator, POINTS).items()
    )
    whole = apply_to_function(operator.expand(SQUARE.axes), u, POINTS)
    np.testing.assert_allclose(on_v + HARD.lift(operator, POINTS), whole, rtol=1e-11, atol=1e-11)


def test_numbers_in_an_ansatz_scale_and_shift():
    problem = ts.Problem(SQUARE, EQUATION, ansatz=ts.Ansatz(multiplier=3.0, offset=-2.0))
    operator = ts.Laplacian() + 5
    found = problem.symbol(operator, POINTS)
    assert {k: float(c[0]) for k, c in found.items()} == {(2, 0): 3.0, (0, 2): 3.0, (0, 0): 15.0}
    np.testing.assert_array_equal(problem.lift(operator, POINTS), -10.0)
    np.testing.assert_array_equal(problem.lift(ts.Laplacian(), POINTS), 0.0)


def test_without_an_ansatz_u_is_v():
    problem = ts.Problem(SQUARE, EQUATION)
    assert problem.symbol(ts.D(x=1), POINTS).keys() == {(1, 0)}
    np.testing.assert_array_equal(problem.lift(ts.D(x=1) + 1, POINTS), 0.0)


def test_an_ansatz_reaches_the_conditions_too():
    normals = np.tile([1.0, 0.0], (len(POINTS), 1))
    found = HARD.symbol(ts.NormalDerivative(), POINTS, normals)
    x, y = POINTS.T
    np.testing.assert_allclose(found[1, 0], multiplier(POINTS), rtol=1e-12)
    np.testing.assert_allclose(found[0, 0], (2 - y**2) / np.cosh(x) ** 2, rtol=1e-12)
    lift = HARD.lift(ts.NormalDerivative(), POINTS, normals)
    np.testing.assert_allclose(lift, np.exp(x) * y, rtol=1e-12)


def test_conditions_that_share_a_name_are_numbered():
    problem = ts.Problem(
        SQUARE,
        EQUATION,
        [ts.Dirichlet(0.0, on="xmin"), ts.Neumann(0.0, on="ymin"), ts.Dirichlet(1.0, on="xmax")],
    )
    assert [c.name for c in problem.conditions] == ["dirichlet 1", "neumann", "dirichlet 2"]


def test_equations_that_share_a_name_are_numbered():
    problem = ts.Problem(SQUARE, [EQUATION, ts.Equation(ts.D(x=1))])
    assert [e.name for e in problem.equations] == ["equation 1", "equation 2"]


def test_one_condition_needs_no_list():
    assert ts.Problem(SQUARE, EQUATION, ts.Dirichlet(0.0)).conditions[0].name == "dirichlet"


def test_conditions_know_their_faces():
    space_time = ts.Box(x=(0, 1), t=(0, 1))
    assert ts.Dirichlet(0.0).faces(space_time) == ("xmin", "xmax")
    assert ts.Dirichlet(0.0, on="tmax").faces(space_time) == ("tmax",)
    assert ts.Neumann(0.0, on=["xmin", "tmin"]).faces(space_time) == ("xmin", "tmin")
    assert ts.Initial(0.0).faces(space_time) == ("tmin",)
    assert ts.InitialVelocity(0.0, axis="x").faces(space_time) == ("xmin",)


def test_the_exact_solution_is_optional_but_missed_when_asked_for():
    with pytest.raises(ValueError, match=r"'p' has no exact solution: pass exact=\.\.\."):
        ts.Problem(LINE, EQUATION, name="p").exact_values(np.zeros((1, 1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ts.Equation("u"), "Equation operator must be built from D"),
        (lambda: ts.Equation(ts.D(x=1), "zero"), "Equation rhs must be a number or a function"),
        (lambda: ts.Dirichlet([0.0]), r"dirichlet value must be a number or a function"),
        (lambda: ts.Ansatz(multiplier="x"), "Ansatz multiplier must be a number or a function"),
        (lambda: ts.Ansatz(offset=None), "Ansatz offset must be a number or a function"),
        (lambda: ts.Problem((0, 1), EQUATION), r"domain must be made of Box\(...\), got \(0, 1\)"),
        (lambda: ts.Problem(LINE, ts.D(x=2)), r"equation must be made of Equation.*got D"),
        (lambda: ts.Problem(LINE, EQUATION, [0.0]), r"conditions must be made of Cond.*got 0.0"),
    ],
)
def test_things_of_the_wrong_kind_are_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ts.Problem(LINE, []), "at least one Equation"),
        (lambda: ts.Dirichlet(0.0, weight=0.0), "weight must be a positive number, got 0.0; leave"),
        (lambda: ts.Dirichlet(0.0, weight=np.inf), "weight must be a positive number, got inf"),
        (lambda: ts.Dirichlet(0.0, weight="a"), "weight must be a positive number, got 'a'"),
        (lambda: ts.Dirichlet(0.0, on=()), r"on=\(\) selects no face: name one"),
        (lambda: ts.Ansatz(np.nan), "Ansatz multiplier must be finite, got nan"),
        (
            lambda: ts.Problem(ts.Box(t=(0, 1)), ts.Equation(ts.D(t=1)), [ts.Dirichlet(0.0)]),
            "dirichlet lies on all faces of the spatial axes.*on='tmin'",
        ),
    ],
)
def test_values_that_make_no_sense_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
