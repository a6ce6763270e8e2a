"""QR of many matrices at once: LAPACK's triangles, ranks and pivots, and an orthogonal Q."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from tessella.linalg import batched_qr

N, M = 64, 100


def batch(rng):
    """Plain, with a repeated column, with zero columns, and with fewer rows than columns."""
    A = rng.standard_normal((4, N, M))
    A[1, 5] = A[1, 3]
    A[2, 10:20] = 0
    A[3, :, 40:] = 0
    return A


def test_triangles_are_lapacks_up_to_signs(rng):
    A = batch(rng)[:1]
    R = np.asarray(batched_qr.triangle(batched_qr.qr(jnp.asarray(A)).packed, N))
    expected = np.linalg.qr(A[0].T, mode="r").T
    np.testing.assert_allclose(np.abs(R[0]), np.abs(expected), atol=1e-12)


def test_q_is_orthogonal_and_takes_the_columns_to_the_triangle(rng):
    A = batch(rng)
    Q = batched_qr.qr(jnp.asarray(A))
    R = np.asarray(batched_qr.triangle(Q.packed, N))
    turned = np.asarray(batched_qr.transpose_times(Q, jnp.asarray(A)))
    np.testing.assert_allclose(turned[:, :, :N], R, atol=1e-12)
    np.testing.assert_allclose(turned[:, :, N:], 0.0, atol=1e-12)
    eye = np.broadcast_to(np.eye(M), (4, M, M))
    whole = np.asarray(batched_qr.transpose_times(Q, jnp.asarray(eye)))
    np.testing.assert_allclose(whole @ whole.transpose(0, 2, 1), eye, atol=1e-13)


def test_columns_of_any_size_are_eliminated(rng):
    """No column is squared beyond the range of numbers that its own square has."""
    A = rng.standard_normal((1, 32, 40)) * 10.0 ** np.linspace(-100, 100, 32)[:, None]
    Q = batched_qr.qr(jnp.asarray(A))
    turned = np.asarray(batched_qr.transpose_times(Q, jnp.asarray(A)))
    sizes = np.linalg.norm(A, axis=2)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=2), sizes, rtol=1e-13)
    assert np.all(np.abs(turned[:, :, 32:]).max(2) <= 1e-13 * sizes)


def test_pivots_and_ranks_are_lapacks(rng):
    S = np.diag(10.0 ** (-np.arange(N) / 4))
    A = np.stack(
        [
            (np.linalg.qr(rng.standard_normal((N, N)))[0] @ S @ rng.standard_normal((N, N))).T
            for _ in range(2)
        ]
    )
    found = batched_qr.pivoted_qr(jnp.asarray(A), 0.0, 1e-8)
    for k in range(2):
        R, order = scipy.linalg.qr(A[k].T, pivoting=True, mode="r")
        diagonal = np.abs(np.diag(R))
        assert int(found.rank[k]) == np.count_nonzero(diagonal > 1e-8 * diagonal[0])
        np.testing.assert_array_equal(found.order[k][:25], order[:25])
        ours = np.abs(np.diag(found.reflections.packed[k]))
        np.testing.assert_allclose(ours[:25], diagonal[:25], rtol=1e-9)


def test_the_bound_on_regularity_is_the_inverse_norm(rng):
    A = batch(rng)
    R = batched_qr.triangle(batched_qr.qr(jnp.asarray(A)).packed, N)
    found = np.asarray(batched_qr.smallest(R))
    triangle = np.asarray(R[0]).T
    assert found[0] == pytest.approx(1 / np.linalg.norm(np.linalg.inv(triangle), 1), rel=1e-9)
    assert found[1] < 1e-12
    assert found[2] == found[3] == 0.0


def test_padded_choices_are_powers_of_two():
    for count in range(1, 20):
        padded = batched_qr.padded_choice(np.arange(count))
        assert len(padded) >= count
        assert len(padded) & (len(padded) - 1) == 0
        assert np.count_nonzero(padded == batched_qr.NOWHERE) == len(padded) - count
