"""A basis for every unknown of a problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tessella.features.enrichment import Enrichment, Functions, as_enrichment
from tessella.overlap.basis import AnyBasis, Basis, Fields
from tessella.problem.problem import Problem

ByField = Functions | Mapping[str, Functions]
"""Enrichment of all unknowns, or by the name of the unknown."""


def for_fields(
    problem: Problem,
    make: Callable[[int], Basis],
    seed: int | None = None,
    enrichment: ByField | None = None,
) -> AnyBasis:
    """One basis per unknown, each with a seed and enrichment of its own; a single unknown needs no
    Fields."""
    first, given = seed or 0, () if enrichment is None else enrichment
    each = [
        dataclasses.replace(
            make(first + number),
            enrichment=enrichment_of(field, given, problem),
        )
        for number, field in enumerate(problem.fields)
    ]
    return each[0] if len(each) == 1 else Fields(**dict(zip(problem.fields, each, strict=True)))


def enrichment_of(field: str, given: ByField, problem: Problem) -> tuple[Enrichment, ...]:
    """The enrichment of one unknown."""
    if isinstance(given, Mapping):
        for name in given:
            if name not in problem.fields:
                raise ValueError(
                    f"enrichment has the unknown {name!r}, but the problem has "
                    f"{', '.join(problem.fields)}"
                )
        given = given.get(field, ())
    return as_enrichment(given, problem.domain)
