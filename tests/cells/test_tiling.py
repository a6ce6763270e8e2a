"""Boxes of different size side by side: they cover the domain once, and touch where they say."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.cells.boxes.tiling import DEEPEST, SMALLEST
from tessella.cells.boxes.tree import WHOLE, Roots, balanced, leaves, middle, parts

PLANE = ts.Box(x=(0, 2), y=(-1, 1))


@st.composite
def tilings(draw):
    """Graded slabs and cut boxes in one to three dimensions, periodic along some axes."""
    d = draw(st.integers(1, 3))
    names = "xyz"[:d]
    around = tuple(axis for axis in names if draw(st.booleans()))
    bounds = {axis: (draw(st.integers(-3, 0)), draw(st.integers(1, 4))) for axis in names}
    domain = ts.Box(**bounds)
    periodic = [ts.Periodic(axis) for axis in around]
    problem = ts.Problem(domain, ts.Equation(ts.Laplacian(), 1.0), periodic)
    fewest = [2 if axis in around else 1 for axis in names]
    tiling = ts.Tiling(problem.domain, [draw(st.integers(n, 3)) for n in fewest])
    for _ in range(draw(st.integers(0, 2))):
        slabs = [draw(st.sets(st.integers(0, S - 1), max_size=2)) for S in tiling.subdomains]
        tiling = tiling.split(slabs)
    for _ in range(draw(st.integers(0, 2))):
        most = st.integers(0, tiling.count - 1)
        tiling = tiling.refined(draw(st.sets(most, min_size=1, max_size=3)))
    return tiling


@given(tilings())
@settings(max_examples=40, deadline=None)
def test_boxes_cover_the_domain_once(tiling):
    domain = tiling.domain
    volumes = np.prod(2 * tiling.half_widths, axis=1)
    assert volumes.sum() == pytest.approx(np.prod(domain.upper - domain.lower), rel=1e-12)
    x = domain.scatter(200, np.random.default_rng(0))
    box, point = tiling.seen(x)
    assert sorted(point.tolist()) == list(range(200))
    assert np.all(np.diff(box) >= 0)
    away = np.abs(x[point] - tiling.centres[box]) / tiling.half_widths[box]
    assert away.max() <= 1 + 1e-9


@given(tilings())
@settings(max_examples=40, deadline=None)
def test_faces_fill_the_surface_of_every_box(tiling):
    """Each side of a box is met by neighbours all over, or lies on the boundary."""
    d = tiling.domain.dimension
    sides = 2 * tiling.half_widths
    for faces in tiling.faces:
        covered = {side: np.zeros(tiling.count) for side in (0, 1)}
        across = np.delete(sides, faces.axis, axis=1)
        small, _ = faces.smaller
        area = np.prod(across[small], axis=1)
        np.add.at(covered[1], faces.below, area)
        np.add.at(covered[0], faces.above, area)
        for side in (0, 1):
            whole = np.prod(across, axis=1)
            if not tiling.wraps[faces.axis]:
                whole[tiling.at_end(faces.axis, side)] = 0.0
            np.testing.assert_allclose(covered[side], whole, rtol=1e-12)
        for part in (faces.part_below, faces.part_above):
            assert np.all((part == WHOLE) | ((part >= 1) & (part <= 2 ** (d - 1))))
        assert np.all((faces.part_below == WHOLE) | (faces.part_above == WHOLE))


@given(tilings())
@settings(max_examples=40, deadline=None)
def test_both_neighbours_agree_where_their_face_is(tiling):
    d = tiling.domain.dimension
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d - 1))).reshape(2 ** (d - 1), -1)
    period = np.where(tiling.wraps, tiling.domain.upper - tiling.domain.lower, np.inf)
    for faces in tiling.faces:
        points = faces.points(tiling, corners)
        ends = ((1.0, faces.below, faces.part_below), (-1.0, faces.above, faces.part_above))
        for (end, members, parts_of), i in itertools.product(ends, range(len(points))):
            j, part = members[i], int(parts_of[i])
            width = 1.0 if part == WHOLE else 0.5
            z = np.insert(middle(part, d) + width * corners, faces.axis, end, axis=1)
            apart = np.abs(tiling.centres[j] + z * tiling.half_widths[j] - points[i])
            apart = np.minimum(apart, np.abs(apart - period))
            assert apart.max() < 1e-12


@given(tilings(), st.data())
@settings(max_examples=30, deadline=None)
def test_what_is_not_refined_keeps_its_bits(tiling, data):
    chosen = data.draw(st.sets(st.integers(0, tiling.count - 1), min_size=1, max_size=2))
    finer = tiling.refined(chosen)
    assert finer.count > tiling.count
    assert finer.half_widths.max() <= tiling.half_widths.max()

    def boxes(one):
        return {
            c.tobytes() + h.tobytes() for c, h in zip(one.centres, one.half_widths, strict=True)
        }

    gone = len(boxes(tiling) - boxes(finer))
    assert len(chosen) <= gone
    assert finer.count == tiling.count + gone * (2**tiling.domain.dimension - 1)


def test_neighbours_are_at_most_one_level_apart():
    roots = Roots((2, 2), (False, True))
    cut = balanced(roots, frozenset(), [(3, 0, 0)])
    assert (1, 0, 3) in cut, "the neighbour across the seam"
    level, place = leaves(roots, cut)
    assert level.max() == 4
    widths = 0.5 ** level[:, None]
    low, high = place * widths, (place + 1) * widths
    for j, k in itertools.combinations(range(len(level)), 2):
        overlap = np.minimum(high[j], high[k]) - np.maximum(low[j], low[k])
        if (overlap >= 0).all() and (overlap > 0).any():
            assert abs(level[j] - level[k]) <= 1
    assert list(parts(3)) == [1, 2, 3, 4] and middle(2, 3).tolist() == [-0.5, 0.5]


def test_edges_and_counts_describe_the_same_boxes():
    counted, edged = ts.Tiling(PLANE, (4, 2)), ts.Tiling(PLANE, (np.linspace(0, 2, 5), 2))
    np.testing.assert_allclose(edged.centres, counted.centres, atol=1e-15)
    np.testing.assert_allclose(edged.half_widths, counted.half_widths, rtol=1e-14)
    assert counted.equal and edged.equal and not ts.Tiling(PLANE, ([0, 0.1, 2], 2)).equal
    thirds = ts.Tiling(PLANE, (np.linspace(0, 2, 31), 2))
    assert len(set(thirds.along(0))) == 1, "rounding made no new widths"


def test_a_tiling_follows_from_its_description_and_moves():
    graded = ts.Tiling(PLANE, ([0, 0.25, 2], 2)).refined([0, 3])
    again = ts.Tiling.of_widths(PLANE, graded.described, sorted(graded.cut))
    assert again == graded and hash(again) == hash(graded)
    assert again != ts.Tiling(PLANE, ([0, 0.25, 2], 2))
    later = graded.moved(ts.Box(x=(4, 8), y=(-1, 1)))
    np.testing.assert_allclose(later.centres[:, 0], 4 + 2 * graded.centres[:, 0])


def test_slabs_are_halved_towards_an_end():
    line = ts.Tiling(ts.Box(x=(0, 1)), 2).towards(0, 1, 0.1)
    assert line.along(0) == [0.5, 0.25, 0.125, 0.0625, 0.0625]
    assert line.edges(0).tolist() == [0, 0.5, 0.75, 0.875, 0.9375, 1]


@pytest.mark.parametrize(
    ("subdomains", "message"),
    [
        (
            ([0, 1], 2),
            "edges of the subdomains along x must increase from 0 to 2, by more than 2e-12",
        ),
        (([0, 1.5, 1, 2], 2), "must increase from 0 to 2"),
        (([0.0], 2), "must increase from 0 to 2"),
        (([0, 1, 2],), r"one per axis \(x, y\), or there a list of all edges, e.g. \(\[0, 0.1, 1"),
        ([0, 1, 2], r"list of all edges, e.g. \(\[0, 0.1, 1\], 4\), got \[0, 1, 2\]"),
        (np.array([0.0, 1, 2]), "list of all edges"),
        (([0, 1, 1 + 1e-14, 2], 2), "by more than 2e-12 each"),
        (([0, 1, 2], 0), "whole numbers >= 1"),
    ],
)
def test_bad_edges_are_refused(subdomains, message):
    with pytest.raises(ValueError, match=message):
        ts.Tiling(PLANE, subdomains)


def test_edges_belong_side_by_side():
    problem = ts.Problem(PLANE, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet()])
    with pytest.raises(
        ValueError, match="edges, which belong to subdomains side by side: add coup"
    ):
        ts.solve(problem, subdomains=([0, 1, 2], 2), features=10)
    with pytest.raises(ValueError, match="slabs have no halves any more once boxes are cut"):
        ts.Tiling(PLANE, 2).refined([0]).split([{0}, ()])


def test_boxes_are_not_cut_without_end():
    tiling = ts.Tiling(PLANE, 2)
    for _ in range(DEEPEST + 3):
        tiling = tiling.refined(tiling.seen(np.array([[0.3, 0.3]]))[0])
    assert tiling.leaves.level.max() == DEEPEST
    box, _ = tiling.seen(np.array([[0.3, 0.3]]))
    assert np.all(np.abs(tiling.centres[box] - 0.3) <= tiling.half_widths[box])
    line = ts.Tiling(ts.Box(x=(0, 1)), 2).towards(0, 0, 0.0)
    assert line.along(0)[0] <= SMALLEST and line.split([{0}]).count == line.count


def test_the_boxes_of_a_tiling_have_no_common_width():
    with pytest.raises(AttributeError, match="half_widths, each its own"):
        _ = ts.Tiling(PLANE, 2).half_width
