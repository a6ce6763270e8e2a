"""Work reserved in a folder, by one at a time, for as long as it is alive; sweeps over it."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tessella.machine import reserve
from tessella.machine.reserve import Reservations
from tessella.machine.sweep import Sweep


def left(folder):
    return [path.name for path in folder.iterdir()]


def silence(folder, seconds=reserve.SILENCE + 1):
    """As if nobody had touched what is there for so long."""
    for path in folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def test_what_one_has_reserved_no_other_gets_until_it_is_released(tmp_path):
    one, other = Reservations(tmp_path), Reservations(tmp_path)
    assert one.take("a") and not other.take("a") and other.take("b")
    assert other.holder("a").startswith(f"process {os.getpid()} on ")
    one.release("a")
    assert other.holder("a") is None and other.take("a")
    one.release("b")
    assert len(left(tmp_path)) == 2


def test_of_many_who_find_one_silent_one_goes_on(tmp_path):
    everyone = [Reservations(tmp_path) for _ in range(4)]
    start = Barrier(len(everyone))

    def take(own, name):
        start.wait()
        return own.take(name)

    with ThreadPoolExecutor(len(everyone)) as threads:
        for name in map(str, range(40)):
            assert Reservations(tmp_path).take(name)
            silence(tmp_path)
            assert sum(threads.map(take, everyone, [name] * len(everyone))) == 1


def test_one_who_slept_does_not_remove_what_took_its_place(tmp_path):
    asleep, awake = Reservations(tmp_path), Reservations(tmp_path)
    assert asleep.take("a")
    silence(tmp_path)
    assert awake.take("a")
    asleep.release("a")
    assert len(left(tmp_path)) == 1 and not asleep.take("a")


def test_signs_of_life_keep_it_and_at_the_end_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(reserve, "BEAT", 0.01)
    gone, own, other = (Reservations(tmp_path) for _ in range(3))
    assert gone.take("b")
    silence(tmp_path)
    with own.kept():
        assert own.take("a")
        silence(tmp_path)
        deadline = time.monotonic() + 20
        while own._path("a").stat().st_mtime < time.time() - reserve.SILENCE:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not other.take("a")
    assert left(tmp_path) == []


def test_a_run_finished_between_look_and_reservation_is_not_begun(tmp_path):
    counted, looks = [], []

    def finished(names):
        looks.append(list(names))
        return ["a"] if len(looks) > 1 else []

    sweep = Sweep(tmp_path, ["a", "b"], finished, counted.append, print)
    assert sweep.begin() == "b"
    assert looks == [["a", "b"], ["a"], ["b"]]
    assert counted == ["a"] and sweep.left == []
    assert len(left(tmp_path)) == 1
