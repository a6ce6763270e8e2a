"""Every solver by name, and the choice between direct and iterative.

A new solver is one class with `name`, `init(A, progress)` (what can be reused for another
right-hand side) and `solve(state, b, monitor, progress)`, and one line in the registry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct.nested_qr import NestedQR
from tessella.linalg.iterative.deflation import DeflatedLSQR
from tessella.linalg.iterative.iteration import Monitor, Progress, SolverResult
from tessella.linalg.iterative.krylov import LSMR, LSQR
from tessella.linalg.iterative.normal_equations import CG
from tessella.linalg.iterative.schwarz import SchwarzCG
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine.arrays import Array
from tessella.machine.memory import available_bytes


class Solver(Protocol):
    """What every solver offers."""

    @property
    def name(self) -> str: ...

    @property
    def iterative(self) -> bool: ...

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> Any: ...

    def solve(
        self, state: Any, b: Array, monitor: Monitor | None, progress: Progress | None
    ) -> SolverResult: ...


SOLVERS: dict[str, type] = {
    kind.name: kind for kind in (LSQR, LSMR, CG, SchwarzCG, DeflatedLSQR, NestedQR)
}
"""Solvers by name; `rrqr-` in front means on the filtered, preconditioned system."""

NAMES = [
    "auto",
    "nested-qr",
    *(f"{p}{n}" for p in ("rrqr-", "") for n in SOLVERS if n != "nested-qr"),
]


def by_name(
    name: str,
    sigma: float,
    options: Mapping[str, object] | None = None,
    others: tuple[str, ...] = (),
) -> tuple[RRQR | Unfiltered, Solver | None]:
    """Filter and solver that a name stands for; None is `auto`, decided once the matrix is known.

    Of `options` (max_iterations, atol, btol, ...) every solver takes those it has. `others` are
    names that someone else knows.
    """
    if name not in NAMES:
        raise ValueError(f"unknown solver {name!r}: choose one of {', '.join([*NAMES, *others])}")
    if name == "auto":
        return RRQR(sigma), None
    if name == "nested-qr":
        return RRQR(sigma), NestedQR()
    filtered = name.startswith("rrqr-")
    kind = SOLVERS[name.removeprefix("rrqr-")]
    known = {field.name for field in dataclasses.fields(kind)}
    own = {key: value for key, value in (options or {}).items() if key in known}
    return RRQR(sigma) if filtered else Unfiltered(), kind(**own)


def full_name(filter: RRQR | Unfiltered, solver: Solver) -> str:
    """The name `by_name` would take; NestedQR filters by itself, so it has one name only."""
    return solver.name if isinstance(solver, NestedQR) else filter.prefix + solver.name


def choose(A: BlockMatrix, patience: float = 120.0) -> tuple[Solver, str]:
    """NestedQR if its predicted memory and time fit, else LSQR; and the prediction in words."""
    plan = NestedQR().analyse(A)
    free = available_bytes()
    if plan.bytes < 0.6 * free and plan.seconds < patience:
        return NestedQR(), f"direct: {plan}"
    return LSQR(), f"iterative, because a direct solve would need {plan}"
