"""Processes that hang, and processes whose launcher is gone: all end soon, and none is left.

This file is also the script that they run.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

import tessella as ts
from tessella.machine import launch, processes

SOON = 120.0
"""Seconds, on a busy machine."""


def ended(numbers):
    """Whether these processes are gone, or soon will be."""
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        alive = [n for n in numbers if os.path.exists(f"/proc/{n}")]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def pids(folder, count):
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        found = [file.name for file in folder.iterdir() if file.name.isdecimal()]
        if len(found) == count:
            return list(map(int, found))
        time.sleep(0.05)
    pytest.fail(f"the processes have not met: {sorted(f.name for f in folder.iterdir())}")


def test_a_process_that_hangs_ends_the_others_and_is_named(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(launch, "LAST_WORDS", 1.0)
    assert launch.launch(2, [sys.executable, __file__, "hang", str(tmp_path)]) != 0
    assert "process 1 has not been heard of for 4 s" in capfd.readouterr().err
    assert ended(pids(tmp_path, 2))


def test_nobody_is_left_when_the_launcher_is_killed(tmp_path):
    command = [sys.executable, "-m", "tessella.machine.launch", "2", __file__, "wait", tmp_path]
    launcher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    known = pids(tmp_path, 2)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert ended(known)


def main(what, folder):
    ts.distributed(silence=4.0)
    processes.agreed("met", 0.0)
    open(os.path.join(folder, str(os.getpid())), "w").close()
    if what == "hang" and processes.index() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    processes.receive(1 - processes.index(), "never sent")


if __name__ == "__main__":
    main(*sys.argv[1:])
