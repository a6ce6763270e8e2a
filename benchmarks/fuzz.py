"""Nothing may be read wrong, end inside, hang or fill the memory: changed files and wrong calls."""

from __future__ import annotations

from collections import Counter

from benchmarks.fuzz_files import checkpoints, failures, records, solution_files
from benchmarks.harness import save, table
from tessella.machine.memory import peak_mib


def fuzz(count: int = 10_000) -> None:
    """So many changed solution files, and a tenth as many of everything else."""
    before, fewer = peak_mib(), max(1, count // 10)
    rows = [*solution_files(count), *checkpoints(fewer), *records(fewer)]
    counted = Counter((row["what"], row["outcome"]) for row in rows)
    summary = [{"what": w, "outcome": o, "number": n} for (w, o), n in sorted(counted.items())]
    table("outcomes", summary)
    print(f"peak memory {peak_mib():,.0f} MiB, {before:,.0f} before")
    wrong = failures(rows)
    if wrong:
        table("failures", [{k: str(v)[:150] for k, v in row.items()} for row in wrong[:40]])
    save("fuzz", [*summary, {"peak memory, MiB": peak_mib()}, *wrong])
