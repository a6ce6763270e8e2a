"""Does "tolerance met" hold? Problems drawn at random, each with a solution that is known.

A problem is made by a function of a random generator; four tolerances from 1e-1 to 1e-8 are drawn
for each. Nobody tunes on the problems of `honesty`; those of `honesty_tuning` have another seed.
Counted are solutions called good that are not (true error above 3 tol), and estimates of the mean
and of the largest error that are off by more than 10.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.drawn import CLASSES
from benchmarks.drawn_nonlinear import NONLINEAR
from benchmarks.harness import save, table
from tessella.solution.report import error_norms

PATIENCE = 10.0
"""Seconds that every solve may take, about."""

SEEDS = {"honesty": 1_000_003, "honesty_tuning": 17, "honesty_nonlinear": 99}
POINTS = 40_000
"""At which the true error is measured: random ones, which no grid of ours contains."""

KEPT, CLOSE = 3.0, 10.0
"""True errors up to so many tolerances are honest; estimates off by up to this factor are good."""


DIGITS = np.linspace(1, 8, 5)
"""Of tolerances: one is drawn between two neighbours."""


def true_errors(solution: ts.Solution | ts.Marched) -> tuple[float, float]:
    """Mean and largest error at random points, in parts of the spread, of several unknowns the
    largest."""
    x = solution.problem.domain.scatter(POINTS, np.random.default_rng(7))
    u, exact = solution(x), solution.problem.exact_values(x)
    most = np.max(np.abs(u - exact), axis=0) / np.std(exact, axis=0)
    return error_norms(u, exact)["l1_normalised"], float(np.max(most))


Drawn = tuple[str, str, ts.Problem, list[float]]
"""Class, name, problem and tolerances."""


def drawn(seed: int, number: int) -> Drawn:
    """A linear problem; neighbouring numbers are of different classes."""
    random = np.random.default_rng([seed, number])
    kinds = list(CLASSES)
    kind = kinds[random.choice(len(kinds), p=[0.2, 0.2, 0.5, 0.1])]
    makers = CLASSES[kind]
    maker = makers[random.integers(len(makers))]
    problem = maker(random)
    asked = [float(10.0 ** -random.uniform(*pair)) for pair in pairwise(DIGITS)]
    return kind, maker.__name__, problem, asked


def drawn_nonlinear(seed: int, number: int) -> Drawn:
    """A nonlinear one, of every kind in turn."""
    random = np.random.default_rng([seed, number])
    kinds = list(NONLINEAR)
    kind = kinds[number % len(kinds)]
    maker = NONLINEAR[kind][number // len(kinds) % len(NONLINEAR[kind])]
    problem = maker(random)
    asked = [float(10.0 ** -random.uniform(*pair)) for pair in ((1, 3.5), (3.5, 6.5))]
    return kind, maker.__name__, problem, asked


def tried(number: int, kind: str, name: str, problem: ts.Problem, tol: float) -> dict[str, Any]:
    """One problem to a tolerance: what was claimed, and what is true."""
    row: dict[str, Any] = {"number": number, "class": kind, "problem": name, "tol": tol}
    begin = time.perf_counter()
    try:
        solution = ts.solve(problem, tol=tol, patience=PATIENCE)
    except Exception as error:  # whatever it is, it is what the benchmark looks for
        return {**row, "raised": f"{type(error).__name__}: {error}"}
    spent = time.perf_counter() - begin
    report, (true, most) = solution.report, true_errors(solution)
    met = report.stop_reason == "tolerance met"
    return {
        **row,
        "marched": isinstance(solution, ts.Marched),
        "met": met,
        "estimate": report.error_estimate,
        "true": true,
        "estimate / true": _ratio(report.error_estimate, true),
        "largest": report.largest_error_estimate,
        "true largest": most,
        "largest / true": _ratio(report.largest_error_estimate, most),
        "false": met and true > KEPT * tol,
        "s": spent,
    }


def _ratio(estimate: float | None, true: float) -> float | None:
    return None if estimate is None else estimate / max(true, 1e-14)


def honesty(count: int = 100) -> None:
    """Problems that nobody tunes on."""
    _report("honesty", count)


def honesty_tuning(count: int = 100) -> None:
    """Others of the same classes, to look at and to tune on."""
    _report("honesty_tuning", count)


def honesty_nonlinear(count: int = 44) -> None:
    """Nonlinear ones, steady and in time, which nobody tunes on either."""
    _report("honesty_nonlinear", count, drawn_nonlinear, NONLINEAR)


def _report(
    title: str,
    count: int,
    draw: Callable[[int, int], Drawn] = drawn,
    classes: Iterable[str] = CLASSES,
) -> None:
    rows = []
    for number in range(count):
        kind, name, problem, asked = draw(SEEDS[title], number)
        for tol in asked:
            rows.append(tried(number, kind, name, problem, tol))
            save(title, rows)
    heads = ("number", "class", "problem", "tol", "marched", "met", "estimate", "true")
    heads = (*heads, "estimate / true", "largest", "largest / true", "false", "s")
    table(
        f"solve(problem, tol=..., patience={PATIENCE:g})",
        [{h: r.get(h) for h in heads} for r in rows],
    )
    table("by class", [_summary(kind, [r for r in rows if r["class"] == kind]) for kind in classes])
    for row in rows:
        if "raised" in row:
            print(f"  {row['number']} {row['problem']}: {row['raised']}")


def _summary(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    done = [r for r in rows if "raised" not in r]
    accepted = [r for r in done if r["met"]]
    means, most = (
        [r[head] for r in done if r[head] is not None]
        for head in ("estimate / true", "largest / true")
    )
    return {
        "class": kind,
        "runs": len(rows),
        "raised": len(rows) - len(done),
        "met": len(accepted),
        "false": sum(r["false"] for r in accepted),
        "worst true / tol": max((r["true"] / r["tol"] for r in accepted), default=None),
        "estimate within 10": sum(1 / CLOSE <= q <= CLOSE for q in means),
        "too small": sum(q < 1 / CLOSE for q in means),
        "largest within 10": sum(1 / CLOSE <= q <= CLOSE for q in most),
        "largest too small": sum(q < 1 / CLOSE for q in most),
        "most s": max((r["s"] for r in done), default=None),
    }
