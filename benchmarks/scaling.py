"""Several processes of one thread each that share the cells: time, memory and bytes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from tessella.cells.factors import CellFactors
from tessella.cells.joins.budget import expected, long_part
from tessella.cells.joins.merging import Merged
from tessella.cells.joins.together import Teams
from tessella.cells.joins.traffic import exchange_traffic, traffic
from tessella.cells.order.front import front_of
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Stage
from tessella.cells.solvers import Exchange
from tessella.machine import processes
from tessella.machine.launch import launch
from tessella.machine.memory import limited, peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import CORES
from tessella.solving.method import Method
from tessella.solving.ways import way

SIZES = ((2, 12, 280), (2, 10, 400), (2, 24, 200))
"""Dimension, cells of one process along each axis, and features of a cell."""

SIZE_3D = (3, 4, 250)

APART = "apart"
"""Instead of a number of blocks: each process solves one by itself."""

PLENTY, SCARCE, SCARCE_SIZE = 1 << 20, 4096, (2, 70, 280)
"""MiB that a process counts on, and those that are too few for one and enough for each of four,
with blocks of this size."""

REPEATS, FEW = 10, 3
"""Solves of which the soonest counts; few where one process has all blocks."""

MANY = min(8, CORES)
"""Processes from which on others are run beside."""


def problem(blocks: tuple[int, ...]) -> ts.Problem:
    """-Laplace(u) + a(x) u = f with a and f of the same scale in every block."""

    def coefficient(x: Any) -> Any:
        return 2 + jnp.sin(3 * x[:, 0]) * jnp.cos(2 * x[:, 1])

    def source(x: Any) -> Any:
        return jnp.sin(9 * x[:, 0]) * jnp.cos(7 * x[:, 1])

    box = ts.Box(**{axis: (0, n) for axis, n in zip("xyz", blocks, strict=False)})
    equation = ts.Equation(-ts.Laplacian() + coefficient * ts.Identity(), source)
    return ts.Problem(box, equation, [ts.Dirichlet(0.0)])


def blocks_of(number: int, dimension: int) -> tuple[int, ...]:
    """So many blocks, as even as powers of two allow."""
    found, left, axis = [1] * dimension, number, 0
    while left > 1:
        found[axis] *= 2
        left, axis = left // 2, (axis + 1) % dimension
    return tuple(found)


def part(file: str, number: str, limit: str, dimension: str, edge: str, features: str) -> None:
    """One process of a run over blocks for `number` of them. It counts on so many MiB in all;
    process 0 writes what it took, or why it was refused. With `APART` each is alone with a
    block."""
    if number == APART:
        file, number = beside(file), "1"
    else:
        ts.distributed()
    blocks = blocks_of(int(number), int(dimension))
    stated, subdomains = problem(blocks), tuple(int(edge) * n for n in blocks)
    choices: dict[str, Any] = {
        "coupling": "interfaces", "features": int(features), "estimate": False,
    }  # fmt: skip
    ts.solve(problem((1,) * len(blocks)), subdomains=2, **choices)
    before, seconds, busy = peak_mib(), [], []
    try:
        for _ in range(repeats(int(number)) if int(limit) == PLENTY else 1):
            processes.total("start", np.zeros(1))
            start, work = time.perf_counter(), time.process_time()
            with limited(int((int(limit) - peak_mib()) * 2**20)):
                solution = ts.solve(stated, subdomains=subdomains, **choices)
            busy.append(processes.largest("busy", time.process_time() - work))
            seconds.append(processes.largest("seconds", time.perf_counter() - start))
    except MemoryError as error:
        if processes.index() == 0:
            Path(file).write_text(json.dumps({"refused": str(error)}))
        return
    report = solution.report
    counted = re.search(r"sent ([\d,]+) bytes.* ([\d,]+) to solve", report.solver_note)
    found = {
        "cells": "x".join(map(str, subdomains)),
        "unknowns": report.columns,
        "s": min(seconds),
        "s at work": min(busy),
        "MiB each": processes.largest("memory", peak_mib() - before),
        "MiB, all of the largest process": processes.largest("memory", peak_mib()),
        "joined by": report.solver,
        "iterations": report.iterations,
        "bytes": sum(int(n.replace(",", "")) for n in counted.groups()) if counted else 0,
        "foretold": 0,
    }
    if int(limit) > SCARCE:  # with less they may be joined in another way
        found["foretold"] = foretold(stated, report.iterations, subdomains=subdomains, **choices)
    if processes.index() == 0:
        Path(file).write_text(json.dumps(found))


def repeats(blocks: int) -> int:
    """How often something is solved with so many blocks."""
    return REPEATS if blocks == processes.number() else FEW


def foretold(stated: ts.Problem, iterations: int, **choices: Any) -> int:
    """Bytes that all processes send to join the cells and to solve, in so many iterations if they
    are exchanged."""
    parts = dataclasses.replace(Method(**choices).parts(stated), right_sides=1)
    system = way(parts.basis).assemble(stated, parts)
    ready = way(parts.basis).factor(system, parts, Stopwatch())
    assert isinstance(ready, CellFactors)
    joined, ends = ready.joined, ready.system.cells.faces.ends
    columns = max(space.columns for space in ready.spaces)
    if isinstance(joined, Merged):
        return sum(traffic(joined.order, ends, columns))
    trial = joined.trial(most=iterations)
    tried, front = len(trial.history), front_of(joined.order, joined.solver.group)
    again = trial.again / max(tried, 1)
    made = iterations, tried, again, joined.coarse_order
    return sum(exchange_traffic(front, ends, columns, *made))


def beside(file: str) -> str:
    """A file of this process alone."""
    return f"{file}.{os.getpid()}"


def run(number: int, most: int, module: str, *words: object) -> list[dict[str, Any]]:
    """What so many processes of so many threads wrote, who run a module with a file and words; on
    no GPU, of which a machine has fewer than processes."""
    with tempfile.TemporaryDirectory() as folder:
        given = str(Path(folder) / "found"), *map(str, words)
        command = ["env", "JAX_PLATFORMS=cpu", sys.executable, "-m", module, *given]
        if launch(number, command, most):
            raise RuntimeError(f"{number} processes of {module} {words} failed; see above")
        return [json.loads(file.read_text()) for file in Path(folder).iterdir()]


Size = tuple[int, int, int]


def measured(number: int, blocks: int, most: int, size: Size) -> dict[str, Any]:
    """So many processes, of so many threads at most, over so many blocks."""
    return run(number, most, "benchmarks.scaling", blocks, PLENTY, *size)[0]


def slowest(found: list[dict[str, Any]], name: str) -> float:
    return float(max(row[name] for row in found))


def weak(size: Size, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """As many blocks of cells as processes. Beside many of them as many that have nothing to do
    with each other, which share caches and memory all the same, and one process with all
    threads; and one with its own block right before and right after, since a shared machine is
    not the same a minute later."""
    rows: list[dict[str, Any]] = []
    for number in (n for n in numbers if n <= max(4, CORES)):
        alone = [measured(1, 1, 1, size)["s"]] if number >= MANY else []
        row = {"processes": number, "features": size[2], **measured(number, number, 1, size)}
        if alone:
            alone.append(measured(1, 1, 1, size)["s"])
            strangers = run(number, 1, "benchmarks.scaling", APART, PLENTY, *size)
            row["s, as many apart"] = slowest(strangers, "s")
            whole = measured(1, number, CORES, size)
            row[f"s, 1 process of {CORES} threads"] = whole["s"]
        row["s, one alone"] = float(np.mean(alone)) if alone else (rows[0] if rows else row)["s"]
        row["efficiency"] = row["s, one alone"] / row["s"]
        rows.append(row)
    table(f"cells in {size[0]}D, {CORES} cores", rows[::-1])
    return rows


def scaling() -> None:
    """Weak scaling in the plane."""
    rows: list[dict[str, Any]] = []
    every = (1, 2, 4, 8, 16), (1, 8), (1, 2, 4, 8, 16)
    for size, numbers in zip(SIZES, every, strict=True):
        rows += weak(size, numbers)
        save(f"scaling_{CORES}_cores", rows)


def scaling_3d() -> None:
    """The same in space."""
    save(f"scaling_3d_{CORES}_cores", weak(SIZE_3D, (1, 2, 4, 8, 16)))


def sent() -> None:
    """Bytes that processes send each other, foretold and counted; no times, so that any number of
    them will do on any machine."""
    rows: list[dict[str, Any]] = []
    for size, numbers in ((SIZES[0], (2, 4, 8, 16)), (SIZES[2], (2, 4)), (SIZE_3D, (2, 4, 8))):
        for number in numbers:
            found = run(number, 1, "benchmarks.scaling", number, PLENTY - 1, *size)[0]
            names = ("cells", "joined by", "iterations", "foretold", "bytes")
            rows.append({"processes": number, **{name: found[name] for name in names}})
            save("sent", rows)
    table("bytes sent", rows)


def operations() -> None:
    """Of what one block alone takes, which part of its time a process spends on as much, counted in
    operations: joins of what several have made by one of them, by all together, or not at all, but
    exchanged between their blocks or between single cells."""
    rows = []
    for dimension, edge, features in (SIZES[0], SIZE_3D):
        alone = 0.0
        for number in (1, 2, 4, 8, 16):
            blocks = blocks_of(number, dimension)
            factored = ts.factor(
                problem(blocks), coupling="interfaces", features=features,
                subdomains=tuple(edge * n for n in blocks), solver=Exchange(),
            )  # fmt: skip
            assert isinstance(factored.ready, CellFactors)
            counted = counted_operations(factored.ready, number)
            alone = alone or min(counted.values())
            found = {name: alone / n for name, n in counted.items()}
            rows.append({"dimension": dimension, "processes": number, **found})
    table("efficiency by operations", rows)
    save("operations", rows)


def counted_operations(ready: CellFactors, number: int) -> dict[str, float]:
    """Of the slowest of so many processes."""
    system, stages = ready.system, (plan := _order(ready, number)).stages
    maps, teams = np.zeros(number), Teams(plan).members
    for kind in ready.kinds:
        r, taken = kind.space.columns, sum(port.widths[0] for port in kind.ports)
        rows = taken + sum(len(system.asked[n].slot) for n, _ in kind.asked)
        each = rows * r**2 + r**3 / 3 + 2 * r**2 * taken + 2 * r * taken**2
        np.add.at(maps, plan.owners[kind.members], each)
    own, by_one = maps.copy(), 0.0
    for i, stage in enumerate(stages[:-1]):
        if stage.cells is None and i not in plan.above:
            own[stage.owner] += stage.count * stage.flops
    together = own.copy()
    for level in plan.levels:
        above = [i for i in level if i in plan.above or i == len(stages) - 1]
        by_one += max((sum(_join_operations(stages[i], 1)) for i in above), default=0.0)
        for i in above:
            every, shared = _join_operations(stages[i], len(teams[i]))
            together[list(teams[i])] += every + shared
    dimension = system.problem.domain.dimension
    blocks = own + _exchange_operations(plan, plan.count, number, dimension)
    cells = maps + _exchange_operations(plan, 1, number, dimension)
    return {
        "joined by one": own.max() + by_one, "together": together.max(),
        "exchanged between blocks": blocks.max(), "between cells": cells.max(),
    }  # fmt: skip


def _exchange_operations(plan: Order, group: int, number: int, dimension: int) -> np.ndarray:
    """Of every process, for products and vectors of a trial and a solve, and for a coarse level if
    there are fewer then; a number that is read counts as ten operations."""
    front, part, teams = front_of(plan, group), long_part(plan), Teams(plan).members
    found = []
    for coarse in (False, True):
        once, each = np.zeros(number), np.zeros(number)
        iterations = expected(front, dimension, coarse)
        for i, (stage, count) in enumerate(zip(plan.stages, front.counts, strict=True)):
            taken, given = (sum(own) for own in stage.sizes)
            each[stage.owner] += 10 * count * (taken * given + taken * iterations)
            if coarse and stage.cells is None and i not in front.joined:
                every, shared = _join_operations(stage, len(teams[i]))
                once[list(teams[i])] += part**3 * stage.count * (every + shared)
                each[stage.owner] += 10 * part**2 * stage.count * stage.numbers_left[1]
        found.append(once + 1.5 * iterations * each)
    return min(found, key=np.max)


def _order(ready: CellFactors, number: int) -> Order:
    system = ready.system
    return system.cells.order(system.ports.joints, number)


def _join_operations(stage: Stage, team: int) -> tuple[float, float]:
    """What every process does for a join, and what each of a team does of the rest."""
    at = stage.numbers
    n, outside = len(at.a3_in), len(at.a1_in) + len(at.b2_in)
    return 2 * n**3 / 3, (n**2 * (4 * n + 5 * outside) + 2 * n * outside**2) / team


def exchange_growth() -> None:
    """Iterations of the exchange with ever more cells along an axis: between single cells, and
    between groups of them, alone and with a coarse level."""
    rows = []
    for dimension, features, edges in ((2, 60, (4, 8, 16, 32)), (3, 100, (2, 4, 6, 8))):
        for edge in edges:
            row: dict[str, Any] = {"dimension": dimension, "cells along an axis": edge}
            for coarse, group in itertools.product((False, True), (1, 4, 16, 64)):
                solution = ts.solve(
                    problem((1,) * dimension), coupling="interfaces", subdomains=edge,
                    features=features, estimate=False,
                    solver=Exchange(tolerance=1e-14, group=group, coarse=coarse),
                )  # fmt: skip
                level = ", coarse level" if coarse else ""
                row[f"groups of {group}{level}"] = solution.report.iterations
            rows.append(row)
    table("iterations of the exchange", rows)
    save("exchange_growth", rows)


def scarce() -> None:
    """A problem that one process has too little memory for, and four with as much each solve."""
    words = "benchmarks.scaling", 4, SCARCE, *SCARCE_SIZE
    rows = [{"processes": n, **run(n, 1, *words)[0]} for n in (1, 4)]
    for row in rows:
        print(f"{row['processes']} with {SCARCE} MiB each: {row.get('refused', row)}")
    save("scarce", rows)


if __name__ == "__main__":
    part(*sys.argv[1:])
