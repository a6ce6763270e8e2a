"""NestedQR against LAPACK on systems that are wide, badly scaled or rank-deficient."""

import numpy as np
import pytest

import tessella as ts
from tessella.linalg.block_matrix import Block, from_blocks
from tessella.linalg.iterative.iteration import Stop
from tessella.linalg.units import column_scale, in_units

KINDS = ("plain", "dependent", "decaying", "smooth", "scaled columns", "scaled rows")


def values(kind, m, w, random):
    V = random.standard_normal((m, w))
    if kind == "dependent":
        rank = max(1, min(m, w) // 2)
        return random.standard_normal((m, rank)) @ random.standard_normal((rank, w))
    if kind == "decaying":
        U, s, W = np.linalg.svd(V, full_matrices=False)
        return U * np.geomspace(1, 10.0 ** -random.uniform(6, 18), len(s)) @ W
    if kind == "smooth":
        waves = np.outer(np.linspace(0, 1, m), 2 * random.standard_normal(w))
        return np.cos(waves + random.uniform(0, 6, w))
    if kind == "scaled columns":
        return V * 10.0 ** random.uniform(-8, 8, w)
    if kind == "scaled rows":
        return V * 10.0 ** random.uniform(-8, 8, m)[:, None]
    return V


def chain(seed, kind):
    """Blocks along a line, each on rows of its own and some of its neighbours'; often wide."""
    random = np.random.default_rng(seed)
    J, m, w = (int(random.integers(*ends)) for ends in ((3, 14), (4, 14), (3, 16)))
    step = max(1, int(m * random.uniform(0.3, 0.9)))
    blocks = [
        Block(values(kind, m, w, random), j * step + np.arange(m), j * w + np.arange(w))
        for j in range(J)
    ]
    places = np.arange(J, dtype=float)[:, None] if seed % 2 else None
    rows = step * (J - 1) + m
    return from_blocks(blocks, (rows, J * w), places), random.standard_normal(rows)


def best_residual(A, b):
    dense = A.to_dense()
    return float(np.linalg.norm(dense @ np.linalg.lstsq(dense, b, rcond=None)[0] - b))


@pytest.mark.parametrize("kind", KINDS)
def test_the_residual_is_lapacks_or_the_matrix_is_called_deficient(kind):
    solver, wide = ts.NestedQR(leaf=4), 0
    for seed in range(50):
        A, b = chain(seed, kind)
        found = solver.solve(solver.init(A), b)
        true = float(np.linalg.norm(A.to_dense() @ found.x - b))
        size = float(np.linalg.norm(b))
        assert true <= 10 * best_residual(A, b) + 1e-12 * size
        if A.shape[0] < A.shape[1]:
            wide += 1
            own = float(np.linalg.norm(np.asarray(A.matvec(found.x)) - b))
            assert found.residual_norm == pytest.approx(own)
            assert (found.stop == Stop.DEFICIENT) == (own > 1e-10 * size)
    assert wide > 10


def test_a_wide_system_without_full_rank_is_called_so():
    random = np.random.default_rng(0)
    row = random.standard_normal((1, 6))
    A = from_blocks([Block(np.vstack([row, row]), np.arange(2), np.arange(6))], (2, 6))
    solver = ts.NestedQR()
    found = solver.solve(solver.init(A), np.array([1.0, -1.0]))
    assert found.stop == Stop.DEFICIENT
    assert "rank-deficient" in found.stop and "dependent" in found.advice
    assert found.residual_norm == pytest.approx(np.sqrt(2))
    met = solver.solve(solver.init(A), np.array([1.0, 1.0]))
    assert met.stop == Stop.DIRECT
    np.testing.assert_allclose(A.to_dense() @ met.x, 1.0, rtol=1e-12)


def test_several_right_hand_sides_of_a_wide_system():
    A, _ = chain(1, "plain")
    assert A.shape[0] < A.shape[1]
    B = np.random.default_rng(3).standard_normal((A.shape[0], 3))
    X, residual = ts.NestedQR(leaf=4).init(A).solve(B)
    np.testing.assert_allclose(A.to_dense() @ X, B, atol=1e-11)
    assert residual == pytest.approx(np.linalg.norm(A.to_dense() @ X - B), abs=1e-12)


@pytest.mark.parametrize("size", [1e-290, 1e-170, 1e155, 1e290])
@pytest.mark.parametrize("seed", [2, 4])
def test_columns_of_any_size_count(seed, size):
    A, b = chain(seed, "plain")
    factors = np.where(np.arange(A.shape[1]) % 3 == 0, size, 1.0)
    scaled = from_blocks(
        [Block(k.values * factors[k.columns], k.rows, k.columns) for k in A.blocks()],
        A.shape,
        A.positions(),
    )
    solver = ts.NestedQR(leaf=4)
    x, residual = solver.init(scaled).solve(b)
    expected, least = solver.init(A).solve(b)
    np.testing.assert_allclose(x * factors, expected, rtol=1e-6, atol=1e-9 * abs(expected).max())
    assert residual == pytest.approx(least, abs=1e-12)


@pytest.mark.parametrize("exponent", [-900, -600, 530, 1000])
@pytest.mark.parametrize("seed", [1, 2])
def test_right_hand_sides_of_any_size_have_the_same_digits(seed, exponent):
    A, b = chain(seed, "plain")
    state, unit = ts.NestedQR(leaf=4).init(A), 2.0**exponent
    x, residual = state.solve(b)
    other, left = state.solve(unit * b)
    np.testing.assert_array_equal(other / unit, x)
    assert left / unit == residual


def test_units_are_powers_of_two_and_only_for_extreme_numbers():
    for size, expected in ((1.0, 1.0), (1e40, 1.0), (0.0, 1.0), (3 * 2.0**400, 2.0**401)):
        b, unit = in_units(np.array([size, 0.0]), 2)
        assert unit == expected
        assert b[0] * unit == size


def test_columns_of_subnormal_numbers_count_as_zero(column_blocks):
    dense = np.ones((5, 2)) * [1.0, 1e-310]
    np.testing.assert_allclose(column_scale(column_blocks(dense, 1)), [5**-0.5, 1.0])
