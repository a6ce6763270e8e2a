"""Both derivatives of right-hand sides by theta, while u is held: JAX's where it can follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tessella.geometry.functions import Orders, Traced, directional
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.problem.conditions import PointCondition
from tessella.problem.linearised import derivative
from tessella.problem.nonlinear import Nonlinear, is_linear
from tessella.problem.normal_form import NormalComponent, Term
from tessella.problem.operator_function import Given
from tessella.problem.operators import Composition, Normal, Operator, Scaled, Sum
from tessella.problem.statement import Statement
from tessella.solving.parameters.perturbed import LEAST, Derivatives, Perturbed, Place, plain

AGREED = 1e-5
"""Part of a tangent by which JAX and a difference may differ, or else JAX is not believed."""


class Differences:
    """By central differences: any theta, at two tables for each parameter."""

    name = "differences"

    def tangents(self, own: Perturbed, directions: Array) -> tuple[Array, Array]:
        """Of right-hand sides (k, size), and of what is observed (k, operators, n), along
        directions (k, p)."""
        none = np.zeros(own.size), np.zeros((len(own.observed), len(own.at)))
        parts = [own.change(one) if np.any(one) else none for one in directions]
        return np.stack([rows for rows, _ in parts]), np.stack([seen for _, seen in parts])

    def gradients(self, own: Perturbed, rows: Array, seen: Array) -> Array:
        """The transpose: from (k, size) and (k, operators, n) to (k, p)."""
        found = np.empty((len(rows), len(own.theta)))
        for j, one in enumerate(np.eye(len(own.theta))):
            change, also = own.change(one)
            found[:, j] = rows @ change + np.einsum("kin,in->k", seen, also)
        return found


class Followed:
    """As JAX follows theta through problem_of: exact, both ways in one sweep, compiled once.

    Points are plain arrays, so that only functions of theta need `jax.numpy`.
    """

    name = "jax"

    def __init__(self, like: Perturbed) -> None:
        self.family, self.problem = like.family, like.problem
        self.places, self.size = like.rows, like.size

        def tangent(given: Any, theta: Any, direction: Any) -> Any:
            return jax.jvp(lambda t: self._rows(t, given), (theta,), (direction,))[1]

        def gradient(given: Any, theta: Any, rows: Any) -> Any:
            return jax.vjp(lambda t: self._rows(t, given), theta)[1](rows)[0]

        self._tangent, self._gradient = jax.jit(tangent), jax.jit(gradient)

    def tangents(self, own: Perturbed, directions: Array) -> tuple[Array, Array]:
        given = _given(own)
        rows = [np.asarray(self._tangent(given, own.theta, one)) for one in directions]
        return np.stack(rows), np.zeros((len(rows), len(own.observed), len(own.at)))

    def gradients(self, own: Perturbed, rows: Array, seen: Array) -> Array:
        given = _given(own)
        return np.stack([np.asarray(self._gradient(given, own.theta, one)) for one in rows])

    def _rows(self, theta: Any, given: Any) -> Any:
        stated, found = self.family.followed(theta), jnp.zeros(self.size)
        for place, v in zip(self.places, given, strict=True):
            statement = stated.statements[place.number]
            missed = _value(statement, place.x) - self._applied(statement.operator, place, v)
            found = found.at[place.at].set(place.scale * missed)
        return found

    def _applied(self, operator: Operator, place: Place, v: Derivatives) -> Any:
        """An operator on u, whose derivatives are held."""
        axes, only = self.problem.domain.axes, self.problem.unknowns[0]
        match operator:
            case Nonlinear():
                values = {}
                for field, alpha in operator.keys(axes):
                    own = derivative(self.problem, alpha, field or operator.field or only)
                    values[field, alpha] = self._applied(own, place, v)
                return operator.function(Given(axes, operator.name, values), place.x)
            case Sum(parts) if not is_linear(operator):
                return sum(self._applied(part, place, v) for part in parts)
            case Scaled(c, inner) if not is_linear(inner):
                front: Any = c(place.x) if callable(c) else c
                return front * self._applied(inner, place, v)
            case Composition(Normal(axis), inner) if not is_linear(inner):
                assert place.normals is not None
                return place.normals[:, axes.index(axis)] * self._applied(inner, place, v)
        found: Any = 0.0
        for f, share, term in self._acting(operator, place.x):
            coefficient = term.factor * share
            for function, gamma in term.functions:
                coefficient = coefficient * _function(function, gamma, place.x, place.normals)
            found = found + coefficient * v[f, term.orders]
        return found

    def _acting(self, operator: Operator, x: Array) -> Iterator[tuple[int, Array | float, Term]]:
        for f, field in enumerate(self.problem.fields):
            for terms, share in self.problem.acting(operator, field, x):
                for term in terms:
                    yield f, share, term


def differentiated(own: Perturbed, shared: bool = False) -> Followed | Differences:
    """JAX's way, unless it cannot follow (sizes of domains, NumPy functions of theta, measured
    values), or a difference says otherwise; of processes that have rows of their own (`shared`) all
    go the same way."""

    def largest(x: float) -> float:
        return processes.largest("tangents", x) if shared else x

    direction = np.random.default_rng(0).standard_normal(len(own.theta))
    direction *= np.maximum(np.abs(own.theta), LEAST)
    with processes.in_unison("tangents") if shared else nullcontext():
        change = own.change(direction)[0]
    if not plain(own.problem):
        return Differences()
    made, found = Followed(own), np.zeros(0)
    with suppress(Exception):
        found = made.tangents(own, direction[None])[0][0]
    if largest(float(not len(found))):
        return Differences()
    size, apart = (largest(float(np.max(np.abs(x), initial=0.0))) for x in (change, found - change))
    return made if apart <= AGREED * size else Differences()


def _given(own: Perturbed) -> list[Derivatives]:
    """What the operators need of u; points stay where they are."""
    found = []
    for place, v in zip(own.rows, own.held, strict=True):
        operator = own.problem.statements[place.number].operator
        orders = {t.orders for t in operator.expand(own.problem.domain.axes)}
        found.append({key: value for key, value in v.items() if key[1] in orders})
    return found


def _value(statement: Statement, x: Any) -> Any:
    """Data as JAX follows them; measured ones do not depend on theta."""
    if isinstance(statement, PointCondition):
        return jnp.zeros(len(x))
    given = statement.given
    return jnp.broadcast_to(jnp.asarray(given(x) if callable(given) else given), (len(x),))


def _function(function: Any, gamma: Orders, x: Any, normals: Any) -> Any:
    if isinstance(function, NormalComponent):
        return normals[:, function.axis]
    if isinstance(function, Traced) and any(gamma):
        return 0.0
    return directional(function, gamma)(x)
