"""How processes meet: all come to the address of process 0, which tells everybody where the others
listen."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
import time
from contextlib import suppress
from ipaddress import ip_address
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from tessella.machine.wire import BEAT, Lines, ProcessLostError, Watch, Wire

START = 300.0
"""Seconds that processes wait for each other at the start."""

REACH = 20.0
"""Seconds that a process tries to reach another one, which listens already."""

TRY = 10.0
"""Seconds of a single attempt."""

NOTE = 20.0
"""Seconds after which who waits says for whom."""

SERVER = "TESSELLA_SERVER"
"""The file number of a socket that listens at the coordinator's address, in process 0."""

Address = tuple[str, int]

KEPT = {"TCP_KEEPIDLE": 60, "TCP_KEEPCNT": 127}
"""Signs of life on connections that are not used for long, which firewalls forget otherwise."""


def met(address: Address, number: int, index: int, who: str, silence: float) -> tuple[Wire, Watch]:
    """Meet all others; `who` must be the same for all."""
    with _server(0, number) as server:
        mine = {"index": index, "number": number, "who": who, "port": server.getsockname()[1]}
        if index == 0:
            lines, told = _received(address, mine)
        else:
            lines, told = _introduced(address, mine)
        for one in lines.values():
            _keep(one.socket)
        watch = Watch(index, lines, silence)
        watch.start()
        try:
            ends = _joined(server, address, index, told, watch)
        except ProcessLostError as error:
            watch.tell({"lost": str(error)})
            watch.left = True
            raise
    for end in ends.values():
        _keep(end)
    return Wire(index, ends, watch), watch


def _keep(end: socket.socket) -> None:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEPT.items():
        if hasattr(socket, name):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _server(port: int, number: int) -> socket.socket:
    """Listens at all addresses of this machine, also those of IPv6 if it has any."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=number, dualstack_ipv6=True
        )
    return socket.create_server(("", port), backlog=number)


def _place(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _seen(host: str) -> str:
    """Where others reach who came from there; no host means that of process 0, whose machine it is
    that connections to itself come from."""
    found = ip_address(host.split("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return "" if found.is_loopback else str(found)


def _received(address: Address, mine: dict[str, Any]) -> tuple[dict[int, Lines], dict[str, Any]]:
    """As process 0: wait for all others, and tell them where everybody listens. Who comes and does
    not say who it is has lost its way; who goes again may come again."""
    number, table = mine["number"], {0: ("", int(mine["port"]))}
    lines: dict[int, Lines] = {}
    since, noted = time.monotonic(), False
    with _listening(address, number) as server, DefaultSelector() as selector:
        selector.register(server, EVENT_READ)
        while len(lines) < number - 1:
            missing = ", ".join(map(str, sorted(set(range(1, number)) - set(lines))))
            waited = time.monotonic() - since
            if waited > START:
                said = (
                    f"of {number} processes these have not come to {_place(address)}"
                    f"{_elsewhere(address[0])} within {START:g} s: {missing}"
                )
                _tell(lines, {"lost": said})
                raise ProcessLostError(said)
            if waited > NOTE and not noted:
                where = f"{_place(address)}{_elsewhere(address[0])}"
                noted = _note(f"process 0 waits at {where} for processes {missing}")
            for key, _ in selector.select(BEAT):
                if key.fileobj is server:
                    other, (host, *_) = server.accept()
                    with suppress(OSError):  # it has gone already
                        _keep(other)
                    selector.register(other, EVENT_READ, (Lines(other), _seen(host)))
                    continue
                one, host = key.data
                known = next((i for i, line in lines.items() if line is one), None)
                theirs = _heard(one)
                if theirs is None:
                    lines.pop(known or 0, None)
                    selector.unregister(one.socket)
                    one.socket.close()
                elif theirs and known is None:
                    wrong = _mistaken(mine, theirs, lines)
                    if wrong:
                        _tell({**lines, 0: one}, {"refused": wrong})
                        raise ValueError(wrong)
                    lines[theirs["index"]] = one
                    table[theirs["index"]] = (host, theirs["port"])
        for key in selector.get_map().values():
            if key.data is not None and key.data[0] not in lines.values():
                key.data[0].socket.close()
    told = {"table": [table[i] for i in range(number)], "key": secrets.token_hex(8)}
    _tell(lines, told)
    return lines, told


def _elsewhere(host: str) -> str:
    """What there is to say of an address that this machine does not have. (It may be right: where
    addresses are translated.)"""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return ", whose name is unknown here,"
    for family, *_, place in found:
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as one:
            one.bind(place)
            return ""
    return f", which is no address of process 0's machine ({socket.gethostname()}),"


def _tell(lines: dict[int, Lines], value: object) -> None:
    for one in lines.values():
        with suppress(OSError):
            one.say(value)


def _note(text: str) -> bool:
    print(f"{text} (at most {START:g} s)", file=sys.stderr, flush=True)
    return True


def _heard(one: Lines) -> dict[str, Any] | None:
    """Who somebody is, {} as long as that is not said; None if it has gone, or is none of us."""
    try:
        said, opened = one.heard()
    except (OSError, ValueError):
        return None
    if not opened or (said and not (isinstance(said[0], dict) and {*said[0]} >= {*NAMES})):
        return None
    return said[0] if said else {}


NAMES = ("index", "number", "who", "port")
"""What a process says of itself."""


def _mistaken(mine: dict[str, Any], theirs: dict[str, Any], known: dict[int, Lines]) -> str:
    index = theirs["index"]
    if theirs["who"] != mine["who"]:
        return (
            f"process {index} runs {theirs['who']} and process 0 runs {mine['who']}: use the same "
            f"versions"
        )
    if theirs["number"] != mine["number"]:
        return (
            f"process {index} counts {theirs['number']} processes and process 0 {mine['number']}: "
            f"give all the same number"
        )
    if index in known or not 0 < index < mine["number"]:
        return (
            f"there are two processes {index} of {mine['number']}: give each its own index, from 0 "
            f"to {mine['number'] - 1}"
        )
    return ""


def _listening(address: Address, number: int) -> socket.socket:
    """The launcher's socket, which nobody else can have taken meanwhile, or one of its own."""
    if SERVER in os.environ:
        return socket.socket(fileno=int(os.environ.pop(SERVER)))
    try:
        return _server(address[1], number)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ValueError(
            f"port {address[1]} of the coordinator is in use: name another one, "
            f"coordinator='{_place((address[0], address[1] + 1))}'"
        ) from None


def _introduced(address: Address, mine: dict[str, Any]) -> tuple[dict[int, Lines], dict[str, Any]]:
    """As another one: go to process 0."""
    place = _place(address)
    check = "check the coordinator's address, and what process 0 printed"
    one = Lines(_connected(address, mine["index"], 0, START, check))
    _keep(one.socket)
    one.socket.settimeout(START + REACH)
    try:
        one.say(mine)
        answer = one.hear()
    except TimeoutError:
        raise ProcessLostError(
            f"what listens at {place} says nothing to process {mine['index']}: {check}"
        ) from None
    except OSError:
        raise ProcessLostError(
            f"process 0 at {place} ended before all processes had met: look at what it printed"
        ) from None
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not {*answer} & {"refused", "lost", "table"}:
        raise ValueError(
            f"another program than process 0 answers at {place}: {check}, and name another port"
        )
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "lost" in answer:
        raise ProcessLostError(answer["lost"])
    return {0: one}, answer


def _joined(
    server: socket.socket, address: Address, index: int, told: dict[str, Any], watch: Watch
) -> dict[int, socket.socket]:
    """A socket to each of the others: go to those before, and wait for those after, which either
    come or tell everybody why not."""
    table, word = told["table"], bytes.fromhex(told["key"])
    ends: dict[int, socket.socket] = {}
    check = "processes listen at ports of their own, which their machines must open to each other"
    for other in range(index):
        place = (table[other][0] or address[0], table[other][1])
        ends[other] = _connected(place, index, other, REACH, check)
        with suppress(OSError):  # which the watch sees too
            ends[other].sendall(word + index.to_bytes(4, "little"))
    while len(ends) < len(table) - 1:
        if watch.lost:
            raise ProcessLostError(f"{watch.lost}; process {index} ends too")
        server.settimeout(BEAT / 4)
        try:
            end = server.accept()[0]
        except TimeoutError:
            continue
        end.settimeout(REACH / 4)
        said = b""
        with suppress(OSError):  # who does not say the word has lost its way
            # No more than the number: the first array may be on its way already.
            said = end.recv(len(word) + 4, socket.MSG_WAITALL)
        if said[:-4] == word:
            ends[int.from_bytes(said[-4:], "little")] = end
        else:
            end.close()
    return ends


def _connected(address: Address, index: int, other: int, limit: float, check: str) -> socket.socket:
    """To another process, which may not listen yet."""
    since, noted = time.monotonic(), False
    while True:
        try:
            return socket.create_connection(address, timeout=min(TRY, limit))
        except OSError as error:
            waited = time.monotonic() - since
            if waited > limit:
                raise ProcessLostError(
                    f"process {index} does not reach process {other} at {_place(address)} within "
                    f"{limit:g} s ({error}): {check}"
                ) from None
            if waited > NOTE and not noted:
                noted = _note(
                    f"process {index} waits for process {other} at {_place(address)} ({error})"
                )
            time.sleep(0.05)
