"""Another operator at the points of the equations, for any right-hand sides: M in L u = lambda M u.

Cells that filter their own features have large coefficients, which cancel; there the operator is
applied to y = R a, as small as the data (see `pivoted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tessella.cells.cell.rows import Asked
from tessella.cells.cell.sizes import monomial
from tessella.cells.factors import CellFactors
from tessella.cells.maps.maps import times_all
from tessella.cells.maps.pivoted import Pivoted, divided
from tessella.machine.arrays import Array
from tessella.machine.threads import single_threaded_blas
from tessella.problem.operators import Operator


class Applied:
    """Right-hand sides of some equations g -> the operators on what solves for them, at the same
    points and in the same units: vectors (size, k).

    Units are those in which the norm of a vector is that of the function in L2.
    """

    def __init__(self, factors: CellFactors, operators: Mapping[str, Operator]) -> None:
        self.factors, self.operators = factors, operators
        system = factors.system
        self.numbers = [n for n, part in enumerate(system.asked) if part.name in operators]
        self.parts = [self._rows(system.asked[n]) for n in self.numbers]
        starts = np.concatenate([[0], np.cumsum([part.h.size for part in system.asked])])
        self.at = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in self.numbers])
        boxes = [
            np.repeat(system.stating.boxes[p.members] / system.stating.weights[p.name], len(p.slot))
            for p in self.parts
        ]
        self.root = np.sqrt(np.concatenate(boxes))
        self.own = [
            [self._of_pivoted(own, part) for part in self.parts] if isinstance(own, Pivoted) else []
            for own in factors.mapped
        ]

    @property
    def size(self) -> int:
        return len(self.at)

    def right(self, g: Array) -> Array:
        """Right-hand sides of the system for such vectors, (k, all)."""
        found = np.zeros((g.shape[1], len(self.factors.system.right)))
        found[:, self.at] = (g / self.root[:, None]).T
        return found

    def __call__(self, g: Array) -> Array:
        with single_threaded_blas():
            answers, _ = self.factors.answers(*self.factors.system.split(self.right(g)))
            unknowns = self.factors.unknowns(answers, (g.shape[1],))
            values = [unknowns.of_rows(part) for part in self.parts]
            for made, y in zip(self.own, answers, strict=True):
                for into, rows in zip(values, made, strict=False):
                    for i, (at, matrix) in rows.items():
                        into[at] = times_all(y[i : i + 1], matrix.T)[0]
        flat = [own.swapaxes(0, 1).reshape(g.shape[1], -1) for own in values]
        return np.asarray(np.concatenate(flat, axis=1).T * self.root[:, None])

    def _rows(self, part: Asked) -> Asked:
        """The operator in place of the equation's own, in its rows."""
        system = self.factors.system
        problem, cells = system.problem, system.cells
        x = cells.points(part.members, part.slot.points)
        half, symbol = cells.half_widths[part.members], {}
        for f, field in enumerate(problem.fields):
            found = problem.symbol(
                self.operators[part.name], x.reshape(-1, x.shape[2]), None, field
            )
            for alpha, c in found.items():
                table = c.reshape(x.shape[:2]) * part.scale / monomial(half, alpha)[:, None]
                if np.any(table):
                    symbol[f, alpha] = table
        return replace(part, symbol=symbol)

    def _of_pivoted(self, own: Pivoted, part: Asked) -> dict[int, tuple[int, Array]]:
        """Of a kind's members: their position in the rows, and these as functions of y."""
        found, kind, enriching = {}, own.kind, self.factors.system.enriching
        for i, cell in enumerate(own.cells.tolist()):
            at = part.at(cell)
            if at < 0:
                continue
            rows = np.empty((kind.space.columns, len(part.slot)))
            kind.space.combined(part.slot, {key: c[at] for key, c in part.symbol.items()}, rows)
            columns = [rows.T]
            if kind.own is not None:
                assert kind.own_units is not None
                columns.append(enriching.rows(cell, part, at) * kind.own_units)
            every = np.concatenate(columns, axis=1)
            found[i] = at, divided(every[:, own.fit.kept], own.fit.R)
        return found
