"""Window times feature: the basis functions of one level, of several, and of several unknowns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Self

import numpy as np

from tessella.features.enrichment import Enrichment, as_enrichment
from tessella.features.random_features import Layer, RandomFeatures
from tessella.geometry.domain import Domain
from tessella.machine.arguments import check_kind, is_number
from tessella.machine.arrays import Array
from tessella.machine.printing import counted, times
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.enriched import active


@dataclass(frozen=True, repr=False)
class Basis:
    """omega_j(x) * phi_jk(x) for every subdomain j and feature k; the same seed, the same basis.

    `enrichment` are functions psi_e, plain or as `Enrichment`: every subdomain gets the columns
    omega_j * psi_e beside its features.

    >>> import tessella as ts
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1), y=(0, 1)), 8)
    >>> ts.Basis(boxes, ts.RandomFeatures(100))
    Basis of 8 x 8 overlapping subdomains, 100 tanh features each (6,464 columns)
    """

    decomposition: Decomposition
    features: RandomFeatures
    seed: int = 0
    enrichment: tuple[Enrichment, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        boxes, features = self.decomposition, self.features
        check_kind(boxes, Decomposition, "decomposition", "Decomposition(domain, subdomains)")
        check_kind(features, RandomFeatures, "features", "RandomFeatures(count)")
        if not isinstance(self.seed, Integral) or self.seed < 0:
            raise ValueError(f"seed must be a whole number >= 0, got {self.seed!r}")
        object.__setattr__(self, "seed", int(self.seed))
        if type(self) is Basis and self.decomposition.side_by_side:
            raise ValueError(
                "a Basis blends overlapping subdomains, but those of a Tiling lie side by side: "
                "use CellBasis(tiling, features), or a Decomposition"
            )
        made = as_enrichment(self.enrichment, self.decomposition.domain)
        object.__setattr__(self, "enrichment", made)
        if any(one.where for one in made) and not self.active.any(axis=0).all():
            lost = made[int(np.argmin(self.active.any(axis=0)))]
            raise ValueError(
                f"where={lost.where!r} of the enrichment {lost.name!r} meets no subdomain of "
                f"{self.decomposition.domain!r}: move it inside, or leave it out"
            )

    def __repr__(self) -> str:
        own = f"{self.features.in_words}{self._enriched} each ({self.columns:,} columns)"
        return f"{type(self).__name__} of {self.decomposition.in_words}, {own}"

    @property
    def _enriched(self) -> str:
        return f" and {counted(len(self.enrichment), 'function')} more" if self.enrichment else ""

    @property
    def width(self) -> int:
        """C, the number of columns per subdomain: features and enrichment."""
        return self.features.columns + len(self.enrichment)

    @property
    def columns(self) -> int:
        """Number of unknown coefficients, J * C."""
        return self.decomposition.count * self.width

    @cached_property
    def active(self) -> Array:
        """Which subdomains have which enrichment column, 1 or 0, shape (J, E)."""
        return active(self.decomposition, self.enrichment)

    def columns_at(self, points: Array) -> int:
        """Columns of the subdomains that see one of the points."""
        return len(self.decomposition.active(points)) * self.width

    @property
    def levels(self) -> tuple[Basis, ...]:
        """The single-level bases this one consists of: itself."""
        return (self,)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        d = self.decomposition.domain.dimension
        return self.features.draw(self.decomposition.count, d, self.seed)

    def coarser(self) -> Basis:
        """Half the features, drawn anew: a second opinion on the same problem."""
        half = dataclasses.replace(self.features, count=max(1, self.features.count // 2))
        return dataclasses.replace(self, features=half, seed=self.seed + 1)

    def moved(self, domain: Domain) -> Self:
        """The same functions on another domain, stretched to fit it; those that satisfy an equation
        still do."""
        decomposition = self.decomposition.moved(domain)
        before, after = (np.diff(own.bounds)[:, 0] for own in (self.decomposition.domain, domain))
        features = self.features.stretched(after / before)
        made = dataclasses.replace(self, decomposition=decomposition, features=features)
        return made.with_layers(self.layers) if features == self.features else made

    def with_layers(self, layers: tuple[Layer, ...]) -> Self:
        """The same basis with these hidden layers in place of the ones its seed draws."""
        made = dataclasses.replace(self)
        object.__setattr__(made, "layers", layers)
        return made


@dataclass(frozen=True, repr=False)
class Multilevel:
    """Several bases from coarse to fine at once; the solution is their sum.

    Coarse levels carry information across many subdomains in one iteration, which one fine level
    must pass from neighbour to neighbour (after Dolean et al. 2024). Build one by hand, or with
    `Multilevel.two` or `Multilevel.pyramid`. `DeflatedLSQR` on two levels solves the coarse one
    exactly: on the Laplacian's weak scaling (64, 256, 1,024, 4,096 subdomains) it needs 5, 3, 3, 4
    iterations to an error of 1e-2, LSQR on a pyramid 18, 24, 35, 46, and on the finest level alone
    25, 76, 212, 977.

    >>> import tessella as ts
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1), y=(0, 1)), 8)
    >>> ts.Multilevel.two(ts.Basis(boxes, ts.RandomFeatures(16)))
    Multilevel of 2 x 2 + 8 x 8 overlapping subdomains, 16 tanh features each (1,156 columns)
    """

    levels: tuple[Basis, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError("Multilevel needs at least one level")
        if len({level.decomposition.domain for level in self.levels}) > 1:
            raise ValueError("all levels of a Multilevel basis must share one domain")
        if any(level.decomposition.side_by_side for level in self.levels):
            raise ValueError(
                "the levels of a Multilevel basis overlap, but one of them lies side by side: "
                "solve with the CellBasis basis alone, or use a Basis for every level"
            )

    def __repr__(self) -> str:
        boxes = " + ".join(times(level.decomposition.subdomains) for level in self.levels)
        own = f"{self.features.in_words} each ({self.columns:,} columns)"
        return f"Multilevel of {boxes} overlapping subdomains, {own}"

    @staticmethod
    def two(finest: Basis, ratio: int = 4) -> Multilevel:
        """`finest`, and a coarse level with `ratio` times fewer subdomains along every axis.

        Only the finest level keeps an enrichment.
        """
        check_kind(finest, Basis, "finest", "a Basis")
        if not is_number(ratio) or ratio != int(ratio) or ratio < 2:
            raise ValueError(f"ratio must be a whole number of at least 2, got {ratio!r}")
        own = finest.decomposition
        least = [
            max(2, math.ceil(width)) if wraps else 1
            for width, wraps in zip(own.overlap, own.wraps, strict=True)
        ]
        counts = tuple(
            min(S, max(few, S // int(ratio))) for few, S in zip(least, own.subdomains, strict=True)
        )
        coarse = Decomposition(own.domain, counts, own.overlap)
        return Multilevel((Basis(coarse, finest.features, finest.seed + 1000), finest))

    @staticmethod
    def pyramid(finest: Basis, coarsest: int = 2) -> Multilevel:
        """Halve the subdomains of `finest` along every axis until `coarsest` is reached.

        Only the finest level keeps an enrichment.
        """
        check_kind(finest, Basis, "finest", "a Basis")
        if not is_number(coarsest) or coarsest < 2:
            raise ValueError(f"coarsest must be at least 2, got {coarsest!r}")
        levels, counts = [finest], finest.decomposition.subdomains
        while max(counts) > coarsest:
            counts = tuple(max(min(S, coarsest), S // 2) for S in counts)
            coarse = Decomposition(
                finest.decomposition.domain, counts, finest.decomposition.overlap
            )
            levels.append(Basis(coarse, finest.features, finest.seed + 1000 * len(levels)))
        return Multilevel(tuple(reversed(levels)))

    def moved(self, domain: Domain) -> Multilevel:
        """The same functions on another domain, stretched to fit it."""
        return Multilevel(tuple(level.moved(domain) for level in self.levels))

    @property
    def columns(self) -> int:
        return sum(level.columns for level in self.levels)

    def columns_at(self, points: Array) -> int:
        return sum(level.columns_at(points) for level in self.levels)

    @property
    def width(self) -> int:
        """Columns per subdomain of the finest level."""
        return self.levels[-1].width

    @property
    def seed(self) -> int:
        return self.levels[-1].seed

    @property
    def decomposition(self) -> Decomposition:
        """The finest decomposition."""
        return self.levels[-1].decomposition

    @property
    def features(self) -> RandomFeatures:
        """The features of the finest level."""
        return self.levels[-1].features


@dataclass(frozen=True, init=False, repr=False)
class Fields:
    """A basis for every unknown of a system: `Fields(u=Basis(...), p=Basis(...))`.

    All share one domain and one grid of subdomains, each has its own features and is filtered on
    its own. An unknown that the equations differentiate less (a pressure) does with fewer.

    >>> import tessella as ts
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1)), 4)
    >>> u, p = (ts.Basis(boxes, ts.RandomFeatures(K)) for K in (20, 10))
    >>> ts.Fields(u=u, p=p).columns
    128
    """

    names: tuple[str, ...]
    bases: tuple[Basis, ...]

    def __init__(self, **bases: Basis) -> None:
        if not bases:
            raise ValueError("Fields needs a basis for every unknown, e.g. Fields(u=Basis(...))")
        for name, basis in bases.items():
            check_kind(basis, Basis, f"Fields {name}", "a Basis or a CellBasis")
        if len({basis.decomposition for basis in bases.values()}) > 1:
            raise ValueError("all unknowns of Fields must share one decomposition of the domain")
        if len({type(basis) for basis in bases.values()}) > 1:
            raise ValueError(
                "all unknowns of Fields must be coupled alike: all Basis, or all CellBasis"
            )
        object.__setattr__(self, "names", tuple(bases))
        object.__setattr__(self, "bases", tuple(bases.values()))

    def __repr__(self) -> str:
        own = zip(self.names, self.bases, strict=True)
        each = ", ".join(f"{name} with {basis.features.in_words}" for name, basis in own)
        boxes = self.decomposition.in_words
        return f"Fields of {each} on {boxes} ({self.columns:,} columns)"

    @property
    def levels(self) -> tuple[Basis, ...]:
        """The bases of all unknowns, in their order."""
        return self.bases

    @property
    def columns(self) -> int:
        return sum(basis.columns for basis in self.bases)

    def columns_at(self, points: Array) -> int:
        return sum(basis.columns_at(points) for basis in self.bases)

    @property
    def width(self) -> int:
        """Most columns a subdomain has for one unknown: they say how many points are needed."""
        return max(basis.width for basis in self.bases)

    @property
    def seed(self) -> int:
        return self.bases[0].seed

    @property
    def decomposition(self) -> Decomposition:
        return self.bases[0].decomposition

    @property
    def features(self) -> RandomFeatures:
        """The richest features of all."""
        return max((basis.features for basis in self.bases), key=lambda f: f.columns)

    def coarser(self) -> Fields:
        """Every unknown's basis coarser."""
        return Fields(**{n: b.coarser() for n, b in zip(self.names, self.bases, strict=True)})

    def moved(self, domain: Domain) -> Fields:
        """The same functions on another domain, stretched to fit it."""
        return Fields(**{n: b.moved(domain) for n, b in zip(self.names, self.bases, strict=True)})


AnyBasis = Basis | Multilevel | Fields


def per_field(basis: AnyBasis, fields: Sequence[str]) -> tuple[Basis | Multilevel, ...]:
    """The bases of these unknowns; a basis that is not made of Fields serves a single one."""
    if isinstance(basis, Fields):
        if set(basis.names) != set(fields):
            raise ValueError(
                f"the basis has the unknowns {', '.join(basis.names)}, but the problem "
                f"{', '.join(fields)}"
            )
        return tuple(basis.bases[basis.names.index(name)] for name in fields)
    if len(fields) > 1:
        raise ValueError(
            f"the problem has {len(fields)} unknowns ({', '.join(fields)}), but the basis serves "
            f"one: use Fields({', '.join(f'{name}=...' for name in fields)})"
        )
    return (basis,)
