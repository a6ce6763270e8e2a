"""The exchange between cells solved by GMRES: in = Pi (T in + c), with Pi from out to in.

Every iteration is one product with the maps of all cells. Nothing is merged, so that memory grows
with the cells alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from tessella.cells.joining import Face, Order
from tessella.cells.leaves import Port
from tessella.cells.merging import Distinct, Maps, apply_maps
from tessella.cells.solvers import Exchange, Merging
from tessella.domain import Array
from tessella.linalg.iteration import History, SolverResult, Stop
from tessella.memory import available_bytes, gib

RATE = 1.5e10
"""Flops per second that joins are counted on."""

PATIENCE = 120.0
"""Seconds up to which merging is preferred."""


def chosen(
    order: Order, distinct: Sequence[Distinct], bound: bool
) -> tuple[Merging | Exchange, str]:
    """Merging if its predicted memory and time fit, else an iteration; and the prediction in words.
    Sums and open ports (`bound`) can only be merged."""
    flops = size = 0.0
    for stage, own in zip(order.stages, distinct, strict=True):
        if stage.cells is None:
            flops += len(own.pairs) * stage.flops
            size += len(own.pairs) * stage.bytes
    seconds = flops / RATE
    plan = f"about {gib(int(size))} and {seconds:.1g} s"
    if bound or (size < 0.6 * available_bytes() and seconds < PATIENCE):
        return Merging(), f"direct: {plan}"
    return Exchange(), f"iterative, because merging would need {plan}"


@dataclass(frozen=True)
class Exchanged:
    """Maps of all cells and which of their numbers go where.

    slots   per stage of single cells, (members, in): where what they take is in the vector of all
    given   per stage, (members, out): where what they give goes; -1 for nowhere
    """

    order: Order
    solver: Exchange
    maps: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]
    slots: tuple[np.ndarray | None, ...]
    given: tuple[np.ndarray | None, ...]
    size: int

    def solve(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, per stage, and how it was found."""
        right = np.zeros(self.size)
        for place, own in zip(self.given, c, strict=True):
            if place is not None and own is not None:
                right[place.ravel()] = own.ravel()
        history: list[float] = []
        operator = LinearOperator((self.size, self.size), matvec=self._exchange, dtype=np.float64)
        x, info = gmres(
            operator,
            right,
            rtol=self.solver.tolerance,
            atol=0.0,
            restart=min(self.solver.max_iterations, 200),
            maxiter=-(-self.solver.max_iterations // 200),
            callback=lambda r: history.append(float(r)),
            callback_type="pr_norm",
        )
        stop = Stop.RESIDUAL if info == 0 else Stop.LIMIT
        taken = [np.zeros((0, 0)) if place is None else x[place] for place in self.slots]
        residual = float(history[-1]) if history else 0.0
        curve = History(residual=np.array(history))
        return taken, SolverResult(None, len(history), stop, curve, residual)

    def _exchange(self, x: Array) -> Array:
        found = np.array(x, dtype=np.float64).ravel()
        parts = zip(self.maps, self.distinct, self.slots, self.given, strict=True)
        for own, distinct, place, given in parts:
            if own is not None and place is not None and given is not None:
                out = apply_maps(own.T, distinct.which, x.ravel()[place])
                found[given.ravel()] -= out.ravel()
        return found


def exchanged(
    order: Order,
    leaves: Sequence[Maps | None],
    distinct: Sequence[Distinct],
    faces: Sequence[Face],
    ports: Sequence[Sequence[Port]],
    solver: Exchange,
) -> Exchanged:
    """Where everything is: of every face first what goes up, then what goes down."""
    starts = np.concatenate([[0], np.cumsum([f.up + f.down for f in faces])])
    slots: list[np.ndarray | None] = []
    given: list[np.ndarray | None] = []
    for stage in order.stages:
        if stage.cells is None:
            slots.append(None)
            given.append(None)
            continue
        own_in, own_out = [], []
        for cell in stage.cells:
            if cell < 0:
                raise ValueError(
                    "an axis around which a single subdomain is its own neighbour is merged, not "
                    "iterated: use solver='merging', or two subdomains along it"
                )
            up_first = [(starts[p.face], faces[p.face].up, faces[p.face].down) for p in ports[cell]]
            parts = [
                (np.arange(s, s + up), np.arange(s + up, s + up + down)) for s, up, down in up_first
            ]
            sides = [p.side for p in ports[cell]]
            own_in.append(np.concatenate([x[side] for x, side in zip(parts, sides, strict=True)]))
            own_out.append(
                np.concatenate([x[1 - side] for x, side in zip(parts, sides, strict=True)])
            )
        slots.append(np.array(own_in))
        given.append(np.array(own_out))
    return Exchanged(
        order,
        solver,
        tuple(leaves),
        tuple(distinct),
        tuple(slots),
        tuple(given),
        int(starts[-1]),
    )
