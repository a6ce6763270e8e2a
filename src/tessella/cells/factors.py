"""Cells mapped and joined: what serves any right-hand side, and the way to the coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tessella.cells.budget import chosen, enough, joining_bytes
from tessella.cells.device import DeviceFactors, device_factors
from tessella.cells.factored import MAGNIFIED, FactoredCells
from tessella.cells.gmres import Exchanged
from tessella.cells.joining import Order
from tessella.cells.joins import Climb
from tessella.cells.jumps import jumps
from tessella.cells.kinds import Kind, find_kinds
from tessella.cells.leaves import Known, Mapped, map_bytes, map_kinds
from tessella.cells.maps import Distinct, distinct_members
from tessella.cells.merging import Merged, merge
from tessella.cells.pivoted import Pivoted
from tessella.cells.shares import Tally, shared_units
from tessella.cells.shelf import Shelf
from tessella.cells.singles import Singles, check_finite
from tessella.cells.solvers import CELL_SOLVERS, AnySolver, Exchange, Merging
from tessella.cells.space import Space
from tessella.cells.system import CellSystem, retuned
from tessella.cells.tiled import spaces
from tessella.cells.unknowns import Unknowns, projected
from tessella.linalg.iterative.iteration import Progress, SolverResult
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.memory import require
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.factored import Found, Many, Watching
from tessella.overlap.parted import Parted
from tessella.problem.slabs import TIME


@dataclass(frozen=True, repr=False)
class CellFactors(FactoredCells):
    """Cells mapped and joined: all that serves another right-hand side too. Of several processes
    each has the maps of its own cells."""

    space_of: np.ndarray
    kinds: tuple[Kind, ...]
    mapped: tuple[Mapped, ...]
    own_units: Array | None
    joined: Merged | Exchanged
    tally: Tally

    @property
    def solver(self) -> Merging | Exchange:
        return self.joined.solver

    @property
    def sharing(self) -> int:
        return processes.number()

    @property
    def distinct(self) -> int:
        return self.tally.distinct

    @property
    def worst(self) -> float:
        return self.tally.worst

    @property
    def columns_kept(self) -> int:
        return self.tally.columns

    @property
    def bytes(self) -> int:
        return self.tally.bytes

    @property
    def trouble(self) -> float:
        """By how much rounding errors may grow; infinite if a cell is not determined."""
        if any(isinstance(own, Pivoted) and own.loose for own in self.mapped):
            return math.inf
        return self.joined.growth

    def solve(self, watch: Stopwatch, watching: Watching) -> Found:
        processes.begin()
        begun = processes.sent_bytes()
        with single_threaded_blas():
            with watch.phase("solve"):
                right = self.system.split(self.system.right)
                answers, result = self.answers(*right)
                unknowns = self.unknowns(answers, ())
                a = self._coefficients(unknowns)
            with watch.phase("measure"):
                missed = self.residuals(unknowns, answers, *right)
                residual = {name: float(one) for name, one in missed.items()}
                apart = jumps(unknowns, self.joined.order.owners) if watching.jumps else None
        return Found(a, result, residual, apart, self._traffic(begun), self._parted)

    @cached_property
    def _parted(self) -> Parted | None:
        """Who has which coefficients: those of its cells; of boxes without one, process 0."""
        if processes.alone():
            return None
        owner = np.zeros(self.system.cells.tiling.count, dtype=np.int64)
        owner[self.system.cells.number] = self.joined.order.owners
        return Parted.of(self.system.bases, [owner] * len(self.system.bases))

    def _coefficients(self, unknowns: Unknowns) -> Array:
        """Those of this process."""
        return unknowns.coefficients(None if self._parted is None else self._parted.mine[0])

    def _traffic(self, begun: int) -> str:
        """What several processes have sent each other to join cells and to solve."""
        if processes.alone():
            return ""
        own = np.array([processes.sent_bytes() - begun])
        solving = int(processes.total("sent", own)[0])
        return (
            f"{processes.number()} processes sent {self.tally.sent:,} bytes to join and "
            f"{solving:,} to solve"
        )

    def many(self, right: Array) -> Many:
        with single_threaded_blas():
            own = self.system.split(right)
            answers, result = self.answers(*own)
            unknowns = self.unknowns(answers, right.shape[:-1])
            missed = self.residuals(unknowns, answers, *own)
            a = self._coefficients(unknowns)
            return Many(a if self._parted is None else self._parted.whole(a), result, missed)

    def answers(self, h: Sequence[Array], values: Array) -> tuple[list[Array], SolverResult]:
        """What the cells of every family answer to right-hand sides (see `CellSystem.split`) and to
        what comes in."""
        system, order, several = self.system, self.joined.order, values.shape[:-1]
        b = projected(system, self.spaces, self.space_of, h, several)
        answers = [own.start(b, system.asked, h) for own in self.mapped]
        places = [order.place[own.cells].T for own in self.mapped]
        n, me = len(system.sums), processes.index()
        leaves = [s if s.cells is not None and s.owner == me else None for s in order.stages]
        c = [
            None if s is None else np.zeros((s.count, *several, sum(s.sizes.given))) for s in leaves
        ]
        e = [None if s is None else np.zeros((s.count, *several, n)) for s in leaves]
        for own, (stage, at), y in zip(self.mapped, places, answers, strict=True):
            given, part = c[int(stage[0])], e[int(stage[0])]
            assert given is not None and part is not None
            given[at] = own.given(y)
            if n:
                part[at] = own.summed(y)
        taken, result = self.joined.solve(c, e, values)
        return [
            own.taking(y, taken[int(stage[0])][at])
            for own, (stage, at), y in zip(self.mapped, places, answers, strict=True)
        ], result

    def transposed(self, a: Array) -> Array:
        """Every step of `many` transposed, the last one first; of the sums, which all processes
        have, process 0 has the answer."""
        with single_threaded_blas():
            return self._transposed(a)

    def _transposed(self, a: Array) -> Array:
        system, order, me = self.system, self.joined.order, processes.index()
        like = (system, self.spaces, self.space_of)
        rows = Unknowns.of_coefficients(a, *like, self._widest, self.own_units).rows
        answers = [own.of_unknowns(rows) for own in self.mapped]
        places = [order.place[own.cells].T for own in self.mapped]
        taken = [
            np.zeros((s.count, len(a), sum(s.sizes.taken)))
            if s.cells is not None and s.owner == me
            else None
            for s in order.stages
        ]
        for own, (stage, at), y in zip(self.mapped, places, answers, strict=True):
            taken[int(stage[0])][at] = own.of_taking(y)  # type: ignore[index]
        given, sums = self.joined.transposed(taken, (len(a),))
        rows = np.zeros_like(rows)
        pivoted = []
        for own, (stage, at), y in zip(self.mapped, places, answers, strict=True):
            mine = given[int(stage[0])]
            assert mine is not None
            each = np.broadcast_to(-sums, (len(own.cells), *sums.shape))
            y = own.of_given(y, mine[at], np.ascontiguousarray(each))
            if isinstance(own, Pivoted):
                pivoted.append((own, y))
            else:
                own.put_unknowns(y, rows)
        values = Unknowns(*like, rows).of_statements()
        for one, y in pivoted:
            one.put_values(y, system.asked, values)
        flat = [own.swapaxes(0, 1).reshape(len(a), -1) for own in values]
        return np.concatenate([*flat, sums if me == 0 else 0 * sums], axis=1)

    @property
    def _widest(self) -> int:
        """The most unknowns of a cell."""
        return max(space.columns for space in self.spaces) + self.system.enriching.count

    def unknowns(self, answers: Sequence[Array], several: tuple[int, ...]) -> Unknowns:
        """Those of all cells; of several processes, of its own."""
        rows = np.zeros((self.system.cells.count, *several, self._widest))
        for own, y in zip(self.mapped, answers, strict=True):
            x = own.unknowns(y)
            rows[own.cells, ..., : x.shape[-1]] = x
        return Unknowns(self.system, self.spaces, self.space_of, rows, self.own_units)

    def residuals(
        self, unknowns: Unknowns, answers: Sequence[Array], h: Sequence[Array], sums: Array
    ) -> dict[str, Array]:
        """Root mean square of what every statement misses, in its own units, for every right-hand
        side."""
        system, nothing = self.system, np.zeros(sums.shape[:-1])
        values = unknowns.of_statements()
        for own, y in zip(self.mapped, answers, strict=True):
            if isinstance(own, Pivoted):
                own.put_values(y, system.asked, values)
        squares: dict[str, Array] = {part.name: nothing for part in self.system.asked}
        for part, found, given in zip(system.asked, values, h, strict=True):
            found -= given
            missed = np.einsum("i...j,i...j,i->...", found, found, 1 / part.unit)
            squares[part.name] = squares[part.name] + missed
        every = processes.total("residuals", np.array(list(squares.values())))
        squares = dict(zip(squares, every, strict=True))
        if system.sums:
            none = np.zeros(sums.shape)
            got = sum((own.total(unknowns.rows) for own in self.mapped), start=none)
            got = processes.total("sums", got) - sums
        for i, total in enumerate(system.sums):
            missed = (got[..., i] * total.size) ** 2
            squares[total.name] = squares.get(total.name, 0.0) + missed
        return {name: np.sqrt(value) for name, value in squares.items()}


def factor_cells(
    system: CellSystem,
    rule: RRQR | Unfiltered,
    solver: AnySolver,
    progress: Progress | None = None,
    shelf: Shelf | None = None,
) -> CellFactors | DeviceFactors:
    """Filter the features once for all cells alike, map every kind of cell, and join the maps."""
    if not isinstance(rule, RRQR) or rule.patch > 1:
        raise ValueError(
            f"coupling='interfaces' fits every subdomain through its own filter, got {rule!r}: use "
            f"RRQR(sigma), with sigma=0 to keep all features"
        )
    if not (solver is None or isinstance(solver, Merging | Exchange)):
        raise ValueError(
            f"subdomains side by side are joined by maps, which solver={solver.name!r} does not "
            f"know: use solver='auto', {' or '.join(map(repr, CELL_SOLVERS))}"
        )
    with single_threaded_blas():
        if processes.alone():
            on_device = device_factors(system, rule.sigma, solver, progress)
            if on_device is not None:
                return on_device
        orders = system.orders
        space_of, made = spaces(system.cells, system.bases, system.stating, orders, rule.sigma)
        best: CellFactors | None = None
        least = math.inf
        for tuning in TUNINGS:
            own = system if tuning == 1.0 else retuned(system, tuning)
            found = _factored(own, space_of, made, rule.sigma, solver, progress, shelf)
            trouble = processes.largest("trouble", found.trouble)
            if best is None or trouble < least:
                best, least = (found if tuning == 1.0 else _tuned(found, tuning)), trouble
            if least < MAGNIFIED:
                loose = isinstance(best.joined, Merged) and best.joined.undetermined
                return best.noted(UNDETERMINED) if loose else best
    assert best is not None
    return best.noted("some subdomains are hardly determined by what comes in")


def _tuned(found: CellFactors, tuning: float) -> CellFactors:
    return replace(found.noted(f"kappa x {tuning:g} near resonance"), tuning=tuning)


UNDETERMINED = "the last exchange is singular: the solution may not be unique"

MANY = tuple(2**k for k in range(1, 9))
"""Numbers of processes that are looked at where one has too little memory."""

TUNINGS = (1.0, 1.7, 0.55)
"""Factors on the wavenumbers of the incoming data that are tried, until every cell and every group
of cells is well determined by its own: the equation may resonate in some of them."""


def _factored(
    system: CellSystem,
    space_of: np.ndarray,
    made: Sequence[Space],
    sigma: float,
    solver: Merging | Exchange | None,
    progress: Progress | None,
    shelf: Shelf | None,
) -> CellFactors:
    """Maps of all cells, and the way they are joined."""
    begun = processes.sent_bytes()
    plan = system.cells.order(system.faces, system.crossings, system.ports)
    mine = plan.owners == processes.index()
    assert np.array_equal(plan.owners, system.cells.whose), "rows are stated by who has the cell"
    kinds = find_kinds(system, space_of, made, shelf is not None, mine)
    known = [None if shelf is None else shelf.cell(kind.name) for kind in kinds]
    singles = Singles(plan, kinds)
    distinct, maps, note = distinct_members(plan, singles.which), map_bytes(kinds, system.asked), ""
    if isinstance(solver, Exchange) and system.sums:
        raise ValueError(
            "integrals and measurements of the whole are solved for at the last join: use "
            "solver='merging', or leave it out"
        )
    if solver is None:
        solver, note = chosen(plan, distinct, maps, bool(system.sums))
    _check_memory(system, plan, kinds, distinct, maps, solver)
    with processes.in_unison("maps and joins"):
        mapped = map_kinds(kinds, system.asked, sigma, known, _in_waves(system))
        check_finite(system, mapped)
        if shelf is not None:
            _shelve(shelf, kinds, mapped, known)
        if progress is not None:
            progress(len(kinds), 2 * len(kinds), 1.0)
        leaves = singles.maps(mapped)
        climb = None if isinstance(solver, Exchange) else Climb(plan, leaves, distinct, shelf)
        if climb is not None:
            climb.below()
    joined: Merged | Exchanged
    if climb is None:
        assert isinstance(solver, Exchange)
        joined = Exchanged(plan, solver, tuple(leaves), tuple(distinct))
    else:
        joined = merge(climb, np.array([total.weight for total in system.sums]))
    again = sum(one is not None for one in known)
    sent = processes.sent_bytes() - begun
    worst = max((float(np.max(own.condition)) for own in mapped), default=1.0)
    own = np.array([again, *_tally(mapped, joined), sent, worst])
    every = np.array(processes.gathered("tally", own))
    again, *counts = (int(x) for x in every[:, :-1].sum(axis=0))
    tally = Tally(counts[0], counts[1], counts[2], counts[3], float(every[:, -1].max()))
    return CellFactors(
        system, tuple(made), again, note, 1.0, space_of, tuple(kinds), tuple(mapped),
        shared_units(kinds), joined, tally,
    )  # fmt: skip


def _in_waves(system: CellSystem) -> bool:
    """Whether something is differentiated twice in time."""
    axes = system.problem.domain.axes
    return TIME in axes and bool(np.any(system.orders[:, axes.index(TIME)] >= 2))


def _check_memory(
    system: CellSystem,
    plan: Order,
    kinds: Sequence[Kind],
    distinct: Sequence[Distinct],
    maps: int,
    solver: Merging | Exchange,
) -> None:
    """Refuse what will not fit in all processes, before any of it is made."""
    columns = max((kind.space.columns for kind in kinds), default=0)
    needed = maps + int(joining_bytes(plan, distinct, solver))
    (beside,) = processes.beside("needs", needed)

    def remedy(free: int) -> str:
        made = (system.cells.order(system.faces, system.crossings, system.ports, n) for n in MANY)
        others = enough(plan, distinct, maps, solver, made, free)
        return f"use fewer subdomains or features, a lower trace_degree, {others}"

    with processes.in_unison("memory"):
        require(
            needed,
            f"mapping {len(kinds):,} distinct subdomains of {columns:,} columns and joining "
            f"{system.cells.count:,} by {solver.name}",
            remedy,
            beside,
        )


def _tally(mapped: Sequence[Mapped], joined: Merged | Exchanged) -> tuple[int, int, int]:
    columns = sum(len(own.cells) * own.columns for own in mapped)
    kept = sum(own.bytes for own in mapped) + joined.bytes
    return sum(len(own.numbers) for own in mapped), columns, kept


def _shelve(
    shelf: Shelf, kinds: Sequence[Kind], mapped: Sequence[Mapped], known: Sequence[Known]
) -> None:
    """Keep what is new and what another solve may ask for."""
    for own in mapped:
        for i, number in enumerate(own.numbers.tolist()):
            if kinds[number].name and known[number] is None:
                shelf.put_cell(kinds[number].name, own.kept(i))
