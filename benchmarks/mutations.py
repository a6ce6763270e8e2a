"""Files with one thing changed: bytes, arrays, or the header.

A change is made in one of three ways. "plain" leaves the digests as they were, so that whatever has
changed must be noticed. "sealed" makes digests that fit, and "old" writes the version that had
none: then the file may be read, if what it says makes sense.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tessella.machine import archive
from tessella.reproduction.store import line_of

Random = np.random.Generator
Content = dict[str, bytes]
"""Members of a zip archive by name."""

WAYS = ("plain", "sealed", "old")

VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        2,
        3,
        -1,
        -7,
        10**9,
        10**18,
        10**40,
        0.5,
        -2.5,
        1e-300,
        1e300,
        1e308,
    ),
    *(
        float("nan"),
        float("inf"),
        -float("inf"),
        "",
        "u",
        "x",
        "t",
        "tanh",
        "function",
        "ball",
        "é",
    ),
    *("\ud800", [], [1], [1, 2, 3], [[]], {}, {"u": 1}, [None], ["a", "b"], [[1.0, 2.0]] * 3),
]
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-320, 1e150, 1e308, -1e308, 123456.789]


def unpacked(content: bytes) -> Content:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(members: Content, compression: int = zipfile.ZIP_STORED) -> bytes:
    """With checksums that fit."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


# Changes of bytes


def flipped(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for at in random.integers(len(content), size=random.integers(1, 9)):
        changed[at] ^= 1 << random.integers(8)
    return bytes(changed)


def cut(content: bytes, random: Random) -> bytes:
    """Truncated, with a piece missing, a piece twice, or something behind it."""
    a, b = sorted(random.integers(len(content), size=2))
    return [
        content[:a],
        content[:a] + content[b:],
        content[:b] + content[a:],
        content + random.bytes(int(a)),
        random.bytes(int(a)) + content,
    ][random.integers(5)]


def overwritten(content: bytes, random: Random) -> bytes:
    """Some bytes of the zip's own tables, at its end or anywhere."""
    changed = bytearray(content)
    length = int(random.integers(1, 9))
    low = 0 if random.random() < 0.3 else max(0, len(content) - 900)
    at = int(random.integers(low, len(content) - length))
    changed[at : at + length] = [b"\xff", b"\x00"][random.integers(2)] * length
    return bytes(changed)


def repacked(content: bytes, random: Random) -> bytes:
    """A member missing, renamed, exchanged, damaged, twice, compressed or encrypted."""
    members = unpacked(content)
    names = list(members)
    name, other = (names[i] for i in random.integers(len(names), size=2))
    match random.integers(8):
        case 0:
            del members[name]
        case 1:
            members[["other.npy", "../up.npy", "folder/", "header"][random.integers(4)]] = (
                members.pop(name)
            )
        case 2:
            members[name], members[other] = members[other], members[name]
        case 3:
            members[name] = flipped(members[name], random)
        case 4:
            members[name] = cut(members[name], random)
        case 5:
            members[name] = random.bytes(int(random.integers(200)))
        case 6:
            return packed(members, zipfile.ZIP_DEFLATED)
        case 7:
            return _encrypted(packed(members))
    return packed(members)


def _encrypted(content: bytes) -> bytes:
    """With the mark of encryption on every member."""
    changed = bytearray(content)
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = content.find(mark)
        while at >= 0:
            changed[at + flags] |= 1
            at = content.find(mark, at + 1)
    return bytes(changed)


# Changes of what is stored


def changed_array(header: Any, arrays: dict[str, np.ndarray], random: Random) -> None:
    """Other numbers, another shape or another kind of numbers."""
    name = list(arrays)[random.integers(len(arrays))]
    array = arrays[name].copy()
    if not array.size:
        arrays[name] = np.ones(int(random.integers(1, 5)))
        return
    match random.integers(7):
        case 0 | 1:
            values = np.array(NUMBERS)
            array.flat[random.integers(array.size)] = (
                values if array.dtype.kind == "f" else np.arange(-3, 5)
            )[random.integers(8)]
        case 2:
            array = array * np.array([0.5, 2.0, -1.0, 1 + 1e-12])[random.integers(4)]
        case 3:
            array = array.ravel()[: random.integers(array.size)]
        case 4:
            array = np.concatenate([array.ravel(), array.ravel()])
        case 5:
            array = array.reshape([(-1,), (1, -1), (-1, 1), (1, 1, -1)][random.integers(4)])
        case 6:
            kinds = ["f4", "i8", "c16", "u1", "S8", "?", ">f8"]
            with np.errstate(all="ignore"):
                array = array.astype(kinds[random.integers(len(kinds))])
    arrays[name] = array


def changed_header(header: Any, arrays: dict[str, np.ndarray], random: Random) -> None:
    """One value, anywhere in the header, replaced, missing or added."""
    places = list(_places(header))
    holder, key = places[random.integers(len(places))]
    match random.integers(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder["added"] = VALUES[random.integers(len(VALUES))]
        case 1:
            holder.append(VALUES[random.integers(len(VALUES))])
        case 2:
            holder[key] = _other_number(holder[key], random)
        case 3 if random.random() < 0.2:
            holder[key] = _nested(int(random.integers(10, 800)))
        case _:
            holder[key] = VALUES[random.integers(len(VALUES))]


def _places(value: Any) -> Any:
    """Every (container, key) of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, own in list(pairs):
        yield value, key
        if isinstance(own, dict | list):
            yield from _places(own)


def _other_number(value: Any, random: Random) -> Any:
    """Near the old one, if that is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [value]
    return [value + 1, value - 1, -value, 2 * value, value + 1e-9, str(value)][random.integers(6)]


def _nested(depth: int) -> Any:
    """Domains inside domains; so many that `json` cannot write them are written by `_json`."""
    if depth > 400:
        return DEEP
    value: Any = {}
    for _ in range(depth):
        value = {"shape": "named", "name": "n", "domain": value}
    return value


DEEP = "nested deeply"


Change = Callable[[Any, dict[str, np.ndarray], Random], None]


def edited(path: Path, target: Path, way: str, random: Random, change: Change) -> None:
    """The file `path` with a change of header or arrays, as `target`."""
    with np.load(path) as file:
        arrays = dict(file)
    text, digest = arrays.pop("header").tobytes(), arrays.pop("digest", None)
    header = json.loads(text)
    kind, version = header["format"].removeprefix("tessella "), header["version"]
    if way == "sealed":
        for name in ("format", "version", "digests"):
            del header[name]
        change(header, arrays, random)
        archive.write(target, kind, version, header, **arrays)
        return
    if way == "old":
        header["version"], digest = version - 1, None
        del header["digests"]
    change(header, arrays, random)
    stored = {"header": np.frombuffer(_json(header), dtype=np.uint8), **arrays}
    if digest is not None:
        stored["digest"] = digest
    np.savez(target, **stored)  # type: ignore[arg-type]


def _json(value: Any) -> bytes:
    start = '{"shape": "named", "name": "n", "domain": '
    deep = start * 5_000 + "{}" + "}" * 5_000
    return json.dumps(value).replace(json.dumps(DEEP), deep).encode()


def mutated(path: Path, target: Path, random: Random) -> tuple[str, str]:
    """`path` with one thing changed, as `target`; says what was done, and in which way."""
    content = path.read_bytes()
    for_bytes = [flipped, cut, overwritten, repacked]
    if random.random() < 0.4:
        change = for_bytes[random.integers(len(for_bytes))]
        target.write_bytes(change(content, random))
        return change.__name__, "plain"
    way = WAYS[random.integers(len(WAYS))]
    what: Change = changed_header if random.random() < 0.65 else changed_array
    try:
        edited(path, target, way, random, what)
    except (RecursionError, ValueError, TypeError):  # a change that cannot even be written
        target.write_bytes(flipped(content, random))
        return "flipped", "plain"
    return what.__name__, way


def mutated_lines(content: bytes, random: Random) -> tuple[bytes, str]:
    """Lines of JSON with one thing changed, and in which way."""
    if random.random() < 0.4:
        return [flipped, cut][random.integers(2)](content, random), "plain"
    lines = [json.loads(line) for line in content.splitlines()]
    at, way = int(random.integers(len(lines))), WAYS[random.integers(len(WAYS))]
    digest = lines[at].pop("digest")
    changed_header(lines[at], {}, random)
    if way == "sealed":
        text = line_of(lines[at])
    else:
        lines[at] |= {"digest": digest} if way == "plain" else {}
        text = _json(lines[at]) + b"\n"
    whole = content.splitlines(keepends=True)
    return b"".join([*whole[:at], text, *whole[at + 1 :]]), way
