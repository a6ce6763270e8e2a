"""Every example as a page: what it shows, its picture, its code, what it prints, how long it
takes, and the same as a notebook."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import runpy
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from docs.builder.executed import PICTURES

import tessella as ts

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"


@dataclass(frozen=True)
class Ran:
    """One example after it ran."""

    name: str
    printed: str
    seconds: float
    picture: Path | None
    last: str | None
    """Name of the last solution that it made."""

    @property
    def source(self) -> str:
        return (FOLDER / f"{self.name}.py").read_text()

    @property
    def words(self) -> tuple[str, str, str]:
        """Title, the rest of the first sentence, and the rest of what it says of itself."""
        text = ast.get_docstring(ast.parse(self.source)) or ""
        first, _, rest = text.partition("\n")
        title, _, lead = first.partition(": ")
        return title, lead[:1].upper() + lead[1:], rest.strip()

    @property
    def code(self) -> str:
        """Without the docstring, which stands above it."""
        tree = ast.parse(self.source)
        return "\n".join(self.source.splitlines()[tree.body[0].end_lineno :]).strip() + "\n"


def sections() -> dict[str, list[str]]:
    """Titles and names in the order in which examples/README.md lists them."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in (FOLDER / "README.md").read_text().splitlines():
        if heading := re.fullmatch(r"\*\*(.*)\*\*", line):
            title = heading[1]
            found[title] = []
        elif item := re.match(r"- \[(\w+)\.py\]", line):
            found[title].append(item[1])
    return found


def write_gallery(target: Path, executor: Executor) -> None:
    """Run all examples and write their pages."""
    target.mkdir(parents=True, exist_ok=True)
    names = [name for group in sections().values() for name in group]
    folders = [target / "ran" / name for name in names]
    ran = {one.name: one for one in executor.map(run_example, names, folders)}
    for one in ran.values():
        _write_page(target, one)
    (target / "index.md").write_text(_index(ran))


def run_example(name: str, folder: Path) -> Ran:
    """Run an example in a folder of its own and find or draw its picture."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    said, began = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(said):
        names = runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    seconds = time.perf_counter() - began
    last = _last_solution(names)
    found = sorted((p for p in folder.rglob("*") if p.suffix in PICTURES), key=_stamp)
    picture = found[-1] if found else None
    if picture is None and last is not None:
        picture = folder / f"{name}.png"
        eval(last, names).plot(picture)
    return Ran(name, said.getvalue().rstrip(), seconds, picture, last)


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns


def _last_solution(names: dict[str, object]) -> str | None:
    """In words of the example: a name, or the first of a list."""
    for name, value in reversed(names.items()):
        if isinstance(value, ts.Solution | ts.Marched):
            return name
        if isinstance(value, list) and value and isinstance(value[0], ts.Solution):
            return f"{name}[0]"
    return None


def _write_page(target: Path, one: Ran) -> None:
    title, lead, rest = one.words
    parts = [f"# {title}", f"*{lead}*" if lead else "", rest]
    if one.picture is not None:
        copy = target / f"{one.name}{one.picture.suffix}"
        copy.write_bytes(one.picture.read_bytes())
        parts.append(f"![{title}]({copy.name})")
    (target / f"{one.name}.py").write_text(one.source)
    (target / f"{one.name}.ipynb").write_text(notebook(one))
    parts.append(f"```python\n{one.code}```")
    parts.append(f"It prints\n\n```{{code-block}} text\n:class: output\n\n{one.printed}\n```")
    parts.append(
        f"{one.seconds:.1f} s when this page was built · "
        f"{{download}}`script <{one.name}.py>` · {{download}}`notebook <{one.name}.ipynb>`"
    )
    (target / f"{one.name}.md").write_text("\n\n".join(part for part in parts if part) + "\n")


def notebook(one: Ran) -> str:
    """The example as a notebook: its text, its code, and its last solution, which shows itself."""
    title, lead, rest = one.words
    text = f"# {title}\n\n{lead}\n\n{rest}".strip()
    code = [one.code.rstrip(), *([one.last] if one.last else [])]
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "id": "what", "metadata": {}, "source": text}
    ]
    for number, source in enumerate(code):
        empty: dict[str, object] = {"execution_count": None, "outputs": []}
        cell = {"cell_type": "code", "id": f"code{number}", "metadata": {}, "source": source}
        cells.append(cell | empty)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    page = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(page, indent=1) + "\n"


def _index(ran: dict[str, Ran]) -> str:
    """All pictures on one page."""
    lines = [
        "# Gallery",
        "",
        "Every example states a problem, solves it and ends with an assertion against a number",
        "that is known from elsewhere. All of them ran when this page was built.",
        "",
    ]
    for title, names in sections().items():
        lines += [f"## {title}", "", "::::{grid} 1 2 3 3", ":gutter: 3", ""]
        for name in names:
            heading, lead, _ = ran[name].words
            picture = ran[name].picture
            lines += [f":::{{grid-item-card}} {heading}", f":link: {name}", ":link-type: doc"]
            if picture is not None:
                lines += [f":img-top: {name}{picture.suffix}", f":img-alt: {heading}"]
            lines += ["", lead or heading, ":::", ""]
        lines += ["::::", "", "```{toctree}", ":hidden:", "", *names, "```", ""]
    return "\n".join(lines)
