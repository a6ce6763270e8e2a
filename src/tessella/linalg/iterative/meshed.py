"""An iteration spread over the devices of one process, by `jax.shard_map`.

Every device has some neighbouring blocks, their columns and all rows that they fill, as processes
have (see `linalg.vectors`). What differs from device to device is padded to one size and stacked,
the devices along the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.iterative.loops import PROGRAMS, Made, Recurrence, Run, until
from tessella.linalg.partial_sums import block_places
from tessella.linalg.shared_matrix import SharedMatrix, halved
from tessella.linalg.vectors import AXIS, WHOLE, MeshHalo, Whole
from tessella.machine.arrays import Array
from tessella.machine.compiled import compiled
from tessella.machine.device import devices

ALONG, EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()


def mesh() -> Mesh:
    """All devices of this process, in a row."""
    return Mesh(np.array(devices()), (AXIS,))


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["blocks", "halo", "columns"],
    meta_fields=["shape", "rows", "local"],
)
@dataclass(frozen=True, eq=False)
class Spread:
    """A block matrix over all devices.

    blocks   (values, rows, columns) of every group, with a first axis for the devices
    halo     of the devices, likewise
    columns  which of all columns a device has, (devices, local ones); padding is one too many
    rows     the same of rows, and `local` how many rows and columns a device has
    """

    blocks: tuple[tuple[jax.Array, jax.Array, jax.Array], ...]
    halo: MeshHalo
    columns: jax.Array
    shape: tuple[int, int]
    rows: Any
    local: tuple[int, int]

    @property
    def vectors(self) -> Whole:
        return WHOLE

    def here(self) -> SharedMatrix:
        """What one device has, inside `jax.shard_map`."""
        first = partial(jax.tree.map, lambda x: x[0])
        nothing: Any = (None, None)
        groups = (Group(*first(one), *nothing) for one in self.blocks)
        return SharedMatrix(BlockMatrix(tuple(groups), self.local), first(self.halo))

    def right(self, b: Array) -> jax.Array:
        """A right-hand side as devices have it."""
        stacked = np.append(b, 0.0)[self.rows.table]
        return jax.device_put(stacked.ravel(), NamedSharding(mesh(), ALONG))

    def whole(self, x: jax.Array) -> jax.Array:
        """All columns from those of the devices."""
        return jnp.zeros(self.shape[1]).at[self.columns.ravel()].set(x, mode="drop")


class Table:
    """An array that JAX does not see."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table


def spread(A: BlockMatrix) -> Any:
    """A `Spread` over all devices of this process; the matrix itself where there is one."""
    number = len(devices())
    if number == 1 or not isinstance(A, BlockMatrix):
        return A
    owner = halved(block_places(A), number)
    if len(np.unique(owner)) < number:
        return A
    ends = np.cumsum([len(g.heights) for g in A.groups])[:-1]
    owners = np.split(owner, ends)
    all_rows, all_columns = A.pattern()
    rows = _parts(all_rows, owner, number, A.shape[0])
    columns = _parts(all_columns, owner, number, A.shape[1])
    local = max(map(len, rows)), max(map(len, columns))
    blocks = []
    for g, own in zip(A.groups, owners, strict=True):
        members = [np.flatnonzero(own == d) for d in range(number)]
        tables = (_renumbered(x, y) for x, y in ((g.rows, rows), (g.columns, columns)))
        blocks.append(
            tuple(
                _stacked([part[where] for part, where in zip(every, members, strict=True)])
                for every in ([np.asarray(g.values)] * number, *tables)
            )
        )
    halo = _halo(rows, A.shape[0], local[0])
    table = np.stack([_padded(own, local[1], A.shape[1]) for own in columns])
    made: Any = jax.device_put((tuple(blocks), halo, table), NamedSharding(mesh(), ALONG))
    places = Table(np.stack([_padded(own, local[0], A.shape[0]) for own in rows]))
    stacked, halo, which = made
    return Spread(stacked, halo, which, A.shape, places, local)


def _parts(lists: list[np.ndarray], owner: np.ndarray, number: int, size: int) -> list[np.ndarray]:
    """Which numbers below `size` each device has; the first has those that no block has."""
    none = np.zeros(0, dtype=np.int64)
    found = [
        np.unique(np.concatenate([none, *(lists[k] for k in np.flatnonzero(owner == d))]))
        for d in range(number)
    ]
    found[0] = np.union1d(found[0], np.setdiff1d(np.arange(size), np.concatenate(found)))
    return found


def _renumbered(numbers: jax.Array, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Row or column numbers as each device counts them; what it does not have is 0."""
    every = np.asarray(numbers)
    found = []
    for own in parts:
        at = np.minimum(np.searchsorted(own, every), len(own) - 1)
        found.append(np.where(own[at] == every, at, 0).astype(np.int32))
    return found


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    found = np.zeros((len(parts), max(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for d, part in enumerate(parts):
        found[d, : len(part)] = part
    return found


def _padded(own: np.ndarray, length: int, value: int) -> np.ndarray:
    return np.pad(own, (0, length - len(own)), constant_values=value)


def _halo(rows: list[np.ndarray], size: int, local: int) -> MeshHalo:
    number, taken = len(rows), np.zeros(size, dtype=bool)
    counted = np.zeros((number, local))
    for d, own in enumerate(rows):
        counted[d, : len(own)] = ~taken[own]
        taken[own] = True
    turns, sent, added_at = [], [], []
    for distance in range(1, number):
        turn = tuple((d, (d + distance) % number) for d in range(number))
        common = [np.intersect1d(rows[d], rows[e]) for d, e in turn]
        most = max(map(len, common))
        if most:
            turns.append(turn)
            place = [np.searchsorted(rows[d], common[d]) for d in range(number)]
            sent.append(np.stack([_padded(own, most, local) for own in place]))
            theirs = [common[d - distance] for d in range(number)]  # of the one before
            place = [np.searchsorted(rows[d], theirs[d]) for d in range(number)]
            added_at.append(np.stack([_padded(own, most, local) for own in place]))
    parts: Any = (tuple(sent), tuple(added_at), counted)
    return MeshHalo(tuple(turns), *parts)


# --- the loop


def spread_in(state: Any) -> Spread | None:
    """The matrix of a solver's state, if devices share it."""
    return next((x for x in jax.tree.leaves(state, is_leaf=_is_spread) if _is_spread(x)), None)


def _is_spread(x: object) -> bool:
    return isinstance(x, Spread)


def _here(state: Any) -> Any:
    return jax.tree.map(lambda x: x.here() if _is_spread(x) else x, state, is_leaf=_is_spread)


def _specs(tree: Any) -> Any:
    """Vectors are those of the devices, numbers of all."""
    return jax.tree.map(lambda x: ALONG if x.ndim else EVERYWHERE, tree)


@compiled(PROGRAMS, static=(0,))
def begun(begin: Any, state: Any, b: jax.Array) -> Any:
    """The first iterate."""
    A = spread_in(state)
    assert A is not None
    alone = jax.tree.map(lambda x: x.here().own if _is_spread(x) else x, state, is_leaf=_is_spread)
    like = jax.eval_shape(begin, alone, jnp.zeros(A.local[0]))
    return jax.shard_map(
        lambda own, right: begin(_here(own), right),
        mesh=mesh(),
        in_specs=(jax.tree.map(lambda _: ALONG, state), ALONG),
        out_specs=_specs(like),
        check_vma=False,
    )(state, b)


def run_meshed(recurrence: Recurrence, start: Any, done: int, upto: int) -> Run:
    """`run_until` on all devices."""
    return _meshed(recurrence, start, done, upto).fetched()


@compiled(PROGRAMS)
def _meshed(recurrence: Recurrence, start: Any, done: int, upto: int) -> Made:
    def loop(own: Recurrence, first: Any, before: Any, last: Any) -> Made:
        A, monitor = spread_in(own.state), own.monitor
        watch: Any = None
        assert A is not None
        if monitor is not None:
            every = jax.lax.all_gather(A.columns[0], AXIS)

            def watch(x: jax.Array) -> jax.Array:
                gathered = jax.lax.all_gather(x, AXIS).ravel()
                return monitor(jnp.zeros(A.shape[1]).at[every.ravel()].set(gathered, mode="drop"))

        return until(replace(own, state=_here(own.state), monitor=watch), first, before, last)

    one: Any = EVERYWHERE
    specs = jax.tree.map(lambda _: EVERYWHERE, recurrence)
    specs = replace(specs, state=jax.tree.map(lambda _: ALONG, recurrence.state))
    return jax.shard_map(
        loop,
        mesh=mesh(),
        in_specs=(specs, _specs(start), EVERYWHERE, EVERYWHERE),
        out_specs=Made(one, _specs(start), one, one),
        check_vma=False,
    )(recurrence, start, done, upto)
