"""A problem on cells: what is asked of each of them, and at which ports they meet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from tessella.cells.basis import AnyCellBasis, CellBasis
from tessella.cells.draw import Slot
from tessella.cells.enriched import Enriching
from tessella.cells.exchange import Along, exchange
from tessella.cells.groups import orders_along
from tessella.cells.joining import Face
from tessella.cells.port import Port
from tessella.cells.ports import Crossing, blown, ports_of, with_open
from tessella.cells.rows import Asked, Place, Said, Stating
from tessella.cells.shaped import shaped_cells
from tessella.cells.tiled import Cells, cells_of
from tessella.geometry.box import Box
from tessella.machine.arrays import Array
from tessella.machine.memory import require
from tessella.overlap.basis import per_field
from tessella.overlap.points import Grid
from tessella.problem.conditions import IntegralCondition, PointCondition
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem

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


@dataclass(frozen=True, repr=False)
class CellSystem:
    """What is asked of all cells, with their right-hand sides; not yet filtered or factored."""

    problem: Problem
    basis: AnyCellBasis
    cells: Cells
    stating: Stating
    along: tuple[Along, ...]
    asked: tuple[Asked, ...]
    sums: tuple[Sum, ...]
    ports: tuple[tuple[Port, ...], ...]
    crossings: tuple[tuple[int, ...], ...]
    """The numbers of the faces at every cell's ports."""
    faces: tuple[Face, ...]
    said: tuple[Said, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<CellSystem of {self.problem.name!r}: {self.cells.count:,} subdomains with "
            f"{self.rows:,} rows, {self.traces:,} numbers cross their {len(self.faces):,} faces>"
        )

    @property
    def weights(self) -> dict[str, float]:
        names = [e.name for e in self.problem.equations]
        names += [c.name for c in self.problem.conditions]
        return {name: self.stating.weights[name] for name in names}

    @cached_property
    def rows(self) -> int:
        own = sum(part.h.size for part in self.asked) + len(self.sums)
        every = list(chain.from_iterable(self.ports))
        numbers, ports = Counter(map(id, every)), {id(port): port for port in every}
        return own + sum(n * len(ports[k].slot) * len(ports[k].taken) for k, n in numbers.items())

    @cached_property
    def traces(self) -> int:
        return sum(f.up + f.down for f in self.faces)

    @cached_property
    def bases(self) -> tuple[CellBasis, ...]:
        every = per_field(self.basis, self.problem.fields)
        return tuple(own for own in every if isinstance(own, CellBasis))

    @cached_property
    def enriching(self) -> Enriching:
        return Enriching(self.bases, self.cells.number, self.cells.centres, self.cells.half_widths)

    @cached_property
    def orders(self) -> Array:
        """How often the equations differentiate every unknown along every axis, (F, d)."""
        return orders_along(self.problem)

    @property
    def h(self) -> Array:
        """The data of all statements, weighed as in the loss."""
        found = []
        for part in self.asked:
            lam = self.stating.weights[part.name]
            found.append((part.h * np.sqrt(lam / part.unit)[:, None]).ravel())
        return np.concatenate(found)

    @property
    def right(self) -> Array:
        """All right-hand sides as one vector: those of the rows, then those of the sums."""
        return np.concatenate([*(part.h.ravel() for part in self.asked), self._values])

    @property
    def _values(self) -> Array:
        return np.array([total.value for total in self.sums])

    def split(self, right: Array) -> tuple[list[Array], Array]:
        """Such a vector, or several one below the other (k, size), as h of every statement's rows
        (members, n), or (members, k, n), and the values of the sums."""
        found, start = [], 0
        for part in self.asked:
            end = start + part.h.size
            own = right[..., start:end].reshape(*right.shape[:-1], *part.h.shape)
            found.append(own if own.ndim == 2 else np.ascontiguousarray(own.swapaxes(0, 1)))
            start = end
        return found, right[..., start:]

    def has_matrix_of(self, other: CellSystem) -> bool:
        """Whether only right-hand sides differ, up to rounding of the points."""
        if len(self.asked) != len(other.asked) or len(self.sums) != len(other.sums):
            return False
        if self.enriching.count or other.enriching.count:
            return False  # functions of absolute places
        if [s.weight for s in self.sums] != [s.weight for s in other.sums]:
            return False
        pairs = {
            (id(a), id(b)): (a, b)
            for mine, theirs in zip(self.ports, other.ports, strict=True)
            for a, b in zip(mine, theirs, strict=True)
            if a is not b
        }
        if not all(_same_port(a, b) for a, b in pairs.values()):
            return False
        mine = [*self.asked, *(p for s in self.sums for p in s.parts)]
        theirs = [*other.asked, *(p for s in other.sums for p in s.parts)]
        if len(mine) != len(theirs) or self.faces != other.faces:
            return False
        return all(_same_rows(a, b) for a, b in zip(mine, theirs, strict=True))


def retuned(system: CellSystem, tuning: float) -> CellSystem:
    """The same system with other wavenumbers of the incoming data."""
    enriching = system.enriching if system.enriching.count else None
    crossing = Crossing(system.cells, system.along, system.stating, enriching, tuning)
    ports = ports_of(crossing)
    if len(ports.faces) < len(system.faces):
        ports = with_open(crossing, ports, system.traces) or ports
    return replace(system, ports=ports.own, crossings=ports.crossings, faces=ports.faces)


def _check_sizes(problem: Problem, basis: AnyCellBasis, inner: Sequence[Place]) -> None:
    """Refuse tables that would not fit, before they are made; half as much again is at work."""
    points = sum(len(p.members) * len(p.slot) for p in inner)
    axes = problem.domain.axes
    orders = {t.orders for e in problem.equations for t in e.operator.expand(axes)}
    require(
        24 * points * len(problem.equations) * (len(orders) * len(problem.fields) + 1),
        f"{basis.decomposition.count:,} subdomains with {points:,} points",
        "use fewer features, subdomains or points",
    )


def _same_port(a: Port, b: Port) -> bool:
    """Whether two ports take and give the same, up to rounding."""
    exact = (a.axis, a.side, a.taken, a.given) == (b.axis, b.side, b.taken, b.given)
    return exact and np.allclose(
        [a.kappa, a.half_width, *a.pulls], [b.kappa, b.half_width, *b.pulls], rtol=1e-9, atol=0.0
    )


def _same_rows(a: Asked, b: Asked) -> bool:
    if a.symbol.keys() != b.symbol.keys() or not np.array_equal(a.members, b.members):
        return False
    if a.slot is not b.slot and not (
        a.slot.points.shape == b.slot.points.shape
        and np.allclose(a.slot.points, b.slot.points, rtol=0.0, atol=1e-9)
    ):
        return False
    return all(
        a.symbol[key].shape == b.symbol[key].shape
        and np.allclose(a.symbol[key], b.symbol[key], rtol=1e-11, atol=0.0)
        for key in a.symbol
    )


def cell_system(problem: Problem, basis: AnyCellBasis, grid: Grid) -> CellSystem:
    """(Problem, basis, points) -> the rows of all cells."""
    plain = isinstance(problem.domain, Box)
    cells = cells_of(problem, basis, grid) if plain else shaped_cells(problem, basis, grid)
    columns = max(own.features.columns for own in basis.levels)
    stating = Stating(problem, cells.centres, cells.half_widths, cells.volumes, columns)
    inner = cells.inner()
    _check_sizes(problem, basis, inner)
    x = stating.points(inner)
    asked = [part for e in problem.equations for part in stating.equation(e, inner, x)]
    stating.learn(asked, cells.rooms)
    step = max(1, cells.count // 4)
    along = exchange(problem, x[::step], x, stating.sampled(step), stating.typical)
    if any(own.winds for own in along):
        cells = replace(cells, faces=blown(cells, problem, along))
    each = per_field(basis, problem.fields)
    bases = tuple(own for own in each if isinstance(own, CellBasis))
    enriching = Enriching(bases, cells.number, cells.centres, cells.half_widths)
    crossing = Crossing(cells, along, stating, enriching if enriching.count else None)
    ports = ports_of(crossing)
    extras = [c for c in problem.conditions if isinstance(c, PointCondition | IntegralCondition)]
    rows = sum(len(c.points) if isinstance(c, PointCondition) else 1 for c in extras)
    opened = with_open(crossing, ports, rows) if plain else None
    free = bool(extras) and _constants_are_free(problem, x[: len(inner[0].slot)])
    sums: list[Sum] = []
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            sums.append(_integral(stating, cells, condition))
        elif isinstance(condition, PointCondition):
            for part in _measured(stating, cells, condition):
                alone = not ports.own[int(part.members[0])]
                if (opened is not None or free) and not alone:
                    sums += _each_as_sum(stating, part)
                else:
                    asked.append(part)
        else:
            places = [
                p for name in condition.faces(problem.domain)
                for p in cells.on(problem, name)
            ]  # fmt: skip
            asked += stating.condition(condition, places)
    system = CellSystem(
        problem, basis, cells, stating, along, tuple(asked), tuple(sums), *(opened or ports),
        tuple(stating.said),
    )  # fmt: skip
    if system.rows < basis.columns and plain:
        raise ValueError(
            f"the system has fewer rows than columns ({system.rows} < {basis.columns}): raise "
            f"oversampling (or points_per_axis), or use fewer features"
        )
    return system


def _constants_are_free(problem: Problem, x: Array) -> bool:
    """Whether some unknown may be raised by a constant without any equation or condition on the
    boundary noticing: then measurements are rows of the whole, which they determine."""
    origin, normals = (0,) * x.shape[1], np.tile(np.eye(x.shape[1])[0], (len(x), 1))
    held = [c for c in problem.conditions if not isinstance(c, PointCondition | IntegralCondition)]

    def noticed(operator: Operator, field: str) -> bool:
        return bool(np.any(problem.symbol(operator, x, normals, field).get(origin, 0.0)))

    operators = [e.operator for e in problem.equations] + [c.operator for c in held]
    fields = [f for f in problem.fields if not callable(problem.multiplier(f))]
    return any(not any(noticed(operator, field) for operator in operators) for field in fields)


def _measured(stating: Stating, cells: Cells, condition: PointCondition) -> list[Asked]:
    """Rows of measurements, in the cells that contain their points."""
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
    if weight is None:
        relative = stating.relative(condition.operator, x)
        share = n / float(np.prod(k)) / stating.volume
        weight = relative**-2 * min(share, 1.0) if relative > 0 else 1.0
    stating.weights[condition.name] = float(weight)
    values = condition.values(condition.points)
    lift = problem.lift(condition.operator, x)
    values = values - lift
    symbols = [problem.symbol(condition.operator, x, None, field) for field in problem.fields]
    found = []
    for cell in np.unique(owner).tolist():
        own = point[owner == cell]
        half = cells.half_widths[cell]
        z = (x[own] - cells.centres[cell]) / half
        scale = math.sqrt(weight / n * stating.volume / stating.boxes[cell])
        symbol = {
            (f, alpha): (scale * c[own] * np.prod(half ** -np.array(alpha, dtype=float)))[None]
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


def _each_as_sum(stating: Stating, part: Asked) -> list[Sum]:
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


def _integral(stating: Stating, cells: Cells, condition: IntegralCondition) -> Sum:
    """The integral over all cells, in units of the domain's volume."""
    problem = stating.problem
    parts, lifted = [], 0.0
    places = cells.sums(SUM_POINTS)
    x = stating.points(places)
    symbols = [problem.symbol(condition.operator, x, None, field) for field in problem.fields]
    lift, start = problem.lift(condition.operator, x), 0
    for place in places:
        shape = (len(place.members), len(place.slot))
        here = slice(start, start + shape[0] * shape[1])
        start = here.stop
        measure = stating.boxes[place.members][:, None] * place.slot.weights / stating.volume
        lifted += float(np.sum(lift[here].reshape(shape) * measure))
        half, symbol = cells.half_widths[place.members], {}
        for f, own in enumerate(symbols):
            for alpha, c in own.items():
                unit = np.prod(half ** -np.array(alpha, dtype=float), axis=1)[:, None]
                symbol[f, alpha] = c[here].reshape(shape) * measure * unit
        nothing, one = np.zeros(shape), np.ones(shape[0])
        parts.append(
            Asked(condition.name, place.slot, place.members, symbol, nothing, nothing, nothing, one)
        )
    relative = stating.relative(condition.operator, x)
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
    return Sum(
        condition.name, tuple(parts), value, math.sqrt(weight) * size, 1 / size, lifted * size, size
    )
