"""What every process has of overlapping subdomains: some neighbours, and all rows they see.

A row is kept by all processes whose subdomains see its point (see `linalg.vectors`), and counts in
one of them, which is all that has it where an iteration reads its matrix once (`linalg.guests`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tessella.geometry.box import Box
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.shared_matrix import bordered, halved
from tessella.linalg.vectors import Halo
from tessella.machine import processes
from tessella.machine.arrays import Array, on_device
from tessella.machine.printing import counted
from tessella.overlap.basis import Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.parted import Parted
from tessella.overlap.points import Rows
from tessella.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Share:
    """What this process has of a system.

    owners   the process of every subdomain, for each decomposition of the basis
    parted   who has which columns
    rows     of all processes together
    sizes    rows of every equation and condition, of all processes together
    halo     the vectors
    """

    owners: dict[Decomposition, np.ndarray]
    parted: Parted
    rows: int
    sizes: dict[str, int]
    halo: Halo

    @cached_property
    def own_columns(self) -> np.ndarray:
        return self.parted.columns(self.parted.me)

    def has(self, decomposition: Decomposition) -> np.ndarray:
        """Which subdomains are those of this process."""
        return self.owners[decomposition] == processes.index()

    def localised(self, M: BlockMatrix) -> BlockMatrix:
        """A matrix of blocks of this process, with its columns numbered from 0, and those that fill
        common rows in groups of their own."""
        own = self.own_columns
        number = np.zeros(M.shape[1], dtype=np.int32)
        number[own] = np.arange(len(own))
        groups = [g._replace(columns=on_device(number[np.asarray(g.columns)])) for g in M.groups]
        return BlockMatrix(bordered(groups, self.halo.common), (M.shape[0], len(own)))

    def bytes(self, iterations: int, sums: int = 2, each: int | None = None) -> int:
        """What all processes send for a solution after so many iterations that take so many sums
        each: what neighbours add to common rows, or `each` of this process in an iteration, and the
        sums. (Products are one ahead in LSQR and LSMR, and the residuals are found by common
        rows.)"""
        number, halo = processes.number(), self.halo.bytes()
        own = np.array([halo, halo if each is None else each])
        once, always = processes.total("halo", own).tolist()
        told = number * (sums * (iterations + 1) + 3)
        return int(once + (iterations + 1) * always) + 8 * (number - 1) * told


def share_of(
    problem: Problem, levels: Sequence[Basis], rows: Sequence[Rows]
) -> tuple[Share, list[Rows]]:
    """The share of this process of some levels, the finest last, and its rows; refused if there are
    too few subdomains for all."""
    finest, me = levels[-1].decomposition, processes.index()
    points = np.concatenate([part.points for part in rows])
    boxes = dict.fromkeys(level.decomposition for level in levels)
    owners = {one: _owners(problem, one, points) for one in boxes}
    fewest = len(np.unique(owners[finest]))
    if fewest < processes.number():
        raise ValueError(
            f"{processes.number()} processes cannot share "
            f"{counted(fewest, 'overlapping subdomain')}: start at most {fewest}, or use more "
            f"subdomains"
        )
    near = np.logical_or.reduce(
        [_within(one, owner == me, points) for one, owner in owners.items()]
    )
    seen = {one: _seen_by(one, owner, points[near]) for one, owner in owners.items()}
    by_any = np.logical_or.reduce([own > 0 for own in seen.values()])
    mine = np.zeros(len(points), dtype=bool)
    mine[near] = by_any[:, me]
    counter = _most(seen[finest][by_any[:, me]])
    by_any = by_any[by_any[:, me]]
    places = {q: np.flatnonzero(by_any[:, q]) for q in range(processes.number()) if q != me}
    halo = Halo({q: common for q, common in places.items() if len(common)}, counter)
    sizes = {part.source.name: len(part.points) for part in rows}
    parted = Parted.of(levels, [owners[one.decomposition] for one in levels])
    share = Share(owners, parted, len(points), sizes, halo)
    ends = np.cumsum([len(part.points) for part in rows])
    return share, [
        _some(part, mine[e - len(part.points) : e]) for part, e in zip(rows, ends, strict=True)
    ]


def _seen_by(boxes: Decomposition, owner: np.ndarray, points: Array) -> np.ndarray:
    """How many subdomains of every process see each of the points."""
    number = processes.number()
    subdomain, point = boxes.seen(points)
    found = np.zeros(len(points) * number, dtype=np.uint16)
    np.add.at(found, point * number + owner[subdomain], 1)
    return found.reshape(len(points), number)


def _most(seen: np.ndarray) -> np.ndarray:
    """Of every point the process with most of the subdomains that see it, the last of several:
    windows that are counted from below have their middle there (see `linalg.row_matrix`)."""
    return np.asarray(seen.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1))


def _some(part: Rows, mine: np.ndarray) -> Rows:
    normals = None if part.normals is None else part.normals[mine]
    return dataclasses.replace(part, points=np.asarray(part.points)[mine], normals=normals)


def _owners(problem: Problem, boxes: Decomposition, points: Array) -> np.ndarray:
    """The process of every subdomain; those that see no point count for nothing."""
    active = np.arange(boxes.count)
    if not isinstance(problem.domain, Box):
        active = boxes.active(points)
    owner = np.zeros(boxes.count, dtype=np.int64)
    owner[active] = halved((boxes.centres / boxes.spacing)[active], processes.number())
    return owner


def _within(boxes: Decomposition, own: np.ndarray, points: Array) -> np.ndarray:
    """Points that may lie in some of the subdomains: those inside a box around them all."""
    near = np.ones(len(points), dtype=bool)
    if not own.any():
        return ~near
    low = (boxes.centres - boxes.half_widths)[own].min(axis=0)
    high = (boxes.centres + boxes.half_widths)[own].max(axis=0)
    room = 1e-9 * boxes.spacing
    for axis, (wraps, S) in enumerate(zip(boxes.wraps, boxes.subdomains, strict=True)):
        if S > 1 and not wraps:
            x = points[:, axis]
            near &= (x >= low[axis] - room[axis]) & (x <= high[axis] + room[axis])
    return near
