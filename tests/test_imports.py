"""Imports point only to folders below, and the core needs only NumPy, SciPy and JAX."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tessella

ROOT = Path(tessella.__file__).parent
FOLDERS = [
    "version",
    "machine",
    "geometry",
    "problem",
    "features",
    "linalg",
    "overlap",
    "cells",
    "solution",
    "accuracy",
    "solving",
    "gallery",
    "networks",
    "reproduction",
    "cli",
]
"""From the ground up: each imports only from those before it."""

SHELVES = {
    "cells": [
        "solvers", "cut", "cell", "boxes", "order", "system", "maps", "joins", "factored", "device",
        "factors", "applied", "kept", "factoring",
    ],
    "solving": [
        "bases", "waves", "ways", "algorithm", "method", "doors", "plan", "checkpoint", "places",
        "nonlinear", "refinement", "tolerance", "stored_factors", "factor", "eigenvalues",
        "branches", "time", "parameters", "solve", "several",
    ],
}  # fmt: skip
"""The same inside a folder of folders."""

DOORS = {("solution", "gallery"), ("solution", "solving"), ("gallery", "networks")}
"""Opened inside a function only: a file's problem by its name, its factors, and networks when one
is trained."""

FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def is_for_types_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def statements(tree, inside_functions):
    """Import statements that run, at module level or anywhere."""
    todo = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node
            elif is_for_types_only(node):
                continue
            elif inside_functions or not isinstance(node, ast.FunctionDef):
                todo.append(node)


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def imported(path, inside_functions=False):
    """Modules of this package that a file imports, without the leading `tessella.`"""
    return tuple(_imported(path, inside_functions))


def _imported(path, inside_functions):
    for node in statements(parsed(path), inside_functions):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module]
            if node.module == "tessella" or (ROOT.parent / node.module.replace(".", "/")).is_dir():
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names]
        for name in names:
            if name.split(".")[0] == "tessella":
                yield name.removeprefix("tessella").lstrip(".")


def room(module):
    return module.split(".")[0]


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_only_to_folders_below(path):
    own = room(module_name(path))
    for other in map(room, imported(path)):
        assert FOLDERS.index(other) <= FOLDERS.index(own), (
            f"{own} imports {other}, which stands above it"
        )


@pytest.mark.parametrize(("folder", "shelves"), SHELVES.items())
def test_imports_inside_a_folder_point_only_to_its_folders_below(folder, shelves):
    def shelf(module):
        return shelves.index(module.split(".")[1])

    for path in (path for path in (ROOT / folder).rglob("*.py") if path.parent != ROOT):
        if module_name(path) == folder:
            continue
        for other in (other for other in imported(path) if other.startswith(f"{folder}.")):
            assert shelf(other) <= shelf(module_name(path)), f"{module_name(path)} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_the_named_doors_lead_forward_inside_functions(path):
    own = room(module_name(path))
    forward = {
        (own, other)
        for other in map(room, imported(path, inside_functions=True))
        if FOLDERS.index(other) > FOLDERS.index(own)
    }
    assert forward <= DOORS


def test_rooms_with_several_files_have_no_cycles():
    graph = {module_name(path): set(imported(path)) - {module_name(path)} for path in FILES}
    assert "linalg.rrqr" in TopologicalSorter(graph).static_order()


def test_linear_algebra_knows_nothing_of_equations():
    for path in (ROOT / "linalg").rglob("*.py"):
        rooms = set(map(room, imported(path, inside_functions=True)))
        assert rooms <= {"linalg", "machine"}, path.name


def test_every_folder_says_what_it_holds():
    for folder in {path.parent for path in FILES} - {ROOT}:
        assert ast.get_docstring(parsed(folder / "__init__.py")), folder


def test_there_are_no_star_imports_and_no_utils():
    for path in FILES:
        assert "util" not in path.stem
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom):
                assert all(alias.name != "*" for alias in node.names), path.name


def test_every_export_exists_and_is_exported_once():
    assert len(set(tessella.__all__)) == len(tessella.__all__)
    for name in tessella.__all__:
        assert hasattr(tessella, name)


BARE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"matplotlib", "typer", "rich", "pandas", "threadpoolctl",
                                   "meshio", "xarray"}:
            raise ImportError(f"{name} is blocked in this test")

sys.meta_path.insert(0, Refuse())
import numpy as np
import tessella as ts

problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=1), 1.0), [ts.Dirichlet(0, on="xmin")])
solution = ts.solve(problem, subdomains=2, features=4)
assert abs(solution(0.5)[0] - 0.5) < 1e-6, solution(0.5)
try:
    solution.plot()
except ImportError as error:
    print(error)
"""


def test_the_core_runs_with_numpy_scipy_and_jax_alone():
    run = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "plots need matplotlib: pip install 'tessella[plot]'"


def test_importing_turns_on_double_precision_or_fails_loudly():
    refuse = "import jax; jax.dtypes.canonicalize_dtype = lambda t: 'float32'; import tessella"
    run = subprocess.run([sys.executable, "-c", refuse], capture_output=True, text=True)
    assert run.returncode == 1
    assert "ImportError: tessella needs float64" in run.stderr
