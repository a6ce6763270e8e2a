"""One reproduction by several commands: every run once, whoever dies, and nothing left behind."""

import subprocess
import sys
import threading
import time

import pytest

from tessella.machine import reserve, sweep
from tessella.reproduction import Plan, Store, execute, run
from tessella.reproduction.store import OtherSettingsError

PLAN = Plan(["table1"], 6, "*cg")

COMMAND = """
import sys, time
from tessella.machine import reserve, sweep
from tessella.reproduction import Plan, execute, run

folder, log, seconds = sys.argv[1:]
reserve.BEAT, sweep.LOOK = 0.1, 0.05

def pretend(case, seed):
    with open(log, "a") as file:
        file.write(f"theirs/{case.row}/{seed}\\n")
    time.sleep(float(seconds))
    known = {"experiment": case.experiment, "row": case.row, "seed": seed, "case": case.identity}
    return {**known, "figure": "theirs"}

execute.execute = pretend
run.reproduce(Plan(["table1"], 6, "*cg"), folder)
"""


def record(case, seed, **figures):
    known = {"experiment": case.experiment, "row": case.row, "seed": seed, "case": case.identity}
    return {**known, **figures}


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Other:
    """The same command in another process, and a log of all runs that were begun."""

    def __init__(self, folder):
        self.out, self.log = folder / "out", folder / "log"
        self.log.touch()

    def start(self, seconds):
        arguments = map(str, (self.out, self.log, seconds))
        self.process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments])

    def begun(self):
        return self.log.read_text().split()

    def pretend(self, case, seed):
        """A run in this process."""
        with open(self.log, "a") as file:
            file.write(f"ours/{case.row}/{seed}\n")
        until(lambda: any(line.startswith("theirs") for line in self.begun()))
        return record(case, seed)


@pytest.fixture
def other(tmp_path, monkeypatch):
    made = Other(tmp_path)
    monkeypatch.setattr(execute, "execute", made.pretend)
    monkeypatch.setattr(sweep, "LOOK", 0.05)
    yield made
    made.process.kill()
    made.process.wait()


def without_makers(lines):
    return sorted(line.partition("/")[2] for line in lines)


ALL = sorted(f"{case.row}/{seed}" for case, seed in PLAN.tasks())


def test_two_commands_make_every_run_once_and_leave_only_records(other):
    steps = []
    other.start(seconds=0.01)
    store = run.reproduce(PLAN, other.out, report=steps.append)
    assert other.process.wait(60) == 0
    assert without_makers(other.begun()) == ALL
    assert {line.partition("/")[0] for line in other.begun()} == {"ours", "theirs"}
    assert len(store.records("table1")) == len(ALL) == steps[-1].done == steps[-1].total
    assert [path.name for path in other.out.iterdir()] == ["table1.jsonl"]


def test_a_run_under_way_is_waited_for_and_made_here_if_its_command_is_killed(other, monkeypatch):
    monkeypatch.setattr(reserve, "SILENCE", 1.5)
    waits, killed = [], []

    def kill():
        killed.append(without_makers(other.begun()))
        other.process.kill()

    def watch(step):
        if step.last.startswith("waiting"):
            waits.append(step)
            threading.Timer(2 * reserve.SILENCE, kill).start()

    other.start(seconds=600)
    until(other.begun)
    run.reproduce(PLAN, other.out, report=watch)
    assert killed == [ALL]
    (theirs,) = [line for line in other.begun() if line.startswith("theirs")]
    assert other.begun()[-1] == theirs.replace("theirs", "ours")
    assert len(other.begun()) == len(ALL) + 1
    (wait,) = waits
    assert wait.last.startswith(f"waiting for process {other.process.pid} on ")
    assert (wait.done, wait.total) == (len(ALL) - 1, len(ALL))
    assert [path.name for path in other.out.iterdir()] == ["table1.jsonl"]


@pytest.mark.parametrize("redo", [False, True])
def test_what_others_finish_meanwhile_counts_and_is_not_made_again(tmp_path, monkeypatch, redo):
    store, steps, made = Store(tmp_path), [], []
    tasks = PLAN.tasks()
    if redo:
        for task in tasks:
            store.write(record(*task, figure="old"))

    def pretend(case, seed):
        made.append((case, seed))
        store.write(record(*tasks[3], figure="theirs"))
        return record(case, seed, figure="ours")

    monkeypatch.setattr(execute, "execute", pretend)
    run.reproduce(PLAN, tmp_path, redo=redo, report=steps.append)
    assert made == [*tasks[:3], *tasks[4:]]
    assert [step.done for step in steps] == list(range(1, len(tasks) + 1))
    assert steps[-1].work_done == pytest.approx(steps[-1].work_total)


def test_commands_with_other_settings_are_not_mixed_while_they_run(tmp_path, monkeypatch):
    _, second = Plan(["table1"], 2, "cg", quick=True).tasks()

    def pretend(case, seed):
        Store(tmp_path).write(record(*second))
        return record(case, seed)

    monkeypatch.setattr(execute, "execute", pretend)
    with pytest.raises(OtherSettingsError, match="never mixed"):
        run.reproduce(Plan(["table1"], 2, "cg"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["table1.jsonl"]
