"""States that nonlinear operators are looked at from, and that are no solutions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tessella.geometry.functions import Function
from tessella.machine.arrays import Array
from tessella.problem.normal_form import Term, symbol
from tessella.problem.operators import Operator
from tessella.problem.statement import Applied

if TYPE_CHECKING:
    from tessella.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Guess:
    """A state given by numbers or functions of the points, one for every unknown."""

    problem: Problem
    functions: Mapping[str, float | Function]

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        found = np.zeros(len(points))
        zero = (0,) * points.shape[1]
        for name, function in self.functions.items():
            terms = [t for t in operator.expand(self.problem.domain.axes)
                     if t.field in (None, name)]  # fmt: skip
            if callable(function):
                made = tuple(
                    Term(zero, t.factor, (*t.functions, (function, t.orders))) for t in terms
                )
                found += symbol(made, points, normals).get(zero, 0.0)
            else:
                plain = tuple(
                    dataclasses.replace(t, field=None) for t in terms if not any(t.orders)
                )
                found += float(function) * symbol(plain, points, normals).get(zero, 0.0)
        return found


@dataclass(frozen=True, eq=False)
class Mixed:
    """(1 - share) first + share second; a share above 1 goes on beyond the second."""

    first: Applied
    second: Applied
    share: float

    @property
    def problem(self) -> Problem:
        return self.second.problem

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        first, second = (one.apply(operator, points, normals) for one in (self.first, self.second))
        return first + self.share * (second - first)


@dataclass(frozen=True, eq=False)
class Smooth:
    """A state in which every unknown is 1 + exp(sum_i z_i / 2), with z from -1 to 1 along every
    axis: all derivatives are of size 1 on the scale of the domain."""

    problem: Problem

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        domain = self.problem.domain
        half = (domain.upper - domain.lower) / 2
        e = np.exp(np.sum((points - domain.lower) / half - 1, axis=1) / 2)
        found = np.zeros(len(points))
        for term in operator.expand(domain.axes):
            c = symbol((dataclasses.replace(term, field=None),), points, normals)[term.orders]
            found += c * (np.prod((2 * half) ** -np.array(term.orders, float)) * e)
            found += c * (not any(term.orders))
        return found
