"""Subdomains side by side, joined by traces on the faces between them.

Every interior face carries, for the value and for each normal derivative below the order of the
operator along that axis, the coefficients of an orthonormal polynomial of total degree q: the
traces. Each of the two subdomains asks its own function to match them, in the least-squares sense.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TypeGuard

import numpy as np
from numpy.polynomial import legendre

from tessella.basis import AnyBasis, Basis, Fields
from tessella.decomposition import Decomposition
from tessella.domain import Array
from tessella.features import Layer, RandomFeatures
from tessella.problem import Problem
from tessella.quadrature import gauss
from tessella.tiling import Tiling
from tessella.tree import WHOLE, touching


@dataclass(frozen=True)
class Glued(Basis):
    """Features phi_jk on boxes side by side, glued at the faces.

    trace_degree  q, the degree of the traces. Left out, it follows the number of features: about
                  as fine on a face as the features are inside. Larger costs time and gains little,
                  smaller leaves jumps that no trace can describe.
    shared        one draw for all subdomains instead of one each. Where the operator also has
                  constant coefficients, equal subdomains are then assembled and factored once.
    """

    decomposition: Tiling
    trace_degree: int | None = None
    shared: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.decomposition, Tiling):
            raise ValueError(
                f"Glued needs subdomains side by side, Tiling(domain, subdomains), got "
                f"{self.decomposition!r}: overlapping ones belong in a Basis"
            )
        if self.decomposition.count == 1:
            raise ValueError(
                "one subdomain has no neighbour to be glued to: use at least two, or "
                "coupling='overlap' (a Basis), where one subdomain has no windows either"
            )
        q = self.trace_degree
        if q is not None:
            if not (isinstance(q, Real) and float(q) >= 0 and float(q).is_integer()):
                raise ValueError(f"trace_degree must be a whole number >= 0, got {q!r}")
            object.__setattr__(self, "trace_degree", int(q))

    @property
    def degree(self) -> int:
        """q, as given or as fits the number of features."""
        if self.trace_degree is not None:
            return self.trace_degree
        d = self.decomposition.domain.dimension
        if d == 1:
            return 0
        return math.ceil(RICHNESS * (math.factorial(d) * self.features.columns) ** (1 / d))

    def coarser(self) -> Glued:
        """Half the features, with the bandwidth and the traces that go with them."""
        d = self.decomposition.domain.dimension
        count = max(1, self.features.count // 2)
        share = (count / self.features.count) ** (1 / d)
        features = dataclasses.replace(
            self.features, count=count, scale=share * self.features.scale
        )
        degree = None if self.trace_degree is None else math.ceil(share * self.trace_degree)
        return dataclasses.replace(self, features=features, seed=self.seed + 1, trace_degree=degree)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        J, d = self.decomposition.count, self.decomposition.domain.dimension
        if not self.shared:
            return self.features.draw(J, d, self.seed)
        one = self.features.draw(1, d, self.seed)
        return tuple(
            Layer(
                np.broadcast_to(layer.weights, (J, *layer.weights.shape[1:])),
                np.broadcast_to(layer.biases, (J, *layer.biases.shape[1:])),
            )
            for layer in one
        )


GluedBasis = Glued | Fields
"""What is joined by traces: one unknown's basis, or those of several unknowns, all `Glued`."""


def is_glued(basis: AnyBasis) -> TypeGuard[GluedBasis]:
    return isinstance(basis.levels[0], Glued)


def tiling_of(basis: GluedBasis) -> Tiling:
    """The subdomains that all unknowns share."""
    tiling = basis.decomposition
    assert isinstance(tiling, Tiling)
    return tiling


def glued_bases(basis: GluedBasis) -> tuple[Glued, ...]:
    """The bases of all unknowns."""
    return tuple(own for own in basis.levels if isinstance(own, Glued))


def common_degree(basis: GluedBasis) -> int:
    """q of the traces: all unknowns of a system have the same, the largest."""
    return max(own.degree for own in glued_bases(basis))


RICHNESS = 0.73
"""Default degree of the traces, in parts of the total degree of as many polynomials."""


def default_features(count: int, dimension: int, depth: int = 1) -> RandomFeatures:
    """Sines whose wavenumbers reach 0.35 radians per feature along an axis and half-width.

    Side by side, sines reached smaller errors than tanh with as many features in every trial; with
    windows it was the other way round.
    """
    bandwidth = 0.35 * math.sqrt(dimension) * count ** (1 / dimension)
    return RandomFeatures(count, depth, "sin", scale=bandwidth)


Side = tuple[int, int, int]
"""(axis, side, part) of a subdomain's face: side 0 is the lower one, parts as in `tree`."""


@dataclass(frozen=True)
class Faces:
    """All interior faces across one axis: which subdomains they join, and where they are.

    A face is whole for the smaller of the two, and of the larger it is a part (see `tree`).
    """

    axis: int
    below: np.ndarray
    above: np.ndarray
    positions: Array
    part_below: np.ndarray
    part_above: np.ndarray

    @property
    def smaller(self) -> tuple[np.ndarray, np.ndarray]:
        """A subdomain for which each face is whole, and at which end (-1, 1) it has it."""
        is_below = self.part_below == WHOLE
        return np.where(is_below, self.below, self.above), np.where(is_below, 1, -1)

    def points(self, tiling: Decomposition, across: Array) -> Array:
        """Local points of a face (n, d - 1) on all faces, shape (faces, n, d)."""
        cell, end = self.smaller
        z = np.insert(across, self.axis, 0.0, axis=1)
        x = tiling.centres[cell][:, None] + z * tiling.half_widths[cell][:, None]
        x[:, :, self.axis] += (end * tiling.half_widths[cell, self.axis])[:, None]
        return x

    def by_side(self) -> Iterator[tuple[Side, np.ndarray, np.ndarray]]:
        """(axis, side, part), the subdomains that have such a face, and the faces' numbers."""
        sides = ((1, self.below, self.part_below), (0, self.above, self.part_above))
        for side, members, parts in sides:
            for part in np.unique(parts).tolist():
                chosen = np.flatnonzero(parts == part)
                yield (self.axis, side, part), members[chosen], chosen


def interior_faces(tiling: Tiling) -> list[Faces]:
    """The interior faces, axis by axis; positions are in units of the domain's sides.

    Along a periodic axis the last subdomain lies below the first one: their face is the seam.
    The tiling keeps them.
    """
    if "_faces" not in tiling.__dict__:
        tiling.__dict__["_faces"] = _interior_faces(tiling)
    return list(tiling.__dict__["_faces"])


def _interior_faces(tiling: Tiling) -> list[Faces]:
    found = []
    if tiling.cut:
        for axis, (below, above, *parts) in enumerate(touching(tiling.roots, tiling.leaves)):
            positions = _positions(tiling, axis, below, above)
            faces = Faces(axis, below, above, positions, *parts)
            # All faces in one plane are at the same place, so that they can separate.
            cell, end = faces.smaller
            inner = positions[:, axis] < 1.0
            place = tiling.centres[cell, axis] + end * tiling.half_widths[cell, axis]
            side = tiling.domain.upper[axis] - tiling.domain.lower[axis]
            place = np.round((place - tiling.domain.lower[axis]) / side, 12)
            positions[inner, axis] = place[inner]
            found.append(faces)
        return found
    numbers = np.arange(tiling.count).reshape(tiling.subdomains)
    for axis, S in enumerate(tiling.subdomains):
        last = S if tiling.wraps[axis] else S - 1
        below = np.take(numbers, np.arange(last), axis=axis).ravel()
        above = np.take(numbers, np.arange(1, last + 1) % S, axis=axis).ravel()
        whole = np.full(len(below), WHOLE)
        positions = _positions(tiling, axis, below, above)
        found.append(Faces(axis, below, above, positions, whole, whole))
    return found


def _positions(tiling: Tiling, axis: int, below: np.ndarray, above: np.ndarray) -> Array:
    """Between the centres of both subdomains; at the upper end where an axis closes on itself."""
    positions = (tiling.positions[below] + tiling.positions[above]) / 2
    seam = tiling.centres[below, axis] > tiling.centres[above, axis]
    positions[seam, axis] = 1.0
    return positions


def glue_orders(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Per unknown and axis, how many of u, du/dn, ... neighbours must share: the order of the
    equations in that unknown along that axis."""
    found = []
    for field in problem.fields:
        terms = [t for e in problem.equations for t in problem.terms(e.operator, field)]
        found.append(
            tuple(
                max(1, max((term.orders[i] for term in terms), default=0))
                for i in range(problem.domain.dimension)
            )
        )
    return tuple(found)


def face_modes(counts: tuple[int, ...], degree: int) -> tuple[Array, int]:
    """The orthogonal matrix from weighted values at a face's Gauss points to its modes.

    Column k is sqrt(weight) P_k at the points, for orthonormal tensor Legendre polynomials; those
    of total degree <= `degree`, the traces, come first, and their number is returned.
    """
    points, weights = gauss(counts)
    orders = sorted(itertools.product(*(range(n) for n in counts)), key=lambda k: (sum(k), k))
    values = np.sqrt(weights)[:, None] * np.ones((1, len(orders)))
    for i, n in enumerate(counts):
        one = legendre.legvander(points[:, i], n - 1) * np.sqrt(2 * np.arange(n) + 1)
        values *= one[:, [k[i] for k in orders]]
    return values, sum(sum(k) <= degree for k in orders)
