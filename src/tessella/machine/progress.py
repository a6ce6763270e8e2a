"""How far a long computation has come and how long it will take: one line for whoever waits."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tessella.machine.interrupts import at_safe_points

Progress = Callable[[int, int, float], None]
"""Called with (iterations done, iteration limit, relative residual); during a set-up or a direct
solve with (parts done, parts, 1), since 1 is the relative residual of x = 0; and with (steps done,
0, estimated error) where nobody knows how many there will be."""

Shown = Progress | bool | None
"""What a door is asked for: a function of one's own, a line on stderr (True), silence (False), or a
line if somebody watches (None)."""

BRIEF = 2.0
"""Seconds within which nothing is shown."""

OFTEN = 0.2
"""Seconds between two drawings."""

WIDTH = 24


@contextmanager
def attended(progress: Shown) -> Iterator[Progress | None]:
    """What shows the progress inside a door; there Ctrl-C waits for safe points."""
    with at_safe_points():
        if callable(progress):
            yield progress
        elif progress or (progress is None and watched()):
            line = Line()
            try:
                yield line
            finally:
                line.erase()
        else:
            yield None


def watched() -> bool:
    """Whether a terminal or a notebook shows stderr, and nobody else writes there at once."""
    if (
        sys.stderr is None
        or sys.stderr.closed
        or threading.current_thread() is not threading.main_thread()
    ):
        return False
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


def inner(progress: Progress | None) -> Progress | None:
    """For the parts of a whole that reports by itself: a line shows them until the whole has
    begun to; a function of one's own is told of everything."""
    return progress.inner if isinstance(progress, Line) else progress


class Line:
    """A line on stderr, drawn over itself, from the third second on."""

    def __init__(self) -> None:
        self.started = self.began = time.perf_counter()
        self.drawn, self.length, self.whole = 0.0, 0, False
        self.limit, self.first, self.last = -1, 0, 0

    def __call__(self, done: int, limit: int, value: float) -> None:
        self.whole = True
        self._show(done, limit, value)

    def inner(self, done: int, limit: int, value: float) -> None:
        """A part of what this line is about."""
        if not self.whole:
            self._show(done, limit, value)

    def _show(self, done: int, limit: int, value: float) -> None:
        now = time.perf_counter()
        if limit != self.limit or done < self.last:  # another count, at a pace of its own
            if self.limit >= 0:
                self.began, self.first = now, done
            self.limit = limit
        self.last = done
        if now - self.started > BRIEF and now - self.drawn > OFTEN:
            self.drawn = now
            self._draw(self._text(done, limit, value, now))

    def _text(self, done: int, limit: int, value: float, now: float) -> str:
        if not limit:
            return f"step {done}, error about {value:.1e}, {spoken(now - self.started)}"
        filled = min(WIDTH, WIDTH * done // limit)
        told = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done:,} of {limit:,}"
        if value != 1:
            told += f", residual {value:.1e}"
        made = done - self.first
        if made > 0:
            told += f", about {spoken((now - self.began) * (limit - done) / made)} left"
        return told

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        try:
            sys.stderr.write("\r" + text.ljust(self.length))
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody listens any more
            self.drawn = float("inf")
        self.length = len(text)

    def erase(self) -> None:
        """Leave no trace."""
        if self.length:
            self._draw("")
            self._draw("\r")


def spoken(seconds: float) -> str:
    """45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
