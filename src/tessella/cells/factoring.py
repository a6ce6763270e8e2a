"""Cells are filtered, mapped and joined, as far as memory and time allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tessella.cells.cell.space import Space
from tessella.cells.device.factors import DeviceFactors, device_factors
from tessella.cells.device.shared import block_factors
from tessella.cells.factored import MAGNIFIED
from tessella.cells.factors import CellFactors
from tessella.cells.joins.budget import enough, joining_bytes
from tessella.cells.joins.choosing import MANY, Choice, chosen
from tessella.cells.joins.exchanged import Exchanged
from tessella.cells.joins.join import Climb
from tessella.cells.joins.merging import Merged
from tessella.cells.maps.leaves import Known, Mapped, factor_bytes, map_bytes, map_kinds
from tessella.cells.maps.maps import Distinct, distinct_members
from tessella.cells.maps.shares import Tally, shared_units
from tessella.cells.maps.shelf import Shelf
from tessella.cells.maps.singles import Singles, check_finite
from tessella.cells.maps.unknowns import projected
from tessella.cells.order.front import front_of
from tessella.cells.order.order import Order
from tessella.cells.solvers import CELL_SOLVERS, AnySolver, Exchange, Merging
from tessella.cells.system.kinds import Kind, find_kinds
from tessella.cells.system.system import CellSystem, retuned
from tessella.cells.system.tiled import spaces
from tessella.linalg.iterative.iteration import Progress
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine import processes
from tessella.machine.memory import of_the_host, require
from tessella.machine.threads import single_threaded_blas
from tessella.problem.slabs import TIME


def factor_cells(
    system: CellSystem,
    rule: RRQR | Unfiltered,
    solver: AnySolver,
    progress: Progress | None = None,
    shelf: Shelf | None = None,
    right_sides: int = MANY,
) -> CellFactors | DeviceFactors:
    """Filter the features once for all cells alike, map every kind of cell, and join the maps, for
    about so many right-hand sides: if it is one, for the system's own."""
    if not isinstance(rule, RRQR) or rule.patch > 1:
        raise ValueError(
            f"coupling='interfaces' fits every subdomain through its own filter, got {rule!r}: use "
            f"RRQR(sigma), with sigma=0 to keep all features"
        )
    if not (solver is None or isinstance(solver, Merging | Exchange)):
        raise ValueError(
            f"subdomains side by side are joined by maps, which solver={solver.name!r} does not "
            f"know: use solver='auto', {' or '.join(map(repr, CELL_SOLVERS))}"
        )
    with single_threaded_blas():
        if processes.alone():
            on_device = device_factors(system, rule.sigma, solver, progress)
        else:
            on_device = block_factors(system, rule.sigma, solver, progress, right_sides)
        if on_device is not None:
            return on_device
        orders = system.orders
        space_of, made = spaces(system.cells, system.bases, system.stating, orders, rule.sigma)
        best: CellFactors | None = None
        least = math.inf
        for tuning in TUNINGS:
            own = system if tuning == 1.0 else retuned(system, tuning)
            found = _factored(own, space_of, made, rule.sigma, solver, progress, shelf, right_sides)
            trouble = processes.largest("trouble", found.trouble)
            if best is None or trouble < least:
                best, least = (found if tuning == 1.0 else _tuned(found, tuning)), trouble
            if least < MAGNIFIED:
                loose = isinstance(best.joined, Merged) and best.joined.undetermined
                return best.noted(UNDETERMINED) if loose else best
    assert best is not None
    return best.noted("some subdomains are hardly determined by what comes in")


def _tuned(found: CellFactors, tuning: float) -> CellFactors:
    return replace(found.noted(f"kappa x {tuning:g} near resonance"), tuning=tuning)


UNDETERMINED = "the last exchange is singular: the solution may not be unique"

MUCH = 1 << 26
"""Bytes of factors from which on those that will not be needed again are not kept."""

LARGER = tuple(2**k for k in range(1, 9))
"""Numbers of processes that are looked at where one has too little memory."""

TUNINGS = (1.0, 1.7, 0.55)
"""Factors on the wavenumbers of the incoming data that are tried, until every cell and every group
of cells is well determined by its own: the equation may resonate in some of them."""


def _factored(
    system: CellSystem,
    space_of: np.ndarray,
    made: Sequence[Space],
    sigma: float,
    solver: Merging | Exchange | None,
    progress: Progress | None,
    shelf: Shelf | None,
    right_sides: int,
) -> CellFactors:
    """Maps of all cells, and the way they are joined."""
    begun = processes.sent_bytes()
    plan = system.cells.order(system.ports.joints)
    mine = plan.owners == processes.index()
    assert np.array_equal(plan.owners, system.cells.whose), "rows are stated by who has the cell"
    kinds = find_kinds(system, space_of, made, shelf is not None, mine)
    known = [None if shelf is None else shelf.cell(kind.name) for kind in kinds]
    singles = Singles(plan, kinds)
    once = right_sides == 1 and shelf is None and factor_bytes(kinds) > MUCH
    distinct, maps = distinct_members(plan, singles.which), map_bytes(kinds, system.asked, once)
    if isinstance(solver, Exchange) and system.sums:
        raise ValueError(
            "integrals and measurements of the whole are solved for at the last join: use "
            "solver='merging', or leave it out"
        )
    choice = Choice(solver) if solver else _chosen(system, plan, distinct, maps, right_sides)
    _check_memory(system, plan, kinds, distinct, maps, choice.first)
    with processes.in_unison("maps and joins"):
        b = None
        if once:
            b = projected(system, made, space_of, system.split(system.right)[0], ())
        mapped = map_kinds(kinds, system.asked, sigma, known, _in_waves(system), b)
        check_finite(system, mapped)
        if shelf is not None:
            _shelve(shelf, kinds, mapped, known)
        if progress is not None:
            progress(len(kinds), 2 * len(kinds), 1.0)
        climb = Climb(plan, singles.maps(mapped), distinct, shelf)
        if isinstance(choice.first, Exchange):
            climb.to(front_of(plan, choice.first.group))
        else:
            climb.below()
    joined = choice.joined(climb, np.array([total.weight for total in system.sums]), progress)
    again, tally = _tally(mapped, joined, known, processes.sent_bytes() - begun)
    return CellFactors(
        system, tuple(made), again, choice.note(joined.solver), 1.0, space_of, tuple(kinds),
        tuple(mapped), shared_units(kinds), joined, tally,
    )  # fmt: skip


def _chosen(
    system: CellSystem, plan: Order, distinct: Sequence[Distinct], maps: int, right_sides: int
) -> Choice:
    bound, dimension = bool(system.sums), system.problem.domain.dimension
    with of_the_host():
        return chosen(plan, distinct, maps, bound, right_sides, dimension)


def _in_waves(system: CellSystem) -> bool:
    """Whether something is differentiated twice in time."""
    axes = system.problem.domain.axes
    return TIME in axes and bool(np.any(system.orders[:, axes.index(TIME)] >= 2))


def _check_memory(
    system: CellSystem,
    plan: Order,
    kinds: Sequence[Kind],
    distinct: Sequence[Distinct],
    maps: int,
    solver: Merging | Exchange,
) -> None:
    """Refuse what will not fit in all processes, before any of it is made."""
    columns = max((kind.space.columns for kind in kinds), default=0)
    needed = maps + int(joining_bytes(plan, distinct, solver))
    (beside,) = processes.beside("needs", needed)

    def remedy(free: int) -> str:
        made = (system.cells.order(system.ports.joints, n) for n in LARGER)
        others = enough(plan, distinct, maps, solver, made, free)
        return f"use fewer subdomains or features, a lower trace_degree, {others}"

    with processes.in_unison("memory"), of_the_host():
        require(
            needed,
            f"mapping {len(kinds):,} distinct subdomains of {columns:,} columns and joining "
            f"{system.cells.count:,} by {solver.name}",
            remedy,
            beside,
        )


def _tally(
    mapped: Sequence[Mapped], joined: Merged | Exchanged, known: Sequence[Known], sent: int
) -> tuple[int, Tally]:
    """Of all processes: cells that were known before, and what there is of all."""
    columns = sum(len(own.cells) * own.columns for own in mapped)
    kept = sum(own.bytes for own in mapped) + joined.bytes
    distinct = sum(len(own.numbers) for own in mapped)
    worst = max((float(np.max(own.condition)) for own in mapped), default=1.0)
    again = sum(one is not None for one in known)
    own = np.array([again, distinct, columns, kept, sent, worst])
    every = np.array(processes.gathered("tally", own))
    again, distinct, columns, kept, sent = (int(x) for x in every[:, :-1].sum(axis=0))
    return again, Tally(distinct, columns, kept, sent, float(every[:, -1].max()))


def _shelve(
    shelf: Shelf, kinds: Sequence[Kind], mapped: Sequence[Mapped], known: Sequence[Known]
) -> None:
    """Keep what is new and what another solve may ask for."""
    for own in mapped:
        for i, number in enumerate(own.numbers.tolist()):
            if kinds[number].name and known[number] is None:
                shelf.put_cell(kinds[number].name, own.kept(i))
