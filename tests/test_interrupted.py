"""Interrupted from outside: one line, the exit code of an interrupt, nothing finished lost."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from tessella import cli
from tessella.linalg.iterative.iteration import Iterative
from tessella.reproduction import Plan, run
from tessella.solving import ways
from tessella.solving.time.walk import Walk

SMALL = ["--set", "subdomains=3", "--set", "features=6", "--set", "omega0=10"]
FINDINGS = "the report tells what was found until then"

WORKERS = """
import os, sys, time
from tessella import cli
from tessella.reproduction import execute, run

def wait(store, shared, task):
    print(os.getpid(), flush=True)
    time.sleep(120)

run._run_one = wait
sys.argv = ["tessella", "reproduce", "table1", "--only", "*cg", "--seeds", "1", "--workers", "2",
            "--out", sys.argv[1]]
if __name__ == "__main__":
    cli.main()
"""


def pressing(function, at, number=signal.SIGINT):
    """The same function, but at one of its calls somebody presses Ctrl-C."""
    calls = []

    def pressed(*arguments, **named):
        calls.append(arguments)
        if len(calls) == at:
            os.kill(os.getpid(), number)
        return function(*arguments, **named)

    return pressed


@pytest.fixture
def command(monkeypatch, capsys):
    """Exit code, stdout and stderr of a command in this process."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tessella", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_iteration_reports_and_says_so(command, monkeypatch, number, code):
    monkeypatch.setattr(Iterative, "_loop", pressing(Iterative._loop, 2, number))
    settings = [*SMALL, "--set", "max_iterations=1500"]
    found, told, complaint = command("solve", "harmonic-oscillator", *settings)
    assert (found, complaint) == (code, f"interrupted: {FINDINGS}\n")
    assert "interrupted" in told.partition("stopped")[2].splitlines()[0]


def test_an_interrupted_march_reports_and_says_so(command, monkeypatch):
    monkeypatch.setattr(Walk, "attempt", pressing(Walk.attempt, 3))
    found, told, complaint = command("solve", "heat", "--slabs", "4", "--set", "features=30")
    assert (found, complaint) == (130, f"interrupted: {FINDINGS}\n")
    assert "interrupted in slab 3 of 4" in told


def test_with_nothing_found_an_interrupt_is_one_line(command, monkeypatch):
    monkeypatch.setattr(ways, "assemble", pressing(ways.assemble, 1))
    code, told, complaint = command("solve", "harmonic-oscillator", *SMALL)
    assert (code, told, complaint) == (130, "", "interrupted: nothing was kept\n")


def test_a_run_that_ended_early_is_not_kept_as_finished(tmp_path, monkeypatch):
    made = []

    def ends_early(case, seed):
        made.append(case)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            return {}

    monkeypatch.setattr("tessella.reproduction.execute.execute", ends_early)
    with pytest.raises(KeyboardInterrupt):
        run.reproduce(Plan(["table1"], 1, "*cg"), tmp_path)
    assert len(made) == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture
def started(tmp_path):
    """A reproduction in a process of its own, and its two workers, busy."""
    script = tmp_path / "killed.py"
    script.write_text(WORKERS)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    main = subprocess.Popen([sys.executable, script, tmp_path], **pipes)
    return main, [int(main.stdout.readline()) for _ in range(2)]


def test_a_killed_worker_ends_the_others_in_one_line(started, tmp_path):
    main, workers = started
    os.kill(workers[0], signal.SIGKILL)
    _, complaint = main.communicate(timeout=60)
    assert main.returncode == 1
    assert complaint.startswith("error: one of 2 workers was killed")
    assert complaint.count("\n") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(workers[1], 0)
    assert [path.name for path in tmp_path.iterdir()] == ["killed.py"]


def test_workers_end_with_whoever_started_them(started):
    main, _ = started
    main.kill()
    _, complaint = main.communicate(timeout=60)  # returns once nobody can write any more
    assert "Traceback" not in complaint


def test_a_folder_that_takes_no_records_is_refused_before_the_first_run(command):
    found, _, complaint = command("reproduce", "table1", "--only", "cg", "--out", "/proc/results")
    assert found == 1
    assert "cannot be written to" in complaint and "choose another --out" in complaint


def test_a_full_disk_keeps_what_was_finished(tmp_path, monkeypatch):
    def large(case, seed):
        curve = {key: [1] * 500 * (1 + 9 * seed) for key in ("iteration", "error")}
        known = {"experiment": case.experiment, "row": case.row, "case": case.identity}
        return {**known, "seed": seed, "curve": curve}

    monkeypatch.setattr("tessella.reproduction.execute.execute", large)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="finished runs are kept; make room"):
            run.reproduce(Plan(["table1"], 2, "cg"), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = run.Store(tmp_path).records("table1")
    assert list(kept) == [("cg", 0)]
