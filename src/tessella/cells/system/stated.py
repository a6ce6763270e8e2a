"""What several processes must have stated alike, and what they know of all statements together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.cells.boxes.basis import AnyCellBasis
from tessella.cells.cell.draw import digest
from tessella.cells.cell.place import Compared
from tessella.cells.cell.sizes import Symbols
from tessella.cells.system.tiled import Cells
from tessella.machine import processes
from tessella.machine.alike import differing, refuse
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, IntegralCondition, PointCondition
from tessella.problem.problem import Problem


def fingerprint(problem: Problem, basis: AnyCellBasis, cells: Cells) -> bytes:
    """Of the cells and the statements as far as they are no functions: these are compared where
    they are called (`rows.Stating.compared`)."""
    found: list[object] = [(level.seed, level.features.columns) for level in basis.levels]
    for own in problem.statements:
        terms = own.operator.expand(problem.domain.axes)
        found.append((own.name, type(own).__name__, [(t.orders, t.field) for t in terms]))
        found.append(own.weight)
        if isinstance(own, PointCondition):
            found.append(own.points.tolist())
        elif isinstance(own, IntegralCondition):
            found.append(own.number)
        elif isinstance(own, Condition):
            found.append(own.faces(problem.domain))
    tables = (cells.centres, cells.half_widths)
    return digest(repr(found).encode(), *(x.tobytes() for x in tables))


def at_points(problem: Problem) -> list[Array]:
    """What is asked at single points, and with which coefficients."""
    found = []
    for own in problem.statements:
        if isinstance(own, PointCondition):
            symbols = [problem.symbol(own.operator, own.points, None, f) for f in problem.fields]
            found += [own.values(own.points), *(c for one in symbols for c in one.values())]
    return found


def compare(said: Sequence[Compared]) -> None:
    """Refuse statements that others have other numbers for. Data that are hardly more than rounding
    errors depend on the points asked beside them, so whoever differs is asked for these alone."""
    if differing([table for own in said for table in own.tables]) is not None:
        refuse(differing([table for own in said for table in own.again()]))


def of_all(numbers: np.ndarray, known: Sequence[Symbols]) -> tuple[np.ndarray, list[Symbols]]:
    """Numbered points of all processes in order, and the equations' coefficients there."""
    keys = [
        (e, f, alpha) for e, own in enumerate(known) for f, one in enumerate(own) for alpha in one
    ]
    tables = [known[e][f][alpha] for e, f, alpha in keys]
    every = np.concatenate(processes.gathered("sample", np.stack([numbers, *tables])), axis=1)
    every = every[:, np.argsort(every[0], kind="stable")]
    found: list[list[dict[tuple[int, ...], np.ndarray]]] = [[{} for _ in own] for own in known]
    for (e, f, alpha), c in zip(keys, every[1:], strict=True):
        found[e][f][alpha] = c
    return every[0].astype(np.int64), [*found]
