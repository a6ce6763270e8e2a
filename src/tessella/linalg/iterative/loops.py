"""The loops that iterative solvers run in, compiled by XLA.

`run_until` is a while loop: it ends with the iteration at which a stopping test holds. On a GPU the
host would have to read that test back after every iteration, which takes as long as the iteration,
so `run_through` makes a fixed number of iterations there, and those after the end change nothing.
Both make the same iterates and histories; on a CPU, where an idle iteration costs a whole one and
the test nothing, the while loop is the faster. `run_on_host` is not compiled, for steps that use
LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

CHUNK = 100
"""Iterations between two looks at the history."""

FIRST = 10
"""The error is measured after each of so many first iterations, then every `track_every`."""

UNROLLED = 5
"""Iterations of the fixed loop between two looks at its counter."""


class Iterate(NamedTuple):
    """What every method reports after an iteration; `inner` is its own recurrence.

    residual, normal   |r| and |A^T r|, r = b - A x
    norm_A, reach      estimates of |A| and of |A| |x|, the scales of the stopping tests
    exhausted          nothing is left to search: x is a least-squares solution
    """

    x: jax.Array
    residual: jax.Array
    normal: jax.Array
    norm_A: jax.Array
    reach: jax.Array
    exhausted: jax.Array
    inner: Any


class Monitor(Protocol):
    """Measures the true error of the unknowns; a pytree, so that it can enter a jitted loop."""

    def __call__(self, y: jax.Array) -> jax.Array: ...


class Tests(NamedTuple):
    """The stopping tests; with `forced` they are only noted, unless nothing is left to do."""

    norm_b: float
    atol: float
    btol: float
    forced: bool


class Run(NamedTuple):
    """`made` iterations, the last of them, the verdict that ended them (0: none), the history.

    Verdicts: 1 the residual is small, 2 a least-squares optimum, 3 not a finite number.
    The history's rows are |r|, |A^T r|, the error (NaN where not measured), the verdict. Numbers on
    the device or, if the loop had to look at them, already on the host.
    """

    made: Any
    last: Iterate
    stop: Any
    history: Any


Step = Callable[[Any, Iterate], Iterate]
Loop = Callable[[Step, Any, Any, Iterate, int, int, Tests, int], Run]
"""(step, state, monitor, start, done, upto, tests, track_every): iterations done + 1 .. upto."""


@partial(jax.jit, static_argnums=0)
def run_until(
    step: Step,
    state: Any,
    monitor: Any,
    start: Iterate,
    done: int,
    upto: int,
    tests: Tests,
    track_every: int,
) -> Run:
    """A while loop that ends where a test holds; at most CHUNK iterations."""

    def go_on(run: Run) -> Any:
        return (done + run.made < upto) & (run.stop == 0)

    def one(run: Run) -> Run:
        new, stop, verdict = _judged(step, state, run.last, tests)
        error = jnp.array(jnp.nan)
        if monitor is not None:
            due = _due(done + run.made + 1, track_every)
            error = jax.lax.cond(due, lambda x: monitor(x), lambda _: jnp.array(jnp.nan), new.x)
        entry = jnp.stack([new.residual, new.normal, error, verdict.astype(float)])
        return Run(run.made + 1, new, stop, run.history.at[:, run.made].set(entry))

    zero = jnp.zeros((), dtype=jnp.int64)
    return jax.lax.while_loop(go_on, one, Run(zero, start, zero, jnp.full((4, CHUNK), jnp.nan)))


def run_through(
    step: Step,
    state: Any,
    monitor: Any,
    start: Iterate,
    done: int,
    upto: int,
    tests: Tests,
    track_every: int,
) -> Run:
    """Loops of fixed length, idle once a test holds or `upto` is reached.

    An error to measure in the midst of one would take a branch, which again the host would decide;
    so with a monitor each ends where an error is due.
    """
    length = CHUNK if monitor is None else min(CHUNK, track_every)
    at, last, stop, pieces = done, start, 0, []
    while at < upto and not stop:
        to = min(at + length, upto)
        if monitor is not None:
            to = at + 1 if at < FIRST else min(to, (at // track_every + 1) * track_every)
        run = _fixed(step, length, state, monitor, last, at, to, tests, track_every)
        made, stop, history = jax.device_get((run.made, run.stop, run.history))
        at, last = at + int(made), run.last
        pieces.append(history[:, :made])
    return Run(at - done, last, stop, np.concatenate(pieces, axis=1))


def run_on_host(
    step: Step,
    state: Any,
    monitor: Any,
    start: Iterate,
    done: int,
    upto: int,
    tests: Tests,
    track_every: int,
) -> Run:
    """A Python loop, for steps with work outside XLA: each takes long enough not to mind."""
    last, stop = start, 0
    entries: list[list[float]] = []
    while done + len(entries) < upto and not stop:
        last, ended, verdict = _judged(step, state, last, tests)
        due = monitor is not None and bool(_due(done + len(entries) + 1, track_every))
        error = float(monitor(last.x)) if due else np.nan
        entries.append([float(last.residual), float(last.normal), error, float(verdict)])
        stop = int(ended)
    return Run(len(entries), last, stop, np.array(entries).T)


Packed = tuple[list[jax.Array], jax.Array]
"""The arrays of a loop's state, and all its numbers in one vector."""


class _Packing:
    """A state's numbers as one vector of doubles, so that one kernel writes them all."""

    def __init__(self, like: Any) -> None:
        leaves, self.structure = jax.tree.flatten(like)
        self.types = [(leaf.ndim == 0, leaf.dtype) for leaf in leaves]

    def pack(self, state: Any) -> Packed:
        leaves = jax.tree.leaves(state)
        numbers = [leaf.astype(float) for leaf in leaves if leaf.ndim == 0]
        return [leaf for leaf in leaves if leaf.ndim], jnp.stack(numbers)

    def unpack(self, packed: Packed) -> Any:
        arrays, numbers = iter(packed[0]), iter(packed[1])
        leaves = [
            next(numbers).astype(dtype) if single else next(arrays) for single, dtype in self.types
        ]
        return jax.tree.unflatten(self.structure, leaves)


@partial(jax.jit, static_argnums=(0, 1))
def _fixed(
    step: Step,
    length: int,
    state: Any,
    monitor: Any,
    start: Iterate,
    done: int,
    upto: int,
    tests: Tests,
    track_every: int,
) -> Run:
    zero = jnp.zeros((), dtype=jnp.int64)
    packing = _Packing((zero, start, zero))

    def one(packed: Packed, _: None) -> tuple[Packed, jax.Array]:
        made, last, stopped = packing.unpack(packed)
        new, stop, verdict = _judged(step, state, last, tests)
        active = (done + made < upto) & (stopped == 0)
        entry = jnp.stack([new.residual, new.normal, verdict.astype(float)])
        after = packing.pack((made + 1, new, stop))
        return jax.tree.map(lambda a, b: jnp.where(active, a, b), after, packed), entry

    unroll = UNROLLED if length % UNROLLED == 0 else 1
    packed, entries = jax.lax.scan(
        one, packing.pack((zero, start, zero)), length=length, unroll=unroll
    )
    made, last, stop = packing.unpack(packed)
    errors = jnp.full(length, jnp.nan)
    if monitor is not None:
        error = jnp.where(_due(done + made, track_every), monitor(last.x), jnp.nan)
        errors = errors.at[made - 1].set(error)
    history = jnp.stack([entries[:, 0], entries[:, 1], errors, entries[:, 2]])
    return Run(made, last, stop, history)


LOOPS: dict[str, Loop] = {"cpu": run_until, "gpu": run_through}
"""The faster loop on each kind of device."""


def _due(iteration: int | jax.Array, track_every: int) -> bool | jax.Array:
    return (iteration % track_every == 0) | (iteration <= FIRST)


def _judged(
    step: Step, state: Any, last: Iterate, tests: Tests
) -> tuple[Iterate, jax.Array, jax.Array]:
    """The next iterate, the verdict that ends the run, and the verdict if it were not forced."""
    new = step(state, last)
    solved = new.residual == 0
    broken = ~jnp.isfinite(new.residual + new.normal + new.reach)
    compatible = new.residual <= tests.btol * tests.norm_b + tests.atol * new.reach
    optimal = new.normal <= tests.atol * new.norm_A * new.residual
    verdict = _verdict(compatible | solved, optimal | new.exhausted, broken)
    stop = jnp.where(tests.forced, _verdict(solved, new.exhausted, broken), verdict)
    return new._replace(x=jnp.where(broken, last.x, new.x)), stop, verdict


def _verdict(residual: jax.Array, optimum: jax.Array, broken: jax.Array) -> jax.Array:
    return jnp.where(broken, 3, jnp.where(residual, 1, jnp.where(optimum, 2, 0)))
