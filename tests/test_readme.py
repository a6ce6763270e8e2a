"""What the README shows is what happens."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tessella import gallery
from tessella.cli import app

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_first_lines_of_python_run_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict = {}
    exec(first, names)
    solution = names["solution"]
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.error["l1_normalised"] <= 3e-8
    exact = names["u"](np.array([[0.5, 0.5]]))
    assert solution([[0.5, 0.5]]) == pytest.approx(exact, abs=1e-6)
    assert (tmp_path / "poisson.png").stat().st_size > 10_000
    assert (tmp_path / "poisson.npz").exists()
    exec(second, names)
    assert (tmp_path / "hole.png").stat().st_size > 10_000


def commands():
    for block in re.findall(r"```sh\n(.*?)```", README, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.split("#")[0].split()
            if words and words[0].endswith("tessella"):
                yield words[1:]


def test_every_command_shown_exists_with_its_options():
    shown = list(commands())
    assert {"list", "solve", "reproduce"} <= {words[0] for words in shown}
    for words in shown:
        text = CliRunner().invoke(app, [words[0], "--help"], terminal_width=200).output
        for option in (word for word in words if word.startswith("--")):
            assert option in text, f"{option} of {words}"
        if words[0] == "solve":
            entry = gallery.get(words[1])
            if "--preset" in words:
                entry.preset(words[words.index("--preset") + 1])


def test_files_linked_from_the_readme_exist():
    root = Path(__file__).parent.parent
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (root / link).exists(), link
