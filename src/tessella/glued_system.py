"""Local systems side by side, and their reduction to a system for the traces alone."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np

from tessella import device_traces, host_traces
from tessella.assembly import Reduced
from tessella.device_traces import DeviceTraces
from tessella.domain import Array
from tessella.host_traces import HostTraces
from tessella.linalg.block_kernels import same_numbers
from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.iteration import Progress
from tessella.linalg.preconditioners import Unpreconditioned
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.local_systems import LocalSystems


@dataclass(frozen=True)
class GluedSystem(LocalSystems):
    """All local systems, to be reduced to the traces and judged by their residuals."""

    def has_matrix_of(self, other: GluedSystem) -> bool:
        """Whether only right-hand sides differ: the same equal subdomains with the same blocks."""
        return (
            len(self.kinds) == len(other.kinds)
            and all(a.has_rows_of(b) for a, b in zip(self.kinds, other.kinds, strict=True))
            and same_numbers(self.values, other.values)
        )

    def with_matrix_of(self, other: GluedSystem) -> GluedSystem:
        """This system holding on to the other's blocks, so that its own are freed."""
        return dataclasses.replace(self, kinds=other.kinds, values=other.values)

    def reduce(
        self, rule: RRQR | Unfiltered, progress: Progress | None = None, keep: bool = False
    ) -> Traces:
        """Filter and eliminate every subdomain's features; distinct subdomains once.

        `keep` holds on to what `Traces.renewed` needs.
        """
        if not isinstance(rule, RRQR) or rule.patch > 1:
            raise ValueError(
                f"coupling='interfaces' eliminates every subdomain's features through its own "
                f"filter, got {rule!r}: use RRQR(sigma), with sigma=0 to keep all features, and a "
                f"solver whose name is nested-qr, auto or begins with rrqr-"
            )
        made: HostTraces | DeviceTraces
        if isinstance(self.values, jax.Array) and not rule.strong:
            made = device_traces.eliminate(self, self.values, rule, progress, keep)
        else:
            made = host_traces.eliminate(self, np.asarray(self.values), rule, progress, keep)
        return Traces(made.matrix(), made.right_side(), made.kept, Unpreconditioned(), made)

    def residuals(self, a: Array) -> dict[str, float]:
        """Root mean square residual of each equation and condition, in its units."""
        local = a[self.columns]
        if isinstance(self.values, jax.Array):
            r = device_traces.residuals(self, self.values, local)
        else:
            r = host_traces.residuals(self, self.values, local)
        pointwise = {
            name: math.sqrt(
                sum(float(np.sum(r[m, rows] ** 2 / weight[:, None])) for m, rows, weight in places)
            )
            for name, places in self.places.items()
        }
        return pointwise | {
            total.name: abs(float(r[:, total.rows.start].sum()) / total.scale - total.value)
            for total in self.sums
        }

    @cached_property
    def M(self) -> BlockMatrix:
        """The whole system, features and traces, before any elimination."""
        J, C = self.columns.shape
        own: list[Array] = [np.zeros((0, C))] * J
        for kind, V in zip(self.kinds, np.asarray(self.values), strict=True):
            ordered = np.concatenate([kind.free, kind.coupled])
            for j in kind.members.tolist():
                own[j] = V[:, ordered].T
        first = np.concatenate([[0], np.cumsum([len(block) for block in own])])
        touched: list[list[np.ndarray]] = [[] for _ in self.positions]
        minus: list[list[Array]] = [[] for _ in self.positions]
        for kind in self.kinds:
            for j, face, rows, ratios in self.attached(kind):
                start = first[j] + len(kind.free)
                touched[face].append(np.arange(start + rows.start, start + rows.stop))
                minus[face].append(np.diag(np.full(rows.stop - rows.start, -1.0) * ratios))
        blocks = [
            Block(block, first[j] + np.arange(len(block)), self.columns[j])
            for j, block in enumerate(own)
        ]
        entries, right = self.sum_rows()
        added: list[list[tuple[int, float]]] = [[] for _ in self.positions]
        for face, row, coefficient in entries:
            added[face].append((row, coefficient))
        for face, sides in enumerate(touched):
            columns = J * C + self.numbers(face)
            own_sums = np.array([[c] for _, c in added[face]]).reshape(-1, len(columns))
            at = first[-1] + np.array([row for row, _ in added[face]], dtype=np.int64)
            values = np.concatenate([*minus[face], own_sums])
            blocks.append(Block(values, np.concatenate([*sides, at]), columns))
        places = np.concatenate([self.basis.decomposition.positions, self.positions])
        shape = (int(first[-1]) + len(right), J * C + self.traces)
        return from_blocks(blocks, shape, places)


@dataclass(frozen=True)
class Traces(Reduced):
    """The system for the traces alone, and the way back to the features."""

    eliminated: HostTraces | DeviceTraces

    def coefficients(self, y: Array) -> Array:
        return self.eliminated.features(np.asarray(self.preconditioner.apply(y)))

    def renewed(self, system: GluedSystem) -> Traces:  # type: ignore[override]
        """The right-hand side of another system with the same matrix, without factoring again."""
        eliminated = self.eliminated.renewed(system)
        return dataclasses.replace(self, h=eliminated.right_side(), eliminated=eliminated)

    def preconditioned(self) -> Traces:
        """The same with every face's block made orthonormal, for iterative solvers."""
        filtered = RRQR(0.0).apply(self.Q)
        return Traces(filtered.Q, self.h, self.kept, filtered.preconditioner, self.eliminated)
