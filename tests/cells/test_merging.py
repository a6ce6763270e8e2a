"""Cells joined by their maps: the same exchange as one dense system of equations, in any order."""

import itertools
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.cells.joins import budget, choosing, exchanged
from tessella.cells.joins import join as module
from tessella.cells.joins.exchanged import exchange
from tessella.cells.joins.join import Climb
from tessella.cells.joins.merging import merge
from tessella.cells.maps.maps import Maps, Sharing, distinct_members
from tessella.cells.maps.shelf import Shelf
from tessella.cells.order.found import order
from tessella.cells.order.front import Front
from tessella.cells.order.halving import owners
from tessella.cells.order.joints import Joints
from tessella.cells.order.stage import Sizes, evenly
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.system.tiled import corners
from tessella.linalg.iterative.iteration import Stop
from tessella.machine import processes, threads


class Face(NamedTuple):
    """The cells below and above, and the numbers that go up and down."""

    below: int
    above: int
    up: int
    down: int


def joints(faces, ports):
    """As tables; a port is a face and 1 where that is the cell's upper one."""
    starts = np.cumsum([0, *map(len, ports)])
    codes = [2 * face + side for own in ports for face, side in own]
    ends, up, down = np.split(np.array(faces, dtype=np.int64).reshape(-1, 4), [2, 3], axis=1)
    return Joints(ends, up.ravel(), down.ravel(), starts, np.array(codes, dtype=np.int64))


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
        """The order of joining, with the axes permuted; the maps of its single cells, and which of
        the members of every stage are equal."""
        low, high = (x[:, axes or range(x.shape[1])] for x in (self.low, self.high))
        plan = order(low, high, joints(self.faces, self.ports))
        leaves = [self._leaf(stage) for stage in plan.stages]
        return plan, [maps for maps, _ in leaves], distinct_members(plan, [w for _, w in leaves])

    def _leaf(self, stage):
        if stage.cells is None:
            return None, None
        names = [self.maps[cell][2] for cell in stage.cells]
        distinct = sorted(set(names))
        own = [self.maps[stage.cells[names.index(name)]] for name in distinct]
        T, E = (np.stack([one[k] for one in own]) for k in (0, 1))
        return Maps(T, E, tuple(distinct)), np.array([distinct.index(name) for name in names])

    def data(self, rng):
        """A random c of every cell."""
        return [rng.standard_normal(sum(self.sizes(j).given)) for j in range(len(self.ports))]

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
        A, b = np.eye(starts[-1]), np.zeros(starts[-1])
        for j, (T, _, _) in enumerate(self.maps):
            own = unknowns(j, 1)
            A[np.ix_(own, taken[j])] -= T
            b[own] += c[j]
        return A, b, taken


def joined(plan, leaves, distinct, weights, shelf=None):
    return merge(Climb(plan, leaves, distinct, shelf).below(), weights)


def exchanging(plan, leaves, distinct, solver):
    return exchange(Climb(plan, leaves, distinct, None).to(Front(plan, solver.group)), solver)


def taken(joined, c, values=()):
    """What every cell takes, by its number."""
    plan, values = joined.order, np.array(values)
    data, parts = [], []
    for stage in plan.stages:
        own = [] if stage.cells is None else [c[j] for j in stage.cells]
        data.append(np.stack(own) if own else None)
        parts.append(np.zeros((len(own), len(values))) if own else None)
    found, result = joined.solve(data, parts, values)
    return [found[stage][number] for stage, number in plan.place], result


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
}


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("alike", [False, True], ids=["all different", "equal where they can be"])
def test_merging_solves_the_exchange_of_all_cells(rng, name, alike):
    """in = Pi (T in + c), for one right-hand side after the other."""
    shape, options = GRIDS[name]
    grid = Grid(rng, shape, alike=alike, **options)
    merged = joined(*grid.planned(), np.zeros(0))
    for _ in range(2):
        c = grid.data(rng)
        A, b, unknowns = grid.dense(c)
        x = np.linalg.solve(A, b)
        for found, own in zip(taken(merged, c)[0], unknowns, strict=True):
            np.testing.assert_allclose(found, x[own], atol=1e-12)


@pytest.mark.parametrize("cores", [1, 4])
def test_a_large_join_is_made_in_parts_by_all_cores(rng, monkeypatch, cores):
    """Whoever makes them, with the same result to the last bit."""
    monkeypatch.setattr(module, "LARGE", 0.0)
    monkeypatch.setattr(module, "PANEL", 3)
    monkeypatch.setattr(threads, "SMALL", 0.0)
    grid = Grid(rng, (3, 4), up=4, down=5)
    planned, c = grid.planned(), grid.data(rng)
    found = []
    for number in (1, cores):
        monkeypatch.setattr(threads, "CORES", number)
        found.append(np.concatenate(taken(joined(*planned, np.zeros(0)), c)[0]))
    A, b, unknowns = grid.dense(c)
    np.testing.assert_allclose(
        found[0], np.linalg.solve(A, b)[np.concatenate(unknowns)], atol=1e-12
    )
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("axes", [(0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_the_order_of_joining_does_not_matter(rng, axes):
    grid = Grid(rng, (3, 2, 2))
    c = grid.data(rng)
    found = [
        np.concatenate(taken(joined(*planned, np.zeros(0)), c)[0])
        for planned in (grid.planned(), grid.planned(axes))
    ]
    np.testing.assert_allclose(*found, atol=1e-13)


@pytest.mark.parametrize("group", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("name", GRIDS)
def test_an_iteration_between_groups_finds_what_merging_finds(rng, name, group):
    """Whatever is merged before: single cells, pairs, uneven groups, or both halves."""
    shape, options = GRIDS[name]
    grid = Grid(rng, shape, **options)
    planned, c = grid.planned(), grid.data(rng)
    iterated = exchanging(*planned, Exchange(tolerance=1e-14, group=group))
    direct, _ = taken(joined(*planned, np.zeros(0)), c)
    found, result = taken(iterated, c)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(direct), atol=1e-12)
    assert result.iterations <= sum(f.up + f.down for f in grid.faces)
    assert result.residual_norm < 1e-13


@pytest.mark.parametrize("group", [1, 4, 9])
def test_an_exchange_transposed_is_the_transpose(rng, group):
    """<y, F c> = <F^T y, c> for random y and c, each of all cells."""
    plan, leaves, distinct = Grid(rng, (4, 5)).planned()
    iterated = exchanging(plan, leaves, distinct, Exchange(tolerance=1e-14, group=group))

    def numbers(width):
        return [
            None if s.cells is None else rng.standard_normal((s.count, 2, sum(width(s.sizes))))
            for s in plan.stages
        ]

    c, y = numbers(lambda sizes: sizes.given), numbers(lambda sizes: sizes.taken)
    none = [None if s.cells is None else np.zeros((s.count, 2, 0)) for s in plan.stages]
    found, _ = iterated.solve(c, none, np.zeros((2, 0)))
    back, values = iterated.transposed(y, (2,))
    assert values.shape == (2, 0)
    there, here = (
        sum(np.einsum("ikj,ikj->k", a, b) for a, b in zip(x, z, strict=True) if a is not None)
        for x, z in ((y, found), (back, c))
    )
    np.testing.assert_allclose(there, here, rtol=1e-11)


@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_every_cell_is_in_one_group_and_what_is_given_is_taken(group, across, along, around):
    grid = Grid(np.random.default_rng(0), (across, along), around=(0,) if around else ())
    plan = grid.planned()[0]
    front = Front(plan, group)
    cells = sum(len(own) * plan.cells[i] for i, own in front.members.items())
    assert cells == across * along and [len(front.members[i]) for i in front.members] == [
        n for n in front.counts if n
    ]
    assert all(plan.cells[i] <= group for i in front.members)
    assert front.ends.keys() == front.members.keys() == front.colours_of.keys()
    inside = (front.taker < 0) & (front.giver < 0)
    closed = (front.taker >= 0) & (front.giver >= 0)
    assert np.all(inside | closed)
    if front.colours.any():
        assert np.all(front.colours[front.taker[closed]] != front.colours[front.giver[closed]])


def test_larger_groups_take_fewer_iterations_and_more_memory(rng):
    """Diffusion in a row: a message crosses a group in one iteration."""
    grid = Grid(rng, (64,), up=1, down=1)
    grid.maps = [
        (np.full_like(T, 0.05) + 0.9 * np.eye(len(T))[::-1], E, name) for T, E, name in grid.maps
    ]
    planned, c = grid.planned(), grid.data(rng)
    made, sizes = [], []
    for group in (1, 4, 16):
        iterated = exchanging(*planned, Exchange(tolerance=1e-12, group=group))
        made.append(taken(iterated, c)[1].iterations)
        sizes.append(iterated.bytes)
    assert made[0] > 2 * made[1] > 4 * made[2]
    assert sizes[0] == 0 < sizes[1] < sizes[2]


def test_a_trial_tells_an_exchange_that_settles_from_one_that_does_not(rng):
    """Of the second the map of a cell gives back all that it takes, so that nothing is determined;
    data that do not see it do not show it."""
    grid = Grid(rng, (2,), up=2, down=2)
    good = exchanging(*grid.planned(), Exchange(tolerance=1e-14))
    assert good.settles(100) and not good.settles(1)
    for cell, (T, E, name) in enumerate(grid.maps):
        T[...] = np.diag([1.0, 0.5])
        grid.maps[cell] = T, E, name
    plan, leaves, distinct = grid.planned()
    bad = exchanging(plan, leaves, distinct, Exchange(tolerance=1e-14))
    c = [np.array([0.0, 1.0]), np.array([0.0, -2.0])]
    assert taken(bad, c)[1].stop == Stop.RESIDUAL, "for these data"
    assert not bad.settles(100)


@pytest.mark.parametrize("most", [3, 4, 10])
def test_an_iteration_stops_when_it_is_told_to(rng, monkeypatch, most):
    """Whatever the number of steps after which it begins anew."""
    monkeypatch.setattr(exchanged, "restart", lambda front, coarse=False: 4)
    grid = Grid(rng, (4, 4), around=(1,))
    solver = Exchange(max_iterations=most, tolerance=1e-14)
    _, result = taken(exchanging(*grid.planned(), solver), grid.data(rng))
    assert result.iterations == most and result.stop == Stop.LIMIT


def test_what_comes_in_from_outside_follows_from_sums_over_all_cells(rng):
    """Four numbers that nobody gives, and four sums of what all cells take."""
    grid = Grid(rng, (2, 3), free=4, sums=4)
    c, values = grid.data(rng), rng.standard_normal(4)
    found, _ = taken(joined(*grid.planned(), np.ones(4)), c, values)
    A, b, unknowns = grid.dense(c)
    rows = np.zeros((4, len(A)))
    for (_, E, _), own in zip(grid.maps, unknowns, strict=True):
        rows[:, own] += E
    x = np.linalg.solve(np.vstack([A[:-4], rows]), np.concatenate([b[:-4], values]))
    for one, own in zip(found, unknowns, strict=True):
        np.testing.assert_allclose(one, x[own], atol=1e-10)


def test_more_sums_than_needed_are_met_if_they_agree(rng):
    grid = Grid(rng, (2, 2), free=2, sums=6)
    c = grid.data(rng)
    A, b, unknowns = grid.dense(c)
    b[-2:] = rng.standard_normal(2)
    x = np.linalg.solve(A, b)
    values = sum(E @ x[own] for (_, E, _), own in zip(grid.maps, unknowns, strict=True))
    found, _ = taken(joined(*grid.planned(), np.ones(6)), c, values)
    for one, own in zip(found, unknowns, strict=True):
        np.testing.assert_allclose(one, x[own], atol=1e-10)


def joins(plan, distinct):
    return sum(
        len(own.pairs) for s, own in zip(plan.stages, distinct, strict=True) if s.cells is None
    )


def test_equal_cells_and_equal_groups_are_joined_once(rng):
    """A row has a constant number of distinct joins per doubling, whatever its length."""
    made = []
    for length in (16, 32, 64):
        plan, _, distinct = Grid(rng, (length,), alike=True).planned()
        made.append(joins(plan, distinct))
    assert made[2] - made[1] == made[1] - made[0] <= 3
    plan, _, distinct = Grid(rng, (64,)).planned()
    assert joins(plan, distinct) == 63


def test_joins_are_taken_from_the_shelf(rng):
    grid = Grid(rng, (4, 2))
    c, shelf = grid.data(rng), Shelf()
    first, second = (joined(*grid.planned(), np.zeros(0), shelf) for _ in range(2))
    assert first.reused == 0
    assert second.reused == 6, "all but the last, which is always solved anew"
    np.testing.assert_array_equal(*(np.concatenate(taken(m, c)[0]) for m in (first, second)))


def test_what_has_no_name_is_not_shelved(rng):
    """One cell that nobody will meet again, and all groups that it is in."""
    grid, shelf = Grid(rng, (4, 2)), Shelf()
    grid.maps[0] = (*grid.maps[0][:2], b"")
    joined(*grid.planned(), np.zeros(0), shelf)
    assert len(shelf) == 4, "of six groups, without the pair and the half around that cell"


def test_every_cell_is_joined_once_and_all_inner_ports_are_closed(rng):
    grid = Grid(rng, (4, 3), free=1)
    plan = grid.planned()[0]
    singles = sorted(j for s in plan.stages if s.cells is not None for j in s.cells)
    assert singles == list(range(12))
    assert sum(s.count for s in plan.stages if s.cells is None) == 11
    closed = sum(len(s.closed) * s.count for s in plan.stages)
    assert closed == len([f for f in grid.faces if f.below >= 0])
    front = Front(plan, 1)
    assert np.flatnonzero(front.giver < 0).tolist() == [plan.size - 1], "nobody is below that face"
    assert np.all(front.taker >= 0)


def test_an_order_is_found_again_and_another_one_is_another(rng):
    """The next slab of a march has the same; other faces or axes in turn have not."""
    grid = Grid(rng, (4, 3))
    assert Grid(rng, (4, 3)).planned()[0] is grid.planned()[0]
    others = [Grid(rng, (4, 3), up=2), Grid(rng, (4, 3), around=(0,))]
    for other in [*(one.planned()[0] for one in others), grid.planned([1, 0])[0]]:
        assert other is not grid.planned()[0]


def test_the_predicted_work_is_cubic_in_the_numbers_on_a_face(rng):
    def predicted(factor):
        stages = Grid(rng, (4, 4), up=3 * factor, down=2 * factor).planned()[0].stages
        own = [s for s in stages if s.cells is None]
        return sum(s.flops * s.count for s in own), sum(s.bytes * s.count for s in own)

    (flops, size), (more_flops, more) = predicted(1), predicted(2)
    assert more_flops == pytest.approx(8 * flops) and more == pytest.approx(4 * size)


@pytest.mark.parametrize("shape", [(16, 16), (12, 10), (5, 5, 5)])
def test_the_memory_of_merging_is_foretold(shape):
    grid = Grid(np.random.default_rng(3), shape, up=8, down=8)
    plan, leaves, distinct = grid.planned()
    foretold = budget.joining_bytes(plan, distinct, Merging())
    tracemalloc.start()
    merged = joined(plan, leaves, distinct, np.zeros(0))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert merged.bytes < foretold
    assert 0.8 * foretold < most < 1.25 * foretold


def test_a_process_without_joins_knows_what_would_do(rng, monkeypatch):
    """Of two cells in two processes the other one makes the only join."""
    grid = Grid(rng, (2,))
    monkeypatch.setattr(processes, "index", lambda: 1)
    plan = order(grid.low, grid.high, joints(grid.faces, grid.ports), processes=2)
    leaves = [None if stage.cells is None else np.zeros(1, dtype=int) for stage in plan.stages]
    distinct = distinct_members(plan, leaves)

    def advised(maps, solver, free, others=()):
        return budget.enough(plan, distinct, maps, solver, others, free)

    vectors = int(budget.joining_bytes(plan, distinct, Exchange()))
    assert advised(0, Merging(), 0, [plan]) == "or more memory"
    assert advised(0, Merging(), 2 * vectors) == "or use solver='exchange'"
    assert advised(2 * vectors, Merging(), 2 * vectors).endswith("'exchange' in 2 processes")
    assert advised(2 * vectors, Exchange(), 2 * vectors).startswith("or take 2 processes")
    few = Exchange(max_iterations=1)
    assert budget.joining_bytes(plan, distinct, few) < vectors
    assert advised(2 * vectors, few, vectors).startswith("or take ")


def test_what_others_on_a_machine_will_take_decides_too(rng, monkeypatch):
    """Three others as large; with no room for maps, merging's refusal tells what to do."""
    plan, _, distinct = Grid(rng, (4, 4)).planned()
    size = int(budget.joining_bytes(plan, distinct, Merging()))
    monkeypatch.setattr(processes, "beside", lambda what, *own: [3 * n for n in own])

    def chosen(free, maps):
        monkeypatch.setattr(choosing, "available_bytes", lambda beside: max(0, free - beside))
        return choosing.chosen(plan, distinct, maps, bound=False).solver

    assert isinstance(chosen(6 * size, 10), Merging)
    assert isinstance(chosen(4 * size, 10), Exchange)
    assert isinstance(chosen(2 * size, 10), Exchange)
    assert isinstance(chosen(2 * size, size), Merging)


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_who_has_which_cell_is_known_without_the_order(number):
    """Also where boxes are cut, and where cells fall into two pieces."""
    square = ts.Box(x=(0, 1), y=(0, 1))
    for tiling in (ts.Tiling(square, (5, 3)).refined([1, 7]), ts.Tiling(square, (9, 8))):
        low, high = corners(tiling)
        ends = np.array(
            [(b, a) for f in tiling.faces for b, a in zip(f.below, f.above, strict=True)]
        )
        ends = ends[high[ends[:, 0], 0] != 4 * np.max(high) // 9]
        faces = [Face(int(below), int(above), 1, 1) for below, above in ends]
        sides = [[] for _ in low]
        for i, face in enumerate(faces):
            sides[face.below].append((i, 1))
            sides[face.above].append((i, 0))
        plan = order(low, high, joints(faces, sides), number)
        np.testing.assert_array_equal(owners(low, high, ends, number), plan.owners)


@pytest.mark.parametrize("which", [[0, 0, 0], [0, 1, 2], [2, 0, 1], [0, 0, 1, 1], [1, 0, 1, 1]])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,)], ids=["one", "several", "nothing"])
def test_members_are_multiplied_by_the_matrices_they_share(rng, which, shape):
    matrices = rng.normal(size=(max(which) + 1, 4, shape[-1]))
    x = rng.normal(size=(len(which), *shape))
    found = Sharing(np.array(which), len(matrices)).times(matrices, x)
    expected = [
        np.einsum("ij,...j->...i", matrices[k], own) for k, own in zip(which, x, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("numbers", [[3], [0, 1, 2], [1, 4, 7], [2, 1], [0, 1, 3], [1, 1], []])
def test_numbers_evenly_apart_choose_the_same_as_a_slice(numbers):
    own = evenly(np.array(numbers, dtype=np.int64))
    assert np.arange(10)[own].tolist() == numbers
    assert isinstance(own, slice) == (numbers in ([3], [0, 1, 2], [1, 4, 7]))


def test_members_that_are_alike_are_found_once(rng):
    grid = Grid(rng, (4, 4), alike=True)
    plan, _, distinct = grid.planned()
    leaves = [one.which if s.cells is not None else None
              for s, one in zip(plan.stages, distinct, strict=True)]  # fmt: skip
    assert distinct_members(plan, leaves) is distinct_members(plan, [*leaves])
    others = [None if own is None else np.arange(len(own)) for own in leaves]
    assert [own.count for own in distinct_members(plan, others)] == [s.count for s in plan.stages]
