"""Cells coloured like a chessboard."""

from __future__ import annotations

import numpy as np
import scipy.sparse


def coloured(pairs: np.ndarray, count: int) -> np.ndarray:
    """0 or 1 for every cell, so that neighbours, the pairs (2, n), differ; 0 for all if that cannot
    be, as on a ring of three."""
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    beside = scipy.sparse.csr_array((np.ones(both.shape[1]), both), shape=(count, count))
    colours = np.full(count, -1)
    for first in range(count):
        new, colour = np.array([first] if colours[first] < 0 else [], dtype=np.int64), 0
        while new.size:
            colours[new] = colour
            reached = np.zeros(count)
            reached[new] = 1.0
            new, colour = np.flatnonzero((beside @ reached > 0) & (colours < 0)), 1 - colour
    return colours if np.all(colours[pairs[0]] != colours[pairs[1]]) else np.zeros_like(colours)
