"""Block Arnoldi against dense eigenvalues."""

import numpy as np
import pytest

from tessella.linalg.iterative.arnoldi import largest


def orthogonal(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def test_multiple_eigenvalues_are_found_as_often_as_they_are():
    values = np.concatenate([[5.0, 3.0, 3.0, 3.0, -2.0, 1.5, 1.5], 1 / np.arange(1, 120) ** 2])
    Q = orthogonal(len(values))
    A = Q * values @ Q.T
    found = largest(lambda X: A @ X, len(A), 7)
    assert found.values == pytest.approx([5, 3, 3, 3, -2, 1.5, 1.5], rel=1e-12)
    U = found.vectors
    assert np.linalg.norm(A @ U - U * found.values) < 1e-10
    assert np.linalg.norm(U.T @ U - np.eye(7)) < 1e-10
    assert not np.iscomplex(U).any()


def test_complex_pairs_come_whole():
    n = 80
    A = np.diag(0.5 ** np.arange(n, dtype=float))
    A[:2, :2] = [[2.0, 1.0], [-1.0, 2.0]]
    S = np.random.default_rng(1).standard_normal((n, n)) + 10 * np.eye(n)
    A = np.linalg.solve(S, A @ S)
    found = largest(lambda X: A @ X, n, 1)
    assert sorted(found.values, key=lambda v: v.imag) == pytest.approx([2 - 1j, 2 + 1j], rel=1e-10)
    assert np.linalg.norm(A @ found.vectors - found.vectors * found.values) < 1e-8


def test_a_space_without_enough_eigenvectors_is_still_a_space():
    A = np.diag([3.0, 3.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.01])
    A[0, 1] = 1e-9
    Q = orthogonal(8, 2)
    A = Q @ A @ Q.T
    found = largest(lambda X: A @ X, 8, 2, block=2)
    assert found.values == pytest.approx([3, 3], abs=1e-8)
    plane = found.vectors.real
    assert np.linalg.svd(plane.T @ Q[:, :2], compute_uv=False) == pytest.approx([1, 1], abs=1e-6)


def test_a_map_smaller_than_what_is_asked_gives_all_it_has():
    A = np.diag([3.0, 2.0, 1.0])
    found = largest(lambda X: A @ X, 3, 10)
    assert found.values == pytest.approx([3, 2, 1])
    assert np.all(found.residual < 1e-12)
