"""Cells of a regular grid mapped and joined on a device, all at once.

Nothing looks for cells that are equal: a batch of a thousand takes little longer than one. Rows are
made of the derivatives of features, which all cells share, and of coefficients, which are each
cell's own; Gramians, their inverses and the maps follow in a few batched products. What does not
fit (shapes, boxes of several sizes, sums, ports left open, cells whose Gramian is badly
conditioned) is left to the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Thread
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.cells.device_merging import PROMPT, Grid, Merged, Numbers, exchange, grid, merge
from tessella.cells.draw import Draw, Slot
from tessella.cells.factored import MAGNIFIED, FactoredCells
from tessella.cells.jumps import jumps
from tessella.cells.leaves import WELL
from tessella.cells.port import Rowed, port_rows
from tessella.cells.solvers import AnySolver, Merging
from tessella.cells.space import Space
from tessella.cells.system import CellSystem
from tessella.cells.tiled import Cells, spaces
from tessella.cells.unknowns import Unknowns
from tessella.geometry.functions import Orders
from tessella.linalg.iterative.iteration import History, Progress, SolverResult, Stop
from tessella.machine.arrays import Array
from tessella.machine.device import accelerated, on_the_cpu, preferred
from tessella.machine.memory import available_bytes, gib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.factored import Found, Many, Watching

WORTH, FAR = 3e8, 3e9
"""Flops of all Gramians below which the host is done before the device has begun; and where the
host does everything else (slabs of a march), so that programs are compiled for this alone."""

BATCH = 1 << 32
"""Bytes of rows that are made and multiplied together."""


Coefficients = tuple[tuple[jax.Array | np.ndarray, ...], ...]


class Statement(NamedTuple):
    """What makes the rows of one statement in its cells: per unknown, the coefficients (members, n)
    of every derivative, and these of all features, (n, r). No members are all cells."""

    members: jax.Array | None
    coefficients: Coefficients
    tables: tuple[tuple[jax.Array, ...], ...]


class PortRows(NamedTuple):
    """The rows of all ports, and which of a cell's ports (J, ports), numbers taken (J, in) and
    given (J, out) have a neighbour beyond."""

    rows: tuple[Rowed, ...]
    beyond: jax.Array
    taken: jax.Array
    given: jax.Array


class Leaves(NamedTuple):
    """Inverses of the Gramians of all cells (J, r, r), B (r, in) and O (out, r) of all ports, maps
    (J, out, in), and the worst condition of a cell's rows."""

    inverse: jax.Array
    B: jax.Array
    out: jax.Array
    T: jax.Array
    condition: jax.Array


Widths = tuple[int, ...]
"""Filtered features of every unknown."""


# --- programs


def _added(x: jax.Array, members: jax.Array | None, more: jax.Array) -> jax.Array:
    """x plus what some of its members get, or all."""
    return x + more if members is None else x.at[members].add(more)


def _gram(statement: Statement, widths: Widths) -> jax.Array:
    """M^T M of a statement's rows, (members, r, r)."""
    n = next(table.shape[0] for own in statement.tables for table in own)

    def one(coefficients: Coefficients) -> jax.Array:
        blocks = [
            sum((c[:, None] * t for c, t in zip(*pair, strict=True)), jnp.zeros((n, width)))
            for *pair, width in zip(coefficients, statement.tables, widths, strict=True)
        ]
        A = jnp.concatenate(blocks, axis=1)
        return A.T @ A

    together = max(1, BATCH // (8 * n * sum(widths)))
    if together >= len(next(c for own in statement.coefficients for c in own)):
        return jax.vmap(one)(statement.coefficients)
    return jax.lax.map(one, statement.coefficients, batch_size=together)


@partial(jax.jit, static_argnames="widths", compiler_options=PROMPT)
def map_cells(statements: tuple[Statement, ...], ports: PortRows, widths: Widths) -> Leaves:
    """The maps of all cells."""
    grams = jnp.stack([own.rows.T @ own.rows for own in ports.rows])
    B = jnp.concatenate([own.rows.T @ own.lifted for own in ports.rows], axis=1)
    out = jnp.concatenate([own.out for own in ports.rows])
    G = jnp.einsum("jp,prs->jrs", ports.beyond, grams)
    for statement in statements:
        G = _added(G, statement.members, _gram(statement, widths))
    L = jnp.linalg.cholesky(G)
    size = jnp.diagonal(L, axis1=1, axis2=2)
    eye = jnp.broadcast_to(jnp.eye(G.shape[1]), G.shape)
    half = jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)
    inverse = jnp.einsum("jkr,jks->jrs", half, half)
    T = ports.given[:, :, None] * (out @ inverse @ B) * ports.taken[:, None, :]
    return Leaves(inverse, B, out, T, jnp.max(size.max(axis=1) / size.min(axis=1)))


def _projected(statement: Statement, h: jax.Array, widths: Widths) -> jax.Array:
    """M^T h, (members, r)."""
    blocks = [
        sum(((c * h) @ t for c, t in zip(*pair, strict=True)), jnp.zeros((len(h), width)))
        for *pair, width in zip(statement.coefficients, statement.tables, widths, strict=True)
    ]
    return jnp.concatenate(blocks, axis=1)


def _missed(statement: Statement, h: jax.Array, y: Sequence[jax.Array]) -> jax.Array:
    """Squares of M y - h, summed over every cell's rows, (members,)."""
    values = -h
    for of, coefficients, tables in zip(y, statement.coefficients, statement.tables, strict=True):
        own = of if statement.members is None else jnp.take(of, statement.members, axis=0)
        for c, table in zip(coefficients, tables, strict=True):
            values = values + c * (own @ table.T)
    return jnp.sum(values * values, axis=1)


@partial(jax.jit, static_argnames=("grid", "widths"), compiler_options=PROMPT)
def fit_cells(
    statements: tuple[Statement, ...],
    h: tuple[jax.Array, ...],
    given: jax.Array,
    leaves: Leaves,
    merged: Merged,
    grid: Grid,
    widths: Widths,
) -> tuple[jax.Array, list[jax.Array], jax.Array]:
    """The unknowns of all cells (J, r), the squares that every statement misses in them, and the
    error of the exchange."""
    pairs = list(zip(statements, h, strict=True))
    b = jnp.zeros(leaves.inverse.shape[:2])
    for statement, own in pairs:
        b = _added(b, statement.members, _projected(statement, own, widths))
    y = jnp.einsum("jrs,js->jr", leaves.inverse, b)
    taken, error = exchange(grid, merged, leaves.T, given, given * (y @ leaves.out.T))
    y = y + jnp.einsum("jrs,js->jr", leaves.inverse, taken @ leaves.B.T)
    each = jnp.split(y, np.cumsum(widths)[:-1], axis=1)
    return y, [_missed(statement, own, each) for statement, own in pairs], error


# --- compiled ahead


Shapes = tuple[jax.ShapeDtypeStruct, ...]


def _hashable(arguments: object) -> tuple[Shapes, jax.tree_util.PyTreeDef]:
    """What of arguments their programs depend on."""
    leaves, tree = jax.tree.flatten(arguments)
    return tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves), tree


@lru_cache(maxsize=64)
def _ahead(grid: Grid, widths: Widths, shapes: Shapes, tree: jax.tree_util.PyTreeDef) -> Thread:
    """The last program compiled beside the first ones, which take as long; once for each kind."""

    def compile_it() -> None:
        # What goes wrong here goes wrong again where the program is called, and is said there.
        with suppress(Exception), on_the_cpu(False):
            statements, h, ports = jax.tree.unflatten(tree, shapes)
            leaves = map_cells.eval_shape(statements, ports, widths)
            merged = merge.eval_shape(leaves.T, grid)
            own = statements, h, ports.given, leaves, merged, grid, widths
            fit_cells.lower(*own).compile()

    thread = Thread(target=compile_it, daemon=True)
    thread.start()
    return thread


# --- what goes there


@lru_cache(maxsize=256)
def _table(draw: Draw, slot: Slot, alpha: Orders, unit: float) -> jax.Array:
    """Derivatives of filtered features on the device, kept there like those on the host."""
    return jax.device_put(draw.table(slot, alpha) / unit)


@lru_cache(maxsize=256)
def _members(numbers: bytes) -> jax.Array:
    return jax.device_put(np.frombuffer(numbers, dtype=np.int64))


def stated(system: CellSystem, space: Space) -> tuple[Statement, ...]:
    """All statements on the device; of what was there before only the coefficients go again."""
    found = []
    for part in system.asked:
        coefficients, tables = [], []
        for f, (draw, unit) in enumerate(zip(space.draws, space.units, strict=True)):
            alphas = [alpha for g, alpha in part.symbol if g == f]
            coefficients.append(tuple(part.symbol[f, alpha] for alpha in alphas))
            tables.append(tuple(_table(draw, part.slot, alpha, unit) for alpha in alphas))
        everywhere = len(part.members) == system.cells.count
        members = None if everywhere else _members(part.members.tobytes())
        found.append(Statement(members, tuple(coefficients), tuple(tables)))
    return jax.device_put(tuple(found))


Ported = tuple[tuple[Rowed, ...], tuple[Numbers, ...]]
"""Rows of a cell's ports on the device, below and above across every axis, and how many numbers
cross there; none across an axis with a single cell."""

_PORTED: dict[object, Ported] = {}

MOST = 16
"""Cells whose ports are remembered."""


def ported(system: CellSystem, space: Space) -> Ported:
    """Found again if the features and what crosses the faces are those of before."""
    ends = (0, system.ports.of(system.cells.count - 1)), (1, system.ports.of(0))
    found = [
        next((p for p in ports if (p.axis, p.side) == (axis, side)), None)
        for axis in range(system.problem.domain.dimension)
        for side, ports in ends
    ]
    key = (space.draws, space.units, tuple(port and port.name for port in found))
    if key not in _PORTED:
        while len(_PORTED) >= MOST:
            _PORTED.pop(next(iter(_PORTED)))
        rows = [_none(space) if port is None else port_rows(space, port) for port in found]
        taken = [own.lifted.shape[1] for own in rows]
        numbers = tuple(map(Numbers, taken[::2], taken[1::2]))
        _PORTED[key] = jax.device_put(tuple(rows)), numbers
    return _PORTED[key]


def _none(space: Space) -> Rowed:
    r = space.columns
    return Rowed(np.zeros((0, r)), np.zeros((0, 0)), np.zeros((0, r)))


def _fits(system: CellSystem, solver: AnySolver) -> bool:
    """Whether cells are alike and joined at their faces only."""
    cells, tiling = system.cells, system.cells.tiling
    return (
        accelerated()
        and (solver is None or isinstance(solver, Merging))
        and type(cells) is Cells
        and not (tiling.cut or system.sums or system.enriching.count)
        and cells.faces.all_alike
        and all(own.shared for own in system.bases)
        and all(part.slot.lasting for part in system.asked)
        and bool(np.all(cells.half_widths == cells.half_widths[0]))
    )


def _work(system: CellSystem, space: Space) -> float:
    return 2.0 * space.columns**2 * sum(part.h.size for part in system.asked)


def device_factors(
    system: CellSystem, sigma: float, solver: AnySolver, progress: Progress | None = None
) -> DeviceFactors | None:
    """The system's factors on a device; None if they belong on the host."""
    if not _fits(system, solver):
        return None
    orders = system.orders
    _, (space,) = spaces(system.cells, system.bases, system.stating, orders, sigma)
    if _work(system, space) < (WORTH if preferred().batches else FAR):
        return None
    with on_the_cpu(False):
        return _factored(system, space, solver, progress)


def _factored(
    system: CellSystem, space: Space, solver: AnySolver, progress: Progress | None
) -> DeviceFactors | None:
    rows, numbers = ported(system, space)
    tiling = system.cells.tiling
    plan = grid(tiling.subdomains, tiling.wraps, numbers)
    if plan.bytes > 0.6 * available_bytes():
        return None
    statements = stated(system, space)
    ports = PortRows(rows, *plan.masks)
    widths = tuple(draw.columns for draw in space.draws)
    shapes = tuple(jax.ShapeDtypeStruct(part.h.shape, part.h.dtype) for part in system.asked)
    ready = _ahead(plan, widths, *_hashable((statements, shapes, ports)))
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
    def solver(self) -> Merging:
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

    def solve(self, watch: Stopwatch, watching: Watching) -> Found:
        system = self.system
        with watch.phase("solve"), single_threaded_blas():
            unknowns, missed, error = self._fitted([part.h for part in system.asked])
            a = unknowns.coefficients()
        with watch.phase("measure"), single_threaded_blas():
            apart = jumps(unknowns) if watching.jumps else None
        result = SolverResult(None, 0, Stop.DIRECT, History(), float(error))
        return Found(a, result, self._residuals(missed), apart)

    def many(self, right: Array) -> Many:
        """One after the other: each is a few programs that are compiled already."""
        found = []
        with single_threaded_blas():
            for own in right:
                unknowns, missed, error = self._fitted(self.system.split(own)[0])
                result = SolverResult(None, 0, Stop.DIRECT, History(), float(error))
                found.append(Found(unknowns.coefficients(), result, self._residuals(missed)))
        return Many.of(found)

    def _fitted(self, h: Sequence[Array]) -> tuple[Unknowns, Sequence[Array], float]:
        """The unknowns for these right-hand sides, the squares missed, the error of the
        exchange."""
        system, (space,) = self.system, self.spaces
        widths = tuple(draw.columns for draw in space.draws)
        with on_the_cpu(False):
            own = self.statements, jax.device_put(tuple(h)), self.given, self.leaves, self.merged
            y, missed, error = jax.device_get(fit_cells(*own, self.grid, widths))
        nowhere = np.zeros(system.cells.count, dtype=np.int64)
        return Unknowns(system, (space,), nowhere, y), missed, error

    def _residuals(self, missed: Sequence[Array]) -> dict[str, float]:
        """Root mean square of what every statement misses, in its own units."""
        squares: dict[str, float] = {}
        for part, own in zip(self.system.asked, missed, strict=True):
            squares[part.name] = squares.get(part.name, 0.0) + float(np.sum(own / part.unit))
        return {name: math.sqrt(value) for name, value in squares.items()}
