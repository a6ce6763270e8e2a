"""Subdomains side by side: exactness, convergence, both ways of joining, reports, refusals."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from problems import EXACT, PLANE, SMOOTH, SQUARE, slope, stated, waves
from tessella.cells.boxes.basis import default_features
from tessella.cells.boxes.faces import face_modes
from tessella.cells.joins import choosing
from tessella.cells.solvers import Exchange
from tessella.cells.system import kinds
from tessella.cells.system.system import cell_system
from tessella.geometry.gauss import gauss
from tessella.solution.report import Report


def solve(problem, **settings):
    return ts.solve(problem, **{"coupling": "interfaces", "estimate": False, **settings})


@pytest.mark.parametrize("solver", ["merging", "exchange"])
@pytest.mark.parametrize("name", EXACT)
def test_solutions_in_the_span_are_found_exactly(name, solver):
    """Squares (fourth powers) of affine functions span all polynomials of that degree."""
    problem, settings = EXACT[name]
    settings = {"activation": SQUARE, "trace_degree": 4, **settings}
    report = solve(problem, solver=solver, **settings).report
    assert report.solver == solver and (report.iterations > 0) == (solver == "exchange")
    assert report.error["max"] < 1e-10
    assert max(jump["max"] for jump in report.jumps.values()) < 1e-9


def test_the_names_of_the_jumps_follow_the_order(plane):
    assert list(plane.report.jumps) == ["value", "normal derivative"]
    problem, settings = EXACT["fourth order in 1D"]
    names = solve(problem, trace_degree=2, **settings).report.jumps
    assert list(names)[2:] == ["normal derivative 2", "normal derivative 3"]


@pytest.fixture(scope="module")
def plane():
    return solve(SMOOTH, subdomains=3, features=24)


def test_error_and_jumps_fall_with_the_number_of_features(plane):
    """Doubling them gains decades, and more each time."""
    reports = [solve(SMOOTH, subdomains=3, features=count).report for count in (12, 24, 48, 96)]
    errors = np.array([r.error["l2_relative"] for r in reports])
    rates = np.log10(errors[:-1] / errors[1:])
    assert np.all(rates > 1.5) and rates[2] > 2.5
    for name in ("value", "normal derivative"):
        sizes = np.array([r.jumps[name]["rms"] for r in reports])
        assert np.all(sizes[1:] < sizes[:-1] / 15)


def test_error_falls_with_the_number_of_subdomains():
    """As fast as polynomials of the degree that so many features stand for, about five."""

    def fast(p):
        return jnp.sin(9 * p[:, 0] + 1) * jnp.cos(8 * p[:, 1])

    problem = stated(PLANE, -ts.Laplacian(), fast, ts.Dirichlet(fast))
    errors = [solve(problem, subdomains=n, features=24).report.error for n in (2, 4, 8)]
    sizes = np.array([e["l2_relative"] for e in errors])
    assert np.all(np.log2(sizes[:-1] / sizes[1:]) > 4)


def test_reported_jumps_are_what_both_sides_of_a_face_say(plane):
    y = np.linspace(-1, 1, 400)
    below = plane(np.stack([np.full(400, 2 / 3 - 1e-9), y], 1))
    above = plane(np.stack([np.full(400, 2 / 3 + 1e-9), y], 1))
    jump = plane.report.jumps["value"]
    assert 0.2 * jump["rms"] < np.sqrt(np.mean((below - above) ** 2)) < 2 * jump["max"]


def test_shared_draws_factor_equal_subdomains_once_with_the_same_answer(monkeypatch):
    together = solve(SMOOTH, subdomains=(5, 4), features=24)
    assert together.report.distinct_subdomains == 9
    numbers = itertools.count(1)
    monkeypatch.setattr(kinds, "labels", lambda part: [next(numbers) for _ in part.members])
    separate = solve(SMOOTH, subdomains=(5, 4), features=24)
    assert separate.report.distinct_subdomains == 20
    x = PLANE.grid((40, 40))
    np.testing.assert_allclose(separate(x), together(x), atol=1e-11)


def test_only_corners_edges_and_the_interior_differ():
    """With a coefficient that varies along x, so does every column of subdomains."""
    report = solve(SMOOTH, subdomains=(5, 4), features=24).report
    assert report.distinct_subdomains == 9
    variable = stated(PLANE, slope * ts.Laplacian(), waves, ts.Dirichlet(waves))
    assert solve(variable, subdomains=(5, 4), features=24).report.distinct_subdomains == 15


def test_own_draws_are_as_accurate_and_all_distinct(plane):
    own = solve(SMOOTH, subdomains=3, features=24, shared=False)
    assert own.report.distinct_subdomains == 9
    weights = own.basis.layers[0].weights
    assert not np.array_equal(weights[0], weights[1])
    assert own.report.error["l2_relative"] < 30 * plane.report.error["l2_relative"]


def test_the_loss_has_the_meaning_it_has_with_overlap(plane):
    """Residuals are root mean squares over the domain and the faces, in the equation's units."""
    x, w = gauss((40, 40))
    x = PLANE.lower + (x + 1) / 2 * (PLANE.upper - PLANE.lower)
    size = np.sqrt(np.sum(w * plane.residual(x) ** 2))
    assert plane.report.residual["equation"] == pytest.approx(size, rel=0.2)
    assert set(plane.report.residual) == {"equation", "dirichlet"}


def test_given_weights_are_kept_and_missing_ones_follow_the_operator():
    basis = ts.CellBasis(ts.Tiling(PLANE, 2), default_features(10, 2))

    def weights(operator, condition):
        problem = stated(PLANE, operator, waves, condition)
        return cell_system(problem, basis, ts.Grid(2.0)).weights

    assert weights(-ts.Laplacian(), ts.Dirichlet(waves, weight=7.0))["dirichlet"] == 7.0
    one = weights(-ts.Laplacian(), ts.Dirichlet(waves))["dirichlet"]
    assert weights(-10 * ts.Laplacian(), ts.Dirichlet(waves))["dirichlet"] == pytest.approx(
        100 * one
    )
    flux = weights(-ts.Laplacian(), ts.Neumann(0.0))["neumann"]
    assert flux < one / 10


@pytest.mark.parametrize("counts", [(), (5,), (4, 6)])
def test_face_modes_are_orthonormal_and_traces_come_first(counts):
    modes, traces = face_modes(counts, 2)
    np.testing.assert_allclose(modes.T @ modes, np.eye(len(modes)), atol=1e-13)
    assert traces == {0: 1, 1: 3, 2: 6}[len(counts)]
    constant = np.sqrt(gauss(counts)[1])
    np.testing.assert_allclose(modes[:, 0], constant, atol=1e-14)


def test_every_point_belongs_to_one_box_and_faces_to_the_one_above():
    tiling = ts.Tiling(PLANE, (4, 2))
    x = PLANE.grid((41, 31))
    subdomain, point = tiling.seen(x)
    assert sorted(point) == list(range(len(x)))
    inside = np.abs(x[point] - tiling.centres[subdomain]) <= tiling.half_widths[0] + 1e-12
    assert inside.all()
    assert tiling.seen(np.array([[0.5, 0.3]]))[0] == [3]
    assert tiling.seen(np.array([[2.0, 1.0]]))[0] == [7]


def test_derivatives_are_those_of_the_values(plane):
    x = np.array([[0.3, 0.1], [2 / 3 + 1e-3, -0.4], [1.9, 0.9]])
    step = np.array([1e-5, 0.0])
    difference = (plane(x + step) - plane(x - step)) / 2e-5
    np.testing.assert_allclose(plane.apply(ts.D(x=1), x), difference, rtol=1e-6, atol=1e-6)


def test_a_saved_solution_comes_back(plane, tmp_path):
    x = PLANE.grid((15, 15))
    again = ts.load(plane.save(tmp_path / "plane"))
    np.testing.assert_array_equal(again(x), plane(x))
    assert isinstance(again.basis, ts.CellBasis)
    assert again.basis.shared and again.report.jumps == plane.report.jumps


def test_it_is_plotted_like_any_other(plane, tmp_path):
    plane.plot(tmp_path / "plane.png")
    assert (tmp_path / "plane.png").stat().st_size > 10_000


def test_the_report_speaks_of_traces_and_jumps(plane):
    text, data = str(plane), plane.report.to_json()
    assert "numbers exchanged, 9 distinct subdomains" in text
    assert "jump, normal derivative" in text
    assert data["coupling"] == "interfaces"
    assert data["traces"] == plane.report.traces == 2 * 12 * (plane.basis.degree + 1)
    assert set(data["jumps"]["value"]) == {"rms", "max"}
    plain = Report("overlapping", 0, "", "", 1, 1, 1, 0, "", "", {}).to_json()
    assert plain["coupling"] == "overlap" and plain["jumps"] is None and plain["traces"] is None


@pytest.mark.parametrize(
    "problem",
    [
        SMOOTH,
        stated(PLANE, ts.Laplacian() + 100, waves, ts.Dirichlet(waves)),
        stated(PLANE, ts.D(x=1) - 0.01 * ts.Laplacian(), waves, ts.Dirichlet(waves)),
        stated(PLANE, slope * ts.Laplacian(), waves, ts.Neumann(), ts.Dirichlet(waves, on="xmin")),
    ],
    ids=["poisson", "helmholtz", "wind", "variable"],
)
def test_an_iteration_finds_what_merging_finds(problem):
    direct, iterated = (
        solve(problem, subdomains=4, features=40, solver=solver)
        for solver in ("merging", Exchange())
    )
    assert iterated.report.solver == "exchange" and 10 < iterated.report.iterations < 200
    assert iterated.report.stop_reason.startswith("converged")
    x = PLANE.grid((20, 20))
    np.testing.assert_allclose(iterated(x), direct(x), atol=1e-9)


def test_an_iteration_that_ends_too_early_says_so():
    solver = Exchange(max_iterations=1)
    report = solve(SMOOTH, subdomains=3, features=24, solver=solver).report
    assert report.iterations == 1 and not report.stop_reason.startswith("converged")
    assert report.error["l2_relative"] > 1e-4


def test_too_many_subdomains_for_merging_are_iterated(monkeypatch):
    """Where there is room for their maps, and not for joins."""
    monkeypatch.setattr(choosing, "available_bytes", lambda *_: 200_000)
    report = solve(SMOOTH, subdomains=3, features=24).report
    assert report.solver == "exchange"
    assert "iterative, because merging all would need about" in report.solver_note


def test_condition_numbers_are_of_a_draw_and_of_the_worst_subdomain():
    kappa = solve(SMOOTH, subdomains=2, features=40, condition=True).report.condition
    assert kappa["M"] >= kappa["M_hat"] > 1e4 > 10 > kappa["preconditioned"] > 1
    coarse = solve(SMOOTH, subdomains=2, features=40, condition=True, sigma=1e-3).report.condition
    assert coarse["M"] == kappa["M"] and coarse["M_hat"] < 1e3


def test_the_gallery_takes_the_coupling_as_a_setting():
    settings = {"coupling": "interfaces", "subdomains": 20, "features": 16, "activation": "sin"}
    report = (
        ts.gallery.get("harmonic-oscillator")
        .solve(
            solver="merging",
            settings={**settings, "scale": 5.0, "oversampling": 2, "sigma": 1e-14},
        )
        .report
    )
    assert report.coupling == "interfaces"
    assert report.error["l1_normalised"] < 1e-9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coupling": "glue"}, "unknown coupling 'glue': choose one of overlap, interfaces"),
        ({"overlap": 2.0}, "overlap=2.0 has no meaning with coupling='interfaces'"),
        ({"coupling": "overlap", "trace_degree": 3}, "trace_degree=3 belongs to subdomains side"),
        ({"coupling": "overlap", "shared": True}, "shared=True belongs to subdomains side by side"),
        ({"subdomains": 1}, "one subdomain has no neighbour to exchange data with"),
        ({"trace_degree": 1.5}, "trace_degree must be a whole number >= 0, got 1.5"),
        ({"trace_degree": -1}, "trace_degree must be a whole number >= 0, got -1"),
        ({"solver": "lsqr"}, "fits every subdomain through its own filter"),
        ({"filter": ts.RRQR(1e-8, patch=2)}, "fits every subdomain through its own filter"),
        ({"solver": "rrqr-lsqr"}, "joined by maps, which solver='lsqr' does not"),
        ({"solver": "nested-qr"}, "does not know: use solver='auto', 'merging' or 'exchange'"),
        ({"coupling": "overlap", "solver": "merging"}, "joins subdomains that lie side by side"),
        ({"oversampling": 0.3, "trace_degree": 1}, "fewer rows than columns"),
    ],
)
def test_mistakes_are_named_with_their_remedy(settings, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        solve(SMOOTH, **{"subdomains": 3, "features": 24, **settings})


def test_fixed_points_too_few_for_the_traces_are_refused():
    with pytest.raises(ValueError, match="trace_degree=9 needs 10 points along x in every subdom"):
        solve(
            SMOOTH,
            subdomains=3,
            features=24,
            trace_degree=9,
            collocation=ts.Grid(points_per_axis=24),
        )


def test_overlapping_subdomains_cannot_be_glued():
    with pytest.raises(ValueError, match="CellBasis needs subdomains side by side"):
        ts.CellBasis(ts.Decomposition(PLANE, 2), ts.RandomFeatures(4))


def test_unglued_boxes_are_refused():
    tiling, features = ts.Tiling(PLANE, 2), ts.RandomFeatures(4)
    with pytest.raises(ValueError, match="those of a Tiling lie side by side: use CellBasis"):
        ts.Basis(tiling, features)
    with pytest.raises(ValueError, match="one of them lies side by side"):
        ts.Multilevel((ts.CellBasis(tiling, features),))


def test_the_gallery_names_an_unknown_coupling():
    with pytest.raises(ValueError, match="unknown coupling 'weak'"):
        ts.gallery.get("laplace").solve(settings={"coupling": "weak"})


def test_a_system_too_large_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("tessella.machine.memory.available_bytes", lambda *_: 1 << 16)
    with pytest.raises(MemoryError, match=r"9 distinct subdomains of 25 columns and joining 9"):
        solve(SMOOTH, subdomains=3, features=24)


@pytest.mark.parametrize("cells", [(6, 2), (3, 1)])
def test_pieces_apart_are_each_determined_by_their_own_reading(cells):
    """Insulated all round; the second piece has several cells, or is one."""
    pieces = ts.Box(x=(0, 2), y=(0, 1)) | ts.Box(x=(2.5, 3), y=(0, 1))
    problem = ts.Problem(
        pieces,
        ts.Equation(-ts.Laplacian()),
        [ts.Neumann(0.0), ts.Measured([[0.5, 0.4], [2.75, 0.6]], [1.0, 3.0])],
    )
    solution = ts.solve(problem, subdomains=cells, features=30, coupling="interfaces")
    np.testing.assert_allclose(solution([[0.2, 0.3], [1.7, 0.8], [2.6, 0.2]]), [1, 1, 3], atol=1e-9)


def test_edges_along_an_interface_are_moved_aside_or_refused():
    domain = ts.Divided(ts.Box(x=(0, 1), y=(0, 1)), left=ts.HalfSpace(x=0.25, y=0, normal=(1, 0)))
    problem = ts.Problem(
        domain,
        ts.Equation(ts.Laplacian()),
        [ts.Dirichlet(lambda p: p[:, 0]), *ts.Transmission("left", "rest")],
    )
    moved = ts.solve(problem, subdomains=(4, 2), features=60, coupling="interfaces")
    np.testing.assert_allclose(moved([[0.2, 0.3], [0.6, 0.7]]), [0.2, 0.6], atol=1e-6)
    basis = ts.CellBasis(ts.Tiling(domain, 2).refined([0]), ts.RandomFeatures(30))
    with pytest.raises(ValueError, match=r"near \(0.25, .*edges beside it, or give subdomains="):
        ts.solve(problem, basis=ts.Fields(left=basis, rest=basis))
