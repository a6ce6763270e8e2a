"""What is right for a wave through a medium that jumps: cosines in space, leapfrog in time."""

from __future__ import annotations

import numpy as np

from benchmarks.pinnacle.wave import FAST, field, hump

PI = np.pi
Values = tuple[np.ndarray, np.ndarray]


def jumping(finer: bool) -> Values:
    """u_tt = Laplace(u) / m at the middles of n x n cells, m the mean of 1 / c over each."""
    from scipy.fft import dctn, idctn

    n, times = (256 if finer else 192), np.linspace(0.25, 5, 20)
    x = (np.arange(n) + 0.5) * 2 / n - 1
    k = PI / 2 * np.arange(n)
    laplacian = -(k[:, None] ** 2 + k**2)
    c = 1 / _slowness(n)
    every = int(np.ceil(0.25 * n * PI * np.sqrt(FAST / 2) / 1.8))
    dt = 0.25 / every

    def rate(u: np.ndarray) -> np.ndarray:
        return c * idctn(laplacian * dctn(u))

    X, Y = np.meshgrid(x, x, indexing="ij")
    u = np.asarray(hump(np.column_stack([X.ravel(), Y.ravel()]))).reshape(n, n)
    before = u + dt**2 / 2 * rate(u)
    at = 2 * np.random.default_rng(7).random((300, 2)) - 1
    cx, cy = (np.cos(np.outer(a + 1, k)) * np.where(k > 0, 1, 0.5) / n for a in at.T)
    found = []
    for _ in times:
        for _ in range(every):
            before, u = u, 2 * u - before + dt**2 * rate(u)
        found.append(np.sum((cx @ dctn(u)) * cy, axis=1))
    points = np.column_stack([np.tile(at, (len(times), 1)), np.repeat(times, len(at))])
    return points, np.concatenate(found)


def _slowness(n: int, parts: int = 6) -> np.ndarray:
    """1 / c, averaged over `parts` x `parts` points of each of n x n cells."""
    fine = (np.arange(n * parts) + 0.5) * 2 / (n * parts) - 1
    mean = np.empty((n, n))
    for i in range(n):
        X, Y = np.meshgrid(fine[i * parts : (i + 1) * parts], fine, indexing="ij")
        f = np.asarray(field(np.column_stack([X.ravel(), Y.ravel()])))
        mean[i] = np.where(f > 0, 1 / FAST, 1.0).reshape(parts, n, parts).mean(axis=(0, 2))
    return mean
