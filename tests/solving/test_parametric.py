"""u(points; theta): tangents and gradients against each other and against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

CELLS = {"subdomains": 3, "features": 100, "coupling": "interfaces"}
SQUARE = ts.Box(x=(0, 1), y=(0, 1))
INSIDE = 0.1 + 0.4 * np.random.default_rng(0).random((20, 2))

Family = Callable[[Any], ts.Problem]


def conducting(theta: Any) -> ts.Problem:
    """Parameters in a coefficient that is differentiated, in front of an operator, in the source
    and on the boundary."""

    def a(p: Any) -> Any:
        return 1 + theta[0] * jnp.exp(-theta[1] * p[:, 0])

    L = ts.D(x=1) @ (a * ts.D(x=1)) + a * ts.D(y=2)
    source = ts.Equation(theta[2] * ts.Identity() - L, lambda p: theta[3] * p[:, 0] + 1.0)
    return ts.Problem(SQUARE, source, [ts.Dirichlet(theta[4])])


CONDUCTING = np.array([0.7, 1.4, 2.0, 3.0, 0.2])


def disc(theta: Any) -> ts.Problem:
    shape = ts.Ball(x=theta[1], y=0.2, radius=theta[0])
    wall = ts.Robin(1.0, 1.0, lambda p: np.sin(p[:, 0] + p[:, 1]))
    return ts.Problem(shape, ts.Equation(-ts.Laplacian(), lambda p: np.cos(2 * p[:, 0])), [wall])


def box(theta: Any) -> ts.Problem:
    shape = ts.Box(x=(0, theta[0]), y=(-0.1, 0.7))
    wall = ts.Dirichlet(lambda p: np.exp(p[:, 0]) * np.cos(p[:, 1]))
    return ts.Problem(shape, ts.Equation(-ts.Laplacian(), lambda p: p[:, 0] ** 0), [wall])


def material(theta: Any) -> ts.Problem:
    """The radius of a disc of another material, and what it conducts: u is known, see `layered`."""
    ring = ts.Ball(x=0.0, y=0.0, radius=1.0)
    domain = ts.Divided(ring, core=ts.Ball(x=0.0, y=0.0, radius=theta[0]))
    inside = ts.Equation(-theta[1] * ts.Laplacian(), 1.0, where="core")
    outside = ts.Equation(-ts.Laplacian(), 1.0, where="rest")
    joined = ts.Transmission("core", "rest", flux=(theta[1], 1.0))
    return ts.Problem(domain, [inside, outside], [ts.Dirichlet(0.0), *joined])


def layered(radius: Any, k: Any, x: Any) -> Any:
    r2 = jnp.sum(x**2, axis=1)
    within = (1 - radius**2) / 4 + (radius**2 - r2) / (4 * k)
    return jnp.where(r2 < radius**2, within, (1 - r2) / 4)


def reacting(theta: Any) -> ts.Problem:
    """A reaction, a conductivity that depends on u, and a rim that radiates."""

    def flux(axis: str) -> Any:
        return ts.operator(lambda d, x: (1 + theta[1] * d() ** 2) * d(**{axis: 1}))

    equation = ts.operator(lambda d, x: theta[0] * d() ** 3) - ts.D(x=1) @ flux("x")
    rim = ts.Condition(lambda d, x: d(n=1) + theta[2] * d() ** 4)
    return ts.Problem(SQUARE, ts.Equation(equation - ts.D(y=1) @ flux("y"), 2.0), [rim])


REACTING = np.array([1.5, 0.4, 0.8])


def differences(u: Any, theta: np.ndarray, step: float) -> np.ndarray:
    """The Jacobian by differences of fourth order."""
    columns = []
    for e in step * np.eye(len(theta)):
        near, far = u(theta + e) - u(theta - e), u(theta + 2 * e) - u(theta - 2 * e)
        columns.append((8 * near - far) / (12 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("family", "theta", "choices", "within", "adjoint"),
    [
        (conducting, CONDUCTING, CELLS, 1e-5, 1e-8),
        (conducting, CONDUCTING, {"subdomains": 2, "features": 60}, 1e-4, 1e-6),
        (disc, np.array([0.8, 0.1]), CELLS | {"features": 140}, 1e-6, 1e-8),
        (box, np.array([0.9]), CELLS, 1e-4, 1e-8),
        (reacting, REACTING, CELLS | {"state": 1.0}, 1e-5, 1e-8),
    ],
    ids=["cells", "overlap", "disc", "box", "nonlinear"],
)
def test_derivatives_are_those_of_differences_and_adjoint_to_each_other(
    family: Family, theta: np.ndarray, choices: Any, within: float, adjoint: float
) -> None:
    u = ts.parametric(family, INSIDE, **choices)
    J = u.jacobian(theta)
    assert u.derived == ("differences" if family in (disc, box) else "jax")
    by_steps = differences(u, theta, 1e-2)
    assert np.max(np.abs(J - by_steps)) < within * np.max(np.abs(by_steps))
    draw = np.random.default_rng(1)
    v, w = draw.standard_normal(len(theta)), draw.standard_normal(len(INSIDE))
    tangent = jax.jvp(u, (theta,), (v,))[1]
    gradient = jax.vjp(u, theta)[1](w)[0]
    size = float(np.linalg.norm(J) * np.linalg.norm(v))
    assert np.linalg.norm(tangent - J @ v) < adjoint * size
    assert abs(float(tangent @ w - gradient @ v)) < adjoint * size * np.linalg.norm(w)


def test_a_moving_boundary_between_materials_has_the_derivative_of_the_formula() -> None:
    theta = np.array([0.5, 3.0])
    x = np.array([[0.1, 0.2], [0.0, -0.3], [0.6, 0.5], [-0.8, 0.1]])
    u = ts.parametric(material, x, subdomains=4, features=160, coupling="interfaces")
    np.testing.assert_allclose(u(theta), layered(*theta, x), atol=1e-8)
    exact = jax.jacfwd(lambda t: layered(t[0], t[1], x))(theta)
    np.testing.assert_allclose(u.jacobian(theta), exact, atol=1e-6)


def test_jax_and_differences_of_tables_agree() -> None:
    def by_numpy(theta: Any) -> ts.Problem:
        return conducting(np.asarray(theta))  # which JAX cannot follow

    ways = [ts.parametric(own, INSIDE, **CELLS) for own in (conducting, by_numpy)]
    J = [u.jacobian(CONDUCTING) for u in ways]
    np.testing.assert_allclose(J[0], J[1], atol=1e-8 * np.abs(J[0]).max())
    assert [u.derived for u in ways] == ["jax", "differences"]


def test_jit_vmap_and_trees() -> None:
    def family(theta: Any) -> ts.Problem:
        wall = ts.Dirichlet(theta["wall"])
        return ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-theta["k"] * ts.D(x=2), 1.0), [wall])

    x = INSIDE[:3, :1]
    u = ts.parametric(family, x, subdomains=2, features=20, coupling="interfaces")
    theta = {"k": 2.0, "wall": 0.5}

    def loss(own: Any) -> Any:
        return jnp.sum(u(own) ** 2)

    plain = jax.grad(loss)(theta)
    for name, value in jax.jit(jax.grad(loss))(theta).items():
        np.testing.assert_allclose(value, plain[name], rtol=1e-10)
    many = {"k": jnp.array([2.0, 3.0]), "wall": jnp.array([0.5, 0.1])}
    for name, value in jax.vmap(jax.grad(loss))(many).items():
        np.testing.assert_allclose(value[0], plain[name], rtol=1e-10)
    np.testing.assert_allclose(
        jax.jacrev(u)(theta)["k"], jax.jacfwd(u)(theta)["k"], rtol=1e-6, atol=1e-10
    )
    np.testing.assert_allclose(u(theta), u.solution(theta)(x), atol=1e-12)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.hessian(loss)(theta)


def test_a_tolerance_finds_a_discretisation_that_is_kept() -> None:
    def family(theta: Any) -> ts.Problem:
        line = ts.Box(x=(0, theta[1]))
        return ts.Problem(line, ts.Equation(-theta[0] * ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])

    u = ts.parametric(family, [0.5], tol=1e-8)
    np.testing.assert_allclose(u.jacobian([2.0, 1.0]), [[-0.0625, 0.25]], atol=1e-7)
    with pytest.raises(ValueError, match="theta moves the domain, and tol finds"):
        u([2.0, 1.1])


def test_a_gradient_costs_no_further_factorisation() -> None:
    u = ts.parametric(conducting, INSIDE, **CELLS)
    jax.grad(lambda t: jnp.sum(u(t)))(CONDUCTING)
    u.jacobian(CONDUCTING)
    assert u.factorisations == 1


def test_operators_of_a_system_and_columns() -> None:
    a, b = ts.Field("a"), ts.Field("b")

    def family(k: Any) -> ts.Problem:
        first = ts.Equation(-k * ts.D(x=2) @ a - b, 0.0)
        second = ts.Equation(-ts.D(x=2) @ b, 2.0)
        walls = [ts.Dirichlet(0.0, of=a), ts.Dirichlet(0.0, of=b)]
        return ts.Problem(ts.Box(x=(0, 1)), [first, second], walls)

    x, choices = np.array([0.3, 0.6]), {"subdomains": 2, "features": 20, "coupling": "interfaces"}
    both = ts.parametric(family, x, of=[a, ts.D(x=1) @ b], **choices)
    assert both(2.0).shape == (2, 2)
    np.testing.assert_allclose(both(2.0)[:, 1], 1 - 2 * x, atol=1e-8)
    slope = jax.jacfwd(both)(2.0)
    np.testing.assert_allclose(slope[:, 0], -both(2.0)[:, 0] / 2, atol=1e-8)
    np.testing.assert_allclose(slope[:, 1], 0.0, atol=1e-8)
    with pytest.raises(ValueError, match=r"unknowns a, b: say whose values are wanted, of=Field"):
        ts.parametric(family, x, **choices)(2.0)


def laplace(domain: ts.Box, source: Any = 1.0) -> ts.Problem:
    return ts.Problem(domain, ts.Equation(-ts.Laplacian(), source), [ts.Dirichlet(0.0)])


def test_a_kink_is_refused() -> None:
    u = ts.parametric(lambda t: laplace(SQUARE, lambda p: abs(t) * p[:, 0]), INSIDE, **CELLS)
    assert float(jax.jvp(u, (1.0,), (1.0,))[1][0]) > 0
    again = ts.parametric(lambda t: laplace(SQUARE, lambda p: abs(t) * p[:, 0]), INSIDE, **CELLS)
    with pytest.raises(ValueError, match="not differentiable in theta"):
        again.jacobian(0.0)


def test_another_topology_is_refused() -> None:
    def family(x: Any) -> ts.Problem:
        return laplace(ts.Box(x=(0, 1), y=(0, 1)) - ts.Ball(x=x, y=0.7, radius=0.2))  # type: ignore[arg-type]

    u = ts.parametric(family, INSIDE[:1], **CELLS)
    u(0.7)
    with pytest.raises(ValueError, match="changes the domain's topology, from 1 piece with 1 hole"):
        u(0.9)


@pytest.mark.parametrize(
    ("family", "at", "theta", "message"),
    [
        (lambda t: laplace(SQUARE), [[0.5, 2.0]], 1.0, "lie outside Box"),
        (lambda t: None, INSIDE, 1.0, "must return a Problem"),
        (lambda t: laplace(SQUARE), INSIDE, {}, "has no numbers"),
        (lambda t: laplace(SQUARE), INSIDE, np.nan, "not finite"),
    ],
)
def test_bad_input_is_named(family: Any, at: Any, theta: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        ts.parametric(family, at, **CELLS)(theta)


def test_statements_must_stay() -> None:
    def family(k: Any) -> ts.Problem:
        walls = [ts.Dirichlet(0.0, name="cold" if k < 1 else "warm")]
        return ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 1.0), walls)

    u = ts.parametric(family, INSIDE, **CELLS)
    u(0.5)
    with pytest.raises(ValueError, match="has other statements than before"):
        u(2.0)


def test_what_is_not_linear_in_u_is_not_observed() -> None:
    u = ts.parametric(reacting, INSIDE, of=ts.operator(lambda d, x: d() ** 2), **CELLS)
    with pytest.raises(ValueError, match=r"apply the function to that, f\(u\(theta\)\)"):
        u(REACTING)


def test_a_nonlinear_problem_without_a_solution_says_so() -> None:
    def bratu(k: Any) -> ts.Problem:
        equation = ts.Equation(lambda d, x: -d(x=2) - k * jnp.exp(d()))
        return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)])

    u = ts.parametric(bratu, at=[0.5], subdomains=2, features=16, coupling="interfaces")
    assert abs(float(u(1.0)[0]) - 0.140539) < 1e-6
    with pytest.raises(ValueError, match=r"there is no u at theta=\[5\]: .*nearly singular"):
        u(5.0)
