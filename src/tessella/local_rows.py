"""The rows of every subdomain side by side: what they ask, and how they weigh.

Weights follow the norms in which a solution depends on its data. With k_i the wavenumber that the
features resolve along axis i and W = sum_alpha |c_alpha| k^alpha the size of the equation there,
the m-th normal derivative on a face across axis i weighs W k_i^(-m - 1/2) against the equation (for
the Laplacian: k^(3/2) for the value, k^(1/2) for the normal derivative). A condition without weight
weighs as much as the normal derivative of its size; measurements each as a piece of face of the
size that the features resolve; an integral's partial sums as a subdomain's equation. Each unknown
of a system has its own W.

Subdomains of different size have their own k, and so their own weights. Everything else that is
common to all of them is rounded (see `settled`), so that a subdomain which a refinement leaves as
it is keeps its rows to the last bit, and need not be factored again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tessella.collocation import Grid
from tessella.conditions import Condition, IntegralCondition, PointCondition
from tessella.domain import Array, Box
from tessella.interfaces import (
    GluedBasis,
    Side,
    glue_orders,
    interior_faces,
    tiling_of,
)
from tessella.linalg.partial_sums import partial_sums
from tessella.local_layout import Layout, Slot, layout, owners, points_per_subdomain
from tessella.memory import require
from tessella.operators import Operator, Orders, function_values
from tessella.problem import Equation, Problem
from tessella.tree import WHOLE


class Scattered(NamedTuple):
    """Rows whose points every subdomain has for itself: x (J, n, d), of which `counts` are used."""

    rows: slice
    x: Array
    counts: np.ndarray


class Summed(NamedTuple):
    """An integral: scale * (the sum of these rows over all subdomains) = scale * value."""

    name: str
    rows: slice
    scale: float
    value: float


Symbol = dict[tuple[int, Orders], Array]

Places = dict[str, list[tuple[np.ndarray, slice, Array]]]


@dataclass(frozen=True)
class LocalRows:
    """Every row of every subdomain: sum symbol[f, alpha] D^alpha v_f = h, weights folded in.

    symbol   (number of the unknown, alpha) -> (J, height); zero where a row does not use it
    h        (J, height)
    places   name of an equation or condition -> (subdomains, rows) that hold it, with its weight
             in each of these subdomains
    weights  of every equation and condition, a mean where subdomains differ
    pulls    [axis] -> (J, number of glued derivatives): how every subdomain weighs them
    glued    [axis, side, part] -> which subdomains have a neighbour there
    held     [axis, side, part] -> how many conditions the domain's face has
    data     measurements
    sums     integrals, whose rows are quadrature weights times the integrand
    """

    layout: Layout
    symbol: Symbol
    h: Array
    places: Places
    weights: dict[str, float]
    pulls: dict[int, Array]
    glued: dict[Side, np.ndarray]
    held: dict[Side, int]
    data: tuple[Scattered, ...]
    sums: tuple[Summed, ...]


def local_rows(problem: Problem, basis: GluedBasis, grid: Grid) -> LocalRows:
    """The rows of the loss  mean |equation|^2 + sum lambda mean |condition|^2 + gluing."""
    rows = _Filling(problem, basis, layout(problem, basis, points_per_subdomain(basis, grid)))
    for equation, slot in zip(problem.equations, rows.layout.inside, strict=True):
        weight = np.full(len(rows.everywhere), rows.equation_weight(equation, slot))
        rows.fill(equation, slot, rows.everywhere, None, weight, rows.volumes / rows.volume)
    data, sums = iter(rows.layout.data), iter(rows.layout.sums)
    scattered, summed = [], []
    for condition in problem.conditions:
        if isinstance(condition, PointCondition):
            scattered.append(rows.measure(condition, next(data)))
        elif isinstance(condition, IntegralCondition):
            summed.append(rows.add_up(condition, next(sums)))
        else:
            rows.hold(condition)
    rows.glue()
    return LocalRows(
        rows.layout,
        rows.symbol,
        rows.h,
        rows.places,
        rows.mean_weights(),
        rows.pulls,
        rows.glued,
        rows.used,
        tuple(scattered),
        tuple(summed),
    )


MEASURED = 12
"""Digits of measures of faces: those that do not depend on how a sum was taken."""


def settled(x: float, digits: int = 4) -> float:
    """Rounded to so many decimal digits, so that weights do not change with every refinement."""
    return float(f"{x:.{digits - 1}e}")


def operator_sizes(
    problem: Problem, operator: Operator, x: Array, normals: Array | None, k: Array
) -> Array:
    """sum_alpha |c_alpha| k^alpha on every unknown, with root mean square coefficients at x: (F,)
    for wavenumbers k (d,), and (F, J) for those of J subdomains."""
    found = np.zeros((len(problem.fields), *k.shape[:-1]))
    for number, field in enumerate(problem.fields):
        for alpha, c in problem.symbol(operator, x, normals, field).items():
            rms = settled(float(np.sqrt(np.mean(c**2))))
            found[number] += rms * np.prod(k ** np.array(alpha), axis=-1)
    return found


class _Filling:
    """The tables while they are being filled."""

    def __init__(self, problem: Problem, basis: GluedBasis, layout: Layout) -> None:
        self.problem, self.tiling, self.layout = problem, tiling_of(basis), layout
        self.everywhere = np.arange(self.tiling.count)
        self.symbol: Symbol = {}
        self.first_size = 0.0
        orders = {
            t.orders for e in problem.equations for t in e.operator.expand(problem.domain.axes)
        }
        require(
            16 * self.tiling.count * layout.height * (len(orders) * len(problem.fields) + 1),
            f"{self.tiling.count:,} subdomains of {layout.height:,} rows",
            "use fewer features, subdomains or points",
        )
        self.h = np.zeros((self.tiling.count, layout.height))
        self.places: Places = {}
        self.shares: dict[str, list[Array]] = {}
        self.weights: dict[str, float] = {}
        self.pulls: dict[int, Array] = {}
        nowhere = np.zeros(0, dtype=np.int64)
        self.glued: dict[Side, np.ndarray] = dict.fromkeys(layout.faces, nowhere)
        self.used = dict.fromkeys(layout.faces, 0)
        d = problem.domain.dimension
        self.sides = 2 * self.tiling.half_widths
        self.volumes = np.prod(self.sides, axis=1)
        self.wavenumbers = basis.features.columns ** (1 / d) / self.sides
        self.typical = basis.features.columns ** (1 / d) / self.tiling.spacing
        self.volume = float(np.prod(problem.domain.upper - problem.domain.lower))

    def table(self, number: int, alpha: Orders) -> Array:
        return self.symbol.setdefault((number, alpha), np.zeros_like(self.h))

    def equation_weight(self, equation: Equation, slot: Slot) -> float:
        """As given, or 1 for the first equation and what makes the others as large as it."""
        if len(self.problem.equations) == 1:
            return 1.0 if equation.weight is None else equation.weight
        x = self.points(slot, self.everywhere)
        size = float(operator_sizes(self.problem, equation.operator, x, None, self.typical).sum())
        self.first_size = self.first_size or size
        if equation.weight is not None:
            return equation.weight
        return (self.first_size / size) ** 2 if size > 0 else 1.0

    @cached_property
    def coefficients(self) -> dict[tuple[int, Orders], float]:
        """Root mean squares over the domain, from the rows of the equations; these come first."""
        inside = slice(0, self.layout.inside[-1].rows.stop)
        return {
            key: settled(float(np.sqrt(np.sum(c[:, inside] ** 2))))
            for key, c in self.symbol.items()
        }

    def equation_sizes(self, k: Array) -> Array:
        """W of every unknown at wavenumbers k (..., d), shape (F, ...)."""
        W = np.zeros((len(self.problem.fields), *k.shape[:-1]))
        for (number, alpha), rms in self.coefficients.items():
            W[number] += rms * np.prod(k ** np.array(alpha), axis=-1)
        return W

    def areas(self, axis: int, members: np.ndarray) -> Array:
        """Of the faces across an axis of some subdomains; 1 in one dimension."""
        return np.asarray(np.prod(np.delete(self.sides[members], axis, axis=1), axis=1))

    def points(self, slot: Slot, members: np.ndarray) -> Array:
        local = slot.points * self.tiling.half_widths[members][:, None]
        return (self.tiling.centres[members][:, None] + local).reshape(-1, local.shape[2])

    def fill(
        self,
        source: Equation | Condition,
        slot: Slot,
        members: np.ndarray,
        normal: Array | None,
        weight: Array,
        share: Array,
    ) -> None:
        """Rows of an equation or condition: its weight in each member, and each member's share of
        its mean square."""
        x = self.points(slot, members)
        normals = None if normal is None else np.tile(normal, (len(x), 1))
        lift = self.problem.lift(source.operator, x, normals)
        if isinstance(source, Condition):
            value, what = source.value, f"{source.name} value"
        else:
            value, what = source.rhs, f"{source.name} right-hand side"
        scale = np.sqrt((weight * share)[:, None] * slot.weights)
        if isinstance(source, Condition) and callable(source.on):
            scale = scale * source.chosen(x).reshape(len(members), -1)
        at = (members, slot.rows)
        for number, field in enumerate(self.problem.fields):
            symbol = self.problem.symbol(source.operator, x, normals, field)
            for alpha, c in symbol.items():
                self.table(number, alpha)[at] = c.reshape(len(members), -1) * scale
        rhs = function_values(value, x, what) - lift
        self.h[at] = rhs.reshape(len(members), -1) * scale
        self.places.setdefault(source.name, []).append((*at, weight))
        self.shares.setdefault(source.name, []).append(share)

    def mean_weights(self) -> dict[str, float]:
        """Of all equations and conditions; by share where subdomains differ."""
        found = dict(self.weights)
        for name, shares in self.shares.items():
            weights = np.concatenate([weight for _, _, weight in self.places[name]])
            same = np.all(weights == weights[0])
            mean = weights[0] if same else np.average(weights, weights=np.concatenate(shares))
            found[name] = float(mean)
        names = [e.name for e in self.problem.equations]
        names += [c.name for c in self.problem.conditions]
        return {name: found[name] for name in names}

    def hold(self, condition: Condition) -> None:
        """Rows of a condition on all its faces."""
        found = []
        domain = self.problem.domain
        assert isinstance(domain, Box)
        for name in condition.faces(domain):
            face = domain.face(name)
            key = (face.axis, int(face.sign > 0), WHOLE)
            slot = self.layout.faces[key][self.used[key]]
            self.used[key] += 1
            members = self.tiling.at_end(*key[:2])
            normal = np.eye(self.problem.domain.dimension)[face.axis] * face.sign
            found.append((slot, members, normal, face.axis))
        whole = sum(self._measure(condition, slot, members, a) for slot, members, _, a in found)
        if whole == 0:
            raise ValueError(
                f"{condition.name} selects none of the collocation points on its faces: raise "
                f"features or subdomains, or let its `on` select more"
            )
        if condition.weight is None:
            weight = self._balance(condition, found, whole)
        else:
            weight = np.full(len(self.everywhere), condition.weight)
        for slot, members, normal, axis in found:
            share = self.areas(axis, members) / whole
            self.fill(condition, slot, members, normal, weight[members], share)

    def _measure(self, condition: Condition, slot: Slot, members: np.ndarray, axis: int) -> float:
        """Area of the part of a face where a condition holds."""
        areas = self.areas(axis, members)
        if callable(condition.on):
            chosen = condition.chosen(self.points(slot, members)).reshape(len(members), -1)
            areas = areas * (chosen @ slot.weights)
        return settled(float(np.sum(areas)), MEASURED)

    def _balance(
        self,
        condition: Condition,
        found: list[tuple[Slot, np.ndarray, Array, int]],
        whole: float,
    ) -> Array:
        """The weight of a condition in every subdomain."""
        k = self.wavenumbers
        sizes, rate = np.zeros((len(self.problem.fields), len(k))), np.zeros(len(k))
        for slot, members, normal, axis in found:
            x = self.points(slot, members)
            normals = np.tile(normal, (len(x), 1))
            share = settled(self._measure(condition, slot, members, axis) / whole)
            sizes += share * operator_sizes(self.problem, condition.operator, x, normals, k)
            rate += share / k[:, axis]
        relative = self._relative(sizes, k)
        if not np.any(relative > 0):
            return np.ones(len(k))
        return np.asarray(relative**-2 * rate * whole / self.volume)

    def _relative(self, sizes: Array, k: Array) -> Array:
        """Sizes on every unknown in units of what the equations ask of it, over all unknowns."""
        used = sizes > 0
        W = np.where(used, self.equation_sizes(k), 1.0)
        return np.asarray(np.sum(np.where(used, sizes, 0.0) / W, axis=0))

    def measure(self, condition: PointCondition, rows: slice) -> Scattered:
        """Rows of measurements, each in the subdomain that contains its point."""
        x, n = self.problem.domain.wrapped(condition.points), len(condition.points)
        owner = owners(self.tiling, condition)
        counts = np.bincount(owner, minlength=self.tiling.count)
        order = np.argsort(owner, kind="stable")
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        k, weight = self.typical, condition.weight
        relative = float(
            self._relative(operator_sizes(self.problem, condition.operator, x, None, k), k)
        )
        if weight is None:
            share = n / float(np.prod(k)) / self.volume
            weight = relative**-2 * min(share, 1.0) if relative > 0 else 1.0
        scale, at = math.sqrt(weight / n), (owner, rows.start + rank)
        for number, field in enumerate(self.problem.fields):
            for alpha, c in self.problem.symbol(condition.operator, x, None, field).items():
                self.table(number, alpha)[at] = scale * c
        value = function_values(condition.value, condition.points, f"{condition.name} value")
        self.h[at] = scale * (value - self.problem.lift(condition.operator, x))
        weights = np.full(len(self.everywhere), weight)
        self.places[condition.name] = [(self.everywhere, rows, weights)]
        self.weights[condition.name] = weight
        own = np.repeat(self.tiling.centres[:, None], rows.stop - rows.start, axis=1)
        own[owner, rank] = x
        return Scattered(rows, own, counts)

    def add_up(self, condition: IntegralCondition, slot: Slot) -> Summed:
        """Rows of an integral: quadrature weights times its integrand, not yet added up."""
        x, J, k = self.points(slot, self.everywhere), self.tiling.count, self.typical
        measure = self.volumes[:, None] * slot.weights
        for number, field in enumerate(self.problem.fields):
            for alpha, c in self.problem.symbol(condition.operator, x, None, field).items():
                self.table(number, alpha)[:, slot.rows] = c.reshape(J, -1) * measure
        lift = self.problem.lift(condition.operator, x).reshape(J, -1)
        n = partial_sums(self.tiling.positions).rows
        relative = float(
            self._relative(operator_sizes(self.problem, condition.operator, x, None, k), k)
        )
        if relative == 0.0:
            raise ValueError(
                f"{condition.name!r} is zero whatever the solution is: drop it, or change `of`"
            )
        weight = condition.weight
        if weight is None:
            weight = (relative * self.volume) ** -2 * J / n
        self.weights[condition.name] = weight
        value = condition.number - float(np.sum(lift * measure))
        return Summed(condition.name, slot.rows, math.sqrt(n * weight), value)

    def glue(self) -> None:
        """On interior faces, the value and the normal derivatives below the equation's order."""
        W, orders = self.equation_sizes(self.wavenumbers), glue_orders(self.problem)
        for axis in range(self.problem.domain.dimension):
            k = self.wavenumbers[:, axis]
            self.pulls[axis] = np.stack(
                [W[f] * k ** (-m - 0.5) for f, own in enumerate(orders) for m in range(own[axis])],
                axis=1,
            )
        sides = (found for faces in interior_faces(self.tiling) for found in faces.by_side())
        for key, inner, _ in sides:
            inner, axis, slots = np.sort(inner), key[0], self.layout.faces[key]
            self.glued[key] = inner
            derivatives = [(f, m) for f, own in enumerate(orders) for m in range(own[axis])]
            whole = 1.0 if key[2] == WHOLE else 0.5 ** (len(self.typical) - 1)
            pieces = whole * self.areas(axis, inner)[:, None] / self.volume
            for number, ((f, m), slot) in enumerate(zip(derivatives, slots, strict=False)):
                alpha = tuple(m * (i == axis) for i in range(len(orders[f])))
                pull = self.pulls[axis][inner, number, None]
                self.table(f, alpha)[inner, slot.rows] = pull * np.sqrt(pieces * slot.weights)
