"""The state of a march: slabs that are kept, what each of them loses, and how that adds up.

A slab is tried first, and judged by a poorer discretisation from the same start: that is what it
loses. Kept, it is the start of the next one, and a poorer march that goes on from its own ends
shows how losses grow or fade.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.estimate import (
    Errors,
    Judgement,
    Look,
    apart,
    at_end,
    compare,
    glance,
    largest_error,
    look,
    own_error,
)
from tessella.accuracy.held_out import held_out, sampler, where_it_is_peaked
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import Array
from tessella.machine.schema import as_type
from tessella.machine.threads import OutOfTimeError
from tessella.overlap.basis import Multilevel
from tessella.overlap.points import Grid
from tessella.problem.linearised import Remaining, original
from tessella.problem.problem import Problem
from tessella.problem.reference import Reference
from tessella.problem.slabs import TIME, Continued, slab_problem, starts
from tessella.solution.marched import Slab
from tessella.solution.report import unit
from tessella.solution.solution import Solution
from tessella.solving.checkpoint import Record, of_solution
from tessella.solving.method import Method
from tessella.solving.nonlinear.newton import BALANCE, TOLERANCE, LostError
from tessella.solving.time.track import Bounds, Track
from tessella.solving.ways import Parts

SAMPLES = {1: 200, 2: 45, 3: 13}
"""Points per axis at which the error of a slab is measured, by dimension."""

BLOWN_UP = 1e8
"""Growth from which a march has lost its solution."""

WORTH_A_LOOK = 100.0
"""Growth of coefficients from which a slab that nobody judges is looked at."""

FADED = 1e-12
"""A slab whose spread is less than this part of the largest counts with this much."""

NUMBERS = ("known", "lost", "strayed", "missed")
"""What a march remembers of all its slabs."""

STRAY = "stray_"


class UnstableError(ArithmeticError):
    """A march whose errors feed on themselves."""


ENDS = (UnstableError, LostError, KeyboardInterrupt, MemoryError, OutOfTimeError)
"""What ends a march that keeps its slabs (see `Walk.stopped`)."""


class Trial(NamedTuple):
    """A slab that may be kept: its solution, what is seen of it, and what it loses at its end;
    `poorer` is the solution that it is judged by, if any."""

    bounds: Bounds
    parts: Parts
    solution: Solution
    reused: bool
    seen: Look | None
    started: float
    poorer: Solution | None = None
    judged: Judgement | None = None
    apart: float = 0.0
    """How far the two are apart at the end."""

    @property
    def spread(self) -> Array:
        """Of every unknown in the slab; errors are in parts of it, where it is not zero."""
        assert self.seen is not None
        u, shares = self.seen.inside, self.seen.rows[0].shares
        mean, square = (np.average(v, axis=0, weights=shares) for v in (u, u**2))
        size = np.max(np.abs(u), axis=0)
        spread = unit(np.sqrt(np.maximum(square - mean**2, 0.0)), size)
        return np.where(size > 0, spread, 0.0)

    @property
    def residual(self) -> float:
        """Root of the loss where the slab is looked at, or else at its own points."""
        if self.judged is not None and self.seen is not None:
            return self.seen.loss
        report = self.solution.report
        return math.sqrt(sum(report.weights[n] * r**2 for n, r in report.residual.items()))

    @property
    def error(self) -> float:
        """Of the slab, everything before left out."""
        return 0.0 if self.judged is None else own_error(self.judged)

    @property
    def lost(self) -> float:
        """At the end of the slab."""
        if self.judged is None:
            return 0.0
        return self.apart * self.error / max(self.judged.difference, self.error)


class Walk:
    """All slabs so far, their figures, and the poorer march beside them."""

    def __init__(self, problem: Problem, method: Method, progress: Progress | None) -> None:
        self.blind = dataclasses.replace(problem, exact=None)
        self.problem = self.blind if isinstance(problem.exact, Reference) else problem
        per_axis = SAMPLES.get(problem.domain.dimension, 6)
        self.test_grid = method.test_grid or Grid(points_per_axis=per_axis)
        self.estimate, self.progress = method.estimate, progress
        tolerance = TOLERANCE if method.tol is None else max(BALANCE * method.tol, TOLERANCE / 10)
        self.fine = Track(tolerance, self.estimate is not False)
        self.coarse = Track(tolerance)
        self.half: tuple[Parts, Parts] | None = None
        self.solutions: list[Solution] = []
        self.figures: list[Slab] = []
        self.stray: Solution | None = None
        """The end of the poorer march."""
        self.moments: list[Array] = []
        """Of every slab: time, and integrals of u, of its square and of the estimated error."""
        self.peaks: list[Array] = []
        """Of every slab: its spread, the largest value and the largest estimated error."""
        self.known = self.coefficients = 0.0
        """The size of what the solution starts from and is given, and of its coefficients."""
        self.spread = np.zeros(len(problem.unknowns))
        """The largest of any slab."""
        self.lost = self.strayed = self.missed = 0.0
        """What all slabs so far have lost at their ends, what poorer ones have, both in parts of
        that spread, and the largest part of some data that a slab misses."""
        self.grown: float | None = None
        """By which factor that has grown on its way to the last slab."""

    @property
    def last(self) -> Solution | None:
        return self.solutions[-1] if self.solutions else None

    @property
    def end(self) -> float:
        """How far it has come."""
        if self.figures:
            return self.figures[-1].end
        domain = self.problem.domain
        return domain.bounds[domain.axis_index(TIME)][0]

    def attempt(self, bounds: Bounds, parts: Parts) -> Trial:
        """Solve the next slab, and judge it."""
        start = time.perf_counter()
        solution, reused = self.fine.solve(
            self.problem, bounds, parts, self.last, self.test_grid, self.progress
        )
        half = self._poorer(parts)
        if half is None:
            seen = None if solution.report.error is None else self._glance(solution)
            return Trial(bounds, parts, solution, reused, seen, start)
        source, stated = sampler(solution.problem, solution.basis), original(solution.problem)
        rows = held_out(stated, share=tuning.IN_A_SLAB, source=source)
        seen = look(solution, where_it_is_peaked(rows, solution))
        trial = Trial(bounds, parts, solution, reused, seen, start)
        poorer, _ = self.coarse.solve(self.blind, bounds, half, self.last, near=solution)
        other = look(poorer, seen.rows)
        judged, seen = compare(seen, other), seen.beside(other.inside)
        return trial._replace(seen=seen, poorer=poorer, judged=judged, apart=at_end(seen, poorer))

    def _glance(self, solution: Solution) -> Look:
        """Values at few points, where nothing is judged."""
        source, stated = sampler(solution.problem, solution.basis), original(solution.problem)
        rows = held_out(stated, peaked=False, share=tuning.IN_A_SLAB, source=source)
        return glance(solution, rows)

    def keep(self, trial: Trial) -> None:
        """Go on from the end of a slab."""
        guess = self._estimated(trial)
        overall = None if trial.seen is None else self._overall(trial, trial.seen, guess)
        report = dataclasses.replace(
            trial.solution.report,
            error_estimate=guess and guess.mean,
            largest_error_estimate=guess and guess.largest,
        )
        own = trial.solution
        self.solutions.append(
            dataclasses.replace(own, problem=original(own.problem), report=report)
        )
        defects = () if trial.seen is None else trial.seen.defects
        misfits = {d.rows.source.name: d.missed for d in defects} or report.residual
        self.figures.append(
            Slab(
                trial.bounds[1],
                trial.residual,
                {c.name: misfits[c.name] for c in starts(trial.solution.problem)},
                guess and guess.mean,
                report.error,
                trial.reused,
                time.perf_counter() - trial.started,
                overall and overall.mean,
                trial.solution.report.columns,
                overall and overall.largest,
                self.grown,
            )
        )
        self._check_size(trial)

    def record(self) -> list[Record]:
        """The last slab, and all that the next one goes on from."""
        half, parts = self.half, (self.fine.parts, self.coarse.parts)
        beside = half is not None and half[0] is parts[0] and half[1] is parts[1]
        header = {
            "slab": dataclasses.asdict(self.figures[-1]),
            "numbers": {name: getattr(self, name) for name in NUMBERS},
            "made": (self.fine.made, self.coarse.made if beside else None),
        }
        tables = {"spread": self.spread}
        if self.moments:
            tables |= {"moments": self.moments[-1], "peaks": self.peaks[-1]}
        found = [Record(header, tables), of_solution(self.solutions[-1])]
        return found if self.stray is None else [*found, of_solution(self.stray, STRAY)]

    def recall(self, record: Record, parts: Parts) -> None:
        """A slab that an earlier run has kept, after those before it."""
        figure = as_type(Slab, record.header["slab"], "slab")
        bounds = self.end, figure.end
        slab = slab_problem(self.problem, bounds, self.last)
        basis = parts.basis.moved(slab.domain)
        self.solutions.append(record.solution(slab, basis))
        self.figures.append(figure)
        if f"{STRAY}report" in record.header:
            blind = dataclasses.replace(slab, exact=None)
            assert not isinstance(basis, Multilevel)
            self.stray = record.solution(blind, basis.coarser(), STRAY)
        numbers = as_type(dict[str, float], record.header["numbers"], "numbers")
        for name in NUMBERS:
            setattr(self, name, numbers[name])
        if "moments" in record.arrays:
            self.moments.append(record.arrays["moments"])
            self.peaks.append(record.arrays["peaks"])
        self.spread = record.arrays["spread"]
        self.fine.length = self.coarse.length = bounds[1] - bounds[0]

    def resume(self, record: Record, parts: Parts) -> None:
        """Go on after the last slab that is recalled, with the factors that it had."""
        fine, coarse = as_type(tuple[Bounds | None, Bounds | None], record.header["made"], "made")
        if fine is None or not self.problem.linear:
            return
        self.fine.remake(self.problem, fine, parts, self._before(fine))
        half = self._poorer(parts)
        if half is not None and coarse is not None:
            self.coarse.remake(self.blind, coarse, half, self._before(coarse))

    def _before(self, bounds: Bounds) -> Solution | None:
        """The slab that ends where another one begins."""
        pairs = zip(self.figures, self.solutions, strict=True)
        return next((own for figure, own in pairs if figure.end == bounds[0]), None)

    def stopped(self, error: BaseException, where: str, remedy: str) -> tuple[str, str]:
        """Why a march ends here, and what to do; where nothing is kept, what ended it is raised."""
        if isinstance(error, UnstableError):
            known = (self.moments, self.peaks) if self.moments else ()
            for kept in (self.solutions, self.figures, *known):
                kept.pop()
            return f"unstable {where}", f"{error}: {remedy}"
        if not self.figures:
            raise error
        if isinstance(error, LostError):
            return f"lost {where}", f"{error}; or take shorter slabs"
        if isinstance(error, OutOfTimeError):
            return f"out of patience {where}", "raise `patience`"
        what = "interrupted" if isinstance(error, KeyboardInterrupt) else "no memory"
        return f"{what} {where}", f"kept until t = {self.figures[-1].end:g}"

    def _check_size(self, trial: Trial) -> None:
        """Stop a march whose solution grows beyond its first size and that of all data. Where it
        is not judged, coefficients tell when to look."""
        a = trial.solution.largest_coefficient
        if trial.seen is None and a <= WORTH_A_LOOK * self.coefficients:
            return
        self.coefficients = max(self.coefficients, a)
        seen = trial.seen or self._glance(trial.solution)
        size = float(np.max(np.abs(np.concatenate([seen.inside, seen.edge]))))
        given = [
            float(np.max(np.abs(rows.source.values(rows.points))))
            for rows in seen.rows
            if not isinstance(rows.source.given, Continued | Remaining) and len(rows.points)
        ]
        self.known = max(self.known, *given, size if len(self.figures) == 1 else 0.0)
        if not size <= BLOWN_UP * max(self.known, 1e-300):
            raise UnstableError(f"the solution has grown {size / self.known:.0e} times")

    def part(self, trial: Trial) -> float:
        """The spread in a slab, in parts of the largest one so far."""
        own = trial.spread
        return max(FADED, float(np.max(own / np.maximum(np.maximum(self.spread, own), 1e-300))))

    def _overall(self, trial: Trial, seen: Look, guess: Errors | None) -> Errors | None:
        """The estimate for all slabs so far together, in parts of the spread of the whole: what is
        left of an error in the last slab says little of those before."""
        u, shares = seen.inside, seen.rows[0].shares
        length = trial.bounds[1] - trial.bounds[0]
        own = np.where(trial.spread > 0, trial.spread, 1.0)
        lost, worst = guess or (0.0, 0.0)
        mean, square = (np.average(v, axis=0, weights=shares) for v in (u, u**2))
        self.moments.append(length * np.stack([np.ones_like(mean), mean, square, lost * own]))
        self.peaks.append(np.stack([own, np.max(np.abs(u), axis=0), worst * own]))
        if guess is None:
            return None
        time_, _, _, error = np.sum(self.moments, axis=0)
        parts = (error / time_, np.max(self.peaks, axis=0)[2]) / self._whole_spread()
        return Errors(*map(float, np.max(parts, axis=1)))

    def _whole_spread(self) -> Array:
        """Of every unknown in all slabs together."""
        time_, mean, square, _ = np.sum(self.moments, axis=0)
        spread = np.sqrt(np.maximum(square / time_ - (mean / time_) ** 2, 0.0))
        return unit(spread, np.max(self.peaks, axis=0)[1])

    def told(self) -> tuple[Slab, ...]:
        """The figures with their errors in parts of the spread of the whole, so that those of one
        slab can be compared with those of another."""
        if not self.moments:
            return tuple(self.figures)
        found, whole = [], self._whole_spread()
        for slab, (own, *_) in zip(self.figures, self.peaks, strict=True):
            part, error = float(np.max(own / whole)), slab.error
            if error is not None:
                error = {**error, "l1_normalised": part * error["l1_normalised"]}
            estimate = None if slab.estimate is None else part * slab.estimate
            found.append(dataclasses.replace(slab, estimate=estimate, error=error))
        return tuple(found)

    def _estimated(self, trial: Trial) -> Errors | None:
        """Of everything so far. A slab loses what separates it from a poorer one with the same
        start, times the ratio of their residuals; what it loses at its end is carried on, and grows
        or fades as the errors of a poorer march do that goes its own way."""
        if trial.judged is None:
            return None
        half, seen = self._poorer(trial.parts), trial.seen
        assert half is not None and seen is not None
        stray = trial.poorer
        if self.stray is not None:
            stray, _ = self.coarse.solve(
                self.blind, trial.bounds, half, self.stray, near=trial.poorer
            )
        assert stray is not None
        self.stray = stray
        self.missed = max(self.missed, trial.judged.missed)
        larger = np.maximum(self.spread, trial.spread)
        shrunk = float(np.max(self.spread / np.maximum(larger, 1e-300)))
        self.spread, self.lost, self.strayed = larger, shrunk * self.lost, shrunk * self.strayed
        part = self.part(trial)
        astray = stray(seen.rows[0].points).reshape(seen.inside.shape)
        far = apart(seen, astray)
        self.grown = self._growth(far, part * max(far - trial.judged.difference, 0.0))
        estimate = max(trial.error + (self.grown or 0.0) * self.lost / part, self.missed)
        self.strayed += part * trial.apart
        self.lost += part * trial.lost
        return Errors(estimate, largest_error(seen, stray, astray, estimate))

    def _growth(self, far: float, carried: float) -> float | None:
        """By which factor errors of earlier slabs have grown, as the poorer march shows: at least 1
        once that one has lost its way; None for the first slab."""
        if not self.figures:
            return None
        if not self.strayed:
            return 1.0
        found = carried / self.strayed
        return max(found, 1.0) if far > tuning.ASTRAY else found

    def _poorer(self, parts: Parts) -> Parts | None:
        """Half the features, if a second opinion is wanted; known once a solver is chosen."""
        basis, ready = parts.basis, self.fine.ready
        assert ready is not None
        wanted = not ready.iterative if self.estimate is None else self.estimate
        if not wanted or isinstance(basis, Multilevel) or basis.features.count < 2:
            return None
        if self.half is None or self.half[0] is not parts:
            half = dataclasses.replace(parts, basis=basis.coarser(), solver=ready.solver)
            self.half = parts, half
        return self.half[1]
