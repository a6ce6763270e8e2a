"""The scoreboard: all rows of PINNacle's table, in its order."""

from __future__ import annotations

import json
import signal
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, in_fresh_process, save, table
from benchmarks.pinnacle import burgers, chaotic, flow, heat, many, poisson, wave

CASES = {
    case.name: case
    for family in (burgers, poisson, heat, flow, wave, chaotic, many)
    for case in family.CASES
}
PAGE = RESULTS.parent.parent / "docs" / "site" / "scoreboard.md"
INVERSE = {"PInv": 1.96e-2, "HInv": 1.19e-2}
ABSENT = {
    "Burgers 2d-C": (2.60e-1, "its random initial values are not at hand"),
}
"""Not run, and why."""

ORDER = (
    *("Burgers 1d-C", "Burgers 2d-C", "Poisson 2d-C", "Poisson 2d-CG", "Poisson 3d-CG"),
    *("Poisson 2d-MS", "Heat 2d-VC", "Heat 2d-MS", "Heat 2d-CG", "Heat 2d-LT", "NS 2d-C"),
    *("NS 2d-CG", "NS 2d-LT", "Wave 1d-C", "Wave 2d-CG", "Wave 2d-MS", "GS", "KS", "PNd", "HNd"),
    *("PInv", "HInv"),
)
SHOWN = ("case", "error", "seconds", "lines", "published", "factor", "end")


def pinnacle(*names: str) -> None:
    """Some cases, or all of them; rows of others are kept, and those of inverse problems are what
    `python -m benchmarks inverse` left."""
    for name in names:
        if name not in ORDER:
            raise ValueError(f"unknown case {name!r}: there are {', '.join(ORDER)}")
    rows = {row["case"]: row for row in _kept("pinnacle")}
    for name in [name for name in names or CASES if name in CASES]:
        rows[name] = in_fresh_process(_run, name)
        print({key: rows[name][key] for key in SHOWN}, flush=True)
        _write(rows)
    _write(rows)
    _print_page(_kept("pinnacle"))
    table("PINNacle", [{key: row[key] for key in SHOWN} for row in _kept("pinnacle")])


def _print_page(rows: list[dict[str, Any]]) -> None:
    """Put the table between the marks of the scoreboard's page."""
    start, end = "<!-- rows -->", "<!-- end of rows -->"
    before, _, rest = PAGE.read_text().partition(start)
    lines = [
        "| case | relative L2 error | seconds | lines | published best | factor | how it ended |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        numbers = [_digits(row[key]) for key in SHOWN[1:6]]
        lines.append("| " + " | ".join([row["case"], *numbers, row["end"]]) + " |")
    text = "\n".join([start, "", *lines, "", end])
    PAGE.write_text(before + text + rest.partition(end)[2])


def _digits(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int) or 10 <= value < 1e6 else f"{value:.2g}"


def _run(name: str) -> dict[str, Any]:
    """A row; none of them waits longer than twice its time."""
    limit = int(2 * CASES[name].patience)
    signal.signal(signal.SIGALRM, _over)
    signal.alarm(limit)
    try:
        return CASES[name].run()
    except TimeoutError:
        return CASES[name].row(None, float(limit), f"given up after {limit} seconds")
    finally:
        signal.alarm(0)


def _over(*_: Any) -> None:
    raise TimeoutError


def _write(rows: dict[str, dict[str, Any]]) -> None:
    for name in CASES.keys() & rows.keys():
        stated = CASES[name].row(rows[name]["error"], None, "")
        kept = ("lines", "published", "factor", "reference", "remark")
        rows[name] |= {key: stated[key] for key in kept}
    rows |= {name: _inverse(name) for name in INVERSE} | {name: _absent(name) for name in ABSENT}
    save("pinnacle", [rows[name] for name in ORDER if name in rows])


def _absent(name: str) -> dict[str, Any]:
    published, why = ABSENT[name]
    return {
        **dict.fromkeys(("case", "error", "seconds", "lines", "published", "factor"), None),
        "case": name,
        "published": published,
        "end": f"not run: {why}",
        "reference": "",
        "remark": "",
    }


def _kept(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def _inverse(name: str) -> dict[str, Any]:
    """The mean of what `python -m benchmarks inverse` found from different noise."""
    own = [row for row in _kept("inverse") if row["case"].startswith(f"{name} seed")]
    error, seconds = (float(np.mean([row[key] for row in own])) for key in ("error", "seconds"))
    published = INVERSE[name]
    return {
        "case": name,
        "error": error,
        "seconds": seconds,
        "lines": None,
        "published": published,
        "factor": published / error,
        "end": f"mean of {len(own)} draws of the noise",
        "reference": "exact",
        "remark": "error of u and the coefficient together, as PINNacle measures it; what the fit "
        f"itself expects of the coefficient is {np.mean([row['expected'] for row in own]):.1e} "
        "(benchmarks/inverse.py)",
    }
