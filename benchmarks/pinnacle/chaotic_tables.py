"""What is right for the reaction of Gray and Scott: Fourier series and exponential steps."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft2, rfft2

from tessella.gallery.reference.fourier import exponential_steps

Values = tuple[np.ndarray, np.ndarray]


def spots(finer: bool) -> Values:
    """u and v at 32 x 32 points, every 50 units of time."""
    n = 384 if finer else 256
    k = np.pi * np.fft.fftfreq(n, 1 / n)[:, None]
    square = k**2 + (np.pi * np.arange(n // 2 + 1)) ** 2
    L = np.stack([-1e-5 * square - 0.04, -5e-6 * square - 0.1])
    s = -1 + 2 * np.arange(n) / n
    x, y = s[:, None], s
    u = 1 - np.exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2))
    v = np.exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2))

    def reaction(w: np.ndarray) -> np.ndarray:
        u, v = irfft2(w, (n, n))
        made = u * v**2
        return np.asarray(rfft2(np.stack([0.04 - made, made])))

    times = np.linspace(0, 200, 5)
    step = 0.25 if finer else 0.5
    found = irfft2(exponential_steps(L, reaction, rfft2(np.stack([u, v])), times, step), (n, n))
    every = n // 32
    grid = np.stack(np.meshgrid(times, s[::every], s[::every], indexing="ij"), axis=-1)
    points = grid.reshape(-1, 3)[:, [1, 2, 0]]
    return points, found[:, :, ::every, ::every].transpose(0, 2, 3, 1).reshape(-1, 2)
