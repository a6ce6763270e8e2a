"""Our figures beside the paper's: medians over seeds, and a verdict for every cell."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from tessella.reproduction import cases, paper
from tessella.reproduction.cases import Case
from tessella.reproduction.paper import PaperRow
from tessella.reproduction.store import Record, Store

ROUNDING = 1e15
"""Condition numbers from here on only say "singular"; no two computers agree on them."""

KAPPA_FACTOR, DROPPED_POINTS = 3.0, 2.0
"""What still counts as the same condition number, and the same share of dropped columns."""


@dataclass(frozen=True)
class Cell:
    """One figure of ours, the paper's, and how they compare."""

    ours: float | None
    paper: float | None
    verdict: str
    spread: float | None = None

    @property
    def agrees(self) -> bool:
        return self.verdict in ("inside", "better", "same", "rounding")


@dataclass(frozen=True)
class Comparison:
    """One row of a table, ours and the paper's."""

    case: Case
    row: PaperRow
    records: list[Record]
    error: Cell
    kappa: dict[str, Cell]
    dropped: Cell
    seconds: Cell
    at_stopping_rule: float | None
    last_iteration: float | None
    oracle_iteration: float | None
    device: str


def compare(store: Store, number: int, quick: bool = False) -> list[Comparison]:
    """All 14 rows of a table; a row without records has empty cells."""
    rows = paper.table(paper.PROBLEMS[number - 1])
    found, seconds = (cases.sized(c, quick) for c in (cases.tables(number), cases.seconds()))
    timed = {case.row: case for case in seconds if case.experiment == f"seconds{number}"}
    return [
        _compare(store, case, row, timed[case.row]) for case, row in zip(found, rows, strict=True)
    ]


def _compare(store: Store, case: Case, row: PaperRow, timed: Case) -> Comparison:
    records = store.seeds(case)
    best = values(records, "error_oracle_minimum")
    kappa = {
        name: _kappa_cell(median(conditions(records, name)), theirs)
        for name, theirs in row.kappa.items()
    }
    dropped = median(values(records, "dropped_percent"))
    return Comparison(
        case,
        row,
        records,
        _error_cell(best, row),
        kappa,
        _dropped_cell(dropped, row.dropped_percent),
        _seconds_cell(store.seeds(timed), row),
        median(values(records, "error_at_stopping_rule")),
        median([r["error"]["l1_normalised"] for r in records if r.get("error")]),
        median(values(records, "oracle_iteration")),
        ", ".join(sorted({str(r["device"]) for r in records})),
    )


def values(records: list[Record], key: str) -> list[float]:
    """A figure of every record that has it."""
    return [record[key] for record in records if record.get(key) is not None]


def median(numbers: list[float]) -> float | None:
    return statistics.median(numbers) if numbers else None


def conditions(records: list[Record], name: str) -> list[float]:
    """A condition number of every record that has it."""
    return values([record.get("condition") or {} for record in records], name)


def _error_cell(best: list[float], row: PaperRow) -> Cell:
    ours = median(best)
    if ours is None:
        return Cell(None, row.error, "missing")
    if ours > row.error + row.error_range:
        verdict = "worse"
    elif ours < row.error - row.error_range:
        verdict = "better"
    else:
        verdict = "inside"
    return Cell(ours, row.error, verdict, max(best) - min(best))


def _kappa_cell(ours: float | None, theirs: float | None) -> Cell:
    if ours is None or theirs is None:
        return Cell(ours, theirs, "missing" if theirs is not None else "")
    if ours >= ROUNDING and theirs >= ROUNDING:
        return Cell(ours, theirs, "rounding")
    same = abs(math.log(ours / theirs)) <= math.log(KAPPA_FACTOR)
    return Cell(ours, theirs, "same" if same else "lower" if ours < theirs else "higher")


def _dropped_cell(ours: float | None, theirs: float | None) -> Cell:
    if ours is None or theirs is None:
        return Cell(ours, theirs, "missing" if theirs is not None else "")
    return Cell(ours, theirs, "same" if abs(ours - theirs) <= DROPPED_POINTS else "different")


def _seconds_cell(records: list[Record], row: PaperRow) -> Cell:
    """Filter and solve, without compilation and without measuring errors, of 10,000 iterations."""
    found = [seconds_of(record) for record in records if not record.get("refused")]
    ours = median(found)
    if ours is None:
        return Cell(None, row.seconds, "missing")
    return Cell(ours, row.seconds, "faster" if ours < row.seconds else "slower")


def seconds_of(record: Record) -> float:
    """What the paper calls training time: assembly, filter and all iterations, without compiling.

    A training run that was timed over fewer steps counts as 10,000 at the same pace.
    """
    spent = record["seconds"]
    share = 10_000 / record["iterations"] if record["solver"] in ("pinn", "fbpinn") else 1.0
    before = (spent["assemble"] or 0.0) + (spent.get("filter") or 0.0)
    return float(before + share * spent["solve"])
