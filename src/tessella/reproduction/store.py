"""Finished runs on disk: one file of lines per experiment, which only ever grows.

The first line of `table1.jsonl` names the experiment and the settings that all its runs share.
Every other line is the record of one run, with the settings it does not share; `without` lists
shared ones it does not have at all, as after a change of the code. A later line of the same row and
seed replaces an earlier one, so the old record counts until a run made again is finished.

Writers hold an exclusive lock on the file (`flock`) while they look at its end and append one line,
so lines of several processes never mix on a local file system, and the kernel takes the lock back
however a process ends. A line counts when its closing brace is there. What a kill leaves of one is
therefore no JSON: readers pass over it, and the next writer cuts it off.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tessella.reproduction.cases import Case

Record = dict[str, Any]
"""What is known of one run, as JSON has it."""

Settings = dict[str, Any]
"""Numbers of a method by name."""

Records = dict[tuple[str, int], Record]
"""The records of an experiment by row and seed."""


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
        return None if record is None else self._own(case, record)

    def seeds(self, case: Case) -> list[Record]:
        """All finished records of a case, by seed."""
        found = self.records(case.experiment)
        seeds = sorted(seed for row, seed in found if row == case.row)
        return [self._own(case, found[case.row, seed]) for seed in seeds]

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

    def _own(self, case: Case, record: Record) -> Record:
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
    except ValueError:
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
            line = json.loads(text)
            key = line["row"], line["seed"]
            found[key] = _completed(line, shared)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"line {number} of {path} is not a record of a run ({error!r}): delete that line"
            ) from None
    return found


def _header(path: Path, line: bytes) -> Settings:
    """The settings in the first line of a file."""
    try:
        header = json.loads(line)
        if header["experiment"] == path.stem and "row" not in header:
            return dict(header["settings"])
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(
        f"{path} does not begin with the name and the settings of {path.stem}: restore its first "
        f"line, or choose another --out"
    )


def _addition(path: Path, kept: bytes, record: Record, shared: Settings) -> bytes:
    """What follows the finished lines: the record, in a new file behind its first line."""
    start = b""
    if not kept:
        start = _line({"experiment": path.stem, "settings": shared})
    elif not kept.endswith(b"\n"):
        start = b"\n"
    known = _header(path, kept.splitlines()[0]) if kept else shared
    return start + _line(_shortened(record, known))


def _line(content: Record) -> bytes:
    return json.dumps(content).encode() + b"\n"


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
    absent = line.pop("without", ())
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
