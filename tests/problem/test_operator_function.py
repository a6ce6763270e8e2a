"""Operators handed in as functions: the same as written with D, or refused with the reason."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.problem.normal_form import symbol

AXES = ("x", "y")
SQUARE = ts.Box(x=(0.5, 1.5), y=(-1, 1))
POINTS = np.random.default_rng(1).uniform(-1, 1, (12, 2))


def f(p):
    return p[:, 0] ** 3 * p[:, 1] + p[:, 1] ** 2


def g(p):
    return 2 + jnp.sin(p[:, 0] * p[:, 1])


def assert_equal(found, expected):
    a, b = (symbol(operator.expand(AXES), POINTS) for operator in (found, expected))
    for alpha in {*a, *b}:
        zero = np.zeros(len(POINTS))
        np.testing.assert_allclose(a.get(alpha, zero), b.get(alpha, zero), rtol=1e-12, atol=1e-12)


def state(operator, **keywords):
    return ts.Problem(SQUARE, ts.Equation(operator, 1.0), [ts.Dirichlet(0.0)], **keywords)


derivative = st.tuples(st.integers(0, 2), st.integers(0, 2))
coefficient = st.one_of(st.floats(-3, 3), st.sampled_from([f, g]))
part = st.tuples(coefficient, derivative)


def with_d(parts):
    """The sum of the parts, written with D."""
    return sum((c * ts.D(x=i, y=j) for c, (i, j) in parts[1:]), _times(parts[0]))


def _times(part):
    c, (i, j) = part
    return c * ts.D(x=i, y=j)


def as_function(parts):
    """The same sum as an operator function."""

    def total(d, x):
        return sum((c(x) if callable(c) else c) * d(x=i, y=j) for c, (i, j) in parts)

    return ts.operator(total)


@given(st.lists(part, min_size=1, max_size=4))
def test_a_function_is_the_operator_written_with_d(parts):
    assert_equal(as_function(parts), with_d(parts))


@given(st.lists(part, min_size=1, max_size=2), st.lists(part, min_size=1, max_size=2))
def test_functions_join_the_algebra(left, right):
    A, B = as_function(left), as_function(right)
    C, D = with_d(left), with_d(right)
    assert_equal(A + B, C + D)
    assert_equal(A - 2.0 * B, C - 2.0 * D)
    assert_equal(f * A, f * C)
    assert_equal(A + 1, C + 1)


@given(st.lists(part, min_size=1, max_size=2), part)
def test_functions_compose_on_either_side(parts, other):
    """Composition differentiates the coefficients, so the function is traced by JAX."""
    A, B = as_function(parts), with_d(parts)
    L = _times(other)
    assert_equal(A @ L, B @ L)
    assert_equal(ts.D(x=1) @ A, ts.D(x=1) @ B)
    assert_equal(A @ g, B @ g)


def test_a_problem_solved_with_a_function_is_the_same_problem():
    def source(p):
        return np.exp(p[:, 0]) * np.sin(p[:, 0]) + np.sin(p[:, 0])

    line = ts.Box(x=(0, 1))
    conditions = [ts.Dirichlet(np.sin(1.0), on="xmax"), ts.Dirichlet(0.0, on="xmin")]
    by_hand = (lambda p: jnp.exp(p[:, 0])) * ts.Identity() - ts.D(x=2)
    handed = ts.operator(lambda d, x: -d(x=2) + jnp.exp(x[:, 0]) * d())
    found = [
        ts.solve(
            ts.Problem(line, ts.Equation(L, source), conditions),
            subdomains=4,
            features=8,
            estimate=False,
        )
        for L in (by_hand, handed)
    ]
    x = np.linspace(0, 1, 21)
    np.testing.assert_allclose(found[1](x), np.sin(x), atol=1e-7)
    np.testing.assert_allclose(found[1](x), found[0](x), atol=1e-10)


def test_a_function_works_under_an_ansatz_and_in_conditions():
    line = ts.Box(x=(0, 1))
    ansatz = ts.Ansatz(lambda p: p[:, 0], 1.0)
    L = ts.operator(lambda d, x: d(x=1) - (1 + x[:, 0]) * d())
    M = (lambda p: -1 - p[:, 0]) * ts.Identity() + ts.D(x=1)
    robin = ts.operator(lambda d, x: d() + 2 * d(x=1))
    found = [
        ts.Problem(line, ts.Equation(one), [ts.Condition(c, on="xmax")], ansatz)
        for one, c in ((L, robin), (M, ts.Identity() + 2 * ts.D(x=1)))
    ]
    points = np.linspace(0, 1, 5)[:, None]
    for operators in zip(*([p.equations[0], p.conditions[0]] for p in found), strict=True):
        a, b = (p.symbol(o.operator, points) for p, o in zip(found, operators, strict=True))
        for alpha in b:
            np.testing.assert_allclose(a[alpha], b[alpha], atol=1e-14)
        lifts = [p.lift(o.operator, points) for p, o in zip(found, operators, strict=True)]
        np.testing.assert_allclose(*lifts, atol=1e-14)


def test_a_function_acts_on_an_unknown_of_a_system():
    u, v = ts.Field("u"), ts.Field("v")
    L = ts.operator(lambda d, x: x[:, 0] * d(x=1) + d())
    problem = ts.Problem(
        SQUARE, [ts.Equation(L @ u + ts.D(y=1) @ v), ts.Equation(ts.Laplacian() @ v)]
    )
    found = problem.symbol(problem.equations[0].operator, POINTS, field="u")
    np.testing.assert_allclose(found[1, 0], POINTS[:, 0])
    assert set(found) == {(0, 0), (1, 0)}


def test_operator_is_a_decorator():
    @ts.operator
    def heat(d, x):
        return d(y=1) - d(x=2)

    assert heat.name == "heat"
    assert_equal(heat, ts.D(y=1) - ts.D(x=2))


# Refusals: (function, message); the place is a random point of the domain

PLACE = r"at the point \((0\.[5-9]|1)[\d.]*, -?[01][\d.e-]*\)"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda d, x: d(x=2) + x[:, 0], rf"a term without the unknown, .*{PLACE}: move it to the"),
        (lambda d, x: d() - jnp.mean(d()), "depends on other points than its own"),
        (lambda d, x: jnp.log(x[:, 0] - 1) * d(), rf"is (nan|-inf) {PLACE}"),
        (lambda d, x: x[:, 0], "uses no derivative of the unknown: write d\\(\\)"),
        (lambda d, x: d(z=1), "uses the axis 'z', but the domain has x, y"),
        (lambda d, x: d(x=-1), r"calls d\(x=-1\): the order must be an integer >= 0"),
        (lambda d, x: d(x=1)[:, None] * x, r"returned shape \(64, 2\) for 64 points"),
    ],
)
def test_what_is_no_operator_is_refused_when_the_problem_is_stated(function, message):
    with pytest.raises(ValueError, match=message):
        state(ts.operator(function))
    with pytest.raises(ValueError, match=message):
        state(ts.Laplacian() + 2 * ts.operator(function))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda d, x: d(x=2) + d() ** 2, f"f\\(v \\+ w\\) differs.*{PLACE}, .* against"),
        (lambda d, x: d(x=2) * d(), PLACE),
        (lambda d, x: jnp.sin(d()), PLACE),
        (lambda d, x: jnp.abs(d(x=1)), PLACE),
        (lambda d, x: d(x=2) + 1e-6 * d() ** 3, PLACE),
        (lambda d, x: jnp.where(jnp.abs(d()) < 100, d(), 0.0), r"f\(c v\) differs from c f\(v\)"),
        (lambda d, x: d(x=2) + jnp.log(d()), "not finite for some values of the derivatives"),
        (lambda d, x: d(x=2) + d() ** 2 + x[:, 0], PLACE),
    ],
)
def test_what_is_not_linear_is_found_out_and_linear_doors_say_how(function, reason):
    for operator in (ts.operator(function), ts.Laplacian() + 2 * ts.operator(function)):
        problem = state(operator)
        assert not problem.linear
        with pytest.raises(ValueError, match=f"factor.. takes linear problems.*{reason}"):
            ts.factor(problem, subdomains=2, features=4)


def test_conditions_are_looked_at_too():
    radiating = ts.Condition(lambda d, x: d(x=1) + d() ** 4, on="xmax")
    assert not ts.Problem(SQUARE, ts.Equation(ts.Laplacian()), [radiating]).linear
    with pytest.raises(ValueError, match="'integral' is of a nonlinear function, which"):
        ts.Problem(
            SQUARE, ts.Equation(ts.Laplacian()), [ts.Integral(1.0, of=lambda d, x: d() ** 2)]
        )


def test_a_function_of_a_system_names_its_unknowns():
    u, p = ts.Field("u"), ts.Field("p")
    written = ts.operator(lambda d, x: d("u", x=2) + x[:, 0] * d("p", y=1))
    stated = ts.Problem(SQUARE, [ts.Equation(written), ts.Equation(ts.D(x=1) @ p)], [])
    assert stated.linear and stated.fields == ("u", "p")
    for field, operator in (("u", ts.D(x=2) @ u), ("p", (lambda x: x[:, 0]) * ts.D(y=1) @ p)):
        one, other = (stated.symbol(own, POINTS, field=field) for own in (written, operator))
        assert {k: v.tolist() for k, v in one.items()} == {k: v.tolist() for k, v in other.items()}


def test_a_derivative_asked_for_at_some_points_only_is_refused():
    def sometimes(d, x):
        return d(x=2) if np.all(x[:, 0] == 0.5) else d(y=1)

    with pytest.raises(ValueError, match=r"asks for d\(y=1\) at some points only"):
        state(ts.operator(sometimes))


def test_coefficients_that_are_differentiated_need_jax_and_finite_derivatives():
    numpy_code = ts.operator(lambda d, x: np.tanh(x[:, 0]) * d())
    state(numpy_code)
    with pytest.raises(TypeError, match=r"d\(\) of operator function.*must be differentiated"):
        state(ts.D(x=1) @ numpy_code)
    kink = ts.operator(lambda d, x: jnp.sqrt(jnp.maximum(x[:, 0] - 1, 0)) * d())
    state(kink)
    with pytest.raises(ValueError, match=rf"the derivative \(1, 0\) of .* is nan {PLACE}"):
        state(ts.D(x=1) @ kink)


def test_misuse_of_the_door():
    with pytest.raises(TypeError, match=r"operator\(\) takes a function of derivatives and points"):
        ts.operator(ts.Laplacian())
    with pytest.raises(ValueError, match=r"calls d\('x'\): name the axes, d\(x=2\)"):
        state(ts.operator(lambda d, x: d("x")))
    for wrong in (lambda x: x, lambda d, x: math.sin(x[:, 0]) * d()):
        with pytest.raises(TypeError, match=r"'<lambda>' fails, .*: it must be a function of d "):
            state(ts.operator(wrong))
    assert_equal(ts.Equation(lambda d, x: d(x=2)).operator, ts.D(x=2))
    with pytest.raises(TypeError, match=r"or be a function f\(d, x\) .* got 3.0$"):
        ts.Equation(3.0)
