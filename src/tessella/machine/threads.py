"""Both cores busy: many small LAPACK calls side by side, or one large one on all cores.

Threaded BLAS inside threads of our own makes them wait for each other (two to six times slower), so
BLAS is held to one thread while we run several, and released for single large calls. The limit
needs `threadpoolctl`; without it everything works, only slower.

Between two such calls is also where work can be ended that takes too long (`until`).
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Generic, Protocol, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


def available_cores() -> list[int]:
    """Those that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


CORES = len(available_cores())


SMALL = 1e8
"""Flops that one core does in a few thousandths of a second."""


def in_parallel(
    function: Callable[[T], R], items: Sequence[T], flops: float = float("inf")
) -> list[R]:
    """[function(item) for item in items], on all cores with one BLAS thread each.

    A single item runs alone with all of BLAS's threads; if all of it is fewer than `SMALL` flops,
    on one thread, because waking the others (and waiting for them on a busy machine) costs more.
    """
    moment = _MOMENT.get()

    def timely(item: T) -> R:
        if time.perf_counter() > moment:
            raise OutOfTimeError
        return function(item)

    if flops < SMALL:
        with single_threaded_blas():
            return [timely(item) for item in items]
    if CORES == 1 or len(items) < 2:
        return [timely(item) for item in items]
    with single_threaded_blas():
        return _Shared(timely, items).done(min(CORES, len(items)) - 1)


class _Shared(Generic[T, R]):
    """Items that the calling thread and helpers take one after the other.

    Helpers stay for the next call: in a new thread the first use of BLAS, and of any memory, costs
    about as much as a small solve. Who calls from within a helper is helped only if there is
    another one to spare, so that nobody waits for a thread that waits for him.
    """

    def __init__(self, function: Callable[[T], R], items: Sequence[T]) -> None:
        self.function, self.items = function, items
        self.found: list[R | None] = [None] * len(items)
        self.left = deque(range(len(items)))
        self.errors: dict[int, Exception] = {}

    def take(self) -> None:
        while True:
            try:
                i = self.left.popleft()
            except IndexError:
                return
            try:
                self.found[i] = self.function(self.items[i])
            except Exception as error:
                self.errors[i] = error
                self.left.clear()

    def done(self, helpers: int) -> list[R]:
        helping: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # no thread to be had: then without
                for _ in range(helpers):
                    helping.append(_helpers().submit(copy_context().run, self.take))
            self.take()
        finally:
            self.left.clear()
            late = [own for own in helping if not own.cancel()]
            wait(late)
        for own in late:
            own.result()
        if self.errors:
            raise self.errors[min(self.errors)]
        return cast(list[R], self.found)


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CORES - 1, thread_name_prefix="tessella")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)


class OutOfTimeError(Exception):
    """The moment until which there was time is over."""


_MOMENT = ContextVar("moment", default=math.inf)


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Inside, `in_parallel` begins nothing more once `time.perf_counter()` is beyond a moment: it
    raises OutOfTimeError."""
    token = _MOMENT.set(moment)
    try:
        yield
    finally:
        _MOMENT.reset(token)


class _Limit:
    """BLAS held to one thread while anybody wants it: the first to come sets it, the last to leave
    lifts it, whichever threads they are in."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.held: _Limiter | None = None

    def set(self, controller: _Libraries) -> None:
        with self.lock:
            if not self.users:
                _anybody_may()
                self.held = controller.limit(limits=1, user_api="blas")
                _anybody_may()
            self.users += 1

    def lift(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users and self.held is not None:
                _anybody_may()
                self.held.restore_original_limits()
                _anybody_may()


def _anybody_may() -> None:
    """`threadpoolctl` from 3.7 on does nothing in a thread while another one has set a limit."""
    from threadpoolctl import OpenBLASController

    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_LIMIT = _Limit()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Inside, BLAS has one thread; nested or in several threads at once, until all are done."""
    controller = _controller()
    if controller is None:
        yield
        return
    _LIMIT.set(controller)
    try:
        yield
    finally:
        _LIMIT.lift()


class _Limiter(Protocol):
    def restore_original_limits(self) -> None: ...


class _Libraries(Protocol):
    def limit(self, *, limits: int, user_api: str) -> _Limiter: ...


@cache
def _controller() -> _Libraries | None:
    """The loaded BLAS libraries, looked up once: the look-up is slow and locks the loader."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


def chunks(count: int, per_core: int = 8) -> list[range]:
    """range(count) in contiguous pieces, several per core so that none waits long."""
    pieces = max(1, min(count, per_core * CORES))
    edges = [count * i // pieces for i in range(pieces + 1)]
    return [range(a, b) for a, b in pairwise(edges)]
