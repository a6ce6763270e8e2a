"""Functions of points as users write them: evaluated, differentiated, checked at every point."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from inspect import isroutine
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import jax
import jax.numpy as jnp
import numpy as np

from tessella.geometry.lattice import along_axes
from tessella.machine import processes
from tessella.machine.arrays import Array, on_device

Function = Callable[[Any], Any]
"""From (n, d) points to (n,) values, both arrays of NumPy or of JAX."""

Orders = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Traced:
    """A number that JAX follows, as a function of the points (see `parametric`)."""

    value: jax.core.Tracer

    def __call__(self, points: Array) -> jax.Array:
        return jnp.full(len(points), self.value)


MANY, FEW = 16_384, 3
"""From so many points on, a function is tried at a few of them first: one that answers with a value
for every pair of points would ask for gigabytes."""


def derivatives(function: Function, gammas: Sequence[Orders], points: Array) -> dict[Orders, Array]:
    """Values and derivatives of a user's function at the points, checked point by point.

    The function sees the whole (n, d) array. Where only its value is wanted that is computed as it
    is, so NumPy code is fine; derivatives are taken by JAX, in one program with the value, so they
    need a function written with `jax.numpy`.
    """
    if not any(map(any, gammas)):
        return {g: function_values(function, points) for g in gammas}
    name = function_name(function)
    _try_few(function, points, name, traced=True)
    with explained(function, points, name):
        at = on_device(padded(np.asarray(points)))
        results = jax.device_get(_program(function, tuple(gammas))(at))
    found = {}
    for gamma, value in zip(gammas, map(np.asarray, results), strict=True):
        what = f"the derivative {gamma} of {name}" if any(gamma) else name
        found[gamma] = check_values(value[: len(points)] if value.ndim else value, points, what)
    return found


ALIKE = 3
"""Functions of one text that are compiled; more of them differ in parameters only, which change
again and again, so that their steps, compiled long ago, are taken one by one."""

_MADE: WeakKeyDictionary[CodeType, WeakSet[Function]] = WeakKeyDictionary()
"""Functions by their text."""


def _program(
    function: Function, gammas: tuple[Orders, ...]
) -> Callable[[jax.Array], list[jax.Array]]:
    if isinstance(function, FunctionType):
        made = _MADE.setdefault(function.__code__, WeakSet())
        made.add(function)
        if len(made) > ALIKE:
            return lambda x: [directional(function, gamma)(x) for gamma in gammas]
    return _compiled(function, gammas, surroundings(function))


@lru_cache(maxsize=64)
def _compiled(
    function: Function, gammas: tuple[Orders, ...], around: Hashable
) -> Callable[[jax.Array], list[jax.Array]]:
    """All these derivatives in one program, kept so that solving again does not compile again;
    another one if what is around the function has changed."""
    return jax.jit(lambda x: [directional(function, gamma)(x) for gamma in gammas])


DEEP, SOME = 4, 100_000
"""Functions in functions, lists in lists and so on that are looked into, and numbers of a large
array that are looked at."""


class Same:
    """An object that is equal to itself only, and stays alive to be so."""

    def __init__(self, own: object) -> None:
        self.own = own

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.own is other.own

    def __hash__(self) -> int:
        return id(self.own)


def surroundings(function: object, deep: int = DEEP) -> Hashable:
    """What a function's values depend on beside its text: numbers, arrays and functions in its
    closure, its defaults and the globals it names, in lists and attributes of these; of anything
    else which object it is, so also of frozen ones, which do not change."""
    if function is None or isinstance(function, int | float | complex | str | bytes | np.generic):
        return function
    if isinstance(function, np.ndarray | jax.Array) and not isinstance(function, jax.core.Tracer):
        numbers = np.asarray(function).ravel()
        return function.shape, numbers[:: 1 + numbers.size // SOME].tobytes()
    frozen = getattr(getattr(function, "__dataclass_params__", None), "frozen", False)
    if isinstance(function, MethodType):
        return tuple(surroundings(own, deep) for own in (function.__self__, function.__func__))
    if deep == 0 or frozen or isinstance(function, ModuleType | type):
        return Same(function)
    inner: Sequence[object] = ()
    if isinstance(function, FunctionType):
        cells = [own.cell_contents for own in function.__closure__ or () if _filled(own)]
        named = [function.__globals__.get(name) for name in _names(function.__code__)]
        inner = (*cells, *(function.__defaults__ or ()), *named)
    elif isinstance(function, list | tuple | set):
        inner = tuple(function)
    elif isinstance(function, dict):
        inner = (*function, *function.values())
    elif hasattr(function, "__dict__"):
        inner = tuple(vars(function).values())
    return Same(function), *(surroundings(own, deep - 1) for own in inner)


def _names(code: CodeType) -> tuple[str, ...]:
    """Of globals, also in functions inside."""
    inner = [name for own in code.co_consts if isinstance(own, CodeType) for name in _names(own)]
    return *code.co_names, *inner


def _filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


FEWEST = 64
"""Points that a program is compiled for, at the least."""


def padded(points: Array) -> Array:
    """The points with the last one repeated until their number has three binary digits followed by
    zeros, so that a few programs serve all numbers of points."""
    n = max(len(points), FEWEST)
    unit = 1 << max(n.bit_length() - 3, 0)
    more = -(-n // unit) * unit - len(points)
    if not more or not len(points):
        return points
    return np.concatenate([points, np.broadcast_to(points[-1:], (more, *points.shape[1:]))])


def directional(function: Function, gamma: Orders) -> Function:
    """D^gamma of a batched function: one forward-mode pass per order of each axis."""
    for axis, order in enumerate(gamma):
        for _ in range(order):
            function = _along(function, axis)
    return function


def _along(function: Function, axis: int) -> Function:
    def derivative(x: jax.Array) -> jax.Array:
        direction = jnp.zeros_like(x).at[:, axis].set(1.0)
        return jax.jvp(lambda p: jnp.asarray(function(p)), (x,), (direction,))[1]

    return derivative


def function_values(function: Function | float, points: Array, what: str | None = None) -> Array:
    """A number or a function of the points as a checked (n,) array."""
    if not callable(function):
        return check_values(np.full(len(points), float(function)), points, what or "the value")
    name = what or function_name(function)
    _try_few(function, points, name)
    returned = along_axes(function, points)
    with explained(function, points, name):
        if returned is None:
            returned = function(np.asarray(points))
        values = np.asarray(returned)
    if np.ma.is_masked(returned):
        raise ValueError(f"{name} returned a masked array: fill in what is masked")
    return check_values(values, points, name)


def _try_few(function: Function, points: Array, what: str, traced: bool = False) -> None:
    """Refuse a function of too many values before it is asked for them all; not one of our own,
    which says that it is `pointwise`. One that JAX can follow need not be called for that. Several
    processes try nothing: it may be a solution in parts, which all must call equally often."""
    if len(points) < MANY or getattr(function, "pointwise", False) or not processes.alone():
        return
    few = points[:FEW]
    try:
        values = np.zeros(jax.eval_shape(function, few).shape) if traced else function(few)
        values = np.asarray(values)
    except Exception:
        return  # It may know all of the points only; if it does not, it fails again.
    if values.ndim > 1:
        check_values(values, few, what)


@contextmanager
def explained(function: Function, points: Array, what: str, traced: bool = True) -> Iterator[None]:
    """What a function must look like, where Python or JAX says that it does not; `traced` includes
    one that JAX cannot differentiate."""
    try:
        yield
    except jax.errors.TracerArrayConversionError:
        if not traced:
            raise
        raise TypeError(
            f"{function_name(function)} must be differentiated, which needs jax.numpy inside "
            f"it: replace NumPy calls such as np.tanh by jnp.tanh"
        ) from None
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        if isinstance(error, ValueError) and not isroutine(function):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(
            f"{what} fails, {reason}: it must map an (n, {points.shape[1]}) array of points to an "
            f"(n,) array of values, e.g. lambda p: np.sin(p[:, 0]), with functions of np or jnp"
        ) from error


def check_values(values: np.ndarray, points: Array, what: str) -> Array:
    """One finite float per point, or an error that names what was wrong and where."""
    n = len(points)
    if values.shape == () and values.dtype == object and values.item() is None:
        raise ValueError(f"{what} returned None: is a `return` missing?")
    if values.shape == ():
        values = np.full(n, values)
    if values.shape != (n,):
        raise ValueError(
            f"{what} returned shape {values.shape} for {n} points: it must map an "
            f"(n, {points.shape[1]}) array of points to an (n,) array of values"
        )
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{what} must be real numbers, got {values.dtype} values")
    values = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        place = ", ".join(f"{c:.6g}" for c in points[bad[0]])
        raise ValueError(
            f"{what} is {values[bad[0]]} at the point ({place}), and not finite at "
            f"{_distinct(points[bad])} of {_distinct(points)} points: it must be finite wherever "
            f"it is evaluated"
        )
    return values


def _distinct(points: Array) -> int:
    """How many there are: of several processes, some ask at points twice to ask for as many."""
    return len(np.unique(np.asarray(points), axis=0))


def short_name(function: object) -> str:
    """What stands for a function in a formula: its name, if it has one."""
    name = getattr(function, "__name__", type(function).__name__)
    return "f(x)" if name == "<lambda>" else str(name)


def function_name(function: object) -> str:
    name = getattr(function, "__name__", None)
    return f"the function {repr(function) if name is None else name!r}"
