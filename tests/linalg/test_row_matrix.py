"""A matrix by its rows is the same linear map, read once for both products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.linalg import row_matrix
from tessella.linalg.block_matrix import Block, BlockMatrix, beside, from_blocks
from tessella.linalg.iterative.iteration import Stop
from tessella.linalg.row_matrix import RowBlocks, RowMatrix, by_rows
from tessella.machine.memory import limited


@pytest.fixture
def at_once(monkeypatch):
    """Matrices of any size, however much they are padded, on one core."""
    always(monkeypatch)


def always(monkeypatch):
    monkeypatch.setattr(row_matrix, "CORES", 1)
    monkeypatch.setattr(row_matrix, "LARGE", 0)
    monkeypatch.setattr(row_matrix, "PADDED", np.inf)


def windows(number, overlap, periodic=False, seed=0, widths=None, per=7):
    """Blocks of windows along a line, of random widths, over points in random order."""
    random = np.random.default_rng(seed)
    x = (np.arange(per * number) + 0.5) / per
    name = random.permutation(len(x))
    widths = random.integers(0, 6, number) if widths is None else np.full(number, widths)
    starts = np.cumsum(widths) - widths
    blocks = []
    for j, (width, start) in enumerate(zip(widths.tolist(), starts.tolist(), strict=True)):
        away = np.abs(x - j - 0.5)
        away = np.minimum(away, number - away) if periodic else away
        rows = name[away < overlap / 2]
        values = random.standard_normal((len(rows), width))
        blocks.append(Block(values, rows, start + np.arange(width)))
    shape = len(x) + 2, max(int(widths.sum()), 1)  # two rows that no block fills
    return from_blocks(blocks, shape, np.arange(float(number))[:, None])


overlaps = st.sampled_from([1.0, 1.5, 1.9, 2.9, 4.0])


@given(number=st.integers(1, 9), overlap=overlaps, periodic=st.booleans(), seed=st.integers(0, 99))
def test_both_products_are_those_of_the_blocks(number, overlap, periodic, seed):
    A = windows(number, overlap, periodic, seed)
    with pytest.MonkeyPatch.context() as patch:
        always(patch)
        M = by_rows(A)
    assert isinstance(M, RowMatrix)
    random, dense = np.random.default_rng(seed), A.to_dense()
    v, u = random.standard_normal(A.shape[1]), random.standard_normal(A.shape[0])
    np.testing.assert_allclose(M.matvec(v), dense @ v, atol=1e-13)
    np.testing.assert_allclose(M.rmatvec(u), dense.T @ u, atol=1e-13)
    before = u.copy()
    w, back = M.onwards(v, u, 3.0, 0.5)
    assert np.array_equal(u, before)
    np.testing.assert_allclose(w, 3 * dense @ v - 0.5 * u, atol=1e-12)
    np.testing.assert_allclose(back(), dense.T @ w, atol=1e-12)


def unpadded(M):
    """Entries of all patches."""
    m, n = M.shape
    return sum(((p.rows < m).sum(1) * (p.columns < n).sum(1)).sum() for p in M.inner.patches)


def test_a_patch_has_rows_of_its_own_and_hardly_any_padding(at_once):
    """Windows that reach a little less than three of their steps: 2.9 of 3 columns are filled."""
    A = windows(200, 2.9, widths=8, per=40)
    M = by_rows(A)
    rows = np.concatenate([own.rows.ravel() for own in M.inner.patches])
    rows = rows[rows < A.shape[0]]
    assert len(rows) == len(np.unique(rows)) == A.shape[0] - 2
    assert unpadded(M) < 1.01 * 200 * 40 * 3 * 8


def test_periodic_windows_are_cut_like_others(at_once):
    ring = by_rows(windows(60, 2.9, periodic=True, widths=4, per=30))
    assert unpadded(ring) < 1.01 * 60 * 30 * 3 * 4


def test_levels_share_patches(at_once):
    A, B = windows(12, 2.9, seed=1), windows(12, 1.9, seed=2)
    both = beside([A, BlockMatrix(B.groups, (A.shape[0], B.shape[1]))])
    v = np.random.default_rng(0).standard_normal(both.shape[1])
    np.testing.assert_allclose(by_rows(both).matvec(v), both.to_dense() @ v, atol=1e-13)


@pytest.mark.parametrize("solver", [ts.LSQR(max_iterations=30), ts.LSMR(max_iterations=30)])
def test_iterations_are_the_same_to_rounding(solver, monkeypatch):
    A, b = windows(20, 2.9, seed=3), np.random.default_rng(4).standard_normal(142)
    expected = solver.solve(solver.init(A), b)
    always(monkeypatch)
    state = solver.init(A)
    assert isinstance(state, RowMatrix)
    found = solver.solve(state, b)
    assert found.iterations == expected.iterations and found.stop == expected.stop
    np.testing.assert_allclose(found.x, expected.x, atol=1e-9)
    np.testing.assert_allclose(found.history.residual, expected.history.residual, rtol=1e-9)


def test_the_blocks_stay_where_rows_would_not_pay(at_once, monkeypatch):
    A = windows(20, 2.9)
    twice = from_blocks([Block(np.ones((2, 1)), np.array([3, 3]), np.array([0]))], (5, 1))
    assert by_rows(twice) is twice  # patches would lose one of both rows
    with limited(1000):
        assert by_rows(A) is A  # there is no room for a second copy
    wide = windows(3, 1.9, widths=row_matrix.NARROW + 1)
    assert by_rows(wide) is wide
    for name, value in (("PADDED", 0.1), ("LARGE", 1 << 40), ("CORES", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(row_matrix, name, value)
            assert by_rows(A) is A
    assert by_rows(A) is not A


@pytest.mark.parametrize("after", [0, 1, 7])
def test_what_is_interrupted_keeps_its_iterations(at_once, monkeypatch, after):
    """Not only whole chunks of them, which a large matrix takes long for."""
    A, b = windows(20, 2.9, seed=3), np.random.default_rng(4).standard_normal(142)
    state, made, advance = ts.LSQR().init(A), [], RowBlocks.advance

    def interrupted(self, v, u):
        if len(made) == after:
            raise KeyboardInterrupt
        made.append(1)
        return advance(self, v, u)

    expected = ts.LSQR(max_iterations=max(after, 1)).solve(state, b)
    monkeypatch.setattr(RowBlocks, "advance", interrupted)
    told = []
    found = ts.LSQR().solve(state, b, progress=lambda *news: told.append(news))
    assert found.stop == Stop.INTERRUPTED and found.iterations == after == len(made)
    assert len(found.history.residual) == after
    if after:
        assert np.array_equal(found.x, expected.x) and told[-1][0] == after
    else:
        assert not np.any(found.x) and not told


def test_factors_by_rows_are_saved_as_blocks(at_once, tmp_path):
    problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), -1.0), [ts.Dirichlet(0.0)])
    factored = ts.factor(problem, subdomains=6, features=8, solver=ts.LSQR(max_iterations=200))
    assert isinstance(factored.ready.state, RowMatrix)
    x = np.linspace(0, 1, 9)[:, None]
    expected = factored.solve()(x)
    loaded = ts.load(factored.save(tmp_path / "factors"), problem)
    np.testing.assert_allclose(loaded.solve()(x), expected, atol=1e-9)
    assert factored.bytes > 0
