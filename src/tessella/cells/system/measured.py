"""Measurements and integrals: rows of single cells, and rows over all of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tessella.cells.cell.draw import Slot
from tessella.cells.cell.rows import Asked, Stating
from tessella.cells.cell.sizes import monomial
from tessella.cells.system.tiled import Cells
from tessella.machine import processes
from tessella.problem.conditions import IntegralCondition, PointCondition

SUM_POINTS = 10
"""Fewest Gauss points per axis and cell for an integral."""


class Sum(NamedTuple):
    """A row over all cells: the sum over its cells of symbol . D^alpha v should be `value`.

    `size` makes it what its statement asks for; the value is scale * (datum - lift).
    """

    name: str
    parts: tuple[Asked, ...]
    value: float
    weight: float
    scale: float
    lift: float
    size: float = 1.0


def measured(stating: Stating, cells: Cells, condition: PointCondition) -> list[Asked]:
    """Rows of measurements, in the cells that contain their points, whoever has these."""
    problem = stating.problem
    x, n = problem.domain.wrapped(condition.points), len(condition.points)
    owner, point = cells.owners(x)
    if len(point) < n:
        lost = sorted(set(range(n)) - set(point.tolist()))[0]
        raise ValueError(
            f"{condition.name} has a point at {tuple(condition.points[lost].tolist())}, which no "
            f"subdomain sees: move it inside {problem.domain!r}, or leave it out"
        )
    k, weight = stating.typical, condition.weight
    symbols = [problem.symbol(condition.operator, x, None, field) for field in problem.fields]
    if weight is None:
        relative = stating.relative(symbols, shared=False)
        share = n / float(np.prod(k)) / stating.volume
        weight = relative**-2 * min(share, 1.0) if relative > 0 else 1.0
    stating.weights[condition.name] = float(weight)
    values = condition.values(condition.points)
    lift = problem.lift(condition.operator, x)
    values = values - lift
    found = []
    for cell in np.unique(owner).tolist():
        own = point[owner == cell]
        half = cells.half_widths[cell]
        z = (x[own] - cells.centres[cell]) / half
        scale = math.sqrt(weight / n * stating.volume / stating.boxes[cell])
        symbol = {
            (f, alpha): (scale * c[own] / monomial(half, alpha))[None]
            for f, one in enumerate(symbols)
            for alpha, c in one.items()
        }
        unit = np.array([weight * stating.volume / stating.boxes[cell]])
        slot = Slot(z, np.full(len(z), 1 / n))
        found.append(
            Asked(
                condition.name,
                slot,
                np.array([cell]),
                symbol,
                scale * values[own][None],
                np.full((1, len(z)), scale),
                lift[own][None],
                unit,
            )
        )
    return found


def each_as_sum(stating: Stating, part: Asked) -> list[Sum]:
    """Measurements as rows of the whole, one each: they tell what walls leave open."""
    found = []
    unit, weight = math.sqrt(float(part.unit[0])), math.sqrt(stating.weights[part.name])
    for i in range(len(part.slot)):
        symbol = {key: c[:, i : i + 1] / unit for key, c in part.symbol.items()}
        slot = Slot(part.slot.points[i : i + 1], np.ones(1))
        nothing = np.zeros((1, 1))
        one = Asked(part.name, slot, part.members, symbol, nothing, nothing, nothing, np.ones(1))
        value, scale = float(part.h[0, i]) / unit, float(part.scale[0, i]) / unit
        found.append(Sum(part.name, (one,), value, weight, scale, float(part.lift[0, i])))
    return found


def integral(stating: Stating, cells: Cells, condition: IntegralCondition) -> Sum:
    """The integral over all cells, in units of the domain's volume."""
    problem = stating.problem
    parts, lifted = [], 0.0
    where = stating.points.where(cells.sums(SUM_POINTS))
    start = 0
    with processes.in_unison("functions"):
        lift = problem.lift(condition.operator, where.x)
        found = [problem.symbol(condition.operator, where.x, None, f) for f in problem.fields]
    if stating.shared:
        stating.compare(condition, where, None, found)
    symbols = [{alpha: where.own(c) for alpha, c in own.items()} for own in found]
    for place in where.places:
        shape = (len(place.members), len(place.slot))
        here = slice(start, start + place.height)
        start = here.stop
        measure = stating.boxes[place.members][:, None] * place.slot.weights / stating.volume
        lifted += float(np.sum(lift[here].reshape(shape) * measure))
        half, symbol = cells.half_widths[place.members], {}
        for f, own in enumerate(symbols):
            for alpha, c in own.items():
                unit = monomial(half, alpha)[:, None]
                symbol[f, alpha] = c[here].reshape(shape) * measure / unit
        nothing, one = np.zeros(shape), np.ones(shape[0])
        parts.append(
            Asked(condition.name, place.slot, place.members, symbol, nothing, nothing, nothing, one)
        )
    lifted, relative = stating.total([lifted])[0], stating.relative(symbols)
    if relative == 0.0:
        raise ValueError(
            f"{condition.name!r} is zero whatever the solution is: drop it, or change `of`"
        )
    weight = condition.weight
    if weight is None:
        weight = (relative * stating.volume) ** -2
    stating.weights[condition.name] = float(weight)
    value = condition.number / stating.volume - lifted
    size = stating.volume
    every = tuple(parts) or (Asked.nothing(condition.name, where.guest),)
    return Sum(
        condition.name, every, value, math.sqrt(weight) * size, 1 / size, lifted * size, size
    )
