"""In which order cells are joined, two and two up to the whole, and which of these steps are alike.

A cell has ports, its parts of faces with a neighbour beyond. Joining two groups of cells closes the
ports between them; the others are the ports of what they make. Steps that close the same ports of
groups that are alike are made at once, and those with the same numbers only once.

Several processes share the tree: each has one of the groups that the first halvings make, with all
below it, and what lies above belongs to the first of those it joins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tessella.cells.order.stage import Stage


@dataclass(frozen=True)
class Order:
    """All stages, children first; the last one is the whole.

    place  of every cell: its stage, and its number there, (J, 2)
    """

    stages: tuple[Stage, ...]
    place: np.ndarray
    taken: tuple[np.ndarray | None, ...]
    """Of the stages of single cells, (members, in): where what they take is in a vector of all."""
    given: tuple[np.ndarray | None, ...]
    """The same for what they give, (members, out): where others take it."""
    size: int
    """Of that vector."""
    each: int = 1
    """What counts as one cell here may be about so many."""
    long: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Which numbers of that vector are of the longest waves on their faces, if anybody knows."""

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.place)

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
