"""What the README and the pages in docs/ show is what happens."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tessella import gallery
from tessella.cli import app

ROOT = Path(__file__).parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "examples" / "README.md")
}
LINKS = [
    (page, link)
    for page in PAGES
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[page])
    if not link.startswith("http")
]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.S)


def run(page):
    """The names that a page's lines of Python leave behind; its files go to the working folder."""
    names: dict = {}
    for block in blocks(page, "python"):
        exec(block, names)
    return names


def test_the_readme_takes_three_minutes():
    assert len(PAGES["README.md"].splitlines()) <= 120


def test_the_lines_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run("README.md")
    solution = names["solution"]
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.error["l1_normalised"] <= 3e-8
    exact = names["u"](np.array([[0.5, 0.5]]))
    assert solution([[0.5, 0.5]]) == pytest.approx(exact, abs=1e-6)
    assert (tmp_path / "poisson.png").stat().st_size > 10_000
    assert (tmp_path / "poisson.npz").exists()


def test_the_lines_on_usage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run("docs/usage.md")
    assert names["solution"].report.stop_reason == "tolerance met"
    assert (tmp_path / "hole.png").stat().st_size > 10_000
    near = np.random.default_rng(0).random((200, 2))
    assert names["by_hand"](near) == pytest.approx(names["enriched"](near), abs=1e-4)
    values = names["values"]
    assert np.isnan(values).any() and np.nanmax(values) == pytest.approx(1.0, abs=1e-2)


def test_all_lines_of_python_are_run():
    shown = {page for page in PAGES if blocks(page, "python")}
    assert shown == {"README.md", "docs/usage.md"}


def commands(first):
    """Lines of all pages that begin with this word, in words."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.split("#")[0].split()
                if words and words[0] == first:
                    yield words[1:]


def test_every_command_shown_exists_with_its_options():
    shown = list(commands("tessella"))
    assert {"list", "solve", "reproduce"} <= {words[0] for words in shown}
    for words in shown:
        text = CliRunner().invoke(app, [words[0], "--help"], terminal_width=200).output
        for option in (word for word in words if word.startswith("--")):
            assert option in text, f"{option} of {words}"
        if words[0] == "solve":
            entry = gallery.get(words[1])
            if "--preset" in words:
                entry.preset(words[words.index("--preset") + 1])


def test_every_target_shown_is_made():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    shown = {words[0] for words in commands("make")}
    assert {"demo", "test"} <= shown <= targets


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page, link):
    name, _, heading = link.partition("#")
    target = (ROOT / page).parent / name if name else ROOT / page
    assert target.exists()
    if heading:
        headings = re.findall(r"^#+ (.*)", target.read_text(), re.M)
        assert heading in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


def test_every_page_is_reached_from_the_readme():
    reached = {link.partition("#")[0] for page, link in LINKS if page == "README.md"}
    assert set(PAGES) - {"README.md"} <= reached
