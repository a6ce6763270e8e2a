"""The block matrix and its preconditioner are the linear maps that their dense forms say."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.linalg.block_kernels import UNROLL, bucket
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.conditioning import condition_number, singular_values
from tessella.linalg.preconditioners import TriangularBlocks, TriangularGroup, Unpreconditioned

ROWS, COLUMNS = 12, 3 * 3 + 2 * 2

patterns = st.builds(
    lambda seed, h1, w1, h2, w2: (seed, (h1, w1), (h2, w2)),
    st.integers(0, 1000),
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(st.integers(0, 7), min_size=2, max_size=2),
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
)
"""Heights and widths of two groups of blocks; their padded shapes never change."""


@pytest.fixture(scope="module")
def build(random_group):
    def make(pattern):
        seed, (h1, w1), (h2, w2) = pattern
        random = np.random.default_rng(seed)
        first = random_group(random, h1, w1, (3, 5), ROWS)
        second = random_group(random, h2, w2, (2, 7), ROWS, first_column=9)
        return random, BlockMatrix((first, second), (ROWS, COLUMNS))

    return make


compiled_matvec, compiled_rmatvec = jax.jit(BlockMatrix.matvec), jax.jit(BlockMatrix.rmatvec)
compiled_apply, compiled_adjoint = (
    jax.jit(TriangularBlocks.apply),
    jax.jit(TriangularBlocks.adjoint),
)


def dense_by_hand(M):
    dense = np.zeros(M.shape)
    for group in M.groups:
        for b, (height, width) in enumerate(zip(group.heights, group.widths, strict=True)):
            for r, c in itertools.product(range(height), range(width)):
                dense[group.rows[b, r], group.columns[b, c]] += group.values[b, c, r]
    return dense


@given(pattern=patterns)
def test_products_are_adjoint_and_agree_with_every_other_form(build, pattern):
    random, M = build(pattern)
    v, u = random.standard_normal(COLUMNS), random.standard_normal(ROWS)
    Mv, Mtu = np.asarray(M.matvec(v)), np.asarray(M.rmatvec(u))
    assert u @ Mv == pytest.approx(Mtu @ v, rel=1e-12, abs=1e-12)
    dense = dense_by_hand(M)
    np.testing.assert_allclose(M.to_dense(), dense, atol=1e-15)
    np.testing.assert_allclose(M.to_csr().toarray(), dense, atol=1e-15)
    np.testing.assert_allclose(Mv, dense @ v, atol=1e-13)
    np.testing.assert_allclose(Mtu, dense.T @ u, atol=1e-13)
    np.testing.assert_allclose(compiled_matvec(M, v), Mv, atol=1e-13)
    np.testing.assert_allclose(compiled_rmatvec(M, u), Mtu, atol=1e-13)


@given(pattern=patterns)
def test_blocks_come_without_their_padding(build, pattern):
    _, M = build(pattern)
    assert [b.values.shape for b in M.blocks()] == [
        shape for heights, widths in pattern[1:] for shape in zip(heights, widths, strict=True)
    ]
    total = np.zeros(M.shape)
    for block in M.blocks():
        total[np.ix_(block.rows, block.columns)] += block.values
    np.testing.assert_array_equal(total, M.to_dense())


@given(pattern=patterns, data=st.data())
def test_selecting_columns_is_indexing(build, pattern, data):
    _, M = build(pattern)
    kept = data.draw(st.lists(st.integers(0, COLUMNS - 1), unique=True, min_size=1).map(sorted))
    chosen = M.select(np.array(kept))
    assert chosen.shape == (ROWS, len(kept))
    np.testing.assert_array_equal(chosen.to_dense(), M.to_dense()[:, kept])


def test_products_of_a_selection(build):
    random, M = build((0, ([5, 3, 4], [3, 2, 3]), ([7, 2], [2, 1])))
    kept = np.array([0, 2, 3, 7, 9, 11])
    v, u = random.standard_normal(6), random.standard_normal(ROWS)
    dense = M.to_dense()[:, kept]
    np.testing.assert_allclose(M.select(kept).matvec(v), dense @ v, atol=1e-13)
    np.testing.assert_allclose(M.select(kept).rmatvec(u), dense.T @ u, atol=1e-13)


@given(pattern=patterns)
def test_rows_can_be_scaled(build, pattern):
    """Row norms add up over blocks, which is exact where no two blocks share an entry."""
    random, M = build(pattern)
    factors = random.standard_normal(ROWS)
    scaled = M.scale_rows(factors)
    np.testing.assert_allclose(scaled.to_dense(), factors[:, None] * M.to_dense(), atol=1e-14)
    np.testing.assert_allclose(
        scaled.row_norms_squared(), np.square(scaled.to_dense()).sum(axis=1), atol=1e-13
    )


def test_wide_blocks_take_the_other_road(column_blocks, rng):
    dense = rng.standard_normal((9, 2 * (UNROLL + 1)))
    M = column_blocks(dense, 2)
    v, u = rng.standard_normal(dense.shape[1]), rng.standard_normal(9)
    np.testing.assert_allclose(compiled_matvec(M, v), dense @ v, atol=1e-12)
    np.testing.assert_allclose(compiled_rmatvec(M, u), dense.T @ u, atol=1e-12)


def test_stored_bytes_count_values_and_indices(column_blocks):
    assert column_blocks(np.ones((5, 4)), 2).stored_bytes == 8 * 20 + 4 * 10 + 4 * 4


@given(
    seed=st.integers(0, 1000),
    ranks=st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_triangular_blocks_are_the_inverse_of_their_factors(seed, ranks):
    """S^-1 = sum_j W_j^T R_j^-1 W_j, and its adjoint."""
    random = np.random.default_rng(seed)
    n = 12
    order = random.permutation(n).reshape(4, 3)
    R = np.tile(np.eye(3), (4, 1, 1))
    columns, filled = np.zeros((4, 3), np.int32), np.zeros((4, 3), bool)
    inverse = np.zeros((n, n))
    for b, k in enumerate(ranks):
        R[b, :k, :k] = np.triu(random.uniform(-1, 1, (k, k)), 1) + np.diag(random.uniform(1, 2, k))
        columns[b, :k], filled[b, :k] = order[b, :k], True
        inverse[np.ix_(order[b, :k], order[b, :k])] = np.linalg.inv(R[b, :k, :k])
    group = TriangularGroup(jnp.asarray(R), jnp.asarray(columns), jnp.asarray(filled))
    S = TriangularBlocks((group,), n)
    y, a = random.standard_normal(n), random.standard_normal(n)
    np.testing.assert_allclose(S.apply(y), inverse @ y, atol=1e-12)
    np.testing.assert_allclose(S.adjoint(a), inverse.T @ a, atol=1e-12)
    np.testing.assert_allclose(compiled_apply(S, y), inverse @ y, atol=1e-12)
    np.testing.assert_allclose(compiled_adjoint(S, a), inverse.T @ a, atol=1e-12)
    left, right = a @ np.asarray(S.apply(y)), np.asarray(S.adjoint(a)) @ y
    assert left == pytest.approx(right, rel=1e-12, abs=1e-12)


def test_an_empty_factor_is_left_out_and_a_singular_one_refused(capfd):
    R = np.array([np.eye(2), [[1.0, 1.0], [0.0, 0.0]]])
    filled = np.array([[False, False], [True, True]])
    columns = np.array([[0, 0], [0, 1]], dtype=np.int32)
    parts = (jnp.asarray(part) for part in (R, columns, filled))
    with pytest.raises(FloatingPointError, match="zero in row 2: raise sigma"):
        TriangularBlocks((TriangularGroup(*parts),), 2).apply(np.ones(2))
    assert capfd.readouterr().err == ""


def test_no_preconditioner_is_the_identity(rng):
    y = rng.standard_normal(5)
    np.testing.assert_array_equal(Unpreconditioned().apply(y), y)
    np.testing.assert_array_equal(Unpreconditioned().adjoint(y), y)


def padded_size(heights, levels):
    levels = np.sort(levels)
    return levels[np.searchsorted(levels, heights)].sum()


@given(
    heights=st.lists(st.integers(1, 12), min_size=1, max_size=20),
    most=st.integers(1, 3),
)
def test_buckets_waste_as_little_as_possible(heights, most):
    heights = np.array(heights)
    width = 10**6
    padded = bucket(heights, width, most)
    assert np.all(padded >= heights)
    assert len(np.unique(padded)) <= most
    whole = heights.max() * len(heights)
    if (whole - heights.sum()) * width <= max(500_000, 0.05 * heights.sum() * width):
        assert np.all(padded == heights.max())
        return
    distinct = np.unique(heights)
    best = min(
        padded_size(heights, [*chosen, distinct[-1]])
        for chosen in itertools.combinations(distinct[:-1], min(most, len(distinct)) - 1)
    )
    assert padded.sum() == best


def test_small_padding_keeps_one_height():
    np.testing.assert_array_equal(bucket(np.array([1, 50, 100]), 9), 100)


@given(seed=st.integers(0, 1000), spread=st.floats(0, 8))
def test_condition_numbers_are_ratios_of_singular_values(column_blocks, seed, spread):
    random = np.random.default_rng(seed)
    U, _ = np.linalg.qr(random.standard_normal((9, 6)))
    V, _ = np.linalg.qr(random.standard_normal((6, 6)))
    s = np.logspace(0, -spread, 6)
    M = column_blocks((U * s) @ V.T, 2)
    np.testing.assert_allclose(singular_values(M), s, rtol=1e-6)
    assert condition_number(M).value == pytest.approx(10**spread, rel=1e-6)


def test_the_condition_of_nothing_is_refused(build):
    _, M = build((0, ([1, 1, 1], [1, 1, 1]), ([1, 1], [1, 1])))
    with pytest.raises(ValueError, match="no columns: every feature was filtered out; lower sigma"):
        condition_number(M.select(np.array([], dtype=int)))
