"""Cells mapped and joined: what serves any right-hand side, and the way to the coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.cells.factored import FactoredCells
from tessella.cells.joins.exchanged import Exchanged
from tessella.cells.joins.merging import Merged
from tessella.cells.maps.family import Family
from tessella.cells.maps.jumps import jumps
from tessella.cells.maps.leaves import Mapped
from tessella.cells.maps.pivoted import Pivoted
from tessella.cells.maps.shares import Tally
from tessella.cells.maps.unknowns import Unknowns, projected
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.system.kinds import Kind
from tessella.linalg.iterative.iteration import Progress, SolverResult
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.factored import Found, Many, Watching


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
    def sent(self) -> int:
        return self.tally.sent

    @property
    def once(self) -> bool:
        return any(own.once for own in self.mapped if isinstance(own, Family))

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
                answers, result = self.answers(*right, watching.progress)
                unknowns = self.unknowns(answers, ())
                a = self._coefficients(unknowns)
            with watch.phase("measure"):
                missed = self.residuals(unknowns, answers, *right)
                residual = {name: float(one) for name, one in missed.items()}
                apart = jumps(unknowns, self.joined.order.owners) if watching.jumps else None
        return Found(a, result, residual, apart, self._traffic(begun), self._parted)

    def many(self, right: Array) -> Many:
        assert not self.once, "these factors serve one right-hand side"
        with single_threaded_blas():
            own = self.system.split(right)
            answers, result = self.answers(*own)
            unknowns = self.unknowns(answers, right.shape[:-1])
            missed = self.residuals(unknowns, answers, *own)
            a = self._coefficients(unknowns)
            return Many(a if self._parted is None else self._parted.whole(a), result, missed)

    def answers(
        self, h: Sequence[Array], values: Array, progress: Progress | None = None
    ) -> tuple[list[Array], SolverResult]:
        """What the cells of every family answer to right-hand sides (see `CellSystem.split`) and to
        what comes in."""
        system, order, several = self.system, self.joined.order, values.shape[:-1]
        b = np.zeros((system.cells.count, *several, 0))
        if not all(own.once for own in self.mapped):
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
        taken, result = self.joined.solve(c, e, values, progress)
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
