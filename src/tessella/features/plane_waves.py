"""Sines that satisfy an equation: plane waves on its characteristic variety.

Of sum_alpha c_alpha D^alpha with constant coefficients, all orders even or all odd, sin(w.z + b) is
a solution wherever the symbol sum_alpha c_alpha (i w)^alpha vanishes. So the wavenumbers along all
axes but time are spread evenly, and along time they are a root. Cells then need no features for
what is no solution, which are most: in d dimensions as many plane waves as random features in
d - 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tessella.features.random_features import Layer, RandomFeatures
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array

BANDWIDTH = 0.4
"""Wavenumbers along an axis reach this many radians per half-width and wave along it."""

BEYOND = 3.0
"""The degree on faces is larger than the bandwidth by this, and half its root."""

DENSE = 1.25
"""Points on a face along an axis per wave along it: initial data alone determine the waves."""

THICK = 4.0
"""Waves may cross so many cells in a slab of time; in thicker ones faces would need too much."""

INSIDE = 2
"""Points inside along an axis, where nothing is left to ask for."""


@dataclass(frozen=True, repr=False)
class PlaneWaves(RandomFeatures):
    """K plane waves of an operator, whose coefficients in a cell's coordinates are `symbol`; `axis`
    is that of time. Made by `plane_waves`."""

    symbol: tuple[tuple[Orders, float], ...] = ()
    axis: int = 0

    @property
    def in_words(self) -> str:
        return f"{self.count:,} plane waves"

    @property
    def roots(self) -> int:
        """Waves of as many kinds travel along every direction."""
        return max(alpha[self.axis] for alpha, _ in self.symbol)

    def poorer(self, dimension: int) -> PlaneWaves:
        count = max(1, self.count // 2)
        return dataclasses.replace(self, count=count, scale=wide(count / self.roots, dimension))

    def stretched(self, ratio: Array) -> PlaneWaves:
        if np.allclose(ratio, 1.0, rtol=1e-9, atol=0.0):
            return self
        scaled = ((alpha, c / float(np.prod(ratio ** np.array(alpha)))) for alpha, c in self.symbol)
        return dataclasses.replace(self, symbol=tuple(scaled))

    def reach(self, dimension: int) -> float:
        """The largest wavenumber along any axis, of waves along one axis of space."""
        k = self.scale * np.eye(dimension)
        roots = real_roots(dict(self.symbol), self.axis, np.delete(k, self.axis, axis=0))
        return max(self.scale, float(np.nanmax(np.abs(roots))))

    def face_degree(self, dimension: int) -> int:
        reach = self.reach(dimension)
        return math.ceil(reach + BEYOND + 0.5 * math.sqrt(reach))

    def face_points(self, dimension: int) -> int:
        """Along every axis of a face."""
        return math.ceil(DENSE * _along(self.count / self.roots, dimension))

    def draw(self, subdomains: int, dimension: int, seed: int) -> tuple[Layer, ...]:
        """Wavenumbers along space evenly spread from a random start, along time one root after the
        other: chance would leave gaps."""
        random = np.random.default_rng(seed)
        start = random.random((subdomains, self.roots, dimension))
        number, root = np.divmod(np.arange(self.count), self.roots)
        share = (start[:, root] + number[:, None] * _irrational(dimension - 1, self.axis)) % 1.0
        k = (self.scale * (2 * share - 1)).reshape(-1, dimension)
        roots = np.sort(real_roots(dict(self.symbol), self.axis, k), axis=1)
        k[:, self.axis] = roots[np.arange(len(k)), np.tile(root, subdomains)]
        biases = random.uniform(0.0, 2 * np.pi, (subdomains, self.count))
        return (Layer(k.reshape(subdomains, self.count, dimension), biases),)


def _irrational(dimension: int, axis: int) -> Array:
    """Steps of a sequence that fills a box evenly (Roberts): powers of 1/g with g^(d+1) = g + 1; 0
    along one axis more."""
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (dimension + 1))
    return np.insert(g ** -np.arange(1.0, dimension + 1), axis, 0.0)


def evenly(number: np.ndarray, dimension: int, axis: int, random: np.random.Generator) -> Array:
    """Points (n, dimension + 1) that fill [-1, 1] evenly along all axes but one, where they are 0;
    equal numbers are equal points."""
    step = _irrational(dimension, axis)
    share = (random.random(dimension + 1) + number[:, None] * step) % 1.0
    return np.where(step > 0, 2 * share - 1, 0.0)


def scaled_symbol(
    coefficients: Mapping[Orders, float], half_widths: Array
) -> tuple[tuple[Orders, float], ...]:
    """sum_alpha c_alpha D^alpha in a cell's own coordinates, in parts of the largest."""
    scaled = {
        alpha: c / float(np.prod(half_widths ** np.array(alpha)))
        for alpha, c in coefficients.items()
        if c
    }
    largest = max(map(abs, scaled.values()), default=1.0)
    return tuple((alpha, c / largest) for alpha, c in sorted(scaled.items()))


def plane_waves(
    coefficients: Mapping[Orders, float], half_widths: Array, axis: int, count: int
) -> PlaneWaves | None:
    """Plane waves of sum_alpha c_alpha D^alpha in cells of these half-widths; None where there are
    none (orders even and odd at once, roots that are not real), or in too thick slabs of time."""
    d = len(half_widths)
    symbol = scaled_symbol(coefficients, half_widths)
    orders = {sum(alpha) % 2 for alpha, _ in symbol}
    highest = max((alpha[axis] for alpha, _ in symbol), default=0)
    leading = {alpha for alpha, _ in symbol if alpha[axis] == highest}
    if d < 2 or len(orders) != 1 or not highest or len(leading) != 1:
        return None
    constant = (0,) * d not in dict(symbol)
    made = PlaneWaves(count, 1, "sin", constant, True, wide(count / highest, d), symbol, axis)
    k = np.random.default_rng(0).uniform(-made.scale, made.scale, (64, d))
    if np.isnan(real_roots(dict(symbol), axis, k)).any() or made.reach(d) > THICK * made.scale:
        return None
    return made


def real_roots(symbol: Mapping[Orders, float], axis: int, k: Array) -> Array:
    """Along an axis, for wavenumbers k along the others (n, d): (n, order), NaN if not real."""
    roots = -1j * symbol_roots(symbol, axis, 1j * k)
    real = np.abs(roots.imag) <= 1e-7 * (1 + np.abs(roots))
    return np.where(real, roots.real, np.nan)


def symbol_roots(symbol: Mapping[Orders, float], axis: int, zeta: np.ndarray) -> np.ndarray:
    """Where sum_alpha c_alpha zeta^alpha vanishes, along an axis for any numbers (n, d) along the
    others: (n, order)."""
    order = max(alpha[axis] for alpha in symbol)
    table = np.zeros((len(zeta), order + 1), dtype=complex)
    others = [i for i in range(zeta.shape[1]) if i != axis]
    for alpha, c in symbol.items():
        powers = np.prod(zeta[:, others] ** np.array([alpha[i] for i in others]), axis=1)
        table[:, order - alpha[axis]] += c * powers
    companion = np.zeros((len(zeta), order, order), dtype=complex)
    companion[:, np.arange(1, order), np.arange(order - 1)] = 1.0
    companion[:, 0] = -table[:, 1:] / table[:, :1]
    return np.asarray(np.linalg.eigvals(companion))


def _along(waves: float, dimension: int) -> float:
    """Waves of one root along one axis of space."""
    return float(waves ** (1 / (dimension - 1)))


def wide(waves: float, dimension: int) -> float:
    """How far wavenumbers reach along every axis."""
    return max(1.0, BANDWIDTH * _along(waves, dimension))
