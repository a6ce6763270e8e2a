"""A regular grid of cells on a device: its ports, and in which order it is joined.

Cells have ports on all their faces here, those at walls too: nothing comes in there and nothing
goes out. So all cells are alike, and those of a grid with powers of two along its axes are joined
in as few steps as there are doublings; other grids take some steps more. A grid may be a part of a
larger one, with sides that are open.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

import jax
import numpy as np

from tessella.cells.order.found import order, positions
from tessella.cells.order.front import Ends, joined_ends
from tessella.cells.order.joints import Joints
from tessella.cells.order.stage import Sizes, stack_ports


class Numbers(NamedTuple):
    """How many numbers cross a face across one axis: those taken from below, and from above."""

    up: int
    down: int


Data = tuple[Numbers, ...]
"""Per axis."""

Sides = tuple[tuple[bool, bool], ...]
"""Of every axis, below and above."""


class Grid:
    """A regular grid of cells, and in which order they are joined.

    beyond  (J, ports), axis by axis, below and above: whether there is a neighbour; taken (J, in)
            and given (J, out) the same for the numbers that cross there
    outer   (J, ports): whether that is beyond a side of the grid that is `opened`
    widths  of these ports
    """

    def __init__(
        self, counts: tuple[int, ...], wraps: tuple[bool, ...], data: Data, opened: Sides
    ) -> None:
        cells = np.stack(np.unravel_index(np.arange(np.prod(counts)), counts), axis=1)
        joints = _joints(counts, wraps, data)
        ports = joints.ports.reshape(len(cells), -1)
        inner = (joints.ends.min(axis=1) >= 0)[ports >> 1]
        self.outer = ~inner & np.array(opened).ravel()
        self.opened = bool(self.outer.any())
        self.beyond = (inner | self.outer).astype(np.float64)
        self.widths = Sizes(
            tuple(n for own in data for n in (own.up, own.down)),
            tuple(n for own in data for n in (own.down, own.up)),
        )
        self.taken, self.given = (np.repeat(self.beyond, own, axis=1) for own in self.widths)
        self.order = order(cells, cells + 1, joints)

    @cached_property
    def ends(self) -> Ends:
        """Where what all cells take (J, in) and give (J, out) is in a vector of all."""
        leaf = next(i for i, stage in enumerate(self.order.stages) if stage.cells is not None)
        taken, given = self.order.taken[leaf], self.order.given[leaf]
        cells = self.order.stages[leaf].cells
        assert taken is not None and given is not None and cells is not None
        rows = np.argsort(cells)
        return Ends(taken[rows], given[rows])

    @cached_property
    def rim(self) -> Ends:
        """Where what is taken and given at open sides is there: side by side, cell by cell."""
        found = []
        for every, widths in zip(self.ends, self.widths, strict=True):
            starts = stack_ports(widths)
            ports = zip(self.outer.T, starts, starts[1:], strict=False)
            found.append(np.concatenate([every[own, a:b].ravel() for own, a, b in ports]))
        return Ends(*found)

    @cached_property
    def outside(self) -> Ends:
        """Where that is in what the whole takes and gives."""
        every: list[Ends] = []
        for stage in self.order.stages:
            if stage.cells is not None:
                every.append(Ends(*(own[stage.cells] for own in self.ends)))
            else:
                every.append(joined_ends(stage, every[stage.left], every[stage.right]))
        return Ends(*(positions(own[0], rim) for own, rim in zip(every[-1], self.rim, strict=True)))

    @cached_property
    def at_rim(self) -> np.ndarray:
        """Where what is taken there is among all that cells take (J, in)."""
        return positions(self.ends.taken.ravel(), self.rim.taken)

    @cached_property
    def partners(self) -> np.ndarray:
        """(J, out): where what they give is taken, among all that cells take (J, in), followed by
        what others take of what is given at open sides."""
        where = np.zeros(self.order.size, dtype=np.int64)
        where[self.ends.taken] = np.arange(self.ends.taken.size).reshape(self.ends.taken.shape)
        where[self.rim.given] = self.ends.taken.size + np.arange(len(self.rim.given))
        return where[self.ends.given]

    @cached_property
    def masks(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """`beyond`, `taken` and `given` on the device."""
        return jax.device_put((self.beyond, self.taken, self.given))

    @cached_property
    def bytes(self) -> float:
        """Of all maps and of what joins leave for right-hand sides."""
        return sum(s.count * s.bytes for s in self.order.stages if s.cells is None)


@lru_cache(maxsize=8)
def grid(
    counts: tuple[int, ...], wraps: tuple[bool, ...], data: Data, opened: Sides | None = None
) -> Grid:
    """The same numbers give the same object, and so the same compiled programs."""
    return Grid(counts, wraps, data, opened or ((False, False),) * len(counts))


def _joints(counts: tuple[int, ...], wraps: tuple[bool, ...], data: Data) -> Joints:
    """All faces, those at walls too, axis by axis; every cell has a port below and one above."""
    numbers = np.arange(np.prod(counts)).reshape(counts)
    ends, up, down, ports, first = [], [], [], [], 0
    for axis, (S, wrap, crossing) in enumerate(zip(counts, wraps, data, strict=True)):
        lines = np.moveaxis(numbers, axis, -1).reshape(-1, S)
        wall = np.full((len(lines), 1), -1)
        line = np.hstack([lines[:, -1:], lines] if wrap else [wall, lines, wall])
        own = np.stack([line[:, :-1], line[:, 1:]], axis=2)
        count = own.shape[1]
        begin = first + count * np.arange(len(lines))[:, None]
        at = np.empty((numbers.size, 2), dtype=np.int64)
        at[lines, 0] = 2 * (begin + np.arange(S))
        at[lines, 1] = 2 * (begin + np.arange(1, S + 1) % count) + 1
        ends.append(own.reshape(-1, 2))
        up.append(np.full(own[..., 0].size, crossing.up))
        down.append(np.full(own[..., 0].size, crossing.down))
        ports.append(at)
        first += own[..., 0].size
    every = np.concatenate(ports, axis=1)
    starts = every.shape[1] * np.arange(numbers.size + 1)
    return Joints(
        np.concatenate(ends), np.concatenate(up), np.concatenate(down), starts, every.ravel()
    )
