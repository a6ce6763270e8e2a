"""A problem as a function of parameters: the same statements with other numbers."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.ndimage
from jax.tree_util import PyTreeDef, tree_unflatten

from tessella.geometry.domain import Domain
from tessella.machine.arrays import Array
from tessella.problem.problem import Problem, restated

RASTER = {1: 4096, 2: 256, 3: 64}
"""Points per axis at which pieces and holes of a domain are counted."""


class Shape:
    """How numbers stand in theta, an array or any tree of arrays."""

    def __init__(self, tree: PyTreeDef, shapes: list[tuple[int, ...]]) -> None:
        self.tree, self.shapes = tree, shapes
        self.sizes = [int(np.prod(shape)) for shape in shapes]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.tree, self.shapes) == (other.tree, other.shapes)

    __hash__ = None  # type: ignore[assignment]

    def theta(self, numbers: Any) -> Any:
        """As the caller has it, of all numbers (p,), NumPy's or JAX's."""
        ends, leaves = np.cumsum([0, *self.sizes]).tolist(), []
        for start, end, shape in zip(ends, ends[1:], self.shapes, strict=False):
            leaf = numbers[start:end].reshape(shape)
            leaves.append(leaf[()] if isinstance(leaf, np.ndarray) and not shape else leaf)
        return tree_unflatten(self.tree, leaves)


class Restated:
    """problem_of(theta) at any theta: checked in full once, then only what may change."""

    def __init__(self, problem_of: Callable[[Any], Problem], door: str = "parametric") -> None:
        self.problem_of, self.door = problem_of, door
        self.shape: Shape | None = None
        self.first: Problem | None = None
        self._lock = threading.Lock()
        self._topology: list[tuple[str, int, int]] = []

    def at(self, numbers: Array) -> Problem:
        """The problem for these numbers (p,)."""
        assert self.shape is not None
        with self._lock:
            if self.first is None:
                self.first = self._asked(numbers)
                self._topology = topology(self.first.domain)
                return self.first
        made = self.near(numbers)
        self._check_topology(made.domain, numbers)
        return made

    def near(self, numbers: Array) -> Problem:
        """The same for numbers that hardly differ from some that were asked before."""
        with restated():
            return self._like_first(self._asked(numbers), numbers)

    def _check_topology(self, domain: Domain, numbers: Array) -> None:
        assert self.first is not None
        if domain == self.first.domain:
            return
        found = topology(domain)
        if found != self._topology:
            raise ValueError(
                f"theta={spelled(numbers)} changes the domain's topology, from "
                f"{_told(self._topology)} to {_told(found)}: u does not depend on theta "
                f"smoothly there, so bound theta to keep it"
            )

    def _asked(self, numbers: Any) -> Problem:
        assert self.shape is not None
        with self._named(numbers):
            found = self.problem_of(self.shape.theta(numbers))
        if not isinstance(found, Problem):
            raise TypeError(
                f"problem_of(theta) must return a Problem, got {found!r}: is a return missing?"
            )
        return found

    @contextmanager
    def _named(self, numbers: Any) -> Iterator[None]:
        """An error of problem_of with the door that asked for theta; where JAX follows theta, JAX's
        own."""
        try:
            yield
        except Exception as error:
            if not isinstance(numbers, np.ndarray):
                raise
            said = f"problem_of({spelled(numbers)}) fails in {self.door}(), {_reason(error)}"
            kind = type(error) if isinstance(error, ValueError | TypeError) else RuntimeError
            raise kind(said) from error

    def followed(self, numbers: Any) -> Problem:
        """Statements for numbers that JAX follows."""
        with restated():
            return self._asked(numbers)

    def _like_first(self, stated: Problem, numbers: Array) -> Problem:
        first = self.first
        assert first is not None
        for what, own, other in (
            ("statements", _names(first), _names(stated)),
            ("axes", first.domain.axes, stated.domain.axes),
            ("regions", first.domain.regions, stated.domain.regions),
            ("parts of the boundary", first.domain.parts, stated.domain.parts),
        ):
            if own != other:
                raise ValueError(
                    f"problem_of({spelled(numbers)}) has other {what} than before, {other} in "
                    f"place of {own}: theta may change numbers, functions and sizes only"
                )
        made = copy.copy(first)
        for name in ("domain", "equation", "conditions", "ansatz"):
            object.__setattr__(made, name, getattr(stated, name))
        object.__setattr__(made, "exact", None)
        return made


def _reason(error: Exception) -> str:
    told = str(error) if isinstance(error, ValueError | TypeError) else repr(error)
    return told or type(error).__name__


def _names(problem: Problem) -> list[str]:
    return [statement.name for statement in problem.statements]


def spelled(numbers: Array) -> str:
    some = ", ".join(f"{x:.6g}" for x in numbers[:6])
    return f"[{some}{', ...' if len(numbers) > 6 else ''}]"


def _told(found: list[tuple[str, int, int]]) -> str:
    parts = [
        f"{pieces} piece{'s' * (pieces != 1)} with {holes} hole{'s' * (holes != 1)}"
        + (f" in {name!r}" if name else "")
        for name, pieces, holes in found
    ]
    return " and ".join(parts)


def topology(domain: Domain) -> list[tuple[str, int, int]]:
    """Of every region, in how many pieces it is and how many holes it has, as a raster sees it."""
    d = domain.dimension
    if d not in RASTER:
        return []
    x, found = domain.grid((RASTER[d],) * d), []
    for region in domain.regions or ("",):
        inside = domain.contains(x)
        if region:
            inside &= domain.inside(region, x)
        filled = np.pad(inside.reshape((RASTER[d],) * d), 1)
        corners = scipy.ndimage.generate_binary_structure(d, d)
        pieces, outside = scipy.ndimage.label(filled)[1], scipy.ndimage.label(~filled, corners)[1]
        found.append((region, int(pieces), int(outside) - 1))
    return found
