"""Basis functions at points: window times feature, and the product rule that differentiates them.

The formulas are written once for NumPy and JAX. Small blocks are evaluated by NumPy, because XLA
would take longer to compile them than NumPy takes to be done.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from tessella.features.random_features import (
    Activation,
    Layer,
    deep_derivatives,
    shallow_derivatives,
)
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array, backend, namespace
from tessella.overlap.basis import Basis
from tessella.overlap.enriched import enriched_values
from tessella.overlap.windows import bump, bump_sums, quotient

SMALL = 1 << 20
"""Entries times derivatives up to which NumPy evaluates blocks: hundredths of a second of work, a
few times what XLA takes once it has compiled (`python -m benchmarks small`)."""


class Tables(NamedTuple):
    """What the blocks of all subdomains look up at the points: per axis and order the sums of the
    windows, (d, orders, n), and per derivative the enrichment functions, (E, G, n)."""

    window_sums: Array
    enriched: Array

    def take(self, points: np.ndarray) -> Tables:
        """The tables at some of the points."""
        return Tables(self.window_sums[:, :, points], self.enriched[:, :, points])


class Placed(NamedTuple):
    """Blocks and their points: centres and half widths (B, d), rows (B, m) into the points, heights
    (B,)."""

    centres: Any
    half_widths: Any
    periods: Any
    rows: Any
    heights: Any
    points: Any


def _placed(
    basis: Basis, subdomains: np.ndarray, rows: np.ndarray, heights: np.ndarray, points: Array
) -> Placed:
    own = basis.decomposition
    return Placed(
        own.centres[subdomains],
        own.half_widths[subdomains],
        own.domain.periods,
        rows,
        heights,
        points,
    )


def evaluate_blocks(
    basis: Basis,
    subdomains: np.ndarray,
    rows: np.ndarray,
    heights: np.ndarray,
    points: Array,
    tables: Tables,
    symbol: dict[Orders, Array],
) -> Any:
    """sum_alpha symbol[alpha] D^alpha (omega_j phi_jk) at points[rows[b]] for b over `subdomains`.

    Shape (B, C, m): for each block, one line per column of the system, points along the last axis
    so that vector units run along them; enrichment comes last. Block b has heights[b] <= m rows;
    the rest is zero padding. `tables` come from `basis_tables`. Small blocks are NumPy's.
    """
    alphas = tuple(sorted(symbol))
    layers = tuple(
        Layer(layer.weights[subdomains], layer.biases[subdomains]) for layer in basis.layers
    )
    arguments = (
        alphas,
        basis.features.function,
        basis.features.constant,
        basis.decomposition.windowed,
        _placed(basis, subdomains, rows, heights, points),
        layers,
        basis.active[subdomains],
        tables,
        np.stack([symbol[a] for a in alphas]),
    )
    if by_numpy(basis, rows.size, alphas):
        return _blocks(*arguments)
    return _compiled_blocks(*arguments)


def by_numpy(basis: Basis, places: int, alphas: tuple[Orders, ...]) -> bool:
    """Whether blocks with so many places for points are evaluated without XLA, in any shape."""
    if backend() != "cpu":
        return False
    work = places * basis.width * len(orders_below(alphas, basis.decomposition.windowed))
    return len(basis.layers) == 1 and basis.features.function.plain and work <= SMALL


def _blocks(
    alphas: tuple[Orders, ...],
    activation: Activation,
    constant: bool,
    divided: tuple[bool, ...],
    placed: Placed,
    layers: tuple[Layer, ...],
    present: Any,
    tables: Tables,
    coefficients: Any,
) -> Any:
    x, on_feature = _on_feature(alphas, divided, placed, tables.window_sums, coefficients)
    gammas = tuple(on_feature)
    centres, half_widths = placed.centres, placed.half_widths
    axes = range(centres.shape[1])
    z = [(x[i] - centres[:, i, None]) / half_widths[:, i, None] for i in axes]
    rates = [1.0 / half_widths[:, i, None] for i in axes]
    if len(layers) == 1:
        phi = shallow_derivatives(activation, layers[0], z, rates, gammas)
    else:
        phi = deep_derivatives(activation, layers, z, rates, gammas)
    parts: list[Any] = [sum(phi[g] * on_feature[g][:, None, :] for g in gammas)]
    if constant:
        parts.append(on_feature[(0,) * len(axes)][:, None, :])
    if len(tables.enriched):
        psi = tables.enriched[:, :, placed.rows].swapaxes(0, 2)  # (B, G, E, m)
        psi = sum(psi[:, k] * on_feature[g][:, None, :] for k, g in enumerate(gammas))
        parts.append(psi * present[:, :, None])
    return parts[0] if len(parts) == 1 else namespace(x[0]).concatenate(parts, axis=1)


_compiled_blocks = jax.jit(_blocks, static_argnums=(0, 1, 2, 3))


def _on_feature(
    alphas: tuple[Orders, ...],
    divided: tuple[bool, ...],
    placed: Placed,
    window_sums: Any,
    coefficients: Any,
) -> tuple[list[Any], dict[Orders, Any]]:
    """The points of every block, axis by axis, and c_gamma with sum_alpha coefficient D^alpha (w f)
    = sum_gamma c_gamma D^gamma f there, for the window w of its subdomain and any f: all (B, m).
    """
    centres, half_widths, periods, rows, heights, points = placed
    xp = namespace(points)
    c = coefficients[:, rows] * (np.arange(rows.shape[1]) < heights[:, None])
    x: list[Any] = []
    windows: list[list[Any]] = []
    for i in range(points.shape[1]):
        centre = centres[:, i, None]
        # Moved by whole periods to where they are closest to the centre.
        turns = xp.round((points[rows, i] - centre) / xp.where(periods[i] > 0, periods[i], xp.inf))
        x.append(points[rows, i] - turns * periods[i])
        orders = max(a[i] for a in alphas)
        windows.append([])
        if divided[i]:
            top = bump(x[i], centre, half_widths[:, i, None], orders)
            windows[i] = quotient(top, list(window_sums[i, : orders + 1][:, rows]))

    # D^alpha (w f) = sum over gamma <= alpha of binom(alpha, gamma) D^(alpha - gamma) w D^gamma f
    return x, {
        gamma: sum(
            (
                _binomial(alpha, gamma)
                * c[k]
                * math.prod(windows[i][alpha[i] - gamma[i]] for i in range(len(x)) if divided[i])
                for k, alpha in enumerate(alphas)
                if _contributes(alpha, gamma, divided)
            ),
            xp.zeros(rows.shape),
        )
        for gamma in orders_below(alphas, divided)
    }


def orders_below(alphas: tuple[Orders, ...], divided: tuple[bool, ...]) -> tuple[Orders, ...]:
    """The derivatives of f in those of a product w f: every gamma <= some alpha, equal to it along
    axes that are not divided, where w is constant; and f itself."""
    found = {(0,) * len(divided)}
    for alpha in alphas:
        found |= set(
            itertools.product(
                *(range(0 if cut else n, n + 1) for n, cut in zip(alpha, divided, strict=True))
            )
        )
    return tuple(sorted(found))


def _contributes(alpha: Orders, gamma: Orders, divided: tuple[bool, ...]) -> bool:
    """Whether D^gamma f is in D^alpha (w f)."""
    return all(g <= a if cut else g == a for a, g, cut in zip(alpha, gamma, divided, strict=True))


def _binomial(alpha: Orders, gamma: Orders) -> int:
    return math.prod(math.comb(a, g) for a, g in zip(alpha, gamma, strict=True))


def window_coefficients(
    basis: Basis,
    subdomains: np.ndarray,
    rows: np.ndarray,
    heights: np.ndarray,
    points: Array,
    window_sums: Array,
    symbol: dict[Orders, Array],
) -> jax.Array:
    """How the operator acts on what a window multiplies: c_gamma for gamma in `orders_below`.

    Shape (B, G, m), with sum_alpha symbol[alpha] D^alpha (omega_j f) = sum_gamma c_gamma D^gamma f
    for any f. Arguments as in `evaluate_blocks`, of the tables the windows' only; padding is zero.
    """
    alphas = tuple(sorted(symbol))
    return _window_coefficients(
        alphas,
        basis.decomposition.windowed,
        _placed(basis, subdomains, rows, heights, points),
        window_sums,
        np.stack([symbol[a] for a in alphas]),
    )


@partial(jax.jit, static_argnums=(0, 1))
def _window_coefficients(
    alphas: tuple[Orders, ...],
    divided: tuple[bool, ...],
    placed: Placed,
    window_sums: Any,
    coefficients: Any,
) -> jax.Array:
    _, found = _on_feature(alphas, divided, placed, window_sums, coefficients)
    return jax.numpy.stack(list(found.values()), axis=1)


def window_tables(basis: Basis, points: Array, symbol: dict[Orders, Array]) -> Array:
    """The window sums needed for these operators at these points."""
    orders = max(max(alpha) for alpha in symbol)
    return bump_sums(basis.decomposition, points, orders)


def basis_tables(basis: Basis, points: Array, symbol: dict[Orders, Array]) -> Tables:
    """The tables `evaluate_blocks` needs for these operators at these points."""
    sums = window_tables(basis, points, symbol)
    if not basis.enrichment:
        return Tables(sums, np.zeros((0, 0, len(points))))
    divided = basis.decomposition.windowed
    used = {alpha: np.asarray(c) != 0 for alpha, c in symbol.items()}
    needed = {
        gamma: np.logical_or.reduce(
            [u & _contributes(alpha, gamma, divided) for alpha, u in used.items()]
        )
        for gamma in orders_below(tuple(sorted(symbol)), divided)
    }
    return Tables(sums, enriched_values(basis.decomposition, basis.enrichment, points, needed))
