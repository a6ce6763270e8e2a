"""Balls, half-spaces and polygons; with boxes, `|`, `&` and `-` they make most domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real

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
    real_numbers,
    spelled_name,
)
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array

PAIRS = 1 << 21
"""Pairs of points and edges measured at a time."""

MOST = 4_096
"""Points on a ball of more than three dimensions."""

SHOWN = 4
"""A polygon of more vertices is printed with the first two."""

Ring = tuple[tuple[float, float], ...]


@dataclass(frozen=True, init=False, repr=False)
class Ball(Domain):
    """A disc, or with `z` a ball, or one of more dimensions; `name` is what its boundary is called.

    >>> import tessella as ts
    >>> plate = ts.Box(x=(0, 1), y=(0, 1)) - ts.Ball(x=0.3, y=0.3, radius=0.1, name="hole")
    >>> plate.parts
    ('xmin', 'xmax', 'ymin', 'ymax', 'hole')
    """

    axes: tuple[str, ...]
    centre: tuple[float, ...]
    radius: float
    name: str
    bounds: Bounds = field(compare=False)

    def __init__(self, *, radius: float, name: str = "ball", **centre: float) -> None:
        middle = _place(centre, "Ball", (2, 3) if len(centre) < 4 else (len(centre),))
        if not (isinstance(radius, Real) and 0 < radius < np.inf):
            raise ValueError(f"Ball radius must be a positive number, got {radius!r}")
        check_name(name, "Ball")
        object.__setattr__(self, "axes", tuple(centre))
        object.__setattr__(self, "centre", middle)
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "bounds", tuple((c - radius, c + radius) for c in middle))

    def __repr__(self) -> str:
        name = spelled_name(self.name, "ball")
        return f"Ball({_at(self.axes, self.centre)}, radius={self.radius:g}{name})"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def signed_distance(self, points: Array) -> Array:
        away = points - np.array(self.centre)
        return np.sqrt(np.einsum("ij,ij->i", away, away)) - self.radius

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        """Equal angles on a circle, a Fibonacci spiral on a sphere, beyond that random points."""
        h = float(np.min(spacing)) / self.radius
        if self.dimension == 2:
            n = max(8, int(np.ceil(2 * np.pi / h)))
            angle = 2 * np.pi * np.arange(n) / n
            return self._on(np.column_stack([np.cos(angle), np.sin(angle)]))
        if self.dimension > 3:
            return self.scatter_on(part, MOST, np.random.default_rng(0), around)
        n = max(16, int(np.ceil(4 * np.pi / h**2)))
        z = 1 - (2 * np.arange(n) + 1) / n
        angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
        flat = np.sqrt(1 - z**2)
        return self._on(np.column_stack([flat * np.cos(angle), flat * np.sin(angle), z]))

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        direction = draw.standard_normal((count, self.dimension))
        return self._on(direction / np.linalg.norm(direction, axis=1, keepdims=True))

    def _on(self, normals: Array) -> Surface:
        return np.array(self.centre) + self.radius * normals, normals

    def describe(self) -> Description:
        centre = dict(zip(self.axes, self.centre, strict=True))
        return {"shape": "ball", "radius": self.radius, "name": self.name, **centre}


@dataclass(frozen=True, init=False, repr=False)
class HalfSpace(Domain):
    """All points behind a line or plane.

    >>> import tessella as ts
    >>> corner = ts.HalfSpace(x=0.8, y=0.8, normal=(1, 1), name="cut")
    >>> (ts.Box(x=(0, 1), y=(0, 1)) & corner).parts
    ('xmin', 'xmax', 'ymin', 'ymax', 'cut')

    The line goes through the given point; `normal` points out of the half-space. Unbounded, so it
    is for cutting: `box & HalfSpace(...)` keeps what lies behind, `box - HalfSpace(...)` the rest.
    """

    axes: tuple[str, ...]
    point: tuple[float, ...]
    normal: tuple[float, ...]
    name: str
    bounds: Bounds = field(compare=False)

    def __init__(self, *, normal: Sequence[float], name: str = "plane", **point: float) -> None:
        at = _place(point, "HalfSpace", (2, 3))
        n = real_numbers(normal, "HalfSpace normal")
        size = float(np.linalg.norm(n))
        if n.shape != (len(at),) or not np.isfinite(size) or size == 0:
            raise ValueError(
                f"HalfSpace normal must be {len(at)} numbers ({', '.join(point)}), not all zero, "
                f"got {normal!r}"
            )
        check_name(name, "HalfSpace")
        object.__setattr__(self, "axes", tuple(point))
        object.__setattr__(self, "point", at)
        object.__setattr__(self, "normal", tuple((n / size).tolist()))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "bounds", ((-np.inf, np.inf),) * len(at))

    def __repr__(self) -> str:
        direction = ", ".join(f"{c:g}" for c in self.normal)
        name = spelled_name(self.name, "plane")
        return f"HalfSpace({_at(self.axes, self.point)}, normal=({direction}){name})"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def signed_distance(self, points: Array) -> Array:
        return np.asarray((points - np.array(self.point)) @ np.array(self.normal))

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        reach, h = self._reach(around), float(np.min(spacing))
        ticks = reach * (2 * inset(max(1, int(np.ceil(2 * reach / h)))) - 1)
        flat = np.stack(np.meshgrid(*[ticks] * (self.dimension - 1), indexing="ij"), axis=-1)
        return self._on(flat.reshape(-1, self.dimension - 1), around)

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        reach = self._reach(around)
        return self._on(reach * draw.uniform(-1, 1, (4 * count, self.dimension - 1)), around)

    def _reach(self, around: Domain) -> float:
        d = self.dimension
        return float(np.linalg.norm(around.upper[:d] - around.lower[:d])) / 2

    def _on(self, flat: Array, around: Domain) -> Surface:
        """Points given in coordinates of the plane, those in the bounding box of `around`."""
        lower, upper = around.lower[: self.dimension], around.upper[: self.dimension]
        n, middle = np.array(self.normal), (lower + upper) / 2
        foot = middle - ((middle - np.array(self.point)) @ n) * n
        along = np.linalg.svd(n[None, :])[2][1:]
        points = foot + flat @ along
        points = points[np.all((points >= lower) & (points <= upper), axis=1)]
        return points, np.tile(n, (len(points), 1))

    def describe(self) -> Description:
        point = dict(zip(self.axes, self.point, strict=True))
        return {"shape": "halfspace", "normal": self.normal, "name": self.name, **point}


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


def _place(point: dict[str, float], what: str, dimensions: tuple[int, ...]) -> tuple[float, ...]:
    if len(point) not in dimensions:
        raise ValueError(
            f"{what} needs {' or '.join(str(d) for d in dimensions)} coordinates by name, e.g. "
            f"x=0, y=0, got {', '.join(point) or 'none'}"
        )
    for axis, value in point.items():
        if not (isinstance(value, Real) and np.isfinite(float(value))):
            raise ValueError(f"{what} {axis} must be a finite number, got {value!r}")
    return tuple(float(value) for value in point.values())


def _at(axes: Sequence[str], place: Sequence[float]) -> str:
    return ", ".join(f"{axis}={value:g}" for axis, value in zip(axes, place, strict=True))
