"""How much memory is free, and refusal of what would not fit.

Free is what the machine has left, what the container may still take (cgroups), and what this
process may (`ulimit -v`), whichever is least.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path

import jax

from tessella.machine.device import device

_LIMIT: ContextVar[int | None] = ContextVar("limit", default=None)


_OF_THE_HOST: ContextVar[bool] = ContextVar("of the host", default=False)


@contextmanager
def of_the_host() -> Iterator[None]:
    """Inside, free is what the host has, wherever arrays live. JAX need not know the host as a
    device for that, which it does not with JAX_PLATFORMS=cuda."""
    token = _OF_THE_HOST.set(True)
    try:
        yield
    finally:
        _OF_THE_HOST.reset(token)


@contextmanager
def limited(most: int) -> Iterator[None]:
    """Inside, at most this many bytes count as free, so that refusals do not depend on luck."""
    token = _LIMIT.set(most)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def available_bytes(beside: int = 0) -> int:
    """Free memory on the device the arrays live on (or `of_the_host`), at most what `limited`
    allows; `beside` is what other processes on this machine are about to take."""
    limit, free = _LIMIT.get(), _free(beside)
    return free if limit is None else min(limit, free)


def _free(beside: int) -> int:
    statistics = {} if _OF_THE_HOST.get() else device().memory_stats() or {}
    if "bytes_limit" in statistics:
        return int(statistics["bytes_limit"]) - int(statistics.get("bytes_in_use", 0))
    bounds = (_read_lately(time.monotonic()) - beside, _of_the_process())
    return max(0, min(bound for bound in bounds if bound is not None))


LATELY = 0.05
"""Seconds for which what the system's files say is not read again: nothing fills more than some
hundred MiB in that time, and reading takes a hundredth of it."""

_LAST: list[tuple[float, int]] = []
"""When they were read, and what they said."""


def _read_lately(now: float) -> int:
    if _LAST and now - _LAST[0][0] < LATELY:
        return _LAST[0][1]
    bounds = (_of_the_machine(), _of_the_container())
    _LAST[:] = [(now, min(bound for bound in bounds if bound is not None))]
    return _LAST[0][1]


def _of_the_machine() -> int:
    known = _numbers(Path("/proc/meminfo"))
    if "MemAvailable:" in known:
        return known["MemAvailable:"] * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_the_process() -> int | None:
    """What is left of the limit on this process's addresses."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return None
    return most - _numbers(Path("/proc/self/status")).get("VmSize:", 0) * 1024


def _of_the_container(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """The least that any of the groups this process is in may still take; what the kernel would
    drop from its cache counts as free."""
    found = [_left(*one) for line in _lines(own) for one in _groups(groups, line)]
    return min((bound for bound in found if bound is not None), default=None)


@lru_cache(maxsize=64)
def _groups(groups: Path, line: str) -> list[tuple[Path, str, str, str]]:
    """The groups that a line of the process's own names, and what their numbers are called."""
    _, kinds, path = line.split(":", 2)
    if kinds not in ("", "memory"):
        return []
    top, names = (groups, TWO) if not kinds else (groups / kinds, ONE)
    inside = top / path.lstrip("/")
    every = (inside, *inside.parents)
    return [(group, *names) for group in every if group.is_relative_to(top)]


ONE = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
TWO = ("memory.max", "memory.current", "inactive_file")
"""What versions 1 and 2 of cgroups call limit, use and cache."""


UNLIMITED = 2**60


def _left(group: Path, limit: str, used: str, cache: str) -> int | None:
    most = _first(group / limit)
    if not most.isdecimal() or int(most) > UNLIMITED:
        return None
    now = _first(group / used)
    if not now.isdecimal():
        return None
    return int(most) - int(now) + _numbers(group / "memory.stat").get(cache, 0)


def _first(path: Path) -> str:
    return next(iter(_lines(path)), "")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _numbers(path: Path) -> dict[str, int]:
    """The numbers behind the words of a file."""
    pairs = [line.split() for line in _lines(path)]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) > 1 and pair[1].isdecimal()}


@contextmanager
def refusals_with_remedy() -> Iterator[None]:
    """Inside, what XLA or NumPy cannot allocate is a MemoryError that says what to do."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if EXHAUSTED not in str(error):
            raise
        raise _with_remedy(error) from error
    except MemoryError as error:
        if str(error) and ALLOCATE not in str(error):
            raise  # predicted, with a remedy of its own
        raise _with_remedy(error) from error


def _with_remedy(error: Exception) -> MemoryError:
    first = (str(error) or "out of memory").splitlines()[0].rstrip(".: ")
    return MemoryError(f"{first}: use fewer features, subdomains or points")


ALLOCATE, EXHAUSTED = "Unable to allocate", "RESOURCE_EXHAUSTED"
"""How NumPy and XLA say so."""


def require(needed: int, what: str, remedy: str | Callable[[int], str], beside: int = 0) -> None:
    """Raise MemoryError with figures and a remedy if `needed` bytes are not free (see
    `available_bytes`); the remedy may be a function of those that are."""
    free = available_bytes(beside)
    if needed > free:
        remedy = remedy if isinstance(remedy, str) else remedy(free)
        here = " beside the other processes here" if beside else ""
        raise MemoryError(
            f"{what} needs about {gib(needed)}, but {gib(free)} are free{here}: {remedy}"
        )


def gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def peak_mib() -> float:
    """Most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def device_name() -> str:
    """The processor the arrays live on."""
    own = device()
    return own.device_kind if own.platform != "cpu" else f"cpu, {_cores()} cores"


@cache
def _cores() -> int | None:
    """Of the machine: asking takes some hundredths of a millisecond."""
    return os.cpu_count()
