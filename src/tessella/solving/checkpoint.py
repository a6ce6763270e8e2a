"""Finished steps of a refinement and finished slabs of a march in a folder, to go on from.

Every step or slab is a file of its own, written whole, so that a kill at any moment loses what was
under way and nothing else. The folder says which problem and which choices it belongs to; those of
another one are refused. Of several processes the first one writes and reads.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tessella.accuracy.held_out import held_out
from tessella.linalg.iterative.iteration import History
from tessella.machine import archive, processes
from tessella.machine.archive import DamagedError
from tessella.machine.arguments import as_path
from tessella.machine.arrays import Array
from tessella.machine.schema import as_type
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import AnyBasis
from tessella.problem.conditions import IntegralCondition
from tessella.problem.linearised import typical
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied
from tessella.solution.files import LARGEST_COEFFICIENT
from tessella.solution.report import Report
from tessella.solution.solution import Solution
from tessella.solution.stored_problem import describe_problem, probe
from tessella.solving.method import Method
from tessella.solving.plan import Plan

VERSION = 1
FOLDER, RECORD = "checkpoint folder", "finished part"

FREE = ("patience", "test_grid")
"""Choices that may change from run to run."""

SAME = 1e-9
"""Relative difference of numbers that are called the same."""


class Record(NamedTuple):
    """What is known of a step or slab: some words and numbers, and arrays."""

    header: dict[str, Any]
    arrays: dict[str, Array]

    def solution(self, problem: Problem, basis: AnyBasis, name: str = "") -> Solution:
        """The solution that `of_solution` took apart."""
        coefficients = self.arrays[f"{name}coefficients"]
        if coefficients.shape != (basis.columns,) or not np.all(
            np.abs(coefficients) <= LARGEST_COEFFICIENT
        ):
            raise DamagedError(
                f"a checkpoint has {len(coefficients):,} coefficients where {basis.columns:,} "
                f"finite ones belong: delete its folder to start afresh"
            )
        each = (self.arrays[f"{name}history_{own.name}"] for own in dataclasses.fields(History))
        report = Report.from_saved(self.header[f"{name}report"])
        return Solution(problem, basis, coefficients, report, History(*each))


def of_solution(solution: Solution, name: str = "") -> Record:
    """A solution without problem and basis, which are made again."""
    header = {f"{name}report": dataclasses.asdict(solution.report)}
    arrays = {
        f"{name}history_{own.name}": np.asarray(getattr(solution.history, own.name), dtype=float)
        for own in dataclasses.fields(History)
    }
    return Record(header, {f"{name}coefficients": solution.whole().coefficients, **arrays})


@dataclass(frozen=True)
class Checkpoint:
    """A folder of records, by number."""

    folder: Path
    prefix: str = ""

    def within(self, name: str) -> Checkpoint:
        """Records of their own in the same folder."""
        return Checkpoint(self.folder, f"{self.prefix}{name}-")

    def read(self, number: int) -> Record | None:
        """The record that has been kept under this number, if there is one that can be read; what
        cannot is made again."""
        return _told(self._file(number), RECORD, lenient=True)

    def write(self, number: int, *parts: Record) -> None:
        header = {key: value for part in parts for key, value in part.header.items()}
        arrays = {key: value for part in parts for key, value in part.arrays.items()}
        _write(self._file(number), RECORD, Record(header, arrays))

    def _file(self, number: int) -> Path:
        return self.folder / f"{self.prefix}{number:05d}.npz"


def _write(path: Path, kind: str, record: Record) -> None:
    with processes.in_unison("checkpoint"):
        if processes.index() == 0:
            archive.write(path, kind, VERSION, record.header, **record.arrays)


def _told(path: Path, kind: str, lenient: bool = False) -> Record | None:
    """What process 0 finds in a file."""
    found: Record | None = None
    with processes.in_unison("checkpoint"):
        if processes.index() == 0 and path.exists():
            try:
                found = _read(path, kind)
            except ValueError:
                if not lenient:
                    raise
    if processes.alone():
        return found
    said = b"" if found is None else json.dumps([found.header, list(found.arrays)]).encode()
    head = processes.told("record", np.frombuffer(said, dtype=np.uint8))
    if not len(head):
        return None
    header, names = json.loads(head.tobytes())
    arrays = {n: processes.told(n, found.arrays[n] if found else np.zeros(0)) for n in names}
    return Record(header, arrays)


def _read(path: Path, kind: str) -> Record:
    with archive.opened(path, kind, VERSION) as file:
        names = [name for name in file.members if name not in ("header", "digest")]
        arrays = {n: file.array(n, file.shape(n), np.nan) for n in names}
        return Record(file.header, arrays)


def opened(
    folder: str | Path | None,
    door: str,
    problem: Problem,
    method: Method,
    start: Applied | None = None,
    **more: Any,
) -> Checkpoint | None:
    """A folder for the finished parts of this solve: a new one, or one that an earlier run of the
    same has left."""
    if folder is None:
        return None
    path = as_path(folder, "checkpoint")
    about = json.loads(json.dumps(_about(door, problem, method, more), default=str))
    numbers = _numbers(problem, start)
    with processes.in_unison("checkpoint"):
        if processes.index() == 0:
            if path.exists() and not path.is_dir():
                raise ValueError(f"checkpoint={str(path)!r} is a file: name a folder")
            path.mkdir(parents=True, exist_ok=True)
    index = path / "checkpoint.npz"
    known = _told(index, FOLDER)
    if known is None:
        _write(index, FOLDER, Record({"about": about}, {"numbers": numbers}))
    else:
        _check(path, known, about, numbers)
    return Checkpoint(path)


def _check(path: Path, known: Record, about: dict[str, Any], numbers: Array) -> None:
    afresh = "name another folder, or delete it to start afresh"
    stored = as_type(dict[str, Any], known.header.get("about"), "about")
    for key in dict.fromkeys((*about, *stored)):
        if stored.get(key) != about.get(key):
            raise ValueError(
                f"the checkpoint {path} belongs to something else: its {key} is "
                f"{stored.get(key)!r}, and now {about.get(key)!r}: {afresh}"
            )
    found = known.arrays["numbers"]
    same = found.shape == numbers.shape and bool(
        np.all(np.abs(found - numbers) <= SAME * numbers[:, 1:])
    )
    if not same:
        raise ValueError(
            f"the checkpoint {path} belongs to another problem (its equations, data or start have "
            f"other values): {afresh}"
        )


def _about(door: str, problem: Problem, method: Method, more: Mapping[str, Any]) -> dict[str, Any]:
    described = describe_problem(problem)
    ansatz = {name: dataclasses.asdict(own) for name, own in described.pop("ansatz").items()}
    choices = {
        name: re.sub(r" at 0x[0-9a-f]+", "", repr(value))
        for name, value in method.given.items()
        if name not in FREE
    }
    statements = [own.name for own in (*problem.equations, *problem.conditions)]
    return {
        "door": door,
        **described,
        "ansatz": ansatz,
        "statements": statements,
        **choices,
        **more,
    }


def _numbers(problem: Problem, start: Applied | None) -> Array:
    """Of every coefficient, datum and start at some points its weighted sum, and that of its size:
    numbers that tell problems apart, (n, 2)."""
    linear = typical(problem)
    tables = [*probe(problem)]
    for part in held_out(linear, peaked=False):
        source, x = part.source, part.points
        for name in linear.fields:
            symbol = linear.symbol(source.operator, x, part.normals, name)
            tables += [symbol[alpha] for alpha in sorted(symbol)]
        given = source.number if isinstance(source, IntegralCondition) else source.values(x)
        tables.append(np.broadcast_to(given, len(x)))
        if start is not None and part.normals is None:
            tables += [start.apply(problem.unknown(name), x) for name in problem.unknowns]
    weights = [2 + np.cos(np.arange(len(table))) for table in tables]
    pairs = zip(tables, weights, strict=True)
    return np.array([(float(c @ w), float(np.abs(c) @ w)) for c, w in pairs])


Engine = Callable[[Problem, Plan], Solution]
"""Solves the problem with a plan."""


class Took(NamedTuple):
    """Seconds of an earlier run."""

    compile: float = 0.0
    total: float = 0.0


@dataclass
class Keeping:
    """An engine whose solutions are kept, and found again by another run that asks for the same."""

    engine: Engine
    checkpoint: Checkpoint
    basis_of: Callable[[Problem, Plan], AnyBasis]
    again: Callable[[Problem, Solution], Solution]
    """What the engine would have made of a solution that is found again."""
    number: int = 0
    earlier: Took = field(default_factory=Took)
    """What an earlier run has spent on the last solution."""

    def __call__(self, problem: Problem, plan: Plan) -> Solution:
        self.number, self.earlier = self.number + 1, Took()
        record = self.checkpoint.read(self.number)
        if record is not None and record.header["plan"] == plan.described:
            self.earlier = Took(*record.header["took"])
            return self.again(problem, record.solution(problem, self.basis_of(problem, plan)))
        watch = Stopwatch()
        solution = self.engine(problem, plan)
        took = watch.total()
        about = {"plan": plan.described, "took": Took(took["compile"], took["total"])}
        self.checkpoint.write(self.number, Record(about, {}), of_solution(solution))
        return solution
