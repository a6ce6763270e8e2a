"""A block matrix of which every process has some blocks, with all rows that they fill."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix, Group, Lookup
from tessella.linalg.vectors import Halo
from tessella.machine.arrays import AnyArray, Array


@dataclass(frozen=True, eq=False)
class SharedMatrix:
    """The blocks of this process, its columns and rows numbered by themselves (see `Halo`).

    Products are those of the whole matrix: of `matvec` every process gets the rows it has, of
    `rmatvec` its columns.
    """

    own: BlockMatrix
    vectors: Halo

    @property
    def shape(self) -> tuple[int, int]:
        return self.own.shape

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.own.groups

    @property
    def lookup(self) -> Lookup | None:
        return self.own.lookup

    def with_lookup(self) -> SharedMatrix:
        return replace(self, own=self.own.with_lookup())

    def with_groups(self, groups: tuple[Group, ...]) -> SharedMatrix:
        return replace(self, own=self.own.with_groups(groups))

    def matvec(self, v: AnyArray) -> Array:
        """M v."""
        filled = self.own.compiled_matvec(v) if self.groups else np.zeros(self.shape[0])
        return self.vectors.added(np.asarray(filled))

    def rmatvec(self, u: AnyArray) -> Array:
        """M^T u."""
        return np.asarray(self.own.compiled_rmatvec(u))
