"""What a boundary leaves of axis-aligned cells: points inside, parts of faces.

Cells and faces are arrays of lower and upper corners, (n, d) each.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy

from tessella.cells.cut.rim import boundary_points, too_thin
from tessella.cells.cut.scanning import (
    CUT,
    INSET,
    OUTSIDE,
    SHORT,
    WHOLE,
    Index,
    Inside,
    bisect,
    chords,
    kinds,
    patterns,
    pieces_of,
)
from tessella.geometry.gauss import gauss_rule
from tessella.machine.arrays import Array

__all__ = [
    "CUT",
    "OUTSIDE",
    "WHOLE",
    "Inside",
    "Part",
    "boundary_points",
    "face_parts",
    "inner_points",
    "kinds",
    "too_thin",
    "volumes",
]

MOST = 1 << 16
"""Gauss points at most, in a cell of which few are inside."""

SLICES, CHANGES = 16, 3
"""Lines across a face in space, among which its connected parts are found; and how often at most
what they cross may change from one to the next."""

PIECES = {1: 20, 2: 20, 3: 8}
"""Per axis of a cell, to measure how much of it is inside; by the dimension."""


class Part(NamedTuple):
    """Quadrature on a connected part of a face: points (n, d), weights that sum to its measure."""

    points: Array
    weights: Array


@cache
def _gauss(count: int, axes: int) -> tuple[Array, Array]:
    """Gauss points of the unit cube (n, axes), last axis fastest, and weights (n,)."""
    x, w = gauss_rule(count)
    points = np.stack(np.meshgrid(*[(x + 1) / 2] * axes, indexing="ij"), axis=-1)
    weights = np.stack(np.meshgrid(*[w / 2] * axes, indexing="ij"), axis=-1)
    return points.reshape(-1, axes), weights.reshape(-1, axes).prod(axis=1)


def inner_points(
    inside: Inside, low: Array, high: Array, per_axis: int, least: int
) -> list[tuple[Array, Array]]:
    """Points inside each cut cell, and weights that sum to about the volume of its inner part.

    Gauss points of the cell; where fewer than `least` of them are inside, those of the box around
    what is inside, more and more of them. Both are empty where nothing is found.
    """
    d = low.shape[1]
    found = [(np.zeros((0, d)), np.zeros(0))] * len(low)
    poor = np.arange(len(low))
    for factor, shrink in ((1, None), (2, _trimmed), (2, _hugged), (4, None), (8, None)):
        if not len(poor) or (factor > 1 and (factor * per_axis) ** d > MOST):
            break
        low, high = (low, high) if shrink is None else shrink(inside, low, high)
        nodes, shares = _gauss(factor * per_axis, d)
        points = low[:, None] + (high - low)[:, None] * nodes
        member = inside.member(points.reshape(-1, d)).reshape(len(poor), -1)
        # Of thin strips the tangent planes know too much, and the count of points knows enough.
        counted = (high - low).prod(axis=1) * (member @ shares)
        volume = np.clip(volumes(inside, low, high), 0.6 * counted, 1.6 * counted)
        for k in np.flatnonzero(member.any(axis=1)):
            own = shares[member[k]]
            found[poor[k]] = points[k, member[k]], own * (volume[k] / own.sum())
        short = np.count_nonzero(member, axis=1) < least
        poor, low, high = poor[short], low[short], high[short]
    return found


def volumes(inside: Inside, low: Array, high: Array) -> Array:
    """How much of each box is inside: of every piece the part on this side of a tangent plane."""
    axes, n = np.arange(low.shape[1]), PIECES[low.shape[1]]
    half, number = (high - low) / (2 * n), np.arange(len(low))
    middle, _ = pieces_of((low + high) / 2, half, number, axes, n)
    level = inside.distance(middle).reshape(len(low), *[n] * len(axes))
    width = sum(np.abs(np.gradient(level, axis=k + 1)) for k in axes)
    share = np.clip(0.5 - level / np.maximum(width, 1e-300), 0.0, 1.0)
    return np.asarray(
        (high - low).prod(axis=1) * share.reshape(len(low), n ** len(axes)).mean(axis=1)
    )


def _trimmed(inside: Inside, low: Array, high: Array) -> tuple[Array, Array]:
    """Smaller boxes around what is inside: pieces go whose middle is too far outside."""
    axes, number = np.arange(low.shape[1]), np.arange(len(low))
    for _ in range(3):
        half = (high - low) / 16
        middle, box = pieces_of((low + high) / 2, half, number, axes, 8)
        near = inside.distance(middle) < np.linalg.norm(half, axis=1)[box]
        middle, box = middle[near], box[near]
        low, high = _hull(low, high, box, middle - half[box], middle + half[box])
    return low, high


def _hugged(inside: Inside, low: Array, high: Array) -> tuple[Array, Array]:
    """Boxes around slivers along a face, from which the distance leads nowhere.

    By the ends of chords: of lines all over the box, and then of lines where there were some.
    """
    first, last = low, high
    for _ in range(2):
        found = [_chord_ends(inside, low, high, first, last, k) for k in range(low.shape[1])]
        first, last = _hull(low, high, *(np.concatenate(a) for a in zip(*found, strict=True)))
    margin = 0.05 * (last - first) + INSET * (high - low)
    return np.maximum(low, first - margin), np.minimum(high, last + margin)


def _hull(low: Array, high: Array, box: Index, a: Array, b: Array) -> tuple[Array, Array]:
    """Of each box what lies between the least a and the greatest b; without any, all of it."""
    some = np.isin(np.arange(len(low)), box)[:, None]
    first, last = np.where(some, high, low), np.where(some, low, high)
    np.minimum.at(first, box, a)
    np.maximum.at(last, box, b)
    return first, last


def _chord_ends(
    inside: Inside, low: Array, high: Array, first: Array, last: Array, along: int
) -> tuple[Index, Array, Array]:
    """Begins and ends of chords of lines through boxes, at places between `first` and `last`."""
    d = low.shape[1]
    ticks = [[0.0] if k == along else np.linspace(INSET, 1 - INSET, 9) for k in range(d)]
    share = np.array(list(product(*ticks)))
    start = (first[:, None] + (last - first)[:, None] * share).reshape(-1, d)
    box = np.repeat(np.arange(len(low)), len(share))
    end = start.copy()
    start[:, along], end[:, along] = low[box, along], high[box, along]
    line, a, b = chords(inside, start, end, along)
    step = (end - start)[line]
    return box[line], start[line] + a[:, None] * step, start[line] + b[:, None] * step


def face_parts(inside: Inside, axis: int, low: Array, high: Array, count: int) -> list[list[Part]]:
    """The connected parts of faces (boxes without extent along `axis`) that lie inside.

    On an interval `count` Gauss points; in space as many on each of as many lines through a part,
    or some more. A face that is inside entirely has the tensor product of Gauss points.
    """
    d = low.shape[1]
    if d == 1:
        point = [Part(x[None], np.ones(1)) for x in low]
        return [[p] if own else [] for p, own in zip(point, inside.member(low), strict=True)]
    if d == 3:
        return _areas(inside, [k for k in range(3) if k != axis], low, high, count)
    line, begin, end = chords(inside, low, high, 1 - axis)
    points, weights = _on_chords(low[line], high[line], begin, end, 1 - axis, count)
    return _grouped(len(low), line, np.arange(len(line)), points, weights)


def volume_points(inside: Inside, low: Array, high: Array, count: int) -> list[Part]:
    """Quadrature of the parts of boxes that lie inside, for integrals.

    In the plane lines between the places where they meet the boundary differently, with exact ends:
    as accurate as Gauss points on a whole box. In space such sections at Gauss points of the last
    axis, which sees edges of the boundary: three to five digits.
    """
    d, boxes = low.shape[1], np.arange(len(low))
    if d == 3:
        nodes, shares = _gauss(count, 1)
        box = np.repeat(boxes, count)
        start, end = _lines(low[box], high[box], np.tile(nodes[:, 0], len(low)), 2)
        sections = _areas(inside, [0, 1], start, end, count)
        tall = np.outer((high - low)[:, 2], shares).ravel()
        parts = [(b, p.points, t * p.weights)
                 for b, t, own in zip(box, tall, sections, strict=True) for p in own]  # fmt: skip
    elif d == 2:
        sections = _areas(inside, [0, 1], low, high, count)
        parts = [(b, *p) for b, own in zip(boxes, sections, strict=True) for p in own]
    else:
        line, begin, end = chords(inside, low, high, 0)
        points, weights = _on_chords(low[line], high[line], begin, end, 0, count)
        parts = list(zip(line, points, weights, strict=True))
    found: list[list[tuple[Array, Array]]] = [[] for _ in boxes]
    for b, points, weights in parts:
        found[int(b)].append((points, weights))
    none = Part(np.zeros((0, d)), np.zeros(0))
    return [
        Part(*(np.concatenate(x) for x in zip(*own, strict=True))) if own else none for own in found
    ]


def _on_chords(
    low: Array, high: Array, begin: Array, end: Array, along: int, count: int
) -> tuple[Array, Array]:
    """Gauss points (n, count, d) and weights (n, count) on intervals of lines."""
    nodes, shares = _gauss(count, 1)
    size = high[:, along] - low[:, along]
    points = np.repeat(low[:, None], count, axis=1)
    points[:, :, along] += size[:, None] * (begin[:, None] + (end - begin)[:, None] * nodes[:, 0])
    return points, (size * (end - begin))[:, None] * shares


def _grouped(
    count: int, face: Index, label: Index, points: Array, weights: Array
) -> list[list[Part]]:
    """Chords of the same face and label together, the points on each of them slowest."""
    parts: list[list[Part]] = [[] for _ in range(count)]
    order = np.lexsort((label, face))
    new = (np.diff(face[order]) != 0) | (np.diff(label[order]) != 0)
    for own in np.split(order, np.flatnonzero(new) + 1):
        if len(own):
            x = np.swapaxes(points[own], 0, 1).reshape(-1, points.shape[2])
            parts[face[own[0]]].append(Part(x, weights[own].T.ravel()))
    return parts


def _areas(
    inside: Inside, flat: list[int], low: Array, high: Array, count: int
) -> list[list[Part]]:
    """Parts of faces in space: chords of lines along the first axis, at positions on the last."""
    along, across = flat
    kind = kinds(inside, low, high)
    whole, cut = np.flatnonzero(kind == WHOLE), np.flatnonzero(kind == CUT)
    labels = np.zeros((len(low), SLICES + 1, SLICES + 1), dtype=np.int64)
    labels[cut] = _labels(inside, flat, low[cut], high[cut])
    face, a, b = _panels(inside, flat, low[cut], high[cut])
    face = np.append(whole, cut[face])
    a, b = np.append(0.0 * whole, a), np.append(0.0 * whole + 1, b)
    face, v, weights = _across(face, a, b, count)
    start, end = _lines(low[face], high[face], v, across)
    line, begin, stop = chords(inside, start, end, along)
    points, shares = _on_chords(start[line], end[line], begin, stop, along, count)
    shares *= (weights * (high - low)[face, across])[line][:, None]
    row, column = np.rint(SLICES * np.stack([v[line], (begin + stop) / 2])).astype(int)
    return _grouped(len(low), face[line], labels[face[line], row, column], points, shares)


def _lines(low: Array, high: Array, v: Array, across: int) -> tuple[Array, Array]:
    """Boxes without extent along one more axis, at the positions v from 0 to 1 there."""
    low, high = low.copy(), high.copy()
    low[:, across] += v * (high - low)[:, across]
    high[:, across] = low[:, across]
    return low, high


def _panels(inside: Inside, flat: list[int], low: Array, high: Array) -> tuple[Index, Array, Array]:
    """Cut faces in panels, within which chords change smoothly: face, begin and end."""
    (along, across), number = flat, np.arange(len(low))
    ticks = np.linspace(INSET, 1 - INSET, SLICES + 1)

    def pattern(face: Index, v: Array) -> Index:
        return patterns(inside, *_lines(low[face], high[face], v, across), along)

    def change(face: Index, before: Index, a: Array, b: Array) -> Array:
        return bisect(lambda v: pattern(face, v) == before, a, b, 24)

    found = pattern(np.repeat(number, len(ticks)), np.tile(ticks, len(low)))
    found = found.reshape(len(low), len(ticks))
    face, k = np.nonzero(np.diff(found, axis=1))
    a, b, before, after = ticks[k], ticks[k + 1], found[face, k], found[face, k + 1]
    edges = [(number, 0.0 * number), (number, 0.0 * number + 1)]
    for _ in range(CHANGES):
        v = change(face, before, a, b)
        edges.append((face, v))
        before = pattern(face, v + SHORT)
        more = before != after
        face, a, b = face[more], v[more] + SHORT, b[more]
        before, after = before[more], after[more]
    face, v = (np.concatenate(e) for e in zip(*edges, strict=True))
    order = np.lexsort((v, face))
    face, v = face[order], v[order]
    i = np.flatnonzero((np.diff(face) == 0) & (np.diff(v) > SHORT))
    return face[i], v[i], v[i + 1]


def _labels(inside: Inside, flat: list[int], low: Array, high: Array) -> Index:
    """The connected part that each point of each face's grid is in, or closest to.

    Rows are positions on the last axis of the face, columns on the first.
    """
    ticks = np.linspace(INSET, 1 - INSET, SLICES + 1)
    shape = (len(low), len(ticks), len(ticks))
    if not len(low):
        return np.zeros(shape, dtype=np.int64)
    share = np.zeros((len(ticks) ** 2, low.shape[1]))
    share[:, flat] = np.column_stack([np.tile(ticks, len(ticks)), np.repeat(ticks, len(ticks))])
    grid = low[:, None] + (high - low)[:, None] * share
    member = inside.member(grid.reshape(-1, low.shape[1])).reshape(shape)
    beside = scipy.ndimage.generate_binary_structure(3, 1)
    beside[[0, 2]] = False
    nearest = scipy.ndimage.distance_transform_edt(
        ~member, sampling=(1e6, 1, 1), return_distances=False, return_indices=True
    )
    return np.asarray(scipy.ndimage.label(member, beside)[0][tuple(nearest)])


def _across(face: Index, a: Array, b: Array, count: int) -> tuple[Index, Array, Array]:
    """Positions and weights of `count` lines between a and b.

    Where a part begins or ends, its chords vanish like roots: there a cosine makes them smooth.
    """
    nodes, shares = _gauss(count, 1)
    s = nodes[:, 0]
    bent, bent_shares = (1 - np.cos(np.pi * s)) / 2, np.pi / 2 * np.sin(np.pi * s) * shares
    whole, size = ((a == 0) & (b == 1))[:, None], (b - a)[:, None]
    v = a[:, None] + size * np.where(whole, s, bent)
    return np.repeat(face, count), v.ravel(), (size * np.where(whole, shares, bent_shares)).ravel()
