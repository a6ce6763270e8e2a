"""Vectors of rows and of columns: whole, or in parts that processes or devices have.

Each has some blocks of a matrix, their columns, and every row that these blocks fill. A row
that blocks of several fill is kept by all of them, with the same number to the last bit,
so that M^T u needs nobody; after M v each sends the others what its own blocks add to it. (Of a
`RowMatrix` each has the rows that count there, and all columns that these reach.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from tessella.machine import processes
from tessella.machine.arrays import AnyArray, Array, namespace


class Vectors(Protocol):
    """What an iteration asks of its vectors: sums over all rows or columns, wherever they are."""

    @property
    def shared(self) -> bool: ...

    def row_norm(self, u: Any, /) -> Any: ...

    def column_norm(self, v: Any, /) -> Any: ...

    def coming_row_norm(self, u: Any, /) -> Callable[[], Any]:
        """On its way while there is other work, if it comes from several."""
        ...

    def coming_column_norm(self, v: Any, /) -> Callable[[], Any]: ...

    def row_dot(self, u: Any, w: Any, /) -> Any: ...

    def column_dot(self, v: Any, w: Any, /) -> Any: ...

    def largest(self, b: Array, /) -> float: ...


class Whole:
    """Vectors that one process has alone."""

    shared: ClassVar[bool] = False

    def row_norm(self, u: AnyArray) -> AnyArray:
        if isinstance(u, np.ndarray):
            return scipy.linalg.norm(u)
        return namespace(u).linalg.norm(u)

    column_norm = row_norm

    def coming_row_norm(self, u: AnyArray) -> Callable[[], AnyArray]:
        return partial(self.row_norm, u)

    coming_column_norm = coming_row_norm

    def row_dot(self, u: AnyArray, w: AnyArray) -> AnyArray:
        return u @ w

    column_dot = row_dot

    def largest(self, b: Array) -> float:
        return float(np.abs(b).max(initial=0.0))


WHOLE = Whole()


@dataclass(frozen=True, eq=False)
class Halo:
    """Vectors of which this process has a part.

    places   other process -> which of the rows here it has too, in an order that both know
    counter  the process where sums count each of the rows here
    """

    places: dict[int, np.ndarray]
    counter: np.ndarray

    shared: ClassVar[bool] = True

    @cached_property
    def counted(self) -> Array:
        """1 for rows that count here, else 0."""
        return (self.counter == processes.index()).astype(np.float64)

    @cached_property
    def common(self) -> np.ndarray:
        """Rows that some other process has too."""
        none = np.zeros(0, dtype=np.int64)
        return np.unique(np.concatenate([none, *self.places.values()]))

    def added(self, own: AnyArray) -> Array:
        """A vector of rows from what the blocks of every process add to it."""
        filled = np.array(own)
        return self.coming(filled)(filled)

    def coming(self, own: Array) -> Callable[[Array], Array]:
        """The same while there is other work: common rows are complete and go to the others; what
        is called with all rows, once these are complete too, adds what came: in the order of the
        processes, so that all find the same."""
        coming = processes.coming_swapped("halo", {q: own[at] for q, at in self.places.items()})
        here = self.common, own[self.common]

        def added(found: Array) -> Array:
            parts = {q: (self.places[q], part) for q, part in coming.heard().items()}
            parts[processes.index()] = here
            found[self.common] = 0.0
            for q in sorted(parts):
                at, part = parts[q]
                found[at] += part
            return found

        return added

    def row_dot(self, u: Array, w: Array) -> np.float64:
        return _total(self._own_dot(u, w))()

    def column_dot(self, v: Array, w: Array) -> np.float64:
        return _total(v @ w)()

    def row_norm(self, u: Array) -> np.float64:
        return self.coming_row_norm(u)()

    def column_norm(self, v: Array) -> np.float64:
        return self.coming_column_norm(v)()

    def coming_row_norm(self, u: Array) -> Callable[[], np.float64]:
        squares = _total(self._own_dot(u, u))
        return lambda: np.sqrt(squares())

    def coming_column_norm(self, v: Array) -> Callable[[], np.float64]:
        squares = _total(v @ v)
        return lambda: np.sqrt(squares())

    def _own_dot(self, u: Array, w: Array) -> Any:
        """Of the rows that count here."""
        return (self.counted * u) @ w

    def largest(self, b: Array) -> float:
        return processes.largest("largest", float(np.abs(b).max(initial=0.0)))

    def bytes(self) -> int:
        """What this process sends for one vector of rows."""
        return 8 * sum(len(at) for at in self.places.values())


def _total(own: Any) -> Callable[[], np.float64]:
    """Of a number over all processes."""
    coming = processes.coming_total("sums", np.array(own))
    return lambda: np.float64(coming())


AXIS = "devices"
"""Along which XLA's collectives work."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["sent", "added_at", "counted"],
    meta_fields=["turns"],
)
@dataclass(frozen=True, eq=False)
class MeshHalo:
    """Vectors of which a device has a part, inside `jax.shard_map`.

    turns     (from, to) of all devices, for every distance between two with common rows
    sent      for every turn, which rows a device sends; beyond the last row is padding
    added_at  for every turn, to which rows a device adds what it gets
    counted   1 for rows that count here, else 0
    """

    turns: tuple[tuple[tuple[int, int], ...], ...]
    sent: tuple[jax.Array, ...]
    added_at: tuple[jax.Array, ...]
    counted: jax.Array

    shared: ClassVar[bool] = False

    def added(self, own: jax.Array) -> jax.Array:
        """A vector of rows from what the blocks of every device add to it."""
        found = own
        for turn, sent, at in zip(self.turns, self.sent, self.added_at, strict=True):
            part = own.at[sent].get(mode="fill", fill_value=0.0)
            found = found.at[at].add(jax.lax.ppermute(part, AXIS, turn), mode="drop")
        return found

    def row_dot(self, u: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.psum((self.counted * u) @ w, AXIS)

    def column_dot(self, v: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.psum(v @ w, AXIS)

    def row_norm(self, u: jax.Array) -> jax.Array:
        return jnp.sqrt(self.row_dot(u, u))

    def column_norm(self, v: jax.Array) -> jax.Array:
        return jnp.sqrt(self.column_dot(v, v))

    def coming_row_norm(self, u: jax.Array) -> Callable[[], jax.Array]:
        return partial(self.row_norm, u)

    def coming_column_norm(self, v: jax.Array) -> Callable[[], jax.Array]:
        return partial(self.column_norm, v)

    def largest(self, b: Array) -> float:
        raise NotImplementedError("a right-hand side is whole where a solve begins")
