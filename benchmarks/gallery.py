"""Every problem of the gallery by one call: the preset it recommends, cold and warm."""

from __future__ import annotations

import time
from typing import Any

import tessella as ts
from benchmarks.harness import save, table


def gallery() -> None:
    """Relative L2 error and seconds of the last preset, in a process that has solved nothing like
    it before, and again."""
    rows: list[dict[str, Any]] = []
    for name in ts.gallery.names():
        entry = ts.gallery.get(name)
        preset = list(entry.presets)[-1]
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            report = entry.solve(preset).report
            seconds.append(time.perf_counter() - start)
        rows.append(
            {
                "problem": name,
                "unknowns": getattr(report, "first", report).columns,
                "l2": (report.error or {}).get("l2_relative"),
                "l1": (report.error or {}).get("l1_normalised"),
                "estimate": report.error_estimate,
                "cold s": seconds[0],
                "warm s": seconds[1],
                "compile s": report.seconds.get("compile"),
            }
        )
        save("gallery", rows)
        print(f"  {name}: {rows[-1]['l2']}, {seconds[0]:.1f} s, {seconds[1]:.1f} s", flush=True)
    table("Gallery, preset `best`, both solves with an estimate", rows)
