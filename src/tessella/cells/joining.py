"""In which order cells are joined, two and two up to the whole, and which of these steps are alike.

A cell has ports, its parts of faces with a neighbour beyond. Joining two groups of cells closes the
ports between them; the others are the ports of what they make. Steps that close the same ports of
groups that are alike are made at once, and those with the same numbers only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.domain import Array


class Face(NamedTuple):
    """Joins two cells, the one below taking `down` numbers from above, the other `up` from below.

    A face of the domain has only one of the two cells, the other is -1.
    """

    below: int
    above: int
    up: int
    down: int


Port = tuple[int, int]
"""A face and whether it is the cell's lower (0) or upper (1) one."""


class Sizes(NamedTuple):
    """Of a group of cells: what it takes and gives at its ports, one after the other."""

    taken: tuple[int, ...]
    given: tuple[int, ...]


@dataclass
class Stage:
    """Joins that are alike: `left` and `right` are stages, `members` which of theirs are joined.

    closed  positions of the ports that are closed, of the left and of the right one
    A stage without children consists of single cells.
    """

    sizes: Sizes
    left: int = -1
    right: int = -1
    closed: tuple[tuple[int, int], ...] = ()
    members: list[tuple[int, int]] | None = None
    cells: list[int] | None = None

    @property
    def count(self) -> int:
        return len(self.cells if self.cells is not None else self.members or ())


@dataclass(frozen=True)
class Order:
    """All stages, children first; the last one is the whole.

    places  of every cell: its stage, and its number there
    """

    stages: tuple[Stage, ...]
    places: tuple[tuple[int, int], ...]
    left_open: tuple[Port, ...]
    """Ports of the whole, where nothing is known."""


WIRE = -1
"""Stands for a cell that passes on what comes in at its lower port to its upper one, and back."""


def wire(sizes: Sizes) -> Array:
    """Its map: ports come in twos."""
    T = np.zeros((sum(sizes.given), sum(sizes.taken)))
    taken, given = stack_ports(sizes.taken), stack_ports(sizes.given)
    for i in range(0, len(sizes.taken), 2):
        for a, b in ((i, i + 1), (i + 1, i)):
            T[given[a] : given[a + 1], taken[b] : taken[b + 1]] = np.eye(sizes.given[a])
    return T


class _Group(NamedTuple):
    stage: int
    number: int
    ports: tuple[Port, ...]


def order(
    low: np.ndarray,
    high: np.ndarray,
    ports: Sequence[Sequence[Port]],
    faces: Sequence[Face],
    classes: Sequence[int],
) -> Order:
    """Join cells with these corners (J, d), in whole numbers; `classes` say which may be alike."""
    return _Ordering(low, high, ports, faces, classes).made()


class _Ordering:
    def __init__(
        self,
        low: np.ndarray,
        high: np.ndarray,
        ports: Sequence[Sequence[Port]],
        faces: Sequence[Face],
        classes: Sequence[int],
    ) -> None:
        self.low, self.high, self.faces, self.classes = low, high, faces, classes
        self.ports = [tuple(own) for own in ports]
        self.stages: list[Stage] = []
        self.known: dict[object, int] = {}
        self.places: dict[int, tuple[int, int]] = {}

    def made(self) -> Order:
        top = self.join(np.arange(len(self.low)))
        places = tuple(self.places[j] for j in range(len(self.low)))
        return Order(tuple(self.stages), places, top.ports)

    def join(self, cells: np.ndarray) -> _Group:
        if len(cells) == 1:
            return self._single(int(cells[0]))
        below, above = _halves(self.low[cells], self.high[cells])
        return self._pair(self.join(cells[below]), self.join(cells[above]))

    def _sizes(self, ports: Sequence[Port]) -> Sizes:
        own = [(self.faces[f].down, self.faces[f].up)[:: 1 if side else -1] for f, side in ports]
        return Sizes(tuple(a for a, _ in own), tuple(b for _, b in own))

    def _stage(self, key: object, made: Stage) -> tuple[int, Stage]:
        if key not in self.known:
            self.known[key] = len(self.stages)
            self.stages.append(made)
        number = self.known[key]
        return number, self.stages[number]

    def _single(self, cell: int) -> _Group:
        ports = self.ports[cell]
        sizes = self._sizes(ports)
        number, stage = self._stage(("cell", sizes, self.classes[cell]), Stage(sizes, cells=[]))
        assert stage.cells is not None
        self.places[cell] = (number, len(stage.cells))
        stage.cells.append(cell)
        return self._closed(_Group(number, len(stage.cells) - 1, ports))

    def _closed(self, group: _Group) -> _Group:
        """A cell that is its own neighbour, around a periodic axis, joined to itself by a wire."""
        own = set(group.ports)
        around = [f for f, side in group.ports if side and (f, 0) in own]
        if not around:
            return group
        ports = tuple((f, side) for f in around for side in (0, 1))
        sizes = self._sizes(ports)
        number, stage = self._stage(("wire", sizes), Stage(sizes, cells=[]))
        assert stage.cells is not None
        stage.cells.append(WIRE)
        return self._pair(group, _Group(number, len(stage.cells) - 1, ports))

    def _pair(self, a: _Group, b: _Group) -> _Group:
        at = {port: i for i, port in enumerate(b.ports)}
        closed = tuple(
            (i, at[f, 1 - side]) for i, (f, side) in enumerate(a.ports) if (f, 1 - side) in at
        )
        left, right = ({pair[k] for pair in closed} for k in (0, 1))
        rest = [p for i, p in enumerate(a.ports) if i not in left]
        rest += [p for i, p in enumerate(b.ports) if i not in right]
        return self._made(a, b, closed, rest)

    def _made(
        self, a: _Group, b: _Group, closed: tuple[tuple[int, int], ...], rest: list[Port]
    ) -> _Group:
        fresh = Stage(self._sizes(rest), a.stage, b.stage, closed, members=[])
        number, stage = self._stage((a.stage, b.stage, closed), fresh)
        assert stage.members is not None
        stage.members.append((a.number, b.number))
        return _Group(number, len(stage.members) - 1, tuple(rest))


def _halves(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells on both sides of a plane that cuts none of them: few faces in it, halves alike."""
    best: tuple[float, np.ndarray] | None = None
    n = len(low)
    for axis in range(low.shape[1]):
        a, b = low[:, axis], high[:, axis]
        for place in _places(a, b):
            below = b <= place
            count = int(below.sum())
            touching = max(int((b == place).sum()), int((a == place).sum()))
            score = touching / min(count, n - count)
            if best is None or score < best[0] * (1 - 1e-9):
                best = score, below
    if best is None:
        axis = int(np.argmax(np.ptp(low + high, axis=0)))
        middle = low[:, axis] + high[:, axis]
        ranks = np.argsort(middle, kind="stable")
        below = np.zeros(n, dtype=bool)
        below[ranks[: n // 2]] = True
        return np.flatnonzero(below), np.flatnonzero(~below)
    return np.flatnonzero(best[1]), np.flatnonzero(~best[1])


def _places(a: np.ndarray, b: np.ndarray) -> list[int]:
    """Where a plane cuts no cell, at most two of them: those next to the middle."""
    edges = np.unique(b)[:-1]
    if not len(edges):
        return []
    inside = (np.sort(a).searchsorted(edges, "left") - np.sort(b).searchsorted(edges, "right")) == 0
    free = edges[inside]
    if len(free) <= 2:
        return free.tolist()
    counts = np.searchsorted(np.sort(b), free, "right")
    near = np.argsort(np.abs(2 * counts - len(a)), kind="stable")[:2]
    return sorted(free[near].tolist())


def join_work(order: Order, distinct: Sequence[int]) -> tuple[float, float]:
    """Flops and bytes of all joins, given how many members of each stage differ in numbers."""
    flops = bytes_ = 0.0
    for stage, count in zip(order.stages, distinct, strict=True):
        taken, given = sum(stage.sizes.taken), sum(stage.sizes.given)
        bytes_ += 8.0 * count * taken * given
        if stage.cells is not None:
            continue
        left = order.stages[stage.left].sizes
        n = float(sum(left.taken[i] for i, _ in stage.closed))
        m = float(sum(left.given[i] for i, _ in stage.closed))
        flops += count * 2 * (n * m * n + n**3 + n * m * taken + n * n * taken + m * n * taken)
        flops += count * 2 * given * max(n, m) * taken
        bytes_ += 8.0 * count * (n * n + (n + m) * taken + given * max(n, m))
    return flops, bytes_


def stack_ports(sizes: Sequence[int]) -> np.ndarray:
    """Where the numbers of every port begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def of_ports(sizes: Sequence[int], chosen: Sequence[int]) -> np.ndarray:
    """The positions of the numbers of some ports, one after the other."""
    starts = stack_ports(sizes)
    parts = [np.arange(starts[i], starts[i + 1]) for i in chosen]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
