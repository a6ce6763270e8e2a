"""A space-time problem solved slab by slab: the end of one slab is the start of the next.

A slab is an ordinary problem on a part of the time axis. Its initial conditions take their values
from the slab before, evaluated at the slab's own collocation points; nothing is fitted in between.
Where coefficients do not depend on time all slabs have one matrix, which is recognised by its
numbers and factored once.

The error is estimated by a second, coarser discretisation: what it says of each slab from the same
start is what that slab loses, and marched from its own ends it shows how such losses grow or fade.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tessella.accuracy import tuning
from tessella.cells.boxes.basis import on_cells
from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.geometry.functions import function_values
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import Array
from tessella.machine.device import on_the_cpu
from tessella.machine.memory import peak_mib
from tessella.machine.progress import Shown, attended, inner
from tessella.machine.stopwatch import Stopwatch
from tessella.problem.fields import part_named
from tessella.problem.problem import Problem
from tessella.problem.slabs import END, START, TIME, slab_problem, starts, until
from tessella.solution.marched import Marched, MarchReport
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution, test_points
from tessella.solving.checkpoint import Checkpoint, opened
from tessella.solving.doors import check_problem, with_choices
from tessella.solving.method import Method
from tessella.solving.plan import on_basis
from tessella.solving.time.walk import ENDS, Walk
from tessella.solving.tolerance import solve_to
from tessella.solving.ways import Parts


@with_choices()
def march(
    problem: Problem,
    slabs: int | Sequence[float] = 20,
    method: Method | None = None,
    *,
    progress: Shown = None,
    checkpoint: str | Path | None = None,
    **choices: Any,
) -> Marched:
    """Solve a problem with a time axis `t` in `slabs` equal steps of time, or in those that end at
    these times: short ones where things change fast, `[0.01, 0.02, 0.04, 0.1, 1]`.

    The choices are those of `solve` and describe one slab: `march(problem, 20, subdomains=(4, 2),
    features=150, coupling="interfaces")` has 4 x 2 subdomains in each. A `basis` is given on the
    whole domain and moved to every slab. `tol` chooses the discretisation on the first slab and
    keeps it for all; errors add up, so ask each slab for a fraction of what the end may have. The
    report says whether the end has it.

    Choose slabs about as long as the solution takes to cross a subdomain: shorter ones add up more
    jumps, longer ones are larger systems. Time and memory grow with the slab, not with T, and
    nothing but the right-hand side is computed anew where the coefficients do not depend on time.

    The initial conditions must be stated as such (`Initial`, `InitialVelocity`, or any condition
    on tmin), as many as the equation's order in time.

    `test_grid` is where the error of one slab is measured (about 2,000 points unless given);
    `estimate` marches a second, coarser discretisation beside this one (the default where the
    solver is direct); without it residuals are those at a slab's own points. `progress` is as in
    `solve`: the line counts slabs, and a function of your own is called with (slabs done, slabs,
    residual) after each of them, and as in `solve` while one is being set up or iterated on. An
    interrupt keeps the slabs that are finished. With a folder as `checkpoint` they are on disk too,
    and the same call goes on from the last of them, whatever ended it.

    >>> import tessella as ts
    >>> domain = ts.Box(x=(0, 1), t=(0, 1))
    >>> decay = ts.Equation(ts.D(t=1) - ts.D(x=2), rhs=1.0)
    >>> problem = ts.Problem(domain, decay, [ts.Dirichlet(0.0), ts.Initial(0.0)])
    >>> solution = ts.march(problem, 2, subdomains=(2, 1), features=60, coupling="interfaces")
    >>> round(float(solution([0.5, 1.0])[0]), 4)
    0.125
    """
    check_problem(problem, "march", nonlinear=True)
    _check(problem)
    chosen = Method.of(choices, "march", method)
    ends = _ends(problem, slabs)
    if chosen.tol is not None and not isinstance(slabs, int | np.integer):
        raise ValueError(
            "tol chooses what slabs of one length have in common: give their number, or subdomains "
            "and features"
        )
    kept = opened(checkpoint, "march", problem, chosen, slabs=np.asarray(slabs).tolist())
    first = slab_problem(problem, (float(ends[0]), float(ends[1])))
    with attended(progress) as show:
        parts, found = _first_parts(problem, first, chosen, inner(show), kept)
        # Many small steps, in which a GPU would wait for its launches; large slabs it may have.
        with on_the_cpu(on_cells(parts.basis), lent=True):
            marched = _march(problem, ends, parts, chosen, show, kept)
    if found is None:
        return marched
    report = dataclasses.replace(
        marched.report, tolerance=chosen.tol, refinement=found.report.refinement
    )
    if found.report.stop_reason != "tolerance met":
        told = f"first slab: {found.report.stop_reason}, {found.report.advice}"
        report = dataclasses.replace(report, advice="; ".join(filter(None, (told, report.advice))))
    return dataclasses.replace(marched, report=_verdict(report, chosen.tol, chosen.norm))


def _march(
    problem: Problem,
    ends: Array,
    parts: Parts,
    method: Method,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Marched:
    """Slab after slab between these times, each with the same parts; those that an earlier run has
    kept are found again."""
    watch, slabs = Stopwatch(), len(ends) - 1
    walk = Walk(problem, method, inner(progress))
    reason, advice = f"reached t = {ends[-1]:g}", ""
    last = None
    while checkpoint is not None and (record := checkpoint.read(len(walk.figures))) is not None:
        walk.recall(record, parts)
        last = record
    if last is not None and len(walk.figures) < slabs:
        walk.resume(last, parts)
    for k in range(len(walk.figures), slabs):
        try:
            walk.keep(walk.attempt((float(ends[k]), float(ends[k + 1])), parts))
            if checkpoint is not None:
                checkpoint.write(k, *walk.record())
        except ENDS as error:
            remedy = "take shorter slabs or more of the cells, or check the conditions"
            reason, advice = walk.stopped(error, f"in slab {k + 1} of {slabs}", remedy)
            break
        if progress is not None:
            progress(k + 1, slabs, walk.figures[-1].residual)
    return finished(walk, problem, slabs, reason, advice, watch)


def _first_parts(
    problem: Problem,
    first: Problem,
    method: Method,
    progress: Progress | None,
    checkpoint: Checkpoint | None,
) -> tuple[Parts, Solution | None]:
    """What every slab is solved with: as chosen, or as a solve of the first slab to the tolerance
    finds it."""
    if method.tol is not None:
        kept = None if checkpoint is None else checkpoint.within("first")
        found = solve_to(dataclasses.replace(first, exact=None), method, progress, None, kept)
        return on_basis(found.basis), found
    if method.basis is None:
        return method.parts(first), None
    if method.basis.decomposition.domain != problem.domain:
        raise ValueError(
            f"the basis lives on {method.basis.decomposition.domain!r}, but the problem on "
            f"{problem.domain!r}: decompose the problem's domain, it is moved to every slab"
        )
    moved = dataclasses.replace(method, basis=method.basis.moved(first.domain))
    return moved.parts(first), None


def _verdict(report: MarchReport, tol: float | None, norm: str | None) -> MarchReport:
    """Whether everything that has accumulated is below the tolerance, and what to do if not."""
    estimate = report.estimate_in(norm)
    if report.stopped_early or estimate is None or tol is None:
        return report
    if estimate <= tol:
        return dataclasses.replace(report, stop_reason=f"{report.stop_reason}, tolerance met")
    grown = (
        f"the estimated error is {estimate:.1e} at the end, tol = {tol:.1e} was asked of one slab: "
        f"ask for {tol * tol / estimate:.0e}, or march fewer slabs"
    )
    return dataclasses.replace(
        report,
        stop_reason=f"{report.stop_reason}, tolerance not met",
        advice="; ".join(filter(None, (report.advice, grown))),
    )


def finished(
    walk: Walk, problem: Problem, planned: int, reason: str, advice: str, watch: Stopwatch
) -> Marched:
    """The slabs of a walk as one solution, and its error where that can be known."""
    reached = until(problem, walk.figures[-1].end)
    report = MarchReport(walk.solutions[0].report, walk.told(), planned, reason, advice)
    made = Marched(reached, tuple(walk.solutions), report)
    at = test_points(made.problem, made.slabs[0].basis, None)
    error = None if at is None else error_norms(made(at), made.problem.exact_values(at))
    report = dataclasses.replace(
        made.report, error=error, seconds=watch.total(), peak_memory_mib=peak_mib()
    )
    return dataclasses.replace(made, report=report)


def marches(problem: Problem) -> bool:
    """Whether a problem can be solved slab by slab."""
    try:
        _check(problem)
        slab_problem(problem, problem.domain.bounds[problem.domain.axis_index(TIME)])
    except ValueError:
        return False
    return True


def _ends(problem: Problem, slabs: int | Sequence[float]) -> Array:
    """The times between slabs, the first and the last one included."""
    low, high = problem.domain.bounds[problem.domain.axis_index(TIME)]
    if isinstance(slabs, int | np.integer) and slabs >= 1:
        return np.linspace(low, high, int(slabs) + 1)
    listed = isinstance(slabs, Sequence | np.ndarray) and not isinstance(slabs, str)
    ends = np.concatenate([[low], np.asarray(slabs, float)]) if listed else np.array([low])
    if len(ends) < 2 or ends[-1] != high or not np.all(np.diff(ends) > 0):
        raise ValueError(
            f"slabs must be a whole number >= 1, or the times at which they end, all after {low:g} "
            f"and rising to {high:g}, got {slabs!r}"
        )
    return ends


def _check(problem: Problem) -> None:
    """Refuse what has no start to continue from."""
    domain = problem.domain
    if TIME not in domain.axes:
        raise ValueError(
            f"march() needs a time axis called 't', but the domain has {', '.join(domain.axes)}: "
            f"use solve()"
        )
    pieces: list[Domain] = [domain]
    if isinstance(domain, Divided):
        pieces = [domain.whole, *(shape for _, shape in domain.shapes)]
    for piece in pieces:
        if not (isinstance(piece, Box) or (isinstance(piece, Extrusion) and piece.axis == TIME)):
            raise ValueError(
                f"march() cuts the time axis, so the domain must be a Box or a shape.over(t=...), "
                f"or regions that are, got {piece!r}"
            )
    for condition in problem.conditions:
        faces = condition.faces(domain)
        if END in faces:
            raise ValueError(
                f"{condition.name!r} holds on tmax, but a march knows only the past: use solve() "
                f"for the whole domain"
            )
        if START in faces and len(faces) > 1:
            raise ValueError(
                f"{condition.name!r} holds on {', '.join(faces)} at once, but every slab replaces "
                f"what holds on tmin: state that as a condition of its own, e.g. Initial(...)"
            )
    _check_ansatz(problem)
    axis, first = domain.axis_index(TIME), starts(problem)
    orders: dict[str, int] = {}
    for field in problem.fields:
        name = part_named(domain, field).unknown
        orders[name] = max(orders.get(name, 0), _order(problem, field, axis))
    order = sum(orders.values())
    if order == 0:
        raise ValueError("the equation has no derivative in t, so nothing marches: use solve()")
    if len(first) < order:
        names = ", ".join(c.name for c in first) or "none"
        of = ", ".join(f"{n} for {name}" for name, n in orders.items() if n)
        raise ValueError(
            f"a slab needs as many conditions on tmin to start from as the equations have orders "
            f"in t, {order} ({of}), but has {len(first)} ({names}): add Initial(...)"
            + (" and InitialVelocity(...)" if max(orders.values()) > 1 else "")
        )


def _order(problem: Problem, field: str, axis: int) -> int:
    """How often the equations differentiate an unknown along an axis."""
    terms = [t for e in problem.equations for t in problem.terms(e.operator, field)]
    return max((term.orders[axis] for term in terms), default=0)


def _check_ansatz(problem: Problem) -> None:
    """A multiplier that vanishes at the start holds the initial data of the first slab only."""
    domain = problem.domain
    inside = domain.scatter(tuning.PER_FACE, np.random.default_rng(0))
    start = inside.copy()
    axis = domain.axis_index(TIME)
    start[:, axis] = domain.lower[axis]
    for name in problem.fields:
        multiplier = problem.multiplier(name)
        size, there = (np.max(np.abs(function_values(multiplier, x))) for x in (inside, start))
        if there <= 1e-10 * size:
            raise ValueError(
                "the ansatz's multiplier vanishes at tmin, so it builds in the initial data, which "
                "only the first slab starts from: leave the factor of t and the data out of the "
                "ansatz and state them as conditions, e.g. Initial(...), InitialVelocity(...)"
            )
