"""One JSON file of finished runs, rewritten after each, so that an interruption loses none."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

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
    """Records by (problem, peer, settings); later ones replace earlier ones."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, about
        self.records: dict[str, dict[str, Any]] = {}
        if path.exists():
            for record in json.loads(path.read_text())["runs"]:
                self.records[key(record)] = record

    def __contains__(self, record: dict[str, Any]) -> bool:
        return key(record) in self.records

    def add(self, record: dict[str, Any]) -> None:
        self.records[key(record)] = {**record, "date": datetime.date.today().isoformat()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self.about, "runs": list(self.records.values())}, indent=1)
        part = self.path.with_suffix(".part")
        part.write_text(text + "\n")
        part.replace(self.path)

    def keep_only(self, problem: str, peer: str, settings: Iterable[dict[str, Any]]) -> None:
        """Forget a peer's runs of sizes it no longer makes: of an older table, or machine."""
        wanted = {key({"problem": problem, "peer": peer, "settings": one}) for one in settings}
        for name, record in list(self.records.items()):
            if (record["problem"], record["peer"]) == (problem, peer) and name not in wanted:
                del self.records[name]

    def of(self, problem: str) -> Iterable[dict[str, Any]]:
        return [r for r in self.records.values() if r["problem"] == problem]


def key(record: dict[str, Any]) -> str:
    return json.dumps([record["problem"], record["peer"], record["settings"]], sort_keys=True)
