"""What is to be solved: an equation in a domain, conditions on its faces, perhaps an ansatz."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, function_values
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array
from tessella.problem.conditions import (
    Condition,
    IntegralCondition,
    Periodic,
)
from tessella.problem.fields import check_per_field, found_fields, part_named
from tessella.problem.jumps import check_jumps
from tessella.problem.nonlinear import is_linear, marked
from tessella.problem.normal_form import Term, apply_to_function, compose, symbol
from tessella.problem.operator_function import check_functions, from_function
from tessella.problem.operators import IN, Field, Identity, Operator
from tessella.problem.periodicity import check_periodicity, closed
from tessella.problem.reference import Reference
from tessella.problem.statement import (
    Statement,
    check_data,
    check_operator,
    check_units,
    check_weight,
    distinctly_named,
)

_RESTATED: ContextVar[bool] = ContextVar("restated", default=False)


@contextmanager
def restated() -> Iterator[None]:
    """Inside, problems are stated without checks: a problem with other numbers was checked before,
    and numbers that JAX follows can not be. They have statements and a domain, nothing else."""
    token = _RESTATED.set(True)
    try:
        yield
    finally:
        _RESTATED.reset(token)


PROBES = {1: 2, 2: 65, 3: 17}
"""Points per axis at which a stated problem's conditions are tried."""


@dataclass(frozen=True)
class Equation(Statement):
    """`operator` applied to the unknown equals `rhs` in the interior.

    `operator` may also be a function of the derivatives and the points, linear or not,
    `Equation(lambda d, x: -d(x=2) - d(y=2) + d()**3)` (see `operator`).
    `rhs` is a number or a function from an (n, d) array of points to (n,) values. `weight` is the
    factor in front of its mean square in the loss. Left out, it is 1 for a problem's first equation
    and balanced for the others, so that their rows weigh as much as the first one's. `where` names
    the region of a `Divided` domain in which the equation holds; left out, it holds everywhere.

    >>> import tessella as ts
    >>> ts.Equation(-ts.Laplacian() + 4.0, lambda p: p[:, 0]).operator
    -Laplacian() + 4
    """

    operator: Any
    rhs: float | Function = 0.0
    name: str = "equation"
    weight: float | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        check_kind(self.name, str, "Equation name", "a text")
        object.__setattr__(self, "operator", from_function(self.operator))
        check_operator(self.operator, "Equation")
        check_data(self.rhs, "Equation rhs")
        check_weight(self.weight, self.name)

    word = "right-hand side"

    @property
    def given(self) -> float | Function:
        return self.rhs

    def holds(self, domain: Domain, points: Array) -> NDArray[np.bool_]:
        if self.where is None:
            return np.ones(len(points), dtype=bool)
        return domain.inside(self.where, points)


@dataclass(frozen=True)
class Ansatz:
    """Hard constraints: u = offset + multiplier * v, with v the random features (Lagaris 1998).

    Where the multiplier vanishes u equals the offset exactly. Both are numbers or functions of the
    points; functions that the operators differentiate must be written with `jax.numpy`. The
    offset moves to the right-hand side by itself.

    >>> import tessella as ts
    >>> ends = ts.Ansatz(lambda p: p[:, 0] * (1 - p[:, 0]), offset=2.0)
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(ts.D(x=2), 0.0), ansatz=ends)
    >>> ts.solve(problem, subdomains=2, features=8)([0.0, 1.0])
    array([2., 2.])
    """

    multiplier: float | Function = 1.0
    offset: float | Function = 0.0

    def __post_init__(self) -> None:
        for name in ("multiplier", "offset"):
            value = getattr(self, name)
            check_data(value, f"Ansatz {name}")
            if isinstance(value, Real) and not np.isfinite(float(value)):
                raise ValueError(f"Ansatz {name} must be finite, got {value!r}")


@dataclass(frozen=True)
class Problem:
    """A boundary or initial value problem, checked when it is stated; `linear` says what it is.

    `equation` may be a list when several equations hold. With several unknowns every operator says
    which it acts on, `Laplacian() @ u + D(x=1) @ p` with `u, p = Field("u"), Field("p")`; `fields`
    orders them (default: as they appear). `ansatz` and `exact` are then given per unknown, as a
    mapping from its name; unknowns left out of `ansatz` have none.

    On a `Divided` domain an unknown has a part of its own in every region whose equations contain
    it: an operator acts on the part of the region where the point lies, and `Field("u", "core")` is
    the part of a region by name, as a `Transmission` between regions needs it; `Field("core")`
    where there is one unknown only. Where an unknown has no part its values are zero.

    `exact` is optional and used for error reports only: a function, or a `Reference` at some
    points. `parameters` are numbers worth remembering in results. A `Periodic` among the conditions
    makes the domain's axis periodic and is not kept as a condition.

    >>> import tessella as ts
    >>> square = ts.Box(x=(0, 1), y=(0, 1))
    >>> problem = ts.Problem(square, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
    >>> problem.fields, [statement.name for statement in problem.statements]
    (('u',), ['equation', 'dirichlet'])
    """

    domain: Domain
    equation: Equation | Sequence[Equation]
    conditions: Sequence[Condition] = ()
    ansatz: Ansatz | Mapping[str, Ansatz] = field(default_factory=Ansatz)
    exact: Function | Reference | Mapping[str, Function] | None = None
    name: str = "problem"
    parameters: dict[str, float] = field(default_factory=dict)
    fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        equations, conditions = _as_tuple(self.equation), _as_tuple(self.conditions)
        if not equations:
            raise ValueError("Problem needs at least one Equation")
        if not isinstance(self.domain, Domain):
            raise TypeError(
                f"Problem domain must be made of Box(...), got {self.domain!r}; Ball, Polygon, "
                f"HalfSpace, Implicit and PointCloud make other shapes"
            )
        check_kind(self.name, str, "Problem name", "a text")
        check_kind(self.parameters, Mapping, "Problem parameters", "numbers by name")
        fields = () if self.fields is None else self.fields
        check_kind(fields, Sequence, "Problem fields", "a list of names")
        for name in fields:
            check_kind(name, str, "Problem fields", "a list of names")
        if isinstance(self.conditions, str | bytes | Mapping):
            raise TypeError(f"Problem conditions must be a list, got {self.conditions!r}")
        if not _RESTATED.get():
            self.domain.check()
        axes = tuple(c.axis for c in conditions if isinstance(c, Periodic))
        conditions = tuple(c for c in conditions if not isinstance(c, Periodic))
        if axes:
            object.__setattr__(self, "domain", closed(self.domain, axes))
        for equation in equations:
            _check_kind(equation, Equation, "equation")
        for condition in conditions:
            _check_kind(condition, Condition, "conditions")
        named = distinctly_named((*equations, *conditions))
        named = tuple(marked(statement, self.domain) for statement in named)
        object.__setattr__(self, "equation", named[: len(equations)])
        object.__setattr__(self, "conditions", named[len(equations) :])
        if _RESTATED.get():
            return
        for condition in conditions:
            self._try(condition)
        check_units(self.domain, self.statements)
        for statement in self.statements:
            check_functions(statement.operator.expand(self.domain.axes), self.domain)
        object.__setattr__(self, "fields", found_fields(self))
        check_per_field(self.ansatz, Ansatz, "ansatz", self.unknowns, self.fields)
        check_per_field(self.exact, None, "exact", self.unknowns, self.fields)
        _check_ansatz_and_exact(self)
        if axes:
            check_periodicity(self)
        check_jumps(self)

    def _try(self, condition: Condition) -> None:
        """Refuse a condition on an unknown part, or on no point at all."""
        condition.faces(self.domain)
        if isinstance(self.domain, Box) and not callable(condition.on):
            return
        if isinstance(condition, IntegralCondition):
            return
        counts = (PROBES.get(self.domain.dimension, 9),) * self.domain.dimension
        condition.places(self.domain, lambda part: self.domain.boundary(part, counts))

    @property
    def equations(self) -> tuple[Equation, ...]:
        return self.equation  # type: ignore[return-value]

    @property
    def linear(self) -> bool:
        """Whether all that is asked is linear in the unknowns."""
        return all(is_linear(statement.operator) for statement in self.statements)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All that is asked: the equations, then the conditions."""
        return (*self.equations, *self.conditions)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """What a solution has values of: the fields, or what the regions' parts make up."""
        return tuple(dict.fromkeys(part_named(self.domain, name).unknown for name in self.fields))

    def region(self, field: str) -> str | None:
        """Where a field lives; None is everywhere."""
        return part_named(self.domain, field).region

    def equations_of(self, field: str) -> list[Equation]:
        """The equations that hold where a field lives."""
        region = self.region(field)
        return [e for e in self.equations if region is None or e.where in (None, region)]

    def within(self, equation: Equation, points: Array) -> Array:
        """The points at which an equation holds."""
        return points[equation.holds(self.domain, points)]

    def terms(self, operator: Operator, field: str | None = None) -> tuple[Term, ...]:
        """The operator's normal form as far as it acts on one unknown; by default on the only one.

        An operator that names no unknown acts on the only one there is; of a region's part, on the
        whole unknown.
        """
        chosen = field or self.fields[0]
        unknowns, found = self.unknowns, []
        own = (None, chosen, part_named(self.domain, chosen).unknown)
        for term in operator.expand(self.domain.axes):
            if term.field is None and len(unknowns) > 1:
                raise ValueError(
                    f"{operator!r} does not say which unknown it acts on: write "
                    f"operator @ Field({unknowns[0]!r}); the unknowns are {', '.join(unknowns)}"
                )
            if term.field in own:
                bare = term.field is None
                found.append(term if bare else dataclasses.replace(term, field=None))
            elif term.field not in (*self.fields, *unknowns):
                raise ValueError(
                    f"unknown Field({term.field!r}): this problem has "
                    f"{', '.join(dict.fromkeys((*unknowns, *self.fields)))}"
                )
        return tuple(found)

    def symbol(
        self,
        operator: Operator,
        points: Array,
        normals: Array | None = None,
        field: str | None = None,
    ) -> dict[tuple[int, ...], Array]:
        """Coefficients of `operator @ multiplier` at the points: how the operator acts on v."""
        multiplier = self.multiplier(field)
        zero = (0,) * self.domain.dimension
        front = (
            Term(zero, functions=((multiplier, zero),))
            if callable(multiplier)
            else Term(zero, float(multiplier))
        )
        if not self.domain.regions:
            return symbol(compose(self.terms(operator, field), (front,)), points, normals)
        found: dict[tuple[int, ...], Array] = {}
        for terms, share in self.acting(operator, field, points):
            for alpha, c in symbol(compose(terms, (front,)), points, normals).items():
                found[alpha] = found.get(alpha, 0.0) + share * c
        return found

    def acting(
        self, operator: Operator, field: str | None, points: Array
    ) -> list[tuple[tuple[Term, ...], Array | float]]:
        """Terms that act on an unknown, and where: on the part of a region, those that do not name
        it act in that region only."""
        terms = self.terms(operator, field)
        if not self.domain.regions:
            return [(terms, 1.0)]
        chosen = field or self.fields[0]
        unknown, region = part_named(self.domain, chosen)
        assert region is not None
        every = operator.expand(self.domain.axes)
        named, plain = (
            tuple(dataclasses.replace(t, field=None) for t in every if t.field in names)
            for names in ((chosen,), (None, unknown))
        )
        found: list[tuple[tuple[Term, ...], Array | float]] = [(named, 1.0)] if named else []
        if plain:
            found.append((plain, self.domain.inside(region, points).astype(np.float64)))
        return found

    def lift(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        """The operator applied to the ansatz's offsets at the points."""
        values = np.zeros(len(points))
        for name in self.fields:
            offset = self.ansatz_of(name).offset
            if not callable(offset) and not offset:
                continue
            for terms, share in self.acting(operator, name, points):
                if callable(offset):
                    values += share * apply_to_function(terms, offset, points, normals)
                else:
                    plain = tuple(t for t in terms if not any(t.orders))
                    found = symbol(plain, points, normals)
                    zero = (0,) * self.domain.dimension
                    values += share * float(offset) * found.get(zero, 0.0)
        return values

    def unknown(self, field: str) -> Operator:
        """The operator that picks one unknown, or the part of one region."""
        return Identity() if self.unknowns == (field,) else self._named(field)

    def part(self, field: str) -> Operator:
        """The operator that picks one field, also if it is the part of one region."""
        return Identity() if len(self.fields) == 1 else self._named(field)

    def _named(self, field: str) -> Field:
        return Field(*field.split(IN))

    @property
    def exact_function(self) -> Function | Mapping[str, Function] | None:
        """The exact solution, if it is known everywhere."""
        return None if isinstance(self.exact, Reference) else self.exact

    def exact_values(self, points: Array) -> Array:
        """(n,) values of the exact solution; (n, fields) where there are several unknowns."""
        if self.exact is None:
            raise ValueError(f"{self.name!r} has no exact solution: pass exact=... to Problem")
        if callable(self.exact):
            return function_values(self.exact, points, "the exact solution")
        columns = [
            function_values(self.exact[name], points, f"the exact {name}") for name in self.unknowns
        ]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def multiplier(self, field: str | None = None) -> float | Function:
        """The ansatz's multiplier of one unknown; by default of the only one."""
        return self.ansatz_of(field).multiplier

    def ansatz_of(self, field: str | None = None) -> Ansatz:
        """The ansatz of one unknown; by default of the only one."""
        if isinstance(self.ansatz, Ansatz):
            return self.ansatz
        chosen = field or self.fields[0]
        whole = self.ansatz.get(part_named(self.domain, chosen).unknown, Ansatz())
        return self.ansatz.get(chosen, whole)


def _check_ansatz_and_exact(problem: Problem) -> None:
    """Refuse what is neither an ansatz, nor a function, nor one of them by name."""
    for argument, kind in (("ansatz", "Ansatz(multiplier, offset)"), ("exact", "a function")):
        value = getattr(problem, argument)
        for own in value.values() if isinstance(value, Mapping) else [value]:
            if not (
                isinstance(own, Ansatz)
                if argument == "ansatz"
                else (own is None or (callable(own) and not isinstance(own, type)))
            ):
                raise TypeError(f"Problem {argument} must be {kind}, or one by name, got {own!r}")


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,)


def _check_kind(value: object, kind: type, argument: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"Problem {argument} must be made of {kind.__name__}(...), got {value!r}")
