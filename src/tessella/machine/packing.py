"""Objects as JSON and plain arrays, and back, for files that nobody need trust.

Only classes that the reader lists are ever made, from fields of the types they declare. What the
reader has already (`given`) is named by its number. An object or array that occurs twice is written
once, and is one again when it is read. Fields that begin with an underscore are what an object has
remembered: they are left out.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np

from tessella.machine.archive import Archive
from tessella.machine.arrays import on_device

STORED = {"f": "float64", "i": "int64", "b": "uint8"}
"""By the kind of numbers: what a file holds instead."""

DTYPES = ("float64", "int64", "int32", "bool")
"""Of the arrays that are read."""

LEAST = 10_000_000
"""Whole numbers up to this one are believed, larger ones up to the bytes of the file."""

Known = dict[str, type]

Later = Mapping[str, set[str]]


class Packed(NamedTuple):
    """What JSON holds, and the arrays it names."""

    tree: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(own.nbytes for own in self.arrays.values())


def known_as(classes: Iterable[type]) -> Known:
    """Classes by their names."""
    return {own.__name__: own for own in classes}


def pack(value: object, known: Known, given: Sequence[object] = ()) -> Packed:
    """An object of known classes, tuples, lists, dictionaries, slices, texts, numbers, arrays."""
    packing = _Packing(known, given)
    root = packing.described(value)
    return Packed({"objects": packing.objects, "root": root}, packing.arrays)


class _Packing:
    def __init__(self, known: Known, given: Sequence[object]) -> None:
        self.known, self.given = known, given
        self.objects: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._met: dict[int, tuple[object, Any]] = {}

    def described(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | float | np.generic):
            return value.item() if isinstance(value, np.generic) else value
        if id(value) not in self._met:
            self._met[id(value)] = value, self._new(value)
        return self._met[id(value)][1]

    def _new(self, value: Any) -> Any:
        for same in (_identical, _equal):
            for number, own in enumerate(self.given):
                if same(value, own):
                    return {"given": number}
        if isinstance(value, np.ndarray | jax.Array):
            return self._array(value)
        if type(value) is tuple:
            return [self.described(own) for own in value]
        if type(value) is list:
            return {"list": [self.described(own) for own in value]}
        if type(value) is dict:
            return {"dict": [[self.described(k), self.described(v)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop]}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        name = type(value).__name__
        if self.known.get(name) is not type(value):
            raise TypeError(f"a file cannot hold a {name}")
        fields = {own: self.described(getattr(value, own)) for own in _fields(self.known[name])}
        self.objects.append([name, fields])
        return {"object": len(self.objects) - 1}

    def _array(self, value: np.ndarray | jax.Array) -> dict[str, Any]:
        own, name = np.asarray(value), f"packed_{len(self.arrays)}"
        turned = own.ndim == 2 and own.strides[0] < own.strides[1]
        self.arrays[name] = (own.T if turned else own).astype(STORED[own.dtype.kind], copy=False)
        found = {"array": name, "of": str(own.dtype), "turned": turned}
        return found | {"device": isinstance(value, jax.Array)}


def _identical(a: object, b: object) -> bool:
    return a is b


def _equal(a: object, b: object) -> bool:
    """Whether two objects of a class that is compared by its fields are equal."""
    params = getattr(a, "__dataclass_params__", None)
    return type(a) is type(b) and params is not None and params.eq and bool(a == b)


@lru_cache
def _fields(kind: type) -> tuple[str, ...]:
    every = getattr(kind, "_fields", None) or [own.name for own in dataclasses.fields(kind)]
    return tuple(name for name in every if not name.startswith("_"))


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def unpack(
    tree: dict[str, Any],
    archive: Archive,
    known: Known,
    given: Sequence[object] = (),
    later: Later | None = None,
) -> Any:
    """The object again; a ValueError says what makes no sense. Files that are older than some
    fields may lack them (`later`, by class)."""
    return _Unpacking(tree, archive, known, given, later or {}).root()


class _Unpacking:
    def __init__(
        self,
        tree: dict[str, Any],
        archive: Archive,
        known: Known,
        given: Sequence[object],
        later: Later,
    ) -> None:
        self.tree, self.archive, self.known, self.given = tree, archive, known, given
        self.later = later
        self.objects: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self.largest = max(LEAST, archive.path.stat().st_size)

    def root(self) -> Any:
        objects = self.tree.get("objects")
        if not isinstance(objects, list) or "root" not in self.tree:
            raise ValueError("its objects are missing")
        for one in objects:
            if not (isinstance(one, list) and len(one) == 2 and isinstance(one[1], dict)):
                raise ValueError(f"object {len(self.objects)} is none")
            self.objects.append(self._made(*one))
        return self.value(self.tree["root"])

    def _made(self, name: Any, fields: dict[str, Any]) -> Any:
        kind = self.known.get(name) if isinstance(name, str) else None
        every = set() if kind is None else set(_fields(kind))
        if kind is None or not every - self.later.get(name, set()) <= fields.keys() <= every:
            raise ValueError(f"there is no {str(name)[:60]!r} of such fields")
        values, hints = {key: self.value(own) for key, own in fields.items()}, _hints(kind)
        for key, own in values.items():
            if not _fits(hints[key], own):
                raise ValueError(f"{key!r} of a {name} is of another type")
        return kind(**values)

    def value(self, described: Any) -> Any:
        if isinstance(described, list):
            return tuple(self.value(own) for own in described)
        if isinstance(described, int) and abs(described) > self.largest:
            raise ValueError(f"{described} is a number too large to count anything in it")
        if not isinstance(described, dict):
            return described
        match described:
            case {"object": int(number)} if 0 <= number < len(self.objects):
                return self.objects[number]
            case {"given": int(number)} if 0 <= number < len(self.given):
                return self.given[number]
            case {"array": str(name), "of": str(dtype), "turned": turned, "device": device}:
                if name not in self.arrays:
                    self.arrays[name] = self._array(name, dtype, bool(turned), bool(device))
                return self.arrays[name]
            case {"list": list(items)}:
                return [self.value(own) for own in items]
            case {"dict": list(pairs)}:
                return dict(self.value(pair) for pair in pairs)
            case {"slice": [int(start), int(stop)]}:
                return slice(start, stop)
            case {"bytes": str(digits)}:
                return bytes.fromhex(digits)
        raise ValueError(f"nothing is described by {str(described)[:60]}")

    def _array(self, name: str, dtype: str, turned: bool, device: bool) -> Any:
        if dtype not in DTYPES:
            raise ValueError(f"{name!r} is of {dtype[:20]!r}")
        kind, shape = np.dtype(dtype).kind, self.archive.shape(name)
        stored = self.archive.array(name, shape, kind=np.dtype(STORED[kind]).kind)
        found = stored.astype(dtype, copy=False)
        if found is not stored and not np.array_equal(found, stored):
            raise ValueError(f"{name!r} has numbers that are no {dtype}")
        found = found.T if turned else found
        return on_device(found) if device else found


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value is of the type that a field declares."""
    hint = getattr(hint, "__value__", hint)  # of a name that a `type` statement gives
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(own, value) for own in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if hint in (int, float):
        allowed = int if hint is int else int | float
        return isinstance(value, allowed) and not isinstance(value, bool)
    wanted: type = origin or (types.NoneType if hint is None else hint)
    return isinstance(value, wanted) and _holds(origin, arguments, value)


def _holds(origin: Any, arguments: tuple[Any, ...], value: Any) -> bool:
    """Whether what is in an array, a dictionary, a list or a tuple is of the types it declares."""
    if origin is np.ndarray:
        return value.dtype == np.float64 or arguments[-1] != np.dtype[np.float64]
    if origin is dict:
        key, own = arguments
        return all(_fits(key, k) and _fits(own, v) for k, v in value.items())
    if origin is list:
        return all(_fits(arguments[0], own) for own in value)
    if origin is tuple:
        kinds = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        return len(kinds) == len(value) and all(map(_fits, kinds, value))
    return True
