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

from tessella.cells.cell.draw import Slot
from tessella.cells.cell.place import Compared, Place, Points, Where
from tessella.cells.cell.sizes import MEASURED, Mask, Symbols, monomial, settled, symbol_sizes
from tessella.cells.cell.space import Space
from tessella.geometry.functions import Orders
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition
from tessella.problem.problem import Equation, Problem
from tessella.problem.statement import Statement

Symbol = dict[tuple[int, Orders], Array]


class Spoken(NamedTuple):
    """What a statement says at points: what its operator makes of the ansatz's offset, its data
    less that, and the coefficients on every unknown."""

    lift: Array
    given: Array
    symbols: Symbols


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

    @staticmethod
    def nothing(name: str, at: Place) -> Asked:
        """Rows of zeros in somebody else's cell: of a statement that has none in the cells of this
        process, so that its data have a place in all processes."""
        zero = np.zeros((1, len(at.slot)))
        return Asked(name, at.slot, at.members[:1], {}, zero, zero, zero, np.ones(1), at.normals)

    @property
    def quiet(self) -> bool:
        """Whether it is such rows."""
        return not self.symbol and not self.scale.any()

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

    @cached_property
    def _common(self) -> dict[int, tuple[Space, Array]]:
        return {}

    def common(self, space: Space) -> Array:
        """The rows of members that are all alike on the features of a space, (n, r); remembered."""
        known = self._common.get(id(space))
        if known is None:
            rows = space.rows(self.slot, {key: c[0] for key, c in self.symbol.items()})
            known = self._common[id(space)] = space, rows
        return known[1]

    def at(self, member: int) -> int:
        """The position of a cell among the members, or -1."""
        found = int(np.searchsorted(self.members, member))
        hit = found < len(self.members) and self.members[found] == member
        return found if hit else -1


class Said(NamedTuple):
    """A statement where it was asked: its name, its points and the normals there, and how many
    `Asked` were made of it; None if not of all points."""

    name: str
    points: Array
    normals: Array | None
    parts: int | None


class Stating:
    """Statements on their way to rows: sizes of cells, wavenumbers, sizes of the equations.

    Of several processes each asks them in cells of its own (`whose`), and what is common to all
    cells is summed up over all.
    """

    def __init__(
        self,
        problem: Problem,
        centres: Array,
        half_widths: Array,
        volumes: Array,
        columns: int,
        whose: np.ndarray | None = None,
    ) -> None:
        self.problem, self.half_widths, self.shared = problem, half_widths, whose is not None
        self.points = Points(centres, half_widths, whose)
        d = problem.domain.dimension
        self.boxes = np.prod(2 * half_widths, axis=1)
        self.volume = float(volumes.sum())
        self.k = columns ** (1 / d) / (2 * half_widths)
        mean = np.exp(volumes @ np.log(2 * half_widths) / self.volume)
        self.typical = columns ** (1 / d) / np.array([settled(x, 6) for x in mean.tolist()])
        self.coefficients: dict[tuple[int, Orders], float] = {}
        self.symbols: list[Symbols] = []
        """Of every equation and unknown, the coefficients at all points of this process."""
        self.first_size = 0.0
        self.weights: dict[str, float] = {}
        self.said: list[Said] = []
        self.compared: list[Compared] = []
        """What all processes must have found alike."""

    def total(self, own: Sequence[float]) -> list[float]:
        """Sums over all processes."""
        if not self.shared:
            return list(own)
        return [float(x) for x in processes.total("statements", np.array(own))]

    def _sizes_of(self, symbols: Symbols, k: Array, some: Mask | None) -> Array:
        return symbol_sizes(symbols, k, some, self.total)

    # --- equations

    def equation(self, equation: Equation, where: Where) -> list[Asked]:
        """Rows of an equation at these places."""
        spoken = self.spoken(equation, where)
        inside = None
        if equation.where is not None:
            with processes.in_unison("functions"):
                inside = where.own(equation.holds(self.problem.domain, where.x))
        weight = self._equation_weight(equation, spoken, inside)
        self.weights[equation.name] = weight
        self.symbols.append(spoken.symbols)
        each = [np.full(len(p.members), weight) for p in where.places]
        return self.stated(equation, where, spoken, each, each, inside)

    def sampled(self, some: slice | Mask) -> list[Symbols]:
        """The equations' coefficients at some points."""
        return [[{a: c[some] for a, c in one.items()} for one in own] for own in self.symbols]

    def _equation_weight(self, equation: Equation, spoken: Spoken, inside: Mask | None) -> float:
        """As given, or 1 for the first equation and what makes the others as large as it."""
        if len(self.problem.equations) == 1:
            return 1.0 if equation.weight is None else equation.weight
        size = float(self._sizes_of(spoken.symbols, self.typical, inside).sum())
        self.first_size = self.first_size or size
        if equation.weight is not None:
            return equation.weight
        return settled((self.first_size / size) ** 2) if size > 0 else 1.0

    def learn(self, asked: Sequence[Asked], rooms: Array) -> None:
        """Root mean squares of the equations' coefficients where the unknowns live: in these parts
        of the domain, (F,)."""
        each = [(f, alpha) for own in self.symbols for f, one in enumerate(own) for alpha in one]
        squares = dict.fromkeys(each, 0.0)
        for part in asked:
            share = self.boxes[part.members] / self.volume
            for (f, alpha), c in part.symbol.items():
                physical = monomial(self.half_widths[part.members], alpha)
                mean = float(share @ (np.sum(c**2, axis=1) * physical**2))
                squares[f, alpha] += mean
        sums = self.total([*squares.values()])
        self.coefficients = {
            (f, alpha): settled(math.sqrt(s / rooms[f]))
            for (f, alpha), s in zip(squares, sums, strict=True)
            if s > 0
        }

    def sizes(self, k: Array) -> Array:
        """W of every unknown at wavenumbers k (..., d), shape (F, ...)."""
        W = np.zeros((len(self.problem.fields), *k.shape[:-1]))
        for (number, alpha), rms in self.coefficients.items():
            W[number] += rms * monomial(k, alpha)
        return W

    # --- conditions

    def condition(self, condition: Condition, places: Sequence[Place]) -> list[Asked]:
        """Rows of a condition on its parts of the boundary."""
        where = self.points.where(places)
        own, spoken, chosen = where.places, self.spoken(condition, where), None
        if callable(condition.on):
            with processes.in_unison("functions"):
                every = condition.chosen(where.x)
            chosen = where.own(every)
            if self.shared:
                common = [where.common(every.astype(np.float64))]
                self.compared.append(Compared(common, lambda: common))
        whole = self._measure(own, chosen)
        if whole == 0:
            raise ValueError(
                f"{condition.name} selects none of the collocation points on its faces: raise "
                f"features or subdomains, or let its `on` select more"
            )
        if condition.weight is None:
            scale = self._balance(own, spoken, chosen)
            lam = [s * whole / self.volume for s in scale]
        else:
            lam = [np.full(len(p.members), float(condition.weight)) for p in own]
            scale = [w * self.volume / whole for w in lam]
        members = [p.measure * self.boxes[p.members] for p in own]
        weighed = float(sum(np.sum(w * m) for w, m in zip(lam, members, strict=True)))
        weighed, measured = self.total([weighed, float(sum(map(np.sum, members)))])
        self.weights[condition.name] = weighed / measured
        asked = self.stated(condition, where, spoken, scale, lam)
        if chosen is None:
            return asked
        kept, start = [], 0
        for part in asked:
            if part.quiet:
                return asked
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
        return settled(self.total([total])[0], MEASURED)

    def _balance(self, places: Sequence[Place], spoken: Spoken, chosen: Mask | None) -> list[Array]:
        """Squares of the weights of a condition's rows, in every cell of every place."""
        sizes = self._sizes_of(spoken.symbols, self.k, chosen)
        relative, found = self._relative(sizes, self.k), []
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

    def relative(self, symbols: Symbols, shared: bool = True) -> float:
        """The size of an operator in units of the equations, at typical wavenumbers; from its
        coefficients at points of which every process has some, or all."""
        sizes = symbol_sizes(symbols, self.typical, None, self.total if shared else list)
        return float(self._relative(sizes, self.typical))

    # --- rows

    def spoken(self, source: Statement, where: Where) -> Spoken:
        """What a statement says at these points; its functions are called once, at all of them."""
        problem, at = self.problem, (where.x, where.normals)
        with processes.in_unison("functions"):
            lift = problem.lift(source.operator, *at)
            given = source.values(*at) - lift
            symbols = [problem.symbol(source.operator, *at, field) for field in problem.fields]
        if not self.shared:
            return Spoken(lift, given, symbols)
        self.compare(source, where, given, symbols)
        own = [{alpha: where.own(c) for alpha, c in symbol.items()} for symbol in symbols]
        return Spoken(where.own(lift), where.own(given), own)

    def compare(
        self, source: Statement, where: Where, given: Array | None, symbols: Symbols
    ) -> None:
        """Keep what a statement says at points that all processes have: its data, unless it is an
        integral, and its coefficients."""
        problem, x = self.problem, where.common(where.x)
        at = x, None if where.normals is None else where.common(where.normals)

        def again() -> list[Array]:
            each = [problem.symbol(source.operator, *at, field) for field in problem.fields]
            tables = [c for symbol in each for c in symbol.values()]
            if given is None:
                return tables
            return [source.values(*at) - problem.lift(source.operator, *at), *tables]

        found = [c for symbol in symbols for c in symbol.values()]
        tables = found if given is None else [given, *found]
        self.compared.append(Compared([where.common(table) for table in tables], again))

    def stated(
        self,
        source: Statement,
        where: Where,
        spoken: Spoken,
        scale: Sequence[Array],
        weight: Sequence[Array],
        inside: Mask | None = None,
    ) -> list[Asked]:
        """Rows at all places, but for cells in which the statement holds nowhere."""
        lift, given, symbols = spoken
        if inside is not None:
            given = given * inside
            symbols = [{alpha: c * inside for alpha, c in own.items()} for own in symbols]
        found, start = [], 0
        for p, s, w in zip(where.places, scale, weight, strict=True):
            shape = (len(p.members), len(p.slot))
            here = slice(start, start + p.height)
            start = here.stop
            factor = np.sqrt((s * p.measure)[:, None] * p.slot.weights)
            half = self.half_widths[p.members]
            symbol = {}
            for f, own in enumerate(symbols):
                for alpha, c in own.items():
                    unit = monomial(half, alpha)[:, None]
                    table = c[here].reshape(shape) * (factor / unit)
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
        whole = inside is None and len(found) == len(where.places)
        parts = len(found) if whole else None
        self.said.append(Said(source.name, where.x, where.normals, parts))
        return found or [Asked.nothing(source.name, where.guest)]
