"""Adam on the least-squares objective: the loop that PINN and FBPINN share.

The steps run inside XLA, a stretch at a time; between stretches the host records, shows progress,
writes checkpoints, and may be interrupted without losing what was done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.linalg.iterative.iteration import History, Progress
from tessella.machine.arguments import as_path
from tessella.machine.arrays import Array
from tessella.networks.network import Parameters
from tessella.networks.objective import Objective

STRETCH = 100
"""Most steps between two looks of the host."""

LOOK = 0.5
"""Seconds between two looks; slow steps get shorter stretches."""

IMPROVEMENT = 1e-3
"""A loss counts as lower, for `patience`, when it is lower by this fraction."""

DIVERGED = 1e4
"""A loss this many times that of the untrained networks has diverged."""


class Ending(StrEnum):
    """Why the training ended."""

    STEPS = "step limit"
    STAGNATED = "stagnated: the loss stopped falling"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


ADVICE = {
    Ending.STEPS: "",
    Ending.STAGNATED: "a smaller learning_rate or a larger network may go further",
    Ending.DIVERGED: "lower learning_rate; the solution is the state of the lowest loss",
    Ending.INTERRUPTED: "the solution is the state after the last finished steps",
}


MOST = 10**12
"""Steps; nobody waits for more."""


@dataclass(frozen=True)
class Training:
    """How to train: Adam with a constant learning rate, as in the paper.

    steps             the paper takes 10,000
    learning_rate     1e-3 in the paper; lower it when the training diverges
    track_every       steps between two measurements of the error, where it can be measured
    patience          end once the loss has not fallen (by a thousandth) for this many steps; left
                      out, all steps are made
    checkpoint        a file to write the state to every `checkpoint_every` steps and at the end;
                      if it is there already, the training goes on from it

    >>> import tessella as ts
    >>> ts.Training(steps=2_000, patience=200).learning_rate
    0.001
    """

    steps: int = 10_000
    learning_rate: float = 1e-3
    track_every: int = 10
    patience: int | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 1_000

    def __post_init__(self) -> None:
        for name in ("steps", "track_every", "patience", "checkpoint_every"):
            value = getattr(self, name)
            if name == "patience" and value is None:
                continue
            number = float(value) if isinstance(value, Real) else math.nan
            if not (number >= 1 and number.is_integer()):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
            if number > MOST:
                raise ValueError(f"{name} must be at most {MOST:,}, got {value!r}")
            object.__setattr__(self, name, int(number))
        if self.checkpoint is not None:
            as_path(self.checkpoint, "checkpoint")
        rate = self.learning_rate
        if not (isinstance(rate, Real) and 0 < rate < math.inf):
            raise ValueError(f"learning_rate must be a positive number, got {rate!r}")


class Adam(NamedTuple):
    """First and second moments of the gradient (Kingma and Ba 2015)."""

    mean: Any
    square: Any


def adam_begin(parameters: Any) -> Adam:
    zero = jax.tree.map(jnp.zeros_like, parameters)
    return Adam(zero, zero)


def adam_step(
    state: Adam, parameters: Any, gradient: Any, step: Any, learning_rate: Any
) -> tuple[Adam, Any]:
    """The paper's Adam with its usual constants; `step` counts from 1."""
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, gradient)
    square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state.square, gradient)
    unbias_m, unbias_v = 1 / (1 - 0.9**step), 1 / (1 - 0.999**step)

    def move(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return p - learning_rate * (m * unbias_m) / (jnp.sqrt(v * unbias_v) + 1e-8)

    return Adam(mean, square), jax.tree.map(move, parameters, mean, square)


class State(NamedTuple):
    """Everything the training needs to go on.

    best, best_loss, best_step   the networks of the lowest loss, and after how many steps
    mark_loss, mark_step         the last clear improvement, for `patience`
    start_loss                   of the untrained networks
    """

    parameters: Parameters
    adam: Adam
    step: jax.Array
    best: Parameters
    best_loss: jax.Array
    best_step: jax.Array
    mark_loss: jax.Array
    mark_step: jax.Array
    start_loss: jax.Array


class Monitor(NamedTuple):
    """Normalised L1 error of the networks at test points."""

    objective: Objective
    spread: Any

    def __call__(self, parameters: Parameters) -> jax.Array:
        return jnp.mean(jnp.abs(self.objective.residual(parameters))) / self.spread


class Trained(NamedTuple):
    """The networks to keep, those of the lowest loss, and how they were found."""

    parameters: Parameters
    best: Parameters
    best_step: int
    steps: int
    ending: Ending
    history: History


def begin(parameters: Parameters) -> State:
    zero, infinite = jnp.zeros((), jnp.int64), jnp.array(jnp.inf)
    return State(
        parameters,
        adam_begin(parameters),
        zero,
        parameters,
        infinite,
        zero,
        infinite,
        zero,
        infinite,
    )


def train(
    objective: Objective,
    state: State,
    training: Training,
    monitor: Monitor | None = None,
    progress: Progress | None = None,
    history: Array | None = None,
    keep: Callable[[State, Array], None] | None = None,
) -> Trained:
    """Train from `state`, which `history` (3, steps so far) belongs to.

    The history's residual after i steps is sqrt(loss) = |residual| and its normal residual
    |J^T residual|, half the gradient's norm: what the linear solvers record, for a nonlinear
    problem. Both are those before the step; the error is the one after it. `keep` is handed state
    and history from time to time, to be stored.
    """
    made = [history if history is not None else np.zeros((3, 0))]
    done = int(state.step)
    scale = float(jnp.linalg.norm(objective.target)) or 1.0
    ending, stretch, kept = Ending.STEPS, 1, done
    try:
        while done < training.steps:
            upto = min(done + stretch, training.steps, kept + training.checkpoint_every)
            began = time.perf_counter()
            state, code, chunk = advance(objective, monitor, state, upto, training)
            made.append(np.asarray(chunk)[:, : int(state.step) - done])
            spent = (time.perf_counter() - began) / max(1, int(state.step) - done)
            done = int(state.step)
            stretch = max(1, min(STRETCH, 2 * stretch, int(LOOK / spent)))
            if progress and made[-1].size:
                progress(done, training.steps, float(made[-1][0, -1]) / scale)
            if int(code):
                ending = _CODES[int(code)]
                break
            if done >= kept + training.checkpoint_every:
                kept = done
                if keep:
                    keep(state, np.concatenate(made, axis=1))
    except KeyboardInterrupt:
        ending = Ending.INTERRUPTED
    whole = np.concatenate(made, axis=1)
    if keep and ending is not Ending.DIVERGED:
        keep(state, whole)
    chosen = state.best if ending is Ending.DIVERGED else state.parameters
    return Trained(chosen, state.best, int(state.best_step), done, ending, History(*whole))


def advance(
    objective: Objective, monitor: Monitor | None, state: State, upto: int, training: Training
) -> tuple[State, jax.Array, jax.Array]:
    """At most STRETCH steps, until `upto` have been made in all; with upto=0 it only compiles.

    Returns the state, why it ended (0: it did not), and the history (3, STRETCH).
    """
    patience = training.patience or np.iinfo(np.int64).max
    numbers = (training.learning_rate, training.track_every, patience)
    return _advance(objective, monitor, state, upto, *numbers)


_CODES = {1: Ending.DIVERGED, 2: Ending.STAGNATED}


@jax.jit
def _advance(
    objective: Objective,
    monitor: Monitor | None,
    state: State,
    upto: int,
    learning_rate: float,
    track_every: int,
    patience: int,
) -> tuple[State, jax.Array, jax.Array]:
    """Steps until `upto` have been made or a test ends them; history of shape (3, STRETCH)."""
    begun = state.step
    Carry = tuple[State, jax.Array, jax.Array]

    def go_on(carry: Carry) -> jax.Array:
        now, code, _ = carry
        return (now.step < upto) & (code == 0)

    def one(carry: Carry) -> Carry:
        now, _, history = carry
        loss, gradient = objective.value_and_gradient(now.parameters)
        slope = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradient))) / 2
        start = jnp.where(now.step == 0, loss, now.start_loss)
        broken = ~(jnp.isfinite(loss) & jnp.isfinite(slope)) | (loss > DIVERGED * start)
        better = loss < now.best_loss
        lower = loss < (1 - IMPROVEMENT) * now.mark_loss
        adam, moved = adam_step(now.adam, now.parameters, gradient, now.step + 1, learning_rate)
        after = State(
            moved,
            adam,
            now.step + 1,
            _where(better, now.parameters, now.best),
            jnp.where(better, loss, now.best_loss),
            jnp.where(better, now.step, now.best_step),
            jnp.where(lower, loss, now.mark_loss),
            jnp.where(lower, now.step, now.mark_step),
            start,
        )
        if monitor is None:
            error = jnp.array(jnp.nan)
        else:
            due = (after.step % track_every == 0) | (after.step == 1)
            error = jax.lax.cond(due, lambda p: monitor(p), lambda _: jnp.array(jnp.nan), moved)
        history = history.at[:, now.step - begun].set(jnp.stack([jnp.sqrt(loss), slope, error]))
        code = jnp.where(after.step - after.mark_step > patience, 2, 0)
        return after, jnp.where(broken, 1, code), history

    first = (state, jnp.zeros((), jnp.int64), jnp.full((3, STRETCH), jnp.nan))
    return jax.lax.while_loop(go_on, one, first)


def _where(condition: jax.Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)
