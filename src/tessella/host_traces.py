"""Features of all subdomains eliminated by LAPACK, distinct subdomains once, on all cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from tessella.domain import Array
from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.condensation import Condensed, condense
from tessella.linalg.iteration import Progress
from tessella.linalg.rrqr import RRQR
from tessella.linalg.threads import side_by_side, single_threaded_blas
from tessella.local_systems import Kind, LocalSystems
from tessella.shelf import Finished


@dataclass(frozen=True)
class HostTraces:
    """What is left for the traces, and the way back to the features; one entry per kind."""

    systems: LocalSystems
    condensed: list[Condensed]
    reused: int = 0
    """Kinds that were found on the shelf."""

    @property
    def kept(self) -> np.ndarray:
        return self.systems.features_kept([c.kept for c in self.condensed])

    def renewed(self, systems: LocalSystems) -> HostTraces:
        """The same blocks with the right-hand sides of other systems, without factoring again."""
        with single_threaded_blas():
            condensed = [
                c.renewed(_right_sides(systems, kind))
                for kind, c in zip(systems.kinds, self.condensed, strict=True)
            ]
        return HostTraces(systems, condensed)

    def _stacked(self) -> list[Array]:
        """What every subdomain asks of its traces: right-hand sides in the subdomains' order."""
        g: list[Array] = [np.zeros(0)] * len(self.systems.columns)
        for kind, c in zip(self.systems.kinds, self.condensed, strict=True):
            for i, j in enumerate(kind.members.tolist()):
                g[j] = c.g[:, i]
        return g

    def right_side(self) -> Array:
        """The right-hand side of the system for the traces."""
        return np.concatenate([*self._stacked(), self.systems.sum_rows()[1]])

    def matrix(self) -> BlockMatrix:
        """The leftover triangles as one matrix with a column block per face."""
        systems = self.systems
        first = np.concatenate([[0], np.cumsum([len(part) for part in self._stacked()])])
        values: list[list[Array]] = [[] for _ in systems.positions]
        rows: list[list[np.ndarray]] = [[] for _ in systems.positions]
        for kind, c in zip(systems.kinds, self.condensed, strict=True):
            for j, face, own, ratios in systems.attached(kind):
                height = min(own.stop, len(c.triangle))  # below, its columns are zero
                values[face].append(c.triangle[:height, own] * ratios)
                rows[face].append(first[j] + np.arange(height))
        entries, right = systems.sum_rows()
        for face, row, coefficient in entries:
            values[face].append(np.array([[coefficient]]))
            rows[face].append(first[-1] + np.array([row]))
        blocks = [
            Block(np.concatenate(v), np.concatenate(r), systems.numbers(face))
            for face, (v, r) in enumerate(zip(values, rows, strict=True))
        ]
        shape = (int(first[-1]) + len(right), systems.traces)
        return from_blocks(blocks, shape, systems.positions)

    def features(self, t: Array) -> Array:
        """All features from all traces."""
        systems = self.systems
        a = np.zeros(systems.basis.columns)
        with single_threaded_blas():
            for kind, c in zip(systems.kinds, self.condensed, strict=True):
                own = np.zeros((c.C.shape[1], len(kind.members)))
                place = {j: i for i, j in enumerate(kind.members.tolist())}
                for j, face, rows, ratios in systems.attached(kind):
                    own[rows, place[j]] = t[systems.numbers(face)] * ratios
                if len(c.kept):
                    solved, info = lapack.dtrtrs(c.R, c.z - c.C @ own)
                    assert info == 0
                    a[systems.columns[np.ix_(kind.members, c.kept)]] = solved.T
        return a


def _right_sides(systems: LocalSystems, kind: Kind) -> Array:
    """Of a kind's rows without traces, a column per member; rows with traces ask for zero."""
    return systems.h[kind.members][:, kind.free].T


def eliminate(
    systems: LocalSystems,
    values: Array,
    rule: RRQR,
    progress: Progress | None = None,
    keep: bool = False,
) -> HostTraces:
    """Filter and eliminate the features of every kind; `keep` what `renewed` needs.

    Kinds on the shelf have been factored before and only meet their right-hand sides.
    """
    done, shelf = 0, systems.shelf
    known = [shelf.find(name) if shelf else None for name in systems.names]
    known = [one if one and one.rule == rule else None for one in known]

    def one(number: int) -> Condensed:
        nonlocal done
        V, kind = values[number], systems.kinds[number]
        h = _right_sides(systems, kind)
        if known and (one := known[number]):
            found = one.condensed.renewed(h)
        else:
            A, E = V[:, kind.free].T, V[:, kind.coupled].T
            found = condense(A, E, h, rule, systems.units, keep or shelf is not None)
        done += 1
        if progress is not None:
            progress(done, len(systems.kinds), 1.0)
        return found

    condensed = side_by_side(one, range(len(systems.kinds)), systems.flops)
    for number, name in enumerate(systems.names):
        if shelf is not None and name is not None and known[number] is None:
            shelf.put(name, Finished(values[number].copy(), rule, condensed[number]))
    return HostTraces(systems, condensed, sum(one is not None for one in known))


def residuals(systems: LocalSystems, values: Array, a: Array) -> Array:
    """Block times features minus right-hand side in every row of every subdomain."""
    r = np.zeros_like(systems.h)
    for kind, V in zip(systems.kinds, values, strict=True):
        r[kind.members] = a[kind.members] @ V - systems.h[kind.members]
    return r
