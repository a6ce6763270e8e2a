"""Cells mapped and joined: what serves any right-hand side, and the way to the coefficients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tessella.cells.exchange import orders_along
from tessella.cells.faces import interior_faces
from tessella.cells.gmres import Exchanged, chosen
from tessella.cells.joining import Face, Order, Stage, order
from tessella.cells.jumps import jumps
from tessella.cells.kinds import find_kinds
from tessella.cells.leaves import Gram, Kind, Mapped, Space, map_kinds
from tessella.cells.merging import Maps, Merged, distinct_members, merge
from tessella.cells.shelf import Shelf
from tessella.cells.solvers import CELL_SOLVERS, AnySolver, Exchange, Merging
from tessella.cells.system import CellSystem, retuned
from tessella.cells.tiled import corners, spaces
from tessella.cells.tiling import Tiling
from tessella.linalg.iterative.iteration import Progress, SolverResult
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine.arrays import Array
from tessella.machine.memory import require
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.basis import AnyBasis
from tessella.problem.problem import Problem

if TYPE_CHECKING:
    from tessella.cells.device import DeviceFactors


class Found(NamedTuple):
    """Coefficients, how they were found, and what every statement misses."""

    a: Array
    result: SolverResult
    residual: dict[str, float]
    jumps: dict[str, dict[str, float]] | None = None


@lru_cache(maxsize=8)
def _tiled_order(tiling: Tiling, widths: tuple[tuple[int, int], ...]) -> Order:
    """Of all boxes of a tiling, with as many numbers across the faces of every axis."""
    low, high = corners(tiling)
    faces, ports = [], [[] for _ in range(tiling.count)]  # type: ignore[var-annotated]
    for own in interior_faces(tiling):
        parts = (own.below, own.above, own.part_below, own.part_above)
        for below, above, part_below, part_above in np.stack(parts, axis=1).tolist():
            ports[below].append(((own.axis, 1, part_below), len(faces)))
            ports[above].append(((own.axis, 0, part_above), len(faces)))
            faces.append(Face(below, above, *widths[own.axis]))
    sides = [[(number, side[1]) for side, number in sorted(own)] for own in ports]
    return order(low, high, sides, faces)


@dataclass(frozen=True)
class CellFactors:
    """Cells mapped and merged: all that serves another right-hand side too."""

    system: CellSystem
    spaces: tuple[Space, ...]
    space_of: np.ndarray
    kinds: tuple[Kind, ...]
    kind_of: np.ndarray
    mapped: tuple[Mapped, ...]
    joined: Merged | Exchanged
    reused: int
    note: str

    @property
    def solver(self) -> Merging | Exchange:
        return self.joined.solver

    @property
    def iterative(self) -> bool:
        return self.solver.iterative

    @property
    def name(self) -> str:
        return self.solver.name

    @property
    def trouble(self) -> float:
        """By how much rounding errors may grow; infinite if a cell is not determined."""
        if any(_is_loose(k, m) for k, m in zip(self.kinds, self.mapped, strict=True)):
            return math.inf
        return self.joined.growth

    def noted(self, remark: str) -> CellFactors:
        """The same with a remark on how it came about."""
        return dataclasses.replace(self, note="; ".join(filter(None, (self.note, remark))))

    def renewed(self, system: Any) -> CellFactors | None:
        """These factors for another system; None if its matrix is not the same by its numbers."""
        if not isinstance(system, CellSystem) or not system.has_matrix_of(self.system):
            return None
        return dataclasses.replace(self, system=system)

    def solve(
        self,
        problem: Problem,
        basis: AnyBasis,
        at: Array | None,
        watch: Stopwatch,
        progress: Progress | None,
    ) -> Found:
        """Solve for the system's right-hand sides."""
        with watch.phase("solve"), single_threaded_blas():
            local, met, result = self._local(self.system)
            a = self.unfiltered(self.system, local)
        with watch.phase("measure"), single_threaded_blas():
            residual = self.residuals(self.system, local, met)
            apart = jumps(self.system, self.kinds, local)
        return Found(a, result, residual, apart)

    def described(self, basis: AnyBasis) -> dict[str, Any]:
        """What a report says of how subdomains are joined."""
        return {
            "coupling": "interfaces",
            "traces": self.system.traces,
            "distinct_subdomains": len(self.kinds),
            "reused_subdomains": self.reused,
        }

    def conditions(self) -> dict[str, float | None]:
        """kappa of the rows of a draw before and after its filter, and of the worst cell's rows in
        the basis that the filter leaves."""
        draws = [draw.condition for space in self.spaces for draw in space.draws]
        return {
            "M": max(one for one, _ in draws),
            "M_hat": max(one for _, one in draws),
            "preconditioned": max(m.condition for m in self.mapped),
        }

    @property
    def columns_kept(self) -> int:
        return sum(
            len(k.members) * (k.space.columns if isinstance(m.factor, Gram) else len(m.factor.kept))
            for k, m in zip(self.kinds, self.mapped, strict=True)
        )

    def unfiltered(self, system: CellSystem, local: list[Array]) -> Array:
        """From the filtered unknowns of all kinds to the coefficients of all features."""
        parts = []
        for f, own in enumerate(system.bases):
            a = np.zeros((system.cells.tiling.count, own.width))
            number = system.cells.number
            for space in self.spaces:
                mine = [i for i, k in enumerate(self.kinds) if k.space is space]
                cells = np.concatenate([self.kinds[i].members for i in mine])
                rows = slice(space.starts[f], space.starts[f + 1])
                reduced = np.concatenate([local[i][rows] for i in mine], axis=1) / space.units[f]
                a[number[cells], : own.features.columns] = space.draws[f].coefficients(reduced).T
            for kind, y in zip(self.kinds, local, strict=True):
                if kind.own is not None:
                    extra = kind.space.columns + system.enriching.starts[f : f + 2]
                    assert kind.own_units is not None
                    factors = kind.own_units[slice(*system.enriching.starts[f : f + 2])]
                    a[number[kind.members], own.features.columns :] = y[slice(*extra), 0] * factors
            parts.append(a.ravel())
        return np.concatenate(parts)

    def _local(self, system: CellSystem) -> tuple[list[Array], list[Array | None], SolverResult]:
        """The unknowns of the members of every kind, (r, members), and what cells that were
        factored by themselves make of their rows."""
        start = self._particular(system)
        stages, places = self.joined.order.stages, self.joined.order.places
        at = [np.array([places[j] for j in k.members.tolist()]) for k in self.kinds]
        n = len(system.sums)
        leaves = [s if s.cells is not None else None for s in stages]
        c = [None if s is None else np.zeros((s.count, sum(s.sizes.given))) for s in leaves]
        e = [None if s is None else np.zeros((s.count, n)) for s in leaves]
        for own, place, y in zip(self.mapped, at, start, strict=True):
            c_stage, e_stage = c[int(place[0, 0])], e[int(place[0, 0])]
            assert c_stage is not None and e_stage is not None
            c_stage[place[:, 1]] = (own.out @ y).T
            e_stage[place[:, 1]] = (own.sums @ y).T
        values = np.array([total.value for total in system.sums])
        taken, result = self.joined.solve(c, e, values)
        local: list[Array] = []
        met: list[Array | None] = []
        for own, place, y in zip(self.mapped, at, start, strict=True):
            y = y + own.X @ taken[int(place[0, 0])][place[:, 1]].T
            local.append(own.factor.unknowns(y))
            met.append(None if isinstance(own.factor, Gram) else own.factor.Q @ y)
        return local, met, result

    def _particular(self, system: CellSystem) -> list[Array]:
        """What the members of every kind answer to their right-hand sides if nothing comes in."""
        b = self._projected(system)

        def one(number: int) -> Array:
            kind, own = self.kinds[number], self.mapped[number]
            if isinstance(own.factor, Gram):
                return own.factor.solve(np.asfortranarray(b[kind.members, : kind.space.columns].T))
            h = np.concatenate(
                [
                    np.stack([part.h[part.at(j)] for j in kind.members.tolist()], axis=1)
                    for part in (system.asked[n] for n, _ in kind.asked)
                ]
            )
            return np.asarray(own.factor.solve(h))

        return [one(number) for number in range(len(self.kinds))]

    def _projected(self, system: CellSystem) -> Array:
        """M^T h of every cell, (J, largest r)."""
        widest = max(space.columns for space in self.spaces)
        b = np.zeros((system.cells.count, widest))
        for part in system.asked:
            if not np.any(part.h):
                continue
            for number, space in enumerate(self.spaces):
                mine = self.space_of[part.members] == number
                if not mine.any():
                    continue
                whole = bool(mine.all())
                cells = part.members if whole else part.members[mine]
                for (f, alpha), table in part.symbol.items():
                    weighted = table * part.h if whole else table[mine] * part.h[mine]
                    own = slice(space.starts[f], space.starts[f + 1])
                    b[cells, own] += weighted @ space.table(f, part.slot, alpha) / space.units[f]
        return b

    def residuals(
        self, system: CellSystem, local: list[Array], met: list[Array | None]
    ) -> dict[str, float]:
        """Root mean square of what every statement misses, in its own units."""
        every = gathered(system, self.kinds, local)
        squares: dict[str, float] = {}
        for number, part in enumerate(system.asked):
            values = np.zeros_like(part.h)
            regular = np.array([met[self.kind_of[j]] is None for j in part.members.tolist()])
            for i, space in enumerate(self.spaces):
                mine = np.flatnonzero((self.space_of[part.members] == i) & regular)
                for (f, alpha), table in part.symbol.items() if len(mine) else ():
                    own = slice(space.starts[f], space.starts[f + 1])
                    a = every[part.members[mine], own] / space.units[f]
                    values[mine] += table[mine] * (a @ space.table(f, part.slot, alpha).T)
            for at in np.flatnonzero(~regular).tolist():
                values[at] = self._rows_met(system, met, number, int(part.members[at]))
            missed = np.sum((values - part.h) ** 2, axis=1) / part.unit
            squares[part.name] = squares.get(part.name, 0.0) + float(np.sum(missed))
        for i, total in enumerate(system.sums):
            got = sum(
                float(np.sum(k.sums[i] @ a))
                for k, a in zip(self.kinds, local, strict=True)
                if k.sums is not None
            )
            missed_sum = (got - total.value) * total.size
            squares[total.name] = squares.get(total.name, 0.0) + missed_sum**2
        return {name: math.sqrt(value) for name, value in squares.items()}

    def _rows_met(
        self, system: CellSystem, met: list[Array | None], number: int, cell: int
    ) -> Array:
        """A statement's rows of a cell that was factored by itself."""
        kind, rows = self.kinds[self.kind_of[cell]], met[self.kind_of[cell]]
        assert rows is not None
        start = 0
        for n, _ in kind.asked:
            end = start + len(system.asked[n].slot)
            if n == number:
                return np.asarray(rows[start:end, int(np.searchsorted(kind.members, cell))])
            start = end
        raise AssertionError("the cell has no such rows")


def gathered(system: CellSystem, kinds: Sequence[Kind], local: Sequence[Array]) -> Array:
    """The unknowns of all cells, (J, most)."""
    every = np.zeros((system.cells.count, max(len(a) for a in local)))
    for kind, a in zip(kinds, local, strict=True):
        every[kind.members, : len(a)] = a.T
    return every


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
    from tessella.cells.device import device_factors

    with single_threaded_blas():
        on_device = device_factors(system, rule.sigma, solver, progress)
        if on_device is not None:
            return on_device
        orders = orders_along(system.problem)
        space_of, made = spaces(system.cells, system.bases, system.stating, orders, rule.sigma)
        best: CellFactors | None = None
        for tuning in TUNINGS:
            own = system if tuning == 1.0 else retuned(system, tuning)
            found = _factored(own, space_of, made, rule.sigma, solver, progress, shelf)
            if best is None or found.trouble < best.trouble:
                best = found if tuning == 1.0 else found.noted(f"kappa x {tuning:g} near resonance")
            if best.trouble < MAGNIFIED:
                loose = isinstance(best.joined, Merged) and best.joined.whole.undetermined
                return best.noted(UNDETERMINED) if loose else best
    assert best is not None
    return best.noted("some subdomains are hardly determined by what comes in")


UNDETERMINED = "the last exchange is singular: the solution may not be unique"

TUNINGS = (1.0, 1.7, 0.55)
"""Factors on the wavenumbers of the incoming data that are tried, until every cell and every group
of cells is well determined by its own: the equation may resonate in some of them."""

MAGNIFIED = 1e4
"""Rounding errors may grow by this factor in a group of cells."""


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
    kinds, kind_of = find_kinds(system, space_of, made)
    known = [None if shelf is None else shelf.cell(kind.name) for kind in kinds]
    require(
        sum(_bytes(k) for k, old in zip(kinds, known, strict=True) if old is None),
        f"{len(kinds):,} distinct subdomains of {kinds[0].space.columns:,} columns",
        "use fewer features or subdomains, or a lower trace_degree",
    )
    mapped = map_kinds(kinds, system.asked, sigma, known)
    _check_finite(kinds, mapped)
    if shelf is not None:
        shelf.put_cells(kinds, mapped)
    if progress is not None:
        progress(len(kinds), 2 * len(kinds), 1.0)
    plan = _planned(system)
    leaves = [_leaf_maps(stage, kinds, kind_of, mapped) for stage in plan.stages]
    maps = [None if one is None else one[0] for one in leaves]
    distinct = distinct_members(plan, [None if one is None else one[1] for one in leaves])
    note = ""
    if isinstance(solver, Exchange) and system.sums:
        raise ValueError(
            "integrals and measurements of the whole are solved for at the last join: use "
            "solver='merging', or leave it out"
        )
    if solver is None:
        solver, note = chosen(plan, distinct, bool(system.sums))
    joined: Merged | Exchanged
    if isinstance(solver, Exchange):
        joined = Exchanged(plan, solver, tuple(maps), tuple(distinct))
    else:
        weights = np.array([total.weight for total in system.sums])
        joined = merge(plan, maps, distinct, weights, shelf)
    again = sum(one is not None for one in known)
    return CellFactors(
        system, tuple(made), space_of, tuple(kinds), kind_of, tuple(mapped), joined, again, note
    )


def _bytes(kind: Kind) -> int:
    """Of a kind's factor and map."""
    r = kind.space.columns + (0 if kind.own is None else kind.own.shape[1])
    taken = sum(m.shape[1] for p in kind.ports for m in p.modes_taken)
    given = sum(m.shape[1] for p in kind.ports for m in p.modes_given)
    return 8 * (r * r + r * (taken + given) + taken * given)


def _is_loose(kind: Kind, mapped: Mapped) -> bool:
    """Whether a whole cell is not determined by its equation, conditions and incoming data."""
    if isinstance(mapped.factor, Gram) or kind.own is not None or not kind.space.filtered:
        return False
    return len(mapped.factor.kept) < mapped.factor.columns or mapped.condition > 1e8


def _check_finite(kinds: Sequence[Kind], mapped: Sequence[Mapped]) -> None:
    for kind, own in zip(kinds, mapped, strict=True):
        if not np.all(np.isfinite(own.T)):
            raise ValueError(
                f"subdomain {int(kind.members[0])} cannot match incoming data (its map is not "
                f"finite): check the coefficients there, or use coupling='overlap'"
            )


def _planned(system: CellSystem) -> Order:
    cells = system.cells
    widths: dict[int, set[tuple[int, int]]] = {}
    for between, face in zip(cells.faces, system.faces, strict=False):
        widths.setdefault(between.axis, set()).add((face.up, face.down))
    alike = len(cells.faces) == len(system.faces)
    if alike and all(len(own) == 1 for own in widths.values()) and cells.tiled:
        each = [widths.get(axis, {(0, 0)}) for axis in range(cells.low.shape[1])]
        return _tiled_order(cells.tiling, tuple(next(iter(own)) for own in each))
    ports = [
        [(number, port.side) for number, port in zip(numbers, own, strict=True)]
        for numbers, own in zip(system.crossings, system.ports, strict=True)
    ]
    return order(cells.low, cells.high, ports, system.faces)


def _leaf_maps(
    stage: Stage, kinds: Sequence[Kind], kind_of: np.ndarray, mapped: Sequence[Mapped]
) -> tuple[Maps, np.ndarray] | None:
    """The maps of a stage of single cells, and which of them each cell has."""
    if stage.cells is None:
        return None
    own, which = np.unique(kind_of[np.array(stage.cells)], return_inverse=True)
    T = np.stack([mapped[k].T for k in own.tolist()])
    E = np.stack([mapped[k].E for k in own.tolist()])
    return Maps(T, E, tuple(kinds[k].name for k in own.tolist())), which.ravel()
