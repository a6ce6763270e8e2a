"""Cells that a boundary cuts: what of them and of their faces is inside, and whose it is."""

import math
from functools import reduce
from operator import sub

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.cells.cut.cutting import (
    CUT,
    OUTSIDE,
    WHOLE,
    Inside,
    boundary_points,
    face_parts,
    inner_points,
    kinds,
    too_thin,
    volumes,
)

SQUARE = ts.Box(x=(-1, 1), y=(-1, 1))
CUBE = ts.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1))
TRIANGLE = [(-0.9, -0.8), (0.9, -0.5), (-0.2, 0.85)]
TRIANGLE_LENGTH = sum(math.dist(TRIANGLE[k - 1], TRIANGLE[k]) for k in range(3))
TRIANGLE_AREA = 0.5 * (1.8 * 1.65 - 0.3 * 0.7)

centres = st.floats(-0.3, 0.3)
radii = st.floats(0.2, 0.6)
counts = st.integers(3, 8)


def cells(domain, *pieces):
    """A grid of cells over the bounding box, in so many pieces per axis."""
    pieces = pieces if len(pieces) > 1 else pieces * domain.dimension
    ends = [np.linspace(a, b, n + 1) for (a, b), n in zip(domain.bounds, pieces, strict=True)]
    corners = (np.meshgrid(*(e[s] for e in ends), indexing="ij") for s in (np.s_[:-1], np.s_[1:]))
    return tuple(np.stack(c, axis=-1).reshape(-1, domain.dimension) for c in corners)


def upper_faces(low, high, axis):
    low = low.copy()
    low[:, axis] = high[:, axis]
    return low, high


def face(axis, at, *sides):
    """One face, between the given ends on its other axes."""
    low, high = (np.array([[s[k] for s in sides]], dtype=float) for k in (0, 1))
    return axis, np.insert(low, axis, at, axis=1), np.insert(high, axis, at, axis=1)


def measure(parts):
    return sum(float(part.weights.sum()) for part in parts)


def ends(part, along):
    """Of an interval with Gauss points."""
    length = part.weights.sum()
    middle = part.weights @ part.points[:, along] / length
    return middle - length / 2, middle + length / 2


def volume(domain, low, high, per_axis=8):
    kind = kinds(Inside(domain), low, high)
    cut = kind == CUT
    points = inner_points(Inside(domain), low[cut], high[cut], per_axis, 10)
    for (x, w), a, b in zip(points, low[cut], high[cut], strict=True):
        assert np.all((x >= a) & (x <= b)) and np.all(domain.signed_distance(x) < 0)
        assert np.all(w > 0)
    return np.prod(high - low, axis=1)[kind == WHOLE].sum() + sum(w.sum() for _, w in points)


@given(centres, centres, radii, counts)
def test_inner_weights_sum_to_the_area(x, y, radius, n):
    disc = ts.Ball(x=x, y=y, radius=radius)
    area = math.pi * radius**2
    low, high = cells(SQUARE, n)
    assert volume(disc, low, high) == pytest.approx(area, rel=0.01)
    assert volume(SQUARE - disc, low, high) == pytest.approx(4 - area, rel=0.01)


@pytest.mark.parametrize(
    ("domain", "size"),
    [
        (ts.Polygon(TRIANGLE), TRIANGLE_AREA),
        (ts.Implicit(lambda p: p[:, 0] ** 2 + 4 * p[:, 1] ** 2 - 1, {"x": (-1, 1), "y": (-1, 1)}),
         math.pi / 2),
        (ts.Ball(x=0, y=0, z=0, radius=1), 4 / 3 * math.pi),
        (CUBE & ts.HalfSpace(x=0, y=0, z=0, normal=(1, 2, 3)), 4.0),
        ((SQUARE - ts.Ball(x=0.1, y=0.2, radius=0.5)).over(t=(0, 3)), 12 - 0.75 * math.pi),
        (ts.Box(x=(0, 1)) - ts.Box(x=(0.31, 0.52)), 0.79),
    ],
    ids=["triangle", "ellipse", "ball", "half a cube", "in time", "line"],
)  # fmt: skip
def test_inner_weights_sum_to_the_volume(domain, size):
    assert volume(domain, *cells(domain, 5), per_axis=6) == pytest.approx(size, rel=0.01)


@given(centres, centres, radii, counts)
def test_kinds_agree_with_random_points(x, y, radius, n):
    domain = SQUARE - ts.Ball(x=x, y=y, radius=radius)
    low, high = cells(SQUARE, n)
    kind = kinds(Inside(domain), low, high)
    share = np.random.default_rng(0).random((200, 1, 2))
    member = (
        domain.signed_distance((low + share * (high - low)).reshape(-1, 2)).reshape(200, -1) < 0
    )
    assert np.all(member[:, kind == WHOLE]) and not np.any(member[:, kind == OUTSIDE])


def test_a_wall_on_a_face_and_a_seam_inside_do_not_cut():
    l_shape = SQUARE - ts.Box(x=(0, 1), y=(-1, 0)).named("corner")
    kind = kinds(Inside(l_shape), *cells(SQUARE, 6))
    np.testing.assert_array_equal(np.bincount(kind, minlength=3), [9, 0, 27])
    joined = ts.Box(x=(-1, 0), y=(-1, 1)) | ts.Box(x=(0, 1), y=(-1, 1))
    for n in (4, 5):
        assert np.all(kinds(Inside(joined), *cells(SQUARE, n)) == WHOLE)
        parts = face_parts(Inside(joined), 0, *upper_faces(*cells(SQUARE, n), 0), 3)
        assert [len(own) for own in parts] == [1] * (n * n - n) + [0] * n


@given(centres, centres, radii, counts)
def test_intervals_end_on_the_circle_and_are_the_same_from_both_sides(x, y, radius, n):
    domain = SQUARE - ts.Ball(x=x, y=y, radius=radius)
    low, high = cells(SQUARE, n)
    for axis in (0, 1):
        upper = upper_faces(low, high, axis)
        lower = (low, np.where(np.arange(2) == axis, low, high))
        mine, others = (face_parts(Inside(domain), axis, *f, 4) for f in (upper, lower))
        step = n if axis == 0 else 1
        for k, own in enumerate(mine):
            if upper[0][k, axis] == 1:
                assert own == [], "the wall is not inside"
                continue
            for part, other in zip(own, others[k + step], strict=True):
                np.testing.assert_array_equal(part.points, other.points)
                np.testing.assert_array_equal(part.weights, other.weights)
                for t in ends(part, 1 - axis):
                    end = np.insert([t], axis, low[k + step, axis])
                    corner = min(abs(t - upper[i][k, 1 - axis]) for i in (0, 1))
                    on_circle = abs(np.hypot(*(end - (x, y))) - radius)
                    assert min(corner, on_circle) < 1e-10
                assert np.all(domain.signed_distance(part.points) < 0)


def test_whole_faces_have_gauss_points_and_equal_ones_equal_points():
    nodes, weights = np.polynomial.legendre.leggauss(5)
    nodes, weights = (nodes + 1) / 2, weights / 2
    for domain, n in ((SQUARE - ts.Ball(x=0.9, y=0.9, radius=0.05), 4), (CUBE, 2)):
        d = domain.dimension
        low, high = upper_faces(*cells(domain, n), 0)
        parts = face_parts(Inside(domain), 0, low, high, 5)[:n]
        grid = np.stack(np.meshgrid(*[nodes] * (d - 1), indexing="ij"), axis=-1).reshape(-1, d - 1)
        for own, a, b in zip(parts, low, high, strict=False):
            np.testing.assert_array_equal(own[0].points[:, 1:], a[1:] + (b - a)[1:] * grid)
            assert np.all(own[0].points[:, 0] == a[0])
            tensor = weights if d == 2 else np.outer(weights, weights).ravel()
            np.testing.assert_allclose(own[0].weights, np.prod((b - a)[1:]) * tensor, rtol=1e-14)
            np.testing.assert_array_equal(own[0].weights, parts[0][0].weights)


@given(st.floats(0.1, 0.9), st.floats(-5, -1))
def test_a_small_hole_leaves_two_intervals(at, size):
    radius = 10**size * min(at, 1 - at)
    domain = SQUARE - ts.Ball(x=0.0, y=at, radius=radius)
    first, second = face_parts(Inside(domain), *face(0, 0.0, (0, 1)), 6)[0]
    np.testing.assert_allclose(ends(first, 1), (0, at - radius), atol=1e-12)
    np.testing.assert_allclose(ends(second, 1), (at + radius, 1), atol=1e-12)


@given(st.floats(-10, -2), st.floats(0.01, 0.99), st.floats(0.1, 3))
def test_slivers_are_found(size, at, radius):
    """A disc that a face touches within 1e-10 to 1e-2, from inside and from outside."""
    depth = 10**size
    disc = ts.Ball(x=-radius, y=at, radius=radius)
    half = math.sqrt(2 * radius * depth - depth**2)
    chord = min(at + half, 1) - max(at - half, 0)
    box = ts.Box(x=(-9, 9), y=(-9, 9))
    where = face(0, -depth, (0, 1))
    assert measure(face_parts(Inside(disc), *where, 4)[0]) == pytest.approx(chord, rel=2e-3)
    assert measure(face_parts(Inside(box - disc), *where, 4)[0]) == pytest.approx(1 - chord)
    clear = face(0, depth, (0, 1))
    assert face_parts(Inside(disc), *clear, 4) == [[]]
    assert len(face_parts(Inside(box - disc), *clear, 4)[0]) == 1


def test_a_cell_with_a_sliver_is_cut_and_gets_points():
    depth = 1e-6
    disc = ts.Ball(x=depth - 1, y=0.3, radius=1)
    low, high = np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])
    assert kinds(Inside(disc), low, high) == kinds(Inside(SQUARE - disc), low, high) == CUT
    ((points, weights),) = inner_points(Inside(disc), low, high, 6, 10)
    assert len(points) >= 10 and np.all(disc.signed_distance(points) < 0)
    assert weights.sum() == pytest.approx(4 / 3 * math.sqrt(2) * depth**1.5, rel=0.05)
    away = ts.Ball(x=-1 - depth, y=0.3, radius=1)
    assert kinds(Inside(away), low, high) == OUTSIDE
    assert [a.size for a in inner_points(Inside(away), low, high, 6, 10)[0]] == [0, 0]


@given(st.floats(-0.85, 0.85))
def test_sections_of_a_polygon_with_corners(x):
    """Vertical lines through a triangle, by its edges."""
    (a, b, c), n = TRIANGLE, 7
    lower = a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0])
    left = x < c[0]
    p = a if left else b
    upper = p[1] + (c[1] - p[1]) * (x - p[0]) / (c[0] - p[0])
    t = np.linspace(-1, 1, n + 1)
    low, high = np.column_stack([np.full(n, x), t[:-1]]), np.column_stack([np.full(n, x), t[1:]])
    parts = face_parts(Inside(ts.Polygon(TRIANGLE)), 0, low, high, 3)
    assert sum(map(measure, parts)) == pytest.approx(upper - lower, abs=1e-12)


def test_parts_of_a_face_in_space():
    box = ts.Box(x=(-2, 2), y=(-2, 2), z=(-2, 2))
    ball = ts.Ball(x=0.1, y=0.05, z=0.0, radius=0.8)
    other = ts.Ball(x=1.5, y=1.4, z=0.1, radius=0.3)
    where = face(2, 0.1, (-2, 2), (-2, 2))
    big, small = face_parts(Inside(ball | other), *where, 10)[0]
    area = math.pi * (0.8**2 - 0.1**2)
    assert big.weights.sum() == pytest.approx(area, rel=1e-5)
    assert small.weights.sum() == pytest.approx(math.pi * 0.3**2, rel=1e-5)
    assert len(big.points) >= 100
    moment = big.weights @ np.prod((big.points[:, :2] - (0.1, 0.05)) ** 2, axis=1)
    assert moment == pytest.approx((area / math.pi) ** 3 * math.pi / 24, rel=1e-4)
    (ring,) = face_parts(Inside(box - ball), *where, 8)[0]
    assert ring.weights.sum() == pytest.approx(16 - area, rel=1e-5)
    assert np.all((box - ball).signed_distance(ring.points) < 0)


@settings(max_examples=8)
@given(centres, centres, centres, radii, st.floats(-0.9, 0.9))
def test_sections_of_a_ball_by_all_faces_of_a_plane(x, y, z, radius, share):
    ball = ts.Ball(x=x, y=y, z=z, radius=radius)
    for axis, centre in enumerate((x, y, z)):
        low, high = cells(CUBE, 3)
        low[:, axis] = high[:, axis] = centre + share * radius
        low, high = np.unique(low, axis=0), np.unique(high, axis=0)
        area = math.pi * radius**2 * (1 - share**2)
        for domain, expected in ((ball, area), (CUBE - ball, 4 - area)):
            parts = face_parts(Inside(domain), axis, low, high, 6)
            assert sum(map(measure, parts)) == pytest.approx(expected, rel=1e-3)


def test_faces_in_time_are_those_of_the_shape_times_time():
    base = SQUARE - ts.Ball(x=0.1, y=0.2, radius=0.5)
    inside = Inside(base.over(t=(0, 3)))
    low, high = cells(SQUARE.over(t=(0, 3)), 4, 4, 3)
    for axis in (0, 1):
        faces = upper_faces(low, high, axis)
        flat = face_parts(Inside(base), axis, *(f[:, :2] for f in faces), 4)
        for own, section in zip(face_parts(inside, axis, *faces, 4), flat, strict=True):
            assert len(own) == len(section)
            for part, interval in zip(own, section, strict=True):
                assert part.weights.sum() == pytest.approx(interval.weights.sum(), rel=1e-12)
                np.testing.assert_array_equal(np.unique(part.points[:, 2]).size, 4)
    parts = face_parts(inside, 2, *upper_faces(low, high, 2), 6)
    total = 2 * (4 - 0.25 * math.pi)
    assert sum(map(measure, parts)) == pytest.approx(total, rel=1e-3), "the end is a wall"


@given(centres, centres, radii, counts)
def test_regions_complement_each_other_on_every_face(x, y, radius, n):
    """Also where they overlap, and the deeper one counts."""
    core, plane = ts.Ball(x=x, y=y, radius=radius), ts.HalfSpace(x=x, y=y, normal=(1, 2))
    divided = ts.Divided(SQUARE, core=core, cap=plane)
    low, high = cells(SQUARE, n)
    for axis in (0, 1):
        faces = upper_faces(low, high, axis)
        by_region = [face_parts(Inside(divided, r), axis, *faces, 3) for r in divided.regions]
        total = np.array([[measure(own) for own in parts] for parts in by_region]).sum(axis=0)
        size = np.where(faces[0][:, axis] == 1, 0.0, 2 / n)
        np.testing.assert_allclose(total, size, atol=2e-6)
        for region, parts in zip(divided.regions, by_region, strict=True):
            points = np.concatenate([p.points for own in parts for p in own] or [np.zeros((0, 2))])
            assert np.all(divided.inside(region, points))


def test_an_interface_on_a_face_belongs_to_neither_region():
    halves = ts.Divided(
        SQUARE, left=ts.Box(x=(-1, 0), y=(-1, 1)), right=ts.Box(x=(0, 1), y=(-1, 1))
    )
    low, high = cells(SQUARE, 4)
    for region, own in (("left", slice(0, 8)), ("right", slice(8, 16))):
        inside = Inside(halves, region)
        kind = kinds(inside, low, high)
        assert np.all(kind[own] == WHOLE) and np.count_nonzero(kind) == 8
        assert face_parts(inside, *face(0, 0.0, (-1, 1)), 3) == [[]]
    with pytest.raises(ValueError, match="unknown region 'middle': this domain has left, right"):
        Inside(halves, "middle")


def test_cells_and_faces_on_a_line():
    line = ts.Box(x=(0, 1)) - ts.Box(x=(0.31, 0.52)).named("gap")
    low, high = cells(ts.Box(x=(0, 1)), 5)
    np.testing.assert_array_equal(kinds(Inside(line), low, high), [WHOLE, CUT, CUT, WHOLE, WHOLE])
    parts = face_parts(Inside(line), 0, low, low, 3)
    assert [len(own) for own in parts] == [0, 1, 0, 1, 1]
    np.testing.assert_array_equal(parts[1][0].points, low[1:2])
    assert parts[1][0].weights == 1
    cell, points, normals, weights = boundary_points(line, "gap", np.array([0.1]), low, high)
    np.testing.assert_array_equal(cell, [1, 2])
    np.testing.assert_allclose(points.ravel(), [0.31, 0.52])
    np.testing.assert_array_equal(normals.ravel(), [1, -1])
    np.testing.assert_array_equal(weights, 1)


ELLIPSE = ts.Implicit(lambda p: p[:, 0] ** 2 + 4 * p[:, 1] ** 2 - 1, {"x": (-1, 1), "y": (-1, 1)})
IN_TIME = (SQUARE - ts.Ball(x=0.1, y=0.2, radius=0.5, name="hole")).over(t=(0, 3))


@pytest.mark.parametrize(
    ("domain", "part", "size", "pieces"),
    [
        (SQUARE - ts.Ball(x=0.1, y=0.2, radius=0.5), "ball", math.pi, (7, 7)),
        (SQUARE - ts.Ball(x=1, y=0, radius=0.5), "ball", math.pi / 2, (7, 4)),
        (SQUARE - ts.Ball(x=1, y=0, radius=0.5), "xmax", 1.0, (4, 9)),
        (ts.Polygon(TRIANGLE), "polygon", TRIANGLE_LENGTH, (6, 6)),
        (ELLIPSE, "surface", 4.8442, (6, 6)),
        (ts.Ball(x=0, y=0, z=0, radius=1), "ball", 4 * math.pi, (3, 3, 3)),
        (CUBE - ts.Ball(x=1, y=0, z=0, radius=0.5), "xmax", 4 - math.pi / 4, (3, 3, 3)),
        (IN_TIME, "hole", 3 * math.pi, (4, 4, 2)),
        (IN_TIME, "tmin", 4 - math.pi / 4, (4, 4, 2)),
        (ts.Divided(SQUARE, core=ts.Ball(x=0, y=0, radius=0.5)), "core/rest", math.pi, (5, 5)),
    ],
)  # fmt: skip
def test_a_boundary_is_shared_out_to_the_cells_that_hold_it(domain, part, size, pieces):
    low, high = cells(domain, *pieces)
    spacing = (high - low)[0] / 6
    cell, points, normals, weights = boundary_points(domain, part, spacing, low, high)
    assert weights.sum() == pytest.approx(size, rel=0.05)
    near = 1e-3
    assert np.all((points >= low[cell] - near) & (points <= high[cell] + near))
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    assert len(np.unique(points, axis=0)) == len(points), "no point belongs to two cells"


@given(centres, centres, radii, counts)
def test_cells_with_a_short_arc_get_points_too(x, y, radius, n):
    disc = ts.Ball(x=x, y=y, radius=radius)
    low, high = cells(SQUARE, n)
    spacing = np.full(2, 2 / n / 8)
    cell, _, _, weights = boundary_points(disc, "ball", spacing, low, high)
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    around = np.array([x, y]) + radius * np.column_stack([np.cos(angle), np.sin(angle)])
    owner = np.ravel_multi_index(((around + 1) / 2 * n).astype(int).T, (n, n))
    arc = np.bincount(owner, minlength=n * n) * 2 * np.pi * radius / len(angle)
    count = np.bincount(cell, minlength=n * n)
    assert np.all(count[arc > spacing[0] / 2] >= 4)
    assert weights.sum() == pytest.approx(2 * np.pi * radius, rel=0.1)


def test_a_touching_circle_belongs_to_the_cells_it_goes_on_in():
    low, high = cells(SQUARE, 4)
    domain = SQUARE - ts.Ball(x=0, y=0, radius=0.5)
    cell, *_ = boundary_points(domain, "ball", np.full(2, 0.05), low, high)
    np.testing.assert_array_equal(np.unique(cell), [5, 6, 9, 10])
    assert np.all(kinds(Inside(domain), low, high)[cell] == CUT)


def test_a_region_has_its_own_piece_of_a_wall_and_of_the_interface():
    divided = ts.Divided(SQUARE, left=ts.HalfSpace(x=0.1, y=0.0, normal=(1, 0)))
    low, high = cells(SQUARE, 4)
    for region, length in (("left", 1.1), ("rest", 0.9)):
        _, points, _, weights = boundary_points(
            divided, "ymin", np.full(2, 0.05), low, high, region=region
        )
        assert weights.sum() == pytest.approx(length, rel=0.05)
        assert np.all(divided.inside(region, points))
        _, _, normals, weights = boundary_points(
            divided, "left/rest", np.full(2, 0.05), low, high, region=region
        )
        assert weights.sum() == pytest.approx(2, rel=0.05)
        np.testing.assert_allclose(normals, [[1, 0]] * len(normals))


def test_what_is_too_small_for_the_cells_is_pointed_out():
    low, high = cells(SQUARE, 4)
    plain = SQUARE - ts.Ball(x=0.1, y=0.1, radius=0.4)
    assert too_thin(Inside(plain), low, high, kinds(Inside(plain), low, high)) is None
    speck = plain - ts.Ball(x=-0.71, y=0.64, radius=1e-3)
    place = too_thin(Inside(speck), low, high, kinds(Inside(speck), low, high))
    np.testing.assert_allclose(place, [-0.71, 0.64], atol=2e-3)


def test_a_thin_wall_through_cells_cuts_them():
    """Far thinner than the scan of a cell, but every edge of a cell is searched."""
    thin = ts.Box(x=(-1, 1), y=(0.1234, 0.1235))
    low, high = cells(SQUARE, 4)
    assert np.all(kinds(Inside(thin), low, high).reshape(4, 4)[:, 2] == CUT)
    kind = kinds(Inside(SQUARE - thin), low, high)
    np.testing.assert_array_equal(kind.reshape(4, 4)[:, 2], CUT)
    parts = face_parts(Inside(thin), *face(0, 0.3, (0, 0.5)), 3)[0]
    assert measure(parts) == pytest.approx(1e-4)


def test_a_strip_across_cells_has_about_its_volume():
    strip = SQUARE & ts.HalfSpace(x=0, y=0, normal=(1, 2))
    strip = strip - ts.HalfSpace(x=-0.02, y=-0.04, normal=(1, 2))
    width, length = math.hypot(0.02, 0.04), math.hypot(2, 1)
    assert volume(strip, *cells(SQUARE, 3), 10) == pytest.approx(width * length, rel=0.1)


@pytest.mark.parametrize("domain", [ts.Box(x=(0, 1)), SQUARE, CUBE], ids=["1", "2", "3"])
def test_no_cells_and_no_faces_have_nothing(domain):
    none = np.zeros((0, domain.dimension))
    inside = Inside(domain)
    assert len(kinds(inside, none, none)) == 0
    assert inner_points(inside, none, none, 4, 4) == face_parts(inside, 0, none, none, 4) == []
    found = boundary_points(domain, "xmin", np.ones(domain.dimension), none, none)
    assert [len(a) for a in found] == [0] * 4


def test_points_of_a_cloud_are_enough():
    angle = 2 * np.pi * np.arange(128) / 128
    normals = np.column_stack([np.cos(angle), np.sin(angle)])
    grid = SQUARE.grid((21, 21))
    cloud = ts.PointCloud(grid[np.hypot(*grid.T) < 0.97], normals, normals)
    low, high = cells(SQUARE, 5)
    assert volume(cloud, low, high) == pytest.approx(math.pi, rel=0.01)
    _, points, _, weights = boundary_points(cloud, "boundary", np.full(2, 0.05), low, high)
    assert len(points) == 128 and weights.sum() == pytest.approx(2 * math.pi, rel=0.05)


def test_many_holes_at_once():
    places = [(0.5 * i, 0.5 * j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    holes = [ts.Ball(x=x, y=y, radius=0.2, name="hole") for x, y in places]
    domain = reduce(sub, holes, SQUARE)
    low, high = cells(SQUARE, 12)
    assert volume(domain, low, high) == pytest.approx(4 - 9 * math.pi * 0.04, rel=1e-3)
    *_, weights = boundary_points(domain, "hole", np.full(2, 0.02), low, high)
    assert weights.sum() == pytest.approx(9 * 0.4 * math.pi, rel=0.02)


def test_a_torus_by_its_function():
    ring = lambda p: (jnp.sqrt(p[:, 0] ** 2 + p[:, 1] ** 2) - 0.7) ** 2 + p[:, 2] ** 2 - 0.0625  # noqa: E731
    torus = ts.Implicit(ring, {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)})
    parts = face_parts(Inside(torus), *face(1, 0.0, (-1, 1), (-1, 1)), 6)[0]
    assert len(parts) == 2
    np.testing.assert_allclose([p.weights.sum() for p in parts], math.pi / 16, rtol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [
        ts.Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)]),
        SQUARE - ts.Box(x=(0, 2), y=(-2, 0)),
        ts.Box(x=(-1, 0), y=(-1, 1)) | ts.Box(x=(0, 1), y=(0, 1)),
        SQUARE - ts.Polygon([(0, 0), (1, 2), (-1, 2)]),
    ],
)
def test_an_inner_corner_is_not_inside(shape):
    """Both sides of a slanted line through it may be; the seam of a union is."""
    inside = Inside(shape)
    assert not inside.member(np.zeros((1, 2))).any()
    assert inside.member(np.array([[-0.5, 0.5 * (shape.bounds[1][0] + 1)]])).all()


def test_a_seam_is_inside():
    halves = ts.Box(x=(-1, 0), y=(-1, 1)) | ts.Box(x=(0, 1), y=(-1, 1))
    assert Inside(halves).member(np.array([[0.0, 0.0], [0.0, 0.5]])).all()


def test_four_axes_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"has 4 \(x, y, z, t\): use coupling='overlap'"):
        Inside(ts.Ball(x=0, y=0, z=0, radius=1).over(t=(0, 1)))


def test_no_boxes_have_no_volume():
    """A tiling may fit a shape so well that it cuts no box."""
    nothing = np.zeros((0, 2))
    corner = ts.Box(x=(0, 2), y=(0, 2)) - ts.Box(x=(1, 2), y=(1, 2)).named("step")
    assert volumes(Inside(corner), nothing, nothing).shape == (0,)
