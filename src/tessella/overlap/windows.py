"""The partition of unity and its derivatives.

The paper's window of a subdomain is a product over the axes of (1 + cos(pi (x - mu) / sigma))^2,
divided by the sum over all subdomains. On a grid of subdomains that sum factors too, so the
normalised window is a product of normalised one-dimensional windows, and only those are needed.
"""

from __future__ import annotations

import itertools
import math
import operator
from functools import cache

import numpy as np

from tessella.machine.arrays import AnyArray, Array, namespace
from tessella.overlap.decomposition import Decomposition


@cache
def _bump_polynomial(order: int) -> tuple[tuple[int, int, float], ...]:
    """d^order/dh^order of 4 cos(h)^4 as a sum of coefficient * cos^a * sin^b.

    (1 + cos(2 h))^2 = 4 cos(h)^4. Kept as powers of the cosine, the window and its derivatives
    stay accurate relative to their own size where they vanish at the subdomain's edge.
    """
    if order == 0:
        return ((4, 0, 4.0),)
    terms: dict[tuple[int, int], float] = {}
    for a, b, c in _bump_polynomial(order - 1):
        if a:
            terms[a - 1, b + 1] = terms.get((a - 1, b + 1), 0.0) - a * c
        if b:
            terms[a + 1, b - 1] = terms.get((a + 1, b - 1), 0.0) + b * c
    return tuple((a, b, c) for (a, b), c in terms.items() if c)


def bump(
    x: AnyArray, centre: AnyArray, half_width: AnyArray | float, orders: int
) -> list[AnyArray]:
    """The unnormalised window along one axis and its derivatives up to `orders`; zero outside."""
    xp = namespace(x)
    h = (np.pi / 2) * (x - centre) / half_width
    inside = xp.abs(x - centre) < half_width
    cos, sin = (_powers(f(h), 4) for f in (xp.cos, xp.sin))
    rate = np.pi / (2 * half_width)
    return [
        xp.where(inside, rate**k * sum(c * cos[a] * sin[b] for a, b, c in _bump_polynomial(k)), 0)
        for k in range(orders + 1)
    ]


def _powers(t: AnyArray, most: int) -> list[AnyArray | float]:
    """1, t, t^2, ..., t^most."""
    return list(itertools.accumulate([t] * most, operator.mul, initial=1.0))


def quotient(top: list[AnyArray], bottom: list[AnyArray]) -> list[AnyArray]:
    """Derivatives of top / bottom from those of both: (q b)^(k) = t^(k) solved for q^(k)."""
    q: list[AnyArray] = []
    for k, t in enumerate(top):
        known = sum(math.comb(k, i) * q[i] * bottom[k - i] for i in range(k))
        q.append((t - known) / bottom[0])
    return q


def bump_sums(decomposition: Decomposition, points: Array, orders: int) -> Array:
    """Sum of all bumps along every axis with derivatives, shape (d, orders + 1, n)."""
    axes = []
    for i, windowed in enumerate(decomposition.windowed):
        x = points[:, i]
        if not windowed:
            axes.append(np.stack([np.ones_like(x)] + [np.zeros_like(x)] * orders))
            continue
        first, last = decomposition.range_along(i, x)
        lower, spacing = decomposition.domain.lower[i], decomposition.spacing[i]
        half_width = decomposition.half_width[i]
        total = np.zeros((orders + 1, len(x)))
        for offset in range(int((last - first).max(initial=0)) + 1):
            centre = lower + spacing * np.minimum(first + offset, last)
            counted = first + offset <= last
            total += np.where(counted, np.stack(bump(x, centre, half_width, orders)), 0.0)
        axes.append(total)
    return np.stack(axes)
