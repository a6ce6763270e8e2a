"""Basis functions at points: window times feature, and the product rule that differentiates them.

The formulas are written once for NumPy and JAX. Small blocks are evaluated by NumPy, because XLA
would take longer to compile them than NumPy takes to be done.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from tessella.features.polynomials import product_derivatives
from tessella.features.random_features import (
    Activation,
    Layer,
    deep_derivatives,
    shallow_derivatives,
)
from tessella.geometry.functions import Orders
from tessella.machine.arrays import AnyArray, Array, added, namespace
from tessella.machine.compiled import compiled
from tessella.machine.device import on_host
from tessella.overlap.basis import Basis
from tessella.overlap.enriched import enriched_values
from tessella.overlap.windows import bump, bump_sums, quotient

SMALL = 1 << 20
"""Entries times derivatives up to which NumPy evaluates blocks: hundredths of a second of work, a
few times what XLA takes once it has compiled (`python -m benchmarks small`)."""

STRIP = 1 << 17
"""Products of polynomials that NumPy evaluates at a time: few enough for a core's own memory."""


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

    centres: AnyArray
    half_widths: AnyArray
    periods: AnyArray
    rows: np.ndarray | jax.Array
    heights: np.ndarray | jax.Array
    points: AnyArray

    @staticmethod
    def of(
        basis: Basis, subdomains: np.ndarray, rows: np.ndarray, heights: np.ndarray, points: Array
    ) -> Placed:
        own = basis.decomposition
        centres, half_widths = own.centres[subdomains], own.half_widths[subdomains]
        return Placed(centres, half_widths, own.domain.periods, rows, heights, points)


@dataclass(frozen=True)
class ProductRule:
    """D^alpha (w f) for some alphas, by derivatives of a window w and of any function f.

    Along axes that are not `divided` w is constant.
    """

    alphas: tuple[Orders, ...]
    divided: tuple[bool, ...]

    @property
    def gammas(self) -> tuple[Orders, ...]:
        """The derivatives of f."""
        return orders_below(self.alphas, self.divided)

    def contributes(self, alpha: Orders, gamma: Orders) -> bool:
        """Whether D^gamma f is in D^alpha (w f)."""
        return all(
            g <= a if cut else g == a for a, g, cut in zip(alpha, gamma, self.divided, strict=True)
        )

    @cached_property
    def terms(self) -> dict[Orders, list[tuple[int, Orders, int]]]:
        """By gamma: of every alpha that it contributes to the number, alpha - gamma, and how often
        the product rule takes it."""
        return {
            gamma: [
                (k, _minus(alpha, gamma), _binomial(alpha, gamma))
                for k, alpha in enumerate(self.alphas)
                if self.contributes(alpha, gamma)
            ]
            for gamma in self.gammas
        }

    def on_feature(
        self, placed: Placed, window_sums: AnyArray, coefficients: AnyArray
    ) -> tuple[list[AnyArray], dict[Orders, AnyArray]]:
        """The points of every block, axis by axis, and c_gamma with sum_alpha coefficient
        D^alpha (w f) = sum_gamma c_gamma D^gamma f there, for the window w of its subdomain and any
        f: all (B, m)."""
        centres, half_widths, periods, rows, heights, points = placed
        xp = namespace(points)
        c = coefficients[:, rows] * (np.arange(rows.shape[1]) < heights[:, None])
        x: list[AnyArray] = []
        windows: list[list[AnyArray]] = []
        for i, divided in enumerate(self.divided):
            centre = centres[:, i, None]
            # Moved by whole periods to where they are closest to the centre.
            period = xp.where(periods[i] > 0, periods[i], xp.inf)
            turns = xp.round((points[rows, i] - centre) / period)
            x.append(points[rows, i] - turns * periods[i])
            orders = max(a[i] for a in self.alphas)
            windows.append([])
            if divided:
                top = bump(x[i], centre, half_widths[:, i, None], orders)
                windows[i] = quotient(top, list(window_sums[i, : orders + 1][:, rows]))

        def window(orders: tuple[int, ...]) -> AnyArray | int:
            return math.prod(windows[i][k] for i, k in enumerate(orders) if self.divided[i])

        # D^alpha (w f) = sum over gamma <= alpha of binom(alpha, gamma) D^(alpha-gamma) w D^gamma f
        return x, {
            gamma: sum(
                (times * c[k] * window(rest) for k, rest, times in terms), xp.zeros(rows.shape)
            )
            for gamma, terms in self.terms.items()
        }


@dataclass(frozen=True)
class Formula:
    """What basis functions are made of, and what of them is asked; another one is compiled anew."""

    rule: ProductRule
    activation: Activation
    constant: bool


def evaluate_blocks(
    basis: Basis,
    subdomains: np.ndarray,
    rows: np.ndarray,
    heights: np.ndarray,
    points: Array,
    tables: Tables,
    symbol: dict[Orders, Array],
) -> AnyArray:
    """sum_alpha symbol[alpha] D^alpha (omega_j phi_jk) at points[rows[b]] for b over `subdomains`.

    Shape (B, C, m): for each block, one line per column of the system, points along the last axis
    so that vector units run along them; enrichment comes last. Block b has heights[b] <= m rows;
    the rest is zero padding. `tables` come from `basis_tables`. Small blocks are NumPy's.
    """
    rule = product_rule(basis, symbol)
    arguments = (
        Formula(rule, basis.features.function, basis.features.constant),
        Placed.of(basis, subdomains, rows, heights, points),
        tuple(Layer(layer.weights[subdomains], layer.biases[subdomains]) for layer in basis.layers),
        basis.active[subdomains],
        tables,
        np.stack([symbol[a] for a in rule.alphas]),
    )
    if basis.features.function.separable and on_host():
        return _by_strips(basis.width, *arguments)
    if by_numpy(basis, rows.size, rule.alphas):
        return _blocks(*arguments)
    return _compiled_blocks(*arguments)


def _by_strips(width: int, formula: Formula, placed: Placed, *rest: Any) -> Array:
    """The same, some points of all blocks after others."""
    size = max(1, STRIP // (width * len(placed.rows)))
    made = []
    for start in range(0, placed.rows.shape[1], size):
        heights = np.clip(placed.heights - start, 0, size)
        own = placed._replace(rows=placed.rows[:, start : start + size], heights=heights)
        made.append(_blocks(formula, own, *rest))
    return np.concatenate(made, axis=-1)


def product_rule(basis: Basis, symbol: Iterable[Orders]) -> ProductRule:
    """The rule for these derivatives of the basis functions."""
    return ProductRule(tuple(sorted(symbol)), basis.decomposition.windowed)


def by_numpy(basis: Basis, places: int, alphas: tuple[Orders, ...]) -> bool:
    """Whether blocks with so many places for points are evaluated without XLA, in any shape."""
    if not on_host():
        return False
    work = places * basis.width * len(product_rule(basis, alphas).gammas)
    return len(basis.layers) == 1 and basis.features.function.plain and work <= SMALL


def _blocks(
    formula: Formula,
    placed: Placed,
    layers: tuple[Layer, ...],
    present: AnyArray,
    tables: Tables,
    coefficients: AnyArray,
) -> AnyArray:
    x, on_feature = formula.rule.on_feature(placed, tables.window_sums, coefficients)
    gammas = tuple(on_feature)
    centres, half_widths = placed.centres, placed.half_widths
    axes = range(centres.shape[1])
    z = [(x[i] - centres[:, i, None]) / half_widths[:, i, None] for i in axes]
    rates = [1.0 / half_widths[:, i, None] for i in axes]
    if formula.activation.separable:
        phi = product_derivatives(layers[0], z, rates, gammas)
    elif len(layers) == 1:
        phi = shallow_derivatives(formula.activation, layers[0], z, rates, gammas)
    else:
        phi = deep_derivatives(formula.activation, layers, z, rates, gammas)
    parts = [added(phi[g] * on_feature[g][:, None, :] for g in gammas)]
    if formula.constant:
        parts.append(on_feature[(0,) * len(axes)][:, None, :])
    if len(tables.enriched):
        psi = tables.enriched[:, :, placed.rows].swapaxes(0, 2)  # (B, G, E, m)
        made = added(psi[:, k] * on_feature[g][:, None, :] for k, g in enumerate(gammas))
        parts.append(made * present[:, :, None])
    return parts[0] if len(parts) == 1 else namespace(x[0]).concatenate(parts, axis=1)


PROGRAMS = 32
"""Most of them at a time: a solve needs one for each height of blocks, unknown and level, and those
of a second opinion."""

_compiled_blocks = compiled(PROGRAMS, static=(0,))(_blocks)


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


def _minus(alpha: Orders, gamma: Orders) -> Orders:
    return tuple(a - g for a, g in zip(alpha, gamma, strict=True))


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
    rule = product_rule(basis, symbol)
    placed = Placed.of(basis, subdomains, rows, heights, points)
    return _window_coefficients(
        rule, placed, window_sums, np.stack([symbol[a] for a in rule.alphas])
    )


@partial(jax.jit, static_argnums=0)
def _window_coefficients(
    rule: ProductRule, placed: Placed, window_sums: jax.Array, coefficients: jax.Array
) -> jax.Array:
    _, found = rule.on_feature(placed, window_sums, coefficients)
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
    rule = product_rule(basis, symbol)
    used = {alpha: np.asarray(c) != 0 for alpha, c in symbol.items()}
    needed = {
        gamma: np.logical_or.reduce(
            [u & rule.contributes(alpha, gamma) for alpha, u in used.items()]
        )
        for gamma in rule.gammas
    }
    return Tables(sums, enriched_values(basis.decomposition, basis.enrichment, points, needed))
