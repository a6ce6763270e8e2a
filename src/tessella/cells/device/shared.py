"""Cells of a regular grid, of which each of several processes maps and merges a box on a device of
its own.

A process's box is one large cell then, whose map goes to the host. There boxes are joined as any
cells of several processes are (see `merging`, `exchanged`); what comes in at a box goes down to its
cells on the device again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.cells.cell.port import Rowed
from tessella.cells.cell.space import Space
from tessella.cells.device.boxes import Blocks
from tessella.cells.device.factors import (
    FILLED,
    DeviceFactors,
    Fitted,
    Shapes,
    ahead,
    data_shapes,
    fits,
    made_of,
    worth,
)
from tessella.cells.device.grid import Grid, grid
from tessella.cells.device.maps import (
    Leaves,
    PortRows,
    Statement,
    Widths,
    by_themselves,
    completed,
    map_cells,
)
from tessella.cells.device.merging import PASSES, PROMPT, Merged, Passing, down, merge, times, up
from tessella.cells.device.rows import ported, stated
from tessella.cells.factored import MAGNIFIED
from tessella.cells.joins.budget import joining_bytes
from tessella.cells.joins.choosing import Choice, chosen
from tessella.cells.joins.exchanged import Exchanged
from tessella.cells.joins.join import Climb
from tessella.cells.joins.joined import CUT_OFF, EXACT
from tessella.cells.joins.merging import Merged as Whole
from tessella.cells.maps.leaves import WELL
from tessella.cells.maps.maps import Distinct, Maps, distinct_members
from tessella.cells.order.order import Order
from tessella.cells.solvers import AnySolver, Exchange, Merging
from tessella.cells.system.system import CellSystem
from tessella.cells.system.tiled import spaces
from tessella.linalg.iterative.iteration import Progress, SolverResult
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.device import has_gpu, on_the_cpu
from tessella.machine.memory import (
    available_bytes,
    gib,
    of_the_host,
    refusals_with_remedy,
    require,
)

# --- programs


@partial(jax.jit, static_argnames="widths", compiler_options=PROMPT)
def begun(
    statements: tuple[Statement, ...],
    h: tuple[jax.Array, ...],
    given: jax.Array,
    leaves: Leaves,
    widths: Widths,
) -> tuple[jax.Array, jax.Array]:
    """The unknowns of all cells, and what they give (J, out), if nothing comes in."""
    y = by_themselves(statements, h, leaves, widths)
    return y, given * (y @ leaves.out.T)


@partial(jax.jit, static_argnames="grid", compiler_options=PROMPT)
def risen(
    T: jax.Array,
    given: jax.Array,
    merged: Merged,
    c: jax.Array,
    x: jax.Array,
    beyond: jax.Array,
    grid: Grid,
) -> tuple[Passing, jax.Array, jax.Array]:
    """What is left over of c + T x if neighbours take x, and others that beyond open sides, on its
    way up to these sides; and its size."""
    there = jnp.concatenate([x.ravel(), beyond])[grid.partners]
    missed = c + times(T, x) - given * there
    passing, outs = up(grid.order, merged, missed)
    return passing, outs[len(grid.order.stages) - 1][0, grid.outside.given], jnp.sum(missed**2)


@partial(jax.jit, static_argnames="grid", compiler_options=PROMPT)
def fallen(
    merged: Merged, passing: Passing, x: jax.Array, into: jax.Array, grid: Grid
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """x and what comes of that and of what comes in at open sides; what of it is taken there; and
    its size."""
    sizes = grid.order.stages[-1].sizes
    every = jnp.zeros(sum(sizes.taken)).at[grid.outside.taken].set(into)
    x = x + down(grid.order, merged, passing, every)
    return x, x.ravel()[grid.at_rim], jnp.sum(x**2)


finished = jax.jit(completed, static_argnames="widths", compiler_options=PROMPT)


def _solving(
    grid: Grid, widths: Widths, statements: tuple[Statement, ...], h: Shapes, ports: PortRows
) -> None:
    """All these programs compiled ahead."""
    leaves, merged = made_of(grid, widths, statements, ports)
    own = statements, h, ports.given, leaves, widths
    y, c = begun.eval_shape(*own)
    x, rim = (jax.ShapeDtypeStruct(n, y.dtype) for n in (grid.taken.shape, grid.rim.given.shape))
    up = leaves.T, ports.given, merged, c, x, rim, grid
    passing, _, _ = risen.eval_shape(*up)
    into = jax.ShapeDtypeStruct(grid.rim.taken.shape, y.dtype)
    begun.lower(*own).compile()
    risen.lower(*up).compile()
    fallen.lower(merged, passing, x, into, grid).compile()
    finished.lower(statements, h, leaves, y, x, widths).compile()


# --- what belongs there


class Planned(NamedTuple):
    """Boxes of all processes, and in which order they are joined; of this one the features, what
    crosses faces, and its grid."""

    blocks: Blocks
    order: Order
    space: Space
    rows: tuple[Rowed, ...]
    grid: Grid


@cache
def _everywhere(number: int) -> bool:
    """Whether each of so many processes has a GPU, which is asked once."""
    with processes.in_unison("devices"):
        mine = has_gpu()
    return not processes.largest("devices", float(not mine))


def _planned(system: CellSystem, sigma: float, solver: AnySolver) -> Planned | None:
    """What this process is about to do; None if something of it belongs on the host."""
    if not fits(system):
        return None
    tiling, me = system.cells.tiling, processes.index()
    counts, wraps, whose = tiling.subdomains, tiling.wraps, system.cells.whose
    blocks = Blocks.of(counts, wraps, whose, processes.number())
    _, (space,) = spaces(system.cells, system.bases, system.stating, system.orders, sigma)
    if blocks is None or not (_of_blocks(solver, blocks) and worth(system, space)):
        return None
    with on_the_cpu(False):
        rows, data = ported(system, space)
        own = grid(blocks.shape(me), blocks.wrapped(me), data, blocks.opened(me))
        fitting = own.bytes < FILLED * available_bytes()
    long = system.ports.joints.longest(system.cells.faces.axis, len(counts))
    return Planned(blocks, blocks.order(data, long), space, rows, own) if fitting else None


def _of_blocks(solver: AnySolver, blocks: Blocks) -> bool:
    """Whether boxes are what is joined or exchanges."""
    if isinstance(solver, Exchange):
        return solver.group >= blocks.largest
    return solver is None or isinstance(solver, Merging)


def block_factors(
    system: CellSystem,
    sigma: float,
    solver: AnySolver,
    progress: Progress | None,
    right_sides: int,
) -> DeviceBlocks | None:
    """The system's factors on the devices of all processes; None if they belong on the hosts."""
    if not _everywhere(processes.number()):
        return None
    begun = processes.sent_bytes()
    with processes.in_unison("device"), refusals_with_remedy():
        plan = _planned(system, sigma, solver)
    if processes.largest("device", float(plan is None)):
        return None
    assert plan is not None
    space, own, me = plan.space, plan.grid, processes.index()
    leaf, stages = int(plan.order.place[me, 0]), range(len(plan.order.stages))
    one = np.zeros(1, dtype=np.int64)
    distinct = distinct_members(plan.order, [one if i == leaf else None for i in stages])
    sizes = plan.order.stages[leaf].sizes
    maps = 8 * sum(sizes.taken) * sum(sizes.given)
    choice = Choice(replace(solver, group=1) if isinstance(solver, Exchange) else Merging())
    with of_the_host():
        if solver is None:
            axes = len(plan.blocks.counts)
            choice = chosen(plan.order, distinct, maps, False, right_sides, axes)
        _check_memory(plan.order, distinct, maps, choice.first)
    widths = tuple(draw.columns for draw in space.draws)
    with processes.in_unison("maps and joins"), refusals_with_remedy(), on_the_cpu(False):
        cells = plan.blocks.cells(me)
        statements, ports = stated(system, space, cells), PortRows(plan.rows, *own.masks)
        ready = ahead(_solving, own, widths, statements, data_shapes(system), ports)
        leaves = map_cells(statements, ports, widths)
        merged = merge(leaves.T, own)
        numbers = leaves.condition, merged.growth, merged.outside
        condition, growth, T = jax.device_get(numbers)
        ready.join()
    condition, growth = processes.largest_each("condition", float(condition), float(growth))
    if not (condition <= WELL and growth < MAGNIFIED):
        return None
    box = Maps(np.asarray(T)[None], np.zeros((1, 0, T.shape[1])), ())
    climb = Climb(plan.order, [box if i == leaf else None for i in stages], distinct, None)
    joined = choice.joined(climb, np.zeros(0), progress)
    trouble = processes.largest("trouble", joined.growth)
    if trouble >= MAGNIFIED or (isinstance(joined, Whole) and joined.undetermined):
        return None
    if progress is not None:
        progress(system.cells.count, system.cells.count, 1.0)
    kept = own.bytes + sum(x.nbytes for x in leaves) + joined.bytes
    kept, sent = processes.total("tally", np.array([kept, processes.sent_bytes() - begun]))
    first = int(processes.agreed("bytes", own.bytes))
    note = f"about {gib(first)} on the device of process 0" if solver is None else ""
    return DeviceBlocks(
        system, (space,), 0, "; ".join(filter(None, (note, choice.note(joined.solver)))), 1.0,
        own, statements, ports.given, leaves, merged, condition, cells, joined,
        plan.blocks.largest, int(kept), int(sent),
    )  # fmt: skip


def _check_memory(
    order: Order, distinct: Sequence[Distinct], maps: int, solver: Merging | Exchange
) -> None:
    """Refuse what will not fit on all hosts, before any of it is made."""
    needed = maps + int(joining_bytes(order, distinct, solver))
    (beside,) = processes.beside("needs", needed)
    with processes.in_unison("memory"):
        require(
            needed,
            f"joining what {order.count} processes have on their devices by {solver.name}",
            "use fewer subdomains or features, or a lower trace_degree",
            beside,
        )


@dataclass(frozen=True, repr=False)
class DeviceBlocks(DeviceFactors):
    """Boxes mapped and merged on a device each, and joined by their hosts.

    cells   of this process, in the order of its grid
    joined  all boxes
    most    cells of the largest one
    kept    bytes of all processes
    """

    cells: np.ndarray
    joined: Whole | Exchanged
    most: int
    kept: int
    to_join: int

    @property
    def solver(self) -> Merging | Exchange:
        """As it is said of cells."""
        solver = self.joined.solver
        return replace(solver, group=self.most) if isinstance(solver, Exchange) else solver

    @property
    def bytes(self) -> int:
        return self.kept

    @property
    def sent(self) -> int:
        return self.to_join

    def _fitted(self, h: Sequence[Array], progress: Progress | None = None) -> Fitted:
        """By at most as many corrections as on a single device; what a device has no room for
        is said by all."""
        maps = self.leaves.T, self.given, self.merged
        with on_the_cpu(False):
            with processes.in_unison("up"), refusals_with_remedy():
                own = self._there(h)
                y, c = begun(self.statements, own, self.given, self.leaves, self.widths)
                x, beyond = jnp.zeros(self.grid.taken.shape), np.zeros(len(self.grid.rim.given))
                passing, out, _ = risen(*maps, c, x, jax.device_put(beyond), self.grid)
                into = np.asarray(out)
            found: SolverResult | None = None
            for _ in range(PASSES):
                into, result = self._between(into, progress)
                found = found or result
                with processes.in_unison("down"), refusals_with_remedy():
                    into = jax.device_put(into)
                    x, rim, size = fallen(self.merged, passing, x, into, self.grid)
                    rim = np.asarray(rim)
                beyond = self._beyond(rim)
                with processes.in_unison("up"), refusals_with_remedy():
                    beyond = jax.device_put(beyond)
                    passing, out, missed = risen(*maps, c, x, beyond, self.grid)
                    into, missed, size = jax.device_get((out, missed, size))
                missed, size = processes.total("exchange", np.array([missed, size]))
                error = math.sqrt(missed / size) if size > 0 else 0.0
                if error <= self._enough or result.stop in CUT_OFF:
                    break
            with processes.in_unison("down"), refusals_with_remedy():
                fitted = finished(self.statements, own, self.leaves, y, x, self.widths)
                y, squares = jax.device_get(fitted)
        rows = np.zeros((self.system.cells.count, y.shape[1]))
        rows[self.cells] = y
        assert found is not None
        return self._unknowns(rows), squares, replace(found, residual_norm=error)

    @property
    def _enough(self) -> float:
        """Relative residual of the exchange of all cells that is not corrected."""
        solver = self.joined.solver
        return max(EXACT, 10 * solver.tolerance) if isinstance(solver, Exchange) else EXACT

    @property
    def _leaf(self) -> int:
        """The stage of the own box."""
        return int(self.joined.order.place[processes.index(), 0])

    def _between(self, out: Array, progress: Progress | None) -> tuple[Array, SolverResult]:
        """What comes in at the own box, given what goes out if nothing comes in."""
        stages = range(len(self.joined.order.stages))
        c = [out[None] if i == self._leaf else None for i in stages]
        sums = [np.zeros((1, 0)) if i == self._leaf else None for i in stages]
        taken, result = self.joined.solve(c, sums, np.zeros(0), progress)
        return taken[self._leaf][0], result

    def _beyond(self, rim: Array) -> Array:
        """What others take of what the own box gives, told what it takes itself."""
        order, leaf = self.joined.order, self._leaf
        taken, given = order.taken[leaf], order.given[leaf]
        assert taken is not None and given is not None
        every = np.zeros(order.size)
        every[taken[0]] = rim
        self.joined.crossed(every, back=True)
        return np.asarray(every[given[0]])
