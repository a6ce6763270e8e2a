"""The exchange between cells solved by GMRES: in = Pi (T in + c), with Pi from out to in.

Every iteration is one product with the maps of all cells. Nothing is merged, so that memory grows
with the cells alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from tessella.cells.budget import RESTART
from tessella.cells.joining import Order
from tessella.cells.maps import Distinct, Maps, gathered_outputs, put, taken_from
from tessella.cells.solvers import Exchange
from tessella.linalg.iterative.iteration import History, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array


@dataclass(frozen=True)
class Exchanged:
    """The maps of all cells, ready to be exchanged."""

    order: Order
    solver: Exchange
    maps: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]

    @property
    def bytes(self) -> int:
        """Nothing but the maps of the cells is needed."""
        return 0

    @property
    def growth(self) -> float:
        """Nothing is inverted."""
        return 1.0

    def solve(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, per stage, and how it was found; several right-hand sides are
        taken one after the other."""
        if values.ndim > 1:
            return self._each(c, sums, values)
        x, result = self._iterated(
            self._exchange, processes.total("right", gathered_outputs(self.order, c))
        )
        taken = [np.zeros((0, 0)) if place is None else x[place] for place in self.order.taken]
        return taken, result

    def transposed(
        self, taken: Sequence[Array | None], several: tuple[int, ...]
    ) -> tuple[list[Array | None], Array]:
        """The transpose of `solve`, one after the other: from `in` (members, k, in) to c."""
        order = self.order
        right = np.zeros((*several, order.size))
        for place, own in zip(order.taken, taken, strict=True):
            if place is not None and own is not None:
                put(right, place, own)
        right = processes.total("right", right)
        x = np.stack([self._iterated(self._exchange_back, own)[0] for own in right])
        given = [
            None if place is None or own is None else taken_from(x, place)
            for place, own in zip(order.given, taken, strict=True)
        ]
        return given, np.zeros((len(x), 0))

    def _iterated(
        self, product: Callable[[Array], Array], right: Array
    ) -> tuple[Array, SolverResult]:
        order, most = self.order, self.solver.max_iterations
        history: list[float] = []
        operator = scipy.sparse.linalg.LinearOperator(
            (order.size, order.size), matvec=product, dtype=np.float64
        )
        x, info, before = np.zeros(order.size), 1, -1
        while info and before < len(history) < most:
            before = len(history)
            x, info = scipy.sparse.linalg.gmres(
                operator,
                right,
                x,
                rtol=self.solver.tolerance,
                atol=0.0,
                restart=min(most - before, RESTART),
                maxiter=1,
                callback=lambda r: history.append(float(r)),
                callback_type="pr_norm",
            )
        stop = Stop.RESIDUAL if info == 0 else Stop.LIMIT
        residual = float(history[-1]) if history else 0.0
        curve = History(residual=np.array(history))
        return x, SolverResult(None, len(history), stop, curve, residual)

    def _each(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        every = [
            self.solve([None if own is None else own[:, i] for own in c], sums, one)
            for i, one in enumerate(values)
        ]
        taken = [np.stack(own, axis=1) for own in zip(*(one for one, _ in every), strict=True)]
        return taken, max((result for _, result in every), key=lambda own: own.iterations)

    def _exchange(self, x: Array) -> Array:
        """in - Pi T in."""
        order = self.order
        taken = [None if place is None else x.ravel()[place] for place in order.taken]
        outs = [
            None if own is None or mine is None else one.times(own.T, mine)
            for own, one, mine in zip(self.maps, self.distinct, taken, strict=True)
        ]
        return np.asarray(x.ravel() - processes.total("exchange", gathered_outputs(order, outs)))

    def _exchange_back(self, x: Array) -> Array:
        """The transpose of that."""
        order, found = self.order, np.zeros(x.size)
        for into, place, own, one in zip(
            order.taken, order.given, self.maps, self.distinct, strict=True
        ):
            if into is not None and place is not None and own is not None:
                found[into] = one.times(own.T.transpose(0, 2, 1), x.ravel()[place])
        return np.asarray(x.ravel() - processes.total("exchange", found))
