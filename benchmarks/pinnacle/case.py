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
"""Seconds, unless a case has others."""

Known = tuple[np.ndarray, np.ndarray]
"""Points, and values there with a column for each unknown."""


@dataclass(frozen=True)
class Case:
    """`state` says the problem, `known` gives points and what is right there.

    `published` is the best mean relative L2 error of PINNacle's tables, the smaller one where they
    differ. `choices` are a discretisation by hand, where `tol` chooses none in time. `reference`
    says where the right values come from, `remark` what differs from PINNacle.
    """

    name: str
    state: Callable[[], ts.Problem]
    known: Callable[[], Known]
    tol: float | None
    published: float
    reference: str
    choices: dict[str, Any] = field(default_factory=dict)
    remark: str = ""
    uses: tuple[Callable[..., Any], ...] = ()
    """Functions that the statement needs besides its own lines."""
    patience: float = PATIENCE
    """Seconds that it may take, about."""

    def run(self) -> dict[str, Any]:
        """One call. Where a march does not come to the end there is no error to measure."""
        problem = self.state()
        begun = time.perf_counter()
        solution = self._solved(problem)
        seconds = time.perf_counter() - begun
        reached, last = (own.domain.upper[-1] for own in (solution.problem, problem))
        if reached < last and self.choices:
            return self.row(None, seconds, solution.report.stop_reason)
        if reached < last:
            why = "lost" if "lost" in solution.report.advice else "time ran out"
            return self.row(None, seconds, f"{why} at t = {reached:.3g} of {last:g}")
        x, right = self.known()
        error = np.linalg.norm(solution(x) - right) / np.linalg.norm(right)
        return self.row(float(error), seconds, solution.report.stop_reason)

    def _solved(self, problem: ts.Problem) -> Any:
        if not self.choices:
            return ts.solve(problem, tol=self.tol, patience=self.patience)
        chosen = {"coupling": "interfaces", "estimate": False, **self.choices}
        if "slabs" in chosen:
            return ts.march(problem, chosen.pop("slabs"), **chosen)
        return ts.solve(problem, **chosen)

    def row(self, error: float | None, seconds: float | None, end: str) -> dict[str, Any]:
        factor = None if error is None else self.published / error
        if self.choices:
            chosen = f"by hand: {_written(self.choices)}"
            end = f"{chosen}: {end}" if error is None and end else chosen
        return {
            "case": self.name,
            "error": error,
            "seconds": seconds,
            "lines": sum(lines(own) for own in (self.state, *self.uses)),
            "published": self.published,
            "factor": factor,
            "end": end,
            "reference": self.reference,
            "remark": self.remark,
        }


def _written(choices: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in choices.items())


def _short(value: Any) -> str:
    """Times are counted, and edges of subdomains."""
    if isinstance(value, list):
        return f"{len(value)}, the first {value[0]:g} long"
    if isinstance(value, tuple) and any(isinstance(own, list) for own in value):
        counts = tuple(len(own) - 1 if isinstance(own, list) else own for own in value)
        return f"{counts} of unequal widths"
    return str(value)


def graded(*parts: tuple[float, int]) -> list[float]:
    """The ends of slabs: so many equal ones until a time, then others."""
    ends = [0.0]
    for until, count in parts:
        ends += np.linspace(ends[-1], until, count + 1)[1:].tolist()
    return ends[1:]


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
