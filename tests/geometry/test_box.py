"""Boxes: axes in the order they were named, faces with outward normals, regular grids."""

import numpy as np
import pytest

import tessella as ts

SPACE_TIME = ts.Box(x=(-1, 1), y=(0, 3), t=(0, 0.5))


def test_axes_keep_the_order_of_the_keywords():
    assert SPACE_TIME.axes == ("x", "y", "t")
    assert SPACE_TIME.dimension == 3
    np.testing.assert_array_equal(SPACE_TIME.lower, [-1, 0, 0])
    np.testing.assert_array_equal(SPACE_TIME.upper, [1, 3, 0.5])
    assert [SPACE_TIME.axis_index(a) for a in "xyt"] == [0, 1, 2]


def test_faces_sit_at_the_ends_and_point_outwards():
    faces = SPACE_TIME.faces
    assert list(faces) == ["xmin", "xmax", "ymin", "ymax", "tmin", "tmax"]
    assert (faces["ymax"].position, faces["ymax"].sign) == (3.0, 1.0)
    assert (faces["xmin"].position, faces["xmin"].sign) == (-1.0, -1.0)


def test_the_whole_boundary_leaves_time_out():
    assert SPACE_TIME.walls == ("xmin", "xmax", "ymin", "ymax")


def test_boxes_are_values():
    assert ts.Box(x=(0, 1)) == ts.Box(x=(0.0, 1.0))
    assert ts.Box(x=(0, 1)) != ts.Box(y=(0, 1))
    assert hash(ts.Box(x=(0, 1))) == hash(ts.Box(x=(0, 1)))
    assert repr(SPACE_TIME) == "Box(x=(-1, 1), y=(0, 3), t=(0, 0.5))"


def test_grid_includes_end_points_and_runs_along_the_last_axis_first():
    grid = ts.Box(x=(0, 1), y=(0, 2)).grid((2, 3))
    np.testing.assert_array_equal(grid, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])


def test_a_grid_of_one_point_is_the_middle():
    np.testing.assert_array_equal(ts.Box(x=(0, 1), y=(0, 2)).grid((1, 1)), [[0.5, 1.0]])


@pytest.mark.parametrize("face", SPACE_TIME.faces)
def test_face_grid_lies_on_its_face(face):
    points, normals = SPACE_TIME.face_grid(face, (4, 5, 6))
    description = SPACE_TIME.face(face)
    assert len(points) == 4 * 5 * 6 // (4, 5, 6)[description.axis]
    assert np.all(points[:, description.axis] == description.position)
    assert np.all(normals[:, description.axis] == description.sign)
    np.testing.assert_array_equal(np.abs(normals).sum(axis=1), 1.0)


@pytest.mark.parametrize("given", [0.25, [0.25, 0.5], [[0.25], [0.5]]])
def test_points_on_a_line_may_be_flat(given):
    assert ts.Box(x=(0, 1)).points(given).shape == (np.size(given), 1)


def test_one_point_of_a_square_may_be_flat():
    assert ts.Box(x=(0, 1), y=(0, 1)).points([0.5, 0.5]).shape == (1, 2)


@pytest.mark.parametrize("given", [np.zeros(3), np.zeros((4, 3)), np.zeros((2, 2, 2))])
def test_points_of_another_dimension_are_refused(given):
    with pytest.raises(ValueError, match=r"shape \(n, 2\) with columns \(x, y\)"):
        ts.Box(x=(0, 1), y=(0, 1)).points(given)


HIDDEN = np.ma.masked_array(np.zeros((2, 2)), mask=[[0, 0], [1, 0]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((3, 2)) * 1j, r"^points must be real numbers, got complex128 values"),
        ([["a", "b"]], r"^points must be real numbers, got <U1 values"),
        (HIDDEN, r"^points are a masked array.*: leave those rows out"),
    ],
)
def test_points_that_would_be_changed_on_the_way_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        ts.Box(x=(0, 1), y=(0, 1)).points(given)
    with pytest.raises(ValueError, match=message.replace("points", "PointCloud interior")):
        ts.PointCloud(given, [(1, 0)], [(1, 0)])


def test_a_masked_array_without_masked_points_is_an_array():
    given = np.ma.masked_array(np.ones((2, 2)), mask=False)
    points = ts.Box(x=(0, 1), y=(0, 1)).points(given)
    assert type(points) is np.ndarray


def test_closing_an_axis_leaves_the_box_as_it_was():
    box = ts.Box(x=(0, 3), y=(0, 2))
    assert not box.periods.any()
    closed = box.closed("x")
    assert (box.periodic, closed.periodic) == ((), ("x",))
    np.testing.assert_array_equal(closed.periods, [3, 0])
    np.testing.assert_array_equal(closed.closed("y").periods, [3, 2])
    np.testing.assert_array_equal(box.periods, [0, 0])
