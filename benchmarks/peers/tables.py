"""What the stored runs say: a table per problem, times to equal error, the paper's recipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.harness import table
from benchmarks.peers.problems import PROBLEMS
from benchmarks.peers.run import label
from benchmarks.peers.score import TARGETS, Point, error_within, pareto, time_to

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


OURS = ("tessella", "tessella march")


def print_targets(by_problem: dict[str, Records], peers: Iterable[str], clock: str) -> None:
    """Seconds to each target by peer, in brackets tessella's time over it; – where none got there.

    The time of a peer is that of its fastest run that is at least as accurate.
    """
    rows = []
    for name, records in by_problem.items():
        records = list(records)
        for error in TARGETS:
            ran = [p for p in peers if any(r["peer"] == p for r in records)]
            times = {peer: time_to(error, curve(records, peer, clock)) for peer in ran}
            ours = min((t for p, t in times.items() if p in OURS and t is not None), default=None)
            cells = {p: _time(t, None if p in OURS else ours) for p, t in times.items()}
            rows.append({"problem": name, "error": f"{error:.0e}", **cells})
    heads = list(dict.fromkeys(head for row in rows for head in row))
    if len(heads) > 2:
        title = f"seconds to an error, {clock} (tessella's over it)"
        table(title, [{head: row.get(head) for head in heads} for row in rows])


def _time(seconds: float | None, ours: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.3g}" if ours is None else f"{seconds:.3g} ({ours / seconds:.2g})"


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
