"""Features of all subdomains eliminated on a device, all distinct subdomains at once.

Blocks, triangles and factors stay on the device; the host sees the right-hand side of the traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tessella.arrays import on_device
from tessella.domain import Array
from tessella.linalg.batched_qr import NOWHERE
from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.device_condensation import (
    Eliminated,
    Pieces,
    condense_all,
    own_unknowns,
    pieces,
)
from tessella.linalg.iteration import Progress
from tessella.linalg.rrqr import RRQR
from tessella.local_systems import LocalSystems

Side = tuple[int, int, slice, Array | float]
"""Of a face: the kind of a subdomain there, its number, its coupled rows, their ratios."""


@dataclass(frozen=True)
class DeviceTraces:
    """What is left for the traces, and the way back to the features; all kinds together."""

    systems: LocalSystems
    by: Pieces
    eliminated: Eliminated
    reused: int = 0
    """All kinds at once are factored sooner than some of them are picked out."""

    @property
    def kept(self) -> np.ndarray:
        found = zip(self.eliminated.order, self.eliminated.kept.tolist(), strict=True)
        return self.systems.features_kept([order[:kept] for order, kept in found])

    def renewed(self, systems: LocalSystems) -> DeviceTraces:
        """The same blocks with the right-hand sides of other systems, without factoring again."""
        found = self.eliminated.renewed(on_device(systems.h), self.by)
        return DeviceTraces(systems, self.by, found)

    def _count(self) -> np.ndarray:
        """Rows that every subdomain has for its traces: one for each."""
        count = np.zeros(len(self.systems.columns), dtype=np.int64)
        for kind in self.systems.kinds:
            count[kind.members] = len(kind.coupled)
        return count

    def matrix(self) -> BlockMatrix:
        """The leftover triangles as one matrix with a column block per face."""
        systems = self.systems
        first = np.concatenate([[0], np.cumsum(self._count())])
        sides: list[list[Side]] = [[] for _ in systems.positions]
        for number, kind in enumerate(systems.kinds):
            for j, face, own, ratios in systems.attached(kind):
                sides[face].append((number, j, own, ratios))
        heights = np.array([sum(own.stop for _, _, own, _ in both) for both in sides])
        widths = np.diff(systems.starts)
        shape = len(sides), int(heights.max(initial=1))
        width = int(widths.max(initial=1))
        kinds, at, start, rows, side = (np.zeros(shape, dtype=np.int32) for _ in range(5))
        scale = np.ones((len(sides), 2, width))
        for face, both in enumerate(sides):
            begin = 0
            for which, (number, j, own, ratios) in enumerate(both):
                scale[face, which, : own.stop - own.start] = ratios
                side[face, begin : begin + own.stop] = which
                part = face, slice(begin, begin + own.stop)
                kinds[part], start[part] = number, own.start
                at[part] = np.arange(own.stop)
                rows[part] = first[j] + at[part]
                begin += own.stop
        values = _face_blocks(width, self.eliminated.triangle, kinds, start, at, heights, widths)
        if systems.ratios is not None:
            values = values * scale[np.arange(len(sides))[:, None], side].transpose(0, 2, 1)
        column = np.arange(width)
        columns = np.where(column < widths[:, None], systems.starts[:-1, None] + column, 0)
        group = Group(
            values,
            on_device(rows),
            on_device(columns.astype(np.int32)),
            heights,
            widths,
            systems.positions,
        )
        return BlockMatrix((group,), (int(first[-1]), systems.traces))

    def right_side(self) -> Array:
        """The right-hand side of the system for the traces."""
        count = self._count()
        first = np.cumsum(count) - count
        g = np.zeros(int(count.sum()))
        members = self.by.members.ravel()
        found = np.asarray(self.eliminated.g).reshape(len(members), -1)
        real = members != NOWHERE
        j = members[real]
        filled = np.arange(found.shape[1]) < count[j][:, None]
        g[(first[j][:, None] + np.arange(found.shape[1]))[filled]] = found[real][filled]
        return g

    def features(self, t: Array) -> Array:
        """All features from all traces."""
        systems, e = self.systems, self.eliminated
        J, C = systems.columns.shape
        numbers = np.full((J, e.triangle.shape[1]), NOWHERE, dtype=np.int32)
        scale = np.ones(numbers.shape)
        for kind in systems.kinds:
            for j, face, own, ratios in systems.attached(kind):
                numbers[j, own], scale[j, own] = systems.numbers(face), ratios
        own_traces = np.full((*self.by.members.shape, numbers.shape[1]), NOWHERE, dtype=np.int32)
        real = self.by.members != NOWHERE
        own_traces[real] = numbers[self.by.members[real]]
        shared = jnp.take(on_device(t), own_traces, mode="fill", fill_value=0.0)
        if systems.ratios is not None:
            shared = shared * scale[np.where(real, self.by.members, 0)]
        found = np.asarray(own_unknowns(e.top, e.z, shared, self.by.block, e.kept, C))
        place = np.full((len(e.kept), C), -1)
        number, at = np.nonzero(np.arange(C) < e.kept[:, None])
        place[number, e.order[number, at]] = at
        own = place[self.by.block][:, None, :]
        found = np.where(own >= 0, np.take_along_axis(found, np.maximum(own, 0), axis=2), 0.0)
        a = np.zeros(systems.basis.columns)
        a[systems.columns[self.by.members[real]]] = found[real]
        return a


def eliminate(
    systems: LocalSystems,
    values: jax.Array,
    rule: RRQR,
    progress: Progress | None = None,
    keep: bool = False,
) -> DeviceTraces:
    """Filter and eliminate the features of all kinds; `keep` what `renewed` needs."""
    most = max(len(kind.coupled) for kind in systems.kinds)
    shared = np.full((len(systems.kinds), most), NOWHERE, dtype=np.int32)
    for own, kind in zip(shared, systems.kinds, strict=True):
        own[: len(kind.coupled)] = kind.coupled
    by = pieces([kind.members for kind in systems.kinds])
    found = condense_all(values, shared, on_device(systems.h), by, rule, keep)
    if progress is not None:
        progress(len(systems.kinds), len(systems.kinds), 1.0)
    return DeviceTraces(systems, by, found)


def residuals(systems: LocalSystems, values: jax.Array, a: Array) -> Array:
    """Block times features minus right-hand side in every row of every subdomain."""
    by = pieces([kind.members for kind in systems.kinds])
    found = np.asarray(_images(values, a, *by))
    real = by.members != NOWHERE
    r = np.zeros_like(systems.h)
    r[by.members[real]] = found[real]
    return r - systems.h


@jax.jit
def _images(values: jax.Array, a: jax.Array, block: jax.Array, members: jax.Array) -> jax.Array:
    own = jnp.take(a, members, axis=0, mode="fill", fill_value=0.0)
    return jnp.einsum("pkc,pcm->pkm", own, values[block])


@partial(jax.jit, static_argnums=0)
def _face_blocks(
    width: int,
    triangle: jax.Array,
    kinds: jax.Array,
    start: jax.Array,
    at: jax.Array,
    heights: jax.Array,
    widths: jax.Array,
) -> jax.Array:
    """(faces, width, height): triangle[kind, start + column, at] for every row of a face."""
    column = jnp.arange(width)
    inside = (jnp.arange(kinds.shape[1]) < heights[:, None])[:, None, :]
    inside = inside & (column < widths[:, None])[:, :, None]
    columns = jnp.where(inside, start[:, None, :] + column[:, None], 0)
    return jnp.where(inside, triangle[kinds[:, None, :], columns, at[:, None, :]], 0.0)
