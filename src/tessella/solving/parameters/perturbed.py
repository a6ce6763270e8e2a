"""How right-hand sides change with theta while u is held: what a tangent solves for.

M(theta) a = h(theta) gives M a' = h' - M' a: data and coefficients at the points of the rows are
differentiated by theta, times what the derivatives of u are there. Nonlinear functions of these are
taken as they are, and M is what they are linearised around u. On boundaries that move, the points
move with them. JAX differentiates where it can follow problem_of (see `followed`); otherwise
central differences do, of the tables alone, which cost no solve.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis, per_field
from tessella.overlap.factored import Data
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.linearised import derivative, in_front
from tessella.problem.nonlinear import Nonlinear, is_linear
from tessella.problem.normal_form import Term
from tessella.problem.operators import Composition, Operator, Scaled, Sum
from tessella.problem.problem import Ansatz, Problem
from tessella.problem.statement import Statement
from tessella.problem.tangents import tangents
from tessella.solution.superposition import each_derivative
from tessella.solving.parameters.moving import moved, turned
from tessella.solving.parameters.restated import Restated

STEP, LEAST = 6e-6, 0.03
"""Of central differences, in parts of a parameter that counts as so large at least."""

KINK, NOISE = 1e-3, 1e-9
"""Part of a table's size, per step, by which slopes on both sides must differ to be looked at; and
what rounding makes of it."""

Derivatives = dict[tuple[int, Orders], Array]
"""By unknown and orders, at some points."""


class Place(NamedTuple):
    """All rows of a statement: its number, its points, their normals on a boundary, which rows they
    are, times which scale, and of which part between regions."""

    number: int
    x: Array
    normals: Array | None
    at: np.ndarray
    scale: Array
    between: str


def places(problem: Problem, data: Sequence[Data]) -> list[Place]:
    """Of all rows that have points."""
    found = []
    for number, statement in enumerate(problem.statements):
        own = [one for one in data if one.name == statement.name]
        if isinstance(statement, IntegralCondition) or not own:
            continue
        x = np.concatenate([o.points if o.which is None else o.points[o.which] for o in own])
        normals = [o.normals for o in own if o.normals is not None]
        at = np.concatenate([np.arange(o.at.start, o.at.stop) for o in own])
        between = ""
        if isinstance(statement, Condition) and problem.domain.regions:
            faces = [name for name in statement.faces(problem.domain) if "/" in name]
            between = faces[0] if faces else ""
        turned = np.concatenate(normals) if normals else None
        scale = np.concatenate([o.scale for o in own])
        found.append(Place(number, x, turned, at, scale, between))
    return found


def held(
    problem: Problem, basis: AnyBasis, a: Array, operator: Operator, x: Array, further: bool
) -> Derivatives:
    """The derivatives of u that an operator needs at points, and those once more if `further`."""
    found: Derivatives = {}
    d, offset = x.shape[1], 0
    for f, (field, own) in enumerate(
        zip(problem.fields, per_field(basis, problem.fields), strict=True)
    ):
        orders = {t.orders for t in _terms(problem, operator, field)}
        if callable(problem.multiplier(field)):
            orders |= {below for alpha in orders for below in np.ndindex(*(n + 1 for n in alpha))}
        if further:
            up = [tuple(n + (i == k) for i, n in enumerate(al)) for al in orders for k in range(d)]
            orders |= set(up)
        for level in own.levels:
            mine = a[offset : offset + level.columns]
            offset += level.columns
            if not orders:
                continue
            alphas = sorted(orders)
            each = each_derivative(level, mine, x, alphas)
            for alpha, value in zip(alphas, each, strict=True):
                found[f, alpha] = found.get((f, alpha), 0.0) + value
    return found


def _terms(problem: Problem, operator: Operator, field: str) -> list[Term]:
    anywhere = np.zeros((1, problem.domain.dimension))
    return [t for terms, _ in problem.acting(operator, field, anywhere) for t in terms]


@dataclass(frozen=True, eq=False)
class Perturbed:
    """The right-hand sides of one problem with its solution, as functions of theta.

    linear    the problem, or a nonlinear one linearised around its solution
    rows      of all statements, at their points
    observed  operators whose values are asked for, and the points
    """

    family: Restated
    theta: Array
    problem: Problem
    linear: Problem
    basis: AnyBasis
    a: Array
    rows: tuple[Place, ...]
    data: tuple[Data, ...]
    size: int
    observed: tuple[Operator, ...]
    at: Array

    # --- by differences

    def change(self, direction: Array) -> tuple[Array, Array]:
        """How right-hand sides (size,) and what is observed (operators, n) change, by a central
        difference along a direction."""
        units = np.maximum(np.abs(self.theta), LEAST)
        h = STEP / float(np.max(np.abs(direction) / units))
        above, below = (self._changed(self.theta + s * h * direction) for s in (1, -1))
        self._check_smooth(direction, h, above[0], below[0])
        return (above[0] - below[0]) / (2 * h), (above[1] - below[1]) / (2 * h)

    def _check_smooth(self, direction: Array, h: float, above: Array, below: Array) -> None:
        """Refuse a kink: there slopes differ on both sides however small the step."""
        bend = float(np.max(np.abs(above + below), initial=0.0))
        size = max(self._largest, float(np.max(np.abs(above), initial=0.0)))
        if bend <= max(KINK * h, NOISE) * size:
            return
        half = [self._changed(self.theta + s * h / 2 * direction)[0] for s in (1, -1)]
        if bend < 3 * float(np.max(np.abs(half[0] + half[1]))):
            which = np.flatnonzero(direction)
            named = f"theta[{which[0]}]" if len(which) == 1 else "theta"
            raise ValueError(
                f"the problem is not differentiable in {named} at "
                f"{', '.join(f'{x:.6g}' for x in self.theta[which[:4]])}: its data or coefficients "
                f"have a kink or a jump there; write them with smooth functions of theta"
            )

    @cached_property
    def _largest(self) -> float:
        """The largest of all terms that rows are sums of."""
        found = 0.0
        for place, v in zip(self.rows, self.held, strict=True):
            operator = self.linear.statements[place.number].operator
            for f, field in enumerate(self.linear.fields):
                own = self.linear.symbol(operator, place.x, place.normals, field)
                for alpha, c in own.items():
                    found = max(found, float(np.max(np.abs(place.scale * c * v[f, alpha]))))
        return found

    @cached_property
    def held(self) -> list[Derivatives]:
        """Of u at all rows; on boundaries, which may move, also once more differentiated."""
        found = []
        for place in self.rows:
            operator, further = self.problem.statements[place.number].operator, place.normals
            own = (self.problem, self.basis, self.a, operator, place.x)
            found.append(held(*own, further is not None))
        return found

    @cached_property
    def _base(self) -> list[Array]:
        return [self._missed(self.problem, n, None) for n in range(len(self.rows))]

    def _changed(self, theta: Array) -> tuple[Array, Array]:
        stated = self.family.near(theta)
        moves = stated.domain != self.problem.domain
        found = np.zeros(self.size)
        for n, place in enumerate(self.rows):
            new, old = (own.statements[place.number] for own in (stated, self.problem))
            if new == old and not moves and self._plain:
                continue
            moving = stated.domain if moves and place.normals is not None else None
            value = self._missed(stated, n, moving)
            found[place.at] = place.scale * (value - self._base[n])
        self._change_integrals(stated, moves, found)
        seen = np.zeros((len(self.observed), len(self.at)))
        if not self._plain:
            seen = self._observed(stated) - self._observed(self.problem)
        return found, seen

    @property
    def _plain(self) -> bool:
        return plain(self.problem)

    def _missed(self, stated: Problem, number: int, moving: Any) -> Array:
        """Data less what the operator makes of u, at the points of some rows."""
        place = self.rows[number]
        statement, x, normals = stated.statements[place.number], place.x, place.normals
        v = self.held[number]
        if moving is not None:
            assert normals is not None
            before = self.problem.domain
            go = moved(before, moving, place.between, x, normals)
            v = _further(v, go)
            x, normals = x + go, turned(before, moving, place.between, x, x + go, normals)
        elif stated.domain != self.problem.domain:
            stated = copy.copy(stated)
            object.__setattr__(stated, "domain", self.problem.domain)
        if isinstance(statement, PointCondition):
            value = _readings(statement, self.problem.statements[place.number], x)
        else:
            value = statement.values(x)
        return value - _applied(stated, statement.operator, x, normals, v)

    def _change_integrals(self, stated: Problem, moves: bool, found: Array) -> None:
        for own in self.data:
            number = [s.name for s in self.problem.statements].index(own.name)
            new, old = (p.statements[number] for p in (stated, self.problem))
            if not isinstance(old, IntegralCondition):
                continue
            if moves or not _same_operator(self.problem, new.operator, old.operator):
                raise ValueError(
                    f"{old.name!r} integrates over what theta changes, which is not differentiated:"
                    f" replace it by a condition at points or on the boundary"
                )
            assert isinstance(new, IntegralCondition)
            found[own.at] = own.scale * (new.number - old.number)

    def _observed(self, stated: Problem) -> Array:
        return np.stack(
            [
                _applied(stated, operator, self.at, None, v)
                for operator, v in zip(self.observed, self._held_observed, strict=True)
            ]
        )

    @cached_property
    def _held_observed(self) -> list[Derivatives]:
        return [
            held(self.problem, self.basis, self.a, own, self.at, False) for own in self.observed
        ]


def plain(problem: Problem) -> bool:
    """Whether u is made of features as they are, whatever theta is."""
    every = [problem.ansatz_of(field) for field in problem.fields]
    return all(own == Ansatz() for own in every)


def _same_operator(problem: Problem, new: Operator, old: Operator) -> bool:
    if new == old:
        return True
    x = problem.domain.scatter(64, np.random.default_rng(0))
    for field in problem.fields:
        a, b = (problem.symbol(own, x, None, field) for own in (new, old))
        if a.keys() != b.keys() or not all(np.array_equal(a[k], b[k]) for k in a):
            return False
    return True


def _readings(new: Statement, old: Statement, x: Array) -> Array:
    """Of the rows at x, which are some of the points, in any order."""
    assert isinstance(new, PointCondition) and isinstance(old, PointCondition)
    if not np.array_equal(new.points, old.points):
        raise ValueError(
            f"{old.name!r} is measured at points that depend on theta: keep them where they are"
        )
    apart = np.sum((x[:, None] - old.points) ** 2, axis=2)
    return np.asarray(new.value.values[np.argmin(apart, axis=1)])  # type: ignore[union-attr]


def _further(v: Derivatives, go: Array) -> Derivatives:
    """Derivatives at points a little further: with those of one order more."""
    found = {}
    for (f, alpha), value in v.items():
        ups = [tuple(n + (i == k) for i, n in enumerate(alpha)) for k in range(go.shape[1])]
        if all((f, up) in v for up in ups):
            found[f, alpha] = value + sum(go[:, k] * v[f, up] for k, up in enumerate(ups))
    return found


def _applied(
    stated: Problem, operator: Operator, x: Array, normals: Array | None, v: Derivatives
) -> Array:
    """An operator on u, whose derivatives are held."""
    match operator:
        case Nonlinear():
            keys, only = operator.keys(stated.domain.axes), stated.unknowns[0]
            each = [derivative(stated, alpha, f or operator.field or only) for f, alpha in keys]
            given = np.stack([_applied(stated, own, x, normals, v) for own in each])
            return tangents(operator, stated.domain.axes, keys, given, x)[0]
        case Sum(parts) if not is_linear(operator):
            return np.asarray(sum(_applied(stated, own, x, normals, v) for own in parts))
        case Scaled(_, inner) | Composition(_, inner) if not is_linear(inner):
            front = in_front(operator, stated, x, normals)
            return front * _applied(stated, inner, x, normals, v)
    found = stated.lift(operator, x, normals)
    for f, field in enumerate(stated.fields):
        for alpha, c in stated.symbol(operator, x, normals, field).items():
            found += c * v[f, alpha]
    return found
