"""The energy of a wave, which neither a step in time nor a wall at rest should change.

Of m u_tt = sum_i d_i(a_i d_i u) - q u, with m, a_i and q that do not depend on time, it is

    E(t) = 1/2 integral of m u_t^2 + sum_i a_i (d_i u)^2 + q u^2

over space. The coefficients are read from the equation: c^2 Laplace u with a c that varies in space
is divided by c^2 first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tessella.geometry.domain import Domain
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis
from tessella.problem.conditions import Condition
from tessella.problem.normal_form import NormalComponent
from tessella.problem.operators import D, Identity
from tessella.problem.problem import Ansatz, Problem
from tessella.solution.export import Sampled
from tessella.solution.over_space import space_points

TIME = "t"

LOOKED_AT = 2
"""Times after the start at which a march's drift is measured, at most; each costs a fraction of a
slab."""

STEP, SAME = 1e-4, 1e-5
"""Of differences that compare a coefficient's slope with the operator's, in parts of the domain,
and what may separate the two, in parts of the largest coefficient per length."""


class Density(NamedTuple):
    """m, a_i by axis, and q at points."""

    inertia: Array
    stiffness: dict[str, Array]
    spring: Array


def energy(solution: Sampled, basis: AnyBasis, times: ArrayLike) -> Array:
    """E at the given times; `basis` tells where a function of it is smooth."""
    problem = solution.problem
    density = None
    if TIME in problem.domain.axes and problem.domain.dimension > 1:
        time = problem.domain.axis_index(TIME)
        space, weights = space_points(problem.domain, basis)
        at = np.insert(space, time, problem.domain.bounds[time][0], axis=1)
        density = density_of(problem, at)
    if density is None:
        raise ValueError(
            f"energy() needs a wave equation for one unknown, m u_tt = div(a grad u) - q u with "
            f"coefficients that do not depend on time, got {problem.equations[0].operator!r}: "
            f"integrate what is kept in yours by apply()"
        )
    found = []
    for moment in np.atleast_1d(np.asarray(times, dtype=np.float64)):
        at[:, time] = moment
        total = density.inertia * solution.apply(D(t=1), at) ** 2
        for axis, a in density.stiffness.items():
            total += a * solution.apply(D(**{axis: 1}), at) ** 2
        if np.any(density.spring):
            total += density.spring * solution.apply(Identity(), at) ** 2
        found.append(0.5 * float(weights @ total))
    return np.array(found)


def drift(solution: Sampled, basis: AnyBasis, ends: ArrayLike) -> float | None:
    """The largest change of the energy since the start, in parts of it, at some of the times; None
    where nothing says that it is kept."""
    if not keeps_energy(solution.problem):
        return None
    times = np.asarray(ends, dtype=np.float64)
    few = np.unique(np.linspace(0, len(times) - 1, LOOKED_AT + 1).round().astype(int)[1:])
    start = solution.problem.domain.bounds[solution.problem.domain.axis_index(TIME)][0]
    first, *rest = energy(solution, basis, [start, *times[few]])
    return float(np.max(np.abs(np.array(rest) / first - 1))) if first > 0 else None


# --- the equation


def density_of(problem: Problem, points: Array) -> Density | None:
    """m, a and q at points, of which all have one time; None if it is no such equation."""
    domain = problem.domain
    if not problem.linear:
        return None
    if len(problem.equations) > 1 or len(problem.fields) > 1 or problem.ansatz_of() != Ansatz():
        return None
    found = problem.symbol(problem.equations[0].operator, points)
    sign = -1.0 if np.mean(found.get(_orders(domain, TIME, 2), 0.0)) < 0 else 1.0
    known = {alpha: sign * c for alpha, c in found.items() if np.any(c)}
    zero = np.zeros(len(points))
    m = known.pop(_orders(domain, TIME, 2), zero)
    q = known.pop((0,) * domain.dimension, zero)
    space = [axis for axis in domain.axes if axis != TIME]
    a = {axis: -known.pop(_orders(domain, axis, 2), zero) for axis in space}
    slopes = {axis: -known.pop(_orders(domain, axis, 1), zero) for axis in space}
    if known or not np.all(m > 0) or not all(np.all(own > 0) for own in a.values()):
        return None
    if not _steady(problem, points):
        return None
    size = max(float(np.max(own)) for own in a.values()) / domain.diameter
    if all(
        np.max(np.abs(slopes[axis] - _slope(problem, axis, points, sign))) <= SAME * size
        for axis in space
    ):
        return Density(m, a, q)
    front = a[space[0]]
    alike = all(np.allclose(own, front, rtol=1e-12) for own in a.values())
    if alike and not any(np.any(slope) for slope in slopes.values()):
        return Density(m / front, dict.fromkeys(space, np.ones_like(front)), q / front)
    return None


def _orders(domain: Domain, axis: str, order: int) -> tuple[int, ...]:
    return tuple(order * int(name == axis) for name in domain.axes)


def _slope(problem: Problem, axis: str, points: Array, sign: float) -> Array:
    """d_i a_i, by a difference."""
    domain, index = problem.domain, problem.domain.axis_index(axis)
    h = STEP * (domain.upper[index] - domain.lower[index])
    ends = []
    for side in (-h, h):
        x = points.copy()
        x[:, index] += side
        found = problem.symbol(problem.equations[0].operator, x)
        ends.append(-sign * found.get(_orders(domain, axis, 2), np.zeros(len(x))))
    return np.asarray((ends[1] - ends[0]) / (2 * h))


def _steady(problem: Problem, points: Array) -> bool:
    """Whether the coefficients are the same at the end of time and in between."""
    domain, operator = problem.domain, problem.equations[0].operator
    time = domain.axis_index(TIME)
    first, later = problem.symbol(operator, points), points.copy()
    for share in (0.37, 1.0):
        low, high = domain.bounds[time]
        later[:, time] = low + share * (high - low)
        found = problem.symbol(operator, later)
        if any(not np.allclose(found[alpha], c, rtol=1e-12) for alpha, c in first.items()):
            return False
    return True


def keeps_energy(problem: Problem) -> bool:
    """Whether the energy cannot change: no source, and walls that do no work."""
    domain = problem.domain
    if TIME not in domain.axes or domain.dimension < 2:
        return False
    few = domain.scatter(64, np.random.default_rng(0))
    few[:, domain.axis_index(TIME)] = domain.bounds[domain.axis_index(TIME)][0]
    density = density_of(problem, few)
    rhs = problem.equations[0].rhs
    if density is None or callable(rhs) or rhs:
        return False
    a = list(density.stiffness.values())
    alike = all(np.allclose(own, a[0], rtol=1e-12) for own in a)
    walls = [c for c in problem.conditions if f"{TIME}min" not in c.faces(domain)]
    return all(_at_rest(c, domain, alike) for c in walls)


def _at_rest(condition: Condition, domain: Domain, alike: bool) -> bool:
    """A fixed value, or no normal derivative: no work is done at the wall."""
    if type(condition) is not Condition or callable(condition.value):
        return False
    terms = condition.operator.expand(domain.axes)
    if all(not any(t.orders) and not t.functions for t in terms):
        return True
    normal = all(
        sum(t.orders) == 1
        and [type(f) for f, _ in t.functions] == [NormalComponent]
        and t.orders[t.functions[0][0].axis] == 1
        for t in terms
    )
    return normal and alike and not condition.value
