"""An accelerator: LSQR piece by piece, NestedQR, the interfaces, and meshes on a CPU beside it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.core import large_system
from benchmarks.harness import in_fresh_process, save, seconds, table
from benchmarks.interfaces import CASES, measure
from benchmarks.peers import problems
from benchmarks.peers.__main__ import RESULTS as PEERS_RESULTS
from benchmarks.peers.ours import SIDE_BY_SIDE
from benchmarks.peers.run import measure as run_peer
from benchmarks.peers.score import time_to
from benchmarks.peers.tables import curve
from benchmarks.solvers import RICH
from tessella.cells.factors import factor_cells
from tessella.cells.glued import Glued
from tessella.cells.solvers import Merging
from tessella.cells.system import cell_system
from tessella.linalg import loops
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iteration import checked
from tessella.memory import device_name
from tessella.report import Stopwatch

REPEATS = 100


def repeated(product: Callable[..., jax.Array], A: Any, x: jax.Array) -> float:
    """Seconds of one product inside a loop of fixed length, as it runs in a solver."""

    @jax.jit
    def many(A: Any, x: jax.Array) -> jax.Array:
        # Each product's input depends on all of the last one's output, or XLA would leave it out.
        def one(_: Any, x: jax.Array) -> jax.Array:
            return x + 1e-300 * product(A, x).sum()

        return jax.lax.fori_loop(0, REPEATS, one, x)

    jax.block_until_ready(many(A, x))
    return seconds(lambda: many(A, x), 5) / REPEATS


def pass_bytes(A: BlockMatrix) -> dict[str, float]:
    """Least bytes each piece must move, if vectors go to memory and back once per kernel.

    matvec reads the values and the vector, writes the blocks' rows and reads them by lookup;
    rmatvec reads the vector at the blocks' rows, writes and reads those, and reads the values. The
    rest of LSQR reads and writes u, v, w and x once or twice.
    """
    values = sum(g.values.nbytes for g in A.groups)
    local = sum(g.rows.size * (8 + 8) + g.rows.nbytes for g in A.groups)
    m, n = (8 * k for k in A.shape)
    return {
        "matvec": values + local + m + n,
        "rmatvec": values + local + m + n,
        "LSQR": 2 * (values + local) + 4 * m + 9 * n,
    }


def phases(problem: ts.Problem, basis: Glued) -> dict[str, float]:
    """Seconds of every part of a solve with interfaces."""
    grid, spent = ts.Grid(2.0), {}

    def timed(name: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = run()
        spent[name] = time.perf_counter() - start
        return found

    system = timed("rows", lambda: cell_system(problem, basis, grid))
    factors = timed("maps and joins", lambda: factor_cells(system, ts.RRQR(1e-14), Merging()))
    watch = Stopwatch()
    timed("solve and measure", lambda: factors.solve(problem, basis, None, watch, None))
    return spent | {name: watch.total()[name] for name in ("solve", "measure")}


def values(case: int) -> dict[str, Any]:
    """The solution of an interface case at a grid of points, and the device it was found on."""
    _, name, parameters, _, settings = CASES[case]
    problem = ts.gallery.get(name).problem(**parameters)
    solution = ts.solve(
        problem, coupling="interfaces", solver="merging", estimate=False, **settings
    )
    points = problem.domain.grid((40,) * problem.domain.dimension)
    return {"u": solution(points), "device": device_name()}


def from_cpu(case: int) -> float:
    """Largest difference of the solution here from the one of a process without accelerator."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        host = in_fresh_process(values, case)
    finally:
        del os.environ["JAX_PLATFORMS"]
        if before is not None:
            os.environ["JAX_PLATFORMS"] = before
    assert host["device"].startswith("cpu")
    return float(np.max(np.abs(values(case)["u"] - host["u"])) / np.max(np.abs(host["u"])))


def interfaces() -> None:
    """The interface cases with targets on a GPU: whole solves as on a CPU, then their parts."""
    rows, parts = [], []
    for case in (1, 3, 6):
        title, name, parameters, target, settings = CASES[case]
        found = measure(name, parameters, False, "interfaces", settings)
        rows.append({"problem": title, "target": target, **found})
        problem = ts.gallery.get(name).problem(**parameters)
        solution = ts.solve(
            problem, coupling="interfaces", solver="merging", estimate=False, **settings
        )
        assert isinstance(solution.basis, Glued)
        phases(problem, solution.basis)
        own = phases(problem, solution.basis)
        parts.append({"problem": title, **{f"{k} ms": 1e3 * v for k, v in own.items()}})
        rows[-1] |= {"from CPU": from_cpu(case), "phases": own}
        save("gpu_interfaces", rows)
    table("interfaces, warm", [{k: v for k, v in row.items() if k != "phases"} for row in rows])
    table("their parts", parts)


def meshes() -> None:
    """The Laplacians of `benchmarks.peers` here, beside NGSolve's seconds on a CPU as stored."""
    stored = json.loads((PEERS_RESULTS / "peers.json").read_text())["runs"]
    rows = []
    for n in (3, 4, 5, 6):
        name = f"laplace-{n}"
        ours = [
            run_peer(SIDE_BY_SIDE, name, settings)
            for settings in SIDE_BY_SIDE.sizes(name, problems.get(name))
        ]
        for error in (1e-6, 1e-8):
            here = time_to(error, [(r["warm"], r["error"]) for r in ours])
            there = time_to(error, curve([r for r in stored if r["problem"] == name], "NGSolve"))
            ratio = here / there if here and there else None
            rows.append({"problem": name, "error": error, "s": here, "NGSolve s": there})
            rows[-1] |= {"ratio": ratio, "runs": ours}
        save("gpu_meshes", rows)
    table("against NGSolve on a CPU", [{k: v for k, v in r.items() if k != "runs"} for r in rows])


def direct() -> None:
    """NestedQR at S = 8, K = 200 with overlap."""
    entry = ts.gallery.get("laplace")
    entry.solve(solver="nested-qr", settings=RICH)
    reports = [entry.solve(solver="nested-qr", settings=RICH).report for _ in range(3)]
    rows = [
        {
            "solve s": report.seconds["solve"],
            "residual": report.residual["equation"],
            "error": (report.error or {})["l1_normalised"],
        }
        for report in reports
    ]
    table("NestedQR, n = 4, S = 8, K = 200, warm", rows)
    save("gpu_direct", rows)


def iteration() -> None:
    """LSQR at J = 4,096 piece by piece."""
    system = large_system(0)
    A = checked(ts.RRQR(1e-8).apply(system.M).Q)
    values = float(sum(g.values.nbytes for g in A.groups))
    random = np.random.default_rng(0)
    u, v = (jnp.asarray(random.standard_normal(n)) for n in A.shape)
    least = pass_bytes(A)
    big = jnp.concatenate([g.values.ravel() for g in A.groups])
    copy = repeated(lambda _, x: x, None, big)
    rows: list[dict[str, Any]] = []

    def note(piece: str, time: float, moved: float, useful: float | None = None) -> None:
        rate = {"TB/s": moved / time / 1e12, "values TB/s": useful and useful / time / 1e12}
        rows.append({"piece": piece, "ms": 1e3 * time, "MB": moved / 1e6, **rate})

    note("sum and copy", copy, 3.0 * big.nbytes)
    note("matvec", repeated(BlockMatrix.matvec, A, v), least["matvec"], values)
    note("rmatvec", repeated(BlockMatrix.rmatvec, A, u), least["rmatvec"], values)
    solver = ts.LSQR(max_iterations=1_000, atol=0, btol=0)
    backend = jax.default_backend()
    usual = loops.LOOPS[backend]
    for label, loop in (("while", loops.run_until), ("fixed", loops.run_through)):
        loops.LOOPS[backend] = loop
        solver.solve(A, system.h)
        time = seconds(lambda: solver.solve(A, system.h).x, 3) / 1_000
        note(f"LSQR iteration, {label} loop", time, least["LSQR"], 2 * values)
    loops.LOOPS[backend] = usual
    table(f"J = 4,096, 17 columns on {device_name()}; MB is an estimate", rows)
    save("gpu", rows)


def gpu() -> None:
    """All of them."""
    iteration()
    interfaces()
    direct()
    meshes()
