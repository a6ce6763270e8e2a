"""Every run in a process of its own, timed, scored, and kept at once."""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.peers import problems
from benchmarks.peers.peer import NotApplicableError, Peer
from benchmarks.peers.registry import PEERS
from benchmarks.peers.score import normalised_l1
from benchmarks.peers.store import Store, key
from tessella.machine.sweep import Sweep

TIMING = (
    "wall seconds of everything from the statement to a solution that only needs evaluating (mesh, "
    "assembly, filter, factorisation, solve, training), in a process of its own; importing and "
    "evaluating at the test points are not timed. cold: the first solve of the process. warm: the "
    "fastest of the following ones, nothing of the first reused but compiled code"
)
METRIC = "mean |u - exact| / std(exact) on one test grid per problem"

LIMIT = 120.0
"""Seconds after which a process is ended: room for a cold run, a warm one and the imports."""

REPEATS, ENOUGH = 4, 3.0
"""Warm repeats at most, and the seconds after which there are no more."""

LONG = 15.0
"""A run that compiles nothing is not repeated if it takes longer: its warm time is its cold one."""


def measure(peer: Peer, problem: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Cold and warm seconds and the error of one run, in this process."""
    for package in peer.requires:
        importlib.import_module(package)
    case = problems.get(problem)
    start = time.perf_counter()
    answer = peer.solve(case, **settings)
    cold = time.perf_counter() - start
    warm: list[float] = []
    wanted = 1 if peer.compiled and cold < LIMIT / 3 else 0
    while len(warm) < wanted or (len(warm) < REPEATS and cold < LONG and sum(warm) < ENOUGH):
        start = time.perf_counter()
        answer = peer.solve(case, **settings)
        warm.append(time.perf_counter() - start)
    error = normalised_l1(answer(case.points), case.exact(case.points))
    return {"error": error, "cold": cold, "warm": min(warm, default=cold), "repeats": len(warm)}


def _child(send: Any, peer: str, problem: str, settings: dict[str, Any]) -> None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = measure(PEERS[peer], problem, settings)
        send.send(found)
    except Exception as error:
        send.send({"failed": f"{type(error).__name__}: {error}"[:300]})


def isolated(
    peer: str, problem: str, settings: dict[str, Any], limit: float = LIMIT
) -> dict[str, Any]:
    """`measure` in a new process, which is ended after `limit` seconds."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(send, peer, problem, settings))
    process.start()
    send.close()
    try:
        if not receive.poll(limit):
            return {"failed": f"not finished within {limit:g} s"}
        found: dict[str, Any] = receive.recv()
        return found
    except EOFError:
        return {"failed": "the process died (memory?)"}
    finally:
        process.kill()
        process.join()


def plan(
    names: Sequence[str], peers: Sequence[str], quick: bool
) -> Iterator[tuple[str, str, list[dict[str, Any]], str | None]]:
    """(problem, peer, settings of its runs, reason if none); quick takes the smallest of each."""
    for name in names:
        case = problems.get(name)
        for peer in peers:
            reason, settings = PEERS[peer].missing(), []
            try:
                settings = PEERS[peer].sizes(name, case)
            except NotApplicableError as error:
                reason = str(error)
            if reason is not None:
                settings = []
            yield name, peer, settings[:1] if quick else settings, reason


def run_all(
    store: Store,
    names: Sequence[str],
    peers: Sequence[str],
    *,
    quick: bool = False,
    redo: bool = False,
) -> dict[tuple[str, str], str]:
    """Run what is not stored yet; returns the reasons for what was left out.

    Commands that use the same store, on any machines, divide the runs between them.
    """
    left_out, runs = {}, {}
    for name, peer, all_settings, reason in plan(names, peers, quick):
        if reason is not None:
            left_out[name, peer] = reason
        elif not quick:
            store.keep_only(name, peer, all_settings)
        for settings in all_settings:
            record = {"problem": name, "peer": peer, "settings": settings}
            runs[key(record)] = record
    old = dict(store.records) if redo else {}

    def finished(wanted: Sequence[str]) -> set[str]:
        store.read()
        found = store.records
        return {run for run in wanted if run in found and found[run] != old.get(run)}

    made = finished(list(runs))
    missing = [run for run in runs if run not in made]
    store.path.parent.mkdir(parents=True, exist_ok=True)
    sweep = Sweep(store.path.parent, missing, finished, lambda _: None, print)
    with sweep.shared():
        for run in sweep:
            _make(store, runs[run])
    return left_out


def _make(store: Store, record: dict[str, Any]) -> None:
    found = isolated(record["peer"], record["problem"], record["settings"])
    store.add({**record, **found})
    shown = f"{record['problem']}, {record['peer']}, {label(record['settings'])}"
    print(f"  {shown}: {_outcome(found)}", flush=True)


def label(settings: dict[str, Any]) -> str:
    """Settings in a few characters."""
    short = {k: v for k, v in settings.items() if not isinstance(v, dict) and k != "entry"}
    return " ".join(f"{k}={_text(v)}" for k, v in short.items())


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "x".join(str(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _outcome(found: dict[str, Any]) -> str:
    if "failed" in found:
        return f"failed: {found['failed']}"
    return f"error {found['error']:.1e}, cold {found['cold']:.3g} s, warm {found['warm']:.3g} s"
