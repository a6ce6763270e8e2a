"""What a cell takes from its neighbours and what it gives them, axis by axis.

An equation of order N along an axis takes N data at the two ends of a cell: n from below and N - n
from above. With u' for the derivative along the axis and a wavenumber kappa of the face,

    from below   u^(j) of (d/dx - kappa)^(N - n) u,   j < n
    from above   u^(j) of (d/dx + kappa)^n u,         j < N - n

in units of u. Second order takes kappa u - u' from below and kappa u + u' from above: Robin data,
with which a cell is well posed whatever its neighbours are. An equation that starts at one end
(time, a wind) takes everything there and nothing at the other. What one neighbour takes the other
gives, so a cell's `given` are its neighbour's `taken`.

Where a problem starts is told by its conditions: as many at one end as the equation has orders, and
none at the other. Otherwise half is taken at either end, and an odd order, a wind, by the sign of
its coefficient. Unknowns that are differentiated once in the equation of another one (a pressure)
belong to its flux. In time kappa is larger there by as much as that equation asks more of u than
c k^2, c being the coefficient of u'': a pressure balances all of what moves a fluid, and viscosity
may be the least of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.cells.cell.groups import Group, Wind, groups, in_region, orders_along, turning
from tessella.cells.cell.sizes import monomial
from tessella.geometry.functions import Orders, function_values
from tessella.machine.arrays import Array
from tessella.problem.conditions import IntegralCondition, PointCondition
from tessella.problem.problem import Problem

KAPPA = 0.35
"""Wavenumber of the incoming data, in parts of the one that the features resolve. From a half to
four times as much changes the error by a small factor."""


class Term(NamedTuple):
    """factor * kappa^-order * d^order/dx^order of an unknown, or without kappa for a passenger."""

    field: int
    order: int
    factor: float
    power: int


@dataclass(frozen=True)
class Datum:
    """A functional of the traces on a face, in units of its unknown: a sum of terms."""

    field: int
    top: int
    terms: tuple[Term, ...]
    stiff: float = 1.0
    """How many times larger kappa is than that of its face: of a flux that carries a pressure."""


@dataclass(frozen=True)
class Along:
    """The data that cells exchange across one axis: taken from below, and taken from above."""

    below: tuple[Datum, ...]
    above: tuple[Datum, ...]
    winds: tuple[Wind, ...] = ()
    """Unknowns of which only one of the two holds at a point: that from which the wind blows."""

    def taken(self, side: int) -> tuple[Datum, ...]:
        """By a cell on its lower (0) or upper (1) face."""
        return self.above if side else self.below

    def given(self, side: int) -> tuple[Datum, ...]:
        return self.taken(1 - side)


Symbols = Sequence[Sequence[Mapping[Orders, Array]]]
"""[equation][unknown] -> the coefficient of every derivative at some points."""


def exchange(
    problem: Problem,
    points: Array,
    every: Array | None = None,
    symbols: Symbols | None = None,
    k: Array | None = None,
    shared: bool = False,
) -> tuple[Along, ...]:
    """What is exchanged across every axis; coefficients are looked at in some points inside, winds
    at `every` one, of which each process has its own if they are `shared`. `symbols` has the
    equations' coefficients at the points, if they are known, and k the wavenumbers that features
    resolve along every axis; without them a flux is as large as its own part."""
    orders, found = orders_along(problem), [Along((), ())] * problem.domain.dimension
    for group in groups(problem):
        own = in_region(problem, group, points)
        everywhere = own if every is None else in_region(problem, group, every, shared)
        means, rates = _coefficients(problem, group, own, symbols, k)
        for axis, known in enumerate(found):
            winds = turning(problem, group, axis, orders[:, axis], everywhere, shared)
            values = tuple(Datum(w.field, 0, (Term(w.field, 0, 1.0, 0),)) for w in winds)
            rest = group.without(winds)
            more = _along(problem, rest, axis, orders[:, axis], means, rates)
            found[axis] = Along(
                (*known.below, *more.below, *values),
                (*known.above, *more.above, *values),
                (*known.winds, *winds),
            )
    return tuple(found)


Means = list[list[dict[Orders, float]]]
"""[equation][unknown] -> the mean of every coefficient."""


def _coefficients(
    problem: Problem, group: Group, points: Array, symbols: Symbols | None, k: Array | None
) -> tuple[Means, Array | None]:
    """Of all equations that hold in a group, and nothing of the others; and what each of them asks
    of every unknown, in parts of k^2 along every axis, (E, F, d)."""
    found: Means = [[{} for _ in problem.fields] for _ in problem.equations]
    sizes = np.zeros((len(found), len(problem.fields), 1))
    for i in group.equations:
        for f in group.fields:
            if symbols is None or group.region is not None:
                operator, field = problem.equations[i].operator, problem.fields[f]
                own: Mapping[Orders, Array] = problem.symbol(operator, points, field=field)
            else:
                own = symbols[i][f]
            found[i][f] = {a: float(f"{np.mean(c):.3e}") for a, c in own.items()}
            if k is not None:
                rms = {a: float(np.sqrt(np.mean(c**2))) for a, c in own.items()}
                sizes[i, f] = sum(c * monomial(k, a) for a, c in rms.items())
    return found, None if k is None else sizes / k**2


def _along(
    problem: Problem, group: Group, axis: int, orders: Array, means: Means, rates: Array | None
) -> Along:
    below: list[Datum] = []
    above: list[Datum] = []
    fields = group.fields
    own_means = [means[e] for e in group.equations]
    total = _total_order(orders, axis, [[row[f] for f in fields] for row in own_means], fields)
    start, end = (_conditions_at(problem, group, axis, side) for side in (0, 1))
    one_way = 0
    if total and start >= total and not end:
        one_way = 1
    elif total and end >= total and not start:
        one_way = -1
    time = problem.domain.axes.index("t") if "t" in problem.domain.axes else None
    firsts = [f for f in fields if orders[f] == 1]
    own = total - int(sum(orders[f] for f in fields if orders[f] > 1))
    passengers = firsts if own <= 0 and len(firsts) < len(fields) and not one_way else []
    for field in fields:
        m = int(orders[field])
        if m == 0 or field in passengers or (m == 1 and not one_way):
            continue
        n = {1: m, -1: 0}.get(one_way, m // 2)
        if not one_way and m % 2:
            n = m // 2 + (_sign(field, axis, m, own_means) > 0)
            if len(fields) == 1 and start + end == m:
                n = start
        extra: tuple[Term, ...] = ()
        stiff = 1.0
        if m == 2 and passengers:
            driven = _evolves(field, own_means, time)
            driven &= not any(_evolves(f, own_means, time) for f in passengers)
            own_rates = None
            if rates is not None and driven:
                own_rates = rates[list(group.equations), field, axis]
            extra, stiff = _passengers(field, axis, passengers, own_means, own_rates)
        low, high = _split(field, m, n, extra, stiff)
        below += low
        above += high
    if not one_way and firsts and not passengers:
        low, high = _first_order(axis, firsts, own_means, time)
        below += low
        above += high
    return Along(tuple(below), tuple(above))


def _split(
    field: int, order: int, n: int, extra: Sequence[Term], stiff: float = 1.0
) -> tuple[list[Datum], list[Datum]]:
    """The data of one unknown, of which n come from below, with kappa larger by a factor."""

    def data(count: int, power: int, sign: int) -> list[Datum]:
        found = []
        for j in range(count):
            terms = [
                Term(field, i + j, math.comb(power, i) * float(sign) ** (power - i), i + j)
                for i in range(power + 1)
            ]
            # The flux carries its passengers, as u' does.
            every = [t._replace(factor=t.factor / stiff**t.power) for t in (*terms, *extra)]
            found.append(Datum(field, power + j, tuple(every), stiff))
        return found

    return data(n, order - n, -1), data(order - n, n, 1)


def _total_order(orders: Array, axis: int, means: Means, fields: Sequence[int]) -> int:
    """Data that a system takes along an axis: the degree of its determinant."""
    most = int(sum(orders[f] for f in fields))
    if len(means) != len(fields) or len(fields) < 2:
        return most
    dimension = max((len(alpha) for row in means for one in row for alpha in one), default=axis + 1)
    others = np.exp(1j * np.arange(1, dimension + 1))  # any wavenumbers, none of them special

    def determinant(scale: float) -> float:
        rate = others.copy()
        rate[axis] = scale * np.exp(0.7j)
        matrix = [[sum(c * np.prod(rate ** np.array(a)) for a, c in t.items()) for t in row]
                  for row in means]  # fmt: skip
        return float(abs(np.linalg.det(np.array(matrix, dtype=complex))))

    far, farther = determinant(1e4), determinant(1e5)
    if far == 0 or farther == 0:
        return most
    return max(0, round(math.log10(farther / far)))


def _conditions_at(problem: Problem, group: Group, axis: int, side: int) -> int:
    """Conditions at an end of an axis, those that an ansatz builds in counted too."""
    domain = problem.domain
    if domain.axes[axis] in domain.periodic:
        return 0
    name = f"{domain.axes[axis]}{('min', 'max')[side]}"
    names = [problem.fields[f] for f in group.fields]
    held = 0.0
    for c, share in shares(problem, name).items():
        operator = next(own.operator for own in problem.conditions if own.name == c)
        held += share if any(problem.terms(operator, field) for field in names) else 0.0
    return round(held) + sum(_vanishing(problem, field, axis, side) for field in names)


def shares(problem: Problem, name: str) -> dict[str, float]:
    """Of every condition on a face, on which part of it it holds."""
    domain, found = problem.domain, {}
    for c in problem.conditions:
        if isinstance(c, PointCondition | IntegralCondition) or name not in c.faces(domain):
            continue
        share = 1.0
        if callable(c.on):
            points, _ = domain.boundary(name, (FACE_POINTS,) * domain.dimension)
            share = float(np.mean(c.chosen(points))) if len(points) else 0.0
        found[c.name] = share
    return found


FACE_POINTS = 9
"""Points per axis of a face at which masks of conditions are looked at."""


def _vanishing(problem: Problem, field: str, axis: int, side: int) -> int:
    """To which order an ansatz's multiplier vanishes at an end of an axis."""
    multiplier = problem.multiplier(field)
    if not callable(multiplier):
        return 0
    domain = problem.domain
    end, other = domain.bounds[axis][side], domain.bounds[axis][1 - side]
    middle = (domain.lower + domain.upper) / 2 + 0.1234 * (domain.upper - domain.lower)
    x = np.tile(middle, (3, 1))
    x[:, axis] = end + np.array([1e-4, 2e-4, 0.4]) * (other - end)
    near, far, whole = np.abs(function_values(multiplier, x))
    if near == 0 or whole == 0:
        return 1 if near < whole else 0
    return max(0, round(math.log2(far / near))) if far > near else 0


def _sign(field: int, axis: int, order: int, means: Means) -> float:
    """Of the coefficient of an unknown's highest derivative along an axis."""
    for row in means:
        for alpha, c in row[field].items():
            if alpha[axis] == order and sum(alpha) == order and c != 0:
                return c if order % 4 == 1 else -c
    return 1.0


def _evolves(field: int, means: Means, time: int | None) -> bool:
    """Whether an unknown changes in time by an equation, as no pressure does."""
    return time is not None and any(alpha[time] for row in means for alpha in row[field])


def _passengers(
    field: int, axis: int, firsts: Sequence[int], means: Means, rates: Array | None
) -> tuple[tuple[Term, ...], float]:
    """What unknowns of first order add to the flux of one of second order, in its equation, and how
    many times more that asks of it."""
    for number, row in enumerate(means):
        second = sum(c for a, c in row[field].items() if a[axis] == 2 and sum(a) == 2)
        if not second:
            continue
        found = []
        for other in firsts:
            first = sum(c for a, c in row[other].items() if a[axis] == 1 and sum(a) == 1)
            if first:
                found.append(Term(other, 0, first / second, 1))
        if not found or rates is None:
            return tuple(found), 1.0
        return tuple(found), float(f"{rates[number] / abs(second):.3e}")
    return (), 1.0


def _first_order(
    axis: int, firsts: Sequence[int], means: Means, time: int | None
) -> tuple[list[Datum], list[Datum]]:
    """The characteristic combinations of unknowns that are differentiated once."""
    F, rows = len(firsts), [r for r in means if any(_slope(r[f], axis) for f in firsts)]
    if len(rows) != F:
        raise ValueError(
            f"{len(rows)} equations differentiate {F} unknowns once along axis {axis}: what "
            f"neighbouring subdomains exchange there is not known; use coupling='overlap'"
        )
    A = np.array([[_slope(row[f], axis) for f in firsts] for row in rows])
    A0 = np.array([[_evolution(row[f], axis, time) for f in firsts] for row in rows])
    if np.linalg.matrix_rank(A0) < F:
        A0 = np.eye(F)
    speeds, left = np.linalg.eig(np.linalg.solve(A0, A).T)
    if np.any(np.abs(speeds.imag) > 1e-9 * np.max(np.abs(speeds))) or _elliptic(
        axis, firsts, rows, A, time
    ):
        # Elliptic: differences of two unknowns from below, their sums from above.
        half = F // 2
        pick = np.eye(F)
        first, second = pick[:half], pick[half : 2 * half]
        parts = np.concatenate([first - second, pick[2 * half :]]), first + second
    else:
        speeds, left = speeds.real, left.real
        moving = np.abs(speeds) > 1e-9 * np.max(np.abs(speeds))
        parts = left.T[moving & (speeds > 0)], left.T[moving & (speeds < 0)]

    def data(rows: Array) -> list[Datum]:
        return [
            Datum(
                firsts[int(np.argmax(np.abs(row)))],
                0,
                tuple(Term(f, 0, float(c), 0) for f, c in zip(firsts, row, strict=True) if c),
            )
            for row in rows
        ]

    return data(parts[0]), data(parts[1])


def _elliptic(
    axis: int,
    firsts: Sequence[int],
    rows: Sequence[list[dict[Orders, float]]],
    A: Array,
    time: int | None,
) -> bool:
    """Whether waves along the other axes decay in both directions of this one."""
    d = len(next(iter(rows[0][firsts[0]]), ()))
    if time is not None or np.linalg.matrix_rank(A) < len(A):
        return False
    others = np.zeros_like(A)
    for i in range(d):
        if i != axis:
            others += (1 + 0.3 * i) * np.array(
                [[_slope(row[f], i) for f in firsts] for row in rows]
            )
    rates = np.linalg.eigvals(np.linalg.solve(A, -1j * others)).real
    size = 1e-6 * float(np.max(np.abs(rates), initial=0.0))
    return bool(np.any(rates < -size) and np.any(rates > size))


def _slope(coefficients: dict[Orders, float], axis: int) -> float:
    return sum(c for a, c in coefficients.items() if a[axis] == 1 and sum(a) == 1)


def _evolution(coefficients: dict[Orders, float], axis: int, time: int | None) -> float:
    """The coefficient of the first derivative in time, if there is time."""
    return 0.0 if time in (None, axis) else _slope(coefficients, time)
