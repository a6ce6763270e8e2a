"""Waves to measure: what happens, how it is marched by hand, what NGSolve needs for the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.waves_ngsolve import Elements, Formula, Snapshots, chebyshev
from tessella.problem.hard import stated

TIMES, ALONG, ON_A_LINE = 40, 21, 400
"""Errors are measured at so many times, the end among them, and places along every axis; in one
dimension of space at more."""

LATE = 0.95
"""From this part of the time on an error is a late one."""

CIRCLES = (((0.0, 0.0), 1.0), ((0.3, 0.2), 0.25))
"""Centre and radius of the disc and of its hole."""


def gaussian(width: float, T: float) -> ts.Problem:
    """The paper's wave from a Gaussian at rest, its hard constraints stated as conditions."""
    found = stated(ts.gallery.get("wave").problem(**{"lambda": width, "T": T}))
    assert found is not None
    return dataclasses.replace(found, name=f"wave {width:g}, T = {T:g}")


def bump(x: Any, y: Any, library: Any, at: tuple[float, float], width: float) -> Any:
    return library.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * width**2))


def two_modes(x: Any, y: Any, library: Any) -> Any:
    slow, fast = library.sin(np.pi * x), library.sin(2 * np.pi * x)
    return (slow + 0.5 * fast) * library.sin(np.pi * y)


def modes(T: float) -> ts.Problem:
    """Two modes of the unit square."""

    def exact(p: np.ndarray) -> np.ndarray:
        x, y, t = p.T
        slow = np.sin(np.pi * x) * np.cos(np.sqrt(2) * np.pi * t)
        fast = np.sin(2 * np.pi * x) * np.cos(np.sqrt(5) * np.pi * t)
        return np.asarray((slow + 0.5 * fast) * np.sin(np.pi * y))

    return from_rest(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, T)), two_modes, f"two modes, T = {T:g}", exact=exact
    )


def from_rest(
    domain: ts.Domain,
    start: Formula,
    name: str,
    speed: Formula | None = None,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
) -> ts.Problem:
    """u_tt = c^2 Laplace(u), u = 0 on the walls."""

    def squared(p: np.ndarray) -> np.ndarray:
        assert speed is not None
        return np.asarray(speed(p[:, 0], p[:, 1], np) ** 2)

    space = ts.Laplacian("x", "y")
    return ts.Problem(
        domain,
        ts.Equation(ts.D(t=2) - (space if speed is None else squared * space)),
        [
            ts.Dirichlet(0.0),
            ts.Initial(lambda p: start(p[:, 0], p[:, 1], np)),
            ts.InitialVelocity(0.0),
        ],
        exact=exact,
        name=name,
    )


def around(T: float, width: float = 0.02) -> ts.Problem:
    """A pulse carried around a circle."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-(((p[:, 0] - p[:, 1]) % 1 - 0.5) ** 2) / (2 * width**2)))

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=1) + ts.D(x=1)),
        [ts.Periodic("x"), ts.Initial(exact)],
        exact=exact,
        name=f"advection around, T = {T:g}",
    )


def three_waves(x: Any, y: Any, library: Any, k: float) -> Any:
    ways = [(np.cos(a), np.sin(a)) for a in (0.3, 1.4, 2.6)]
    return sum(library.cos(k * (c * x + s * y) + i) for i, (c, s) in enumerate(ways))


def helmholtz(k: float) -> ts.Problem:
    """Three plane waves crossing the unit square, given on its boundary."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.asarray(three_waves(p[:, 0], p[:, 1], np, k))

    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        ts.Equation(ts.Laplacian() + k**2),
        [ts.Dirichlet(exact)],
        exact=exact,
        name=f"Helmholtz, k = {k:g}",
    )


def varying(x: Any, y: Any, library: Any) -> Any:
    """Speed."""
    return 1 + 0.5 * library.sin(2 * np.pi * x) + 0 * y


MIDDLE, ASIDE = (0.5, 0.5), (-0.45, -0.15)
IN_THE_SQUARE = partial(bump, at=MIDDLE, width=0.1)
ON_THE_DISC = partial(bump, at=ASIDE, width=0.1)


def variable_speed() -> ts.Problem:
    return from_rest(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 1)), IN_THE_SQUARE, "variable speed, T = 1", varying
    )


def holed_disc() -> ts.Problem:
    (centre, radius), (hole, small) = CIRCLES
    disc = ts.Ball(x=centre[0], y=centre[1], radius=radius)
    shape = disc - ts.Ball(x=hole[0], y=hole[1], radius=small, name="hole")
    return from_rest(shape.over(t=(0, 1)), ON_THE_DISC, "disc with a hole, T = 1")


@dataclass(frozen=True)
class Peer:
    """What NGSolve takes: elements, and the size and shift of a Krylov space, all found by trying
    those of degree 4 to 12 for the least CPU seconds to the error wanted."""

    elements: Elements
    size: int
    shift: float
    start: Formula
    speed: Formula | None = None
    fastest: float = 1.0


@dataclass(frozen=True)
class Row:
    """A wave marched by hand to about an error."""

    problem: ts.Problem
    to: float
    slabs: int
    cells: tuple[int, ...]
    features: int
    peer: Peer | None = None
    reference: tuple[Elements, Elements] | None = None
    """Where no exact solution is known: elements of two resolutions, the finer first."""

    @property
    def points(self) -> np.ndarray:
        """(x, ..., t), all places at the first time, then at the next."""
        domain = self.problem.domain
        n = ON_A_LINE if domain.dimension == 2 else ALONG
        shares = (np.arange(n) + 0.5) / n
        low, high = domain.lower[:-1], domain.upper[:-1]
        axes = [a + (b - a) * shares for a, b in zip(low, high, strict=True)]
        places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        middle = np.full(len(places), np.mean(domain.bounds[-1]))
        places = places[domain.contains(np.column_stack([places, middle]))]
        return np.concatenate(
            [np.column_stack([places, np.full(len(places), t)]) for t in self.times]
        )

    @property
    def times(self) -> np.ndarray:
        low, high = self.problem.domain.bounds[-1]
        return low + (high - low) * np.arange(1, TIMES + 1) / TIMES

    def solution(self) -> tuple[np.ndarray, float | None]:
        """What is right at the points; and how far two resolutions of NGSolve are apart, where that
        is what we have."""
        points = self.points
        if self.problem.exact is not None:
            return np.asarray(self.problem.exact_values(points)).ravel(), None
        assert self.peer is not None and self.reference is not None
        fine, coarse = (self._converged(elements)(points) for elements in self.reference)
        return fine, normalised(coarse, fine)

    def _converged(self, elements: Elements) -> Snapshots:
        peer = self.peer
        assert peer is not None
        return chebyshev(elements, peer.start, self.times, peer.speed, peer.fastest)

    def errors(self, values: np.ndarray, right: np.ndarray) -> tuple[float, float]:
        """Normalised L1 error of all times, and of the last ones."""
        late = self.points[:, -1] > LATE * self.problem.domain.upper[-1]
        return normalised(values, right), normalised(values[late], right[late], right)


def normalised(values: np.ndarray, right: np.ndarray, all_of: np.ndarray | None = None) -> float:
    """mean |u - right| / std(right), the spread being that of all."""
    return float(np.mean(np.abs(values - right)) / np.std(right if all_of is None else all_of))
