"""What JSON holds, checked against the types of a dataclass before anything is made of it."""

from __future__ import annotations

import dataclasses
import math
import types
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

DEEPEST = 300
"""Levels of what may be anything."""

SHOWN = 60
"""Letters of a wrong value that an error shows."""


def as_type(kind: Any, value: Any, where: str) -> Any:
    """`value` as this type, lists as tuples and objects as dataclasses; else a ValueError that says
    `where` it is of another one.

    Fields of a dataclass that have a default may be missing, unknown ones may not be there. Whole
    numbers may be written as 3.0, numbers may be NaN.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _shallow(value, where)
    if origin in (Union, types.UnionType):
        return _first(arguments, value, where)
    if origin is Literal:
        return _require(value, isinstance(value, str) and value in arguments, kind, where)
    if origin is dict:
        _require(value, isinstance(value, dict), kind, where)
        own = arguments[1]
        return {as_type(str, k, where): as_type(own, v, f"{where}.{k}") for k, v in value.items()}
    if origin is tuple:
        return _items(arguments, value, where)
    if dataclasses.is_dataclass(kind):
        return _fields(kind, value, where)
    return _plain(kind, value, where)


def _shallow(value: Any, where: str) -> Any:
    """Anything that is not nested so deeply that no function could follow."""
    level = [value]
    for _ in range(DEEPEST):
        held = [own for own in level if isinstance(own, dict | list)]
        if not held:
            return value
        level = [item for own in held for item in (own.values() if isinstance(own, dict) else own)]
    raise ValueError(f"{where} is nested too deeply")


def _first(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """The first of several types that fits."""
    for kind in kinds:
        try:
            return as_type(kind, value, where)
        except ValueError:
            continue
    return _require(value, False, " or ".join(map(_name, kinds)), where)


def _items(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _require(value, isinstance(value, list | tuple), tuple, where)
    if len(kinds) == 2 and kinds[1] is ...:
        kinds = (kinds[0],) * len(value)
    _require(value, len(value) == len(kinds), f"list of {len(kinds)}", where)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(as_type(kind, item, f"{where}[{k}]") for k, (kind, item) in pairs)


def _fields(kind: Any, value: Any, where: str) -> Any:
    _require(value, isinstance(value, dict), dict, where)
    known = dataclasses.fields(kind)
    for name in value:
        if name not in [field.name for field in known]:
            raise ValueError(f"{where} has an unknown {_shown(name)}")
    for field in known:
        optional = field.default, field.default_factory
        if field.name not in value and optional == (dataclasses.MISSING,) * 2:
            raise ValueError(f"{field.name!r} is missing from {where}")
    hints = _hints(kind)
    return kind(**{name: as_type(hints[name], v, f"{where}.{name}") for name, v in value.items()})


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _plain(kind: Any, value: Any, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and number:
        _require(value, not isinstance(value, int) or abs(value) < 1 << 1000, kind, where)
        return float(value)
    if kind is int and number:
        whole = isinstance(value, int) or (math.isfinite(value) and value.is_integer())
        return int(_require(value, whole, kind, where))
    if kind is str and isinstance(value, str):
        value.encode()
        return value
    return _require(value, isinstance(value, kind) and not number, kind, where)


def _require(value: Any, fits: bool, kind: Any, where: str) -> Any:
    if fits:
        return value
    raise ValueError(f"{where} is {_shown(value)} where {_name(kind)} belongs")


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return WORDS.get(get_origin(kind) or kind, str(kind))


WORDS: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    types.NoneType: "null",
    dict: "an object",
    tuple: "a list",
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
