"""The features of one unknown in the coordinates of a cell, filtered once for all cells alike.

A pivoted QR of all that a cell may ask of its features (the derivatives in the equations inside,
values and normal derivatives on all faces) leaves a basis R^-1 that is orthonormal with respect to
them. In that basis the rows of any cell are well conditioned (a condition number of about 5 for
equations of second order), so that cells need no filter of their own, and their normal equations
lose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b

import jax
import numpy as np
from scipy.linalg import lapack

from tessella.features.random_features import (
    Activation,
    Layer,
    RandomFeatures,
    deep_derivatives,
    shallow_derivatives,
)
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array
from tessella.machine.threads import single_threaded_blas


def digest(*parts: bytes) -> bytes:
    """A name for numbers: equal ones have the same."""
    made = blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


def placed(z: Array, centres: Array, half_widths: Array) -> Array:
    """Points z (n, d) of a cell's own coordinates [-1, 1]^d in the domain: (n, d) for one cell
    (d,), and (J, n, d) for many (J, d)."""
    centres, half_widths = centres[..., None, :], half_widths[..., None, :]
    found = np.empty(np.broadcast_shapes(centres.shape, z.shape))
    for i in range(z.shape[-1]):
        np.multiply(z[..., i], half_widths[..., i], out=found[..., i])
        found[..., i] += centres[..., i]
    return found


@dataclass(frozen=True, eq=False)
class Slot:
    """Points of a cell (n, d) in its own coordinates [-1, 1]^d, and weights (n,).

    Inside a whole cell the weights sum to 1, on a whole face too; in parts of them to less.
    """

    points: Array
    weights: Array
    lasting: bool = False
    """Whether others use it too, so that what features are there is worth remembering."""

    @cached_property
    def name(self) -> bytes:
        """The digest of its numbers."""
        return digest(self.points.tobytes(), self.weights.tobytes())

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, eq=False)
class Features:
    """One draw of features, evaluated in a cell's coordinates."""

    features: RandomFeatures
    layers: tuple[Layer, ...]
    name: bytes
    _kept: dict[tuple[int, Orders], tuple[Slot, Array]] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> int:
        return self.features.columns

    def table(self, slot: Slot, alpha: Orders) -> Array:
        """D^alpha of all features at the points, (n, C); remembered with the slot."""
        if not slot.lasting:
            return self.values(slot.points, (alpha,))[alpha]
        key = (id(slot), alpha)
        if key not in self._kept:
            self._kept[key] = (slot, self.values(slot.points, (alpha,))[alpha])
        return self._kept[key][1]

    def values(self, points: Array, alphas: Sequence[Orders]) -> dict[Orders, Array]:
        d, function = points.shape[1], self.features.function
        z, wanted = [np.ascontiguousarray(points[:, i]) for i in range(d)], tuple(alphas)
        there = [] if len(self.layers) == 1 and function.plain else [jax.device_put(c) for c in z]
        if len(self.layers) > 1:
            rates = [jax.device_put(1.0)] * d
            found = deep_derivatives(function, self.layers, there, rates, wanted)
        else:
            found = shallow_derivatives(
                function, self.layers[0], there or z, [np.ones(())] * d, wanted
            )
        made = {}
        for alpha in alphas:
            table = np.asarray(found[alpha]).T
            if self.features.constant:
                ones = np.full((len(points), 1), 0.0 if any(alpha) else 1.0)
                table = np.concatenate([table, ones], axis=1)
            made[alpha] = table
        return made

    def combined(self, points: Array, symbol: Mapping[Orders, Array], out: Array) -> None:
        """sum_alpha c_alpha D^alpha of all features at the points into (C, n); c_alpha (n,)."""
        function, count = self.features.function, self.features.count
        if len(self.layers) == 1 and function.plain:
            for start in range(0, len(points), TOGETHER):
                here = slice(start, start + TOGETHER)
                own = {alpha: c[here] for alpha, c in symbol.items()}
                out[:count, here] = _shallow(function, self.layers[0], points[here], own)
        else:
            tables = self.values(points, list(symbol))
            out[:count] = 0.0
            for alpha, c in symbol.items():
                out[:count] += c * tables[alpha].T[:count]
        if self.features.constant:
            out[count] = symbol.get((0,) * points.shape[1], 0.0)


TOGETHER = 128
"""Points at which features are evaluated together: few enough for a core's own memory."""


def _shallow(
    function: Activation, layer: Layer, points: Array, symbol: Mapping[Orders, Array]
) -> Array:
    """D^alpha act(w.z + b) = w^alpha act^(|alpha|), so that every order is one product."""
    if layer.weights.shape[1] == 2 * points.shape[1]:
        z = list(points.T)
        each = shallow_derivatives(function, layer, z, [np.ones(())] * len(z), tuple(symbol))
        return np.asarray(sum(c * each[alpha] for alpha, c in symbol.items()))
    s = layer.weights @ points.T
    s += layer.biases[:, None]
    orders = {sum(alpha) for alpha in symbol}
    values, found = function.some(s, orders), []
    for order in orders:
        own = [alpha for alpha in symbol if sum(alpha) == order]
        powers = np.stack([np.prod(layer.weights ** np.array(alpha), axis=1) for alpha in own])
        factors = powers.T @ np.stack([symbol[alpha] for alpha in own])
        factors *= values[order]
        found.append(factors)
    return np.asarray(sum(found[1:], start=found[0]))


@lru_cache(maxsize=16)
def _known_features(features: RandomFeatures, numbers: bytes, shapes: tuple[int, ...]) -> Features:
    one = np.frombuffer(numbers)
    layers, start = [], 0
    for width, fan_in in zip(shapes[::2], shapes[1::2], strict=True):
        end = start + width * fan_in
        weights = one[start:end].reshape(width, fan_in)
        layers.append(Layer(weights, one[end : end + width]))
        start = end + width
    return Features(features, tuple(layers), digest(repr(features).encode(), numbers))


def drawn(features: RandomFeatures, layers: Sequence[Layer], cell: int) -> Features:
    """The features of one cell; the same numbers give the same object, with all it remembers."""
    own = [(np.asarray(layer.weights[cell]), np.asarray(layer.biases[cell])) for layer in layers]
    numbers = b"".join(w.tobytes() + b.tobytes() for w, b in own)
    shapes = tuple(n for w, _ in own for n in w.shape)
    return _known_features(features, numbers, shapes)


@dataclass(frozen=True, eq=False)
class Draw:
    """Features filtered: columns `kept` of them, combined by R^-1 if there is one.

    `condition` is that of the rows before and after the filter.
    """

    features: Features
    kept: np.ndarray
    R: Array | None
    condition: tuple[float, float]
    name: bytes
    _tables: dict[tuple[int, Orders], tuple[Slot, Array]] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> int:
        return len(self.kept)

    def table(self, slot: Slot, alpha: Orders) -> Array:
        """D^alpha of the filtered features at the points, (n, r); remembered with the slot."""
        if not slot.lasting:
            return self._filtered(self.features.table(slot, alpha))
        key = (id(slot), alpha)
        if key not in self._tables:
            self._tables[key] = (slot, self._filtered(self.features.table(slot, alpha)))
        return self._tables[key][1]

    def tables(self, slot: Slot, alphas: Sequence[Orders]) -> dict[Orders, Array]:
        """Several derivatives at once."""
        if slot.lasting:
            return {alpha: self.table(slot, alpha) for alpha in alphas}
        found = self.features.values(slot.points, alphas)
        return {alpha: self._filtered(table) for alpha, table in found.items()}

    def combined(self, slot: Slot, symbol: Mapping[Orders, Array], out: Array) -> None:
        """sum_alpha c_alpha D^alpha of the filtered features at the points into (r, n)."""
        if slot.lasting:
            out[...] = 0.0
            for alpha, c in symbol.items():
                out += c * self.table(slot, alpha).T
        elif self.R is None:
            self.features.combined(slot.points, symbol, out)
        else:
            every = np.empty((self.features.columns, len(slot)))
            self.features.combined(slot.points, symbol, every)
            out[...] = self._filtered(every.T).T

    def _filtered(self, table: Array) -> Array:
        if self.R is None:
            return table
        if not len(self.kept):
            return np.zeros((len(table), 0))
        return np.ascontiguousarray(_solved(self.R, table[:, self.kept].T, transposed=True).T)

    def coefficients(self, a: Array) -> Array:
        """From those of the filtered features (r, ...) to those of all (C, ...)."""
        found = np.zeros((self.features.columns, *a.shape[1:]))
        if self.R is None:
            return np.asarray(a)
        if not len(self.kept):
            return found
        found[self.kept] = _solved(self.R, a)
        return found

    def adjoint(self, a: Array) -> Array:
        """The transpose of `coefficients`: from (C, ...) to (r, ...)."""
        if self.R is None:
            return np.asarray(a)
        if not len(self.kept):
            return np.zeros((0, *a.shape[1:]))
        return _solved(self.R, a[self.kept], transposed=True)


def _solved(R: Array, b: Array, transposed: bool = False) -> Array:
    """R^-1 b, or R^-T b."""
    with single_threaded_blas():
        found, info = lapack.dtrtrs(R, b, trans=int(transposed))
    if info:
        raise np.linalg.LinAlgError(f"the filter left a triangle that is singular in row {info}")
    return np.asarray(found)


def unfiltered(features: Features) -> Draw:
    """All features as they are, for cells that filter their own."""
    return Draw(features, np.arange(features.columns), None, (1.0, 1.0), features.name)


def absent(features: Features) -> Draw:
    """Of an unknown that does not live in a cell: nothing."""
    return Draw(features, np.zeros(0, dtype=np.int64), np.zeros((0, 0)), (1.0, 1.0), b"")


Weighted = tuple[tuple[Slot, tuple[tuple[Orders, int], ...]], ...]
"""Slots, and there the derivatives that are asked for, with a power of two as their weight."""


class Draws:
    """Draws that were filtered before, by their features and by what is asked of them."""

    def __init__(self, most: int = 64) -> None:
        self.most = most
        self._known: dict[bytes, Draw] = {}

    def get(self, features: Features, asked: Weighted, sigma: float) -> Draw:
        wanted = repr((sigma, [(slot.name, one) for slot, one in asked])).encode()
        key = digest(features.name, wanted)
        if key not in self._known:
            while len(self._known) >= self.most:
                self._known.pop(next(iter(self._known)))
            self._known[key] = _filter(features, asked, sigma, key)
        return self._known[key]


DRAWS = Draws()


def _filter(features: Features, asked: Weighted, sigma: float, name: bytes) -> Draw:
    rows = np.concatenate(
        [
            2.0**weight * np.sqrt(slot.weights)[:, None] * features.table(slot, alpha)
            for slot, wanted in asked
            for alpha, weight in wanted
        ]
    )
    with single_threaded_blas():
        packed, pivots, _, _, _ = lapack.dgeqp3(rows, overwrite_a=True)
    R = np.triu(packed[: min(packed.shape)])
    size = np.abs(np.diag(R))
    r = max(1, int(np.count_nonzero(size > sigma * size[0])))
    low = float(size[-1])
    return Draw(
        features,
        pivots[:r] - 1,
        np.asfortranarray(R[:r, :r]),
        (float(size[0]) / low if low > 0 else math.inf, float(size[0] / size[r - 1])),
        name,
    )


def powers(weights: Mapping[Orders, float], largest: float) -> tuple[tuple[Orders, int], ...]:
    """Weights as powers of two in parts of the largest, without those that are next to nothing."""
    return tuple(
        (alpha, round(math.log2(w / largest)))
        for alpha, w in sorted(weights.items())
        if w > 1e-6 * largest
    )
