"""A system later in time: where cells and coefficients stay, only data are asked for anew."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from tessella.cells.boxes.basis import AnyCellBasis
from tessella.cells.cell.rows import Said
from tessella.cells.system.system import CellSystem
from tessella.geometry.lattice import shifted
from tessella.machine import processes
from tessella.problem.normal_form import NormalComponent
from tessella.problem.problem import Problem
from tessella.problem.slabs import TIME, says_the_same
from tessella.problem.statement import Statement


def later(system: CellSystem, problem: Problem, basis: AnyCellBasis) -> CellSystem | None:
    """The system of a problem that says the same later in time, of equal cells. None if its rows
    may be others, which coefficients that are functions tell by their numbers."""
    if system.enriching.count or not says_the_same(system.problem, problem):
        return None
    axis = problem.domain.axis_index(TIME)
    by = float(problem.domain.lower[axis] - system.problem.domain.lower[axis])
    asked, said, old = [], [], iter(system.asked)
    for own, statement in zip(system.said, problem.statements, strict=True):
        moved = own._replace(points=shifted(own.points, axis, by))
        with processes.in_unison("functions"):
            steady = own.parts is not None and _steady(problem, statement, own, moved)
        if processes.largest("steady", float(not steady)):
            return None
        with processes.in_unison("functions"):
            given = statement.values(moved.points)
        start = 0
        for part in islice(old, max(own.parts or 0, 1)):
            here = slice(start, start + part.h.size)
            start = here.stop
            asked.append(replace(part, h=given[here].reshape(part.h.shape) * part.scale))
        said.append(moved)
    return replace(system, problem=problem, basis=basis, asked=tuple(asked), said=tuple(said))


def _steady(problem: Problem, statement: Statement, before: Said, after: Said) -> bool:
    """Whether the coefficients of a statement are the same at later points; those of all unknowns
    are asked for, since a function may be a solution in parts, which all call equally often."""
    terms = statement.operator.expand(problem.domain.axes)
    functions = [f for term in terms for f, _ in term.functions]
    if all(isinstance(f, NormalComponent) for f in functions):
        return True
    pairs = [
        [problem.symbol(statement.operator, at.points, at.normals, field) for at in (before, after)]
        for field in problem.fields
    ]
    return all(
        old.keys() == new.keys()
        and all(np.allclose(old[a], new[a], rtol=1e-11, atol=0.0) for a in old)
        for old, new in pairs
    )
