"""The exchange between cells solved by GMRES: in = Pi (T in + c), with Pi from out to in.

Every iteration is one product with the maps of all cells. Nothing is merged, so that memory grows
with the cells alone. Of several processes each has what its own cells take, and tells its
neighbours what these give them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tessella.cells.budget import RESTART
from tessella.cells.joining import Order
from tessella.cells.maps import Distinct, Maps
from tessella.cells.routes import Side, sides
from tessella.cells.solvers import Exchange
from tessella.linalg.iterative.gmres import Solved, gmres
from tessella.linalg.iterative.iteration import History, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.progress import Progress


@dataclass(frozen=True)
class Exchanged:
    """The maps of all cells, ready to be exchanged.

    known  a right-hand side, and what was found for it: the one for which it was tried whether the
           exchange does in place of merging
    """

    order: Order
    solver: Exchange
    maps: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]
    known: tuple[Array, Solved] | None = None

    @property
    def bytes(self) -> int:
        """Nothing but the maps of the cells is needed."""
        return 0

    @property
    def growth(self) -> float:
        """Nothing is inverted."""
        return 1.0

    @cached_property
    def _sides(self) -> list[Side]:
        return sides(self.order, self.maps, self.distinct)

    def solve(
        self,
        c: Sequence[Array | None],
        sums: Sequence[Array | None],
        values: Array,
        progress: Progress | None = None,
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, per stage, and how it was found; several right-hand sides are
        taken one after the other."""
        if values.ndim > 1:
            return self._each(c, sums, values)
        first, *rest = self._sides
        own = [side.vector(c) for side in self._sides]
        found = self._found(self._right(own), progress)
        taken = self._rooms(self.order.taken)
        first.put(found.x, taken)
        for side in rest:
            side.put(first.forth.go(first.times(found.x) + own[0]), taken)
        return [NONE if x is None else x for x in taken], _result(found)

    def transposed(
        self, taken: Sequence[Array | None], several: tuple[int, ...]
    ) -> tuple[list[Array | None], Array]:
        """The transpose of `solve`, one after the other: from `in` (members, k, in) to c."""
        each = [
            self._transposed([None if own is None else own[:, i] for own in taken])
            for i in range(several[0])
        ]
        found = [
            None if own[0] is None else np.stack([x for x in own if x is not None], axis=1)
            for own in zip(*each, strict=True)
        ]
        return found, np.zeros((*several, 0))

    def _transposed(self, taken: Sequence[Array | None]) -> list[Array | None]:
        first, *rest = self._sides
        own = [side.vector(taken) for side in self._sides]
        right = own[0]
        for mine in own[1:]:
            right = right + first.times_back(first.home.go(mine))
        x = [self._iterated(self._around_back, right).x]
        for side, mine in zip(rest, own[1:], strict=True):
            x.append(mine + side.times_back(side.home.go(x[0])))
        given = self._rooms(self.order.given)
        for side, mine in zip(self._sides, x[1:] + x[:1], strict=True):
            side.put(side.home.go(mine), given)
        return given

    def _rooms(self, places: Sequence[np.ndarray | None]) -> list[Array | None]:
        """For numbers of the cells that this process has, by stages."""
        return [
            None if own is None or place is None else np.zeros(place.shape)
            for own, place in zip(self.maps, places, strict=True)
        ]

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

    def tried(
        self, c: Sequence[Array | None], progress: Progress | None = None
    ) -> Exchanged | None:
        """This exchange with what it finds for these data; None if it does not settle, or hardly
        determines what it finds: then merging does better, or says more."""
        right = self._right([side.vector(c) for side in self._sides])
        found = self._iterated(self._around, right, progress)
        settled = found.residual <= LOOSELY * self.solver.tolerance and found.regular > REGULAR
        if not (settled and found.history):
            return None
        return replace(self, known=(right, found._replace(stop=Stop.RESIDUAL)))

    def _right(self, own: Sequence[Array]) -> Array:
        """The right-hand side of the first side, from what all cells give by themselves."""
        first, *rest = self._sides
        right = first.forth.go(own[0])
        for side, mine in zip(rest, own[1:], strict=True):
            right = side.forth.go(side.times(right) + mine)
        return right

    def _found(self, right: Array, progress: Progress | None) -> Solved:
        if self.known is not None:
            right_known, found = self.known
            if not processes.largest("known", float(not np.array_equal(right, right_known))):
                return found
        return self._iterated(self._around, right, progress)

    def _iterated(
        self,
        product: Callable[[Array], Array],
        right: Array,
        progress: Progress | None = None,
    ) -> Solved:
        return gmres(
            product,
            right,
            tolerance=self.solver.tolerance,
            most=self.solver.max_iterations,
            restart=RESTART,
            total=None if processes.alone() else partial(processes.total, "exchange"),
            progress=progress,
        )

    def _each(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        every = [
            self.solve([None if own is None else own[:, i] for own in c], sums, one)
            for i, one in enumerate(values)
        ]
        taken = [np.stack(own, axis=1) for own in zip(*(one for one, _ in every), strict=True)]
        return taken, max((result for _, result in every), key=lambda own: own.iterations)


NONE = np.zeros((0, 0))

LOOSELY = 10.0
"""By how much the residual of an exchange in place of merging may be above its tolerance, where
rounding leaves no more."""

REGULAR = 1e-7
"""Reciprocal condition number below which the exchange may not determine its solution."""


def _result(found: Solved) -> SolverResult:
    curve = History(residual=np.array(found.history))
    return SolverResult(None, len(found.history), found.stop, curve, found.residual)
