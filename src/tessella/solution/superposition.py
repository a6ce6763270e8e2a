"""Sums of basis functions at points, with their derivatives.

Cells that share a draw and are asked at the same places of their own need one table of features for
all of them: collocation points of a slab of time, and held-out points that are `Repeated`. All else
is evaluated strip by strip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from tessella.cells.boxes.basis import CellBasis
from tessella.features.random_features import Layer, shallow_derivatives
from tessella.geometry.functions import Orders
from tessella.geometry.lattice import Gridded
from tessella.machine.arrays import Array
from tessella.overlap.basis import Basis
from tessella.overlap.evaluation import basis_tables, by_numpy, evaluate_blocks

PAIRS = 1 << 14
"""(point, subdomain) pairs evaluated at a time; a fixed number, so that it compiles once."""

STRIP = 32
"""Pairs of one subdomain evaluated together, so that its layers are not copied for each of them."""

DIGITS = 9
"""Places in cells are compared after so many digits, and then to rounding."""

ALIKE, FEW, MANY = 4, 16, 32
"""So many times fewer places than points, so few groups of cells, or so many points in each of
them, make tables worth their while."""


Group = tuple[np.ndarray, np.ndarray, Array]
"""Cells, the numbers of their points (cells, P), and the places of these in a cell (P, d)."""


class Local(NamedTuple):
    """Coefficients by subdomain, (own, width): of all, or of those that are `mine`."""

    rows: Array
    mine: np.ndarray | None
    place: np.ndarray | None

    @staticmethod
    def of(basis: Basis, a: Array, mine: np.ndarray | None) -> Local:
        rows = a.reshape(-1, basis.width)
        return Local(rows, mine, None if mine is None else np.cumsum(mine) - 1)

    def __call__(self, subdomain: np.ndarray) -> Array:
        return self.rows[subdomain if self.place is None else self.place[subdomain]]

    def some(self, subdomain: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
        """Those that are here, and what goes with each."""
        if self.mine is None:
            return subdomain, *others
        here = self.mine[subdomain]
        return subdomain[here], *(one[here] for one in others)

    def groups(self, every: list[Group]) -> Iterator[Group]:
        """The same of groups of cells, those left out that have none here."""
        for subdomain, points, z in every:
            cells, at = self.some(subdomain, points)
            if len(cells):
                yield cells, at, z


def superposed(
    basis: Basis,
    a: Array,
    x: Array,
    symbol: dict[Orders, Array],
    mine: np.ndarray | None = None,
) -> Array:
    """sum_jk a_jk sum_alpha symbol[alpha] D^alpha (omega_j phi_jk) at the points x; over the
    subdomains that are `mine`, whose coefficients these are, or over all."""
    groups = _on_lattice(basis, x)
    x, local = np.asarray(x), Local.of(basis, a, mine)
    if groups is None:
        subdomain, point = basis.decomposition.seen(x)
        groups = _alike(basis, x, subdomain, point)
    if groups is None:
        return _by_strips(basis, local, x, symbol, *local.some(subdomain, point))
    values = np.zeros(len(x))
    for cells, at, z in local.groups(groups):
        values[at] = _by_table(basis, local(cells), cells, z, {k: c[at] for k, c in symbol.items()})
    return values


def each_derivative(
    basis: Basis, a: Array, x: Array, alphas: Sequence[Orders], mine: np.ndarray | None = None
) -> Array:
    """sum_jk a_jk D^alpha (omega_j phi_jk) at the points x for every alpha, (alphas, n)."""
    subdomain, point = basis.decomposition.seen(x)
    groups, local = _alike(basis, x, subdomain, point), Local.of(basis, a, mine)
    if groups is None:
        one, pairs = np.ones(len(x)), local.some(subdomain, point)
        each = [_by_strips(basis, local, x, {alpha: one}, *pairs) for alpha in alphas]
        return np.stack(each)
    values = np.zeros((len(alphas), len(x)))
    for cells, at, z in local.groups(groups):
        for row, made in zip(values, _tables(basis, local(cells), cells, z, alphas), strict=True):
            row[at] = made
    return values


def _by_tables(basis: Basis) -> TypeGuard[CellBasis]:
    """Whether tables of features can be shared by cells."""
    if not (isinstance(basis, CellBasis) and basis.shared and len(basis.layers) == 1):
        return False
    return not basis.enrichment and basis.features.function.plain


def _on_lattice(basis: Basis, x: Array) -> list[Group] | None:
    """All cells that points on a lattice lie in, if they are asked at the same places; None if they
    are not, or if nobody knows."""
    lattice = x.lattice if isinstance(x, Gridded) else None
    if lattice is None or not _by_tables(basis):
        return None
    own = basis.decomposition
    if own.cut:
        return None
    z, slabs = [], []
    for axis, line in enumerate(lattice.along):
        slab = own.range_along(axis, line.ravel())[0].reshape(line.shape)
        edges, half = own.edges(axis), np.array(own.along(axis)) / 2
        place = (line - (edges[1:] + edges[:-1])[slab] / 2) / half[slab]
        rounding = 8 * np.finfo(float).eps * max(1.0, np.abs(line).max()) / half.min()
        if np.any(slab != slab[:, :1]) or np.any(np.abs(place - place[0]) > rounding):
            return None
        z.append(place[0])
        slabs.append(slab[:, 0])
    cells = np.ravel_multi_index(np.meshgrid(*slabs, indexing="ij"), own.subdomains).ravel()
    places = np.stack(np.meshgrid(*z, indexing="ij"), axis=-1).reshape(-1, len(z))
    return [(cells, np.arange(len(x)).reshape(len(cells), -1), places)]


def _alike(basis: Basis, x: Array, subdomain: np.ndarray, point: np.ndarray) -> list[Group] | None:
    """The cells in groups that are asked at the same places; None if that would not pay."""
    if not _by_tables(basis) or len(point) != len(x) or not len(x):
        return None
    own = basis.decomposition
    z = (x[point] - own.centres[subdomain]) / own.half_widths[subdomain]
    rounding = (
        8 * np.finfo(float).eps * np.abs(x).max(axis=0, initial=1.0) / own.half_widths.min(axis=0)
    )
    cells, starts = np.unique(subdomain, return_index=True)
    ends, keys = np.append(starts[1:], len(point)), (np.round(z, DIGITS) + 0.0)
    found: dict[bytes, list[int]] = {}
    for k, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        found.setdefault(keys[start:end].tobytes(), []).append(k)
    places = sum(int(ends[k[0]] - starts[k[0]]) for k in found.values())
    if ALIKE * places > len(point) and len(found) > max(FEW, len(point) // MANY):
        return None
    groups = []
    for members in found.values():
        first = slice(int(starts[members[0]]), int(ends[members[0]]))
        at = starts[members][:, None] + np.arange(first.stop - first.start)
        if np.any(np.abs(z[at] - z[first]) > rounding):
            return None
        groups.append((cells[members], point[at], z[first]))
    return groups


def _by_table(
    basis: Basis, a: Array, cells: np.ndarray, z: Array, symbol: dict[Orders, Array]
) -> Array:
    """The same for cells with coefficients a (cells, columns) at common places z (P, d), with
    symbols (cells, P)."""
    values = np.zeros((len(cells), len(z)))
    for c, made in zip(symbol.values(), _tables(basis, a, cells, z, tuple(symbol)), strict=True):
        values += c * made
    return values


def _tables(
    basis: Basis, a: Array, cells: np.ndarray, z: Array, alphas: Sequence[Orders]
) -> Iterator[Array]:
    """Every derivative of such cells at common places, (cells, P)."""
    features, half_widths = basis.features, basis.decomposition.half_widths[cells]
    layer = Layer(*(np.asarray(part[0]) for part in basis.layers[0]))
    rates = [np.ones(1)] * z.shape[1]
    phi = shallow_derivatives(features.function, layer, list(z.T), rates, tuple(alphas))
    for alpha in alphas:
        made = a[:, : features.count] @ phi[alpha]
        if features.constant and not any(alpha):
            made += a[:, features.count, None]
        yield made * np.prod(half_widths ** -np.array(alpha, dtype=float), axis=1)[:, None]


def _by_strips(
    basis: Basis,
    local: Local,
    x: Array,
    symbol: dict[Orders, Array],
    subdomain: np.ndarray,
    point: np.ndarray,
) -> Array:
    """The same at any points, strip by strip of one subdomain each."""
    alphas = sorted(symbol)
    coefficients = np.stack([symbol[alpha] for alpha in alphas])
    tables = basis_tables(basis, x, symbol)
    values = np.zeros(len(x))
    count = basis.decomposition.count
    total = PAIRS if len(point) > PAIRS // 4 else PAIRS // 16
    height = STRIP if count > 1 else total
    owners, pairs, heights = _strips(subdomain, count, height)
    size = total // height
    if len(owners) < size and by_numpy(basis, len(owners) * height, tuple(alphas)):
        size = max(1, len(owners))
    for start in range(0, len(owners), size):
        strip = np.minimum(np.arange(start, start + size), len(owners) - 1)
        j, n = owners[strip], point[pairs[strip]].ravel()
        blocks = evaluate_blocks(
            basis,
            j,
            np.arange(size * height).reshape(size, height),
            heights[strip],
            x[n],
            tables.take(n),
            dict(zip(alphas, coefficients[:, n], strict=True)),
        )
        used = min(size, len(owners) - start)
        parts = np.einsum("bcm,bc->bm", np.asarray(blocks)[:used], local(j[:used]))
        values += np.bincount(n[: used * height], parts.ravel(), minlength=len(x))
    return values


def _strips(
    subdomain: np.ndarray, count: int, height: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs sorted by subdomain, cut into strips of one subdomain each: its number, the numbers of
    the pairs (padded to `height`), and how many of them count."""
    sizes = np.bincount(subdomain, minlength=count)
    starts = np.cumsum(sizes) - sizes
    number = -(-sizes // height)
    owners = np.repeat(np.arange(count), number)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(number) - number, number)
    heights = np.minimum(sizes[owners] - within * height, height)
    slot = np.minimum(np.arange(height), heights[:, None] - 1)
    return owners, (starts[owners] + within * height)[:, None] + slot, heights
