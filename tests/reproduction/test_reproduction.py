"""The reproduction: what is run, what is kept, how it is compared with the paper."""

import json
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
    Plan,
    Store,
    cases,
    claims,
    compare,
    explanations,
    figures,
    paper,
    report,
    run,
)
from tessella.reproduction.document import Marked, Page
from tessella.reproduction.execute import _system, execute, settings_of

ALL = [case for make in run.TARGETS.values() for case in make()]
LINEAR = [c for c in ALL if c.solver not in ("pinn", "fbpinn")]
RESULTS = Store(Path(__file__).parents[2] / "results")
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
        parameters, method = split_settings(entry, entry.preset(one.preset), one.settings)
        used = vars(method) | parameters
        assert {name: used[name] for name in one.settings} == one.settings


def test_rows_of_an_experiment_have_names_of_their_own():
    assert len({(case.experiment, case.row) for case in ALL}) == len(ALL)


def test_quick_is_smaller_and_something_else():
    for case in ALL:
        quick = cases.quick(case)
        assert quick.identity != case.identity
        assert cases.cost(quick) <= cases.cost(case)


def test_a_plan_runs_all_rows_of_a_seed_before_the_next():
    seeds = [seed for _, seed in Plan(["table1", "table2"], seeds=3).tasks()]
    assert seeds == sorted(seeds) and len(seeds) == 2 * 14 * 3


def test_unknown_names_list_what_exists():
    with pytest.raises(ValueError, match=r"nothing is called 'table9': choose from table1, .*all"):
        Plan(["table9"]).tasks()
    with pytest.raises(ValueError, match=r"no row matches 'xyz'; there are: table1/as-cg, "):
        Plan(["table1"], only="xyz").tasks()
    with pytest.raises(ValueError, match="--seeds must be at least 1, got 0"):
        Plan(["table1"], seeds=0).tasks()
    with pytest.raises(ValueError, match="--workers must be at least 1, got 0"):
        run.reproduce(Plan(["table1"]), "nowhere", workers=0)


@pytest.mark.parametrize("pattern", ["cg", "table1/cg", "*/cg"])
def test_only_matches_rows_and_paths(pattern):
    assert [case.row for case, _ in Plan(["table1"], seeds=1, only=pattern).tasks()] == ["cg"]


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
    run.reproduce(Plan(["table1"], 1, "cg"), tmp_path)
    run.reproduce(Plan(["table1"], 2, "*cg"), tmp_path)
    assert sorted(counted) == [("as-cg", 0), ("as-cg", 1), ("cg", 0), ("cg", 1)]
    run.reproduce(Plan(["table1"], 1, "cg"), tmp_path, redo=True)
    assert counted.count(("cg", 0)) == 2


def test_a_new_file_begins_with_what_its_runs_share(tmp_path, counted):
    store = run.reproduce(Plan(["series"], 1, "wave-features/*"), tmp_path)
    first = json.loads(store.path("wave-features").read_text().split("\n")[0])
    assert first["experiment"] == "wave-features"
    assert first["settings"]["subdomains"] == 8 and first["settings"]["track_every"] == 10
    assert "features" not in first["settings"]


PINN = cases.quick(cases.tables(1)[0])
FEW = replace(PINN, settings={**PINN.settings, "hidden": 4, "depth": 1})


@pytest.mark.parametrize("case", [TINY, FEW], ids=["features", "pinn"])
def test_settings_known_beforehand_are_those_of_the_run(case):
    assert settings_of(case) == execute(case, 0)["settings"]


def test_progress_counts_up_to_all_of_the_work(tmp_path, counted):
    steps = []
    run.reproduce(Plan(["table1"], 2, "*cg"), tmp_path, report=steps.append)
    assert [s.done for s in steps] == [1, 2, 3, 4]
    assert steps[-1].work_done == pytest.approx(steps[-1].work_total)
    assert steps[-1].remaining == pytest.approx(0, abs=1e-9)
    assert steps[0].last.startswith("table1 / as-cg / seed 0")


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
    assert made["settings"]["max_iterations"] == 5 and made["device"]


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
run.reproduce(run.Plan(["table1"], 400, "rrqr-lsqr*", quick=True), sys.argv[1])
"""


def test_a_killed_run_loses_nothing_that_was_finished(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    store, tasks = Store(tmp_path), Plan(["table1"], 400, "rrqr-lsqr*", quick=True).tasks()
    deadline = time.monotonic() + 600
    while len(seen := store.records("table1")) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = store.records("table1")
    assert seen.items() <= finished.items()
    for made in finished.values():
        assert 0 < made["error_oracle_minimum"] <= made["error_at_stopping_rule"]
    missing = [task for task in tasks if store.read(*task) is None]
    assert len(missing) == len(tasks) - len(finished)


def test_workers_make_the_same_records(tmp_path):
    plan = Plan(["table1"], 2, "cg", quick=True)
    alone = run.reproduce(plan, tmp_path / "a")
    pooled = run.reproduce(plan, tmp_path / "b", workers=2)
    for task in plan.tasks():
        one, other = alone.read(*task), pooled.read(*task)
        assert one["columns"] == other["columns"]
        assert one["error_oracle_minimum"] == pytest.approx(other["error_oracle_minimum"], rel=1e-6)


# Comparing


@pytest.mark.parametrize(
    ("error", "verdict"), [(1e-4, "inside"), (2.1e-4, "inside"), (2.3e-4, "worse")]
)
def test_an_error_inside_the_papers_range_is_said_to_be(tmp_path, error, verdict):
    (case,) = [c for c in cases.tables(1) if c.row == "rrqr-lsqr"]
    store = Store(tmp_path)
    store.write(record(case, error_oracle_minimum=error, dropped_percent=9.5))
    (row,) = [r for r in compare.compare(store, 1) if r.case.row == "rrqr-lsqr"]
    assert row.error.verdict == verdict
    assert row.dropped.verdict == "same"
    assert row.seconds.verdict == "missing"


def test_medians_and_ranges_are_over_seeds(tmp_path):
    (case,) = [c for c in cases.tables(2) if c.row == "fbpinn"]
    store = Store(tmp_path)
    for seed, error in enumerate((1e-3, 5e-4, 4e-3)):
        store.write(record(case, seed, error_oracle_minimum=error))
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
    store.write(record(case, condition=kappa))
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
        store.write(record(case, dropped_percent=drop))
    (verdict,) = [v for v in claims.check_all(store) if "drops columns" in v.claim]
    assert verdict.verdict == claims.HOLDS
    (case,) = [c for c in cases.tables(3) if c.row == "rrqr-lsqr"]
    store.write(record(case, dropped_percent=40.0))
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
        store.write(record(case, **figures))
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
            store.write(made)
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
    assert "1 of 42 table rows" in (tmp_path / "REPRODUCTION.html").read_text()
    made = (tmp_path / "table1.jsonl").read_bytes()
    again = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert again.exit_code == 0 and (tmp_path / "table1.jsonl").read_bytes() == made
    with pytest.raises(ValueError, match="other settings"):
        run.reproduce(Plan(["table1"], 1, "table1/cg"), tmp_path)


UNUSED = """
import sys
import tessella
from typer.testing import CliRunner
from tessella.cli import app

small = ["--set", "subdomains=2", "--set", "max_iterations=2"]
for arguments in (["list"], ["solve", "harmonic-oscillator", *small], ["reproduce", "--help"]):
    assert CliRunner().invoke(app, arguments).exit_code == 0
assert "tessella.gallery" in sys.modules
print([name for name in sys.modules if name.startswith("tessella.reproduction")])
"""


def test_only_its_own_command_imports_the_reproduction():
    done = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


# The committed records


def test_every_committed_record_is_one_of_a_known_case_and_says_which():
    known = {(case.experiment, case.row): case for case in ALL}
    files = sorted(RESULTS.root.glob("*.jsonl"))
    assert {path.stem for path in files} == {case.experiment for case in ALL}
    for path in files:
        for line in path.read_text().splitlines()[1:]:
            made = json.loads(line)
            assert {"experiment", "row", "seed", "case", "device", "date", "versions"} <= set(made)
            record = RESULTS.read(known[made["experiment"], made["row"]], made["seed"])
            assert "refused" in made or made["settings"].items() <= record["settings"].items()


def test_the_committed_page_is_that_of_the_committed_records():
    page = report.build(RESULTS, figures.drawn(RESULTS.root / "figures"))
    assert page.markdown() == (RESULTS.root / "REPRODUCTION.md").read_text()
