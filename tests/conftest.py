"""Small problems and matrices that the tests share.

Compilation dominates the run time and happens once per shape, so the tests use the same few sizes.
"""

import gc
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

# Two workers of two BLAS threads each wait for each other on two cores, a hundredfold.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# What one worker or child process has compiled the others need not compile again.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings

import tessella as ts
from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.iterative.iteration import History
from tessella.solution.report import Report

# Started in the background a process ignores Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What is imported stays; no collection of garbage looks through it again.
gc.freeze()

settings.register_profile("tessella", deadline=None, derandomize=True, max_examples=15)
settings.load_profile("tessella")

COMPILED: list[str] = []


def _note_compilation(event: str, duration_secs: float, **_: str | int) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(_note_compilation)


@pytest.fixture
def compilations() -> Callable[[], int]:
    """How many programs XLA has compiled in this process so far."""
    return lambda: len(COMPILED)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def column_blocks() -> Callable[..., BlockMatrix]:
    """A dense matrix stored as blocks of neighbouring columns that all see every row."""

    def make(dense: np.ndarray, count: int = 1) -> BlockMatrix:
        m, n = dense.shape
        width = n // count
        return BlockMatrix(
            (
                Group(
                    jnp.asarray(dense.T.reshape(count, width, m)),
                    jnp.asarray(np.tile(np.arange(m, dtype=np.int32), (count, 1))),
                    jnp.asarray(np.arange(n, dtype=np.int32).reshape(count, width)),
                    np.full(count, m),
                    np.full(count, width),
                ),
            ),
            (m, n),
        )

    return make


@pytest.fixture(scope="session")
def random_group() -> Callable[..., Group]:
    """Blocks of given heights and widths on random rows, padded to (width, height).

    Block b owns the columns from first_column + b * (padded width) on; it need not use them all.
    """

    def make(
        random: np.random.Generator,
        heights: Sequence[int],
        widths: Sequence[int],
        padded: tuple[int, int],
        rows: int,
        first_column: int = 0,
    ) -> Group:
        count, (C, m) = len(heights), padded
        values = np.zeros((count, C, m))
        row, column = np.zeros((count, m), np.int32), np.zeros((count, C), np.int32)
        for b, (height, width) in enumerate(zip(heights, widths, strict=True)):
            values[b, :width, :height] = random.standard_normal((width, height))
            row[b, :height] = np.sort(random.choice(rows, height, replace=False))
            column[b, :width] = first_column + b * C + np.arange(width)
        arrays = (jnp.asarray(a) for a in (values, row, column))
        return Group(*arrays, np.array(heights), np.array(widths))

    return make


LINE = ts.Box(x=(0, 1))
ADVECTION = ts.D(x=2) + ts.D(x=1) + 1
"""Uses every order up to two, so that all problems on the line share their compiled programs."""


@pytest.fixture(scope="session")
def line_problem() -> Callable[..., ts.Problem]:
    """u'' + u' + u = f on [0, 1] with u = sin(pi x), under the given conditions."""

    def rhs(p: np.ndarray) -> np.ndarray:
        x = np.pi * p[:, 0]
        return (1 - np.pi**2) * np.sin(x) + np.pi * np.cos(x)

    def make(*conditions: ts.Condition, **keywords: object) -> ts.Problem:
        return ts.Problem(LINE, ts.Equation(ADVECTION, rhs), conditions, **keywords)

    return make


@pytest.fixture(scope="session")
def line_solution(line_problem: Callable[..., ts.Problem]) -> ts.Solution:
    """The smallest honest solve: four subdomains, nine columns each, without an exact solution."""
    problem = line_problem(ts.Dirichlet(0.0), name="line")
    return ts.solve(problem, subdomains=4, features=8, solver=ts.LSQR())


def wall(p: jax.Array) -> jax.Array:
    return p[:, 0] * (1 - p[:, 0])


def start(p: jax.Array) -> jax.Array:
    return 1 + jnp.sin(p[:, 0])


@pytest.fixture(scope="session")
def hard_problem() -> ts.Problem:
    """u(0) and u(1) built in: u = (1 + sin x) + x (1 - x) v."""
    return ts.Problem(
        LINE, ts.Equation(ADVECTION, 1.0), ansatz=ts.Ansatz(wall, start), name="hard constraints"
    )


@pytest.fixture(scope="session")
def hard_solution(hard_problem: ts.Problem) -> ts.Solution:
    return ts.solve(hard_problem, subdomains=4, features=8, solver=ts.LSQR())


@pytest.fixture(scope="session")
def combination() -> Callable[..., ts.Solution]:
    """Any function in the span of a basis, as a `Solution` that was never solved for."""
    report = Report("combination", 0, "", "", 1, 1, 1, 0, "", "", {})

    def make(problem: ts.Problem, basis: ts.Basis, coefficients: np.ndarray) -> ts.Solution:
        return ts.Solution(problem, basis, coefficients, report, History())

    return make


@pytest.fixture(scope="session")
def square_solution() -> ts.Solution:
    """Poisson's equation on the unit square, u = sin(pi x) sin(pi y), soft boundary values."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.sin(np.pi * p[:, 0]) * np.sin(np.pi * p[:, 1])

    problem = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        ts.Equation(-ts.Laplacian(), lambda p: 2 * np.pi**2 * exact(p)),
        [ts.Dirichlet(0.0)],
        exact=exact,
        name="square",
    )
    return ts.solve(problem, subdomains=2, features=24, solver=ts.LSQR(max_iterations=200))


SLOW = (
    *("examples", "krylov_family", "device_cells", "multilevel", "reproduction", "networks"),
    *("graded", "nested_qr", "cli", "solvers", "features_basis", "systems", "cut_cells"),
    *("site", "stepping", "shared_overlap", "parametric", "interrupted", "readme"),
)


def pytest_configure(config):
    """Files go to workers in the order below, not by how many tests they have."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """The slowest files first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in SLOW)
