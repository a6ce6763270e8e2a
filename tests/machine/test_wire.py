"""Arrays between processes, here threads of one: who they are, what they say, and when they end."""

import fcntl
import os
import socket
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from tessella.cells.order.found import order
from tessella.cells.order.joints import Joints
from tessella.machine import meeting, processes
from tessella.machine.launch import launch
from tessella.machine.meeting import _received, _seen, met
from tessella.machine.messages import AWAKE, START, Connection, parts_of, pieces
from tessella.machine.processes import distributed
from tessella.machine.rings import between
from tessella.machine.wire import Lines, ProcessLostError, Watch, Wire


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[:2]


def meet(*who, numbers=None, indices=None, silence=10.0, address=None):
    """All at once; of each its wire and watch, or what it raised."""
    address, count = address or free_address(), len(who)

    def one(i):
        number = count if numbers is None else numbers[i]
        try:
            return met(address, number, i if indices is None else indices[i], who[i], silence)
        except (ValueError, ProcessLostError) as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@contextmanager
def tracing():
    """The most bytes that were allocated inside, so far."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(params=["sockets", "memory", "little memory", "memory, asleep"])
def way(request):
    """How short messages go."""
    return request.param


SIZES = {"memory": 1 << 16, "little memory": 512, "memory, asleep": 1 << 16}


@contextmanager
def met_by(count, way="sockets"):
    """The wires of so many that part in peace."""
    every = meet(*["the same"] * count)
    if way in SIZES:
        room = memoryview(bytearray(SIZES[way] * count**2))
        for index, (wire, _) in enumerate(every):
            wire.share(between(room, count, index))
            for one in wire.others.values():
                one._awake = 0.0 if "asleep" in way else AWAKE
    try:
        yield [wire for wire, _ in every]
    finally:
        for _, watch in every:
            watch.leave()
        for _, watch in every:
            watch.join(10)


def test_arrays_arrive_as_they_were_and_are_counted(way):
    sent = [np.arange(12.0).reshape(3, 4)[:, ::2], np.zeros((0, 5)), np.array([7], dtype=np.uint8)]
    with met_by(2, way) as (first, second):
        first.send([1], "numbers", sent)
        for x, y in zip(sent, second.receive(0, "numbers"), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
        assert (first.sent, second.sent) == (8 * 6 + 1, 0)


def test_messages_keep_their_order_whichever_way_they_go(way):
    """Long ones between short ones, and more of these than memory takes."""
    rng = np.random.default_rng(0)
    sent = [np.full(rng.choice([0, 1, 9, 400, 30_000]), k) for k in range(3_000)]

    def given(wire):
        for x in sent:
            wire.send([1], "numbers", [x])

    with met_by(2, way) as (first, second), ThreadPoolExecutor(1) as pool:
        busy = pool.submit(given, first)
        time.sleep(0.1)
        for x in sent:
            np.testing.assert_array_equal(second.receive(0, "numbers")[0], x)
        busy.result(10)


def test_who_sleeps_is_woken(way, monkeypatch):
    monkeypatch.setattr("tessella.machine.wire.DOZE", 60.0)
    with met_by(2, way) as (first, second), ThreadPoolExecutor(1) as pool:
        for k in range(20):
            later = pool.submit(second.receive, 0, "numbers")
            time.sleep(0.01)
            first.send([1], "numbers", [np.full(3, k)])
            np.testing.assert_array_equal(later.result(10)[0], np.full(3, k))


def test_what_was_sent_arrives_although_its_process_has_ended():
    """Also if that was woken without need, and did not look any more."""
    much = np.arange(1 << 18) + 0.5
    with met_by(2, "memory") as (first, second):
        second.others[0].sleeps()
        first.send([1], "short", [np.ones(3)])
        second.receive(0, "short")
        second.send([0], "much", [much])
        second.leave()
        second.others[0].socket.close()
        np.testing.assert_array_equal(first.receive(1, "much")[0], much)


def test_who_was_interrupted_while_it_put_a_message_has_sent_nothing(monkeypatch):
    """So what it sends next is found to be another one, not waited for."""

    def interrupted(*_):
        raise KeyboardInterrupt

    with met_by(2, "memory") as (first, second):
        with monkeypatch.context() as patch:
            patch.setattr("tessella.machine.rings.Ring.put", interrupted)
            with pytest.raises(KeyboardInterrupt):
                first.send([1], "one", [np.ones(3)])
        first.send([1], "another", [np.ones(3)])
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(second.receive, 0, "one")
            wait([later], 5)
            first.close()  # whoever still waits for it is told so
            with pytest.raises(ProcessLostError, match="process 0 is at 'another'"):
                later.result(20)


def test_who_waits_for_what_was_lost_is_known_to_wait():
    """And sleeps, although later ones are there."""
    with met_by(2, "memory") as (first, second), ThreadPoolExecutor(1) as pool:
        first.others[1]._sent += 1
        first.send([1], "later", [np.ones(3)])
        waiting = pool.submit(second.receive, 0, "lost")
        time.sleep(0.5)
        waits = [second.waits for _ in range(100) if not time.sleep(1e-3)]
        first.close()
        with pytest.raises(ProcessLostError):
            waiting.result(20)
    assert any(one is not None and one[0] == 0 for one in waits)


def test_all_may_send_much_before_anybody_receives(way):
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

    with met_by(4, way) as wires, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, wires, timeout=60)) == [None] * 4


def begin(what, step, number, arrays):
    """The start and the parts of a message."""
    parts = parts_of(what, arrays)
    return START.pack(len(parts[0]), step, number), parts


def test_what_arrives_early_is_kept_once():
    """In the arrays that will be handed out, not beside them."""
    first, second = socket.socketpair()
    one, other = Connection(first), Connection(second)
    sent = [np.arange(1 << 19) + 0.5, np.arange(5)]
    with first, second, tracing() as peak:
        for piece in pieces(*begin("much", 7, 0, sent)):
            while len(piece):
                piece = piece[one.send(piece) :]
                other.read()
        while (found := other.message()) is None:
            other.read()
        assert peak() < 1.1 * sent[0].nbytes
    assert (found.what, found.step) == ("much", 7)
    for x, y in zip(sent, found.arrays, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("size", [1, 5, 64, 1 << 16])
def test_messages_are_found_however_they_are_cut(size):
    end, other = socket.socketpair()
    with end, other:
        one = Connection(other)
        sent = [[np.arange(k) + 0.5, np.zeros((0, 3)), np.array(k)] for k in range(6)]
        letters = [pieces(*begin("cut", k, k, own)) for k, own in enumerate(sent)]
        every = b"".join(piece for letter in letters for piece in letter)
        for start in range(0, len(every), size):
            end.sendall(every[start : start + size])
            while one.read():
                pass
        for k, own in enumerate(sent):
            found = one.message()
            assert (found.what, found.step) == ("cut", k)
            for x, y in zip(own, found.arrays, strict=True):
                assert (x.dtype, x.shape) == (y.dtype, y.shape)
                np.testing.assert_array_equal(x, y)
        assert one.message() is None


def far(end):
    """The same socket with a file number that `select` does not know."""
    resource = pytest.importorskip("resource")
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 2048:
        pytest.skip(f"a process may have {most} files here")
    if least != resource.RLIM_INFINITY and least < 2048:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, most))
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 1024))


def test_a_process_may_have_more_than_a_thousand_files():
    """So has one of many: a socket to each of the others."""
    (end, other), (line, hub) = (map(far, socket.socketpair()) for _ in range(2))
    watch = Watch(0, {1: Lines(hub)}, 10.0)
    wire, much = Wire(0, {1: end}, watch), np.arange(1 << 18)
    watch.start()
    with end, other, line, hub, ThreadPoolExecutor(1) as pool:
        theirs = Wire(1, {0: other}, Watch(1, {}, 10.0))
        sent = pool.submit(theirs.send, [0], "much", [much])
        np.testing.assert_array_equal(wire.receive(1, "much")[0], much)
        sent.result(10)
        Lines(line).say({"leaves": True})
        watch.join(10)
        assert not (watch.is_alive() or watch.lines or watch.lost)


def test_who_has_left_does_not_disturb_the_others(way):
    """Nor is what it said before lost."""
    with met_by(3, way) as (first, second, third):
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
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(late)
        first, watch = met(address, 2, 0, "the same", 10.0)
        heard = pool.submit(first.receive, 1, "early")
        wait([heard], 5)
        every = watch, other.result()
        first.close()  # whoever still waits for it is told so
        np.testing.assert_array_equal(heard.result()[0], np.ones(3))
        for one in every:
            one.leave()
        for one in every:
            one.join(10)


def test_processes_at_different_places_are_named(way):
    with met_by(3, way) as (_, second, third):
        second.step, third.step = 3, 2
        second.send([2], "maps", [np.zeros(1)])
        said = r"process 1 is at 'maps' \(step 0.3\) while process 2 is at 'up' \(step 0.2\)"
        with pytest.raises(ProcessLostError, match=said):
            third.receive(1, "up")


def test_an_exchange_of_the_same_name_in_another_part_is_named():
    with met_by(2) as (first, second):
        first.step = second.step = 7
        first.begin()
        first.send([1], "halo", [np.zeros(1)])
        said = r"process 0 is at 'halo' \(step 1.0\) while process 1 is at 'halo' \(step 0.7\)"
        with pytest.raises(ProcessLostError, match=said):
            second.receive(0, "halo")


def be(wire, monkeypatch):
    """One of two processes."""
    for name, value in (("wire", wire), ("index", wire.index), ("number", 2), ("coming", [])):
        monkeypatch.setattr(processes._Here, name, value)


def test_a_sum_of_the_same_name_that_one_has_skipped_is_named(monkeypatch):
    with met_by(2) as (first, second):
        first.step += 1
        first.send([1], "sum", [np.ones(1)])
        second.step += 1  # it has made another one before
        be(second, monkeypatch)
        said = r"process 0 is at 'sum' \(step 0.1\) while process 1 is at 'sum' \(step 0.2\)"
        with pytest.raises(ProcessLostError, match=said):
            processes.total("sum", np.ones(1))


def test_who_is_an_exchange_ahead_is_named(monkeypatch):
    """Process 1 swaps nothing where process 0 swaps with it, and swaps the next time."""
    with met_by(2) as (first, second):
        be(first, monkeypatch)
        processes.coming_total("sums", np.ones(1))
        processes.coming_swapped("halo", {1: np.ones(2)})
        be(second, monkeypatch)
        sums = processes.coming_total("sums", np.ones(1))
        processes.coming_swapped("halo", {})
        np.testing.assert_array_equal(sums(), [2.0])
        said = r"process 0 is at 'halo' \(step 0.2\) while process 1 is at 'halo' \(step 0.3\)"
        with pytest.raises(ProcessLostError, match=said):
            processes.swapped("halo", {0: np.ones(2)})


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


def test_who_was_stopped_itself_takes_nobody_for_lost(monkeypatch):
    """All are stopped for longer than `silence`, by Ctrl-Z or a queue, and go on one by one."""
    tell, stopped = Watch.tell, {0: 2.5, 1: 3.0}

    def late(watch, value):
        time.sleep(stopped.pop(watch.index, 0.0))
        tell(watch, value)

    monkeypatch.setattr(Watch, "_end", lambda watch: None)
    every = meet("same", "same", silence=1.5)
    monkeypatch.setattr(Watch, "tell", late)
    time.sleep(4.0)
    assert [watch.lost for _, watch in every] == ["", ""]
    part(every)


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


def part(every):
    for _, watch in every:
        watch.leave()
    for _, watch in every:
        watch.join(10)


def listens(address):
    """Once somebody does: a connection."""
    for _ in range(1000):
        with suppress(OSError):
            return socket.create_connection(address)
        time.sleep(0.01)
    raise TimeoutError(f"nobody listens at {address}")


@pytest.mark.parametrize("said", [b"GET / HTTP/1.0\r\n\r\n", b"", b"{}\n", None])
def test_who_has_lost_its_way_is_not_taken_for_a_process(said):
    """As what looks through ports: it says something else, nothing, or goes again at once."""
    address = free_address()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(met, address, 2, 0, "the same", 10.0)
        with listens(address) as stranger:
            if said is None:
                stranger.close()
            else:
                stranger.sendall(said)
            time.sleep(0.1)
            second = pool.submit(met, address, 2, 1, "the same", 10.0)
            part([first.result(10), second.result(10)])


def test_who_was_killed_before_all_had_met_may_come_again():
    address = free_address()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(met, address, 3, 0, "the same", 10.0)
        with listens(address) as killed:
            mine = {"index": 1, "number": 3, "who": "the same", "port": 1}
            Lines(killed).say(mine)
            time.sleep(0.1)
        every = [first, *(pool.submit(met, address, 3, i, "the same", 10.0) for i in (1, 2))]
        part([one.result(10) for one in every])


def test_processes_on_the_machine_of_process_0_are_reached_from_others():
    """Where its name means 127.0.1.1 to itself, as on Debian, they come from an address that nobody
    else reaches: like process 0 they are where the coordinator is."""
    assert [_seen(host) for host in ("127.0.0.1", "::1", "::ffff:127.0.1.1")] == [""] * 3
    assert [_seen(host) for host in ("10.0.0.2", "::ffff:10.0.0.2")] == ["10.0.0.2"] * 2
    assert _seen("fd00::2") == "fd00::2"


def test_processes_meet_by_ipv6():
    if not socket.has_dualstack_ipv6():
        return
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as one:
        address = one.getsockname()[:2]
    part(meet("the same", "the same", "the same", address=address))


def test_a_process_that_others_do_not_reach_is_named_by_all(monkeypatch):
    """As where machines let each other in at the coordinator's port alone."""
    known = meeting._introduced

    def introduced(address, mine):
        lines, told = known(address, mine)
        if mine["index"] == 2:
            told["table"][1] = free_address()
        return lines, told

    monkeypatch.setattr(Watch, "_end", lambda watch: None)
    monkeypatch.setattr(meeting, "REACH", 0.5)
    monkeypatch.setattr(meeting, "_introduced", introduced)
    (_, hub), *others = meet("the same", "the same", "the same")
    for said in (hub.lost, *map(str, others)):
        assert "process 2 does not reach process 1 at" in said
    hub.join(10)


def test_another_program_at_the_coordinator_is_named():
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        later = pool.submit(met, other.getsockname(), 2, 1, "the same", 10.0)
        with other.accept()[0] as end:
            end.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(ValueError, match="another program than process 0 answers at"):
                later.result(10)


def test_who_did_not_come_is_named_by_all(monkeypatch):
    monkeypatch.setattr(meeting, "START", 0.5)
    for error in meet("the same", "the same", numbers=(3, 3)):
        assert "of 3 processes these have not come to 127.0.0.1" in str(error)
        assert str(error).endswith(": 2")


def test_an_address_that_process_0_does_not_have_is_named(monkeypatch):
    monkeypatch.setattr(meeting, "START", 0.1)
    with pytest.raises(ProcessLostError, match="which is no address of process 0's machine"):
        met(("192.0.2.1", free_address()[1]), 2, 0, "the same", 10.0)


def test_who_waits_says_for_whom(monkeypatch, capfd):
    monkeypatch.setattr(meeting, "NOTE", 0.1)
    monkeypatch.setattr(meeting, "START", 2.0)
    with pytest.raises(ProcessLostError, match="process 1 does not reach process 0 at"):
        met(free_address(), 2, 1, "the same", 10.0)
    assert "process 1 waits for process 0 at 127.0.0.1" in capfd.readouterr().err


def test_a_port_in_use_is_named():
    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} of the coordinator is in use"):
            distributed(f"127.0.0.1:{port}", 2, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("localhost", 2, 0), "coordinator must be 'host:port', got 'localhost'"),
        (("localhost:65536", 2, 1), "got 'localhost:65536': ports end at 65535"),
        (("localhost:1", 2, 2), "index must lie between 0 and 1, got 2"),
        (("localhost:1", None, 1), "distributed() needs number too"),
    ],
)
def test_what_is_given_wrongly_is_named(given, said, monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(ValueError) as error:
        distributed(*given)
    assert said in str(error.value)


def test_fewer_than_one_process_is_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        launch(0, ["true"])


def line_of(count):
    """Cells one after the other."""
    low = np.arange(count)[:, None]
    face = np.arange(count - 1)
    ends, two = np.stack([face, face + 1], axis=1), np.full(count - 1, 2)
    ports = np.stack([2 * face + 1, 2 * face], axis=1)  # of the cell below, and of the one above
    starts = np.clip(2 * np.arange(count + 1) - 1, 0, 2 * count - 2)
    return low, low + 1, Joints(ends, two, two, starts, ports.ravel())


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
    crossing = sum(map(len, made.crossing.values()))
    assert crossing == 4 * np.count_nonzero(np.diff(owners))
