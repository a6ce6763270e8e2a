"""Finished runs on disk: one file of lines per experiment, which only ever grows.

The first line of `table1.jsonl` names the experiment and the settings that all its runs share.
Every other line is the record of one run, with the settings it does not share; `without` lists
shared ones it does not have at all, as after a change of the code. A later line of the same row and
seed replaces an earlier one, so the old record counts until a run made again is finished.

Writers hold an exclusive lock on the file (`flock`) while they look at its end and append one line,
so lines of several processes never mix, and the kernel takes the lock back however a process ends.
They may be on several machines where such a lock holds for all of them: on NFS from version 4 on,
and on Lustre mounted with `-o flock`. A line counts when its closing brace is there. What a kill
leaves of one is therefore no JSON: readers pass over it, and the next writer cuts it off. A
`digest` at the end of a line tells whether it is as it was written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tessella.gallery.preset import TRAINED
from tessella.machine.schema import as_type
from tessella.reproduction.cases import Case

Record = dict[str, Any]
"""What is known of one run, as JSON has it."""

Settings = dict[str, Any]
"""Numbers of a method by name."""

Records = dict[tuple[str, int], Record]
"""The records of an experiment by row and seed."""


Maybe = float | None
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class _Identity:
    """`Case.identity`."""

    problem: str
    solver: str
    preset: str
    kind: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class _Errors:
    l1_normalised: float
    l2_relative: float
    max: float


@dataclass(frozen=True)
class _Curve:
    iteration: Numbers
    error: Numbers


@dataclass(frozen=True)
class _Spectrum:
    index: Numbers
    value: Numbers


FIGURES: dict[str, Any] = {
    **dict.fromkeys(("experiment", "row", "device", "date", "solver", "refused"), str),
    **dict.fromkeys(("seed", "rows", "columns", "iterations"), int),
    **dict.fromkeys(("error_oracle_minimum", "oracle_iteration", "dropped_percent"), Maybe),
    **dict.fromkeys(("error_at_stopping_rule", "stopping_rule_iteration"), Maybe),
    **dict.fromkeys(("alpha", "theorem", "comparison", "estimate", "epsilon"), Maybe),
    **dict.fromkeys(("settings", "parameters", "versions"), dict[str, Any]),
    **dict.fromkeys(("condition", "seconds"), dict[str, Maybe]),
    "without": tuple[str, ...],
    "case": _Identity,
    "error": _Errors | None,
    "curve": _Curve,
    "spectrum": dict[str, _Spectrum],
}
"""What tables and figures read of a record, where it is there."""

ALWAYS = ("device", "solver", "rows", "columns", "iterations", "error", "condition", "seconds")
"""What every record of a solve has."""


class OtherSettingsError(ValueError):
    """There is a record of this row and seed, but other settings made it."""


@dataclass(frozen=True)
class Store:
    """A folder of records. A record counts only for the settings it was made with."""

    root: Path

    def path(self, experiment: str) -> Path:
        """The file of an experiment's records."""
        return self.root / f"{experiment}.jsonl"

    def records(self, experiment: str) -> Records:
        """All finished records of an experiment, the settings written out; only to be read."""
        path = self._path_if_new(experiment)
        try:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                content = file.read()
        except FileNotFoundError:
            return {}
        return _parsed(path, _finished(content))

    def read(self, case: Case, seed: int) -> Record | None:
        """The record of a finished run, or None; refused if other settings made it."""
        record = self.records(case.experiment).get((case.row, seed))
        return None if record is None else self.own(case, record)

    def seeds(self, case: Case) -> list[Record]:
        """All finished records of a case, by seed."""
        found = self.records(case.experiment)
        seeds = sorted(seed for row, seed in found if row == case.row)
        return [self.own(case, found[case.row, seed]) for seed in seeds]

    def write(self, record: Record, shared: Settings | None = None) -> None:
        """Append a record; once this returns it is on disk, and until then there is nothing.

        `shared` are the settings of all runs of the experiment, for the first line of a new file.
        """
        path = self._path_if_new(record["experiment"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            kept = _finished(file.readall())
            rest = _addition(path, kept, record, shared or {})
            try:
                file.truncate(len(kept))
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(len(kept))
                raise

    def _path_if_new(self, experiment: str) -> Path:
        path, folder = self.path(experiment), self.root / experiment
        if any(folder.glob("*.seed*.json")):
            raise ValueError(
                f"{folder} holds a file for each run, which is no longer read: records are lines "
                f"of {path.name} now; choose another --out, or delete {folder} and run it again"
            )
        return path

    def own(self, case: Case, record: Record) -> Record:
        """A record of a case's row, refused if other settings made it."""
        if record.get("case") != case.identity:
            raise OtherSettingsError(
                f"{case.row!r} in {self.path(case.experiment)} was made with other settings "
                f"({_difference(record, case)}): results are never mixed; choose another --out, "
                f"or --redo to replace them"
            )
        return record


def on_first_device(records: Sequence[Record]) -> list[Record]:
    """Those made on the same machine as the first: seconds of different machines do not mix."""
    return [record for record in records if record.get("device") == records[0].get("device")]


def _finished(content: bytes) -> bytes:
    """All lines but a last one that was left half written: no part of an object is JSON."""
    end = content.rfind(b"\n") + 1
    try:
        json.loads(content[end:])
    except (ValueError, RecursionError):
        return content[:end]
    return content


@lru_cache(maxsize=64)
def _parsed(path: Path, content: bytes) -> Records:
    """The records of a file's content; kept, for a report asks for the same file many times."""
    found: Records = {}
    if not content:
        return found
    first, *lines = content.splitlines()
    shared = _header(path, first)
    for number, text in enumerate(lines, 2):
        try:
            line = _checked(_opened(text))
            found[line["row"], line["seed"]] = _completed(line, shared)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"line {number} of {path} is not a record of a run ({error}): delete that line"
            ) from None
    return found


def _header(path: Path, line: bytes) -> Settings:
    """The settings in the first line of a file."""
    try:
        header = as_type(_Header, _opened(line), "it")
        if header.experiment == path.stem:
            return dict(header.settings)
    except (ValueError, RecursionError):
        pass
    raise ValueError(
        f"{path} does not begin with the name and the settings of {path.stem}: restore its first "
        f"line, or choose another --out"
    )


@dataclass(frozen=True)
class _Header:
    experiment: str
    settings: Settings


def _opened(text: bytes) -> Record:
    """What a line holds, if it is what was written; lines of earlier versions have no digest."""
    content: Record = as_type(Record, json.loads(text), "it")
    digest = content.pop("digest", None)
    if digest not in (None, _digest(content)):
        raise ValueError("it has changed since it was written")
    if digest is None and _told(content):
        for key in ALWAYS:
            if key not in content:
                raise ValueError(f"{key!r} is missing")
    return content


def _told(line: Record) -> bool:
    """Whether a line is the record of a solve that was made."""
    case = line.get("case")
    return isinstance(case, dict) and case.get("kind") == "solve" and "refused" not in line


def _checked(line: Record) -> Record:
    """A record whose figures are what those who read it expect."""
    for key in ("row", "seed"):
        if key not in line:
            raise ValueError(f"{key!r} is missing")
    for key, value in line.items():
        as_type(FIGURES.get(key, Any), value, key)
    for pair in (line.get("curve", {}), *line.get("spectrum", {}).values()):
        if len({len(own) for own in pair.values()}) > 1:
            raise ValueError("a curve has points without values")
    seconds = line.get("seconds", {"assemble": None, "solve": 0.0})
    if "assemble" not in seconds or seconds.get("solve") is None:
        raise ValueError("seconds lack assemble or solve")
    if line.get("solver") in TRAINED and line.get("iterations") == 0:
        raise ValueError("iterations is 0 in a training")
    if any(kappa is not None and kappa <= 0 for kappa in line.get("condition", {}).values()):
        raise ValueError("condition is not positive")
    return line


def _addition(path: Path, kept: bytes, record: Record, shared: Settings) -> bytes:
    """What follows the finished lines: the record, in a new file behind its first line."""
    start = b""
    if not kept:
        start = line_of({"experiment": path.stem, "settings": shared})
    elif not kept.endswith(b"\n"):
        start = b"\n"
    known = _header(path, kept.splitlines()[0]) if kept else shared
    return start + line_of(_shortened(record, known))


def line_of(content: Record) -> bytes:
    """As a file holds it."""
    return json.dumps({**content, "digest": _digest(content)}).encode() + b"\n"


def _digest(content: Record) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _shortened(record: Record, shared: Settings) -> Record:
    """A record without the settings it shares, compared as JSON, where 1, 1.0 and true differ."""
    own = record.get("settings")
    if own is None:
        return record
    common = {k for k in own if k in shared and json.dumps(own[k]) == json.dumps(shared[k])}
    line = {**record, "settings": {k: v for k, v in own.items() if k not in common}}
    absent = [k for k in shared if k not in own]
    return {**line, "without": absent} if absent else line


def _completed(line: Record, shared: Settings) -> Record:
    """The record that `_shortened` made a line of."""
    absent = line.pop("without", [])
    if "settings" in line:
        settings = {**shared, **line["settings"]}
        line["settings"] = {k: v for k, v in settings.items() if k not in absent}
    return line


def _difference(record: Record, case: Case) -> str:
    """The first thing in which a record and a case differ, for the error message."""
    theirs = record.get("case", {})
    for key, ours in case.identity.items():
        if key != "settings" and theirs.get(key) != ours:
            return f"{key} {theirs.get(key)!r} instead of {ours!r}"
    old, new = theirs.get("settings", {}), case.settings
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            return f"{key} {old.get(key, 'default')!r} instead of {new.get(key, 'default')!r}"
    return "an unknown difference"
