"""Problems on shapes: exactness, invariance, rates, conditions by function, files, pictures."""

import dataclasses
import math

import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.held_out import held_out
from tessella.gallery.reference import four_holes

SQUARE = ts.Box(x=(-1, 1), y=(-1, 1))
HOLE = ts.Ball(x=0.3, y=0.2, radius=0.3, name="hole")
PERFORATED = SQUARE - HOLE
LAPLACE = ts.Equation(ts.Laplacian())


def harmonic(points):
    x, y = points[:, 0], points[:, 1]
    return np.exp(x) * np.sin(y) + x * y


def dirichlet(domain, u=harmonic, **options):
    return ts.Problem(domain, LAPLACE, [ts.Dirichlet(u)], exact=u, **options)


def solved(problem, subdomains=4, features=50, **options):
    options = {"scale": 1.5, "oversampling": 3.0, "solver": "nested-qr"} | options
    return ts.solve(problem, subdomains=subdomains, features=features, estimate=False, **options)


@pytest.fixture(scope="module")
def perforated():
    return solved(dirichlet(PERFORATED, name="perforated"), 2, 60)


def test_functions_of_the_span_are_found_exactly():
    """Constants are in the span of every subdomain, and the windows sum to one."""
    problem = ts.Problem(
        PERFORATED,
        LAPLACE,
        [ts.Dirichlet(3.0, on="hole"), ts.Neumann(0.0, on=SQUARE.walls)],
        exact=lambda p: np.full(len(p), 3.0),
    )
    assert solved(problem, 2, 10).report.error["max"] < 1e-10


def test_normals_of_a_hole_point_into_it():
    """With the wrong sign the Neumann data of the hole would belong to another solution."""

    def slope(points):
        n = (np.array([0.3, 0.2]) - points) / 0.3
        x, y = points[:, 0], points[:, 1]
        gradient = np.column_stack([np.exp(x) * np.sin(y) + y, np.exp(x) * np.cos(y) + x])
        return np.sum(gradient * n, axis=1)

    conditions = [ts.Dirichlet(harmonic, on=SQUARE.walls), ts.Neumann(slope, on="hole")]
    problem = ts.Problem(PERFORATED, LAPLACE, conditions, exact=harmonic)
    assert solved(problem, 2, 60).report.error["l2_relative"] < 1e-4


def test_a_rotated_polygon_gives_the_boxs_solution(rng):
    """Rotated by a right angle, the same subdomains see the same function."""
    corners = [(-1, -0.5), (1, -0.5), (1, 0.5), (-1, 0.5)]
    x = rng.uniform(-0.5, 0.5, (50, 2))
    of_box = solved(dirichlet(ts.Box(x=(-1, 1), y=(-0.5, 0.5))), (2, 1), 60)(x)
    turned = ts.Polygon([(-y, x) for x, y in corners])
    problem = dirichlet(turned, lambda p: harmonic(np.column_stack([p[:, 1], -p[:, 0]])))
    there = solved(problem, (1, 2), 60)(np.column_stack([-x[:, 1], x[:, 0]]))
    np.testing.assert_allclose(there, of_box, atol=1e-5)


def ellipse(p):
    return (p[:, 0] / 0.9) ** 2 + (p[:, 1] / 0.6) ** 2 - 1


def cloud():
    disc = ts.Ball(x=0, y=0, radius=1)
    return ts.PointCloud(disc.interior((45, 45)), *disc.boundary("ball", (45, 45)))


@pytest.mark.parametrize(
    "domain",
    [
        ts.Implicit(ellipse, {"x": (-1, 1), "y": (-1, 1)}),
        cloud(),
        SQUARE & ts.HalfSpace(x=0, y=0.3, normal=(1, 3)),
        ts.Polygon([(-1, -1), (1, -0.8), (0.2, 0.1), (0.6, 1), (-0.7, 0.6)]),
    ],
    ids=["implicit", "cloud", "cut", "polygon"],
)
def test_every_kind_of_shape_is_solved_on(domain):
    problem = dirichlet(domain)
    solution = solved(problem, (2, 1), 60, oversampling=2.0)
    inside = domain.scatter(200, np.random.default_rng(1))
    assert solution.errors(inside)["l2_relative"] < 1e-4


def test_a_ball_in_space():
    domain = ts.Ball(x=0, y=0, z=0, radius=1) - ts.Ball(x=0.2, y=0, z=0, radius=0.3, name="core")
    problem = dirichlet(domain, lambda p: p[:, 0] * p[:, 1] + p[:, 2])
    assert solved(problem, (2, 1, 1), 60, oversampling=1.5).report.error["l2_relative"] < 1e-2


def test_heat_on_a_disc_in_time():
    domain = ts.Ball(x=0, y=0, radius=1, name="rim").over(t=(0, 0.5))

    def exact(p):
        return np.exp(-2 * p[:, 2]) * np.sin(p[:, 0]) * np.cos(p[:, 1])

    problem = ts.Problem(
        domain,
        ts.Equation(ts.D(t=1) - ts.Laplacian()),
        [ts.Dirichlet(exact), ts.Initial(exact)],
        exact=exact,
    )
    solution = solved(problem, (2, 1, 1), 80, oversampling=1.5)
    assert solution.report.error["l2_relative"] < 1e-2


def test_subdomains_that_see_nothing_take_no_part(perforated):
    ring = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0, y=0, radius=0.7, name="inner")
    solution = solved(dirichlet(ring), 9, 15)
    report = solution.report
    assert 0 < report.active_subdomains < 81
    assert f"{report.active_subdomains} see a part of the domain" in str(solution)
    assert report.to_json()["active_subdomains"] == report.active_subdomains
    local = solution.coefficients.reshape(81, -1)
    assert np.count_nonzero(np.any(local, axis=1)) <= report.active_subdomains
    assert report.rows >= 3.0 * report.active_subdomains * 16
    assert perforated.report.active_subdomains is None
    assert report.error["l2_relative"] < 0.05


def test_the_grid_is_refined_until_there_are_rows_enough():
    strip = ts.Polygon([(0, 0), (0.1, 0), (1, 0.9), (1, 1), (0.9, 1), (0, 0.1)])
    problem = dirichlet(strip)
    basis = ts.Basis(ts.Decomposition(strip, 6), ts.RandomFeatures(30))
    for oversampling in (1.0, 2.5):
        rows = ts.Grid(oversampling).rows(problem, basis)
        points = np.concatenate([part.points for part in rows])
        assert len(points) >= oversampling * basis.columns_at(points)
        assert np.all(strip.contains(points))


def test_a_cloud_with_too_few_points_says_so():
    few = ts.PointCloud([(0.0, 0.5)], [(1.0, 0.0)], [(1.0, 0.0)])
    with pytest.raises(ValueError, match=r"fewer rows than columns \(3 < 42\).*use fewer features"):
        solved(dirichlet(few), 2, 20)


@pytest.mark.parametrize(
    ("domain", "coupling"),
    [(SQUARE, "overlap"), (SQUARE, "interfaces"), (PERFORATED, "overlap")],
)
def test_a_condition_may_hold_where_a_function_says(domain, coupling):
    """Slope on a piece of the right wall, value elsewhere: together they determine u."""

    def u(points):
        return points[:, 0] ** 2 - points[:, 1] ** 2

    def sloped(points):
        return (points[:, 0] > 1 - 1e-9) & (np.abs(points[:, 1]) < 0.5)

    conditions = [
        ts.Dirichlet(u, on=lambda p: ~sloped(p)),
        ts.Neumann(2.0, on=sloped),
    ]
    problem = ts.Problem(domain, LAPLACE, conditions, exact=u)
    options = {"coupling": coupling, "subdomains": 2, "features": 60}
    solution = ts.solve(problem, estimate=False, oversampling=3.0, **options)
    assert solution.report.error["l2_relative"] < 1e-4
    for part in held_out(problem)[1:]:
        assert len(part.points) > 100


def test_cells_side_by_side_are_cut_by_the_boundary():
    """Every doubling of the features gains a decade and more, on cut cells as on whole ones."""
    problem, errors = dirichlet(PERFORATED), []
    for features in (30, 60, 120):
        report = ts.solve(
            problem, subdomains=4, features=features, coupling="interfaces", estimate=False
        ).report
        assert report.coupling == "interfaces" and report.solver == "merging"
        errors.append(report.error["l2_relative"])
    assert errors[0] > 10 * errors[1] > 100 * errors[2] and errors[2] < 1e-6


def test_points_in_a_hole_are_outside(perforated):
    with pytest.raises(ValueError, match=r"1 of 2 points lie outside .*first at \(0.3, 0.2\)"):
        perforated([(0.0, 0.0), (0.3, 0.2)])
    assert np.isfinite(perforated([(0.6, 0.2)])[0])


def test_a_tolerance_is_met_on_a_shape():
    problem = dirichlet(ts.Ball(x=0, y=0, radius=1))
    solution = ts.solve(problem, tol=1e-3)
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.coupling == "interfaces"
    assert solution.report.error["l1_normalised"] < 1e-2


SAVED = [
    PERFORATED,
    SQUARE & ts.HalfSpace(x=0, y=0.3, normal=(1, 3), name="cut"),
    ts.Polygon([(0, 0), (2, 0), (0, 1)], [[(0.2, 0.2), (0.4, 0.2), (0.2, 0.4)]]) | SQUARE,
    (ts.Ball(x=0, y=0, radius=1) - ts.Box(x=(0, 0.2), y=(0, 0.2)).named("slot")).over(t=(0, 1)),
    cloud(),
]


@pytest.mark.parametrize("domain", SAVED, ids=["hole", "cut", "polygon", "time", "cloud"])
def test_shapes_come_back_from_a_file(domain, combination, tmp_path):
    problem = ts.Problem(domain, ts.Equation(ts.Identity()))
    basis = ts.Basis(ts.Decomposition(domain, 2), ts.RandomFeatures(3))
    a = np.random.default_rng(0).standard_normal(basis.columns)
    solution = combination(problem, basis, a)
    loaded = ts.load(solution.save(tmp_path / "shape"))
    assert loaded.problem.domain == domain
    assert loaded.problem.domain.parts == domain.parts
    at = domain.closure((7,) * domain.dimension)
    np.testing.assert_array_equal(loaded(at), solution(at))
    other = ts.Problem(SQUARE, ts.Equation(ts.Identity()))
    with pytest.raises(ValueError, match=r"was solved on .*, the given problem on Box"):
        ts.load(tmp_path / "shape.npz", problem=other)


def test_a_function_cannot_be_stored(combination, tmp_path):
    domain = ts.Implicit(ellipse, {"x": (-1, 1), "y": (-1, 1)})
    problem = ts.Problem(domain, ts.Equation(ts.Identity()))
    basis = ts.Basis(ts.Decomposition(domain, 2), ts.RandomFeatures(3))
    path = combination(problem, basis, np.ones(basis.columns)).save(tmp_path / "implicit")
    with pytest.raises(ValueError, match=r"domain given by a function.*load\(path, problem=...\)"):
        ts.load(path)
    assert ts.load(path, problem=problem)([(0.0, 0.0)]).shape == (1,)
    with pytest.raises(ValueError, match=r"solved on another shape.*given problem on Ball"):
        ts.load(path, problem=ts.Problem(ts.Ball(x=0, y=0, radius=1), LAPLACE))


def test_pictures_leave_out_what_is_outside(perforated, combination, tmp_path):
    path = tmp_path / "perforated.png"
    axes = [ax for ax in perforated.plot(path).axes if ax.get_label() != "<colorbar>"]
    assert path.stat().st_size > 1000
    image = np.asarray(axes[1].images[0].get_array())
    points = PERFORATED.grid((201, 201))
    empty, away = np.isnan(image.T.ravel()), PERFORATED.signed_distance(points)
    assert not empty[away < -1e-9].any()
    assert empty[away > 0.03].all()  # beyond the pixels that the outline covers
    outline = axes[1].collections[-1].get_paths()[0].vertices
    np.testing.assert_allclose(PERFORATED.signed_distance(outline), 0.0, atol=1e-3)
    in_time = HOLE.over(t=(0, 1))
    basis = ts.Basis(ts.Decomposition(in_time, 2), ts.RandomFeatures(3))
    solution = combination(
        ts.Problem(in_time, ts.Equation(ts.Identity())), basis, np.ones(basis.columns)
    )
    assert len([a for a in solution.plot().axes if a.get_label() != "<colorbar>"]) == 4


def test_a_reference_is_known_at_its_points_only(perforated, tmp_path):
    at = PERFORATED.scatter(30, np.random.default_rng(0))
    known = ts.Reference(at, harmonic(at))
    solution = dataclasses.replace(
        perforated, problem=dataclasses.replace(perforated.problem, exact=known)
    )
    assert solution.errors()["l2_relative"] < 1e-3
    with pytest.raises(ValueError, match=r"known at 30 points only: leave out the points"):
        solution.errors([(0.0, 0.0)])
    assert solution.plot().axes[0].get_title() == "tessella"
    with pytest.raises(ValueError, match=r"needs points \(n, d\) and values \(n,\), got \(30, 2\)"):
        ts.Reference(at, at)


def test_the_table_of_the_four_holes_is_harmonic_and_symmetric():
    """Values in the right range, none in a hole, and equal to the mean over small circles."""
    points, values = four_holes.table()
    problem = ts.gallery.get("four-holes").problem("best")
    assert np.all(problem.domain.signed_distance(points) < 0)
    assert 0 < values.min() < values.max() < 1
    assert len(points) == four_holes.POINTS
    np.testing.assert_array_equal(points, four_holes.points())


def test_the_four_holes():
    """With a quarter of the preset's columns; `tessella solve four-holes` runs the preset."""
    solution = solved(ts.gallery.get("four-holes").problem("best"), 5, 70)
    assert solution.report.error["l2_relative"] < 5e-3
    assert set(solution.report.residual) == {"equation", "dirichlet 1", "dirichlet 2"}


def test_the_corner_of_the_l_limits_smooth_features():
    """Its second derivatives are not square-integrable, so their mean square cannot be small."""
    problem = ts.gallery.get("l-shape").problem("best")
    theta = np.linspace(0.01, 1.5 * math.pi - 0.01, 20)
    x = 0.5 * np.column_stack([np.cos(theta), np.sin(theta)])
    assert np.all(problem.domain.contains(x))
    np.testing.assert_allclose(problem.exact(x), 0.5 ** (2 / 3) * np.sin(2 * theta / 3))
    assert 1e-3 < solved(problem, 2, 36, oversampling=2.0).report.error["l2_relative"] < 0.1
