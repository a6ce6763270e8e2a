"""A problem between two times: the end of one slab is the start of the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, Orders, derivatives
from tessella.geometry.lattice import Gridded, Places
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition, Readings
from tessella.problem.operators import Operator
from tessella.problem.problem import Ansatz, Problem
from tessella.problem.reference import Reference
from tessella.problem.statement import Applied
from tessella.problem.states import Guess

TIME, START, END = "t", "tmin", "tmax"


def slab_problem(
    problem: Problem, bounds: tuple[float, float], before: Applied | None = None
) -> Problem:
    """The problem between two times, starting where the solution `before` ends."""
    first = starts(problem) if before is not None else ()
    conditions: list[Condition] = []
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            raise ValueError(
                f"{condition.name!r} is an integral over all times, which no slab knows: drop it, "
                f"or use solve"
            )
        if isinstance(condition, PointCondition):
            conditions += _during(condition, problem.domain.axis_index(TIME), bounds)
        elif before is not None and condition in first:
            conditions.append(_continued(condition, before))
        else:
            conditions.append(condition)
    domain = between(problem.domain, *bounds)
    return dataclasses.replace(problem, domain=domain, conditions=conditions)


def says_the_same(one: Problem, other: Problem) -> bool:
    """Whether two problems in time differ by their times and data alone; their coefficients may
    still depend on time. Where that is hard to tell, they do not."""
    plain = all(p.ansatz_of(f) == Ansatz() for p in (one, other) for f in p.fields)
    if not plain or one.fields != other.fields or len(one.statements) != len(other.statements):
        return False
    for a, b in zip(one.statements, other.statements, strict=True):
        if type(a) is not type(b) or isinstance(a, IntegralCondition | PointCondition):
            return False
        if a.operator is not b.operator or (a.name, a.weight) != (b.name, b.weight):
            return False
        if isinstance(a, Condition) and (callable(a.on) or a.on != getattr(b, "on", None)):
            return False
    return True


def until(problem: Problem, end: float) -> Problem:
    """The problem up to a time; a reference beyond it is dropped."""
    axis = problem.domain.axis_index(TIME)
    low, _ = problem.domain.bounds[axis]
    exact = problem.exact
    if isinstance(exact, Reference) and np.any(exact.points[:, axis] > end):
        exact = None
    return dataclasses.replace(problem, domain=between(problem.domain, low, end), exact=exact)


def _continued(condition: Condition, before: Applied) -> Condition:
    """The condition with the value that the slab before has there."""
    return dataclasses.replace(condition, value=Continued(condition.operator, before))


@dataclass(frozen=True, eq=False)
class Continued:
    """Initial data that are the end of the slab before."""

    pointwise: ClassVar[bool] = True

    operator: Operator
    before: Applied

    def __call__(self, points: Array | Places) -> Array:
        domain = self.before.problem.domain
        axis = domain.axis_index(TIME)
        given = points.gridded if isinstance(points, Places) else np.asarray(points).view(Gridded)
        there = given.moved(axis, domain.upper[axis])
        back = -np.eye(domain.dimension)[axis]
        return self.before.apply(self.operator, there, np.tile(back, (len(points), 1)))


@dataclass(frozen=True, eq=False)
class AtEnd:
    """A state that stays as a solution was at the end of its time."""

    before: Any

    @property
    def problem(self) -> Problem:
        return self.before.problem

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        return self.before.apply(operator, self._there(points), normals)

    def derivatives(self, alphas: Sequence[Orders], points: Array, field: str) -> Array:
        there = self._there(points)
        found: Array = self.before.derivatives(alphas, there, field)
        return found

    def _there(self, points: Array) -> Array:
        domain = self.before.problem.domain
        there = np.array(points)
        there[:, domain.axis_index(TIME)] = domain.upper[domain.axis_index(TIME)]
        return there


def at_start(problem: Problem) -> Guess:
    """A state that stays as the initial values are, as far as they are given as functions that JAX
    can differentiate; 0 otherwise."""
    values: dict[str, float | Function] = dict.fromkeys(problem.unknowns, 0.0)
    for condition in starts(problem):
        terms = condition.operator.expand(problem.domain.axes)
        plain = len(terms) == 1 and not any(terms[0].orders) and not terms[0].functions
        if plain and _differentiable(condition.given, problem.domain):
            values[terms[0].field or problem.unknowns[0]] = condition.given
    return Guess(problem, values)


def _differentiable(given: float | Function, domain: Domain) -> bool:
    if not callable(given):
        return True
    first = (1, *(0 for _ in domain.axes[1:]))
    try:
        derivatives(given, [first], domain.scatter(2, np.random.default_rng(0)))
    except (TypeError, ValueError):
        return False
    return True


def _during(
    condition: PointCondition, axis: int, bounds: tuple[float, float]
) -> list[PointCondition]:
    """The measurements made between two times, if any; the very first ones count too."""
    t = condition.points[:, axis]
    inside = (t >= bounds[0]) & (t <= bounds[1])
    if not inside.any():
        return []
    readings = condition.value
    assert isinstance(readings, Readings)
    kept = Readings(readings.points[inside], readings.values[inside])
    return [dataclasses.replace(condition, value=kept)]


def between(domain: Domain, low: float, high: float) -> Domain:
    """The domain between two times: a Box, a shape over time, or either of them in regions."""
    if isinstance(domain, Divided):
        shapes = {name: between(shape, low, high) for name, shape in domain.shapes}
        return Divided(between(domain.whole, low, high), **shapes)
    if isinstance(domain, Extrusion):
        return domain.base.over(**{TIME: (low, high)})
    sides = dict(zip(domain.axes, domain.bounds, strict=True))
    return Box(**{**sides, TIME: (low, high)}).closed(*domain.periodic)


def section(domain: Domain) -> Domain | None:
    """What a domain is at every place of its last axis, if that is the same everywhere: a shape
    over an axis, or regions over time."""
    if isinstance(domain, Extrusion):
        return domain.base
    if not isinstance(domain, Divided) or domain.axes[-1] != TIME:
        return None
    whole = _at_rest(domain.whole)
    shapes = {name: _at_rest(shape) for name, shape in domain.shapes}
    if whole is None or None in shapes.values():
        return None
    return Divided(whole, **{name: shape for name, shape in shapes.items() if shape is not None})


def _at_rest(piece: Domain) -> Domain | None:
    """A piece of a domain in time without time."""
    if isinstance(piece, Extrusion):
        return piece.base
    if not isinstance(piece, Box) or piece.dimension < 2:
        return None
    sides = dict(zip(piece.axes[:-1], piece.bounds[:-1], strict=True))
    return Box(**sides).closed(*piece.periodic)


def starts(problem: Problem) -> list[Condition]:
    """The conditions at the start of time, and nowhere else."""
    return [c for c in problem.conditions if c.faces(problem.domain) == (START,)]
