"""Columns of other processes in the rows of this one.

A row that blocks of several processes fill belongs to one of them. The others send it what their
blocks have there, once: so each process has its rows with all columns that they reach, and an
iteration reads every number once. It asks its neighbours for v of the columns that are guests in
its rows, and tells them what M^T u has there: both are a column wide where common rows are a window
wide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.entries import Entries
from tessella.linalg.partial_sums import block_places
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.linalg.vectors import Halo
from tessella.machine import processes
from tessella.machine.arrays import Array, on_device


@dataclass(frozen=True, eq=False)
class Guests:
    """Who has columns in whose rows.

    own   how many columns this process has; those of guests follow
    sent  other process -> which of them fill its rows
    held  other process -> where its columns are among the guests
    """

    own: int
    sent: dict[int, np.ndarray]
    held: dict[int, slice]

    def coming(self, v: Array) -> Callable[[], Array]:
        """v with the numbers of guests, which are on their way."""
        coming = processes.coming_swapped("guests", {q: v[at] for q, at in self.sent.items()})

        def every() -> Array:
            heard = coming.heard()
            return np.concatenate([v, *(heard[q] for q in self.held)])

        return every

    def returned(self, every: Array) -> Callable[[Array], Array]:
        """What to call with numbers of this process's columns, to which it adds what others have
        there; they get theirs."""
        guests = every[self.own :]
        coming = processes.coming_swapped("returned", {q: guests[s] for q, s in self.held.items()})

        def added(found: Array) -> Array:
            for q, part in sorted(coming.heard().items()):
                found[self.sent[q]] += part
            return found

        return added

    @property
    def bytes(self) -> int:
        """What this process sends in an iteration."""
        going = sum(len(at) for at in self.sent.values())
        return 8 * (going + sum(own.stop - own.start for own in self.held.values()))


def hosted(A: SharedMatrix) -> tuple[BlockMatrix, Guests]:
    """The blocks of this process and those of others in its rows, and whose they are."""
    assert isinstance(A.vectors, Halo)
    halo, own, entries = A.vectors, A.own, Entries(A.own)
    others = sorted(halo.places)
    sent = {q: _send(entries, halo.places[q], halo.counter, q) for q in others}
    groups, held, count = list(own.groups), {}, own.shape[1]
    for q in others:
        came, width = _received(q, halo.places[q], count)
        groups += came
        held[q] = slice(count - own.shape[1], count - own.shape[1] + width)
        count += width
    return BlockMatrix(tuple(groups), (own.shape[0], count)), Guests(own.shape[1], sent, held)


def _send(entries: Entries, common: np.ndarray, owner: np.ndarray, to: int) -> np.ndarray:
    """Send what the blocks here have in common rows of that process; of which columns it is."""
    place = np.full(len(owner), -1)
    place[common] = np.arange(len(common))
    entry = np.flatnonzero((place[entries.row] >= 0) & (owner[entries.row] == to))
    blocks, which = np.unique(entries.block[entry], return_inverse=True)
    levels, places = entries.A.levels()[blocks], block_places(entries.A)[blocks]
    described = np.stack([entries.widths[blocks], levels])
    at = np.stack([place[entries.row[entry]], which])
    processes.send(to, "hosted", at, described, places, entries.values(entry))
    return entries.columns_of(blocks)


def _received(source: int, common: np.ndarray, first: int) -> tuple[list[Group], int]:
    """Blocks of another process in rows of this one, whose columns are numbered from `first` on,
    and how many these are."""
    (place, which), (widths, levels), places, values = processes.receive(source, "hosted")
    starts = first + np.cumsum(widths) - widths
    found = []
    for level in np.unique(levels).tolist():
        blocks = np.flatnonzero(levels == level)
        number = np.full(len(widths), -1)
        number[blocks] = np.arange(len(blocks))
        entry = np.flatnonzero(number[which] >= 0)
        entry = entry[np.argsort(which[entry], kind="stable")]
        block = number[which[entry]]
        heights = np.bincount(block, minlength=len(blocks))
        local = np.arange(len(entry)) - np.repeat(np.cumsum(heights) - heights, heights)
        widest, shape = int(widths[blocks].max()), (len(blocks), int(heights.max()))
        M, rows = np.zeros((shape[0], widest, shape[1])), np.zeros(shape, dtype=np.int32)
        M[block, :, local] = values[entry, :widest]
        rows[block, local] = common[place[entry]]
        along = np.arange(widest)
        real = along < widths[blocks][:, None]
        columns = np.where(real, starts[blocks][:, None] + along, 0).astype(np.int32)
        arrays = on_device(M), on_device(rows), on_device(columns)
        found.append(Group(*arrays, heights, widths[blocks], places[blocks], level))
    return found, int(widths.sum())
