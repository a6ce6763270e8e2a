"""Arrays between processes, here threads of one: who they are, what they say, and when they end."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from tessella.cells.joining import Face, order
from tessella.machine.launch import launch
from tessella.machine.meeting import _received, met
from tessella.machine.processes import distributed, environment
from tessella.machine.wire import ProcessLostError, Watch


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[:2]


def meet(*who, numbers=None, indices=None, silence=10.0):
    """All at once; of each its wire and watch, or what it raised."""
    address, count = free_address(), len(who)

    def one(i):
        number = count if numbers is None else numbers[i]
        try:
            return met(address, number, i if indices is None else indices[i], who[i], silence)
        except (ValueError, ProcessLostError) as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@contextmanager
def met_by(count):
    """The wires of so many that part in peace."""
    every = meet(*["the same"] * count)
    try:
        yield [wire for wire, _ in every]
    finally:
        for _, watch in every:
            watch.leave()
        for _, watch in every:
            watch.join(10)


def test_arrays_arrive_as_they_were_and_are_counted():
    sent = [np.arange(12.0).reshape(3, 4)[:, ::2], np.zeros((0, 5)), np.array([7], dtype=np.uint8)]
    with met_by(2) as (first, second):
        first.send([1], "numbers", sent)
        for x, y in zip(sent, second.receive(0, "numbers"), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
        assert (first.sent, second.sent) == (8 * 6 + 1, 0)


def test_all_may_send_much_before_anybody_receives():
    """To the next one and to the one after that, who wait for others at the same time."""
    much = [np.arange(1 << 19) + 0.5, np.zeros(3)]

    def one(wire):
        for k in (1, 2, 3):
            wire.send([(wire.index + k) % 4], "much", [x + wire.index for x in much])
        for k in (1, 2, 3):
            source = (wire.index + k) % 4
            for x, y in zip(much, wire.receive(source, "much"), strict=True):
                np.testing.assert_array_equal(x + source, y)
        return wire.waits

    with met_by(4) as wires, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, wires, timeout=60)) == [None] * 4


def test_who_has_left_does_not_disturb_the_others():
    """Nor is what it said before lost."""
    with met_by(3) as (first, second, third):
        third.send([0, 1], "last", [np.ones(2)])
        third.close()
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(first.receive, 1, "numbers")
            time.sleep(0.1)
            second.send([0], "numbers", [np.arange(3)])
            np.testing.assert_array_equal(later.result(10)[0], np.arange(3))
        for wire in (first, second):
            np.testing.assert_array_equal(wire.receive(2, "last")[0], np.ones(2))


def test_what_is_sent_before_the_other_looks_is_not_lost(monkeypatch):
    address = free_address()

    def slowly(*given):
        found = _received(*given)
        time.sleep(0.3)  # in which process 1 comes and sends
        return found

    def late():
        found, watch = met(address, 2, 1, "the same", 10.0)
        found.send([0], "early", [np.ones(3)])
        return watch

    monkeypatch.setattr("tessella.machine.meeting._received", slowly)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(late)
        first, watch = met(address, 2, 0, "the same", 10.0)
        watch.wire.others[1].socket.settimeout(5)
        np.testing.assert_array_equal(first.receive(1, "early")[0], np.ones(3))
        every = watch, other.result()
        for one in every:
            one.leave()
        for one in every:
            one.join(10)


def test_processes_at_different_places_are_named():
    with met_by(3) as (_, second, third):
        second.send([2], "maps", [np.zeros(1)])
        with pytest.raises(ProcessLostError, match="process 1 is at 'maps' while process 2 is at"):
            third.receive(1, "up")


def test_who_stops_is_named_by_all_others(monkeypatch):
    monkeypatch.setattr(Watch, "_end", lambda watch: None)
    (first, hub), (second, _), (_, leaver) = every = meet("same", "same", "same")
    leaver.tell({"stopped": "ValueError: mine alone"})
    for wire in (first, second):
        with pytest.raises(ProcessLostError, match="process 2 stopped: ValueError: mine alone"):
            wire.receive(2, "up")
    assert hub.lost
    for _, watch in every:
        watch.join(10)
        assert not watch.is_alive()


def test_processes_that_wait_for_each_other_are_told(monkeypatch):
    monkeypatch.setattr(Watch, "_end", lambda watch: None)
    every = meet("same", "same", "same", silence=1.5)

    def wait(index):
        with pytest.raises(ProcessLostError, match="all processes wait for each other") as error:
            every[index][0].receive((index + 1) % 3, "nothing")
        return str(error.value)

    with ThreadPoolExecutor(3) as pool:
        for said in pool.map(wait, range(3)):
            assert "0 for 1, 1 for 2, 2 for 0" in said
    for _, watch in every:
        watch.join(10)  # who is lost ends its process, which here is that of all tests
        assert not watch.is_alive()


@pytest.mark.parametrize(
    ("who", "others", "said"),
    [
        (("tessella 1", "tessella 2"), {}, "process 1 runs tessella 2 and process 0 runs"),
        (("a", "a"), {"numbers": (2, 3)}, "process 1 counts 3 processes and process 0 2"),
        (("a", "a", "a"), {"indices": (0, 1, 1)}, "two processes 1 of 3"),
    ],
)
def test_those_that_do_not_belong_together_are_refused(who, others, said):
    for error in meet(*who, **others):
        assert said in str(error)


def test_a_port_in_use_is_named():
    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} of the coordinator is in use"):
            distributed(f"127.0.0.1:{port}", 2, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("localhost", 2, 0), "coordinator must be 'host:port', got 'localhost'"),
        (("localhost:1", 2, 2), "index must lie between 0 and 1, got 2"),
        (("localhost:1", None, 1), "distributed() needs number too"),
    ],
)
def test_what_is_given_wrongly_is_named(given, said, monkeypatch):
    for name in ("JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_MCA_orte_hnp_uri"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError) as error:
        distributed(*given)
    assert said in str(error.value)


def test_fewer_than_one_process_is_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        launch(0, ["true"])


def slurm(nodes):
    return {
        "SLURM_JOB_ID": "4100", "SLURM_STEP_NODELIST": nodes, "SLURM_NTASKS": "8",
        "SLURM_PROCID": "3",
    }  # fmt: skip


OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
}
PLAIN = {
    "JAX_COORDINATOR_ADDRESS": "first:99", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({}, None),
        (PLAIN, ("first:99", 2, 1)),
        (slurm("node001"), ("node001:61444", 8, 3)),
        (slurm("node001,host2"), ("node001:61444", 8, 3)),
        (slurm("node[001-0015],host2"), ("node001:61444", 8, 3)),
        (slurm("node[001,007-015],host2"), ("node001:61444", 8, 3)),
        (OPEN_MPI, ("10.96.0.1:62624", 4, 2)),
    ],
)
def test_the_environment_is_read_as_jax_does(known, found):
    assert environment(known) == found


def line_of(count):
    """Cells one after the other."""
    low = np.arange(count)[:, None]
    faces = [Face(i, i + 1, 2, 2) for i in range(count - 1)]
    ports = [
        [(f, side) for f, side in ((i - 1, 0), (i, 1)) if 0 <= f < count - 1] for i in range(count)
    ]
    return low, low + 1, ports, faces


@pytest.mark.parametrize(("cells", "number"), [(8, 2), (8, 4), (9, 3), (7, 5), (2, 4)])
def test_every_process_has_a_part_of_the_tree(cells, number):
    """Its cells are neighbours, and it hands over one group."""
    made = order(*line_of(cells), processes=number)
    owners = made.owners
    assert np.all(np.diff(owners) >= 0)
    assert len(set(owners.tolist())) == min(cells, number)
    assert made.stages[-1].owner == 0
    assert len(made.handed) == len(set(owners.tolist())) - 1
    for stage, to in made.handed.items():
        assert made.stages[stage].count == 1
        assert to < made.stages[stage].owner
    assert len(made.crossing) == 4 * np.count_nonzero(np.diff(owners))
