"""Steps of joining that are alike: what they close, and where its numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np


class Sizes(NamedTuple):
    """Of a group of cells: what it takes and gives at its ports, one after the other."""

    taken: tuple[int, ...]
    given: tuple[int, ...]


class Numbers(NamedTuple):
    """Positions in the vectors of two groups A and B that are joined: those of the closed ports (3)
    and of the others, taken and given."""

    a3_in: np.ndarray
    a3_out: np.ndarray
    a1_in: np.ndarray
    a1_out: np.ndarray
    b3_in: np.ndarray
    b3_out: np.ndarray
    b2_in: np.ndarray
    b2_out: np.ndarray


class Arrangement(NamedTuple):
    """Rows and columns of a map in another order, and for small ones where their numbers are."""

    rows: np.ndarray
    columns: np.ndarray
    flat: np.ndarray | None


Some = np.ndarray | slice
"""Which of many, as a slice if they are evenly apart."""

SMALL = 1 << 15
"""Numbers of a map up to which their places are listed one by one."""


@dataclass
class Stage:
    """Joins that are alike: `left` and `right` are stages.

    closed  positions of the ports that are closed, of the left and of the right one
    pairs   which members of both are joined, (n, 2)
    owner   the process whose it is
    A stage without children consists of single cells.
    """

    sizes: Sizes
    left: int = -1
    right: int = -1
    closed: tuple[tuple[int, int], ...] = ()
    children: tuple[Sizes, Sizes] | None = None
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    cells: np.ndarray | None = None
    owner: int = 0

    @property
    def count(self) -> int:
        return len(self.pairs if self.cells is None else self.cells)

    @cached_property
    def sides(self) -> tuple[Some, Some]:
        """Which members of the left and of the right stage are joined."""
        left, right = (evenly(own) for own in self.pairs.T)
        return left, right

    @cached_property
    def name(self) -> bytes:
        """Tells it from other ways to join the same groups."""
        return repr(self.closed).encode()

    @cached_property
    def numbers(self) -> Numbers:
        assert self.children is not None
        parts = []
        for which, sizes in enumerate(self.children):
            three = [pair[which] for pair in self.closed]
            shut = set(three)
            rest = [i for i in range(len(sizes.taken)) if i not in shut]
            parts += [of_ports(sizes.taken, three), of_ports(sizes.given, three)]
            parts += [of_ports(sizes.taken, rest), of_ports(sizes.given, rest)]
        return Numbers(*parts)

    @cached_property
    def arrangements(self) -> tuple[Arrangement, Arrangement]:
        """Of the maps of both groups, with what is given and taken at closed ports first."""
        at = self.numbers
        assert self.children is not None
        parts = (
            (at.a3_out, at.a1_out, at.a3_in, at.a1_in),
            (at.b3_out, at.b2_out, at.b3_in, at.b2_in),
        )
        found = []
        for out3, out, in3, into in parts:
            rows, columns = np.concatenate([out3, out]), np.concatenate([in3, into])
            flat = None
            if len(rows) * len(columns) <= SMALL:
                flat = (rows[:, None] * len(columns) + columns).ravel()
            found.append(Arrangement(rows, columns, flat))
        return found[0], found[1]

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of a join's map and of what it leaves for right-hand sides (see `join`)."""
        at, taken = self.numbers, sum(self.sizes.taken)
        m, n, o1, o2 = len(at.a3_in), len(at.b3_in), len(at.a1_out), len(at.b2_out)
        return (o1 + o2, taken), (m + n, n + m), (m + n, taken), (o1, m), (o2, n)

    @cached_property
    def numbers_left(self) -> tuple[int, int]:
        """How many numbers a join's map has, and what it leaves for right-hand sides."""
        first, *rest = (a * b for a, b in self.shapes)
        return first, sum(rest)

    @cached_property
    def given_order(self) -> np.ndarray:
        """Of what A and B give, one after the other, first what they give at closed ports."""
        at, start = self.numbers, len(self.numbers.a3_out) + len(self.numbers.a1_out)
        return np.concatenate([at.a3_out, start + at.b3_out, at.a1_out, start + at.b2_out])

    @cached_property
    def closed_given(self) -> int:
        """How many of these there are."""
        return len(self.numbers.a3_out) + len(self.numbers.b3_out)

    @cached_property
    def taken_orders(self) -> tuple[np.ndarray, np.ndarray]:
        """Where what A takes, and what B takes, is in what they take outside and then at closed
        ports."""
        at = self.numbers
        sizes = [len(own) for own in (at.a1_in, at.b2_in, at.a3_in, at.b3_in)]
        outside_a, outside_b, closed_a, closed_b = (
            start + np.arange(size) for start, size in zip(stack_ports(sizes), sizes, strict=False)
        )
        a, b = (np.empty(sizes[k] + sizes[k + 2], dtype=np.int64) for k in (0, 1))
        a[at.a1_in], a[at.a3_in] = outside_a, closed_a
        b[at.b2_in], b[at.b3_in] = outside_b, closed_b
        return a, b

    @cached_property
    def flops(self) -> float:
        """Of one join."""
        at, given = self.numbers, sum(self.sizes.given)
        n, m, taken = len(at.a3_in), len(at.b3_in), sum(self.sizes.taken)
        inner = 2 * n * n * m + n**3 + n * m * m + (n + m) * max(n, m) * taken
        return 2.0 * (inner + given * max(n, m) * taken)

    @cached_property
    def bytes(self) -> float:
        """Of one join's map and of what it leaves for right-hand sides."""
        return 8.0 * sum(self.numbers_left)


def stack_ports(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where the numbers of every port begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def of_ports(sizes: Sequence[int], chosen: Sequence[int]) -> np.ndarray:
    """The positions of the numbers of some ports, one after the other."""
    starts = stack_ports(sizes)
    parts = [np.arange(starts[i], starts[i + 1]) for i in chosen]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def evenly(numbers: np.ndarray) -> Some:
    """These numbers, as a slice if they ascend in equal steps."""
    steps = set(np.diff(numbers).tolist()) or {1}
    if not len(numbers) or len(steps) > 1 or min(steps) < 1:
        return numbers
    return slice(int(numbers[0]), int(numbers[-1]) + 1, steps.pop())
