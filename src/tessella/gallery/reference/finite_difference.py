"""The wave equation by finite differences: the paper's reference (its appendix).

u_tt = c(x)^2 Laplace(u) with u = 0 on the walls, on a regular grid with the walls on it. Gradients
live on the staggered half points between the nodes, their differences on the nodes again; time
advances by leapfrog. Second order in space and time.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tessella.geometry.box import Box
from tessella.geometry.functions import Function, function_values
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import Array

STENCIL = 4
"""Nodes per axis, time included, that interpolation between nodes takes: cubic, fourth order."""


@dataclass(frozen=True)
class FiniteDifferenceWave:
    """u(0) = initial, u_t(0) = velocity, u = 0 on the walls of the spatial axes.

    domain           spatial axes, then t from 0: Box(x=(-1, 1), y=(-1, 1), t=(0, 0.5))
    initial          a function of the (n, d) points of space, and so are the next two, or numbers
    speed            c; it may vary in space
    velocity         u_t at t = 0
    points_per_axis  nodes along every spatial axis, walls included; the error falls with their
                     square. For a pulse of width lambda the paper's density is 10 per lambda
    time_step        at most the stability limit 1 / (c sqrt(sum 1/h_i^2)); by default a quarter of
                     it, as in the paper's runs, where the error is that of the space grid

    Call it with scattered (n, d + 1) points (x, ..., t): it runs until the last time asked for and
    interpolates as it passes. Nothing is kept between calls.
    """

    domain: Box
    initial: Function
    speed: float | Function = 1.0
    velocity: float | Function = 0.0
    points_per_axis: int | Sequence[int] = 101
    time_step: float | None = None

    def __post_init__(self) -> None:
        if self.domain.axes[-1] != "t" or self.domain.dimension < 2:
            raise ValueError(f"domain needs spatial axes and then t, got {self.domain!r}")
        if self.domain.bounds[-1][0] != 0:
            raise ValueError(f"the time axis must begin at 0, got {self.domain.bounds[-1]}")
        d = self.domain.dimension - 1
        given = np.atleast_1d(self.points_per_axis)
        if given.size not in (1, d) or np.any(given != np.round(given)) or np.any(given < STENCIL):
            raise ValueError(
                f"points_per_axis must be one whole number of at least {STENCIL}, or one per "
                f"spatial axis, got {self.points_per_axis!r}"
            )
        dt = self.time_step
        if dt is not None and not (math.isfinite(dt) and dt > 0):
            raise ValueError(f"time_step must be a positive number, got {dt!r}")
        if dt is not None and dt > self.stability_limit * (1 + 1e-12):
            raise ValueError(
                f"time_step={dt:g} is unstable: with spacing {_plain(self.spacing)} and wave speed "
                f"up to {self._speed.max():g} a wave would cross more than the grid's stencil in "
                f"one step, and errors would grow without bound; use at most "
                f"{self.stability_limit:.4g}, or fewer points_per_axis"
            )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        given = np.atleast_1d(self.points_per_axis).astype(int)
        return tuple(np.broadcast_to(given, (self.domain.dimension - 1,)).tolist())

    @cached_property
    def spacing(self) -> Array:
        """h_i, the distance of neighbouring nodes per spatial axis."""
        return (self.domain.upper - self.domain.lower)[:-1] / (np.array(self.counts) - 1)

    @cached_property
    def stability_limit(self) -> float:
        """The largest stable time step (Courant, Friedrichs and Lewy)."""
        return float(1 / (self._speed.max() * math.sqrt(np.sum(self.spacing**-2.0))))

    @cached_property
    def step(self) -> float:
        """The time step taken."""
        return self.time_step if self.time_step is not None else self.stability_limit / 4

    @cached_property
    def _nodes(self) -> Array:
        ticks = [
            np.linspace(low, high, n)
            for (low, high), n in zip(self.domain.bounds[:-1], self.counts, strict=True)
        ]
        return np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(ticks))

    @cached_property
    def _speed(self) -> Array:
        speed = function_values(self.speed, self._nodes, "speed").reshape(self.counts)
        if not np.all(speed > 0):
            raise ValueError(f"speed must be positive everywhere, got {speed.min():g} somewhere")
        return speed

    def __call__(self, points: ArrayLike) -> Array:
        return self.at(points)

    def at(self, points: ArrayLike, progress: Progress | None = None) -> Array:
        """Values at scattered points; `progress` gets (steps, steps in all, 0)."""
        x = self.domain.points(points)
        t = x[:, -1]
        if len(x) and not (t.min() >= 0 and np.isfinite(t.max())):
            raise ValueError(f"times must be finite and at least 0, got {t.min():g} to {t.max():g}")
        last = max(math.ceil(t.max(initial=0.0) / self.step - 1e-9), STENCIL - 1)
        # Points of the interval [k, k+1] take the fields k-1 .. k+2, at the ends the nearest four.
        first = np.clip(np.floor(t / self.step).astype(int) - 1, 0, last - STENCIL + 1)
        order = np.argsort(first, kind="stable")
        starts = np.searchsorted(first[order], np.arange(last + 2))
        values = np.empty(len(x))
        fields: deque[Array] = deque(maxlen=STENCIL)
        for k, field in enumerate(itertools.islice(self._fields(), last + 1)):
            fields.append(field)
            begin = k - STENCIL + 1
            if begin >= 0:
                chosen = order[starts[begin] : starts[begin + 1]]
                in_time = _cubic_weights(t[chosen] / self.step - begin)
                values[chosen] = sum(
                    w * self._interpolate(f, x[chosen, :-1])
                    for w, f in zip(in_time, fields, strict=True)
                )
            if progress:
                progress(k, last, 0.0)
        return values

    def _fields(self) -> Iterator[Array]:
        """u at the nodes at t = 0, dt, 2 dt, ..."""
        dt, squared = self.step, (self.step * self._speed) ** 2
        inside = tuple(slice(1, -1) for _ in self.counts)
        old = np.zeros(self.counts)
        old[inside] = function_values(self.initial, self._nodes, "initial").reshape(self.counts)[
            inside
        ]
        rate = function_values(self.velocity, self._nodes, "velocity").reshape(self.counts)
        yield old
        # Taylor's first step, u + dt u_t + dt^2/2 u_tt, is as accurate as the leapfrog after it.
        now = old.copy()
        now[inside] += dt * rate[inside] + 0.5 * squared[inside] * self._laplacian(old)
        yield now
        while True:
            new = np.zeros(self.counts)
            new[inside] = 2 * now[inside] - old[inside] + squared[inside] * self._laplacian(now)
            old, now = now, new
            yield now

    def _laplacian(self, u: Array) -> Array:
        """Differences of the gradients at the half points, at the interior nodes."""
        total: Array = np.zeros(tuple(n - 2 for n in self.counts))
        for axis, h in enumerate(self.spacing):
            strip = tuple(
                slice(None) if i == axis else slice(1, -1) for i in range(len(self.counts))
            )
            gradient = np.diff(u[strip], axis=axis) / h
            total += np.diff(gradient, axis=axis) / h
        return total

    def _interpolate(self, field: Array, x: Array) -> Array:
        """Cubic in every spatial axis; the stencil moves inwards at the walls."""
        if not len(x):
            return np.zeros(0)
        s = (x - self.domain.lower[:-1]) / self.spacing
        first = np.clip(np.floor(s).astype(int) - 1, 0, np.array(self.counts) - STENCIL)
        weights = [_cubic_weights(s[:, i] - first[:, i]) for i in range(x.shape[1])]
        values = np.zeros(len(x))
        for offset in itertools.product(range(STENCIL), repeat=x.shape[1]):
            at = tuple(first[:, i] + o for i, o in enumerate(offset))
            values += math.prod(w[o] for w, o in zip(weights, offset, strict=True)) * field[at]
        return values


def _cubic_weights(s: Array) -> Array:
    """Lagrange weights (4, n) of the nodes 0, 1, 2, 3 at the positions s."""
    return np.stack(
        [
            math.prod(((s - j) / (i - j) for j in range(STENCIL) if j != i), start=np.ones_like(s))
            for i in range(STENCIL)
        ]
    )


def _plain(values: Array) -> str:
    return " x ".join(f"{v:.4g}" for v in values)
