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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.defects import Defect, balanced, defects, in_cells, loss
from tessella.accuracy.held_out import SEED, held_out, sampler
from tessella.cells.rows import operator_sizes
from tessella.machine.arrays import Array
from tessella.overlap.points import Rows
from tessella.problem.conditions import IntegralCondition
from tessella.problem.problem import Equation
from tessella.solution.report import unit
from tessella.solution.solution import Solution


class Look(NamedTuple):
    """A solution at points it has not seen: what it misses, and its values inside and on the
    boundary, a column for every unknown."""

    solution: Solution
    rows: Sequence[Rows]
    defects: list[Defect]
    inside: Array
    edge: Array

    @property
    def loss(self) -> float:
        """The square root of the solution's own loss at these points."""
        return loss(self.defects, self.solution.report.weights)

    @property
    def share(self) -> float:
        """Which part of all data is missed, weighed alike."""
        weights = self.solution.report.weights
        given = loss([d._replace(missed=d.given) for d in self.defects], weights)
        return self.loss / given if given > 0 else 0.0


def look(solution: Solution, rows: Sequence[Rows]) -> Look:
    inside = solution(rows[0].points).reshape(len(rows[0].points), -1)
    edge = [solution(part.points[: tuning.PER_FACE]) for part in rows[1:]]
    walls = [values.reshape(-1, inside.shape[1]) for values in edge] or [inside]
    return Look(solution, rows, defects(solution, rows), inside, np.concatenate(walls))


def apart(fine: Look, others: Array) -> float:
    """The mean distance of other values inside, in parts of the spread: the paper's normalised
    L1, of several unknowns the largest."""
    u, shares = fine.inside, fine.rows[0].shares
    difference = np.average(np.abs(u - others), axis=0, weights=shares)
    span = np.ptp(np.concatenate([u, fine.edge]), axis=0)
    mean = np.average(u, axis=0, weights=shares)
    spread = np.sqrt(np.average((u - mean) ** 2, axis=0, weights=shares))
    spread = np.maximum(spread, tuning.FLAT * span)
    return float(np.max(difference / unit(spread, np.max(np.abs(u), axis=0))))


def at_end(seen: Look, other: Solution) -> float:
    """How far two solutions are apart where time ends, in parts of the first one's spread."""
    one, domain = seen.solution, seen.solution.problem.domain
    draw = np.random.default_rng(SEED)
    source = sampler(one.problem, one.basis)
    x = source.scatter_on("tmax", len(seen.inside), draw, domain)[0]
    u, v = (solution(x).reshape(len(x), -1) for solution in (one, other))
    spread = np.maximum(np.std(u, axis=0), np.std(seen.inside, axis=0))
    size = np.max(np.abs(seen.inside), axis=0)
    return float(np.max(np.mean(np.abs(u - v), axis=0) / unit(spread, size)))


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
        return max(tuning.ROUNDING, self.difference * share, self.missed)


def own_error(found: Judgement) -> float:
    """The error of the first one, also where that is the worse of the two."""
    share = min(1.0, found.residual / max(found.other_residual, 1e-300))
    return max(tuning.ROUNDING, found.difference * share, found.missed)


def judge(solution: Solution, other: Solution, rows: Sequence[Rows] | None = None) -> Judgement:
    """Compare two discretisations at points neither has seen."""
    rows = held_out(solution.problem) if rows is None else rows
    return compare(look(solution, rows), look(other, rows))


def compare(one: Look, other: Look) -> Judgement:
    """The same for solutions that have been looked at, weighed as in the first one's loss."""
    weights = one.solution.report.weights
    seen = None
    if not all(x.solution.basis.decomposition.equal for x in (one, other)):
        norms = [float(np.linalg.norm(in_cells(x.solution, x.rows))) for x in (one, other)]
        seen = norms[0], norms[1]
    found = Judgement(
        loss(one.defects, weights), loss(other.defects, weights), apart(one, other.inside), seen
    )
    return dataclasses.replace(found, missed=_missed(one if found.gain > 1 else other))


def _missed(look: Look) -> float:
    """The largest part of significant data that a solution does not meet; 0 if that is little."""
    problem, worst = look.solution.problem, 0.0
    large = float(np.max(np.abs(look.inside)))
    k = 1 / (problem.domain.upper - problem.domain.lower)
    for part, missed, given in look.defects:
        if isinstance(part.source, IntegralCondition):
            continue
        terms = part.source.operator.expand(problem.domain.axes)
        if given == 0 and not any(any(term.orders) for term in terms):
            given = large
        if given == 0 and isinstance(part.source, Equation) and missed > 0:
            given = balanced(look.solution, part)
        if given == 0:
            continue
        if missed <= tuning.MISSED * given:
            continue
        made = operator_sizes(problem, part.source.operator, part.points, part.normals, k).max()
        if given > tuning.SIGNIFICANT * float(made) * large:
            worst = max(worst, missed / given)
    return worst


def disagreement(error: dict[str, float] | None, estimate: float | None) -> str:
    """A remark where the exact solution that was given and the estimate cannot both be right."""
    true = 0.0 if error is None else error["l1_normalised"]
    if estimate is None or true <= tuning.DOUBT * max(estimate, 1e-12):
        return ""
    return (
        f"the exact solution given differs from this one {true / max(estimate, 1e-12):.2g} times "
        f"more than estimated: check it, and whether a condition is missing"
    )
