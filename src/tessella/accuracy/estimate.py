"""How wrong a solution is, without knowing the right one.

Two discretisations of the same problem give one number the exact solution is not needed for: how
far they are apart. That is the error of the worse one. The residual at points neither of them has
seen says how much better the better one is, so

    error(fine)  ~  |u_fine - u_coarse| * residual(fine) / residual(coarse).

Over the gallery (`python -m benchmarks tolerance`) the median is 1.4 times the true error: the
residual falls a little more slowly than the error does. A coarse solution that is no solution at
all makes the estimate far too large, and two solutions that miss the same thing make it too small,
by a factor of three at most there.

The largest error is estimated alike, from the largest distance and the largest residuals. It has
the unit of the mean one, the spread of the solution. Where a value is given, what is missed of it
is the error itself: looked at on edges too, where two faces may ask for different values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.defects import Defect, balanced, defects, in_cells, loss
from tessella.accuracy.held_out import SEED, corners, held_out, on_edges, sampler
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.cell.sizes import operator_sizes
from tessella.machine.arrays import Array
from tessella.overlap.points import Rows
from tessella.problem.conditions import Condition, IntegralCondition
from tessella.problem.determined import value_of
from tessella.problem.fields import part_named
from tessella.problem.problem import Equation
from tessella.problem.slabs import TIME
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
    zero: Array | None = None
    """For every unknown that is nothing but rounding its natural size, for the others 0; None if
    that is not known yet."""

    def beside(self, others: Array) -> Look:
        """The same, with unknowns found to be zero by the values of another solution inside: they
        are as small as rounding, and the two do not agree on them."""
        natural, own = natural_sizes(self), self.spread
        apart = np.average(np.abs(self.inside - others), axis=0, weights=self.rows[0].shares)
        zero = (own <= tuning.NOUGHT * natural) & (apart >= tuning.AGREED * own)
        return self._replace(zero=np.where(zero, natural, 0.0))

    @property
    def zeros(self) -> tuple[str, ...]:
        """Their names."""
        sizes = () if self.zero is None else self.zero.tolist()
        names = self.solution.problem.unknowns
        return tuple(name for name, size in zip(names, sizes, strict=False) if size)

    @property
    def loss(self) -> float:
        """The square root of the solution's own loss at these points."""
        return loss(self.defects, self.solution.report.weights)

    @property
    def spread(self) -> Array:
        """What errors are parts of, for every unknown."""
        u, shares = self.inside, self.rows[0].shares
        span = np.ptp(np.concatenate([u, self.edge]), axis=0)
        mean = np.average(u, axis=0, weights=shares)
        spread = np.sqrt(np.average((u - mean) ** 2, axis=0, weights=shares))
        found = unit(np.maximum(spread, tuning.FLAT * span), np.max(np.abs(u), axis=0))
        return found if self.zero is None else np.maximum(found, self.zero)


def spreads(solution: Solution, zero: Sequence[str] = ()) -> dict[str, float]:
    """What estimated errors of every unknown are parts of, in its units; of those that are nothing
    but rounding (`Judgement.zero`) their natural size."""
    names, rows = solution.problem.unknowns, held_out(solution.problem, peaked=False)
    seen = (look if zero else glance)(solution, rows)
    natural = np.where([name in zero for name in names], natural_sizes(seen), 0.0)
    return dict(zip(names, np.maximum(seen.spread, natural).tolist(), strict=True))


def natural_sizes(seen: Look) -> Array:
    """How large every unknown of a system could be: so large that in some statement it balances the
    data or another unknown. One that is zero has no other size."""
    problem = seen.solution.problem
    found = np.zeros(len(problem.unknowns))
    if len(found) < 2:
        return found
    fields = [problem.unknowns.index(part_named(problem.domain, f).unknown) for f in problem.fields]
    size = np.max(np.abs(seen.inside), axis=0)[fields]
    for part, _, given, _ in seen.defects:
        made = _made_of(seen, part)
        for f in np.flatnonzero(made > 0).tolist():
            others = np.array(fields) != fields[f]
            balance = max(given, float(np.max(made * size * others)))
            found[fields[f]] = max(found[fields[f]], balance / float(made[f]))
    return found


def _made_of(seen: Look, part: Rows) -> Array:
    """What a statement makes of every field of size one and as wide as the domain."""
    problem = seen.solution.problem
    if isinstance(part.source, IntegralCondition):
        return np.zeros(len(problem.fields))
    k = 1 / (problem.domain.upper - problem.domain.lower)
    return operator_sizes(problem, part.source.operator, part.points, part.normals, k)


def look(solution: Solution, rows: Sequence[Rows]) -> Look:
    rows = own_rows(solution, rows)
    inside = solution(rows[0].points).reshape(len(rows[0].points), -1)
    edge = [solution(part.points[: tuning.PER_FACE]) for part in rows[1:]]
    walls = [values.reshape(-1, inside.shape[1]) for values in edge] or [inside]
    return Look(solution, rows, defects(solution, rows), inside, np.concatenate(walls))


def own_rows(solution: Solution, rows: Sequence[Rows]) -> list[Rows]:
    """The same points for the statements of the solution's own problem: a nonlinear one is
    linearised around the solution."""
    own = {statement.name: statement for statement in solution.problem.statements}
    return [dataclasses.replace(p, source=own.get(p.source.name, p.source)) for p in rows]


def glance(solution: Solution, rows: Sequence[Rows]) -> Look:
    """Values inside alone: nothing is judged by them."""
    inside = solution(rows[0].points).reshape(len(rows[0].points), -1)
    return Look(solution, rows, [], inside, inside)


def apart(fine: Look, others: Array) -> float:
    """The mean distance of other values inside, in parts of the spread: the paper's normalised
    L1, of several unknowns the largest."""
    difference = np.average(np.abs(fine.inside - others), axis=0, weights=fine.rows[0].shares)
    return float(np.max(difference / fine.spread))


def farthest(fine: Look, other: Solution, inside: Array, edge: Array | None = None) -> float:
    """The largest distance of another solution with these values inside and on the boundary, in the
    same unit; also at the corners of cells, which nothing but one cell's features reaches."""
    x = corners(fine.solution.problem.domain, fine.solution.basis.decomposition)
    pairs = [(fine.inside, inside), *([] if edge is None else [(fine.edge, edge)])]
    if len(x):
        u, v = (solution(x).reshape(len(x), -1) for solution in (fine.solution, other))
        pairs.append((u, v))
    most = [np.max(np.abs(one - another), axis=0) for one, another in pairs]
    return float(np.max(np.max(most, axis=0) / fine.spread))


def wrong_values(seen: Look) -> float:
    """The most that is missed of a value that a condition asks for, which is the error there, edges
    of its faces included; and half of the largest jump between cells. In parts of the spread."""
    solution, spread = seen.solution, seen.spread
    problem = solution.problem
    jumps = solution.report.jumps or {}
    worst = max((d["max"] / 2 for n, d in jumps.items() if n.startswith("value")), default=0.0)
    worst /= float(np.max(spread))
    for part, *_, most in seen.defects:
        condition = part.source
        field = value_of(condition, problem) if isinstance(condition, Condition) else None
        if field is None:
            continue
        assert isinstance(condition, Condition)
        edges = on_edges(condition, problem.domain)
        if len(edges):
            most = max(most, float(np.max(np.abs(condition.defect(solution, edges)))))
        own = problem.unknowns.index(field) if field in problem.unknowns else 0
        worst = max(worst, most / float(spread[own]))
    return worst


def at_end(seen: Look, other: Solution) -> float:
    """How far two solutions are apart where time ends, in parts of the first one's spread."""
    one, domain = seen.solution, seen.solution.problem.domain
    draw = np.random.default_rng(SEED)
    source = sampler(one.problem, one.basis)
    x = source.scatter_on("tmax", len(seen.inside), draw, domain)[0]
    u, v = (solution(x).reshape(len(x), -1) for solution in (one, other))
    spread = np.maximum(np.std(u, axis=0), np.std(seen.inside, axis=0))
    size = np.max(np.abs(seen.inside), axis=0)
    whole = unit(spread, size) if seen.zero is None else np.maximum(unit(spread, size), seen.zero)
    return float(np.max(np.mean(np.abs(u - v), axis=0) / whole))


class Errors(NamedTuple):
    """Estimates of the mean error, the paper's normalised L1, and of the largest one, both in parts
    of the spread of the solution."""

    mean: float
    largest: float

    def asked(self, norm: str) -> float:
        """The one that a tolerance is asked in."""
        return self.largest if norm == "largest" else self.mean

    def at_least(self, others: Errors) -> Errors:
        return Errors(*map(max, self, others))

    def times(self, factor: float) -> Errors:
        return Errors(self.mean * factor, self.largest * factor)


def largest_error(seen: Look, other: Solution, inside: Array, mean: float) -> float:
    """The largest error where the mean one is known: it sticks out as far as the distance of
    another solution with these values inside does. Where values are asked for, it is known."""
    peak = farthest(seen, other, inside) / max(apart(seen, inside), 1e-300)
    return max(mean * max(peak, 1.0), wrong_values(seen))


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
    """Part of the data that the better one does not meet, if large; and what Newton's method has
    left of it."""
    farthest: float = 0.0
    peaks: tuple[float, float] = (0.0, 0.0)
    """The largest difference, and the residuals of both where they are largest."""
    wrong: float = 0.0
    """The most that the better one misses of a value that is asked for."""
    zero: tuple[str, ...] = ()
    """Unknowns that are nothing but rounding."""
    magnified: bool = False
    """Whether the two are farther apart than what they miss explains."""

    @property
    def gain(self) -> float:
        """By which factor the one is better than the other."""
        own, other = self.seen or (self.residual, self.other_residual)
        return other / max(own, 1e-300)

    @property
    def share(self) -> float:
        """By how much less the better one misses."""
        pairs = [(self.residual, self.other_residual), *([self.seen] if self.seen else ())]
        return max(_ratio(*pair) for pair in pairs)

    @property
    def part(self) -> float:
        """Which part of the difference is the error of the better one."""
        return 1.0 if self.magnified else self.share

    @property
    def error(self) -> float:
        return max(tuning.ROUNDING, self.difference * self.part, self.missed)

    @property
    def errors(self) -> Errors:
        share = max(self.part, _ratio(*self.peaks))
        return Errors(self.error, max(self.error, self.farthest * share, self.wrong))


def _ratio(one: float, other: float) -> float:
    """Of the smaller to the larger."""
    return min(one, other) / max(one, other) if max(one, other) > 0 else 1.0


def own_error(found: Judgement) -> float:
    """The error of the first one, also where that is the worse of the two."""
    share = min(1.0, found.residual / max(found.other_residual, 1e-300))
    part = 1.0 if found.magnified else share
    return max(tuning.ROUNDING, found.difference * part, found.missed)


def judge(solution: Solution, other: Solution, rows: Sequence[Rows] | None = None) -> Judgement:
    """Compare two discretisations at points neither has seen."""
    rows = held_out(solution.problem) if rows is None else rows
    return compare(look(solution, rows), look(other, rows), largest=True)


def compare(one: Look, other: Look, largest: bool = False) -> Judgement:
    """The same for solutions that have been looked at, weighed as in the first one's loss; their
    `errors` only if the largest one is looked for."""
    weights, one = one.solution.report.weights, one.beside(other.inside)
    other = other._replace(zero=one.zero)
    seen = None
    if not all(x.solution.basis.decomposition.equal for x in (one, other)):
        norms = [float(np.linalg.norm(in_cells(x.solution, x.rows))) for x in (one, other)]
        seen = norms[0], norms[1]
    found = Judgement(
        loss(one.defects, weights),
        loss(other.defects, weights),
        apart(one, other.inside),
        seen,
        zero=one.zeros,
    )
    better = one if found.gain > 1 else other
    missed = max(_missed(better), better.solution.report.unfinished)
    found = dataclasses.replace(found, missed=missed, magnified=_magnified(found, one, other))
    if not largest:
        return found
    peaks = [loss([d._replace(missed=d.most) for d in x.defects], weights) for x in (one, other)]
    return dataclasses.replace(
        found,
        farthest=farthest(one, other.solution, other.inside, other.edge),
        peaks=(peaks[0], peaks[1]),
        wrong=wrong_values(better),
    )


def _magnified(found: Judgement, one: Look, other: Look) -> bool:
    """Whether two solutions are farther apart than what they miss explains. In time errors grow on
    their way, so that this would say nothing."""
    problem = one.solution.problem
    if TIME in problem.domain.axes:
        return False
    if found.seen:
        volume = math.sqrt(float(np.prod(problem.domain.upper - problem.domain.lower)))
        errors = max(found.seen) / volume / float(np.min(one.spread))
    else:
        errors = max(explained(one), explained(other))
    return found.difference > tuning.MAGNIFIED * errors


def explained(seen: Look) -> float:
    """About how wrong a solution is by what it misses, in parts of its spread, if the problem does
    not magnify that: in units of what operators make of a function as fine as cells resolve."""
    problem, tiling = seen.solution.problem, seen.solution.basis.decomposition
    if not isinstance(tiling, Tiling):
        return math.inf
    columns, squares = seen.solution.basis.levels[0].features.columns, 0.0
    k = columns ** (1 / problem.domain.dimension) / (2 * tiling.half_widths.mean(axis=0))
    for part, missed, *_ in seen.defects:
        if not isinstance(part.source, IntegralCondition):
            at = part.points, part.normals
            size = float(operator_sizes(problem, part.source.operator, *at, k).max())
            squares += (missed / size) ** 2 if size > 0 else 0.0
    return math.sqrt(squares) / float(np.min(seen.spread))


def _missed(look: Look) -> float:
    """The largest part of significant data that a solution does not meet; 0 if that is little."""
    problem, worst = look.solution.problem, 0.0
    large = float(np.max(np.abs(look.inside)))
    k = 1 / (problem.domain.upper - problem.domain.lower)
    for part, missed, given, _ in look.defects:
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


def unmet(look: Look) -> tuple[float, str]:
    """The largest part of a statement that a solution does not meet, and which one: of what is
    given or cancels in an equation, of what is given or made of the solution in a condition or
    where cells meet."""
    solution, found = look.solution, [(0.0, "")]
    problem, large = solution.problem, float(np.max(np.abs(look.inside)))
    k, nothing = 1 / (problem.domain.upper - problem.domain.lower), _rounding(look)
    for part, missed, given, _ in look.defects:
        source = part.source
        if isinstance(source, IntegralCondition) or missed <= nothing[source.name]:
            continue
        if isinstance(source, Equation):
            size = max(given, balanced(solution, part))
        else:
            made = operator_sizes(problem, source.operator, part.points, part.normals, k).max()
            size = max(given, float(made) * large)
        found.append((missed / size if size > 0 else 0.0, source.name))
    for name, jump in (solution.report.jumps or {}).items():
        size = large * (float(k.max()) if name.startswith("normal") else 1.0)
        found.append((jump["rms"] / size if size > 0 else 0.0, f"{name} across faces"))
    return max(found)


def _rounding(look: Look) -> dict[str, float]:
    """What may be missed of every statement of a system without meaning anything."""
    problem = look.solution.problem
    natural = dict(zip(problem.unknowns, natural_sizes(look).tolist(), strict=True))
    size = np.array([natural[part_named(problem.domain, f).unknown] for f in problem.fields])
    return {
        part.source.name: tuning.NOUGHT * float(np.max(_made_of(look, part) * size))
        for part, *_ in look.defects
    }


def disagreement(error: dict[str, float] | None, estimate: float | None) -> str:
    """A remark where the exact solution that was given and the estimate cannot both be right."""
    true = 0.0 if error is None else error["l1_normalised"]
    if estimate is None or true <= tuning.DOUBT * max(estimate, 1e-12):
        return ""
    return (
        f"the exact solution given differs from this one {true / max(estimate, 1e-12):.2g} times "
        f"more than estimated: check it, and whether a condition is missing"
    )
