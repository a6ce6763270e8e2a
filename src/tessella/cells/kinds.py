"""Which cells are equal: those with the same numbers in all their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from uuid import uuid4

import numpy as np

from tessella.cells.draw import digest
from tessella.cells.leaves import Kind, Space
from tessella.cells.rows import Asked
from tessella.cells.system import CellSystem
from tessella.machine.arrays import Array


def _digests(part: Asked) -> list[bytes]:
    """Of every member's rows: equal rows, equal digests."""
    tables = [part.symbol[key] for key in sorted(part.symbol)]
    head = repr((part.name, sorted(part.symbol), part.slot.name))
    if tables and all(np.array_equal(t, np.broadcast_to(t[:1], t.shape)) for t in tables):
        tables = [t[:1] for t in tables]
    count = len(tables[0]) if tables else 1
    found = []
    for i in range(count):
        made = blake2b(head.encode(), digest_size=16)
        for t in tables:
            made.update(t[i].tobytes())
        found.append(made.digest())
    return found * len(part.members) if count == 1 and len(part.members) > 1 else found


def find_kinds(
    system: CellSystem, space_of: np.ndarray, spaces: Sequence[Space]
) -> tuple[list[Kind], np.ndarray]:
    """Cells with the same numbers, and which of these kinds every cell is."""
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
    known: dict[bytes, int] = {}
    members: list[list[int]] = []
    kind_of = np.zeros(system.cells.count, dtype=np.int64)
    port_names: dict[tuple[object, ...], bytes] = {}
    for j in range(system.cells.count):
        key = tuple(p.name for p in system.ports[j])
        if key not in port_names:
            port_names[key] = repr(key).encode()
        space = int(space_of[j])
        head = repr(([draw.name for draw in spaces[space].draws], spaces[space].units))
        name = digest(head.encode(), port_names[key], *parts[j])
        if len(reached) and reached[j]:
            name = uuid4().bytes  # functions of absolute places: like no other
        if name not in known:
            known[name] = len(members)
            members.append([])
        kind_of[j] = known[name]
        members[known[name]].append(j)
    names = list(known)
    kinds = [
        Kind(
            np.array(own),
            spaces[int(space_of[own[0]])],
            system.ports[own[0]],
            tuple(rows[own[0]]),
            sums=_sum_rows(system, own[0], spaces[int(space_of[own[0]])]),
            name=name,
        )
        for own, name in zip(members, names, strict=True)
    ]
    if system.enriching.count:
        kinds = _enriched(system, kinds, reached)
    return kinds, kind_of


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
