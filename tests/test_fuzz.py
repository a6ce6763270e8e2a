"""Changed files and wrong calls, a few of each; `python -m benchmarks fuzz` tries many."""

import pytest
from benchmarks.commands import command_lines
from benchmarks.fuzz_files import checkpoints, failures, records, solution_files
from benchmarks.misuse import misuse

SEED = 7


@pytest.mark.parametrize(
    ("tried", "count"),
    [
        (solution_files, 30),
        (checkpoints, 15),
        (records, 12),
        (misuse, 70),
        (command_lines, 12),
    ],
)
def test_everything_is_right_or_refused_by_name(tried, count):
    rows = tried(count, SEED)
    assert len(rows) == count
    assert failures(rows) == []
    assert "refused" in {row["outcome"] for row in rows}


def test_every_benchmark_can_be_called_by_name():
    """All of them are imported, whichever is asked for."""
    from benchmarks.__main__ import BENCHMARKS

    assert len(BENCHMARKS) > 40 and all(map(callable, BENCHMARKS.values()))
