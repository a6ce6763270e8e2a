"""The least-squares objective of networks whose every layer is free.

The rows are those of the feature solver: sum_alpha c_alpha D^alpha v = h at a point, ansatz and
weights folded in. With v = sum_j omega_j f_j and networks f_j, the product rule leaves

    sum over subdomains j that see the point, sum_gamma c_j,gamma D^gamma f_j  =  h,

and the c_j,gamma do not depend on the networks. They are tabulated once, in padded batches of the
(subdomain, point) pairs that exist; a training step evaluates the networks there and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.features.random_features import Activation
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array, on_device
from tessella.machine.memory import require
from tessella.networks.network import Parameters, apply_operator
from tessella.overlap.basis import Basis
from tessella.overlap.evaluation import orders_below, window_coefficients, window_tables
from tessella.overlap.matrices import gather_pairs

TEMPORARIES = 24
"""Arrays of one number per (pair, hidden unit, layer) that a step holds at most."""


class Batch(NamedTuple):
    """Pairs of B subdomains with m points each; padding has coefficients zero.

    members (B,), rows (B, m), local coordinates z (B, d, m), coefficients (B, G, m)
    """

    members: jax.Array
    rows: jax.Array
    z: jax.Array
    coefficients: jax.Array


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["batches", "places", "target"],
    meta_fields=["gammas", "activation"],
)
@dataclass(frozen=True)
class Objective:
    """residual(parameters) = (operator on the networks) - target, one entry per row.

    `places` (most, n) are the positions of a row's pairs in the flattened batches; the last
    position stands for none. Looking them up spares the scatter, and sums in a fixed order.
    """

    batches: tuple[Batch, ...]
    places: jax.Array
    target: jax.Array
    gammas: tuple[Orders, ...]
    activation: Activation

    def residual(self, parameters: Parameters) -> jax.Array:
        return self._residual(self._pairs(parameters))

    def value_and_gradient(self, parameters: Parameters) -> tuple[jax.Array, Parameters]:
        """|residual|^2 and its gradient, with one pass forwards and one back."""
        pairs, pull = jax.vjp(self._pairs, parameters)
        r = self._residual(pairs)
        (gradient,) = pull([2.0 * r[batch.rows] for batch in self.batches])
        return jnp.vdot(r, r), gradient

    def _pairs(self, parameters: Parameters) -> list[jax.Array]:
        """What every pair contributes to its row, (B, m) per batch."""

        def one(own: Parameters, z: jax.Array, coefficients: jax.Array) -> jax.Array:
            return apply_operator(self.activation, own, z, coefficients, self.gammas)

        return [
            jax.vmap(one)(
                jax.tree.map(lambda p, members=batch.members: _take(p, members), parameters),
                batch.z,
                batch.coefficients,
            )
            for batch in self.batches
        ]

    def _residual(self, pairs: list[jax.Array]) -> jax.Array:
        flat = jnp.concatenate([*(p.ravel() for p in pairs), jnp.zeros(1)])
        return flat[self.places].sum(axis=0) - self.target


def _take(parameter: jax.Array, members: jax.Array) -> jax.Array:
    if len(members) == len(parameter):
        return parameter
    return parameter.at[members].get(
        unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds"
    )


def build_objective(
    basis: Basis,
    points: Array,
    symbol: dict[Orders, Array],
    target: Array,
    pairs: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None,
) -> Objective:
    """Tabulate the operator with these coefficients at these points.

    `pairs` replaces the pairs that exist (as `gather_pairs` yields them), to measure what leaving
    out the others is worth.
    """
    decomposition, features = basis.decomposition, basis.features
    count = len(points) * decomposition.pairs_per_point()
    require(
        8 * count * features.count * (TEMPORARIES + 4 * features.depth),
        f"training on {len(points):,} points with {features.count} hidden units per subdomain",
        "use fewer points, hidden units or subdomains, or a smaller overlap",
    )
    tables = window_tables(basis, points, symbol)
    gammas = orders_below(tuple(sorted(symbol)), decomposition.windowed)
    scales = np.array([math.prod(decomposition.half_width ** -np.array(g)) for g in gammas])
    batches, seen_rows, seen_places, offset = [], [], [], 0
    for members, rows, heights in pairs or gather_pairs(decomposition, points, features.columns):
        coefficients = window_coefficients(basis, members, rows, heights, points, tables, symbol)
        z = decomposition.offsets(points[rows], members) / decomposition.half_width
        batches.append(
            Batch(
                on_device(members.astype(np.int32)),
                on_device(rows),
                on_device(z.swapaxes(1, 2)),
                coefficients * scales[:, None],
            )
        )
        filled = np.arange(rows.shape[1]) < heights[:, None]
        seen_rows.append(rows[filled])
        seen_places.append(offset + np.flatnonzero(filled))
        offset += rows.size
    places = _places(np.concatenate(seen_rows), np.concatenate(seen_places), len(points), offset)
    return Objective(
        tuple(batches), on_device(places), on_device(target), gammas, features.function
    )


def _places(rows: np.ndarray, places: np.ndarray, n: int, none: int) -> np.ndarray:
    """(most, n): for every row the places of its pairs, filled up with `none`."""
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=n)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    table = np.full((int(counts.max(initial=1)), n), none, dtype=np.int32)
    sorted_rows = rows[order]
    table[np.arange(len(rows)) - starts[sorted_rows], sorted_rows] = places[order]
    return table
