"""Local systems side by side, and their reduction to a system for the traces alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from scipy.linalg import lapack

from tessella.assembly import Reduced
from tessella.domain import Array
from tessella.interfaces import GluedBasis
from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks, same_numbers
from tessella.linalg.condensation import Condensed, condensation_flops, condense
from tessella.linalg.iteration import Progress
from tessella.linalg.partial_sums import partial_sums
from tessella.linalg.preconditioners import Unpreconditioned
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.threads import side_by_side, single_threaded_blas
from tessella.local_rows import Summed

SUM = -1
"""Stands for an axis where a subdomain's part of an integral takes the place of a face."""


@dataclass(frozen=True)
class Kind:
    """Equal subdomains and their block, (C, height).

    `free` rows have no traces, `coupled` rows have one each, face by face as in `faces`.
    """

    members: np.ndarray
    values: Array
    free: np.ndarray
    coupled: np.ndarray
    faces: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GluedSystem:
    """All local systems: blocks of distinct subdomains, right-hand sides of all.

    columns    numbers of every subdomain's coefficients, (J, C)
    face_of    [axis, side] -> the number of every subdomain's face there, -1 on the boundary;
               [SUM, i] -> that of its part of the i-th integral, a face of one trace
    starts     where the traces of every face begin, and their number at the end
    positions  of the faces, in units of the domain's sides
    sums       the integrals, whose rows tie the parts together along a tree of partial sums
    units      (C,) in which the filter compares columns, if not their own
    """

    basis: GluedBasis
    kinds: tuple[Kind, ...]
    h: Array
    places: dict[str, list[tuple[np.ndarray, slice]]]
    weights: dict[str, float]
    columns: np.ndarray
    face_of: dict[tuple[int, int], np.ndarray]
    starts: np.ndarray
    positions: Array
    sums: tuple[Summed, ...] = ()
    units: Array | None = None

    @property
    def rows(self) -> int:
        local = sum(len(k.members) * (len(k.free) + len(k.coupled)) for k in self.kinds)
        return local + len(self._sum_rows()[1])

    def _sum_rows(self) -> tuple[list[tuple[int, int, float]], Array]:
        """(face, row, coefficient) of the rows that add up the integrals, and their right sides."""
        entries: list[tuple[int, int, float]] = []
        right: list[float] = []
        tree = partial_sums(self.basis.decomposition.positions)
        for i, total in enumerate(self.sums):
            first, start = int(self.face_of[SUM, i][0]), len(right) - tree.leaves
            for item, parent in enumerate(tree.parent[:-1].tolist()):
                entries.append((first + item, start + parent, 1.0))
                if item >= tree.leaves:
                    entries.append((first + item, start + item, -1.0))
            right += [0.0] * (tree.rows - tree.leaves - 1) + [total.scale * total.value]
        return entries, np.array(right)

    @property
    def traces(self) -> int:
        return int(self.starts[-1])

    @property
    def flops(self) -> float:
        """Of eliminating the features of all distinct subdomains."""
        n = self.columns.shape[1]
        return sum(condensation_flops(len(k.free), n, len(k.coupled)) for k in self.kinds)

    def has_matrix_of(self, other: GluedSystem) -> bool:
        """Whether only right-hand sides differ: the same equal subdomains with the same blocks."""
        return len(self.kinds) == len(other.kinds) and all(
            np.array_equal(a.members, b.members)
            and a.faces == b.faces
            and np.array_equal(a.free, b.free)
            and np.array_equal(a.coupled, b.coupled)
            and same_numbers(a.values, b.values)
            for a, b in zip(self.kinds, other.kinds, strict=True)
        )

    def with_matrix_of(self, other: GluedSystem) -> GluedSystem:
        """This system holding on to the other's blocks, so that its own are freed."""
        return dataclasses.replace(self, kinds=other.kinds)

    def reduce(
        self, rule: RRQR | Unfiltered, progress: Progress | None = None, keep: bool = False
    ) -> Traces:
        """Filter and eliminate every subdomain's features; distinct subdomains once.

        `keep` holds on to what `Traces.renewed` needs.
        """
        if not isinstance(rule, RRQR) or rule.patch > 1:
            raise ValueError(
                f"coupling='interfaces' eliminates every subdomain's features through its own "
                f"filter, got {rule!r}: use RRQR(sigma), with sigma=0 to keep all features, and a "
                f"solver whose name is nested-qr, auto or begins with rrqr-"
            )
        done = 0

        def one(kind: Kind) -> Condensed:
            nonlocal done
            V = kind.values
            E = V[:, kind.coupled].T
            found = condense(V[:, kind.free].T, E, self.right_sides(kind), rule, self.units, keep)
            done += 1
            if progress is not None:
                progress(done, len(self.kinds), 1.0)
            return found

        condensed = side_by_side(one, self.kinds, self.flops)
        g = self._stacked(condensed)
        matrix = self._trace_matrix(condensed, g)
        h = self.trace_side(condensed)
        return Traces(matrix, h, _kept(self, condensed), Unpreconditioned(), self, condensed)

    def right_sides(self, kind: Kind) -> Array:
        """Of a kind's rows without traces, a column per member; rows with traces ask for zero."""
        return self.h[kind.members][:, kind.free].T

    def attached(self, kind: Kind) -> Iterator[tuple[int, int, slice]]:
        """(member, face, which of the member's coupled rows are the face's), face by face."""
        for j in kind.members.tolist():
            start = 0
            for f in kind.faces:
                face = int(self.face_of[f][j])
                end = start + int(self.starts[face + 1] - self.starts[face])
                yield j, face, slice(start, end)
                start = end

    def numbers(self, face: int) -> np.ndarray:
        """The numbers of a face's traces."""
        return np.arange(self.starts[face], self.starts[face + 1])

    def _stacked(self, condensed: list[Condensed]) -> list[Array]:
        """What every subdomain asks of its traces: right-hand sides in the subdomains' order."""
        g: list[Array] = [np.zeros(0)] * self.basis.decomposition.count
        for kind, c in zip(self.kinds, condensed, strict=True):
            for i, j in enumerate(kind.members.tolist()):
                g[j] = c.g[:, i]
        return g

    def trace_side(self, condensed: list[Condensed]) -> Array:
        """The right-hand side of the system for the traces."""
        return np.concatenate([*self._stacked(condensed), self._sum_rows()[1]])

    def _trace_matrix(self, condensed: list[Condensed], g: list[Array]) -> BlockMatrix:
        """The leftover triangles as one matrix with a column block per face."""
        first = np.concatenate([[0], np.cumsum([len(part) for part in g])])
        values: list[list[Array]] = [[] for _ in self.positions]
        rows: list[list[np.ndarray]] = [[] for _ in self.positions]
        for kind, c in zip(self.kinds, condensed, strict=True):
            for j, face, own in self.attached(kind):
                height = min(own.stop, len(c.triangle))  # below, its columns are zero
                values[face].append(c.triangle[:height, own])
                rows[face].append(first[j] + np.arange(height))
        entries, right = self._sum_rows()
        for face, row, coefficient in entries:
            values[face].append(np.array([[coefficient]]))
            rows[face].append(first[-1] + np.array([row]))
        blocks = [
            Block(np.concatenate(v), np.concatenate(r), self.numbers(face))
            for face, (v, r) in enumerate(zip(values, rows, strict=True))
        ]
        shape = (int(first[-1]) + len(right), self.traces)
        return from_blocks(blocks, shape, self.positions)

    def residuals(self, a: Array) -> dict[str, float]:
        """Root mean square residual of each equation and condition, in its units."""
        local = a[self.columns]
        r = np.zeros_like(self.h)
        for kind in self.kinds:
            r[kind.members] = local[kind.members] @ kind.values - self.h[kind.members]
        pointwise = {
            name: math.sqrt(sum(float(np.sum(r[m, rows] ** 2)) for m, rows in places))
            / math.sqrt(self.weights[name])
            for name, places in self.places.items()
        }
        return pointwise | {
            total.name: abs(float(r[:, total.rows.start].sum()) / total.scale - total.value)
            for total in self.sums
        }

    @cached_property
    def M(self) -> BlockMatrix:
        """The whole system, features and traces, before any elimination."""
        J, C = self.columns.shape
        own: list[Array] = [np.zeros((0, C))] * J
        for kind in self.kinds:
            ordered = np.concatenate([kind.free, kind.coupled])
            for j in kind.members.tolist():
                own[j] = kind.values[:, ordered].T
        first = np.concatenate([[0], np.cumsum([len(block) for block in own])])
        touched: list[list[np.ndarray]] = [[] for _ in self.positions]
        for kind in self.kinds:
            for j, face, rows in self.attached(kind):
                start = first[j] + len(kind.free)
                touched[face].append(np.arange(start + rows.start, start + rows.stop))
        blocks = [
            Block(block, first[j] + np.arange(len(block)), self.columns[j])
            for j, block in enumerate(own)
        ]
        entries, right = self._sum_rows()
        added: list[list[tuple[int, float]]] = [[] for _ in self.positions]
        for face, row, coefficient in entries:
            added[face].append((row, coefficient))
        for face, sides in enumerate(touched):
            columns = J * C + self.numbers(face)
            minus = np.tile(-np.eye(len(columns)), (len(sides), 1))
            own_sums = np.array([[c] for _, c in added[face]]).reshape(-1, len(columns))
            at = first[-1] + np.array([row for row, _ in added[face]], dtype=np.int64)
            values = np.concatenate([minus, own_sums])
            blocks.append(Block(values, np.concatenate([*sides, at]), columns))
        places = np.concatenate([self.basis.decomposition.positions, self.positions])
        shape = (int(first[-1]) + len(right), J * C + self.traces)
        return from_blocks(blocks, shape, places)


@dataclass(frozen=True)
class Traces(Reduced):
    """The system for the traces alone, and the way back to the features."""

    system: GluedSystem
    condensed: list[Condensed]

    def coefficients(self, y: Array) -> Array:
        t = np.asarray(self.preconditioner.apply(jnp.asarray(y)))
        with single_threaded_blas():
            return _substitute(self.system, self.condensed, t)

    def renewed(self, system: GluedSystem) -> Traces:  # type: ignore[override]
        """The right-hand side of another system with the same matrix, without factoring again."""
        with single_threaded_blas():
            condensed = [
                c.renewed(system.right_sides(kind))
                for kind, c in zip(system.kinds, self.condensed, strict=True)
            ]
        h = system.trace_side(condensed)
        return dataclasses.replace(self, h=h, system=system, condensed=condensed)

    def preconditioned(self) -> Traces:
        """The same with every face's block made orthonormal, for iterative solvers."""
        filtered = RRQR(0.0).apply(self.Q)
        return Traces(
            filtered.Q, self.h, self.kept, filtered.preconditioner, self.system, self.condensed
        )


def _substitute(system: GluedSystem, condensed: list[Condensed], t: Array) -> Array:
    """All features from all traces."""
    a = np.zeros(system.basis.columns)
    for kind, c in zip(system.kinds, condensed, strict=True):
        own = np.zeros((c.C.shape[1], len(kind.members)))
        place = {j: i for i, j in enumerate(kind.members.tolist())}
        for j, face, rows in system.attached(kind):
            own[rows, place[j]] = t[system.numbers(face)]
        if len(c.kept):
            solved, info = lapack.dtrtrs(c.R, c.z - c.C @ own)
            assert info == 0
            a[system.columns[np.ix_(kind.members, c.kept)]] = solved.T
    return a


def _kept(system: GluedSystem, condensed: list[Condensed]) -> np.ndarray:
    found = [
        system.columns[np.ix_(kind.members, c.kept)].ravel()
        for kind, c in zip(system.kinds, condensed, strict=True)
    ]
    return np.sort(np.concatenate(found))
