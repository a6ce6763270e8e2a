"""Sums of basis functions at points, with their derivatives.

Cells that share a draw and are asked at the same places of their own need one table of features for
all of them: collocation points of a slab of time, and held-out points that are `Repeated`. All else
is evaluated strip by strip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tessella.cells.basis import CellBasis
from tessella.features.random_features import Layer, shallow_derivatives
from tessella.geometry.functions import Orders
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


def superposed(basis: Basis, a: Array, x: Array, symbol: dict[Orders, Array]) -> Array:
    """sum_jk a_jk sum_alpha symbol[alpha] D^alpha (omega_j phi_jk) at the points x."""
    subdomain, point = basis.decomposition.seen(x)
    groups = _alike(basis, x, subdomain, point)
    if groups is None:
        return _by_strips(basis, a, x, symbol, subdomain, point)
    local, values = a.reshape(basis.decomposition.count, -1), np.zeros(len(x))
    for cells, at, z in groups:
        values[at] = _by_table(basis, local[cells], cells, z, {k: c[at] for k, c in symbol.items()})
    return values


def superposed_each(
    basis: Basis, a: Array, x: Array, alphas: Sequence[Orders]
) -> dict[Orders, Array]:
    """Several derivatives of sum_jk a_jk omega_j phi_jk at the points x, one by one."""
    groups = _alike(basis, x, *basis.decomposition.seen(x))
    if groups is None:
        return {alpha: superposed(basis, a, x, {alpha: np.ones(len(x))}) for alpha in alphas}
    local, found = a.reshape(basis.decomposition.count, -1), {o: np.zeros(len(x)) for o in alphas}
    for cells, at, z in groups:
        for alpha, value in _tables(basis, local[cells], cells, z, alphas):
            found[alpha][at] = value
    return found


Group = tuple[np.ndarray, np.ndarray, Array]
"""Cells, the numbers of their points (cells, P), and the places of these in a cell (P, d)."""


def _alike(basis: Basis, x: Array, subdomain: np.ndarray, point: np.ndarray) -> list[Group] | None:
    """The cells in groups that are asked at the same places; None if that would not pay."""
    if not (isinstance(basis, CellBasis) and basis.shared and len(basis.layers) == 1):
        return None
    if basis.enrichment or not basis.features.function.plain or len(point) != len(x):
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
    for alpha, value in _tables(basis, a, cells, z, tuple(symbol)):
        values += symbol[alpha] * value
    return values


def _tables(
    basis: Basis, a: Array, cells: np.ndarray, z: Array, alphas: Sequence[Orders]
) -> Iterator[tuple[Orders, Array]]:
    """Derivatives at such places, (cells, P)."""
    features, half_widths = basis.features, basis.decomposition.half_widths[cells]
    layer = Layer(*(np.asarray(part[0]) for part in basis.layers[0]))
    d = z.shape[1]
    phi = shallow_derivatives(features.function, layer, list(z.T), [np.ones(1)] * d, tuple(alphas))
    for alpha in alphas:
        made = a[:, : features.count] @ phi[alpha]
        if features.constant and not any(alpha):
            made += a[:, features.count, None]
        unit = np.prod(half_widths ** -np.array(alpha, dtype=float), axis=1)[:, None]
        yield alpha, made * unit


def _by_strips(
    basis: Basis,
    a: Array,
    x: Array,
    symbol: dict[Orders, Array],
    subdomain: np.ndarray,
    point: np.ndarray,
) -> Array:
    """The same at any points, strip by strip of one subdomain each."""
    alphas = sorted(symbol)
    coefficients = np.stack([symbol[alpha] for alpha in alphas])
    local = a.reshape(basis.decomposition.count, -1)
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
        parts = np.einsum("bcm,bc->bm", np.asarray(blocks)[:used], local[j[:used]])
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
