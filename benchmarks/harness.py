"""Shared by all benchmarks: timing, tables, results on disk, measurements in a fresh process."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tessella.machine.memory import device_name, peak_mib

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks"


def seconds(run: Callable[[], Any], repeat: int = 1) -> float:
    """Median wall time of `run`, which must return what it computed."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows with the same keys as an aligned table."""
    print(f"\n{title}")
    heads = list(rows[0])
    cells = [[show(row.get(head)) for head in heads] for row in rows]
    widths = [max(len(h), *(len(c[i]) for c in cells)) for i, h in enumerate(heads)]
    for line in [heads, *cells]:
        print("  " + "  ".join(f"{text:<{w}}" for text, w in zip(line, widths, strict=True)))


def show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "" if value is None else str(value)


def save(name: str, rows: list[dict[str, Any]]) -> None:
    """Write a table with machine and date to results/benchmarks/NAME.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "date": datetime.date.today().isoformat(),
        "device": device_name(),
        "processor": platform.processor() or platform.machine(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1, default=float) + "\n")


def in_fresh_process(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run in a new process, so that its peak memory is its own; adds peak_mib to the result."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(send, function, arguments))
    process.start()
    send.close()
    try:
        result: dict[str, Any] = receive.recv()
    except EOFError:
        raise RuntimeError(f"{function.__name__} died; see its output above") from None
    finally:
        process.join()
    return result


def _report(send: Any, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    result = function(*arguments)
    send.send({**result, "peak_mib": peak_mib()})
