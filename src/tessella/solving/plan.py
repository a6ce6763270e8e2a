"""The discretisations that a refinement tries: the first one, richer ones, finer ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.scales import degrees, layers, total_degree
from tessella.accuracy.terms import Sizes, Terms, first_terms, more_terms
from tessella.cells.boxes.basis import CellBasis, default_features, on_cells
from tessella.cells.boxes.fitting import off_regions, thick_enough
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.boxes.tree import Cell
from tessella.features.polynomials import Polynomials
from tessella.features.random_features import RandomFeatures
from tessella.geometry.box import Box
from tessella.linalg.direct.nested_qr import NestedQR
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine.schema import as_type
from tessella.overlap.basis import AnyBasis, Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import GRIDDED, Grid
from tessella.problem.problem import Problem
from tessella.solving.bases import for_fields
from tessella.solving.method import CELL_POINTS, CELL_SIGMA, Method
from tessella.solving.waves import waves_of
from tessella.solving.ways import Parts


@dataclass(frozen=True)
class Plan:
    """Per axis the number of equal slabs of subdomains or the widths of unequal ones, which of
    their boxes are cut in parts, a rung of the ladder of features, a factor on the bandwidth."""

    slabs: tuple[int | tuple[float, ...], ...]
    cut: frozenset[Cell] = frozenset()
    rung: int = 0
    bandwidth: float = 1.0
    terms: tuple[Terms, ...] = ()
    """In many dimensions the polynomials of every unknown, on one subdomain."""

    @property
    def subdomains(self) -> tuple[int, ...]:
        return tuple(own if isinstance(own, int) else len(own) for own in self.slabs)

    @property
    def count(self) -> int:
        """Of all subdomains."""
        return math.prod(self.subdomains) + (2 ** len(self.slabs) - 1) * len(self.cut)

    @property
    def features(self) -> int:
        if self.terms:
            return max(map(len, self.terms))
        return tuning.FEATURES[len(self.subdomains)][self.rung]

    @property
    def described(self) -> dict[str, Any]:
        """As JSON holds it."""
        slabs = [own if isinstance(own, int) else list(own) for own in self.slabs]
        cut = sorted(list(cell) for cell in self.cut)
        return {
            **{"slabs": slabs, "cut": cut, "rung": self.rung, "bandwidth": self.bandwidth},
            "terms": [[list(term) for term in own] for own in self.terms],
        }

    @classmethod
    def of(cls, described: dict[str, Any]) -> Plan:
        """The other way."""
        slabs = as_type(tuple[int | tuple[float, ...], ...], described["slabs"], "slabs")
        cut = as_type(tuple[tuple[int, ...], ...], described["cut"], "cut")
        rung = as_type(int, described["rung"], "rung")
        bandwidth = as_type(float, described["bandwidth"], "bandwidth")
        terms = as_type(tuple[tuple[tuple[int, ...], ...], ...], described["terms"], "terms")
        return cls(slabs, frozenset(cut), rung, bandwidth, terms)

    def work(self, new: float = 1.0) -> float:
        """Relative cost: a dense elimination per subdomain, of which a share is new, and one of the
        data on the largest separator, which is most of the work in three dimensions."""
        if self.terms:
            return float(sum(map(len, self.terms))) ** 3
        d, J, C = len(self.slabs), self.count, float(self.features)
        across = 1 - 1 / d
        return new * J * C**3 + (5 * C**across * J**across) ** 3

    @property
    def richest(self) -> bool:
        """Whether no rung is left."""
        return not self.terms and self.richer() is None

    def richer(self, rungs: int = tuning.STRIDE) -> Plan | None:
        top = len(tuning.FEATURES[len(self.subdomains)]) - 1
        rung = min(top, self.rung + rungs)
        return dataclasses.replace(self, rung=rung) if rung > self.rung else None

    def finer(self, axes: tuple[int, ...]) -> Plan:
        """More subdomains along some axes, all of one size."""
        factor = tuning.FINER[len(axes)]
        split = tuple(
            math.ceil(factor * S) if i in axes else S for i, S in enumerate(self.subdomains)
        )
        return dataclasses.replace(self, slabs=split)

    def grown(self, known: Sequence[Sizes], error: float) -> Plan:
        """More polynomials, chosen by what all contribute that have been tried, up to an error."""
        count = round(tuning.MORE_TERMS * self.features)
        terms = tuple(more_terms(own, count, error) for own in known)
        return dataclasses.replace(self, terms=terms)

    def tiled(self, tiling: Tiling) -> Plan:
        """The same with other subdomains."""
        slabs = tuple(own if isinstance(own, int) else tuple(own) for own in tiling.described)
        return dataclasses.replace(self, slabs=slabs, cut=tiling.cut)


class Steps(NamedTuple):
    """A way through time: the cells of one slab, and its length."""

    plan: Plan
    length: float

    @property
    def described(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"plan": self.plan.described, "length": self.length}

    @classmethod
    def of(cls, described: dict[str, Any]) -> Steps:
        """The other way."""
        return cls(Plan.of(described["plan"]), as_type(float, described["length"], "length"))


def first_plan(problem: Problem, pieces: int = 1) -> Plan:
    """As many subdomains as the poorest features need to resolve data and operator; at least two
    along the longest axis (four on a line, and on a shape in the plane), in proportion along the
    others, and two along a periodic one. At the ends of an axis where the operator makes layers,
    slabs are halved until the last one resolves them. Data are looked at in so many `pieces` of the
    domain along every axis. In more than three dimensions there is one subdomain."""
    domain = problem.domain
    if domain.dimension > GRIDDED:
        each = first_terms(domain.dimension)
        return Plan((1,) * domain.dimension, terms=(each,) * len(problem.fields))
    sides = domain.upper - domain.lower
    d = len(sides)
    start = (tuning.FEWEST if isinstance(domain, Box) else tuning.FEWEST_ON_SHAPES)[d]
    fewest = [2 if axis in domain.periodic else 1 for axis in domain.axes]
    least = [
        max(few, round(start * side / max(sides))) for few, side in zip(fewest, sides, strict=True)
    ]
    filled = tuning.FILLED * total_degree(tuning.FEATURES[d][tuning.START[d]], d)
    asked = np.maximum(1.0, np.array(degrees(problem, pieces)) / filled)
    asked *= min(1.0, tuning.CROWD[d] / float(np.prod(asked))) ** (1 / d)
    counts = [max(n, math.ceil(a)) for n, a in zip(least, asked, strict=True)]
    tiling = Tiling(domain, counts)
    if not isinstance(domain, Box):
        return Plan((), rung=tuning.START[d]).tiled(thick_enough(tiling))
    for axis, rates in enumerate(layers(problem)):
        for side, rate in enumerate(rates):
            thick = 2 * filled / max(rate, 1e-300)
            if tiling.along(axis)[-side] > tuning.THINNER * thick:
                tiling = tiling.towards(axis, side, thick)
    return Plan((), rung=tuning.START[d]).tiled(tiling)


def overdetermined(problem: Problem) -> bool:
    """Whether more equations hold than there are unknowns."""
    return not problem.domain.regions and len(problem.equations) > len(problem.fields)


def planned(problem: Problem, plan: Plan, method: Method) -> Parts:
    """What a plan solves with: cells, or overlapping subdomains where more equations hold than
    there are unknowns. What such equations say together about a wall without conditions is known to
    the least squares of the whole, and to no cell. In many dimensions
    polynomials on one subdomain."""
    domain, own = problem.domain, (method.seed, method.enrichment)
    if plan.terms:
        whole, each = Decomposition(domain, 1), map(Polynomials.of, plan.terms)
        return on_basis(for_fields(problem, lambda seed: Basis(whole, next(each), seed), *own))
    if overdetermined(problem):
        blended = RandomFeatures(plan.features, scale=plan.bandwidth * tuning.BLENDED_SCALE)
        cover = Decomposition(domain, plan.subdomains)
        return on_basis(for_fields(problem, lambda seed: Basis(cover, blended, seed), *own))
    tiling = off_regions(Tiling.of_widths(domain, plan.slabs, plan.cut))
    waves = None if method.any_data else waves_of(problem, tiling, plan.features)
    drawn = default_features(plan.features, domain.dimension)
    features = waves or dataclasses.replace(drawn, scale=plan.bandwidth * drawn.scale)
    return on_basis(for_fields(problem, lambda seed: CellBasis(tiling, features, seed), *own))


def on_basis(basis: AnyBasis) -> Parts:
    """What `tol` solves with on a basis it has chosen."""
    if basis.features.function.separable:
        return Parts(basis, Grid(2.0), Unfiltered(), NestedQR())
    if not on_cells(basis):
        return Parts(basis, Grid(3.0), RRQR(1e-12), NestedQR())
    return Parts(basis, Grid(CELL_POINTS), RRQR(CELL_SIGMA))
