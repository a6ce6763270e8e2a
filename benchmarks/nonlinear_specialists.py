"""What a specialist's thirty lines do for nonlinear problems: Chebyshev collocation and Newton's
method. In time it is exponential differencing, `tessella.gallery.reference.fourier`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import tessella as ts
from tessella.gallery.reference.chebyshev import (
    chebyshev_points,
    differentiation,
    interpolation,
)
from tessella.geometry.functions import function_values

Residual = Callable[[dict[str, Any]], Any]
"""F of the values "u", "x", "xx", ... of the unknown and its derivatives."""


def collocated(
    problem: ts.Problem, residual: Residual, n: int
) -> Callable[[np.ndarray], np.ndarray]:
    """F(u, u_x, ...) = f on the box of a problem, with its right side and exact boundary values, by
    polynomials of degree n along every axis. It starts from the harmonic function."""
    box = problem.domain
    axes = [chebyshev_points(n, low, high) for low, high in box.bounds]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    rim = np.any([(points[:, i] == x[0]) | (points[:, i] == x[-1]) for i, x in enumerate(axes)], 0)
    D = [differentiation(x) for x in axes]
    one = np.eye(n + 1)
    if len(axes) == 1:
        matrices = {"u": one, "x": D[0], "xx": D[0] @ D[0]}
    else:
        x, y = np.kron(D[0], one), np.kron(one, D[1])
        matrices = {"u": np.eye(len(points)), "x": x, "y": y, "xy": np.kron(D[0], D[1])}
        matrices |= {"xx": np.kron(D[0] @ D[0], one), "yy": np.kron(one, D[1] @ D[1])}
    right = function_values(problem.equations[0].rhs, points)
    u = np.where(rim, problem.exact_values(points), 0.0)
    laplacian = sum(matrices[name] for name in ("xx", "yy") if name in matrices)
    u[~rim] = -np.linalg.solve(laplacian[np.ix_(~rim, ~rim)], (laplacian @ u)[~rim])
    for _ in range(30):
        given = {name: M @ u for name, M in matrices.items()}
        missed = np.asarray(residual(given)) - right
        J = np.zeros_like(matrices["u"])
        for name, M in matrices.items():
            unit = {k: np.ones_like(u) if k == name else np.zeros_like(u) for k in given}
            J += np.asarray(jax.jvp(residual, (given,), (unit,))[1])[:, None] * M
        change = np.zeros_like(u)
        change[~rim] = np.linalg.solve(J[np.ix_(~rim, ~rim)], missed[~rim])
        u = u - change
        if np.max(np.abs(change)) < 1e-12 * np.max(np.abs(u)):
            break

    def at(where: np.ndarray) -> np.ndarray:
        parts = [interpolation(x, where[:, i]) for i, x in enumerate(axes)]
        if len(parts) == 1:
            return np.asarray(parts[0] @ u)
        return np.asarray(np.sum((parts[0] @ u.reshape(n + 1, -1)) * parts[1], axis=1))

    return at
