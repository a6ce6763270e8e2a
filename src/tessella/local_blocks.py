"""The blocks of distinct subdomains side by side, evaluated where they will be factored.

Rows on glued faces are turned from values at Gauss points to modes; rows of an integral are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tessella.arrays import leading
from tessella.assembly import CHUNK_BYTES
from tessella.domain import Array
from tessella.evaluation import basis_tables, evaluate_blocks
from tessella.interfaces import Glued, Side
from tessella.linalg.threads import side_by_side
from tessella.local_rows import LocalRows
from tessella.local_systems import Kind
from tessella.operators import Orders

Modes = Callable[[Side, int, int], Array]
"""(face, slot, subdomain) -> the orthogonal matrix from weighted values to modes there."""


def host_blocks(
    rows: LocalRows, bases: Sequence[Glued], orders: list[int], kinds: list[Kind], modes: Modes
) -> Array:
    """The blocks of all kinds, (K, C, height), as NumPy's."""
    C = np.cumsum([0, *(own.width for own in bases)])
    values = np.zeros((len(kinds), int(C[-1]), rows.layout.height))
    for number, pieces in enumerate(_evaluated(rows, bases, kinds)):
        for part, block in pieces:
            values[part, C[number] : C[number + 1]] = block

    def turn(number: int) -> None:
        block, kind = values[number], kinds[number]
        for face, slots in rows.layout.faces.items():
            if face in kind.faces:
                for place, slot in enumerate(slots[: orders[face[0]]]):
                    own = modes(face, place, int(kind.members[0]))
                    block[:, slot.rows] = block[:, slot.rows] @ own
        for total in rows.sums:
            block[:, total.rows.start] = total.scale * block[:, total.rows].sum(axis=1)

    work = 4.0 * values.size * max(map(len, rows.layout.modes))
    side_by_side(turn, range(len(kinds)), work)
    return values


def device_blocks(
    rows: LocalRows, bases: Sequence[Glued], orders: list[int], kinds: list[Kind]
) -> jax.Array:
    """The same on the device, for kinds whose faces all have the layout's modes; no integrals."""
    unknowns = [
        jnp.concatenate([block for _, block in pieces]) for pieces in _evaluated(rows, bases, kinds)
    ]
    values = jnp.concatenate(unknowns, axis=1)
    for face, slots in rows.layout.faces.items():
        has = np.array([face in kind.faces for kind in kinds])
        for slot in slots[: orders[face[0]]] if has.any() else ():
            values = _turn(values, rows.layout.modes[face[0]], has, slot.rows.start)
    return values


@partial(jax.jit, donate_argnums=0)
def _turn(values: jax.Array, modes: jax.Array, which: jax.Array, start: int) -> jax.Array:
    """values[which, :, start:] @ modes, as far as `modes` reach."""
    part = jax.lax.dynamic_slice_in_dim(values, start, len(modes), axis=2)
    part = jnp.where(which[:, None, None], part @ modes, part)
    return jax.lax.dynamic_update_slice_in_dim(values, part, start, axis=2)


def _evaluated(
    rows: LocalRows, bases: Sequence[Glued], kinds: list[Kind]
) -> Iterator[Iterator[tuple[slice, jax.Array]]]:
    """Unknown by unknown, the blocks at all points of the kinds' first members."""
    layout, tiling = rows.layout, bases[0].decomposition
    first = np.array([kind.members[0] for kind in kinds], dtype=np.int64)
    local = np.zeros((layout.height, tiling.domain.dimension))
    on_faces = (slot for slots in layout.faces.values() for slot in slots)
    for slot in (*layout.inside, *on_faces, *layout.sums):
        local[slot.rows] = slot.points
    points = tiling.centres[first][:, None] + local * tiling.half_widths[first][:, None]
    for data in rows.data:
        points[:, data.rows] = data.x[first]
    for number, own in enumerate(bases):
        symbol = {alpha: c[first] for (f, alpha), c in rows.symbol.items() if f == number}
        yield evaluate_local(own, first, points, symbol)


def evaluate_local(
    basis: Glued, members: np.ndarray, points: Array, symbol: dict[Orders, Array]
) -> Iterator[tuple[slice, jax.Array]]:
    """The operators on each member's own features at its own points (B, m, d), piece by piece.

    Pieces have one shape, so that they compile once; the last one repeats a block to fill up.
    """
    B, m, d = points.shape
    fitting = max(1, CHUNK_BYTES // (8 * basis.width * m))
    step = 1 << min(max(B - 1, 0).bit_length(), fitting.bit_length() - 1)
    for start in range(0, B, step):
        pick = np.minimum(np.arange(start, start + step), B - 1)
        x = points[pick].reshape(-1, d)
        own = {alpha: c[pick].ravel() for alpha, c in symbol.items()}
        rows = np.arange(len(x), dtype=np.int32).reshape(step, m)
        made = evaluate_blocks(
            basis, members[pick], rows, np.full(step, m), x, basis_tables(basis, x, own), own
        )
        part = slice(start, min(start + step, B))
        yield part, leading(made, part.stop - part.start)
