"""Enrichment on subdomains: which have a function, its values there, and its unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import jax
import numpy as np

from tessella.features.enrichment import Enrichment
from tessella.geometry.domain import Domain
from tessella.geometry.functions import (
    Function,
    Orders,
    check_values,
    directional,
    explained,
    function_name,
)
from tessella.machine.arrays import Array, on_device
from tessella.overlap.decomposition import Decomposition


def active(decomposition: Decomposition, enrichment: Sequence[Enrichment]) -> Array:
    """1 where a subdomain has the column and 0 where not, shape (J, E)."""
    found = np.ones((decomposition.count, len(enrichment)))
    for e, one in enumerate(enrichment):
        for axis, (low, high) in _limits(one, decomposition.domain):
            centre, reach = decomposition.centres[:, axis], decomposition.half_widths[:, axis]
            found[:, e] *= (centre + reach > low) & (centre - reach < high)
    return found


def enriched_values(
    decomposition: Decomposition,
    enrichment: Sequence[Enrichment],
    points: Array,
    needed: Mapping[Orders, np.ndarray],
) -> Array:
    """D^gamma psi_e at the points where `needed[gamma]`, 0 elsewhere; shape (E, G, n).

    A derivative is evaluated only where an operator uses it: the value of a corner singularity on
    the corner is finite, and its second derivatives there matter only if an equation is asked
    there.
    """
    found = np.zeros((len(enrichment), len(needed), len(points)))
    for e, one in enumerate(enrichment):
        near = _reached(decomposition, one, points)
        for g, (gamma, asked) in enumerate(needed.items()):
            at = np.flatnonzero(asked & near)
            what = function_name(one.function)
            what = f"the derivative {gamma} of {what}" if any(gamma) else what
            try:
                values = _derivative(one.function, gamma, points[at])
                found[e, g, at] = check_values(values, points[at], f"enrichment: {what}")
            except ValueError as error:
                raise ValueError(f"{error}; {_REMEDY}") from None
    return found


_REMEDY = (
    "keep the points off a singularity (an even or odd number of points_per_axis), or give the "
    "column to other subdomains with Enrichment(function, where=...)"
)


CHUNK = 1024
"""Points at which a function is evaluated at a time, so that each derivative compiles once."""


def _derivative(function: Function, gamma: Orders, points: Array) -> Array:
    """D^gamma psi as it comes, finite or not; its plain value may be NumPy code."""
    found = []
    for start in range(0, len(points), CHUNK):
        pick = np.minimum(np.arange(start, start + CHUNK), len(points) - 1)
        try:
            with explained(function, points, f"the enrichment {function_name(function)}", False):
                value = np.asarray(_compiled(function, gamma)(on_device(points[pick])))
        except jax.errors.TracerArrayConversionError:
            if not any(gamma):
                return np.asarray(function(points))
            raise TypeError(
                f"the enrichment {function_name(function)} must be differentiated, which needs "
                f"jax.numpy inside it: replace NumPy calls such as np.exp by jnp.exp"
            ) from None
        if value.shape not in ((), (CHUNK,)):
            return np.asarray(function(points))
        found.append(np.broadcast_to(value, CHUNK)[: len(points) - start])
    return np.concatenate(found) if found else np.zeros(0)


@lru_cache(maxsize=256)
def _compiled(function: Function, gamma: Orders) -> Callable[[jax.Array], jax.Array]:
    return jax.jit(directional(function, gamma))


def scales(norms: Array, extra: int) -> Array:
    """Factors of all columns, (J, C), for the filter; `norms` are the columns' lengths in each
    block, the last `extra` of which are enrichment.

    The filter's threshold is relative to a block's longest column. A function as large as
    1/eps^2 would raise it for all features, and a tiny one would be dropped by it. So each function
    gets the one factor that makes it as long as the longest feature of a block and nowhere longer.
    """
    factors = np.ones_like(norms)
    longest = norms[:, : norms.shape[1] - extra].max(axis=1)
    for column in range(norms.shape[1] - extra, norms.shape[1]):
        own = norms[:, column]
        used = (own > 0) & (longest > 0)
        if used.any():
            factors[:, column] = np.min(longest[used] / own[used])
    return factors


def _limits(one: Enrichment, domain: Domain) -> list[tuple[int, tuple[float, float]]]:
    if one.where is None:
        return []
    return [
        (domain.axis_index(axis), ends)
        for axis, ends in zip(one.where.axes, one.where.bounds, strict=True)
    ]


def _reached(decomposition: Decomposition, one: Enrichment, points: Array) -> np.ndarray:
    """The points inside a subdomain that has the column, or on its faces."""
    inside = np.ones(len(points), dtype=bool)
    if one.where is None:
        return inside
    members = active(decomposition, (one,))[:, 0] > 0
    centres, half = decomposition.centres[members], decomposition.half_widths[members]
    low, high = centres - half, centres + half
    if decomposition.equal:  # such subdomains fill a box
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
    inside[:] = False
    for a, b in zip(low, high, strict=True):
        near = 1e-12 * (b - a)
        inside |= np.all((points >= a - near) & (points <= b + near), axis=1)
    return inside
