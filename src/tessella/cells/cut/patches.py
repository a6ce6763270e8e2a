"""Integrals over parts of a boundary.

A part is made of smooth patches, each the image of an interval or a square, of which only some may
belong to the boundary: a circle is cut by a line. Where they do is found along lines of the square
(see `scanning`), and Gauss points lie in between. Where such lines begin and end, their lengths
have square roots, which a cosine in place of the position takes away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple

import numpy as np
import scipy

from tessella.cells.cut.scanning import INSET, Index, Level, bisect, chords_of, patterns_of
from tessella.geometry.box import Box
from tessella.geometry.combinations import Combination, Extrusion, Named
from tessella.geometry.divided import Divided
from tessella.geometry.domain import NEAR, PROBE, Domain
from tessella.geometry.gauss import gauss_rule
from tessella.geometry.implicit import Implicit
from tessella.geometry.polygon import Polygon
from tessella.geometry.shapes import Ball, HalfSpace
from tessella.machine.arrays import Array

SEEN = 8
"""Lines per panel of a square that are looked at for changes."""

ASIDE = 1e-10
"""How far behind and ahead of a boundary that two shapes share is looked, in parts of the
diameter."""

STEPS = 16
"""Pieces of a line by which its length is measured."""

TRACED, FINER = 256, 3
"""Points of a curve given by a function, in parts of its diameter, and doublings of these."""


class Placed(NamedTuple):
    """Points of a boundary (n, d), the outward normals there, and measures (n,)."""

    points: Array
    normals: Array
    measure: Array


class Patch(NamedTuple):
    """A smooth piece: from [0, 1]^(d - 1) to places, whose measure is that of the whole square;
    `level` at points, with the normals there, is negative where they belong to the boundary, and no
    further from zero than the next place where that changes. It may be smooth in so many equal
    `pieces` of its first parameter."""

    at: Callable[[Array], Placed]
    level: Callable[[Array, Array], Array]
    pieces: int = 1


Edges = Sequence[Array]
"""Along every axis, where subdomains begin and end."""


def boundary_rule(domain: Domain, part: str, panels: int, count: int, edges: Edges = ()) -> Placed:
    """Points, normals and weights of an integral over a part of the boundary, with so many Gauss
    points in each of so many panels along every patch, and between the edges of subdomains.

    >>> import tessella as ts
    >>> plate = ts.Box(x=(0, 1), y=(0, 1)) - ts.Ball(x=0, y=0, radius=0.5, name="notch")
    >>> round(float(boundary_rule(plate, "notch", 2, 8).measure.sum()), 12)  # pi / 4
    0.785398163397
    """
    if domain.dimension > 3:
        raise ValueError(
            f"integrals over parts of a boundary are for up to three dimensions (time counts), and "
            f"{domain!r} has {domain.dimension}"
        )
    every = patches(domain, domain.part(part), domain)
    found = [_rule(own, domain.dimension - 1, panels, count, edges) for own in every]
    nothing = np.zeros((0, domain.dimension))
    pieces = [Placed(nothing, nothing, np.zeros(0)), *found]
    return Placed(*(np.concatenate(own) for own in zip(*pieces, strict=True)))


# --- patches of every shape


def _everywhere(points: Array, normals: Array) -> Array:
    return np.full(len(points), -np.inf)


@singledispatch
def patches(domain: Domain, part: str, around: Domain) -> list[Patch]:
    """The smooth pieces that a part of a boundary is cut out of; of one without end, what the
    bounding box of `around` may contain."""
    raise ValueError(
        f"the boundary {part!r} of {domain!r} is not made of pieces that can be integrated over: "
        f"use a Box, Ball, HalfSpace, Polygon (or in the plane Implicit) and what |, & and - make "
        f"of them"
    )


@patches.register
def _(domain: Box, part: str, around: Domain) -> list[Patch]:
    face, sides = domain.face(part), domain.upper - domain.lower
    others = [i for i in range(domain.dimension) if i != face.axis]

    def at(s: Array) -> Placed:
        x = np.zeros((len(s), domain.dimension))
        x[:, others] = domain.lower[others] + sides[others] * s
        return Placed(*domain.on(face, x), np.full(len(s), float(np.prod(sides[others]))))

    return [Patch(at, _everywhere)]


@patches.register
def _(domain: Ball, part: str, around: Domain) -> list[Patch]:
    R, d = domain.radius, domain.dimension

    def at(s: Array) -> Placed:
        turn = 2 * np.pi * s[:, -1]
        n = np.column_stack([np.cos(turn), np.sin(turn)])
        measure = np.full(len(s), 2 * np.pi * R)
        if d == 3:
            down = np.pi * s[:, :1]
            n = np.column_stack([np.sin(down) * n, np.cos(down)])
            measure *= np.pi * R * np.sin(down[:, 0])
        return Placed(np.array(domain.centre) + R * n, n, measure)

    return [Patch(at, _everywhere)]


@patches.register
def _(domain: HalfSpace, part: str, around: Domain) -> list[Patch]:
    d, n = domain.dimension, np.array(domain.normal)
    low, high = around.lower[:d], around.upper[:d]
    middle, reach = (low + high) / 2, float(np.linalg.norm(high - low)) / 2
    foot = middle - ((middle - np.array(domain.point)) @ n) * n
    along = np.linalg.svd(n[None, :])[2][1:]

    def at(s: Array) -> Placed:
        points = foot + reach * (2 * s - 1) @ along
        return Placed(points, np.tile(n, (len(s), 1)), np.full(len(s), (2 * reach) ** (d - 1)))

    return [Patch(at, _everywhere)]


@patches.register
def _(domain: Polygon, part: str, around: Domain) -> list[Patch]:
    ring = np.array(domain.rings[domain.parts.index(part)])

    def edge(start: Array, along: Array) -> Patch:
        size = float(np.linalg.norm(along))
        outward = np.array([along[1], -along[0]]) / size

        def at(s: Array) -> Placed:
            return Placed(start + s * along, np.tile(outward, (len(s), 1)), np.full(len(s), size))

        return Patch(at, _everywhere)

    return [edge(a, b - a) for a, b in zip(ring, np.roll(ring, -1, axis=0), strict=True)]


@patches.register
def _(domain: Named, part: str, around: Domain) -> list[Patch]:
    return [own for name in domain.domain.parts for own in patches(domain.domain, name, around)]


@patches.register
def _(domain: Combination, part: str, around: Domain) -> list[Patch]:
    """What lies inside the other one; of a union, and on the left of a difference, outside. A
    common boundary belongs to the left one, if it has the combination on one side only."""
    step, near = ASIDE * domain.diameter, NEAR * domain.diameter

    def common(points: Array, normals: Array) -> Array:
        behind, ahead = (domain.signed_distance(points + s * normals) for s in (-step, step))
        return np.where((behind < 0) & (ahead > 0), -near, near)

    def on_left(points: Array, normals: Array) -> Array:
        level = domain.right.signed_distance(points) * (1.0 if domain.kind == "&" else -1.0)
        return np.where(np.abs(level) > near, level, common(points, normals))

    def on_right(points: Array, normals: Array) -> Array:
        level = domain.left.signed_distance(points) * (-1.0 if domain.kind == "|" else 1.0)
        return np.where(np.abs(level) > near, level, near)

    found = []
    if part in domain.left.parts:
        found += [_where(own, on_left) for own in patches(domain.left, part, around)]
    if part in domain.right.parts:
        own_right = patches(domain.right, part, around)
        turned = [_turned(own) for own in own_right] if domain.kind == "-" else own_right
        found += [_where(own, on_right) for own in turned]
    return found


def _where(patch: Patch, also: Callable[[Array, Array], Array]) -> Patch:
    return patch._replace(level=lambda x, n: np.maximum(patch.level(x, n), also(x, n)))


def _turned(patch: Patch) -> Patch:
    """The same, seen from the other side."""

    def at(s: Array) -> Placed:
        found = patch.at(s)
        return found._replace(normals=-found.normals)

    return patch._replace(at=at, level=lambda x, n: patch.level(x, -n))


@patches.register
def _(domain: Extrusion, part: str, around: Domain) -> list[Patch]:
    base, size = domain.base, domain.high - domain.low
    if part in domain.ends:
        box = Box(**dict(zip(domain.axes, domain.bounds, strict=True)))
        (lid,) = patches(box, part, around)
        return [_where(lid, lambda x, n: base.signed_distance(x[:, :-1]))]

    def swept(own: Patch) -> Patch:
        def at(s: Array) -> Placed:
            x, n, measure = own.at(s[:, :-1])
            points = np.column_stack([x, domain.low + size * s[:, -1]])
            return Placed(points, np.column_stack([n, np.zeros(len(n))]), size * measure)

        return Patch(at, lambda x, n: own.level(x[:, :-1], n[:, :-1]), own.pieces)

    return [swept(own) for own in patches(base, part, around)]


@patches.register
def _(domain: Divided, part: str, around: Domain) -> list[Patch]:
    if part in domain.whole.parts:
        return patches(domain.whole, part, around)
    first, second = part.split("/")
    shape, step = dict(domain.shapes)[first], PROBE * domain.diameter

    def between(points: Array, normals: Array) -> Array:
        behind, ahead = (points + s * normals for s in (-step, step))
        ours = domain.inside(first, behind) & domain.inside(second, ahead)
        ours &= domain.contains(behind) & domain.contains(ahead)
        return np.where(ours, -step, step)

    return [_where(own, between) for name in shape.parts for own in patches(shape, name, around)]


@patches.register
def _(domain: Implicit, part: str, around: Domain) -> list[Patch]:
    """In the plane: points along the curve, and over every chord between two of them the curve."""
    if domain.dimension != 2:
        raise ValueError(
            f"integrals over {domain!r} are for the plane: in space use Ball, Box and HalfSpace"
        )
    points, following = _traced(domain)
    start, chord = points, points[following] - points
    length = np.linalg.norm(chord, axis=1)
    across = np.column_stack([chord[:, 1], -chord[:, 0]]) / length[:, None]

    def at(s: Array) -> Placed:
        place = np.clip(s[:, 0] * len(points), 0.0, len(points) * (1 - 1e-15))
        i = place.astype(np.int64)
        x, m = start[i] + (place - i)[:, None] * chord[i], across[i]
        for _ in range(12):
            value, slope = domain._evaluate(x)
            along = np.sum(slope * m, axis=1)
            x = x - (value / np.where(along == 0, 1.0, along))[:, None] * m
        slope = domain._evaluate(x)[1]
        n = slope / np.linalg.norm(slope, axis=1)[:, None]
        return Placed(x, n, len(points) * length[i] / np.abs(np.sum(n * m, axis=1)))

    return [Patch(at, _everywhere, len(points))]


def _traced(domain: Implicit) -> tuple[Array, Index]:
    """Points of a plane curve, and which of them follows each, the domain on the left."""
    for finer in range(FINER):
        spacing = np.full(2, domain.diameter / TRACED / 2**finer)
        points, n = domain.surface(domain.name, spacing, domain)
        near = scipy.spatial.cKDTree(points).query(points, min(8, len(points)))[1][:, 1:]
        gaps = points[near] - points[:, None]
        ahead = np.einsum("nkd,nd->nk", gaps, np.column_stack([-n[:, 1], n[:, 0]]))
        size = np.linalg.norm(gaps, axis=2)
        best = np.argmin(np.where(ahead > 0.5 * size, size, np.inf), axis=1)
        following = near[np.arange(len(points)), best]
        if np.array_equal(np.sort(following), np.arange(len(points))):
            return points, following
    raise ValueError(f"the boundary of {domain!r} cannot be followed: it is too finely curved")


# --- Gauss points where a patch belongs to the boundary


def _rule(patch: Patch, parameters: int, panels: int, count: int, edges: Edges) -> Placed:
    if parameters == 0:
        return patch.at(np.zeros((1, 0)))
    along = patch.pieces * -(-panels // patch.pieces)
    first, weights, last = np.zeros((1, 0)), np.ones(1), along
    if parameters == 2:
        first, weights, last = *_across(patch, along, count), panels
    found, measured = [np.zeros((0, parameters))], [np.zeros(0)]
    level, size = _lines(patch, first)
    chords = chords_of(level, size)
    for line, a, b, more in zip(*chords, _cuts(patch, first, chords, last, edges), strict=True):
        inner = np.arange(np.floor(a * last) + 1, np.ceil(b * last)) / last
        t, w = _gauss_between(np.sort(np.concatenate([[a, b], inner, more])), count)
        found.append(np.column_stack([np.tile(first[line], (len(t), 1)), t]))
        measured.append(weights[line] * w)
    places = patch.at(np.concatenate(found))
    return places._replace(measure=places.measure * np.concatenate(measured))


def _lines(patch: Patch, first: Array) -> tuple[Level, Array]:
    """The lines of the last parameter at places (n, 0 or 1) of the others: the level along them,
    and about how long they are."""

    def places(line: Index, t: Array) -> Placed:
        return patch.at(np.column_stack([first[line], t]))

    def level(line: Index, t: Array) -> Array:
        points, normals, _ = places(line, t)
        return patch.level(points, normals)

    every, ticks = np.arange(len(first)), np.linspace(0.0, 1.0, STEPS + 1)
    x = places(np.repeat(every, len(ticks)), np.tile(ticks, len(first))).points
    gaps = np.diff(x.reshape(len(first), len(ticks), -1), axis=1)
    return level, 1.1 * np.linalg.norm(gaps, axis=2).sum(axis=1)


def _cuts(
    patch: Patch, first: Array, chords: tuple[Index, Array, Array], panels: int, edges: Edges
) -> list[Array]:
    """Where every chord goes from one subdomain to another."""
    line, a, b = chords

    def subdomain(k: Index, t: Array) -> Index:
        x = patch.at(np.column_stack([first[line[k]], t])).points
        found = np.zeros(len(t), dtype=np.int64)
        for own, along in zip(edges, x.T, strict=True):
            found = found * (len(own) + 1) + np.searchsorted(own, along)
        return found

    if not len(edges) or not len(line):
        return [np.zeros(0)] * len(line)
    t = a[:, None] + (b - a)[:, None] * np.linspace(0.0, 1.0, SEEN * panels + 1)
    seen = subdomain(np.repeat(np.arange(len(line)), t.shape[1]), t.ravel()).reshape(t.shape)
    k, i = np.nonzero(seen[:, 1:] != seen[:, :-1])
    before = seen[k, i]
    found = bisect(lambda s: subdomain(k, s) == before, t[k, i], t[k, i + 1], 50)
    return [found[k == own] for own in range(len(line))]


def _across(patch: Patch, panels: int, count: int) -> tuple[Array, Array]:
    """Places (n, 1) of the first parameter and weights: between panels, and between changes of what
    lines of the second one meet."""

    def pattern(s: Array) -> Index:
        return patterns_of(*_lines(patch, s[:, None]))

    looks, ends = np.linspace(INSET, 1 - INSET, SEEN * panels + 1), np.arange(panels + 1) / panels
    seen = pattern(looks)
    i = np.flatnonzero(seen[1:] != seen[:-1])
    if len(i):
        before = seen[i]
        more = bisect(lambda s: pattern(s) == before, looks[i], looks[i + 1], 50)
        ends = np.sort(np.concatenate([ends, more]))
    s, weights = _gauss_between(ends, count, rounded=bool(len(i)))
    return s[:, None], weights


def _gauss_between(ends: Array, count: int, rounded: bool = False) -> tuple[Array, Array]:
    """Gauss points between neighbours; `rounded` by a cosine."""
    a, b = ends[:-1, None], ends[1:, None]
    z, w = gauss_rule(count)
    share, weight = (z + 1) / 2, w / 2
    if rounded:
        weight = weight * np.pi * np.sin(np.pi * share) / 2
        share = (1 - np.cos(np.pi * share)) / 2
    return (a + (b - a) * share).ravel(), ((b - a) * weight).ravel()
