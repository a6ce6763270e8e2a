"""Solutions on boxes of different size: exact where they can be, refined where they are poor."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from problems import EXACT, PLANE, SMOOTH, SQUARE, bowl, on, stated, waves
from tessella.cells.boxes.basis import default_features
from tessella.cells.cell.draw import DRAWS
from tessella.cells.factoring import factor_cells
from tessella.cells.maps.shelf import Shelf
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.system.system import cell_system
from tessella.linalg.rrqr import RRQR
from tessella.solving.algorithm import run
from tessella.solving.ways import Parts

LINE = ts.Box(x=(0, 1))


def graded(domain):
    """Slabs of two widths along every axis."""
    cuts = [
        (low, low + 0.25 * (high - low), high)
        for low, high in zip(domain.lower, domain.upper, strict=True)
    ]
    return ts.Tiling(domain, cuts)


def cut(domain):
    """One box of a few in parts, and one of these again."""
    tiling = ts.Tiling(domain, 2).refined([0])
    return tiling.refined([2**domain.dimension - 1])


SHAPES = {"graded": graded, "cut": cut, "both": lambda domain: graded(domain).refined([1])}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EXACT)
def test_solutions_in_the_span_are_found_exactly(name, shape):
    problem, settings = EXACT[name]
    drawn = ts.RandomFeatures(settings["features"], activation=settings.get("activation", SQUARE))
    tiling = SHAPES[shape](problem.domain)
    each = [
        ts.CellBasis(tiling, drawn, seed, trace_degree=4) for seed in range(len(problem.fields))
    ]
    basis = ts.Fields(**dict(zip(problem.fields, each, strict=True))) if len(each) > 1 else each[0]
    report = ts.solve(problem, basis=basis, estimate=False).report
    assert report.error["max"] < 1e-9
    assert max(jump["max"] for jump in report.jumps.values()) < 1e-8


def test_equal_slabs_by_their_edges_give_the_same_answer():
    counted = ts.solve(SMOOTH, coupling="interfaces", subdomains=3, features=24)
    edges = (np.linspace(0, 2, 4), np.linspace(-1, 1, 4))
    edged = ts.solve(SMOOTH, coupling="interfaces", subdomains=edges, features=24)
    x = PLANE.grid((30, 30))
    np.testing.assert_allclose(edged(x), counted(x), atol=1e-9)
    assert edged.report.distinct_subdomains == counted.report.distinct_subdomains == 9
    assert edged.report.weights == pytest.approx(counted.report.weights)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_iteration_finds_what_merging_finds(shape):
    tiling = SHAPES[shape](PLANE)
    direct, iterated = (on(tiling, SMOOTH, solver=s) for s in (Merging(), Exchange()))
    x = PLANE.scatter(300, np.random.default_rng(0))
    np.testing.assert_allclose(iterated(x), direct(x), atol=1e-9)


@pytest.mark.parametrize("shape", ["graded", "cut"])
def test_residuals_are_root_mean_squares_over_the_domain(shape):
    solution = on(SHAPES[shape](PLANE), SMOOTH, features=12, estimate=False)
    x = PLANE.scatter(20_000, np.random.default_rng(0))
    mean = np.sqrt(np.mean((solution.apply(-ts.Laplacian(), x) - SMOOTH.equations[0].rhs(x)) ** 2))
    assert solution.report.residual["equation"] == pytest.approx(mean, rel=0.3)
    rows = [PLANE.scatter_on(f, 5_000, np.random.default_rng(1), PLANE)[0] for f in PLANE.faces]
    edge = np.concatenate(rows)
    mean = np.sqrt(np.mean((solution(edge) - np.asarray(waves(edge))) ** 2))
    assert solution.report.residual["dirichlet"] == pytest.approx(mean, rel=0.3)


def test_a_box_next_to_smaller_ones_loses_nothing():
    """Cutting one box of a resolved solution leaves its accuracy."""
    even = on(ts.Tiling(PLANE, 3), SMOOTH, features=48, estimate=False).report
    finer = on(ts.Tiling(PLANE, 3).refined([4]), SMOOTH, features=48, estimate=False).report
    assert finer.error["l2_relative"] < 3 * even.error["l2_relative"]
    assert finer.jumps["value"]["max"] < 3 * even.jumps["value"]["max"]


def test_conditions_of_every_kind_on_boxes_of_every_size():
    """Measurements, an integral, and a part of a face."""
    x = PLANE.scatter(40, np.random.default_rng(3))
    by_points = stated(PLANE, -ts.Laplacian(), bowl, ts.Dirichlet(bowl), ts.Measured(x, bowl(x)))
    drawn = ts.RandomFeatures(8, activation=SQUARE)
    for shape in SHAPES.values():
        tiling = shape(PLANE)
        solution = on(tiling, by_points, drawn=drawn, degree=2, estimate=False)
        assert solution.report.error["max"] < 1e-8
        assert max(solution.report.residual.values()) < 1e-7

        mean = float(solution.integral())
        flux = ts.Neumann(lambda p: 2 * p[:, 0] - 3 * p[:, 1], on=lambda p: p[:, 0] > 1.999)
        parts = [ts.Dirichlet(bowl, on=("ymin", "ymax")), flux, ts.Integral(mean)]
        around = stated(PLANE, -ts.Laplacian(), bowl, *parts)
        assert on(tiling, around, drawn=drawn, degree=2, estimate=False).report.error["max"] < 1e-6


def test_systems_and_enrichment():
    stokes = ts.gallery.get("stokes").problem()
    tiling = ts.Tiling(stokes.domain, 2).refined([1])
    each = [ts.CellBasis(tiling, default_features(60, 2), seed) for seed in range(3)]
    basis = ts.Fields(**dict(zip(stokes.fields, each, strict=True)))
    report = ts.solve(stokes, basis=basis, estimate=False).report
    assert report.error["l2_relative"] < 1e-3

    def kink(p):
        return jnp.exp(40 * (p[:, 0] - 2)) * p[:, 1]

    sharp = stated(PLANE, -ts.Laplacian(), kink, ts.Dirichlet(kink))
    for shape in SHAPES.values():
        tiling = shape(PLANE)
        extra = (ts.Enrichment(kink),)
        basis = ts.CellBasis(tiling, default_features(20, 2), enrichment=extra)
        assert ts.solve(sharp, basis=basis, estimate=False).report.error["max"] < 1e-9


def test_solutions_are_saved_with_their_boxes(tmp_path):
    for name, shape in SHAPES.items():
        solution = on(shape(PLANE), SMOOTH, features=12, estimate=False)
        solution.save(tmp_path / f"{name}.npz")
        again = ts.load(tmp_path / f"{name}.npz", SMOOTH)
        assert again.basis.decomposition == solution.basis.decomposition
        x = PLANE.scatter(50, np.random.default_rng(0))
        np.testing.assert_array_equal(again(x), solution(x))


def test_periodic_axes_close_over_boxes_of_different_size():
    def around(p):
        return jnp.exp(jnp.sin(2 * jnp.pi * p[:, 0])) * jnp.cos(p[:, 1])

    domain = ts.Box(x=(0, 1), y=(0, 1))
    problem = stated(
        domain, -ts.Laplacian(), around, ts.Periodic("x"), ts.Dirichlet(around, on=("ymin", "ymax"))
    )
    tiling = ts.Tiling(problem.domain, ([0, 0.4, 1], 2)).refined([0])
    report = on(tiling, problem, features=160, estimate=False).report
    assert report.error["l2_relative"] < 1e-5
    assert report.jumps["value"]["max"] < 1e-4


def test_a_march_takes_graded_slabs():
    heat = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 0.4)),
        ts.Equation(ts.D(t=1) - ts.D(x=2)),
        [ts.Dirichlet(0.0), ts.Initial(lambda p: np.sin(np.pi * p[:, 0]))],
        exact=lambda p: np.sin(np.pi * p[:, 0]) * np.exp(-(np.pi**2) * p[:, 1]),
    )
    edges = ([0, 0.25, 1], 2)
    marched = ts.march(heat, 2, subdomains=edges, features=60, coupling="interfaces")
    assert marched.report.error["l2_relative"] < 1e-4


# Reuse


def test_what_stays_is_not_factored_again_and_the_answer_is_the_same():
    tiling = ts.Tiling(PLANE, 4)
    finer = tiling.refined([5])
    shelf = Shelf()

    def solved(own, shelf):
        basis = ts.CellBasis(own, default_features(30, 2))
        return run(SMOOTH, Parts(basis, ts.Grid(2.0), RRQR(1e-14), Merging()), shelf=shelf)

    first = solved(tiling, shelf)
    assert first.report.reused_subdomains == 0
    second, fresh = solved(finer, shelf), solved(finer, None)
    assert fresh.report.reused_subdomains == 0
    assert second.report.distinct_subdomains == fresh.report.distinct_subdomains
    new = second.report.distinct_subdomains - second.report.reused_subdomains
    assert new == 5, "the parts, and four neighbours that now have two on one side"
    x = PLANE.grid((40, 40))
    np.testing.assert_allclose(second(x), fresh(x), atol=1e-9)
    assert solved(finer, shelf).report.reused_subdomains == second.report.distinct_subdomains


def test_groups_that_stay_are_not_joined_again():
    tiling, shelf, found = ts.Tiling(PLANE, 8), Shelf(), []
    for own in (tiling, tiling.refined([0])):
        basis = ts.CellBasis(own, default_features(12, 2))
        system = cell_system(SMOOTH, basis, ts.Grid(2.0))
        found.append(factor_cells(system, RRQR(1e-14), None, shelf=shelf).joined)
    assert found[0].reused == 0
    joins = sum(
        len(d.pairs) for d, join in zip(found[1].distinct, found[1].joins, strict=True) if join
    )
    assert 0.5 * joins < found[1].reused < joins, "those far from the corner that was cut"


def test_other_features_or_coefficients_are_not_taken_from_the_shelf():
    shelf = Shelf()
    tiling, drawn = ts.Tiling(PLANE, 2), default_features(12, 2)
    stretched = stated(PLANE, -ts.D(x=2) - 2 * ts.D(y=2), waves, ts.Dirichlet(waves))
    variants = [
        (SMOOTH, drawn, 0, RRQR(1e-14)),
        (SMOOTH, dataclasses.replace(drawn, scale=1.0), 0, RRQR(1e-14)),
        (SMOOTH, drawn, 1, RRQR(1e-14)),
        (stretched, drawn, 0, RRQR(1e-14)),
    ]
    for problem, features, seed, rule in variants:
        basis = ts.CellBasis(tiling, features, seed)
        report = run(problem, Parts(basis, ts.Grid(2.0), rule, Merging()), shelf=shelf).report
        assert report.reused_subdomains == 0
    basis = ts.CellBasis(tiling, drawn)
    coarse = run(SMOOTH, Parts(basis, ts.Grid(2.0), RRQR(1e-2), Merging()), shelf=shelf).report
    assert coarse.reused_subdomains == 0 and coarse.columns_kept < coarse.columns


def test_a_draw_that_was_forgotten_is_not_mistaken_for_another(monkeypatch):
    """Names are made of numbers, not of places in memory that are used again."""
    monkeypatch.setattr(DRAWS, "most", 1)
    shelf = Shelf()
    for seed in range(60):
        basis = ts.CellBasis(ts.Tiling(PLANE, 2), default_features(8, 2), seed)
        report = run(SMOOTH, Parts(basis, ts.Grid(2.0), RRQR(1e-14), Merging()), shelf=shelf).report
        assert report.reused_subdomains == 0


def test_a_full_shelf_lets_go_of_what_was_used_longest_ago():
    shelf = Shelf(most=3 * 80)
    for name in (b"a", b"b", b"c"):
        shelf.put_join(name, (np.zeros(10), None))
    shelf.join(b"a")
    shelf.put_join(b"d", (np.zeros(10), None))
    assert [shelf.join(name) is not None for name in (b"a", b"b", b"c", b"d")] == [1, 0, 1, 1]
    assert shelf.cell(b"a") is None, "cells and groups of them have names of their own"


def test_a_shelf_that_is_too_small_changes_nothing():
    basis = ts.CellBasis(ts.Tiling(PLANE, 2), default_features(12, 2))
    x = PLANE.grid((9, 9))

    def solved(shelf):
        return run(SMOOTH, Parts(basis, ts.Grid(2.0), RRQR(1e-14), Merging()), shelf=shelf)(x)

    large = Shelf()
    expected = solved(large)
    small = Shelf(most=large._bytes // 2)
    for _ in range(2):
        np.testing.assert_array_equal(solved(small), expected)
    assert 0 < len(small) < len(large) and small._bytes <= small.most


# Every box and nothing but the box


def test_an_integral_is_the_same_with_and_without_a_shelf():
    """Its rows are scaled by how many boxes there are."""
    mean = float(on(ts.Tiling(PLANE, 4), SMOOTH, features=60, estimate=False).integral())
    sides = [
        ts.Neumann(lambda p, s=s: s * 3 * np.cos(3 * p[:, 0] + 1) * np.cos(2 * p[:, 1]), on=face)
        for s, face in ((-1, "xmin"), (1, "xmax"))
    ]
    sides += [
        ts.Neumann(lambda p, s=s: -s * 2 * np.sin(3 * p[:, 0] + 1) * np.sin(2 * p[:, 1]), on=face)
        for s, face in ((-1, "ymin"), (1, "ymax"))
    ]
    problem = stated(PLANE, -ts.Laplacian(), waves, *sides, ts.Integral(mean))
    shelf = Shelf()
    for tiling in (ts.Tiling(PLANE, 4), ts.Tiling(PLANE, 4).refined([5])):
        basis = ts.CellBasis(tiling, default_features(60, 2))
        solution = run(problem, Parts(basis, ts.Grid(2.0), RRQR(1e-14), Merging()), shelf=shelf)
        assert solution.report.error["l2_relative"] < 1e-4
        assert float(solution.integral()) == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("shape", ["cut", "both"])
def test_integrals_over_boxes_of_different_size_are_exact(shape):
    tiling = SHAPES[shape](PLANE)
    solution = on(tiling, SMOOTH, features=12, estimate=False)
    x, w = np.polynomial.legendre.leggauss(40)
    whole = 0.0
    for c, h in zip(tiling.centres, tiling.half_widths, strict=True):
        points = np.stack(np.meshgrid(c[0] + h[0] * x, c[1] + h[1] * x, indexing="ij"), -1)
        values = solution(points.reshape(-1, 2)).reshape(40, 40)
        whole += float(w @ values @ w) * h[0] * h[1]
    assert float(solution.integral()) == pytest.approx(whole, abs=1e-12)


def test_four_dimensions_have_an_estimate_too():
    box = ts.Box(x=(0, 1), y=(0, 1), z=(0, 1), w=(0, 1))
    problem = ts.Problem(box, ts.Equation(ts.Identity(), 1.0), exact=lambda p: 1 + 0 * p[:, 0])
    solution = ts.solve(
        problem,
        subdomains=([0, 0.3, 1], 1, 1, 1),
        features=6,
        coupling="interfaces",
        trace_degree=1,
        estimate=True,
    )
    assert solution.report.error["l2_relative"] <= solution.report.error_estimate <= 1e-12


def test_enrichment_is_asked_only_in_boxes_that_have_it():
    square = ts.Box(x=(0, 1), y=(0, 1))

    def edge(p):
        return jnp.sqrt(p[:, 0] + p[:, 1] - 0.5) * p[:, 0]

    tiling = ts.Tiling(square, 2).refined([0])
    where = ts.Box(x=(0.3, 0.6), y=(0.3, 0.4))
    basis = ts.CellBasis(tiling, default_features(20, 2), enrichment=(ts.Enrichment(edge, where),))
    problem = ts.Problem(square, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet()])
    assert np.isfinite(ts.solve(problem, basis=basis, estimate=False)(square.grid((9, 9)))).all()


def test_no_row_is_asked_for_nothing():
    basis = ts.CellBasis(ts.Tiling(PLANE, 3).refined([4]), default_features(10, 2))
    for part in cell_system(SMOOTH, basis, ts.Grid(2.0)).asked:
        asked = sum(np.abs(c) for c in part.symbol.values())
        assert asked.shape == (len(part.members), len(part.slot)) and asked.min() > 0
