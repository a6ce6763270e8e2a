"""Finished runs on disk: as written, one line each, whoever is killed while writing."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tessella.cli import app
from tessella.reproduction import Case, Store
from tessella.reproduction.store import OtherSettingsError

TINY = Case("try", "a row", "harmonic-oscillator", settings={"subdomains": 4, "max_iterations": 5})


def record(case, seed=0, **figures):
    return {"experiment": case.experiment, "row": case.row, "seed": seed, "case": case.identity,
            "settings": dict(case.settings), "device": "cpu", **figures}  # fmt: skip


def lines(store, experiment="try"):
    return [json.loads(line) for line in store.path(experiment).read_text().splitlines()]


# As written


def test_a_record_comes_back_as_written(tmp_path):
    store = Store(tmp_path)
    assert store.read(TINY, 0) is None
    made = record(TINY, figure=1.5)
    store.write(made)
    assert store.read(TINY, 0) == made
    assert [path.name for path in tmp_path.iterdir()] == ["try.jsonl"]


def test_settings_all_runs_share_stand_in_the_first_line_only(tmp_path):
    store = Store(tmp_path)
    other = replace(TINY, row="another", settings={"subdomains": 4, "max_iterations": 9})
    for case in (TINY, other):
        store.write(record(case), {"subdomains": 4})
    first, *rest = lines(store)
    assert first == {"experiment": "try", "settings": {"subdomains": 4}, "digest": first["digest"]}
    assert [line["settings"] for line in rest] == [{"max_iterations": 5}, {"max_iterations": 9}]
    for line in rest:
        assert {"experiment", "row", "seed", "case", "settings", "device", "digest"} == set(line)
    assert store.read(other, 0) == record(other)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SETTINGS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0, 0.0, 1, 1.0, True, None]))
RECORDS = st.fixed_dictionaries(
    {"experiment": st.just("try"), "row": st.text(max_size=3), "seed": st.integers(0, 3)},
    optional={"settings": SETTINGS, "figure": VALUES},
)


@given(st.lists(RECORDS, max_size=6), SETTINGS)
def test_any_records_come_back_and_the_last_of_a_row_and_seed_counts(made, shared):
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        for one in made:
            store.write(one, shared)
        expected = {(one["row"], one["seed"]): one for one in made}
        found = store.records("try")
        assert found.keys() == expected.keys()
        for key, one in expected.items():
            assert json.dumps(found[key], sort_keys=True) == json.dumps(one, sort_keys=True)


def test_seeds_are_found_by_number(tmp_path):
    store = Store(tmp_path)
    for seed in (10, 0, 2):
        store.write(record(TINY, seed))
    store.write(record(replace(TINY, row="a"), 1))
    assert [r["seed"] for r in store.seeds(TINY)] == [0, 2, 10]


def test_results_of_other_settings_are_never_mixed(tmp_path):
    store = Store(tmp_path)
    store.write(record(TINY))
    other = replace(TINY, settings={**TINY.settings, "max_iterations": 9})
    message = r"'a row' in .*try\.jsonl .* other settings \(max_iterations 5 instead of 9\).*--out"
    with pytest.raises(OtherSettingsError, match=message):
        store.read(other, 0)
    with pytest.raises(OtherSettingsError, match=r"\(solver 'rrqr-lsqr' instead of 'cg'\)"):
        store.seeds(replace(TINY, solver="cg"))
    store.write(record(other))
    assert store.read(other, 0) == record(other)


# Not as written


@given(st.lists(RECORDS, min_size=1, max_size=3, unique_by=lambda r: (r["row"], r["seed"])),
       st.data())  # fmt: skip
def test_a_file_cut_anywhere_has_its_whole_lines_and_takes_the_next(made, data):
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        ends = []
        for one in made:
            store.write(one, {"a": 1})
            ends.append(store.path("try").stat().st_size)
        cut = data.draw(st.integers(0, ends[-1]))
        os.truncate(store.path("try"), cut)
        whole = [one for one, end in zip(made, ends, strict=True) if end - 1 <= cut]
        assert list(store.records("try").values()) == whole
        store.write(record(TINY), {"a": 1})
        assert list(store.records("try").values()) == [*whole, record(TINY)]
        assert len(lines(store)) == len(whole) + 2


@pytest.mark.parametrize("line", ["{half", "[]", '{"seed": 0}', "", "7"])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    store = Store(tmp_path)
    for seed in range(3):
        store.write(record(TINY, seed))
    kept = store.path("try").read_text().splitlines()
    kept[2] = line
    store.path("try").write_text("\n".join(kept) + "\n")
    with pytest.raises(ValueError, match=r"line 3 of .*try\.jsonl is not a record .*delete"):
        store.read(TINY, 0)


@pytest.mark.parametrize("line", ["{half", '{"experiment": "other", "settings": {}}', "[]", ""])
def test_a_file_that_begins_with_something_else_is_neither_read_nor_written(tmp_path, line):
    store = Store(tmp_path)
    store.path("try").write_text(f"{line}\n")
    for use in (lambda: store.read(TINY, 0), lambda: store.write(record(TINY))):
        with pytest.raises(ValueError, match=r"try\.jsonl does not begin with the name and the"):
            use()
    assert store.path("try").read_text() == f"{line}\n"


def test_a_record_is_not_taken_for_a_first_line(tmp_path):
    store = Store(tmp_path)
    store.path("try").write_text(json.dumps(record(TINY)) + "\n")
    with pytest.raises(ValueError, match="does not begin with"):
        store.read(TINY, 0)


def test_a_write_that_fails_leaves_the_old_records_and_no_litter(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.write(record(TINY, figure=1))
    before = store.path("try").read_bytes()

    def full_disk(_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="No space left"):
            store.write(record(TINY, figure=2))
    assert store.path("try").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["try.jsonl"]
    store.write(record(TINY, figure=3))
    assert store.read(TINY, 0)["figure"] == 3


def test_one_file_per_run_is_refused_with_what_to_do(tmp_path):
    old = tmp_path / "table1" / "cg.seed0.json"
    old.parent.mkdir()
    old.write_text(json.dumps(record(TINY)))
    message = r"table1 holds a file for each run.* lines of table1\.jsonl now; choose another --out"
    with pytest.raises(ValueError, match=message):
        Store(tmp_path).write(record(replace(TINY, experiment="table1")))
    for target in ("table1", "report"):
        result = CliRunner().invoke(app, ["reproduce", target, "--out", str(tmp_path)])
        with pytest.raises(ValueError, match=message):
            raise result.exception
    assert [path.name for path in tmp_path.iterdir()] == ["table1"]


# Several at once

WRITER = """
import sys
from pathlib import Path
from tessella.reproduction import Store

folder, name, count, size = sys.argv[1:]
store = Store(Path(folder))
print("ready", flush=True)
sys.stdin.readline()
for seed in range(int(count)):
    text = (name * int(size))[: int(size) * (1 + seed % 3)]
    store.write({"experiment": "try", "row": name, "seed": seed, "settings": {}, "text": text})
    print(seed, flush=True)
"""


def writers(folder, names, count, size):
    """Processes that append records and say so, all started at the same moment."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    made = {
        name: subprocess.Popen([*command, name, str(count), str(size)], **pipes) for name in names
    }
    for process in made.values():
        assert process.stdout.readline() == "ready\n"
    for process in made.values():
        process.stdin.write("go\n")
        process.stdin.flush()
    return made


def test_several_processes_append_without_mixing(tmp_path):
    processes = writers(tmp_path, ["one", "two"], 30, 20_000)
    for process in processes.values():
        process.communicate()
        assert process.returncode == 0
    found = Store(tmp_path).records("try")
    assert set(found) == {(name, seed) for name in processes for seed in range(30)}
    assert all(set(r["text"]) == set(r["row"]) for r in found.values())
    assert len(lines(Store(tmp_path))) == 61


def test_killed_writers_lose_nothing_they_had_finished_and_stop_nobody(tmp_path):
    """Lines of up to a megabyte, so that some are cut in the middle."""
    said = set()
    for trial in range(2):
        killed, other = f"killed{trial}", f"other{trial}"
        processes = writers(tmp_path, [killed, other], 6, 300_000)
        while (line := processes[killed].stdout.readline()) and int(line) < trial + 1:
            said.add((killed, int(line)))
        processes[killed].kill()
        said.update((killed, int(line)) for line in processes[killed].communicate()[0].split())
        processes[other].communicate()
        said.update((other, seed) for seed in range(6))
    assert said <= set(Store(tmp_path).records("try"))
    Store(tmp_path).write(record(TINY))
    assert Store(tmp_path).read(TINY, 0) == record(TINY)
    lines(Store(tmp_path))


# Lines that are not what was written


def spoil(store, change):
    """Change the last line, keeping its digest."""
    path = store.path("try")
    first, *rest = path.read_text().splitlines()
    line = json.loads(rest[-1])
    change(line)
    path.write_text("\n".join([first, *rest[:-1], json.dumps(line)]) + "\n")


def without_digest(line):
    del line["digest"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line.update(figure=2.5), "it has changed since it was written"),
        (lambda line: line.update(seed=1), "it has changed since it was written"),
        (lambda line: line.pop("case"), "it has changed since it was written"),
        (without_digest, "'solver' is missing"),
    ],
)
def test_a_line_that_changed_is_named(tmp_path, change, message):
    store = Store(tmp_path)
    store.write(record(TINY, figure=1.5))
    spoil(store, change)
    with pytest.raises(ValueError, match=rf"line 2 of .*try\.jsonl .*{message}.*delete that line"):
        store.read(TINY, 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("row", 3),
        ("seed", "a"),
        ("settings", [1]),
        ("case", {"kind": "solve"}),
        ("error", {"max": 1.0}),
        ("condition", {"M": -1.0}),
        ("seconds", {"solve": None}),
        ("curve", {"iteration": [1], "error": []}),
        ("device", None),
    ],
)
def test_a_line_whose_figures_make_no_sense_is_named(tmp_path, key, value):
    store = Store(tmp_path)
    store.write(record(TINY))
    spoil(store, lambda line: (line.update({key: value}), without_digest(line)))
    with pytest.raises(ValueError, match=r"line 2 of .*try\.jsonl is not a record of a run"):
        store.read(TINY, 0)


def test_a_line_nested_too_deeply_is_named(tmp_path):
    store = Store(tmp_path)
    store.write(record(TINY))
    with open(store.path("try"), "a") as file:
        file.write('{"a":' * 5_000 + "1" + "}" * 5_000 + "\n")
    with pytest.raises(ValueError, match=r"line 3 of .*try\.jsonl is not a record"):
        store.read(TINY, 0)
