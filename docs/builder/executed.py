"""Pages whose lines of Python are run as they are read, and what each block shows."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)

PICTURES = (".png", ".gif", ".svg")


@dataclass(frozen=True)
class Shown:
    """What a block of code left behind: printed lines, then the value of its last line, and new
    pictures in the working folder."""

    text: str
    pictures: tuple[Path, ...]


def blocks(text: str) -> list[str]:
    """The blocks of Python of a page."""
    return BLOCK.findall(text)


def run_blocks(sources: list[str], folder: Path) -> list[Shown]:
    """Run blocks one after the other, in one namespace and in this folder, like a notebook.

    What they showed is kept in the folder, and shown again while the blocks are the same.
    """
    kept = folder / "shown.pickle"
    if kept.exists():
        before, shown = pickle.loads(kept.read_bytes())
        if before == sources:
            return shown
    names: dict[str, object] = {"__name__": "__main__"}
    with _inside(folder):
        shown = [_run(source, names) for source in sources]
    kept.write_bytes(pickle.dumps((sources, shown)))
    return shown


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run(source: str, names: dict[str, object]) -> Shown:
    before = _pictures()
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "<page>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
            if value is not None and not _is_handed_over(value):
                print(repr(value))
    after = _pictures()
    new = sorted(path for path, stamp in after.items() if before.get(path) != stamp)
    return Shown(said.getvalue().rstrip(), tuple(new))


def _pictures() -> dict[Path, int]:
    found = (path for path in Path.cwd().rglob("*") if path.suffix in PICTURES)
    return {path: path.stat().st_mtime_ns for path in found}


def _is_handed_over(value: object) -> bool:
    """A figure is shown by its file, and the path of a file says nothing."""
    return isinstance(value, Path) or type(value).__name__ == "Figure"
