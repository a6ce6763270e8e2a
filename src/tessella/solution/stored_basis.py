"""Bases in files: subdomains, features and the layers that were drawn, level by level.

What a level says of itself bounds its arrays: they are read only if they have its shape.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.cells.boxes.basis import CellBasis
from tessella.cells.boxes.tiling import DEEPEST, Tiling
from tessella.features.enrichment import Enrichment
from tessella.features.polynomials import LEGENDRE
from tessella.features.random_features import ACTIVATIONS, Activation, Layer, RandomFeatures
from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.machine.archive import Archive
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis, Basis, Fields, Multilevel
from tessella.overlap.decomposition import Decomposition

LARGEST_WEIGHT = 1e60
"""Derivatives of features multiply their weights; beyond this a fourth one is not finite."""

NEAR = 32
"""Points at which enrichment is compared."""


@dataclass(frozen=True)
class StoredFeatures:
    """All of `RandomFeatures`, the activation by its name."""

    count: int
    depth: int
    constant: bool
    bias: bool
    scale: float
    activation: str


@dataclass(frozen=True)
class StoredEnrichment:
    """The name of a function, and the box it is used in."""

    name: str
    where: dict[str, tuple[float, float]] | None


@dataclass(frozen=True, kw_only=True)
class StoredLevel:
    """One `Basis`, which has an overlap, or one `CellBasis`, which has none.

    `subdomains` are numbers of equal ones per axis, or widths of unequal ones; `cut` lists boxes
    that are in parts.
    """

    subdomains: tuple[int | tuple[float, ...], ...]
    seed: int
    features: StoredFeatures
    enrichment: tuple[StoredEnrichment, ...] = ()
    overlap: tuple[float, ...] | None = None
    cut: tuple[tuple[int, ...], ...] = ()
    trace_degree: int | None = None
    shared: bool = True

    @property
    def counts(self) -> list[int]:
        """Subdomains per axis, before any is cut."""
        return [own if isinstance(own, int) else len(own) for own in self.subdomains]


def describe_level(level: Basis) -> StoredLevel:
    boxes, features = level.decomposition, level.features
    own: dict[str, Any] = {"subdomains": boxes.subdomains, "overlap": boxes.overlap}
    if isinstance(level, CellBasis):
        tiling = level.decomposition
        own = {"subdomains": tiling.described, "cut": sorted(tiling.cut)}
        own |= {"trace_degree": level.trace_degree, "shared": level.shared}
    numbers = {f.name: getattr(features, f.name) for f in dataclasses.fields(StoredFeatures)}
    return StoredLevel(
        **own,
        seed=level.seed,
        features=StoredFeatures(**{**numbers, "activation": features.function.name}),
        enrichment=tuple(
            StoredEnrichment(one.name, one.where.describe() if one.where else None)
            for one in level.enrichment
        ),
    )


def arrays_of(levels: Sequence[Basis], domain: Domain) -> dict[str, Array]:
    """Everything that was drawn, and values of what was given."""
    arrays: dict[str, Array] = {}
    for k, level in enumerate(levels):
        for i, layer in enumerate(level.layers):
            arrays[f"weights_{k}_{i}"], arrays[f"biases_{k}_{i}"] = map(np.asarray, layer)
        if level.enrichment:
            arrays[f"enrichment_{k}"] = _probe(level.enrichment, domain)
    return arrays


def basis_of(
    levels: Sequence[StoredLevel],
    archive: Archive,
    domain: Domain,
    fields: Sequence[str],
    activation: Activation | None,
    functions: Sequence[Enrichment],
) -> AnyBasis:
    """All levels, or the bases of all unknowns; `functions` are the enrichment of all of them."""
    rest = iter(functions)
    made: list[Basis] = []
    for k, stored in enumerate(levels):
        own = _activation(stored.features.activation, activation, archive)
        with archive.read_as(f"features of level {k}"):
            numbers = dataclasses.asdict(stored.features)
            features = RandomFeatures(**{**numbers, "activation": own})
        given = [(next(rest), one.where) for one in stored.enrichment]
        with archive.read_as(f"subdomains of level {k}"):
            enrichment = tuple(
                Enrichment(one.function, Box(**where) if where else None) for one, where in given
            )
            level = _coupled(stored, domain, features, archive.shape(f"weights_{k}_0"))
        _check_enrichment(enrichment, domain, k, archive)
        with archive.read_as(f"enrichment of level {k}"):
            level = dataclasses.replace(level, enrichment=enrichment)
        # The stored weights replace the draw, which another NumPy might make differently.
        made.append(level.with_layers(_layers(level, k, archive)))
    with archive.read_as("levels"):
        if len(fields) > 1:
            return Fields(**dict(zip(fields, made, strict=True)))
        return made[0] if len(made) == 1 else Multilevel(tuple(made))


def _layers(level: Basis, k: int, archive: Archive) -> tuple[Layer, ...]:
    J, K = level.decomposition.count, level.features.count
    d, layers = level.decomposition.domain.dimension, []
    fan_in = 2 * d if archive.shape(f"weights_{k}_0")[-1:] == (2 * d,) else d
    for i in range(level.features.depth):
        weights = archive.array(f"weights_{k}_{i}", (J, K, fan_in), LARGEST_WEIGHT)
        biases = archive.array(f"biases_{k}_{i}", (J, K), LARGEST_WEIGHT)
        layers.append(Layer(weights, biases))
        fan_in = K
    return tuple(layers)


def _coupled(
    stored: StoredLevel, domain: Domain, features: RandomFeatures, drawn: tuple[int, ...]
) -> Basis:
    """The basis, if there are weights for so many subdomains."""
    J, count = (drawn or (0,))[0], math.prod(stored.counts)
    if count > J or (count < J and not stored.cut):
        raise ValueError(f"weights of {J:,} for {count:,}")
    if stored.overlap is not None:
        if stored.counts != list(stored.subdomains):
            raise ValueError(f"overlapping ones are equal, got {stored.subdomains}")
        return Basis(Decomposition(domain, stored.counts, stored.overlap), features, stored.seed)
    for axis, (low, high), own in zip(domain.axes, domain.bounds, stored.subdomains, strict=True):
        _check_widths(own, high - low, axis)
    for level, *index in stored.cut:
        inside = 0 <= level < DEEPEST and len(index) == domain.dimension
        if not inside or any(
            not 0 <= i < S << level for i, S in zip(index, stored.counts, strict=True)
        ):
            raise ValueError(f"there is no box {(level, *index)} to cut")
    tiling = Tiling.of_widths(domain, stored.subdomains, stored.cut)
    return CellBasis(tiling, features, stored.seed, stored.trace_degree, stored.shared)


def _check_widths(widths: int | tuple[float, ...], side: float, axis: str) -> None:
    if isinstance(widths, int):
        return
    if not all(w > 0 for w in widths) or not abs(sum(widths) - side) <= 1e-9 * side:
        raise ValueError(f"widths along {axis} must fill its side, {side:g}, got {widths}")


def _activation(name: str, given: Activation | None, archive: Archive) -> str | Activation:
    if given is not None:
        if not isinstance(given, Activation):
            raise TypeError(f"load() activation must be an Activation, got {given!r}")
        return given
    if name == LEGENDRE.name:
        return LEGENDRE
    if name not in ACTIVATIONS:
        raise ValueError(
            f"{archive.path} uses the activation {name!r}: pass it, load(path, activation=...)"
        )
    return name


def _check_enrichment(
    enrichment: tuple[Enrichment, ...], domain: Domain, k: int, archive: Archive
) -> None:
    if not enrichment:
        return
    stored = archive.array(f"enrichment_{k}", (len(enrichment), NEAR), math.nan)
    if not np.allclose(_probe(enrichment, domain), stored, 1e-12, 1e-300, True):
        raise ValueError(
            f"{archive.path} was solved with other enrichment than the functions given: pass those "
            f"it was solved with, in the same order"
        )


def _probe(enrichment: Sequence[Enrichment], domain: Domain) -> Array:
    """Values of the functions at fixed points, many of them close to the boundary, where layers
    live; not finite where the function is not."""
    draw = np.random.default_rng(0)
    near = 10.0 ** draw.uniform(-5, np.log10(0.5), (NEAR, domain.dimension))
    share = np.where(draw.random(near.shape) < 0.5, near, 1 - near)
    points = domain.lower + share * (domain.upper - domain.lower)
    return np.stack([np.broadcast_to(one.function(points), len(points)) for one in enrichment])
