"""One row of the scoreboard: a problem in a few lines, one call, and what it is measured by."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tessella as ts

PATIENCE = 60.0
"""Seconds that a case may take, about."""

Known = tuple[np.ndarray, np.ndarray]
"""Points, and values there with a column for each unknown."""


@dataclass(frozen=True)
class Case:
    """`state` says the problem, `known` gives points and what is right there.

    `published` is the best mean relative L2 error of PINNacle's table, None where it is not known
    here. `reference` says where the right values come from, `remark` what differs from PINNacle.
    """

    name: str
    state: Callable[[], ts.Problem]
    known: Callable[[], Known]
    tol: float
    published: float | None
    reference: str
    choices: dict[str, Any] = field(default_factory=dict)
    remark: str = ""

    def run(self) -> dict[str, Any]:
        begun = time.perf_counter()
        solution = ts.solve(self.state(), tol=self.tol, patience=PATIENCE, **self.choices)
        seconds = time.perf_counter() - begun
        return self.row(self.error(solution), seconds, solution.report.stop_reason)

    def error(self, solution: Any) -> float:
        """Relative in L2; 1 where time ran out before the end was reached."""
        x, right = self.known()
        inside = _reached(solution, x)
        told = np.zeros(len(x) if right.ndim == 1 else right.shape)
        told[inside] = solution(x[inside])
        return float(np.linalg.norm(told - right) / np.linalg.norm(right))

    def row(self, error: float | None, seconds: float | None, end: str) -> dict[str, Any]:
        factor = None if not (self.published and error) else self.published / error
        return {
            "case": self.name,
            "error": error,
            "seconds": seconds,
            "lines": lines(self.state),
            "published": self.published,
            "factor": factor,
            "end": end,
            "reference": self.reference,
            "remark": self.remark,
        }


def _reached(solution: Any, x: np.ndarray) -> np.ndarray:
    """Points up to where a march came."""
    axes = solution.problem.domain.axes
    if "t" not in axes:
        return np.ones(len(x), bool)
    t = axes.index("t")
    return np.asarray(x[:, t] <= solution.problem.domain.bounds[t][1])


def lines(state: Callable[..., Any]) -> int:
    """Of the statement, without its docstring and blank lines, and one for the call."""
    source = inspect.getsource(state)
    for quoted in source.split('"""')[1::2]:
        source = source.replace(f'"""{quoted}"""', "")
    return sum(1 for line in source.splitlines() if line.strip())


def formula(domain: Any, exact: Callable[[Any], Any], count: int = 5_000) -> Known:
    """A formula at random points."""
    x = domain.scatter(count, np.random.default_rng(3))
    return x, np.asarray(exact(x))
