"""Eliminating private columns leaves the least-squares problem's minimiser unchanged."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from tessella.linalg.condensation import condensation_flops, condense
from tessella.linalg.rrqr import RRQR


def whole_system(blocks):
    """Rows [A 0; E -I] of every block, all sharing the same unknowns t."""
    c = len(blocks[0][1])
    n = sum(A.shape[1] for A, _, _ in blocks)
    rows, rhs, start = [], [], 0
    for A, E, h in blocks:
        own = np.zeros((len(A) + c, n + c))
        own[:, start : start + A.shape[1]] = np.concatenate([A, E])
        own[len(A) :, n:] = -np.eye(c)
        rows.append(own)
        rhs.append(np.concatenate([h, np.zeros(c)]))
        start += A.shape[1]
    return np.concatenate(rows), np.concatenate(rhs)


def solve_condensed(blocks, rule):
    found = [condense(A, E, h[:, None], rule) for A, E, h in blocks]
    T = np.concatenate([f.triangle for f in found])
    g = np.concatenate([f.g[:, 0] for f in found])
    t = np.linalg.lstsq(T, g)[0]
    parts = []
    for f, (A, _, _) in zip(found, blocks, strict=True):
        a = np.zeros(A.shape[1])
        a[f.kept] = solve_triangular(f.R, f.z[:, 0] - f.C @ t)
        parts.append(a)
    lost = sum(float(f.lost[0]) for f in found) + float(np.sum((T @ t - g) ** 2))
    return np.concatenate([*parts, t]), lost


def random_blocks(rng, sizes, c):
    return [
        (rng.standard_normal((m, n)), rng.standard_normal((c, n)), rng.standard_normal(m))
        for m, n in sizes
    ]


@pytest.mark.parametrize("sizes", [[(30, 8), (25, 6)], [(5, 8), (30, 6)]], ids=["tall", "wide"])
def test_it_solves_the_whole_least_squares_problem(rng, sizes):
    blocks = random_blocks(rng, sizes, 5)
    M, h = whole_system(blocks)
    x, lost = solve_condensed(blocks, RRQR(1e-12))
    expected = np.linalg.lstsq(M, h)[0]
    np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-11)
    assert lost == pytest.approx(np.sum((M @ expected - h) ** 2), rel=1e-10)


def test_dependent_columns_are_dropped_and_the_rest_still_solved_exactly(rng):
    blocks = random_blocks(rng, [(30, 8), (25, 6)], 5)
    A, E, h = blocks[0]
    A[:, 3], E[:, 3] = A[:, 1] + A[:, 2], E[:, 1] + E[:, 2]
    found = condense(A, E, h[:, None], RRQR(1e-10))
    assert len(found.kept) == 7
    M, b = whole_system(blocks)
    x, lost = solve_condensed(blocks, RRQR(1e-10))
    least = np.sum((M @ np.linalg.lstsq(M, b)[0] - b) ** 2)
    assert np.sum((M @ x - b) ** 2) == pytest.approx(least, rel=1e-9)
    assert lost == pytest.approx(least, rel=1e-9)


def test_the_filter_is_the_one_of_overlapping_blocks(rng):
    """The same columns survive as in the rank-revealing QR of the stacked rows."""
    A = rng.standard_normal((40, 6)) @ np.diag(10.0 ** -np.arange(6)) @ rng.standard_normal((6, 9))
    E = rng.standard_normal((3, 6)) @ np.diag(10.0 ** -np.arange(6)) @ rng.standard_normal((6, 9))
    rule = RRQR(1e-4)
    found = condense(A, E, np.zeros((40, 1)), rule)
    assert list(found.kept) == list(rule.factor(np.concatenate([A, E])).kept)


def test_several_right_hand_sides_share_one_factorisation(rng):
    A, E, _ = random_blocks(rng, [(20, 6)], 4)[0]
    h = rng.standard_normal((20, 3))
    together = condense(A, E, h, RRQR(1e-12))
    for i in range(3):
        alone = condense(A, E, h[:, i : i + 1], RRQR(1e-12))
        np.testing.assert_allclose(together.z[:, i], alone.z[:, 0], atol=1e-13)
        np.testing.assert_allclose(together.g[:, i], alone.g[:, 0], atol=1e-13)


def test_the_predicted_work_is_that_of_its_dense_factorisations():
    assert condensation_flops(1000, 1, 0) == pytest.approx(2 * 1000, rel=0.01)
    tall = condensation_flops(20_000, 100, 0) - condensation_flops(10_000, 100, 0)
    assert tall == pytest.approx(2 * 10_000 * 100**2, rel=1e-9)
