"""Functions that are the same but for numbers: what is stated anew needs no new program.

Whoever states a problem for one parameter after the other hands in new functions each time, of the
same code but with other numbers in their closures. Opened, such functions are equal; closed again
around numbers that are traced, they are one program for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CellType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Number:
    """The place of a number in a closure."""


@dataclass(frozen=True)
class Opened:
    """A function without the numbers in its closure: equal to all that have its code, its globals
    and otherwise the same in their closures."""

    code: int
    module: int
    defaults: tuple[Any, ...]
    closure: tuple[Any, ...]
    one: FunctionType = field(compare=False)


def opened(function: Any, numbers: list[float]) -> Any:
    """A function without the numbers in its closure, and in those of functions there; they are
    added to a list. Anything else as it is, and so a closure whose contents do not compare."""
    if isinstance(function, float):
        numbers.append(float(function))
        return Number()
    if not isinstance(function, FunctionType) or function.__kwdefaults__:
        return function
    found: list[float] = []
    try:
        own = tuple(cell.cell_contents for cell in function.__closure__ or ())
        closure = tuple(
            opened(one, found) if isinstance(one, FunctionType | float) else one for one in own
        )
        shape = Opened(
            id(function.__code__),
            id(function.__globals__),
            function.__defaults__ or (),
            closure,
            function,
        )
        hash(shape)
    except (TypeError, ValueError, RecursionError):
        return function
    numbers += found
    return shape


def closed(shape: Any, numbers: Iterator[Any]) -> Any:
    """What was opened, with other numbers."""
    if isinstance(shape, Number):
        return next(numbers)
    if not isinstance(shape, Opened):
        return shape
    one = shape.one
    cells = tuple(CellType(closed(own, numbers)) for own in shape.closure)
    return FunctionType(one.__code__, one.__globals__, one.__name__, one.__defaults__, cells)
