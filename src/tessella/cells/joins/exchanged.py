"""The exchange between groups of cells solved by GMRES: in = Pi (T in + c), with Pi from out to in.

Cells are joined as far as groups of them (see `front`), or not at all; from there every iteration
is one product with the maps of all groups. Memory grows with the cells alone, and so does the work
of every process: each has what its own groups take, and tells its neighbours what these give them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
from tessella.linalg.iterative.gmres import Solved, gmres
from tessella.linalg.iterative.iteration import History, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.progress import Progress


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
        return super().bytes + sum(
            own.T.nbytes for own in map(self.maps.__getitem__, joined) if own
        )

    @cached_property
    def _front(self) -> Front:
        return front_of(self.order, self.solver.group)

    @cached_property
    def _sides(self) -> list[Side]:
        return sides(self._front, self.maps, self.distinct)

    @property
    def coarse_order(self) -> Order | None:
        """In which the coarse level is joined, if there is one."""
        return None if self._coarse is None else self._coarse.merged.order

    @cached_property
    def _coarse(self) -> Coarse | None:
        """None where it would hardly determine what it solves for."""
        level = coarse_order(self._front) if self.solver.coarse else None
        if level is None:
            return None
        found = coarse(level, self.maps, self.distinct, self._sides[0].groups)
        return None if found.merged.undetermined or found.merged.growth > TOO_MUCH else found

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
        _ = self._sides, self._coarse

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
        product: Callable[[Array], Array],
        right: Array,
        progress: Progress | None = None,
        most: int | None = None,
        tolerance: float | None = None,
        back: bool = False,
    ) -> Solved:
        """With the coarse level as long as that helps: waves that it holds half of mislead it."""
        level, most = self._coarse, most or self.solver.max_iterations
        solve = partial(
            gmres,
            product,
            right,
            tolerance=tolerance or self.solver.tolerance,
            restart=restart(self._front),
            total=None if processes.alone() else partial(processes.total, "exchange"),
            progress=progress,
        )
        if level is None:
            return solve(most=most)
        found = solve(most=most, before=level.solve_back if back else level.solve)
        done = len(found.history)
        if found.residual < MISLED or done >= most:
            return found
        rest = solve(most=most - done)
        return rest._replace(history=found.history + rest.history, again=found.again + rest.again)


ROUGHLY = 1e-6
"""Relative residual of a trial. A direction that nothing determines has a part of random data that
is larger."""

REGULAR = 1e-7
"""Reciprocal condition number below which the exchange may not determine its solution: as far as it
was seen, and by how much larger than random data that solution is."""

MISLED = 1e-2
"""Relative residual that the coarse level must get below, if it is not to be left out."""

TOO_MUCH = 1e8
"""The largest number in the inverse of an exchange between groups of the coarse level beyond which
this is left out."""


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
