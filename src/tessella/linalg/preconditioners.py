"""Right preconditioners: linear maps from the solver's unknowns y to the coefficients a."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg.lapack import dtrtrs

from tessella.machine.arrays import AnyArray, on_device
from tessella.machine.device import on_host
from tessella.machine.printing import counted


class TriangularGroup(NamedTuple):
    """Triangular factors of equally padded blocks; the padding is the identity."""

    R: jax.Array
    columns: jax.Array
    filled: jax.Array


@partial(jax.tree_util.register_dataclass, data_fields=["groups"], meta_fields=["size"])
@dataclass(frozen=True, repr=False)
class TriangularBlocks:
    """S^-1 = sum_j W_j^T R_j^-1 W_j of the paper, applied by back-substitution and never formed.

    Unknowns and coefficients share one numbering, that of all features: what the filter dropped
    stays zero in both. So the shapes, and what is compiled for them, do not depend on the filter.
    """

    groups: tuple[TriangularGroup, ...]
    size: int

    def __repr__(self) -> str:
        count = sum(len(g.R) for g in self.groups)
        return f"TriangularBlocks of {self.size:,} unknowns, {counted(count, 'block')}"

    def apply(self, y: AnyArray) -> jax.Array:
        """a = S^-1 y."""
        return self._solve(y, transpose=False)

    def adjoint(self, a: jax.Array) -> jax.Array:
        """S^-T a."""
        return self._solve(a, transpose=True)

    def _solve(self, x: AnyArray, transpose: bool) -> jax.Array:
        if not on_host(x, *(g.R for g in self.groups)):
            return self._compiled_solve(x, transpose)
        out, own = np.zeros(self.size), np.asarray(x)
        for g in self.groups:
            R, columns, filled = (np.asarray(part) for part in g)
            for factor, places, used in zip(R, columns, filled, strict=True):
                k = int(np.count_nonzero(used))
                if not k:
                    continue
                # LAPACK reads by columns, so a whole R^T is what it takes without a copy.
                solved, singular = dtrtrs(
                    factor[:k, :k].T, own[places[:k]], lower=1, trans=int(not transpose)
                )
                if singular:
                    raise FloatingPointError(
                        f"a triangular factor has a zero in row {singular}: raise sigma"
                    )
                out[places[:k]] += solved
        return on_device(out)

    @partial(jax.jit, static_argnames="transpose")
    def _compiled_solve(self, x: jax.Array, transpose: bool) -> jax.Array:
        out = jnp.zeros(self.size)
        for g in self.groups:
            local = jnp.where(g.filled, x[g.columns], 0.0)
            solved = _substitute(g.R, local, transpose)
            out = out.at[g.columns].add(jnp.where(g.filled, solved, 0.0))
        return out


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=[])
@dataclass(frozen=True)
class Unpreconditioned:
    """The identity: the solver's unknowns are the coefficients."""

    def apply(self, y: AnyArray) -> AnyArray:
        return y

    def adjoint(self, a: jax.Array) -> jax.Array:
        return a


Preconditioner = TriangularBlocks | Unpreconditioned


def _substitute(R: jax.Array, y: jax.Array, transpose: bool) -> jax.Array:
    """R_b^-1 y_b (or R_b^-T y_b) for every block b, column by column over all blocks at once.

    jaxlib's own batched triangular solve deadlocks on the CPU when two of them run side by side
    (both hold a pool thread and wait for the pool), which is what several groups make XLA do.
    """
    C = R.shape[1]

    def step(k: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, rest = carry
        i = k if transpose else C - 1 - k
        x_i = rest[:, i] / R[:, i, i]
        column = R[:, i, :] if transpose else R[:, :, i]
        return x.at[:, i].set(x_i), rest - column * x_i[:, None]

    return jax.lax.fori_loop(0, C, step, (jnp.zeros_like(y), y))[0]
