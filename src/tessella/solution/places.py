"""Where and how much: integrals over parts of the boundary, largest and smallest values, and what
is missed of single statements."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tessella.cells.cut.patches import boundary_rule
from tessella.geometry.box import Box
from tessella.geometry.domain import PROBE, Domain, join
from tessella.machine.arrays import Array
from tessella.overlap.quadrature import edges_along
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.nonlinear import classified, is_linear
from tessella.problem.operators import D, Operator
from tessella.problem.problem import Equation
from tessella.problem.statement import Statement

if TYPE_CHECKING:
    from tessella.solution.solution import Solution

POINTS, MORE = 8, 5
"""Gauss points per panel of one rule, and how many more the other has."""

AGREED, DOUBTED = 1e-9, 1e-6
"""Parts of the integral of the absolute value up to which two rules agree, and beyond which their
difference is worth a warning."""

DOUBLED = {1: 0, 2: 5, 3: 2}
"""How often panels are halved until they do, by the dimension."""


def over_boundary(solution: Solution, operator: Operator, on: str | Sequence[str]) -> float:
    """The integral of an operator applied to the solution over parts of the boundary; by two Gauss
    rules, finer and finer until they agree."""
    domain = solution.problem.domain
    names = (on,) if isinstance(on, str) else tuple(on)
    panels = 1 + round(solution.basis.decomposition.count ** (1 / domain.dimension))
    edges = [edges_along(solution.basis, axis)[1:-1] for axis in range(domain.dimension)]

    def integral(count: int) -> tuple[float, float]:
        total, size = 0.0, 0.0
        for name in names:
            points, normals, weights = boundary_rule(domain, name, panels, count, edges)
            values = weights * solution.apply(operator, points, normals)
            total, size = total + float(values.sum()), size + float(np.abs(values).sum())
        return total, size

    for _ in range(1 + DOUBLED.get(domain.dimension, 0)):
        (one, _), (other, size) = integral(POINTS), integral(POINTS + MORE)
        if abs(one - other) <= AGREED * size:
            break
        panels *= 2
    if abs(one - other) > DOUBTED * size:
        warnings.warn(
            f"the integral over {', '.join(map(repr, names))} is {other:.6g}, but another rule "
            f"differs by {abs(one - other):.1e}: what is integrated may be singular there",
            stacklevel=3,
        )
    return other


# --- extrema


class Extremum(NamedTuple):
    """The largest or smallest value, and the point (d,) where it is taken."""

    value: float
    at: Array


MOST, FINE = 200_000, 1.5
"""Points that are looked at first, at most, and along an axis of a subdomain in parts of its
features along it."""

STARTS, WORTH = 10, 0.3
"""So many of the best of these points, apart from each other, are looked around; those that are not
worse by more than this part of all differences."""

FIRST, ROUNDS, CLOSE, AROUND = 8, 60, 1e-12, 5
"""Looks around each of them, and at most around the best, until closer than this part of the
domain; points per axis."""

NEWTON, NEAR_BY, NOISE = 8, 1e-4, 1e-9
"""Steps to where the gradient vanishes, how far away that may be, in parts of the domain, and how
much less the value may be there: the best of many values has the largest rounding error too."""


def extremum(solution: Solution, operator: Operator, sign: float) -> Extremum:
    """Of `sign` times an operator applied to the solution the largest value: at many points, around
    the best of them closer and closer, and where the gradient vanishes inside by Newton's method
    with the solution's own derivatives."""
    domain = solution.problem.domain

    def values(x: Array) -> Array:
        return sign * solution.apply(operator, x)

    x, width = _everywhere(solution)
    u = values(x)
    starts: list[int] = []
    for i in np.argsort(-u).tolist():
        if len(starts) == STARTS or u[i] < u.max() - WORTH * np.ptp(u):
            break
        if all(np.any(np.abs(x[i] - x[j]) > 3 * width[i]) for j in starts):
            starts.append(i)
    found = [_closer(domain, values, Found(float(u[i]), x[i], width[i]), FIRST) for i in starts]
    best = max(found, key=lambda own: own.value)
    best = _closer(domain, values, best, ROUNDS)
    if is_linear(classified(operator, domain)):
        best = _newton(solution, operator, sign, best)
    return Extremum(sign * best.value, best.at)


class Found(NamedTuple):
    """A value, where it is taken, and how far around nothing is known."""

    value: float
    at: Array
    width: Array


def _everywhere(solution: Solution) -> tuple[Array, Array]:
    """Points in all subdomains and on the walls of a shape, and how far apart they are."""
    domain, cells = solution.problem.domain, solution.basis.decomposition
    d, columns = domain.dimension, max(own.features.columns for own in solution.basis.levels)
    most = int((MOST / cells.count) ** (1 / d))
    n = max(3, min(math.ceil(FINE * columns ** (1 / d)), most))
    ticks = np.linspace(-1.0, 1.0, n)
    z = np.stack(np.meshgrid(*[ticks] * d, indexing="ij"), axis=-1).reshape(-1, d)
    x = (cells.centres[:, None] + cells.half_widths[:, None] * z).reshape(-1, d)
    width = np.repeat(2 * cells.half_widths / (n - 1), len(z), axis=0)
    x = np.clip(x, domain.lower, domain.upper)
    inside = domain.contains(x)
    x, width = x[inside], width[inside]
    if not isinstance(domain, Box):
        counts = tuple(((domain.upper - domain.lower) / width.min(axis=0)).astype(int) + 2)
        walls = np.concatenate([domain.boundary(part, counts)[0] for part in domain.walls])
        x = np.concatenate([x, walls])
        width = np.concatenate([width, np.tile(width.min(axis=0), (len(walls), 1))])
    return x, width


def _closer(domain: Domain, values: Callable[[Array], Array], best: Found, rounds: int) -> Found:
    """The best point of a box around the last one, which shrinks unless it is left."""
    value, at, width = best
    ticks = np.linspace(-1.0, 1.0, AROUND)
    around = np.stack(np.meshgrid(*[ticks] * len(at), indexing="ij"), axis=-1).reshape(-1, len(at))
    for _ in range(rounds):
        x = domain.wrapped(at + around * width)
        if isinstance(domain, Box):
            x = np.clip(x, domain.lower, domain.upper)
        x = x[domain.contains(x)]
        u = values(x) if len(x) else np.zeros(0)
        better = len(u) > 0 and u.max() > value
        moved = better and bool(np.any(np.abs(x[u.argmax()] - at) > 0.9 * width))
        if better:
            value, at = float(u.max()), x[u.argmax()]
        width = width if moved else width / 2
        if np.all(width < CLOSE * (domain.upper - domain.lower)):
            break
    return Found(value, at, width)


def _newton(solution: Solution, operator: Operator, sign: float, best: Found) -> Found:
    """Where the gradient vanishes, if that is near, inside, and no worse but for rounding."""
    domain = solution.problem.domain
    slopes = [D(**{axis: 1}) @ operator for axis in domain.axes]
    x, near = best.at, NEAR_BY * (domain.upper - domain.lower)
    for _ in range(NEWTON):
        g = np.array([solution.apply(own, x[None])[0] for own in slopes])
        H = np.array(
            [[solution.apply(D(**{a: 1}) @ own, x[None])[0] for a in domain.axes] for own in slopes]
        )
        step = np.linalg.lstsq(H, -g, rcond=1e-12)[0]
        if np.any(np.abs(x + step - best.at) > near) or not domain.contains((x + step)[None])[0]:
            return best
        x = x + step
        if np.all(np.abs(step) <= CLOSE * (domain.upper - domain.lower)):
            break
    found = sign * float(solution.apply(operator, x[None])[0])
    worse = found < best.value - NOISE * abs(best.value)
    return best if worse else best._replace(value=found, at=x)


# --- what is missed of single statements


def missed_on(solution: Solution, on: str, points: ArrayLike | None) -> Array:
    """Left side minus right side of a statement, or of all conditions on a part of the boundary, a
    column for each."""
    problem = solution.problem
    chosen: list[Statement] = [own for own in problem.statements if own.name == on]
    part = None
    if not chosen and on in problem.domain.parts:
        part = on
        chosen = [
            own for own in problem.conditions
            if not isinstance(own, PointCondition | IntegralCondition)
            and on in own.faces(problem.domain)
        ]  # fmt: skip
    if not chosen:
        names = (*(own.name for own in problem.statements), *problem.domain.parts)
        raise ValueError(
            f"residual() on={on!r} is no statement and no part of the boundary with a condition: "
            f"there are {', '.join(dict.fromkeys(names))}"
        )
    x = None if points is None else problem.domain.points(points)
    found = [_missed(solution, own, part, x) for own in chosen]
    return found[0] if len(found) == 1 else np.column_stack(found)


SAMPLED = {1: 1, 2: 100, 3: 24}
"""Places per axis at which a statement is looked at."""


def _missed(solution: Solution, own: Statement, part: str | None, points: Array | None) -> Array:
    domain = solution.problem.domain
    counts = (SAMPLED.get(domain.dimension, 8),) * domain.dimension
    if isinstance(own, IntegralCondition):
        return np.array([solution.integral(own.operator) - own.number])
    if isinstance(own, PointCondition):
        return own.defect(solution, own.points)
    if isinstance(own, Equation):
        x = domain.interior(counts) if points is None else points
        here, found = own.holds(domain, x), np.full(len(x), np.nan)
        found[here] = own.defect(solution, x[here])
        return found
    assert isinstance(own, Condition)
    if points is None:
        names = own.faces(domain) if part is None else (part,)
        x, normals = join((domain.boundary(name, counts) for name in names), domain.dimension)
        here = own.chosen(x)
        return own.defect(solution, x[here], normals[here])
    return own.defect(solution, points, outward(domain, points))


def outward(domain: Domain, points: Array) -> Array:
    """Normals at points of a boundary: where the distance to it grows fastest."""
    step = PROBE * domain.diameter * np.eye(domain.dimension)
    slope = np.column_stack(
        [domain.signed_distance(points + h) - domain.signed_distance(points - h) for h in step]
    )
    return slope / np.maximum(np.linalg.norm(slope, axis=1), 1e-300)[:, None]
