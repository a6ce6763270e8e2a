"""An accelerator: LSQR piece by piece, NestedQR, the interfaces, and meshes on a CPU beside it."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.core import large_system
from benchmarks.harness import in_fresh_process, save, seconds, table
from benchmarks.peers import problems
from benchmarks.peers.__main__ import RESULTS as PEERS_RESULTS
from benchmarks.peers.ours import SIDE_BY_SIDE
from benchmarks.peers.run import measure as run_peer
from benchmarks.peers.score import time_to
from benchmarks.peers.tables import curve
from benchmarks.solvers import RICH
from benchmarks.waves_problems import gaussian
from tessella.cells.boxes.basis import on_cells
from tessella.cells.boxes.slots import inside
from tessella.cells.device import factors as device
from tessella.cells.maps.jumps import jumps
from tessella.cells.maps.unknowns import Unknowns
from tessella.cells.system.system import cell_system
from tessella.cells.system.tiled import cells_of, spaces
from tessella.geometry.lattice import gridded
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iterative.iteration import checked
from tessella.machine.device import PREFERENCES
from tessella.machine.memory import device_name
from tessella.solving.method import Method
from tessella.solving.ways import Parts

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


CELLS: list[tuple[str, float, dict[str, Any]]] = [
    ("variable-4", 1e-9, {"subdomains": 6, "features": 210, "oversampling": 1.2}),
    ("variable-6", 1e-9, {"subdomains": 24, "features": 210, "oversampling": 1.1}),
    ("laplace-6", 1e-9, {"subdomains": 32, "features": 170}),
    ("poisson-3d", 1e-8, {"subdomains": 3, "features": 600}),
    ("wave", 1e-5, {"subdomains": (4, 4, 2), "features": 550}),
]
"""Problem of the peers or of the gallery, error aimed at, settings."""


LARGE = ("variable-8", {"subdomains": 128, "features": 200, "oversampling": 1.2})
"""Three million unknowns."""


def stated(name: str) -> tuple[ts.Problem, np.ndarray, np.ndarray]:
    """A problem without its exact solution, points, and the exact values there."""
    if name == LARGE[0]:
        case = problems.variable(8)
        problem, points = case.stated(), np.random.default_rng(0).random((20_000, 2))
        exact = case.exact(points)
    elif name in ts.gallery.names():
        problem = ts.gallery.get(name).problem()
        points = problem.domain.grid((20,) * problem.domain.dimension)
        exact = problem.exact_values(points)
    else:
        case = problems.get(name)
        problem, points = case.stated(), case.points
        exact = case.exact(points)
    return dataclasses.replace(problem, exact=None), points, exact


def cells(name: str, settings: dict[str, Any], repeat: int = 8) -> dict[str, Any]:
    """First and median later solve of this process, where a later one spends its time, and the
    error; programs that earlier processes compiled are not used."""
    jax.config.update("jax_enable_compilation_cache", False)
    problem, points, exact = stated(name)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        solution = ts.solve(problem, coupling="interfaces", estimate=False, **settings)
        times.append(time.perf_counter() - start)
    found = solution(points)
    spent = {f"{k} ms": 1e3 * v for k, v in solution.report.seconds.items() if k != "compile"}
    return {
        "error": float(np.mean(np.abs(found - exact)) / np.std(exact)),
        "first s": times[0],
        "warm s": float(np.median(times[2:])),
        "kept": solution.report.columns_kept,
        **spent,
        "u": found,
        "device": device_name(),
    }


PHASES = {
    "source": "the source at all points",
    "coefficients": "the equation's coefficients there",
    "system": "everything of the system, those two included",
    "features": "the filter's tables, remembered from the first time",
    "ports": "their rows, remembered too",
    "up": "coefficients to the device",
    "leaves": "maps of all cells",
    "merges": "all levels joined",
    "right sides": "data to the device",
    "down": "unknowns of all cells",
    "back": "unknowns to the host",
    "filtered": "coefficients of all features",
    "jumps": "measured on all faces",
}
"""Where a solve on a device spends its time."""


def parts(name: str, settings: dict[str, Any], repeat: int = 12) -> dict[str, Any]:
    """Median milliseconds of every phase of a warm solve, each waited for by itself."""
    problem, _, _ = stated(name)
    method = Method.of({"coupling": "interfaces", **settings}, "solve", None)
    chosen = method.parts(problem)
    assert isinstance(chosen.filter, ts.RRQR)
    spent: dict[str, list[float]] = {}
    for _ in range(repeat):
        for phase, took in _phases(problem, chosen, chosen.filter.sigma):
            spent.setdefault(phase, []).append(took)
    found = {phase: 1e3 * float(np.median(own[2:])) for phase, own in spent.items()}
    within = found["source"] + found["coefficients"]
    return {"problem": name, **found, "all": sum(found.values()) - within}


def _phases(problem: ts.Problem, chosen: Parts, sigma: float) -> Iterator[tuple[str, float]]:
    """The phases of one solve with their seconds, in order."""
    start = time.perf_counter()

    def took() -> float:
        nonlocal start
        last, start = start, time.perf_counter()
        return start - last

    assert on_cells(chosen.basis)
    tiling = chosen.basis.decomposition
    equation = problem.equations[0]
    cells = cells_of(problem, chosen.basis, chosen.collocation)
    x = cells.points(np.arange(cells.count), inside(cells.counts).points)
    x = gridded(x.reshape(-1, problem.domain.dimension), tiling.subdomains, cells.counts)
    took()
    equation.values(x)
    yield "source", took()
    problem.symbol(equation.operator, x)
    yield "coefficients", took()
    system = cell_system(problem, chosen.basis, chosen.collocation)
    yield "system", took()
    _, (space,) = spaces(system.cells, system.bases, system.stating, system.orders, sigma)
    yield "features", took()
    rows, numbers = jax.block_until_ready(device.ported(system, space))
    plan = device.grid(tiling.subdomains, tiling.wraps, numbers)
    yield "ports", took()
    statements = jax.block_until_ready(device.stated(system, space, np.arange(cells.count)))
    yield "up", took()
    widths = tuple(draw.columns for draw in space.draws)
    ports = device.PortRows(rows, *plan.masks)
    leaves = jax.block_until_ready(device.map_cells(statements, ports, widths))
    yield "leaves", took()
    merged = jax.block_until_ready(device.merge(leaves.T, plan))
    yield "merges", took()
    h = jax.block_until_ready(jax.device_put(tuple(part.h for part in system.asked)))
    yield "right sides", took()
    own = statements, h, ports.given, leaves, merged, plan, widths
    found = jax.block_until_ready(device.fit_cells(*own))
    yield "down", took()
    y = np.asarray(jax.device_get(found)[0])
    yield "back", took()
    unknowns = Unknowns(system, (space,), np.zeros(system.cells.count, dtype=np.int64), y)
    unknowns.coefficients()
    yield "filtered", took()
    jumps(unknowns)
    yield "jumps", took()


def breakdown() -> None:
    """Every phase of solves on a device, in milliseconds, and what a first solve waits for."""
    for phase, what in PHASES.items():
        print(f"  {phase}: {what}")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    few = [(name, settings) for name, _, settings in CELLS if name.startswith("variable")]
    rows = [in_fresh_process(parts, *own) for own in few]
    rows.append(in_fresh_process(parts, *LARGE, 3))
    table("milliseconds of a warm solve, phase by phase", rows)
    first = [in_fresh_process(first_solve, *own) for own in few]
    table("seconds until a first solution", first)
    marched = [in_fresh_process(march_on, *own) for own in MARCHES]
    table("marches", marched)
    save("gpu_breakdown", [*rows, *first, *marched])


def first_solve(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the device's own start, then of a first solve and of its compilation."""
    jax.config.update("jax_enable_compilation_cache", False)
    begun = time.perf_counter()
    jax.block_until_ready(jax.device_put(np.ones(3)))
    started = time.perf_counter()
    problem, _, _ = stated(name)
    solution = ts.solve(problem, coupling="interfaces", estimate=False, **settings)
    done = time.perf_counter()
    again = ts.solve(problem, coupling="interfaces", estimate=False, **settings)
    return {
        "problem": name,
        "device s": started - begun,
        "first s": done - started,
        "compile s": solution.report.seconds["compile"],
        "second s": again.report.seconds["total"],
    }


MARCHES: list[tuple[float, float, int, tuple[int, ...], int]] = [
    (0.1, 1.0, 8, (12, 12, 1), 110),
    (0.1, 1.0, 7, (10, 10, 1), 210),
]
"""Waves: width and final time, slabs, cells of each and features."""


def march_on(
    width: float, T: float, slabs: int, cells: tuple[int, ...], features: int, repeat: int = 6
) -> dict[str, Any]:
    """A wave marched without an estimate: the first and the median later march, slabs apart."""
    problem = gaussian(width, T)
    blind = dataclasses.replace(problem, exact=None)
    sizes = {"subdomains": cells, "features": features, "coupling": "interfaces"}
    times, later = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        found = ts.march(blind, slabs, **sizes, estimate=False)
        times.append(time.perf_counter() - start)
        later.append([slab.seconds for slab in found.report.slabs])
    points = problem.domain.grid((40, 40, 11))
    exact = problem.exact_values(points)
    return {
        "problem": problem.name,
        "features": features,
        "error": float(np.mean(np.abs(found(points) - exact)) / np.std(exact)),
        "first s": times[0],
        "warm s": float(np.median(times[1:])),
        "first slab ms": 1e3 * float(np.median([own[0] for own in later[1:]])),
        "later slab ms": 1e3 * float(np.median([own[1:] for own in later[1:]])),
    }


def without_accelerator(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The same in a process that has none."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        host = in_fresh_process(cells, name, settings, 4)
    finally:
        del os.environ["JAX_PLATFORMS"]
        if before is not None:
            os.environ["JAX_PLATFORMS"] = before
    assert host["device"].startswith("cpu")
    return host


def interfaces() -> None:
    """Cells with targets on a GPU: whole solves, their parts, and the same on the CPU beside it."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes share the device
    rows = []
    for name, target, settings in CELLS:
        found, host = in_fresh_process(cells, name, settings), without_accelerator(name, settings)
        apart = float(np.max(np.abs(found.pop("u") - host["u"])) / np.max(np.abs(host["u"])))
        rows.append({"problem": name, "target": target, **found, "on CPU s": host["warm s"]})
        rows[-1] |= {"from CPU": apart}
        save("gpu_interfaces", rows)
    table("interfaces", rows)


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
    usual = PREFERENCES[backend]
    for label, blind in (("while", False), ("fixed", True)):
        PREFERENCES[backend] = dataclasses.replace(usual, blind=blind)
        solver.solve(A, system.h)
        time = seconds(lambda: solver.solve(A, system.h).x, 3) / 1_000
        note(f"LSQR iteration, {label} loop", time, least["LSQR"], 2 * values)
    PREFERENCES[backend] = usual
    table(f"J = 4,096, 17 columns on {device_name()}; MB is an estimate", rows)
    save("gpu", rows)


def large() -> None:
    """Three million unknowns of a variable coefficient, the first time and again."""
    found = in_fresh_process(cells, *LARGE, 3)
    found.pop("u")
    table("n = 8", [found])
    save("gpu_large", [{"problem": LARGE[0], **LARGE[1], **found}])


def gpu() -> None:
    """All of them."""
    iteration()
    interfaces()
    breakdown()
    direct()
    meshes()
