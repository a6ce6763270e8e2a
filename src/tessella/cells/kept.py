"""What a file keeps of cells that are mapped and joined: enough for any right-hand side, without
the problem and whatever only makes factors."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from tessella.cells.boxes.basis import CellBasis
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.cell.draw import Draw, Features, Slot
from tessella.cells.cell.rows import Asked
from tessella.cells.cell.space import Space
from tessella.cells.factors import CellFactors
from tessella.cells.joins.exchanged import Exchanged
from tessella.cells.joins.join import Join
from tessella.cells.joins.merging import Merged
from tessella.cells.joins.whole import Whole
from tessella.cells.maps.family import Family
from tessella.cells.maps.leaves import Mapped
from tessella.cells.maps.maps import Distinct, Maps, Sharing
from tessella.cells.maps.pivoted import Fit, Pivoted
from tessella.cells.maps.shares import Tally
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Sizes, Stage
from tessella.cells.solvers import Exchange
from tessella.cells.system.kinds import Kind
from tessella.cells.system.measured import Sum
from tessella.cells.system.system import CellSystem
from tessella.features.random_features import Layer
from tessella.linalg.lapack import Reflections
from tessella.machine.arrays import Array
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.factored import Data, Found, Watching


@dataclass(frozen=True)
class KeptCells:
    """How many cells there are, and which boxes they are."""

    count: int
    number: np.ndarray
    tiling: Tiling


@dataclass(frozen=True)
class KeptEnriching:
    """How many functions every unknown has of its own, and which cells have them."""

    starts: np.ndarray
    reached: np.ndarray

    @property
    def count(self) -> int:
        return int(self.starts[-1])


@dataclass(frozen=True)
class KeptSystem:
    """What right-hand sides ask of a `CellSystem`, and answers to what they no longer can."""

    asked: tuple[Asked, ...]
    sums: tuple[Sum, ...]
    cells: KeptCells
    bases: tuple[CellBasis, ...]
    enriching: KeptEnriching
    weights: dict[str, float]
    rows: int
    traces: int
    faces: int
    h: Array
    places: tuple[Data, ...]

    @property
    def data_size(self) -> float:
        return float(np.linalg.norm(self.h))

    right = CellSystem.right
    split = CellSystem.split
    _values = CellSystem._values


@dataclass(frozen=True, repr=False)
class KeptFactors(CellFactors):
    """Factors that were read from a file; how far neighbours disagree is not measured again."""

    system: KeptSystem  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<KeptFactors: {self.system.cells.count:,} subdomains joined by {self.name}>"

    def renewed(self, system: object) -> None:
        return None

    def data(self) -> list[Data]:
        return list(self.system.places)

    def solve(self, watch: Stopwatch, watching: Watching) -> Found:
        with watch.phase("solve"), single_threaded_blas():
            right = self.system.split(self.system.right)  # type: ignore[misc]
            answers, result = self.answers(*right)
            unknowns = self.unknowns(answers, ())
            a = unknowns.coefficients()
        with watch.phase("measure"), single_threaded_blas():
            missed = self.residuals(unknowns, answers, *right)
        return Found(a, result, {name: float(one) for name, one in missed.items()})


CLASSES: tuple[type, ...] = (
    Asked, Data, Distinct, Draw, Exchange, Exchanged, Family, Features, Fit, Join, KeptCells,
    KeptEnriching, KeptFactors, KeptSystem, Kind, Layer, Maps, Merged, Order, Pivoted, Reflections,
    Sharing, Sizes, Slot, Space, Stage, Sum, Tally, Whole,
)  # fmt: skip
"""All that kept factors are made of; besides their bases, these bases' features and the tiling."""

LATER = {"Order": {"long"}, "Exchange": {"coarse"}}
"""Fields that the first files do not have."""


def kept(factors: CellFactors) -> KeptFactors:
    """The same factors without what no right-hand side asks for."""
    if isinstance(factors, KeptFactors):
        return factors
    system = factors.system
    found = {own.name: getattr(factors, own.name) for own in dataclasses.fields(CellFactors)}
    found["system"] = KeptSystem(
        system.asked,
        tuple(own._replace(parts=()) for own in system.sums),
        KeptCells(system.cells.count, system.cells.number, system.cells.tiling),
        system.bases,
        KeptEnriching(system.enriching.starts, system.enriching.reached),
        system.weights,
        system.rows,
        system.traces,
        system.ports.joints.faces,
        system.h,
        tuple(factors.data()),
    )
    found["kinds"] = ()
    found["mapped"] = tuple(_mapped(own) for own in factors.mapped)
    found["joined"] = _joined(factors.joined)
    return KeptFactors(**found)


def check(factors: KeptFactors) -> None:
    """Refuse factors that LAPACK, which believes what it is told, would follow out of memory."""
    joined, cells = factors.joined, factors.system.cells
    order = joined.order
    if not cells.count == order.count == len(factors.space_of) == len(cells.number):
        raise ValueError(f"there are {cells.count:,} cells, but other numbers of places")
    sizes = [n for stage in order.stages for own in stage.sizes for n in own]
    places = sum(own.size for own in (*order.taken, *order.given) if own is not None)
    if not 0 <= order.size <= places or not all(0 <= n <= places for n in sizes):
        raise ValueError("more numbers are exchanged than cells take and give")
    if any(not 1 <= own.count <= max(len(own.which), 1) for own in joined.distinct):
        raise ValueError("more members are distinct than there are")
    whole = joined.whole if isinstance(joined, Merged) else None
    if whole is not None and whole.factors is not None:
        pivots = whole.factors[1]
        if pivots.size and not 0 <= pivots.min() <= pivots.max() < pivots.size:
            raise ValueError("the last exchange is pivoted beyond its rows")


def _mapped(own: Mapped) -> Mapped:
    if isinstance(own, Family):
        return own
    kind = own.kind
    bare = Kind(kind.members, kind.space, (), kind.asked, sums=kind.sums)
    return Pivoted(own.number, bare, own.fit)


def _joined(joined: Merged | Exchanged) -> Merged | Exchanged:
    """Without the names of maps, by which a refinement finds them again."""
    bare = dataclasses.replace(joined, leaves=_nameless(joined.leaves))
    if isinstance(bare, Exchanged):
        return dataclasses.replace(bare, maps=_nameless(bare.maps))
    return bare


def _nameless(maps: tuple[Maps | None, ...]) -> tuple[Maps | None, ...]:
    return tuple(None if own is None else own._replace(names=()) for own in maps)
