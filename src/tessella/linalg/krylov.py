"""LSQR: iterative least squares on a block matrix.

The iteration runs inside XLA a chunk at a time; between chunks the host looks at the history, shows
progress, decides on stagnation, and may be interrupted without losing the iterations made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from tessella.domain import Array
from tessella.linalg.block_matrix import BlockMatrix

CHUNK = 100
"""Iterations between two looks at the history."""

Progress = Callable[[int, int, float], None]
"""Called with (iterations done, iteration limit, relative residual)."""


class Stop(StrEnum):
    """Why a solver stopped."""

    RESIDUAL = "converged: residual within btol"
    OPTIMUM = "converged: least-squares optimum within atol"
    ZERO = "converged: the right-hand side is zero"
    DIRECT = "solved directly"
    STAGNATED = "stagnated"
    LIMIT = "iteration limit"
    INTERRUPTED = "interrupted"
    NOT_FINITE = "broke down: not a finite number"


ADVICE = {
    Stop.STAGNATED: "the residual stopped falling: add features or points, or try another sigma",
    Stop.LIMIT: "raise max_iterations, or raise sigma for a better conditioned system",
    Stop.INTERRUPTED: "the solution is the state after the last finished iterations",
    Stop.NOT_FINITE: "check the data for huge values; raise sigma",
}


@dataclass(frozen=True)
class History:
    """One entry per iteration; errors are NaN where they were not measured."""

    residual: Array = field(default_factory=lambda: np.zeros(0))
    normal_residual: Array = field(default_factory=lambda: np.zeros(0))
    error: Array = field(default_factory=lambda: np.zeros(0))

    def oracle(self) -> tuple[int, float] | None:
        """(iteration, error) of the smallest error: needs the exact solution to be picked."""
        if not np.isfinite(self.error).any():
            return None
        best = int(np.nanargmin(self.error))
        return best + 1, float(self.error[best])


@dataclass(frozen=True)
class SolverResult:
    """Unknowns and how they were found. `rule` is what the default stopping rule would have done:
    (iteration, error there) for runs that were forced to go on."""

    x: jax.Array
    iterations: int
    stop: Stop
    history: History
    residual_norm: float
    rule: tuple[int, float] | None = None

    @property
    def advice(self) -> str:
        return ADVICE.get(self.stop, "")


class Monitor(Protocol):
    """Measures the true error of the unknowns; a pytree, so that it can enter a jitted loop."""

    def __call__(self, y: jax.Array) -> jax.Array: ...


class _State(NamedTuple):
    i: jax.Array
    u: jax.Array
    v: jax.Array
    w: jax.Array
    x: jax.Array
    alpha: jax.Array
    rhobar: jax.Array
    phibar: jax.Array
    norm_A: jax.Array
    stop: jax.Array


@dataclass(frozen=True)
class LSQR:
    """LSQR of Paige and Saunders (1982).

    max_iterations  most iterations
    atol, btol      stop when |A^T r| <= atol |A| |r| (a least-squares optimum), or when
                    |r| <= btol |b| + atol |A| |x| (the system is compatible and solved).
                    Collocation systems are rarely compatible, so atol decides. Both 0 forces
                    every iteration, as the paper does.
    stagnation      stop when the residual fell by less than this fraction over `patience`
                    iterations; checked every 100 iterations, never when atol = btol = 0
    track_every     measure the error every so many iterations when the exact solution is known
    """

    max_iterations: int = 10_000
    atol: float = 1e-10
    btol: float = 1e-12
    stagnation: float = 1e-3
    patience: int = 1_000
    track_every: int = 10

    name: ClassVar[str] = "lsqr"

    def __post_init__(self) -> None:
        for what in ("max_iterations", "patience", "track_every"):
            value = getattr(self, what)
            if not (isinstance(value, Real) and float(value) >= 1 and float(value).is_integer()):
                raise ValueError(f"{what} must be a whole number, at least 1, got {value!r}")
            object.__setattr__(self, what, int(float(value)))
        for what in ("atol", "btol", "stagnation"):
            value = getattr(self, what)
            if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise ValueError(f"{what} must be 0 or a positive number, got {value!r}")

    @property
    def forced(self) -> bool:
        return self.atol == 0 and self.btol == 0

    def init(self, A: BlockMatrix) -> BlockMatrix:
        """LSQR reuses nothing between right-hand sides but the matrix itself."""
        return A

    def solve(
        self,
        A: BlockMatrix,
        b: Array,
        monitor: Monitor | None = None,
        progress: Progress | None = None,
    ) -> SolverResult:
        if np.shape(b) != (A.shape[0],):
            raise ValueError(
                f"the right-hand side has shape {np.shape(b)}, but the matrix has {A.shape[0]} rows"
            )
        norm_b = float(np.linalg.norm(b))
        if norm_b == 0:
            return SolverResult(jnp.zeros(A.shape[1]), 0, Stop.ZERO, History(), 0.0)
        if not math.isfinite(norm_b):
            raise ValueError("the right-hand side contains NaN or infinity")
        state, columns = _start(A, jnp.asarray(b)), []
        if float(state.alpha) == 0:
            return SolverResult(state.x, 0, Stop.OPTIMUM, History(), norm_b)
        done, stop = 0, Stop.LIMIT
        try:
            while done < self.max_iterations:
                upto = min(done + CHUNK, self.max_iterations)
                state, chunk = _iterate(
                    A, monitor, state, upto, norm_b, self.atol, self.btol, self.track_every
                )
                made = int(state.i) - done
                columns.append(np.asarray(chunk)[:, :made])
                done += made
                residual = columns[-1][0]
                if progress:
                    progress(done, self.max_iterations, float(residual[-1]) / norm_b)
                if int(state.stop):
                    stop = _CODES[int(state.stop)]
                    break
                if not self.forced and self._stagnates(np.concatenate([c[0] for c in columns])):
                    stop = Stop.STAGNATED
                    break
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        history = History(*np.concatenate(columns, axis=1)) if columns else History()
        rule = self._default_rule(history, norm_b, float(state.norm_A)) if self.forced else None
        last = float(history.residual[-1]) if done else norm_b
        return SolverResult(state.x, done, stop, history, last, rule)

    def _stagnates(self, residual: Array) -> bool:
        if len(residual) <= self.patience:
            return False
        return bool(residual[-1] > (1 - self.stagnation) * residual[-1 - self.patience])

    def _default_rule(
        self, history: History, norm_b: float, norm_A: float
    ) -> tuple[int, float] | None:
        """Where this run would have stopped with the default tolerances, and the error there."""
        usual = LSQR(max_iterations=self.max_iterations)
        r = history.residual
        small = history.normal_residual <= usual.atol * norm_A * r
        small |= r <= usual.btol * norm_b
        ends = [int(np.argmax(small)) + 1] if small.any() else []
        ends += [n for n in range(CHUNK, len(r) + 1, CHUNK) if usual._stagnates(r[:n])][:1]
        iteration = min([*ends, len(r)])
        measured = np.flatnonzero(np.isfinite(history.error[:iteration]))
        if not measured.size:
            return None
        return iteration, float(history.error[measured[-1]])


_CODES = {1: Stop.RESIDUAL, 2: Stop.OPTIMUM, 3: Stop.NOT_FINITE}


def _unit(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    size = jnp.linalg.norm(x)
    return x / jnp.where(size > 0, size, 1.0), size


@jax.jit
def _start(A: BlockMatrix, b: jax.Array) -> _State:
    u, beta = _unit(b)
    v, alpha = _unit(A.rmatvec(u))
    zero = jnp.zeros((), dtype=jnp.int64)
    return _State(zero, u, v, v, jnp.zeros_like(v), alpha, alpha, beta, jnp.zeros(()), zero)


@jax.jit
def _iterate(
    A: BlockMatrix,
    monitor: Any,
    start: _State,
    upto: int,
    norm_b: float,
    atol: float,
    btol: float,
    track_every: int,
) -> tuple[_State, jax.Array]:
    """Iterations start.i .. upto, or until a stopping test holds; history of shape (3, CHUNK)."""

    def go_on(carry: tuple[_State, jax.Array]) -> jax.Array:
        s, _ = carry
        return (s.i < upto) & (s.stop == 0)

    def step(carry: tuple[_State, jax.Array]) -> tuple[_State, jax.Array]:
        s, history = carry
        u, beta = _unit(A.matvec(s.v) - s.alpha * s.u)
        norm_A = jnp.sqrt(s.norm_A**2 + s.alpha**2 + beta**2)
        v, alpha = _unit(A.rmatvec(u) - beta * s.v)

        rho = jnp.hypot(s.rhobar, beta)
        c, sine = s.rhobar / rho, beta / rho
        x = s.x + (c * s.phibar / rho) * s.w
        w = v - (sine * alpha / rho) * s.w
        phibar = sine * s.phibar
        normal = phibar * alpha * jnp.abs(c)
        i = s.i + 1

        if monitor is None:
            error = jnp.array(jnp.nan)
        else:
            due = (i % track_every == 0) | (i <= 10)
            error = jax.lax.cond(due, lambda y: monitor(y), lambda _: jnp.array(jnp.nan), x)
        history = history.at[:, s.i - start.i].set(jnp.stack([phibar, normal, error]))

        compatible = phibar <= btol * norm_b + atol * norm_A * jnp.linalg.norm(x)
        optimal = normal <= atol * norm_A * phibar
        broken = ~jnp.isfinite(phibar + normal)
        forced = (atol == 0) & (btol == 0)
        stop = jnp.where((~forced & optimal) | (alpha == 0), 2, 0)
        stop = jnp.where((~forced & compatible) | (phibar == 0), 1, stop)
        stop = jnp.where(broken, 3, stop)
        return _State(i, u, v, w, x, alpha, -c * alpha, phibar, norm_A, stop), history

    empty = jnp.full((3, CHUNK), jnp.nan)
    return jax.lax.while_loop(go_on, step, (start, empty))
