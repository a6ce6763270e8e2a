"""Newton's method: a nonlinear problem as a sequence of linear ones.

Every step solves the problem linearised around the last iterate for the next one (see
`problem.nonlinear`). With the factors at hand a second substitution, for the equations as they are
at the new iterate, costs a fraction of that. This simplified correction says whether the step went
well: it must be smaller than the correction itself, else the step is damped (Deuflhard's natural
monotonicity test, which does not depend on how equations are scaled). Where it is small it is a
step of its own, a chord, and the ratio of both is by how much the next will be smaller.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.defects import defects
from tessella.accuracy.estimate import look, natural_sizes
from tessella.accuracy.held_out import SEED, held_out, sampler
from tessella.machine.arrays import Array
from tessella.machine.progress import Progress
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.factored import Watching
from tessella.problem.linearised import Around, linearised, rest
from tessella.problem.nonlinear import nonlinear_statements
from tessella.problem.problem import Problem
from tessella.problem.remembered import remembering
from tessella.problem.statement import Applied
from tessella.problem.states import Mixed
from tessella.problem.tangents import NotDifferentiableError
from tessella.solution.report import Correction, unit
from tessella.solution.solution import Solution
from tessella.solving.algorithm import report_of
from tessella.solving.nonlinear.pseudo_time import relaxed
from tessella.solving.places import Places, places_of, right_of, right_with
from tessella.solving.ways import Factors, Found, Parts, way

TOLERANCE = 1e-11
"""Newton's error in parts of the spread, unless a tolerance asks for less."""

BALANCE = 0.01
"""Newton's error in parts of a tolerance."""

STEPS = 40
"""Linearisations before it is given up."""

WANDERING = 12
"""Linearisations in which the smallest correction must have become smaller."""

SMALLEST = 1e-4
"""A step that must be damped more than this leads nowhere."""

CHORD = 0.25
"""A simplified correction that is so much smaller than the correction is worth taking."""

CHORDS = 3
"""So many of them are taken with one linearisation, if they suffice."""

FLOOR = 1e-6
"""Corrections below this that fall no more are what rounding and the basis leave."""

STALLED = 1e-4
"""Corrections below this that fall for no damping are what a poor basis leaves: least squares that
miss something are moved a little by every linearisation."""

FLAT = 1e-3
"""A spread below this part of the size says little about corrections."""

FAINT = 1e-6
"""An unknown that is larger than this part of another one is not looked at for being zero."""

SINGULAR = 20.0
"""A linearised problem that answers so much more than the first one did is nearly singular."""

POINTS = 1_000
"""Points at which iterates are compared."""

FOUND, GIVEN_UP = "Newton's method converged", "Newton's method did not converge"


@dataclass(frozen=True)
class Iterated:
    """The last good iterate, whether it is a solution, and if not why."""

    solution: Solution
    converged: bool
    reason: str


class Ready(NamedTuple):
    """A linearised problem with its factors, and where data stand in its right-hand side."""

    linear: Problem
    factors: Factors
    places: Mapping[str, Places]


class LostError(ArithmeticError):
    """Newton's method leads nowhere from here; `last` is the last good iterate, if there is one."""

    last: Solution | None = None


@dataclass
class Newton:
    """Newton's method in one basis."""

    problem: Problem
    parts: Parts
    tolerance: float = TOLERANCE
    relaxes: bool = False
    """Whether time is added to the equations where nothing else helps. A start that is near a
    solution asks for that one, and not for where time leads."""
    progress: Progress | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    steps: list[Correction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.problem = remembering(self.problem)
        draw = np.random.default_rng(SEED)
        self.points = sampler(self.problem, self.parts.basis).scatter(POINTS, draw)

    def go(self, start: Applied) -> Iterated:
        """From a start to a solution; if that fails, by way of pseudo-time."""
        start = start.whole() if isinstance(start, Solution) else start
        self.widest = 0.0, start
        last, reason = self._from(start)
        if reason and self.relaxes:
            slow = relaxed(self, start)
            if slow is not None:
                last, reason = self._from(slow)
            if reason and self.steps[-1].kind == "time":
                reason += ", and with time added to the equations they do not come to rest"
        if not reason:
            assert last is not None
            return Iterated(self._reported(last), True, "")
        return self._given_up(reason, start, last)

    def _from(self, start: Applied) -> tuple[Applied | None, str]:
        """The last iterate after a start, and the reason if it is no solution."""
        last = start if self._in_basis(start) else None
        here, ahead, first = Around(self.problem, start), 1.0, len(self.steps)
        try:
            for _ in range(STEPS):
                here, ahead, converged = self._step(here, ahead)
                last = here.state
                if converged:
                    return last, ""
                self._check_falling(first)
        except LostError as error:
            return last, str(error)
        return last, f"no convergence in {STEPS} linearisations"

    def _check_falling(self, first: int) -> None:
        """Refuse corrections that wander: the smallest of all is long ago."""
        sizes = [step.size for step in self.steps[first:] if step.kind == "newton"]
        if len(sizes) > WANDERING and min(sizes[:-WANDERING]) <= min(sizes[-WANDERING:]):
            raise LostError(f"corrections have not fallen in {WANDERING} linearisations")

    def step_in_time(self, here: Around, linear: Problem) -> tuple[Solution, float]:
        """The solution of a problem linearised around a state, and how far away it is."""
        self.full = full = self._solved(self._factored(linear))
        now, new = self._values(here.state), self._values(full)
        self.scale = self._scale(new, linear)
        size = self._size(new - now)
        self._note("time", size)
        return full, size

    def _given_up(self, reason: str, start: Applied, last: Applied | None) -> Iterated:
        """The last good iterate as the basis has it, with what it misses of the problem itself."""
        last = last.second if isinstance(last, Mixed) else last
        own = self._reported(self.full if last is None else last)
        missed = defects(own, held_out(self.problem, peaked=False))
        residual = {found.rows.source.name: found.missed for found in missed}
        own = dataclasses.replace(own, report=dataclasses.replace(own.report, residual=residual))
        answers = [self._answer(state) for state in (start, self.widest[1])]
        if answers[1] > SINGULAR * answers[0]:
            reason += (
                f", on a way where the linearised problem is nearly singular, "
                f"{answers[1] / answers[0]:.0f} times as sensitive as at the start: there may be "
                f"no solution, as past a fold in a parameter (see branch)"
            )
        return Iterated(own, False, f"{reason}; {REMEDY}")

    def _answer(self, state: Applied) -> float:
        """How large the linearised problem's answer is to a load that favours no symmetry."""
        ready = self._factored(linearised(self.problem, Around(self.problem, state)))
        domain = self.problem.domain
        k = (1.0 + np.arange(domain.dimension)) / (domain.upper - domain.lower)

        def load(x: Array, _: Array | None) -> Array:
            return np.exp((x - domain.lower) @ k)

        loads = {equation.name: load for equation in self.problem.equations}
        a = ready.factors.many(right_of(ready.factors, ready.places, loads)[None]).a
        some, none = (dataclasses.replace(self.full, coefficients=c) for c in (a[0], 0 * a[0]))
        return float(np.max(np.abs(self._values(some) - self._values(none)) / self.unit))

    def _in_basis(self, state: object) -> bool:
        return isinstance(state, Solution) and state.basis == self.parts.basis

    def _step(self, here: Around, damping: float) -> tuple[Around, float, bool]:
        """The next state, by how much a further step may be damped at first, and whether it is the
        last."""
        ready = self._factored(linearised(self.problem, here))
        self.full = full = self._solved(ready)
        now, new = self._values(here.state), self._values(full)
        self.scale = self._scale(new, ready.linear)
        size = self._size(new - now)
        if not math.isfinite(size):
            raise LostError("a correction is not finite")
        if not self.steps:
            self.unit = self.scale
        wide = float(np.max(np.abs(new - now) / self.unit))
        self.widest = max(self.widest, (wide, here.state), key=lambda own: own[0])
        if size <= self.tolerance:
            self._note("newton", size)
            return Around(self.problem, full), 1.0, True
        while True:
            trial = Around(self.problem, full)
            if damping < 1:
                trial = Around(self.problem, self._damped(here.state, full, damping))
            at = now + damping * (new - now)
            again, small, bend = self._simplified(ready, here, trial, at, (new - now, damping))
            best = min(1.0, 0.5 * size * damping**2 / max(bend, 1e-300))
            if size < FLOOR and small > CHORD * size:
                self._note("newton", size, damping)
                return trial, 1.0, True
            if small <= (1 - damping / 4) * size:
                break
            damping = min(damping / 2, max(best, damping / 10))
            if damping < SMALLEST:
                self._note("newton", size, damping)
                if size < STALLED:
                    return Around(self.problem, full), 1.0, True
                raise LostError("corrections no longer fall however much they are damped")
        self._note("newton", size, damping)
        if damping < 1 or small > CHORD * size:
            return trial, max(best, damping) if damping < 1 else best, False
        return self._chords(ready, here, Around(self.problem, again), size, small)

    def _chords(
        self, ready: Ready, slopes: Around, here: Around, size: float, small: float
    ) -> tuple[Around, float, bool]:
        """Further substitutions with the same factors, as long as they lead to the end."""
        for _ in range(CHORDS):
            self._note("chord", small)
            ratio = small / size
            if small * ratio <= self.tolerance:
                return here, 1.0, True
            if small * ratio ** (1 + CHORDS) > self.tolerance:
                return here, 1.0, False
            now = self._values(here.state)
            again, less, _ = self._simplified(ready, slopes, here, now, None)
            if less > CHORD * small:
                return here, 1.0, small < FLOOR
            here, size, small = Around(self.problem, again), small, less
        return here, 1.0, False

    def _simplified(
        self,
        ready: Ready,
        slopes: Around,
        trial: Around,
        at: Array,
        whole: tuple[Array, float] | None,
    ) -> tuple[Solution, float, float]:
        """The iterate that old factors lead to from a trial, how far away it is, and how far from
        what a linear problem would have made of it."""
        try:
            again = self._solved(ready, trial, slopes)
        except NotDifferentiableError:
            return self.full, math.inf, math.inf
        new = self._values(again)
        size, bend = self._size(new - at), 0.0
        if whole is not None:
            delta, damping = whole
            bend = self._size(new - at - (1 - damping) * delta)
        return again, size if math.isfinite(size) else math.inf, bend

    # --- linear algebra

    def _factored(self, linear: Problem) -> Ready:
        with self.watch.phase("assemble"):
            system = way(self.parts.basis).assemble(linear, self.parts)
        ready = way(self.parts.basis).factor(system, self.parts, self.watch, self.progress)
        return Ready(linear, ready, places_of(ready))

    def _solved(
        self, ready: Ready, state: Around | None = None, slopes: Around | None = None
    ) -> Solution:
        """The next iterate; after another state than the one linearised around."""
        if state is None:
            watching = Watching(self.problem, self.parts.basis, None, self.progress)
            self.found = ready.factors.solve(self.watch, watching).whole()
        else:
            values = {
                own.name: lambda x, n, own=own: own.values(x) - rest(
                    own.operator, state, x, n, slopes
                )
                for own in nonlinear_statements(self.problem)
            }  # fmt: skip
            self.found = self._substituted(ready, values)
        self.ready = ready
        basis = self.parts.basis
        report = report_of(self.problem, basis, ready.factors, self.found)
        report = dataclasses.replace(report, residual=self.found.residual)
        return Solution(self.problem, basis, self.found.a, report, self.found.result.history)

    def _substituted(self, ready: Ready, values: Mapping[str, Any]) -> Found:
        with self.watch.phase("substitute"):
            a, result, residual = ready.factors.many(
                right_with(ready.factors, ready.places, values)[None]
            )
        return Found(a[0], result, {name: float(own[0]) for name, own in residual.items()})

    def _damped(self, state: Applied, full: Solution, damping: float) -> Applied:
        """A part of the way from a state to Newton's iterate. A start that the basis does not hold
        keeps its share of what follows."""
        if isinstance(state, Mixed):
            share = 1 - (1 - damping) * (1 - state.share)
            second = self._damped(state.second, full, damping / share)
            return Mixed(state.first, second, share)
        if not self._in_basis(state):
            return Mixed(state, full, damping)
        assert isinstance(state, Solution)
        mixed = state.coefficients + damping * (full.coefficients - state.coefficients)
        return dataclasses.replace(full, coefficients=mixed)

    # --- sizes

    def _values(self, state: Applied) -> Array:
        """(n, unknowns)."""
        names = self.problem.unknowns
        each = [state.apply(self.problem.unknown(name), self.points) for name in names]
        return np.stack(each, axis=1)

    def _scale(self, values: Array, linear: Problem) -> Array:
        """What corrections are parts of: the spread of every unknown, of flat ones a part of their
        size, and of those that are nothing but rounding what would balance the others."""
        size = np.max(np.abs(values), axis=0)
        found = unit(np.maximum(np.std(values, axis=0), FLAT * size), size)
        if np.min(size) > FAINT * np.max(size) or not np.all(np.isfinite(size)):
            return found
        rows = held_out(self.problem, peaked=False)
        natural = natural_sizes(look(dataclasses.replace(self.full, problem=linear), rows))
        return np.where(size < tuning.NOUGHT * natural, natural, found)

    def _size(self, difference: Array) -> float:
        """Root mean square in parts of the spread, of several unknowns the largest."""
        return float(np.max(np.sqrt(np.mean(difference**2, axis=0)) / self.scale))

    def _note(self, kind: str, size: float, damping: float = 1.0) -> None:
        self.steps.append(Correction(kind, size, damping))
        if self.progress is not None:
            self.progress(len(self.steps), 0, size)

    def _reported(self, solution: Applied) -> Solution:
        assert isinstance(solution, Solution)
        report = dataclasses.replace(solution.report, newton=tuple(self.steps))
        return dataclasses.replace(solution, report=report)


REMEDY = (
    "start nearer to a solution, solve(..., start=...), or come to this problem from easier ones, "
    "solve(problem_of, continuation=(name, values))"
)
