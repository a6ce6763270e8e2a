"""A problem between two times: the end of one slab is the start of the next."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.domain import Domain
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition, Readings
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem, Reference

TIME, START, END = "t", "tmin", "tmax"


class Continued(Protocol):
    """What a slab continues: something with a problem to which operators can be applied."""

    @property
    def problem(self) -> Problem: ...

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array: ...


def slab_problem(
    problem: Problem, bounds: tuple[float, float], before: Continued | None = None
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


def _continued(condition: Condition, before: Continued) -> Condition:
    """The condition with the value that the slab before has there."""
    direction = -np.eye(before.problem.domain.dimension)[before.problem.domain.axis_index(TIME)]

    def value(points: Array) -> Array:
        return before.apply(condition.operator, points, np.tile(direction, (len(points), 1)))

    return dataclasses.replace(condition, value=value)


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
    """The domain between two times, a Box or a shape over time."""
    if isinstance(domain, Extrusion):
        return domain.base.over(**{TIME: (low, high)})
    sides = dict(zip(domain.axes, domain.bounds, strict=True))
    return Box(**{**sides, TIME: (low, high)}).closed(*domain.periodic)


def starts(problem: Problem) -> list[Condition]:
    """The conditions at the start of time, and nowhere else."""
    return [c for c in problem.conditions if c.faces(problem.domain) == (START,)]
