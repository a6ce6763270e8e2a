"""The ports of cells: what crosses their faces, in which functions, and how it weighs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import legendre

from tessella.cells import slots
from tessella.cells.draw import Slot, digest
from tessella.cells.enriched import Enriching
from tessella.cells.exchange import KAPPA, Along, Datum, shares, wind
from tessella.cells.faces import Side
from tessella.cells.joining import Face
from tessella.cells.port import Port
from tessella.cells.rows import Stating
from tessella.cells.tiled import Between, Cells, Custom
from tessella.cells.tree import WHOLE
from tessella.machine.arrays import Array
from tessella.problem.problem import Problem


def ports_of(
    cells: Cells,
    along: Sequence[Along],
    stating: Stating,
    enriching: Enriching | None = None,
    tuning: float = 1.0,
) -> tuple[list[list[Port]], list[list[int]], list[Face]]:
    """Every cell's ports, the numbers of their faces, and the faces with as many numbers as cross
    them. Cells of one shape share their ports."""
    W, half = stating.sizes(stating.k), cells.half_widths
    P = [slots.modes(own, cells.degree) for own in cells.face_counts]
    ends = np.array([face[:3] for face in cells.faces], dtype=np.int64).reshape(-1, 3).T
    width = np.minimum(half[ends[1], ends[0]], half[ends[2], ends[0]])
    k = stating.k[ends[1], ends[0]] * half[ends[1], ends[0]] / width
    kappas = (tuning * KAPPA * k).tolist()
    usual = [
        (((P[axis],) * len(own.below), (P[axis],) * len(own.above)))
        for axis, own in enumerate(along)
    ]
    widths = [tuple(sum(p.shape[1] for p in data) for data in own) for own in usual]
    special: dict[int, Modes] = {}
    faces = []
    for number, face in enumerate(cells.faces):
        if _is_special(face, enriching):
            modes = _face_modes(cells, along, P, kappas[number], enriching, number)
            special[number] = modes
            up, down = (sum(p.shape[1] for p in data) for data in modes)
        else:
            up, down = widths[face.axis]
        faces.append(Face(face.below, face.above, up, down))
    made: dict[tuple[object, ...], Port] = {}
    ports: list[list[Port]] = []
    shapes = cells.shapes.tolist()
    for cell, sides in enumerate(cells.sides):
        own_ports = []
        for number, side in sides:
            key = (number if number in special else -1, side, kappas[number], shapes[cell])
            if key not in made:
                modes = special.get(number, usual[side[0]])
                made[key] = _port(cells, along, stating, W, cell, number, side, kappas[number],
                                  modes, P[side[0]])  # fmt: skip
            own_ports.append(made[key])
        ports.append(own_ports)
    return ports, [[number for number, _ in sides] for sides in cells.sides], faces


Modes = tuple[tuple[Array, ...], tuple[Array, ...]]
"""The functions in which the data from below and those from above cross a face."""


def _is_special(face: Between, enriching: Enriching | None) -> bool:
    """Whether a face is unlike others of its axis."""
    if face.custom is not None or face.field is not None or face.wind:
        return True
    return enriching is not None and bool(
        enriching.active[face.below].any() or enriching.active[face.above].any()
    )


def _port(
    cells: Cells,
    along: Sequence[Along],
    stating: Stating,
    W: Array,
    cell: int,
    number: int,
    at: Side,
    kappa: float,
    modes: Modes,
    usual: Array,
) -> Port:
    axis, side, part = at
    face, half = cells.faces[number], float(cells.half_widths[cell, axis])
    taken, given = crossing(along[axis], face, side)
    area = 1.0 if part == WHOLE else 0.5 ** (cells.half_widths.shape[1] - 1)
    slot = cells.slot(at)
    label: tuple[object, ...] = at
    if face.custom is not None:
        slot = face.custom.above if side == 0 else face.custom.below
        whole = float(np.prod(np.delete(2 * cells.half_widths[cell], axis)))
        area, label = face.custom.measure / whole, (axis, side, slot.name)
    k = float(stating.k[cell, axis])
    pulls = tuple(
        float(W[d.field, cell] * k**-0.5 * (kappa / k) ** d.top) * math.sqrt(area / (2 * half))
        for d in taken
    )
    crossed_by = (taken, given, cells.degree, cells.face_counts[axis])
    own = (face.field, face.wind, kappa, half, pulls)
    name = (*label, *own, *crossed_by, *_modes_name(modes, usual))
    crossed = modes[side], modes[1 - side]
    return Port(axis, side, slot, taken, given, *crossed, kappa, pulls, half, name)


def _modes_name(modes: Sequence[Sequence[Array]], usual: Array) -> tuple[bytes, ...]:
    """Tells a face whose functions are not the usual ones from others."""
    if all(own is usual for data in modes for own in data):
        return ()
    return tuple(digest(own.tobytes()) for data in modes for own in data)


def crossing(along: Along, face: Between, side: int) -> tuple[tuple[Datum, ...], tuple[Datum, ...]]:
    """What a cell takes and gives at a face; of an unknown that has it for itself, its own."""
    both = along.taken(side), along.given(side)
    if face.wind:
        takes = (face.wind > 0) == (side == 0)
        return (both[0], ()) if takes else ((), both[1])
    if face.field is None:
        return both
    return tuple(  # type: ignore[return-value]
        tuple(d for d in data if d.field == face.field) for data in both
    )


def blown(cells: Cells, problem: Problem, along: Sequence[Along]) -> tuple[Between, ...]:
    """The faces, each where a wind turns in two: one part for what it carries up, one for down."""
    found = []
    for face in cells.faces:
        if not along[face.axis].wind:
            found.append(face)
            continue
        if face.custom is not None:
            slots_of = [face.custom.below, face.custom.above]
        else:
            parts = ((1, face.part_below), (0, face.part_above))
            slots_of = [cells.slot((face.axis, side, part)) for side, part in parts]
        x = cells.points(face.below, slots_of[0].points)
        b = wind(problem, face.axis, x)
        for sign in (1, -1):
            here = b * sign > 0
            if here.all():
                found.append(face._replace(wind=sign))
            elif here.any():
                found.append(face._replace(wind=sign, custom=_some(face, slots_of, here, x, cells)))
    return tuple(found)


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


def _face_modes(
    cells: Cells,
    along: Sequence[Along],
    P: Sequence[Array],
    kappa: float,
    enriching: Enriching | None,
    number: int,
) -> Modes:
    """The functions in which data cross a face that is unlike others."""
    face = cells.faces[number]
    axis, below, above, part_below = face[:4]
    from_below, from_above = (crossing(along[axis], face, side)[0] for side in (0, 1))
    own = Along(from_below, from_above)
    if face.custom is not None:
        P = [face.custom.modes] * len(P)
    if enriching is not None:
        active = np.maximum(enriching.active[below], enriching.active[above])
        if active.any():
            cell, side = (below, 1) if part_below == WHOLE else (above, 0)
            slot = cells.slot((axis, side, WHOLE)) if face.custom is None else face.custom.below
            x = enriching.points(cell if face.custom is None else below, slot)
            at = (x, slot.weights, axis, kappa)
            return tuple(
                tuple(enriching.modes(*at, datum, P[axis], active) for datum in data)
                for data in (own.below, own.above)
            )  # type: ignore[return-value]
    return (P[axis],) * len(own.below), (P[axis],) * len(own.above)


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


def open_ports(
    cells: Cells,
    problem: Problem,
    along: Sequence[Along],
    stating: Stating,
    ports: list[list[Port]],
    crossings: list[list[int]],
    faces: list[Face],
    rows: int,
) -> bool:
    """Ports at walls that have fewer conditions than cells take there; whether there are any.

    What comes in there is found from `rows` measurements and integrals, if they are enough.
    """
    domain = problem.domain
    if any(callable(problem.multiplier(field)) for field in problem.fields):
        return False
    W = stating.sizes(stating.k)
    bare = {}
    for axis, own in enumerate(along):
        for side in (0, 1) if domain.axes[axis] not in domain.periodic else ():
            name = f"{domain.axes[axis]}{('min', 'max')[side]}"
            bare[axis, side] = _unheld(problem, name, own.taken(side))
    asked = sum(
        len(left) * len(cells.tiling.at_end(axis, side))
        * slots.modes(cells.face_counts[axis], cells.degree).shape[1]
        for (axis, side), left in bare.items()
    )  # fmt: skip
    if not 0 < asked <= rows:
        return False
    for (axis, side), left in bare.items():
        if left:
            P = slots.modes(cells.face_counts[axis], cells.degree)
            numbers = P.shape[1] * len(left)
            for cell in cells.tiling.at_end(axis, side).tolist():
                half, k = float(cells.half_widths[cell, axis]), float(stating.k[cell, axis])
                kappa = KAPPA * k
                pulls = tuple(
                    float(W[d.field, cell] * k**-0.5 * (kappa / k) ** d.top) / math.sqrt(2 * half)
                    for d in left
                )
                slot = cells.slot((axis, side, WHOLE))
                label = ("open", axis, side, left, kappa, half, pulls)
                both = (P,) * len(left)
                ports[cell].append(
                    Port(axis, side, slot, left, (), both, (), kappa, pulls, half, label)
                )
                crossings[cell].append(len(faces))
                ends = (cell, -1, 0, numbers) if side else (-1, cell, numbers, 0)
                faces.append(Face(*ends))
    return True
