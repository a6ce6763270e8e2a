"""Polygons with holes: their edges, the distance to them, and what is no polygon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.domain import (
    Bounds,
    Description,
    Domain,
    Surface,
    check_name,
    inset,
    join,
    spelled_name,
)
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array

PAIRS = 1 << 21
"""Pairs of points and edges measured at a time."""

SHOWN = 4
"""A polygon of more vertices is printed with the first two."""

Ring = tuple[tuple[float, float], ...]


@dataclass(frozen=True, init=False, repr=False)
class Polygon(Domain):
    """A polygon by its vertices, in either direction.

    >>> import tessella as ts
    >>> triangle = ts.Polygon([(0, 0), (2, 0), (0, 1)], name="rim")
    >>> triangle.parts, triangle.bounds
    (('rim',), ((0.0, 2.0), (0.0, 1.0)))

    `holes` are polygons cut out of it. A shapely polygon may be given instead of the vertices and
    brings its own holes. The outer edges are the part `name`, those of the holes `name_hole1`, ...
    """

    axes: tuple[str, ...]
    rings: tuple[Ring, ...]
    name: str
    bounds: Bounds = field(compare=False)

    def __init__(
        self,
        vertices: object,
        holes: Sequence[object] = (),
        name: str = "polygon",
        axes: Sequence[str] = ("x", "y"),
    ) -> None:
        if hasattr(vertices, "exterior") and hasattr(vertices, "interiors"):
            own = [ring.coords for ring in vertices.interiors]
            vertices, holes = vertices.exterior.coords, [*own, *holes]
        elif hasattr(vertices, "geoms"):
            raise ValueError(
                f"Polygon takes one polygon, got a {type(vertices).__name__} of "
                f"{len(vertices.geoms)}: join them, e.g. Polygon(a) | Polygon(b)"
            )
        check_name(name, "Polygon")
        if not isinstance(axes, Sequence) or [type(name) for name in axes] != [str, str]:
            raise ValueError(f"Polygon axes must be two names, got {axes!r}")
        check_kind(holes, Sequence, "Polygon holes", "a list of polygons' vertices")
        rings = [_ring(vertices, +1, "Polygon")]
        rings += [_ring(hole, -1, f"Polygon hole {k}") for k, hole in enumerate(holes, 1)]
        object.__setattr__(self, "axes", tuple(axes))
        object.__setattr__(self, "rings", tuple(rings))
        object.__setattr__(self, "name", name)
        outer = np.array(rings[0])
        low, high = outer.min(axis=0).tolist(), outer.max(axis=0).tolist()
        object.__setattr__(self, "bounds", tuple(zip(low, high, strict=True)))
        self._refuse_tangles()

    def __repr__(self) -> str:
        outer, *holes = (_shortened([f"({x:g}, {y:g})" for x, y in r]) for r in self.rings)
        cut = f", holes={_shortened(holes)}" if holes else ""
        axes = "" if self.axes == ("x", "y") else f", axes={self.axes}"
        return f"Polygon({outer}{cut}{spelled_name(self.name, 'polygon')}{axes})"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return (self.name, *(f"{self.name}_hole{k}" for k in range(1, len(self.rings))))

    @cached_property
    def _edges(self) -> tuple[Array, Array, NDArray[np.int64]]:
        """Starts and directions (n, 2) of all edges, and the ring each belongs to."""
        starts = [np.array(ring) for ring in self.rings]
        ends = [np.roll(ring, -1, axis=0) for ring in starts]
        owner = np.repeat(np.arange(len(starts)), [len(ring) for ring in starts])
        a = np.concatenate(starts)
        return a, np.concatenate(ends) - a, owner

    @cached_property
    def _end_heights(self) -> Array:
        """Of all edges' ends, as the next edges begin."""
        return np.concatenate([np.roll(np.array(ring)[:, 1], -1) for ring in self.rings])

    def signed_distance(self, points: Array) -> Array:
        a, e, _ = self._edges
        step = max(1, PAIRS // len(a))
        end = self._end_heights
        pieces = [_to_edges(points[i : i + step], a, e, end) for i in range(0, len(points), step)]
        return np.concatenate(pieces) if pieces else np.zeros(0)

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        a, e = self._ring_edges(part)
        counts = np.maximum(1, np.ceil(np.linalg.norm(e / spacing, axis=1) - 1e-9)).astype(int)
        return join(
            (_on_edge(start, edge, inset(n)) for start, edge, n in zip(a, e, counts, strict=True)),
            2,
        )

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        a, e = self._ring_edges(part)
        length = np.linalg.norm(e, axis=1)
        k = draw.choice(len(a), count, p=length / length.sum())
        points = a[k] + draw.random((count, 1)) * e[k]
        return points, np.column_stack([e[k, 1], -e[k, 0]]) / length[k, None]

    def _ring_edges(self, part: str) -> tuple[Array, Array]:
        a, e, owner = self._edges
        mine = owner == self.parts.index(part)
        return a[mine], e[mine]

    def _refuse_tangles(self) -> None:
        a, e, owner = self._edges
        follows = np.arange(len(a)) + 1
        ends = np.cumsum([len(ring) for ring in self.rings])
        follows[ends - 1] -= [len(ring) for ring in self.rings]
        for i in range(len(a) - 1):
            others = np.arange(i + 1, len(a))
            apart = (others != follows[i]) & (follows[others] != i)
            place = _crossing(a[i], e[i], a[others[apart]], e[others[apart]])
            if place is not None:
                raise ValueError(
                    f"{self!r} crosses or touches itself at ({place[0]:.6g}, {place[1]:.6g}): give "
                    f"the vertices in order around it; a shape of several pieces is a | b"
                )
        for ring in self.rings:
            size = float(np.max(np.ptp(ring, axis=0)))
            if abs(_area(np.array(ring))) <= 1e-12 * size**2:
                raise ValueError(
                    f"{self!r} is degenerate, its area is zero: the vertices must not lie on a line"
                )
        for k in range(1, len(self.rings)):
            first = np.array(self.rings[k][:1])
            outer = owner == 0
            if _to_edges(first, a[outer], e[outer], self._end_heights[outer])[0] > 0:
                raise ValueError(
                    f"Polygon hole {k} lies outside the polygon, e.g. its vertex "
                    f"({first[0, 0]:g}, {first[0, 1]:g}): leave it out"
                )

    def describe(self) -> Description:
        outer, *holes = self.rings
        return {
            "shape": "polygon",
            "vertices": outer,
            "holes": holes,
            "name": self.name,
            "axes": self.axes,
        }


def _ring(vertices: object, orientation: int, what: str) -> Ring:
    """Distinct vertices, counter-clockwise where orientation is 1."""
    try:
        x = np.asarray(vertices, dtype=np.float64)
    except (TypeError, ValueError):
        x = np.zeros(0)
    if x.ndim != 2 or x.shape[1] != 2 or not np.all(np.isfinite(x)):
        raise ValueError(f"{what} vertices must be finite pairs (x, y), got {vertices!r}")
    x = x[np.any(x != np.roll(x, -1, axis=0), axis=1)]
    if len(x) < 3:
        raise ValueError(f"{what} is degenerate: it has {len(x)} distinct vertices, not three")
    return tuple((float(a), float(b)) for a, b in (x if _area(x) * orientation >= 0 else x[::-1]))


def _shortened(items: Sequence[str]) -> str:
    """A list; of a long one the beginning."""
    shown = items if len(items) <= SHOWN else [*items[:2], f"... {len(items)} in all"]
    return f"[{', '.join(shown)}]"


def _area(x: Array) -> float:
    """Positive where the vertices go round counter-clockwise."""
    y = np.roll(x, -1, axis=0)
    return float(np.sum(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0])) / 2


def _to_edges(x: Array, a: Array, e: Array, end: Array) -> Array:
    """Signed distance of points to a closed set of edges, by nearest edge and crossing number.

    `end` are the heights of the edges' ends as the next edges have them: a + e may differ from that
    in its last bit, and a point at the height of a vertex would see only one of its edges.
    """
    offset = x[:, None, :] - a
    share = np.clip(np.sum(offset * e, axis=2) / np.sum(e * e, axis=1), 0.0, 1.0)
    distance = np.sqrt(np.min(np.sum((offset - share[..., None] * e) ** 2, axis=2), axis=1))
    above = a[:, 1] > x[:, None, 1]
    spans = above != (end > x[:, None, 1])
    side = e[:, 0] * offset[..., 1] - e[:, 1] * offset[..., 0]
    left = spans & ((side > 0) != above)
    return np.where(np.count_nonzero(left, axis=1) % 2 == 1, -distance, distance)


def _on_edge(start: Array, edge: Array, share: Array) -> Surface:
    points = start + share[:, None] * edge
    outward = np.array([edge[1], -edge[0]]) / np.linalg.norm(edge)
    return points, np.tile(outward, (len(points), 1))


def _crossing(a: Array, e: Array, b: Array, f: Array) -> Array | None:
    """Where the edge a..a+e meets one of the edges b..b+f, if it does."""
    across = e[0] * f[:, 1] - e[1] * f[:, 0]
    gap = b - a
    with np.errstate(divide="ignore", invalid="ignore"):
        s = (gap[:, 0] * f[:, 1] - gap[:, 1] * f[:, 0]) / across
        t = (gap[:, 0] * e[1] - gap[:, 1] * e[0]) / across
    meets = (across != 0) & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    # Parallel edges meet only if they lie on one line and their ranges overlap.
    size = e @ e
    on_line = (across == 0) & (np.abs(gap[:, 0] * e[1] - gap[:, 1] * e[0]) <= 1e-14 * size)
    s0, s1 = gap @ e / size, (gap + f) @ e / size
    first = np.maximum(np.minimum(s0, s1), 0.0)
    overlaps = on_line & (first <= np.minimum(np.maximum(s0, s1), 1.0))
    if meets.any():
        return np.asarray(a + s[np.argmax(meets)] * e)
    if overlaps.any():
        return np.asarray(a + first[np.argmax(overlaps)] * e)
    return None
