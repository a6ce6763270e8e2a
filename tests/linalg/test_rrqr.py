"""The filter: what it keeps, what it makes of the matrix, and the bounds of strong RRQR."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.rrqr import strong_order
from tessella.overlap.system import assemble


@pytest.fixture(scope="module")
def system(line_problem):
    problem = line_problem(ts.Dirichlet(0.0))
    basis = ts.Basis(ts.Decomposition(problem.domain, 4), ts.RandomFeatures(8), seed=0)
    return assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))


def with_diagonal(random, diagonal, rows=12):
    """Orthogonal columns of these lengths, in random order."""
    Q, _ = np.linalg.qr(random.standard_normal((rows, len(diagonal))))
    order = random.permutation(len(diagonal))
    return (Q * diagonal)[:, order], np.argsort(order)


@pytest.mark.parametrize(
    ("sigma", "kept"), [(0.5, 1), (3e-2, 2), (1e-3, 3), (3e-9, 5), (1e-10, 5), (0.0, 6)]
)
def test_rank_counts_diagonal_values_above_sigma_times_the_first(rng, sigma, kept):
    block, _ = with_diagonal(rng, 5.0 * np.array([1, 1e-1, 1e-2, 1e-4, 1e-8, 1e-12]))
    factor = ts.RRQR(sigma).factor(block)
    assert len(factor.kept) == kept
    np.testing.assert_allclose(factor.Q @ factor.R, block[:, factor.kept], atol=1e-14)
    np.testing.assert_allclose(factor.Q.T @ factor.Q, np.eye(kept), atol=1e-14)
    np.testing.assert_array_equal(np.tril(factor.R, -1), 0.0)


def test_the_longest_columns_come_first(rng):
    block, position = with_diagonal(rng, np.array([4.0, 3.0, 2.0, 1.0]))
    np.testing.assert_array_equal(ts.RRQR(0.0).factor(block).kept, position)


@given(
    seed=st.integers(0, 1000),
    small=st.floats(1e-12, 1e-2),
    ratio=st.floats(1.0, 1e6),
    strong=st.booleans(),
)
def test_a_larger_sigma_keeps_fewer_columns(seed, small, ratio, strong):
    random = np.random.default_rng(seed)
    block = random.standard_normal((15, 8)) @ np.diag(10.0 ** -np.arange(8.0)) @ np.ones((8, 8))
    block += 1e-3 * random.standard_normal((15, 8))
    few = ts.RRQR(min(small * ratio, 0.9), strong).factor(block).kept
    many = ts.RRQR(small, strong).factor(block).kept
    assert 1 <= len(few) <= len(many) <= 8


@given(seed=st.integers(0, 1000))
def test_kept_columns_do_not_depend_on_order_or_units(seed):
    random = np.random.default_rng(seed)
    block = random.standard_normal((15, 8)) * np.logspace(0, -12, 8)
    relabelled = random.permutation(8)
    rule = ts.RRQR(1e-6)
    kept = set(rule.factor(block).kept)
    assert {relabelled[k] for k in rule.factor(block[:, relabelled]).kept} == kept
    assert set(rule.factor(2.0**40 * block).kept) == kept
    assert set(rule.factor(block[random.permutation(15)]).kept) == kept


@pytest.mark.parametrize("strong", [False, True])
def test_dependent_columns_are_dropped(rng, strong):
    free = rng.standard_normal((12, 4))
    block = np.hstack([free, free @ rng.standard_normal((4, 3))])
    factor = ts.RRQR(1e-10, strong).factor(block)
    assert len(factor.kept) == 4
    rest = block - factor.Q @ (factor.Q.T @ block)
    np.testing.assert_allclose(rest, 0.0, atol=1e-13)


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("shape", [(3, 7), (7, 7), (1, 5), (5, 1)])
def test_blocks_of_any_shape(rng, shape, strong):
    block = rng.standard_normal(shape)
    factor = ts.RRQR(0.0, strong).factor(block)
    assert len(factor.kept) == min(shape)
    np.testing.assert_allclose(factor.Q @ factor.R, block[:, factor.kept], atol=1e-13)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 2)])
def test_empty_and_zero_blocks_keep_nothing(shape):
    factor = ts.RRQR(0.0).factor(np.zeros(shape))
    assert factor.Q.shape == (shape[0], 0)
    assert len(factor.kept) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_trouble(bad):
    block = np.ones((4, 2))
    block[1, 0] = bad
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        ts.RRQR().factor(block)


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("sigma", [1e-10, 1e-4, 1e-1])
def test_the_preconditioned_matrix_has_orthonormal_blocks_in_the_old_pattern(system, sigma, strong):
    M = system.M
    filtered = ts.RRQR(sigma, strong).apply(M)
    assert 0 < len(filtered.kept) <= M.shape[1]
    found = []
    for old, new in zip(M.blocks(), filtered.Q.blocks(), strict=True):
        np.testing.assert_array_equal(old.rows, new.rows)
        assert set(new.columns) <= set(old.columns)
        gram = new.values.T @ new.values
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)
        found.extend(new.columns)
    np.testing.assert_array_equal(np.sort(found), filtered.kept)


@pytest.mark.parametrize("sigma", [1e-10, 1e-4])
def test_q_is_m_hat_times_the_inverse_of_s(system, sigma):
    M = system.M
    filtered = ts.RRQR(sigma).apply(M)
    S_inverse = np.column_stack(
        [np.asarray(filtered.preconditioner.apply(e)) for e in np.eye(M.shape[1])]
    )
    dropped = np.setdiff1d(np.arange(M.shape[1]), filtered.kept)
    assert np.all(S_inverse[dropped] == 0)
    assert np.all(S_inverse[:, dropped] == 0)
    M_hat = M.to_dense()[:, filtered.kept]
    R = np.linalg.inv(S_inverse[np.ix_(filtered.kept, filtered.kept)])
    Q = filtered.Q.to_dense()[:, filtered.kept]
    scale = np.linalg.norm(M_hat)
    np.testing.assert_allclose(Q @ R, M_hat, atol=1e-12 * scale)
    assert np.all(filtered.Q.to_dense()[:, dropped] == 0)


def test_without_a_filter_nothing_changes(system):
    filtered = ts.Unfiltered().apply(system.M)
    assert filtered.Q is system.M
    np.testing.assert_array_equal(filtered.kept, np.arange(system.M.shape[1]))


def test_many_blocks_are_factored_like_each_alone(random_group, rng):
    heights, widths = rng.integers(4, 9, 40), rng.integers(1, 5, 40)
    M = BlockMatrix((random_group(rng, heights, widths, (4, 8), 30),), (30, 160))
    rule = ts.RRQR(1e-2)
    filtered = rule.apply(M)
    for block, made in zip(M.blocks(), filtered.Q.blocks(), strict=True):
        alone = rule.factor(block.values)
        np.testing.assert_array_equal(made.values, alone.Q)
        np.testing.assert_array_equal(made.columns, block.columns[alone.kept])


def kahan(n, c, keep_order=1e-7):
    """Kahan's matrix: pivoting leaves it as it is, although its last columns nearly depend on
    the others. Columns shrink slightly, so that rounding cannot reorder them."""
    s = np.sqrt(1 - c * c)
    matrix = np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1))
    return matrix * (1 - keep_order) ** np.arange(n)


def rank_sigma(n, c, k):
    """A threshold that keeps k columns of Kahan's matrix under plain pivoting."""
    s = np.sqrt(1 - c * c)
    return s ** (k - 0.5)


KAHAN = [(40, 0.4, 39), (60, 0.3, 59), (60, 0.2, 59), (90, 0.285, 89)]


def interpolation(block, factor):
    """|R_11^-1 R_12|: how large the dropped columns are in terms of the kept ones."""
    dropped = np.setdiff1d(np.arange(block.shape[1]), factor.kept)
    return np.abs(scipy.linalg.solve_triangular(factor.R, factor.Q.T @ block[:, dropped])).max()


def singular_ratio(block, factor):
    """min_i sigma_i(R_11) / sigma_i(M); Gu and Eisenstat bound it by 1/sqrt(1 + f^2 k (n-k))."""
    k = len(factor.kept)
    kept, all_ = (np.linalg.svd(a, compute_uv=False) for a in (factor.R, block))
    return (kept / all_[:k]).min()


@pytest.mark.parametrize(("n", "c", "k"), KAHAN)
@pytest.mark.parametrize("f", [1.5, 2.0, 10.0])
def test_strong_rrqr_keeps_its_bounds_where_plain_pivoting_fails(n, c, k, f):
    block = kahan(n, c)
    sigma = rank_sigma(n, c, k)
    bound = 1 / np.sqrt(1 + f * f * k * (n - k))

    plain = ts.RRQR(sigma).factor(block)
    assert len(plain.kept) == k
    assert singular_ratio(block, plain) < bound
    assert interpolation(block, plain) > f

    strong = ts.RRQR(sigma, strong=True, f=f).factor(block)
    assert len(strong.kept) == k
    assert singular_ratio(block, strong) >= bound
    assert interpolation(block, strong) <= f * (1 + 1e-8)
    np.testing.assert_allclose(strong.Q @ strong.R, block[:, strong.kept], atol=1e-13)

    dropped = np.setdiff1d(np.arange(n), strong.kept)
    rest = block[:, dropped] - strong.Q @ (strong.Q.T @ block[:, dropped])
    left_out = np.linalg.svd(rest, compute_uv=False)[: n - k]
    smallest = np.linalg.svd(block, compute_uv=False)[k:]
    assert np.all(left_out <= smallest / bound * (1 + 1e-8))


@given(seed=st.integers(0, 1000), k=st.integers(1, 9), f=st.floats(1.1, 5.0))
def test_strong_rrqr_keeps_its_bounds_on_graded_matrices(seed, k, f):
    random = np.random.default_rng(seed)
    A = random.standard_normal((12, 10)) @ np.diag(np.logspace(0, -6, 10))
    A = A @ random.standard_normal((10, 10))
    order = strong_order(np.linalg.qr(A, mode="r"), k, f)
    assert sorted(order) == list(range(10))
    R = np.linalg.qr(A[:, order], mode="r")
    assert np.abs(np.linalg.solve(R[:k, :k], R[:k, k:])).max() <= f * (1 + 1e-6)
    kept = np.linalg.svd(R[:k, :k], compute_uv=False)
    bound = np.linalg.svd(A, compute_uv=False)[:k] / np.sqrt(1 + f * f * k * (10 - k))
    assert np.all(kept >= bound * (1 - 1e-6))


def test_strong_rrqr_agrees_with_plain_pivoting_on_easy_blocks(rng):
    block, _ = with_diagonal(rng, np.logspace(0, -10, 6))
    plain, strong = (ts.RRQR(1e-5, strong).factor(block) for strong in (False, True))
    assert set(plain.kept) == set(strong.kept)
