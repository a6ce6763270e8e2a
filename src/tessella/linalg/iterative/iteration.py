"""What every iterative solver shares: the driver, its history, and the names of its endings.

The iteration runs inside XLA a chunk at a time (see `loops`); between chunks the host looks at the
history, shows progress, decides on stagnation, and may be interrupted without losing the iterations
made. A method is two functions, `begin(state, b)` and `step(state, iterate)`, and inherits all of
that.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tessella.linalg.block_kernels import largest_entries
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.iterative.loops import (
    CHUNK,
    INTERRUPTED,
    PROGRAMS,
    Inner,
    Iterate,
    Loop,
    Monitor,
    Recurrence,
    Tests,
    run_on_host,
    run_through,
    run_until,
)
from tessella.linalg.iterative.meshed import begun as begun_meshed
from tessella.linalg.iterative.meshed import run_meshed, spread_in
from tessella.linalg.row_matrix import RowMatrix
from tessella.linalg.units import in_units
from tessella.linalg.vectors import Vectors
from tessella.machine.arguments import is_number
from tessella.machine.arrays import Array, on_device
from tessella.machine.compiled import compiled
from tessella.machine.device import preferred
from tessella.machine.printing import as_written, counted
from tessella.machine.progress import Progress

SMALLEST_TOLERANCE = 1e-16
"""Positive tolerances below this could never be met in double precision."""


class Stop(StrEnum):
    """Why a solver stopped."""

    RESIDUAL = "converged: residual within btol"
    OPTIMUM = "converged: least-squares optimum within atol"
    ZERO = "converged: the right-hand side is zero"
    DIRECT = "solved directly"
    DEFICIENT = "solved directly: the matrix is rank-deficient"
    STAGNATED = "stagnated"
    LIMIT = "iteration limit"
    INTERRUPTED = "interrupted"
    NOT_FINITE = "broke down: not a finite number"


ADVICE = {
    Stop.DEFICIENT: "its rows are dependent, so that parts of the right-hand side cannot be met",
    Stop.STAGNATED: "the residual stopped falling: add features or points, or try another sigma",
    Stop.LIMIT: "raise max_iterations, or raise sigma for a better conditioned system",
    Stop.INTERRUPTED: "the solution is the state after the last finished iterations",
    Stop.NOT_FINITE: "check the data for huge values; raise sigma",
}


@dataclass(frozen=True, repr=False)
class History:
    """One entry per iteration; errors are NaN where they were not measured."""

    residual: Array = field(default_factory=lambda: np.zeros(0))
    normal_residual: Array = field(default_factory=lambda: np.zeros(0))
    error: Array = field(default_factory=lambda: np.zeros(0))

    def __repr__(self) -> str:
        made = f"History of {counted(len(self.residual), 'iteration')}"
        fell = f", residual {self.residual[0]:.3g} to {self.residual[-1]:.3g}"
        return made + fell if len(self.residual) else made

    def oracle(self) -> tuple[int, float] | None:
        """(iteration, error) of the smallest error: needs the exact solution to be picked."""
        if not np.isfinite(self.error).any():
            return None
        best = int(np.nanargmin(self.error))
        return best + 1, float(self.error[best])


@dataclass(frozen=True, repr=False)
class SolverResult:
    """Unknowns and how they were found. `rule` is what the default stopping rule would have done:
    (iteration, error there) for runs that were forced to go on."""

    x: Any
    iterations: int
    stop: Stop
    history: History
    residual_norm: float
    rule: tuple[int, float] | None = None

    def __repr__(self) -> str:
        made = f"{counted(self.iterations, 'iteration')}, " if self.iterations else ""
        return f"SolverResult({made}{self.stop}, residual {self.residual_norm:.3g})"

    def times(self, unit: float) -> SolverResult:
        """Of a right-hand side that was divided by the unit."""
        old = self.history
        history = History(unit * old.residual, unit * old.normal_residual, old.error)
        residual = unit * self.residual_norm
        return replace(self, x=unit * self.x, history=history, residual_norm=residual)

    @property
    def advice(self) -> str:
        return ADVICE.get(self.stop, "")


@partial(jax.tree_util.register_dataclass, data_fields=["monitor", "lift"], meta_fields=[])
@dataclass(frozen=True)
class Lifted:
    """The monitor of x = lift(y), for unknowns y; `lift` is a pytree too."""

    monitor: Monitor
    lift: jax.tree_util.Partial

    def __call__(self, y: jax.Array) -> jax.Array:
        return self.monitor(self.lift(y))


class System(Protocol):
    """What a state must tell the driver: (rows, columns), and whether its vectors are whole. A
    pytree, unless it works on the host."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def vectors(self) -> Vectors: ...


State = TypeVar("State", bound=System)


@dataclass(frozen=True, repr=False)
class Iterative(ABC, Generic[State, Inner]):
    """A solver that improves x step by step; the fields are documented at LSQR.

    `sizes` bounds the matrix's largest entry: beyond, its squares would underflow. `chunk`
    iterations are made between two looks from outside; XLA makes them if they are `compiled`.
    """

    max_iterations: int = 10_000
    atol: float = 1e-10
    btol: float = 1e-12
    stagnation: float = 1e-3
    patience: int = 1_000
    track_every: int = 10

    name: ClassVar[str]
    sizes: ClassVar[tuple[float, float]] = (1e-140, math.inf)
    iterative: ClassVar[bool] = True
    chunk: ClassVar[int] = CHUNK
    compiled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for what in ("max_iterations", "patience", "track_every"):
            count = getattr(self, what)
            number = float(count) if isinstance(count, Real) else math.nan
            if not (number >= 1 and number.is_integer()):
                raise ValueError(f"{what} must be a whole number of at least 1, got {count!r}")
            object.__setattr__(self, what, int(number))
        for what in ("atol", "btol", "stagnation"):
            value = getattr(self, what)
            if not (is_number(value) and value >= 0):
                raise ValueError(f"{what} must be 0 or a positive number, got {value!r}")
        for what in ("atol", "btol"):
            value = getattr(self, what)
            if 0 < value < SMALLEST_TOLERANCE:
                raise ValueError(
                    f"{what}={value!r} is below machine precision (2.2e-16) and would never be "
                    f"met: use at least {SMALLEST_TOLERANCE:g}, or atol=btol=0 to force every "
                    f"iteration"
                )

    def __repr__(self) -> str:
        return as_written(self)

    @property
    def forced(self) -> bool:
        return self.atol == 0 and self.btol == 0

    @property
    def shares(self) -> bool:
        """Whether products, sums and lengths are all it asks for, which several processes find
        together."""
        return True

    @abstractmethod
    def init(self, A: BlockMatrix, progress: Progress | None = None) -> State:
        """What can be reused for another right-hand side; refuses a matrix it cannot work on."""

    @staticmethod
    @abstractmethod
    def _begin(state: State, b: jax.Array, /) -> Iterate[Inner]:
        """x = 0 and the start of the recurrence."""

    @staticmethod
    @abstractmethod
    def _step(state: State, last: Iterate[Inner], /) -> Iterate[Inner]:
        """The next iterate."""

    def solve(
        self,
        state: State,
        b: Array,
        monitor: Monitor | None = None,
        progress: Progress | None = None,
    ) -> SolverResult:
        """min |A x - b| for a state made by `init`."""
        rows, columns = state.shape
        b, unit = in_units(b, rows, state.vectors.largest)
        if b.ndim != 1:
            raise ValueError(f"the right-hand side has shape {b.shape}: solve for one at a time")
        if not state.vectors.largest(b):
            return SolverResult(jnp.zeros(columns), 0, Stop.ZERO, History(), 0.0)
        if unit == 1:
            return self._solve(state, b, monitor, progress)
        by_unit = jax.tree_util.Partial(operator.mul, unit)
        watch = None if monitor is None else Lifted(monitor, by_unit)
        return self._solve(state, b, watch, progress).times(unit)

    def _solve(
        self, state: State, b: Array, monitor: Monitor | None, progress: Progress | None
    ) -> SolverResult:
        """The same for a right-hand side of moderate size that is not zero."""
        norm_b = float(state.vectors.row_norm(b))
        start, whole = self._begun(state, b)
        if bool(start.exhausted):
            return SolverResult(whole(start.x), 0, Stop.OPTIMUM, History(), norm_b)
        usual = type(self)(max_iterations=self.max_iterations)
        rules = usual if self.forced else self
        tests = Tests(norm_b, rules.atol, rules.btol, self.forced)
        recurrence = Recurrence(type(self)._step, state, monitor, tests, self.track_every)
        last, stop, (*kept, verdict) = self._iterate(recurrence, start, progress)
        history = History(*kept)
        rule = usual._rule(history, verdict) if self.forced else None
        finite = history.residual[np.isfinite(history.residual)]
        residual = float(finite[-1]) if finite.size else norm_b
        return SolverResult(whole(last.x), len(verdict), stop, history, residual, rule)

    def _iterate(
        self,
        recurrence: Recurrence[State, Inner],
        last: Iterate[Inner],
        progress: Progress | None,
    ) -> tuple[Iterate[Inner], Stop, Array]:
        """The last iterate, why it is the last, and the history, a chunk at a time."""
        history, shared = np.zeros((4, 0)), recurrence.state.vectors.shared
        try:
            while (done := history.shape[1]) < self.max_iterations:
                upto = min(done + self.chunk, self.max_iterations)
                run = self._loop(recurrence.state)(recurrence, last, done, upto)
                if run.stop == INTERRUPTED and shared:
                    raise KeyboardInterrupt  # others would go on and wait
                last = run.last
                history = np.concatenate([history, run.history], axis=1)
                if progress and history.size:
                    relative = float(history[0, -1]) / recurrence.tests.norm_b
                    progress(history.shape[1], self.max_iterations, relative)
                if run.stop:
                    return last, _VERDICTS[run.stop], history
                if not self.forced and self._stagnates(history[0]):
                    return last, Stop.STAGNATED, history
        except KeyboardInterrupt:
            if shared:
                raise
            return last, Stop.INTERRUPTED, history
        return last, Stop.LIMIT, history

    def _begun(self, state: State, b: Array) -> tuple[Any, Callable[[Any], Any]]:
        """The first iterate, and how its vectors of columns are made whole."""
        begin: Any = type(self)._begin
        if (A := spread_in(state)) is not None:
            return begun_meshed(begin, state, A.right(b)), A.whole
        if state.vectors.shared or isinstance(state, RowMatrix):
            return begin(state, b), np.asarray
        right = on_device(b)
        start = _started(begin, state, right) if self.compiled else begin(state, right)
        return start, lambda x: x

    def _loop(self, state: State) -> Loop:
        if spread_in(state) is not None:
            return run_meshed
        if state.vectors.shared or isinstance(state, RowMatrix) or not self.compiled:
            return run_on_host
        return run_through if preferred().blind else run_until

    def _stagnates(self, residual: Array) -> bool:
        if len(residual) <= self.patience:
            return False
        return bool(residual[-1] > (1 - self.stagnation) * residual[-1 - self.patience])

    def _rule(self, history: History, verdict: Array) -> tuple[int, float] | None:
        """Where this solver would have ended a forced run, and the error there."""
        r = history.residual
        ends = [int(np.argmax(verdict > 0)) + 1] if (verdict > 0).any() else []
        steps = range(self.chunk, len(r) + 1, self.chunk)
        ends += [n for n in steps if self._stagnates(r[:n])][:1]
        iteration = min([*ends, len(r)])
        measured = np.flatnonzero(np.isfinite(history.error[:iteration]))
        if not measured.size:
            return None
        return iteration, float(history.error[measured[-1]])


def checked(A: BlockMatrix, sizes: tuple[float, float] = (0.0, math.inf)) -> BlockMatrix:
    """A itself, unless it has nothing to solve for, holds NaN or infinity, or is out of scale.

    On a GPU it gets the lookup tables that spare its products the scatter.
    """
    if not A.groups or 0 in A.shape:
        raise ValueError(
            f"the matrix has {A.shape[0]} rows, {A.shape[1]} columns and {len(A.groups)} groups of "
            f"blocks: there is nothing to solve; if a filter removed every feature, lower sigma"
        )
    largest = np.concatenate([largest_entries(g.values, (1, 2)) for g in A.groups])
    bad = np.flatnonzero(~np.isfinite(largest))
    if bad.size:
        raise ValueError(
            f"block {int(bad[0])} of the matrix contains NaN or infinity: check the coefficients "
            f"of the equation and the features there"
        )
    size, (low, high) = float(largest.max(initial=0.0)), sizes
    if size > 0 and not low <= size <= high:
        raise ValueError(
            f"the matrix's largest entry has size {size:.1e}, and products with it would over- or "
            f"underflow: scale it into [{low:g}, {high:g}]"
        )
    return A.with_lookup() if preferred().lookups and A.lookup is None else A


_VERDICTS = {
    1: Stop.RESIDUAL, 2: Stop.OPTIMUM, 3: Stop.NOT_FINITE, INTERRUPTED: Stop.INTERRUPTED,
}  # fmt: skip


@compiled(PROGRAMS, static=(0,))
def _started(
    begin: Callable[[State, jax.Array], Iterate[Inner]], state: State, b: jax.Array
) -> Iterate[Inner]:
    return begin(state, b)
