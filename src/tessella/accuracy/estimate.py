"""How wrong a solution is, without knowing the right one.

Two discretisations of the same problem give one number the exact solution is not needed for: how
far they are apart. That is the error of the worse one. The residual at points neither of them has
seen says how much better the better one is, so

    error(fine)  ~  |u_fine - u_coarse| * residual(fine) / residual(coarse).

Over the gallery (`python -m benchmarks tolerance`) the median is 1.4 times the true error: the
residual falls a little more slowly than the error does. A coarse solution that is no solution at
all makes the estimate far too large, and two solutions that miss the same thing make it too small,
by a factor of three at most there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from tessella.accuracy.marking import errors
from tessella.cells.rows import operator_sizes
from tessella.geometry.functions import Function, function_values
from tessella.machine.arrays import Array
from tessella.overlap.points import Rows
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.problem import Equation, Problem
from tessella.solution.solution import Solution

INTERIOR, PER_FACE = 1_024, 256
"""Held-out points inside, and on each part of a condition."""

NARROW = 8
"""So many times more on the boundary if a function chooses among them."""

ROUNDING = 1e-14
"""No estimate is smaller."""

SEED = 20_011
"""Of the held-out points; no system's points are random, so none of them coincide."""


def disagreement(error: dict[str, float] | None, estimate: float | None) -> str:
    """A remark where the exact solution that was given and the estimate cannot both be right."""
    true = 0.0 if error is None else error["l1_normalised"]
    if estimate is None or true <= DOUBT * max(estimate, 1e-12):
        return ""
    return (
        f"the exact solution given differs from this one {true / max(estimate, 1e-12):.2g} times "
        f"more than estimated: check it, and whether a condition is missing"
    )


DOUBT = 100.0
"""Ratio of true and estimated error from which one of them is doubted."""


def held_out(problem: Problem, thorough: bool = False, peaked: bool = True) -> list[Rows]:
    """Every equation and condition at random points, which no grid contains; measurements where
    they were made. Data are looked at for peaks, `thorough` at four times as many points, unless
    only coefficients matter (not `peaked`)."""
    domain = problem.domain
    draw, peaks = np.random.default_rng(SEED), np.random.default_rng(SEED + 1)
    scale = 4 if thorough else 1

    interior = domain.scatter(INTERIOR, draw)
    rows = []
    for equation in problem.equations:
        part = Rows(equation, problem.within(equation, interior))
        many = partial(_inside, problem, equation, peaks, scale)
        rows.append(_with_peaks(part, equation.rhs, many, peaks) if peaked else part)
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            share = float(np.prod(domain.upper - domain.lower)) / INTERIOR
            rows.append(Rows(condition, interior, measure=np.full(INTERIOR, share)))
            continue
        count = PER_FACE * (NARROW if callable(condition.on) else 1)
        sample = partial(domain.scatter_on, count=count, draw=draw, around=domain)
        part = Rows(condition, *condition.places(domain, sample))
        if peaked and not isinstance(condition, PointCondition):
            there = partial(_on, problem, condition, peaks, scale)
            part = _with_peaks(part, condition.value, there, peaks)
        rows.append(part)
    return rows


def _inside(
    problem: Problem, equation: Equation, draw: np.random.Generator, scale: int, count: int
) -> tuple[Array, None]:
    return problem.within(equation, problem.domain.scatter(scale * count, draw)), None


def _on(
    problem: Problem, condition: Condition, draw: np.random.Generator, scale: int, count: int
) -> tuple[Array, Array]:
    domain = problem.domain
    sample = partial(domain.scatter_on, count=scale * count // 4, draw=draw, around=domain)
    return condition.places(domain, sample)


POOL = {1: 1 << 15, 2: 1 << 16}
"""Points at which data are looked at for peaks, by dimension."""

HELD, NARROW_PART = 0.9, 0.02
"""Data are peaked if so much of their square is held by so small a part of the points."""


def _with_peaks(
    part: Rows,
    given: Function | float,
    pool: Callable[[int], tuple[Array, Array | None]],
    draw: np.random.Generator,
) -> Rows:
    """Rows with as many points again where peaked data are large, and shares that make up for it.

    A source too narrow for any of the held-out points would be missed by all solutions alike.
    """
    if not callable(given):
        return part
    n, name = len(part.points), f"{part.source.name} value"
    x, normals = pool(POOL.get(part.points.shape[1], 1 << 17))
    squares = function_values(given, x, name) ** 2
    total = float(squares.sum())
    if total == 0 or not math.isfinite(total):
        return part
    few = max(1, int(NARROW_PART * len(x)))
    if float(np.partition(squares, len(x) - few)[-few:].sum()) < HELD * total:
        return part
    chosen = draw.choice(len(x), n, p=squares / total)
    points = np.concatenate([part.points, x[chosen]])
    own = np.concatenate([function_values(given, part.points, name) ** 2, squares[chosen]])
    shares = 1 / (1 + own / squares.mean())
    if part.normals is not None and normals is not None:
        normals = np.concatenate([part.normals, normals[chosen]])
    return Rows(part.source, points, normals, shares=shares / shares.sum())


def residual(solution: Solution, rows: Sequence[Rows], weights: Mapping[str, float]) -> float:
    """The square root of the paper's loss at these points; integrals are those of the solution."""
    return _loss(_defects(solution, rows), weights)


class Defect(NamedTuple):
    """Of an equation or condition: root mean squares of what is missed and of what is given."""

    rows: Rows
    missed: float
    given: float


def _defects(solution: Solution, rows: Sequence[Rows]) -> list[Defect]:
    found = []
    for part in rows:
        source = part.source
        if isinstance(source, IntegralCondition):
            missed = abs(solution.integral(source.operator) - source.number)
            found.append(Defect(part, missed, abs(source.number)))
            continue
        value = source.value if isinstance(source, Condition) else source.rhs
        given = function_values(value, part.points, f"{source.name} value")
        defect = solution.apply(source.operator, part.points, part.normals) - given
        found.append(Defect(part, *(math.sqrt(part.mean(v**2)) for v in (defect, given))))
    return found


def _loss(defects: Sequence[Defect], weights: Mapping[str, float]) -> float:
    squares = (weights[d.rows.source.name] * d.missed**2 for d in defects)
    return math.sqrt(math.fsum(squares))


def loss(seen: Look) -> float:
    """The square root of a solution's own loss at these points."""
    return _loss(seen.defects, seen.solution.report.weights)


MISSED, SIGNIFICANT = 0.3, 1e-3
"""A solution that misses this part of some data is none, unless they are smaller than this part of
what the operator makes of a function as large as the solution and as wide as the domain."""


def _missed(look: Look) -> float:
    """The largest part of significant data that a solution does not meet; 0 if that is little."""
    problem, worst = look.solution.problem, 0.0
    large = float(np.max(np.abs(look.inside)))
    k = 1 / (problem.domain.upper - problem.domain.lower)
    for part, missed, given in look.defects:
        if isinstance(part.source, IntegralCondition) or given == 0:
            continue
        if missed <= MISSED * given:
            continue
        made = operator_sizes(problem, part.source.operator, part.points, part.normals, k).max()
        if given > SIGNIFICANT * float(made) * large:
            worst = max(worst, missed / given)
    return worst


FLAT = 0.01
"""Least spread inside, in parts of the range of a solution up to its boundary: thin layers may be
all there is to it, and random points seldom meet them."""


def distance(fine: Solution, coarse: Solution, rows: Sequence[Rows]) -> float:
    """Mean difference inside over the spread of the fine solution: the paper's normalised L1; of
    several unknowns the largest."""
    return _apart(look(fine, rows), look(coarse, rows))


class Look(NamedTuple):
    """A solution at points it has not seen: what it misses, and its values inside and on the
    boundary, a column for every unknown."""

    solution: Solution
    rows: Sequence[Rows]
    defects: list[Defect]
    inside: Array
    edge: Array


def look(solution: Solution, rows: Sequence[Rows]) -> Look:
    inside = rows[0].points
    edge = np.concatenate([part.points[:PER_FACE] for part in rows])
    values = solution(np.concatenate([inside, edge]))
    values = values.reshape(len(inside) + len(edge), -1)
    defects = _defects(solution, rows)
    return Look(solution, rows, defects, values[: len(inside)], values[len(inside) :])


def _apart(fine: Look, coarse: Look) -> float:
    u, shares = fine.inside, fine.rows[0].shares
    difference = np.average(np.abs(u - coarse.inside), axis=0, weights=shares)
    span = np.ptp(np.concatenate([u, fine.edge]), axis=0)
    mean = np.average(u, axis=0, weights=shares)
    spread = np.sqrt(np.average((u - mean) ** 2, axis=0, weights=shares))
    spread = np.maximum(spread, FLAT * span)
    spread = np.where(spread > 0, spread, np.max(np.abs(u), axis=0))
    return float(np.max(difference / np.where(spread > 0, spread, 1.0)))


@dataclass(frozen=True)
class Judgement:
    """Two solutions of one problem judged by each other; `error` is that of the better one."""

    residual: float
    other_residual: float
    difference: float
    seen: tuple[float, float] | None = None
    """What the subdomains of both see of their errors, where these are not all of one size. Then
    most of the residual comes from the smallest ones, and most of the error may not."""
    missed: float = 0.0
    """Part of the data that the better one does not meet, if large."""

    @property
    def gain(self) -> float:
        """By which factor the one is better than the other."""
        own, other = self.seen or (self.residual, self.other_residual)
        return other / max(own, 1e-300)

    @property
    def error(self) -> float:
        pairs = [(self.residual, self.other_residual), *([self.seen] if self.seen else ())]
        share = max(min(pair) / max(pair) if max(pair) > 0 else 1.0 for pair in pairs)
        return max(ROUNDING, self.difference * share, self.missed)


def judge(solution: Solution, other: Solution, rows: Sequence[Rows] | None = None) -> Judgement:
    """Compare two discretisations at points neither has seen."""
    rows = held_out(solution.problem) if rows is None else rows
    return compare(look(solution, rows), look(other, rows))


def compare(one: Look, other: Look) -> Judgement:
    """The same for solutions that have been looked at, weighed as in the first one's loss."""
    weights = one.solution.report.weights
    seen = None
    if not all(x.solution.basis.decomposition.equal for x in (one, other)):
        norms = [float(np.linalg.norm(errors(x.solution, x.rows))) for x in (one, other)]
        seen = norms[0], norms[1]
    found = Judgement(
        _loss(one.defects, weights), _loss(other.defects, weights), _apart(one, other), seen
    )
    return dataclasses.replace(found, missed=_missed(one if found.gain > 1 else other))
