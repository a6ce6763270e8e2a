"""Files of plain arrays with a JSON header; no pickle, and never half a file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tessella.machine.arrays import Array
from tessella.machine.files import written_whole


def write(path: Path, kind: str, version: int, header: dict[str, Any], **arrays: Array) -> None:
    """Write atomically: a reader sees the old file or the whole new one."""
    whole = {"format": f"tessella {kind}", "version": version, **header}
    text = np.frombuffer(json.dumps(whole, default=float).encode(), dtype=np.uint8)
    with written_whole(path) as unfinished, open(unfinished, "wb") as file:
        np.savez(file, header=text, **arrays)  # type: ignore[arg-type]


def read(
    path: Path, kind: str, version: int, *others: str
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file that `write` wrote, of this kind or one of the `others`."""
    if not path.exists():
        raise FileNotFoundError(f"no {kind} file {path}")
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        with file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"{path} is not a tessella {kind}, or is truncated ({error}): save it again"
        ) from None
    try:
        header = json.loads(arrays.pop("header").tobytes().decode())
        header["kind"] = header.pop("format").removeprefix("tessella ")
        ours = header["kind"] in (kind, *others)
    except (KeyError, ValueError, TypeError, AttributeError):
        ours = False
    if not ours:
        raise ValueError(f"{path} is not a tessella {kind}: it has no header of ours")
    if header.get("version") != version:
        raise ValueError(
            f"{path} has format version {header.get('version')}, this tessella reads {version}: "
            f"load it with the version that wrote it, or solve again"
        )
    return header, arrays
