"""How cells are halved, and again, on their way to single ones; and which of several processes has
which. Corners and faces decide, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy.sparse

FEW = 64
"""Cells of a group that is remembered: there are many like it."""


def owners(low: np.ndarray, high: np.ndarray, ends: np.ndarray, number: int) -> np.ndarray:
    """The process that has each cell, (J,), as `order` shares them out; `ends` are the cells at
    every face, (faces, 2)."""
    found = np.zeros(len(low), dtype=np.int64)
    if number == 1:
        return found

    def share(cells: np.ndarray, own: range) -> None:
        if len(own) == 1 or len(cells) == 1:
            found[cells] = own[0]
            return
        for half, some in zip(halved(low, high, cells), shared(own), strict=True):
            share(half, some)

    halves = zip(first_halves(low, high, ends), shared(range(number)), strict=True)
    for cells, own in halves:
        if len(cells):
            share(cells, own)
    return found


def first_halves(
    low: np.ndarray, high: np.ndarray, ends: Sequence[Sequence[int]] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The last join closes every connected piece: each may need sums to be determined."""
    between = np.array(ends, dtype=np.int64).reshape(-1, 2)
    between = between[between.min(axis=1) >= 0].T
    shape = (len(low), len(low))
    joined = scipy.sparse.coo_array((np.ones(between.shape[1]), tuple(between)), shape)
    pieces, piece = scipy.sparse.csgraph.connected_components(joined, directed=False)
    parts = [halved(low, high, np.flatnonzero(piece == k)) for k in range(pieces)]
    below, above = (np.sort(np.concatenate(own)) for own in zip(*parts, strict=True))
    return below, above


def halved(low: np.ndarray, high: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some cells, on both sides of a plane; the same ones elsewhere are remembered."""
    if len(cells) == 1:
        return cells, cells[:0]
    a, b = low[cells], high[cells]
    if len(cells) > FEW:
        below, above = _halves(a, b)
    else:
        start = a.min(axis=0)
        below, above = _known((a - start).tobytes(), (b - start).tobytes(), len(start))
    return cells[below], cells[above]


@lru_cache(maxsize=4096)
def _known(low: bytes, high: bytes, axes: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.frombuffer(own, dtype=np.int64).reshape(-1, axes) for own in (low, high))
    return _halves(a, b)


def shared(owners: range) -> tuple[range, range]:
    """Processes for both halves of a group; a single one has both."""
    if len(owners) == 1:
        return owners, owners
    middle = len(owners) // 2
    return owners[:middle], owners[middle:]


def _halves(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells on both sides of a plane that cuts none of them: few faces in it, halves alike."""
    best: tuple[float, np.ndarray] | None = None
    n = len(low)
    for axis in range(low.shape[1]):
        a, b = low[:, axis], high[:, axis]
        for place in _places(a, b):
            below = b <= place
            count = int(below.sum())
            touching = max(int((b == place).sum()), int((a == place).sum()))
            score = touching / min(count, n - count)
            if best is None or score < best[0] * (1 - 1e-9):
                best = score, below
    if best is None:
        axis = int(np.argmax(np.ptp(low + high, axis=0)))
        middle = low[:, axis] + high[:, axis]
        ranks = np.argsort(middle, kind="stable")
        below = np.zeros(n, dtype=bool)
        below[ranks[: n // 2]] = True
        return np.flatnonzero(below), np.flatnonzero(~below)
    return np.flatnonzero(best[1]), np.flatnonzero(~best[1])


def _places(a: np.ndarray, b: np.ndarray) -> list[int]:
    """Where a plane cuts no cell, at most two of them: those next to the middle."""
    edges = np.unique(b)[:-1]
    if not len(edges):
        return []
    inside = (np.sort(a).searchsorted(edges, "left") - np.sort(b).searchsorted(edges, "right")) == 0
    free = edges[inside]
    if len(free) <= 2:
        return free.tolist()
    counts = np.searchsorted(np.sort(b), free, "right")
    near = np.argsort(np.abs(2 * counts - len(a)), kind="stable")[:2]
    return sorted(free[near].tolist())
