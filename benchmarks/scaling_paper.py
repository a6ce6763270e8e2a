"""The paper's way shared by processes of one thread: weak scaling of LSQR."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from benchmarks.scaling import APART, MANY, beside, blocks_of, problem, repeats, run, slowest
from tessella.linalg.row_matrix import RowMatrix
from tessella.machine import processes
from tessella.machine.memory import peak_mib
from tessella.machine.threads import CORES
from tessella.solving.ways import Factored

EDGE, FEATURES, ITERATIONS = 32, 16, 60
"""Subdomains of one process along each axis, their features, and iterations that are timed."""

MODULE, TIME = "benchmarks.scaling_paper", "ms an iteration"


def factored(number: int) -> Any:
    """Blocks for so many processes, filtered, and ready for some iterations of LSQR."""
    blocks = blocks_of(number, 2)
    return ts.factor(
        problem(blocks), subdomains=tuple(EDGE * n for n in blocks), features=FEATURES,
        solver=ts.LSQR(max_iterations=ITERATIONS, atol=0, btol=0), oversampling=2.0, overlap=2.9,
    )  # fmt: skip


def part(file: str, number: str) -> None:
    """One process of a run over blocks for `number` of them; process 0 writes what it took. With
    `APART` each is alone with a block."""
    if number == APART:
        file, number = beside(file), "1"
    else:
        ts.distributed()
    before, start = peak_mib(), time.perf_counter()
    made_ready = factored(int(number))
    ready, made, spent = time.perf_counter() - start, [], []
    solution = made_ready.solve()
    for _ in range(repeats(int(number))):
        processes.total("start", np.zeros(1))
        start, at_work = time.perf_counter(), time.process_time()
        solution = made_ready.solve()
        spent.append(time.process_time() - at_work)
        made.append(processes.largest("seconds", time.perf_counter() - start))
    own = made_ready.ready
    assert isinstance(own, Factored) and isinstance(solution, ts.Solution)
    counted = re.search(r"sent ([\d,]+) bytes", solution.report.solver_note)
    found = {
        "subdomains": "x".join(str(EDGE * n) for n in blocks_of(int(number), 2)),
        "rows": solution.report.rows,
        "set-up s": processes.largest("seconds", ready),
        TIME: 1e3 * min(made) / ITERATIONS,
        "of a processor": processes.largest("seconds", 1e3 * min(spent) / ITERATIONS),
        "MiB each": processes.largest("memory", peak_mib() - before),
        "bytes": int(counted[1].replace(",", "")) if counted else 0,
        "foretold": 0 if own.share is None else own.share.bytes(ITERATIONS, each=_each(own)),
    }
    if processes.index() == 0:
        Path(file).write_text(json.dumps(found))


def _each(own: Factored) -> int | None:
    """Bytes that this process sends in an iteration, if it has its matrix by rows."""
    return own.state.bytes if isinstance(own.state, RowMatrix) else None


def measured(number: int, size: int, most: int) -> dict[str, Any]:
    """So many processes, of so many threads at most, over so many blocks."""
    return run(number, most, MODULE, size)[0]


def weak_scaling_paper() -> None:
    """LSQR with as many subdomains for each process; beside many of them as many that have nothing
    to do with each other, one process with all threads, and one alone right before and after."""
    rows: list[dict[str, Any]] = []
    for number in (n for n in (1, 2, 4, 8, 16) if n <= max(4, CORES)):
        alone = [measured(1, 1, 1)[TIME]] if number >= MANY else []
        row = {"processes": number, **measured(number, number, 1)}
        if alone:
            alone.append(measured(1, 1, 1)[TIME])
            row["ms, as many apart"] = slowest(run(number, 1, MODULE, APART), TIME)
            row[f"ms, 1 process of {CORES} threads"] = measured(1, number, CORES)[TIME]
        row["ms, one alone"] = float(np.mean(alone)) if alone else (rows[0] if rows else row)[TIME]
        row["efficiency"] = row["ms, one alone"] / row[TIME]
        rows.append(row)
        save(f"weak_scaling_paper_{CORES}_cores", rows)
    table(f"LSQR on overlapping subdomains, {CORES} cores", rows[::-1])


if __name__ == "__main__":
    part(*sys.argv[1:])
