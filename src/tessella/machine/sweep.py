"""Runs divided between all commands, on any machines, that were given the same folder.

Each takes the next run that nobody has finished or is busy with, and when none is left waits for
those of the others: if a machine dies, its run is made by one that still waits, and whichever
command ends has seen all runs finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tessella.machine.reserve import Reservations

LOOK = 2.0
"""Seconds after which one who waits looks again."""


class Sweep:
    """Runs by name, of which `left` are neither finished nor under way in this process.

    finished  which of some runs have been finished, by whomever; a run is finished before it ends
    count     told of every run that is finished, once
    tell      told whom this process waits for, in words
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        finished: Callable[[Sequence[str]], Container[str]],
        count: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> None:
        self.left = list(names)
        self._reserved = Reservations(folder)
        self._finished, self._count, self._tell = finished, count, tell
        self._told = ""

    def shared(self) -> AbstractContextManager[None]:
        """Runs are begun inside; at its end those under way are left to others."""
        return self._reserved.kept()

    def __iter__(self) -> Iterator[str]:
        """Runs to be made here, one after the other, until all are finished."""
        while self.left:
            name = self.begin()
            if name is None:
                self.wait()
            else:
                yield name
                self.end(name)

    def begin(self) -> str | None:
        """Reserve the next run, if there is one that nobody has finished or is busy with."""
        finished = self._finished(self.left)
        for name in [name for name in self.left if name in finished]:
            self.end(name)
        for name in list(self.left):
            if self._reserved.take(name):
                if name not in self._finished([name]):
                    self.left.remove(name)
                    return name
                self.end(name)
        return None

    def end(self, name: str) -> None:
        """A run is finished, here or elsewhere."""
        self._reserved.release(name)
        if name in self.left:
            self.left.remove(name)
        self._count(name)

    def wait(self) -> None:
        """A moment, if there are runs under way elsewhere."""
        if not self.left:
            return
        holders = sorted(filter(None, map(self._reserved.holder, self.left)))
        text = f"waiting for {', '.join(holders)}"
        if holders and text != self._told:
            self._tell(text)
            self._told = text
        time.sleep(LOOK)
