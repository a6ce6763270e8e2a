"""Problems in files: what is written of one, and how it is found or built again.

Functions cannot be stored. A problem whose ansatz is made of them comes from the gallery or from
the user, and values of the ansatz at a few points tell whether it is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.functions import function_values
from tessella.machine.archive import Archive
from tessella.machine.arrays import Array
from tessella.problem.fields import part_named
from tessella.problem.operators import Field, Identity
from tessella.problem.problem import Ansatz, Equation, Problem
from tessella.solution.solution import UNKNOWN
from tessella.solution.stored_domain import FunctionInDomainError, domain_of

FUNCTION: Literal["function"] = "function"
"""What stands for a function."""

PROBED = 4
"""Points at which an ansatz is compared."""

Value = float | Literal["function"]


@dataclass(frozen=True)
class StoredAnsatz:
    """Numbers, or the word for a function."""

    multiplier: Value
    offset: Value


@dataclass(frozen=True, kw_only=True)
class StoredProblem:
    """What a file says of a problem."""

    problem: str
    parameters: dict[str, Any]
    domain: dict[str, Any]
    periodic: tuple[str, ...]
    ansatz: dict[str, StoredAnsatz]

    @property
    def of_functions(self) -> bool:
        return any(FUNCTION in (own.multiplier, own.offset) for own in self.ansatz.values())


def describe_problem(problem: Problem) -> dict[str, Any]:
    """The fields of a `StoredProblem`."""
    return {
        "problem": problem.name,
        "parameters": problem.parameters,
        "domain": problem.domain.describe(),
        "periodic": problem.domain.periodic,
        "ansatz": {name: _describe_ansatz(problem.ansatz_of(name)) for name in problem.fields},
    }


def _describe_ansatz(ansatz: Ansatz) -> StoredAnsatz:
    each = (ansatz.multiplier, ansatz.offset)
    return StoredAnsatz(*(FUNCTION if callable(value) else float(value) for value in each))


Change = Callable[[Problem], Problem]


def problem_of(
    stored: StoredProblem,
    archive: Archive,
    given: Problem | None,
    preset: str | None,
    shortened: Change = lambda problem: problem,
) -> Problem:
    """The problem that is given, that of the gallery, or one without equations.

    `shortened` is what was done to the problem before it was stored.
    """
    if given is not None:
        if not isinstance(given, Problem):
            raise TypeError(f"load() problem must be a Problem, got {given!r}")
        given = shortened(given)
        if not _same_domain(stored, given):
            raise ValueError(
                f"{archive.path} was solved on {_shown(stored)}, the given problem on "
                f"{given.domain!r}"
            )
        return given
    from tessella import gallery

    if preset and stored.problem in gallery.ENTRIES:
        with archive.read_as("parameters"):
            entry = gallery.get(stored.problem)
            found = shortened(entry.problem(preset, **stored.parameters))
        if not _same_domain(stored, found):
            raise archive.damaged(f"{stored.problem} was not solved on {_shown(stored)}")
        return found
    if stored.of_functions:
        raise ValueError(
            f"{archive.path} has an ansatz made of functions, which a file cannot hold: pass the "
            f"problem, load(path, problem=...)"
        )
    try:
        with archive.read_as("domain"):
            domain = _periodic(domain_of(stored.domain), stored.periodic)
    except FunctionInDomainError:
        raise ValueError(
            f"{archive.path} has a domain given by a function, which a file cannot hold: pass the "
            f"problem, load(path, problem=...)"
        ) from None
    with archive.read_as("problem"):
        return _without_equations(stored, domain)


def _without_equations(stored: StoredProblem, domain: Domain) -> Problem:
    names = tuple(stored.ansatz)
    parts = [part_named(domain, name) for name in names]
    single = len({part.unknown for part in parts}) == 1
    ansatz = {
        name: Ansatz(float(a.multiplier), float(a.offset)) for name, a in stored.ansatz.items()
    }
    return Problem(
        domain,
        [Equation(Identity() if single else Field(u), name=UNKNOWN, where=r) for u, r in parts],
        ansatz=ansatz,
        fields=names,
        name=stored.problem,
        parameters=stored.parameters,
    )


def _same_domain(stored: StoredProblem, problem: Problem) -> bool:
    domain = problem.domain
    described = json.loads(json.dumps(domain.describe()))
    return bool(described == stored.domain and domain.periodic == stored.periodic)


def _periodic(domain: Domain, axes: tuple[str, ...]) -> Domain:
    return domain.closed(*axes) if isinstance(domain, Box) and axes else domain


def _shown(stored: StoredProblem) -> str:
    try:
        return repr(_periodic(domain_of(stored.domain), stored.periodic))
    except (ValueError, TypeError, FunctionInDomainError):
        return f"another shape, {stored.domain}"


def probe(problem: Problem) -> Array:
    """Values of the ansatz at a few fixed points inside the domain."""
    domain = problem.domain
    share = np.random.default_rng(0).uniform(0.1, 0.9, (400, domain.dimension))
    points = domain.lower + share * (domain.upper - domain.lower)
    points = points[domain.contains(points)][:PROBED]
    each = [problem.ansatz_of(name) for name in problem.fields]
    return np.stack([function_values(f, points) for a in each for f in (a.multiplier, a.offset)])


def has_ansatz_of(problem: Problem, archive: Archive) -> bool:
    """Whether a problem has the ansatz whose values are stored."""
    own = probe(problem)
    return archive.shape("ansatz_probe") == own.shape and np.allclose(
        own, archive.array("ansatz_probe", own.shape), rtol=1e-12, atol=1e-12
    )
