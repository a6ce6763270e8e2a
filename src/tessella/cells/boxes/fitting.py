"""Tilings that fit a shape: cut where it is thin, with edges off the boundaries between regions."""

from __future__ import annotations

import numpy as np

from tessella.cells.boxes.tiling import Tiling
from tessella.cells.cut.cutting import Inside, kinds, too_thin

TRIES = 40
"""Boxes that are cut where a shape is thin, before it is refused."""

NUDGE = 0.07
"""Part of a slab by which edges are moved off a boundary between regions."""


def thick_enough(tiling: Tiling) -> Tiling:
    """The tiling with boxes cut where the domain is too thin for them."""
    domain = tiling.domain
    insides = tuple(Inside(domain, name) for name in domain.regions) or (Inside(domain),)
    for _ in range(TRIES):
        low, high = tiling.centres - tiling.half_widths, tiling.centres + tiling.half_widths
        places = [too_thin(one, low, high, kinds(one, low, high)) for one in insides]
        thin = [place for place in places if place is not None]
        if not thin:
            return tiling
        box, _ = tiling.containing(np.array(thin))
        tiling = tiling.refined(np.unique(box).tolist())
    return tiling


def off_regions(tiling: Tiling) -> Tiling:
    """The tiling with edges moved off boundaries between regions that run along them: a cell must
    see both sides of such a boundary to join them."""
    domain = tiling.domain
    spacing = (domain.upper - domain.lower) / 50
    inner = [part for part in domain.parts if part not in domain.walls] if domain.regions else []
    widths, moved = list(tiling.described), False
    for part in inner:
        if part in ("tmin", "tmax"):
            continue
        points, normals = domain.surface(part, spacing, domain)
        for axis in range(domain.dimension):
            flat = points[np.abs(normals[:, axis]) > 1 - 1e-6, axis]
            own = tiling.along(axis)
            edges = np.unique(tiling.centres[:, axis] + tiling.half_widths[:, axis])[:-1]
            near = np.abs(flat[:, None] - edges)
            if near.size and near.min() < 1e-6 * min(own) and len(own) > 1:
                step = NUDGE * min(own)
                widths[axis] = [own[0] + step, *own[1:-1], own[-1] - step]
                moved = True
    return Tiling.of_widths(domain, widths, tiling.cut) if moved else tiling
