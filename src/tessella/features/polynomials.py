"""Products of Legendre's polynomials along the axes: the features of many dimensions.

Of total degree p there are C(d + p, p) of them in d dimensions, as many as random features with the
same reach, since smooth ridge functions on one subdomain are hardly more than polynomials. But
these can be told apart: a solution needs few of them, and shows by its coefficients which come next
(see `accuracy/terms`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from tessella.features.random_features import Activation, Layer, RandomFeatures
from tessella.geometry.functions import Orders
from tessella.machine.arrays import AnyArray, namespace

HIGHEST = 64
"""Degree along one axis."""


def legendre(z: AnyArray, order: int, highest: int = HIGHEST) -> list[AnyArray]:
    """The derivatives of sqrt(2n + 1) P_n, which are orthonormal in the mean over [-1, 1], up to an
    order: each (highest + 1, ...)."""
    xp = namespace(z)
    found: list[AnyArray] = []
    for k in range(order + 1):
        own = [xp.ones_like(z) if k == 0 else xp.zeros_like(z)]
        for n in range(highest):
            before = own[n - 1] if n else 0.0
            if k == 0:
                own.append(((2 * n + 1) * z * own[n] - n * before) / (n + 1))
            else:
                own.append(before + (2 * n + 1) * found[k - 1][n])
        found.append(xp.stack(own))
    sizes = np.sqrt(2.0 * np.arange(highest + 1) + 1)
    return [own * sizes.reshape(-1, *(1,) * z.ndim) for own in found]


LEGENDRE = Activation("legendre", legendre, plain=True, separable=True)
"""Along every axis a feature has the degree that is its weight there."""


@dataclass(frozen=True, repr=False)
class Polynomials(RandomFeatures):
    """The first `count` of some products of polynomials, each given by its degrees."""

    activation: str | Activation = LEGENDRE
    constant: bool = False
    degrees: tuple[Orders, ...] = ()

    @staticmethod
    def of(degrees: Sequence[Orders]) -> Polynomials:
        return Polynomials(len(degrees), degrees=tuple(degrees))

    @property
    def in_words(self) -> str:
        return f"{self.count:,} polynomials"

    def draw(self, subdomains: int, dimension: int, seed: int) -> tuple[Layer, ...]:
        """The degrees as weights; nothing is random."""
        degrees = np.array(self.degrees[: self.count], dtype=float)
        weights = np.broadcast_to(degrees, (subdomains, *degrees.shape))
        return (Layer(weights, np.zeros((subdomains, self.count))),)


def product_derivatives(
    layer: Layer, z: Sequence[AnyArray], rates: Sequence[AnyArray], gammas: tuple[Orders, ...]
) -> dict[Orders, AnyArray]:
    """D^gamma of the products at normalised coordinates z, dz_i/dx_i being the rates: (..., K, m).

    Most derivatives are along one axis: what all other axes contribute is multiplied once from
    either side.
    """
    traced = isinstance(layer.weights, jax.core.Tracer)
    highest = HIGHEST if traced else int(np.max(np.asarray(layer.weights), initial=0))
    d, degrees = len(z), layer.weights.astype(int)
    factors = []
    for i in range(d):
        tables = legendre(z[i], max(gamma[i] for gamma in gammas), highest)
        factors.append(
            [_chosen(own * rates[i] ** k, degrees[..., i]) for k, own in enumerate(tables)]
        )
    before, after = [factors[0][0]], [factors[-1][0]]
    for i in range(1, d):
        before.append(before[-1] * factors[i][0])
        after.append(factors[-1 - i][0] * after[-1])
    found = {}
    for gamma in gammas:
        axes = [i for i, order in enumerate(gamma) if order]
        if not axes:
            parts = [before[-1]]
        elif len(axes) == 1:
            (i,) = axes
            parts = [factors[i][gamma[i]], *before[i - 1 : i], *after[d - 2 - i : d - 1 - i]]
        else:
            parts = [own[order] for own, order in zip(factors, gamma, strict=True)]
        found[gamma] = math.prod(parts[1:], start=parts[0])
    return found


def _chosen(table: AnyArray, degrees: AnyArray) -> AnyArray:
    """The lines of a table (degrees, ..., m) that the features need: (..., K, m)."""
    if degrees.ndim == 1:
        return table[degrees]
    xp = namespace(table)
    return xp.stack([table[own, b] for b, own in enumerate(degrees)])
