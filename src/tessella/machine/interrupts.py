"""Ctrl-C where it does no harm: never inside JAX, nor where it would be swallowed.

Raised while XLA compiles, a KeyboardInterrupt leaves frames behind that hold half of a program, and
the interpreter crashes over them when it ends (7 of 48 runs); raised in a callback of the garbage
collector it is printed and forgotten, and the run goes on. So it waits until neither is on the
stack, a hundredth of a second at a time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

UNSAFE = ("jax", "jaxlib", "weakref", "_weakrefset", "threadpoolctl")
"""Packages that an interrupt waits for."""

PAUSE = 0.01
"""Seconds until it is tried again."""


class Interrupts:
    """What came of Ctrl-C: `seen` once it was pressed, `waiting` until it is passed on, and what
    is `kept` in spite of it, in words."""

    def __init__(self) -> None:
        self.seen: signal.Signals | None = None
        self.waiting = False
        self.kept = "nothing was kept"

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.seen, self.waiting = signal.Signals(number), True
        if _unsafe(frame):
            again = threading.Timer(PAUSE, self._retry, (number,))
            again.daemon = True
            again.start()
        else:
            self.pass_on()

    def pass_on(self) -> None:
        """Raise what waits."""
        if self.waiting:
            self.waiting = False
            raise KeyboardInterrupt

    def _retry(self, number: int) -> None:
        main = threading.main_thread().ident
        if main is not None and self.waiting and signal.getsignal(number) is self:
            signal.pthread_kill(main, number)


def _unsafe(frame: FrameType | None) -> bool:
    """Whether an exception raised here would pass through JAX, or be swallowed."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in UNSAFE or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


@contextmanager
def at_safe_points(*others: signal.Signals) -> Iterator[Interrupts]:
    """Inside, Ctrl-C raises KeyboardInterrupt at the next safe point, at the latest at the end; so
    do the `others`.

    Only the main thread is interrupted, and whoever handles signals in a way of their own keeps it;
    nested, the outermost holds for all.
    """
    held = {number: signal.getsignal(number) for number in (signal.SIGINT, *others)}
    ours = held[signal.SIGINT]
    if isinstance(ours, Interrupts):
        yield ours
        return
    own = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield own
        return
    usual = {n: h for n, h in held.items() if h in (signal.default_int_handler, signal.SIG_DFL)}
    for number in usual:
        signal.signal(number, own)
    try:
        yield own
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        own.pass_on()
