"""Operators print as a person would write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts

D, LAPLACIAN, U = ts.D, ts.Laplacian(), ts.Field("u")


def a(p):
    return p[:, 0]


@ts.operator
def drift(d, x):
    return x[:, 0] * d(x=1)


class Callable:
    def __call__(self, p):
        return p[:, 0]


PRINTED = [
    (-LAPLACIAN, "-Laplacian()"),
    (D(t=2) - 4.0 * LAPLACIAN + 1, "D(t=2) - 4 * Laplacian() + 1"),
    (2 - D(x=1), "2 - D(x=1)"),
    (LAPLACIAN / 3, "0.3333333333333333 * Laplacian()"),
    (1e-8 * D(x=1), "1e-08 * D(x=1)"),
    (1 * LAPLACIAN, "Laplacian()"),
    (2 * ts.Identity() + 3, "2 * Identity() + 3"),
    (LAPLACIAN - (D(x=1) - 1), "Laplacian() - (D(x=1) - 1)"),
    (LAPLACIAN + (D(x=1) - 1), "Laplacian() + D(x=1) - 1"),
    (-(D(x=1) + 1), "-(D(x=1) + 1)"),
    (LAPLACIAN @ LAPLACIAN, "Laplacian() @ Laplacian()"),
    (2 * (LAPLACIAN @ LAPLACIAN), "2 * Laplacian() @ Laplacian()"),
    (LAPLACIAN @ (2 * LAPLACIAN), "Laplacian() @ (2 * Laplacian())"),
    ((LAPLACIAN + 25) @ U, "(Laplacian() + 25) @ Field('u')"),
    (D(x=1) @ (D(y=1) @ U), "D(x=1) @ D(y=1) @ Field('u')"),
    (-LAPLACIAN @ U + D(x=1) @ ts.Field("p"), "-Laplacian() @ Field('u') + D(x=1) @ Field('p')"),
    (ts.Normal("x") @ D(x=1), "Normal('x') @ D(x=1)"),
    (ts.NormalDerivative() + 2, "NormalDerivative() + 2"),
    (a * D(x=1), "a * D(x=1)"),
    (-(a * D(x=1)), "-(a * D(x=1))"),
    (D(t=1) - a * D(x=1), "D(t=1) - a * D(x=1)"),
    (a * (2 * D(x=1)), "a * (2 * D(x=1))"),
    (D(x=1) @ a, "D(x=1) @ a"),
    (D(x=1) @ (a * D(x=1)), "D(x=1) @ (a * D(x=1))"),
    (a * ts.Identity() - LAPLACIAN, "a * Identity() - Laplacian()"),
    ((lambda p: p[:, 0]) * D(x=1), "f(x) * D(x=1)"),
    (Callable() * D(x=1), "Callable * D(x=1)"),
    (drift - 0.01 * LAPLACIAN, "drift - 0.01 * Laplacian()"),
    (-ts.operator(lambda d, x: d(x=2)), "-f(d, x)"),
]


@pytest.mark.parametrize(("operator", "text"), PRINTED, ids=[text for _, text in PRINTED])
def test_operators_print_as_they_are_written(operator, text):
    assert repr(operator) == text


def test_errors_quote_operators_as_they_are_written():
    system = ts.Problem(
        ts.Box(x=(0, 1)), [ts.Equation(D(x=1) @ U - ts.Field("v")), ts.Equation(D(x=2) @ U)]
    )
    with pytest.raises(ValueError, match=r"^3 - D\(x=1\) does not say which unknown it acts on"):
        system.terms(3 - D(x=1))


number = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3) | st.integers(-5, 5)
leaf = st.sampled_from([D(x=1), D(x=1, y=2), D(), LAPLACIAN, ts.Laplacian("y"), ts.Identity()])


def larger(inner):
    return st.one_of(
        st.builds(lambda left, right: left + right, inner, inner | number),
        st.builds(lambda left, right: left - right, inner, inner | number),
        st.builds(lambda left, right: left - right, number, inner),
        st.builds(lambda left, right: left * right, number, inner),
        st.builds(lambda one: -one, inner),
        st.builds(lambda left, right: left @ right, inner, inner),
    )


operators = st.recursive(leaf, larger, max_leaves=6)


def normal_form(operator):
    """The factors of all terms, by their derivatives, functions and unknown."""
    found = {}
    for term in operator.expand(("x", "y")):
        key = term.orders, term.functions, term.field
        found.setdefault(key, []).append(term.factor)
    return found


@settings(max_examples=300)
@given(operators)
def test_the_text_of_an_operator_is_the_operator(inside):
    for operator in (inside, ts.Normal("x") @ inside @ U, ts.NormalDerivative() @ inside - inside):
        again = eval(repr(operator), {name: getattr(ts, name) for name in ts.__all__})
        left, right = normal_form(operator), normal_form(again)
        assert left.keys() == right.keys()
        for key, factors in left.items():
            assert right[key] == pytest.approx(factors, rel=1e-14, abs=0)
