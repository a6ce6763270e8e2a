"""Compiled programs kept on disk, so that the next process need not compile them again."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax

WORTH_KEEPING = 0.05
"""Seconds of compilation from which a program is kept."""


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
