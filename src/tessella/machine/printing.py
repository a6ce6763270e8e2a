"""Objects in words: as a person would write them, and sizes as one would say them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def as_written(thing: DataclassInstance) -> str:
    """`Kind(required, option=value)`, with the options that differ from their default."""
    parts = []
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if field.default is dataclasses.MISSING:
            parts.append(repr(value))
        elif not np.all(value == field.default):
            parts.append(f"{field.name}={value!r}")
    return f"{type(thing).__name__}({', '.join(parts)})"


def times(sizes: Iterable[int]) -> str:
    """8 x 8."""
    return " x ".join(f"{size:,}" for size in sizes)


def counted(number: int, what: str) -> str:
    """1 block, 2 blocks."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def megabytes(size: int) -> str:
    """Bytes as 0.03 MB, 1.2 MB, 340 MB."""
    return f"{size / 1e6:,.{2 if size < 1e6 else 1 if size < 1e8 else 0}f} MB"
