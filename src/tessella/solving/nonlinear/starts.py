"""Where Newton's method starts from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from tessella.problem.linearised import derivatives_of
from tessella.problem.nonlinear import nonlinear_leaves
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied
from tessella.problem.states import Guess


def started(problem: Problem, start: Any) -> Applied:
    """A start as a state: a solution, or numbers and functions, of several unknowns by name."""
    if start is None:
        start = 0.0
    if hasattr(start, "apply") and hasattr(start, "problem"):
        if tuple(start.problem.unknowns) != tuple(problem.unknowns):
            raise ValueError(
                f"start is a solution for {', '.join(start.problem.unknowns)}, but the unknowns "
                f"are {', '.join(problem.unknowns)}"
            )
        ours, theirs = problem.domain, start.problem.domain
        if ours.axes != theirs.axes or np.any(
            (theirs.lower > ours.lower) | (theirs.upper < ours.upper)
        ):
            raise ValueError(
                f"start is a solution on {theirs!r}, which does not cover {ours!r}: give a "
                f"function of the points"
            )
        return start
    given = start if isinstance(start, Mapping) else dict.fromkeys(problem.unknowns, start)
    for name, own in given.items():
        if name not in problem.unknowns:
            raise ValueError(
                f"start has the unknown {name!r}, but there are {', '.join(problem.unknowns)}"
            )
        if isinstance(own, type) or not (isinstance(own, Real) or callable(own)):
            raise TypeError(
                f"start of {name!r} must be a number, a function of the points or a solution, got "
                f"{own!r}"
            )
        if isinstance(own, Real) and not math.isfinite(own):
            raise ValueError(f"start of {name!r} must be finite, got {own!r}")
    guess = Guess(problem, {name: given.get(name, 0.0) for name in problem.unknowns})
    few = problem.domain.scatter(8, np.random.default_rng(0))
    normals = np.tile(np.eye(len(problem.domain.axes))[0], (len(few), 1))
    for leaf in nonlinear_leaves(problem):
        try:
            derivatives_of(guess, problem, leaf, leaf.keys(problem.domain.axes), few, normals)
        except (TypeError, ValueError) as error:
            raise type(error)(f"start fails, {error}") from error
    return guess
