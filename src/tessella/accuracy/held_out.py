"""Points that no system has seen: random ones, and more where the data are peaked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from tessella.accuracy import tuning
from tessella.cells.boxes.tiling import Tiling
from tessella.geometry.box import Box
from tessella.geometry.domain import Domain, Surface
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import GRIDDED, Rows
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.problem import Equation, Problem
from tessella.problem.slabs import Continued
from tessella.solution.solution import Solution

SEED = 20_011
"""Of the held-out points; no system's points are random, so none of them coincide."""


class Sampler(Protocol):
    """Where random points come from: a domain, or cells of it that all have the same ones."""

    def scatter(self, count: int, draw: np.random.Generator) -> Array: ...

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface: ...


@dataclass(frozen=True)
class Repeated:
    """Random points at the same places of every cell of a box: there a solution is one table of
    features times the coefficients of all cells, the same in every slab of time."""

    domain: Box
    tiling: Tiling

    def scatter(self, count: int, draw: np.random.Generator) -> Array:
        return self._in(np.arange(self.tiling.count), count, draw)

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        face, own = self.domain.face(part), self.tiling
        end = own.centres[:, face.axis] + face.sign * own.half_widths[:, face.axis]
        near = np.abs(end - face.position) <= 0.5 * own.half_widths[:, face.axis]
        return self.domain.on(face, self._in(np.flatnonzero(near), count, draw))

    def _in(self, cells: np.ndarray, count: int, draw: np.random.Generator) -> Array:
        each = max(tuning.IN_A_CELL, math.ceil(count / len(cells)))
        z = draw.uniform(-1.0, 1.0, (each, self.domain.dimension))
        own = self.tiling
        return (own.centres[cells, None] + own.half_widths[cells, None] * z).reshape(-1, len(z.T))


def sampler(problem: Problem, basis: AnyBasis) -> Sampler:
    """Of the cheapest points to look at a solution in this basis."""
    domain, own = problem.domain, basis.decomposition
    if isinstance(domain, Box) and isinstance(own, Tiling):
        return Repeated(domain, own)
    return domain


def held_out(
    problem: Problem,
    thorough: bool = False,
    peaked: bool = True,
    share: float = 1.0,
    source: Sampler | None = None,
) -> list[Rows]:
    """Every equation and condition at random points, which no grid contains; measurements where
    they were made. Data are looked at for peaks, `thorough` at four times as many points, unless
    only coefficients matter (not `peaked`). `share` of the points are enough for one of many slabs
    of time, which come from a `source` other than the domain."""
    domain = problem.domain
    source = source or domain
    draw, peaks = np.random.default_rng(SEED), np.random.default_rng(SEED + 1)
    scale = 4 if thorough else 1

    interior = source.scatter(int(share * tuning.INTERIOR), draw)
    rows = []
    for equation in problem.equations:
        part = Rows(equation, problem.within(equation, interior))
        many = partial(_inside, problem, equation, peaks, scale)
        rows.append(_with_peaks(part, many, peaks) if peaked else part)
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            share = float(np.prod(domain.upper - domain.lower)) / len(interior)
            rows.append(Rows(condition, interior, measure=np.full(len(interior), share)))
            continue
        count = int(share * tuning.PER_FACE) * (tuning.NARROW if callable(condition.on) else 1)
        count = max(1, count // _crowd(condition, domain))
        sample = partial(source.scatter_on, count=count, draw=draw, around=domain)
        part = Rows(condition, *condition.places(domain, sample))
        if peaked and not isinstance(condition, PointCondition):
            part = _with_peaks(
                part, partial(_on, problem, condition, source, peaks, scale * share), peaks
            )
        rows.append(part)
    return rows


def _inside(
    problem: Problem, equation: Equation, draw: np.random.Generator, scale: int, count: int
) -> tuple[Array, None]:
    return problem.within(equation, problem.domain.scatter(scale * count, draw)), None


def _crowd(condition: Condition, domain: Domain) -> int:
    """By which factor fewer points are enough on every one of many faces."""
    return max(1, len(condition.faces(domain)) // tuning.FACES)


def _on(
    problem: Problem,
    condition: Condition,
    source: Sampler,
    draw: np.random.Generator,
    scale: float,
    count: int,
) -> tuple[Array, Array]:
    domain = problem.domain
    count = int(scale * count) // (4 * _crowd(condition, domain))
    if isinstance(condition.given, Continued):
        count //= tuning.CONTINUED
    else:
        source = domain
    sample = partial(source.scatter_on, count=count, draw=draw, around=domain)
    return condition.places(domain, sample)


def on_edges(condition: Condition, domain: Domain) -> Array:
    """Where the faces of a box that a condition holds on meet others: the middles of their edges
    and their corners."""
    nothing = np.zeros((0, domain.dimension))
    if not isinstance(domain, Box) or isinstance(condition, PointCondition | IntegralCondition):
        return nothing
    places = _ends(domain)
    ends = [
        (places[:, i] == low) | (places[:, i] == high) if axis not in domain.periodic else False
        for i, (axis, (low, high)) in enumerate(zip(domain.axes, domain.bounds, strict=True))
    ]
    places = places[np.sum(np.broadcast_arrays(*ends), axis=0) > 1]
    faces = [domain.face(name) for name in condition.faces(domain)]
    if not faces:
        return nothing
    on = [places[:, face.axis] == face.position for face in faces]
    found = places[np.any(on, axis=0)]
    return found[condition.chosen(found)] if len(found) else found


def _ends(domain: Box) -> Array:
    """Middles and ends of all axes, combined; in many dimensions random combinations."""
    d = domain.dimension
    if d <= GRIDDED:
        return domain.grid((3,) * d)
    draw = np.random.default_rng(SEED + 4)
    ends = np.stack([domain.lower, domain.upper])[
        draw.integers(0, 2, (tuning.EDGES, d)), np.arange(d)
    ]
    return np.where(draw.random(ends.shape) < 0.5, ends, domain.scatter(len(ends), draw))


def corners(domain: Domain, cells: Decomposition) -> Array:
    """Just inside the corners of cells side by side, of many cells of some."""
    if not isinstance(cells, Tiling):
        return np.zeros((0, domain.dimension))
    chosen = np.random.default_rng(SEED + 3).permutation(cells.count)[: tuning.CORNERED]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=domain.dimension)))
    inner = tuning.BESIDE_CORNERS * signs * cells.half_widths[chosen][:, None]
    x = (cells.centres[chosen][:, None] + inner).reshape(-1, domain.dimension)
    return x[domain.contains(x)]


def where_it_is_peaked(rows: list[Rows], solution: Solution) -> list[Rows]:
    """The same points, and as many again inside where a solution is peaked: a pulse that is narrow
    and travels shows in no data but those it started from."""
    problem, draw = solution.problem, np.random.default_rng(SEED + 2)
    source = sampler(problem, solution.basis)

    def size(x: Array) -> Array:
        each = [solution.apply(problem.unknown(name), x) for name in problem.unknowns]
        return np.sqrt(sum((u / (np.std(u) or 1.0)) ** 2 for u in each))

    def pool(_: int) -> tuple[Array, None]:
        return problem.within(problem.equations[0], source.scatter(SEEN, draw)), None

    first = rows[0] if rows[0].shares is not None else _with_peaks(rows[0], pool, draw, size)
    return [first, *rows[1:]]


TINY = 1e-250
"""Squares that are as good as zero."""

SEEN = 4_096
"""Points at which a solution is looked at for peaks."""


def _with_peaks(
    part: Rows,
    pool: Callable[[int], tuple[Array, Array | None]],
    draw: np.random.Generator,
    size: Callable[[Array], Array] | None = None,
) -> Rows:
    """Rows with as many points again where peaked data are large, and shares that make up for it;
    the data are the statement's own, unless others are given.

    A source too narrow for any of the held-out points would be missed by all solutions alike.
    """
    statement = part.source
    if size is None and not callable(statement.given):
        return part

    def sizes(x: Array, normals: Array | None) -> Array:
        return statement.values(x, normals) if size is None else size(x)

    d = part.points.shape[1]
    x, normals = pool(tuning.POOL.get(d, 3 * tuning.POOL[3] // d))
    squares = sizes(x, normals) ** 2
    total = float(squares.sum())
    if total < TINY or not math.isfinite(total):
        return part
    few = max(1, int(tuning.NARROW_PART * len(x)))
    if float(np.partition(squares, len(x) - few)[-few:].sum()) < tuning.HELD * total:
        return part
    chosen = draw.choice(len(x), len(part.points), p=squares / total)
    points = np.concatenate([part.points, x[chosen]])
    own = np.concatenate([sizes(part.points, part.normals) ** 2, squares[chosen]])
    shares = 1 / (1 + own / squares.mean())
    if part.normals is not None and normals is not None:
        normals = np.concatenate([part.normals, normals[chosen]])
    return Rows(statement, points, normals, shares=shares / shares.sum())
