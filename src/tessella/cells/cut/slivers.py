"""Boxes of which a shape leaves a sliver: a neighbour's features reach into them.

A sliver hardly tells features apart. What little it says of some is lost to the filter, or grows
from slab to slab of time. The neighbour that it shares most of its faces with knows better: it asks
its equation in the sliver too, and takes over its conditions and its other faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tessella.cells.cut.cutting import CUT, OUTSIDE, Inside, face_parts, kinds, volumes
from tessella.geometry.box import Box
from tessella.machine.arrays import Array
from tessella.overlap.decomposition import Index

if TYPE_CHECKING:
    from tessella.cells.boxes.tiling import Tiling

SLIVER = 0.05
"""Part of a box inside the domain, below which it is left to a neighbour."""

POINTS = 8
"""On each line through a face, to measure it."""


def hosts(tiling: Tiling) -> Index | None:
    """Of every box the one whose features it has: its own, or those of a neighbour; None if there
    are no slivers. Regions have theirs, whose neighbours they cannot leave."""
    domain = tiling.domain
    if isinstance(domain, Box) or domain.regions:
        return None
    inside = Inside(domain)
    low, high = tiling.centres - tiling.half_widths, tiling.centres + tiling.half_widths
    kind = kinds(inside, low, high)
    cut, share = np.flatnonzero(kind == CUT), (kind != OUTSIDE).astype(np.float64)
    if not len(cut):
        return None
    share[cut] = volumes(inside, low[cut], high[cut]) / np.prod((high - low)[cut], axis=1)
    thin = (share < SLIVER) & (kind == CUT)
    if not thin.any():
        return None
    found, best = np.arange(tiling.count), np.zeros(tiling.count)
    for sliver, host, measure in _shared(tiling, inside, thin, kind != OUTSIDE):
        if measure > best[sliver] * (1 + 1e-9):
            found[sliver], best[sliver] = host, measure
    return found


def _shared(
    tiling: Tiling, inside: Inside, thin: np.ndarray, seen: np.ndarray
) -> list[tuple[int, int, float]]:
    """Slivers, neighbours that are none and no smaller, and the measure of their common face."""
    found = []
    for faces in tiling.faces:
        axis, ends = faces.axis, np.stack([faces.below, faces.above])
        away = np.abs(np.diff(tiling.centres[ends, axis], axis=0)[0])
        near = away < 1.01 * tiling.half_widths[ends, axis].sum(axis=0)
        one = np.flatnonzero(near & (thin[ends].sum(axis=0) == 1) & seen[ends].all(axis=0))
        first = thin[ends[0, one]]
        sliver, host = np.where(first, *ends[:, one]), np.where(first, *ends[::-1, one])
        fits = np.all(tiling.half_widths[host] > 0.99 * tiling.half_widths[sliver], axis=1)
        sliver, host, end = sliver[fits], host[fits], np.where(first[fits], 1, -1)
        low, high = _face(tiling, sliver, axis, end)
        parts = face_parts(inside, axis, low, high, POINTS) if len(low) else []
        for s, h, own in zip(sliver.tolist(), host.tolist(), parts, strict=True):
            found.append((s, h, float(sum(part.weights.sum() for part in own))))
    return found


def _face(tiling: Tiling, boxes: Index, axis: int, end: Index) -> tuple[Array, Array]:
    """The corners of a face of each box."""
    centre, half = tiling.centres[boxes], tiling.half_widths[boxes]
    low, high = centre - half, centre + half
    low[:, axis] = high[:, axis] = centre[:, axis] + end * half[:, axis]
    return low, high
