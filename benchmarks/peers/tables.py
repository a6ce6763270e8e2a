"""What the stored runs say: a table per problem, and ratios against the nearest rivals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.harness import table
from benchmarks.peers.problems import PROBLEMS
from benchmarks.peers.run import label
from benchmarks.peers.score import Point, error_within, pareto, time_to

Records = Iterable[dict[str, Any]]


def finished(records: Records) -> list[dict[str, Any]]:
    return [r for r in records if "error" in r]


def curve(records: Records, peer: str, clock: str = "warm") -> list[Point]:
    return [(r[clock], r["error"]) for r in finished(records) if r["peer"] == peer]


def print_problem(name: str, records: Records) -> None:
    records = list(records)
    done = finished(records)
    front = {id(done[i]) for i in pareto([(r["warm"], r["error"]) for r in done])}
    rows = [
        {
            "peer": r["peer"],
            "settings": label(r["settings"]),
            "error": r.get("error"),
            "cold s": r.get("cold"),
            "warm s": r.get("warm"),
            "": r.get("failed") or ("front" if id(r) in front else ""),
        }
        for r in records
    ]
    if rows:
        table(f"{PROBLEMS[name][0]} ({name})", rows)


def print_ratios(by_problem: dict[str, Records]) -> None:
    """Time for equal error, tessella over NGSolve, on the Laplacian."""
    rows = []
    for name in (f"laplace-{n}" for n in (3, 4, 5, 6)):
        records = list(by_problem.get(name, ()))
        for error in (1e-6, 1e-8):
            times = [time_to(error, curve(records, p)) for p in ("tessella", "NGSolve")]
            cold = [time_to(error, curve(records, p, "cold")) for p in ("tessella", "NGSolve")]
            rows.append(
                {
                    "problem": name,
                    "error": f"{error:g}",
                    "tessella warm s": times[0],
                    "NGSolve warm s": times[1],
                    "ratio warm": _ratio(times[0], times[1]),
                    "ratio cold": _ratio(cold[0], cold[1]),
                }
            )
    if any(row["tessella warm s"] or row["NGSolve warm s"] for row in rows):
        table("time for equal error, tessella / NGSolve (fastest run at least as accurate)", rows)


def print_recipe(by_problem: dict[str, Records]) -> None:
    """Each baseline of the paper: time for the recipe's error, and error in its time.

    Of the recipe all its iterations, and those of its runs that had the smallest error.
    """
    rows = []
    for name, records in by_problem.items():
        records = list(records)
        recipe = [r for r in finished(records) if r["peer"] == "paper's recipe"]
        ours = curve(records, "tessella")
        if not recipe or not ours:
            continue
        whole = max(recipe, key=lambda r: r["settings"]["iterations"])
        best = min(recipe, key=lambda r: r["error"])
        for run in (whole, best) if best is not whole else (whole,):
            seconds, error = run["warm"], run["error"]
            fast, within = time_to(error, ours), error_within(seconds, ours)
            rows.append(
                {
                    "problem": name,
                    "iterations": run["settings"]["iterations"],
                    "recipe error": error,
                    "recipe s": seconds,
                    "tessella s for that error": fast,
                    "times faster": _ratio(seconds, fast),
                    "tessella error in that time": within,
                    "times smaller": _ratio(error, within),
                }
            )
    if rows:
        table("against the paper's recipe: all its iterations, and its smallest error (warm)", rows)


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
