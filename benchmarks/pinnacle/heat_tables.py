"""What is right for the heat equations: polynomials, sines and NGSolve in space, and nearly nothing
lost in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.pinnacle.heat import LARGE, SMALL, medium

PI = np.pi
Values = tuple[np.ndarray, np.ndarray]


def _at_times(x: np.ndarray, times: Any, values: Any) -> Values:
    """Points (x, y, t) and values, time by time."""
    points = [np.column_stack([x, np.full(len(x), t)]) for t in times]
    return np.concatenate(points), np.concatenate(values)


def varying(finer: bool) -> Values:
    """u' = A u + b sin(pi t) with A diagonalised."""
    from tessella.gallery.reference.chebyshev import (
        chebyshev_points,
        differentiation,
        interpolation,
    )

    n = 40 if finer else 34
    x = chebyshev_points(n, 0.0, 1.0)
    inner, one = slice(1, n), np.eye(n - 1)
    D2 = np.linalg.matrix_power(differentiation(x), 2)[inner, inner]
    X, Y = (g.ravel() for g in np.meshgrid(x[inner], x[inner], indexing="ij"))
    a = np.asarray(medium(np.column_stack([X, Y])))
    values, V = np.linalg.eig(a[:, None] * (np.kron(D2, one) + np.kron(one, D2)))
    b = np.linalg.solve(V, 200 * np.sin(PI * X) * np.sin(5 * PI * Y))
    v = b / (1j * PI - values)
    w = b / (-1j * PI - values)
    at = np.random.default_rng(7).random((300, 2))
    Lx, Ly = (interpolation(x, c)[:, inner] for c in at.T)
    times, found = np.linspace(0.25, 5, 20), []
    for t in times:
        c = v * (np.exp(1j * PI * t) - np.exp(values * t))
        c -= w * (np.exp(-1j * PI * t) - np.exp(values * t))
        u = (V @ (c / 2j)).real.reshape(n - 1, n - 1)
        found.append(np.sum((Lx @ u) * Ly, axis=1))
    return _at_times(at, times, found)


def stove(finer: bool) -> Values:
    """u = s - exp(-t M^-1 K) s with s steady; exp by an integral around the spectrum (Weideman and
    Trefethen's parabola)."""
    import ngsolve as ng
    import scipy.sparse as sparse
    from netgen.geom2d import Circle, CSG2d, Rectangle

    shape = Rectangle((-8, -12), (8, 12), bc="outer")
    for kind, radius, centres in (("large", 1.0, LARGE), ("small", 0.4, SMALL)):
        for centre in centres:
            shape = shape - Circle(centre, radius, bc=kind)
    geometry = CSG2d()
    geometry.Add(shape)
    order = 5 if finer else 4
    mesh = ng.Mesh(geometry.GenerateMesh(maxh=1.0))
    mesh.Curve(order)
    space = ng.H1(mesh, order=order)
    u, v = space.TnT()
    given = mesh.BoundaryCF({"large": 5.0, "small": 1.0, "outer": 0.1})
    forms = (ng.grad(u) * ng.grad(v) * ng.dx + u * v * ng.ds, u * v * ng.dx)
    K, M = (_sparse(ng.BilinearForm(form).Assemble().mat) for form in forms)
    load = ng.LinearForm(given * v * ng.ds).Assemble().vec.FV().NumPy().copy()
    steady = sparse.linalg.spsolve(K, load)
    N, times, found = (14 if finer else 12), (0.2, 1.0, 3.0), []
    theta = (np.arange(N // 2) * 2 + 1) * PI / N
    at = _beside(3_000)
    told = ng.GridFunction(space)
    for t in times:
        z = N / t * (0.1309 - 0.1194 * theta**2 + 0.25j * theta)
        dz = N / t * (-0.2388 * theta + 0.25j)
        left = np.zeros(len(steady))
        for zk, dk in zip(z, dz, strict=True):
            part = sparse.linalg.splu((zk * M + K).tocsc()).solve((M @ steady).astype(complex))
            left += 2 * (np.exp(zk * t) * dk * part / (1j * N)).real
        told.vec.FV().NumPy()[:] = steady - left
        found.append(np.asarray(told(mesh(*at.T))).ravel())
    return _at_times(at, times, found)


def _sparse(matrix: Any) -> Any:
    import scipy.sparse as sparse

    values, columns, starts = matrix.CSR()
    parts = (np.asarray(values), np.asarray(columns), np.asarray(starts))
    return sparse.csr_matrix(parts, shape=(matrix.height, matrix.width)).tocsc()


def _beside(count: int) -> np.ndarray:
    """Random points around the pipes."""
    x = (np.random.default_rng(7).random((2 * count, 2)) - 0.5) * [16, 24]
    away = [np.hypot(*(x - c).T) > 1.001 for c in LARGE]
    away += [np.hypot(*(x - c).T) > 0.401 for c in SMALL]
    return x[np.all(away, axis=0)][:count]


def long(finer: bool) -> Values:
    """Sine series in space, exponential time differencing."""
    from scipy.fft import dstn, idstn

    from tessella.gallery.reference.fourier import exponential_steps

    n = 95 if finer else 63
    k = np.arange(1, n + 1)
    L = -0.001 * PI**2 * (k[:, None] ** 2 + k**2)
    x = k / (n + 1)
    shape = np.sin(4 * PI * x)[:, None] * np.sin(2 * PI * x)
    start = np.sin(4 * PI * x)[:, None] * np.sin(3 * PI * x)
    v = np.concatenate([dstn(start, 1).ravel(), [0.0]])

    def reaction(v: np.ndarray) -> np.ndarray:
        u = idstn(v[:-1].reshape(n, n).real, 1)
        f = 5 * (1 + 2 * np.sin(PI * v[-1].real / 4)) * shape * np.sin(u**2)
        return np.concatenate([dstn(f, 1).ravel(), [1.0]])

    times = np.linspace(0, 100, 41)
    found = exponential_steps(
        np.concatenate([L.ravel(), [0.0]]), reaction, v, times, 0.005 if finer else 0.01
    )
    at = np.random.default_rng(7).random((300, 2))
    sx, sy = (np.sin(PI * np.outer(c, k)) for c in at.T)
    values = [np.sum((sx @ w[:-1].real.reshape(n, n)) * sy, axis=1) / (n + 1) ** 2 for w in found]
    return _at_times(at, times, values)
