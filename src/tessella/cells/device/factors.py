"""Cells of a regular grid mapped and joined on a device, all at once.

Nothing looks for cells that are equal: a batch of a thousand takes little longer than one. What
does not fit (shapes, boxes of several sizes, sums, ports left open, cells whose Gramian is badly
conditioned) is left to the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Thread

import jax
import numpy as np

from tessella.cells.cell.space import Space
from tessella.cells.device.grid import Grid, grid
from tessella.cells.device.maps import (
    Leaves,
    PortRows,
    Statement,
    Widths,
    fit_cells,
    map_cells,
)
from tessella.cells.device.merging import Merged, merge
from tessella.cells.device.rows import heard, ported, stated
from tessella.cells.factored import MAGNIFIED, FactoredCells
from tessella.cells.maps.jumps import jumps
from tessella.cells.maps.leaves import WELL
from tessella.cells.maps.unknowns import Unknowns
from tessella.cells.solvers import AnySolver, Exchange, Merging
from tessella.cells.system.system import CellSystem
from tessella.cells.system.tiled import Cells, spaces
from tessella.linalg.iterative.iteration import History, Progress, SolverResult, Stop
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.device import accelerated, on_the_cpu, preferred
from tessella.machine.memory import available_bytes, gib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.factored import Found, Many, Watching

WORTH, FAR = 3e8, 3e9
"""Flops of all Gramians below which the host is done before the device has begun; and where the
host does everything else (slabs of a march), so that programs are compiled for this alone."""

FILLED = 0.6
"""Part of what is free on the device that maps and joins may be foretold to take."""


# --- compiled ahead


Shapes = tuple[jax.ShapeDtypeStruct, ...]


def _hashable(arguments: object) -> tuple[Shapes, jax.tree_util.PyTreeDef]:
    """What of arguments their programs depend on."""
    leaves, tree = jax.tree.flatten(arguments)
    return tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves), tree


Compile = Callable[[Grid, Widths, tuple[Statement, ...], Shapes, PortRows], None]
"""Later programs, by the shapes of statements, data and ports."""


def ahead(later: Compile, grid: Grid, widths: Widths, *arguments: object) -> Thread:
    """Later programs compiled beside the first ones, which take as long; once for each kind."""
    return _ahead(later, grid, widths, *_hashable(arguments))


@lru_cache(maxsize=64)
def _ahead(
    later: Compile, grid: Grid, widths: Widths, shapes: Shapes, tree: jax.tree_util.PyTreeDef
) -> Thread:
    def compile_them() -> None:
        # What goes wrong here goes wrong again where a program is called, and is said there.
        with suppress(Exception), on_the_cpu(False):
            later(grid, widths, *jax.tree.unflatten(tree, shapes))

    thread = Thread(target=compile_them, daemon=True)
    thread.start()
    return thread


def made_of(
    grid: Grid, widths: Widths, statements: tuple[Statement, ...], ports: PortRows
) -> tuple[Leaves, Merged]:
    """The shapes of maps and joins."""
    leaves: Leaves = map_cells.eval_shape(statements, ports, widths)
    return leaves, merge.eval_shape(leaves.T, grid)


def _fitting(
    grid: Grid, widths: Widths, statements: tuple[Statement, ...], h: Shapes, ports: PortRows
) -> None:
    own = made_of(grid, widths, statements, ports)
    fit_cells.lower(statements, h, ports.given, *own, grid, widths).compile()


# --- what belongs there


def fits(system: CellSystem) -> bool:
    """Whether cells are alike and joined at their faces only."""
    cells, tiling = system.cells, system.cells.tiling
    return (
        accelerated()
        and type(cells) is Cells
        and not (tiling.cut or system.sums or system.enriching.count)
        and cells.faces.all_alike
        and all(own.shared for own in system.bases)
        and all(part.slot.lasting for part in heard(system))
        and bool(np.all(cells.half_widths == cells.half_widths[0]))
    )


def worth(system: CellSystem, space: Space) -> bool:
    """Whether it is enough work."""
    flops = 2.0 * space.columns**2 * sum(part.h.size for part in heard(system))
    return flops > (WORTH if preferred().batches else FAR)


def device_factors(
    system: CellSystem, sigma: float, solver: AnySolver, progress: Progress | None = None
) -> DeviceFactors | None:
    """The system's factors on a device; None if they belong on the host."""
    if not (solver is None or isinstance(solver, Merging)) or not fits(system):
        return None
    orders = system.orders
    _, (space,) = spaces(system.cells, system.bases, system.stating, orders, sigma)
    if not worth(system, space):
        return None
    with on_the_cpu(False):
        return _factored(system, space, solver, progress)


def _factored(
    system: CellSystem, space: Space, solver: AnySolver, progress: Progress | None
) -> DeviceFactors | None:
    rows, numbers = ported(system, space)
    tiling = system.cells.tiling
    plan = grid(tiling.subdomains, tiling.wraps, numbers)
    if plan.bytes > FILLED * available_bytes():
        return None
    statements = stated(system, space, np.arange(system.cells.count))
    ports = PortRows(rows, *plan.masks)
    widths = tuple(draw.columns for draw in space.draws)
    shapes = data_shapes(system)
    ready = ahead(_fitting, plan, widths, statements, shapes, ports)
    leaves = map_cells(statements, ports, widths)
    merged = merge(leaves.T, plan)
    condition, growth = jax.device_get((leaves.condition, merged.growth))
    if not (condition <= WELL and growth < MAGNIFIED):
        return None
    ready.join()
    if progress is not None:
        progress(system.cells.count, system.cells.count, 1.0)
    note = f"direct: about {gib(int(plan.bytes))} on the device" if solver is None else ""
    own = plan, statements, ports.given, leaves, merged, float(condition)
    return DeviceFactors(system, (space,), 0, note, 1.0, *own)


def data_shapes(system: CellSystem) -> Shapes:
    """Of what this process's cells are asked for."""
    return tuple(jax.ShapeDtypeStruct(part.h.shape, part.h.dtype) for part in heard(system))


Fitted = tuple[Unknowns, Sequence[Array], SolverResult]


@dataclass(frozen=True, repr=False)
class DeviceFactors(FactoredCells):
    """All cells mapped and merged on a device."""

    grid: Grid
    statements: tuple[Statement, ...]
    given: jax.Array
    leaves: Leaves
    merged: Merged
    worst_condition: float

    @property
    def solver(self) -> Merging | Exchange:
        return Merging()

    @property
    def distinct(self) -> int:
        return self.system.cells.count

    @property
    def worst(self) -> float:
        return self.worst_condition

    @property
    def columns_kept(self) -> int:
        return self.system.cells.count * self.spaces[0].columns

    @property
    def bytes(self) -> int:
        return int(self.grid.bytes) + sum(x.nbytes for x in self.leaves)

    @property
    def sent(self) -> int:
        return 0

    @property
    def widths(self) -> Widths:
        return tuple(draw.columns for draw in self.spaces[0].draws)

    def solve(self, watch: Stopwatch, watching: Watching) -> Found:
        processes.begin()
        begun = processes.sent_bytes()
        with watch.phase("solve"), single_threaded_blas():
            own = [part.h for part in self.system.asked]
            unknowns, missed, result = self._fitted(own, watching.progress)
            a = self._coefficients(unknowns)
        with watch.phase("measure"), single_threaded_blas():
            residual = self._residuals(missed)
            apart = jumps(unknowns, self.system.cells.whose) if watching.jumps else None
        return Found(a, result, residual, apart, self._traffic(begun), self._parted)

    def many(self, right: Array) -> Many:
        """One after the other: each is a few programs that are compiled already."""
        found = []
        with single_threaded_blas():
            for own in right:
                unknowns, missed, result = self._fitted(self.system.split(own)[0])
                a = self._coefficients(unknowns)
                found.append(Found(a, result, self._residuals(missed), parted=self._parted))
        return Many.of([one.whole() for one in found])

    def _fitted(self, h: Sequence[Array], progress: Progress | None = None) -> Fitted:
        """The unknowns for the data of all statements, the squares missed, and how it went."""
        with on_the_cpu(False):
            own = self.statements, self._there(h), self.given, self.leaves, self.merged
            y, missed, error = jax.device_get(fit_cells(*own, self.grid, self.widths))
        result = SolverResult(None, 0, Stop.DIRECT, History(), float(error))
        return self._unknowns(y), missed, result

    def _there(self, h: Sequence[Array]) -> tuple[jax.Array, ...]:
        """The data on the device."""
        parts = zip(self.system.asked, h, strict=True)
        found: tuple[jax.Array, ...] = jax.device_put(
            tuple(x for part, x in parts if not part.quiet)
        )
        return found

    def _unknowns(self, rows: Array) -> Unknowns:
        """Those of all cells."""
        nowhere = np.zeros(self.system.cells.count, dtype=np.int64)
        return Unknowns(self.system, self.spaces, nowhere, rows)

    def _residuals(self, missed: Sequence[Array]) -> dict[str, float]:
        """Root mean square of what every statement misses, in its own units."""
        squares = {part.name: 0.0 for part in self.system.asked}
        for part, own in zip(heard(self.system), missed, strict=True):
            squares[part.name] += float(np.sum(own / part.unit))
        every = processes.total("residuals", np.array(list(squares.values())))
        return {name: math.sqrt(value) for name, value in zip(squares, every, strict=True)}
