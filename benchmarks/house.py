"""The house in numbers: files and lines per folder, imports between folders, long parameter lists,
`Any`, and the files that one solve to a tolerance passes through."""

from __future__ import annotations

import ast
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import numpy as np

import tessella as ts
from benchmarks.harness import save, table

ROOT = Path(ts.__file__).parent
MANY = 7
"""Parameters from which on a function takes too many."""


def house() -> None:
    files = sorted(ROOT.rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in files}
    folders = sorted({_folder(path) for path in files})
    rows = []
    for folder in folders:
        own = [path for path in files if _folder(path) == folder]
        used = Counter(name for path in own for name in _imports(trees[path]))
        used.pop(folder, None)
        rows.append(
            {
                "folder": folder,
                "files": len(own),
                "lines": sum(len(path.read_text().splitlines()) for path in own),
                "longest": max(len(path.read_text().splitlines()) for path in own),
                "imports from": ", ".join(f"{name} {n}" for name, n in sorted(used.items())),
            }
        )
    table("files, lines, and imports between folders", rows)
    visited = _visited()
    total = {
        "files": len(files),
        "lines": sum(row["lines"] for row in rows),
        "Any": sum(_anys(tree) for tree in trees.values()),
        f"functions with more than {MANY} parameters": [
            f"{path.relative_to(ROOT)}:{name} ({n})"
            for path, tree in trees.items()
            for name, n in _parameters(tree)
            if n > MANY
        ],
        "files visited by solve(tol=1e-6)": len(visited),
        "of them outside cells": sum(not name.startswith("cells/") for name in visited),
    }
    for name, value in total.items():
        print(f"{name}: {value}")
    save("house", [*rows, total])


def _folder(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else "(top)"


def _imports(tree: ast.AST) -> list[str]:
    """Folders of this package that are imported, once for every statement."""
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [name.split(".") for name in names if name and name.startswith("tessella")]
    return [parts[1] for parts in ours if len(parts) > 1]


def _anys(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))


def _parameters(tree: ast.AST) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            count = len(names) + len(node.args.kwonlyargs) - (names[:1] in (["self"], ["cls"]))
            found.append((node.name, count))
    return found


def _visited() -> set[str]:
    """Files of ours with a call in one solve of Poisson's equation to a tolerance."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)):
            seen.add(str(Path(name).relative_to(ROOT)))

    problem = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        ts.Equation(-ts.Laplacian(), lambda p: np.sin(3 * p[:, 0]) * np.cos(2 * p[:, 1])),
        [ts.Dirichlet(0.0)],
    )
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        ts.solve(problem, tol=1e-6)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return seen
