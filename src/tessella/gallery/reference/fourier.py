"""Periodic problems in time by Fourier series and exponential time differencing (ETDRK4).

u_t = L u + N(u) with L diagonal in the Fourier coefficients v: Cox and Matthews' Runge-Kutta method
of fourth order treats L exactly; its coefficients are means over circles (Kassam and Trefethen).

`python -m tessella.gallery.reference.fourier` computes the tables beside this file again: each is
computed twice, the second time with twice the steps and more modes, and tells how far they are
apart. The tables are what the gallery reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.fft import irfft, rfft
from numpy.typing import NDArray

from tessella.machine.arrays import Array

Coefficients = NDArray[Any]

KEPT, TIMES = 160, 51
"""Equidistant places and times of a table, from the left end and from the start."""

CIRCLE = np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)


def exponential_steps(
    L: Coefficients,
    N: Callable[[Coefficients], Coefficients],
    v: Coefficients,
    times: Array,
    step: float,
) -> Coefficients:
    """v at all `times`, the first of which is that of the given v; steps are at most `step`."""
    found, before = [v], 0.0
    for duration in np.diff(times):
        count = int(np.ceil(duration / step - 1e-9))
        h = duration / count
        if abs(h - before) > 1e-12 * h:
            E, half, Q, f1, f2, f3 = _coefficients(h * L, h)
            before = h
        for _ in range(count):
            at_v = N(v)
            a = half * v + Q * at_v
            at_a = N(a)
            at_b = N(half * v + Q * at_a)
            at_c = N(half * a + Q * (2 * at_b - at_v))
            v = E * v + f1 * at_v + 2 * f2 * (at_a + at_b) + f3 * at_c
        found.append(v)
    return np.array(found)


def _coefficients(hL: Coefficients, h: float) -> tuple[Coefficients, ...]:
    z = hL[..., None] + CIRCLE
    e = np.exp(z)
    return (
        np.exp(hL),
        np.exp(hL / 2),
        h * np.mean((np.exp(z / 2) - 1) / z, axis=-1),
        h * np.mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3, axis=-1),
        h * np.mean((2 + z + e * (z - 2)) / z**3, axis=-1),
        h * np.mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3, axis=-1),
    )


def allen_cahn(n: int, steps: int) -> Array:
    """u_t = 1e-4 u_xx + 5 (u - u^3) on [-1, 1], u = x^2 cos(pi x) at t = 0.

    The initial values have a kink where the ends meet, their slopes there being 2 and -2; diffusion
    rounds it at once. So the series starts from the exact coefficients, not from those of values at
    points, and u^3 is formed on twice as many points: then modes beyond the last are missed, but do
    not disturb the others.
    """
    k = np.arange(n // 2 + 1)
    v = (-1.0) ** k * n / 2 * (_moment(k - 1) + _moment(k + 1)) + 0j

    def cubed(v: Coefficients) -> Coefficients:
        return -5 * rfft((2 * irfft(v, 2 * n)) ** 3)[: n // 2 + 1] / 2

    values = _in_time(5 - 1e-4 * (np.pi * k) ** 2, cubed, v, n, steps)
    x = places(-1.0, 1.0)
    values[0] = x**2 * np.cos(np.pi * x)
    return values


def _moment(m: NDArray[np.int_]) -> Array:
    """The integral of x^2 cos(pi m x) from 0 to 1."""
    other = 2 * (-1.0) ** m / (np.pi * np.where(m == 0, 1, m)) ** 2
    return np.where(m == 0, 1 / 3, other)


def korteweg_de_vries(n: int, steps: int) -> Array:
    """u_t + u u_x + 0.022^2 u_xxx = 0 on [-1, 1], u = cos(pi x) at t = 0 (Zabusky and Kruskal)."""
    x, k = -1 + 2 * np.arange(n) / n, np.pi * np.arange(n // 2 + 1)
    return _in_time(0.022**2 * 1j * k**3, _advected(1.0, k, n), rfft(np.cos(np.pi * x)), n, steps)


def kuramoto_sivashinsky(n: int, steps: int) -> Array:
    """u_t + 100/16 u u_x + 100/16^2 u_xx + 100/16^4 u_xxxx = 0 on [0, 2 pi],
    u = cos(x) (1 + sin(x)) at t = 0. Errors grow a thousand times, since it turns chaotic."""
    x, k = 2 * np.pi * np.arange(n) / n, np.arange(n // 2 + 1.0)
    L = 100 / 16**2 * k**2 - 100 / 16**4 * k**4
    return _in_time(L, _advected(100 / 16, k, n), rfft(np.cos(x) * (1 + np.sin(x))), n, steps)


def burgers(nu: float, n: int, steps: int) -> Array:
    """u_t + u u_x = nu u_xx on [-1, 1], u = -sin(pi x) at t = 0; `ColeHopf` knows it exactly."""
    x, k = -1 + 2 * np.arange(n) / n, np.pi * np.arange(n // 2 + 1)
    return _in_time(-nu * k**2, _advected(1.0, k, n), rfft(-np.sin(np.pi * x)), n, steps)


def _advected(speed: float, k: Coefficients, n: int) -> Callable[[Coefficients], Coefficients]:
    """-speed u u_x, its modes above two thirds left out, which products would be aliased to."""
    factor = np.where(np.arange(len(k)) < n / 3, -0.5j * speed * k, 0)
    return lambda v: factor * rfft(irfft(v, n) ** 2)


def _in_time(
    L: Coefficients,
    N: Callable[[Coefficients], Coefficients],
    v: Coefficients,
    n: int,
    steps: int,
) -> Array:
    """Values at the table's times and places."""
    if n % KEPT:
        raise ValueError(f"n must be a multiple of {KEPT}, got {n}")
    found = exponential_steps(L, N, v, np.linspace(0.0, 1.0, TIMES), 1 / steps)
    return irfft(found, n)[:, :: n // KEPT]


def places(low: float, high: float) -> Array:
    """Where the tables know u: the right end is the left one again."""
    return low + (high - low) * np.arange(KEPT) / KEPT


class Run(NamedTuple):
    """A problem, where it lives, and the modes and steps of its two runs."""

    solve: Callable[[int, int], Array]
    ends: tuple[float, float]
    rough: tuple[int, int]
    fine: tuple[int, int]

    @property
    def table(self) -> Path:
        return Path(__file__).with_name(f"{self.solve.__name__}.npy")


RUNS = {
    run.solve.__name__: run
    for run in (
        Run(allen_cahn, (-1.0, 1.0), (2560, 1600), (3840, 3200)),
        Run(korteweg_de_vries, (-1.0, 1.0), (640, 16_000), (960, 32_000)),
        Run(kuramoto_sivashinsky, (0.0, 2 * np.pi), (640, 32_000), (960, 64_000)),
    )
}


@cache
def table(name: str) -> tuple[Array, Array]:
    """Points (n, 2), x and t from 0 to 1, and the solution of one of `RUNS` there."""
    run = RUNS[name]
    t, x = np.meshgrid(np.linspace(0.0, 1.0, TIMES), places(*run.ends), indexing="ij")
    return np.stack([x.ravel(), t.ravel()], axis=1), np.load(run.table).ravel()


def main() -> None:
    for name, run in RUNS.items():
        rough, fine = run.solve(*run.rough), run.solve(*run.fine)
        apart = np.linalg.norm(fine - rough, axis=1) / np.linalg.norm(fine, axis=1)
        print(f"{name}: two runs are {apart.max():.0e} apart at most, {apart[-1]:.0e} at the end")
        np.save(run.table, fine)


if __name__ == "__main__":
    main()
