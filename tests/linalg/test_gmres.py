"""GMRES on maps that can only be applied."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.linalg.iterative.gmres import gmres
from tessella.linalg.iterative.iteration import Stop


def contraction(rng, n, size=0.7):
    """I - C with the largest singular value of C given."""
    C = rng.standard_normal((n, n))
    return np.eye(n) - C * size / np.linalg.norm(C, 2)


def solved(A, b, **options):
    given = {"tolerance": 1e-12, "most": 500, "restart": 200} | options
    return gmres(lambda x: A @ x, b, **given)


@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(0.0, 0.95))
def test_it_finds_the_solution(seed, n, size):
    rng = np.random.default_rng(seed)
    A, b = contraction(rng, n, size), rng.standard_normal(n)
    found = solved(A, b)
    assert found.stop == Stop.RESIDUAL and len(found.history) <= n + 1
    assert np.linalg.norm(b - A @ found.x) <= 1e-12 * np.linalg.norm(b)
    np.testing.assert_allclose(found.x, np.linalg.solve(A, b), atol=1e-9)


def test_residuals_fall_as_fast_as_polynomials_allow(rng):
    """Of a normal map whose eigenvalues lie in a circle around 1, by its radius every time."""
    angles, radius = rng.uniform(0, 2 * np.pi, 60), 0.5
    blocks = [[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in angles]
    A = np.eye(120)
    for i, turn in enumerate(blocks):
        A[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += radius * np.array(turn)
    history = np.array(solved(A, rng.standard_normal(120)).history)
    assert np.all(history <= 1.1 * radius ** np.arange(1, len(history) + 1))


def test_vectors_stay_orthogonal_where_their_products_are_nearly_dependent(rng):
    """Made orthogonal once, they would not: the residual that is counted on is the true one."""
    n = 150
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (Q * np.geomspace(1, 1e-6, n)) @ Q.T
    found = solved(A, A @ rng.standard_normal(n), most=n, tolerance=1e-11)
    assert found.residual == pytest.approx(found.history[-1], rel=1e-3, abs=2e-12)
    assert found.regular < 1e-4


def test_parts_of_vectors_with_sums_are_as_good_as_whole_ones(rng):
    """As two processes would have them, in turn."""
    n = 30
    A, b = contraction(rng, n), rng.standard_normal(n)
    whole, sums = solved(A, b), []

    def total(own):
        sums.append(own.size)
        return own

    counted = solved(A, b, total=total)
    np.testing.assert_array_equal(counted.x, whole.x)
    made = len(whole.history)
    assert made + 2 <= len(sums) <= 2 * made + 2, "of an iteration, and the norms before and after"


@pytest.mark.parametrize(("size", "sums"), [(0.5, 1), (0.999, 2)])
def test_what_is_mostly_new_is_made_orthogonal_once(rng, size, sums):
    """A random contraction takes a vector elsewhere; a rotation in few planes hardly does."""
    n, told = 200, []
    C = rng.standard_normal((n, n))
    C *= size / np.linalg.norm(C, 2)
    if sums == 2:
        C = np.diag(np.linspace(0.9, size, n))
    solved(np.eye(n) - C, rng.standard_normal(n), most=20, total=lambda x: told.append(1) or x)
    assert len(told) == 20 * sums + 2


def test_it_begins_anew_and_still_ends(rng):
    A, b = contraction(rng, 60, 0.9), rng.standard_normal(60)
    often, once = solved(A, b, restart=5), solved(A, b)
    assert often.stop == once.stop == Stop.RESIDUAL
    assert len(often.history) > len(once.history)
    np.testing.assert_allclose(often.x, once.x, atol=1e-9)


@pytest.mark.parametrize("most", [1, 3, 7])
def test_it_ends_when_it_is_told_to(rng, most):
    found = solved(contraction(rng, 60, 0.95), rng.standard_normal(60), most=most, restart=4)
    assert found.stop == Stop.LIMIT and len(found.history) == most
    assert found.history[-1] == found.residual > 1e-12


def test_a_singular_map_is_told(rng):
    """What its range does not hold is never reached; what it holds is, and the map is not taken for
    a regular one."""
    n = 40
    A = contraction(rng, n)
    U, sizes, Vt = np.linalg.svd(A)
    sizes[-1] = 0.0
    A = (U * sizes) @ Vt
    bad = solved(A, U[:, -1] + A @ rng.standard_normal(n))
    assert bad.stop == Stop.STAGNATED and bad.residual > 1e-2
    good = solved(A, A @ rng.standard_normal(n), most=n - 1)
    assert good.residual < 1e-10
    assert bad.regular < 1e-7


def test_nothing_is_found_for_nothing(rng):
    found = solved(contraction(rng, 5), np.zeros(5))
    assert found.stop == Stop.ZERO and not found.history and not found.x.any()


def test_an_eigenvector_is_found_at_once():
    found = solved(np.diag([2.0, 3.0, 5.0]), np.array([0.0, 6.0, 0.0]))
    assert len(found.history) == 1
    np.testing.assert_allclose(found.x, [0, 2, 0], atol=1e-15)


def test_numbers_that_are_not_finite_end_it(rng):
    found = gmres(
        lambda x: np.full(4, np.nan), np.ones(4), tolerance=1e-12, most=9, restart=9
    )  # fmt: skip
    assert found.stop == Stop.NOT_FINITE


def test_progress_is_told_and_may_interrupt(rng):
    A, b, told = contraction(rng, 80, 0.95), rng.standard_normal(80), []

    def progress(done, most, residual):
        told.append((done, most, residual))
        if done == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solved(A, b, progress=progress)
    assert [done for done, _, _ in told] == list(range(1, 13))
    residuals = [residual for *_, residual in told]
    assert all(b <= a for a, b in itertools.pairwise(residuals))
