"""Collocation points, and the rows of the least-squares problem at them."""

import numpy as np
import pytest

import tessella as ts
import tessella.overlap.matrices as assembly
from tessella.overlap.matrices import evaluate_at, evaluate_matrix
from tessella.overlap.system import assemble

PLANE = ts.Box(x=(0, 1), y=(0, 2))


def basis_on(domain, subdomains, features=8, constant=True, overlap=2.0):
    decomposition = ts.Decomposition(domain, subdomains, overlap)
    return ts.Basis(decomposition, ts.RandomFeatures(features, constant=constant), seed=1)


@pytest.mark.parametrize(
    ("domain", "subdomains", "features", "oversampling", "expected"),
    [
        (ts.Box(t=(0, 1)), 20, 8, 1.0, (180,)),  # the paper's oscillator: 20 * 9
        (PLANE, 16, 16, 1.0, (80, 80)),  # the paper's Laplacian: 16 * ceil(17^(1/2))
        (ts.Box(x=(0, 1), y=(0, 1), t=(0, 1)), 8, 8, 1.0, (24, 24, 24)),  # 8 * ceil(9^(1/3))
        (PLANE, (3, 1), 8, 1.0, (9, 3)),
        (PLANE, 3, 8, 4.0, (18, 18)),
        (ts.Box(t=(0, 1)), 4, 8, 2.5, (90,)),
    ],
)
def test_the_grid_has_as_many_points_as_the_paper_says(
    domain, subdomains, features, oversampling, expected
):
    basis = basis_on(domain, subdomains, features)
    assert ts.Grid(oversampling).counts(basis) == expected


def test_points_per_axis_override_the_rule():
    basis = basis_on(PLANE, 3)
    assert ts.Grid(points_per_axis=7).counts(basis) == (7, 7)
    assert ts.Grid(points_per_axis=(7, 5)).counts(basis) == (7, 5)


def test_equations_hold_on_the_grid_and_conditions_on_its_faces():
    problem = ts.Problem(
        PLANE, ts.Equation(ts.Laplacian()), [ts.Dirichlet(0.0, on="xmin"), ts.Neumann(0.0)]
    )
    interior, left, walls = ts.Grid(points_per_axis=(4, 3)).rows(problem, basis_on(PLANE, 2))
    np.testing.assert_array_equal(interior.points, PLANE.grid((4, 3)))
    np.testing.assert_array_equal(left.points, [[0, 0], [0, 1], [0, 2]])
    assert len(walls.points) == 2 * 3 + 2 * 4
    centre = np.array([0.5, 1.0])
    assert np.all(np.sum(walls.normals * (walls.points - centre), axis=1) > 0)


def coefficient(p):
    return 1 + p[:, 0]


@pytest.fixture(scope="module")
def plane_system():
    """An equation and two conditions with weights, and a random function of the basis."""
    problem = ts.Problem(
        PLANE,
        ts.Equation(ts.Laplacian() + coefficient * ts.D(y=1), lambda p: np.sin(p[:, 0])),
        [
            ts.Dirichlet(lambda p: p[:, 1], on=("xmin", "ymax"), weight=3.0),
            ts.Robin(1.0, coefficient, 2.0, on="xmax", weight=0.5),
        ],
    )
    basis = basis_on(PLANE, (2, 3), features=5)
    return problem, basis, assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))


def test_the_objective_is_the_loss_of_the_paper(plane_system, combination, rng):
    """|M a - h|^2 = mean |L u - f|^2 + sum_l lambda_l mean |B_l u - g_l|^2."""
    problem, basis, system = plane_system
    a = rng.standard_normal(basis.columns)
    u = combination(problem, basis, a)
    interior, dirichlet, robin = ts.Grid(2.0).rows(problem, basis)
    x, b, r = interior.points, dirichlet.points, robin.points
    equation = u.apply(problem.equations[0].operator, x) - np.sin(x[:, 0])
    boundary = u(b) - b[:, 1]
    flux = u(r) + coefficient(r) * u.apply(ts.D(x=1), r) - 2.0
    loss = np.mean(equation**2) + 3.0 * np.mean(boundary**2) + 0.5 * np.mean(flux**2)
    residual = np.asarray(system.M.matvec(a)) - system.h
    assert residual @ residual == pytest.approx(loss, rel=1e-11)

    reported = system.residuals(a)
    assert list(reported) == ["equation", "dirichlet", "robin"]
    for found, part in zip(reported.values(), (equation, boundary, flux), strict=True):
        assert found == pytest.approx(np.sqrt(np.mean(part**2)), rel=1e-11)


def test_given_weights_are_kept(plane_system):
    assert plane_system[2].weights == {"equation": 1.0, "dirichlet": 3.0, "robin": 0.5}


def test_each_subdomain_reaches_only_the_rows_it_sees(plane_system):
    problem, basis, system = plane_system
    points = np.concatenate([r.points for r in ts.Grid(2.0).rows(problem, basis)])
    subdomain, point = basis.decomposition.seen(points)
    for j, block in enumerate(system.M.blocks()):
        np.testing.assert_array_equal(block.rows, point[subdomain == j])
        C = basis.features.columns
        np.testing.assert_array_equal(block.columns, np.arange(j * C, (j + 1) * C))


def test_automatic_weights_make_average_rows_equally_long():
    problem = ts.Problem(
        PLANE,
        ts.Equation(ts.Laplacian(), 1.0),
        [ts.Dirichlet(1.0, on="xmin"), ts.Neumann(0.0, on="xmax"), ts.Dirichlet(weight=7.0)],
    )
    basis = basis_on(PLANE, (2, 3), features=5)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    squares = np.square(system.M.to_dense()).sum(axis=1)
    length = {name: squares[rows].sum() for name, rows in system.parts.items()}
    assert length["dirichlet 1"] == pytest.approx(length["equation"], rel=1e-12)
    assert length["neumann"] == pytest.approx(length["equation"], rel=1e-12)
    assert system.weights["dirichlet 2"] == 7.0
    count = system.parts["dirichlet 1"].stop - system.parts["dirichlet 1"].start
    expected = np.sqrt(system.weights["dirichlet 1"] / count)
    np.testing.assert_allclose(system.h[system.parts["dirichlet 1"]], expected)


def test_two_equations_for_one_unknown_are_both_kept():
    equations = [ts.Equation(ts.D(x=1), 1.0), ts.Equation(ts.D(y=1), 2.0, weight=1.0)]
    problem = ts.Problem(PLANE, equations)
    basis = basis_on(PLANE, (2, 3), features=5)
    system = assemble(problem, basis, ts.Grid().rows(problem, basis))
    assert list(system.parts) == ["equation 1", "equation 2"]
    half = system.M.shape[0] // 2
    np.testing.assert_allclose(system.h, np.repeat([1.0, 2.0], half) / np.sqrt(half))


def test_the_lift_moves_to_the_right_hand_side(hard_problem, combination, rng):
    """u'' + u' + u = 1 with the offset 1 + sin x, whose image is 1 + cos x."""
    basis = basis_on(hard_problem.domain, 4)
    (rows,) = grid = ts.Grid(2.0).rows(hard_problem, basis)
    system = assemble(hard_problem, basis, grid)
    x = rows.points[:, 0]
    np.testing.assert_allclose(system.h, -np.cos(x) / np.sqrt(len(x)), atol=1e-14)
    a = rng.standard_normal(basis.columns)
    u = combination(hard_problem, basis, a)
    residual = u.apply(hard_problem.equations[0].operator, rows.points) - 1.0
    np.testing.assert_allclose(
        np.asarray(system.M.matvec(a)) - system.h, residual / np.sqrt(len(x)), atol=1e-10
    )


def test_the_ansatz_holds_its_condition_exactly(hard_problem, combination, rng):
    """Whatever the coefficients, u equals the offset where the multiplier vanishes."""
    basis = basis_on(hard_problem.domain, 4)
    u = combination(hard_problem, basis, 1e6 * rng.standard_normal(basis.columns))
    np.testing.assert_array_equal(u([0.0, 1.0]), 1 + np.sin([0.0, 1.0]))


def test_evaluation_at_points_is_affine_in_the_coefficients(hard_problem, combination, rng):
    basis = basis_on(hard_problem.domain, 4)
    a = rng.standard_normal(basis.columns)
    x = rng.uniform(0, 1, (11, 1))
    E, e = evaluate_at(hard_problem, basis, ts.D(x=1), x)
    expected = combination(hard_problem, basis, a).apply(ts.D(x=1), x)
    np.testing.assert_allclose(np.asarray(E.matvec(a)) + e, expected, rtol=1e-12, atol=1e-12)


def test_evaluation_in_pieces_and_buckets_changes_nothing(monkeypatch, rng):
    """Uneven points, blocks of many heights, a few blocks at a time."""
    basis = basis_on(PLANE, (3, 3), features=5)
    points = PLANE.upper * rng.uniform(0, 1, (90, 2)) ** 2
    symbol = {(1, 0): np.ones(90), (0, 1): points[:, 0]}
    whole = evaluate_matrix(basis, points, symbol)
    assert len(whole.groups) == 1
    monkeypatch.setattr(assembly, "bucket", lambda heights, width: np.where(heights > 40, 90, 40))
    monkeypatch.setattr(assembly, "CHUNK_BYTES", 6000)
    pieces = evaluate_matrix(basis, points, symbol)
    assert len(pieces.groups) == 2
    np.testing.assert_allclose(pieces.to_dense(), whole.to_dense(), rtol=1e-14, atol=1e-14)
