"""Which cells are equal: those with the same numbers in all their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tessella.cells.cell.draw import digest
from tessella.cells.cell.port import Port
from tessella.cells.cell.rows import Asked
from tessella.cells.cell.space import Space
from tessella.cells.system.system import CellSystem
from tessella.machine import processes
from tessella.machine.arrays import Array


@dataclass(frozen=True)
class Kind:
    """Cells with the same numbers, their ports, and the statements that have rows in them."""

    members: np.ndarray
    space: Space
    ports: tuple[Port, ...]
    asked: tuple[tuple[int, int], ...]
    """Numbers of statements' rows, and the first member's position there."""
    own: Array | None = None
    """Further columns of all its rows (asked, ports) and outputs: functions of its own."""
    own_units: Array | None = None
    sums: Array | None = None
    """Rows of the sums, (sums, r)."""
    name: bytes = b""
    """The digest of its numbers; nothing if no other cell can have the same."""


def labels(part: Asked) -> list[int]:
    """Of every member's rows a number: equal rows, equal numbers."""
    if part.alike:
        return [1] * len(part.members)
    tables = list(part.symbol.values())
    known: dict[bytes, int] = {}
    rows = np.concatenate(tables, axis=1)
    return [known.setdefault(row.tobytes(), len(known) + 1) for row in rows]


def find_kinds(
    system: CellSystem,
    space_of: np.ndarray,
    spaces: Sequence[Space],
    named: bool,
    wanted: np.ndarray,
) -> list[Kind]:
    """Those of the wanted cells (J,) that have the same numbers; `named` if others look for them by
    a digest of these."""
    count = system.cells.count
    sums = [part for total in system.sums for part in total.parts]
    at = np.full((len(system.asked), count), -1)
    for number, part in enumerate(system.asked):
        at[number, part.members] = np.arange(len(part.members))
    cells = np.flatnonzero(wanted)
    columns = [space_of[cells].tolist(), system.ports.alike[cells].tolist()]
    for part in (*system.asked, *sums):
        column = np.zeros(count, dtype=np.int64)
        column[part.members] = labels(part)
        columns.append(column[cells].tolist())
    reached = system.enriching.reached if system.enriching.count else np.zeros(count, dtype=bool)
    if reached.any():  # functions of absolute places: like no other
        columns.append(np.where(reached, np.arange(count) + 1, 0)[cells].tolist())
    known: dict[tuple[int, ...], list[int]] = {}
    for j, key in zip(cells.tolist(), zip(*columns, strict=True), strict=True):
        known.setdefault(key, []).append(j)
    kinds = []
    for (number, *_), own in known.items():
        j, space = own[0], spaces[number]
        asked = tuple((n, k) for n, k in enumerate(at[:, j].tolist()) if k >= 0)
        kind = Kind(
            np.array(own), space, system.ports.of(j), asked, sums=_sum_rows(system, j, space)
        )
        name = _name(system, kind, sums) if named and not reached[j] else b""
        kinds.append(replace(kind, name=name) if name else kind)
    return _enriched(system, kinds, reached) if system.enriching.count else kinds


def _name(system: CellSystem, kind: Kind, sums: Sequence[Asked]) -> bytes:
    """A digest of all numbers of a kind."""
    cell, space = int(kind.members[0]), kind.space
    parts = [(system.asked[n], k) for n, k in kind.asked]
    parts += [(part, part.at(cell)) for part in sums]
    head = ([draw.name for draw in space.draws], space.units, [p.name for p in kind.ports])
    return digest(
        repr(head).encode(),
        *(
            digest(
                repr((part.name, sorted(part.symbol), part.slot.name, i)).encode(),
                *(part.symbol[key][k].tobytes() for key in sorted(part.symbol)),
            )
            for i, (part, k) in enumerate(parts)
            if k >= 0
        ),
    )


def _enriched(system: CellSystem, kinds: list[Kind], reached: np.ndarray) -> list[Kind]:
    """The kinds with the columns of their own, in units in which the longest has length one."""
    enriching, own = system.enriching, {}
    for i, kind in enumerate(kinds):
        cell = int(kind.members[0])
        if reached[cell]:
            asked = [(system.asked[n], at) for n, at in kind.asked]
            own[i] = enriching.columns(cell, asked, kind.ports)
    lengths = [np.linalg.norm(c, axis=0) for c in own.values()] or [np.zeros(enriching.count)]
    longest = np.max(processes.gathered("lengths", np.max(lengths, axis=0)), axis=0)
    units = 1 / np.where(longest > 0, longest, 1.0)
    found = []
    for i, kind in enumerate(kinds):
        if i not in own:
            found.append(kind)
            continue
        sums = kind.sums
        if sums is not None:
            cell = int(kind.members[0])
            parts = [
                (n, part, part.at(cell)) for n, total in enumerate(system.sums)
                for part in total.parts if part.at(cell) >= 0
            ]  # fmt: skip
            more = enriching.sums(cell, parts, len(system.sums)) * units
            sums = np.concatenate([sums, more], axis=1)
        found.append(replace(kind, own=own[i] * units, own_units=units, sums=sums))
    return found


def _sum_rows(system: CellSystem, cell: int, space: Space) -> Array | None:
    """A cell's part of every sum, (sums, r)."""
    if not system.sums:
        return None
    found = np.zeros((len(system.sums), space.columns))
    for i, total in enumerate(system.sums):
        for part in total.parts:
            at = part.at(cell)
            if at >= 0:
                found[i] += _on_features(space, part, at)
    return found


def _on_features(space: Space, part: Asked, at: int) -> Array:
    row, starts = np.zeros(space.columns), space.starts
    for (f, alpha), c in part.symbol.items():
        own = slice(starts[f], starts[f + 1])
        row[own] += c[at] @ space.table(f, part.slot, alpha) / space.units[f]
    return row
