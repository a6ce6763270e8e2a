"""Several solutions of one nonlinear problem, from several starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.accuracy.held_out import SEED
from tessella.machine.progress import Shown
from tessella.problem.problem import Problem
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution
from tessella.solving.doors import check_problem, with_choices
from tessella.solving.method import Method
from tessella.solving.nonlinear.newton import GIVEN_UP
from tessella.solving.solve import solve

APART = 1e-4
"""Solutions that differ by less, in parts of their spread, are the same; or ten tolerances, if that
is more."""

POINTS = 400


@with_choices()
def solutions(
    problem: Problem,
    starts: Sequence[Any],
    method: Method | None = None,
    *,
    progress: Shown = None,
    **choices: Any,
) -> list[Solution]:
    """The different solutions of a nonlinear problem that Newton's method finds from several
    starts, in their order. A start from which it finds none is passed over; the rest is as in
    `solve`.

    >>> import tessella as ts, jax.numpy as jnp
    >>> equation = ts.Equation(lambda d, x: -d(x=2) - jnp.exp(d()))
    >>> bratu = ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)])
    >>> starts = [0.0, 0.5, lambda x: 16 * x[:, 0] * (1 - x[:, 0])]
    >>> found = ts.solutions(bratu, starts, subdomains=4, features=20, coupling="interfaces")
    >>> [round(float(u(0.5)[0]), 6) for u in found]
    [0.140539, 4.091467]
    """
    check_problem(problem, "solutions", nonlinear=True)
    if not isinstance(starts, Sequence) or isinstance(starts, str) or not len(starts):
        raise TypeError(f"starts must be a list with at least one start, got {starts!r}")
    chosen = Method.of(choices, "solutions", method)
    apart = max(APART, 10 * (chosen.tol or 0.0))
    x = problem.domain.scatter(POINTS, np.random.default_rng(SEED))
    found: list[Solution] = []
    for start in starts:
        one = solve(problem, chosen, start=start, progress=progress)
        if one.report.stop_reason == GIVEN_UP or not isinstance(one, Solution):
            continue
        if all(error_norms(one(x), other(x))["l1_normalised"] > apart for other in found):
            found.append(one)
    return found
