"""`solve(problem, tol=...)` in steps of time: slab after slab, each as fine as its start asks for.

What is not dissipated adds up, so that two solutions of the whole may fade alike and agree with
each other. In a slab as thick as a wave takes to cross a cell nothing has faded yet: a rich and a
poor solution of it from the same start tell what it loses, and all slabs together may lose no more
than the tolerance. A slab that loses too much is tried again with richer or smaller cells. Where
waves travel slabs stay as they are, and with them their factors; where things fade what is left is
ever smoother, so slabs grow longer and cells wider. A poorer march beside it then judges what has
really accumulated.
"""

from __future__ import annotations

import dataclasses
import math
import time
from contextlib import AbstractContextManager

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.defects import in_cells
from tessella.accuracy.marking import coarse_axes, split
from tessella.accuracy.scales import degrees, total_degree, turning_rate
from tessella.cells.boxes.tiling import Tiling
from tessella.linalg.iterative.iteration import Progress
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.progress import inner
from tessella.machine.schema import as_type
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import OutOfTimeError, until
from tessella.overlap.points import GRIDDED
from tessella.problem.hard import stated
from tessella.problem.linearised import Around, linearised
from tessella.problem.problem import Problem
from tessella.problem.slabs import TIME, at_start, slab_problem
from tessella.solution.marched import Marched
from tessella.solution.report import Step
from tessella.solving.checkpoint import Checkpoint, Record
from tessella.solving.method import PATIENCE, Method
from tessella.solving.nonlinear.newton import LostError
from tessella.solving.plan import Plan, Steps, first_plan, planned
from tessella.solving.time.march import finished, marches
from tessella.solving.time.track import Bounds
from tessella.solving.time.walk import ENDS, Trial, Walk
from tessella.solving.waves import waves_of
from tessella.solving.ways import Parts

SAFETY = 2.0
"""How much less than its share of the tolerance a slab is asked for."""

AT_ONCE = 1.8
"""Factor by which features grow at most from one attempt to the next."""

FEWEST = 3
"""Slabs from which on it pays to march, unless there are plane waves, with which it always does."""

STIFF = 300.0
"""Where things fade, times that the finest part of the start does within the whole time, from which
on it pays to march in up to two axes of space; from 20 on for some, at 130 not yet for others."""

SHORTEST = 1e-5
"""Part of the whole time that a slab has at the least."""

STABLE = 0.75
"""Part of a cell that waves cross in a slab: losses grow by 1.0 per slab up to 0.8, by 1.1 at 1."""

LENIENT = 4.0
"""A slab that loses so many times what it may is kept all the same, but for the first: most of it
fades, or has another sign than what others lose."""

EASY, LONGER = 4.0, 1.2
"""Where things fade the next slab is so much longer that it should lose so many times less than it
may, if that is at least this factor."""

CLOSE = 30.0
"""A loss within this factor of what may be lost is mended by smaller cells with fewer features."""

PIECES = 16
"""Parts of the domain along an axis in which data are looked at for how fine they are."""

NOTHING = 0.3
"""A slab that loses this part of the spread is nothing to go on from: a shorter one is tried."""

WORTH_MORE, PATIENT = 1.5, 1
"""Finer cells and slabs that lower the error by less than this, more than so often in a row, are
the last ones."""


def in_slabs(problem: Problem) -> Problem | None:
    """The problem as it is marched, if that pays and it can be; else None."""
    if problem.domain.axes[-1] != TIME or problem.domain.dimension > GRIDDED:
        return None
    soft = stated(problem)
    if soft is None or not marches(soft):
        return None
    if not soft.linear:
        return soft
    plan = first_plan(soft, PIECES)
    rate, oscillates = turning_rate(soft, _finest(soft, plan))
    duration = _duration(soft)
    if not oscillates:
        fading, _ = turning_rate(soft, _data_wavenumbers(soft))
        return soft if fading * duration > STIFF else None
    waves = waves_of(soft, Tiling(soft.domain, plan.subdomains), plan.features)
    return soft if waves or duration / _length(soft, plan, rate) > FEWEST - 1 else None


def step_to(
    problem: Problem,
    method: Method,
    progress: Progress | None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Marched, bool, str]:
    """March to the tolerance: the solution, whether it is met, and why it ended. Slabs that are
    finished are kept in a checkpoint, and found there by another run."""
    assert method.tol is not None
    stepping = _Stepping if problem.linear else _Adapting
    way, before = stepping(problem, method, progress), math.inf
    whole: Marched | None = None
    number = 0
    while True:
        number, begun = number + 1, way.spent()
        marched = way.march(None if checkpoint is None else checkpoint.within(f"march{number}"))
        report = marched.report
        estimate, early = report.estimate_in(method.norm), report.stopped_early
        if estimate is None or early:
            reason = f"{report.stop_reason}; {report.advice}"
            if whole is None:
                return marched, False, reason
            return whole, False, f"another march was begun with finer slabs, {reason}"
        whole = marched
        if estimate <= method.tol:
            reached = marched.report.slabs[-1].end
            reason = (
                f"estimated error {estimate:.1e} <= tol = {method.tol:.1e} until t = {reached:g}"
            )
            return marched, True, reason
        over = way.spent() > way.patience
        if not over and (way.least or estimate > before / WORTH_MORE):
            reason = (
                f"the estimated error stays at {estimate:.1e} with finer cells and slabs: the "
                f"solution is not smooth, or equation and conditions contradict each other"
            )
            return marched, False, reason
        before = estimate
        if over or 2 * way.spent() - begun > way.patience:
            reason = (
                f"the estimated error is {estimate:.1e} at the end; "
                f"{way.spent():.0f} of {way.patience:.0f} s are spent; raise `patience`"
            )
            return marched, False, reason
        way.share *= method.tol / (SAFETY * estimate)


class _Stepping:
    """What is known of the way: how much slabs may lose, and which cells were enough."""

    def __init__(self, problem: Problem, method: Method, progress: Progress | None) -> None:
        assert method.tol is not None
        self.problem, self.method, self.progress = problem, method, progress
        self.blind = dataclasses.replace(problem, exact=None)
        self.patience = PATIENCE if method.patience is None else method.patience
        self.started = time.perf_counter()
        self.low, self.high = problem.domain.bounds[problem.domain.axis_index(TIME)]
        self.share = method.tol / SAFETY
        """What all slabs together may lose."""
        self.sample = self.blind
        """What is looked at for how fine and how fast things are; of a nonlinear problem that
        linearised around its start."""
        if not problem.linear:
            self.sample = linearised(self.blind, Around(self.blind, at_start(self.blind)))
        plan = first_plan(self.sample, PIECES)
        _, self.oscillates = turning_rate(self.sample, _finest(self.blind, plan))
        self.first = self.steps_of(plan)
        self.steps: list[Step] = []
        self.last_plan: Plan | None = None
        self.kept: Steps | None = None
        """Of the slab before."""
        self.slow = 0
        """Attempts at a slab in a row that gained little."""
        self.least = 0.0
        """What some slab loses at the least; 0 if all can lose as little as they should."""
        self.found: tuple[Plan, Bounds, Parts] | None = None
        """The cells of the last slab that an earlier run has kept."""

    def spent(self) -> float:
        return processes.agreed("seconds", time.perf_counter() - self.started)

    def march(self, checkpoint: Checkpoint | None) -> Marched:
        """From the start to the end, or as far as patience lasts."""
        watch, steps, t, t_end = Stopwatch(), self.first, self.low, self.high
        method = Method(test_grid=self.method.test_grid, estimate=True)
        walk = Walk(self.problem, method, inner(self.progress))
        self.kept, self.least, reason, advice = None, 0.0, f"reached t = {t_end:g}", ""
        last = None
        while checkpoint is not None and (record := checkpoint.read(len(walk.figures))) is not None:
            t, steps = self.recall(walk, record)
            last = record
        if last is not None and walk.fine.parts is not None and t < t_end:
            walk.resume(last, walk.fine.parts)
        while t < t_end:
            try:
                trial, steps = self.slab(walk, t, steps)
                walk.keep(trial)
            except ENDS as error:
                reason, advice = walk.stopped(error, f"at t = {t:g}", "check the conditions")
                break
            if len(walk.figures) == 1:
                self.first = steps
            t, plan = trial.bounds[1], steps.plan
            steps = self.following(walk, steps, trial)
            if checkpoint is not None:
                own = self.record(walk, trial, plan, steps)
                checkpoint.write(len(walk.figures) - 1, own, *walk.record())
            left = math.ceil((t_end - t) / steps.length - 1e-9)
            if self.progress is not None:
                done = len(walk.figures)
                self.progress(done, done + left, walk.figures[-1].residual)
            if self.spent() > self.patience and t < t_end:
                reason, advice = f"out of patience at t = {t:g}", "raise `patience`"
                break
        planned = len(walk.figures) + (t < t_end)
        marched = finished(walk, self.problem, planned, reason, advice, watch)
        report = dataclasses.replace(
            marched.report, tolerance=self.method.tol, refinement=tuple(self.steps)
        )
        return dataclasses.replace(marched, report=report)

    def record(self, walk: Walk, trial: Trial, plan: Plan, following: Steps) -> Record:
        """What the slab after this one goes on from, beside what the walk knows: the cells of this
        one and where they were planned, the steps that follow, and what was learnt."""
        domain = trial.parts.basis.decomposition.domain
        assert self.kept is not None
        header = {
            "plan": plan.described,
            "planned": domain.bounds[domain.axis_index(TIME)],
            "current": walk.fine.parts is trial.parts,
            "following": following.described,
            "first": self.first.described,
            "kept": self.kept.described,
            "least": self.least,
            "steps": [dataclasses.asdict(step) for step in self.steps],
            "spent": self.spent(),
        }
        return Record(header, {})

    def recall(self, walk: Walk, record: Record) -> tuple[float, Steps]:
        """A slab that an earlier run has kept; where the next one begins, and its steps."""
        own = record.header
        plan, bounds = Plan.of(own["plan"]), as_type(Bounds, own["planned"], "planned")
        if self.found is None or self.found[:2] != (plan, bounds):
            parts = planned(slab_problem(self.blind, bounds), plan, self.method)
            self.found = plan, bounds, parts
        walk.recall(record, self.found[2])
        walk.fine.parts, self.last_plan = (self.found[2], plan) if own["current"] else (None, None)
        self.first, self.kept = Steps.of(own["first"]), Steps.of(own["kept"])
        self.least = as_type(float, own["least"], "least")
        self.steps = list(as_type(tuple[Step, ...], own["steps"], "steps"))
        self.started = time.perf_counter() - as_type(float, own["spent"], "spent")
        return walk.end, Steps.of(own["following"])

    def slab(self, walk: Walk, t: float, steps: Steps) -> tuple[Trial, Steps]:
        """The slab that starts at t, with cells that are enough for it: those of the slab before
        if longer steps are not, richer ones then, and smaller ones; the best, if none are."""
        best: tuple[float, Trial, Steps] | None = None
        self.slow = 0
        before = self.kept
        while True:
            try:
                with self.in_time(best is not None or bool(walk.figures)):
                    trial = walk.attempt(self.bounds(t, steps), self.parts(t, steps, walk))
            except LostError:
                steps = self.not_too_short(Steps(steps.plan, (self.bounds(t, steps)[1] - t) / 2))
                continue
            except OutOfTimeError:
                if best is None:
                    raise
                return self.given_up(best)
            lost = trial.lost * walk.part(trial)
            may = self.allowance(walk, t, steps) * (LENIENT if walk.figures else 1.0)
            if not walk.figures or lost > may:
                self.note(steps, trial)
            if best is None or lost < best[0]:
                gained = best is None or lost < best[0] / WORTH_MORE
                self.slow = 0 if gained else self.slow + 1
                best = lost, trial, steps
            else:
                self.slow += 1
            if lost <= may:
                self.kept = steps
                return trial, steps
            if before is not None and before.length < steps.length:
                steps, before = before, None
                continue
            over = self.spent() > self.patience
            if self.slow > PATIENT and best[0] > NOTHING and not over:
                steps = self.not_too_short(Steps(best[2].plan, best[2].length / 2))
                best, before, self.slow = None, None, 0
                continue
            if self.slow > PATIENT or over:
                return self.given_up(best)
            steps = self.not_too_short(self.finer(steps, trial, lost, may))

    def in_time(self, something: bool) -> AbstractContextManager[None]:
        """Inside, what takes longer than patience lasts is ended, if there is something to keep."""
        timed = something and processes.alone()  # others would wait for what was ended
        return until(self.started + self.patience if timed else math.inf)

    def given_up(self, best: tuple[float, Trial, Steps]) -> tuple[Trial, Steps]:
        """The best slab, though it loses more than it may."""
        lost, trial, self.kept = best
        self.least = WORTH_MORE * lost
        return trial, self.kept

    def not_too_short(self, steps: Steps) -> Steps:
        if steps.length >= SHORTEST * (self.high - self.low):
            return steps
        raise LostError(
            f"slabs of {steps.length:.1e} are not short enough: the solution may cease to exist "
            f"there, or not be smooth"
        )

    def bounds(self, t: float, steps: Steps) -> tuple[float, float]:
        """Slabs of equal length to the end, about as long as chosen."""
        number = max(1, math.ceil((self.high - t) / steps.length - 1e-9))
        return t, self.high if number == 1 else t + (self.high - t) / number

    def parts(self, t: float, steps: Steps, walk: Walk) -> Parts:
        """Those of the last slab, if nothing has changed."""
        low, high = self.bounds(t, steps)
        known = walk.fine
        same = abs(high - low - known.length) <= 1e-9 * (high - low)
        if known.parts is None or not same or steps.plan != self.last_plan:
            self.last_plan = steps.plan
            return planned(slab_problem(self.blind, (low, high)), steps.plan, self.method)
        return known.parts

    def allowance(self, walk: Walk, t: float, steps: Steps) -> float:
        """What a slab may lose: its part of what is left, as many as are still to come; after
        one that could not do with that, as much as that one did."""
        number = (self.high - t) / steps.length
        if not self.oscillates:
            number = 1 + math.log2(1 + number)
        left = max(self.share - walk.lost, self.share / 2)
        return max(left / max(1.0, number), self.least)

    def following(self, walk: Walk, steps: Steps, trial: Trial) -> Steps:
        """After a slab: the same, or where things fade a longer one, with fewer cells as its start
        is smoother than the last one's."""
        t, plan = trial.bounds[1], steps.plan
        if self.oscillates or t >= self.high:
            return steps
        lost = trial.lost * walk.part(trial)
        spare = self.allowance(walk, trial.bounds[0], steps) / max(EASY * lost, 1e-300)
        order = tuning.FILLED * total_degree(plan.features, len(plan.slabs))
        factor = min(2.0, spare ** (1 / order))
        if factor < LONGER:
            return steps
        longer = factor * steps.length
        starts = (trial.solution.problem, slab_problem(self.blind, (t, self.high), trial.solution))
        asked, asks = (np.array(degrees(own, PIECES)[:-1]) for own in starts)
        share = np.minimum(1.0, np.maximum(asks, 1) / np.maximum(asked, 1))
        counts = np.ceil(np.array(plan.subdomains[:-1]) * share).astype(int).tolist()
        return Steps(dataclasses.replace(plan, slabs=(*self.at_least_two(counts), 1)), longer)

    def finer(self, steps: Steps, trial: Trial, lost: float, may: float) -> Steps:
        """As many features as the last gain promises to be enough, or a good deal more; at the end
        of the ladder cells of two thirds of the size, in slabs that are shorter in proportion, or
        where things fade half as long."""
        plan, d = steps.plan, len(steps.plan.slabs)
        ladder, top = tuning.FEATURES[d], tuning.RICHEST[d]
        gain = self._gain(steps, trial)
        for rung in range(plan.rung + 1, len(ladder)):
            if ladder[rung] > top:
                break
            more = ladder[rung] ** (1 / d) - plan.features ** (1 / d)
            enough = lost * math.exp(-gain * more) <= may / 2
            if enough or ladder[rung] >= AT_ONCE * plan.features:
                return Steps(dataclasses.replace(plan, rung=rung), steps.length)
        counts = [math.ceil(1.5 * n) for n in plan.subdomains[:-1]]
        least = min(tuning.START[d] + 1, len(ladder) - 1)
        rung = max(least, plan.rung - (2 if lost < CLOSE * may else 0))
        if not self.oscillates:
            return Steps(Plan((*counts, 1), rung=rung), steps.length / 2)
        return self.steps_of(Plan((*counts, 1), rung=rung))

    def _gain(self, steps: Steps, trial: Trial) -> float:
        """By which exponent the loss falls with features^(1/d)."""
        assert trial.judged is not None
        d, K = len(steps.plan.slabs), steps.plan.features
        fall = math.log(max(trial.judged.difference, 1e-15) / max(trial.error, 1e-15))
        return max(fall, 0.1) / (K ** (1 / d) - (K / 2) ** (1 / d))

    def steps_of(self, plan: Plan) -> Steps:
        """Slabs of one cell in time, as thick as its features resolve: the waves that cells hold,
        or where things fade the finest that there are at the start."""
        plan = Plan((*self.at_least_two(list(plan.subdomains[:-1])), 1), rung=plan.rung)
        sample = self.sample
        finest = _finest if self.oscillates and sample.linear else _at_start
        rate, _ = turning_rate(sample, finest(sample, plan))
        return Steps(plan, min(self.high - self.low, _length(self.blind, plan, rate)))

    def at_least_two(self, counts: list[int]) -> list[int]:
        """Cells, which need a neighbour."""
        if math.prod(counts) > 1:
            return counts
        sides = self.blind.domain.upper - self.blind.domain.lower
        longest = int(np.argmax(sides[:-1]))
        return [2 if i == longest else n for i, n in enumerate(counts)]

    def note(self, steps: Steps, trial: Trial) -> None:
        """One more line of the way that the report shows."""
        assert trial.judged is not None
        plan, report = steps.plan, trial.solution.report
        self.steps.append(
            Step(
                f"t = {trial.bounds[0]:.3g} to {trial.bounds[1]:.3g}",
                plan.subdomains,
                plan.features,
                1.0,
                report.columns + (report.traces or 0),
                trial.judged.residual,
                trial.apart,
                trial.lost,
                time.perf_counter() - trial.started,
                report.distinct_subdomains or 0,
                count=plan.count,
            )
        )


class _Adapting(_Stepping):
    """The same where problems are not linear: slabs are as long as the solution takes to change,
    and cells are split where it is steep."""

    def following(self, walk: Walk, steps: Steps, trial: Trial) -> Steps:
        lost = trial.lost * walk.part(trial)
        spare = self.allowance(walk, trial.bounds[0], steps) / max(EASY * lost, 1e-300)
        order = tuning.FILLED * total_degree(steps.plan.features, len(steps.plan.slabs))
        factor = min(2.0, spare ** (1 / order))
        return steps if factor < LONGER else steps._replace(length=factor * steps.length)

    def finer(self, steps: Steps, trial: Trial, lost: float, may: float) -> Steps:
        """Richer cells if those are enough, shorter slabs if the solution changes too fast in them,
        smaller cells where it is poor. Where these gained little, richer ones all the same: near a
        kink all solutions miss as much of the equation, and only a better poor one can tell how
        good the other is."""
        plan, d = steps.plan, len(steps.plan.slabs)
        ladder, gain = tuning.FEATURES[d], self._gain(steps, trial)
        for rung in range(plan.rung + 1, len(ladder)):
            more = ladder[rung] ** (1 / d) - plan.features ** (1 / d)
            enough = lost * math.exp(-gain * more) <= may / 2
            enough |= self.slow > 0 and ladder[rung] >= AT_ONCE * plan.features
            if ladder[rung] <= tuning.RICHEST[d] and enough:
                return Steps(dataclasses.replace(plan, rung=rung), steps.length)
        solution, time_axis = trial.solution, d - 1
        axes, tiling = coarse_axes(solution), solution.basis.decomposition
        length = steps.length / 2 if time_axis in axes else steps.length
        space = tuple(axis for axis in axes if axis != time_axis)
        if space:
            assert isinstance(tiling, Tiling) and trial.seen is not None
            found = split(tiling, in_cells(solution, trial.seen.rows), space)
            plan = plan.finer(space) if found is None else plan.tiled(found)
        return Steps(plan, length)


def _finest(problem: Problem, plan: Plan) -> Array:
    """The wavenumbers that cells of a plan resolve, along every axis but time."""
    d = problem.domain.dimension
    filled = tuning.FILLED * total_degree(plan.features, d)
    sides = problem.domain.upper - problem.domain.lower
    return 2 * filled * np.array(plan.subdomains) / sides


def _at_start(problem: Problem, plan: Plan) -> Array:
    return np.minimum(_finest(problem, plan), _data_wavenumbers(problem))


def _data_wavenumbers(problem: Problem) -> Array:
    """The finest that the data show, along every axis."""
    sides = problem.domain.upper - problem.domain.lower
    return 2 * np.array(degrees(problem, PIECES)) / sides


def _duration(problem: Problem) -> float:
    axis = problem.domain.axis_index(TIME)
    return float(problem.domain.upper[axis] - problem.domain.lower[axis])


def _length(problem: Problem, plan: Plan, rate: float) -> float:
    """In which a cell's features resolve what turns or fades at a rate."""
    filled = tuning.FILLED * total_degree(plan.features, problem.domain.dimension)
    return STABLE * 2 * filled / max(rate, 1e-300)
