"""The operator algebra, checked on functions whose derivatives are known."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.problem.normal_form import apply_to_function, symbol

AXES = ("x", "y")


@pytest.fixture(autouse=True)
def _without_compilation():
    """Each of the many small expressions is evaluated once, so compiling it does not pay."""
    with jax.disable_jit():
        yield


POINTS = np.random.default_rng(1).uniform(-1, 1, (7, 2))
X, Y = POINTS.T
ONES = np.ones(len(POINTS))


def u(p):
    return jnp.sin(2 * p[:, 0]) * jnp.exp(3 * p[:, 1])


def f(p):
    return p[:, 0] ** 3 + p[:, 1]


def g(p):
    return jnp.cos(p[:, 0] * p[:, 1])


def applied(operator, function=u, normals=None):
    return apply_to_function(operator.expand(AXES), function, POINTS, normals)


def same_symbol(a, b):
    left, right = (symbol(o.expand(AXES), POINTS) for o in (a, b))
    zero = np.zeros(len(POINTS))
    return all(
        np.allclose(left.get(k, zero), right.get(k, zero), rtol=1e-12, atol=1e-12)
        for k in left.keys() | right.keys()
    )


U = np.sin(2 * X) * np.exp(3 * Y)
UX = 2 * np.cos(2 * X) * np.exp(3 * Y)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (ts.Identity(), U),
        (ts.D(), U),
        (ts.D(x=1), UX),
        (ts.D(y=2), 9 * U),
        (ts.D(x=1, y=1), 3 * UX),
        (ts.D(x=3), -4 * UX),
        (ts.Laplacian(), 5 * U),
        (ts.Laplacian("x"), -4 * U),
        (-ts.D(x=2), 4 * U),
        (ts.D(x=2) / 4, -U),
        (ts.D(y=1) * 2, 6 * U),
        (np.float64(2) * ts.D(y=1), 6 * U),
        (ts.D(y=1) + 2, 5 * U),
        (2 + ts.D(y=1), 5 * U),
        (ts.D(y=1) - 2, U),
        (2 - ts.D(y=1), -U),
        (np.float64(2) - ts.D(y=1), -U),
        (ts.Laplacian() - ts.Laplacian("y"), -4 * U),
        (ts.Laplacian() @ ts.Laplacian(), 25 * U),
        (f * ts.D(x=1), (X**3 + Y) * UX),
        (f * (ts.D(x=1) + 1), (X**3 + Y) * (UX + U)),
    ],
    ids=itertools.count(),
)
def test_known_derivatives(operator, expected):
    np.testing.assert_allclose(applied(operator), expected, rtol=1e-11, atol=1e-11)


@given(a=st.floats(-5, 5), b=st.floats(-5, 5))
def test_operators_form_a_vector_space(a, b):
    left, right = ts.D(x=2) + f * ts.D(y=1), g * ts.D(x=2) + 3
    combined = symbol((a * left - b * right).expand(AXES), POINTS)
    np.testing.assert_allclose(combined[2, 0], a - b * np.cos(X * Y), atol=1e-12)
    np.testing.assert_allclose(combined[0, 1], a * (X**3 + Y), atol=1e-12)
    np.testing.assert_allclose(combined[0, 0], -3 * b * ONES, atol=1e-12)


def test_operators_act_linearly():
    def sum_of_functions(p):
        return 2 * u(p) - 5 * g(p)

    operator = ts.Laplacian() + f * ts.D(x=1) + 3
    split = 2 * applied(operator, u) - 5 * applied(operator, g)
    np.testing.assert_allclose(applied(operator, sum_of_functions), split, rtol=1e-11)


def test_the_laplacian_leaves_time_out():
    terms = ts.Laplacian().expand(("x", "y", "t"))
    assert {term.orders for term in terms} == {(2, 0, 0), (0, 2, 0)}


def test_the_square_of_the_laplacian_is_the_biharmonic_operator():
    found = symbol((ts.Laplacian() @ ts.Laplacian()).expand(AXES), POINTS)
    assert {k: v[0] for k, v in found.items()} == {(4, 0): 1.0, (2, 2): 2.0, (0, 4): 1.0}


def test_composition_differentiates_the_function_behind_it():
    found = symbol((ts.D(x=2) @ f).expand(AXES), POINTS)  # f u'' + 2 f' u' + f'' u
    np.testing.assert_allclose(found[2, 0], X**3 + Y)
    np.testing.assert_allclose(found[1, 0], 6 * X**2)
    np.testing.assert_allclose(found[0, 0], 6 * X)


def test_composition_is_the_derivative_of_the_product():
    def product(p):
        return f(p) * g(p) * u(p)

    operator = ts.D(x=2, y=1) @ f @ g
    expected = applied(ts.D(x=2, y=1), product)
    np.testing.assert_allclose(applied(operator), expected, rtol=1e-10)


def test_divergence_form():
    """div(f grad u) = f Laplace(u) + grad f . grad u."""
    divergence = ts.D(x=1) @ (f * ts.D(x=1)) + ts.D(y=1) @ (f * ts.D(y=1))
    expected = (X**3 + Y) * 5 * U + 3 * X**2 * UX + 3 * U
    np.testing.assert_allclose(applied(divergence), expected, rtol=1e-10, atol=1e-10)


PIECES = {
    "D(x=1)": ts.D(x=1),
    "D(y=2)": ts.D(y=2),
    "f D(y=1)": f * ts.D(y=1),
    "g": g * ts.Identity(),
    "Laplacian + 1": ts.Laplacian() + 1,
}


@pytest.mark.parametrize("names", list(itertools.permutations(PIECES, 3)), ids=" @ ".join)
def test_composition_is_associative(names):
    a, b, c = (PIECES[n] for n in names)
    assert same_symbol((a @ b) @ c, a @ (b @ c))


@pytest.mark.parametrize("names", list(itertools.combinations(PIECES, 3)), ids=", ".join)
def test_composition_distributes_over_sums(names):
    a, b, c = (PIECES[n] for n in names)
    assert same_symbol(a @ (b - c), a @ b - a @ c)
    assert same_symbol((a + b) @ c, a @ c + b @ c)


def test_composition_with_a_function_does_not_commute_with_derivatives():
    assert not same_symbol(ts.D(x=1) @ f, f * ts.D(x=1))


def test_a_coefficient_behind_an_operator_is_refused_as_ambiguous():
    with pytest.raises(TypeError, match=r"ambiguous: write `f \* operator`.*or `operator @ f`"):
        ts.D(x=1) * f


@pytest.mark.parametrize(
    "bad",
    [
        lambda: "two" * ts.D(x=1),
        lambda: [1.0] * ts.D(x=1),
        lambda: np.ones(3) * ts.D(x=1),
        lambda: ts.D(x=1) + f,
        lambda: ts.D(x=1) - "1",
        lambda: ts.D(x=1) @ "f",
    ],
)
def test_what_is_not_linear_cannot_be_written(bad):
    with pytest.raises(TypeError, match="a number"):
        bad()


@pytest.mark.parametrize("wrong", ["dx", f, 2.0])
def test_only_an_operator_stands_left_of_an_operator(wrong):
    message = r" @ operator: expected an operator such as D\(x=1\) on the left; .* f \* operator"
    with pytest.raises(TypeError, match=message):
        wrong @ ts.D(x=1)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_coefficient_must_be_finite(number):
    for bad in (
        lambda: number * ts.D(x=1),
        lambda: ts.D(x=1) * number,
        lambda: ts.D(x=1) + number,
    ):
        with pytest.raises(ValueError, match=f"must be finite, got {number}"):
            bad()


@pytest.mark.parametrize("order", [-1, 1.5, "2"])
def test_the_order_of_a_derivative_is_a_whole_number(order):
    with pytest.raises(ValueError, match=r"D\(x=.*\): the order must be an integer >= 0"):
        ts.D(x=order)


@pytest.mark.parametrize("operator", [ts.D(z=1), ts.Laplacian("z"), ts.D(x=1) @ ts.D(z=2)])
def test_an_unknown_axis_is_named_with_those_there_are(operator):
    with pytest.raises(ValueError, match="the axis 'z', but the domain has x, y"):
        operator.expand(AXES)


def test_the_laplacian_of_time_alone_is_refused():
    with pytest.raises(ValueError, match=r"only t: write D\(t=2\)"):
        ts.Laplacian().expand(("t",))


NORMALS = np.tile([0.0, -1.0], (len(POINTS), 1))


def test_the_normal_derivative_follows_the_normal():
    np.testing.assert_allclose(applied(ts.NormalDerivative(), normals=NORMALS), -3 * U)
    robin = 2 * ts.Identity() + f * ts.NormalDerivative()
    np.testing.assert_allclose(applied(robin, normals=NORMALS), 2 * U - 3 * (X**3 + Y) * U)


def test_the_normal_derivative_obeys_the_product_rule():
    """d/dn (f u) = f du/dn + u df/dn; this is what an ansatz does to a Neumann condition."""
    found = applied(ts.NormalDerivative() @ f, normals=NORMALS)
    np.testing.assert_allclose(found, -3 * (X**3 + Y) * U - U)


def test_the_normal_derivative_needs_a_boundary():
    with pytest.raises(ValueError, match=r"boundary normal: use it in a Condition, or write D"):
        applied(ts.NormalDerivative())


def test_the_normal_itself_cannot_be_differentiated():
    with pytest.raises(ValueError, match="keep it outermost"):
        (ts.D(x=1) @ ts.NormalDerivative()).expand(AXES)
    np.testing.assert_allclose(
        applied(ts.NormalDerivative() @ ts.D(x=1), normals=NORMALS), -3 * UX, rtol=1e-12
    )


def test_numpy_functions_are_fine_as_coefficients():
    def with_numpy(p):
        return np.tanh(p[:, 0])

    found = symbol((with_numpy * ts.D(x=1)).expand(AXES), POINTS)
    np.testing.assert_array_equal(found[1, 0], np.tanh(X))


def test_numpy_functions_cannot_be_differentiated():
    def with_numpy(p):
        return np.tanh(p[:, 0])

    with pytest.raises(TypeError, match=r"'with_numpy' must be differentiated.*jnp\.tanh"):
        symbol((ts.D(x=1) @ with_numpy).expand(AXES), POINTS)


def test_a_function_may_return_one_number_for_all_points():
    found = symbol((ts.D(x=1) @ (lambda p: 3.0)).expand(AXES), POINTS)
    np.testing.assert_array_equal(found[1, 0], 3 * ONES)
    np.testing.assert_array_equal(found[0, 0], 0 * ONES)
