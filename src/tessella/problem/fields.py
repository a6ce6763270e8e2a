"""Which unknowns a problem has, and where they live.

On a `Divided` domain every unknown has a part of its own in each region whose equations contain it,
called "u in core", or by the region's name alone where there is one unknown that nobody named.
Features, rows and exchange are those of parts; a solution has values of whole unknowns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tessella.geometry.domain import Domain
from tessella.problem.normal_form import Term
from tessella.problem.operators import IN

if TYPE_CHECKING:
    from tessella.problem.problem import Equation, Problem

ONLY = "u"
"""What the unknown is called where there is one and nobody named it."""


class Part(NamedTuple):
    """An unknown in one region; in None it lives everywhere."""

    unknown: str
    region: str | None


def part_named(domain: Domain, name: str) -> Part:
    """What the name of a field stands for."""
    if not domain.regions:
        return Part(name, None)
    unknown, _, region = name.rpartition(IN)
    return Part(unknown or ONLY, region)


def found_fields(problem: Problem) -> tuple[str, ...]:
    """The fields that the operators name, checked against those listed."""
    axes = problem.domain.axes
    expanded = {s.name: s.operator.expand(axes) for s in problem.statements}
    seen = tuple(dict.fromkeys(t.field for terms in expanded.values() for t in terms if t.field))
    if problem.domain.regions:
        return _in_regions(problem, expanded, seen)
    for equation in problem.equations:
        if equation.where is not None:
            problem.domain.inside(equation.where, np.zeros((0, len(axes))))
    listed = tuple(problem.fields) or seen or (ONLY,)
    for name in seen:
        if IN in name:
            raise ValueError(
                f"{name!r} names a region, but {problem.domain!r} is not divided: see Divided"
            )
        if name not in listed:
            raise ValueError(f"Field({name!r}) is not among fields={listed!r}: add it there")
    in_equations = {t.field for e in problem.equations for t in expanded[e.name]}
    for name in listed if len(listed) > 1 else ():
        if name not in in_equations:
            raise _undetermined(name)
    _check_count(problem.equations, listed, "")
    _check_named(expanded, listed)
    return listed


def _in_regions(
    problem: Problem, expanded: Mapping[str, Sequence[Term]], seen: Sequence[str]
) -> tuple[str, ...]:
    """The parts of all unknowns, each in the regions whose equations contain it."""
    regions = problem.domain.regions
    _check_where(problem.equations, regions)
    listed = (*problem.fields, *seen)
    if all(name in regions for name in listed):
        return regions
    unknowns = tuple(dict.fromkeys(_unknown(name, regions) for name in listed))
    _check_named(expanded, unknowns)
    found = []
    for region in regions:
        held = [e for e in problem.equations if e.where in (None, region)]
        terms = {t.field or unknowns[0] for e in held for t in expanded[e.name]}
        own = [u for u in unknowns if u in terms or f"{u}{IN}{region}" in terms]
        _check_count(held, own, f" in the region {region!r}")
        found += [f"{u}{IN}{region}" for u in own]
    for unknown in unknowns:
        if not any(name.startswith(unknown + IN) for name in found):
            raise _undetermined(unknown)
    for name in seen:
        if IN in name and name not in found:
            raise ValueError(f"no equation contains {name!r}, so it is not determined: add one")
    return tuple(sorted(found, key=lambda name: unknowns.index(name.rpartition(IN)[0])))


def _unknown(name: str, regions: Sequence[str]) -> str:
    """Of which unknown a name is."""
    unknown, _, region = name.rpartition(IN)
    if unknown and region not in regions:
        raise ValueError(f"unknown region {region!r} in {name!r}: there are {', '.join(regions)}")
    if not unknown and name in regions:
        raise ValueError(
            f"Field({name!r}) is a region, and there are several unknowns: write "
            f"Field('u', {name!r}) for the part of u in it"
        )
    return unknown or name


def _check_where(equations: Sequence[Equation], regions: Sequence[str]) -> None:
    held = [equation.where for equation in equations]
    for where in held:
        if where is not None and where not in regions:
            raise ValueError(
                f"unknown region {where!r} in where=: this domain has {', '.join(regions)}"
            )
    for name in regions:
        if None not in held and name not in held:
            raise ValueError(
                f"no equation holds in the region {name!r}: add one with where={name!r}"
            )


def _check_count(equations: Sequence[Equation], fields: Sequence[str], where: str) -> None:
    if len(equations) < len(fields):
        raise ValueError(
            f"{len(equations)} equation(s) for {len(fields)} unknowns ({', '.join(fields)})"
            f"{where}: the system is under-determined, state at least as many equations as unknowns"
        )


def _check_named(expanded: Mapping[str, Sequence[Term]], fields: Sequence[str]) -> None:
    for name, terms in expanded.items():
        if len(fields) > 1 and any(t.field is None for t in terms):
            raise ValueError(
                f"{name!r} does not say which unknown it acts on: write operator @ "
                f"Field({fields[0]!r}) (of=Field(...) in conditions); the unknowns are "
                f"{', '.join(fields)}"
            )


def _undetermined(name: str) -> ValueError:
    return ValueError(
        f"no equation contains the unknown {name!r}, so it is not determined: add one, or leave it "
        f"out"
    )


def check_per_field(
    value: object, kind: type | None, argument: str, unknowns: Sequence[str], fields: Sequence[str]
) -> None:
    """One object for one unknown, a mapping by name for several; an ansatz also by part."""
    if isinstance(value, Mapping):
        known = unknowns if kind is None else tuple(dict.fromkeys((*unknowns, *fields)))
        strange = sorted(set(value) - set(known))
        if strange:
            raise ValueError(
                f"Problem {argument} names {strange[0]!r}, but the unknowns are {', '.join(known)}"
            )
        missing = [name for name in unknowns if name not in value]
        if kind is None and missing:
            raise ValueError(f"Problem {argument} leaves out the unknown {missing[0]!r}")
        return
    plain = value is None or (kind is not None and value == kind())
    if len(unknowns) > 1 and not plain:
        raise ValueError(
            f"Problem {argument} must be a mapping from the unknowns ({', '.join(unknowns)}), "
            f"got {value!r}"
        )
