"""The reproduction as one page: every table beside the paper's, every figure, every claim."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from tessella.gallery.preset import PresetMethod
from tessella.machine.files import written_whole
from tessella.reproduction import cases, paper
from tessella.reproduction.cases import Case
from tessella.reproduction.claims import FAILS, HOLDS, Verdict, check_all
from tessella.reproduction.compare import (
    Cell,
    Comparison,
    compare,
    conditions,
    median,
    seconds_of,
    values,
)
from tessella.reproduction.document import Marked, Page, Text
from tessella.reproduction.explanations import DIFFERENCES, EXCEPTIONS, FAILED_CLAIMS
from tessella.reproduction.store import Record, Settings, Store, on_first_device

NAMES = ("REPRODUCTION.md", "REPRODUCTION.html")


class Picture(Protocol):
    """What the report needs of a figure: `path` is None if it could not be drawn."""

    @property
    def name(self) -> str: ...
    @property
    def caption(self) -> str: ...
    @property
    def path(self) -> Path | None: ...


def write(store: Store, pictures: Sequence[Picture] = (), quick: bool = False) -> tuple[Path, Path]:
    """Write the page beside the records, as Markdown and as self-contained HTML."""
    page = build(store, pictures, quick)
    store.root.mkdir(parents=True, exist_ok=True)
    markdown, web = (store.root / name for name in NAMES)
    with written_whole(markdown) as plain, written_whole(web) as rich:
        plain.write_text(page.markdown())
        rich.write_text(page.html())
    return markdown, web


def build(store: Store, pictures: Sequence[Picture] = (), quick: bool = False) -> Page:
    page = Page("Does tessella do what the paper says?" + (" (quick sizes)" if quick else ""))
    page.paragraph(
        "Every table and figure of the paper, made again with `tessella reproduce all`, with the "
        "paper's values in brackets. Errors are normalised L1, medians over the seeds, with the "
        "range (largest minus smallest) behind ±. The smallest error over all iterations is what "
        "the paper prints; it takes the exact solution to pick it, so the error at a real "
        "stopping rule and at the last iteration stand beside it."
    )
    tables = [compare(store, number, quick) for number in (1, 2, 3)]
    _summary(page, tables)
    _claims(page, store, quick)
    for number, rows in enumerate(tables, 1):
        _table(page, number, rows)
    _exceptions(page, tables)
    _series(page, store, quick)
    _appendix(page, store, quick)
    _printed(page, store, quick)
    _pictures(page, pictures, store.root)
    _settings(page, store, tables, quick)
    return page


def _summary(page: Page, tables: list[list[Comparison]]) -> None:
    rows = [row for table in tables for row in table]
    filtered = [row for row in rows if row.row.solver == "rrqr-lsqr"]
    kappa = [row.kappa["preconditioned"] for row in filtered]
    inside = sum(row.error.verdict == "inside" for row in rows)
    better = sum(row.error.verdict == "better" for row in rows)
    page.heading("In short")
    page.bullets(
        [
            f"{sum(bool(row.records) for row in rows)} of {len(rows)} table rows are present.",
            f"Error: {inside} rows inside the paper's median ± range, {better} better, "
            f"{sum(row.error.verdict == 'worse' for row in rows)} worse.",
            f"Dropped columns within 2 points on {sum(r.dropped.agrees for r in filtered)} of "
            f"{len(filtered)} RRQR rows.",
            f"kappa(M_hat S^-1) within a factor of 3 on {sum(c.agrees for c in kappa)} of "
            f"{len(kappa)} RRQR rows.",
        ]
    )


def _claims(page: Page, store: Store, quick: bool) -> None:
    page.heading("The paper's claims")
    marks = {HOLDS: "good", FAILS: "bad"}
    rows: list[list[Text]] = [
        [v.claim, Marked(v.verdict, marks.get(v.verdict, "open")), _measured(v)]
        for v in check_all(store, quick)
    ]
    page.table(["claim", "verdict", "what we measured"], rows)


def _measured(v: Verdict) -> str:
    why = FAILED_CLAIMS.get(v.claim) if v.verdict == FAILS else None
    return f"{v.evidence}. {why}" if why else v.evidence


def _table(page: Page, number: int, rows: list[Comparison]) -> None:
    page.heading(f"Table {number}: {paper.PROBLEMS[number - 1]}")
    heads = [
        "row",
        "kappa(M)",
        "kappa(M_hat)",
        "kappa(M_hat S^-1)",
        "kappa(MᵀM)",
        "kappa(AS)",
        "dropped %",
        "smallest error",
        "at stopping rule",
        "last iteration",
        "seconds",
        "errors made on",
    ]
    page.table(heads, [_table_row(row) for row in rows])
    page.paragraph(
        "✓ inside the paper's range (errors), within a factor of 3 (kappa; at 1e15 and above only "
        "'singular' is meant), within 2 points (dropped); ▲ better; ✗ outside. Seconds: assembly, "
        "filter and 10,000 iterations on one core without measuring errors, the paper's on another "
        "machine."
    )


def _table_row(row: Comparison) -> list[Text]:
    kappas = [_number(row.kappa[k]) for k in ("M", "M_hat", "preconditioned", "gramian", "schwarz")]
    spread = f" ± {row.error.spread:.1e}" if row.error.spread is not None else ""
    error = Marked(
        f"{_show(row.error.ours)}{spread} ({row.row.error:.1e} ± {row.row.error_range:.1e})",
        _mark(row.error),
    )
    dropped = _number(row.dropped, ".0f")
    return [
        row.case.row,
        *kappas,
        dropped,
        error,
        _show(row.at_stopping_rule),
        _show(row.last_iteration),
        f"{_show(row.seconds.ours, '.3g')} ({row.row.seconds:g})",
        row.device,
    ]


def _number(cell: Cell, style: str = ".1e") -> Text:
    if cell.ours is None and cell.paper is None:
        return ""
    if cell.paper is None:
        return _show(cell.ours, style)
    return Marked(f"{_show(cell.ours, style)} ({cell.paper:{style}})", _mark(cell))


def _mark(cell: Cell) -> str:
    if cell.verdict == "missing":
        return "open"
    if cell.verdict == "better":
        return "better"
    return "good" if cell.agrees else "bad"


def _show(value: float | None, style: str = ".1e") -> str:
    return "–" if value is None else f"{value:{style}}"


def _exceptions(page: Page, tables: list[list[Comparison]]) -> None:
    page.heading("Cells outside the paper's range, and why")
    rows: list[list[Text]] = []
    for number, table in enumerate(tables, 1):
        for row in table:
            cells = {"error": row.error, "dropped": row.dropped}
            cells |= {f"kappa {name}": cell for name, cell in row.kappa.items()}
            for name, cell in cells.items():
                if cell.verdict and not cell.agrees and cell.verdict != "missing":
                    ours = f"{_show(cell.ours)} ({_show(cell.paper)})"
                    why = EXCEPTIONS.get((number, row.case.row, name), "not explained yet")
                    rows.append([f"table {number}", row.case.row, name, ours, why])
    if rows:
        page.table(["table", "row", "figure", "ours (paper)", "why"], rows)
    else:
        page.paragraph("None.")


def _median(records: list[Record], key: str, style: str = ".1e") -> str:
    return _show(median(values(records, key)), style)


def _runs(store: Store, found: list[Case], quick: bool) -> Iterator[tuple[Case, list[Record]]]:
    """Cases with their records."""
    return ((case, store.seeds(case)) for case in cases.sized(found, quick))


def _series(page: Page, store: Store, quick: bool) -> None:
    page.heading("Scaling tests")
    page.paragraph("Medians over the seeds; seconds are of the machine named first.")
    rows: list[list[Text]] = []
    for case, records in _runs(store, cases.series(), quick):
        refused = next((r["refused"] for r in records if "refused" in r), None)
        if refused or not records:
            rows.append([case.experiment, case.row, refused or "not yet run", "", "", "", "", ""])
            continue
        rows.append(_series_row(case, records))
    heads = ["series", "point", "smallest error", "at iteration", "at stopping rule"]
    page.table([*heads, "seconds", "seeds", "machine"], rows)


def _series_row(case: Case, records: list[Record]) -> list[Text]:
    return [
        case.experiment,
        case.row,
        _median(records, "error_oracle_minimum"),
        _median(records, "oracle_iteration", ",.0f"),
        _median(records, "error_at_stopping_rule"),
        _show(median([seconds_of(record) for record in on_first_device(records)]), ".3g"),
        str(len(records)),
        ", ".join(dict.fromkeys(str(record["device"]) for record in records)),
    ]


def _appendix(page: Page, store: Store, quick: bool) -> None:
    page.heading("Appendix: conditioning over K and over the overlap")
    page.paragraph(
        "The oscillator with sigma = 0 and 2,000 points. Theorem 3.2 needs a strip (overlap at "
        "most 2) and 2 alpha < 1; the comparison-matrix bound needs no strip; the random-matrix "
        "estimate needs 2 epsilon^2 < 1. A dash means not valid there."
    )
    heads = ["series", "point", "kappa(M)", "kappa(Q)", "alpha", "Theorem 3.2", "comparison"]
    rows = [_appendix_row(*run) for run in _runs(store, cases.appendix(), quick)]
    page.table([*heads, "random-matrix estimate"], rows)


def _appendix_row(case: Case, records: list[Record]) -> list[Text]:
    kappas = [_show(median(conditions(records, name))) for name in ("M", "preconditioned")]
    bounds = [_median(records, key, ".3g") for key in ("theorem", "comparison", "estimate")]
    return [case.experiment, case.row, *kappas, _median(records, "alpha", ".3f"), *bounds]


def _printed(page: Page, store: Store, quick: bool) -> None:
    page.heading("Where the printed text and the numbers disagree")
    page.paragraph(
        "The preset `as-run` reproduces the tables, `printed` follows the text. Each difference on "
        "its own and all together, RRQR-LSQR, 2,000 iterations; the paper's figures in the first "
        "row of each problem."
    )
    heads = ["run", "smallest error", "dropped %", "kappa(M)", "kappa(M_hat S^-1)"]
    page.table(heads, [_printed_row(*run) for run in _runs(store, cases.printed(), quick)])
    page.table(["topic", "as printed", "as run"], [list(row) for row in DIFFERENCES])


def _printed_row(case: Case, records: list[Record]) -> list[Text]:
    theirs = next(row for row in paper.table(case.problem) if row.name == "rrqr-lsqr")
    first = case.row.endswith("as run")
    figures = [
        (values(records, "error_oracle_minimum"), theirs.error, ".1e"),
        (values(records, "dropped_percent"), theirs.dropped_percent, ".0f"),
        *((conditions(records, k), theirs.kappa[k], ".1e") for k in ("M", "preconditioned")),
    ]
    cells = [
        _show(median(ours), style) + (f" ({printed or 0.0:{style}})" if first else "")
        for ours, printed, style in figures
    ]
    return [case.row, *cells]


def _pictures(page: Page, pictures: Sequence[Picture], root: Path) -> None:
    page.heading("Figures")
    if not pictures:
        page.paragraph("Not drawn: run `tessella reproduce figures`.")
    for picture in pictures:
        if picture.path is None:
            page.paragraph(f"{picture.name}: {picture.caption}")
        else:
            link = os.path.relpath(picture.path, root)
            page.picture(picture.path, picture.caption, Path(link).as_posix())


def _settings(page: Page, store: Store, tables: list[list[Comparison]], quick: bool) -> None:
    page.heading("Settings and machines")
    machines: dict[tuple[str, str], int] = {}
    everything = [row.records for table in tables for row in table]
    others = [*cases.seconds(), *cases.series(), *cases.appendix(), *cases.printed()]
    everything += [records for _, records in _runs(store, others, quick)]
    for records in everything:
        for record in records:
            key = (str(record["device"]), str(record["date"]))
            machines[key] = machines.get(key, 0) + 1
    rows: list[list[Text]] = [[d, when, f"{n:,}"] for (d, when), n in sorted(machines.items())]
    page.table(["machine", "date", "runs"], rows)
    baseline = next((t for t in tables[0] if t.case.row == "rrqr-lsqr" and t.records), None)
    if baseline:
        versions = baseline.records[0]["versions"]
        page.paragraph(", ".join(f"{name} {number}" for name, number in versions.items()))
    for number, table in enumerate(tables, 1):
        chosen = next(
            (t.records[0] for t in table if t.case.row == "rrqr-lsqr" and t.records), None
        )
        if chosen:
            shown = ", ".join(f"{k} {v}" for k, v in _in_order(chosen["settings"]))
            page.paragraph(f"Table {number}, RRQR-LSQR: {chosen['parameters']}; {shown}.")


def _in_order(settings: Settings) -> list[tuple[str, object]]:
    """Settings as the method lists them; those of other versions last."""
    names = list(PresetMethod.__annotations__)
    return sorted(settings.items(), key=lambda item: [*names, item[0]].index(item[0]))
