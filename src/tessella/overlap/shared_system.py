"""The least-squares problem of which every process has a part."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.machine import processes
from tessella.machine.alike import differing, refuse
from tessella.machine.arrays import Array, on_device
from tessella.machine.progress import Progress
from tessella.overlap.basis import AnyBasis, per_field
from tessella.overlap.points import Rows
from tessella.overlap.shares import Share, share_of
from tessella.overlap.system import LeastSquares, Reduced, assemble, check_determined, weigh
from tessella.problem.problem import Problem

SAMPLED = 200
"""Rows of every statement by which processes see that they state the same."""


@dataclass(frozen=True, repr=False)
class SharedSquares(LeastSquares):
    """What this process has of min |M a - h|: blocks of its subdomains, and the rows they fill."""

    share: Share = dataclasses.field(kw_only=True)

    @property
    def rows(self) -> int:
        return self.share.rows

    def residuals(self, a: Array) -> dict[str, float]:
        """With the coefficients of this process."""
        filled = np.asarray(self.M.matvec(on_device(a)))
        halo = self.share.halo
        squares = halo.counted * (halo.added(filled) - self.h) ** 2
        own = np.array([squares[rows].sum() for rows in self.parts.values()])
        sums = processes.total("residuals", own).tolist()
        return {
            name: math.sqrt(one / self.weights[name])
            for name, one in zip(self.parts, sums, strict=True)
        }

    def has_matrix_of(self, other: LeastSquares) -> bool:
        return not processes.largest("matrix", float(not super().has_matrix_of(other)))

    def reduce(
        self, rule: RRQR | Unfiltered, progress: Progress | None = None, keep: bool = False
    ) -> Reduced:
        with processes.in_unison("filter"):
            made = rule.apply(self.M)
        kept = int(processes.total("kept", np.array([len(made.kept)]))[0])
        Q = SharedMatrix(made.Q, self.share.halo)
        return SharedReduced(Q, self.h, made.kept, made.preconditioner, self.share, kept)


@dataclass(frozen=True, repr=False)
class SharedReduced(Reduced):
    """What this process has of the filtered system; `kept_by_all` counts columns."""

    share: Share
    kept_by_all: int

    @property
    def columns_kept(self) -> int:
        return self.kept_by_all


def shared_system(problem: Problem, basis: AnyBasis, rows: Sequence[Rows]) -> SharedSquares:
    """Assembled by all processes, each its own part; refused if they do not state the same."""
    processes.begin()
    processes.same("the problem", fingerprint(basis))
    refuse(differing(sampled(problem, rows)))
    check_determined(basis, rows)
    levels = [level for one in per_field(basis, problem.fields) for level in one.levels]
    share, own = share_of(problem, levels, rows)
    system = assemble(problem, basis, own, share)
    parts = {field.name: getattr(system, field.name) for field in dataclasses.fields(system)}
    return SharedSquares(**parts, share=share)


def fingerprint(basis: AnyBasis) -> bytes:
    """Of subdomains and features, which all processes must have the same to the last bit."""
    drawn = [x for level in basis.levels for layer in level.layers for x in layer]
    boxes = [level.decomposition.half_width for level in basis.levels]
    found = hashlib.sha256()
    for x in (*drawn, *boxes):
        found.update(np.ascontiguousarray(x).tobytes())
    return found.digest()


def sampled(problem: Problem, rows: Sequence[Rows]) -> list[Array]:
    """Points, and what the statements say at some of them."""
    some = [
        dataclasses.replace(
            part,
            points=np.asarray(part.points)[at],
            normals=None if part.normals is None else part.normals[at],
        )
        for part in rows
        for at in [np.unique(np.linspace(0, len(part.points) - 1, SAMPLED).astype(int))]
    ]
    weighed = weigh(problem, some, {part.source.name: len(part.points) for part in rows})
    tables = [c for symbol in weighed.symbols for c in symbol.values()]
    numbers = [np.array(f(part.points)) for part in rows for f in (np.size, np.sum)]
    return [*numbers, weighed.points, weighed.h, *tables]
