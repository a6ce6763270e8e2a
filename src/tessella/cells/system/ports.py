"""The ports of cells: what crosses their faces, in which functions, and how it weighs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import legendre

from tessella.cells.boxes import slots
from tessella.cells.boxes.between import Between, Custom, FaceTable
from tessella.cells.boxes.faces import Side
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.cell.draw import Slot, digest
from tessella.cells.cell.exchange import KAPPA, Along, Datum, shares
from tessella.cells.cell.groups import Wind, blowing
from tessella.cells.cell.port import Port
from tessella.cells.cell.rows import Stating
from tessella.cells.order.joints import Joints
from tessella.cells.system.enriched import Enriching
from tessella.cells.system.tiled import Cells
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
    def kappas(self) -> Array:
        """The wavenumber of every face: that of the smaller of its two cells."""
        faces, k, half = self.cells.faces, self.stating.k, self.cells.half_widths
        axis, (below, above) = faces.axis, faces.ends.T
        width = np.minimum(half[below, axis], half[above, axis])
        return np.asarray(self.tuning * KAPPA * (k[below, axis] * half[below, axis] / width))

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


@dataclass(frozen=True, eq=False)
class Ports:
    """The ports of all cells.

    made    those that differ
    which   of all ports, one cell's after the other's, which of these they are
    joints  where they meet, and how many numbers cross there
    """

    made: tuple[Port, ...]
    which: np.ndarray
    joints: Joints

    def of(self, cell: int) -> tuple[Port, ...]:
        """Those of a cell."""
        start, end = self.joints.starts[cell : cell + 2].tolist()
        return tuple(self.made[i] for i in self.which[start:end].tolist())

    @cached_property
    def rows(self) -> int:
        """Of all of them."""
        each = np.array([len(port.slot) * len(port.taken) for port in self.made], dtype=np.int64)
        return int(each[self.which].sum())

    @cached_property
    def alike(self) -> np.ndarray:
        """Of every cell a number: equal ports, equal numbers."""
        names: dict[object, int] = {}
        number = [names.setdefault(port.name, len(names)) for port in self.made]
        starts = self.joints.starts
        counts = np.diff(starts)
        every = np.full((len(counts), int(counts.max(initial=0))), -1)
        cell = np.repeat(np.arange(len(counts)), counts)
        every[cell, np.arange(len(self.which)) - starts[cell]] = np.array(number)[self.which]
        return np.unique(every, axis=0, return_inverse=True)[1].ravel()

    def same(self, other: Ports) -> bool:
        """Whether others take and give the same at the same places, up to rounding."""
        if self is other:
            return True
        if self.joints.digest != other.joints.digest:
            return False
        pairs = np.unique(np.stack([self.which, other.which]), axis=1).T.tolist()
        return all(_same(self.made[i], other.made[j]) for i, j in pairs)


def _same(a: Port, b: Port) -> bool:
    exact = (a.axis, a.side, a.taken, a.given) == (b.axis, b.side, b.taken, b.given)
    return exact and np.allclose(
        [a.kappa, a.half_width, *a.pulls], [b.kappa, b.half_width, *b.pulls], rtol=1e-9, atol=0.0
    )


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
    faces, sides = cells.faces, cells.sides
    usual = [((P[i],) * len(own.below), (P[i],) * len(own.above))
             for i, own in enumerate(crossing.along)]  # fmt: skip
    widths = np.array([_widths(modes) for modes in usual]).reshape(-1, 2)
    up, down = widths[faces.axis].T
    special = {number: _face_modes(crossing, number) for number in _special(crossing)}
    own = np.full(len(faces), -1)
    for number, modes in special.items():
        own[number], (up[number], down[number]) = number, _widths(modes)
    each = np.unique(crossing.kappas, return_inverse=True)[1].ravel()
    cell = np.repeat(np.arange(cells.count), np.diff(sides.starts))
    at, face = (sides.axis, sides.side, sides.part), sides.face
    keys = np.stack([own[face], *at, each[face], cells.shapes[cell]], axis=1)
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    made = []
    for i in first.tolist():
        number, (axis, side, part) = int(face[i]), (int(x[i]) for x in at)
        modes = special.get(number, usual[axis])
        made.append(_port(crossing, int(cell[i]), number, (axis, side, part), modes))
    long = _longest(faces.axis, usual, special, cells.degree)
    joints = Joints(faces.ends, up, down, sides.starts, 2 * face + sides.side, long)
    return Ports(tuple(made), which.ravel(), joints)


Modes = tuple[tuple[Array, ...], tuple[Array, ...]]
"""The functions in which the data from below and those from above cross a face."""


def _widths(modes: Modes) -> tuple[int, int]:
    """How many numbers cross a face, from below and from above."""
    below, above = (sum(p.shape[1] for p in data) for data in modes)
    return below, above


LONG = 1 / 4
"""Part of the degrees on a face whose functions are its longest waves: with fewer an exchange takes
more iterations, with more its coarse level costs as much as it saves."""


def _longest(
    axis: np.ndarray, usual: Sequence[Modes], special: Mapping[int, Modes], degree: int
) -> np.ndarray:
    """Which of all numbers that cross faces are of the longest waves there."""
    low, along = math.ceil(LONG * (degree + 1)), max(len(usual) - 1, 0)
    count = math.comb(low - 1 + along, along)

    def of(modes: Modes) -> np.ndarray:
        own = [np.arange(p.shape[1]) < count for data in modes for p in data]
        return np.concatenate([np.zeros(0, dtype=bool), *own])

    each = [of(modes) for modes in usual]
    parts = [each[i] for i in axis.tolist()]
    for number, modes in special.items():
        parts[number] = of(modes)
    return np.concatenate([np.zeros(0, dtype=bool), *parts])


def _special(crossing: Crossing) -> list[int]:
    """Faces that are unlike others of their axis."""
    faces, enriching = crossing.cells.faces, crossing.enriching
    found = set(faces.particular)
    if enriching is not None:
        found.update(np.flatnonzero(enriching.reached[faces.ends].any(axis=1)).tolist())
    return sorted(found)


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
    kappa = float(crossing.kappas[number])
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


def blown(cells: Cells, problem: Problem, along: Sequence[Along]) -> FaceTable:
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
    return FaceTable.of(found)


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
    face, kappa = cells.faces[number], float(crossing.kappas[number])
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
    walls = {at: cells.tiling.at_end(*at).tolist() for at in bare}
    numbers = {at: len(left) * crossing.modes[at[0]].shape[1] for at, left in bare.items()}
    if not 0 < sum(n * len(walls[at]) for at, n in numbers.items()) <= rows:
        return None
    places = [(cell, *at, numbers[at]) for at, left in bare.items() if left for cell in walls[at]]
    more = tuple(
        _open_port(crossing, cell, (axis, side, WHOLE), bare[axis, side])
        for cell, axis, side, _ in places
    )
    cell, _, side, taken = np.array(places).T
    joints, order = ports.joints.opened(cell, side, taken)
    which = np.append(ports.which, len(ports.made) + np.arange(len(places)))
    return Ports((*ports.made, *more), which[order], joints)


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
