"""What several processes must have stated alike, and what they know of all statements together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.cells.basis import AnyCellBasis
from tessella.cells.draw import digest
from tessella.cells.sizes import Symbols
from tessella.cells.tiled import Cells
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.problem.conditions import IntegralCondition, PointCondition
from tessella.problem.problem import Problem


def fingerprint(problem: Problem, basis: AnyCellBasis, cells: Cells) -> bytes:
    """Of the cells and the statements as far as they are no functions: these are compared where
    they are called (`rows.Stating.compared`)."""
    found: list[object] = [(level.seed, level.features.columns) for level in basis.levels]
    for own in problem.statements:
        terms = own.operator.expand(problem.domain.axes)
        found.append((own.name, type(own).__name__, [(t.orders, t.field) for t in terms]))
        if isinstance(own, PointCondition):
            found += [own.points.tolist(), own.values(own.points).tolist()]
        elif isinstance(own, IntegralCondition):
            found.append(own.number)
    tables = (cells.centres, cells.half_widths)
    return digest(repr(found).encode(), *(x.tobytes() for x in tables))


ROUNDING = 1e-9
"""Part of the largest number by which those of two processes may differ: a function's values are
not the same to the last bit whatever others it is asked for beside them."""


def compare(tables: Sequence[Array]) -> None:
    """Refuse statements that others have other numbers for."""
    own = np.stack(tables)
    size = ROUNDING * np.max(np.abs(own), axis=1, keepdims=True)
    for other, theirs in enumerate(processes.gathered("the problem", own)):
        if not np.all(np.abs(theirs - own) <= size):
            raise ValueError(
                f"processes {processes.index()} and {other} differ in the problem: all processes "
                f"must state the same problem with the same numbers"
            )


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
