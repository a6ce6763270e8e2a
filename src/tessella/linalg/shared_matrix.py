"""A block matrix of which every process or device has some blocks, with all rows that they fill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from tessella.linalg.block_matrix import BlockMatrix, Group, Lookup
from tessella.linalg.vectors import Halo, MeshHalo
from tessella.machine.arrays import AnyArray, Array


@partial(jax.tree_util.register_dataclass, data_fields=["own", "vectors"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class SharedMatrix:
    """The blocks of one process or device, its columns and rows numbered by themselves.

    Products are those of the whole matrix: of `matvec` everyone gets the rows it has, of `rmatvec`
    its columns. `vectors` knows which rows others have too, and how to reach them.
    """

    own: BlockMatrix
    vectors: Halo | MeshHalo

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

    @cached_property
    def _parts(self) -> tuple[BlockMatrix, BlockMatrix]:
        """The groups that fill common rows, and those that do not."""
        assert isinstance(self.vectors, Halo)
        border = [bool(_fill(g, self.vectors.common).any()) for g in self.groups]
        first, second = (
            tuple(g for g, at in zip(self.groups, border, strict=True) if at is own)
            for own in (True, False)
        )
        return self.own.with_groups(first), self.own.with_groups(second)

    def matvec(self, v: AnyArray) -> AnyArray:
        """M v. Common rows are filled first, and on their way while the others are."""
        if isinstance(self.vectors, MeshHalo):
            return self.vectors.added(self.own.compiled_matvec(v))
        border, inner = self._parts
        filled = _product(border, v)
        added = self.vectors.coming(filled)
        return added(filled + _product(inner, v) if inner.groups else filled.copy())

    def begun(self, v: AnyArray) -> Callable[[], AnyArray] | None:
        """M v, found while |v| is on its way from other processes."""
        if isinstance(self.vectors, MeshHalo):
            return None
        found = self.matvec(v)
        return lambda: found

    def rmatvec(self, u: AnyArray) -> AnyArray:
        """M^T u."""
        found = self.own.compiled_rmatvec(u)
        return np.asarray(found) if isinstance(u, np.ndarray) else found


def _product(M: BlockMatrix, v: AnyArray) -> Array:
    found: Any = M.compiled_matvec(v) if M.groups else np.zeros(M.shape[0])
    return np.asarray(found)


def _fill(group: Group, rows: np.ndarray) -> np.ndarray:
    """Which blocks of a group fill some of the rows."""
    own = np.asarray(group.rows)
    real = np.arange(own.shape[1]) < group.heights[:, None]
    return np.any(np.isin(own, rows) & real, axis=1)


WORTHWHILE = 1_000_000
"""Entries of a group whose product takes longer than a message."""


def bordered(groups: Sequence[Group], common: np.ndarray) -> tuple[Group, ...]:
    """Blocks that fill common rows in groups of their own, where that is worthwhile."""
    found: list[Group] = []
    for group in groups:
        border = _fill(group, common)
        if group.values.size < WORTHWHILE or border.all() or not border.any():
            found.append(group)
        else:
            found += [group.some(np.flatnonzero(which)) for which in (border, ~border)]
    return tuple(found)


def halved(places: Array, number: int) -> np.ndarray:
    """Who of so many has each place: halves along the axis where they reach farthest, halved
    again."""
    owner = np.zeros(len(places), dtype=np.int64)

    def give(members: np.ndarray, first: int, several: int) -> None:
        if several == 1 or len(members) < 2:
            owner[members] = first
            return
        x = places[members]
        below = several // 2
        order = members[np.argsort(x[:, np.argmax(np.ptp(x, axis=0))], kind="stable")]
        cut = min(max(round(len(order) * below / several), 1), len(order) - 1)
        give(order[:cut], first, below)
        give(order[cut:], first + below, several - below)

    give(np.arange(len(places)), 0, number)
    return owner
