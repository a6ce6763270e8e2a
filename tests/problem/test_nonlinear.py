"""Nonlinear operators: what a Problem makes of them, their tangents, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.problem.closures import Opened, closed, opened
from tessella.problem.linearised import Around, applied_to, linearised, rest
from tessella.problem.states import Guess
from tessella.problem.tangents import NotDifferentiableError, tangents

LINE = ts.Box(x=(0, 1))
SQUARE = ts.Box(x=(0, 1), y=(0, 1))
POINTS = SQUARE.scatter(40, np.random.default_rng(5))


def state(operator, *, conditions=(), domain=SQUARE):
    return ts.Problem(domain, ts.Equation(operator), list(conditions))


def around(problem, function):
    return Around(problem, Guess(problem, dict.fromkeys(problem.unknowns, function)))


def wave(x):
    return jnp.sin(2 * x[:, 0]) * jnp.exp(x[:, 1])


# What is linear and what is not


def test_linear_functions_stay_linear_and_the_others_are_found():
    assert state(lambda d, x: d(x=2) + jnp.exp(x[:, 0]) * d()).linear
    assert not state(lambda d, x: d(x=2) + d() ** 3).linear
    assert not state(-ts.Laplacian() + 1e-3 * ts.operator(lambda d, x: d() * d(x=1))).linear


def test_a_linearised_problem_is_linear_and_its_data_are_what_is_left():
    problem = state(lambda d, x: -d(x=2) + d() ** 3)
    here = around(problem, wave)
    linear = linearised(problem, here)
    assert linear.linear and linear.exact is None
    symbol = linear.symbol(linear.equations[0].operator, POINTS)
    u = np.asarray(wave(POINTS))
    np.testing.assert_allclose(symbol[0, 0], 3 * u**2, rtol=1e-13)
    np.testing.assert_allclose(symbol[2, 0], -1.0)
    np.testing.assert_allclose(linear.equations[0].values(POINTS), 2 * u**3, rtol=1e-12)


def test_the_tangent_is_the_derivative_of_the_function():
    problem = state(lambda d, x: d(x=1) ** 2 * d(y=2) + x[:, 0] * jnp.exp(d()))
    leaf = problem.equations[0].operator
    keys = leaf.keys(("x", "y"))
    given = np.random.default_rng(0).standard_normal((len(keys), len(POINTS)))
    _, tangent = tangents(leaf, ("x", "y"), keys, given, POINTS)
    h = 1e-6
    for k in range(len(keys)):
        step = h * np.eye(len(keys))[k][:, None]
        up, down = (tangents(leaf, ("x", "y"), keys, given + s, POINTS)[0] for s in (step, -step))
        np.testing.assert_allclose(tangent[k], (up - down) / (2 * h), rtol=1e-7, atol=1e-8)


def test_algebra_and_function_are_the_same_operator():
    whole = state(lambda d, x: -d(x=2) - d(y=2) + (1 + x[:, 0]) * d() ** 3)
    parts = state(-ts.Laplacian() + (lambda x: 1 + x[:, 0]) * ts.operator(lambda d, x: d() ** 3))
    found = []
    for problem in (whole, parts):
        here = around(problem, wave)
        operator = problem.equations[0].operator
        found.append([applied_to(operator, here.state, POINTS, None), rest(operator, here, POINTS)])
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


def test_a_function_acts_on_the_unknown_it_is_composed_with():
    u, v = ts.Field("u"), ts.Field("v")
    square = ts.operator(lambda d, x: d() ** 2)
    problem = ts.Problem(
        SQUARE,
        [ts.Equation(ts.D(x=1) @ u + square @ v, name="a"), ts.Equation(ts.D(y=1) @ v, name="b")],
    )
    here = Around(problem, Guess(problem, {"u": 5.0, "v": 3.0}))
    linear = linearised(problem, here).equations[0].operator
    np.testing.assert_allclose(problem.symbol(linear, POINTS, field="v")[0, 0], 6.0)
    assert (0, 0) not in problem.symbol(linear, POINTS, field="u")


def test_functions_of_several_unknowns_name_them():
    problem = ts.Problem(
        SQUARE,
        [
            ts.Equation(lambda d, x: d("u") * d("v", x=1), name="a"),
            ts.Equation(lambda d, x: d("v", y=1), name="b"),
        ],
    )
    assert problem.fields == ("u", "v")
    here = Around(problem, Guess(problem, {"u": 2.0, "v": lambda x: 3 * x[:, 0]}))
    linear = linearised(problem, here)
    found = {f: linear.symbol(linear.equations[0].operator, POINTS, field=f) for f in ("u", "v")}
    np.testing.assert_allclose(found["u"][0, 0], 3.0)
    np.testing.assert_allclose(found["v"][1, 0], 2.0)


# The chain rule and normals


def at_the_wave(operator, normals=None):
    problem = state(ts.Laplacian(), conditions=[ts.Condition(operator, on="xmax")])
    there = problem.conditions[0].operator
    return applied_to(there, Guess(problem, {"u": wave}), POINTS, normals)


@pytest.mark.parametrize(
    ("conserved", "written_out"),
    [
        (
            ts.D(x=1) @ ts.operator(lambda d, x: d() ** 2),
            lambda d, x: 2 * d() * d(x=1),
        ),
        (
            ts.D(x=1) @ ts.operator(lambda d, x: (1 + x[:, 0] * d() ** 2) * d(x=1)),
            lambda d, x: (
                (1 + x[:, 0] * d() ** 2) * d(x=2) + (d() ** 2 + 2 * x[:, 0] * d() * d(x=1)) * d(x=1)
            ),
        ),
        (
            ts.Laplacian() @ ts.operator(lambda d, x: jnp.exp(d())),
            lambda d, x: jnp.exp(d()) * (d(x=1) ** 2 + d(x=2) + d(y=1) ** 2 + d(y=2)),
        ),
        (
            ts.D(y=1)
            @ ((lambda x: x[:, 1]) * (2 * ts.operator(lambda d, x: d() ** 3) + ts.D(x=1))),
            lambda d, x: 2 * d() ** 3 + d(x=1) + x[:, 1] * (6 * d() ** 2 * d(y=1) + d(x=1, y=1)),
        ),
    ],
    ids=["flux", "conductivity", "diffusion", "coefficient"],
)
def test_a_derivative_of_a_function_is_the_chain_rule(conserved, written_out):
    found, wanted = at_the_wave(conserved), at_the_wave(written_out)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


def test_a_conserved_flux_of_one_of_several_unknowns():
    u, v = ts.Field("u"), ts.Field("v")
    flux = ts.D(x=1) @ ts.operator(lambda d, x: d() ** 2) @ v
    equations = [ts.Equation(ts.D(x=1) @ u + flux, name="a"), ts.Equation(ts.D(y=1) @ v, name="b")]
    problem = ts.Problem(SQUARE, equations)
    here = Around(problem, Guess(problem, {"u": 5.0, "v": lambda x: 3 * x[:, 0]}))
    linear = linearised(problem, here).equations[0].operator
    symbol = problem.symbol(linear, POINTS, field="v")
    np.testing.assert_allclose(symbol[1, 0], 6 * POINTS[:, 0])
    np.testing.assert_allclose(symbol[0, 0], 6.0)


def test_normals_stand_in_front_of_functions_and_inside_them():
    angle = np.linspace(0, 6, len(POINTS))
    normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    k = lambda u: 1 + u**2  # noqa: E731
    inside = at_the_wave(lambda d, x: k(d()) * d(n=1) + d() ** 4, normals)
    in_front = at_the_wave(
        ts.Normal("x") @ ts.operator(lambda d, x: k(d()) * d(x=1))
        + ts.Normal("y") @ ts.operator(lambda d, x: k(d()) * d(y=1))
        + ts.operator(lambda d, x: d() ** 4),
        normals,
    )
    u, (u_x, u_y) = np.asarray(wave(POINTS)), _slopes(POINTS)
    wanted = k(u) * (normals[:, 0] * u_x + normals[:, 1] * u_y) + u**4
    np.testing.assert_allclose(inside, wanted, rtol=1e-12)
    np.testing.assert_allclose(in_front, wanted, rtol=1e-12)


def _slopes(x):
    grown = np.exp(x[:, 1])
    return 2 * np.cos(2 * x[:, 0]) * grown, np.sin(2 * x[:, 0]) * grown


def test_a_linear_function_may_use_the_normal():
    problem = state(ts.Laplacian(), conditions=[ts.Condition(lambda d, x: d() + 2 * d(n=1))])
    assert problem.linear
    symbol = problem.symbol(problem.conditions[0].operator, POINTS, np.tile([0.6, 0.8], (40, 1)))
    np.testing.assert_allclose([symbol[0, 0][0], symbol[1, 0][0], symbol[0, 1][0]], [1, 1.2, 1.6])


# Programs


def test_functions_that_differ_by_numbers_share_a_program():
    def make(factor, inner):
        def bent(u):
            return inner * u**3

        return lambda d, x: factor * d(x=2) + bent(d())

    numbers = [], []
    one, other = (
        opened(make(*f), n) for f, n in zip(((1.0, 2.0), (3.0, 4.0)), numbers, strict=True)
    )
    assert isinstance(one, Opened) and one == other and hash(one) == hash(other)
    assert sorted(numbers[1]) == [3.0, 4.0]
    again = closed(one, iter(numbers[1]))
    values = {0: np.array([2.0]), 2: np.array([7.0])}
    d = lambda x=0: values[x]  # noqa: E731
    assert again(d, None) == make(3.0, 4.0)(d, None) == 3 * 7 + 4 * 8


def test_what_does_not_compare_keeps_a_program_of_its_own():
    table = np.ones(3)
    function = lambda d, x: d() * table[0]  # noqa: E731
    numbers: list[float] = []
    assert opened(function, numbers) is function and not numbers
    assert opened(jnp.exp, numbers) is jnp.exp


def test_other_numbers_give_other_values():
    def stated(c):
        return state(lambda d, x: d(x=2) + c * d() ** 2)

    for c in (1.0, 2.5):
        problem = stated(c)
        here = around(problem, 2.0)
        found = applied_to(problem.equations[0].operator, here.state, POINTS, None)
        np.testing.assert_allclose(found, 4 * c)


def test_a_function_that_must_know_its_number_is_compiled_with_it():
    def stated(c):
        return state(lambda d, x: d(x=2) + (d() ** 2 if c > 1 else d() ** 3))

    for c, wanted in ((2.0, 9.0), (0.5, 27.0)):
        problem = stated(c)
        found = applied_to(problem.equations[0].operator, around(problem, 3.0).state, POINTS, None)
        np.testing.assert_allclose(found, wanted)


def test_numpy_functions_of_the_points_are_welcome():
    problem = state(lambda d, x: d(x=2) + np.exp(x[:, 0]) * d() ** 2)
    found = applied_to(problem.equations[0].operator, around(problem, 2.0).state, POINTS, None)
    np.testing.assert_allclose(found, 4 * np.exp(POINTS[:, 0]))


# Refusals


def test_numpy_functions_of_the_unknown_are_refused():
    problem = state(lambda d, x: d(x=2) + np.exp(d()))
    with pytest.raises(
        NotDifferentiableError, match=r"replace NumPy calls such as np.exp\(d\(\)\)"
    ):
        rest(problem.equations[0].operator, around(problem, 0.0), POINTS)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda d, x: -d(x=2) + jnp.log(d()), r"^the operator function .* is -inf at the point"),
        (lambda d, x: -d(x=2) + jnp.sqrt(d()), r"^the derivative by d\(\) of .* is inf at the"),
        (
            lambda d, x: -d(x=2) + 1 / d(y=1),
            r"is inf at the point \(.*\), where d\(x=2\) = 0, d\(y",
        ),
    ],
)
def test_a_function_without_value_or_derivative_names_point_and_value(function, said):
    problem = state(function)
    with pytest.raises(NotDifferentiableError, match=said):
        rest(problem.equations[0].operator, around(problem, 0.0), POINTS)


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (ts.operator(lambda d, x: d() ** 2) @ ts.D(x=1), "with these inside"),
        (ts.D(x=1) @ ts.Normal("x") @ ts.operator(lambda d, x: d() ** 2), "keep it outermost"),
        (ts.D(x=1) @ ts.operator(lambda d, x: d() * d(n=1)), "cannot be differentiated"),
        (lambda d, x: d() * d(n=2), r"calls d\(n=2\): along the normal there is d\(n=1\) only"),
    ],
)
def test_compositions_with_nonlinear_functions_are_refused(operator, said):
    with pytest.raises(ValueError, match=said):
        state(operator)


def test_integrals_of_nonlinear_functions_are_refused():
    with pytest.raises(ValueError, match="which integrals and measurements cannot be"):
        state(ts.Laplacian(), conditions=[ts.Integral(1.0, of=lambda d, x: d() ** 2)])


def stated_line():
    return ts.Problem(LINE, ts.Equation(lambda d, x: -d(x=2) + d() ** 3, 1.0), [ts.Dirichlet(0.0)])


@pytest.mark.parametrize(
    ("door", "enter"),
    [
        ("eigs", lambda problem: ts.eigs(problem, k=2)),
        ("factor", lambda problem: ts.factor(problem, subdomains=2, features=8)),
        ("pinn", lambda problem: ts.pinn(problem)),
    ],
)
def test_doors_for_linear_problems_say_so(door, enter):
    with pytest.raises(ValueError, match=rf"{door}\(\) takes linear problems, but 'equation'"):
        enter(stated_line())


def test_tangents_of_no_points_are_none():
    leaf = stated_line().equations[0].operator
    keys = leaf.keys(("x",))
    values, tangent = tangents(leaf, ("x",), keys, np.zeros((2, 0)), np.zeros((0, 1)))
    assert values.shape == (0,) and tangent.shape == (2, 0)
