"""How processes meet: all come to the address of process 0, which tells everybody where the others
listen."""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import Any

from tessella.machine.wire import Lines, ProcessLostError, Watch, Wire

START = 300.0
"""Seconds that processes wait for each other at the start."""

SERVER = "TESSELLA_SERVER"
"""The file number of a socket that listens at the coordinator's address, in process 0."""


def met(
    address: tuple[str, int], number: int, index: int, who: str, silence: float
) -> tuple[Wire, Watch]:
    """Meet all others; `who` must be the same for all."""
    host, _ = address
    with socket.create_server(("", 0), backlog=number) as server:
        mine = {"index": index, "number": number, "who": who, "port": server.getsockname()[1]}
        if index == 0:
            lines, table = _received(address, mine)
        else:
            lines, table = _introduced(address, mine)
        ends: dict[int, socket.socket] = {}
        for other in range(index):
            end = _connected((table[other][0] or host, table[other][1]), index)
            end.sendall(index.to_bytes(4, "little"))
            ends[other] = end
        server.settimeout(START)
        for _ in range(index + 1, number):
            end = server.accept()[0]
            # No more than the number: the first array may be on its way already.
            ends[int.from_bytes(end.recv(4, socket.MSG_WAITALL), "little")] = end
    for end in [*ends.values(), *(one.socket for one in lines.values())]:
        end.settimeout(None)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    watch = Watch(index, lines, silence)
    wire = Wire(index, ends, watch)
    watch.start()
    return wire, watch


Table = list[tuple[str, int]]
"""Where processes listen; no host means that of process 0."""


def _received(address: tuple[str, int], mine: dict[str, Any]) -> tuple[dict[int, Lines], Table]:
    """As process 0: wait for all others, and tell them where everybody listens."""
    number, table = mine["number"], {0: ("", int(mine["port"]))}
    lines: dict[int, Lines] = {}
    with _listening(address, number) as server:
        end = time.monotonic() + START
        while len(lines) < number - 1:
            server.settimeout(max(0.1, end - time.monotonic()))
            try:
                other, (host, *_) = server.accept()
            except TimeoutError:
                missing = sorted(set(range(1, number)) - set(lines))
                raise ProcessLostError(
                    f"of {number} processes these have not come to {address[0]}:{address[1]} "
                    f"within {START:g} s: {', '.join(map(str, missing))}"
                ) from None
            one = Lines(other)
            theirs = one.hear()
            wrong = _mistaken(mine, theirs, lines)
            if wrong:
                for each in (one, *lines.values()):
                    each.say({"refused": wrong})
                raise ValueError(wrong)
            lines[theirs["index"]] = one
            table[theirs["index"]] = (host, theirs["port"])
    places = [table[i] for i in range(number)]
    for one in lines.values():
        one.say({"table": places})
    return lines, places


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


def _listening(address: tuple[str, int], number: int) -> socket.socket:
    """The launcher's socket, which nobody else can have taken meanwhile, or one of its own."""
    if SERVER in os.environ:
        return socket.socket(fileno=int(os.environ.pop(SERVER)))
    try:
        return socket.create_server(("", address[1]), backlog=number)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ValueError(
            f"port {address[1]} of the coordinator is in use: name another one, "
            f"coordinator='{address[0]}:{address[1] + 1}'"
        ) from None


def _introduced(address: tuple[str, int], mine: dict[str, Any]) -> tuple[dict[int, Lines], Table]:
    """As another one: go to process 0."""
    one = Lines(_connected(address, mine["index"]))
    one.say(mine)
    one.socket.settimeout(START)
    try:
        answer = one.hear()
    except OSError:
        raise ProcessLostError(
            f"process 0 at {address[0]}:{address[1]} ended before all processes had met"
        ) from None
    if "refused" in answer:
        raise ValueError(answer["refused"])
    return {0: one}, answer["table"]


def _connected(address: tuple[str, int], index: int) -> socket.socket:
    """Others may not listen yet."""
    end = time.monotonic() + START
    while True:
        try:
            return socket.create_connection(address, timeout=START)
        except OSError as error:
            if time.monotonic() > end:
                raise ProcessLostError(
                    f"process {index} found nobody at {address[0]}:{address[1]} within {START:g} s "
                    f"({error}): check the coordinator's address"
                ) from None
            time.sleep(0.05)
