"""`solve(problem, tol=...)` where waves travel: slab after slab of time.

What is not dissipated adds up, so that two solutions of the whole may fade alike and agree with
each other. In a slab as thick as a wave takes to cross a cell nothing has faded yet: a rich and a
poor solution of the first slab tell how much one slab loses, and as many as there are slabs may
lose no more than the tolerance together. All slabs have one matrix where coefficients do not depend
on time. A poorer march beside the first one then judges what has really accumulated.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.estimate import at_end, compare, look, own_error
from tessella.accuracy.held_out import held_out, where_it_is_peaked
from tessella.accuracy.scales import total_degree, turning_rate
from tessella.cells.tiling import Tiling
from tessella.geometry.box import Box
from tessella.linalg.iterative.iteration import Progress
from tessella.overlap.basis import Multilevel
from tessella.problem.hard import stated
from tessella.problem.problem import Problem
from tessella.problem.slabs import TIME, slab_problem
from tessella.solution.marched import Marched
from tessella.solution.report import Step
from tessella.solving.algorithm import run
from tessella.solving.march import march_with, marches
from tessella.solving.method import PATIENCE, Method
from tessella.solving.plan import Plan, first_plan, planned
from tessella.solving.waves import waves_of

SAFETY = 2.0
"""How much less than its share of the tolerance a slab is asked for."""

AT_ONCE = 1.8
"""Factor by which features grow at most from one attempt to the next."""

FEWEST = 3
"""Slabs from which on it pays to march, unless there are plane waves, with which it always does."""


class Steps(NamedTuple):
    """A way through time: the cells of one slab, and how many slabs."""

    plan: Plan
    slabs: int


def in_slabs(problem: Problem) -> Problem | None:
    """The problem as it is marched, if its solutions oscillate in time and it can be; else None."""
    if problem.domain.axes[-1] != TIME or len(problem.fields) > 1:
        return None
    if not isinstance(problem.domain, Box):
        return None
    soft = stated(problem)
    if soft is None or not marches(soft):
        return None
    plan = first_plan(soft)
    rate, oscillates = turning_rate(soft, _finest(soft, plan))
    if not oscillates:
        return None
    waves = waves_of(soft, Tiling(soft.domain, plan.subdomains), plan.features)
    return soft if waves or _slabs(soft, plan, rate) >= FEWEST else None


def step_to(
    problem: Problem, method: Method, progress: Progress | None
) -> tuple[Marched, bool, str]:
    """March to the tolerance: the solution, whether it is met, and why it ended."""
    assert method.tol is not None
    walk = _Walk(problem, method, progress)
    chosen, before, slow = walk.choose(), math.inf, 0
    while True:
        marched = walk.march(chosen)
        estimate = marched.report.estimate_in(method.norm)
        if estimate is None or marched.report.stopped_early:
            return marched, False, f"{marched.report.stop_reason}; {marched.report.advice}"
        if estimate <= method.tol:
            reached = marched.report.slabs[-1].end
            reason = (
                f"estimated error {estimate:.1e} <= tol = {method.tol:.1e} until t = {reached:g}"
            )
            return marched, True, reason
        slow = 0 if estimate < before / WORTH_MORE else slow + 1
        if slow > PATIENT:
            reason = (
                f"the estimated error stays at {estimate:.1e} with finer cells and slabs: the "
                f"solution is not smooth, or equation and conditions contradict each other"
            )
            return marched, False, reason
        before = estimate
        walk.share *= method.tol / (SAFETY * estimate)
        finer = walk.choose(beyond=chosen)
        if finer == chosen or walk.too_long(finer, chosen, marched.report.seconds["total"]):
            reason = (
                f"the estimated error has grown to {estimate:.1e} by the end; "
                f"{walk.spent():.0f} of {walk.patience:.0f} s are spent; raise `patience`"
            )
            return marched, False, reason
        chosen = finer


WORTH_MORE, PATIENT = 1.5, 1
"""Finer cells and slabs that lower the error by less than this, more than so often in a row, are
the last ones."""


class _Walk:
    """What is known of one slab: how much it loses with which cells, and how long that takes."""

    def __init__(self, problem: Problem, method: Method, progress: Progress | None) -> None:
        assert method.tol is not None
        self.problem, self.method, self.progress = problem, method, progress
        self.blind = dataclasses.replace(problem, exact=None)
        self.patience = PATIENCE if method.patience is None else method.patience
        self.started = time.perf_counter()
        self.share = method.tol / SAFETY
        """What all slabs together may lose."""
        self.steps: list[Step] = []
        self.tried: dict[Steps, tuple[float, float]] = {}
        """Of ways that were tried: what the first slab loses, and seconds for it."""

    def spent(self) -> float:
        return time.perf_counter() - self.started

    def choose(self, beyond: Steps | None = None) -> Steps:
        """The first way whose slabs together lose no more than their share: richer cells first,
        then more of them; `beyond` one that was not enough, whatever the first slab says."""
        steps = best = beyond or self.steps_of(first_plan(self.blind))
        least, slow = math.inf, 0
        while True:
            lost = self.lost(steps) * steps.slabs
            slow = 0 if lost < least / WORTH_MORE else slow + 1
            if lost < least:
                least, best = lost, steps
            if lost <= self.share and steps != beyond:
                return steps
            if self.spent() > self.patience / 3 or slow > PATIENT:
                return best
            steps = self.following(steps, lost / steps.slabs)

    def following(self, steps: Steps, lost: float) -> Steps:
        """As many features as the last gain promises to be enough, or a good deal more; at the end
        of the ladder, cells of two thirds of the size."""
        plan, d = steps.plan, len(steps.plan.slabs)
        ladder = tuning.FEATURES[d]
        gain = self._gain(steps)
        for rung in range(plan.rung + 1, len(ladder)):
            more = ladder[rung] ** (1 / d) - plan.features ** (1 / d)
            enough = lost * steps.slabs * math.exp(-gain * more) <= self.share / 2
            if enough or ladder[rung] >= AT_ONCE * plan.features:
                return Steps(dataclasses.replace(plan, rung=rung), steps.slabs)
        rung = min(tuning.START[d] + 1, len(ladder) - 1)
        counts = [math.ceil(1.5 * n) for n in plan.subdomains[:-1]]
        finer = Plan((*counts, 1), rung=max(rung, plan.rung - 2))
        return self.steps_of(finer)

    def _gain(self, steps: Steps) -> float:
        """By which exponent the loss falls with features^(1/d)."""
        d = len(steps.plan.slabs)
        step = self.steps[-1]
        K = steps.plan.features ** (1 / d)
        fall = math.log(max(step.difference or 1.0, 1e-15) / max(step.estimate or 1.0, 1e-15))
        return max(fall, 0.1) / (K - (steps.plan.features / 2) ** (1 / d))

    def steps_of(self, plan: Plan) -> Steps:
        """Slabs of one cell in time, as thick as its features resolve."""
        counts = list(plan.subdomains[:-1])
        if math.prod(counts) == 1:
            sides = self.blind.domain.upper - self.blind.domain.lower
            counts[int(np.argmax(sides[:-1]))] = 2
        plan = Plan((*counts, 1), rung=plan.rung)
        rate, _ = turning_rate(self.blind, _finest(self.blind, plan))
        return Steps(plan, _slabs(self.blind, plan, rate))

    def lost(self, steps: Steps) -> float:
        """What the first slab loses at its end, judged by half the features."""
        if steps in self.tried:
            return self.tried[steps][0]
        start = time.perf_counter()
        ends = self.ends(steps)
        first = slab_problem(self.blind, (float(ends[0]), float(ends[1])))
        parts = planned(first, steps.plan, self.method)
        assert not isinstance(parts.basis, Multilevel)
        rich = run(first, parts)
        poor = run(first, dataclasses.replace(parts, basis=parts.basis.coarser()))
        rows = where_it_is_peaked(held_out(first), rich)
        seen = look(rich, rows)
        found = compare(seen, look(poor, rows))
        end = at_end(seen, poor)
        error = own_error(found)
        lost = end * error / max(found.difference, error)
        took = time.perf_counter() - start
        self.tried[steps] = lost, took
        plan, report = steps.plan, rich.report
        self.steps.append(
            Step(
                f"{steps.slabs} slabs of time",
                plan.subdomains,
                plan.features,
                1.0,
                report.columns + (report.traces or 0),
                found.residual,
                end,
                lost,
                took,
                report.distinct_subdomains or 0,
                count=plan.count,
            )
        )
        if self.progress is not None:
            self.progress(len(self.steps), 0, lost)
        return lost

    def ends(self, steps: Steps) -> np.ndarray:
        low, high = self.problem.domain.bounds[self.problem.domain.axis_index(TIME)]
        return np.linspace(low, high, steps.slabs + 1)

    def march(self, steps: Steps) -> Marched:
        ends = self.ends(steps)
        first = slab_problem(self.blind, (float(ends[0]), float(ends[1])))
        parts = planned(first, steps.plan, self.method)
        kept = Method(test_grid=self.method.test_grid, estimate=True)
        deadline = self.started + self.patience
        marched = march_with(self.problem, ends, parts, kept, self.progress, deadline)
        report = dataclasses.replace(
            marched.report, tolerance=self.method.tol, refinement=tuple(self.steps)
        )
        return dataclasses.replace(marched, report=report)

    def too_long(self, steps: Steps, before: Steps, took: float) -> bool:
        """Whether another march would outlast the patience, by the time the last one took."""
        sizes = (one.slabs * one.plan.count * one.plan.features for one in (steps, before))
        return self.spent() + took * next(sizes) / next(sizes) > self.patience


def _finest(problem: Problem, plan: Plan) -> np.ndarray:
    """The wavenumbers that cells of a plan resolve, along every axis but time."""
    d = problem.domain.dimension
    filled = tuning.FILLED * total_degree(plan.features, d)
    sides = problem.domain.upper - problem.domain.lower
    return 2 * filled * np.array(plan.subdomains) / sides


def _slabs(problem: Problem, plan: Plan, rate: float) -> int:
    """So many that a cell's features resolve what turns at a rate."""
    axis, d = problem.domain.axis_index(TIME), problem.domain.dimension
    filled = tuning.FILLED * total_degree(plan.features, d)
    length = float(problem.domain.upper[axis] - problem.domain.lower[axis])
    return max(1, math.ceil(rate * length / (2 * filled)))
