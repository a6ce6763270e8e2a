"""The local systems of subdomains side by side, and how they hang together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from tessella.domain import Array
from tessella.interfaces import GluedBasis, Side
from tessella.linalg.condensation import condensation_flops
from tessella.linalg.partial_sums import partial_sums
from tessella.local_rows import Places, Summed
from tessella.shelf import Shelf

SUM = -1
"""Stands for an axis where a subdomain's part of an integral takes the place of a face."""


@dataclass(frozen=True)
class Kind:
    """Equal subdomains and the rows of their block.

    `free` rows have no traces, `coupled` rows have one each, face by face as in `faces`.
    """

    members: np.ndarray
    free: np.ndarray
    coupled: np.ndarray
    faces: tuple[Side, ...]

    def has_rows_of(self, other: Kind) -> bool:
        return self.faces == other.faces and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("members", "free", "coupled")
        )


@dataclass(frozen=True)
class LocalSystems:
    """All local systems: blocks of distinct subdomains, right-hand sides of all.

    values     (kinds, C, height), on the host or on a device: wherever they will be factored
    columns    numbers of every subdomain's coefficients, (J, C)
    face_of    [axis, side, part] -> the number of every subdomain's face there, -1 if it has none;
               [SUM, i, 0] -> that of its part of the i-th integral, a face of one trace
    starts     where the traces of every face begin, and their number at the end
    positions  of the faces, in units of the domain's sides
    sums       the integrals, whose rows tie the parts together along a tree of partial sums
    units      (C,) in which the filter compares columns, if not their own
    ratios     [axis, side, part] -> (J, traces of a face): what a subdomain calls a trace over what
               the system calls it; None if all are 1, as they are between neighbours of equal size
    names      of the kinds, where all that makes up their blocks has one
    shelf      of subdomains that an earlier solve has finished, and where these will be put
    """

    basis: GluedBasis
    kinds: tuple[Kind, ...]
    values: Array | jax.Array
    h: Array
    places: Places
    weights: dict[str, float]
    columns: np.ndarray
    face_of: dict[Side, np.ndarray]
    starts: np.ndarray
    positions: Array
    sums: tuple[Summed, ...] = ()
    units: Array | None = None
    ratios: dict[Side, Array] | None = None
    names: tuple[bytes | None, ...] = ()
    shelf: Shelf | None = None

    @property
    def rows(self) -> int:
        local = sum(len(k.members) * (len(k.free) + len(k.coupled)) for k in self.kinds)
        return local + len(self.sum_rows()[1])

    @property
    def traces(self) -> int:
        return int(self.starts[-1])

    @property
    def flops(self) -> float:
        """Of eliminating the features of all distinct subdomains."""
        n = self.columns.shape[1]
        return sum(condensation_flops(len(k.free), n, len(k.coupled)) for k in self.kinds)

    def sum_rows(self) -> tuple[list[tuple[int, int, float]], Array]:
        """(face, row, coefficient) of the rows that add up the integrals, and their right sides."""
        entries: list[tuple[int, int, float]] = []
        right: list[float] = []
        if not self.sums:
            return entries, np.zeros(0)
        tree = partial_sums(self.basis.decomposition.positions)
        for i, total in enumerate(self.sums):
            first, start = int(self.face_of[SUM, i, 0][0]), len(right) - tree.leaves
            for item, parent in enumerate(tree.parent[:-1].tolist()):
                entries.append((first + item, start + parent, 1.0))
                if item >= tree.leaves:
                    entries.append((first + item, start + item, -1.0))
            right += [0.0] * (tree.rows - tree.leaves - 1) + [total.scale * total.value]
        return entries, np.array(right)

    def attached(self, kind: Kind) -> Iterator[tuple[int, int, slice, Array | float]]:
        """(member, face, which of the member's coupled rows are the face's, their ratios), face by
        face."""
        for j in kind.members.tolist():
            start = 0
            for f in kind.faces:
                face = int(self.face_of[f][j])
                end = start + int(self.starts[face + 1] - self.starts[face])
                ratios = 1.0 if self.ratios is None or f[0] == SUM else self.ratios[f][j]
                yield j, face, slice(start, end), ratios
                start = end

    def numbers(self, face: int) -> np.ndarray:
        """The numbers of a face's traces."""
        return np.arange(self.starts[face], self.starts[face + 1])

    def features_kept(self, local: list[np.ndarray]) -> np.ndarray:
        """Numbers of all features kept, given those of every kind."""
        found = [
            self.columns[np.ix_(kind.members, kept)].ravel()
            for kind, kept in zip(self.kinds, local, strict=True)
        ]
        return np.sort(np.concatenate(found))
