"""Where the data of statements stand in the right-hand sides of a factored system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.overlap.factored import Data
from tessella.solving.ways import Factors

OnBoundary = Callable[[Array, Array | None], Array]
"""A function of points and, on a boundary, of the normals there."""


class Places(NamedTuple):
    """Where a statement's data are asked, on a boundary with the normals there, in which places of
    the right-hand sides they stand, times which scale, and what the ansatz takes off them."""

    points: Array
    which: np.ndarray | slice
    at: np.ndarray | slice
    scale: Array
    lift: Array
    normals: Array | None = None


def places_of(ready: Factors) -> dict[str, Places]:
    """By the names of statements."""
    by_name: dict[str, list[Data]] = {}
    for own in ready.data():
        by_name.setdefault(own.name, []).append(own)
    return {name: _placed(own) for name, own in by_name.items()}


def _placed(parts: Sequence[Data]) -> Places:
    """All data of one statement together."""
    numbers = np.concatenate([np.arange(own.at.start, own.at.stop) for own in parts])
    whole = slice(int(numbers[0]), int(numbers[-1]) + 1)
    at = whole if whole.stop - whole.start == len(numbers) else numbers
    scale = np.concatenate([own.scale for own in parts])
    lift = np.concatenate([own.lift for own in parts])
    if parts[0].which is not None:
        which = [own.which for own in parts if own.which is not None]
        return Places(parts[0].points, np.concatenate(which), at, scale, lift)
    x = np.concatenate([own.points for own in parts])
    normals = [own.normals for own in parts if own.normals is not None]
    turned = np.concatenate(normals) if normals else None
    return Places(x, slice(None), at, scale, lift, turned)


def together(ready: Factors) -> AbstractContextManager[None]:
    """Inside, what a function raises in one of the processes that share data all raise: they have
    other points, and would go on without it."""
    return processes.in_unison("functions") if ready.sharing > 1 else nullcontext()


def right_with(
    ready: Factors, places: Mapping[str, Places], values: Mapping[str, OnBoundary]
) -> Array:
    """The right-hand side of a system with other data of some statements."""
    found = np.array(ready.system.right)
    with together(ready):
        for name, function in values.items():
            own = places[name]
            given = np.asarray(function(own.points, own.normals))[own.which]
            found[own.at] = (given - own.lift) * own.scale
    return found


def right_of(
    ready: Factors, places: Mapping[str, Places], values: Mapping[str, OnBoundary]
) -> Array:
    """The right-hand side of the differences that data of some statements make to a solution."""
    found = np.zeros_like(ready.system.right)
    with together(ready):
        for name, function in values.items():
            own = places[name]
            given = np.asarray(function(own.points, own.normals))[own.which]
            found[own.at] = given * own.scale
    return found
