"""Several processes that run the same script, and what they tell each other.

All of them do the same in the same order. What is large is shared out (`cells/order/order`,
`overlap/shares`), and what one of them knows and all must know is exchanged here. Alone, every
function answers at once.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import jax
import numpy as np

from tessella.machine.arrays import Array
from tessella.machine.clusters import Taking, taking_part
from tessella.machine.device import named_gpus, take_gpu, visible_gpus
from tessella.machine.meeting import met
from tessella.machine.rings import shared
from tessella.machine.threads import available_cores
from tessella.machine.wire import ProcessLostError, Watch, Wire
from tessella.version import __version__


class _Here:
    """This process among all."""

    number, index = 1, 0
    wire: Wire | None = None
    watch: Watch | None = None
    apart = 0
    coming: ClassVar[list[Coming]] = []


def distributed(
    coordinator: str | None = None,
    number: int | None = None,
    index: int | None = None,
    *,
    silence: float = 30.0,
) -> None:
    """Let all processes that run this script solve together.

    Call it once, at the top of the script, before anything is solved; then state and solve as ever.
    Subdomains side by side (`coupling="interfaces"`) are shared out: each process maps and joins
    its own, and only what crosses between them is sent. So are overlapping ones where LSQR, LSMR,
    CG or deflated LSQR solve them. A solution stays in parts, and is called, drawn and saved by all
    processes together (see `Solution`). What is solved in another way, every process solves by
    itself. Each uses a GPU of its own, as far as its machine has enough.

    Who takes part is found as `jax.distributed.initialize` finds it: in what is given, the address
    "host:port" at which process 0 waits for the others, how many processes there are, and which of
    them this is; in JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID; or from what has
    started them: Open MPI, MPICH, Slurm, or an indexed job of Kubernetes. Where nothing of it is
    set, the process is alone and nothing happens.
    `tessella solve NAME --processes 4` and `python -m tessella.machine.launch 4 script.py` start
    processes on one machine.

    A process that dies, or is not heard of for `silence` seconds, ends the others with a message
    that names it. Raise it where a single step holds a processor for longer.

    >>> import tessella as ts
    >>> ts.distributed()  # alone
    """
    address, count, own = taking_part(Taking(coordinator, number, index), os.environ)
    if _Here.wire is not None:
        raise ValueError("distributed() was called before: call it once, at the top of the script")
    if count == 1:
        return
    if not 0 <= own < count:
        raise ValueError(f"index must lie between 0 and {count - 1}, got {own}")
    who = f"tessella {__version__}, jax {jax.__version__}, numpy {np.__version__}"
    place, sys.excepthook = _address(address), _stopped
    _Here.wire, _Here.watch = met(place, count, own, who, silence)
    _Here.number, _Here.index = count, own
    atexit.register(_leave)
    here = _here()
    _Here.wire.share(shared(own, here if _own_cores(here) else [own], gathered))
    gpus = visible_gpus()
    take_gpu(*_among(named_gpus(gpus)), len(gpus))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"coordinator must be 'host:port', got {text!r}: ports end at 65535")
    return host.strip("[]"), int(port)


def _leave() -> None:
    if _Here.wire is not None:
        _Here.wire.leave()
    if _Here.watch is not None:
        _Here.watch.leave()


def _stopped(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """Tell the others why this process ends, then as ever; who was told ends in one line."""
    if isinstance(error, ProcessLostError):
        print(f"error: {error}", file=sys.stderr, flush=True)
        return
    if _Here.watch is not None:
        said = f"{kind.__name__}: {error}".splitlines()[0]
        _Here.watch.tell({"stopped": said})
    sys.__excepthook__(kind, error, where)


# --- what the rest of the project asks


def alone() -> bool:
    return _Here.wire is None or _Here.apart > 0


@contextmanager
def by_itself() -> Iterator[None]:
    """Inside, every process does everything by itself."""
    _Here.apart += 1
    try:
        yield
    finally:
        _Here.apart -= 1


@contextmanager
def together() -> Iterator[None]:
    """Inside, all take part, although each does everything else by itself."""
    apart, _Here.apart = _Here.apart, 0
    try:
        yield
    finally:
        _Here.apart = apart


def number() -> int:
    """How many processes there are."""
    return 1 if alone() else _Here.number


def index() -> int:
    """Which of them this is."""
    return 0 if alone() else _Here.index


def sent_bytes() -> int:
    """Of all arrays that this process has sent."""
    return 0 if _Here.wire is None else _Here.wire.sent


def begin() -> None:
    """A part of the work that all processes begin: messages of another part are refused, even if
    the same exchange, by its name, is made there."""
    if not alone():
        assert _Here.wire is not None
        _Here.wire.begin()


def send(to: int, what: str, *arrays: np.ndarray) -> None:
    """Arrays to another process, which must ask for `what`."""
    assert _Here.wire is not None
    _Here.wire.send([to], what, arrays)


def receive(source: int, what: str) -> list[np.ndarray]:
    assert _Here.wire is not None
    _hear_all_coming()
    return _Here.wire.receive(source, what)


def gathered(what: str, own: np.ndarray) -> list[np.ndarray]:
    """The arrays of all processes, in their order: everybody has those of ever more neighbours, and
    after log2 P messages those of all."""
    if alone():
        return [own]
    assert _Here.wire is not None
    me, number = _Here.index, _Here.number
    known = [own]
    _Here.wire.step += 1
    while (there := len(known)) < number:
        _Here.wire.send([(me - there) % number], what, known[: number - there])
        known += receive((me + there) % number, what)
    return known[number - me :] + known[: number - me]


def _coming_from_all(what: str, own: np.ndarray) -> Callable[[], list[np.ndarray]]:
    if alone():
        return lambda: [own]
    assert _Here.wire is not None
    me, number = _Here.index, _Here.number
    ring = [(me + k) % number for k in range(1, number)]
    _Here.wire.step += 1
    _Here.wire.send(ring, what, [own])
    coming = Coming(what, ring[::-1])

    def heard() -> list[np.ndarray]:
        found = {**coming.heard(), me: own}
        return [found[i] for i in range(number)]

    return heard


class Coming:
    """Arrays of some processes that are on their way: they arrive while there is other work, and
    whoever receives anything else hears them first."""

    def __init__(self, what: str, sources: Sequence[int]) -> None:
        assert _Here.wire is not None
        self.what, self.sources, self.step = what, sources, _Here.wire.step
        self.found: dict[int, np.ndarray] = {}
        _Here.coming.append(self)

    def heard(self) -> dict[int, np.ndarray]:
        _hear_all_coming()
        return self.found

    def hear(self) -> None:
        assert _Here.wire is not None
        for source in self.sources:
            self.found[source] = _Here.wire.receive(source, self.what, self.step)[0]


def _hear_all_coming() -> None:
    while _Here.coming:
        _Here.coming.pop(0).hear()


def exchanged(
    what: str, team: Sequence[int], out: Mapping[int, np.ndarray], sources: Collection[int]
) -> dict[int, np.ndarray]:
    """Arrays to some processes of a team, of which all take part, and those of some others.

    Everybody sends to the one k places further on and hears from the one k places before, k = 1,
    2, ..., so that not all send to the same one at the same time.
    """
    own = team.index(_Here.index)
    ring = [team[(own + k) % len(team)] for k in range(1, len(team))]
    for other in ring:
        if other in out:
            send(other, what, out[other])
    return Coming(what, [other for other in reversed(ring) if other in sources]).heard()


def swapped(what: str, own: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Arrays for some other processes against theirs, which they send at the same time."""
    return coming_swapped(what, own).heard()


def coming_swapped(what: str, own: Mapping[int, np.ndarray]) -> Coming:
    """The same, on their way while there is other work; all processes ask for it at once, also
    those that have nothing to swap."""
    assert _Here.wire is not None
    _Here.wire.step += 1
    for other, x in own.items():
        send(other, what, x)
    return Coming(what, [*own][::-1])


def total(what: str, own: Array) -> Array:
    """The sum over all processes, the same to the last bit in each: neighbours add what they have,
    then pairs of neighbours, and so on, log2 P times. Of a number of processes that is no power of
    two, those that are over give theirs to another one first, and get the sum in the end."""
    if alone():
        return own
    assert _Here.wire is not None
    _Here.wire.step += 1
    me, whole = _Here.index, 1 << _Here.number.bit_length() - 1
    over, found = _Here.number - whole, np.asarray(own)
    if me >= whole:
        send(me - whole, what, found)
        return receive(me - whole, what)[0]
    if me < over:
        found = found + receive(me + whole, what)[0]
    apart = 1
    while apart < whole:
        send(me ^ apart, what, found)
        found = found + receive(me ^ apart, what)[0]
        apart *= 2
    if me < over:
        send(me + whole, what, found)
    return np.asarray(found)


def total_sent(number: int) -> int:
    """How often what is added up is sent by all of so many processes together."""
    whole = 1 << number.bit_length() - 1
    return 2 * (number - whole) + whole * (whole.bit_length() - 1)


def coming_total(what: str, own: Array) -> Callable[[], Array]:
    """The same, on its way while there is other work: everybody sends to all, which nobody has to
    pass on."""
    coming = _coming_from_all(what, own)
    return lambda: own if alone() else np.asarray(sum(coming()))


def largest(what: str, own: float) -> float:
    """The largest of all."""
    return own if alone() else float(max(gathered(what, np.array(own))))


def largest_each(what: str, *own: float) -> list[float]:
    """The same of several numbers."""
    return [float(x) for x in np.max(gathered(what, np.array(own)), axis=0)]


def beside(what: str, *own: int) -> list[int]:
    """The sums of these numbers over all other processes on the same machine."""
    if alone():
        return [0] * len(own)
    every = np.array(gathered(what, np.array([_machine(), *own])))
    here = every[:, 0] == _machine()
    here[index()] = False
    return [int(n) for n in every[here, 1:].sum(axis=0)]


def _here() -> list[int]:
    """The processes of this machine."""
    every = gathered("machine", np.array(_machine()))
    return [i for i, there in enumerate(every) if there == _machine()]


def _own_cores(here: Collection[int]) -> bool:
    """Whether there is a core for each of these."""
    every = gathered("cores", np.array(available_cores()))
    return len({core for i in here for core in every[i].tolist()}) >= len(here)


def _among(what: str) -> tuple[int, int]:
    """Which this is of those on the same machine that say the same, and how many there are."""
    own = _machine(what)
    every = [int(x) for x in gathered("machine", np.array(own))]
    return every[: index()].count(own), every.count(own)


@cache
def _machine(what: str = "") -> int:
    """A number of this machine, and of what is said there; containers count as machines of their
    own."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    name = socket.gethostname() + (boot.read_text() if boot.exists() else "") + what
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest(), "big")


def told(what: str, own: Array) -> Array:
    """What process 0 has."""
    return own if alone() else gathered(what, own)[0]


def agreed(what: str, own: float) -> float:
    """What process 0 says, of numbers like times that differ from process to process."""
    return own if alone() else float(gathered(what, np.array(own))[0])


def same(what: str, digest: bytes) -> None:
    """Refuse to go on if the processes differ in this."""
    for other, theirs in enumerate(gathered(what, np.frombuffer(digest, dtype=np.uint8))):
        if theirs.tobytes() != digest:
            raise ValueError(
                f"processes {_Here.index} and {other} differ in {what}: all processes must state "
                f"the same problem with the same numbers"
            )


RAISED: dict[str, type[Exception]] = {"MemoryError": MemoryError, "ValueError": ValueError}
"""What others raise as it is; anything else they raise as RuntimeError."""


@contextmanager
def in_unison(what: str) -> Iterator[None]:
    """What one process raises inside, all raise at the end. Nobody talks to others inside, who
    would take one that has raised for lost; but for functions that are solutions in parts, which
    all call, and which raise the same in all."""
    if alone():
        yield
        return
    trouble: Exception | None = None
    try:
        yield
    except ProcessLostError:
        raise
    except Exception as error:
        trouble = error
    said = "" if trouble is None else json.dumps([type(trouble).__name__, str(trouble)])
    every = gathered(what, np.frombuffer(said.encode(), dtype=np.uint8))
    if trouble is not None:
        raise trouble
    for other, theirs in enumerate(every):
        if len(theirs):
            name, text = json.loads(theirs.tobytes())
            raise RAISED.get(name, RuntimeError)(f"{text} (process {other})")
