"""u at some points as a function of parameters, with its derivatives by the same factors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.tree_util import tree_flatten
from numpy.typing import ArrayLike

from tessella.linalg.iterative.iteration import History
from tessella.machine import processes
from tessella.machine.arguments import check_callable
from tessella.machine.arrays import Array
from tessella.machine.device import on_the_cpu
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import AnyBasis
from tessella.overlap.factored import Watching
from tessella.overlap.matrices import evaluate_at
from tessella.problem.linearised import Around, linearised
from tessella.problem.nonlinear import classified, is_linear
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem
from tessella.problem.statement import check_operator
from tessella.solution.solution import Solution, check_inside
from tessella.solving.algorithm import report_of
from tessella.solving.doors import with_choices
from tessella.solving.factor import BATCH
from tessella.solving.method import Method
from tessella.solving.nonlinear.newton import LostError, Newton
from tessella.solving.nonlinear.starts import started
from tessella.solving.parameters.followed import Differences, Followed, differentiated
from tessella.solving.parameters.perturbed import Perturbed, places, plain
from tessella.solving.parameters.primitives import value_p
from tessella.solving.parameters.restated import Restated, Shape, spelled
from tessella.solving.plan import on_basis
from tessella.solving.tolerance import solve_to
from tessella.solving.ways import Factors, Found, Parts, way

KEPT = 2
"""Thetas whose factors are kept: the one a derivative follows, and one before."""


@with_choices()
def parametric(
    problem_of: Callable[[Any], Problem],
    at: ArrayLike,
    method: Method | None = None,
    *,
    of: Operator | Sequence[Operator] | None = None,
    state: Any = None,
    **choices: Any,
) -> Parametric:
    """u(points; theta) as a function that JAX differentiates: grad, jvp, vmap and jit work.

    problem_of  theta -> Problem. theta is an array of numbers or any tree of arrays; it may enter
                coefficients, data and the sizes of shapes, and leaves what is stated as it is
    at          the points, (n, d), inside the domain for every theta that will be asked
    of          the operator whose values are wanted, by default u; several of them give a column
                each. Where there are several unknowns it says which, `of=Field("u")`
    state       where Newton's method starts from if the problem is nonlinear, as `start` of
                `solve`; later thetas start from the last solution

    A new theta costs a factorisation, of a nonlinear problem one for every step of Newton's method
    and one at the solution. A tangent is one more right-hand side, M u' = h' - M' u, and a gradient
    one substitution with the transposed factors, for any number of parameters (one for each with an
    iterative solver of overlapping subdomains). They are the derivatives of what is
    solved up to its own error. h' and M' are JAX's where it can follow problem_of (functions of
    theta in `jax.numpy`, no sizes of domains), else central differences of the tables. Choose
    units in which parameters are about one.

    The choices are those of `solve`; `tol` finds a discretisation for the first theta and keeps it.
    Second derivatives are not to be had.

    >>> import jax
    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> def problem_of(k):
    ...     return ts.Problem(line, ts.Equation(-k * ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> u = ts.parametric(problem_of, at=[0.5], subdomains=2, features=16, coupling="interfaces")
    >>> round(float(u(2.0)[0]), 8), round(float(jax.grad(lambda k: u(k)[0])(2.0)), 6)
    (0.125, -0.0625)
    """
    check_callable(problem_of, "problem_of", "a function from theta to a Problem")
    several = of is not None and not isinstance(of, Operator)
    operators = None if of is None else (of,) if isinstance(of, Operator) else tuple(of)
    for own in operators or ():
        check_operator(own, "parametric of")
    chosen = Method.of(choices, "parametric", method).for_any_data()
    x = np.atleast_1d(np.asarray(at, dtype=np.float64))
    return Parametric(Restated(problem_of), x, operators, several, chosen, state)


@dataclass(frozen=True, eq=False)
class At:
    """All that is known at one theta."""

    theta: Array
    problem: Problem
    """As stated; `perturbed` has the one that was factored."""
    parts: Parts
    ready: Factors
    solved: Found
    E: Any
    """From coefficients to what is observed, (operators * n, columns)."""
    values: Array
    perturbed: Perturbed


class Parametric:
    """u at points as a function of theta, which JAX differentiates (see `parametric`).

    >>> import tessella as ts
    >>> def problem_of(load):
    ...     return ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), load), [ts.Dirichlet(0.0)])
    >>> u = ts.parametric(problem_of, at=[0.5], subdomains=2, features=16, coupling="interfaces")
    >>> u.jacobian(2.0).round(8).tolist(), u.factorisations
    ([[0.125]], 1)
    >>> round(float(u.solution(2.0)(0.25)[0]), 8)
    0.1875
    """

    def __init__(
        self,
        family: Restated,
        at: Array,
        operators: tuple[Operator, ...] | None,
        several: bool,
        method: Method,
        state: Any = None,
    ) -> None:
        self.family, self.operators, self.method, self.several = family, operators, method, several
        self._given, self._known = at, OrderedDict[bytes, At]()
        self._lock = threading.RLock()
        self._parts: Parts | None = None
        self._state: Any = state
        self._last: Solution | None = None
        self._way: Followed | Differences | None = None
        self._evaluations: list[tuple[AnyBasis, Any]] = []
        self.factorisations = 0

    def __repr__(self) -> str:
        first = self.family.first
        name = "not asked yet" if first is None else repr(first.name)
        return f"<Parametric: {name}, at {len(self._given):,} points>"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of what it returns."""
        n = len(self._given)
        return (n, len(self.operators)) if self.several and self.operators else (n,)

    @property
    def derived(self) -> str:
        """How the tables were differentiated by theta: "jax" or "differences"; "" before that."""
        return "" if self._way is None else self._way.name

    def __call__(self, theta: Any) -> jax.Array:
        """u at the points, (n,), or (n, operators) if several are asked for."""
        return value_p.bind(self.numbers(theta), own=self)

    def solution(self, theta: Any) -> Solution:
        """All of u for one theta."""
        own = self.at(np.asarray(self.numbers(theta)))
        report = report_of(own.problem, own.parts.basis, own.ready, own.solved)
        return Solution(own.problem, own.parts.basis, own.solved.a, report, History())

    def numbers(self, theta: Any) -> Any:
        """theta as one vector."""
        leaves, tree = tree_flatten(theta)
        if not leaves:
            raise ValueError(f"theta={theta!r} has no numbers: give an array of parameters")
        arrays = [jnp.asarray(leaf) for leaf in leaves]
        if not all(x.dtype.kind in "fiu" for x in arrays):
            raise TypeError(f"theta must be an array of real numbers or a tree of them: {theta!r}")
        shape = Shape(tree, [x.shape for x in arrays])
        if self.family.shape is None:
            self.family.shape = shape
        elif self.family.shape != shape:
            raise ValueError(
                f"theta has the shape {shape.shapes}, but before it was {self.family.shape.shapes}"
            )
        return jnp.concatenate([x.astype(jnp.float64).ravel() for x in arrays])

    # --- on the host

    def at(self, theta: Array) -> At:
        """Everything for these numbers; that of the last ones is kept."""
        key = theta.tobytes()
        with self._lock, on_the_cpu(True):
            if key in self._known:
                self._known.move_to_end(key)
            else:
                if not np.all(np.isfinite(theta)):
                    raise ValueError(f"theta is not finite: {theta!r}")
                while len(self._known) >= KEPT:
                    self._known.popitem(last=False)
                self._known[key] = self._made(np.array(theta))
            return self._known[key]

    def _made(self, theta: Array) -> At:
        problem = self.family.at(theta)
        operators = self._observed(problem)
        x = problem.domain.points(self._given)
        check_inside(problem, x)
        x = problem.domain.wrapped(x)
        parts, watch = self._discretised(problem), Stopwatch()
        linear = problem if problem.linear else self._linearised(problem, parts, theta)
        system = way(parts.basis).assemble(linear, parts)
        ready = way(parts.basis).factor(system, parts, watch)
        self.factorisations += 1
        solved = ready.solve(watch, Watching(problem, parts.basis)).whole()
        E, e = self._evaluation(problem, parts.basis, operators, x)
        data = ready.data()
        perturbed = Perturbed(
            self.family, theta, problem, linear, parts.basis, solved.a,
            tuple(places(problem, data)), tuple(data), len(ready.system.right), operators, x,
        )  # fmt: skip
        values = (E @ solved.a).reshape(e.shape) + e
        return At(theta, problem, parts, ready, solved, E, values, perturbed)

    def _linearised(self, problem: Problem, parts: Parts, theta: Array) -> Problem:
        """The problem linearised around its solution, which Newton's method finds."""
        known = self._last
        near = known is not None and known.problem.domain == problem.domain
        first = started(problem, self._state) if known is None or not near else known
        newton = Newton(problem, parts, relaxes=not near)
        found = newton.go(first)
        self.factorisations += sum(step.kind != "chord" for step in newton.steps)
        if not found.converged:
            raise ValueError(f"there is no u at theta={spelled(theta)}: {found.reason}")
        self._last = found.solution
        return linearised(problem, Around(problem, found.solution))

    def _observed(self, problem: Problem) -> tuple[Operator, ...]:
        for own in self.operators or ():
            if not is_linear(classified(own, problem.domain)):
                raise ValueError(
                    f"of={own!r} is not linear in u: ask for what it is made of, and apply the "
                    f"function to that, f(u(theta))"
                )
        if self.operators is not None:
            return self.operators
        if len(problem.unknowns) > 1:
            raise ValueError(
                f"the problem has the unknowns {', '.join(problem.unknowns)}: say whose values are "
                f"wanted, of=Field({problem.unknowns[0]!r})"
            )
        return (problem.unknown(problem.unknowns[0]),)

    def _discretised(self, problem: Problem) -> Parts:
        """Made once, unless the domain moves."""
        known = self._parts
        if known is not None and known.basis.decomposition.domain == problem.domain:
            return known
        if self.method.tol is None:
            made = self.method.parts(problem)
        elif known is None:
            made = on_basis(self._to_tolerance(problem).basis)
        else:
            raise ValueError(
                "theta moves the domain, and tol finds a discretisation for one domain only: "
                "choose subdomains and features in place of tol"
            )
        self._parts = made
        return made

    def _to_tolerance(self, problem: Problem) -> Solution:
        if problem.linear:
            return solve_to(problem, self.method, None)
        try:
            self._last = solve_to(problem, self.method, None, started(problem, self._state))
        except LostError as error:
            raise ValueError(f"there is no u at the first theta: {error}") from error
        return self._last

    def _evaluation(
        self, problem: Problem, basis: AnyBasis, operators: Sequence[Operator], x: Array
    ) -> tuple[Any, Array]:
        lifts = np.stack([problem.lift(own, x) for own in operators])
        if plain(problem):
            for known, E in self._evaluations:
                if known is basis:
                    return E, lifts
        E = scipy.sparse.vstack([_matrix(problem, basis, own, x) for own in operators]).tocsr()
        self._evaluations = [(basis, E)]
        return E, lifts

    def _derived(self, own: At) -> Followed | Differences:
        """How tables are differentiated by theta, found out once."""
        if self._way is None:
            self._way = differentiated(own.perturbed, own.ready.sharing > 1)
        return self._way

    def value(self, theta: Array) -> Array:
        return self._out(self.at(np.asarray(theta)).values)

    def tangents(self, theta: Array, directions: Array) -> Array:
        """Along directions (k, p): (k, n), or (k, n, operators)."""
        own, found = self.at(np.asarray(theta)), []
        with self._lock, on_the_cpu(True):
            for start in range(0, len(directions), BATCH):
                some = np.asarray(directions)[start : start + BATCH]
                derived = self._derived(own)
                with processes.in_unison("tangents") if own.ready.sharing > 1 else nullcontext():
                    rows, seen = derived.tangents(own.perturbed, some)
                a = own.ready.many(rows).a
                found.append((own.E @ a.T).T.reshape(seen.shape) + seen)
        return self._out(np.concatenate(found))

    def jacobian(self, theta: Any) -> Array:
        """All derivatives (n, p), or (n, operators, p), by as many tangents."""
        numbers = np.asarray(self.numbers(theta))
        return np.moveaxis(self.tangents(numbers, np.eye(len(numbers))), 0, -1)

    def gradients(self, theta: Array, weights: Array) -> Array:
        """The transpose of tangents: from (k, n), or (k, n, operators), to (k, p)."""
        theta = np.asarray(theta)
        own, found = self.at(theta), []
        weights = np.asarray(weights)
        seen = np.moveaxis(weights, -1, -2) if self.several else weights[:, None]
        with self._lock, on_the_cpu(True):
            for start in range(0, len(seen), BATCH):
                some = seen[start : start + BATCH]
                back = (own.E.T @ some.reshape(len(some), -1).T).T
                rows = own.ready.transposed(np.ascontiguousarray(back))
                if rows is None:
                    J = self.tangents(theta, np.eye(len(theta))).reshape(len(theta), -1)
                    return np.asarray(weights.reshape(len(weights), -1) @ J.T)
                found.append(self._summed(own, rows, some))
        return np.concatenate(found)

    def _summed(self, own: At, rows: Array, seen: Array) -> Array:
        """Gradients from all rows, of which each process may have its own."""
        derived, share = self._derived(own), own.ready.sharing
        if share == 1:
            return derived.gradients(own.perturbed, rows, seen)
        with processes.in_unison("gradients"):
            found = derived.gradients(own.perturbed, rows, seen / share)
        return processes.total("gradients", found)

    def _out(self, values: Array) -> Array:
        return np.ascontiguousarray(
            np.moveaxis(values, -2, -1) if self.several else values[..., 0, :]
        )


def _matrix(problem: Problem, basis: AnyBasis, operator: Operator, x: Array) -> Any:
    """An operator at points as a sparse matrix."""
    E, _ = evaluate_at(problem, basis, operator, x)
    rows, columns, values = [], [], []
    for block in E.blocks():
        r, c = np.meshgrid(block.rows, block.columns, indexing="ij")
        rows.append(r.ravel())
        columns.append(c.ravel())
        values.append(np.asarray(block.values).ravel())
    every = (np.concatenate(own) for own in (values, rows, columns))
    value, row, column = every
    return scipy.sparse.csr_array((value, (row, column)), shape=E.shape)
