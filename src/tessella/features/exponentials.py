"""Sines that fade or enter: complex exponentials on the characteristic variety of an equation.

Im exp(zeta.z + i b) is a solution wherever sum_alpha c_alpha zeta^alpha vanishes, so equations
without real waves (heat, advection with diffusion, damped waves) have functions of their own too.
Most of them are sines in space that fade in time; the others oscillate in time and fade from one
side of a cell to the other, as what enters through it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tessella.features.plane_waves import PlaneWaves, evenly, scaled_symbol, symbol_roots, wide
from tessella.features.random_features import Layer
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array

FADING = 0.6
"""Part of them that are sines in space; the others enter through sides."""

ENTERING = 0.4
"""Wavenumbers of those that enter, in parts of the others'."""

FEWEST_AXES = 3
"""Time included: on a line, cells are a twentieth of the work already."""

GROWING = 1.0
"""Nepers by which some may grow in half a cell and slab: more has no future."""


@dataclass(frozen=True, repr=False)
class Exponentials(PlaneWaves):
    """K exponentials of an operator, made by `exponentials`; layers hold wavenumbers along all
    axes, and then rates of growth."""

    @property
    def in_words(self) -> str:
        return f"{self.count:,} exponentials"

    def reach(self, dimension: int) -> float:
        return self.scale

    def draw(self, subdomains: int, dimension: int, seed: int) -> tuple[Layer, ...]:
        random = np.random.default_rng(seed)
        zeta = np.stack([self._zeta(dimension, random) for _ in range(subdomains)])
        biases = random.uniform(0.0, 2 * np.pi, (subdomains, self.count))
        return (Layer(np.concatenate([zeta.imag, zeta.real], axis=2), biases),)

    def _zeta(self, dimension: int, random: np.random.Generator) -> np.ndarray:
        """(K, d): along one axis a root, along the others evenly spread wavenumbers."""
        fading = min(self.count, self.roots * math.ceil(FADING * self.count / self.roots))
        space, entering = [i for i in range(dimension) if i != self.axis], self.count - fading
        kinds = [(self.axis, fading, self.scale)]
        for n, side in enumerate(space):
            own = len(range(n, entering, len(space)))
            kinds.append((side, own, ENTERING * self.scale))
        parts = []
        for axis, count, scale in kinds:
            number, root = np.divmod(np.arange(count), max(alpha[axis] for alpha, _ in self.symbol))
            zeta = 1j * scale * evenly(number, dimension - 1, axis, random)
            roots = symbol_roots(dict(self.symbol), axis, zeta)
            ways = np.argsort(roots.imag if axis == self.axis else roots.real, axis=1)
            zeta[:, axis] = roots[np.arange(count), ways[np.arange(count), root]]
            parts.append(zeta)
        return np.concatenate(parts)


def exponentials(
    coefficients: Mapping[Orders, float], half_widths: Array, axis: int, count: int
) -> Exponentials | None:
    """Exponentials of sum_alpha c_alpha D^alpha in cells of these half-widths; None where the
    equation is of fourth order, on a line or not one of time, or where something grows."""
    symbol, d = scaled_symbol(coefficients, half_widths), len(half_widths)
    highest = [max((alpha[i] for alpha, _ in symbol), default=0) for i in range(d)]
    leading = [[alpha for alpha, _ in symbol if alpha[i] == highest[i]] for i in range(d)]
    single = all(own == [tuple(highest[i] * int(j == i) for j in range(d))]
                 for i, own in enumerate(leading))  # fmt: skip
    if d < FEWEST_AXES or min(highest) < 1 or max(highest) > 2 or not single:
        return None
    constant = (0,) * d not in dict(symbol)
    scale = wide(count / highest[axis], d)
    made = Exponentials(count, 1, "sin", constant, True, scale, symbol, axis)
    k = np.random.default_rng(0).uniform(-scale, scale, (64, d))
    if symbol_roots(dict(symbol), axis, 1j * k).real.max() > GROWING:
        return None
    return made
