"""Eigenvalues by shift and invert: L u = lambda M u near a number, on the factored problem.

With a shift s near the wanted eigenvalues, (L - s M) w = M v is solved again and again by the same
factors. A vector of the iteration is g = M v at the points of the equation, whose norm is that of
L2; it holds no coefficients, which may be large and cancel. g -> M w has the eigenvalues
1 / (lambda - s), of which block Arnoldi finds the largest.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.cells.applied import Applied
from tessella.cells.boxes.basis import on_cells
from tessella.cells.cell.sizes import operator_sizes
from tessella.cells.factors import CellFactors
from tessella.cells.joins.merging import Merged
from tessella.linalg.iterative.arnoldi import Ritz, largest
from tessella.linalg.iterative.iteration import History, Progress
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.device import on_the_cpu
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.basis import Multilevel
from tessella.overlap.factored import Found
from tessella.problem.operators import Identity, Operator
from tessella.problem.problem import Problem
from tessella.solution.report import Report
from tessella.solution.solution import Solution
from tessella.solution.spectrum import Spectrum
from tessella.solving.algorithm import report_of
from tessella.solving.doors import check_problem, with_choices
from tessella.solving.method import PATIENCE, Method, unknown
from tessella.solving.plan import Plan, first_plan, overdetermined, planned
from tessella.solving.ways import Parts, way

TOL = 1e-8
"""Relative error of all eigenvalues that is refined to, unless a discretisation is chosen."""

BLOCK = 4
"""Vectors that are iterated on together: an eigenvalue of a higher multiplicity takes longer."""

VECTORS = 200
"""Of the iteration, at most, beside five for every eigenvalue; with most problems half of that is
enough."""

AT_SHIFT, MOVES = 1e-6, (0.0, -0.07, 0.13, -0.31)
"""In units of about the first eigenvalues: an eigenvalue as near to the shift as this is there, and
how far the shift is then moved off it."""

UNIT = 0.1
"""Eigenvalues smaller than this, in the same units, have errors relative to it."""

REAL = 1e-8
"""Eigenvalues that differ by less than this part of them count as equal, and as real."""

FLOOR = 1e-13
"""Relative error of eigenvalues that rounding leaves."""

Mass = Operator | Mapping[str, Operator] | None


@with_choices()
@processes.by_itself()
def eigs(
    problem: Problem,
    k: int = 10,
    near: float = 0.0,
    method: Method | None = None,
    *,
    mass: Mass = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Spectrum:
    """The k eigenvalues of L u = lambda M u nearest to a number, and their functions.

    L is the operator of the problem's equation, whose right-hand side and all conditions must be
    zero. `mass` is M, the identity unless given; where there are several equations, a mapping from
    their names, those left out having none (of Stokes' equations the momenta have the velocities).
    Nothing need be self-adjoint: eigenvalues may be complex, and come in pairs.

    The choices are those of `solve`, on subdomains side by side. Without any, or with `tol`, the
    discretisation is refined until the estimated relative errors of all k eigenvalues are below it
    (1e-8), for about `patience` seconds. Corners that make functions singular need `enrichment`,
    for the Laplacian r^a sin(a theta) and its products with r^2, r^4, ... The shift is `near`; if
    an eigenvalue lies there, it is moved, and the spectrum says so.

    >>> import tessella as ts
    >>> square = ts.Box(x=(0, 3.141592653589793), y=(0, 3.141592653589793))
    >>> drum = ts.Problem(square, ts.Equation(-ts.Laplacian()), [ts.Dirichlet(0.0)])
    >>> ts.eigs(drum, k=4, subdomains=2, features=120).values.round(7).tolist()
    [2.0, 5.0, 5.0, 8.0]
    """
    check_problem(problem, "eigs")
    _check(problem, k, near)
    masses = _masses(problem, mass)
    chosen = Method.of(choices, "eigs", method)
    with on_the_cpu(True), single_threaded_blas():
        if chosen.tol is None and chosen.subdomains is None and chosen.basis is None:
            chosen = dataclasses.replace(chosen, tol=TOL)
        if chosen.tol is not None:
            return _refined(problem, k, float(near), masses, chosen, progress)
        if chosen.coupling is None and chosen.basis is None:
            chosen = dataclasses.replace(chosen, coupling="interfaces")
        parts = chosen.parts(problem)
        if not on_cells(parts.basis):
            raise ValueError(
                "eigs works on subdomains side by side: leave out coupling='overlap', or give a "
                "CellBasis"
            )
        return _spectrum(problem, k, float(near), masses, parts, chosen.estimate, progress)


def _check(problem: Problem, k: object, near: object) -> None:
    if not (isinstance(k, Integral) and int(k) >= 1):
        raise ValueError(f"k must be a whole number >= 1, got {k!r}")
    if not (isinstance(near, Real) and math.isfinite(near)):
        raise ValueError(f"near must be a finite real number, got {near!r}")
    for statement in problem.statements:
        if not (isinstance(statement.given, Real) and float(statement.given) == 0.0):
            raise ValueError(
                f"{statement.name!r} has the {statement.word} {statement.given!r}, but eigenvalues "
                f"need an equation and conditions that are zero: leave it out"
            )
    for field in problem.fields:
        offset = problem.ansatz_of(field).offset
        if callable(offset) or offset:
            raise ValueError(
                "the ansatz has an offset, but eigenvalues need functions of which every multiple "
                "is one: leave it out"
            )


def _masses(problem: Problem, mass: Mass) -> dict[str, Operator]:
    """M by the names of the equations that have one."""
    names = [equation.name for equation in problem.equations]
    if isinstance(mass, Mapping):
        for name, own in mass.items():
            if name not in names:
                raise ValueError(f"mass has no equation {unknown(name, names)}")
            if not isinstance(own, Operator):
                raise TypeError(f"mass of {name!r} must be an operator, got {own!r}")
        if not mass:
            raise ValueError("mass has no operator: give that of at least one equation")
        return dict(mass)
    if mass is not None and not isinstance(mass, Operator):
        raise TypeError(f"mass must be an operator, e.g. Identity(), got {mass!r}")
    if len(names) > 1 and not problem.domain.regions:
        raise ValueError(
            f"the problem has {len(names)} equations: say which unknown each has on the right, "
            f"mass={{{names[0]!r}: Field({problem.unknowns[0]!r}), ...}}"
        )
    return dict.fromkeys(names, mass or Identity())


class Close(NamedTuple):
    """What one discretisation finds: eigenvalues near a number, nearest first, coefficients of
    their functions, real or complex, and what these miss of every statement."""

    values: np.ndarray
    a: np.ndarray
    residual: dict[str, Array]
    loose: Array
    """What the iteration leaves open of the eigenvalues."""
    shift: float
    solves: int
    report: Report

    def missed(self, weights: Mapping[str, float]) -> Array:
        """The square roots of their losses, with these weights."""
        return np.sqrt(sum(weights[name] * own**2 for name, own in self.residual.items()))


def _close(
    problem: Problem,
    k: int,
    near: float,
    masses: Mapping[str, Operator],
    parts: Parts,
    watch: Stopwatch,
    progress: Progress | None,
) -> Close:
    """Eigenvalues near a number, by a shift there, or beside it if an eigenvalue is there."""
    unit = _unit(problem, masses)
    for move in MOVES:
        shift = near + move * unit
        with watch.phase("factor"):
            applied = _inverse(problem, masses, parts, shift, progress)
        if applied is None:
            continue
        with watch.phase("iterate"):
            most = VECTORS + 5 * k
            ritz = largest(applied, applied.size, k, block=BLOCK, together=REAL, most=most)
        if float(np.abs(1 / ritz.values[0])) > AT_SHIFT * unit:
            with watch.phase("solve"):
                return _functions(problem, parts, applied, ritz, near, shift)
    raise ValueError(
        f"the equation is singular at {near:g} and around it: check the conditions, they leave "
        f"something open"
    )


def _unit(problem: Problem, masses: Mapping[str, Operator]) -> float:
    """About how large the first eigenvalues are: L and M on a half wave as long as the domain."""
    domain = problem.domain
    k = np.pi / (domain.upper - domain.lower)
    x = domain.scatter(64, np.random.default_rng(0))
    sizes = [
        [
            float(operator_sizes(problem, own, problem.within(e, x), None, k).sum())
            for own in (e.operator, masses[e.name])
        ]
        for e in problem.equations
        if e.name in masses
    ]
    return max(L / max(M, 1e-300) for L, M in sizes)


def _inverse(
    problem: Problem,
    masses: Mapping[str, Operator],
    parts: Parts,
    shift: float,
    progress: Progress | None,
) -> Applied | None:
    """(L - shift M)^-1 with M behind it; None if it is singular."""
    shifted = problem if shift == 0.0 else _less(problem, masses, shift)
    system = way(parts.basis).assemble(shifted, parts)
    ready = way(parts.basis).factor(system, parts, Stopwatch(), progress)
    assert isinstance(ready, CellFactors)
    if isinstance(ready.joined, Merged) and ready.joined.undetermined:
        return None
    return Applied(ready, masses)


def _less(problem: Problem, masses: Mapping[str, Operator], value: float) -> Problem:
    """The problem with L - value M in place of L; it was checked when it was stated."""
    equations = tuple(
        dataclasses.replace(e, operator=e.operator - value * masses[e.name])
        if e.name in masses
        else e
        for e in problem.equations
    )
    made = copy.copy(problem)
    object.__setattr__(made, "equation", equations)
    return made


def _functions(
    problem: Problem, parts: Parts, applied: Applied, ritz: Ritz, near: float, shift: float
) -> Close:
    """The functions of what the iteration has found, of mean square one."""
    factors = applied.factors
    values = shift + 1 / ritz.values
    order = np.argsort(np.abs(values - near), kind="stable")
    values, theta, g = values[order], ritz.values[order], ritz.vectors[:, order]
    loose = ritz.residual[order] / np.abs(theta)
    g = g / np.linalg.norm(g, axis=0) * math.sqrt(factors.system.stating.volume)
    g *= np.where(_first_sign(g.real) < 0, -1.0, 1.0) / theta
    whole = bool(np.any(values.imag))
    found = factors.many(applied.right(g.real))
    a, residual = found.a, found.residual
    if whole:
        other = factors.many(applied.right(g.imag))
        a = a + 1j * other.a
        residual = {n: np.hypot(own, other.residual[n]) for n, own in residual.items()}
    else:
        values = values.real
    report = report_of(problem, parts.basis, factors, Found(found.a, found.result, {}))
    return Close(values, a, residual, loose, shift, ritz.applied, report)


def _first_sign(g: Array) -> Array:
    """The sign of every column where it is largest."""
    return np.sign(g[np.argmax(np.abs(g), axis=0), np.arange(g.shape[1])])


def _spectrum(
    problem: Problem,
    k: int,
    near: float,
    masses: Mapping[str, Operator],
    parts: Parts,
    estimate: bool | None,
    progress: Progress | None,
) -> Spectrum:
    """All that is told of what one discretisation finds."""
    watch, basis = Stopwatch(), parts.basis
    found = _close(problem, k, near, masses, parts, watch, progress)
    errors = np.full(len(found.values), np.nan)
    if estimate is not False and not isinstance(basis, Multilevel) and basis.features.count > 1:
        with watch.phase("estimate"):
            poorer = dataclasses.replace(parts, basis=basis.coarser())
            other = _close(problem, k + 2, near, masses, poorer, Stopwatch(), progress)
            errors = np.maximum(_errors(found, other), FLOOR * _unit(problem, masses))
    values, a = _real(found.values, found.a, errors)
    if len(values) > k and not values[-1].imag:  # a pair that was none
        values, a, errors = values[:k], a[:k], errors[:k]
    report = dataclasses.replace(
        found.report, seconds=watch.total(), peak_memory_mib=peak_mib(), advice=""
    )
    functions, imaginary = [], []
    for i, (value, one) in enumerate(zip(values.tolist(), a, strict=True)):
        residual = {name: float(own[i]) for name, own in found.residual.items()}
        own = dataclasses.replace(report, residual=residual)
        stated = problem if value.imag else _less(problem, masses, value.real)
        real, turned = (np.ascontiguousarray(part) for part in (one.real, one.imag))
        functions.append(Solution(stated, basis, real, own, History()))
        imaginary.append(Solution(stated, basis, turned, own, History()) if value.imag else None)
    remark = ""
    if found.shift != near:
        remark = f"an eigenvalue lies at {near:g}, so the shift was moved to {found.shift:.6g}"
    return Spectrum(
        values, errors, tuple(functions), tuple(imaginary), near, found.shift, remark,
        watch.total(), found.solves,
    )  # fmt: skip


def _errors(fine: Close, poor: Close) -> Array:
    """How far a poorer discretisation is off, times the ratio of what both miss."""
    weights = fine.report.weights
    apart = np.abs(fine.values[:, None] - poor.values)
    nearest = np.argmin(apart, axis=1)
    own, other = fine.missed(weights), poor.missed(weights)[nearest]
    share = np.minimum(1.0, own / np.maximum(other, 1e-300))
    difference = apart[np.arange(len(nearest)), nearest]
    return np.maximum(difference * share, np.maximum(fine.loose, FLOOR * np.abs(fine.values)))


def _real(values: np.ndarray, a: np.ndarray, errors: Array) -> tuple[np.ndarray, np.ndarray]:
    """Pairs whose imaginary parts are within their errors as two real eigenvalues, whose functions
    are real and imaginary part."""
    if not np.iscomplexobj(values):
        return values, a
    values, a = values.copy(), a.copy()
    small = (np.abs(values.imag) <= np.nan_to_num(errors)) & (values.imag != 0)
    for i in np.flatnonzero(small & (values.imag > 0)).tolist():
        mates = np.flatnonzero(np.isclose(values, values[i].conjugate(), rtol=1e-9, atol=0.0))
        mates = mates[values[mates].imag < 0]
        if len(mates):
            a[mates[0]], a[i] = a[i].imag, a[i].real
            values[mates[0]] = values[i] = values[i].real
    return (values.real, a.real) if not np.any(values.imag) else (values, a)


def _refined(
    problem: Problem,
    k: int,
    near: float,
    masses: Mapping[str, Operator],
    method: Method,
    progress: Progress | None,
) -> Spectrum:
    """Richer and finer until the estimated errors of all eigenvalues are below the tolerance."""
    assert method.tol is not None
    patience = PATIENCE if method.patience is None else method.patience
    if problem.domain.dimension not in tuning.FEATURES or overdetermined(problem):
        raise ValueError(
            "tol finds eigenvalues of as many equations as unknowns, in 1, 2 and 3 dimensions: "
            "choose subdomains and features yourself"
        )
    started, unit = time.perf_counter(), _unit(problem, masses)
    plan: Plan = first_plan(problem)
    best, lowest, slow = None, math.inf, 0
    while True:
        begun = time.perf_counter()
        found = _spectrum(problem, k, near, masses, planned(problem, plan, method), True, progress)
        worst = float(np.max(found.errors / np.maximum(np.abs(found.values), UNIT * unit)))
        gain = lowest / max(worst, 1e-300)
        if worst < lowest:
            best, lowest = found, worst
        assert best is not None
        spent, took = time.perf_counter() - started, time.perf_counter() - begun
        slow = slow + 1 if gain < tuning.STALLED else 0
        reason = ""
        if lowest <= method.tol:
            break
        richer = plan.richer() if gain >= tuning.WORTH else None
        following = richer or plan.finer(tuple(range(problem.domain.dimension)))
        expected = took * following.work() / plan.work()
        if slow >= tuning.TIMES:
            reason = "stalled (see enrichment if the functions are singular)"
        elif spent + expected > patience:
            reason = f"out of patience after {spent:.0f} s"
        if reason:
            reason = f"tolerance not met: {reason}, estimated relative error {lowest:.1e}"
            break
        plan = following
    remark = "; ".join(filter(None, (best.remark, reason)))
    seconds = {**best.seconds, "total": time.perf_counter() - started}
    return dataclasses.replace(best, remark=remark, seconds=seconds)
