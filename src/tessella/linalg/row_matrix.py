"""A block matrix by its rows, so that an iteration reads it once and not twice.

Rows that nearly the same blocks fill are put together: a patch has some rows, all columns that they
reach, and no row in common with another patch. So w = a M v - b u is finished patch by patch, and
M^T w is added up while the patch is still in the processor's cache. Half as much memory is read as
by two products, and reading it is what an iteration on a large matrix takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tessella.linalg.block_kernels import UNROLL, bucket
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.entries import Entries
from tessella.linalg.guests import Guests, hosted
from tessella.linalg.partial_sums import block_places
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.linalg.vectors import Halo, Whole
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.device import on_host
from tessella.machine.memory import available_bytes
from tessella.machine.threads import CORES

CACHED = 1 << 19
"""Bytes of patches that are multiplied twice before the next ones are read: they fit into the
memory of one core."""

LARGE = 1 << 24
"""Bytes from which on a matrix is worth it: smaller ones stay in the cache between two products."""

NARROW = UNROLL
"""Columns of blocks up to which it is worth it: XLA multiplies wider ones as fast as they are read,
and on several cores narrow ones too."""

PATCH = 1_000
"""Entries that take as long as a patch takes by itself."""

PADDED = 1.5
"""How many more entries than the blocks have are worth it."""

WIDTHS, HEIGHTS = 4, 8
"""Different numbers of columns, and with each of rows, to which patches are padded."""


class Patches(NamedTuple):
    """Patches of one size: values (P, W, H), and where their columns (P, W) and rows (P, H) lie in
    the whole; padding lies one beyond its end, value 0."""

    values: Array
    columns: np.ndarray
    rows: np.ndarray

    def pieces(self) -> list[slice]:
        """As many neighbours as stay in the cache."""
        number, width, height = self.values.shape
        step = max(1, CACHED // (8 * width * height))
        return [slice(a, a + step) for a in range(0, number, step)]


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Some rows of a matrix in patches."""

    patches: tuple[Patches, ...]
    shape: tuple[int, int]

    @cached_property
    def columns(self) -> np.ndarray:
        """Of all patches, one after the other."""
        return _flat([own.columns for own in self.patches])

    @cached_property
    def rows(self) -> np.ndarray:
        return _flat([own.rows for own in self.patches])

    @property
    def entries(self) -> int:
        return sum(own.values.size for own in self.patches)

    def _parts(self, x: Array, along: int) -> list[Array]:
        """Of every patch its own of all columns (1) or rows (2), (P, 1, n)."""
        shapes = [(own.values.shape[0], 1, own.values.shape[along]) for own in self.patches]
        ends = np.cumsum([0, *(number * n for number, _, n in shapes)]).tolist()
        return [x[a:b].reshape(to) for (a, b), to in zip(pairwise(ends), shapes, strict=True)]

    def advance(self, v: Array, u: Array) -> Array:
        """Add M v to the rows u (one more for padding), and give M^T u of every patch."""
        rows, found = u.take(self.rows), np.empty(len(self.columns))
        given = self._parts(_beyond(v).take(self.columns), 1)
        filled, back = self._parts(rows, 2), self._parts(found, 1)
        for i, patches in enumerate(self.patches):
            for at in patches.pieces():
                M, own = patches.values[at], filled[i][at]
                own += given[i][at] @ M
                np.matmul(M, own.transpose(0, 2, 1), out=back[i][at].transpose(0, 2, 1))
        u[self.rows] = rows
        return found

    def matvec(self, v: Array) -> Array:
        """M v, with one more row for padding."""
        u, rows = np.zeros(self.shape[0] + 1), np.empty(len(self.rows))
        given, filled = self._parts(_beyond(v).take(self.columns), 1), self._parts(rows, 2)
        for own, x, y in zip(self.patches, given, filled, strict=True):
            np.matmul(x, own.values, out=y)
        u[self.rows] = rows
        return u

    def back(self, u: Array) -> Array:
        """M^T u of every patch."""
        found = np.empty(len(self.columns))
        filled, back = self._parts(u.take(self.rows), 2), self._parts(found, 1)
        for own, x, y in zip(self.patches, filled, back, strict=True):
            np.matmul(own.values, x.transpose(0, 2, 1), out=y.transpose(0, 2, 1))
        return found

    def summed(self, parts: Array) -> Array:
        """M^T u from what the patches give."""
        found = np.bincount(self.columns, parts, self.shape[1] + 1)
        return found[:-1].astype(np.float64, copy=False)


def _beyond(x: Array) -> Array:
    return np.append(x, 0.0)


def _flat(tables: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(own.ravel() for own in tables)])


@dataclass(frozen=True, eq=False)
class RowMatrix:
    """The matrix, or what one process has of it: the rows that count here, of which `border` are
    those that columns of others fill too, the `guests`. Its `blocks` are what files keep."""

    blocks: BlockMatrix
    border: RowBlocks
    inner: RowBlocks
    vectors: Whole | Halo
    guests: Guests

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], self.guests.own

    @property
    def bytes(self) -> int:
        """What this process sends in an iteration, beside sums."""
        return self.guests.bytes

    @cached_property
    def _elsewhere(self) -> np.ndarray:
        """Rows that count in other processes."""
        return np.flatnonzero(self.vectors.counted == 0) if isinstance(self.vectors, Halo) else NONE

    def begun(self, v: Array) -> Callable[[], Array] | None:
        """v with that of guests, on its way from them."""
        return self.guests.coming(v) if self.vectors.shared else None

    def onwards(
        self, v: Array, u: Array, a: Any, b: Any, begun: Callable[[], Array] | None = None
    ) -> tuple[Array, Callable[[], Array]]:
        """w = a M v - b u in the rows that count here, 0 in others, and how to complete M^T w."""
        begun = self.begun(v) if begun is None else begun
        w = _beyond(u)
        w *= -b
        w[self._elsewhere] = 0.0
        x = a * (v if begun is None else begun())
        added = self._from_border(lambda border: border.advance(x, w))
        parts = self.inner.advance(x, w)
        return w[:-1], lambda: added(self.inner.summed(parts))

    def rmatvec(self, u: Array) -> Array:
        """M^T u, of which the rows that count here are looked at."""
        w = _beyond(u)
        added = self._from_border(lambda border: border.back(w))
        return added(self.inner.summed(self.inner.back(w)))

    def matvec(self, v: Array) -> Array:
        """M v in all rows."""
        begun = self.begun(v)
        if begun is None or not isinstance(self.vectors, Halo):
            return self.inner.matvec(v)[:-1]
        x = begun()
        return self.vectors.added((self.border.matvec(x) + self.inner.matvec(x))[:-1])

    def _from_border(self, given: Callable[[RowBlocks], Array]) -> Callable[[Array], Array]:
        """What adds to M^T u what border rows give, here and in other processes."""
        if not self.vectors.shared:
            return lambda found: found
        n, border = self.guests.own, self.border.summed(given(self.border))
        added = self.guests.returned(border)
        return lambda found: added(found[:n] + border[:n])


NONE = np.zeros(0, dtype=np.int64)


def by_rows(A: Any) -> Any:
    """A matrix by its rows where that is faster: on one core, if its blocks are narrow, and it is
    large or shared; and if there is room for both forms. Processes that share it agree."""
    shared = isinstance(A, SharedMatrix) and isinstance(A.vectors, Halo)
    own = A.own if shared else A
    suits = CORES == 1 and isinstance(own, BlockMatrix) and _suits(own, 0 if shared else LARGE)
    if not _all(shared, suits):
        return A
    every, guests = hosted(A) if shared else (own, Guests(own.shape[1], {}, {}))
    entries, here = _Cutting(every), np.zeros(every.shape[0], dtype=bool)
    here[entries.row[entries.block >= len(own.levels())]] = True
    owned = A.vectors.counted > 0 if shared else np.ones_like(here)
    border, inner = (entries.cut(owned & (here == which)) for which in (True, False))
    cost, real = border.cost + inner.cost, entries.widths[entries.block][owned[entries.row]]
    worth = cost <= PADDED * max(1, int(real.sum())) and 8 * cost <= available_bytes()
    if not _all(shared, worth and entries.once):
        return A
    return RowMatrix(own, entries.patched(border), entries.patched(inner), A.vectors, guests)


def _suits(own: BlockMatrix, least: int) -> bool:
    """Whether blocks are narrow, and a matrix of so many bytes at least fits a second time."""
    numbers = sum(g.values.size for g in own.groups)
    narrow = all(g.values.shape[1] <= NARROW for g in own.groups)
    return (
        narrow
        and own.lookup is None
        and on_host(own.groups[0].values)
        and least <= 8 * numbers
        and 24 * numbers <= available_bytes()
    )


def _all(shared: bool, own: bool) -> bool:
    """Whether it holds in all processes that share a matrix."""
    return not processes.largest("by rows", float(not own)) if shared else own


class _Cut(NamedTuple):
    """Rows cut into patches. Of every row its patch (-1: none) and place in it; of every pair of a
    patch and a block both, and where the block's columns begin; of every patch rows and columns as
    they are padded."""

    patch: np.ndarray
    place: np.ndarray
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray]
    heights: np.ndarray
    widths: np.ndarray

    @property
    def cost(self) -> int:
        """In entries."""
        return int(self.heights @ self.widths) + PATCH * len(self.heights)


class _Cutting(Entries):
    """Its rows cut into patches."""

    def cut(self, chosen: np.ndarray) -> _Cut:
        """Some of the rows cut into patches, on the grid of the blocks or one twice as fine."""
        filled = np.zeros(len(chosen), dtype=bool)
        filled[self.row] = True
        rows, seen = np.flatnonzero(chosen & filled), np.flatnonzero(chosen[self.row])
        return min((self._cut(rows, seen, fine) for fine in (1, 2)), key=lambda one: one.cost)

    def _cut(self, rows: np.ndarray, seen: np.ndarray, fine: int) -> _Cut:
        patch, number = np.full(self.A.shape[0], -1), len(self.widths)
        _, patch[rows] = np.unique(self._middles(fine)[rows], return_inverse=True)
        heights = np.bincount(patch[rows])
        order = rows[np.argsort(patch[rows], kind="stable")]
        place = np.zeros(len(patch), dtype=np.int64)
        place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(heights) - heights, heights)
        pairs = np.sort(patch[self.row[seen]] * number + self.block[seen])
        at, block = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], number)
        width = np.bincount(at, self.widths[block], len(heights)).astype(np.int64)
        before = np.cumsum(self.widths[block]) - self.widths[block]
        first = before - (np.cumsum(width) - width)[at]
        wide = np.maximum(width, 1)
        if len(wide):
            wide = bucket(wide, int(heights.max()), WIDTHS)
        for one in np.unique(wide).tolist():
            own = wide == one
            heights[own] = bucket(heights[own], one, HEIGHTS)
        return _Cut(patch, place, (at, block, first), heights, wide)

    def _middles(self, fine: int) -> np.ndarray:
        """Of every row the place amid its blocks, in steps of their grid or half of these."""
        key = np.zeros(self.A.shape[0], dtype=np.int64)
        for middle, steps in self._amid:
            key = key * (2 * fine * steps + 1) + np.floor(fine * middle + 0.5).astype(np.int64)
        return key

    @cached_property
    def _amid(self) -> list[tuple[Array, int]]:
        """Of every row the middle of its blocks along each axis, in steps of their grid, and how
        many steps there are."""
        levels, found = self.A.levels(), []
        finest = np.flatnonzero(levels == np.argmax(np.bincount(levels)))
        number = np.full(len(levels), -1)
        number[finest] = np.arange(len(finest))
        seen = number[self.block] >= 0
        row, own = self.row[seen], number[self.block[seen]]
        count = np.maximum(np.bincount(row, minlength=self.A.shape[0]), 1)
        for x in block_places(self.A)[finest].T:
            steps, rank = np.unique(x, return_inverse=True)
            places = _unwrapped(row, rank[own], len(steps))
            found.append((np.bincount(row, places, self.A.shape[0]) / count, len(steps)))
        return found

    def patched(self, cut: _Cut) -> RowBlocks:
        """The rows as they are cut."""
        found, (at, block, first) = [], cut.pairs
        rows = np.flatnonzero(cut.patch >= 0)
        here = cut.patch[self.row]
        entry = np.flatnonzero(here >= 0)
        pair = np.searchsorted(
            at * len(self.widths) + block, here[entry] * len(self.widths) + self.block[entry]
        )
        sizes = np.stack([cut.widths, cut.heights], axis=1)
        for width, height in np.unique(sizes, axis=0).tolist():
            members = np.flatnonzero((cut.widths == width) & (cut.heights == height))
            number = np.full(len(sizes), -1)
            number[members] = np.arange(len(members))
            own = Patches(
                np.zeros((len(members), width, height)),
                np.full((len(members), width), self.A.shape[1]),
                np.full((len(members), height), self.A.shape[0]),
            )
            mine = rows[number[cut.patch[rows]] >= 0]
            own.rows[number[cut.patch[mine]], cut.place[mine]] = mine
            p = number[at] >= 0
            self._columns(own.columns, number[at[p]], block[p], first[p])
            e = number[here[entry]] >= 0
            start = (number[here[entry[e]]] * width + first[pair[e]]) * height
            self._fill(own.values, entry[e], start + cut.place[self.row[entry[e]]])
            found.append(own)
        return RowBlocks(tuple(found), self.A.shape)

    def _columns(
        self, out: np.ndarray, patch: np.ndarray, block: np.ndarray, first: np.ndarray
    ) -> None:
        """Which columns of the whole the blocks of patches have, from `first` on."""
        width = self.widths[block]
        along = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
        out[np.repeat(patch, width), np.repeat(first, width) + along] = self.columns_of(block)

    def _fill(self, values: Array, entry: np.ndarray, start: np.ndarray) -> None:
        """Copy the rows of blocks; `start` is where the first number of each goes."""
        flat, height = values.reshape(-1), values.shape[2]
        for own, b, g in self.by_group(entry):
            i, to, source = self.local[entry[own]], start[own], np.asarray(g.values)
            for c in range(source.shape[1]):
                real = c < g.widths[b]
                flat[to[real] + c * height] = source[b[real], c, i[real]]


def _unwrapped(row: np.ndarray, place: np.ndarray, period: int) -> Array:
    """Places with a period added to those that begin again on the other side of their row."""
    low, high = np.full(row.max(initial=0) + 1, period), np.zeros(row.max(initial=0) + 1, dtype=int)
    np.minimum.at(low, row, place)
    np.maximum.at(high, row, place)
    around = (high - low)[row] > period // 2
    return place + period * (around & (place < period / 2)).astype(np.float64)
