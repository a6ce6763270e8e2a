"""Files and datasets for other software, read back."""

import base64
import sys
from xml.etree import ElementTree

import meshio
import numpy as np
import pytest
import xarray

import tessella as ts
from tessella.solution import export

SLOPE = {"u_x": ts.D(x=1)}


def moving(p):
    return np.sin(p[:, 0] + p[:, -1])


@pytest.fixture(scope="module")
def moved():
    """u_t = u_x on a line, with known solution."""
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 2)),
        ts.Equation(ts.D(t=1) - ts.D(x=1)),
        [ts.Dirichlet(moving, on="xmax"), ts.Initial(moving)],
        exact=moving,
        name="moving",
        parameters={"c": -1.0},
    )
    return ts.march(problem, 2, subdomains=1, features=40, scale=1.0, solver="nested-qr")


@pytest.fixture(scope="module")
def still(moved):
    """The first slab alone: a plain Solution."""
    return moved.slabs[0]


@pytest.fixture(scope="module")
def solid(combination):
    """Any function of three axes, one of them time."""
    box = ts.Box(x=(0, 1), y=(0, 2), t=(0, 3))
    basis = ts.Basis(ts.Decomposition(box, 1), ts.RandomFeatures(4))
    problem = ts.Problem(box, ts.Equation(ts.Identity()), name="solid")
    return combination(problem, basis, np.arange(5.0))


def test_a_grid_is_ticks_and_values(moved):
    (x, t), u = moved.on_grid((5, 9))
    assert (x.shape, t.shape, u.shape) == ((5,), (9,), (5, 9))
    np.testing.assert_allclose(u, np.sin(x[:, None] + t), atol=1e-3)
    assert moved.on_grid()[1].shape == (101, 101)
    left = moved.on_grid(5, where=lambda p: p[:, 0] <= 0.5)[1]
    assert np.isnan(left[3:]).all()
    np.testing.assert_array_equal(left[:3], moved.on_grid(5)[1][:3])


def test_a_dataset_has_names_coordinates_and_figures(moved):
    data = moved.to_xarray((5, 9), derivatives=SLOPE)
    assert isinstance(data, xarray.Dataset)
    assert set(data.data_vars) == {"u", "u_x", "exact", "error"}
    assert data["u"].dims == ("x", "t")
    at = data.sel(x=0.25, t=1.5)
    assert float(at["u"]) == moved([[0.25, 1.5]])[0]
    assert float(at["u_x"]) == pytest.approx(np.cos(1.75), abs=1e-2)
    np.testing.assert_allclose(data["error"], data["u"] - data["exact"])
    assert data.attrs["problem"] == "moving"
    assert data.attrs["parameter_c"] == -1.0
    assert data.attrs["error_estimate"] == moved.report.error_estimate
    assert data.attrs["error_l2_relative"] == moved.report.error["l2_relative"]
    assert all(isinstance(value, str | float) for value in data.attrs.values())


def test_without_an_exact_solution_there_is_none_in_the_dataset(solid):
    data = solid.to_xarray(3)
    assert set(data.data_vars) == {"u"}
    assert "error_estimate" not in data.attrs


def test_every_unknown_of_a_system_has_its_name(combination, tmp_path):
    box, u, p = ts.Box(x=(0, 1)), ts.Field("u"), ts.Field("p")
    basis = ts.Basis(ts.Decomposition(box, 1), ts.RandomFeatures(4))
    problem = ts.Problem(
        box,
        [ts.Equation(ts.D(x=1) @ u + p), ts.Equation(ts.D(x=1) @ p)],
        exact={"u": lambda x: x[:, 0], "p": lambda x: 0 * x[:, 0]},
    )
    pair = combination(problem, ts.Fields(u=basis, p=basis), np.arange(10.0))
    (x,), values = pair.on_grid(5)
    np.testing.assert_array_equal(values, pair(x))
    data = pair.to_xarray(5, {"u_x": ts.D(x=1) @ u})
    assert set(data.data_vars) == {"u", "p", "exact_u", "exact_p", "error_u", "error_p", "u_x"}
    np.testing.assert_array_equal(data["p"], values[:, 1])
    mesh = meshio.read(pair.to_vtk(tmp_path / "u.vtu", 5))
    np.testing.assert_allclose(mesh.point_data["error_u"], values[:, 0] - x)


@pytest.mark.parametrize("suffix", [".vtu", ".vtk"])
def test_an_unstructured_file_holds_points_cells_and_fields(still, tmp_path, suffix):
    path = still.to_vtk(tmp_path / f"u{suffix}", (4, 3), SLOPE)
    mesh = meshio.read(path)
    assert mesh.points.shape == (12, 3)
    assert len(mesh.cells_dict["quad"]) == 6
    np.testing.assert_allclose(mesh.point_data["u"], still(mesh.points[:, :2]))
    np.testing.assert_allclose(mesh.point_data["exact"], moving(mesh.points[:, :2]))
    assert set(mesh.point_data) == {"u", "u_x", "exact", "error"}


def area(corners):
    """Twice the signed area of every quadrilateral."""
    x, y = corners[..., 0], corners[..., 1]
    return np.sum(x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1), axis=1)


def test_cells_are_oriented_and_fill_the_domain(still, solid, tmp_path):
    mesh = meshio.read(still.to_vtk(tmp_path / "u.vtu", (4, 3)))
    assert np.all(area(mesh.points[mesh.cells_dict["quad"]]) > 0)
    mesh = meshio.read(solid.to_vtk(tmp_path / "solid.vtu", (3, 4, 5)))
    cubes = mesh.points[mesh.cells_dict["hexahedron"]]
    height = cubes[:, 4, 2] - cubes[:, 0, 2]
    assert np.all(height > 0)
    volume = np.sum(area(cubes[:, :4]) / 2 * height)
    assert volume == pytest.approx(1 * 2 * 3)
    np.testing.assert_allclose(mesh.point_data["u"], solid(mesh.points))


def test_a_line_is_made_of_lines(line_solution, tmp_path):
    mesh = meshio.read(line_solution.to_vtk(tmp_path / "u.vtu", 11))
    assert len(mesh.cells_dict["line"]) == 10
    np.testing.assert_allclose(mesh.point_data["u"], line_solution(mesh.points[:, :1]))


def decoded(array):
    data = base64.b64decode(array.text)
    size = int.from_bytes(data[:8], "little")
    assert size == len(data) - 8
    return np.frombuffer(data[8:], "<f8").reshape(-1, int(array.get("NumberOfComponents")))


def test_a_structured_file_counts_the_first_axis_fastest(solid, tmp_path):
    root = ElementTree.parse(solid.to_vtk(tmp_path / "solid.vts", (3, 4, 5))).getroot()
    assert root.get("type") == "StructuredGrid"
    assert root.find("StructuredGrid").get("WholeExtent") == "0 2 0 3 0 4"
    points = decoded(root.find(".//Points/DataArray"))
    np.testing.assert_array_equal(points[1], [0.5, 0, 0])
    np.testing.assert_array_equal(points[3], [0, 2 / 3, 0])
    fields = {a.get("Name"): decoded(a)[:, 0] for a in root.findall(".//PointData/DataArray")}
    np.testing.assert_allclose(fields["u"], solid(points))


@pytest.mark.parametrize("suffix", [".vtu", ".vts"])
def test_a_series_has_a_file_per_time_and_a_list(solid, tmp_path, suffix):
    listed = solid.to_vtk(tmp_path / f"u{suffix}", (3, 4), times=[0.0, 1.5])
    assert listed == tmp_path / "u.pvd"
    entries = ElementTree.parse(listed).getroot().findall(".//DataSet")
    assert [(e.get("timestep"), e.get("file")) for e in entries] == [
        ("0", f"u_0000{suffix}"),
        ("1.5", f"u_0001{suffix}"),
    ]
    if suffix == ".vtu":
        mesh = meshio.read(tmp_path / "u_0001.vtu")
        at = np.column_stack([mesh.points[:, :2], np.full(12, 1.5)])
        np.testing.assert_allclose(mesh.point_data["u"], solid(at))


def test_a_series_of_so_many_times(moved, tmp_path):
    moved.to_vtk(tmp_path / "u.vtu", 5, times=3)
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        *("u.pvd", "u_0000.vtu", "u_0001.vtu", "u_0002.vtu")
    ]
    mesh = meshio.read(tmp_path / "u_0002.vtu")
    np.testing.assert_allclose(mesh.point_data["exact"], np.sin(mesh.points[:, 0] + 2.0))


def test_a_region_leaves_out_cells(still, tmp_path):
    path = still.to_vtk(tmp_path / "u.vtu", 5, where=lambda p: p[:, 0] + p[:, 1] < 1.01)
    mesh = meshio.read(path)
    assert 0 < len(mesh.cells_dict["quad"]) < 16
    assert np.all(mesh.points[:, 0] + mesh.points[:, 1] < 1.01)
    np.testing.assert_allclose(mesh.point_data["u"], still(mesh.points[:, :2]))


def test_a_shape_leaves_out_what_is_outside(combination, tmp_path):
    disc = ts.Ball(x=0, y=0, radius=1)
    basis = ts.Basis(ts.Decomposition(disc, 1), ts.RandomFeatures(4))
    problem = ts.Problem(disc, ts.Equation(ts.Laplacian()), [ts.Dirichlet()])
    round_one = combination(problem, basis, np.arange(5.0))
    mesh = meshio.read(round_one.to_vtk(tmp_path / "disc.vtu", 21))
    assert 0 < len(mesh.cells_dict["quad"]) < 400
    assert np.max(np.hypot(*mesh.points[:, :2].T)) <= 1 + 1e-9
    assert np.isnan(round_one.on_grid(5)[1][0, 0])
    with pytest.raises(ValueError, match=r"outside the domain: write \.vtu"):
        round_one.to_vtk(tmp_path / "disc.vts")


def test_four_axes_become_a_series_of_three(combination, tmp_path):
    def made(**sides):
        box = ts.Box(**sides)
        basis = ts.Basis(ts.Decomposition(box, 1), ts.RandomFeatures(4))
        problem = ts.Problem(box, ts.Equation(ts.Identity()))
        return combination(problem, basis, np.arange(5.0))

    sides = dict.fromkeys("xyz", (0, 1))
    listed = made(**sides, t=(0, 1)).to_vtk(tmp_path / "u.vts", 2)
    assert listed.suffix == ".pvd"
    assert len(list(tmp_path.glob("u_*.vts"))) == export.FRAMES
    with pytest.raises(ValueError, match="three axes at most, the domain has x, y, z, w"):
        made(**sides, w=(0, 1)).to_vtk(tmp_path / "u.vts", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "u.png"}, r"unknown kind of file 'u.png': use .vtu, .vtk or .vts"),
        ({"path": "u.vts", "where": moving}, "a structured grid .* has no holes"),
        ({"where": moving}, "where must map an .n, 2. array of points to .n,. truth values"),
        (
            {"where": lambda p: p[:, 0] > 9},
            "no point of the grid lies in the domain and in `where`",
        ),
        ({"resolution": 1}, "resolution must be a whole number >= 2, or one for each of x, t"),
        ({"resolution": (3, 4, 5)}, "resolution must be .* got .3, 4, 5."),
        ({"resolution": 2.5}, "resolution must be a whole number"),
        ({"times": 0}, "times must be a number of files >= 1"),
        ({"times": [0.5, 7.0]}, "times must lie between 0 and 1"),
        ({"derivatives": {"exact": ts.D(x=1)}}, "cannot be called 'exact': that name is taken"),
        ({"derivatives": {"u_x": "dx"}}, r"'u_x' must be an operator such as D\(x=1\), got 'dx'"),
    ],
)
def test_what_cannot_be_written_says_why(still, tmp_path, arguments, message):
    path = tmp_path / arguments.pop("path", "u.vtu")
    with pytest.raises((ValueError, TypeError), match=message):
        still.to_vtk(path, **arguments)
    assert not list(tmp_path.iterdir())


def test_a_series_needs_time_and_space(square_solution, tmp_path):
    with pytest.raises(ValueError, match="the domain has no axis t: leave it out"):
        square_solution.to_vtk(tmp_path / "u.vts", times=3)


def test_a_series_of_single_points_is_refused(combination, tmp_path):
    box = ts.Box(t=(0, 1))
    basis = ts.Basis(ts.Decomposition(box, 1), ts.RandomFeatures(4))
    line = combination(ts.Problem(box, ts.Equation(ts.D(t=1))), basis, np.ones(5))
    with pytest.raises(ValueError, match="t is the only axis"):
        line.to_vtk(tmp_path / "u.vts", times=3)


@pytest.mark.parametrize(
    ("library", "call", "extra"),
    [
        ("meshio", lambda s, f: s.to_vtk(f / "u.vtu", 3), r"tessella\[vtk\]"),
        ("xarray", lambda s, f: s.to_xarray(3), r"tessella\[xarray\]"),
    ],
)
def test_a_missing_library_is_named(still, tmp_path, monkeypatch, library, call, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"need {library}: pip install '{extra}'"):
        call(still, tmp_path)
