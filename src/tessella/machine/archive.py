"""Files of plain arrays with a JSON header; no pickle, and never half a file.

A file is a zip archive of arrays, all stored as they are, as `numpy.savez` writes it. The header
lists a digest of every array, and the array `digest` is that of the header, so a number that has
changed is noticed. A reader says which shape an array must have before any of it is read: nothing
is inflated, and no more is read than was asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tessella.machine.arrays import Array
from tessella.machine.files import written_whole

LARGEST_HEADER = 1 << 27
"""Bytes of a header; a cloud of a million points has a third of that."""

LONGEST_DIGEST = 64
"""Characters."""

Shape = tuple[int | None, ...]
"""Of an array, None standing for any length."""

KINDS = {"f": "float64", "i": "int64", "u": "uint8"}
"""What arrays may be made of."""

ABOUT = re.compile(
    rb"\{'descr': '(<f8|<i8|\|u1)', 'fortran_order': (True|False), "
    rb"'shape': \(([\d, ]{0,99})\), \} *\n"
)
"""The text in front of an array's numbers, as NumPy writes it."""

BROKEN = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    struct.error,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
"""What `zipfile` raises for files that are broken in one way or another."""


class DamagedError(ValueError):
    """A file that is not as it was written."""


def write(path: Path, kind: str, version: int, header: dict[str, Any], **arrays: Array) -> str:
    """Write atomically: a reader sees the old file or the whole new one. The digest of all of
    it."""
    stored = {name: _plain(array) for name, array in arrays.items()}
    digests = _digests(stored)
    whole = {"format": f"tessella {kind}", "version": version, **header, "digests": digests}
    text = json.dumps(whole, default=_as_json).encode()
    if len(text) > LARGEST_HEADER:
        raise ValueError(
            f"{path} would describe its {kind} in {len(text):,} bytes, more than are read again "
            f"({LARGEST_HEADER:,}): take fewer points or parts of the domain"
        )
    stored["header"] = np.frombuffer(text, dtype=np.uint8)
    whole_digest = _digest(stored["header"])
    stored["digest"] = np.frombuffer(whole_digest.encode(), dtype=np.uint8)
    with written_whole(path) as unfinished, open(unfinished, "wb") as file:
        np.savez(file, **stored)  # type: ignore[arg-type]
    return whole_digest


def digest_of(arrays: dict[str, Array]) -> str:
    """Of some arrays with their names."""
    return hashlib.sha256(json.dumps(_digests(arrays)).encode()).hexdigest()


def _digests(arrays: dict[str, Array]) -> dict[str, str]:
    return {name: _digest(array) for name, array in arrays.items()}


@dataclass(frozen=True)
class Archive:
    """An open file: its header, and its arrays when they are asked for."""

    path: Path
    kind: str
    file: zipfile.ZipFile = field(repr=False)
    members: dict[str, zipfile.ZipInfo] = field(repr=False)
    header: dict[str, Any] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict, repr=False)
    digest: str = ""

    def damaged(self, reason: object) -> DamagedError:
        """The error that says what is wrong with the file."""
        return DamagedError(
            f"{self.path} is damaged: {reason}; restore it from a copy, or make it again"
        )

    @contextmanager
    def read_as(self, what: str) -> Iterator[None]:
        """What is refused inside was in the file, and is refused in its name."""
        try:
            yield
        except DamagedError:
            raise
        except RecursionError:
            raise self.damaged(f"its {what} is nested too deeply") from None
        except (ValueError, TypeError, ArithmeticError) as error:
            raise self.damaged(f"{what}: {error}") from None

    def within(self, prefix: str) -> Archive:
        """The arrays whose names begin like this, by the rest of their names."""
        members = {
            n.removeprefix(prefix): m for n, m in self.members.items() if n.startswith(prefix)
        }
        digests = {
            n.removeprefix(prefix): d for n, d in self.digests.items() if n.startswith(prefix)
        }
        return replace(self, members=members, digests=digests)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array, without reading it."""
        return _about(self, name).shape

    def array(self, name: str, shape: Shape, largest: float = math.inf, kind: str = "f") -> Array:
        """An array of this shape and kind of numbers.

        Its numbers are finite and no `largest`; NaN and infinity are only let through where
        `largest` is NaN.
        """
        found = _read(self, name, shape, kind)
        if name in self.digests and self.digests[name] != _digest(found):
            raise self.damaged(f"numbers of {name!r} have changed since it was written")
        if not math.isnan(largest) and not _below(found, largest):
            limit = "infinite" if math.isinf(largest) else f"beyond {largest:g}"
            raise self.damaged(f"{name!r} has numbers that are NaN or {limit}")
        return found


@contextmanager
def opened(path: Path, kind: str, version: int, *others: str) -> Iterator[Archive]:
    """A file that `write` wrote, of this kind or one of the `others`.

    The version before, which had no digests, is read too.
    """
    if not path.exists():
        raise FileNotFoundError(f"no {kind} file {path}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file: name a {kind} file")
    with open(path, "rb") as raw:
        try:
            file = zipfile.ZipFile(raw)
            members = _members(file, path.stat().st_size)
        except BROKEN as error:
            raise ValueError(
                f"{path} is not a tessella {kind}, or is truncated ({error}): save it again"
            ) from None
        with file:
            yield _with_header(Archive(path, kind, file, members), version, others)


def _members(file: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """All arrays by name; stored as they are, so that together they are no more than the file."""
    members = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
    if len(members) < len(file.infolist()):
        raise ValueError("it has two arrays of one name")
    for info in members.values():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"{info.filename} is compressed, which none of ours is")
        if info.flag_bits & 1:
            raise ValueError(f"{info.filename} is encrypted, which none of ours is")
    if sum(info.file_size for info in members.values()) > size:
        raise ValueError("its arrays overlap")
    return members


def _with_header(archive: Archive, version: int, others: tuple[str, ...]) -> Archive:
    path, kind = archive.path, archive.kind
    try:
        text = _read(archive, "header", (None,), "u", LARGEST_HEADER)
        header = json.loads(text.tobytes())
        found = header.pop("format").removeprefix("tessella ")
        ours = found in (kind, *others)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
        ours = False
    if not ours:
        raise ValueError(f"{path} is not a tessella {kind}: it has no header of ours")
    written = header.pop("version", None)
    if written not in (version - 1, version):
        raise ValueError(
            f"{path} has format version {written}, this tessella reads {version - 1} and "
            f"{version}: load it with the version that wrote it, or solve again"
        )
    digests = header.pop("digests", None)
    whole = replace(archive, kind=found, header=header)
    if written < version and "digest" not in archive.members:
        return whole
    digest = _read(archive, "digest", (None,), "u", LONGEST_DIGEST)
    if digest.tobytes() != _digest(text).encode() or not isinstance(digests, dict):
        raise archive.damaged("its header has changed since it was written")
    for name in sorted(digests.keys() ^ {*archive.members} - {"header", "digest"}):
        where = "is missing from it" if name in digests else "was added to it"
        raise archive.damaged(f"{name!r} {where}")
    return replace(whole, digests=digests, digest=digest.tobytes().decode())


class _About(NamedTuple):
    """What stands in front of an array's numbers."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["F", "C"]
    length: int


def _about(archive: Archive, name: str) -> _About:
    info = archive.members.get(name)
    if info is None:
        raise archive.damaged(f"{name!r} is missing from it")
    try:
        with archive.file.open(info) as member:
            start = member.read(10)
            size = struct.unpack("<H", start[8:])[0] if start[:8] == b"\x93NUMPY\x01\x00" else 0
            text = ABOUT.fullmatch(member.read(size))
        if text is None:
            raise ValueError("no array of ours")
        dtype = np.dtype(text[1].decode())
        shape = tuple(int(n) for n in text[3].split(b",") if n.strip())
        if info.file_size != 10 + size + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{info.file_size:,} bytes for the shape {shape}")
    except BROKEN as error:
        raise archive.damaged(f"{name!r} is unreadable ({error})") from None
    return _About(dtype, shape, "F" if text[2] == b"True" else "C", 10 + size)


def _read(
    archive: Archive, name: str, wanted: Shape, kind: str, most: float = math.inf
) -> np.ndarray:
    """An array of this shape and kind of numbers, of at most so many."""
    about = _about(archive, name)
    fits = len(about.shape) == len(wanted) and all(
        w in (None, n) for n, w in zip(about.shape, wanted, strict=True)
    )
    if not fits or about.dtype.kind != kind or math.prod(about.shape) > most:
        shown = ", ".join("any" if w is None else str(w) for w in wanted)
        raise archive.damaged(
            f"{name!r} has shape {about.shape} of {about.dtype} where ({shown}) of {KINDS[kind]} "
            f"belongs"
        )
    try:
        with archive.file.open(archive.members[name]) as member:
            content = member.read()
    except BROKEN as error:
        raise archive.damaged(f"{name!r} is unreadable ({error})") from None
    found = np.frombuffer(content, about.dtype, offset=about.length)
    return found.reshape(about.shape, order=about.order).astype(about.dtype.newbyteorder("="))


def _below(numbers: np.ndarray, largest: float) -> bool:
    """Whether all numbers are finite, and none is larger."""
    size = float(np.max(np.abs(numbers), initial=0.0))
    return math.isfinite(size) and size <= largest


def _plain(array: np.ndarray) -> np.ndarray:
    """As a file holds it: little-endian numbers, rows first."""
    order = array.dtype.newbyteorder("<")
    return np.asarray(array, dtype=order, order="C")


def _digest(array: np.ndarray) -> str:
    """Of kind, shape and numbers."""
    made = hashlib.sha256(f"{array.dtype.kind} {array.shape}".encode())
    made.update(_plain(array).data)
    return made.hexdigest()


def _as_json(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be stored in a file: leave it out of the parameters")
