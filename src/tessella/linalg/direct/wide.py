"""More columns than rows: damped, factored, and refined.

A front of a wide matrix would finish its rows by its own columns, however badly these fit them,
although columns of its ancestors fit them well. So every unknown is asked to be small as well, by
a row of its own: [A; mu D] is tall and regular, and D makes mu a part of each column's length. Its
solution misses the parts of b along singular values below mu; what it misses is solved for again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.direct.factorisation import Factorisation
from tessella.linalg.units import in_units
from tessella.machine.arrays import Array

STEPS, GAIN = 10, 0.99
"""Most refinements, and how far each must reduce the residual to be followed by another."""


def damped(A: BlockMatrix, scale: Array, mu: float) -> BlockMatrix:
    """[A; mu D] with D the columns' lengths, 1 / scale."""
    m, n = A.shape
    blocks = [
        Block(
            np.concatenate([block.values, np.diag(mu / scale[block.columns])]),
            np.concatenate([block.rows, m + block.columns]),
            block.columns,
        )
        for block in A.blocks()
    ]
    return from_blocks(blocks, (m + n, n), A.positions())


@dataclass(frozen=True)
class WideFactorisation:
    """The factors of [A; mu D], ready to solve min |A x - b|."""

    A: BlockMatrix
    damped: Factorisation

    def solve(self, b: Array) -> tuple[Array, float]:
        """A solution of smallest residual, and its norm; b may hold several right-hand sides."""
        m, n = self.A.shape
        b, unit = in_units(b, m)
        found = [self._refined(own) for own in b.reshape(m, -1).T]
        x = np.stack([x for x, _ in found], axis=1).reshape(n, *b.shape[1:])
        return unit * x, unit * float(np.linalg.norm([residual for _, residual in found]))

    def _refined(self, b: Array) -> tuple[Array, float]:
        x, rest = np.zeros(self.A.shape[1]), b
        for _ in range(STEPS):
            better = x + self.damped.solve(np.concatenate([rest, np.zeros(len(x))]))[0]
            left = b - np.asarray(self.A.matvec(better))
            before, after = np.linalg.norm(rest), np.linalg.norm(left)
            if not after < before:
                break
            x, rest = better, left
            if after > GAIN * before:
                break
        return x, float(np.linalg.norm(rest))
