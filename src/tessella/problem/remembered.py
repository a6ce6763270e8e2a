"""Data that are asked for at the same points again and again, as Newton's method does."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tessella.geometry.functions import Function
from tessella.machine.arrays import Array
from tessella.problem.conditions import IntegralCondition, PointCondition
from tessella.problem.problem import Problem

KEPT = 24
"""Sets of points whose values are kept."""


@dataclass(frozen=True, eq=False, repr=False)
class Remembered:
    """A function of the points that is called once for every set of them."""

    function: Function
    known: dict[bytes, Array] = field(default_factory=dict)

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, points: Array) -> Array:
        key = np.asarray(points).tobytes()
        if key not in self.known:
            if len(self.known) >= KEPT:
                del self.known[next(iter(self.known))]
            self.known[key] = self.function(points)
        return self.known[key]


def remembering(problem: Problem) -> Problem:
    """The same problem with data that are evaluated once; it was checked when it was stated."""
    new = copy.copy(problem)
    object.__setattr__(new, "equation", _with_memory(problem.equations, "rhs"))
    object.__setattr__(new, "conditions", _with_memory(problem.conditions, "value"))
    return new


def _with_memory(statements: Sequence[Any], data: str) -> tuple[Any, ...]:
    found = []
    for own in statements:
        given = own.given
        if callable(given) and not isinstance(own, PointCondition | IntegralCondition):
            own = dataclasses.replace(own, **{data: Remembered(given)})
        found.append(own)
    return tuple(found)
