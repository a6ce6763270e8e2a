"""Where and how much: integrals over parts of the boundary, largest and smallest values, and what
is missed of single statements."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tessella.cells.patches import boundary_rule
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


MOST, PER_CELL = 200_000, 6
"""Points that are looked at first: so many in each subdomain along every axis, and in all."""

STARTS = 6
"""Best of these points, apart from each other, around which is looked closer."""

ROUNDS, CLOSE, AROUND = 60, 1e-12, 5
"""Looks around each at most, until closer than this part of the domain; points per axis."""

NEWTON = 8
"""Steps to where the gradient vanishes."""


def extremum(solution: Solution, operator: Operator, sign: float) -> Extremum:
    """Of `sign` times an operator applied to the solution the largest value: at many points, around
    the best of them closer and closer, and where the gradient vanishes inside by Newton's method
    with the solution's own derivatives."""
    domain = solution.problem.domain

    def values(x: Array) -> Array:
        return sign * solution.apply(operator, x)

    width = (domain.upper - domain.lower) / np.array(_counts(solution))
    x = domain.closure(_counts(solution))
    u = values(x)
    starts: list[int] = []
    for i in np.argsort(-u)[:MOST]:
        if len(starts) == STARTS or u[i] < u.max() - 0.1 * np.ptp(u):
            break
        if all(np.any(np.abs(x[i] - x[j]) > 3 * width) for j in starts):
            starts.append(int(i))
    found = [_closer(domain, values, x[i], float(u[i]), width) for i in starts]
    value, at = max(found, key=lambda own: own[0])
    if is_linear(classified(operator, domain)):
        value, at = _newton(solution, operator, sign, value, at, width)
    return Extremum(sign * value, at)


def _counts(solution: Solution) -> tuple[int, ...]:
    domain, cells = solution.problem.domain, solution.basis.decomposition
    each = (domain.upper - domain.lower) / (2 * cells.half_widths.min(axis=0))
    counts = np.maximum(PER_CELL * each, 40 if domain.dimension < 3 else 12)
    counts *= min(1.0, MOST / float(np.prod(counts))) ** (1 / domain.dimension)
    return tuple(int(n) + 1 for n in counts)


def _closer(
    domain: Domain, values: Callable[[Array], Array], at: Array, value: float, width: Array
) -> tuple[float, Array]:
    """The best point of a box around the last one, which shrinks unless it is left."""
    ticks = np.linspace(-1.0, 1.0, AROUND)
    around = np.stack(np.meshgrid(*[ticks] * len(at), indexing="ij"), axis=-1).reshape(-1, len(at))
    for _ in range(ROUNDS):
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
    return value, at


def _newton(
    solution: Solution, operator: Operator, sign: float, value: float, at: Array, width: Array
) -> tuple[float, Array]:
    """Where the gradient vanishes, if that is near, inside, and no worse than rounding."""
    domain = solution.problem.domain
    slopes = [D(**{axis: 1}) @ operator for axis in domain.axes]
    x, h = at, 1e-2 * width
    for _ in range(NEWTON):
        g = np.array([solution.apply(own, x[None])[0] for own in slopes])
        H = np.array(
            [[solution.apply(D(**{a: 1}) @ own, x[None])[0] for a in domain.axes] for own in slopes]
        )
        step = np.linalg.lstsq(H, -g, rcond=1e-12)[0]
        if not np.all(np.abs(x + step - at) <= h) or not domain.contains((x + step)[None]).all():
            return value, at
        x = x + step
        if np.all(np.abs(step) <= CLOSE * (domain.upper - domain.lower)):
            break
    found = sign * float(solution.apply(operator, x[None])[0])
    return (found, x) if found >= value - 1e-13 * abs(value) else (value, at)


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
        return own.defect(solution, x[own.holds(domain, x)])
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
