"""Ctrl-C where it does no harm: never inside JAX, nor where it would be swallowed.

Raised while XLA compiles, a KeyboardInterrupt leaves frames behind that hold half of a program, and
the interpreter crashes over them when it ends (7 of 48 runs); raised in a callback of the garbage
collector it is printed and forgotten, and the run goes on. So it waits until neither is on the
stack any more, which a profiling function sees: from then on, at the next call or return.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

UNSAFE = ("jax", "jaxlib", "weakref", "_weakrefset", "threadpoolctl")
"""Packages that an interrupt waits for."""


class Interrupts:
    """What came of Ctrl-C: `seen` once it was pressed, `waiting` until it is passed on, and what
    is `kept` in spite of it, in words."""

    def __init__(self) -> None:
        self.seen: signal.Signals | None = None
        self.waiting = False
        self.kept = "nothing was kept"
        self._until: FrameType | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.seen, self.waiting = signal.Signals(number), True
        self._until = _unsafe(frame)
        if self._until is None:
            self.pass_on()
        sys.setprofile(self._look)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        """Called at every call and return once an interrupt waits."""
        if self._until is None:
            self._until = _unsafe(frame)
            if self._until is None:
                sys.setprofile(None)
                self.pass_on()
        elif event == "return" and frame is self._until:
            self._until = None

    def pass_on(self) -> None:
        """Raise what waits."""
        if self.waiting:
            self.waiting = False
            raise KeyboardInterrupt


def _unsafe(frame: FrameType | None) -> FrameType | None:
    """The outermost call an exception raised here would crash or be swallowed in."""
    found = None
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in UNSAFE or frame.f_code.co_name == "__del__":
            found = frame
        frame = frame.f_back
    return found


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
        if own.waiting:
            sys.setprofile(None)
        own.pass_on()
