"""One piece of memory for many arrays."""

from __future__ import annotations

import math

import numpy as np

from tessella.machine.arrays import Array

LARGE = 1 << 19
"""Numbers from which memory comes in large pages, which takes a third of the time."""


class Block:
    """Room for so many numbers in all; one piece if that is large, else each array has its own."""

    def __init__(self, size: int) -> None:
        self._memory, self._used = np.empty(size if size >= LARGE else 0), 0

    def array(self, *shape: int) -> Array:
        if not len(self._memory):
            return np.empty(shape)
        start, self._used = self._used, self._used + math.prod(shape)
        return self._memory[start : self._used].reshape(shape)
