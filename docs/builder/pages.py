"""The pages that Sphinx builds: texts of the repository with links between them, what their blocks
of Python show, and sections and drawings taken in from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import Executor
from pathlib import Path

from docs.builder.executed import BLOCK, Shown, blocks, run_blocks

import tessella

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"

PAGES = {
    "docs/usage.md": "usage",
    "docs/accuracy.md": "accuracy",
    "docs/speed.md": "speed",
    "docs/scaling.md": "scaling",
    "docs/paper.md": "paper",
    "docs/architecture.md": "architecture",
    "results/REPRODUCTION.md": "reproduction",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
}
"""Texts that are pages beside those of docs/site."""

ELSEWHERE = {
    "README.md": "index",
    "examples/README.md": "gallery/index",
    "results/benchmarks": "measurements",
    "results/peers": "measurements",
}
"""What links may lead to that is no text of its own, or another page's."""

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SECTION = re.compile(r"^<!-- section (\S+): ([^\n]+?) -->(?:$|.*?<!-- end -->)", re.S | re.M)
DRAWING = re.compile(r"^!\[(.*)\]\((\S+\.svg)\)$", re.M)
NAME = re.compile(r"(?<!\[)`(ts\.(\w+)(?:\([^`]*\))?)`")


def sources() -> dict[str, str]:
    """Every text of the repository that is a page, and the page's name."""
    own = {
        str(path.relative_to(ROOT)): str(path.relative_to(SITE).with_suffix(""))
        for path in sorted(SITE.rglob("*.md"))
    }
    return own | PAGES


def write_pages(target: Path, executor: Executor) -> None:
    """Run what can be run and write all pages."""
    known = sources()
    texts = {source: with_sections(ROOT / source) for source in known}
    running = {
        source: executor.submit(run_blocks, found, target / "ran" / page)
        for source, page in known.items()
        if (found := blocks(texts[source]))
    }
    for source, page in known.items():
        try:
            shown = running[source].result() if source in running else []
        except Exception as error:
            error.add_note(f"while running the lines of {source}")
            raise
        text = _with_results(texts[source], shown, target / page)
        path = target / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_outside_code(text, ROOT / source, page, target))
    (target / "measurements.md").write_text(_measurements(target))
    shutil.copytree(SITE / "_static", target / "_static", dirs_exist_ok=True)
    shutil.copy(SITE / "conf.py", target / "conf.py")


def with_sections(path: Path) -> str:
    """With the sections of other texts that `<!-- section FILE: HEADING -->` asks for, without
    their headings, in place of what stands there until `<!-- end -->`."""

    def taken(match: re.Match[str]) -> str:
        other = (path.parent / match[1]).resolve()
        found = re.search(
            rf"^## {re.escape(match[2])}\n(.*?)(?=^## |\Z)", other.read_text(), re.S | re.M
        )
        if found is None:
            raise ValueError(f"{path}: {match[1]} has no section {match[2]!r}")
        return LINK.sub(lambda link: moved(link, other), found[1].strip())

    def moved(link: re.Match[str], other: Path) -> str:
        mark, text, place = link.groups()
        if not place.startswith(("http", "#")):
            place = os.path.relpath(other.parent / place, path.parent)
        return f"{mark}[{text}]({place})"

    return SECTION.sub(taken, path.read_text())


def _with_results(text: str, shown: list[Shown], base: Path) -> str:
    """Every block of Python followed by what it printed and drew."""
    waiting = iter(shown)

    def block(match: re.Match[str]) -> str:
        one, parts = next(waiting), [match[0]]
        if one.text:
            parts.append(f"```{{code-block}} text\n:class: output\n\n{one.text}\n```")
        for picture in one.pictures:
            parts.append(f"![What the lines above draw]({os.path.relpath(picture, base.parent)})")
        return "\n\n".join(parts)

    return BLOCK.sub(block, text) if shown else text


def _outside_code(text: str, source: Path, page: str, target: Path) -> str:
    """Links, drawings and public names, everywhere but in fenced code."""
    parts = re.split(r"(^(`{3,}).*?^\2$)", text, flags=re.S | re.M)
    for number in range(0, len(parts), 3):
        part = DRAWING.sub(lambda m: _drawing(source, m), parts[number])
        part = LINK.sub(lambda m: _link(m, source, page, target), part)
        parts[number] = NAME.sub(lambda m: _public(m, page), part)
    return "".join(part for number, part in enumerate(parts) if number % 3 != 2)


def _drawing(source: Path, match: re.Match[str]) -> str:
    """An SVG file as a part of the page, so that it follows the page's colours."""
    svg = (source.parent / match[2]).read_text().strip()
    label = match[1].replace('"', "'")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f'```{{raw}} html\n<figure class="drawing">{svg}</figure>\n```'


def _link(match: re.Match[str], source: Path, page: str, target: Path) -> str:
    """A link to a file of the repository as a link to its page, or to a copy of it."""
    mark, text, link = match.groups()
    name, _, anchor = link.partition("#")
    if link.startswith("http") or not name:
        return match[0]
    here = (target / page).parent
    if not (source.parent / name).exists() and (here / name).exists():
        return match[0]  # made by the builder
    path = (source.parent / name).resolve()
    inside = str(path.relative_to(ROOT))
    if inside.startswith("examples/") and path.suffix == ".py":
        found = f"gallery/{path.stem}"
    else:
        found = (sources() | ELSEWHERE).get(inside, "")
    if found:
        kept = f"#{anchor}" if anchor and inside not in ELSEWHERE else ""
        return f"[{text}]({os.path.relpath(found, Path(page).parent)}.md{kept})"
    copy = target / "files" / inside
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, copy)
    there = os.path.relpath(copy, here)
    return f"![{text}]({there})" if mark else f"{{download}}`{text.strip('`')} <{there}>`"


def _public(match: re.Match[str], page: str) -> str:
    """A public name as a link to its page."""
    if match[2] not in tessella.__all__ or page == f"api/{match[2]}":
        return match[0]
    return f"[`{match[1]}`]({os.path.relpath(f'api/{match[2]}', Path(page).parent)}.md)"


def _measurements(target: Path) -> str:
    """A list of all records that the pages quote, to be downloaded."""
    lines = [
        "---",
        "orphan: true",
        "---",
        "# Measurements",
        "",
        "The records behind the figures on these pages, as `python -m benchmarks NAME` and",
        "`python -m benchmarks.peers` wrote them, with machine and date.",
        "",
    ]
    for folder in ("results/benchmarks", "results/peers"):
        copy = target / "files" / folder
        copy.mkdir(parents=True, exist_ok=True)
        for path in sorted((ROOT / folder).glob("*.json")):
            shutil.copy(path, copy)
            lines.append(f"- {{download}}`{path.stem} <files/{folder}/{path.name}>`")
        lines.append("")
    lines += ["## All plots beside other software", ""]
    for path in sorted((ROOT / "results/peers").glob("*.png")):
        shutil.copy(path, target / "files/results/peers")
        lines += [f"![{path.stem}](files/results/peers/{path.name})", ""]
    return "\n".join(lines)
