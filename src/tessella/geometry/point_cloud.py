"""Domains of which only points are known: inside, on the boundary, and the normals there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tessella.geometry.domain import Bounds, Description, Domain, Surface, check_name, real_numbers
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array


@dataclass(frozen=True, init=False, repr=False, eq=False)
class PointCloud(Domain):
    """Given points inside, given points on the boundary, and the outward normals there.

    >>> import tessella as ts
    >>> boundary = [(1, 0), (0, 1), (-1, 0), (0, -1)]
    >>> ts.PointCloud([(0, 0), (0.2, 0.1)], boundary, normals=boundary)
    PointCloud(2 points inside, 4 on the boundary)

    `boundary` and `normals` are arrays, or dictionaries from names of parts to arrays. No other
    points are known, so collocation takes all of them whatever density is asked, and the number
    of features is bounded by them. Inside is judged by the nearest boundary point's normal.
    """

    axes: tuple[str, ...]
    bounds: Bounds = field(compare=False)
    given: Array
    surfaces: dict[str, Surface]

    def __init__(
        self,
        interior: ArrayLike,
        boundary: ArrayLike | Mapping[str, ArrayLike],
        normals: ArrayLike | Mapping[str, ArrayLike],
        axes: Sequence[str] | None = None,
    ) -> None:
        given = _cloud(interior, "interior")
        d = given.shape[1]
        places = boundary if isinstance(boundary, Mapping) else {"boundary": boundary}
        outward = normals if isinstance(normals, Mapping) else {"boundary": normals}
        if set(places) != set(outward):
            raise ValueError(
                f"PointCloud boundary has the parts {', '.join(places)}, but normals are given for "
                f"{', '.join(outward)}"
            )
        surfaces = {
            name: _checked(name, _cloud(points, name), _cloud(outward[name], f"{name} normals"), d)
            for name, points in places.items()
        }
        check_kind(axes or (), Sequence, "PointCloud axes", "a list of names")
        names = tuple(axes) if axes is not None else ("x", "y", "z")[:d]
        if len(names) != d or not all(isinstance(name, str) for name in names):
            raise ValueError(f"PointCloud axes must be {d} names, got {axes!r}")
        everything = np.concatenate([given, *(points for points, _ in surfaces.values())])
        low, high = everything.min(axis=0).tolist(), everything.max(axis=0).tolist()
        for axis, a, b in zip(names, low, high, strict=True):
            if a == b:
                raise ValueError(f"PointCloud is flat: all of its points have {axis} = {a:g}")
        object.__setattr__(self, "axes", names)
        object.__setattr__(self, "bounds", tuple(zip(low, high, strict=True)))
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "surfaces", surfaces)

    def __repr__(self) -> str:
        number = sum(len(points) for points, _ in self.surfaces.values())
        return f"PointCloud({len(self.given)} points inside, {number} on the boundary)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointCloud) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def _content(self) -> tuple[object, ...]:
        parts = [(n, p.tobytes(), v.tobytes()) for n, (p, v) in self.surfaces.items()]
        return (self.axes, self.given.tobytes(), tuple(parts))

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.surfaces)

    @cached_property
    def _nearest(self) -> tuple[scipy.spatial.cKDTree, Array, Array]:
        points, normals = (np.concatenate(a) for a in zip(*self.surfaces.values(), strict=True))
        return scipy.spatial.cKDTree(points), points, normals

    @cached_property
    def _gap(self) -> float:
        """Typical distance of neighbours on the boundary."""
        tree, points, _ = self._nearest
        return float(np.median(tree.query(points, 2)[0][:, 1])) if len(points) > 1 else 0.0

    def signed_distance(self, points: Array) -> Array:
        """Along the normal of the nearest boundary point."""
        tree, places, normals = self._nearest
        near = tree.query(points)[1]
        return np.asarray(np.sum((points - places[near]) * normals[near], axis=1))

    def contains(self, points: Array) -> NDArray[np.bool_]:
        """Between boundary points the boundary is known up to a part of their distance."""
        return self.signed_distance(points) <= 0.25 * self._gap

    def interior(self, counts: tuple[int, ...]) -> Array:
        return self.given

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        return self.surfaces[part]

    def scatter(self, count: int, draw: np.random.Generator) -> Array:
        """Random points between neighbours."""
        first = draw.integers(len(self.given), size=count)
        near = scipy.spatial.cKDTree(self.given).query(self.given[first], min(3, len(self.given)))[
            1
        ]
        second = near.reshape(count, -1)[:, -1]
        share = draw.random((count, 1))
        return share * self.given[first] + (1 - share) * self.given[second]

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        points, normals = self.surfaces[part]
        order = draw.permutation(len(points))[:count]
        return points[order], normals[order]

    def check(self) -> None:
        beyond = self.given[~self.contains(self.given)]
        if len(beyond):
            place = ", ".join(f"{c:.6g}" for c in beyond[0])
            raise ValueError(
                f"{len(beyond)} interior points of {self!r} lie beyond its boundary, the first at "
                f"({place}): the normals must point outwards"
            )

    def describe(self) -> Description:
        return {
            "shape": "cloud",
            "interior": self.given.tolist(),
            "boundary": {name: p.tolist() for name, (p, _) in self.surfaces.items()},
            "normals": {name: n.tolist() for name, (_, n) in self.surfaces.items()},
            "axes": self.axes,
        }


def _cloud(points: ArrayLike, what: str) -> Array:
    array = real_numbers(points, f"PointCloud {what}").copy()
    if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array):
        raise ValueError(f"PointCloud {what} must have shape (n, 2) or (n, 3), got {array.shape}")
    if not np.all(np.abs(array) < 1e150):
        raise ValueError(f"PointCloud {what} contains NaN, infinity or numbers beyond 1e150")
    return array


def _checked(name: str, points: Array, normals: Array, dimension: int) -> Surface:
    check_name(name, "PointCloud part")
    if points.shape != normals.shape or points.shape[1] != dimension:
        raise ValueError(
            f"PointCloud {name}: points {points.shape} and normals {normals.shape} must be pairs "
            f"in {dimension} dimensions"
        )
    size = np.linalg.norm(normals, axis=1)
    if np.any(size == 0):
        raise ValueError(f"PointCloud {name}: normal {int(np.argmin(size))} is zero")
    return points, normals / size[:, None]
