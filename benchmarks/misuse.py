"""Public doors called with one wrong argument each: what is not the right answer must be refused.

A refusal is a ValueError, TypeError, MemoryError, OSError or ImportError that was raised on
purpose: its innermost frame lies in the package, and its message names the argument or shows its
value.
"""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.doors import ANYTHING, KINDS, Door, doors
from benchmarks.fuzz_files import in_time

INSIDE = str(Path(ts.__file__).parent)

REFUSALS = (ValueError, TypeError, MemoryError, OSError, ImportError)


def outcome_of(door: Door, argument: str, wrong: Any, right: Any) -> tuple[str, str]:
    """What a call with a wrong argument ends in: "refused", "right answer", or a failure."""
    try:
        with warnings.catch_warnings(), in_time():
            warnings.simplefilter("ignore")
            answer = door.use(door.call(**{**door.good, argument: wrong}))
    except Exception as error:  # whatever it is, it is what we look for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        told = f"{type(error).__name__}: {str(error)[:200]} ({where})"
        if type(error) not in (*REFUSALS, FileNotFoundError, IsADirectoryError, PermissionError):
            return "ends inside", told
        if not frame.filename.startswith(INSIDE):
            return "ends inside", told
        known = any(word in str(error) for word in _words(argument, wrong))
        return ("refused", "") if known else ("does not name the argument", told)
    if _same(answer, right):
        return "right answer", ""
    return "accepted", repr(answer)[:100]


ALSO = {
    "holes": "hole",
    "jump": "value core/rest",
    "flux_jump": "flux core/rest",
    "f": "coefficient",
    "rhs": "right-hand side",
    "axis": "face",
    "on": "face",
    "path": "file",
    "equation": "Equation",
    "subdomains": "subdomain",
    "interior": "PointCloud",
}
"""What else stands for an argument in a message."""


def _words(argument: str, value: Any) -> list[str]:
    """What names an argument: its name, its value, or the name of a function."""
    words = [argument, repr(value)[:12], ALSO.get(argument, argument)]
    if hasattr(value, "__name__"):
        words.append(value.__name__)
    return [*words, value[:20]] if isinstance(value, str) and value else words


def _same(answer: Any, right: Any) -> bool:
    if isinstance(right, np.ndarray | float | int):
        try:
            return bool(np.allclose(answer, right, rtol=1e-2, atol=1e-3))
        except (TypeError, ValueError):
            return False
    return bool(answer == right)


def _makes_sense(kind: str, value: Any) -> bool:
    """Whether a value is right after all."""
    if kind == "count" and isinstance(value, list):
        return value == [1, 2]
    if kind in ("word", "path"):
        return isinstance(value, str) and value in ("a", "x")
    if kind == "points":
        empty = isinstance(value, list) and not value
        return empty or isinstance(value, range) or getattr(value, "shape", ()) == (1, 1)
    return kind == "pair" and repr(value) in ("[1, 2]", "array([1., 2.])")


def calls(count: int, seed: int, folder: str) -> Iterator[tuple[str, Door, str, Any]]:
    """Random doors, arguments and values."""
    known = doors(folder)
    names = [name for name, door in known.items() if door.kinds]
    for number in range(count):
        random = np.random.default_rng([seed, 3, number])
        name = names[random.integers(len(names))]
        door = known[name]
        argument = list(door.kinds)[random.integers(len(door.kinds))]
        kind = door.kinds[argument]
        pool = [v for v in (*KINDS[kind], *ANYTHING) if not _makes_sense(kind, v)]
        yield name, door, argument, pool[random.integers(len(pool))]


def misuse(count: int, seed: int) -> list[dict[str, Any]]:
    """So many calls of public doors with one wrong argument."""
    rows: list[dict[str, Any]] = []
    right: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, door, argument, wrong) in enumerate(calls(count, seed, folder)):
            if name not in right:
                right[name] = door.use(door.call(**door.good))
            outcome, why = outcome_of(door, argument, wrong, right[name])
            call = f"{name}({argument}={str(wrong)[:40]})"
            words = ("misuse", number, call, outcome, why)
            keys = ("what", "number", "change", "outcome", "why")
            rows.append(dict(zip(keys, words, strict=True)))
    return rows
