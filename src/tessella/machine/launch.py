"""Start the processes of one machine: `python -m tessella.machine.launch 4 script.py`.

Each has its share of the cores. When one fails the others are ended, and it is named.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from tessella.machine.meeting import SERVER
from tessella.machine.threads import CORES
from tessella.machine.wire import LAUNCHER

CHILD = "TESSELLA_PROCESS"
"""Set in processes that were started here."""

LAST_WORDS = 10.0
"""Seconds that others have to end by themselves when one has failed."""


def launch(number: int, command: Sequence[str], most: int = CORES) -> int:
    """Run a command in so many processes that find each other, on all cores or at most so many of
    them each; the first bad exit status, or 0."""
    if number < 1:
        raise ValueError(f"the number of processes must be at least 1, got {number}")
    server = socket.create_server(("127.0.0.1", 0), backlog=number)  # handed to process 0
    address = f"127.0.0.1:{server.getsockname()[1]}"
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    started: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(number):
            own = {
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": str(number),
                "JAX_PROCESS_ID": str(index),
                CHILD: str(index),
                LAUNCHER: str(os.getpid()),
                "OMP_NUM_THREADS": str(max(1, min(most, CORES // number))),
            }
            files = (server.fileno(),) if index == 0 else ()
            if files:
                own[SERVER] = str(server.fileno())
            if cores:
                os.sched_setaffinity(0, _share(cores, number, index, most))  # inherited
            started.append(subprocess.Popen(command, env={**os.environ, **own}, pass_fds=files))
        server.close()
        return _watched(started)
    finally:
        server.close()
        if cores:
            os.sched_setaffinity(0, cores)
        for one in started:
            if one.poll() is None:
                one.kill()
                one.wait()


def _share(cores: Sequence[int], number: int, index: int, most: int) -> set[int]:
    """The cores of one process; fewer cores than processes are shared."""
    if number >= len(cores):
        return {cores[index % len(cores)]}
    first, end = (len(cores) * i // number for i in (index, index + 1))
    return set(cores[first : min(end, first + most)])


def _watched(started: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all; once one has failed only for a while, in which the others say why they end."""
    failed, end, going = 0, float("inf"), True
    while going and time.monotonic() < end:
        going = None in [one.poll() for one in started]
        bad = [(one.returncode, i) for i, one in enumerate(started) if one.returncode]
        if bad and not failed:
            failed, index = min(bad)  # a signal before those that end because of it
            print(f"error: process {index} {_how(failed)}", file=sys.stderr, flush=True)
            end = time.monotonic() + LAST_WORDS
        time.sleep(0.05 if going else 0.0)
    return failed if failed >= 0 else 128 - failed


def _how(status: int) -> str:
    if status > 0:
        return f"failed with status {status}; the others end too"
    return f"was ended by {signal.Signals(-status).name}; the others end too"


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal():
        sys.exit("usage: python -m tessella.machine.launch NUMBER SCRIPT [ARGUMENT]...")
    sys.exit(launch(int(sys.argv[1]), [sys.executable, *sys.argv[2:]]))
