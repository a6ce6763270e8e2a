"""What is imported is declared, and what is missing is named."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import tessella

PACKAGE = Path(tessella.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
MODULES = {"pillow": {"PIL"}, "ngsolve": {"ngsolve", "netgen"}}
"""Modules of projects whose names are others."""


def provided(requirements):
    names = (re.match(r"[\w-]+", requirement)[0] for requirement in requirements)
    return {module for name in names for module in MODULES.get(name, {name})}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def test_every_import_is_declared():
    found = {name for path in PACKAGE.rglob("*.py") for name in imported(path)}
    others = found - set(sys.stdlib_module_names) - {"tessella", "_typeshed"}
    extras = [name for extra in PROJECT["optional-dependencies"].values() for name in extra]
    assert {"jax", "matplotlib", "typer", "meshio", "xarray", "PIL"} <= others
    assert others <= provided([*PROJECT["dependencies"], *extras])


@pytest.mark.parametrize("missing", ["typer", "rich.console"])
def test_the_command_line_says_how_to_get_it(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "tessella.cli", raising=False)
    with pytest.raises(SystemExit, match=r"needs (typer|rich.*): pip install 'tessella\[cli\]'"):
        import tessella.cli  # noqa: F401


def test_the_citation_is_of_this_version():
    text = (Path(__file__).parent.parent / "CITATION.cff").read_text()
    assert f"\nversion: {tessella.__version__}\n" in text


def test_all_has_every_extra_that_a_user_may_want():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    held = set(re.search(r"\[(.*)\]", everything)[1].split(",")) | {"plot"}
    assert held == set(extras) - {"all", "dev", "docs", "peers"}
    assert "tessella[plot]" in extras["cli"]
