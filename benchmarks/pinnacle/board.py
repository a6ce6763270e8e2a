"""The scoreboard: all rows of PINNacle's table, in its order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, in_fresh_process, save, table
from benchmarks.pinnacle import burgers, chaotic, flow, heat, many, poisson, wave

CASES = {
    case.name: case
    for family in (burgers, poisson, heat, flow, wave, chaotic, many)
    for case in family.CASES
}
INVERSE = {"PInv": 2.45e-2, "HInv": None}
SHOWN = ("case", "error", "seconds", "lines", "published", "factor", "end")


def pinnacle(*names: str) -> None:
    """Some cases, or all of them; rows of others are kept."""
    rows = {row["case"]: row for row in _kept("pinnacle")}
    for name in names or CASES:
        rows[name] = in_fresh_process(_run, name)
        print({key: rows[name][key] for key in SHOWN}, flush=True)
        _write(rows)
    _write(rows)
    table("PINNacle", [{key: row[key] for key in SHOWN} for row in _kept("pinnacle")])


def _run(name: str) -> dict[str, Any]:
    return CASES[name].run()


def _write(rows: dict[str, dict[str, Any]]) -> None:
    rows |= {name: _inverse(name) for name in INVERSE}
    save("pinnacle", [rows[name] for name in (*CASES, *INVERSE) if name in rows])


def _kept(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def _inverse(name: str) -> dict[str, Any]:
    """The mean of what `python -m benchmarks inverse` found from different noise."""
    own = [row for row in _kept("inverse") if row["case"].startswith(name)]
    error, seconds = (float(np.mean([row[key] for row in own])) for key in ("error", "seconds"))
    published = INVERSE[name]
    return {
        "case": name,
        "error": error,
        "seconds": seconds,
        "lines": None,
        "published": published,
        "factor": published and published / error,
        "end": f"mean of {len(own)} draws of the noise",
        "reference": "exact",
        "remark": "error of the coefficient; the noise leaves "
        f"{np.mean([row['expected'] for row in own]):.1e} with all that is known "
        "(benchmarks/inverse.py)",
    }
