"""Every example runs as it is read and reproduces the number that it ends with."""

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "demo")


def source(name):
    return (FOLDER / f"{name}.py").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_example(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
    for picture in re.findall(r'plot\("(.*?)"\)', source(name)):
        assert Path(picture).stat().st_size > 10_000, picture


def test_demo(tmp_path, monkeypatch, capsys):
    """The first of its three problems; all of them take half a minute."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / "demo.py"))["main"](["harmonic-oscillator"])
    assert "by tolerance, tol=1e-10" in capsys.readouterr().out
    assert Path("out/harmonic-oscillator.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", NAMES)
def test_example_is_short_and_ends_in_an_assertion(name):
    assert 20 <= len(source(name).splitlines()) <= 60
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source(name))))
    assert name not in sys.stdlib_module_names, "it would hide a module while it runs"


def test_the_list_has_every_example_with_its_first_sentence():
    listed = dict(
        re.findall(r"- \[(\w+)\.py\]\(\1\.py\): (.*)", (FOLDER / "README.md").read_text())
    )
    sentences = {
        name: (ast.get_docstring(ast.parse(source(name))) or "").splitlines()[0]
        for name in [*NAMES, "demo"]
    }
    assert listed == sentences
