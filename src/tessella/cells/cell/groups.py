"""What hangs together: the unknowns of a region and their equations, how often these differentiate
them along every axis, and which of them a wind carries that turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.problem.normal_form import Term
from tessella.problem.problem import Problem


class Wind(NamedTuple):
    """An unknown that its equation carries along an axis, now up, now down."""

    field: int
    equation: int


class Group(NamedTuple):
    """The unknowns of one region, or of the whole domain, and the equations that hold there."""

    region: str | None
    fields: tuple[int, ...]
    equations: tuple[int, ...]

    def without(self, winds: Sequence[Wind]) -> Group:
        """The others."""
        gone, solved = {w.field for w in winds}, {w.equation for w in winds}
        return Group(
            self.region,
            tuple(f for f in self.fields if f not in gone),
            tuple(e for e in self.equations if e not in solved),
        )


def groups(problem: Problem) -> list[Group]:
    """What hangs together: regions know of each other by their interfaces only."""
    return [
        Group(
            region,
            tuple(i for i, field in enumerate(problem.fields) if problem.region(field) == region),
            tuple(
                i for i, e in enumerate(problem.equations)
                if region is None or e.where in (None, region)
            ),
        )
        for region in problem.domain.regions or (None,)
    ]  # fmt: skip


def orders_along(problem: Problem) -> Array:
    """How often the equations differentiate every unknown along every axis, (F, d)."""
    found = np.zeros((len(problem.fields), problem.domain.dimension), dtype=int)
    for number, field in enumerate(problem.fields):
        for equation in problem.equations_of(field):
            for term in problem.terms(equation.operator, field):
                found[number] = np.maximum(found[number], term.orders)
    return found


def in_region(problem: Problem, group: Group, points: Array, shared: bool = False) -> Array:
    """The points in a region, or all if none of these is one; if `shared`, others have more."""
    if group.region is None:
        return points
    inside = problem.domain.inside(group.region, points)
    return points[inside] if shared or inside.any() else points


def blowing(problem: Problem, axis: int, wind: Wind, points: Array) -> Array:
    """The coefficient of an unknown's first derivative along an axis."""
    alpha = tuple(int(i == axis) for i in range(problem.domain.dimension))
    operator, field = problem.equations[wind.equation].operator, problem.fields[wind.field]
    return np.asarray(
        problem.symbol(operator, points, None, field).get(alpha, np.zeros(len(points)))
    )


def turning(
    problem: Problem, group: Group, axis: int, orders: Array, points: Array, shared: bool = False
) -> tuple[Wind, ...]:
    """The unknowns of first order that one equation carries along an axis, each by itself, where
    its coefficient changes sign; `shared` if every process has points of its own."""
    firsts = [f for f in group.fields if orders[f] == 1]
    terms = {(e, f): _carrying(problem, e, f, axis) for e in group.equations for f in firsts}
    carried = {e: [f for f in firsts if terms[e, f]] for e in group.equations}
    found = []
    for e, fields in carried.items():
        if len(fields) != 1 or sum(fields[0] in own for own in carried.values()) > 1:
            continue
        if not any(term.functions for term in terms[e, fields[0]]):
            continue
        b = blowing(problem, axis, Wind(fields[0], e), points)
        up, down = (float(np.max(sign * b, initial=0.0)) for sign in (1, -1))
        if shared:
            up, down = (processes.largest("winds", one) for one in (up, down))
        if min(up, down) > 0:
            found.append(Wind(fields[0], e))
    return tuple(found)


def _carrying(problem: Problem, equation: int, field: int, axis: int) -> list[Term]:
    """What an equation has of an unknown's derivatives along an axis."""
    terms = problem.terms(problem.equations[equation].operator, problem.fields[field])
    return [term for term in terms if term.orders[axis]]
