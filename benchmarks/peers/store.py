"""One JSON file of finished runs, rewritten after each, so that an interruption loses none.

Several processes may add to it: each reads, changes and replaces it while it has its lock.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from tessella.machine.files import locked, written_whole

PACKAGES = (
    "tessella",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "fastlsq",
    "pyrfm",
    "torch",
    "scikit-fem",
    "ngsolve",
    "jaxhps",
    "deepxde",
)


def versions() -> dict[str, str | None]:
    """Installed versions; None for what is not there."""

    def version(package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return {package: version(package) for package in PACKAGES}


def machine() -> dict[str, Any]:
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = (line for line in cpuinfo.read_text().splitlines() if "model name" in line)
        model = next(lines, "").partition(":")[2].strip()
    return {
        "device": model or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


class Store:
    """Records by (problem, peer, settings), as last read; later ones replace earlier ones."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, about
        self.records: dict[str, dict[str, Any]] = {}
        self.read()

    def read(self) -> None:
        """Take over what is on disk. Records without a device are of the one the file names."""
        text = self.path.read_text() if self.path.exists() else ""
        content = json.loads(text) if text else {"runs": []}
        device = {"device": content["device"]} if "device" in content else {}
        self.records = {key(record): {**device, **record} for record in content["runs"]}

    def add(self, record: dict[str, Any]) -> None:
        device = {"device": self.about["device"]} if "device" in self.about else {}
        with self._changed():
            self.records[key(record)] = {
                **record, **device, "date": datetime.date.today().isoformat()
            }  # fmt: skip

    def keep_only(self, problem: str, peer: str, settings: Iterable[dict[str, Any]]) -> None:
        """Forget a peer's runs of sizes it no longer makes: of an older table, or machine."""
        wanted = {key({"problem": problem, "peer": peer, "settings": one}) for one in settings}
        old = [
            name
            for name, record in self.records.items()
            if (record["problem"], record["peer"]) == (problem, peer) and name not in wanted
        ]
        if old:
            with self._changed():
                for name in old:
                    self.records.pop(name, None)

    @contextmanager
    def _changed(self) -> Iterator[None]:
        """Inside, nobody else changes the records, which are those on disk; then they are kept."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            self.read()
            yield
            text = json.dumps({**self.about, "runs": list(self.records.values())}, indent=1)
            with written_whole(self.path) as unfinished:
                unfinished.write_text(text + "\n")

    def of(self, problem: str) -> Iterable[dict[str, Any]]:
        return [r for r in self.records.values() if r["problem"] == problem]


def key(record: dict[str, Any]) -> str:
    return json.dumps([record["problem"], record["peer"], record["settings"]], sort_keys=True)
