"""Nothing may be read wrong, end inside, hang or fill the memory: changed files and wrong calls."""

from __future__ import annotations

from collections import Counter

from benchmarks.commands import command_lines
from benchmarks.fuzz_files import SEED, checkpoints, failures, records, solution_files
from benchmarks.harness import save, table
from benchmarks.misuse import misuse
from tessella.machine.memory import peak_mib


def fuzz(count: int = 10_000) -> None:
    """So many changed solution files, and a tenth as many of everything else."""
    fewer = max(1, count // 10)
    rows = [*solution_files(count), *checkpoints(fewer), *records(fewer)]
    peak = peak_mib()
    rows += [*misuse(fewer, SEED), *command_lines(fewer, SEED)]
    counted = Counter((row["what"], row["outcome"]) for row in rows)
    summary = [{"what": w, "outcome": o, "number": n} for (w, o), n in sorted(counted.items())]
    table("outcomes", summary)
    print(f"peak memory while files were read: {peak:,.0f} MiB")
    wrong = failures(rows)
    if wrong:
        table("failures", [{k: str(v)[:150] for k, v in row.items()} for row in wrong[:40]])
    save("fuzz", [*summary, {"peak memory while files were read, MiB": peak}, *wrong])
