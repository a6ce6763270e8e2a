"""Messages through memory that two processes share."""

import os
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.machine import rings
from tessella.machine.launch import launch
from tessella.machine.rings import Ring, between, shared

ROOM = 8 * rings.NUMBERS


@given(
    st.integers(2, 40),
    st.lists(st.tuples(st.booleans(), st.integers(0, 120), st.integers(0, 255)), max_size=200),
)
def test_what_was_put_is_taken_in_its_order(words, acts):
    """Whatever is put and taken when, and wherever the ring ends; what finds no room is not put."""
    ring, waiting = Ring(memoryview(bytearray(ROOM + 8 * words))), []
    for puts, length, number in acts:
        if puts:
            message = bytes([number]) * length
            if ring.put([message[:3], message[3:]]):
                waiting.append(message)
            else:
                assert waiting or 2 * rings._whole(length) > ring.size
        elif waiting:
            assert bytes(ring.first()) == waiting.pop(0)
            ring.take()
        else:
            assert ring.first() is None
        assert ring.filled == bool(waiting)
    for message in waiting:
        assert bytes(ring.first()) == message
        ring.take()


def test_half_of_an_empty_ring_is_always_to_be_had():
    ring = Ring(memoryview(bytearray(ROOM + 1024)))
    for length in np.random.default_rng(0).integers(0, 505, 500):
        assert ring.put([bytes(int(length))])
        assert len(ring.first()) == length
        ring.take()


def test_a_ring_without_messages_begins_anew():
    """So that little memory is touched again and again."""
    room = memoryview(bytearray(ROOM + 4096))
    ring = Ring(room)
    for k in range(1, 500):
        assert ring.put([bytes([k % 255]) * 24])
        assert bytes(ring.first()) == bytes([k % 255]) * 24
        ring.take()
    assert not any(room[ROOM + 2 * 32 :])


def test_every_two_have_a_ring_each_way():
    room = memoryview(bytearray(3 * 3 * 1024))
    every = [between(room, 3, i) for i in range(3)]
    for i, own in enumerate(every):
        assert sorted(own) == [j for j in range(3) if j != i]
        for j, pair in own.items():
            pair.out.put([bytes([i, j])])
    for i, own in enumerate(every):
        for j, pair in own.items():
            assert bytes(pair.back.first()) == bytes([j, i])


def offer():
    """What the only process of this test offers, and what it says at the end."""
    said = {}

    def tell(what, own):
        said[what] = own
        return [own, own]

    return said, tell


def test_memory_is_shared_by_all_of_a_machine_or_nobody(monkeypatch):
    said, tell = offer()
    assert sorted(shared(0, [0, 1], tell)) == ([1] if sys.platform == "linux" else [])
    assert not shared(0, [0], tell)
    assert said["memory"].tolist() == [0, 0, 0, 0]
    assert not shared(0, [0, 1], lambda what, own: [own, 0 * own])
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not shared(0, [0, 1], tell)
    assert not said["rings"]


def test_who_cannot_see_the_memory_says_so():
    """It may be a number that means another file there, as in another container."""
    for process, size, token in ((0, 4096, 1), (os.getpid(), 4096, 1), (os.getpid(), 0, 0)):
        with open(__file__, "r+b") as file:
            assert rings._opened(process, file.fileno(), size, token) is None


HAMMER = """
import sys
import numpy as np
import tessella.machine.processes as processes

processes._own_cores = lambda here: True  # although there may be fewer
processes.distributed()
me, number = processes.index(), processes.number()
assert all(own.rings is not None for own in processes._Here.wire.others.values())
rng = np.random.default_rng(7)
for k in range(1_000):
    sizes = rng.choice([1, 3, 60, 2_000, 20_000], (number, number), p=[0.5, 0.2, 0.2, 0.09, 0.01])
    out = {q: np.full(sizes[me, q], number * k + me) for q in range(number) if q != me}
    for q, x in processes.swapped("hammer", out).items():
        assert x.shape == (sizes[q, me],) and np.all(x == number * k + q), (k, q, x)
    mean = processes.coming_total("sum", np.array(float(me + k)))() / number
    assert mean == (number - 1) / 2 + k
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory without a name is Linux's")
def test_real_processes_hear_what_was_said(tmp_path):
    script = tmp_path / "hammer.py"
    script.write_text(HAMMER)
    assert launch(3, [sys.executable, str(script)]) == 0
