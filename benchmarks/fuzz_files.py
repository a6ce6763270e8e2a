"""Solution files, checkpoints and records with one thing changed at random.

Every outcome must be the solution that was saved, or a ValueError or OSError that names the file.
Where a change was sealed with digests that fit, or the version had none, the file may also be
another one that makes sense: then everything it answers is finite. Nothing may hang or take memory.
"""

from __future__ import annotations

import json
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np

import tessella as ts
from benchmarks.mutations import mutated, mutated_lines
from tessella.networks.checkpoint import describe_training, load_checkpoint, save_checkpoint
from tessella.networks.fit import least_squares
from tessella.networks.network import initial_parameters
from tessella.networks.training import begin, train
from tessella.reproduction import Store
from tessella.reproduction.compare import compare

SEED = 20_261_116
SLOW = 10
"""Seconds after which a file counts as a hang."""

POINTS = 12


def _line() -> ts.Problem:
    equation = ts.Equation(-ts.D(x=2), 2.0)
    return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)], name="line")


Kept = ts.Solution | ts.Marched | ts.FactoredProblem


def solutions() -> Iterator[tuple[str, Kept]]:
    """One of every kind that a file can hold."""
    line = _line()
    yield "overlap", ts.solve(line, subdomains=4, features=6)
    fine = ts.Basis(ts.Decomposition(line.domain, 4), ts.RandomFeatures(4, depth=2), seed=5)
    yield "levels", ts.solve(line, basis=ts.Multilevel.pyramid(fine))
    square = ts.Box(x=(0, 1), y=(0, 1))
    poisson = ts.Problem(square, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
    cells = {"features": 20, "coupling": "interfaces"}
    yield "cells", ts.solve(poisson, subdomains=([0, 0.3, 1], 2), **cells)
    boxes = ts.Tiling(square, 2).refined([3])
    features = ts.RandomFeatures(20, activation="sin", scale=2.0)
    yield "cut cells", ts.solve(poisson, basis=ts.CellBasis(boxes, features))
    shape = ts.Box(x=(-1, 1), y=(-1, 1)) - ts.Ball(x=0, y=0, radius=0.3, name="hole")
    shape = (shape & ts.HalfSpace(x=0.8, y=0.8, normal=(1, 1))).named("rim")
    yield "shape", ts.solve(_poisson_on(shape), subdomains=3, features=8)
    triangle = ts.Polygon([(0, 0), (2, 0), (0, 1)], holes=[[(0.2, 0.2), (0.4, 0.2), (0.2, 0.4)]])
    yield "polygon", ts.solve(_poisson_on(triangle), subdomains=2, features=8)
    angle = 2 * np.pi * np.arange(24) / 24
    rim = np.column_stack([np.cos(angle), np.sin(angle)])
    cloud = ts.PointCloud(0.6 * np.random.default_rng(0).uniform(-1, 1, (30, 2)), rim, rim)
    yield "cloud", ts.solve(_poisson_on(cloud), subdomains=1, features=12)
    divided = ts.Divided(square, core=ts.Ball(x=0.5, y=0.5, radius=0.3))
    joined = [ts.Dirichlet(0.0), *ts.Transmission("core", "rest")]
    problem = ts.Problem(divided, ts.Equation(ts.Laplacian(), 1.0), joined)
    yield "divided", ts.solve(problem, subdomains=2, features=10)
    yield "system", ts.solve(_system(), subdomains=3, features=8)
    heat = ts.Equation(ts.D(t=1) - ts.D(x=2), 0.0)
    start = [ts.Periodic("x"), ts.Initial(lambda p: np.sin(2 * np.pi * p[:, 0]))]
    ring = ts.Problem(ts.Box(x=(0, 1), t=(0, 1)), heat, start)
    yield "periodic", ts.solve(ring, subdomains=(3, 2), features=8)
    small = {"n": 1, "subdomains": 2, "features": 6}
    yield "gallery", ts.gallery.get("laplace").solve(settings=small, solver="nested-qr")
    yield "tolerance", ts.solve(poisson, tol=1e-2)
    decay = ts.Problem(ts.Box(t=(0, 4)), ts.Equation(ts.D(t=1) + 1.0, 0.0), [ts.Initial(1.0)])
    yield "march", ts.march(decay, 3, subdomains=2, features=12, coupling="interfaces")
    yield "factors of cells", ts.factor(poisson, subdomains=2, **cells)
    yield "factors of a shape", ts.factor(_poisson_on(shape), subdomains=3, **cells)
    yield "factors of windows", ts.factor(poisson, subdomains=2, features=20)


def _poisson_on(domain: Any) -> ts.Problem:
    return ts.Problem(domain, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])


def _system() -> ts.Problem:
    u, v = ts.Field("u"), ts.Field("v")
    equations = [ts.Equation(ts.D(x=1) @ u - v, 0.0), ts.Equation(ts.D(x=1) @ v + u, 0.0)]
    start = [ts.Condition(u, 1.0, on="xmin"), ts.Condition(v, 0.0, on="xmin")]
    return ts.Problem(ts.Box(x=(0, 1)), equations, start)


Answers = tuple[bytes, str]
"""All that is asked of a solution: its values, and its report."""


def answers(solution: Kept, folder: Path) -> Answers:
    """Everything a user may do with a loaded solution, and what it says."""
    if isinstance(solution, ts.FactoredProblem):
        solution.save(folder / "again.npz")
        found = answers(solution.solve(2.0), folder)
        return found[0], repr(solution)
    domain = solution.problem.domain
    points = domain.scatter(POINTS, np.random.default_rng(3))
    found = [np.ravel(solution(points))]
    slope = ts.D(**{domain.axes[0]: 1})
    names = solution.problem.fields
    found += [solution.apply(slope @ solution.problem.unknown(n), points) for n in names[:1]]
    values = np.concatenate(found)
    if not np.all(np.isfinite(values)):
        raise AssertionError("values are not finite")
    solution.save(folder / "again.npz")
    return values.tobytes(), str(solution) + json.dumps(solution.report.to_json())


@contextmanager
def in_time() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"more than {SLOW} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SLOW)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judged(use: Callable[[], Any], right: Any, target: Path, free: bool) -> tuple[str, str]:
    """What became of a changed file: read, refused, or one of the ways to fail. `free` files may
    say something else than before."""
    try:
        with in_time():
            found = use()
    except (ValueError, OSError) as error:
        if str(target) in str(error):
            return "refused", ""
        kind = (
            "refused, evaluated" if free and "points in no subdomain" in str(error) else "no name"
        )
        return kind, f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever it is, it is what we look for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return "other exception", f"{type(error).__name__}: {str(error)[:200]} ({where})"
    if found == right:
        return "read", ""
    return ("read as another", "") if free else ("changed unnoticed", "")


GOOD = ("read", "refused", "read as another", "refused, evaluated", "right answer")

Row = dict[str, Any]


def _row(what: str, number: int, done: tuple[str, ...], outcome: tuple[str, str]) -> Row:
    words = (what, number, " ".join(done), *outcome)
    return dict(zip(("what", "number", "change", "outcome", "why"), words, strict=True))


def failures(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["outcome"] not in GOOD]


def solution_files(count: int, seed: int = SEED) -> list[Row]:
    """Every kind of solution file, changed in every way."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, made = Path(name), []
        for kind, solution in solutions():
            path = solution.save(folder / f"{kind}.npz")
            made.append((kind, path, answers(ts.load(path), folder)))
        target = folder / "changed.npz"
        for number in range(count):
            kind, path, right = made[number % len(made)]
            done = mutated(path, target, np.random.default_rng([seed, number]))
            outcome = judged(
                lambda: answers(ts.load(target), folder), right, target, done[1] != "plain"
            )
            rows.append(_row("solution", number, (kind, *done), outcome))
    return rows


def checkpoints(count: int, seed: int = SEED) -> list[Row]:
    """The state of a small training, read again after a change."""
    problem = _line()
    basis = ts.Basis(ts.Decomposition(problem.domain, 2), ts.RandomFeatures(4))
    objective, _, _ = least_squares(problem, basis, ts.Grid(2.0).rows(problem, basis))
    about, fresh = describe_training(problem, basis), begin(initial_parameters(basis))
    training = ts.Training(steps=5)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path, target = Path(name) / "right.npz", Path(name) / "changed.npz"

        def keep(state: Any, history: Any) -> None:
            save_checkpoint(path, about, objective, state, history)

        def read(file: Path) -> bytes:
            state, history = load_checkpoint(file, about, objective, fresh)
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
            if any(np.any(np.isnan(leaf)) for leaf in leaves):
                raise AssertionError("the state is not finite")
            return b"".join(leaf.tobytes() for leaf in [*leaves, history])

        train(objective, fresh, training, keep=keep)
        right = read(path)
        for number in range(count):
            done = mutated(path, target, np.random.default_rng([seed, 1, number]))
            outcome = judged(lambda: read(target), right, target, done[1] != "plain")
            rows.append(_row("checkpoint", number, done, outcome))
    return rows


RECORDS = Path(__file__).resolve().parent.parent / "results"


def records(count: int, seed: int = SEED) -> list[Row]:
    """The records of a table, compared with the paper after a change of one file."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name))
        for experiment in ("table1", "seconds1"):
            for line in Store(RECORDS).records(experiment).values():
                store.write(line)
        path = store.path("table1")
        content, right = path.read_bytes(), store.records("table1")
        for number in range(count):
            random = np.random.default_rng([seed, 2, number])
            changed, way = mutated_lines(content, random)
            path.write_bytes(changed)
            outcome = judged(partial(_compared, store, right, way), True, path, False)
            rows.append(_row("record", number, ("table1", way), outcome))
    return rows


def _compared(store: Store, right: dict[Any, Any], way: str) -> bool:
    """Whether all records that are left are as they were, and a table can be made of them."""
    found = store.records("table1")
    compare(store, 1)
    return way != "plain" or all(right.get(key) == own for key, own in found.items())
