"""Integrals over the domain, exact to rounding for what a basis can express.

Windows are smooth between the edges of subdomains only, and side by side so is the solution. So
every axis is cut at all these edges, and each panel gets Gauss points; of boxes of different size,
every box.
"""

from __future__ import annotations

import math

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.gauss import gauss, gauss_rule
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis

RICHER = 1.5
"""Gauss points per panel and axis, in parts of the features along an axis."""

FEWEST, WINDOWED = 10, {1: 28, 2: 20}
"""At least so many; where windows blend, more. Poles of theirs near the axis make the error of n
points fall like 1.7^(-2n): 1e-13 with 28, 5e-10 with 20 before the sum over windows cancels most of
it. From three dimensions on so many would cost more than all else."""


def quadrature(basis: AnyBasis) -> tuple[Array, Array]:
    """Points (n, d) and weights (n,) of an integral over the domain, for functions in the basis."""
    domain = basis.decomposition.domain
    if not isinstance(domain, Box):
        raise ValueError(
            f"overlapping subdomains integrate over a Box, but the domain is {domain!r}: use "
            f"coupling='interfaces', whose cells know what is inside"
        )
    d = domain.dimension
    richest = max(level.features.columns for level in basis.levels)
    enough = max(FEWEST, math.ceil(RICHER * richest ** (1 / d)))
    boxes = basis.decomposition
    if not boxes.equal:
        z, w = gauss((enough,) * d)
        half = boxes.half_widths
        points = boxes.centres[:, None] + z * half[:, None]
        weights = np.prod(2 * half, axis=1)[:, None] * w
        return points.reshape(-1, d), weights.ravel()
    ticks, weights = [], np.ones(1)
    for axis in range(d):
        blended = any(level.decomposition.windowed[axis] for level in basis.levels)
        nodes, shares = gauss_rule(max(enough, WINDOWED.get(d, 0) if blended else 0))
        edges = edges_along(basis, axis)
        half = np.diff(edges) / 2
        ticks.append(((edges[:-1] + half)[:, None] + half[:, None] * nodes).ravel())
        weights = np.multiply.outer(weights, (half[:, None] * shares).ravel()).ravel()
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, d)
    return points, weights


def edges_along(basis: AnyBasis, axis: int) -> Array:
    """Where some subdomain of some level begins or ends, and the ends of the axis."""
    domain = basis.decomposition.domain
    low, high = domain.bounds[axis]
    found = [low, high]
    for level in basis.levels:
        cut = level.decomposition
        for end in (-1, 1):
            x = np.unique(cut.centres[:, axis] + end * cut.half_widths[:, axis])
            found += (low + (x - low) % (high - low) if cut.wraps[axis] else x).tolist()
    inside = np.unique(np.clip(found, low, high))
    apart = np.append(np.diff(inside) > 1e-9 * (high - low), True)
    apart[-1] = True
    kept = inside[apart]
    kept[0] = low
    return kept
