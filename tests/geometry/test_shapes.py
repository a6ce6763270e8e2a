"""Shapes as sets: signed distances, boundaries with outward normals, named parts, set algebra."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.geometry.implicit import _apart

SQUARE = ts.Box(x=(-1, 1), y=(-1, 1))
CUBE = ts.Box(x=(0, 1), y=(0, 1), z=(0, 1))
DISC = ts.Ball(x=0.2, y=-0.1, radius=0.5, name="hole")
TRIANGLE = ts.Polygon([(-0.8, -0.9), (0.9, -0.6), (0.1, 0.8)])
CUT = ts.HalfSpace(x=0.1, y=0.0, normal=(1, 2), name="cut")
STAR = [
    ((0.9 if k % 2 else 0.35) * math.cos(0.3 + k * math.pi / 5),
     (0.9 if k % 2 else 0.35) * math.sin(0.3 + k * math.pi / 5))
    for k in range(10)
]  # fmt: skip


def ellipse(p):
    return (p[:, 0] / 0.8) ** 2 + (p[:, 1] / 0.5) ** 2 - 1


def torus(p):
    ring = jnp.sqrt(p[:, 0] ** 2 + p[:, 1] ** 2) - 0.7
    return jnp.sqrt(ring**2 + p[:, 2] ** 2) - 0.25


def circle_cloud(n=64, radius=1.0):
    angle = 2 * np.pi * np.arange(n) / n
    normals = np.column_stack([np.cos(angle), np.sin(angle)])
    grid = ts.Box(x=(-1, 1), y=(-1, 1)).grid((21, 21))
    return ts.PointCloud(grid[np.hypot(*grid.T) < 0.97], radius * normals, normals)


SHAPES = {
    "square with a hole": SQUARE - DISC,
    "two discs": DISC | ts.Ball(x=-0.3, y=0.2, radius=0.4, name="other"),
    "lens": DISC & ts.Ball(x=-0.1, y=0.2, radius=0.4),
    "half a square": SQUARE & CUT,
    "the other half": SQUARE - CUT,
    "triangle": TRIANGLE,
    "star": ts.Polygon(STAR, name="star"),
    "star with a hole": ts.Polygon(STAR, [[(-0.1, -0.1), (0.1, -0.1), (0.0, 0.1)]]),
    "star without a square": ts.Polygon(STAR) - ts.Box(x=(0, 0.3), y=(0, 0.4)).named("notch"),
    "ellipse": ts.Implicit(ellipse, bounds={"x": (-1, 1), "y": (-1, 1)}),
    "square without an ellipse": SQUARE - ts.Implicit(ellipse, {"x": (-1, 1), "y": (-1, 1)}),
    "L": SQUARE - ts.Box(x=(0, 1), y=(-1, 0)).named("corner"),
    "ball": ts.Ball(x=0, y=0, z=0, radius=1),
    "cube without a ball": CUBE - ts.Ball(x=1, y=1, z=1, radius=0.6),
    "cut cube": CUBE & ts.HalfSpace(x=0.5, y=0.5, z=0.5, normal=(1, 1, 1)),
    "torus": ts.Implicit(torus, {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}),
    "disc in time": (SQUARE - DISC).over(t=(0, 2)),
    "prism": TRIANGLE.over(z=(0, 1)),
}  # fmt: skip


def whole_boundary(shape, n):
    counts = (n,) * shape.dimension
    parts = [shape.boundary(part, counts) for part in shape.parts]
    return np.concatenate([p for p, _ in parts]), np.concatenate([v for _, v in parts])


@pytest.mark.parametrize("name", SHAPES)
def test_normals_are_outward_units_on_the_boundary(name, rng):
    shape = SHAPES[name]
    drawn = [shape.scatter_on(part, 50, rng, shape) for part in shape.parts]
    random = tuple(np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
    for points, normals in (whole_boundary(shape, 17), random):
        assert len(points) > 20
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(shape.signed_distance(points), 0.0, atol=1e-9)
        step = 1e-5 * normals
        np.testing.assert_allclose(shape.signed_distance(points + step), 1e-5, rtol=1e-2)
        # A condition holds from end to end, so that some points lie on the edge of an extrusion.
        assert np.all(
            shape.signed_distance(points - step) < (1e-9 if ".over" in repr(shape) else 0)
        )
        assert np.all(shape.contains(points))


@pytest.mark.parametrize("name", ["square with a hole", "star", "ellipse", "torus", "L"])
def test_normals_are_orthogonal_to_the_boundary(name):
    """Along a tangent the distance grows with the square of the step, or not at all."""
    shape = SHAPES[name]
    points, normals = whole_boundary(shape, 9)
    tangents = np.linalg.svd(normals[:, None, :])[2][:, 1:]
    for k in range(shape.dimension - 1):
        moved = shape.signed_distance(points + 1e-4 * tangents[:, k])
        np.testing.assert_allclose(moved, 0.0, atol=1e-6)


AREAS = {
    "square with a hole": 4 - math.pi * 0.25,
    "half a square": 2 + 0.1 / 2 * 2,
    "triangle": 0.5 * abs(1.7 * 1.7 - 0.9 * 0.3),
    "ellipse": math.pi * 0.4,
    "ball": 4 / 3 * math.pi,
    "cut cube": 0.5,
    "torus": 2 * math.pi**2 * 0.7 * 0.0625,
    "L": 3.0,
}


@pytest.mark.parametrize("name", AREAS)
def test_areas_by_counting_converge(name):
    shape = SHAPES[name]
    sides = shape.upper - shape.lower
    errors = []
    for n in (40, 80) if shape.dimension == 3 else (100, 400):
        cell = np.prod(sides / n)
        low, half = shape.lower, sides / (2 * n)
        points = low + half + (shape.grid((n,) * shape.dimension) - low) * (n - 1) / n
        errors.append(abs(np.count_nonzero(shape.signed_distance(points) < 0) * cell - AREAS[name]))
    assert errors[-1] < 0.01 * AREAS[name]


@pytest.mark.parametrize(
    ("name", "part", "measure"),
    [
        ("square with a hole", "hole", math.pi),
        ("square with a hole", "xmin", 2.0),
        ("half a square", "cut", math.sqrt(5.0)),
        ("two discs", "other", None),
        ("L", "corner", 2.0),
        ("L", "xmax", 1.0),
        ("ball", "ball", 4 * math.pi),
        ("ellipse", "surface", 4.14),
        ("torus", "surface", 4 * math.pi**2 * 0.7 * 0.25),
    ],
)
def test_boundary_points_are_as_dense_as_the_grid(name, part, measure):
    """Their number times the spacing (squared in space) is the length (area) of the part."""
    shape = SHAPES[name]
    numbers = []
    for n in (41, 81) if shape.dimension == 3 else (101, 201):
        h = float(np.min((shape.upper - shape.lower) / (n - 1)))
        points, _ = shape.boundary(part, (n,) * shape.dimension)
        numbers.append(len(points) * h ** (shape.dimension - 1))
    if measure is None:
        other = ts.Ball(x=-0.3, y=0.2, radius=0.4)
        outside = DISC.signed_distance(other.surface("ball", np.full(2, 1e-3), other)[0]) > 0
        measure = 2 * math.pi * 0.4 * outside.mean()
    slack = 0.4 if "Implicit" in repr(shape) else 0.03
    assert numbers[-1] == pytest.approx(measure, rel=slack)
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05)


def test_no_two_points_of_a_thinned_set_are_close(rng):
    points = rng.random((500, 2))
    chosen = points[_apart(points, 0.1)]
    gaps = np.linalg.norm(chosen[:, None] - chosen, axis=2)
    assert gaps[~np.eye(len(chosen), dtype=bool)].min() >= 0.1
    assert np.linalg.norm(points[:, None] - chosen, axis=2).min(axis=1).max() <= 0.1


@given(st.tuples(*[st.floats(-10, 10).map(lambda v: round(v, 4))] * 3).filter(any))
def test_a_half_space_made_from_its_own_normal_is_equal(normal):
    first = ts.HalfSpace(x=0, y=0, z=0, normal=normal)
    assert ts.HalfSpace(x=0, y=0, z=0, normal=first.normal) == first


number = st.floats(-0.6, 0.6).map(lambda v: round(v, 3))
leaf = st.one_of(
    st.builds(lambda x, y, r: ts.Ball(x=x, y=y, radius=0.1 + abs(r)), number, number, number),
    st.builds(
        lambda x, y, w, h: ts.Box(x=(x, x + 0.1 + abs(w)), y=(y, y + 0.1 + abs(h))),
        number, number, number, number,
    ),
    st.builds(
        lambda x, y, a: ts.HalfSpace(x=x, y=y, normal=(math.cos(a), math.sin(a))),
        number, number, st.floats(0, 6).map(lambda v: round(v, 2)),
    ),
)  # fmt: skip
PLANE = ts.Box(x=(-2, 2), y=(-2, 2))
PROBE = np.random.default_rng(3).uniform(-1.5, 1.5, (400, 2))


def inside(shape):
    return shape.signed_distance(PROBE) < 0


@settings(max_examples=60, deadline=None)
@given(leaf, leaf, leaf)
def test_the_laws_of_sets_hold(a, b, c):
    everywhere = PLANE
    a, b, c = everywhere & a, everywhere & b, everywhere & c
    np.testing.assert_array_equal(inside(a | b), inside(a) | inside(b))
    np.testing.assert_array_equal(inside(a | (b | c)), inside((a | b) | c))
    np.testing.assert_array_equal(inside(everywhere - (a | b)), inside((everywhere - a) - b))
    on_edge = np.abs(b.signed_distance(PROBE)) < 1e-12
    np.testing.assert_array_equal(inside(a - b)[~on_edge], (inside(a) & ~inside(b))[~on_edge])
    np.testing.assert_array_equal(inside(everywhere - (everywhere - a)), inside(a))


@settings(max_examples=40, deadline=None)
@given(leaf, leaf)
@example(ts.Ball(x=-0.519, y=0, radius=0.34), ts.Box(x=(-0.3, -0.2), y=(0.25, 0.35)))
def test_every_boundary_point_of_a_combination_separates_inside_from_outside(a, b):
    a, b = PLANE & a, PLANE & b
    for shape in (a | b, PLANE - a - b):
        points, normals = whole_boundary(shape, 33)
        gaps = np.abs([a.signed_distance(points), b.signed_distance(points)])
        clear = ((gaps < 1e-12) | (gaps > 2e-5)).all(axis=0)  # no corner within a step
        points, normals = points[clear], normals[clear]
        assert np.all(shape.signed_distance(points - 1e-5 * normals) < 0)
        assert np.all(shape.signed_distance(points + 1e-5 * normals) > 0)


def test_a_boundary_that_two_shapes_share_is_counted_once():
    left, right = ts.Box(x=(0, 1), y=(0, 1)), ts.Box(x=(1, 2), y=(0, 1))
    counts = (41, 21)
    for shape, length in ((left | right, 6.0), (left & ts.Box(x=(0, 3), y=(0, 3)), 4.0)):
        points, _ = whole_boundary(shape, 41)
        h = (shape.upper - shape.lower) / 40
        horizontal = np.isin(points[:, 1], [0.0, 1.0])
        measured = horizontal.sum() * h[0] + (~horizontal).sum() * h[1]
        assert measured == pytest.approx(length, rel=0.05)
        assert len(np.unique(points.round(9), axis=0)) == len(points)
    assert not np.any(np.isclose((left | right).boundary("xmax", counts)[0][:, 0], 1.0))
    np.testing.assert_array_equal((left - right).boundary("xmax", counts)[0][:, 0], 1.0)


def test_parts_keep_their_names():
    domain = SQUARE - DISC - ts.Ball(x=-0.7, y=-0.7, radius=0.1, name="hole")
    assert domain.parts == ("xmin", "xmax", "ymin", "ymax", "hole")
    points, normals = domain.boundary("hole", (50, 50))
    both = [np.hypot(*(points - c).T) for c in ((0.2, -0.1), (-0.7, -0.7))]
    assert np.all(np.isclose(both[0], 0.5) | np.isclose(both[1], 0.1))
    nearest = np.where(np.isclose(both[0], 0.5)[:, None], [[0.2, -0.1]], [[-0.7, -0.7]])
    assert np.all(np.sum(normals * (points - nearest), axis=1) < 0)
    assert SHAPES["star with a hole"].parts == ("polygon", "polygon_hole1")


def test_shapes_in_time_have_walls_and_two_ends():
    domain = SHAPES["disc in time"]
    assert domain.axes == ("x", "y", "t")
    assert domain.walls == ("xmin", "xmax", "ymin", "ymax", "hole")
    assert domain.parts == (*domain.walls, "tmin", "tmax")
    points, normals = domain.boundary("tmin", (21, 21, 5))
    assert np.all(points[:, 2] == 0)
    np.testing.assert_array_equal(normals, np.tile([0, 0, -1.0], (len(points), 1)))
    assert set(domain.closure((21, 21, 5))[:, 2]) == {0, 0.5, 1, 1.5, 2}
    assert SHAPES["prism"].walls == ("polygon", "zmin", "zmax")
    assert SQUARE.over(t=(0, 1)) == ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 1))


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 2])
def test_a_rotated_polygon_measures_as_the_box_it_was(angle, rng):
    box = ts.Box(x=(-0.7, 0.9), y=(-0.2, 0.5))
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    corners = np.array([(-0.7, -0.2), (0.9, -0.2), (0.9, 0.5), (-0.7, 0.5)])
    polygon = ts.Polygon((corners @ turn.T)[::-1])
    x = rng.uniform(-1, 1, (200, 2))
    np.testing.assert_allclose(
        polygon.signed_distance(x @ turn.T), box.signed_distance(x), atol=1e-12
    )


class Ring:
    def __init__(self, coords):
        self.coords = coords


class FromShapely:
    """What shapely's polygons look like from outside."""

    def __init__(self, outer, *holes):
        self.exterior, self.interiors = Ring(outer), [Ring(hole) for hole in holes]


def test_polygons_of_shapely_bring_their_holes():
    outer = [(0, 0), (4, 0), (4, 3), (0, 3), (0, 0)]
    hole = [(1, 1), (1, 2), (2, 2), (2, 1), (1, 1)]
    polygon = ts.Polygon(FromShapely(outer, hole), name="plate")
    assert polygon.parts == ("plate", "plate_hole1")
    assert polygon == ts.Polygon(outer[:-1], [hole[:-1]], name="plate")
    np.testing.assert_array_equal(
        polygon.contains(np.array([(0.5, 0.5), (1.5, 1.5), (5, 1)])), [True, False, False]
    )
    points, normals = polygon.boundary("plate_hole1", (41, 31))
    assert np.all(np.sum(normals * (points - 1.5), axis=1) < 0)

    class Several:
        geoms = (polygon, polygon)

    with pytest.raises(ValueError, match=r"takes one polygon, got a Several of 2.*a\) \| Polygon"):
        ts.Polygon(Several())


def test_a_cloud_is_its_points():
    cloud = circle_cloud()
    assert cloud.parts == ("boundary",)
    assert len(cloud.closure((3, 3))) == len(cloud.given) + 64
    np.testing.assert_array_equal(
        cloud.contains(np.array([(0.0, 0.0), (0.7, 0.7), (0.9, 0.9)])), [True, True, False]
    )
    assert cloud == circle_cloud()
    assert cloud != circle_cloud(65)
    assert np.all(np.hypot(*cloud.scatter(50, np.random.default_rng(0)).T) < 1)
    parts = {"left": [(-1.0, 0.0)], "right": [(1.0, 0.1)]}
    assert ts.PointCloud([(0.0, 0.0)], parts, parts).parts == ("left", "right")


def test_random_points_lie_inside(rng):
    for shape in SHAPES.values():
        points = shape.scatter(100, rng)
        assert len(points) == 100
        assert np.all(shape.signed_distance(points) < 0)


CROSSED = [(0, 0), (1, 1), (1, 0), (0, 1)]
REFUSED = [
    (lambda: ts.Ball(x=0, y=0, radius=-1), r"Ball radius must be a positive number, got -1"),
    (lambda: ts.Ball(x=0, radius=1), r"Ball needs 2 or 3 coordinates by name.*got x"),
    (lambda: ts.Ball(x=0, y=math.nan, radius=1), r"Ball y must be a finite number, got nan"),
    (lambda: ts.Ball(x=0, y=0, radius=1, name=""), r"Ball name must be a word"),
    (lambda: ts.HalfSpace(x=0, y=0, normal=(0, 0)), r"normal must be 2 numbers .* not all zero"),
    (lambda: ts.Polygon(CROSSED), r"crosses or touches itself at \(0.5, 0.5\)"),
    (lambda: ts.Polygon([(0, 0), (1, 1), (2, 2)]), r"is degenerate, its area is zero"),
    (lambda: ts.Polygon([(0, 0), (1, 1), (0, 0)]), r"Polygon is degenerate: it has 2 distinct"),
    (lambda: ts.Polygon([(0, 0, 0)]), r"vertices must be finite pairs"),
    (lambda: ts.Polygon([(0, 0), (4, 0), (2, 0), (2, 2)]), r"touches itself at \("),
    (
        lambda: ts.Polygon([(0, 0), (1, 0), (0, 1)], [[(5, 5), (6, 5), (5, 6)]]),
        r"hole 1 lies outside the polygon, e.g. its vertex \(",
    ),
    (
        lambda: ts.Polygon([(0, 0), (1, 0), (0, 1)], [[(0.1, 0.1), (2, 0.2), (0.1, 0.2)]]),
        r"crosses or touches itself at",
    ),
    (lambda: SQUARE & ts.Ball(x=5, y=5, radius=1), r"is empty: the two do not meet"),
    (lambda: SQUARE - ts.Ball(x=0, y=0, z=0, radius=1), r"axes .* differ; combine shapes in space"),
    (lambda: SQUARE - 1.0, r"a domain - 1.0: expected another domain"),
    (lambda: SQUARE.over(x=(0, 1)), r"already has the axis 'x'"),
    (lambda: SQUARE.over(t=(1, 0)), r"over\(\) axis 't' must have finite low < high"),
    (lambda: SQUARE.over(), r"over\(\) takes one axis"),
    (lambda: DISC.named(3), r"named\(\) name must be a word"),
    (lambda: ts.Implicit(3.0, {"x": (0, 1)}), r"Implicit function must map points"),
    (lambda: ts.PointCloud([(0, 0)], [(1, 0)], [(0, 0)]), r"normal 0 is zero"),
    (lambda: ts.PointCloud([(0, 0)], {"a": [(1, 0)]}, [(1, 0)]), r"parts a, but normals .* bound"),
    (lambda: ts.PointCloud([(0, 0)], [(1, 0)], [(1, 0)]), r"flat: all of its points have y = 0"),
    (lambda: ts.PointCloud([0, 1], [(1, 0)], [(1, 0)]), r"interior must have shape \(n, 2\)"),
    (lambda: ts.PointCloud([(0, 0)], [(1, 0)], [(1, 0, 0)]), r"must be pairs in 2 dimensions"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_bad_shapes_are_refused_by_name(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


LAPLACE = ts.Equation(ts.Laplacian())
UNFIT = [
    (SQUARE - ts.Ball(x=0, y=0, radius=2), [], r"is empty, or too thin to see: none of 200"),
    (CUT, [], r"is unbounded: intersect it with a Box"),
    (ts.Implicit(ellipse, {"x": (0, 1), "y": (-1, 1)}), [], r"not enclosed by its bounds, e.g. at"),
    (ts.PointCloud([(0, 1)], [(1, 0)], [(-1, 0)]), [], r"normals must point outwards"),
    (SQUARE - DISC, [ts.Dirichlet(0, on="hol")], r"unknown face 'hol'.*xmin, xmax.*hole"),
    (SQUARE & CUT, [ts.Dirichlet(0, on="plane")], r"unknown face 'plane': this domain has .*cut"),
    (SQUARE - ts.Box(x=(0.5, 2), y=(-2, 2)).named("b"), [ts.Dirichlet(0, on="xmax")],
     r"dirichlet on=\('xmax',\) selects none of 0 points"),
    (SQUARE, [ts.Dirichlet(0, on=lambda p: p[:, 0] > 5)], r"on=the function .* selects none of"),
    (SQUARE - DISC, [ts.Neumann(0, on=lambda p: p[:, 0] > 5)], r"neumann on=.* selects none"),
    (ts.Implicit(lambda p: np.hypot(p[:, 0], p[:, 1]) - 1, {"x": (-2, 2), "y": (-2, 2)}), [],
     r"must be differentiated, which needs jax.numpy"),
    (SQUARE, [ts.Dirichlet(0, on=lambda p: p[:, 0])], r"must return one boolean per point"),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "conditions", "message"), UNFIT)
def test_problems_that_cannot_be_stated_on_a_shape(domain, conditions, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ts.Problem(domain, LAPLACE, conditions)


def test_every_pair_of_kinds_combines():
    kinds = [SQUARE, DISC, TRIANGLE, CUT, SHAPES["ellipse"], circle_cloud()]
    for a, b in itertools.permutations(kinds, 2):
        x = SQUARE.scatter(200, np.random.default_rng(0))
        for shape, inside in ((a & b, np.maximum), (SQUARE & (a | b), np.minimum)):
            shape.check()
            expected = inside(a.signed_distance(x), b.signed_distance(x)) <= 0
            np.testing.assert_array_equal(shape.contains(x), expected)


def test_points_at_the_height_of_a_vertex_are_on_the_right_side():
    """Corners of the bounding box, as high as a vertex and far from it, are outside."""
    for turn in np.linspace(0, 6, 200):
        corners = [(0.5 + np.cos(turn + a), 0.5 + np.sin(turn + a)) for a in (0.0, 1.7, 3.3, 5.0)]
        shape = ts.Polygon(corners)
        x = np.array([(x, y) for x in shape.bounds[0] for y in shape.bounds[1]])
        assert not np.any(shape.signed_distance(x) < -1e-9)


def test_a_function_is_compiled_twice_whatever_is_asked_of_its_zero_set(rng):
    traced = itertools.count()

    def egg(p):
        next(traced)
        return p[:, 0] ** 2 + 2 * p[:, 1] ** 2 + 0.3 * p[:, 0] ** 3 - 0.5

    shape = ts.Implicit(egg, {"x": (-1, 1), "y": (-1, 1)})
    for count in (3, 200, 300, 9_000):
        shape.signed_distance(SQUARE.scatter(count, rng))
    shape.boundary("surface", (41, 41))
    points, _ = shape.scatter_on("surface", 50, rng, shape)
    assert np.abs(egg(points)).max() < 1e-14
    assert next(traced) == 3


def test_a_shape_in_time_is_as_far_away_in_any_order_of_points(rng):
    moving = (SQUARE - DISC).over(t=(0, 1))
    points = moving._product(SQUARE.scatter(50, rng), np.linspace(-0.5, 1.5, 7))
    order = rng.permutation(len(points))
    expected = moving.signed_distance(points[order])
    np.testing.assert_array_equal(moving.signed_distance(points)[order], expected)
