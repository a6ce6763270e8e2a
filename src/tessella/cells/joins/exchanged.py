"""The exchange between groups of cells solved by GMRES: in = Pi (T in + c), with Pi from out to in.

Cells are joined as far as groups of them (see `front`), or not at all; from there every iteration
is one product with the maps of all groups. Memory grows with the cells alone, and so does the work
of every process: each has what its own groups take, and tells its neighbours what these give them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType

import numpy as np

from tessella.cells.joins.budget import restart
from tessella.cells.joins.coarse import Coarse, coarse
from tessella.cells.joins.join import Climb, largest_inverse
from tessella.cells.joins.joined import EXACT, JoinedCells
from tessella.cells.joins.routes import Side, sides
from tessella.cells.maps.maps import Maps
from tessella.cells.order.coarse import coarse_order
from tessella.cells.order.front import Front, front_of
from tessella.cells.order.order import Order
from tessella.cells.solvers import Exchange
from tessella.linalg.iterative.gmres import Map, Solved, gmres
from tessella.linalg.iterative.iteration import History, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.memory import available_bytes, of_the_host
from tessella.machine.progress import Progress


@dataclass
class Helping:
    """A coarse level, as long as it helps, and iterations after which GMRES begins anew."""

    level: Coarse | None
    vectors: int


@dataclass(frozen=True)
class Exchanged(JoinedCells):
    """Groups of cells, ready to exchange.

    maps  of the stages that have some of these groups
    """

    solver: Exchange
    maps: tuple[Maps | None, ...]

    @property
    def handed(self) -> Mapping[int, int]:
        """Every process goes on with its own."""
        return MappingProxyType({})

    @property
    def enough(self) -> float:
        """Corrections are for what joins magnify."""
        any_joins = any(join is not None for join in self.joins)
        return max(EXACT, 10 * self.solver.tolerance) if any_joins else np.inf

    @property
    def bytes(self) -> int:
        joined = (i for i in self._front.members if self.order.stages[i].cells is None)
        maps = sum(own.T.nbytes for own in map(self.maps.__getitem__, joined) if own)
        level = self._helping.level
        return super().bytes + maps + (0 if level is None else level.bytes)

    @cached_property
    def _front(self) -> Front:
        return front_of(self.order, self.solver.group)

    @cached_property
    def _sides(self) -> list[Side]:
        return sides(self._front, self.maps, self.distinct)

    @property
    def coarse_order(self) -> Order | None:
        """In which the coarse level is joined, if there is one."""
        return None if self._helping.level is None else self._helping.level.order

    @cached_property
    def _helping(self) -> Helping:
        level = self._made_coarse()
        return Helping(level, self._vectors(level is not None))

    def _vectors(self, coarse: bool) -> int:
        """Where a coarse level may yet be left out, as many as without it if there is room for
        them."""
        few, many = restart(self._front, coarse=coarse), restart(self._front)
        if few == many:
            return many
        needed = 8 * self._front.numbers * many
        (others,) = processes.beside("room", needed)
        with of_the_host():
            missing = needed > available_bytes(others) / 2
        return few if processes.largest("room", float(missing)) else many

    def _made_coarse(self) -> Coarse | None:
        """None where it would hardly determine what it solves for."""
        level = coarse_order(self._front) if self.solver.coarse else None
        if level is None:
            return None
        found = coarse(level, self.maps, self.distinct, self._sides[0].groups)
        return found if found.trusted else None

    def _across(
        self,
        outs: list[Array],
        parts: list[Array],
        values: Array,
        taken: list[Array],
        progress: Progress | None,
    ) -> SolverResult:
        """Several right-hand sides one after the other."""
        if values.ndim == 1:
            return self._solved(outs, taken, progress)
        every = [self._solved(_one(outs, i), _one(taken, i), progress) for i in range(len(values))]
        return max(every, key=lambda own: own.iterations)

    def _solved(
        self, outs: list[Array], taken: list[Array], progress: Progress | None
    ) -> SolverResult:
        first, *rest = self._sides
        own = [side.vector(outs) for side in self._sides]
        right = first.forth.go(own[0])
        for side, mine in zip(rest, own[1:], strict=True):
            right = side.forth.go(side.times(right) + mine)
        found = self._iterated(self._around, right, progress)
        first.put(found.x, taken)
        for side in rest:
            side.put(first.forth.go(first.times(found.x) + own[0]), taken)
        curve = History(residual=np.array(found.history))
        return SolverResult(None, len(found.history), found.stop, curve, found.residual)

    def _across_back(self, taken: list[Array], given: list[Array], parts: list[Array]) -> Array:
        several = next(own.shape[1] for own in given if own.ndim == 3)
        for i in range(several):
            self._solved_back(_one(taken, i), _one(given, i))
        return np.zeros((several, 0))

    def _solved_back(self, taken: list[Array], given: list[Array]) -> None:
        first, *rest = self._sides
        own = [side.vector(taken) for side in self._sides]
        right = own[0]
        for mine in own[1:]:
            right = right + first.times_back(first.home.go(mine))
        x = [self._iterated(self._around_back, right, back=True).x]
        for side, mine in zip(rest, own[1:], strict=True):
            x.append(mine + side.times_back(side.home.go(x[0])))
        for side, mine in zip(self._sides, x[1:] + x[:1], strict=True):
            side.put(side.home.go(mine), given)

    def _around(self, x: Array) -> Array:
        """in - Pi T in, of the first side; over the other one, if there are two."""
        found = x
        for side in self._sides:
            found = side.forth.go(side.times(found))
        return x - found

    def _around_back(self, x: Array) -> Array:
        """The transpose of that."""
        found = x
        for side in reversed(self._sides):
            found = side.times_back(side.home.go(found))
        return x - found

    def prepare(self) -> None:
        """What every right-hand side needs beside the maps."""
        _ = self._sides, self._helping

    def settles(self, most: int, progress: Progress | None = None) -> bool:
        """Whether so many iterations solve for any data, and determine what they find."""
        found = self.trial(most, progress)
        return found.stop == Stop.RESIDUAL and found.regular > REGULAR

    def trial(self, most: int, progress: Progress | None = None) -> Solved:
        """The exchange of random data, which leave nothing out."""
        random = np.random.default_rng(processes.index())
        right = random.standard_normal(sum(own.taken.size for own in self._sides[0].groups))
        found = self._iterated(self._around, right, progress, most, ROUGHLY)
        squares = np.array([right @ right, found.x @ found.x, right.size])
        given, taken, size = processes.total("trial", squares)
        share = math.sqrt(given / (taken * size)) if taken > 0 else 1.0
        return found._replace(regular=min(found.regular, share))

    def _iterated(
        self,
        product: Map,
        right: Array,
        progress: Progress | None = None,
        most: int | None = None,
        tolerance: float | None = None,
        back: bool = False,
    ) -> Solved:
        """With the coarse level as long as that helps, and on without it: cells that do not resolve
        what they should, waves above all, mislead it."""
        most = self.solver.max_iterations if most is None else most
        tolerance = self.solver.tolerance if tolerance is None else tolerance
        further = partial(self._further, product, right, tolerance, most, progress)
        begun = found = Solved(np.zeros_like(right), [], Stop.LIMIT, 1.0, 1.0)
        level, fall = self._helping.level, tolerance**FAST
        while level is not None and found.stop == Stop.LIMIT and len(found.history) < most:
            last, found = found, further(found, SOON, level.solve_back if back else level.solve)
            if found.stop == Stop.STAGNATED and found.residual <= 10 * tolerance:
                return found  # as far as rounding errors let it
            soon = found.stop == Stop.LIMIT and len(found.history) < len(last.history) + SOON
            if not (found.stop in DONE or soon or found.residual <= fall * last.residual):
                level = None
                if not found.residual <= fall:
                    self._helping.level = None
        if not np.isfinite(found.residual):
            found = begun
        if found.stop in DONE or len(found.history) >= most:
            return found
        return further(found, most, None)

    def _further(
        self,
        product: Map,
        right: Array,
        tolerance: float,
        every: int,
        progress: Progress | None,
        found: Solved,
        most: int,
        before: Map | None,
    ) -> Solved:
        """At most so many iterations more, of all, from what was found."""
        done, share = len(found.history), found.residual
        more = gmres(
            product,
            right - product(found.x) if done else right,
            tolerance=tolerance / share,
            most=min(most, every - done),
            restart=self._helping.vectors,
            before=before,
            total=None if processes.alone() else partial(processes.total, "exchange"),
            progress=progress and (lambda k, _, left: progress(done + k, every, share * left)),
        )
        return Solved(
            found.x + more.x,
            [*found.history, *(share * own for own in more.history)],
            more.stop,
            share * more.residual,
            found.regular if before else min(found.regular, more.regular),
            found.again + more.again,
        )


SOON, FAST = 80, 1 / 3
"""Iterations in which the coarse level must do this part of what is to be done, in digits: where it
helps that takes a third of them."""

DONE = (Stop.RESIDUAL, Stop.ZERO)

ROUGHLY = 1e-6
"""Relative residual of a trial. A direction that nothing determines has a part of random data that
is larger."""

REGULAR = 1e-7
"""Reciprocal condition number below which the exchange may not determine its solution: what
iterations without a coarse level see of it, and how much larger than random data their solution
is."""


def exchange(climb: Climb, solver: Exchange) -> Exchanged:
    """What has been joined as far as groups for this solver."""
    order = climb.order
    maps = tuple(climb.maps.get(i) for i in range(len(order.stages)))
    found = Exchanged(
        order, tuple(climb.leaves), tuple(climb.distinct), tuple(climb.joins), climb.reused,
        largest_inverse(climb.joins), solver, maps,
    )  # fmt: skip
    found.prepare()
    return found


def _one(parts: list[Array], i: int) -> list[Array]:
    """Those of one right-hand side."""
    return [own[:, i] if own.ndim == 3 else own for own in parts]
