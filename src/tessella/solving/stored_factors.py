"""Factored problems in files: the factors themselves, so that loading costs reading, not factoring.

A solve asks for other data at points that are known, so the file needs neither the equations nor
the functions in them; what it says of a problem is what a solution's file says. Values for the
problem's own data are stored too: factors that do not find them again are refused.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tessella.cells import kept as cells
from tessella.cells.cell.sizes import operator_sizes
from tessella.cells.factors import CellFactors
from tessella.features.enrichment import Functions, as_enrichment
from tessella.features.random_features import Activation
from tessella.linalg.block_matrix import BlockMatrix, Group, Lookup
from tessella.linalg.direct.dense_qr import FrontFactor, Householder, Staircase, Step
from tessella.linalg.direct.elimination import Elimination, Front
from tessella.linalg.direct.factorisation import Factorisation, HostFactors
from tessella.linalg.direct.wide import WideFactorisation
from tessella.linalg.iterative.deflation import Deflated
from tessella.linalg.iterative.normal_equations import NormalEquations
from tessella.linalg.iterative.schwarz import SchwarzSystem
from tessella.linalg.preconditioners import TriangularBlocks, TriangularGroup, Unpreconditioned
from tessella.linalg.row_matrix import RowMatrix
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import SOLVERS
from tessella.machine import archive, processes
from tessella.machine.archive import Archive
from tessella.machine.arrays import Array
from tessella.machine.packing import Packed, known_as, pack, unpack
from tessella.machine.schema import as_type
from tessella.overlap.basis import AnyBasis, Basis, per_field
from tessella.overlap.points import Grid
from tessella.overlap.system import Bordered, LeastSquares, Reduced, Total
from tessella.problem.conditions import IntegralCondition
from tessella.problem.problem import Problem
from tessella.solution.files import FACTORS, VERSION, StoredOnBasis, functions_of, named
from tessella.solution.report import Report
from tessella.solution.solution import Solution
from tessella.solution.stored_basis import arrays_of, basis_of, describe_level
from tessella.solution.stored_problem import describe_problem, has_ansatz_of, probe, problem_of
from tessella.solving.ways import Factored, Factors, Parts

if TYPE_CHECKING:
    from tessella.solving.factor import FactoredProblem

TRIED = 24
"""Points at which a solution is compared with the one that was stored."""

SAME = 1e-6
"""Difference that another processor's rounding may make, in parts of the largest value."""


MISSED = 30.0
"""By this factor a mean over the points of rows may differ from the residual, whose rows are
weighed."""


class StoredStatement(NamedTuple):
    """What may be given as data of a statement: a "function" (or number), the "readings" at its
    points, or the number that an "integral" has."""

    name: str
    word: str
    kind: str
    equation: bool


@dataclass(frozen=True, kw_only=True)
class StoredFactors(StoredOnBasis):
    """The header of a file of factors."""

    asked: tuple[tuple[str, str, str, bool], ...]
    """A `StoredStatement` each."""
    seconds: dict[str, float]
    refined: dict[str, Any] | None
    tree: dict[str, Any]


class Blocks(NamedTuple):
    """What solves an overlapping system for right-hand sides (see `Factored`)."""

    system: LeastSquares
    reduced: Reduced
    filter: RRQR | Unfiltered
    solver: Any
    state: Any
    note: str


class Contents(NamedTuple):
    """What is kept of a factored problem beside problem and basis."""

    factors: Any
    collocation: Grid
    filter: RRQR | Unfiltered


CLASSES = known_as(
    (
        *cells.CLASSES, *SOLVERS.values(), BlockMatrix, Blocks, Bordered, Contents, Deflated,
        Elimination, Factorisation, Front, FrontFactor, Grid, Group, HostFactors, Householder,
        LeastSquares, Lookup, NormalEquations, RRQR, Reduced, SchwarzSystem, Staircase, Step, Total,
        TriangularBlocks, TriangularGroup, Unfiltered, Unpreconditioned, WideFactorisation,
    )
)  # fmt: skip
"""All that factors in a file are made of."""


def packed(factored: FactoredProblem) -> Packed:
    """The factors as arrays, most of them as they lie in memory."""
    ready, parts = factored.ready, factored.parts
    contents = Contents(_bare(ready), parts.collocation, parts.filter)
    return pack(contents, CLASSES, _given(_levels(parts.basis, factored.problem)))


def save(factored: FactoredProblem, path: str | Path) -> Path:
    """Write atomically: a reader sees the old file or the whole new one."""
    _check_alone("saved")
    target, problem = named(path), factored.problem
    levels = _levels(factored.parts.basis, problem)
    tree, arrays = packed(factored)
    header = StoredFactors(
        **describe_problem(problem),
        levels=tuple(describe_level(level) for level in levels),
        asked=factored.asked,
        seconds=factored.seconds,
        refined=None if factored.refined is None else dataclasses.asdict(factored.refined),
        tree=tree,
    )
    where = problem.domain.scatter(TRIED, np.random.default_rng(0))
    archive.write(
        target, FACTORS, VERSION, dataclasses.asdict(header),
        ansatz_probe=probe(problem),
        tried_points=where,
        tried_values=_values(factored.as_factored(), where),
        **arrays,
        **arrays_of(levels, problem.domain),
    )  # fmt: skip
    return target


def read(
    file: Archive, problem: Problem | None, activation: Activation | None, enrichment: Functions
) -> FactoredProblem:
    """A file's factored problem, tried before it is handed out."""
    from tessella.solving.factor import FactoredProblem, statements

    _check_alone("loaded")
    with file.read_as("header"):
        stored = as_type(StoredFactors, file.header, "it")
        asked = tuple(StoredStatement(*own) for own in stored.asked)
        refined = None if stored.refined is None else Report.from_saved(stored.refined)
    preset = None if refined is None else refined.preset
    given, problem = problem, problem_of(stored, file, problem, preset)
    functions = functions_of(stored, as_enrichment(enrichment, problem.domain), preset, file)
    basis = basis_of(stored.levels, file, problem.domain, problem.fields, activation, functions)
    if not has_ansatz_of(problem, file) or (given is not None and statements(given) != asked):
        names = ", ".join(own.name for own in asked)
        raise _of_another(file, f"one with another ansatz, or whose statements are not {names}")
    with file.read_as("factors"):
        given_ones = _given(_levels(basis, problem))
        contents = unpack(stored.tree, file, CLASSES, given_ones, cells.LATER)
        if not isinstance(contents, Contents):
            raise ValueError("there are none")
        ready = _ready(contents.factors)
    parts = Parts(basis, contents.collocation, contents.filter, ready.solver)
    factored = FactoredProblem(problem, parts, ready, stored.seconds, refined, asked)
    solution = _tried(factored, file)
    if given is not None:
        _compare(solution, factored, file)
    return factored


def _check_alone(what: str) -> None:
    if not processes.alone():
        raise ValueError(f"factors are {what} by a single process: run the script in one")


def _of_another(file: Archive, what: str) -> ValueError:
    return ValueError(
        f"{file.path} was factored for another problem than the given one, {what}: pass the "
        f"problem as it was factored, and other data to solve()"
    )


def _tried(factored: FactoredProblem, file: Archive) -> Solution:
    """The solution for the data that factors came with, which they must find again."""
    domain = factored.problem.domain
    where = file.array("tried_points", (None, domain.dimension))
    shape = file.shape("tried_values")
    wanted = file.array("tried_values", shape)
    try:
        _check_places(factored)
        with np.errstate(all="ignore"):
            solution = factored.as_factored()
            found = _values(solution, where)
    except Exception as error:  # whatever numbers that make no sense lead to
        raise file.damaged(f"its factors cannot solve ({error})") from None
    if not np.all(np.isfinite(list(solution.report.residual.values()))):
        raise file.damaged("its statements have no finite residual")
    size = float(np.max(np.abs(wanted), initial=0.0))
    if found.shape != shape or not np.max(np.abs(found - wanted), initial=0.0) <= SAME * size:
        raise file.damaged("its factors do not find the solution they were stored with")
    return solution


def _compare(solution: Solution, factored: FactoredProblem, file: Archive) -> None:
    """Refuse a problem with other data, or with operators that miss them by more than was left."""
    right, problem = factored.ready.system.right, factored.problem
    k = 1 / (problem.domain.upper - problem.domain.lower)
    large = float(np.max(np.abs(file.array("tried_values", file.shape("tried_values")))))
    for own in factored.ready.data():
        statement = next(s for s in problem.statements if s.name == own.name)
        left = slack = 0.0
        if isinstance(statement, IntegralCondition):
            given = np.array([statement.number])
        else:
            given = statement.values(own.points)
            missed = statement.defect(solution, own.points, own.normals)
            left = float(np.sqrt(np.mean(missed**2)))
            each = operator_sizes(problem, statement.operator, own.points, own.normals, k)
            slack = SAME * max(large * float(np.max(each)), float(np.max(np.abs(given))))
        asked = (given if own.which is None else given[own.which]) - own.lift
        size = float(np.max(np.abs(asked), initial=0.0))
        if not np.allclose(asked * own.scale, right[own.at], 1e-9, 1e-9 * size * own.scale.max()):
            raise _of_another(file, f"whose data of {own.name!r} are others")
        if left > MISSED * solution.report.residual[own.name] + slack:
            raise _of_another(file, f"whose {own.name!r} misses its data by {left:.1e}")


def _check_places(factored: FactoredProblem) -> None:
    """Refuse data that would stand in no right-hand side."""
    size, d = len(factored.ready.system.right), factored.problem.domain.dimension
    found = set()
    for own in factored.ready.data():
        found.add(own.name)
        rows = len(range(*own.at.indices(size)))
        each = own.points if own.which is None else own.which
        shapes = (each.shape[:1], own.scale.shape, own.lift.shape)
        if own.points.shape[1:] != (d,) or rows == 0 or set(shapes) != {(rows,)}:
            raise ValueError(f"{own.name!r} has points of shape {own.points.shape} for {rows} rows")
        if own.which is not None and not 0 <= own.which.min() <= own.which.max() < len(own.points):
            raise ValueError(f"{own.name!r} has data of points that are not there")
    if found != {own.name for own in factored.asked}:
        raise ValueError("it has data of other statements")


def _values(solution: Solution, where: Array) -> Array:
    """A column for every unknown."""
    return solution(where).reshape(len(where), -1)


def _levels(basis: AnyBasis, problem: Problem) -> list[Basis]:
    return [level for own in per_field(basis, problem.fields) for level in own.levels]


def _given(levels: list[Basis]) -> list[object]:
    """What both who writes and who reads have."""
    return [own for level in levels for own in (level, level.features, level.decomposition)]


def _bare(ready: Factors) -> Any:
    """Factors without what no right-hand side asks for."""
    if isinstance(ready, CellFactors):
        return cells.kept(ready)
    if not isinstance(ready, Factored) or not _on_host(ready.state):
        raise ValueError(
            "factors that live on a GPU are not saved: factor on a CPU, e.g. with JAX_PLATFORMS=cpu"
        )
    reduced = ready.reduced
    if not ready.solver.iterative:
        reduced = dataclasses.replace(reduced, Q=ready.system.M)
    state = _without_pieces(ready.state)
    if isinstance(state, RowMatrix):
        state = state.blocks
    return Blocks(ready.system, reduced, ready.filter, ready.solver, state, ready.note)


def _on_host(state: object) -> bool:
    own = state.factors if isinstance(state, Deflated) else state
    own = own.damped if isinstance(own, WideFactorisation) else own
    return not isinstance(own, Factorisation) or isinstance(own.factors, HostFactors)


def _without_pieces(state: Any) -> Any:
    """A factorisation without the places of its blocks, which only factoring asks for."""
    if isinstance(state, WideFactorisation):
        return dataclasses.replace(state, damped=_without_pieces(state.damped))
    if isinstance(state, Deflated):
        return dataclasses.replace(state, factors=_without_pieces(state.factors))
    if not isinstance(state, Factorisation) or not isinstance(state.factors, HostFactors):
        return state
    fronts = tuple(dataclasses.replace(own, pieces=(), into=()) for own in state.plan.fronts)
    plan = dataclasses.replace(state.plan, fronts=fronts)
    return dataclasses.replace(state, plan=plan, factors=HostFactors(plan, state.factors.fronts))


def _ready(factors: object) -> Factors:
    """Factors that were read, once nothing leads out of their arrays."""
    if isinstance(factors, cells.KeptFactors):
        cells.check(factors)
        return factors
    if not isinstance(factors, Blocks):
        raise ValueError("they are of no kind")
    if not isinstance(factors.solver, tuple(SOLVERS.values())):
        raise ValueError("they have no solver")
    for matrix in (factors.system.M, factors.reduced.Q):
        for group in matrix.groups:
            for numbers, most in ((group.rows, matrix.shape[0]), (group.columns, matrix.shape[1])):
                own = np.asarray(numbers)
                if own.size and not 0 <= own.min() <= own.max() < most:
                    raise ValueError("a block lies beyond its matrix")
    if matrix.shape[0] != len(factors.system.h):
        raise ValueError("its right-hand side has another length")
    return Factored(*factors)
