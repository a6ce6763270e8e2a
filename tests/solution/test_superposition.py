"""Sums of features at points: by one table where cells are asked alike, else strip by strip."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.accuracy.held_out import Repeated
from tessella.solution import superposition

SYMBOL = {(0, 0): 1.5, (1, 0): -2.0, (0, 2): 0.5, (1, 1): 1.0}


def basis(edges, shared=True):
    tiling = ts.Tiling(ts.Box(x=(0, 2), y=(-1, 1)), edges)
    return ts.CellBasis(tiling, ts.RandomFeatures(23, activation="sin", scale=3.0), shared=shared)


def both(own, x, monkeypatch):
    """The values as they are found, by strips, and how many tables were made."""
    a = np.random.default_rng(1).standard_normal(own.columns)
    symbol = {alpha: c * (1 + x[:, 0]) for alpha, c in SYMBOL.items()}
    made = []
    table = superposition._by_table
    monkeypatch.setattr(
        superposition, "_by_table", lambda *args: made.append(len(args[2])) or table(*args)
    )
    found = superposition.superposed(own, a, x, symbol)
    seen = own.decomposition.seen(x)
    return found, superposition._by_strips(own, a, x, symbol, *seen), made


@pytest.mark.parametrize("edges", [(4, 3), ([0, 0.3, 0.5, 2], 4)])
def test_cells_asked_at_the_same_places_need_one_table(edges, monkeypatch):
    own = basis(edges)
    x = Repeated(own.decomposition.domain, own.decomposition).scatter(100, np.random.default_rng(0))
    found, strips, made = both(own, x, monkeypatch)
    assert made == [own.decomposition.count]
    np.testing.assert_allclose(found, strips, rtol=0, atol=1e-11 * np.abs(strips).max())


def test_on_walls_cells_at_corners_are_groups_of_their_own(monkeypatch):
    own = basis((5, 4))
    source, draw = Repeated(own.decomposition.domain, own.decomposition), np.random.default_rng(0)
    x = np.concatenate(
        [source.scatter_on(part, 10, draw, source.domain)[0] for part in ("xmin", "ymax")]
    )
    found, strips, made = both(own, x, monkeypatch)
    assert sorted(made) == [1, 3, 4]
    np.testing.assert_allclose(found, strips, rtol=0, atol=1e-11 * np.abs(strips).max())


@settings(deadline=None, max_examples=20)
@given(shift=st.floats(1e-12, 1e-10), cell=st.integers(0, 47))
def test_places_that_differ_by_more_than_rounding_are_kept_apart(shift, cell):
    own = basis((8, 6))
    x = Repeated(own.decomposition.domain, own.decomposition).scatter(1, np.random.default_rng(0))
    each = len(x) // own.decomposition.count
    x[cell * each, 0] += shift if x[cell * each, 0] < 1 else -shift
    subdomain, point = own.decomposition.seen(x)
    groups = superposition._alike(own, x, subdomain, point)
    assert groups is None or len(groups) == 2


def test_draws_of_their_own_and_scattered_points_go_by_strips(monkeypatch):
    own = basis((8, 6), shared=False)
    x = Repeated(own.decomposition.domain, own.decomposition).scatter(9, np.random.default_rng(0))
    assert both(own, x, monkeypatch)[2] == []
    scattered = np.random.default_rng(3).uniform((0, -1), (2, 1), (400, 2))
    assert both(basis((8, 6)), scattered, monkeypatch)[2] == []


def test_repeated_points_lie_in_their_cells_and_on_their_faces():
    domain = ts.Box(x=(0, 2), y=(-1, 1))
    tiling = ts.Tiling(domain, ([0, 0.3, 0.5, 2], 4))
    source, draw = Repeated(domain, tiling), np.random.default_rng(0)
    x = source.scatter(60, draw)
    assert np.all(np.bincount(tiling.seen(x)[0], minlength=tiling.count) == len(x) // tiling.count)
    x, normals = source.scatter_on("xmax", 20, draw, domain)
    assert np.all(x[:, 0] == 2) and np.all(normals == [1, 0])
    assert np.all(np.bincount(tiling.seen(x)[0], minlength=12)[-4:] == len(x) // 4)
