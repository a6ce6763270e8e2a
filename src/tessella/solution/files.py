"""Solutions and factors on disk: one .npz file of plain arrays with a JSON header; no pickle.
Coefficients that several processes have are in files of their own beside it (`stored_parts`).

The arrays are everything the solution needs to be evaluated (decomposition, feature weights,
coefficients). Functions cannot be stored: a solution whose problem has an ansatz made of functions
needs the problem again when it is loaded, and one with enrichment its functions; the file carries a
few values of each to tell whether they are the same.

Nothing of a file is believed: the header is checked against the dataclasses below before anything
is built, and what it says bounds what is read.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tessella.features.enrichment import Enrichment, Functions, as_enrichment
from tessella.features.random_features import Activation
from tessella.linalg.iterative.iteration import History
from tessella.machine import archive
from tessella.machine.archive import Archive
from tessella.machine.arguments import as_path
from tessella.machine.arrays import Array
from tessella.machine.schema import as_type
from tessella.overlap.basis import Basis, per_field
from tessella.problem.hard import stated
from tessella.problem.problem import Problem
from tessella.problem.slabs import slab_problem, until
from tessella.solution.marched import Marched, MarchReport
from tessella.solution.report import Report
from tessella.solution.solution import Solution
from tessella.solution.stored_basis import StoredLevel, arrays_of, basis_of, describe_level
from tessella.solution.stored_parts import (
    LARGEST_COEFFICIENT,
    StoredPart,
    owners_of,
    read_parts,
    write_parts,
    written_after,
)
from tessella.solution.stored_problem import (
    StoredProblem,
    describe_problem,
    has_ansatz_of,
    probe,
    problem_of,
)

if TYPE_CHECKING:
    from tessella.solving.factor import FactoredProblem

VERSION = 3
SOLUTION, MARCH, FACTORS = "solution", "march", "factors"


@dataclass(frozen=True, kw_only=True)
class StoredOnBasis(StoredProblem):
    """A problem with the basis that it is solved in."""

    levels: tuple[StoredLevel, ...]


@dataclass(frozen=True, kw_only=True)
class StoredSolution(StoredOnBasis):
    """The header of a solution's file."""

    report: dict[str, Any]
    parts: tuple[StoredPart, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StoredMarch(StoredProblem):
    """The header of a march's file."""

    slabs: tuple[StoredSolution, ...]
    report: dict[str, Any]
    parts: tuple[StoredPart, ...] = ()


def save(solution: Solution, path: str | Path) -> Path:
    """Write atomically: a reader sees the old solution or the whole new one."""
    return _written(named(path), SOLUTION, _describe(solution), {"": solution})


def save_march(marched: Marched, path: str | Path) -> Path:
    """All slabs of a march in one file, written like a solution."""
    stored = StoredMarch(
        **describe_problem(marched.problem),
        slabs=tuple(_describe(slab) for slab in marched.slabs),
        report=dataclasses.asdict(marched.report),
    )
    return _written(
        named(path), MARCH, stored, {_slab(k): slab for k, slab in enumerate(marched.slabs)}
    )


def _written(
    target: Path,
    kind: str,
    stored: StoredSolution | StoredMarch,
    slabs: dict[str, Solution],
) -> Path:
    """Solutions by the prefixes of their arrays; the files of processes before the index."""
    parts = write_parts(target, slabs)
    header = dataclasses.asdict(dataclasses.replace(stored, parts=parts))
    arrays = {
        f"{prefix}{name}": array
        for prefix, slab in slabs.items()
        for name, array in _arrays(slab).items()
    }
    with written_after(target, parts) as mine:
        if mine:
            archive.write(target, kind, VERSION, header, **arrays)
    return target


def load(
    path: str | Path,
    problem: Problem | None = None,
    activation: Activation | None = None,
    enrichment: Functions = (),
) -> Solution | Marched | FactoredProblem:
    """Read a solution, a march or a factored problem back, by the name it was saved under.

    `problem` is needed when the ansatz is made of functions and the problem is not in the gallery;
    without it the loaded solution can be evaluated and differentiated, but knows no equation, and a
    factored problem solves for all data, but its solutions know no equation either.
    `activation` is needed when the features used an activation of your own, and `enrichment` when
    the basis had any: the same functions in the same order, unknown by unknown and level by level
    if there are several.

    What several processes saved lies in several files, which stay in one folder. It is loaded by
    one process, or by any number of them, each its share.

    A file that is damaged, or has changed since it was written, is refused.

    >>> import tempfile
    >>> import tessella as ts
    >>> problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> solution = ts.solve(problem, subdomains=2, features=16)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = ts.load(solution.save(f"{folder}/line.npz"))
    >>> bool((again([0.2, 0.7]) == solution([0.2, 0.7])).all())
    True
    """
    given = as_path(path)
    target = given if given.exists() else named(given)
    with archive.opened(target, SOLUTION, VERSION, MARCH, FACTORS) as file:
        if file.kind == FACTORS:
            from tessella.solving import stored_factors

            return stored_factors.read(file, problem, activation, enrichment)
        read = _read_march if file.kind == MARCH else _read_solution
        kind = StoredMarch if file.kind == MARCH else StoredSolution
        with file.read_as("header"):
            stored = as_type(kind, file.header, "it")
        return read(stored, file, problem, activation, enrichment)


def named(path: str | Path) -> Path:
    """The file that a solution is saved in under this name."""
    target = as_path(path)
    return target if target.suffix == ".npz" else target.with_name(target.name + ".npz")


def _slab(k: int) -> str:
    return f"slab{k}_"


def _describe(solution: Solution) -> StoredSolution:
    return StoredSolution(
        **describe_problem(solution.problem),
        levels=tuple(describe_level(level) for level in _levels(solution)),
        report=dataclasses.asdict(solution.report),
    )


def _levels(solution: Solution) -> list[Basis]:
    """All bases, unknown after unknown."""
    each = per_field(solution.basis, solution.problem.fields)
    return [level for own in each for level in own.levels]


def _arrays(solution: Solution) -> dict[str, Array]:
    history = {
        f"history_{field.name}": getattr(solution.history, field.name)
        for field in dataclasses.fields(History)
    }
    parted = solution.parted
    own = {"coefficients": solution.coefficients} if parted is None else owners_of(parted)
    return {
        **own,
        "ansatz_probe": probe(solution.problem),
        **history,
        **arrays_of(_levels(solution), solution.problem.domain),
    }


def _read_solution(
    stored: StoredSolution,
    file: Archive,
    problem: Problem | None,
    activation: Activation | None,
    enrichment: Functions,
    prefix: str = "",
) -> Solution:
    with file.read_as("report"):
        report = Report.from_saved(stored.report)
    problem = problem_of(stored, file, problem, report.preset)
    functions = functions_of(stored, as_enrichment(enrichment, problem.domain), report.preset, file)
    basis = basis_of(stored.levels, file, problem.domain, problem.fields, activation, functions)
    parted = None
    if "owners_0" in file.members:
        levels = [one for own in per_field(basis, problem.fields) for one in own.levels]
        coefficients, parted = read_parts(file, prefix, stored.parts, levels)
    else:
        coefficients = file.array("coefficients", (basis.columns,), LARGEST_COEFFICIENT)
    if not has_ansatz_of(problem, file):
        raise ValueError(
            f"{file.path} was solved with another ansatz than the given problem has: pass the "
            f"problem it was solved for"
        )
    return Solution(problem, basis, coefficients, report, _history(file), parted)


def _read_march(
    stored: StoredMarch,
    file: Archive,
    problem: Problem | None,
    activation: Activation | None,
    enrichment: Functions,
) -> Marched:
    """Every slab again starts where the one before it ends."""
    with file.read_as("report"):
        report = MarchReport.from_saved(stored.report)
    if len(report.slabs) != len(stored.slabs):
        raise file.damaged(f"{len(stored.slabs)} slabs, but figures of {len(report.slabs)}")
    end = report.slabs[-1].end

    def shortened(problem: Problem) -> Problem:
        return until(problem, end) if report.stopped_early else problem

    whole = problem_of(stored, file, problem, report.preset, shortened)
    with file.read_as("slabs"):
        whole = until(whole, end)
        start, _ = whole.domain.bounds[whole.domain.axis_index("t")]
    if not has_ansatz_of(whole, file.within(_slab(0))):
        whole = stated(whole) or whole
    slabs: list[Solution] = []
    for k, own in enumerate(stored.slabs):
        bounds = (report.slabs[k - 1].end if k else start, report.slabs[k].end)
        with file.read_as("slabs"):
            part = slab_problem(whole, bounds, slabs[-1] if slabs else None)
        own, arrays = dataclasses.replace(own, parts=stored.parts), file.within(_slab(k))
        slabs.append(_read_solution(own, arrays, part, activation, enrichment, _slab(k)))
    return Marched(whole, tuple(slabs), report)


def _history(file: Archive) -> History:
    names = [field.name for field in dataclasses.fields(History)]
    arrays = [file.array(f"history_{name}", (None,), math.nan) for name in names]
    steps = len(arrays[0])
    if any(len(own) not in (0, steps) for own in arrays):
        raise file.damaged(f"its history has the lengths {[len(own) for own in arrays]}")
    return History(*arrays)


def functions_of(
    stored: StoredOnBasis, given: tuple[Enrichment, ...], preset: str | None, file: Archive
) -> tuple[Enrichment, ...]:
    """The enrichment of all levels, as many as were stored."""
    names = [one.name for level in stored.levels for one in level.enrichment]
    from tessella import gallery

    if not given and preset and stored.problem in gallery.ENTRIES:
        with file.read_as("parameters"):
            entry = gallery.get(stored.problem)
            found = entry.preset(preset).enrichment_of(stored.parameters)
        given = found[: len(names)]
    if len(given) != len(names):
        raise ValueError(
            f"{file.path} has {len(names)} enrichment functions ({', '.join(names) or 'none'}), "
            f"which a file cannot hold, and {len(given)} are given: load(path, enrichment=[...])"
        )
    return given
