"""Solutions refined one after another, until the estimated error of the best is below a tolerance.

Each step solves another discretisation and compares it with the best one so far (see `estimate`).
The first has as many subdomains along each axis as the data and the operator ask for (see
`plan`). More features per subdomain are tried first, because smooth solutions gain decades
from them; where they gain little the structure is finer than the subdomains, and those are split
where the solution is poor (see `marking`). Nothing here reads `problem.exact`: it works on a copy
without it. In more than three dimensions there is one subdomain, and polynomials on it are added by
what others contribute (see `terms`).
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.defects import in_cells
from tessella.accuracy.estimate import Errors, Judgement, Look, compare, look, own_rows, unmet
from tessella.accuracy.held_out import held_out
from tessella.accuracy.marking import coarse_axes, split
from tessella.accuracy.terms import sizes
from tessella.cells.boxes.tiling import Tiling
from tessella.geometry.functions import Orders
from tessella.linalg.iterative.iteration import Progress
from tessella.machine import processes
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import OutOfTimeError, until
from tessella.problem.determined import asks_for_much, leaves_open
from tessella.problem.problem import Problem
from tessella.solution.report import Step
from tessella.solution.solution import Solution
from tessella.solving.checkpoint import Engine, Keeping, Took
from tessella.solving.method import LARGEST, MEAN
from tessella.solving.nonlinear.newton import LostError
from tessella.solving.plan import Plan, first_plan


@dataclass(frozen=True)
class Refined:
    """The best solution found, its estimated errors, the way to it, and why it ended."""

    solution: Solution
    errors: Errors | None
    steps: tuple[Step, ...]
    met: bool
    reason: str
    zero: tuple[str, ...] = ()
    """Unknowns that are nothing but rounding."""


def refine(
    problem: Problem,
    tol: float,
    engine: Engine,
    patience: float = 120.0,
    progress: Progress | None = None,
    norm: str = MEAN,
    sample: Problem | None = None,
) -> Refined:
    """Solve to an estimated mean or largest error of `tol`, within about `patience` seconds. A
    nonlinear problem comes with a linear `sample` of its kind."""
    walk = Walk(dataclasses.replace(problem, exact=None), tol, engine, patience, progress, norm)
    walk.sample = sample
    try:
        reason = walk.go()
    except (OutOfTimeError, MemoryError, KeyboardInterrupt, LostError, ValueError) as error:
        if not walk.steps:
            raise
        why = {
            KeyboardInterrupt: "interrupted",
            MemoryError: f"no memory: {error}",
            OutOfTimeError: walk.doubt() or walk.impatient(),
        }
        reason = why.get(type(error), f"no finer: {error}")
    if walk.met and not walk.unsure:  # which time may have ended before it was looked into
        told = (True, walk.reached(), walk.zero)
        return Refined(walk.best, walk.errors, tuple(walk.steps), *told)
    return Refined(*walk.surest(), tuple(walk.steps), False, reason)


class Walk:
    """The state of a refinement: the best solution, its estimate, and all steps."""

    best: Solution
    last: Solution
    seen: Look
    best_seen: Look
    sample: Problem | None = None

    def __init__(
        self,
        problem: Problem,
        tol: float,
        engine: Engine,
        patience: float,
        progress: Progress | None = None,
        norm: str = MEAN,
    ) -> None:
        self.problem, self.tol, self.engine = problem, tol, engine
        self.patience, self.progress, self.norm = patience, progress, norm
        self.started = time.perf_counter()
        self.rows = held_out(problem, thorough=True)
        self.steps: list[Step] = []
        self.errors: Errors | None = None
        self.lowest: tuple[float, Solution, Errors] | None = None
        """The smallest estimate so far, whose it was, and in both norms."""
        self.span, self.far, self.unsure = math.inf, True, False
        """Between the residuals of the best solution and of the one it is judged by; whether that
        one is too far to say much, and whether it has cells in common with the best."""
        self.by_structure = Errors(0.0, 0.0)
        """The last estimates from other features or subdomains."""
        self.slow, self.whole = 0, math.inf
        """Steps in a row that gained little, and the error that subdomains saw before a split."""
        self.much = asks_for_much(problem)
        self.unmet: list[tuple[float, str]] = []
        self.zero: tuple[str, ...] = ()
        """Where data may contradict each other: which part of a statement every step missed most,
        and of which one."""
        self.tried: list[dict[Orders, float]] = []
        """In many dimensions, how much all polynomials contribute, by unknown."""
        self.compiling = self.rate = 0.0
        """Of the last solve: seconds for compilation, and for a unit of work besides."""

    @property
    def estimate(self) -> float | None:
        """In the norm that is asked for."""
        return None if self.errors is None else self.errors.asked(self.norm)

    @property
    def met(self) -> bool:
        return self.estimate is not None and self.estimate <= self.tol and not self._missing()

    def go(self) -> str:
        """Refine until the tolerance is met; else the reason why not."""
        plan = self._begun(first_plan(self.sample or self.problem))
        tuned, smooth, never = False, True, leaves_open(self.problem)
        while not self.met:
            if never and len(self.steps) > 1:
                return ""  # no discretisation settles what conditions leave open
            following, change = self._following(plan, smooth)
            if self.slow >= tuning.TIMES:
                return self._stalled()
            if contradiction := self._contradiction():
                return contradiction
            expected = self.compiling + self.rate * following.work()
            if expected > tuning.HOPELESS * (self.patience - self._spent()):
                return self.doubt() or self.impatient(expected)
            try:
                gain = self._take(following, change)
            except LostError:
                if change != "features" or following.terms:
                    raise
                smooth = False  # Newton's method may do with smaller subdomains.
                continue
            plan = following
            self.slow = self.slow + 1 if gain < tuning.STALLED else 0
            smooth = gain >= tuning.WORTH
            exhausted = smooth and not tuned and plan.richest and not self.met
            if not plan.terms and ((self.met and self.far) or exhausted):
                plan, tuned = self._tuned(plan), True
        return ""

    def _begun(self, plan: Plan) -> Plan:
        """The first plan, or a finer one where Newton's method cannot do with it."""
        for _ in range(tuning.BEGINNINGS):
            try:
                self._take(plan, "start")
                return plan
            except LostError:
                if plan.terms or self._spent() > self.patience / 4:
                    raise
                plan = plan.finer(tuple(range(len(plan.slabs))))
        self._take(plan, "start")
        return plan

    def reached(self) -> str:
        what = "estimated largest error" if self.norm == LARGEST else "estimated error"
        told = f"{what} {self.estimate:.1e} <= tol = {self.tol:.1e}"
        return f"{told}; rounding leaves nothing of {', '.join(self.zero)}" if self.zero else told

    def _spent(self) -> float:
        return processes.agreed("seconds", time.perf_counter() - self.started)

    def impatient(self, expected: float | None = None) -> str:
        spent, given = self._spent(), self.patience
        if expected is None:
            return f"out of patience: {given:.0f} s are spent; raise `patience`"
        return (
            f"out of patience: the next step would take about {expected:.0f} s, {spent:.0f} of "
            f"{given:.0f} s are spent; raise `patience`"
        )

    def _following(self, plan: Plan, smooth: bool) -> tuple[Plan, str]:
        """More features if they have been worth it, else more subdomains; and which it is."""
        if plan.terms:
            return plan.grown(self.tried, self.estimate or 0.0), "features"
        richer = plan.richer(self._rungs()) if smooth else None
        return (richer, "features") if richer else (self._finer(plan), "subdomains")

    def _finer(self, plan: Plan) -> Plan:
        """More subdomains along the axes that need them, and there where the solution is poor.

        Where that is a small part of the domain, the residual of the whole notices a split late:
        what counts is whether the error falls as the subdomains themselves see it.
        """
        last = self.best if _cut_alike(self.best, self.last) else self.last
        axes, tiling = coarse_axes(last), last.basis.decomposition
        if not isinstance(tiling, Tiling):
            return plan.finer(axes)
        found = in_cells(last, own_rows(last, self.rows))
        whole = float(np.linalg.norm(found))
        if whole * tuning.STALLED < self.whole:
            self.slow = 0
        self.whole = whole
        finer = split(tiling, found, axes)
        return plan.finer(axes) if finer is None else plan.tiled(finer)

    def _rungs(self) -> int:
        """One rung where the last gain of features says that it is enough, else the stride."""
        if len(self.steps) < 2 or self.estimate is None or self.steps[-1].change != "features":
            return tuning.STRIDE
        d = len(self.steps[-1].subdomains)
        old, new = (step.features ** (1 / d) for step in self.steps[-2:])
        decades = math.log(max(self.steps[-2].residual / self.steps[-1].residual, 1.0))
        ladder = tuning.FEATURES[d]
        following = ladder[min(ladder.index(self.steps[-1].features) + 1, len(ladder) - 1)]
        promised = decades * (following ** (1 / d) - new) / max(new - old, 1e-9)
        return 1 if self.estimate * math.exp(-promised) < self.tol / 2 else tuning.STRIDE

    def _tuned(self, plan: Plan) -> Plan:
        """The bandwidth with the smallest held-out residual of three."""
        for factor in tuning.BANDWIDTHS:
            if factor != plan.bandwidth:
                trial = dataclasses.replace(plan, bandwidth=factor)
                self._take(trial, "bandwidth")
                if self.best is self.last or (self.met and not self.far):
                    return trial
        return plan

    def _take(self, plan: Plan, change: str) -> float:
        """Solve with a plan; returns by which factor that lowered the best residual so far.

        The best solution is judged by the one whose residual comes nearest to its own.
        """
        watch = Stopwatch()
        with watch.phase("step"):
            timed = self.steps and processes.alone()  # others would wait for what was ended
            with until(self.started + self.patience if timed else math.inf):
                solution = self.last = self.engine(self.problem, plan)
            found = self._judge(solution)
        earlier = self.engine.earlier if isinstance(self.engine, Keeping) else Took()
        self.started -= earlier.total
        if plan.terms:
            before = self.tried or [{} for _ in plan.terms]
            self.tried = [old | new for old, new in zip(before, sizes(solution), strict=True)]
        if change != "bandwidth":
            self.by_structure = self.errors or Errors(0.0, 0.0)
        elif not solution.basis.decomposition.equal and self.errors is not None:
            self.errors = self.errors.at_least(self.by_structure.times(1 / tuning.ALIKE))
        if found.gain > 1:
            self.best, self.best_seen = solution, self.seen
        lowest = math.inf if self.lowest is None else self.lowest[0]
        if self.errors is not None and not self.unsure and self.errors.asked(self.norm) < lowest:
            self.lowest = self.errors.asked(self.norm), self.best, self.errors
        report, took = solution.report, watch.total()
        distinct, reused = report.distinct_subdomains or 0, report.reused_subdomains or 0
        work = plan.work(1 - reused / max(distinct, 1))
        spent = took["step"] + earlier.total - earlier.compile
        self.compiling = processes.agreed("seconds", took["compile"] + earlier.compile)
        self.rate = processes.agreed("seconds", spent) / work
        unknowns = report.columns + (report.traces or 0)
        self.steps.append(
            Step(
                change,
                plan.subdomains,
                plan.features,
                plan.bandwidth,
                unknowns,
                found.residual,
                found.difference if self.steps else None,
                self.estimate,
                took["total"] + earlier.total,
                distinct,
                reused,
                plan.count,
            )
        )
        if self.progress is not None:
            self.progress(len(self.steps), 0, self.estimate or 1.0)
        return found.other_residual / max(found.residual, 1e-300)

    def _judge(self, solution: Solution) -> Judgement:
        """A solution compared with the best one so far, whose estimate follows: nothing does from
        one that is the same, and little from one that was split where it does not matter. So an
        estimate falls by little more than the residual does; and the first one is not taken from
        solutions that have cells in common, whose errors they share and time may magnify."""
        self.seen = look(solution, self.rows)
        if self.much:
            self.unmet.append(unmet(self.seen))
        if not self.steps:
            own = self.seen.loss
            return Judgement(own, math.inf, math.nan)
        found = compare(self.seen, self.best_seen, largest=True)
        span = max(found.gain, 1 / max(found.gain, 1e-300))
        same = found.difference == 0 and found.residual == found.other_residual > 0
        unknown = self.far
        if not same and (found.gain > 1 or span < self.span):
            errors = found.errors
            if self.tried:
                better = self.seen if found.gain > 1 else self.best_seen
                part = tuning.RESIDUAL * unmet(better)[0]
                errors = errors.at_least(Errors(part, part))
            if self.errors is not None and not self.far:
                fall = (found.share if found.gain > 1 else 1.0) / tuning.ALIKE
                errors = errors.at_least(self.errors.times(fall))
            self.span, self.errors, self.zero = span, errors, found.zero
            self.far = found.difference > tuning.NONE or span > tuning.FAR
            self.unsure = unknown and _cells_in_common(solution, self.best)
            if self.unsure:
                self.span, self.far = math.inf, True
        return found

    def surest(self) -> tuple[Solution, Errors | None]:
        """The solution with the smallest estimate: a smaller residual can come with a larger error
        where the solution is singular. It is off by what it misses at least."""
        if self.lowest is None:
            return self.best, None
        _, solution, errors = self.lowest
        part = self.unmet[-1][0] if self._missing() else 0.0
        return solution, errors.at_least(Errors(part, part))

    def doubt(self) -> str:
        """A word on problems that ask for too much or for too little."""
        return self._contradiction() or self._open()

    def _missing(self) -> bool:
        """Whether part of some data is missed, of late no less than before."""
        late = self.unmet[-tuning.LATELY :]
        return len(late) > 1 and late[-1][0] > max(tuning.CONTRADICTION, late[0][0] / 2)

    def _contradiction(self) -> str:
        if len(self.unmet) < tuning.LATELY or not self._missing():
            return ""
        part, name = self.unmet[-1]
        return (
            f"{min(part, 1.0):.1%} of {name!r} is missed, and refining does not change that: "
            f"equations, conditions and measurements contradict each other; check them"
        )

    def _open(self) -> str:
        """Solutions that all satisfy what is asked and differ all the same."""
        first, last = self.steps[0], self.steps[-1]
        if (last.difference or 0.0) <= 1e-2 or last.residual >= 1e-4 * first.residual:
            return ""
        return (
            f"the residual is small, but solutions still differ by {last.difference:.1e}: the "
            f"problem may not determine its solution; check its conditions"
        )

    def _stalled(self) -> str:
        return self.doubt() or (
            "stalled: the residual no longer falls with features or subdomains, because of "
            "rounding, because the solution is not smooth (see enrichment), or because equation "
            "and conditions contradict each other"
        )


def _cells_in_common(one: Solution, other: Solution) -> bool:
    """Whether some subdomains of two solutions have the same functions."""
    if one.basis.features != other.basis.features:
        return False
    tilings = [own.basis.decomposition for own in (one, other)]
    boxes = [
        {(*c, *h) for c, h in zip(own.centres.tolist(), own.half_widths.tolist(), strict=True)}
        for own in tilings
        if isinstance(own, Tiling)
    ]
    return len(boxes) == 2 and not boxes[0].isdisjoint(boxes[1])


def _cut_alike(one: Solution, other: Solution) -> bool:
    return one.basis.decomposition == other.basis.decomposition
