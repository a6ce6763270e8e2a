"""The coarse level of a front: its groups, of whose ports only the longest waves are left.

Each group is a cell there, and they are joined as the finer order goes on from the front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tessella.cells.order.front import Front
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Sizes, Stage, stack_ports


class Leaf(NamedTuple):
    """Single cells of the coarse level: of which finer stage they are members, and which, and which
    of the numbers that these take and give are left."""

    stage: int
    members: np.ndarray
    taken: np.ndarray
    given: np.ndarray


@dataclass(frozen=True, eq=False)
class CoarseOrder:
    """`leaves` are those of the first stages of the order, one for each."""

    order: Order
    leaves: tuple[Leaf, ...]


def coarse_order(front: Front) -> CoarseOrder | None:
    """None where nobody knows the longest waves, or groups that are alike do not have the same."""
    fine, first = front.order, 0
    stages: list[Stage] = []
    leaves: list[Leaf] = []
    taken: list[np.ndarray | None] = []
    given: list[np.ndarray | None] = []
    place = np.empty((sum(front.counts), 2), dtype=np.int64)
    for i, members in front.members.items():
        stage, ends, number = fine.stages[i], front.ends[i], len(stages)
        long = [fine.long[at] for at in ends] if fine.long.size else []
        if not long or any(np.any(own != own[:1]) for own in long):
            return None
        left, sizes = [np.flatnonzero(own[0]) for own in long], zip(long, stage.sizes, strict=True)
        cells = first + np.arange(len(members))
        place[cells, 0], place[cells, 1] = number, np.arange(len(members))
        narrow = Sizes(*(_widths(own[0], each) for own, each in sizes))
        stages.append(Stage(narrow, cells=cells, owner=stage.owner))
        leaves.append(Leaf(i, members, *left))
        taken.append(ends.taken[:, left[0]])
        given.append(ends.given[:, left[1]])
        first += len(members)
    new = {leaf.stage: number for number, leaf in enumerate(leaves)}
    for i, stage in enumerate(fine.stages):
        if stage.cells is None and i not in front.joined:
            new[i] = len(stages)
            stages.append(_joined(stage, front, new, stages))
            taken.append(None)
            given.append(None)
    order = Order(tuple(stages), place, tuple(taken), tuple(given), fine.size)
    return CoarseOrder(order, tuple(leaves))


def _widths(long: np.ndarray, sizes: Sequence[int]) -> tuple[int, ...]:
    """How many of the numbers of every port are left."""
    return tuple(int(long[a:b].sum()) for a, b in pairwise(stack_ports(sizes).tolist()))


def _joined(stage: Stage, front: Front, new: dict[int, int], stages: Sequence[Stage]) -> Stage:
    """The same pairs, of whose ports less is left."""
    pairs, children = stage.pairs.copy(), (stage.left, stage.right)
    for k, child in enumerate(children):
        if child in front.members:
            pairs[:, k] = np.searchsorted(front.members[child], pairs[:, k])
    left, right = (new[child] for child in children)
    own = stages[left].sizes, stages[right].sizes
    sizes: tuple[list[int], list[int]] = [], []
    for side, each in enumerate(own):
        shut = {pair[side] for pair in stage.closed}
        for found, widths in zip(sizes, each, strict=True):
            found += [n for i, n in enumerate(widths) if i not in shut]
    return Stage(
        Sizes(*map(tuple, sizes)), left, right, stage.closed, own, pairs, owner=stage.owner
    )
