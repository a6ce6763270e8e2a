"""The error of an iteration while it runs, where the exact solution is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.preconditioners import Preconditioner
from tessella.machine import processes
from tessella.machine.arrays import Array, on_device
from tessella.machine.memory import require
from tessella.overlap.basis import AnyBasis
from tessella.overlap.matrices import evaluate_all
from tessella.overlap.shares import Share
from tessella.problem.problem import Problem
from tessella.solution.solution import pairs_per_point


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["E", "preconditioner", "target", "spread"],
    meta_fields=["shared"],
)
@dataclass(frozen=True)
class ErrorMonitor:
    """Normalised L1 error of u = E S^-1 y + e for unknowns y, inside a jitted iteration; of a
    system, that of its worst field. `target` has a line for each, `spread` a number."""

    E: BlockMatrix
    preconditioner: Preconditioner
    target: jax.Array
    spread: jax.Array
    shared: bool = False

    def __call__(self, y: jax.Array) -> jax.Array:
        u = self.E.matvec(self.preconditioner.apply(y)).reshape(self.target.shape)
        if self.shared:
            u = on_device(processes.total("error", np.asarray(u)))
        return jnp.max(jnp.mean(jnp.abs(u - self.target), axis=1) / self.spread)


def error_monitor(
    problem: Problem,
    basis: AnyBasis,
    preconditioner: Preconditioner,
    points: Array | None,
    share: Share | None = None,
) -> ErrorMonitor | None:
    """The monitor at these test points, or None if there are none; with a `share`, of unknowns of
    which this process has a part."""
    if points is None:
        return None
    width = max(level.width for level in basis.levels)
    require(
        2 * 8 * len(points) * pairs_per_point(basis) * width,
        f"watching the error of an iteration at {len(points):,} points",
        "use a coarser test_grid, or a direct solver",
    )
    exact = problem.exact_values(points).reshape(len(points), -1).T
    E, e = evaluate_all(problem, basis, points, share)
    spread = np.std(exact, axis=1)
    target, spread = on_device(exact - e), on_device(np.where(spread > 0, spread, 1.0))
    return ErrorMonitor(E, preconditioner, target, spread, share is not None)
