"""Parameters: gradients against differences, and coefficients found from measurements.

PInv and HInv are stated as PINNacle does (Hao et al. 2023, arXiv 2306.08827): u is measured at 2,500
points with noise of 0.1, f is known, the coefficient a is known on the boundary, and nothing is said
of u there or at the start. What u is there is looked for too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.harness import save, table

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
CELLS = ts.Method(subdomains=4, features=160, coupling="interfaces")
PI = np.pi
SMOOTH, DISC = (6, 200), (5, 200)
"""Subdomains and features."""


def _conduction(a: Callable[[Any], Any]) -> ts.Operator:
    return ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1))  # type: ignore[operator]


def _cosines(theta: Any, counts: tuple[int, int]) -> Callable[[Any], Any]:
    """exp of cosines on the unit square."""

    def a(p: Any) -> Any:
        along = [
            jnp.cos(PI * p[:, i, None] * jnp.arange(float(n))) for i, n in enumerate(counts)
        ]
        return jnp.exp(jnp.einsum("ni,nj,ij->n", *along, theta.reshape(counts)))

    return a


def gradients() -> None:
    """30 parameters of a conductivity: one gradient against central differences of solves."""
    draw = np.random.default_rng(0)
    x, w = draw.random((50, 2)), draw.standard_normal(50)

    def problem_of(theta: Any) -> ts.Problem:
        load = ts.Equation(-_conduction(_cosines(theta, (6, 5))), lambda p: 10 * p[:, 0])
        return ts.Problem(SQUARE, load, [ts.Dirichlet(lambda p: p[:, 1])])

    u = ts.parametric(problem_of, x, CELLS)

    def loss(theta: Any) -> Any:
        return jnp.sum(w * u(theta) ** 2)

    theta = 0.1 * draw.standard_normal(30)
    for k in range(5):
        jax.grad(loss)(theta + 1e-3 * k)
    solve, both = [], []
    for k in range(9):
        new = theta + 1e-3 * (10 + k)
        begun = time.perf_counter()
        loss(new).block_until_ready()
        solve.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        jax.grad(loss)(new).block_until_ready()
        both.append(time.perf_counter() - begun)
    found, h = np.asarray(jax.grad(loss)(theta)), 1e-4
    steps = np.array([float(loss(theta + e) - loss(theta - e)) for e in h * np.eye(30)]) / (2 * h)
    cosine = found @ steps / np.linalg.norm(found) / np.linalg.norm(steps)
    row = {
        "parameters": 30,
        "1 - cosine": 1 - cosine,
        "relative difference": np.linalg.norm(found - steps) / np.linalg.norm(steps),
        "solve ms": 1e3 * float(np.median(solve)),
        "gradient ms": 1e3 * float(np.median(both)),
        "gradient / solve": float(np.median(both) / np.median(solve)),
        "tables by": u.derived,
    }
    table("Gradient in 30 parameters", [row])
    save("gradients", [row])


def inverse() -> None:
    """An inclusion without noise, and PInv and HInv with it: error of what is found, seconds."""
    rows = [_inclusion(), _disc(), *(_noisy(own, seed) for own in (_pinv, _hinv) for seed in range(3))]
    table("Found from measurements", rows)
    save("inverse", rows)


def _around(theta: Any, p: Any, slope: bool = False) -> Any:
    """The potential z + z^2 (its real part) around a disc, and inside it; or its slope along x."""
    k, radius, x, y = theta
    z, found = p[:, 0] - x + 1j * (p[:, 1] - y), 0.0
    beta, outside = (k - 1) / (k + 1), np.abs(z) > radius
    for n in (1, 2):
        away = np.where(outside, z, 1.0)
        field, answer = (z**n, -beta * radius ** (2 * n) / away**n)
        if slope:
            field, answer = n * z ** (n - 1), n * beta * radius ** (2 * n) / away ** (n + 1)
        found = found + np.where(outside, field + answer, (1 - beta) * field).real
    return found


def _fluxes() -> np.ndarray:
    """Points on two walls of the square, through which fluxes are measured."""
    s = np.linspace(0.05, 0.95, 12)
    return np.concatenate([np.stack([side * np.ones(12), s], axis=1) for side in (0.0, 1.0)])


def _inclusion() -> dict[str, Any]:
    """A place that conducts better: how much, where, how wide, from the fluxes through two walls
    that a potential and a source drive; all data are those of a formula."""
    truth = np.array([2.0, 0.4, 0.55, 0.25])

    def source(p: Any) -> Any:
        """Of z + z^2 (its real part)."""
        away = p - truth[1:3]
        slope = np.stack([1 + 2 * p[:, 0], -2 * p[:, 1]], axis=1)
        bump = truth[0] * np.exp(-np.sum(away**2, axis=1) / truth[3] ** 2)
        return 2 / truth[3] ** 2 * bump * np.sum(away * slope, axis=1)

    def problem_of(theta: Any) -> ts.Problem:
        def a(p: Any) -> Any:
            away = (p[:, 0] - theta[1]) ** 2 + (p[:, 1] - theta[2]) ** 2
            return 1 + theta[0] * jnp.exp(-away / theta[3] ** 2)

        walls = ts.Dirichlet(lambda p: p[:, 0] + p[:, 0] ** 2 - p[:, 1] ** 2)
        return ts.Problem(SQUARE, ts.Equation(-_conduction(a), source), [walls])

    x = _fluxes()
    cells = ts.Method(subdomains=SMOOTH[0], features=SMOOTH[1], coupling="interfaces")
    start, data = np.array([1.0, 0.5, 0.5, 0.3]), (x, 1 + 2 * x[:, 0])
    return _row("inclusion", problem_of, data, start, cells, truth)


def _disc() -> dict[str, Any]:
    """The same of a disc, whose boundary moves; all data are those of a formula."""
    truth = np.array([3.0, 0.2, 0.55, 0.425])

    def problem_of(theta: Any) -> ts.Problem:
        k, radius, x, y = theta
        domain = ts.Divided(SQUARE, core=ts.Ball(x=x, y=y, radius=radius))
        inside = ts.Equation(-k * ts.Laplacian(), 0.0, where="core")
        outside = ts.Equation(-ts.Laplacian(), 0.0, where="rest")
        joined = ts.Transmission("core", "rest", flux=(k, 1.0))
        walls = ts.Dirichlet(lambda p: _around(truth, p))
        return ts.Problem(domain, [inside, outside], [walls, *joined])

    x = _fluxes()
    cells = ts.Method(subdomains=DISC[0], features=DISC[1], coupling="interfaces")
    start = np.array([2.0, 0.15, 0.5, 0.5])
    return _row("disc", problem_of, (x, _around(truth, x, True)), start, cells, truth)


def _row(
    case: str, problem_of: Any, data: Any, start: Any, cells: ts.Method, truth: np.ndarray
) -> dict[str, Any]:
    found, seconds = _timed(
        lambda: ts.identify(problem_of, data, start, cells, of=ts.D(x=1))
    )
    print(found)
    error = float(np.max(np.abs(found.values - truth)))
    return {"case": case, "parameters": len(truth), "error": error, "seconds": seconds}


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    found = run()
    return found, time.perf_counter() - begun
