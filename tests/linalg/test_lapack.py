"""LAPACK called directly does what NumPy does, for many matrices at once."""

import numpy as np
import pytest

from tessella.linalg.lapack import (
    add_gramians,
    cholesky,
    invert,
    pivoted_qr,
    qr,
    solve_cholesky,
    solve_cholesky_rows,
)


def positive(rng, count, n):
    A = rng.standard_normal((count, 2 * n + 1, n))
    return A.transpose(0, 2, 1) @ A


@pytest.mark.parametrize("n", [1, 7, 40])
def test_positive_matrices_are_solved_for_columns_and_for_rows(rng, n):
    G = positive(rng, 3, n)
    L, x, y = G.copy(), rng.standard_normal((3, n, 5)), rng.standard_normal((6, n))
    assert cholesky(L).all()
    columns, rows = x.copy(), y.copy()
    solve_cholesky(L, columns)
    solve_cholesky_rows(L, rows, np.array([0, 1, 1, 6]))
    np.testing.assert_allclose(G @ columns, x, atol=1e-9)
    owner = [0, 2, 2, 2, 2, 2]
    np.testing.assert_allclose((G[owner] @ rows[:, :, None])[:, :, 0], y, atol=1e-9)


def test_matrices_that_are_not_positive_are_told(rng):
    G = positive(rng, 3, 6)
    G[1] -= 1e3 * np.eye(6)
    assert cholesky(G).tolist() == [True, False, True]


def test_gramians_are_added_to_what_is_factored(rng):
    M, G = rng.standard_normal((40, 3, 9)), positive(rng, 3, 9)
    L, x = G.copy(), rng.standard_normal((3, 9, 2))
    add_gramians(M, L)
    assert cholesky(L).all()
    found = x.copy()
    solve_cholesky(L, found)
    whole = G + M.transpose(1, 2, 0) @ M.transpose(1, 0, 2)
    np.testing.assert_allclose(whole @ found, x, atol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 30, 130])
def test_inverses(rng, n):
    D = np.eye(n) + rng.standard_normal((2, n, n)) / (3 * np.sqrt(max(n, 1)))
    found = D.copy()
    invert(found)
    np.testing.assert_allclose(found @ D, np.broadcast_to(np.eye(n), D.shape), atol=1e-12)


def test_singular_matrices_have_no_inverse():
    with pytest.raises(np.linalg.LinAlgError):
        invert(np.ones((1, 3, 3)))


@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (33, 33)])
def test_reflections_turn_a_matrix_into_its_triangle_and_back(rng, shape):
    M = rng.standard_normal(shape)
    found = qr(np.ascontiguousarray(M.T))
    n = min(shape)
    turned = found.turned(M.T)
    np.testing.assert_allclose(turned[:, :n].T, found.R, atol=1e-12)
    np.testing.assert_allclose(turned[:, n:], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.turned(turned, back=True), M.T, atol=1e-12)


def test_pivots_come_largest_first_and_show_the_rank(rng):
    M = rng.standard_normal((50, 6)) @ rng.standard_normal((6, 12)) * np.geomspace(1, 1e-3, 12)
    found, pivots = pivoted_qr(np.ascontiguousarray(M.T))
    size = np.abs(np.diag(found.R))
    assert sorted(pivots.tolist()) == list(range(12))
    assert np.all(np.diff(size) <= 1e-12) and np.count_nonzero(size > 1e-12 * size[0]) == 6
    np.testing.assert_allclose(found.turned(M.T[pivots])[:, :12].T, found.R, atol=1e-12)
