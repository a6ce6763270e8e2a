"""How much memory is free, and refusal of what would not fit."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tessella.machine.device import device

_LIMIT: ContextVar[int | None] = ContextVar("limit", default=None)


@contextmanager
def limited(most: int) -> Iterator[None]:
    """Inside, at most this many bytes count as free, so that refusals do not depend on luck."""
    token = _LIMIT.set(most)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def available_bytes() -> int:
    """Free memory on the device the arrays live on, at most what `limited` allows."""
    limit = _LIMIT.get()
    return _free() if limit is None else min(limit, _free())


def _free() -> int:
    statistics = device().memory_stats() or {}
    if "bytes_limit" in statistics:
        return int(statistics["bytes_limit"]) - int(statistics.get("bytes_in_use", 0))
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require(needed: int, what: str, remedy: str) -> None:
    """Raise MemoryError with figures and a remedy if `needed` bytes are not free."""
    free = available_bytes()
    if needed > free:
        raise MemoryError(f"{what} needs about {gib(needed)}, but {gib(free)} are free: {remedy}")


def gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def peak_mib() -> float:
    """Most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def device_name() -> str:
    """The processor the arrays live on."""
    own = device()
    return own.device_kind if own.platform != "cpu" else f"cpu, {os.cpu_count()} cores"
