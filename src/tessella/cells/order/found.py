"""The order of joins found: cells are halved, and halved again, down to single ones.

Groups of few cells that lie alike, and meet their neighbours alike, are halved once: those that are
found later follow the pattern of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from tessella.cells.order.halving import first_halves, halved, shared
from tessella.cells.order.joints import Joints
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Sizes, Stage, of_ports, stack_ports

PATTERN = 256
"""Cells of a group at most whose halves may be a pattern for others."""


def order(low: np.ndarray, high: np.ndarray, joints: Joints, processes: int = 1) -> Order:
    """Join cells with these corners (J, d), in whole numbers; several processes share them. Slabs
    of time that follow each other have the same order."""
    corners = blake2b(low.tobytes() + high.tobytes(), digest_size=16).digest()
    return _ordered(_Asked(low, high, joints, (corners, joints.digest, processes)))


def order_of_blocks(joints: Joints) -> Order:
    """Join what several processes have, a cell each, as theirs are joined in an order of all."""
    return _OfBlocks(joints).made(range(len(joints.starts) - 1))


class _Asked:
    """What decides an order, known by its name."""

    def __init__(
        self, low: np.ndarray, high: np.ndarray, joints: Joints, name: tuple[bytes, bytes, int]
    ) -> None:
        self.low, self.high, self.joints, self.name = low, high, joints, name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self.name == other.name


@lru_cache(maxsize=8)
def _ordered(asked: _Asked) -> Order:
    return _Ordering(asked.low, asked.high, asked.joints).made(range(asked.name[-1]))


Pair = tuple[int, int]


@dataclass
class _Growing:
    """A stage on its way: single cells, or pairs of members of two others."""

    sizes: Sizes
    owner: int
    left: int = -1
    right: int = -1
    closed: tuple[Pair, ...] = ()
    cells: list[int] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)

    @property
    def single(self) -> bool:
        return self.left < 0

    @property
    def count(self) -> int:
        return len(self.cells if self.single else self.pairs)


class _Group(NamedTuple):
    """A member of a stage, and its ports."""

    stage: int
    number: int
    ports: list[int]


class _Pattern(NamedTuple):
    """What the halves of a group add to which stages: cells, by their numbers in the group, or
    pairs, counted from what was there before; which stage and member there the group becomes, and
    which of the ports of its cells are left."""

    added: list[tuple[int, np.ndarray]]
    stage: int
    number: int
    ports: np.ndarray


class _Ordering:
    def __init__(self, low: np.ndarray, high: np.ndarray, joints: Joints) -> None:
        self.low, self.high, self.joints = low, high, joints
        self.stages: list[_Growing] = []
        self.known: dict[object, int] = {}
        self.patterns: dict[object, _Pattern] = {}
        self.before: dict[int, int] = {}
        """How many members the stages had to which the group in hand has added."""

    def made(self, owners: range) -> Order:
        halves = zip(self.first_halves(), shared(owners), strict=True)
        groups = [self.join(cells, own) for cells, own in halves if len(cells)]
        if len(groups) == 2:
            self._pair(*groups)
        stages = tuple(map(self._grown, self.stages))
        place = np.empty((len(self.low), 2), dtype=np.int64)
        for i, stage in enumerate(stages):
            if stage.cells is not None:
                place[stage.cells, 0], place[stage.cells, 1] = i, np.arange(stage.count)
        starts = stack_ports(self.joints.up + self.joints.down)
        ends = [self._ends(stage, starts) for stage in stages]
        taken, given = ([one and one[k] for one in ends] for k in (0, 1))
        long = self.joints.long
        return Order(stages, place, tuple(taken), tuple(given), int(starts[-1]), long=long)

    def _grown(self, own: _Growing) -> Stage:
        if own.single:
            return Stage(own.sizes, cells=np.array(own.cells, dtype=np.int64), owner=own.owner)
        children = self.stages[own.left].sizes, self.stages[own.right].sizes
        pairs = np.array(own.pairs, dtype=np.int64)
        return Stage(own.sizes, own.left, own.right, own.closed, children, pairs, owner=own.owner)

    def _ends(self, stage: Stage, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Where what the cells of a stage take and give is: of every face first what goes up."""
        if stage.cells is None:
            return None
        ports = self.joints.of_cells(stage.cells).reshape(stage.count, -1)
        face, side = ports >> 1, ports & 1
        upwards, downwards = starts[face], starts[face] + self.joints.up[face]
        taken, given = (np.where(side == k, upwards, downwards) for k in (0, 1))
        return _spread(taken, stage.sizes.taken), _spread(given, stage.sizes.given)

    # --- halves, and what becomes of them

    def first_halves(self) -> tuple[np.ndarray, np.ndarray]:
        return first_halves(self.low, self.high, self.joints.ends)

    def halves(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return halved(self.low, self.high, cells)

    def join(self, cells: np.ndarray, owners: range) -> _Group:
        """Some cells by some processes."""
        if len(cells) == 1 or (len(owners) == 1 and len(cells) <= PATTERN):
            return self._alike(cells, owners[0])
        halves = zip(self.halves(cells), shared(owners), strict=True)
        return self._pair(*(self.join(half, own) for half, own in halves))

    def _alike(self, cells: np.ndarray, owner: int) -> _Group:
        """Few cells of one process, by the pattern of others that are alike if there are any."""
        ports = self.joints.of_cells(cells)
        name = self._name(cells, ports, owner)
        if name not in self.patterns:
            self.before = {}
            group = self._halved(cells, owner)
            self.patterns[name] = self._pattern(cells, ports, group)
            return group
        return self._follow(self.patterns[name], cells, ports)

    def _halved(self, cells: np.ndarray, owner: int) -> _Group:
        if len(cells) == 1:
            return self._single(int(cells[0]), owner)
        return self._pair(*(self._halved(half, owner) for half in self.halves(cells)))

    def _single(self, cell: int, owner: int) -> _Group:
        start, end = self.joints.starts[cell : cell + 2].tolist()
        ports = self.joints.ports[start:end].tolist()
        sizes = self.joints.sizes(ports)
        stage = self._stage_of(("cell", sizes, owner), lambda: _Growing(sizes, owner))
        self.stages[stage].cells.append(cell)
        return _Group(stage, self.stages[stage].count - 1, ports)

    def _pair(self, a: _Group, b: _Group) -> _Group:
        at = {port: i for i, port in enumerate(b.ports)}
        closed = tuple((i, at[port ^ 1]) for i, port in enumerate(a.ports) if port ^ 1 in at)
        left, right = ({pair[k] for pair in closed} for k in (0, 1))
        rest = [port for i, port in enumerate(a.ports) if i not in left]
        rest += [port for i, port in enumerate(b.ports) if i not in right]
        key, owner = (a.stage, b.stage, closed), self.stages[a.stage].owner
        stage = self._stage_of(key, lambda: _Growing(self.joints.sizes(rest), owner, *key))
        self.stages[stage].pairs.append((a.number, b.number))
        return _Group(stage, self.stages[stage].count - 1, rest)

    def _stage_of(self, key: object, new: Callable[[], _Growing]) -> int:
        """The number of a stage, about to get one more member; a new one if there is none yet."""
        if key not in self.known:
            self.known[key] = len(self.stages)
            self.stages.append(new())
        stage = self.known[key]
        self.before.setdefault(stage, self.stages[stage].count)
        return stage

    # --- patterns

    def _name(self, cells: np.ndarray, ports: np.ndarray, owner: int) -> object:
        """The same for cells that lie and meet alike."""
        low, high = self.low[cells], self.high[cells]
        face, corner = ports >> 1, low.min(axis=0)
        met = 2 * np.unique(face, return_inverse=True)[1].ravel() + (ports & 1)
        sizes = self.joints.up[face], self.joints.down[face]
        tables = (low - corner, high - corner, self.joints.counts(cells), met, *sizes)
        return owner, len(cells), b"".join(table.tobytes() for table in tables)

    def _pattern(self, cells: np.ndarray, ports: np.ndarray, group: _Group) -> _Pattern:
        """What a group has added."""
        added, before = [], self.before
        for i, start in before.items():
            stage = self.stages[i]
            if stage.single:
                own = positions(cells, stage.cells[start:])
            else:
                own = np.array(stage.pairs[start:], dtype=np.int64)
                own -= [before[stage.left], before[stage.right]]
            added.append((i, own))
        left = positions(ports, group.ports)
        return _Pattern(added, group.stage, group.number - before[group.stage], left)

    def _follow(self, pattern: _Pattern, cells: np.ndarray, ports: np.ndarray) -> _Group:
        """The same for other cells."""
        before = {i: self.stages[i].count for i, _ in pattern.added}
        for i, own in pattern.added:
            stage = self.stages[i]
            if stage.single:
                stage.cells += cells[own].tolist()
            else:
                pairs = own + np.array([before[stage.left], before[stage.right]])
                stage.pairs += map(tuple, pairs.tolist())
        number = before[pattern.stage] + pattern.number
        return _Group(pattern.stage, number, ports[pattern.ports].tolist())


class _OfBlocks(_Ordering):
    """Every cell is what one process has, and where it is matters to nobody."""

    def __init__(self, joints: Joints) -> None:
        nowhere = np.zeros((len(joints.starts) - 1, 1), dtype=np.int64)
        super().__init__(nowhere, nowhere, joints)

    def first_halves(self) -> tuple[np.ndarray, np.ndarray]:
        return self.halves(np.arange(len(self.low)))

    def halves(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        middle = len(cells) // 2
        return cells[:middle], cells[middle:]


def positions(every: np.ndarray, some: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where some of different numbers are."""
    at = np.argsort(every)
    return np.asarray(at[np.searchsorted(every, np.asarray(some, dtype=np.int64), sorter=at)])


def _spread(starts: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The numbers of all ports of some cells, which begin there (cells, ports)."""
    ports = np.repeat(np.arange(len(sizes)), sizes)
    return np.asarray(
        starts[:, ports] + of_ports(sizes, range(len(sizes))) - stack_ports(sizes)[ports]
    )
