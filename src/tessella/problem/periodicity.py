"""Functions of a periodic problem must not jump where its axes close."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tessella.geometry.box import Box, Face
from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, Orders, derivatives, function_name
from tessella.problem.nonlinear import Unknown
from tessella.problem.normal_form import NormalComponent
from tessella.problem.operators import Operator

if TYPE_CHECKING:
    from tessella.problem.problem import Problem

ENDS = 5
"""Points on a face at which functions are compared with those on the opposite one."""

SAME = 1e-8
"""Values at both ends of a periodic axis may differ by this part of the function's size."""


def closed(domain: Domain, axes: tuple[str, ...]) -> Box:
    """The domain with these axes periodic."""
    if not isinstance(domain, Box):
        raise ValueError(
            f"Periodic({axes[0]!r}) needs a Box, whose faces match, but the domain is {domain!r}"
        )
    for number, axis in enumerate(axes):
        domain.axis_index(axis)
        if axis in axes[:number] or axis in domain.periodic:
            raise ValueError(
                f"the axis {axis!r} is made periodic twice: drop one Periodic({axis!r})"
            )
    return domain.closed(*axes)


def check_periodicity(problem: Problem) -> None:
    """Refuse coefficients, right-hand sides and ansatz functions that jump across a seam."""
    domain = problem.domain
    assert isinstance(domain, Box)
    share = np.random.default_rng(0).random((ENDS, domain.dimension))
    inside = domain.lower + share * (domain.upper - domain.lower)
    for function, gamma, what, held in _given_functions(problem):
        at = inside.copy()
        for face in held:
            at[:, face.axis] = face.position
        for axis in map(domain.axis_index, domain.periodic):
            low, high = at.copy(), at.copy()
            low[:, axis], high[:, axis] = domain.bounds[axis]
            values = [derivatives(function, [gamma], x)[gamma] for x in (low, high, at)]
            apart = np.abs(values[0] - values[1])
            worst = int(np.argmax(apart))
            if apart[worst] > SAME * float(np.max(np.abs(values))):
                place = ", ".join(f"{c:.6g}" for c in low[worst])
                raise ValueError(
                    f"{what} is not periodic in {domain.axes[axis]!r}: it is "
                    f"{values[0][worst]:.6g} at ({place}) and {values[1][worst]:.6g} at the other "
                    f"end; make it periodic, or drop Periodic({domain.axes[axis]!r})"
                )


def _given_functions(
    problem: Problem,
) -> Iterator[tuple[Function, Orders, str, tuple[Face, ...]]]:
    """Every function a problem is made of, the derivative that is used, what to call it, and the
    face where it is used."""
    domain = problem.domain
    assert isinstance(domain, Box)
    plain = (0,) * domain.dimension
    for field in problem.fields:
        ansatz, of = problem.ansatz_of(field), f" of {field}" * (len(problem.fields) > 1)
        for part in ("multiplier", "offset"):
            function = getattr(ansatz, part)
            if callable(function):
                yield function, plain, f"the ansatz's {part}{of}", ()
    for equation in problem.equations:
        if callable(equation.given):
            yield equation.given, plain, f"the right-hand side of {equation.name!r}", ()
        yield from _coefficients(equation.operator, equation.name, domain, ())
    for condition in problem.conditions:
        held = tuple(domain.face(name) for name in condition.faces(domain)[:1])
        if callable(condition.value) and held:
            yield condition.value, plain, f"the value of {condition.name!r}", held
        yield from _coefficients(condition.operator, condition.name, domain, held)


def _coefficients(
    operator: Operator, source: str, domain: Box, held: tuple[Face, ...]
) -> Iterator[tuple[Function, Orders, str, tuple[Face, ...]]]:
    for term in operator.expand(domain.axes):
        for function, gamma in term.functions:
            if isinstance(function, Unknown):
                function = function.tried
            if not isinstance(function, NormalComponent):
                order = f"the derivative {gamma} of " if any(gamma) else ""
                yield function, gamma, f"{order}{function_name(function)} in {source!r}", held
