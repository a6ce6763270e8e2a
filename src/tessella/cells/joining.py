"""In which order cells are joined, two and two up to the whole, and which of these steps are alike.

A cell has ports, its parts of faces with a neighbour beyond. Joining two groups of cells closes the
ports between them; the others are the ports of what they make. Steps that close the same ports of
groups that are alike are made at once, and those with the same numbers only once.

Several processes share the tree: each has one of the groups that the first halvings make, with all
below it, and what lies above belongs to the first of those it joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from tessella.cells.halving import first_halves, halved, shared
from tessella.cells.stage import Sizes, Stage, of_ports, stack_ports


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


@dataclass(frozen=True)
class Order:
    """All stages, children first; the last one is the whole.

    places  of every cell: its stage, and its number there
    """

    stages: tuple[Stage, ...]
    places: tuple[tuple[int, int], ...]
    taken: tuple[np.ndarray | None, ...]
    """Of the stages of single cells, (members, in): where what they take is in a vector of all."""
    given: tuple[np.ndarray | None, ...]
    """The same for what they give, (members, out): where others take it."""
    size: int
    """Of that vector."""

    @cached_property
    def place(self) -> np.ndarray:
        """`places` as an array (J, 2)."""
        return np.array(self.places, dtype=np.int64).reshape(-1, 2)

    @cached_property
    def owners(self) -> np.ndarray:
        """The process of every cell, (J,)."""
        return np.array([stage.owner for stage in self.stages])[self.place[:, 0]]

    @cached_property
    def handed(self) -> dict[int, int]:
        """Stages that another process goes on with, and which; they have one member."""
        joins = [stage for stage in self.stages if stage.cells is None]
        return {s.right: s.owner for s in joins if self.stages[s.right].owner != s.owner}

    @cached_property
    def above(self) -> set[int]:
        """Stages that join what several processes have."""
        found: set[int] = set()
        for i, s in enumerate(self.stages):
            if s.cells is None and (s.right in self.handed or {s.left, s.right} & found):
                found.add(i)
        return found

    @cached_property
    def crossing(self) -> dict[tuple[int, int], np.ndarray]:
        """Where in that vector one process takes what another one gives, by both."""
        by, to = np.full(self.size, -1), np.full(self.size, -1)
        for stage, taken, given in zip(self.stages, self.taken, self.given, strict=True):
            if taken is not None and given is not None:
                to[taken], by[given] = stage.owner, stage.owner
        at = np.flatnonzero((by != to) & (by >= 0) & (to >= 0))
        pairs = sorted(set(zip(to[at].tolist(), by[at].tolist(), strict=True)))
        return {(p, q): at[(to[at] == p) & (by[at] == q)] for p, q in pairs}

    @cached_property
    def cells(self) -> list[int]:
        """How many cells the members of every stage have."""
        found: list[int] = []
        for s in self.stages:
            found.append(1 if s.cells is not None else found[s.left] + found[s.right])
        return found

    @cached_property
    def known(self) -> dict[object, Any]:
        """Which members are alike, as it was found last (see `maps`)."""
        return {}

    @cached_property
    def fronts(self) -> dict[int, Any]:
        """Groups of at most so many cells, those that were asked for (see `front`)."""
        return {}

    @cached_property
    def levels(self) -> list[list[int]]:
        """The numbers of stages that join those of levels before; the last one is alone."""
        height = [0] * len(self.stages)
        for i, s in enumerate(self.stages):
            if s.cells is None:
                height[i] = 1 + max(height[s.left], height[s.right])
        return [[i for i, h in enumerate(height) if h == k] for k in range(1, max(height) + 1)]

    @cached_property
    def joined_by(self) -> dict[int, int]:
        """Of every stage, the level after which no members of it are left to join."""
        levels = enumerate(self.levels)
        every = ((k, self.stages[i]) for k, level in levels for i in level)
        return {child: k for k, s in every for child in (s.left, s.right)}


class _Group(NamedTuple):
    stage: int
    number: int
    ports: tuple[Port, ...]


def order(
    low: np.ndarray,
    high: np.ndarray,
    ports: Sequence[Sequence[Port]],
    faces: Sequence[Face],
    processes: int = 1,
) -> Order:
    """Join cells with these corners (J, d), in whole numbers; several processes share them. Slabs
    of time that follow each other have the same order."""
    corners = tuple(tuple(map(tuple, own.tolist())) for own in (low, high))
    return _ordered(corners, tuple(map(tuple, ports)), tuple(faces), processes)


@lru_cache(maxsize=4)
def _ordered(
    corners: tuple[tuple[tuple[int, ...], ...], ...],
    ports: tuple[tuple[Port, ...], ...],
    faces: tuple[Face, ...],
    processes: int,
) -> Order:
    low, high = (np.array(own) for own in corners)
    return _Ordering(low, high, ports, faces).made(range(processes))


class _Ordering:
    def __init__(
        self,
        low: np.ndarray,
        high: np.ndarray,
        ports: Sequence[Sequence[Port]],
        faces: Sequence[Face],
    ) -> None:
        self.low, self.high, self.faces = low, high, faces
        self.ports = [tuple(own) for own in ports]
        self.stages: list[Stage] = []
        self.known: dict[object, int] = {}
        self.places: dict[int, tuple[int, int]] = {}

    def made(self, owners: range) -> Order:
        self._whole(owners)
        places = tuple(self.places[j] for j in range(len(self.low)))
        starts = stack_ports([f.up + f.down for f in self.faces])
        up = np.array([f.up for f in self.faces], dtype=np.int64)
        ends = [self._ends(stage, starts, up) for stage in self.stages]
        taken, given = ([one and one[k] for one in ends] for k in (0, 1))
        return Order(tuple(self.stages), places, tuple(taken), tuple(given), int(starts[-1]))

    def _ends(
        self, stage: Stage, starts: np.ndarray, up: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Where what the cells of a stage take and give is: of every face first what goes up."""
        if stage.cells is None:
            return None
        ports = np.array([self.ports[cell] for cell in stage.cells], dtype=np.int64)
        face, side = ports.reshape(len(stage.cells), -1, 2).transpose(2, 0, 1)
        upwards, downwards = starts[face], starts[face] + up[face]
        taken, given = (np.where(side == k, upwards, downwards) for k in (0, 1))
        return _spread(taken, stage.sizes.taken), _spread(given, stage.sizes.given)

    def _whole(self, owners: range) -> None:
        first = first_halves(self.low, self.high, [f[:2] for f in self.faces])
        halves = zip(first, shared(owners), strict=True)
        groups = [self.join(cells, own) for cells, own in halves if len(cells)]
        if len(groups) == 2:
            self._pair(*groups)

    def join(self, cells: np.ndarray, owners: range) -> _Group:
        if len(cells) == 1:
            return self._single(int(cells[0]), owners[0])
        below, above = halved(self.low, self.high, cells)
        first, second = shared(owners)
        return self._pair(self.join(below, first), self.join(above, second))

    def _sizes(self, ports: Sequence[Port]) -> Sizes:
        own = [(self.faces[f].down, self.faces[f].up)[:: 1 if side else -1] for f, side in ports]
        return Sizes(tuple(a for a, _ in own), tuple(b for _, b in own))

    def _single(self, cell: int, owner: int) -> _Group:
        ports = self.ports[cell]
        sizes = self._sizes(ports)
        key = ("cell", sizes, owner)
        if key not in self.known:
            self.known[key] = len(self.stages)
            self.stages.append(Stage(sizes, cells=[], owner=owner))
        number = self.known[key]
        own = self.stages[number].cells
        assert own is not None
        self.places[cell] = (number, len(own))
        own.append(cell)
        return _Group(number, len(own) - 1, ports)

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
        key = (a.stage, b.stage, closed)
        if key not in self.known:
            left, right = self.stages[a.stage], self.stages[b.stage]
            self.known[key] = len(self.stages)
            self.stages.append(Stage(
                self._sizes(rest), a.stage, b.stage, closed, (left.sizes, right.sizes),
                owner=left.owner,
            ))  # fmt: skip
        number = self.known[key]
        members = self.stages[number].members
        members.append((a.number, b.number))
        return _Group(number, len(members) - 1, tuple(rest))


def _spread(starts: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The numbers of all ports of some cells, which begin there (cells, ports)."""
    ports = np.repeat(np.arange(len(sizes)), sizes)
    return np.asarray(
        starts[:, ports] + of_ports(sizes, range(len(sizes))) - stack_ports(sizes)[ports]
    )
