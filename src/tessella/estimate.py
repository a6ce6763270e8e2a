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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tessella.collocation import Rows
from tessella.conditions import Condition, IntegralCondition
from tessella.marking import errors
from tessella.operators import function_values
from tessella.problem import Problem
from tessella.solution import Solution

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


def held_out(problem: Problem) -> list[Rows]:
    """Every equation and condition at random points, which no grid contains; measurements where
    they were made."""
    domain = problem.domain
    draw = np.random.default_rng(SEED)

    interior = domain.scatter(INTERIOR, draw)
    rows = [Rows(e, problem.within(e, interior)) for e in problem.equations]
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            share = float(np.prod(domain.upper - domain.lower)) / INTERIOR
            rows.append(Rows(condition, interior, measure=np.full(INTERIOR, share)))
            continue
        count = PER_FACE * (NARROW if callable(condition.on) else 1)
        sample = partial(domain.scatter_on, count=count, draw=draw, around=domain)
        rows.append(Rows(condition, *condition.places(domain, sample)))
    return rows


def residual(solution: Solution, rows: Sequence[Rows], weights: Mapping[str, float]) -> float:
    """The square root of the paper's loss at these points; integrals are those of the solution."""
    loss = 0.0
    for part in rows:
        source, name = part.source, part.source.name
        if isinstance(source, IntegralCondition):
            loss += weights[name] * (solution.integral(source.operator) - source.number) ** 2
            continue
        given = source.value if isinstance(source, Condition) else source.rhs
        defect = solution.apply(source.operator, part.points, part.normals) - function_values(
            given, part.points, f"{name} value"
        )
        loss += weights[name] * float(np.mean(defect**2))
    return float(np.sqrt(loss))


FLAT = 0.01
"""Least spread inside, in parts of the range of a solution up to its boundary: thin layers may be
all there is to it, and random points seldom meet them."""


def distance(fine: Solution, coarse: Solution, rows: Sequence[Rows]) -> float:
    """Mean difference inside over the spread of the fine solution: the paper's normalised L1; of
    several unknowns the largest."""
    inside = rows[0].points
    u = fine(inside).reshape(len(inside), -1)
    difference = np.abs(u - coarse(inside).reshape(u.shape)).mean(axis=0)
    edge = np.concatenate([part.points[:PER_FACE] for part in rows])
    span = np.ptp(np.concatenate([u, fine(edge).reshape(len(edge), -1)]), axis=0)
    spread = np.maximum(np.std(u, axis=0), FLAT * span)
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

    @property
    def gain(self) -> float:
        """By which factor the one is better than the other."""
        own, other = self.seen or (self.residual, self.other_residual)
        return other / max(own, 1e-300)

    @property
    def error(self) -> float:
        pairs = [(self.residual, self.other_residual), *([self.seen] if self.seen else ())]
        share = max(min(pair) / max(pair) if max(pair) > 0 else 1.0 for pair in pairs)
        return max(ROUNDING, self.difference * share)


def judge(solution: Solution, other: Solution, rows: Sequence[Rows] | None = None) -> Judgement:
    """Compare two discretisations at points neither has seen."""
    rows = held_out(solution.problem) if rows is None else rows
    weights = solution.report.weights
    tilings = (solution.basis.decomposition, other.basis.decomposition)
    seen = None
    if not all(tiling.equal for tiling in tilings):
        norms = [float(np.linalg.norm(errors(one))) for one in (solution, other)]
        seen = norms[0], norms[1]
    return Judgement(
        residual(solution, rows, weights),
        residual(other, rows, weights),
        distance(solution, other, rows),
        seen,
    )
