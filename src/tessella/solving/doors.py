"""What front doors have in common: choices in their signatures, and what is checked first."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from tessella.machine.arguments import check_callable
from tessella.problem.nonlinear import check_linear
from tessella.problem.problem import Problem
from tessella.solving.method import Method


def check_problem(problem: object, door: str, nonlinear: bool = False) -> None:
    """Refuse what is no problem, and a nonlinear one where only linear ones make sense."""
    if not isinstance(problem, Problem):
        raise TypeError(
            f"{door}() needs a Problem(domain, equation, conditions) first, got {problem!r}"
        )
    if not nonlinear:
        check_linear(problem, f"{door}()")


PROGRESS = "a function of (iterations, limit, relative residual)"

Door = TypeVar("Door", bound=Callable[..., Any])


def with_choices(*names: str) -> Callable[[Door], Door]:
    """Show a door's **choices in its signature as the fields of `Method` they are; all if none are
    named. What all doors take beside them is checked."""

    def shown(door: Door) -> Door:
        @functools.wraps(door)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            if not isinstance(keywords.get("progress"), bool | None):
                check_callable(keywords["progress"], "progress", PROGRESS)
            return door(*arguments, **keywords)

        own = inspect.signature(door)
        fields = [f for f in dataclasses.fields(Method) if not names or f.name in names]
        listed = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        keyword = inspect.Parameter.KEYWORD_ONLY
        listed += [inspect.Parameter(f.name, keyword, default=f.default) for f in fields]
        checked.__signature__ = own.replace(parameters=listed)  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return shown
