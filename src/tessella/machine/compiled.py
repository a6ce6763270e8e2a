"""Compiled programs: some kept in memory, all on disk, so that the next process has them too."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Hashable
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")

WORTH_KEEPING = 0.05
"""Seconds of compilation from which a program is kept."""


def compiled(most: int, static: tuple[int, ...] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`jax.jit` that keeps the programs of the last `most` kinds of arguments.

    JAX keeps every program for good, about 3 MB each, one for every shape of the arguments; one
    that is asked for again comes from disk. `static` are the places of arguments that are compiled
    in.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known: dict[Hashable, Callable[P, R]] = {}
        lock = Lock()

        def fresh() -> Callable[P, R]:
            # JAX frees the programs of a function that nobody holds any more.
            @wraps(function)
            def own(*arguments: P.args, **named: P.kwargs) -> R:
                return function(*arguments, **named)

            return jax.jit(own, static_argnums=static)

        @wraps(function)
        def bounded(*arguments: P.args, **named: P.kwargs) -> R:
            leaves, structure = jax.tree.flatten((arguments, named))
            kind = (structure, *map(_kind, leaves))
            with lock:
                program = known.pop(kind, None) or fresh()
                known[kind] = program  # the last one used is the last to go
                while len(known) > most:
                    known.pop(next(iter(known)))
            return program(*arguments, **named)

        return bounded

    return decorate


def _kind(leaf: object) -> Hashable:
    """What two arguments have in common that run through one program."""
    if isinstance(leaf, float | int):
        return isinstance(leaf, float)
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") and hasattr(leaf, "dtype") else leaf


def keep_compiled() -> Path | None:
    """Give JAX a cache folder of ours, unless one is set already or TESSELLA_CACHE is "off".

    TESSELLA_CACHE may name another folder. Programs are kept apart by processor, because those of
    one may not run on another that shares the home folder.
    """
    wanted = os.environ.get("TESSELLA_CACHE", "")
    if wanted == "off" or jax.config.values.get("jax_compilation_cache_dir"):
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = (Path(wanted) if wanted else home / "tessella") / _processor()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # for worker processes
    return folder


def _processor() -> str:
    """A name for what this processor can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        described = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        described = platform.processor()
    return f"{platform.machine()}-{hashlib.sha1(described.encode()).hexdigest()[:8]}"
