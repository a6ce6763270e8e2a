"""Which cells are equal: those with the same numbers in all their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from tessella.cells.draw import digest
from tessella.cells.port import Port
from tessella.cells.rows import Asked
from tessella.cells.space import Space
from tessella.cells.system import CellSystem
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


def _digests(part: Asked) -> list[bytes]:
    """Of every member's rows: equal rows, equal digests."""
    keys, count = sorted(part.symbol), len(part.members)
    head = blake2b(repr((part.name, keys, part.slot.name)).encode(), digest_size=16)
    tables = [part.symbol[key] for key in keys]
    if all((t == t[0]).all() for t in tables):
        for t in tables:
            head.update(t[0].tobytes())
        return [head.digest()] * count
    found = []
    for row in np.concatenate(tables, axis=1):
        made = head.copy()
        made.update(row)
        found.append(made.digest())
    return found


def find_kinds(system: CellSystem, space_of: np.ndarray, spaces: Sequence[Space]) -> list[Kind]:
    """Cells with the same numbers."""
    parts: list[list[bytes]] = [[] for _ in range(system.cells.count)]
    rows: list[list[tuple[int, int]]] = [[] for _ in range(system.cells.count)]
    for number, part in enumerate(system.asked):
        for i, (j, name) in enumerate(zip(part.members.tolist(), _digests(part), strict=True)):
            parts[j].append(name)
            rows[j].append((number, i))
    for number, total in enumerate(system.sums):
        for part in total.parts:
            for j, name in zip(part.members.tolist(), _digests(part), strict=True):
                parts[j].append(b"sum%d" % number + name)
    reached = system.enriching.reached if system.enriching.count else np.zeros(0, dtype=bool)
    known: dict[bytes | int, list[int]] = {}
    port_names: dict[tuple[int, ...], bytes] = {}
    heads = [repr(([draw.name for draw in own.draws], own.units)).encode() for own in spaces]
    for j, (ports, space) in enumerate(zip(system.ports, space_of.tolist(), strict=True)):
        key = tuple(map(id, ports))
        if key not in port_names:
            port_names[key] = repr(tuple(p.name for p in ports)).encode()
        one: bytes | int = digest(heads[space], port_names[key], *parts[j])
        if len(reached) and reached[j]:
            one = j  # functions of absolute places: like no other
        known.setdefault(one, []).append(j)
    kinds = [
        Kind(
            np.array(own),
            spaces[int(space_of[own[0]])],
            system.ports[own[0]],
            tuple(rows[own[0]]),
            sums=_sum_rows(system, own[0], spaces[int(space_of[own[0]])]),
            name=one if isinstance(one, bytes) else b"",
        )
        for one, own in known.items()
    ]
    return _enriched(system, kinds, reached) if system.enriching.count else kinds


def _enriched(system: CellSystem, kinds: list[Kind], reached: np.ndarray) -> list[Kind]:
    """The kinds with the columns of their own, in units in which the longest has length one."""
    enriching, own = system.enriching, {}
    for i, kind in enumerate(kinds):
        cell = int(kind.members[0])
        if reached[cell]:
            asked = [(system.asked[n], at) for n, at in kind.asked]
            own[i] = enriching.columns(cell, asked, kind.ports)
    longest = np.max([np.linalg.norm(c, axis=0) for c in own.values()], axis=0)
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
