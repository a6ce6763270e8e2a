"""What the equations and conditions ask of every cell, as rows of its least-squares problem.

A row is sum_alpha c_alpha D^alpha v = h at a point of a slot, in the cell's own coordinates and
with its weight folded in. Weights follow the norms in which a solution depends on its data. With
k_i the wavenumber that the features resolve along axis i and W = sum_alpha |c_alpha| k^alpha the
size of the equation there, the m-th normal derivative on a face across axis i weighs
W k_i^(-m - 1/2) against the equation (for the Laplacian: k^(3/2) for the value, k^(1/2) for the
normal derivative). A condition without weight weighs as much as the normal derivative of its size;
measurements each as a piece of face of the size that the features resolve. Each unknown of a system
has its own W.

Cells of different size have their own k and their own weights. What is common to all is rounded
(see `settled`), so that a cell which a refinement leaves as it is keeps its rows to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.cells.draw import Slot, placed
from tessella.geometry.functions import Orders
from tessella.geometry.lattice import gridded
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition
from tessella.problem.operators import Operator
from tessella.problem.problem import Equation, Problem
from tessella.problem.statement import Statement

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


class Place(NamedTuple):
    """Cells that have a statement's rows at the same slot, its points' share of a cell's volume
    (members,) per unit of slot weight, and the normals there if it is on a boundary.

    grid  cells along every axis and points of each, where all of them fill a grid
    """

    slot: Slot
    members: np.ndarray
    measure: Array
    normals: Array | None = None
    axis: int | None = None
    grid: tuple[tuple[int, ...], tuple[int, ...]] | None = None


Mask = NDArray[np.bool_]

Symbol = dict[tuple[int, Orders], Array]


@dataclass(frozen=True)
class Asked:
    """Rows of one statement at one slot of some cells.

    symbol  (unknown, alpha) -> (members, n), weights and the cells' units folded in
    h       (members, n)
    scale, lift
            (members, n): h = scale * (data - lift)
    unit    (members,): squares of residuals over it sum up to the statement's mean square
    normals (n, d) at the points of the slot, on a boundary
    """

    name: str
    slot: Slot
    members: np.ndarray
    symbol: Symbol
    h: Array
    scale: Array
    lift: Array
    unit: Array
    normals: Array | None = None

    def of(self, chosen: Mask) -> Asked:
        """Some of its members only, (members,)."""
        symbol = {key: c[chosen] for key, c in self.symbol.items()}
        h, scale, lift, unit = (x[chosen] for x in (self.h, self.scale, self.lift, self.unit))
        own = (h, scale, lift, unit, self.normals)
        return Asked(self.name, self.slot, self.members[chosen], symbol, *own)

    @cached_property
    def alike(self) -> bool:
        """Whether all members have the same coefficients."""
        return all(bool((c == c[:1]).all()) for c in self.symbol.values())

    def at(self, member: int) -> int:
        """The position of a cell among the members, or -1."""
        found = int(np.searchsorted(self.members, member))
        hit = found < len(self.members) and self.members[found] == member
        return found if hit else -1


class Said(NamedTuple):
    """A statement where it was asked: its name, its points and the normals there, and how many
    `Asked` were made of it; 0 if not of all points."""

    name: str
    points: Array
    normals: Array | None
    parts: int


class Stating:
    """Statements on their way to rows: sizes of cells, wavenumbers, sizes of the equations."""

    def __init__(
        self, problem: Problem, centres: Array, half_widths: Array, volumes: Array, columns: int
    ) -> None:
        self.problem, self.centres, self.half_widths = problem, centres, half_widths
        d = problem.domain.dimension
        self.boxes = np.prod(2 * half_widths, axis=1)
        self.volume = float(volumes.sum())
        self.k = columns ** (1 / d) / (2 * half_widths)
        mean = np.exp(np.average(np.log(2 * half_widths), axis=0, weights=volumes))
        self.typical = columns ** (1 / d) / np.array([settled(x, 6) for x in mean.tolist()])
        self.coefficients: dict[tuple[int, Orders], float] = {}
        self.symbols: list[list[dict[Orders, Array]]] = []
        """Of every equation and unknown, the coefficients at all points."""
        self.first_size = 0.0
        self.weights: dict[str, float] = {}
        self.said: list[Said] = []

    def points(self, places: Sequence[Place]) -> Array:
        """All points of the places, one after the other."""
        found = [placed(p.slot.points, self.centres[p.members], self.half_widths[p.members])
                 for p in places]  # fmt: skip
        every = [x.reshape(-1, x.shape[2]) for x in found]
        if len(places) == 1 and places[0].grid is not None:
            return gridded(every[0], *places[0].grid)
        return np.concatenate(every)

    def normals(self, places: Sequence[Place]) -> Array | None:
        found = [np.tile(p.normals, (len(p.members), 1)) for p in places if p.normals is not None]
        return np.concatenate(found) if found else None

    # --- equations

    def equation(self, equation: Equation, places: Sequence[Place], x: Array) -> list[Asked]:
        """Rows of an equation at these places, whose points are x."""
        weight = self._equation_weight(equation, x)
        self.weights[equation.name] = weight
        asked = self.stated(
            equation, places, x,
            [np.full(len(p.members), weight) for p in places],
            [np.full(len(p.members), weight) for p in places],
        )  # fmt: skip
        return asked

    def sampled(self, step: int) -> list[list[dict[Orders, Array]]]:
        """The equations' coefficients at every so many points."""
        return [[{a: c[::step] for a, c in one.items()} for one in own] for own in self.symbols]

    def _equation_weight(self, equation: Equation, x: Array) -> float:
        """As given, or 1 for the first equation and what makes the others as large as it."""
        if len(self.problem.equations) == 1:
            return 1.0 if equation.weight is None else equation.weight
        x = self.problem.within(equation, x)
        size = float(operator_sizes(self.problem, equation.operator, x, None, self.typical).sum())
        self.first_size = self.first_size or size
        if equation.weight is not None:
            return equation.weight
        return settled((self.first_size / size) ** 2) if size > 0 else 1.0

    def learn(self, asked: Sequence[Asked], rooms: Array) -> None:
        """Root mean squares of the equations' coefficients where the unknowns live: in these parts
        of the domain, (F,)."""
        squares: dict[tuple[int, Orders], float] = {}
        for part in asked:
            share = self.boxes[part.members] / self.volume
            for (f, alpha), c in part.symbol.items():
                physical = np.prod(self.half_widths[part.members] ** np.array(alpha), axis=1)
                mean = float(share @ (np.sum(c**2, axis=1) * physical**2))
                squares[f, alpha] = squares.get((f, alpha), 0.0) + mean
        self.coefficients = {
            (f, alpha): settled(math.sqrt(s / rooms[f]))
            for (f, alpha), s in squares.items()
            if s > 0
        }

    def sizes(self, k: Array) -> Array:
        """W of every unknown at wavenumbers k (..., d), shape (F, ...)."""
        W = np.zeros((len(self.problem.fields), *k.shape[:-1]))
        for (number, alpha), rms in self.coefficients.items():
            W[number] += rms * np.prod(k ** np.array(alpha), axis=-1)
        return W

    # --- conditions

    def condition(self, condition: Condition, places: Sequence[Place]) -> list[Asked]:
        """Rows of a condition on its parts of the boundary."""
        x = self.points(places)
        chosen = condition.chosen(x) if callable(condition.on) else None
        whole = self._measure(places, chosen)
        if whole == 0:
            raise ValueError(
                f"{condition.name} selects none of the collocation points on its faces: raise "
                f"features or subdomains, or let its `on` select more"
            )
        if condition.weight is None:
            scale = self._balance(condition, places, x, chosen)
            lam = [s * whole / self.volume for s in scale]
        else:
            lam = [np.full(len(p.members), float(condition.weight)) for p in places]
            scale = [w * self.volume / whole for w in lam]
        members = np.concatenate([p.measure * self.boxes[p.members] for p in places])
        self.weights[condition.name] = float(np.average(np.concatenate(lam), weights=members))
        asked = self.stated(condition, places, x, scale, lam)
        if chosen is None:
            return asked
        kept, start = [], 0
        for part in asked:
            end = start + part.h.size
            here = chosen[start:end].reshape(part.h.shape)
            start = end
            part.h[...] *= here
            part.scale[...] *= here
            for c in part.symbol.values():
                c *= here
            kept.append(part)
        return kept

    def _measure(self, places: Sequence[Place], chosen: Mask | None) -> float:
        """Of the part of the boundary where a condition holds."""
        total, start = 0.0, 0
        for p in places:
            each = (p.measure * self.boxes[p.members])[:, None] * p.slot.weights
            end = start + each.size
            if chosen is not None:
                each = each * chosen[start:end].reshape(each.shape)
            total += float(np.sum(each))
            start = end
        return settled(total, MEASURED)

    def _balance(
        self,
        condition: Condition,
        places: Sequence[Place],
        x: Array,
        chosen: Mask | None,
    ) -> list[Array]:
        """Squares of the weights of a condition's rows, in every cell of every place."""
        normals = self.normals(places)
        if chosen is not None:
            x, normals = x[chosen], None if normals is None else normals[chosen]
        k = self.k
        sizes = operator_sizes(self.problem, condition.operator, x, normals, k)
        relative, found = self._relative(sizes, k), []
        for p in places:
            own = relative[p.members]
            if not np.any(own > 0):
                found.append(np.ones(len(p.members)))
                continue
            rate = self._rate(p)
            found.append(np.where(own > 0, own, 1.0) ** -2 * rate)
        return found

    def _rate(self, place: Place) -> Array:
        k = self.k[place.members]
        if place.axis is not None:
            return np.asarray(1 / k[:, place.axis])
        space = [i for i, name in enumerate(self.problem.domain.axes) if name != "t"]
        return np.asarray(1 / np.exp(np.mean(np.log(k[:, space or [0]]), axis=1)))

    def _relative(self, sizes: Array, k: Array) -> Array:
        """Sizes on every unknown in units of what the equations ask of it, over all unknowns."""
        used = sizes > 0
        W = np.where(used, self.sizes(k), 1.0)
        W = np.where(W > 0, W, 1.0)
        return np.asarray(np.sum(np.where(used, sizes, 0.0) / W, axis=0))

    def relative(self, operator: Operator, x: Array) -> float:
        """The size of an operator in units of the equations, at typical wavenumbers."""
        sizes = operator_sizes(self.problem, operator, x, None, self.typical)
        return float(self._relative(sizes, self.typical))

    # --- rows

    def stated(
        self,
        source: Statement,
        places: Sequence[Place],
        x: Array,
        scale: Sequence[Array],
        weight: Sequence[Array],
    ) -> list[Asked]:
        """Rows at all places, but for cells in which the statement holds nowhere; the given
        functions are called once, at all points together."""
        problem, normals = self.problem, self.normals(places)
        lift = problem.lift(source.operator, x, normals)
        given = source.values(x, normals) - lift
        symbols = [problem.symbol(source.operator, x, normals, field) for field in problem.fields]
        if isinstance(source, Equation):
            self.symbols.append(symbols)
        inside = None
        if isinstance(source, Equation) and source.where is not None:
            inside = source.holds(problem.domain, x)
            given = given * inside
            symbols = [{alpha: c * inside for alpha, c in own.items()} for own in symbols]
        found, start = [], 0
        for p, s, w in zip(places, scale, weight, strict=True):
            shape = (len(p.members), len(p.slot))
            here = slice(start, start + shape[0] * shape[1])
            start = here.stop
            factor = np.sqrt((s * p.measure)[:, None] * p.slot.weights)
            half = self.half_widths[p.members]
            symbol = {}
            for f, own in enumerate(symbols):
                for alpha, c in own.items():
                    unit = np.prod(half ** -np.array(alpha, dtype=float), axis=1)[:, None]
                    table = c[here].reshape(shape) * (factor * unit)
                    if np.any(table):
                        symbol[f, alpha] = table
            h = given[here].reshape(shape) * factor
            unit = w * self.volume / self.boxes[p.members]
            scaled = factor if inside is None else factor * inside[here].reshape(shape)
            lifted = lift[here].reshape(shape)
            numbers = (h, scaled, lifted, unit, p.normals)
            asked = Asked(source.name, p.slot, p.members, symbol, *numbers)
            if inside is not None:
                asked = asked.of(np.asarray(inside[here].reshape(shape).any(axis=1)))
            if len(asked.members):
                found.append(asked)
        whole = inside is None and len(found) == len(places)
        self.said.append(Said(source.name, x, normals, len(found) if whole else 0))
        return found
