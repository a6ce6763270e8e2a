"""Features on boxes side by side: the basis behind `coupling="interfaces"`."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Real
from typing import TypeGuard

import numpy as np

from tessella.cells.boxes.tiling import Tiling
from tessella.features.random_features import Layer, RandomFeatures
from tessella.machine.arguments import check_flag
from tessella.overlap.basis import AnyBasis, Basis, Fields


@dataclass(frozen=True)
class CellBasis(Basis):
    """Features phi_jk on boxes side by side, which exchange data over their faces.

    trace_degree  q, the degree of the polynomials in which data cross a face. Left out, it follows
                  the number of features: about as fine on a face as the features are inside.
                  Larger costs time and gains little, smaller leaves jumps.
    shared        one draw for all subdomains instead of one each. Where the operator also has
                  constant coefficients, equal subdomains are then assembled and factored once.

    >>> import tessella as ts
    >>> tiling = ts.Tiling(ts.Box(x=(0, 1), y=(0, 1)), (8, 4))
    >>> basis = ts.CellBasis(tiling, ts.RandomFeatures(30, activation="sin", scale=2.7))
    >>> basis
    <CellBasis: 32 subdomains with 31 columns each, one draw of sin for all; degree 6 on faces>
    >>> basis.columns, basis.coarser().columns
    (992, 512)
    """

    decomposition: Tiling
    trace_degree: int | None = None
    shared: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self.shared, "shared")
        if not isinstance(self.decomposition, Tiling):
            raise ValueError(
                f"CellBasis needs subdomains side by side, Tiling(domain, subdomains), got "
                f"{self.decomposition!r}: overlapping ones belong in a Basis"
            )
        if self.decomposition.count == 1:
            raise ValueError(
                "one subdomain has no neighbour to exchange data with: use at least two, or "
                "coupling='overlap' (a Basis), where one subdomain has no windows either"
            )
        q = self.trace_degree
        if q is not None:
            if not (isinstance(q, Real) and float(q) >= 0 and float(q).is_integer()):
                raise ValueError(f"trace_degree must be a whole number >= 0, got {q!r}")
            object.__setattr__(self, "trace_degree", int(q))

    def __repr__(self) -> str:
        name = self.features.function.name
        drawn = f"one draw of {name} for all" if self.shared else f"a draw of {name} for each"
        return (
            f"<CellBasis: {self.decomposition.count:,} subdomains with {self.width:,} columns "
            f"each, {drawn}; degree {self.degree} on faces>"
        )

    @property
    def degree(self) -> int:
        """q, as given or as fits the number of features."""
        if self.trace_degree is not None:
            return self.trace_degree
        return self.features.face_degree(self.decomposition.domain.dimension)

    def coarser(self) -> CellBasis:
        """Half the features, with the bandwidth and the degree on faces that go with them."""
        d = self.decomposition.domain.dimension
        features = self.features.poorer(d)
        share = (features.count / self.features.count) ** (1 / d)
        degree = None if self.trace_degree is None else math.ceil(share * self.trace_degree)
        return dataclasses.replace(self, features=features, seed=self.seed + 1, trace_degree=degree)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        J, d = self.decomposition.count, self.decomposition.domain.dimension
        if not self.shared:
            return self.features.draw(J, d, self.seed)
        one = _one_draw(self.features, d, self.seed)
        return tuple(
            Layer(
                np.broadcast_to(layer.weights, (J, *layer.weights.shape[1:])),
                np.broadcast_to(layer.biases, (J, *layer.biases.shape[1:])),
            )
            for layer in one
        )


@lru_cache(maxsize=16)
def _one_draw(features: RandomFeatures, dimension: int, seed: int) -> tuple[Layer, ...]:
    """For all subdomains; the same for the same features and seed."""
    return features.draw(1, dimension, seed)


AnyCellBasis = CellBasis | Fields
"""What lies side by side: one unknown's basis, or those of several unknowns, all `CellBasis`."""


def on_cells(basis: AnyBasis) -> TypeGuard[AnyCellBasis]:
    return isinstance(basis.levels[0], CellBasis)


def tiling_of(basis: AnyCellBasis) -> Tiling:
    """The subdomains that all unknowns share."""
    tiling = basis.decomposition
    assert isinstance(tiling, Tiling)
    return tiling


def cell_bases(basis: AnyCellBasis) -> tuple[CellBasis, ...]:
    """The bases of all unknowns."""
    return tuple(own for own in basis.levels if isinstance(own, CellBasis))


def common_degree(basis: AnyCellBasis) -> int:
    """q on faces: all unknowns of a system have the same, the largest."""
    return max(own.degree for own in cell_bases(basis))


def default_features(count: int, dimension: int, depth: int = 1) -> RandomFeatures:
    """Sines whose wavenumbers reach 0.35 radians per feature along an axis and half-width.

    Side by side, sines reached smaller errors than tanh with as many features in every trial; with
    windows it was the other way round.
    """
    bandwidth = 0.35 * math.sqrt(dimension) * count ** (1 / dimension)
    return RandomFeatures(count, depth, "sin", scale=bandwidth)
