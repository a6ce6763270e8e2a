"""Gradient-trained networks on the paper's problems, and the finite-difference reference."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import tessella as ts
from benchmarks.harness import save, seconds, table
from tessella.gallery import TRAINED
from tessella.gallery.reference.finite_difference import FiniteDifferenceWave
from tessella.gallery.reference.series import GaussianWave
from tessella.networks.network import initial_parameters
from tessella.networks.objective import Objective, build_objective
from tessella.networks.training import Training, advance, begin
from tessella.overlap.system import weigh
from tessella.solution.report import error_norms

PAPER = {
    ("harmonic-oscillator", "pinn"): 0.48,
    ("harmonic-oscillator", "fbpinn"): 3.5e-3,
    ("laplace", "pinn"): 0.079,
    ("laplace", "fbpinn"): 5.0e-3,
    ("wave", "pinn"): 0.029,
    ("wave", "fbpinn"): 0.019,
}
"""Normalised L1 errors of the paper's tables, medians of five seeds, oracle minimum."""


def trained(
    problems: Sequence[str] = ("harmonic-oscillator", "laplace", "wave"),
    seeds: Sequence[int] = range(5),
    steps: int = 10_000,
) -> None:
    """PINN and FBPINN as in the paper; a file per problem, written after every run.

    Meant for an accelerator; a CPU takes hours for the second and third problem.
    """
    for problem in problems:
        rows: list[dict[str, Any]] = []
        for solver in TRAINED:
            for seed in seeds:
                rows.append(_run(problem, solver, seed, steps))
                save(f"trained_{problem}", rows)
                print("  " + " ".join(f"{k}={v}" for k, v in rows[-1].items()), flush=True)
        table(f"{problem}, {steps:,} steps, medians over {len(seeds)} seeds", _medians(rows))


def oscillator_networks() -> None:
    """The first problem of `trained` alone, which a CPU does in a few minutes."""
    trained(("harmonic-oscillator",))


def _run(problem: str, solver: str, seed: int, steps: int) -> dict[str, Any]:
    report = (
        ts.gallery.get(problem).solve(solver=solver, seed=seed, settings={"steps": steps}).report
    )
    return {
        "problem": problem,
        "solver": solver,
        "seed": seed,
        "steps": report.iterations,
        "stop": report.stop_reason,
        "oracle minimum": report.error_oracle_minimum,
        "last": (report.error or {})["l1_normalised"],
        "lowest loss": report.error_at_stopping_rule,
        "paper": PAPER[problem, solver],
        "training s": report.seconds["solve"],
        "compile s": report.seconds["compile"],
        "total s": report.seconds["total"],
        "steps/s": report.iterations / report.seconds["solve"],
        "device": report.device,
    }


def _medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for solver in TRAINED:
        own = [row for row in rows if row["solver"] == solver]
        keys = ("oracle minimum", "last", "lowest loss", "paper", "training s", "steps/s")
        found.append({"solver": solver} | {k: statistics.median(r[k] for r in own) for k in keys})
    return found


def fbpinn_step() -> None:
    """FBPINN on the Laplacian baseline: networks where they are seen, against all everywhere."""
    problem = ts.gallery.get("laplace").problem()
    decomposition = ts.Decomposition(problem.domain, 16, 2.9)
    basis = ts.Basis(decomposition, ts.RandomFeatures(16), 0)
    rows = weigh(problem, ts.Grid().rows(problem, basis))
    J, n = decomposition.count, len(rows.points)
    everything = (np.arange(J), np.tile(np.arange(n, dtype=np.int32), (J, 1)), np.full(J, n))
    cases = {
        "seen": build_objective(basis, rows.points, rows.symbol, rows.h),
        "all": build_objective(basis, rows.points, rows.symbol, rows.h, [everything]),
    }
    state, training = begin(initial_parameters(basis)), Training()
    losses = {
        k: float(jax.jit(Objective.value_and_gradient)(objective, state.parameters)[0])
        for k, objective in cases.items()
    }
    steps = {"seen": 20, "all": 2}
    times: dict[str, list[float]] = {"seen": [], "all": []}
    for objective in cases.values():
        jax.block_until_ready(advance(objective, None, state, 0, training))
    for _ in range(3):
        for key, objective in cases.items():
            spent = seconds(lambda o=objective, k=key: advance(o, None, state, steps[k], training))
            times[key].append(spent / steps[key])
    table_rows = [
        {
            "networks at": key,
            "pairs": sum(b.rows.size for b in objective.batches),
            "loss": losses[key],
            "steps/s": 1 / statistics.median(times[key]),
            "ratio": statistics.median(times["all"]) / statistics.median(times[key]),
        }
        for key, objective in cases.items()
    ]
    table("FBPINN training step, Laplacian baseline", table_rows)
    save("fbpinn_step", table_rows)


def finite_difference(width: float = 0.2) -> None:
    """Finite differences against the series, on the wave's test grid; order over three grids.

    The paper's density is ten nodes per width (five times Nyquist's two), and its solver starts
    from two equal fields, which is of first order: as if the wave began with the velocity
    -dt/2 Laplace(u).
    """
    problem = ts.gallery.get("wave").problem(**{"lambda": width})
    at = problem.domain.grid((32, 32, 10))
    exact = GaussianWave(width)(at)

    def initial(x: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * (x**2).sum(axis=1) / width**2)

    def laplacian(x: np.ndarray) -> np.ndarray:
        r = (x**2).sum(axis=1) / width**2
        return (r - 2) / width**2 * np.exp(-0.5 * r)

    paper = round(10 * 2 / width) + 1
    rows: list[dict[str, Any]] = []
    for nodes in (paper // 2 + 1, paper, 2 * paper - 1):
        wave = FiniteDifferenceWave(problem.domain, initial, points_per_axis=nodes)
        norms = error_norms(wave(at), exact)
        before = rows[-1]["normalised L1"] if rows else None
        order = np.log2(before / norms["l1_normalised"]) if before else None
        rows.append(
            {
                "nodes per axis": nodes,
                "start": "second order",
                "normalised L1": norms["l1_normalised"],
                "max": norms["max"],
                "order": order,
            }
        )
    dt = FiniteDifferenceWave(problem.domain, initial, points_per_axis=paper).step
    wave = FiniteDifferenceWave(
        problem.domain,
        initial,
        velocity=lambda x: -dt / 2 * laplacian(x),
        points_per_axis=paper,
    )
    norms = error_norms(wave(at), exact)
    rows.append(
        {
            "nodes per axis": paper,
            "start": "two equal fields, as in the paper",
            "normalised L1": norms["l1_normalised"],
            "max": norms["max"],
            "order": None,
        }
    )
    table(f"finite differences against the series, lambda = {width:g}, T = 0.5", rows)
    save("finite_difference", rows)
