"""The loops that iterative solvers run in, compiled by XLA.

`run_until` is a while loop: it ends with the iteration at which a stopping test holds. On a GPU the
host would have to read that test back after every iteration, which takes as long as the iteration,
so `run_through` makes a fixed number of iterations there, and those after the end change nothing.
Both make the same iterates and histories; on a CPU, where an idle iteration costs a whole one and
the test nothing, the while loop is the faster. `run_on_host` is not compiled, for steps that use
LAPACK, or talk to other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tessella.machine.arrays import Array, namespace
from tessella.machine.compiled import compiled

CHUNK = 100
"""Iterations between two looks at the history."""

FIRST = 10
"""The error is measured after each of so many first iterations, then every `track_every`."""

UNROLLED = 5
"""Iterations of the fixed loop between two looks at its counter."""


INTERRUPTED = 4
"""The verdict on what somebody ended."""

PROGRAMS = 8
"""Systems of different shape or pattern whose programs are kept at a time."""

State = TypeVar("State")
Inner = TypeVar("Inner")
Tree = TypeVar("Tree")


class Iterate(NamedTuple, Generic[Inner]):
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
    inner: Inner


class Monitor(Protocol):
    """Measures the true error of the unknowns; a pytree, so that it can enter a jitted loop."""

    def __call__(self, y: jax.Array) -> jax.Array: ...


class Tests(NamedTuple):
    """The stopping tests; with `forced` they are only noted, unless nothing is left to do."""

    norm_b: float
    atol: float
    btol: float
    forced: bool


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["state", "monitor", "tests", "track_every"],
    meta_fields=["step"],
)
@dataclass(frozen=True)
class Recurrence(Generic[State, Inner]):
    """What a loop repeats: a method's step, for its state, until a test holds.

    With a monitor the error is measured in the first iterations and every `track_every`.
    """

    step: Callable[[State, Iterate[Inner]], Iterate[Inner]]
    state: State
    monitor: Monitor | None
    tests: Tests
    track_every: int

    def due(self, iteration: int | jax.Array) -> bool | jax.Array:
        """Whether the error is measured after this iteration."""
        return (iteration % self.track_every == 0) | (iteration <= FIRST)

    def judged(self, last: Iterate[Inner]) -> tuple[Iterate[Inner], jax.Array, jax.Array]:
        """The next iterate, the verdict that ends the run, and the verdict if it is not forced."""
        new, tests = self.step(self.state, last), self.tests
        solved = new.residual == 0
        xp = namespace(new.residual)
        broken = ~xp.isfinite(new.residual + new.normal + new.reach)
        compatible = new.residual <= tests.btol * tests.norm_b + tests.atol * new.reach
        optimal = new.normal <= tests.atol * new.norm_A * new.residual
        verdict = _verdict(compatible | solved, optimal | new.exhausted, broken)
        stop = xp.where(tests.forced, _verdict(solved, new.exhausted, broken), verdict)
        return new._replace(x=xp.where(broken, last.x, new.x)), stop, verdict


def _verdict(residual: jax.Array, optimum: jax.Array, broken: jax.Array) -> jax.Array:
    xp = namespace(residual)
    return xp.where(broken, 3, xp.where(residual, 1, xp.where(optimum, 2, 0)))


class Run(NamedTuple, Generic[Inner]):
    """The last of some iterations, the verdict that ended them (0: none), and their history.

    Verdicts: 1 the residual is small, 2 a least-squares optimum, 3 not a finite number, 4
    interrupted.
    The history's rows are |r|, |A^T r|, the error (NaN where not measured), the verdict.
    """

    last: Iterate[Inner]
    stop: int
    history: Array

    @property
    def made(self) -> int:
        """How many iterations."""
        return self.history.shape[1]


class Loop(Protocol):
    """Makes the iterations done + 1 .. upto, unless a test holds before."""

    def __call__(
        self, recurrence: Recurrence[State, Inner], start: Iterate[Inner], done: int, upto: int
    ) -> Run[Inner]: ...


class Made(NamedTuple, Generic[Inner]):
    """A run inside XLA: the history has room for more than the iterations `made`."""

    made: jax.Array
    last: Iterate[Inner]
    stop: jax.Array
    history: jax.Array

    def fetched(self) -> Run[Inner]:
        made, stop, history = jax.device_get((self.made, self.stop, self.history))
        return Run(self.last, int(stop), history[:, : int(made)])


def run_until(
    recurrence: Recurrence[State, Inner], start: Iterate[Inner], done: int, upto: int
) -> Run[Inner]:
    """A while loop that ends where a test holds; at most CHUNK iterations."""
    made: Made[Inner] = _until(recurrence, start, done, upto)
    return made.fetched()


def until(
    recurrence: Recurrence[State, Inner], start: Iterate[Inner], done: int, upto: int
) -> Made[Inner]:
    """The same inside XLA."""
    monitor = recurrence.monitor

    def go_on(run: Made[Inner]) -> jax.Array:
        return (done + run.made < upto) & (run.stop == 0)

    def one(run: Made[Inner]) -> Made[Inner]:
        new, stop, verdict = recurrence.judged(run.last)
        error = jnp.array(jnp.nan)
        if monitor is not None:
            due = recurrence.due(done + run.made + 1)
            error = jax.lax.cond(due, lambda x: monitor(x), lambda _: jnp.array(jnp.nan), new.x)
        entry = jnp.stack([new.residual, new.normal, error, verdict.astype(float)])
        return Made(run.made + 1, new, stop, run.history.at[:, run.made].set(entry))

    zero = jnp.zeros((), dtype=jnp.int64)
    return jax.lax.while_loop(go_on, one, Made(zero, start, zero, jnp.full((4, CHUNK), jnp.nan)))


_until = compiled(PROGRAMS)(until)


def run_through(
    recurrence: Recurrence[State, Inner], start: Iterate[Inner], done: int, upto: int
) -> Run[Inner]:
    """Loops of fixed length, idle once a test holds or `upto` is reached.

    An error to measure in the midst of one would take a branch, which again the host would decide;
    so with a monitor each ends where an error is due.
    """
    monitored, every = recurrence.monitor is not None, recurrence.track_every
    length = min(CHUNK, every) if monitored else CHUNK
    at, run, pieces = done, Run(start, 0, np.zeros((4, 0))), []
    while at < upto and not run.stop:
        to = min(at + length, upto)
        if monitored:
            to = at + 1 if at < FIRST else min(to, (at // every + 1) * every)
        made: Made[Inner] = _fixed(length, recurrence, run.last, at, to)
        run = made.fetched()
        at += run.made
        pieces.append(run.history)
    return run._replace(history=np.concatenate(pieces, axis=1))


def run_on_host(
    recurrence: Recurrence[State, Inner], start: Iterate[Inner], done: int, upto: int
) -> Run[Inner]:
    """A Python loop, for steps with work outside XLA: each takes long enough not to mind. What is
    interrupted keeps the iterations made so far."""
    last, stop, monitor = start, 0, recurrence.monitor
    entries: list[list[float]] = []
    try:
        while done + len(entries) < upto and not stop:
            new, ended, verdict = recurrence.judged(last)
            error = np.nan
            if monitor is not None and recurrence.due(done + len(entries) + 1):
                error = float(monitor(new.x))
            entry = [float(new.residual), float(new.normal), error, float(verdict)]
            last, stop = new, int(ended)
            entries.append(entry)
    except KeyboardInterrupt:
        stop = INTERRUPTED
    return Run(last, stop, np.array(entries).reshape(-1, 4).T)


Packed = tuple[list[jax.Array], jax.Array]
"""The arrays of a loop's state, and all its numbers in one vector."""


class _Packing(Generic[Tree]):
    """A state's numbers as one vector of doubles, so that one kernel writes them all."""

    def __init__(self, like: Tree) -> None:
        leaves, self.structure = jax.tree.flatten(like)
        self.types = [(leaf.ndim == 0, leaf.dtype) for leaf in leaves]

    def pack(self, state: Tree) -> Packed:
        leaves = jax.tree.leaves(state)
        numbers = [leaf.astype(float) for leaf in leaves if leaf.ndim == 0]
        return [leaf for leaf in leaves if leaf.ndim], jnp.stack(numbers)

    def unpack(self, packed: Packed) -> Tree:
        arrays, numbers = iter(packed[0]), iter(packed[1])
        leaves = [
            next(numbers).astype(dtype) if single else next(arrays) for single, dtype in self.types
        ]
        return jax.tree.unflatten(self.structure, leaves)


@compiled(PROGRAMS, static=(0,))
def _fixed(
    length: int,
    recurrence: Recurrence[State, Inner],
    start: Iterate[Inner],
    done: int,
    upto: int,
) -> Made[Inner]:
    zero = jnp.zeros((), dtype=jnp.int64)
    packing = _Packing((zero, start, zero))

    def one(packed: Packed, _: None) -> tuple[Packed, jax.Array]:
        made, last, stopped = packing.unpack(packed)
        new, stop, verdict = recurrence.judged(last)
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
    if recurrence.monitor is not None:
        error = jnp.where(recurrence.due(done + made), recurrence.monitor(last.x), jnp.nan)
        errors = errors.at[made - 1].set(error)
    history = jnp.stack([entries[:, 0], entries[:, 1], errors, entries[:, 2]])
    return Made(made, last, stop, history)
