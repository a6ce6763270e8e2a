"""Several processes, and several devices of one, find what one finds; killed, they go on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from benchmarks.scaling import problem
from tessella.accuracy import tuning
from tessella.cells.device import factors as device
from tessella.machine import processes
from tessella.machine.launch import launch

MODULE = "benchmarks.agreement"

DEVICES = 8
"""Simulated ones of a single process."""

PRETENDED = "pretended"

KILLS, SLABS = 10, 40

CELLS: dict[str, Any] = {"coupling": "interfaces", "estimate": False}


def rod() -> ts.Problem:
    start = ts.Initial(lambda x: jnp.sin(jnp.pi * x[:, 0]) ** 3)
    equation = ts.Equation(ts.D(t=1) - 0.1 * ts.D(x=2))
    return ts.Problem(ts.Box(x=(0, 1), t=(0, 1.2)), equation, [ts.Dirichlet(0.0), start])


def disc() -> ts.Problem:
    domain = ts.Ball(x=0.5, y=0.5, radius=1.0) - ts.Ball(x=0.6, y=0.4, radius=0.2)
    return ts.Problem(domain, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])


def iterated(solver: Any, **choices: Any) -> Any:
    sizes = {"oversampling": 2.0, "sigma": 1e-8, "estimate": False, **choices}
    return ts.solve(problem((1, 1)), solver=solver, **sizes)


def two_levels() -> Any:
    fine = ts.Basis(ts.Decomposition(problem((1, 1)).domain, 16, 2.9), ts.RandomFeatures(16), 0)
    return ts.Multilevel.two(fine)


FEW = {"max_iterations": 40, "atol": 0.0, "btol": 0.0}

CASES: dict[str, Callable[[], Any]] = {
    "cells, variable coefficient": lambda: ts.solve(
        problem((1, 1)), subdomains=12, features=100, **CELLS
    ),
    "cells, exchange": lambda: ts.solve(
        problem((1, 1)), subdomains=6, features=60, solver="exchange", **CELLS
    ),
    "cells, tol": lambda: ts.solve(problem((1, 1)), tol=1e-7),
    "cells, 3D": lambda: ts.solve(problem((1, 1, 1)), subdomains=3, features=120, **CELLS),
    "cells, disc with a hole": lambda: ts.solve(disc(), subdomains=5, features=80, **CELLS),
    "cells, march": lambda: ts.march(rod(), 6, subdomains=(6, 1), features=60, **CELLS),
    "overlap, LSQR": lambda: iterated(ts.LSQR(**FEW), subdomains=12, features=16),
    "overlap, deflated LSQR": lambda: iterated(
        ts.DeflatedLSQR(**FEW | {"max_iterations": 8}), basis=two_levels()
    ),
    "overlap, march": lambda: ts.march(
        rod(), 3, subdomains=(8, 2), features=16, oversampling=2.0, sigma=1e-8, estimate=False,
        solver=ts.LSQR(**FEW), coupling="overlap",
    ),
}  # fmt: skip


def values(solution: Any) -> np.ndarray:
    """At points inside, the same for everybody."""
    domain = solution.problem.domain
    share = np.random.default_rng(0).random((400, domain.dimension))
    x = domain.lower + (domain.upper - domain.lower) * share
    return np.asarray(solution(x[domain.contains(x)]))


def part(folder: str, *words: str) -> None:
    """One process: all cases to a file of its own. With `PRETENDED` the CPU stands for a GPU, and
    every problem is worth it."""
    ts.distributed()
    if PRETENDED in words:
        jax.default_backend = lambda: "gpu"
        device.WORTH = device.FAR = tuning.GPU_WORK = 0.0
    found = {name: values(case()) for name, case in CASES.items()}
    np.savez(Path(folder) / f"{processes.index()}.npz", **found)


def agreement() -> None:
    """The largest difference from one process's values, over the largest of these, in any of 2 and
    of 4 processes, of one with eight simulated devices, and of 4 with a GPU each, which is the
    CPU."""
    rows: list[dict[str, Any]] = [{"case": name} for name in CASES]
    alone = _found(1)[0]
    simulated = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    ways = {
        "2 processes": _found(2),
        "4 processes": _found(4),
        f"{DEVICES} devices": _found(1, more=simulated),
        "4, a GPU each": _found(4, PRETENDED),
    }
    for way, every in ways.items():
        for row in rows:
            own = alone[row["case"]]
            apart = max(float(np.max(np.abs(one[row["case"]] - own))) for one in every)
            row[way] = apart / float(np.max(np.abs(own)))
    table("apart from one process", rows)
    save("agreement", rows)


def _found(
    number: int, *words: str, more: dict[str, str] | None = None
) -> list[dict[str, np.ndarray]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", MODULE, "part", folder, *words]
        if more is not None:
            subprocess.run(command, env={**os.environ, **more}, check=True)
        elif launch(number, command, 1):
            raise RuntimeError(f"{number} processes failed; see above")
        return [dict(np.load(file)) for file in sorted(Path(folder).glob("*.npz"))]


# --- kills


def marching(folder: str) -> None:
    """One process of a march that keeps its slabs."""
    ts.distributed()
    kept = str(Path(folder) / "kept")
    found = ts.march(rod(), SLABS, subdomains=(6, 1), features=60, checkpoint=kept, **CELLS)
    own = values(found)
    if processes.index() == 0:
        np.save(Path(folder) / "u.npy", own)


def kills() -> None:
    """One of four processes killed at a random moment, ten times, each time gone on with: how long
    the others live on, who is left, and what is found in the end."""
    with tempfile.TemporaryDirectory() as folder:
        whole = _marched(folder)
    draw, rows = random.Random(0), []
    for _ in range(KILLS):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(
                _killed(folder, draw) | {"apart": float(np.max(np.abs(_marched(folder) - whole)))}
            )
        print(rows[-1], flush=True)
    table(f"{KILLS} kills", rows)
    save("kills", rows)


def _command(folder: str) -> list[str]:
    launcher = [sys.executable, "-m", "tessella.machine.launch", "4"]
    return [*launcher, "-m", MODULE, "marching", folder]


def _marched(folder: str) -> np.ndarray:
    subprocess.run(_command(folder), check=True)
    return np.asarray(np.load(Path(folder) / "u.npy"))


def _killed(folder: str, draw: random.Random) -> dict[str, Any]:
    """Kill one of four a moment after so many slabs were kept."""
    started = subprocess.Popen(_command(folder), stderr=subprocess.PIPE, text=True)
    victim, slabs, own = draw.randrange(4), draw.randrange(SLABS - 5), []
    while started.poll() is None and (len(own) < 4 or _kept(folder) < slabs):
        time.sleep(0.01)
        own = _children(started.pid)
    time.sleep(draw.uniform(0.0, 0.2))
    kept, begun = _kept(folder), time.perf_counter()
    os.kill(own[victim], 9)
    _, said = started.communicate(timeout=120)
    left = [child for child in own if Path(f"/proc/{child}").exists()]
    return {
        "process": victim, "slabs kept": kept, "status": started.returncode,
        "named": f"process {victim}" in said, "s to the end": time.perf_counter() - begun,
        "left": len(left),
    }  # fmt: skip


def _kept(folder: str) -> int:
    return len(list((Path(folder) / "kept").glob("[0-9]*.npz")))


def _children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children")
    return sorted(map(int, found.read_text().split())) if found.exists() else []


if __name__ == "__main__":
    {"part": part, "marching": marching}[sys.argv[1]](*sys.argv[2:])
