"""Run what is not yet in the store, on as many cores as asked for, and lose nothing.

Every finished run is on disk before the next one is counted, so an interrupted reproduction goes on
where it stopped. With several workers each is a process pinned to one core, as in the paper, whose
seconds are those of one core. Commands with the same folder, on any machines, divide the runs
between them (`machine.sweep`): this process reserves what its workers run.
"""

from __future__ import annotations

import fnmatch
import json
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread

from tessella.machine.interrupts import at_safe_points
from tessella.machine.sweep import LOOK, Sweep
from tessella.reproduction import cases
from tessella.reproduction.cases import Case, cost
from tessella.reproduction.store import Record, Settings, Store

TARGETS: dict[str, Callable[[], list[Case]]] = {
    "table1": lambda: cases.tables(1),
    "table2": lambda: cases.tables(2),
    "table3": lambda: cases.tables(3),
    "seconds": cases.seconds,
    "series": cases.series,
    "appendix": cases.appendix,
    "printed": cases.printed,
    "spectra": cases.spectra,
}
"""What can be asked for by name, besides `all`."""

ONE_SEED = ("seconds", "spectra")
"""Targets that run with seed 0 only."""

Task = tuple[Case, int]


@dataclass(frozen=True)
class Step:
    """What a progress display needs after every run: counts, predicted work and elapsed time, and
    which run it was, or whose runs are waited for."""

    done: int
    total: int
    work_done: float
    work_total: float
    elapsed: float
    last: str

    @property
    def remaining(self) -> float:
        """Seconds still to go, if the rest runs at the pace so far."""
        if not self.work_done:
            return float("inf")
        return self.elapsed * (self.work_total - self.work_done) / self.work_done

    @property
    def left(self) -> str:
        """The same in words."""
        seconds = self.remaining
        if math.isinf(seconds):
            return "?"
        return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


Report = Callable[[Step], None]


@dataclass(frozen=True)
class Plan:
    """What to run: targets by name, with seeds 0, 1, ..., on all rows or some.

    only    a pattern for experiment, row, or "experiment/row"
    quick   small sizes, for trying things
    """

    targets: Sequence[str]
    seeds: int = 5
    only: str | None = None
    quick: bool = False

    def tasks(self) -> list[Task]:
        """All runs, seed by seed, so that a cut reproduction is a whole one with fewer seeds."""
        if self.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, got {self.seeds}")
        tasks = [
            (case, seed)
            for target, found in self._cases().items()
            for case in found
            for seed in range(1 if target in ONE_SEED else self.seeds)
        ]
        kept = [task for task in tasks if self.only is None or _matches(task[0], self.only)]
        if tasks and not kept:
            rows = sorted({f"{case.experiment}/{case.row}" for case, _ in tasks})
            raise ValueError(f"no row matches {self.only!r}; there are: {', '.join(rows)}")
        return sorted(kept, key=lambda task: (task[1], -cost(task[0])))

    def shared(self) -> dict[str, Settings]:
        """The settings that all runs of an experiment have in common, by experiment."""
        from tessella.reproduction.execute import settings_of

        found: dict[str, Settings] = {}
        for case in chain(*self._cases().values()):
            own = settings_of(case)
            known = found.get(case.experiment, own)
            found[case.experiment] = {k: v for k, v in known.items() if k in own and own[k] == v}
        return found

    def _cases(self) -> dict[str, list[Case]]:
        """All cases by target."""
        names = list(TARGETS) if "all" in self.targets else list(self.targets)
        unknown = [name for name in names if name not in TARGETS]
        if unknown:
            known = ", ".join([*TARGETS, "figures", "report", "all"])
            raise ValueError(f"nothing is called {unknown[0]!r}: choose from {known}")
        return {name: cases.sized(TARGETS[name](), self.quick) for name in names}


def _matches(case: Case, pattern: str) -> bool:
    texts = (case.experiment, case.row, f"{case.experiment}/{case.row}")
    return any(fnmatch.fnmatch(text, pattern) for text in texts)


def reproduce(
    plan: Plan,
    out: Path | str = "results",
    *,
    redo: bool = False,
    workers: int = 1,
    report: Report | None = None,
) -> Store:
    """Make every record of the plan that is not there yet, and return the store."""
    if workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}")
    store = Store(Path(out))
    tasks = {_name(task): task for task in plan.tasks()}
    old = _records(store, tasks, list(tasks)) if redo else {}
    before = {name: json.dumps(record) for name, record in old.items()}
    finished = partial(_finished, store, tasks, before)
    made = finished(list(tasks))
    missing = [name for name in tasks if name not in made]
    if missing:
        _check_writable(store.root)
        run = partial(_run_one, store, plan.shared())
        count = _Counter({name: cost(tasks[name][0]) for name in missing}, report)
        sweep = Sweep(store.root, missing, finished, count, count.tell)
        with sweep.shared():
            if workers == 1:
                for name in sweep:
                    run(tasks[name])
            else:
                _run_in_processes(run, tasks, sweep, workers)
    return store


def _name(task: Task) -> str:
    case, seed = task
    return f"{case.experiment} / {case.row} / seed {seed}"


def _records(store: Store, tasks: dict[str, Task], names: Sequence[str]) -> dict[str, Record]:
    """The records there are of some runs; every file is read once."""
    wanted = {name: tasks[name] for name in names}
    known = {e: store.records(e) for e in {case.experiment for case, _ in wanted.values()}}
    found = {n: known[case.experiment].get((case.row, seed)) for n, (case, seed) in wanted.items()}
    return {name: record for name, record in found.items() if record is not None}


def _finished(
    store: Store, tasks: dict[str, Task], before: dict[str, str], names: Sequence[str]
) -> set[str]:
    """Which of some runs have a record that is not the one they had `before`, as text."""
    found = _records(store, tasks, names)
    new = {n for n, made in found.items() if n not in before or json.dumps(made) != before[n]}
    for name in new:
        store.own(tasks[name][0], found[name])
    return new


def _check_writable(folder: Path) -> None:
    """Refuse a folder that cannot take records before the first run, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"records cannot be written to {folder} ({error.strerror}): choose another --out"
        ) from None


class _Counter:
    """Adds up finished work, whoever did it, and reports it."""

    def __init__(self, costs: dict[str, float], report: Report | None) -> None:
        self.costs, self.report = costs, report
        self.total = sum(costs.values())
        self.started = time.perf_counter()
        self.done, self.work = 0, 0.0

    def __call__(self, name: str) -> None:
        self.done += 1
        self.work += self.costs[name]
        self.tell(name)

    def tell(self, text: str) -> None:
        """Report what has happened last, or what is waited for."""
        if self.report:
            elapsed = time.perf_counter() - self.started
            self.report(Step(self.done, len(self.costs), self.work, self.total, elapsed, text))


def _run_one(store: Store, shared: dict[str, Settings], task: Task) -> None:
    from tessella.reproduction.execute import execute

    with at_safe_points() as interrupts:
        record = execute(*task)
        if interrupts.seen:  # a solver may have ended early and kept what it had
            raise KeyboardInterrupt
        try:
            store.write(record, shared[task[0].experiment])
        except OSError as error:
            raise OSError(
                f"the record of {task[0].row!r} cannot be written to {store.root} "
                f"({error.strerror}): finished runs are kept; make room, the same command goes on"
            ) from None


def _run_in_processes(
    run: Callable[[Task], None], tasks: dict[str, Task], sweep: Sweep, workers: int
) -> None:
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    queue = context.Queue()
    for number in range(workers):
        queue.put(cores[number % len(cores)] if cores else None)
    pool = ProcessPoolExecutor(workers, context, _begin, (queue,))
    try:
        running: dict[Future[None], str] = {}
        while sweep.left or running:
            while len(running) < workers and (name := sweep.begin()) is not None:
                with _uninterrupted():  # Ctrl-C reaches workers too, but is for this process
                    running[pool.submit(run, tasks[name])] = name
            if not running:
                sweep.wait()
                continue
            finished, _ = wait(running, LOOK, FIRST_COMPLETED)
            if not finished and not all(p.is_alive() for p in (pool._processes or {}).values()):
                raise BrokenProcessPool  # one that started last may die without the pool noticing
            for future in finished:
                future.result()
                sweep.end(running.pop(future))
    except BaseException as error:
        for process in list((pool._processes or {}).values()):
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                f"one of {workers} workers was killed, perhaps for want of memory: finished runs "
                f"are kept, and the same command goes on; try fewer --workers"
            ) from None
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end, and processes started inside never get it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """However the process that started this one ends, by a kill too, this one follows."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _begin(queue: multiprocessing.Queue[int | None]) -> None:
    """One core and one BLAS thread for this worker, before any library counts cores."""
    Thread(target=_end_with_parent, daemon=True).start()
    core = queue.get()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if core is not None:
        os.sched_setaffinity(0, {core})
