"""The ports of cells: what crosses their faces, in which functions, and how it weighs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from tessella.cells import slots
from tessella.cells.draw import Slot, digest
from tessella.cells.enriched import Enriching
from tessella.cells.exchange import KAPPA, Along, Datum, shares
from tessella.cells.faces import Side
from tessella.cells.groups import Wind, blowing
from tessella.cells.joining import Face
from tessella.cells.port import Port
from tessella.cells.rows import Stating
from tessella.cells.tiled import Between, Cells, Custom
from tessella.cells.tree import WHOLE
from tessella.machine.arrays import Array
from tessella.problem.problem import Problem

CARRYING = 0.3
"""Part of their weight that data with a pressure have, over the root of how stiff they are. Fluid
that comes in may not be kept together by any pressure: with all of the weight that grew from slab
to slab in two of six marches, with a third or a tenth of it in none."""


@dataclass(frozen=True)
class Crossing:
    """All that decides what crosses the faces of cells, and how it weighs.

    tuning  a factor on the wavenumbers of the incoming data
    """

    cells: Cells
    along: Sequence[Along]
    stating: Stating
    enriching: Enriching | None = None
    tuning: float = 1.0

    @cached_property
    def sizes(self) -> Array:
        """W of every unknown in every cell, (F, J)."""
        return self.stating.sizes(self.stating.k)

    @cached_property
    def modes(self) -> list[Array]:
        """Per axis, the usual functions on a face."""
        return [slots.modes(own, self.cells.degree) for own in self.cells.face_counts]

    @cached_property
    def kappas(self) -> list[float]:
        """The wavenumber of every face: that of the smaller of its two cells."""
        cells, k, half = self.cells, self.stating.k, self.cells.half_widths
        axis = np.array([face.axis for face in cells.faces], dtype=np.int64)
        below, above = cells.ends.T
        width = np.minimum(half[below, axis], half[above, axis])
        own = k[below, axis] * half[below, axis] / width
        return (self.tuning * KAPPA * own).tolist()

    def pulls(self, data: Sequence[Datum], cell: int, axis: int, kappa: float, area: float = 1.0,
              ) -> tuple[float, ...]:  # fmt: skip
        """Weights of the rows of data that a cell takes, on a part of its face of this size."""
        k, half = float(self.stating.k[cell, axis]), float(self.cells.half_widths[cell, axis])
        return tuple(
            float(self.sizes[d.field, cell] * k**-0.5 * (kappa / k) ** d.top)
            * (CARRYING * d.stiff**-0.5 if d.stiff > 1 else 1.0)
            * math.sqrt(area / (2 * half))
            for d in data
        )


class Ports(NamedTuple):
    """Every cell's ports, a number each (equal ports, equal numbers), the numbers of their faces,
    the faces with as many numbers as cross them, and how many rows all ports have."""

    own: tuple[tuple[Port, ...], ...]
    alike: np.ndarray
    crossings: tuple[tuple[int, ...], ...]
    faces: tuple[Face, ...]
    rows: int

    @staticmethod
    def of(
        own: Sequence[Sequence[Port]], crossings: Sequence[Sequence[int]], faces: Sequence[Face]
    ) -> Ports:
        rows = sum(len(port.slot) * len(port.taken) for ports in own for port in ports)
        every = tuple(map(tuple, own))
        return Ports(every, _alike(every), tuple(map(tuple, crossings)), tuple(faces), rows)


def _alike(every: Sequence[tuple[Port, ...]]) -> np.ndarray:
    """Of every cell a number: equal ports, equal numbers."""
    by_ports: dict[tuple[Port, ...], int] = {}
    by_name: dict[object, int] = {}
    for ports in every:
        if ports not in by_ports:
            name = tuple(port.name for port in ports)
            by_ports[ports] = by_name.setdefault(name, len(by_name))
    return np.array([by_ports[ports] for ports in every], dtype=np.int64)


def ports_of(crossing: Crossing) -> Ports:
    """The ports of all cells; the same ones as last time if nothing has changed that decides."""
    if crossing.enriching is not None:
        return _ports_of(crossing)
    known: dict[object, Ports] = crossing.cells.known_ports
    k, sizes = (x.tobytes() for x in (crossing.stating.k, crossing.sizes))
    key = (tuple(crossing.along), k, sizes, crossing.tuning)
    if key not in known:
        known[key] = _ports_of(crossing)
    return known[key]


def _ports_of(crossing: Crossing) -> Ports:
    """Those of cells of one shape are shared."""
    cells, P = crossing.cells, crossing.modes
    usual = [
        (((P[axis],) * len(own.below), (P[axis],) * len(own.above)))
        for axis, own in enumerate(crossing.along)
    ]
    widths = [tuple(sum(p.shape[1] for p in data) for data in own) for own in usual]
    special: dict[int, Modes] = {}
    faces = []
    for number, face in enumerate(cells.faces):
        if _is_special(face, crossing.enriching):
            special[number] = modes = _face_modes(crossing, number)
            up, down = (sum(p.shape[1] for p in data) for data in modes)
        else:
            up, down = widths[face.axis]
        faces.append(Face(face.below, face.above, up, down))
    made: dict[tuple[object, ...], Port] = {}
    ports: list[tuple[Port, ...]] = []
    shapes, kappas = cells.shapes.tolist(), crossing.kappas
    for cell, sides in enumerate(cells.sides):
        own_ports = []
        for number, side in sides:
            key = (number if number in special else -1, side, kappas[number], shapes[cell])
            if key not in made:
                modes = special.get(number, usual[side[0]])
                made[key] = _port(crossing, cell, number, side, modes)
            own_ports.append(made[key])
        ports.append(tuple(own_ports))
    crossings = [[number for number, _ in sides] for sides in cells.sides]
    return Ports.of(ports, crossings, faces)


Modes = tuple[tuple[Array, ...], tuple[Array, ...]]
"""The functions in which the data from below and those from above cross a face."""


def _is_special(face: Between, enriching: Enriching | None) -> bool:
    """Whether a face is unlike others of its axis."""
    if face.custom is not None or face.fields is not None or face.wind:
        return True
    return enriching is not None and bool(
        enriching.active[face.below].any() or enriching.active[face.above].any()
    )


def _port(crossing: Crossing, cell: int, number: int, at: Side, modes: Modes) -> Port:
    """A cell's port at one of its faces."""
    cells, (axis, side, part) = crossing.cells, at
    face, half = cells.faces[number], float(cells.half_widths[cell, axis])
    taken, given = crossed(crossing.along[axis], face, side)
    area = 1.0 if part == WHOLE else 0.5 ** (cells.half_widths.shape[1] - 1)
    slot = cells.slot(at)
    label: tuple[object, ...] = at
    if face.custom is not None:
        slot = face.custom.above if side == 0 else face.custom.below
        whole = float(np.prod(np.delete(2 * cells.half_widths[cell], axis)))
        area, label = face.custom.measure / whole, (axis, side, slot.name)
    kappa = crossing.kappas[number]
    pulls = crossing.pulls(taken, cell, axis, kappa, area)
    data = (taken, given, cells.degree, cells.face_counts[axis])
    own = (face.fields, face.wind, kappa, half, pulls)
    name = (*label, *own, *data, *_modes_name(modes, crossing.modes[axis]))
    functions = modes[side], modes[1 - side]
    return Port(axis, side, slot, taken, given, *functions, kappa, pulls, half, name)


def _modes_name(modes: Sequence[Sequence[Array]], usual: Array) -> tuple[bytes, ...]:
    """Tells a face whose functions are not the usual ones from others."""
    if all(own is usual for data in modes for own in data):
        return ()
    return tuple(digest(own.tobytes()) for data in modes for own in data)


def crossed(along: Along, face: Between, side: int) -> tuple[tuple[Datum, ...], tuple[Datum, ...]]:
    """What a cell takes and gives at a face; of unknowns that have it for themselves, theirs."""
    taken, given = along.taken(side), along.given(side)
    if face.fields is not None:
        taken, given = (tuple(d for d in x if d.field in face.fields) for x in (taken, given))
    if not face.wind:
        return taken, given
    return (taken, ()) if (face.wind > 0) == (side == 0) else ((), given)


def blown(cells: Cells, problem: Problem, along: Sequence[Along]) -> tuple[Between, ...]:
    """The faces, with parts of their own for unknowns whose wind turns: where it carries them up,
    and where down."""
    found = []
    for face in cells.faces:
        fields = range(len(problem.fields)) if face.fields is None else face.fields
        winds = [wind for wind in along[face.axis].winds if wind.field in fields]
        carried = {wind.field for wind in winds}
        rest = {d.field for d in along[face.axis].below + along[face.axis].above} - carried
        if not winds:
            found.append(face)
            continue
        if rest & set(fields):
            found.append(face._replace(fields=tuple(f for f in fields if f not in carried)))
        for wind in winds:
            found += _split_by(wind, face._replace(fields=(wind.field,)), cells, problem)
    return tuple(found)


def _split_by(wind: Wind, face: Between, cells: Cells, problem: Problem) -> list[Between]:
    """The parts of a face through which a wind blows up, and down."""
    found = []
    if face.custom is not None:
        slots_of = [face.custom.below, face.custom.above]
    else:
        parts = ((1, face.part_below), (0, face.part_above))
        slots_of = [cells.slot((face.axis, side, part)) for side, part in parts]
    x = cells.points(face.below, slots_of[0].points)
    b = blowing(problem, face.axis, wind, x)
    for sign in (1, -1):
        here = b * sign > 0
        if here.all():
            found.append(face._replace(wind=sign))
        elif here.any():
            found.append(face._replace(wind=sign, custom=_some(face, slots_of, here, x, cells)))
    return found


def _some(
    face: Between, slots_of: Sequence[Slot], here: np.ndarray, x: Array, cells: Cells
) -> Custom:
    """Some of a face's points as a part of it."""
    area = float(np.prod(np.delete(2 * cells.half_widths[face.below], face.axis)))
    if face.part_below != WHOLE:
        area /= 2 ** (x.shape[1] - 1)
    weights = slots_of[0].weights[here] / slots_of[0].weights.sum()
    share = float(weights.sum())
    below, above = (Slot(s.points[here], weights / share) for s in slots_of)
    P = modes_on(np.delete(x[here], face.axis, axis=1), weights / share, cells.degree)
    return Custom(below, above, P, area * share)


RANK = 1e-10
"""Functions on a part of a face that are this dependent on the others are left out."""


def modes_on(points: Array, weights: Array, degree: int) -> Array:
    """Orthonormal polynomials of total degree at most `degree` on a part of a face."""
    if points.shape[1] == 0:
        return np.ones((1, 1))
    low, high = points.min(axis=0), points.max(axis=0)
    z = 2 * (points - low) / np.where(high > low, high - low, 1.0) - 1
    orders = itertools.product(range(degree + 1), repeat=z.shape[1])
    chosen = sorted((k for k in orders if sum(k) <= degree), key=lambda k: (sum(k), k))
    values = np.sqrt(weights)[:, None] * np.ones((1, len(chosen)))
    for i in range(z.shape[1]):
        table = legendre.legvander(z[:, i], degree)
        values *= table[:, [k[i] for k in chosen]]
    Q, R = np.linalg.qr(values / np.linalg.norm(values, axis=0))
    return np.ascontiguousarray(Q[:, : R.shape[1]][:, np.abs(np.diag(R)) > RANK])


def _face_modes(crossing: Crossing, number: int) -> Modes:
    """The functions in which data cross a face that is unlike others."""
    cells, enriching = crossing.cells, crossing.enriching
    face, kappa = cells.faces[number], crossing.kappas[number]
    axis, below, above, part_below = face[:4]
    P = crossing.modes[axis] if face.custom is None else face.custom.modes
    from_below, from_above = (crossed(crossing.along[axis], face, side)[0] for side in (0, 1))
    own = Along(from_below, from_above)
    if enriching is not None:
        active = np.maximum(enriching.active[below], enriching.active[above])
        if active.any():
            cell, side = (below, 1) if part_below == WHOLE else (above, 0)
            slot = cells.slot((axis, side, WHOLE)) if face.custom is None else face.custom.below
            x = enriching.points(cell if face.custom is None else below, slot)
            at = (x, slot.weights, axis, kappa)
            return tuple(
                tuple(enriching.modes(*at, datum, P, active) for datum in data)
                for data in (own.below, own.above)
            )  # type: ignore[return-value]
    return (P,) * len(own.below), (P,) * len(own.above)


def _unheld(problem: Problem, name: str, taken: Sequence[Datum]) -> tuple[Datum, ...]:
    """Of what cells take at a face, the data of unknowns that have fewer conditions there."""
    on_face = shares(problem, name)
    left: list[Datum] = []
    for f, field in enumerate(problem.fields):
        held = sum(
            on_face.get(c.name, 0.0)
            for c in problem.conditions
            if len(problem.fields) == 1
            or any(t.field == field for t in c.operator.expand(problem.domain.axes))
        )
        left += [d for d in taken if d.field == f][round(held) :]
    return tuple(left)


def with_open(crossing: Crossing, ports: Ports, rows: int) -> Ports | None:
    """The same with ports at walls that have fewer conditions than cells take there; None if there
    are none.

    What comes in there is found from `rows` measurements and integrals, if they are enough.
    """
    problem, cells = crossing.stating.problem, crossing.cells
    if not rows or any(callable(problem.multiplier(field)) for field in problem.fields):
        return None
    domain, bare = problem.domain, {}
    for axis, own in enumerate(crossing.along):
        for side in (0, 1) if domain.axes[axis] not in domain.periodic else ():
            name = f"{domain.axes[axis]}{('min', 'max')[side]}"
            bare[axis, side] = _unheld(problem, name, own.taken(side))
    ends = {at: cells.tiling.at_end(*at).tolist() for at in bare}
    numbers = {at: len(left) * crossing.modes[at[0]].shape[1] for at, left in bare.items()}
    if not 0 < sum(n * len(ends[at]) for at, n in numbers.items()) <= rows:
        return None
    own_ports, crossings = list(map(list, ports.own)), list(map(list, ports.crossings))
    faces = list(ports.faces)
    for (axis, side), left in bare.items():
        for cell in ends[axis, side] if left else ():
            own_ports[cell].append(_open_port(crossing, cell, (axis, side, WHOLE), left))
            crossings[cell].append(len(faces))
            n = numbers[axis, side]
            faces.append(Face(cell, -1, 0, n) if side else Face(-1, cell, n, 0))
    return Ports.of(own_ports, crossings, faces)


def _open_port(crossing: Crossing, cell: int, at: Side, taken: tuple[Datum, ...]) -> Port:
    """A port with nobody beyond."""
    axis, side, _ = at
    kappa = KAPPA * float(crossing.stating.k[cell, axis])
    half = float(crossing.cells.half_widths[cell, axis])
    pulls = crossing.pulls(taken, cell, axis, kappa)
    functions = (crossing.modes[axis],) * len(taken), ()
    name = ("open", axis, side, taken, kappa, half, pulls)
    slot = crossing.cells.slot(at)
    return Port(axis, side, slot, taken, (), *functions, kappa, pulls, half, name)
