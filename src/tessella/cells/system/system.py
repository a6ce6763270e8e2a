"""A problem on cells: what is asked of each of them, and at which ports they meet."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tessella.cells.boxes.basis import AnyCellBasis, CellBasis
from tessella.cells.cell.exchange import Along, exchange
from tessella.cells.cell.groups import orders_along
from tessella.cells.cell.place import Place
from tessella.cells.cell.rows import Asked, Said, Stating
from tessella.cells.system.enriched import Enriching
from tessella.cells.system.measured import Sum, each_as_sum, integral, measured
from tessella.cells.system.ports import Crossing, Ports, blown, ports_of, with_open
from tessella.cells.system.shaped import shaped_cells
from tessella.cells.system.stated import at_points, compare, fingerprint, of_all
from tessella.cells.system.tiled import Cells, cells_of
from tessella.geometry.box import Box
from tessella.machine import processes
from tessella.machine.alike import differing, refuse
from tessella.machine.arrays import Array
from tessella.machine.memory import require
from tessella.overlap.basis import per_field
from tessella.overlap.points import Grid
from tessella.problem.conditions import IntegralCondition, PointCondition
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem


@dataclass(frozen=True, repr=False)
class CellSystem:
    """What is asked of all cells, with their right-hand sides; not yet filtered or factored.

    Of several processes each has the rows in its own cells, in `asked` and in the parts of `sums`,
    and their data in right-hand sides; ports and faces all have of all cells.
    """

    problem: Problem
    basis: AnyCellBasis
    cells: Cells
    stating: Stating
    along: tuple[Along, ...]
    asked: tuple[Asked, ...]
    sums: tuple[Sum, ...]
    ports: Ports
    said: tuple[Said, ...] = ()
    stated: int = 0
    """Rows of all statements in all cells."""

    def __repr__(self) -> str:
        faces = self.ports.joints.faces
        return (
            f"<CellSystem of {self.problem.name!r}: {self.cells.count:,} subdomains with "
            f"{self.rows:,} rows, {self.traces:,} numbers cross their {faces:,} faces>"
        )

    @property
    def weights(self) -> dict[str, float]:
        names = [e.name for e in self.problem.equations]
        names += [c.name for c in self.problem.conditions]
        return {name: self.stating.weights[name] for name in names}

    @property
    def rows(self) -> int:
        return self.stated + self.ports.rows + len(self.sums)

    @property
    def traces(self) -> int:
        return self.ports.joints.traces

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
    def data_size(self) -> float:
        """The norm of all these."""
        return math.sqrt(self.stating.total([float(np.sum(self.h**2))])[0])

    @property
    def right(self) -> Array:
        """All right-hand sides as one vector: those of the rows, then those of the sums, which all
        processes have."""
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
        return not processes.largest("matrix", float(not self._has_matrix_of(other)))

    def _has_matrix_of(self, other: CellSystem) -> bool:
        if len(self.asked) != len(other.asked) or len(self.sums) != len(other.sums):
            return False
        if self.enriching.count or other.enriching.count:
            return False  # functions of absolute places
        if [s.weight for s in self.sums] != [s.weight for s in other.sums]:
            return False
        if not self.ports.same(other.ports):
            return False
        mine = [*self.asked, *(p for s in self.sums for p in s.parts)]
        theirs = [*other.asked, *(p for s in other.sums for p in s.parts)]
        if len(mine) != len(theirs):
            return False
        return all(_same_rows(a, b) for a, b in zip(mine, theirs, strict=True))


def retuned(system: CellSystem, tuning: float) -> CellSystem:
    """The same system with other wavenumbers of the incoming data."""
    enriching = system.enriching if system.enriching.count else None
    crossing = Crossing(system.cells, system.along, system.stating, enriching, tuning)
    ports = ports_of(crossing)
    if ports.joints.faces < system.ports.joints.faces:
        ports = with_open(crossing, ports, system.traces) or ports
    return replace(system, ports=ports)


def _check_sizes(problem: Problem, basis: AnyCellBasis, points: int) -> None:
    """Refuse tables that would not fit, before they are made; half as much again is at work."""
    axes = problem.domain.axes
    orders = {t.orders for e in problem.equations for t in e.operator.expand(axes)}
    require(
        24 * points * len(problem.equations) * (len(orders) * len(problem.fields) + 1),
        f"{basis.decomposition.count:,} subdomains with {points:,} points",
        "use fewer features, subdomains or points",
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
    """(Problem, basis, points) -> the rows of all cells; of several processes, of its own cells."""
    processes.begin()
    plain = isinstance(problem.domain, Box)
    with processes.in_unison("cells"):
        cells = cells_of(problem, basis, grid) if plain else shaped_cells(problem, basis, grid)
        alone = processes.alone()
        alike = b"" if alone else fingerprint(problem, basis, cells)
        known = [] if alone else at_points(problem)
    processes.same("the problem", alike)
    if known:
        refuse(differing(known))
    equations = _Equations(problem, basis, cells)
    along = equations.along()
    if any(own.winds for own in along):
        cells = replace(cells, faces=blown(cells, problem, along))
        if not np.array_equal(cells.whose, equations.cells.whose):  # by faces without any wind
            equations = _Equations(problem, basis, cells)
    stating, asked = equations.stating, equations.asked
    each = per_field(basis, problem.fields)
    bases = tuple(own for own in each if isinstance(own, CellBasis))
    enriching = Enriching(bases, cells.number, cells.centres, cells.half_widths)
    crossing = Crossing(cells, along, stating, enriching if enriching.count else None)
    ports = ports_of(crossing)
    extras = [c for c in problem.conditions if isinstance(c, PointCondition | IntegralCondition)]
    rows = sum(len(c.points) if isinstance(c, PointCondition) else 1 for c in extras)
    opened = with_open(crossing, ports, rows) if plain else None
    free = bool(extras) and _constants_are_free(problem, equations.first_points)
    whole = opened is not None or free
    far = (np.diff(ports.joints.starts) > 0) & whole
    more, sums = _conditions(stating, cells, far)
    asked += more
    if stating.shared:
        compare(stating.compared)
    own = sum(part.h.size for part in asked if not part.quiet)
    system = CellSystem(
        problem, basis, cells, stating, along, tuple(asked), tuple(sums), opened or ports,
        tuple(stating.said), int(stating.total([own])[0]),
    )  # fmt: skip
    if system.rows < basis.columns and plain:
        raise ValueError(
            f"the system has fewer rows than columns ({system.rows} < {basis.columns}): raise "
            f"oversampling (or points_per_axis), or use fewer features"
        )
    return system


def _conditions(stating: Stating, cells: Cells, whole: np.ndarray) -> tuple[list[Asked], list[Sum]]:
    """Rows of all conditions: those of single cells, and those over all; readings in some cells are
    rows of the `whole`."""
    problem, sums = stating.problem, []
    asked: list[Asked] = []
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            sums.append(integral(stating, cells, condition))
        elif isinstance(condition, PointCondition):
            parts = measured(stating, cells, condition)
            far = [part for part in parts if whole[int(part.members[0])]]
            sums += [one for part in far for one in each_as_sum(stating, part)]
            asked += _of_own(cells, [part for part in parts if not whole[int(part.members[0])]])
        else:
            faces = condition.faces(problem.domain)
            places = [place for name in faces for place in cells.on(problem, name)]
            asked += stating.condition(condition, places)
    return asked, sums


class _Equations:
    """The equations' rows, which all the others are weighed against."""

    def __init__(self, problem: Problem, basis: AnyCellBasis, cells: Cells) -> None:
        self.problem, self.cells = problem, cells
        columns = max(own.features.columns for own in basis.levels)
        sizes = (cells.centres, cells.half_widths, cells.volumes, columns)
        self.stating = stating = Stating(
            problem, *sizes, None if processes.alone() else cells.whose
        )
        self.places = cells.inner()
        self.where = where = stating.points.where(self.places)
        with processes.in_unison("memory"):
            _check_sizes(problem, basis, where.height)
        self.asked = [part for e in problem.equations for part in stating.equation(e, where)]
        stating.learn(self.asked, cells.rooms)

    @property
    def first_points(self) -> Array:
        """Those of one cell."""
        return self.stating.points.of([self.where.guest])

    def along(self) -> tuple[Along, ...]:
        """What cells exchange, by the coefficients at some points of all cells."""
        stating, x, step = self.stating, self.where.x, max(1, self.cells.count // 4)
        if not stating.shared:
            known = stating.sampled(slice(None, None, step))
            return exchange(self.problem, x[::step], x, known, stating.typical)
        numbers = stating.points.numbers(self.places)
        here = numbers % step == 0
        at, known = of_all(numbers[here], stating.sampled(here))
        some, _ = stating.points.some(self.places, at)
        return exchange(self.problem, some, x, known, stating.typical, shared=True)


def _of_own(cells: Cells, parts: list[Asked]) -> list[Asked]:
    """Measurements in cells of this process."""
    if processes.alone() or not parts:
        return parts
    own = [part for part in parts if cells.whose[part.members[0]] == processes.index()]
    first = Place(parts[0].slot, parts[0].members, np.ones(1))
    return own or [Asked.nothing(parts[0].name, first)]


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
