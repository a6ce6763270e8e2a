"""Hard constraints stated as conditions: what an ansatz builds in, said aloud.

Features that satisfy the equation, and slabs that continue each other, need the unknown itself.
u = offset + multiplier * v has the offset's value wherever the multiplier vanishes, and the
offset's velocity where time begins if the multiplier vanishes there twice.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.functions import Function, derivatives, function_values
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition
from tessella.problem.operators import D, Operator
from tessella.problem.problem import Ansatz, Problem

POINTS = 33
"""On every face, at which a multiplier is tried."""

VANISHES = 1e-10
"""Part of a multiplier's size that counts as zero."""


def stated(problem: Problem) -> Problem | None:
    """The same problem without an ansatz; None where an ansatz is not made of hard constraints on
    the faces of a box."""
    if all(problem.ansatz_of(name) == Ansatz() for name in problem.fields):
        return problem
    domain = problem.domain
    if not isinstance(domain, Box) or domain.regions:
        return None
    conditions: list[Condition] = list(problem.conditions)
    for name in problem.fields:
        ansatz = problem.ansatz_of(name)
        if ansatz == Ansatz():
            continue
        if not callable(ansatz.multiplier):
            return None
        conditions += _built_in(problem, name, ansatz, ansatz.multiplier)
    return dataclasses.replace(problem, conditions=conditions, ansatz=Ansatz())


def _built_in(problem: Problem, name: str, ansatz: Ansatz, multiplier: Function) -> list[Condition]:
    domain, of = problem.domain, problem.unknown(name)
    assert isinstance(domain, Box)
    draw = np.random.default_rng(0)
    size = float(np.max(np.abs(function_values(multiplier, domain.scatter(POINTS, draw)))))
    walls, found = [], []
    for part in domain.parts:
        x = domain.scatter_on(part, POINTS, draw, domain)[0]
        if np.max(np.abs(function_values(multiplier, x))) > VANISHES * size:
            continue
        if part != "tmin":
            walls.append(part)
            continue
        found.append(Condition(of, ansatz.offset, "tmin", name=f"initial value of {name}"))
        if np.max(np.abs(_slope(multiplier, x, domain))) <= VANISHES * size:
            velocity = _velocity(ansatz.offset, domain)
            operator: Operator = D(t=1) @ of
            found.append(Condition(operator, velocity, "tmin", name=f"initial velocity of {name}"))
    if walls:
        found.append(Condition(of, ansatz.offset, tuple(walls), name=f"walls of {name}"))
    return found


def _velocity(offset: float | Function, domain: Box) -> float | Function:
    return (lambda x: _slope(offset, x, domain)) if callable(offset) else 0.0


def _slope(function: Function, x: Array, domain: Box) -> Array:
    """The derivative in time."""
    orders = tuple(int(axis == "t") for axis in domain.axes)
    return derivatives(function, [orders], x)[orders]
