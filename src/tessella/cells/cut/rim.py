"""The pieces of a boundary that cells have: which points of it lie in which cell."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from tessella.cells.cut.scanning import CUT, Index, Inside, kinds
from tessella.geometry.divided import Divided
from tessella.geometry.domain import NEAR, Domain, Surface
from tessella.geometry.implicit import Implicit
from tessella.machine.arrays import Array

FEW, FINER = 4, (2, 4, 8, 16)
"""A cell with fewer points on its piece of a boundary gets those of finer samplings."""

MOST, GRID = 1 << 18, 1 << 20
"""Points of a finer sampling at most, and of the grid from which an implicit boundary has them."""

BESIDE = 1e-4
"""How far beside a point where a boundary touches a face it is seen where the boundary goes on."""

SAMPLES = {1: 40, 2: 112}
"""Of a tangent, and of a tangent plane: so many that squares and hexagons get their share."""

DEEP = 1 / 32
"""Boundary this far inside a cell, in parts of its size, cannot have come through a face."""


def boundary_points(
    domain: Domain,
    part: str,
    spacing: Array,
    low: Array,
    high: Array,
    region: str | None = None,
    few: int = FEW,
) -> tuple[Index, Array, Array, Array]:
    """Points of a part of the boundary: the cell of each, the points, normals and weights.

    About `spacing` apart, finer in cut cells with `few` of them. A weight is the measure of what is
    closer to the point than to others, within some percent. With `region`, only what bounds it.
    """
    inside = Inside(domain, region)
    surface = domain.surface(domain.part(part), spacing, domain)
    tried = [(1, surface, _owners(inside, surface, low, high))]
    count = _counts(tried[0][2], len(low))
    best = np.append(np.ones(len(low), dtype=np.int64), 0)  # The last is that of no cell.
    poor = _passed(inside, surface[0], spacing, low, high, count, few)
    for finer in FINER:
        dear = len(tried[0][1][0]) * finer ** (domain.dimension - 1) > MOST
        if not len(poor) or dear or not _affordable(domain, spacing / finer):
            break
        surface = domain.surface(part, spacing / finer, domain)
        owner = _owners(inside, surface, low[poor], high[poor])
        again = _counts(owner, len(poor))
        best[poor[again > count[poor]]] = finer
        count[poor] = np.maximum(count[poor], again)
        tried.append((finer, surface, np.where(owner >= 0, poor[owner], -1)))
        poor = poor[count[poor] < few]
    found = []
    for finer, surface, owner in tried:
        i = np.flatnonzero(best[owner] == finer)
        weights = _measures(domain, part, surface, spacing / finer, i)
        found.append((owner[i], surface[0][i], surface[1][i], weights))
    cell, points, normals, weights = (np.concatenate(a) for a in zip(*found, strict=True))
    return cell, points, normals, weights


def _counts(owner: Index, cells: int) -> Index:
    return np.bincount(owner[owner >= 0], minlength=cells)


def _owners(inside: Inside, surface: Surface, low: Array, high: Array) -> Index:
    """The cell that holds what is just inside of each boundary point, or -1.

    Where a round boundary touches a common face of two cells, the one that it goes on in.
    """
    points, outward = surface
    step = NEAR * inside.domain.diameter
    if inside.region is not None:
        behind, ahead = (inside.member(points + s * outward)[:, None] for s in (-step, step))
        outward = np.where(behind, outward, np.where(ahead, -outward, np.nan))
    owner = _containing(points - step * outward, low, high)
    beyond = _containing(points + step * outward, low, high)
    touch = np.flatnonzero((owner >= 0) & (beyond >= 0) & (owner != beyond))
    if len(touch):
        outward, aside = outward[touch], BESIDE * inside.domain.diameter
        place = points[touch] + aside * np.linalg.svd(outward[:, None])[2][:, -1]
        depth = inside.distance(place) + step
        on = _containing(place - depth[:, None] * outward, low, high)
        owner[touch] = np.where(on >= 0, on, owner[touch])
    return owner


def _containing(points: Array, low: Array, high: Array) -> Index:
    """The cell of each point, or -1, by a table of all the places between edges of cells."""
    if not len(low):
        return np.full(len(points), -1)
    close = 1e-9 * (high - low).min(axis=0)
    edges = [np.sort(np.append(low[:, k], high[:, k])) for k in range(low.shape[1])]
    edges = [e[np.diff(e, prepend=-np.inf) > c] for e, c in zip(edges, close, strict=True)]
    first, last = (
        np.column_stack([np.searchsorted(e, x[:, k] - close[k]) for k, e in enumerate(edges)])
        for x in (low, high)
    )
    table = np.full([len(e) + 1 for e in edges], -1)
    for j, (a, b) in enumerate(zip(first + 1, last + 1, strict=True)):
        table[tuple(map(slice, a, b))] = j
    return table[
        tuple(np.searchsorted(e, x, "right") for e, x in zip(edges, points.T, strict=True))
    ]


def _passed(
    inside: Inside, points: Array, spacing: Array, low: Array, high: Array, count: Index, few: int
) -> Index:
    """Cut cells with few points, though a part of the boundary comes close."""
    poor = np.flatnonzero(count < few)
    if len(points):
        reach = np.linalg.norm((high - low)[poor] / 2 + spacing, axis=1)
        poor = poor[scipy.spatial.cKDTree(points).query((low + high)[poor] / 2)[0] < reach]
        first, last = low[poor] - spacing, high[poor] + spacing
        boxes = zip(first, last, strict=True)
        near = [np.all((points > a) & (points < b), axis=1).any() for a, b in boxes]
        poor = poor[np.array(near, dtype=bool)]
    return poor[kinds(inside, low[poor], high[poor]) == CUT]


def _affordable(domain: Domain, spacing: Array) -> bool:
    """An implicit boundary is found from a grid of its bounding box, others from nothing."""
    inner = [shape for shape in vars(domain).values() if isinstance(shape, Domain)]
    if isinstance(domain, Divided):
        inner += [shape for _, shape in domain.shapes]
    if isinstance(domain, Implicit):
        return float(np.prod((domain.upper - domain.lower) / spacing[: domain.dimension])) < GRID
    return all(_affordable(shape, spacing) for shape in inner)


def _measures(domain: Domain, part: str, surface: Surface, spacing: Array, own: Index) -> Array:
    """The measure of the boundary that is closer to each chosen point than to all others.

    By samples of the tangent plane; those beyond an edge, with no boundary near, do not count.
    """
    d = domain.dimension
    if d == 1 or not len(own):
        return np.ones(len(own))
    # In coordinates that count spacings, which may differ by axis.
    points, normals = surface[0] / spacing, surface[1][own] * spacing
    stretch = np.linalg.norm(normals, axis=1)
    k = min(len(points), 4 * d - 3)
    near = scipy.spatial.cKDTree(points).query(points[own], k)[1].reshape(len(own), k)
    gaps = points[near] - points[own][:, None]
    squares = np.sum(gaps**2, axis=2)
    reach = np.sqrt(squares[:, min(2 * d - 2, k - 1)])
    reach = np.where(reach > 0, reach, 1.0)
    tangents = np.linalg.svd((normals / stretch[:, None])[:, None])[2][:, 1:]
    steps = reach[:, None, None] * (_disc(d - 1) @ tangents)
    closer = np.all(2 * steps @ np.swapaxes(gaps, 1, 2) <= squares[:, None], axis=2)
    row, _ = np.nonzero(closer)
    x, aside = (points[own][row] + steps[closer]) * spacing, steps[closer] * spacing
    aside = np.linalg.norm(aside, axis=1)[:, None] * surface[1][own][row] / 3
    between = isinstance(domain, Divided) and part not in domain.whole.parts
    inside = Inside(domain, part.split("/")[0] if between else None)
    closer[closer] = inside.member(x - aside) & ~inside.member(x + aside)
    extent = 2 * reach if d == 2 else np.pi * reach**2
    return np.asarray(extent * closer.mean(axis=1) * np.prod(spacing) / stretch)


def _disc(axes: int) -> Array:
    """Points (n, axes) spread evenly over an interval from -1 to 1 or over the unit disc."""
    number = np.arange(SAMPLES[axes])
    share = (number + 0.5) / len(number)
    if axes == 1:
        return 2 * share[:, None] - 1
    angle = np.pi * (3 - np.sqrt(5)) * number
    return np.sqrt(share)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def too_thin(inside: Inside, low: Array, high: Array, kind: NDArray[np.int8]) -> Array | None:
    """A point (d,) of the boundary deep in a cell that shows none, if there is one.

    There something is too thin, or too small, for cells of this size. `kind` is that of all cells.
    """
    depth, spacing = DEEP * (high - low), (high - low).min(axis=0) / 8
    while not _affordable(inside.domain, spacing):
        spacing = 2 * spacing
    for part in inside.domain.parts:
        points, normals = inside.domain.surface(part, spacing, inside.domain)
        owner = _owners(inside, (points, normals), low, high)
        points, owner = points[owner >= 0], owner[owner >= 0]
        missed = (kind[owner] != CUT) & np.all(points > (low + depth)[owner], axis=1)
        missed &= np.all(points < (high - depth)[owner], axis=1)
        if missed.any():
            return np.asarray(points[np.argmax(missed)])
    return None
