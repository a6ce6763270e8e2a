"""What processes would take that have a core each, found on fewer cores.

Every process has a clock of its own, which counts the seconds that it is at work, and every message
carries its sender's. Who receives one waits, if need be, until the sender's clock and `DELAY`: so
the clocks follow what depends on what, however the processes take turns on the cores there are.
Messages go as they would if each had a core, short ones through memory; what a process does because
it has none, sleep and be woken, is not counted.
Of what many cores take from each other, caches and memory, they know what few do to each other,
which is measured by as many processes that have nothing to do with each other.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from benchmarks import scaling_paper
from benchmarks.harness import save, table
from benchmarks.scaling import (
    APART,
    REPEATS,
    SIZE_3D,
    SIZES,
    beside,
    blocks_of,
    problem,
    run,
    slowest,
)
from tessella.machine import messages, processes, rings
from tessella.machine.messages import WAKES

DELAY, SOCKET = 2e-6, 30e-6
"""Seconds from the sending of a message until somebody who waits for it goes on, through memory and
over a socket (from so many bytes on); copying is work of both."""

NUMBERS = (2, 4, 8, 16)


class Clock:
    """Of this process; `waited` tells for what, and how long."""

    def __init__(self) -> None:
        self.waited: Counter[str] = Counter()
        self._start, self.idle = time.process_time(), 0.0
        wire: Any = processes._Here.wire
        if wire is not None:
            self._wire, self._send, self._receive = wire, wire.send, wire.receive
            wire.send, wire.receive = self._sent, self._received
            wire._wait, wire._push = self._uncounted(wire._wait), self._pushed(wire._push)

    @property
    def now(self) -> float:
        return time.process_time() - self._start + self.idle

    def restart(self) -> None:
        """All processes together."""
        processes.total("start", np.zeros(1))
        self.waited.clear()
        self._start, self.idle = time.process_time(), 0.0

    def _uncounted(self, work: Callable[..., None]) -> Callable[..., None]:
        def done(*given: Any) -> None:
            start = time.process_time()
            work(*given)
            self._start += time.process_time() - start

        return done

    def _pushed(self, push: Callable[..., None]) -> Callable[..., None]:
        """Who is awake needs not be woken."""
        uncounted = self._uncounted(push)
        return lambda to, piece: (uncounted if piece == WAKES else push)(to, piece)

    def _sent(self, to: Sequence[int], what: str, arrays: Sequence[np.ndarray]) -> None:
        own = np.array(self.now)
        self._send(to, what, [*arrays, own])
        self._wire.sent -= len(to) * own.nbytes

    def _received(self, source: int, what: str, step: int | None = None) -> list[np.ndarray]:
        *arrays, theirs = self._receive(source, what, step)
        delay = SOCKET if sum(x.nbytes for x in arrays) > rings.SIZE / 2 else DELAY
        wait = float(theirs) + delay - self.now
        if wait > 0:
            self.idle += wait
            self.waited[what] += wait
        return arrays


def clocked(work: Callable[[], Any]) -> dict[str, Any]:
    """When the last process is done by the clocks, the sooner of some repetitions; how long one is
    at work at most, and for what process 0 waited longest."""
    work()
    clock, found = Clock(), []
    for _ in range(REPEATS):
        clock.restart()
        work()
        now, idle, waited = clock.now, clock.idle, clock.waited.most_common(3)
        last, most = processes.largest_each("last", now, now - idle)
        told = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in waited)
        found.append({"ms": 1e3 * last, "at work, ms": 1e3 * most, "process 0 waits for, ms": told})
    return min(found, key=lambda one: float(one["ms"]))


def cells(number: int, dimension: int, edge: int, features: int) -> dict[str, Any]:
    """A block of cells for each of so many processes, assembled, mapped, joined and solved."""
    blocks = blocks_of(number, dimension)
    stated, subdomains = problem(blocks), tuple(edge * n for n in blocks)
    choices: dict[str, Any] = {"coupling": "interfaces", "features": features, "estimate": False}
    return clocked(lambda: ts.solve(stated, subdomains=subdomains, **choices))


def lsqr(number: int) -> dict[str, Any]:
    """Some iterations of LSQR, with as many overlapping subdomains for each process."""
    factored = scaling_paper.factored(number)
    found = clocked(factored.solve)
    each = {"ms": found["ms"], "at work, ms": found["at work, ms"]}
    return found | {name: ms / scaling_paper.ITERATIONS for name, ms in each.items()}


CASES: dict[str, Callable[[int], dict[str, Any]]] = {
    "cells, plane": lambda number: cells(number, *SIZES[0]),
    "larger blocks": lambda number: cells(number, *SIZES[2]),
    "cells, space": lambda number: cells(number, *SIZE_3D),
    "LSQR, an iteration": lsqr,
}


def part(file: str, case: str, number: str) -> None:
    """One process of a run; process 0 writes what the clocks say, with `APART` each does."""
    messages.AWAKE = messages.NAP = 0.0
    processes._own_cores = lambda here: True  # type: ignore[assignment]
    if number == APART:
        file, number = beside(file), "1"
    else:
        ts.distributed()
    found = CASES[case](int(number))
    if processes.index() == 0:
        Path(file).write_text(json.dumps(found))


def clocks() -> None:
    """Weak scaling on cores that processes would have to themselves."""
    rows: list[dict[str, Any]] = []
    for case in CASES:
        for number in NUMBERS:
            found = run(number, 1, "benchmarks.clocks", case, number)[0]
            apart = slowest(run(number, 1, "benchmarks.clocks", case, APART), "ms")
            row = {"case": case, "processes": number, "efficiency": apart / found["ms"]}
            rows.append(row | {"apart, ms": apart} | found)
            print(f"  {case}, {number} processes: {row['efficiency']:.2f}", flush=True)
            save("clocks", rows)
    table("weak scaling by clocks", rows)


if __name__ == "__main__":
    part(*sys.argv[1:])
