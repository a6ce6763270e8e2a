"""Cells joined by their maps: the same exchange as one dense system of equations, in any order."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from tessella.cells.exchanging import exchanged
from tessella.cells.joining import Face, Sizes, join_work, order, wire
from tessella.cells.merging import Maps, distinct_members, merge
from tessella.cells.shelf import Shelf
from tessella.cells.solvers import Exchange


class Crossing(NamedTuple):
    face: int
    side: int


class Grid:
    """Cells on a grid with random maps; `around` are axes that close, and `free` numbers come in
    from outside. Cells that are `alike` have the same map if they have the same ports."""

    def __init__(self, rng, shape, up=3, down=2, around=(), free=0, alike=False, sums=0):
        places = list(itertools.product(*map(range, shape)))
        number = {place: i for i, place in enumerate(places)}
        self.low = np.array(places)
        self.high = self.low + 1
        self.faces, self.ports = [], [[] for _ in places]
        for axis, place in itertools.product(range(len(shape)), places):
            beyond = tuple(x + (i == axis) for i, x in enumerate(place))
            if beyond[axis] == shape[axis] and axis in around:
                beyond = (*beyond[:axis], 0, *beyond[axis + 1 :])
            if beyond in number:
                self.join(number[place], number[beyond], up, down)
        if free:
            self.ports[0].append((len(self.faces), 0))
            self.faces.append(Face(-1, 0, free, 0))
        self.sums = sums
        self.maps = list(self.random_maps(rng, alike))

    def join(self, below, above, up, down):
        self.ports[below].append((len(self.faces), 1))
        self.ports[above].append((len(self.faces), 0))
        self.faces.append(Face(below, above, up, down))

    def sizes(self, cell):
        own = [(self.faces[f].down, self.faces[f].up)[:: 1 if side else -1]
               for f, side in self.ports[cell]]  # fmt: skip
        return Sizes(tuple(a for a, _ in own), tuple(b for _, b in own))

    def random_maps(self, rng, alike):
        """T, the cell's rows of the sums, and a name."""
        made = {}
        for cell in range(len(self.ports)):
            sizes = self.sizes(cell)
            key = (sizes, tuple(side for _, side in self.ports[cell]), 0 if alike else cell)
            if key not in made:
                n, m = sum(sizes.given), sum(sizes.taken)
                T = rng.standard_normal((n, m)) / (2 * np.sqrt(m))
                made[key] = T, rng.standard_normal((self.sums, m)), b"%d" % len(made)
            yield made[key]

    def planned(self, axes=None):
        """The order of joining, with the axes permuted, and the maps of its single cells."""
        low, high = (x[:, axes or range(x.shape[1])] for x in (self.low, self.high))
        plan = order(low, high, self.ports, self.faces, [0] * len(self.ports))
        return plan, [self._leaf(stage) for stage in plan.stages]

    def _leaf(self, stage):
        if stage.cells is None:
            return None
        if stage.cells[0] < 0:
            T = wire(stage.sizes)[None]
            return Maps(T, np.zeros((1, self.sums, T.shape[2])), np.zeros(stage.count, int), (b"",))
        names = [self.maps[cell][2] for cell in stage.cells]
        first = {name: i for i, name in reversed(list(enumerate(names)))}
        distinct = sorted(first)
        own = [self.maps[stage.cells[first[name]]] for name in distinct]
        which = np.array([distinct.index(name) for name in names])
        T, E = np.stack([one[0] for one in own]), np.stack([one[1] for one in own])
        return Maps(T, E, which, tuple(distinct))

    def data(self, rng, plan, columns=1):
        """Random c of every cell, and as arrays per stage."""
        sizes = [sum(self.sizes(j).given) for j in range(len(self.ports))]
        c = [rng.standard_normal((n, columns)) for n in sizes]
        return c, per_stage(plan, c, columns)

    def dense(self, c):
        """Rows and right-hand sides of in - Pi (T in) = Pi c, and which unknowns a cell takes."""
        starts = np.concatenate([[0], np.cumsum([f.up + f.down for f in self.faces])])

        def unknowns(cell, given):
            parts = [np.zeros(0, dtype=int)]
            for f, side in self.ports[cell]:
                up, down = self.faces[f].up, self.faces[f].down
                part = np.arange(up) if side == given else up + np.arange(down)
                parts.append(starts[f] + part)
            return np.concatenate(parts)

        taken = [unknowns(j, 0) for j in range(len(self.ports))]
        A, b = np.eye(starts[-1]), np.zeros((starts[-1], c[0].shape[1]))
        for j, (T, _, _) in enumerate(self.maps):
            own = unknowns(j, 1)
            A[np.ix_(own, taken[j])] -= T
            b[own] += c[j]
        return A, b, taken


def per_stage(plan, c, columns):
    found = []
    for s in plan.stages:
        nothing = np.zeros((sum(s.sizes.given), columns))
        own = [c[j] if j >= 0 else nothing for j in s.cells or ()]
        found.append(np.stack(own) if own else None)
    return found


def taken_by(plan, found):
    """What every cell takes, by its number."""
    return [found[stage][number] for stage, number in plan.places]


def no_sums(plan, columns=1):
    return [None if s.cells is None else np.zeros((s.count, 0, columns)) for s in plan.stages]


GRIDS = {
    "two": ((2,), {}),
    "a row": ((7,), {}),
    "a plane": ((3, 4), {}),
    "space": ((2, 3, 2), {}),
    "everything from below": ((3, 3), {"down": 0}),
    "a ring": ((5,), {"around": (0,)}),
    "a ring of two": ((2,), {"around": (0,)}),
    "a tube": ((3, 2), {"around": (0,), "up": 2}),
    "a torus": ((2, 3), {"around": (0, 1), "up": 2}),
    "its own neighbour": ((1, 3), {"around": (0,), "up": 2}),
}


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("alike", [False, True], ids=["all different", "equal where they can be"])
def test_merging_solves_the_exchange_of_all_cells(rng, name, alike):
    """in = Pi (T in + c), for three right-hand sides at once."""
    shape, options = GRIDS[name]
    grid = Grid(rng, shape, alike=alike, **options)
    plan, leaves = grid.planned()
    c, data = grid.data(rng, plan, 3)
    merged = merge(plan, leaves, np.zeros(0))
    found, _ = merged.solve(data, no_sums(plan, 3), np.zeros((0, 3)))
    A, b, taken = grid.dense(c)
    x = np.linalg.solve(A, b)
    for own, unknowns in zip(taken_by(plan, found), taken, strict=True):
        np.testing.assert_allclose(own, x[unknowns], atol=1e-12)


@pytest.mark.parametrize("axes", [(0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_the_order_of_joining_does_not_matter(rng, axes):
    grid = Grid(rng, (3, 2, 2))
    c, _ = grid.data(rng, grid.planned()[0])
    found = []
    for plan, leaves in (grid.planned(), grid.planned(axes)):
        merged = merge(plan, leaves, np.zeros(0))
        taken, _ = merged.solve(per_stage(plan, c, 1), no_sums(plan), np.zeros((0, 1)))
        found.append(np.concatenate(taken_by(plan, taken)))
    np.testing.assert_allclose(*found, atol=1e-13)


def test_an_iteration_finds_what_merging_finds(rng):
    grid = Grid(rng, (3, 3), around=(1,))
    plan, leaves = grid.planned()
    _, data = grid.data(rng, plan)
    direct, _ = merge(plan, leaves, np.zeros(0)).solve(data, no_sums(plan), np.zeros((0, 1)))
    ports = [[Crossing(*port) for port in own] for own in grid.ports]
    iterated = exchanged(plan, leaves, grid.faces, ports, Exchange(tolerance=1e-13))
    found, result = iterated.solve(data, no_sums(plan), np.zeros((0, 1)))
    for one, other in zip(taken_by(plan, found), taken_by(plan, direct), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)
    assert 0 < result.iterations < sum(f.up + f.down for f in grid.faces)


def test_what_comes_in_from_outside_follows_from_sums_over_all_cells(rng):
    """Four numbers that nobody gives, four sums of what all cells do."""
    grid = Grid(rng, (2, 3), free=4, sums=4)
    plan, leaves = grid.planned()
    c, data = grid.data(rng, plan)
    values = rng.standard_normal((4, 1))
    parts = [None if s.cells is None else np.zeros((s.count, 4, 1)) for s in plan.stages]
    found, _ = merge(plan, leaves, np.ones(4)).solve(data, parts, values)
    A, b, taken = grid.dense(c)
    rows = np.zeros((4, len(A)))
    for (_, E, _), unknowns in zip(grid.maps, taken, strict=True):
        rows[:, unknowns] += E
    known = [f for f in grid.faces if f.below >= 0]
    inner = sum(f.up + f.down for f in known)
    x = np.linalg.solve(np.vstack([A[:inner], rows]), np.vstack([b[:inner], values]))
    for own, unknowns in zip(taken_by(plan, found), taken, strict=True):
        np.testing.assert_allclose(own, x[unknowns], atol=1e-10)


def test_equal_cells_and_equal_groups_are_joined_once(rng):
    """A long row has a constant number of distinct joins per doubling, whatever its length."""
    made = []
    for length in (16, 32, 64):
        plan, leaves = Grid(rng, (length,), alike=True).planned()
        merged = merge(plan, leaves, np.zeros(0))
        made.append(merged.made)
        assert sum(distinct_members(plan, leaves)) < length
    assert made[2] - made[1] == made[1] - made[0] <= 3
    different = merge(*Grid(rng, (64,)).planned(), np.zeros(0))
    assert different.made == 63


def test_joins_are_taken_from_the_shelf(rng):
    grid = Grid(rng, (4, 2))
    plan, leaves = grid.planned()
    _, data = grid.data(rng, plan)
    shelf, found = Shelf(), []
    for again in (False, True):
        merged = merge(plan, leaves, np.zeros(0), shelf)
        assert (merged.reused > 0) == again
        assert merged.made + merged.reused == 7
        found.append(merged.solve(data, no_sums(plan), np.zeros((0, 1)))[0])
    assert merged.made == 1, "the last exchange is always solved anew"
    for one, other in zip(taken_by(plan, found[0]), taken_by(plan, found[1]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_cell_is_joined_once_and_all_inner_ports_are_closed(rng):
    grid = Grid(rng, (4, 3), free=1)
    plan, _ = grid.planned()
    singles = sorted(j for s in plan.stages if s.cells is not None for j in s.cells)
    assert singles == list(range(12))
    assert sum(s.count for s in plan.stages if s.cells is None) == 11
    closed = sum(len(s.closed) * s.count for s in plan.stages)
    assert closed == len([f for f in grid.faces if f.below >= 0])
    assert plan.left_open == ((len(grid.faces) - 1, 0),)


def test_the_predicted_work_grows_with_what_is_distinct(rng):
    plan, leaves = Grid(rng, (8, 8), alike=True).planned()
    few = join_work(plan, distinct_members(plan, leaves))
    all_of_them = join_work(plan, [stage.count for stage in plan.stages])
    assert few[0] < 0.8 * all_of_them[0] and few[1] < 0.8 * all_of_them[1]
    larger = Grid(rng, (8, 8), up=6, down=4, alike=True).planned()[0]
    flops, size = join_work(larger, [stage.count for stage in larger.stages])
    assert flops == pytest.approx(8 * all_of_them[0]) and size == pytest.approx(4 * all_of_them[1])
