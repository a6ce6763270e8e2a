"""Operators as a person would write them: `-Laplacian()`, `D(t=2) - 4 * Laplacian() + 1`.

Parentheses stand only where Python needs them. The text of an operator without functions is Python
for an operator of the same normal form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tessella.geometry.functions import Function, short_name
from tessella.problem.operators import Composition, Identity, Operator, Scaled, Sum

SUM, PRODUCT, CHAIN = range(3)
"""How tightly a text binds; a chain is one operator, or several joined by `@` without a coefficient
in front."""


def written(operator: Operator) -> str:
    """The text of an operator."""
    return _written(operator)[0]


def _written(operator: Operator) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    negative, body = _unsigned(operator)
    if negative:
        return _negated(body), PRODUCT
    match body:
        case Sum():
            return _added(list(_summands(body))), SUM
        case Scaled(coefficient, inner):
            return f"{_coefficient(coefficient)} * {_bracketed(inner, CHAIN)}", PRODUCT
        case Composition(left, right):
            binds = PRODUCT if isinstance(_first(left), Scaled) else CHAIN
            return f"{_bracketed(left, PRODUCT)} @ {_behind(right)}", binds
    return repr(body), CHAIN


def _unsigned(operator: Operator) -> tuple[bool, Operator]:
    """Whether there is a minus in front, and what remains without it and without factors 1."""
    match operator:
        case Scaled(coefficient, inner) if not callable(coefficient):
            negative, inner = _unsigned(inner)
            size = abs(coefficient)
            rest = inner if size == 1 else Scaled(size, inner)
            return negative != (math.copysign(1.0, coefficient) < 0), rest
        case Composition(left, right):
            negative, left = _unsigned(left)
            return negative, Composition(left, right)
    return False, operator


def _negated(body: Operator) -> str:
    """A minus binds more tightly than `*` and `@`, and functions have none."""
    text, binds = _written(body)
    first = _first(body)
    function = isinstance(first, Scaled) and callable(first.coefficient)
    return f"-({text})" if binds == SUM or function else f"-{text}"


def _first(body: Operator) -> Operator:
    """The leftmost part of a composition."""
    return _first(body.left) if isinstance(body, Composition) else body


def _behind(right: Operator) -> str:
    """What stands right of `@`; a function stands for itself times the identity."""
    match right:
        case Scaled(coefficient, Identity()) if callable(coefficient):
            return short_name(coefficient)
    return _bracketed(right, CHAIN)


def _summands(total: Sum) -> Iterator[tuple[bool, Operator]]:
    """All that is added up, with its sign."""
    for part in total.parts:
        negative, body = _unsigned(part)
        if isinstance(body, Sum) and not negative:
            yield from _summands(body)
        else:
            yield negative, body


def _added(summands: list[tuple[bool, Operator]]) -> str:
    """A number stands for itself times the identity, unless it would meet only another number."""
    (negative, first), *rest = summands
    number = _plain_number(first)
    if number is not None and _plain_number(rest[0][1]) is None:
        text = f"-{number}" if negative else number
    else:
        text = _negated(first) if negative else _bracketed(first, PRODUCT)
    for negative, body in rest:
        own = _plain_number(body) or _bracketed(body, PRODUCT)
        text += f" {'-' if negative else '+'} {own}"
    return text


def _bracketed(operator: Operator, needed: int) -> str:
    """The text, in parentheses unless it binds as tightly as needed."""
    text, binds = _written(operator)
    return text if binds >= needed else f"({text})"


def _plain_number(body: Operator) -> str | None:
    match body:
        case Identity():
            return "1"
        case Scaled(coefficient, Identity()) if not callable(coefficient):
            return _coefficient(coefficient)
    return None


def _coefficient(coefficient: float | Function) -> str:
    """The name of a function; a number as short as it can be without changing."""
    if callable(coefficient):
        return short_name(coefficient)
    short = f"{coefficient:g}"
    return short if float(short) == coefficient else repr(coefficient)
