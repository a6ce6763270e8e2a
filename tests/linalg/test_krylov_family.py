"""LSQR, LSMR, CG and Schwarz-CG: one contract, held against dense least squares."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella.linalg.block_matrix import Block, BlockMatrix, Group, from_blocks
from tessella.linalg.iterative.gramian import gramian
from tessella.linalg.iterative.iteration import CHUNK, Stop
from tessella.linalg.iterative.krylov import LSMR, LSQR
from tessella.linalg.iterative.normal_equations import CG
from tessella.linalg.iterative.schwarz import SchwarzCG
from tessella.linalg.rrqr import RRQR

SMALLEST_NORM = [LSQR(), LSMR(), CG(), CG(gramian=True)]
FAMILY = [*SMALLEST_NORM, SchwarzCG(), SchwarzCG(blocks="diagonal", gramian=False)]
ROWS, WIDTHS = 24, (4, 3, 1, 0)
COLUMNS = sum(WIDTHS) + 1


def label(solver):
    mine, usual = dataclasses.asdict(solver), dataclasses.asdict(type(solver)())
    return "-".join([solver.name, *(f"{k}={v}" for k, v in mine.items() if v != usual[k])])


@pytest.fixture(scope="module", params=FAMILY, ids=label)
def solver(request):
    """All tests of one solver, then those of the next: few compiled programs are kept at a time."""
    return request.param


def tight(solver, **changes):
    return dataclasses.replace(solver, **{"atol": 1e-14, "btol": 1e-14, **changes})


def run(solver, A, b, **hooks):
    return solver.solve(solver.init(A), b, **hooks)


def lstsq(dense, b):
    return np.linalg.lstsq(dense, b, rcond=1e-12)[0]


@pytest.fixture(scope="session")
def random_pattern():
    """Four blocks of widths 4, 3, 1, 0 in random order on random rows, one on all; column 8 unused.

    The padded shapes never change, so that every example runs the same compiled programs.
    """

    def make(seed, heights=(24, 9, 6, 4)):
        random = np.random.default_rng(seed)
        widths, heights = random.permutation(WIDTHS), random.permutation(heights)
        columns = np.split(random.permutation(COLUMNS - 1), np.cumsum(widths)[:-1])
        blocks = [
            Block(
                random.standard_normal((height, width)),
                np.sort(random.choice(ROWS, height, replace=False)),
                own,
            )
            for height, width, own in zip(heights, widths, columns, strict=True)
        ]
        return from_blocks(blocks, (ROWS, COLUMNS)), random.standard_normal(ROWS)

    return make


@settings(max_examples=8)
@given(seed=st.integers(0, 1000), heights=st.sampled_from([(24, 9, 6, 4), (24, 24, 2, 0)]))
def test_the_residual_is_that_of_dense_least_squares(random_pattern, solver, seed, heights):
    A, b = random_pattern(seed, heights)
    dense = A.to_dense()
    result = run(tight(solver), A, b)
    expected = dense @ lstsq(dense, b)
    np.testing.assert_allclose(dense @ np.asarray(result.x), expected, rtol=0, atol=1e-7)
    assert result.residual_norm == pytest.approx(np.linalg.norm(b - expected), rel=1e-7)
    assert result.stop in (Stop.RESIDUAL, Stop.OPTIMUM, Stop.STAGNATED)


@pytest.mark.parametrize("solver", SMALLEST_NORM, ids=label, scope="module")
@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_unpreconditioned_solvers_find_the_solution_of_smallest_norm(random_pattern, solver, seed):
    A, b = random_pattern(seed, (24, 9, 2, 1))
    expected = lstsq(A.to_dense(), b)
    x = np.asarray(run(tight(solver), A, b).x)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_the_filtered_system_is_solved_as_well(random_pattern, solver):
    A, b = random_pattern(1)
    filtered = RRQR(1e-8).apply(A)
    a = np.asarray(filtered.preconditioner.apply(run(tight(solver), filtered.Q, b).x))
    dropped = np.setdiff1d(np.arange(COLUMNS), filtered.kept)
    assert np.all(a[dropped] == 0)
    expected = lstsq(A.to_dense()[:, filtered.kept], b)
    np.testing.assert_allclose(a[filtered.kept], expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("factor", [2.0**-40, -(2.0**30)])
def test_scaling_the_right_hand_side_or_the_matrix_scales_the_solution(
    random_pattern, solver, factor
):
    A, b = random_pattern(2)
    x = np.asarray(run(tight(solver), A, b).x)
    scaled = np.asarray(run(tight(solver), A, factor * b).x)
    np.testing.assert_allclose(scaled, factor * x, rtol=1e-6, atol=1e-8 * abs(factor))
    larger = A.scale_rows(np.full(ROWS, factor))
    inverse = np.asarray(run(tight(solver), larger, b).x)
    np.testing.assert_allclose(inverse, x / factor, rtol=1e-6, atol=1e-8 / abs(factor))


def test_relabelling_rows_columns_and_blocks_relabels_the_solution(random_pattern, rng, solver):
    A, b = random_pattern(3)
    rows, columns = rng.permutation(ROWS), rng.permutation(COLUMNS)
    blocks = [Block(v, rows[r], columns[c]) for v, r, c in A.blocks()]
    moved = np.zeros(ROWS)
    moved[rows] = b
    x = np.asarray(run(tight(solver), A, b).x)
    again = np.asarray(run(tight(solver), from_blocks(blocks[::-1], A.shape), moved).x)
    np.testing.assert_allclose(again[columns], x, atol=1e-7 * np.abs(x).max())


def test_zero_and_duplicated_columns_and_empty_blocks_are_harmless(solver, rng):
    values = rng.standard_normal((ROWS, 4))
    values[:, 1] = 0.0
    values[:, 3] = values[:, 2]
    nothing = np.zeros(0, dtype=int)
    A = from_blocks(
        [
            Block(values, np.arange(ROWS), np.arange(4)),
            Block(np.zeros((0, 2)), nothing, np.array([4, 5])),
            Block(np.zeros((3, 0)), np.arange(3), nothing),
            Block(rng.standard_normal((8, 3)), np.arange(4, 12), np.array([6, 7, 8])),
        ],
        (ROWS, COLUMNS),
    )
    b = rng.standard_normal(ROWS)
    result = run(tight(solver), A, b)
    x = np.asarray(result.x)
    assert np.all(x[[1, 4, 5]] == 0)
    assert x[2] == pytest.approx(x[3], rel=1e-6)
    best = np.linalg.norm(b - A.to_dense() @ lstsq(A.to_dense(), b))
    assert result.residual_norm == pytest.approx(best, rel=1e-9)


def test_a_matrix_of_zeros_has_the_solution_zero(solver):
    A = from_blocks([Block(np.zeros((5, 2)), np.arange(5), np.arange(2))], (5, 2))
    result = run(solver, A, np.ones(5))
    assert (result.stop, result.iterations) == (Stop.OPTIMUM, 0)
    assert np.all(np.asarray(result.x) == 0)
    hollow = from_blocks([Block(np.zeros((5, 0)), np.arange(5), np.zeros(0, int))], (5, 2))
    assert run(solver, hollow, np.ones(5)).stop == Stop.OPTIMUM


def test_bad_matrices_and_right_hand_sides_are_refused_by_name(random_pattern, solver):
    A, b = random_pattern(4)
    (group,) = A.groups
    for bad in (np.nan, np.inf):
        poisoned = group._replace(values=group.values.at[2, 0, 0].set(bad))
        with pytest.raises(ValueError, match="block 2 of the matrix contains NaN or infinity"):
            solver.init(BlockMatrix((poisoned,), A.shape))
    with pytest.raises(ValueError, match="0 groups of blocks: there is nothing to solve"):
        solver.init(BlockMatrix((), A.shape))
    with pytest.raises(ValueError, match="0 columns"):
        solver.init(A.select(np.zeros(0, dtype=int)))
    state = solver.init(A)
    for length in (ROWS - 1, ROWS + 1):
        with pytest.raises(ValueError, match=rf"shape \({length},\), but the matrix has 24 rows"):
            solver.solve(state, np.ones(length))
    with pytest.raises(ValueError, match="right-hand side contains NaN or infinity"):
        solver.solve(state, b * np.nan)
    assert solver.solve(state, 0 * b).stop == Stop.ZERO


def test_tolerances_below_machine_precision_are_refused_and_zero_forces(solver):
    for what in ("atol", "btol"):
        with pytest.raises(ValueError, match=rf"{what}=1e-20 is below machine precision"):
            dataclasses.replace(solver, **{what: 1e-20})
        with pytest.raises(ValueError, match=f"{what} must be 0 or a positive number"):
            dataclasses.replace(solver, **{what: float("nan")})
        assert not dataclasses.replace(solver, **{what: 0.0}).forced
    assert dataclasses.replace(solver, atol=0, btol=0).forced
    with pytest.raises(ValueError, match="patience"):
        dataclasses.replace(solver, patience=0)


def test_one_state_serves_many_right_hand_sides(random_pattern, rng, solver):
    A, _ = random_pattern(5)
    dense, solver = A.to_dense(), tight(solver)
    state = solver.init(A)
    for b in rng.standard_normal((3, ROWS)):
        fitted = dense @ np.asarray(solver.solve(state, b).x)
        np.testing.assert_allclose(fitted, dense @ lstsq(dense, b), rtol=0, atol=1e-7)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_histories_tell_the_truth(random_pattern, solver, count):
    A, b = random_pattern(6)
    result = run(tight(solver, atol=0, btol=0, max_iterations=count), A, b)
    residual = b - A.to_dense() @ np.asarray(result.x)
    assert result.iterations == len(result.history.residual) == count
    assert result.residual_norm == pytest.approx(np.linalg.norm(residual), rel=1e-10)
    if not isinstance(solver, SchwarzCG):
        normal = np.linalg.norm(A.to_dense().T @ residual)
        assert result.history.normal_residual[-1] == pytest.approx(normal, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("count", [2, 5])
def test_iterates_are_those_of_scipy(random_pattern, count):
    A, b = random_pattern(7)
    dense = A.to_dense()
    forced = {"atol": 0, "btol": 0, "max_iterations": count}
    theirs = scipy.sparse.linalg.lsmr(dense, b, atol=0, btol=0, conlim=0, maxiter=count)[0]
    np.testing.assert_allclose(run(LSMR(**forced), A, b).x, theirs, atol=1e-12)
    theirs, _ = scipy.sparse.linalg.cg(dense.T @ dense, dense.T @ b, rtol=0, maxiter=count)
    for formed in (False, True):
        np.testing.assert_allclose(run(CG(gramian=formed, **forced), A, b).x, theirs, atol=1e-12)


def test_what_each_method_minimises_falls_at_every_iteration(random_pattern):
    A, b = random_pattern(8)
    forced = {"atol": 0, "btol": 0, "max_iterations": 7}
    for solver in (LSQR(**forced), CG(**forced), SchwarzCG(**forced)):
        assert np.all(np.diff(run(solver, A, b).history.residual) <= 1e-12)
    assert np.all(np.diff(run(LSMR(**forced), A, b).history.normal_residual) <= 1e-12)


def test_converged_stops_have_their_names(random_pattern, solver):
    A, b = random_pattern(9)
    assert run(solver, A, b).stop == Stop.OPTIMUM
    result = run(solver, A, A.to_dense() @ np.ones(COLUMNS))
    assert result.stop == Stop.RESIDUAL
    assert result.advice == ""


def test_stops_short_of_convergence_have_names_and_advice(random_pattern, solver):
    A, b = random_pattern(10)
    limit = run(tight(solver, max_iterations=2), A, b)
    assert (limit.stop, limit.iterations) == (Stop.LIMIT, 2)
    assert "max_iterations" in limit.advice

    def interrupt(done, most, relative):
        assert done == min(CHUNK, most) and 0 < relative < 1
        raise KeyboardInterrupt

    stopped = run(tight(solver, atol=0, btol=0, max_iterations=3), A, b, progress=interrupt)
    assert (stopped.stop, stopped.iterations) == (Stop.INTERRUPTED, 3)
    whole = run(tight(solver, atol=0, btol=0, max_iterations=3), A, b)
    np.testing.assert_array_equal(stopped.x, whole.x)


@pytest.mark.parametrize("solver", [LSQR(), LSMR()], ids=label, scope="module")
def test_a_plateau_is_called_stagnation(random_pattern, solver):
    A, b = random_pattern(11)
    result = run(tight(solver, atol=0.0, btol=1e-16, patience=50), A, b)
    assert (result.stop, result.iterations) == (Stop.STAGNATED, CHUNK)


@pytest.mark.parametrize("solver", [LSQR(), LSMR()], ids=label, scope="module")
def test_overflow_is_named_and_leaves_no_nan(random_pattern, solver):
    A, b = random_pattern(12)
    huge = A.scale_rows(np.full(ROWS, 1e200))
    result = run(solver, huge, b)
    assert result.stop == Stop.NOT_FINITE
    assert "huge values" in result.advice
    assert result.residual_norm == pytest.approx(np.linalg.norm(huge.to_dense() @ result.x - b))


def test_a_poisoned_preconditioner_is_named_and_leaves_no_nan(random_pattern):
    A, b = random_pattern(12)
    solver = SchwarzCG()
    state = solver.init(A)
    poisoned = state.preconditioner.scale_rows(np.where(np.arange(COLUMNS) == 1, np.nan, 1.0))
    result = solver.solve(dataclasses.replace(state, preconditioner=poisoned), b)
    assert (result.stop, result.iterations) == (Stop.NOT_FINITE, 1)
    assert result.residual_norm == pytest.approx(np.linalg.norm(A.to_dense() @ result.x - b))


def test_what_would_underflow_and_pass_for_convergence_is_refused(random_pattern, solver):
    A, b = random_pattern(12)
    with pytest.raises(ValueError, match=r"largest entry has size .* over- or underflow"):
        solver.init(A.scale_rows(np.full(ROWS, 1e-200)))
    low = solver.sizes[0]
    x = np.asarray(run(tight(solver), A, b).x)
    small = run(tight(solver), A.scale_rows(np.full(ROWS, 10 * low)), 10 * low * b)
    np.testing.assert_allclose(small.x, x, atol=1e-7 * np.abs(x).max())


def test_what_the_normal_equations_would_overflow_is_refused(random_pattern):
    A, _ = random_pattern(12)
    for solver in (CG(), SchwarzCG()):
        with pytest.raises(ValueError, match="scale it into"):
            solver.init(A.scale_rows(np.full(ROWS, 1e60)))


@pytest.mark.parametrize("exponent", [-900, -600, 530, 1000])
def test_right_hand_sides_of_any_size_take_the_same_iterations(random_pattern, solver, exponent):
    """A power of two rounds nothing, so that all is the same to the last bit."""
    A, b = random_pattern(12)
    unit = 2.0**exponent
    short = tight(solver, max_iterations=5, atol=0, btol=0)
    one, other = (run(short, A, size * b) for size in (1.0, unit))
    assert (one.stop, one.iterations) == (other.stop, other.iterations)
    np.testing.assert_allclose(np.asarray(other.x) / unit, one.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.history.residual / unit, one.history.residual, rtol=1e-9)
    assert other.residual_norm / unit == pytest.approx(one.residual_norm)


@pytest.mark.parametrize("exponent", [-900, 1000])
def test_errors_are_measured_in_the_units_of_the_right_hand_side(random_pattern, exponent):
    A, b = random_pattern(12)
    target = jnp.asarray(run(tight(LSQR()), A, b).x)
    short = LSQR(max_iterations=5, atol=0, btol=0, track_every=1)
    one, other = (
        run(short, A, unit * b, monitor=jax.tree_util.Partial(relative, unit, target))
        for unit in (1.0, 2.0**exponent)
    )
    np.testing.assert_allclose(other.history.error, one.history.error, rtol=1e-6)


def relative(unit, target, x):
    return jnp.linalg.norm(x / unit - target)


def test_a_forced_run_measures_errors_and_the_default_rule(random_pattern, solver):
    A, b = random_pattern(13)
    target = np.asarray(run(tight(solver), A, b).x)
    monitor = jax.tree_util.Partial(relative, 1.0, jnp.asarray(target))
    forced = tight(solver, atol=0, btol=0, max_iterations=6, track_every=1)
    result = run(forced, A, b, monitor=monitor)
    assert len(result.history.error) == result.iterations == 6
    assert result.history.error[-1] == pytest.approx(float(monitor(result.x)), abs=1e-14)
    iteration, error = result.rule
    assert error == result.history.error[iteration - 1]
    assert run(dataclasses.replace(solver, track_every=1), A, b, monitor=monitor).rule is None


def test_the_gramian_is_formed_in_blocks_and_only_on_request(random_pattern):
    A, _ = random_pattern(14)
    assert CG().init(A).gramian is None
    G = CG(gramian=True).init(A).gramian
    dense = A.to_dense()
    np.testing.assert_allclose(G.to_dense(), dense.T @ dense, atol=1e-13)
    assert np.array_equal(G.to_dense(), G.to_dense().T)


def test_a_gramian_that_does_not_fit_is_refused_with_a_figure(random_pattern, monkeypatch):
    A, _ = random_pattern(14)
    monkeypatch.setattr("tessella.machine.memory.available_bytes", lambda *_: 100)
    with pytest.raises(MemoryError, match=r"Gramian of a 24 x 9 matrix needs about .* GiB"):
        gramian(A)


def test_a_column_with_two_owners_is_refused_by_solvers_that_block_by_columns(rng):
    values, rows, columns = np.zeros((4, 4, 24)), np.zeros((4, 24), int), np.zeros((4, 4), int)
    values[:2, :2, :5] = rng.standard_normal((2, 2, 5))
    rows[:2, :5] = np.arange(5), np.arange(3, 8)
    columns[:2, :2] = [0, 1], [1, 2]
    arrays = (values, rows.astype(np.int32), columns.astype(np.int32))
    heights, widths = np.array([5, 5, 0, 0]), np.array([2, 2, 0, 0])
    A = BlockMatrix((Group(*map(jnp.asarray, arrays), heights, widths),), (ROWS, COLUMNS))
    for solver in (CG(gramian=True), SchwarzCG()):
        with pytest.raises(ValueError, match="column 1 of the matrix lies in 2 blocks"):
            solver.init(A)
    b = rng.standard_normal(ROWS)
    for solver in (LSQR(), LSMR(), CG()):
        np.testing.assert_allclose(run(tight(solver), A, b).x, lstsq(A.to_dense(), b), atol=1e-9)
