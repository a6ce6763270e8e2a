"""An accelerator: where the time of an LSQR iteration goes, and the direct solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.core import large_system
from benchmarks.harness import save, seconds, table
from benchmarks.solvers import RICH
from tessella.linalg import loops
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iteration import checked
from tessella.memory import device_name

REPEATS = 100


def repeated(product: Callable[..., jax.Array], A: Any, x: jax.Array) -> float:
    """Seconds of one product inside a loop of fixed length, as it runs in a solver."""

    @jax.jit
    def many(A: Any, x: jax.Array) -> jax.Array:
        # Each product's input depends on the last one's output, or XLA would make only one.
        def one(_: Any, x: jax.Array) -> jax.Array:
            return x + 1e-300 * product(A, x)[0]

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


def gpu() -> None:
    """LSQR at J = 4,096 piece by piece, and NestedQR at S = 8, K = 200."""
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

    note("copy", copy, 2.0 * big.nbytes)
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

    entry = ts.gallery.get("laplace")
    entry.solve(solver="nested-qr", settings=RICH)
    reports = [entry.solve(solver="nested-qr", settings=RICH).report for _ in range(3)]
    direct = [
        {
            "solve s": report.seconds["solve"],
            "residual": report.residual["equation"],
            "error": (report.error or {})["l1_normalised"],
        }
        for report in reports
    ]
    table("NestedQR, n = 4, S = 8, K = 200, warm", direct)
    save("gpu_direct", direct)
