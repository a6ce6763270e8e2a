"""What is computed on the padded arrays (block, column, row) of equally sized blocks, and how far
blocks are padded."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tessella.machine.arrays import AnyArray, Array, namespace, on_device
from tessella.machine.device import on_host, preferred

UNROLL = 32
"""Blocks of at most this many columns are contracted by fused sums, wider ones by matrix products,
which for them are two to twenty times faster on a CPU."""


def look_up(parts: list[jax.Array], table: jax.Array) -> jax.Array:
    """sum_k flat[table[k]], unrolled so that it fuses with what uses it."""
    flat = jnp.concatenate(parts) if len(parts) > 1 else parts[0]
    out = jnp.zeros(table.shape[1])
    for places in table:
        out = out + jnp.where(places >= 0, flat[places], 0.0)
    return out


def scaled_rows(values: jax.Array, rows: jax.Array, factors: jax.Array) -> jax.Array:
    """values[b, c, i] * factors[rows[b, i]]."""
    if on_host(values):
        return on_device(np.asarray(values) * np.asarray(factors)[np.asarray(rows)][:, None, :])
    return values * factors[rows][:, None, :]


def scaled_columns(values: jax.Array, columns: jax.Array, factors: Array) -> jax.Array:
    """values[b, c, i] * factors[columns[b, c]]."""
    own = factors[np.asarray(columns)][:, :, None]
    return on_device(np.asarray(values) * own) if on_host(values) else values * own


def squared_sums(values: jax.Array, axis: int) -> Array:
    """Sums of squares over the columns (axis 1) or the rows (2) of every block."""
    to = "bcm,bcm->bm" if axis == 1 else "bcm,bcm->bc"
    if on_host(values):
        host = np.asarray(values)
        return np.einsum(to, host, host)
    return np.asarray(jnp.einsum(to, values, values))


def largest_entries(values: jax.Array, axis: int | tuple[int, ...]) -> Array:
    """Largest absolute values along some axes; NaN where there is one."""
    if on_host(values):
        host = np.asarray(values)
        return np.maximum(host.max(axis=axis, initial=0.0), -host.min(axis=axis, initial=0.0))
    return np.asarray(jnp.abs(values).max(axis=axis, initial=0.0))


def contract_columns(values: jax.Array, v: jax.Array) -> jax.Array:
    """sum_c values[b, c, m] v[b, c]."""
    C = values.shape[1]
    if C > UNROLL:
        return jnp.einsum("bcm,bc->bm", values, v)
    out = values[:, 0] * v[:, 0, None]
    for c in range(1, C):
        out = out + values[:, c] * v[:, c, None]
    return out


def contract_rows(values: jax.Array, u: jax.Array) -> jax.Array:
    """sum_m values[b, c, m] u[b, m]."""
    if values.shape[1] > UNROLL:
        return jnp.einsum("bcm,bm->bc", values, u)
    return (values * u[:, None, :]).sum(2)


SAME = 1e-11
"""Two matrices are one if no number differs by more than this part of the largest."""


def same_numbers(a: AnyArray, b: AnyArray) -> bool:
    """Equal up to the rounding that a shift of all points makes."""
    if a.shape != b.shape:
        return False
    if not a.size:
        return True
    xp = namespace(a)
    return bool(xp.abs(a - b).max() <= SAME * xp.abs(a).max())


def bucket(heights: Sequence[int] | np.ndarray, width: int, most: int | None = None) -> np.ndarray:
    """Padded height for every block: at most `most` different ones, with the least padding.

    By default as many as the device prefers. Every further height costs compilation, so one is
    kept for all while its padding is small (half a million entries, or a twentieth of the whole).
    """
    heights = np.asarray(heights)
    if most is None:
        most = preferred().heights
    distinct, number = np.unique(heights, return_counts=True)
    whole = int(distinct[-1])
    true = int((distinct * number).sum())
    padding = (whole * len(heights) - true) * width
    if padding <= max(500_000, 0.05 * true * width):
        return np.full_like(heights, whole)
    # cost[k][i]: least padded size of the first i distinct heights in k buckets.
    below = np.concatenate([[0], np.cumsum(number)])
    n = len(distinct)
    cost = np.full((most + 1, n + 1), np.inf)
    cut = np.zeros((most + 1, n + 1), dtype=int)
    cost[:, 0] = 0
    for k in range(1, most + 1):
        for i in range(1, n + 1):
            sizes = cost[k - 1, :i] + (below[i] - below[:i]) * distinct[i - 1]
            cut[k, i] = int(np.argmin(sizes))
            cost[k, i] = sizes[cut[k, i]]
    padded = np.zeros(n, dtype=heights.dtype)
    i, k = n, most
    while i > 0:
        start = cut[k, i]
        padded[start:i] = distinct[i - 1]
        i, k = start, k - 1
    return padded[np.searchsorted(distinct, heights)]
