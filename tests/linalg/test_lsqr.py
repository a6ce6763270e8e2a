"""LSQR finds the least-squares solution, and says why it stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.linalg.iterative.iteration import ADVICE, History, Stop

M, N = 20, 8


@pytest.fixture(scope="session")
def random_system(column_blocks):
    """(A, its dense form, b): 20 equations for 8 unknowns in two blocks; compatible or not."""

    def make(seed=0, compatible=False, condition=1e2):
        random = np.random.default_rng(seed)
        dense = random.standard_normal((M, N)) @ np.diag(np.geomspace(1, 1 / condition, N))
        b = dense @ random.standard_normal(N) if compatible else random.standard_normal(M)
        return column_blocks(dense, 2), dense, b

    return make


def run(solver, A, b, **hooks):
    return solver.solve(solver.init(A), b, **hooks)


def lstsq(dense, b):
    return np.linalg.lstsq(dense, b, rcond=None)[0]


@given(seed=st.integers(0, 1000), compatible=st.booleans(), condition=st.floats(1, 1e3))
def test_the_solution_is_that_of_dense_least_squares(random_system, seed, compatible, condition):
    A, dense, b = random_system(seed, compatible, condition)
    result = run(ts.LSQR(atol=1e-14, btol=1e-14), A, b)
    expected = lstsq(dense, b)
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    assert result.stop in (Stop.RESIDUAL, Stop.OPTIMUM)


@given(seed=st.integers(0, 1000))
def test_the_filtered_solution_is_that_of_the_kept_columns(random_system, seed):
    A, dense, b = random_system(seed, condition=1e9)
    filtered = ts.RRQR(1e-2).apply(A)
    assert len(filtered.kept) < N
    result = run(ts.LSQR(atol=1e-14, btol=1e-14), filtered.Q, b)
    a = np.asarray(filtered.preconditioner.apply(result.x))
    dropped = np.setdiff1d(np.arange(N), filtered.kept)
    assert np.all(a[dropped] == 0)
    expected = lstsq(dense[:, filtered.kept], b)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(a[filtered.kept], expected, rtol=0, atol=1e-8 * scale)


def test_the_preconditioner_saves_iterations(random_system):
    A, _, b = random_system(condition=1e6)
    filtered = ts.RRQR(0.0).apply(A)
    plain, preconditioned = run(ts.LSQR(), A, b), run(ts.LSQR(), filtered.Q, b)
    assert preconditioned.iterations < plain.iterations


def test_histories_have_one_entry_per_iteration_and_tell_the_truth(random_system):
    A, dense, b = random_system()
    for count in (1, 5, 7):
        result = run(ts.LSQR(max_iterations=count, atol=0, btol=0), A, b)
        residual = dense @ np.asarray(result.x) - b
        history = result.history
        assert result.iterations == count
        assert history.residual.shape == history.normal_residual.shape == (count,)
        assert history.residual[-1] == pytest.approx(np.linalg.norm(residual), rel=1e-9)
        assert result.residual_norm == history.residual[-1]
        normal = np.linalg.norm(dense.T @ residual)
        assert history.normal_residual[-1] == pytest.approx(normal, rel=1e-6, abs=1e-12)
        assert np.all(np.diff(history.residual) <= 0)
        assert np.all(np.isnan(history.error))


def test_stop_when_the_residual_is_small(random_system):
    A, _, b = random_system(compatible=True)
    result = run(ts.LSQR(), A, b)
    assert result.stop == Stop.RESIDUAL
    assert result.residual_norm <= 1e-8 * np.linalg.norm(b)
    assert result.advice == ""


def test_stop_at_the_optimum(random_system):
    A, dense, b = random_system()
    result = run(ts.LSQR(atol=1e-8), A, b)
    assert result.stop == Stop.OPTIMUM
    residual = dense @ np.asarray(result.x) - b
    relative = np.linalg.norm(dense.T @ residual) / np.linalg.norm(dense) / np.linalg.norm(residual)
    assert relative <= 1e-8


def test_stop_at_once_for_a_zero_right_hand_side(random_system):
    A, _, b = random_system()
    result = run(ts.LSQR(), A, 0 * b)
    assert (result.stop, result.iterations, result.residual_norm) == (Stop.ZERO, 0, 0.0)
    assert np.all(np.asarray(result.x) == 0)
    assert len(result.history.residual) == 0
    assert result.history.oracle() is None


def test_stop_at_once_when_zero_is_already_optimal(column_blocks, rng):
    dense = rng.standard_normal((M, N))
    dense[10:] = 0.0
    b = np.zeros(M)
    b[15] = 2.0
    result = run(ts.LSQR(), column_blocks(dense, 2), b)
    assert (result.stop, result.iterations, result.residual_norm) == (Stop.OPTIMUM, 0, 2.0)
    assert np.all(np.asarray(result.x) == 0)


def test_stop_at_the_iteration_limit(random_system):
    A, _, b = random_system()
    result = run(ts.LSQR(max_iterations=3), A, b)
    assert (result.stop, result.iterations) == (Stop.LIMIT, 3)
    assert "raise max_iterations" in result.advice


def test_stop_when_the_residual_stagnates(random_system):
    A, dense, b = random_system()
    result = run(ts.LSQR(atol=0.0, btol=1e-16, patience=50), A, b)
    assert (result.stop, result.iterations) == (Stop.STAGNATED, 100)
    assert "another sigma" in result.advice
    np.testing.assert_allclose(result.x, lstsq(dense, b), rtol=1e-8)


def test_patience_outlasts_a_plateau(random_system):
    A, _, b = random_system()
    patient = run(ts.LSQR(atol=0.0, btol=1e-16, patience=150), A, b)
    assert (patient.stop, patient.iterations) == (Stop.STAGNATED, 200)


def test_stop_when_interrupted_keeps_what_was_done(random_system):
    A, dense, b = random_system()

    def interrupt(done, limit, residual):
        raise KeyboardInterrupt

    result = run(ts.LSQR(atol=0, btol=0), A, b, progress=interrupt)
    assert (result.stop, result.iterations) == (Stop.INTERRUPTED, 100)
    assert len(result.history.residual) == 100
    assert "last finished iterations" in result.advice
    np.testing.assert_allclose(result.x, lstsq(dense, b), rtol=1e-8)


def test_stop_when_numbers_overflow(random_system, column_blocks):
    _, dense, b = random_system()
    result = run(ts.LSQR(), column_blocks(1e200 * dense, 2), b)
    assert result.stop == Stop.NOT_FINITE
    assert "huge values" in result.advice


def test_every_reason_to_stop_early_comes_with_advice():
    good = {Stop.RESIDUAL, Stop.OPTIMUM, Stop.ZERO, Stop.DIRECT}
    assert set(ADVICE) == set(Stop) - good


def test_zero_tolerances_force_every_iteration(random_system):
    A, dense, b = random_system()
    seen = []
    result = run(
        ts.LSQR(max_iterations=250, atol=0, btol=0),
        A,
        b,
        progress=lambda *figures: seen.append(figures),
    )
    assert (result.stop, result.iterations) == (Stop.LIMIT, 250)
    assert [(done, limit) for done, limit, _ in seen] == [(100, 250), (200, 250), (250, 250)]
    assert seen[-1][2] == pytest.approx(result.residual_norm / np.linalg.norm(b))
    np.testing.assert_allclose(result.x, lstsq(dense, b), rtol=1e-8)


def distance(target, y):
    return jnp.linalg.norm(y - target)


def test_errors_are_measured_when_due_and_the_oracle_picks_the_smallest(random_system):
    A, dense, b = random_system()
    monitor = jax.tree_util.Partial(distance, jnp.asarray(lstsq(dense, b)))
    result = run(ts.LSQR(max_iterations=35, atol=0, btol=0, track_every=10), A, b, monitor=monitor)
    measured = np.flatnonzero(np.isfinite(result.history.error)) + 1
    np.testing.assert_array_equal(measured, [*range(1, 11), 20, 30])
    iteration, error = result.history.oracle()
    assert error == np.nanmin(result.history.error) < 1e-8
    assert result.history.error[iteration - 1] == error
    every = run(ts.LSQR(max_iterations=35, atol=0, btol=0, track_every=1), A, b, monitor=monitor)
    np.testing.assert_allclose(
        every.history.error[measured - 1], result.history.error[measured - 1]
    )
    assert not np.isnan(every.history.error).any()


@pytest.mark.parametrize("compatible", [False, True])
def test_a_forced_run_tells_where_the_default_rule_would_have_stopped(random_system, compatible):
    A, dense, b = random_system(compatible=compatible)
    monitor = jax.tree_util.Partial(distance, jnp.asarray(lstsq(dense, b)))
    default = run(ts.LSQR(track_every=1), A, b, monitor=monitor)
    forced = run(ts.LSQR(max_iterations=35, atol=0, btol=0, track_every=1), A, b, monitor=monitor)
    assert default.rule is None
    assert default.stop == (Stop.RESIDUAL if compatible else Stop.OPTIMUM)
    assert forced.rule == (default.iterations, forced.history.error[default.iterations - 1])


def test_without_errors_there_is_no_oracle_and_no_rule(random_system):
    A, _, b = random_system()
    result = run(ts.LSQR(max_iterations=5, atol=0, btol=0), A, b)
    assert result.history.oracle() is None
    assert result.rule is None
    assert History().oracle() is None


def test_the_matrix_serves_several_right_hand_sides(random_system):
    A, dense, b = random_system()
    solver = ts.LSQR(atol=1e-14, btol=1e-14)
    state = solver.init(A)
    for rhs in (b, 1e10 * b, 1e-10 * np.ones(M)):
        expected = lstsq(dense, rhs)
        np.testing.assert_allclose(solver.solve(state, rhs).x, expected, rtol=1e-8)


def test_the_right_hand_side_must_fit_and_be_finite(random_system):
    A, _, b = random_system()
    with pytest.raises(ValueError, match=r"shape \(19,\), but the matrix has 20 rows"):
        run(ts.LSQR(), A, b[:-1])
    with pytest.raises(ValueError, match="right-hand side contains NaN or infinity"):
        run(ts.LSQR(), A, b * np.nan)


def test_whole_numbers_may_be_written_as_floats():
    assert ts.LSQR(max_iterations=1e3) == ts.LSQR(max_iterations=1000)
