"""The reproduction: what is run, what is kept, how it is compared with the paper."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tessella import gallery
from tessella.cli import app
from tessella.gallery.entry import split_settings
from tessella.linalg.iterative.schwarz import schwarz_bytes
from tessella.reproduction import (
    Case,
    Store,
    cases,
    claims,
    compare,
    explanations,
    paper,
    plan,
    report,
    run,
)
from tessella.reproduction.document import Marked, Page
from tessella.reproduction.execute import _system, execute

ALL = [case for make in run.TARGETS.values() for case in make()]
LINEAR = [c for c in ALL if c.solver not in ("pinn", "fbpinn")]
TINY = Case("try", "a row", "harmonic-oscillator", settings={"subdomains": 4, "max_iterations": 5})


def record(case, seed=0, **figures):
    return {"experiment": case.experiment, "row": case.row, "seed": seed, "case": case.identity,
            "device": "cpu", "date": "2026-01-01", "versions": {}, "parameters": {},
            "solver": case.solver, "iterations": 10, "settings": dict(case.settings),
            **figures}  # fmt: skip


# What the paper runs


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_table_has_its_fourteen_rows_with_names_of_their_own(number):
    rows = cases.tables(number)
    assert len(rows) == len({case.row for case in rows}) == 14
    assert [case.solver for case in rows[:6]] == [
        "pinn", "fbpinn", "lsqr", "cg", "as-cg", "rrqr-lsqr",
    ]  # fmt: skip


def test_series_have_the_values_of_the_text():
    points = {}
    for case in cases.series():
        points.setdefault(case.experiment, []).append(case.settings)
    assert [s["features"] for s in points["wave-features"][::3]] == [4, 8, 16, 32]
    assert [s["omega0"] for s in points["oscillator-weak"][::3]] == [30, 60, 120, 240, 580]
    assert [s["overlap"] for s in points["oscillator-subdomains"][::3]] == [
        1.45, 2.9, 5.8, 11.6, 23.2,
    ]  # fmt: skip
    assert [(s["n"], s["subdomains"]) for s in points["laplace-weak"][::3]] == [
        (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64),
    ]  # fmt: skip
    assert len(points) == 9


def test_widening_keeps_the_width_of_a_subdomain():
    for case in cases.series():
        if case.experiment == "oscillator-subdomains":
            # the text's 0.153 is overlap / (S - 1) of the baseline; S and overlap double together
            assert case.settings["overlap"] / case.settings["subdomains"] == pytest.approx(0.145)


@pytest.mark.parametrize("case", [c for c in LINEAR if c.kind == "solve"], ids=str)
def test_every_setting_of_every_case_is_one_the_gallery_knows(case):
    entry = gallery.get(case.problem)
    for one in (case, cases.quick(case)):
        split_settings(entry, entry.preset(one.preset), one.settings)


def test_rows_and_files_do_not_collide():
    store = Store(Path("somewhere"))
    assert len({store.path(case, 0) for case in ALL}) == len(ALL)


def test_quick_is_smaller_and_something_else():
    for case in ALL:
        quick = cases.quick(case)
        assert quick.identity != case.identity
        assert cases.cost(quick) <= cases.cost(case)


def test_a_plan_runs_all_rows_of_a_seed_before_the_next():
    seeds = [seed for _, seed in plan(["table1", "table2"], seeds=3)]
    assert seeds == sorted(seeds) and len(seeds) == 2 * 14 * 3


def test_unknown_names_list_what_exists():
    with pytest.raises(ValueError, match=r"nothing is called 'table9': choose from table1, .*all"):
        plan(["table9"])
    with pytest.raises(ValueError, match=r"no row matches 'xyz'; there are: table1/as-cg, "):
        plan(["table1"], only="xyz")
    with pytest.raises(ValueError, match="--seeds must be at least 1, got 0"):
        plan(["table1"], seeds=0)
    with pytest.raises(ValueError, match="--workers must be at least 1, got 0"):
        run.reproduce(["table1"], "nowhere", workers=0)


@pytest.mark.parametrize("pattern", ["cg", "table1/cg", "*/cg"])
def test_only_matches_rows_and_paths(pattern):
    assert [case.row for case, _ in plan(["table1"], seeds=1, only=pattern)] == ["cg"]


# The store


def test_a_record_comes_back_as_written(tmp_path):
    store = Store(tmp_path)
    assert store.read(TINY, 0) is None
    store.write(TINY, 0, record(TINY, figure=1.5))
    assert store.read(TINY, 0)["figure"] == 1.5
    assert [path.name for path in (tmp_path / "try").iterdir()] == ["a_row.seed0.json"]


def test_results_of_other_settings_are_never_mixed(tmp_path):
    store = Store(tmp_path)
    store.write(TINY, 0, record(TINY))
    other = replace(TINY, settings={**TINY.settings, "max_iterations": 9})
    with pytest.raises(
        ValueError, match=r"other settings \(max_iterations 5 instead of 9\).*--out"
    ):
        store.read(other, 0)
    with pytest.raises(ValueError, match=r"\(solver 'rrqr-lsqr' instead of 'cg'\)"):
        store.read(replace(TINY, solver="cg"), 0)


def test_a_file_that_is_no_record_is_named(tmp_path):
    store = Store(tmp_path)
    store.write(TINY, 0, record(TINY))
    store.path(TINY, 0).write_text("{half")
    with pytest.raises(
        ValueError, match=r"a_row\.seed0\.json is not a record of a run .*delete it"
    ):
        store.read(TINY, 0)


def test_a_write_that_fails_leaves_the_old_record_and_no_litter(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.write(TINY, 0, record(TINY, figure=1))

    def full_disk(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.write(TINY, 0, record(TINY, figure=2))
    assert store.read(TINY, 0)["figure"] == 1
    assert len(list((tmp_path / "try").iterdir())) == 1


def test_seeds_are_found_by_number(tmp_path):
    store = Store(tmp_path)
    for seed in (10, 0, 2):
        store.write(TINY, seed, record(TINY, seed))
    assert [r["seed"] for r in store.seeds(TINY)] == [0, 2, 10]


# Running


@pytest.fixture
def counted(monkeypatch):
    """Replaces the run of a case by a note of it."""
    made = []

    def pretend(case, seed):
        made.append((case.row, seed))
        return record(case, seed)

    monkeypatch.setattr("tessella.reproduction.execute.execute", pretend)
    return made


def test_finished_rows_are_never_run_again_unless_asked(tmp_path, counted):
    run.reproduce(["table1"], tmp_path, seeds=1, only="cg")
    run.reproduce(["table1"], tmp_path, seeds=2, only="*cg")
    assert sorted(counted) == [("as-cg", 0), ("as-cg", 1), ("cg", 0), ("cg", 1)]
    run.reproduce(["table1"], tmp_path, seeds=1, only="cg", redo=True)
    assert counted.count(("cg", 0)) == 2


def test_progress_counts_up_to_all_of_the_work(tmp_path, counted):
    steps = []
    run.reproduce(["table1"], tmp_path, seeds=2, only="*cg", report=steps.append)
    assert [s.done for s in steps] == [1, 2, 3, 4]
    assert steps[-1].work_done == pytest.approx(steps[-1].work_total)
    assert steps[-1].remaining == pytest.approx(0, abs=1e-9)
    assert steps[0].finished.startswith("table1 / as-cg / seed 0")


def test_a_record_has_what_the_contract_names(tmp_path):
    (case,) = [cases.quick(c) for c in cases.tables(1) if c.row == "as-cg"]
    made = execute(case, 0)
    for key in ("experiment", "row", "seed", "settings", "device", "problem", "preset", "solver",
                "rows", "columns", "columns_kept", "dropped_percent", "iterations", "stop_reason",
                "error", "error_oracle_minimum", "error_estimate", "residual", "condition",
                "seconds", "peak_memory_mib", "versions", "date"):  # fmt: skip
        assert key in made
    assert made["condition"]["gramian"] > 1 and made["condition"]["schwarz"] > 1
    curve = made["curve"]
    assert min(curve["error"]) == pytest.approx(made["error_oracle_minimum"], rel=1e-3)
    json.dumps(made)


def test_what_does_not_fit_into_memory_is_recorded_as_refused(monkeypatch):
    monkeypatch.setattr("tessella.reproduction.execute.MEMORY_LIMIT", 1_000)
    made = execute(TINY, 0)
    assert "GiB" in made["refused"] and made["row"] == "a row"


def test_what_the_authors_ran_beyond_our_memory_is_run_streamed(monkeypatch):
    """The same numbers as with all inverses at once, where those are refused."""
    monkeypatch.setattr("tessella.linalg.iterative.schwarz.CORES", 1)
    (case,) = [c for c in cases.series() if (c.experiment, c.row) == cases.STREAMED]
    assert case.settings["streamed"] is True
    at_once = replace(TINY, solver="as-cg", settings={**TINY.settings, "subdomains": 20})
    streamed = replace(at_once, settings={**at_once.settings, "streamed": True})
    errors = [execute(c, 0)["error"]["l2_relative"] for c in (at_once, streamed)]
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)
    M = _system(streamed, 0)[0].M
    limit = (schwarz_bytes(M) + schwarz_bytes(M, streamed=True)) // 2
    monkeypatch.setattr("tessella.reproduction.execute.MEMORY_LIMIT", limit)
    assert "refused" in execute(at_once, 0)
    assert "refused" not in execute(streamed, 0)


def test_appendix_records_hold_the_bounds():
    case = replace(
        cases.appendix()[0],
        settings={"sigma": 0.0, "points": 200, "features": 2, "overlap": 1.2, "subdomains": 6},
    )
    made = execute(case, 0)
    kappa = made["condition"]["preconditioned"]
    assert 0 < made["alpha"] < 1 and kappa > 1
    for bound in (made["theorem"], made["comparison"]):
        assert bound is None or bound >= kappa


KILLED = """
import sys
from tessella.reproduction import run
run.reproduce(["table1"], sys.argv[1], seeds=400, only="rrqr-lsqr*", quick=True)
"""


def test_a_killed_run_loses_nothing_that_was_finished(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    folder = tmp_path / "table1"
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*.json"))) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert len(finished) >= 3
    for path in finished:
        assert json.loads(path.read_text())["error_oracle_minimum"] > 0
    store, tasks = Store(tmp_path), plan(["table1"], 400, "rrqr-lsqr*", True)
    missing = [task for task in tasks if store.read(*task) is None]
    assert len(missing) == len(tasks) - len(finished)


def test_workers_make_the_same_records(tmp_path):
    alone = run.reproduce(["table1"], tmp_path / "a", seeds=1, only="cg", quick=True)
    pooled = run.reproduce(["table1"], tmp_path / "b", seeds=1, only="cg", quick=True, workers=2)
    (case, seed) = plan(["table1"], 1, "cg", True)[0]
    one, other = alone.read(case, seed), pooled.read(case, seed)
    assert one["columns"] == other["columns"]
    assert one["error_oracle_minimum"] == pytest.approx(other["error_oracle_minimum"], rel=1e-6)


# Comparing


@pytest.mark.parametrize(
    ("error", "verdict"), [(1e-4, "inside"), (2.1e-4, "inside"), (2.3e-4, "worse")]
)
def test_an_error_inside_the_papers_range_is_said_to_be(tmp_path, error, verdict):
    (case,) = [c for c in cases.tables(1) if c.row == "rrqr-lsqr"]
    store = Store(tmp_path)
    store.write(case, 0, record(case, error_oracle_minimum=error, dropped_percent=9.5))
    (row,) = [r for r in compare.compare(store, 1) if r.case.row == "rrqr-lsqr"]
    assert row.error.verdict == verdict
    assert row.dropped.verdict == "same"
    assert row.seconds.verdict == "missing"


def test_medians_and_ranges_are_over_seeds(tmp_path):
    (case,) = [c for c in cases.tables(2) if c.row == "fbpinn"]
    store = Store(tmp_path)
    for seed, error in enumerate((1e-3, 5e-4, 4e-3)):
        store.write(case, seed, record(case, seed, error_oracle_minimum=error))
    (row,) = [r for r in compare.compare(store, 2) if r.case.row == "fbpinn"]
    assert row.error.ours == 1e-3
    assert row.error.spread == pytest.approx(3.5e-3)
    assert row.error.verdict == "better"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(5.2e5, "same"), (1.5e6, "same"), (1.6e6, "higher"), (1.6e5, "lower")],
)
def test_condition_numbers_agree_within_a_factor_of_three(tmp_path, ours, verdict):
    (case,) = [c for c in cases.tables(1) if c.row == "rrqr-lsqr"]
    store = Store(tmp_path)
    kappa = {"M": 3e15, "M_hat": None, "preconditioned": ours}
    store.write(case, 0, record(case, condition=kappa))
    (row,) = [r for r in compare.compare(store, 1) if r.case.row == "rrqr-lsqr"]
    assert row.kappa["preconditioned"].verdict == verdict
    assert row.kappa["M"].verdict == "rounding"


def test_training_time_is_scaled_to_ten_thousand_steps():
    spent = {"assemble": 1.0, "solve": 2.0, "total": 9.0}
    assert compare.seconds_of({"seconds": spent, "solver": "pinn", "iterations": 500}) == 41.0
    assert compare.seconds_of({"seconds": spent, "solver": "cg", "iterations": 500}) == 3.0


def test_claims_without_records_are_open_and_with_records_decided(tmp_path):
    store = Store(tmp_path)
    assert {v.verdict for v in claims.check_all(store)} == {claims.OPEN}
    for number, drop in ((1, 9.0), (2, 0.0), (3, 0.0)):
        (case,) = [c for c in cases.tables(number) if c.row == "rrqr-lsqr"]
        store.write(case, 0, record(case, dropped_percent=drop))
    (verdict,) = [v for v in claims.check_all(store) if "drops columns" in v.claim]
    assert verdict.verdict == claims.HOLDS
    (case,) = [c for c in cases.tables(3) if c.row == "rrqr-lsqr"]
    store.write(case, 0, record(case, dropped_percent=40.0))
    (verdict,) = [v for v in claims.check_all(store) if "drops columns" in v.claim]
    assert verdict.verdict == claims.FAILS and "40.0" in verdict.evidence


def test_a_gain_from_first_to_last_names_the_steps_at_which_the_error_rises(tmp_path):
    store = Store(tmp_path)
    strong = [c for c in cases.series() if c.experiment.endswith(("-features", "-subdomains"))]
    for place, case in enumerate(strong):
        error = 1.0 / (1 + place)
        if (case.experiment, case.row) == ("laplace-features", "K=32 as-cg"):
            error *= 10
        figures = {"error_oracle_minimum": error, "rows": 36, "columns": 33}
        store.write(case, 0, record(case, **figures))
    (verdict,) = [v for v in claims.check_all(store) if "gains accuracy" in v.claim]
    assert verdict.verdict == claims.HOLDS
    assert verdict.evidence.endswith("laplace-features K=32 as-cg (1.1)")


def test_a_failed_claim_says_why_only_when_it_fails(tmp_path):
    (claim, why), store = next(iter(explanations.FAILED_CLAIMS.items())), Store(tmp_path)
    assert claim in [text for text, _ in claims.CLAIMS]
    wanted = {c.solver: c for c in cases.series() if c.row.startswith("K=64") and
              c.experiment == "laplace-features"}  # fmt: skip
    for schwarz, expected in ((1e-3, True), (1e-5, False)):
        errors = {"rrqr-lsqr": 1e-5, "lsqr": 2e-3, "as-cg": schwarz}
        spent = {"assemble": 0.0, "filter": 0.0, "solve": 1.0}
        for solver, case in wanted.items():
            made = record(case, error_oracle_minimum=errors[solver], seconds=spent)
            store.write(case, 0, made)
        assert (why in report.write(store)[0].read_text()) == expected


# The page


def test_the_page_says_what_is_missing_instead_of_leaving_it_out(tmp_path):
    markdown, web = report.write(Store(tmp_path))
    text = markdown.read_text()
    assert "0 of 42 table rows are present" in text
    for row in paper.table("wave"):
        assert row.name in text
    assert web.read_text().startswith("<!doctype html>")


def test_every_verdict_carries_a_sign_and_text_is_escaped():
    page = Page("a < b")
    page.table(["x | y"], [[Marked("1 < 2", "bad")], ["a|b"]])
    assert "1 < 2 ✗" in page.markdown() and "a\\|b" in page.markdown()
    assert "1 &lt; 2" in page.html() and "<title>a &lt; b</title>" in page.html()


def test_pictures_are_inside_the_html_page_and_linked_from_markdown(tmp_path):
    picture = tmp_path / "figures" / "one.png"
    picture.parent.mkdir()
    picture.write_bytes(b"not really")
    page = Page("pictures")
    page.picture(picture, "what it shows", "figures/one.png")
    assert "](figures/one.png)" in page.markdown()
    assert "data:image/png;base64,bm90" in page.html()


# The command line


def test_one_row_from_the_command_line(tmp_path):
    arguments = ["reproduce", "table1", "--quick", "--seeds", "1", "--only", "table1/cg"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Table 1" in result.output and "REPRODUCTION.md" in result.output
    assert "1 of 42 table rows" in (tmp_path / "REPRODUCTION.md").read_text()
    with pytest.raises(ValueError, match="other settings"):
        run.reproduce(["table1"], tmp_path, seeds=1, only="table1/cg")
