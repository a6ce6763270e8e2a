"""Finished runs on disk: one JSON file per (experiment, row, seed), never half written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tessella.reproduction.cases import Case

Record = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A folder of records. A record counts only for the settings it was made with."""

    root: Path

    def path(self, case: Case, seed: int) -> Path:
        row = re.sub(r"[^A-Za-z0-9.+-]+", "_", case.row)
        return self.root / case.experiment / f"{row}.seed{seed}.json"

    def read(self, case: Case, seed: int) -> Record | None:
        """The record of a finished run, or None; refused if other settings made it."""
        path = self.path(case, seed)
        try:
            record: Record = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{path} is not a record of a run ({error}): delete it") from None
        if record.get("case") != case.identity:
            raise ValueError(
                f"{path} was made with other settings ({_difference(record, case)}): results are "
                f"never mixed; choose another --out, or --redo to replace them"
            )
        return record

    def write(self, case: Case, seed: int, record: Record) -> Path:
        """Keep a record, all of it or nothing."""
        path = self.path(case, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(record, indent=1) + "\n")
        return path

    def seeds(self, case: Case, limit: int = 1_000) -> list[Record]:
        """All finished records of a case, by seed."""
        found = (self.read(case, seed) for seed in self._seeds(case) if seed < limit)
        return [record for record in found if record is not None]

    def _seeds(self, case: Case) -> Iterator[int]:
        pattern = self.path(case, 0).name.removesuffix("0.json")
        folder = self.root / case.experiment
        names = (path.name for path in folder.glob(f"{_escaped(pattern)}*.json"))
        return iter(sorted(int(n.removeprefix(pattern).removesuffix(".json")) for n in names))


def on_first_device(records: Sequence[Record]) -> list[Record]:
    """Those made on the same machine as the first: seconds of different machines do not mix."""
    return [record for record in records if record.get("device") == records[0].get("device")]


def write_whole(path: Path, text: str) -> None:
    """All or nothing: written beside, forced to disk, then renamed into place."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


def _difference(record: Record, case: Case) -> str:
    """The first thing in which a record and a case differ, for the error message."""
    theirs, ours = record.get("case", {}), case.identity
    for key in ours:
        if key != "settings" and theirs.get(key) != ours[key]:
            return f"{key} {theirs.get(key)!r} instead of {ours[key]!r}"
    old, new = theirs.get("settings", {}), ours["settings"]
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            return f"{key} {old.get(key, 'default')!r} instead of {new.get(key, 'default')!r}"
    return "an unknown difference"
