"""Arguments that are not what they must be, refused by name."""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np


def check_kind(value: object, kinds: type | tuple[type, ...], what: str, wanted: str) -> None:
    """Refuse what is not one of these kinds; `wanted` says what to write instead."""
    if not isinstance(value, kinds):
        raise TypeError(f"{what} must be {wanted}, got {value!r}")


def check_flag(value: object, what: str) -> None:
    """Refuse what is neither True nor False."""
    check_kind(value, (bool, np.bool_), what, "True or False")


def check_callable(value: object, what: str, wanted: str) -> None:
    """Refuse what cannot be called, or would make an object of its own when it is."""
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"{what} must be {wanted}, got {value!r}")


def is_number(value: object) -> bool:
    """Whether this is one finite real number."""
    return isinstance(value, Real) and bool(np.isfinite(float(value)))


def whole_numbers(value: object) -> np.ndarray | None:
    """One whole number or a list of them as an array, None if it is anything else."""
    try:
        found = np.atleast_1d(np.asarray(value))
    except ValueError:
        return None
    plain = found.ndim == 1 and found.size > 0 and found.dtype.kind in "iuf"
    if not plain or not np.all(np.abs(found) < 1e18) or np.any(found != np.floor(found)):
        return None
    return found.astype(np.int64)


def as_path(value: Any, what: str = "path") -> Path:
    """The name of a file."""
    check_kind(value, (str, Path), what, "the name of a file")
    if not Path(value).name:
        raise ValueError(f"{what} must be the name of a file, got {str(value)!r}")
    return Path(value)
