"""What a message between two processes takes, through memory that they share and over a socket."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from benchmarks.scaling import run
from tessella.machine import processes
from tessella.machine.threads import CORES

NUMBERS, TIMES, REPEATS = (1, 2_000, 20_000, 60_000, 200_000), 300, 5

MEMORY, SOCKETS = "memory", "sockets"


def part(file: str, way: str) -> None:
    """One of two processes, which swap as many numbers again and again; process 0 writes what a
    swap took at least, in microseconds."""
    if way == SOCKETS:
        processes.shared = lambda *_: {}  # type: ignore[assignment]
    ts.distributed()
    other, found = 1 - processes.index(), {}
    for number in NUMBERS:
        x, spent = {other: np.zeros(number)}, []
        for _ in range(REPEATS):
            processes.total("start", np.zeros(1))
            start = time.perf_counter()
            for _ in range(TIMES):
                processes.swapped("numbers", x)
            spent.append(1e6 * (time.perf_counter() - start) / TIMES)
        found[str(number)] = min(spent)
    if processes.index() == 0:
        Path(file).write_text(json.dumps(found))


def messages() -> None:
    """Two processes of a thread each that swap numbers."""
    ways = {way: run(2, 1, "benchmarks.talking", way)[0] for way in (MEMORY, SOCKETS)}
    rows = [
        {"numbers": n, **{f"us, {way}": found[str(n)] for way, found in ways.items()}}
        for n in NUMBERS
    ]
    save(f"messages_{CORES}_cores", rows)
    table(f"swaps between two processes, {CORES} cores", rows)


if __name__ == "__main__":
    part(*sys.argv[1:])
