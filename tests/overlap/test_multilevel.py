"""Several levels in one basis, and patches of blocks filtered together."""

from functools import cache

import jax
import numpy as np
import pytest

import tessella as ts
from tessella.linalg.block_matrix import BlockMatrix, beside
from tessella.linalg.iterative.iteration import Stop
from tessella.overlap.system import assemble
from tessella.solution.monitor import error_monitor


def laplace(n):
    return ts.gallery.get("laplace").problem(n=n)


def basis_on(problem, S, K=16):
    return ts.Basis(ts.Decomposition(problem.domain, S, 2.9), ts.RandomFeatures(K), 0)


def test_a_pyramid_halves_down_to_the_coarsest():
    problem = laplace(3)
    pyramid = ts.Multilevel.pyramid(basis_on(problem, (8, 4)), coarsest=2)
    assert [level.decomposition.subdomains for level in pyramid.levels] == [(2, 2), (4, 2), (8, 4)]
    assert pyramid.columns == 17 * (4 + 8 + 32)
    assert len({level.seed for level in pyramid.levels}) == 3


def test_bad_pyramids_are_refused():
    problem = laplace(3)
    with pytest.raises(ValueError, match="coarsest must be at least 2, got 1"):
        ts.Multilevel.pyramid(basis_on(problem, 8), coarsest=1)
    with pytest.raises(ValueError, match="at least one level"):
        ts.Multilevel(())
    other = ts.Basis(ts.Decomposition(ts.Box(x=(0, 2), y=(0, 1)), 2), ts.RandomFeatures(4))
    with pytest.raises(ValueError, match="share one domain"):
        ts.Multilevel((basis_on(problem, 2), other))


def test_columns_of_all_levels_stand_side_by_side():
    problem = laplace(2)
    pyramid = ts.Multilevel.pyramid(basis_on(problem, 4, 6))
    rows = ts.Grid(3.0).rows(problem, pyramid)
    whole = assemble(problem, pyramid, rows).M.to_dense()
    parts = [assemble(problem, level, rows).M.to_dense() for level in pyramid.levels]
    assert np.allclose(whole, np.concatenate(parts, axis=1), atol=1e-13)


def test_multilevel_solutions_evaluate_save_and_load(tmp_path):
    problem = laplace(2)
    pyramid = ts.Multilevel.pyramid(basis_on(problem, 4, 30))
    solution = ts.solve(problem, basis=pyramid, oversampling=3.0)
    assert solution.report.error["l1_normalised"] < 1e-4
    again = ts.load(solution.save(tmp_path / "two-level"), problem=problem)
    points = problem.domain.grid((7, 5))
    assert np.array_equal(again(points), solution(points))
    assert isinstance(again.basis, ts.Multilevel)


@cache
def iterations(basis, n, solver=ts.LSQR, patch=1, target=1e-2):
    problem = laplace(n)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    filtered = ts.RRQR(1e-8, patch=patch).apply(system.M)
    monitor = error_monitor(problem, basis, filtered.preconditioner, problem.domain.grid((24, 24)))
    most = 60 if solver is ts.LSQR else 20
    method = solver(max_iterations=most, atol=0, btol=0, track_every=1)
    result = method.solve(method.init(filtered.Q), system.h, monitor)
    return int(np.flatnonzero(result.history.error <= target)[0]) + 1


SINGLE = basis_on(laplace(3), 8)


def test_coarse_levels_save_iterations():
    single = iterations(SINGLE, 3)
    assert iterations(ts.Multilevel.pyramid(SINGLE), 3) < 0.8 * single
    assert iterations(ts.Multilevel.two(SINGLE), 3, ts.DeflatedLSQR) <= 0.3 * single


def test_iterations_with_a_deflated_level_do_not_grow_with_the_subdomains():
    few = iterations(ts.Multilevel.two(SINGLE), 3, ts.DeflatedLSQR)
    assert iterations(ts.Multilevel.two(basis_on(laplace(4), 16)), 4, ts.DeflatedLSQR) <= few


def test_patches_resolve_overlap_and_save_iterations():
    assert iterations(SINGLE, 3, patch=2) < iterations(SINGLE, 3)


@pytest.fixture
def two_levels(column_blocks, rng):
    """A random matrix of 8 coarse and 40 fine columns, and a right-hand side."""
    coarse, fine = rng.standard_normal((120, 8)), rng.standard_normal((120, 40))
    fine += 3 * coarse @ rng.standard_normal((8, 40))
    A = beside([column_blocks(coarse, 2), column_blocks(fine, 8)])
    groups = tuple(g._replace(coarse=g.level == 0) for g in A.groups)
    return BlockMatrix(groups, A.shape), rng.standard_normal(120), 8


def test_deflated_lsqr_finds_the_least_squares_solution_of_all_levels(two_levels):
    A, h, _ = two_levels
    best = np.linalg.lstsq(A.to_dense(), h, rcond=None)[0]
    solver = ts.DeflatedLSQR(atol=1e-12, patience=1_000)
    result = solver.solve(solver.init(A), h)
    assert np.allclose(result.x, best, rtol=1e-8, atol=1e-8)
    assert result.residual_norm == pytest.approx(np.linalg.norm(A.to_dense() @ best - h))
    assert result.stop is Stop.OPTIMUM
    assert result.iterations < 0.8 * ts.LSQR(atol=1e-12).solve(A, h).iterations


def test_deflation_leaves_nothing_the_coarse_level_can_represent(two_levels, rng):
    A, _, split = two_levels
    state = ts.DeflatedLSQR().init(A)
    dense = A.to_dense()
    coarse, fine = dense[:, :split], dense[:, split:]
    z = np.concatenate([np.zeros(split), rng.standard_normal(dense.shape[1] - split)])
    u = np.asarray(state.left_over(rng.standard_normal(len(dense))))
    image = np.asarray(state.matvec(z))
    assert np.abs(coarse.T @ image).max() < 1e-10 * np.linalg.norm(image)
    assert np.dot(image, u) == pytest.approx(np.dot(z, state.rmatvec(u)), rel=1e-9)
    assert np.allclose(state.rmatvec(u)[split:], fine.T @ u, atol=1e-12)


def test_on_one_level_deflated_lsqr_is_lsqr():
    problem = laplace(2)
    basis = basis_on(problem, 4, 10)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    A = ts.RRQR(1e-4).apply(system.M).Q
    short = {"max_iterations": 12, "atol": 0, "btol": 0}
    deflated = ts.DeflatedLSQR(**short)
    there = deflated.solve(deflated.init(A), system.h)
    here = ts.LSQR(**short).solve(A, system.h)
    assert np.allclose(there.history.residual, here.history.residual, rtol=1e-10)


def test_an_interrupted_deflated_run_keeps_its_iterations(two_levels):
    A, h, _ = two_levels
    solver = ts.DeflatedLSQR(atol=0, btol=0)

    def press_after_three(done, most, residual):
        if done == 3:
            raise KeyboardInterrupt

    state = solver.init(A)
    result = solver.solve(state, h, progress=press_after_three)
    assert (result.iterations, result.stop) == (3, Stop.INTERRUPTED)
    three = ts.DeflatedLSQR(max_iterations=3, atol=0, btol=0).solve(state, h)
    assert np.allclose(result.x, three.x)


def test_deflated_lsqr_does_not_drift():
    """F^T u instead of F^T P u would end 90 % above the least residual."""
    problem = ts.gallery.get("harmonic-oscillator").problem(omega0=10)
    basis = ts.Multilevel.two(ts.Basis(ts.Decomposition(problem.domain, 4), ts.RandomFeatures(6)))
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    A = ts.RRQR(1e-8).apply(system.M).Q
    solver = ts.DeflatedLSQR(max_iterations=300, atol=0, btol=0)
    reached = solver.solve(solver.init(A), system.h).residual_norm
    assert reached == pytest.approx(ts.NestedQR().init(A).solve(system.h)[1], rel=1e-4)


def test_what_the_coarse_level_explains_needs_no_iteration(two_levels):
    A, _, split = two_levels
    coarse = A.to_dense()[:, :split]
    solver = ts.DeflatedLSQR()
    result = solver.solve(solver.init(A), list(coarse @ np.ones(split)))
    assert (result.iterations, result.stop) == (0, Stop.RESIDUAL)
    assert np.allclose(result.x, np.arange(A.shape[1]) < split)


def test_unknowns_of_a_system_are_not_levels():
    square = ts.Box(x=(0, 1), y=(0, 1))
    one = ts.Basis(ts.Decomposition(square, 2), ts.RandomFeatures(5))
    u, v = ts.Field("u"), ts.Field("v")
    problem = ts.Problem(
        square,
        [ts.Equation(ts.Laplacian() @ u + 1.0 * v), ts.Equation(ts.Laplacian() @ v, 1.0)],
        [ts.Dirichlet(of=u), ts.Dirichlet(of=v)],
    )
    fields = ts.Fields(u=one, v=one)
    M = assemble(problem, fields, ts.Grid(2.0).rows(problem, fields)).M
    assert len(set(M.levels())) == 2
    assert ts.DeflatedLSQR().init(M).coarse is None


def test_integrals_are_eliminated_with_the_coarse_level():
    square = ts.Box(x=(0, 1), y=(0, 1))
    problem = ts.Problem(square, ts.Equation(ts.Laplacian()), [ts.Neumann(), ts.MeanZero()])
    basis = ts.Multilevel.two(ts.Basis(ts.Decomposition(square, 4), ts.RandomFeatures(5)))
    M = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis)).M
    state = ts.DeflatedLSQR().init(M)
    split = basis.levels[0].columns

    def columns(part):
        return set(np.concatenate([np.unique(own.columns) for own in part.blocks()]).tolist())

    assert columns(state.fine) == set(range(split, basis.columns))
    assert columns(state.coarse) == {*range(split), *range(basis.columns, M.shape[1])}
    assert M.shape[1] > basis.columns


@pytest.mark.parametrize(("S", "overlap", "coarse"), [(8, 2.0, 2), (8, 2.9, 3), (4, 2.0, 2)])
def test_two_levels_around_a_periodic_axis(S, overlap, coarse):
    ring = ts.Box(x=(0, 1), y=(0, 1))
    problem = ts.Problem(
        ring, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet(on="ymin"), ts.Periodic("x")]
    )
    basis = ts.Basis(ts.Decomposition(problem.domain, (S, S), overlap), ts.RandomFeatures(4))
    assert ts.Multilevel.two(basis).levels[0].decomposition.subdomains == (coarse, S // 4)


def test_two_levels_by_name():
    problem = laplace(2)
    basis = ts.Multilevel.two(basis_on(problem, 4, 10), ratio=2)
    assert [level.decomposition.subdomains for level in basis.levels] == [(2, 2), (4, 4)]
    solution = ts.solve(problem, basis=basis, solver="rrqr-deflated-lsqr", max_iterations=60)
    assert solution.report.solver == "rrqr-deflated-lsqr"
    assert solution.report.error["l1_normalised"] < 2e-3
    with pytest.raises(ValueError, match="ratio must be a whole number of at least 2, got 1"):
        ts.Multilevel.two(SINGLE, 1)


def test_patches_keep_the_least_squares_problem():
    problem = laplace(2)
    basis = basis_on(problem, 4)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    merged = ts.RRQR(0.0, patch=2).apply(system.M)
    assert np.array_equal(merged.kept, np.arange(basis.columns))
    for block in merged.Q.blocks():
        gram = block.values.T @ block.values
        assert np.allclose(gram, np.eye(len(gram)), atol=1e-12)
    y, _ = ts.NestedQR().init(merged.Q).solve(system.h)
    a = np.asarray(merged.preconditioner.apply(y))
    dense = np.linalg.lstsq(system.M.to_dense(), system.h, rcond=None)[0]
    assert np.linalg.norm(system.M.matvec(a) - system.h) == pytest.approx(
        np.linalg.norm(system.M.matvec(dense) - system.h), rel=1e-8
    )


def test_back_substitution_does_not_call_the_batched_solve_that_deadlocks():
    """Two groups solved side by side by jaxlib's trsm hang on two cores; ours is plain XLA."""
    problem = laplace(3)
    pyramid = ts.Multilevel.pyramid(basis_on(problem, 8, 6))
    system = assemble(problem, pyramid, ts.Grid(3.0).rows(problem, pyramid))
    preconditioner = ts.RRQR(1e-8).apply(system.M).preconditioner
    assert len(preconditioner.groups) > 1
    y = np.ones(pyramid.columns)
    compiled = jax.jit(lambda p, y: p.apply(y)).lower(preconditioner, y).compile()
    assert "trsm" not in compiled.as_text()


def test_patches_never_join_blocks_of_two_levels():
    problem = laplace(3)
    pyramid = ts.Multilevel.pyramid(basis_on(problem, 8, 6))
    M = assemble(problem, pyramid, ts.Grid(3.0).rows(problem, pyramid)).M
    ends = np.cumsum([level.columns for level in pyramid.levels])
    merged = ts.RRQR(0.0, patch=2).apply(M).Q
    counts = [0, 0, 0]
    for block, level in zip(merged.blocks(), merged.levels(), strict=True):
        assert set(np.searchsorted(ends, block.columns, side="right")) == {level}
        counts[level] += 1
    assert counts == [1, 4, 16]
    dense = M.to_dense()
    for block in merged.blocks():
        assert np.linalg.matrix_rank(dense[:, block.columns]) == len(block.columns)
