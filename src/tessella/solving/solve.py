"""The front door: a problem and a few numbers in, a solution out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from tessella.accuracy.estimate import disagreement
from tessella.cells.basis import CellBasis, default_features, on_cells
from tessella.cells.shaped import off_regions
from tessella.cells.shelf import Shelf
from tessella.cells.solvers import AnySolver, Exchange, Merging, solver_named
from tessella.cells.tiling import Cuts, Tiling
from tessella.features.enrichment import Enrichment, Functions, as_enrichment
from tessella.features.random_features import Activation, RandomFeatures
from tessella.linalg.direct.nested_qr import NestedQR
from tessella.linalg.iterative.iteration import Progress
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import Solver
from tessella.machine.device import on_the_cpu
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.basis import AnyBasis, Basis, Fields
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.determined import missing_conditions
from tessella.problem.problem import Problem
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution, test_points
from tessella.solving.algorithm import run
from tessella.solving.plan import Plan
from tessella.solving.tolerance import refine

ByField = Functions | Mapping[str, Functions]
"""Enrichment of all unknowns, or by the name of the unknown."""


def solve(
    problem: Problem,
    *,
    tol: float | None = None,
    patience: float = 120.0,
    subdomains: int | Sequence[Cuts] | None = None,
    features: int | None = None,
    coupling: str = "overlap",
    overlap: float | Sequence[float] | None = None,
    trace_degree: int | None = None,
    shared: bool | None = None,
    scale: float | None = None,
    activation: str | Activation | None = None,
    depth: int = 1,
    enrichment: ByField = (),
    oversampling: float | None = None,
    sigma: float | None = None,
    seed: int = 0,
    basis: AnyBasis | None = None,
    collocation: Grid | None = None,
    filter: RRQR | Unfiltered | None = None,
    solver: Solver | Merging | Exchange | str = "auto",
    test_grid: Grid | None = None,
    condition: bool = False,
    estimate: bool | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve a linear PDE with filtered random features.

    Name a tolerance, `solve(problem, tol=1e-6)`, and everything is chosen: the discretisation is
    refined until the estimated normalised L1 error is below it, for about `patience` seconds at
    most. The report shows the way there, and says so if the tolerance is out of reach.

    Or say how rich the basis is with `subdomains` (per axis) and `features` (per subdomain); all
    else has a default. More features per subdomain buy accuracy fastest; more subdomains follow
    finer structure. Side by side they may also be of different width: `subdomains=([0, 0.9, 1], 4)`
    has two slabs between these edges along the first axis, and four equal ones along the second.

    `coupling` says how subdomains are joined. "overlap" is the paper's: windows blend neighbours
    that are `overlap` spacings wide (2 unless given). "interfaces" puts them side by side, on boxes
    and on shapes, whose boundaries cut them: every subdomain answers data that come in over its
    faces (polynomials of degree `trace_degree`) with data that go out, and these maps are joined.
    It is tens of times faster at equal error. `shared` gives all subdomains one draw (the default
    there), so that equal ones are factored once. `scale`, `activation` and `sigma` default to tanh
    of scale 1 filtered at 1e-10 with overlap, and to sines of a bandwidth that fits `features`
    filtered at 1e-14 side by side; `oversampling`, points per feature, to 2 and 1.5.

    `enrichment` are functions the solution is known to contain, e.g. a corner's singularity or a
    boundary layer, as extra columns of every subdomain (see `Enrichment`); of a system, those of
    every unknown, or a mapping from names of unknowns to theirs.

    `basis`, `collocation`, `filter` and `solver` replace the shorthand arguments by
    whole objects; `filter=Unfiltered()` solves without filter and preconditioner. `solver` is an
    object or a name (see `tessella.linalg.solvers.NAMES`); "auto" solves directly with NestedQR
    when its predicted memory and time fit, and with preconditioned LSQR otherwise; side by side
    with "merging" or "exchange" (GMRES) likewise.

    A system's unknowns each get such a basis with draws of their own; `basis=Fields(u=..., p=...)`
    gives them different ones.

    `test_grid` is where the error is measured if the problem has an exact solution (it plays no
    part in the solve), `condition=True` also computes condition numbers, `estimate=True` estimates
    the error by a second, coarser solve (the default where the solver is direct). `progress` is
    called with (iterations, limit, relative residual), and with (parts done, parts, 1) during a
    set-up. Side by side the unknowns of an iteration are what is exchanged, so no error is tracked
    while it runs.
    """
    if test_grid is not None and not isinstance(test_grid, Grid):
        raise ValueError(
            f"test_grid must be a Grid, got {test_grid!r}: write Grid(points_per_axis=50)"
        )
    if tol is not None:
        _refuse_beside_tol(
            subdomains=subdomains,
            features=features,
            overlap=overlap,
            trace_degree=trace_degree,
            shared=shared,
            scale=scale,
            activation=activation,
            sigma=sigma,
            basis=basis,
            collocation=collocation,
            filter=filter,
            coupling=None if coupling == "overlap" else coupling,
            depth=None if depth == 1 else depth,
            oversampling=oversampling,
            solver=None if solver == "auto" else solver,
            condition=condition or None,
            estimate=estimate,
        )
        return _solve_to(problem, tol, patience, seed, enrichment, test_grid, progress)
    chosen = parts(
        problem,
        subdomains=subdomains,
        features=features,
        coupling=coupling,
        overlap=overlap,
        trace_degree=trace_degree,
        shared=shared,
        scale=scale,
        activation=activation,
        depth=depth,
        oversampling=oversampling,
        sigma=sigma,
        seed=seed,
        basis=basis,
        collocation=collocation,
        filter=filter,
        solver=solver,
        enrichment=enrichment,
    )
    return run(
        problem,
        chosen.basis,
        chosen.collocation,
        chosen.filter,
        chosen.solver,
        test_grid=test_grid,
        condition=condition,
        estimate=estimate,
        progress=progress,
    )


@dataclass(frozen=True)
class Parts:
    """Whole objects in place of shorthand; no solver means that the matrix decides."""

    basis: AnyBasis
    collocation: Grid
    filter: RRQR | Unfiltered
    solver: AnySolver


def parts(
    problem: Problem,
    *,
    subdomains: int | Sequence[Cuts] | None = None,
    features: int | None = None,
    coupling: str = "overlap",
    overlap: float | Sequence[float] | None = None,
    trace_degree: int | None = None,
    shared: bool | None = None,
    scale: float | None = None,
    activation: str | Activation | None = None,
    depth: int = 1,
    oversampling: float | None = None,
    sigma: float | None = None,
    seed: int = 0,
    basis: AnyBasis | None = None,
    collocation: Grid | None = None,
    filter: RRQR | Unfiltered | None = None,
    solver: Solver | Merging | Exchange | str = "auto",
    enrichment: ByField = (),
) -> Parts:
    """The objects that the shorthand of `solve` stands for."""
    chosen_by_hand = (subdomains, features, overlap, trace_degree, shared, scale, activation)
    if basis is None:
        if subdomains is None or features is None:
            raise ValueError(
                "solve() needs a tolerance, e.g. solve(problem, tol=1e-6), or `subdomains` and "
                "`features`, e.g. solve(problem, subdomains=8, features=100), or a whole `basis`"
            )
        drawn = _features(coupling, problem.domain.dimension, features, depth, activation, scale)
        each = [
            dataclasses.replace(
                _basis(
                    coupling,
                    problem,
                    subdomains,
                    drawn,
                    seed + number if number else seed,
                    overlap,
                    trace_degree,
                    shared,
                ),
                enrichment=_enrichment_of(field, enrichment, problem),
            )
            for number, field in enumerate(problem.fields)
        ]
        basis = for_fields(problem, each)
    else:
        given = (*chosen_by_hand, coupling, depth, seed, enrichment)
        _refuse_both("basis", given, (*[None] * 7, "overlap", 1, 0, ()))
    if basis.decomposition.domain != problem.domain:
        raise ValueError(
            f"the basis lives on {basis.decomposition.domain!r}, but the problem on "
            f"{problem.domain!r}: decompose the problem's domain"
        )
    if collocation is not None:
        _refuse_both("collocation", (oversampling,), (None,))
    if filter is not None:
        _refuse_both("filter", (sigma,), (None,))
    if oversampling is None:
        oversampling = SIDE_BY_SIDE_POINTS if on_cells(basis) else OVERLAP_POINTS
    collocation = collocation or Grid(oversampling)
    if sigma is None:
        sigma = SIDE_BY_SIDE_SIGMA if on_cells(basis) else OVERLAP_SIGMA
    own_filter, chosen = (
        solver_named(solver, sigma) if isinstance(solver, str) else (RRQR(sigma), solver)
    )
    return Parts(basis, collocation, filter or own_filter, chosen)


COUPLINGS = ("overlap", "interfaces")

OVERLAP_SIGMA, SIDE_BY_SIDE_SIGMA = 1e-10, 1e-14
"""Default thresholds of the filter."""

OVERLAP_POINTS, SIDE_BY_SIDE_POINTS = 2.0, 1.5
"""Points per feature. With windows twice as many as features; in cells, whose incoming data are
rows too, the error does not change from 1.3 to 2.5."""

GPU_WORK = 3e10
"""From this on a step of `tol` is solved on a GPU, if there is one: some 15 s on two cores. Every
step has shapes of its own, for which a GPU's programs take that long to compile."""

_SHORTHAND = {
    "basis": "subdomains, features, coupling, overlap, trace_degree, shared, scale, activation, "
    "depth, enrichment and seed",
    "collocation": "oversampling",
    "filter": "sigma",
}


def _solve_to(
    problem: Problem,
    tol: float,
    patience: float,
    seed: int,
    enrichment: ByField,
    test_grid: Grid | None,
    progress: Progress | None,
) -> Solution:
    """Refine to a tolerance; only then is the exact solution, if any, looked at."""
    watch = Stopwatch()
    with on_the_cpu(True):
        shelf = Shelf()

    def engine(blind: Problem, plan: Plan) -> Solution:
        chosen = with_basis(_planned(blind, plan, seed, enrichment))
        whole = (chosen.basis, chosen.collocation, chosen.filter, chosen.solver)
        with on_the_cpu(plan.work() < GPU_WORK):
            return run(blind, *whole, shelf=shelf)

    if problem.exact_function is not None:
        few = problem.domain.scatter(2, np.random.default_rng(seed))
        problem.exact_values(few)  # shows a bad one before the work
    quiet = nullcontext() if overdetermined(problem) else single_threaded_blas()
    with watch.phase("solve"), on_the_cpu(True), quiet:
        found = refine(problem, tol, engine, patience, progress)
    solution = dataclasses.replace(found.solution, problem=problem)
    with watch.phase("measure"):
        at = test_points(problem, solution.basis, test_grid)
        error = None if at is None else error_norms(solution(at), problem.exact_values(at))
    met = "tolerance met" if found.met else "tolerance not met"
    remarks = (found.reason, missing_conditions(problem) or disagreement(error, found.estimate))
    report = dataclasses.replace(
        solution.report,
        error=error,
        error_estimate=found.estimate,
        tolerance=tol,
        refinement=found.steps,
        stop_reason=met,
        advice="; ".join(filter(None, remarks)),
        seconds=watch.total(),
        peak_memory_mib=peak_mib(),
    )
    return dataclasses.replace(solution, report=report)


def for_fields(problem: Problem, bases: Sequence[Basis]) -> AnyBasis:
    """One basis per unknown; a single unknown needs no Fields."""
    if len(bases) == 1:
        return bases[0]
    return Fields(**dict(zip(problem.fields, bases, strict=True)))


BLENDED_SCALE = 1.5
"""Bandwidth of overlapping subdomains' features where `tol` takes them."""


def overdetermined(problem: Problem) -> bool:
    """Whether more equations hold than there are unknowns."""
    return not problem.domain.regions and len(problem.equations) > len(problem.fields)


def _planned(problem: Problem, plan: Plan, seed: int, enrichment: ByField) -> AnyBasis:
    """The basis of a plan: cells, or overlapping subdomains where more equations hold than there
    are unknowns. What such equations say together about a wall without conditions is known to the
    least squares of the whole, and to no cell."""
    if overdetermined(problem):
        blended = RandomFeatures(plan.features, scale=plan.bandwidth * BLENDED_SCALE)
        cover = Decomposition(problem.domain, plan.subdomains)
        each = [
            Basis(cover, blended, own, enrichment=_enrichment_of(field, enrichment, problem))
            for own, field in enumerate(problem.fields, seed)
        ]
        return for_fields(problem, each)
    tiling = off_regions(Tiling.of_widths(problem.domain, plan.slabs, plan.cut))
    features = default_features(plan.features, problem.domain.dimension)
    features = dataclasses.replace(features, scale=plan.bandwidth * features.scale)
    return for_fields(
        problem,
        [
            CellBasis(tiling, features, own, enrichment=_enrichment_of(field, enrichment, problem))
            for own, field in enumerate(problem.fields, seed)
        ],
    )


def with_basis(basis: AnyBasis) -> Parts:
    """What `tol` solves with on a basis it has chosen."""
    if not on_cells(basis):
        return Parts(basis, Grid(3.0), RRQR(1e-12), NestedQR())
    return Parts(basis, Grid(SIDE_BY_SIDE_POINTS), RRQR(SIDE_BY_SIDE_SIGMA), None)


def _enrichment_of(field: str, given: ByField, problem: Problem) -> tuple[Enrichment, ...]:
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


def _refuse_beside_tol(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"tol chooses discretisation and solver itself: leave out {name}={value!r}, or tol"
            )


def _refuse_both(whole: str, given: tuple[object, ...], defaults: tuple[object, ...]) -> None:
    """A whole object and its shorthand at once would leave one of them silently unused."""
    if given != defaults:
        raise ValueError(
            f"pass either `{whole}` or its shorthand ({_SHORTHAND[whole]}), not both: put the "
            f"values into the {whole} object"
        )


def _features(
    coupling: str,
    dimension: int,
    count: int,
    depth: int,
    activation: str | Activation | None,
    scale: float | None,
) -> RandomFeatures:
    if coupling not in COUPLINGS:
        raise ValueError(f"unknown coupling {coupling!r}: choose one of {', '.join(COUPLINGS)}")
    if coupling == "interfaces" and activation in (None, "sin") and scale is None:
        return default_features(count, dimension, depth)
    function = activation or ("sin" if coupling == "interfaces" else "tanh")
    return RandomFeatures(count, depth, function, scale=1.0 if scale is None else scale)


def _equal_ones(subdomains: int | Sequence[Cuts]) -> int | Sequence[int]:
    """Numbers of subdomains along the axes, not edges."""
    if isinstance(subdomains, Sequence) and any(np.ndim(own) > 0 for own in subdomains):
        raise ValueError(
            f"subdomains={subdomains!r} has edges, which belong to subdomains side by side: add "
            f"coupling='interfaces', or give a number per axis"
        )
    return subdomains  # type: ignore[return-value]


def _basis(
    coupling: str,
    problem: Problem,
    subdomains: int | Sequence[Cuts],
    features: RandomFeatures,
    seed: int,
    overlap: float | Sequence[float] | None,
    trace_degree: int | None,
    shared: bool | None,
) -> Basis:
    if coupling == "overlap":
        for name, value in (("trace_degree", trace_degree), ("shared", shared)):
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} belongs to subdomains side by side: add "
                    f"coupling='interfaces', or leave {name} out"
                )
        counts = _equal_ones(subdomains)
        decomposition = Decomposition(problem.domain, counts, 2.0 if overlap is None else overlap)
        return Basis(decomposition, features, seed)
    if overlap is not None:
        raise ValueError(
            f"overlap={overlap!r} has no meaning with coupling='interfaces', where subdomains lie "
            f"side by side: leave it out, or use coupling='overlap'"
        )
    tiling = off_regions(Tiling(problem.domain, subdomains))
    return CellBasis(tiling, features, seed, trace_degree, True if shared is None else shared)
