"""Do the conditions determine the solution, and do they agree? Counted and compared."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from tessella.geometry.box import Box, Face
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.normal_form import Term
from tessella.problem.problem import Problem
from tessella.problem.slabs import Continued


def missing_conditions(problem: Problem) -> str:
    """A remark where an axis has fewer conditions than the equation's order along it; or nothing.

    Only counts: an equation of order m along an axis takes m conditions at its two ends. Silent
    where counting says little: on shapes, for systems, with an ansatz, measurements or integrals.
    """
    missing = _missing(problem)
    if missing is None:
        return ""
    axis, order, held, _ = missing
    count = len(held)
    remedy = f"add a condition on {_bare(axis, held)}"
    if axis == "t":
        remedy = "add InitialVelocity(...)" if count else "add Initial(...) on tmin"
    return (
        f"the equation has order {order} along {axis}, but there "
        f"{'is 1 condition' if count == 1 else f'are {count} conditions'} at its ends: the "
        f"solution may not be determined; {remedy}"
    )


def leaves_open(problem: Problem) -> bool:
    """Whether conditions are missing for certain: the leading coefficient along the axis does not
    vanish anywhere, so that no end of it can do without."""
    missing = _missing(problem)
    return missing is not None and missing.certain


def asks_for_much(problem: Problem) -> bool:
    """Whether data may contradict each other: there are measurements, integrals, more equations
    than unknowns, or more conditions at the ends of an axis, or on a part of a boundary, than the
    equation's order takes."""
    domain = problem.domain
    if any(isinstance(c, PointCondition | IntegralCondition) for c in problem.conditions):
        return True
    if domain.regions or len(problem.fields) > 1:
        return False
    terms = [term for e in problem.equations for term in e.operator.expand(domain.axes)]
    held = [name for c in problem.conditions for name in c.faces(domain) if not callable(c.on)]
    if not isinstance(domain, Box):
        order = max((sum(term.orders) for term in terms), default=0)
        surplus = any(held.count(name) > max(1, order // 2) for name in held)
        return surplus or len(problem.equations) > 1
    for i, axis in enumerate(domain.axes):
        order = max((term.orders[i] for term in terms), default=0)
        if sum(name in (f"{axis}min", f"{axis}max") for name in held) > order:
            return True
    return len(problem.equations) > 1


class _Missing(NamedTuple):
    axis: str
    order: int
    held: list[str]
    certain: bool


def _missing(problem: Problem) -> _Missing | None:
    domain = problem.domain
    other = any(isinstance(c, PointCondition | IntegralCondition) for c in problem.conditions)
    if not isinstance(domain, Box) or len(problem.fields) > 1 or other:
        return None
    if callable(problem.multiplier(problem.fields[0])):
        return None
    held = [name for c in problem.conditions for name in c.faces(domain)]
    terms = [term for e in problem.equations for term in e.operator.expand(domain.axes)]
    for i, axis in enumerate(domain.axes):
        order = max((term.orders[i] for term in terms), default=0)
        own = [name for name in held if name in (f"{axis}min", f"{axis}max")]
        if len(own) < order and axis not in domain.periodic:
            pure = tuple(order if j == i else 0 for j in range(domain.dimension))
            return _Missing(axis, order, own, _is_constant(terms, pure))
    return None


def _is_constant(terms: list[Term], orders: Orders) -> bool:
    """Whether the coefficient of this derivative is a number other than 0."""
    own = [term for term in terms if term.orders == orders]
    return not any(t.functions for t in own) and sum(t.factor for t in own) != 0


def _bare(axis: str, held: list[str]) -> str:
    ends = (f"{axis}min", f"{axis}max")
    return " or ".join([name for name in ends if name not in held] or list(ends))


ON_EDGE, FEW = 9, 3
"""Points along an axis at which two conditions are compared, and axes that have so many: where
there are more, as many points are random."""

AGREE = 1e-6
"""Values closer than this part of their size agree."""


def contradictions(problem: Problem) -> str:
    """A remark on values that conditions ask for at a common edge of two faces and that differ
    there, where and by how much; or nothing. No function has both, so that no refinement helps."""
    domain, worst, text = problem.domain, 0.0, ""
    if not isinstance(domain, Box) or domain.dimension < 2:
        return ""
    asked = [
        (condition, field, domain.face(name))
        for condition in problem.conditions
        if (field := value_of(condition, problem)) is not None
        for name in condition.faces(domain)
    ]
    for (one, of, face), (other, its, facing) in itertools.combinations(asked, 2):
        if one is other or face.axis == facing.axis or of != its:
            continue
        x = _edge(domain, face, facing)
        x = x[one.chosen(x) & other.chosen(x)]
        if not len(x):
            continue
        values = np.stack([one.values(x), other.values(x)])
        apart = np.abs(values[0] - values[1])
        size = max(_size(one, domain, face), _size(other, domain, facing))
        at = int(np.argmax(apart))
        if apart[at] > max(worst, AGREE * size):
            worst = float(apart[at])
            place = ", ".join(f"{c:.4g}" for c in x[at])
            text = (
                f"{one.name!r} and {other.name!r} contradict each other at ({place}), where one "
                f"asks for {values[0, at]:.4g} and the other for {values[1, at]:.4g}: near there "
                f"the error cannot fall below half of that, and no refinement helps"
            )
    return text


def value_of(condition: Condition, problem: Problem) -> str | None:
    """The unknown whose plain value a condition asks for, if it does and was stated by a person."""
    if isinstance(condition.given, Continued):
        return None
    terms = condition.operator.expand(problem.domain.axes)
    if len(terms) != 1 or any(terms[0].orders) or terms[0].functions or terms[0].factor != 1:
        return None
    return terms[0].field or problem.fields[0]


def _size(condition: Condition, domain: Box, face: Face) -> float:
    """Of a condition's values on a face."""
    x = _spread(domain, (ON_EDGE,) * domain.dimension)
    x[:, face.axis] = face.position
    return float(np.max(np.abs(condition.values(x[condition.chosen(x)])), initial=0.0))


def _edge(domain: Box, one: Face, other: Face) -> Array:
    """Points on the common edge of two faces, its ends among them."""
    d = domain.dimension
    counts = tuple(1 if i in (one.axis, other.axis) else ON_EDGE for i in range(d))
    x = _spread(domain, counts)
    x[:, one.axis], x[:, other.axis] = one.position, other.position
    return x


def _spread(domain: Box, counts: tuple[int, ...]) -> Array:
    if domain.dimension <= FEW:
        return domain.grid(counts)
    return domain.scatter(ON_EDGE**FEW, np.random.default_rng(0))
