"""Sums of features at points: by one table where cells are asked alike, else strip by strip."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.accuracy.held_out import Repeated
from tessella.cells.cell.draw import placed
from tessella.geometry.gauss import gauss
from tessella.geometry.lattice import gridded
from tessella.solution import superposition

SYMBOL = {(0, 0): 1.5, (1, 0): -2.0, (0, 2): 0.5, (1, 1): 1.0}


def basis(edges, shared=True):
    tiling = ts.Tiling(ts.Box(x=(0, 2), y=(-1, 1)), edges)
    return ts.CellBasis(tiling, ts.RandomFeatures(23, activation="sin", scale=3.0), shared=shared)


def both(own, x, monkeypatch):
    """The values as they are found, by strips, and how many tables were made."""
    a = np.random.default_rng(1).standard_normal(own.columns)
    symbol = {alpha: c * (1 + np.asarray(x)[:, 0]) for alpha, c in SYMBOL.items()}
    made = []
    table = superposition._by_table
    monkeypatch.setattr(
        superposition, "_by_table", lambda *args: made.append(len(args[2])) or table(*args)
    )
    found, local = superposition.superposed(own, a, x, symbol), superposition.Local.of(own, a, None)
    seen, x = own.decomposition.seen(np.asarray(x)), np.asarray(x)
    return found, superposition._by_strips(own, local, x, symbol, *seen), made


@pytest.mark.parametrize("edges", [(4, 3), ([0, 0.3, 0.5, 2], 4)])
def test_cells_asked_at_the_same_places_need_one_table(edges, monkeypatch):
    own = basis(edges)
    x = Repeated(own.decomposition.domain, own.decomposition).scatter(100, np.random.default_rng(0))
    found, strips, made = both(own, x, monkeypatch)
    assert made == [own.decomposition.count]
    np.testing.assert_allclose(found, strips, rtol=0, atol=1e-11 * np.abs(strips).max())


@pytest.mark.parametrize("edges", [(4, 3), ([0, 0.3, 0.5, 2], 4)])
def test_points_that_fill_a_grid_need_no_search_for_their_cells(edges, monkeypatch):
    own = basis(edges)
    tiling, z = own.decomposition, gauss((4, 5))[0]
    x = placed(z, tiling.centres, tiling.half_widths).reshape(-1, 2)
    x = gridded(x, tiling.subdomains, (4, 5))
    monkeypatch.setattr(superposition, "_alike", None)
    for points in (x, x.moved(1, tiling.domain.upper[1])):
        cells = np.unique(tiling.seen(np.asarray(points))[0])
        found, strips, made = both(own, points, monkeypatch)
        assert made[0] == (tiling.count if points is x else len(cells) * tiling.subdomains[1])
        np.testing.assert_allclose(found, strips, rtol=0, atol=1e-11 * np.abs(strips).max())


def test_a_grid_across_cells_is_not_asked_alike(monkeypatch):
    own = basis((4, 3))
    line = np.linspace(0.01, 1.99, 20)
    x = np.stack(np.meshgrid(line, line - 1, indexing="ij"), axis=-1).reshape(-1, 2)
    found, strips, _ = both(own, gridded(x, (1, 1), (20, 20)), monkeypatch)
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
