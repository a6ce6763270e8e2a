"""A problem between two times: the end of one slab is the start of the next."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.geometry.lattice import Gridded, Places
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition, Readings
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem, Reference
from tessella.problem.statement import Applied

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
    domain = _between(problem.domain, *bounds)
    return dataclasses.replace(problem, domain=domain, conditions=conditions)


def until(problem: Problem, end: float) -> Problem:
    """The problem up to a time; a reference beyond it is dropped."""
    axis = problem.domain.axis_index(TIME)
    low, _ = problem.domain.bounds[axis]
    exact = problem.exact
    if isinstance(exact, Reference) and np.any(exact.points[:, axis] > end):
        exact = None
    return dataclasses.replace(problem, domain=_between(problem.domain, low, end), exact=exact)


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


def _between(domain: Domain, low: float, high: float) -> Domain:
    """The domain between two times: a Box, a shape over time, or either of them in regions."""
    if isinstance(domain, Divided):
        shapes = {name: _between(shape, low, high) for name, shape in domain.shapes}
        return Divided(_between(domain.whole, low, high), **shapes)
    if isinstance(domain, Extrusion):
        return domain.base.over(**{TIME: (low, high)})
    sides = dict(zip(domain.axes, domain.bounds, strict=True))
    return Box(**{**sides, TIME: (low, high)}).closed(*domain.periodic)


def starts(problem: Problem) -> list[Condition]:
    """The conditions at the start of time, and nowhere else."""
    return [c for c in problem.conditions if c.faces(problem.domain) == (START,)]
