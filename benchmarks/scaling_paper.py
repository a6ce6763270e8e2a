"""The paper's way shared by processes of one thread: weak scaling of LSQR, and a large system by
deflation."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from benchmarks.scaling import blocks_of, problem
from tessella.machine import processes
from tessella.machine.launch import launch
from tessella.machine.memory import peak_mib
from tessella.machine.threads import CORES
from tessella.solving.ways import Factored

EDGE, FEATURES, ITERATIONS = 32, 16, 200
"""Subdomains of one process along each axis, their features, and iterations that are timed."""


def part(file: str, number: str) -> None:
    """One process of a run over blocks for `number` of them; process 0 writes what it took."""
    ts.distributed()
    blocks = blocks_of(int(number), 2)
    subdomains = tuple(EDGE * n for n in blocks)
    solver = ts.LSQR(max_iterations=ITERATIONS, atol=0, btol=0)
    choices: dict[str, Any] = {"features": FEATURES, "oversampling": 2.0, "overlap": 2.9}
    before, start = peak_mib(), time.perf_counter()
    factored = ts.factor(problem(blocks), subdomains=subdomains, solver=solver, **choices)
    ready, made = time.perf_counter() - start, []
    solution = factored.solve()
    for _ in range(3):
        processes.total("start", np.zeros(1))
        start = time.perf_counter()
        solution = factored.solve()
        made.append(processes.largest("seconds", time.perf_counter() - start))
    own = factored.ready
    assert isinstance(own, Factored) and isinstance(solution, ts.Solution)
    counted = re.search(r"sent ([\d,]+) bytes", solution.report.solver_note)
    found = {
        "subdomains": "x".join(map(str, subdomains)),
        "rows": solution.report.rows,
        "set-up s": processes.largest("seconds", ready),
        "ms an iteration": 1e3 * min(made) / ITERATIONS,
        "MiB each": processes.largest("memory", peak_mib() - before),
        "bytes": int(counted[1].replace(",", "")) if counted else 0,
        "foretold": 0 if own.share is None else own.share.bytes(ITERATIONS),
    }
    if processes.index() == 0:
        Path(file).write_text(json.dumps(found))


def measured(number: int, blocks: int, most: int) -> dict[str, Any]:
    """So many processes, of so many threads at most, over so many blocks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = [sys.executable, "-m", "benchmarks.scaling_paper", str(file), str(blocks)]
        if launch(number, command, most):
            raise RuntimeError(f"{number} processes over {blocks} blocks failed; see above")
        found: dict[str, Any] = json.loads(file.read_text())
    return found


def weak_scaling_paper() -> None:
    """LSQR with as many subdomains for each process, and beside it one process with all threads."""
    rows: list[dict[str, Any]] = []
    for number in (n for n in (1, 2, 4, 8, 16) if n <= max(4, CORES)):
        found, whole = measured(number, number, 1), measured(1, number, CORES)
        first = (rows[0] if rows else found)["ms an iteration"]
        rows.append(
            {"processes": number, **found, "efficiency": first / found["ms an iteration"],
             f"ms, 1 process of {CORES} threads": whole["ms an iteration"]}
        )  # fmt: skip
        save("weak_scaling_paper", rows)
    table(f"LSQR on overlapping subdomains, {CORES} cores", rows)


if __name__ == "__main__":
    part(*sys.argv[1:])
