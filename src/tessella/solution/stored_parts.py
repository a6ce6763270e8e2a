"""Coefficients that several processes have, on disk: a file for each process beside the index.

Every process writes its own file first, named after what is in it, so that nothing older is
touched. Only when all are there is the index written, which lists them with their digests; what is
interrupted before leaves the old solution as it was. Then parts that it does not list are removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tessella.linalg.shared_matrix import halved
from tessella.machine import archive, processes
from tessella.machine.archive import Archive
from tessella.machine.arrays import Array
from tessella.overlap.basis import Basis
from tessella.overlap.parted import Parted

if TYPE_CHECKING:
    from tessella.solution.solution import Solution

PART, VERSION = "part of a solution", 1

LARGEST_COEFFICIENT = 1e200
"""Larger ones could not be added up."""


@dataclass(frozen=True)
class StoredPart:
    """The file of one process, in the folder of the index."""

    file: str
    digest: str


def write_parts(index: Path, slabs: Mapping[str, Solution]) -> tuple[StoredPart, ...]:
    """The files of all processes, where any of these solutions is in parts; by prefixes of the
    arrays' names."""
    own = {
        f"{prefix}coefficients": slab.coefficients
        for prefix, slab in slabs.items()
        if slab.parted is not None
    }
    if not own:
        return ()
    with processes.together():
        me = processes.index()
        with processes.in_unison("saving"):
            name = f"{index.stem}.part{me}-{archive.digest_of(own)[:16]}.npz"
            digest = archive.write(index.with_name(name), PART, VERSION, {"process": me}, **own)
        said = np.frombuffer(json.dumps([name, digest]).encode(), dtype=np.uint8)
        every = processes.gathered("saved", said)
    return tuple(StoredPart(*json.loads(one.tobytes())) for one in every)


def owners_of(parted: Parted) -> dict[str, Array]:
    """Arrays of the index: who has which subdomain."""
    return {f"owners_{k}": owner for k, owner in enumerate(parted.owners)}


@contextmanager
def written_after(index: Path, parts: Sequence[StoredPart]) -> Iterator[bool]:
    """Whether this process writes the index of such parts; then those that it does not list go."""
    if not parts:
        yield True
    else:
        with processes.together():
            me = processes.index()
            with processes.in_unison("saving"):
                if me == 0:
                    _check_seen(index, parts)
                yield me == 0
        if me:
            return
    known = {part.file for part in parts}
    ours = re.compile(rf"{re.escape(index.stem)}\.part\d+-[0-9a-f]{{16}}\.npz")
    with suppress(OSError):
        for file in index.absolute().parent.iterdir():
            if ours.fullmatch(file.name) and file.name not in known:
                file.unlink(missing_ok=True)


def _check_seen(index: Path, parts: Sequence[StoredPart]) -> None:
    """Refuse an index of parts that are on the disks of several machines."""
    for other, part in enumerate(parts):
        path = index.with_name(part.file)
        if not path.exists():
            raise FileNotFoundError(
                f"process {other} has written {path}, and process 0 does not see it: save to a "
                f"folder that all machines share, or what u.whole() gives in one process"
            )


def read_parts(
    file: Archive, prefix: str, parts: Sequence[StoredPart], levels: Sequence[Basis]
) -> tuple[Array, Parted | None]:
    """Coefficients from the files of an index: all of them in one process, and in several those of
    each one's own share, however many wrote them."""
    owners = []
    for k, level in enumerate(levels):
        owner = file.array(f"owners_{k}", (level.decomposition.count,), len(parts) - 1, "i")
        if owner.min(initial=0) < 0:
            raise file.damaged(f"a part {owner.min()} is asked for")
        owners.append(np.asarray(owner, dtype=np.int64))
    stored = Parted.of(levels, owners)
    parted = None if processes.alone() else _shared(levels, stored, len(parts))
    size = stored.number if parted is None else len(parted.columns(parted.me))
    place = np.arange(size)
    if parted is not None:
        place = np.full(stored.number, -1)
        place[parted.columns(parted.me)] = np.arange(size)
    found = np.zeros(size)
    for process, part in enumerate(parts):
        columns = stored.columns(process)
        at = place[columns]
        if np.any(at >= 0):
            a = _read(file, part, f"{prefix}coefficients", len(columns))
            found[at[at >= 0]] = a[at >= 0]
    return found, parted


def _shared(levels: Sequence[Basis], stored: Parted, number: int) -> Parted:
    """Who has what here: what they wrote if they are as many, else neighbours together."""
    if number == processes.number():
        return stored
    boxes = [level.decomposition for level in levels]
    return Parted.of(
        levels, [halved(own.centres / own.half_widths, processes.number()) for own in boxes]
    )


def _read(index: Archive, part: StoredPart, name: str, size: int) -> Array:
    path = index.path.with_name(part.file)
    if Path(part.file).name != part.file:
        raise index.damaged(f"it asks for {part.file!r}, which is no file beside it")
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing, a part of {index.path}: keep all of them in one folder"
        )
    with archive.opened(path, PART, VERSION) as file:
        if file.digest != part.digest:
            raise file.damaged(f"it is not the part that {index.path.name} was written with")
        return file.array(name, (size,), LARGEST_COEFFICIENT)
