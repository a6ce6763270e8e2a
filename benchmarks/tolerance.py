"""Is `tol` honest? Estimated and true errors over the gallery, for tolerances down to 1e-8."""

from __future__ import annotations

import statistics
from typing import Any

import tessella as ts
from benchmarks.harness import save, table

PROBLEMS: list[tuple[str, dict[str, float], tuple[int, ...]]] = [
    ("harmonic-oscillator", {"omega0": 30.0}, (2, 3, 4, 5, 6, 7, 8)),
    ("harmonic-oscillator", {"omega0": 60.0}, (2, 3, 4, 5, 6, 7, 8)),
    ("harmonic-oscillator", {"omega0": 240.0}, (2, 3, 4, 5, 6, 7, 8)),
    ("laplace", {"n": 1}, (2, 3, 4, 5, 6, 7, 8)),
    ("laplace", {"n": 2}, (2, 3, 4, 5, 6, 7, 8)),
    ("laplace", {"n": 3}, (2, 3, 4, 5, 6, 7, 8)),
    ("laplace", {"n": 4}, (2, 4, 6, 8)),
    ("wave", {"lambda": 0.2}, (2, 3)),
    ("variable-poisson", {"contrast": 0.8}, (2, 4, 6, 8)),
    ("helmholtz", {"k": 20.0}, (2, 4, 6, 8)),
    ("helmholtz", {"k": 50.0}, (2, 4, 6, 8)),
    ("plate", {"n": 2.0}, (2, 4, 6, 8)),
    ("advection-diffusion", {"eps": 0.05}, (2, 4, 6, 8)),
    ("advection-diffusion", {"eps": 0.01}, (2, 4, 6, 8)),
    ("reaction-diffusion", {"eps": 1e-3}, (2, 4, 6, 8)),
    ("airy", {"L": 30.0}, (2, 4, 6, 8)),
    ("heat", {"alpha": 0.1}, (2, 4, 6, 8)),
    ("fokker-planck", {"diffusion": 0.25}, (2, 4, 6)),
    ("wave-1d", {"c": 2.0}, (2, 4, 6, 8)),
    ("poisson-3d", {"n": 2.0}, (2, 4)),
    ("anisotropic-heat", {"T": 5.0}, (2, 4)),
]
"""Gallery problem, parameters, and the tolerances 10^-k to ask for."""


UNSEEN: list[tuple[str, dict[str, float], tuple[int, ...]]] = [
    ("harmonic-oscillator", {"omega0": 100.0, "mu": 10.0}, (3, 5, 7)),
    ("laplace", {"n": 3}, (3, 5, 7)),
    ("variable-poisson", {"contrast": 0.5}, (3, 5, 7)),
    ("helmholtz", {"k": 33.0}, (3, 5, 7)),
    ("plate", {"n": 3.0}, (3, 5, 7)),
    ("advection-diffusion", {"eps": 0.02}, (3, 5, 7)),
    ("reaction-diffusion", {"eps": 3e-3}, (3, 5, 7)),
    ("airy", {"L": 20.0}, (3, 5, 7)),
    ("heat", {"alpha": 0.03}, (3, 5, 7)),
    ("fokker-planck", {"diffusion": 0.4}, (3, 5)),
    ("wave-1d", {"c": 1.3}, (3, 5, 7)),
    ("poisson-3d", {"n": 1.0}, (3, 5)),
    ("stokes", {"distance": 0.4}, (3, 5, 7)),
    ("beam", {"length": 3.0}, (3, 5, 7)),
    ("helmholtz-complex", {"k": 13.0}, (3, 5, 7)),
    ("schroedinger", {"x0": 1.0}, (3, 5, 7)),
]
"""Problems and parameters on which nothing was tuned, solved with another seed."""


def tolerance() -> None:
    """`solve(problem, tol=10^-k)`: estimated and true error, and how often they agree."""
    _honesty("tolerance", PROBLEMS, 0)


def tolerance_unseen() -> None:
    """The same where no threshold has been chosen."""
    _honesty("tolerance_unseen", UNSEEN, 1)


def _honesty(
    title: str, problems: list[tuple[str, dict[str, float], tuple[int, ...]]], seed: int
) -> None:
    rows: list[dict[str, Any]] = []
    for name, parameters, powers in problems:
        problem = ts.gallery.get(name).problem(**parameters)
        for k in powers:
            tol = 10.0**-k
            report = ts.solve(problem, tol=tol, seed=seed).report
            true = (report.error or {})["l1_normalised"]
            rows.append(
                {
                    "problem": name,
                    "parameters": " ".join(f"{n}={v:g}" for n, v in parameters.items()),
                    "tol": tol,
                    "met": report.stop_reason == "tolerance met",
                    "estimate": report.error_estimate,
                    "true": true,
                    "estimate / true": (report.error_estimate or 0.0) / true,
                    "steps": len(report.refinement),
                    "s": report.seconds["total"] - report.seconds["compile"],
                    "compile s": report.seconds["compile"],
                }
            )
            save(title, rows)
    table("solve(problem, tol=...)", rows)
    accepted = [row for row in rows if row["met"]]
    kept = sum(row["true"] <= 3 * row["tol"] for row in accepted)
    close = sum(0.1 <= row["estimate / true"] <= 10 for row in rows)
    middle = statistics.median(row["estimate / true"] for row in rows)
    print(f"  true error within 3 tol in {kept} of {len(accepted)} accepted runs")
    print(f"  estimate within a factor of 10 in {close} of {len(rows)} runs, median {middle:.2g}")
