"""Additive Schwarz preconditioned CG on the normal equations (Shang, Heinlein, Mishra, Wang 2025).

    A_AS^-1 = sum_j W_j^T A_j^+ W_j,   A = M^T M,   A_j = W_j A W_j^T

The paper prints W_j as the columns of subdomain j; its experiments took the columns of every
subdomain that overlaps j. Both are here, as `diagonal` and `neighbourhood`. The pseudo-inverses are
summed into one block-sparse matrix, which couples second neighbours and is several times smaller,
and cheaper to apply, than the inverses one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, get_args

import jax
import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.iterative.gramian import (
    Index,
    Pattern,
    SymmetricBlocks,
    block_bytes,
    gramian_blocks,
    pattern,
    second_neighbours,
)
from tessella.linalg.iterative.iteration import (
    SMALLEST_TOLERANCE,
    Lifted,
    Monitor,
    Progress,
    SolverResult,
    checked,
)
from tessella.linalg.iterative.normal_equations import NormalEquations, OnNormalEquations
from tessella.machine.arrays import Array
from tessella.machine.memory import gib, require
from tessella.machine.threads import CORES, chunks, in_parallel

Blocks = Literal["neighbourhood", "diagonal"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["A", "gramian", "preconditioner", "directions"],
    meta_fields=[],
)
@dataclass(frozen=True)
class SchwarzSystem(NormalEquations):
    """The normal equations with A_AS^-1; `directions` lead back from PCA's unknowns to x."""

    directions: BlockMatrix | None = None


@dataclass(frozen=True, repr=False)
class SchwarzCG(OnNormalEquations):
    """CG on M^T M with the additive Schwarz preconditioner (a baseline of the paper).

    It needs far fewer iterations than CG, but works with the Gramian, whose small eigenvalues drown
    in rounding: after its best iterate the error grows again, by decades. A forced run
    (atol = btol = 0) goes on and shows that in its history; by default the run ends when the
    residual stagnates. Prefer LSQR on the RRQR-filtered system, which is more accurate and smaller.

    blocks    "neighbourhood" (as the paper ran it): A_j is the Gramian of all columns of the blocks
              that share a row with block j. "diagonal" (as printed): of block j's columns alone;
              cheap, but more iterations.
    pca       None, as the paper ran it, keeps all columns. A number replaces every block's columns
              by its principal directions with singular values above `pca` times the largest, as
              Shang et al. do. Their squares enter the Gramian, so 1e-6 to 1e-7 is of use.
    cutoff    eigenvalues of A_j below `cutoff` times the largest count as zero in its
              pseudo-inverse. 1e-13 is above the Gramian's rounding, so that dependent columns are
              recognised. 1e-15, NumPy's default, inverts rounding too; it reproduces the paper's
              errors, condition numbers and early instability.
    gramian   True, as the paper ran it, multiplies with the Gramian, which is there anyway; False
              with M and M^T, which postpones the instability.
    streamed  False makes all inverses, then adds them up, and is refused where they do not fit
              together (the paper's authors ran out of 50 GB there). True adds each as it is made:
              a tenth of the memory, but no less work, which is long where False is refused.

    Other options as for LSQR; |A^T r| and |A| in the stopping rule are those of the preconditioned
    system. With dependent columns the solution is one of smallest residual, not of smallest norm.

    >>> import tessella as ts
    >>> ts.SchwarzCG(blocks="diagonal", max_iterations=200)
    SchwarzCG(max_iterations=200, blocks='diagonal')
    """

    blocks: Blocks = "neighbourhood"
    pca: float | None = None
    cutoff: float = 1e-13
    gramian: bool = True
    streamed: bool = False

    name: ClassVar[str] = "as-cg"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks not in get_args(Blocks):
            raise ValueError(
                f"blocks must be one of {', '.join(map(repr, get_args(Blocks)))}, "
                f"got {self.blocks!r}"
            )
        if self.pca is not None and not 0 < self.pca < 1:
            raise ValueError(
                f"pca must be None or lie in (0, 1), got {self.pca!r}: it is a threshold relative "
                f"to the largest singular value of a block, such as 1e-6"
            )
        if not SMALLEST_TOLERANCE <= self.cutoff < 1:
            raise ValueError(
                f"cutoff must lie in [{SMALLEST_TOLERANCE:g}, 1), got {self.cutoff!r}: it is a "
                f"threshold relative to the largest eigenvalue, such as 1e-13"
            )

    @property
    def shares(self) -> bool:
        return False

    def check(self, orders: Index) -> None:
        """Refuse local inverses of these orders that would not fit; what else is needed, `init`
        knows from the matrix."""
        if self.blocks == "neighbourhood" and self.pca is None and not self.streamed:
            _refuse(8 * int(np.sum(orders.astype(np.int64) ** 2)), len(orders), self.blocks)

    def init(self, A: BlockMatrix, progress: Progress | None = None) -> SchwarzSystem:
        """The Gramian, the local inverses and their sum; refused if they would not fit."""
        checked(A, self.sizes)
        directions = None
        if self.pca is not None:
            A, directions = principal_directions(A, self.pca)
        G, inverse = schwarz_inverse(A, self.blocks, self.cutoff, self.streamed, progress)
        return SchwarzSystem(A, G if self.gramian else None, inverse, directions)

    def _solve(
        self, state: NormalEquations, b: Array, monitor: Monitor | None, progress: Progress | None
    ) -> SolverResult:
        V = state.directions if isinstance(state, SchwarzSystem) else None
        if V is None:
            return super()._solve(state, b, monitor, progress)
        lift = jax.tree_util.Partial(BlockMatrix.matvec, V)
        lifted = None if monitor is None else Lifted(monitor, lift)
        result = super()._solve(state, b, lifted, progress)
        return dataclasses.replace(result, x=V.matvec(result.x))


def schwarz_bytes(A: BlockMatrix, blocks: Blocks = "neighbourhood", streamed: bool = False) -> int:
    """Most memory that A_AS^-1 takes while it is made, from the pattern of A alone.

    The dense inverses (all of them, or one per core if streamed), the Gramian's blocks and the sum,
    each twice while they are packed, and four matrices of the largest order per core at work.
    """
    return _bytes(pattern(A), blocks, streamed)


def _bytes(p: Pattern, blocks: Blocks, streamed: bool) -> int:
    hoods, coupled = _neighbourhoods(p, blocks)
    widths = p.widths
    orders = np.array([int(widths[hood].sum()) for hood in hoods], dtype=np.int64)
    largest = int(orders.max(initial=0)) ** 2
    inverses = CORES * largest if streamed else int((orders**2).sum())
    made = 2 * (block_bytes(p, p.neighbours) + block_bytes(p, coupled))
    return made + 8 * (inverses + 4 * CORES * largest)


def _neighbourhoods(p: Pattern, blocks: Blocks) -> tuple[list[Index], list[Index]]:
    """The blocks behind every A_j, and those that the sum of the inverses couples to block j."""
    if blocks == "diagonal":
        alone = [np.array([j]) for j in range(len(p.columns))]
        return alone, alone
    return p.neighbours, second_neighbours(p)


def schwarz_inverse(
    A: BlockMatrix,
    blocks: Blocks = "neighbourhood",
    cutoff: float = 1e-13,
    streamed: bool = False,
    progress: Progress | None = None,
) -> tuple[BlockMatrix, BlockMatrix]:
    """A = M^T M and A_AS^-1 = sum_j W_j^T A_j^+ W_j, symmetric block matrices."""
    p = pattern(A)
    hoods, coupled = _neighbourhoods(p, blocks)
    slow = "" if streamed else f" ({gib(_bytes(p, blocks, True))}, slow to set up)"
    _refuse(_bytes(p, blocks, streamed), len(hoods), blocks, slow)
    G, total = gramian_blocks(A, p), SymmetricBlocks(p, coupled)
    reach = p.reach(hoods)

    def inverses(which: Sequence[int]) -> list[Array]:
        return [pseudo_inverse(_restricted(G, hoods[j], reach[j]), cutoff) for j in which]

    for part in _parts(len(hoods), streamed):
        made: list[Array] = []
        for batch in _batches(part):
            pieces = [batch[piece.start : piece.stop] for piece in chunks(len(batch))]
            made += [one for piece in in_parallel(inverses, pieces) for one in piece]
            if progress:
                progress(batch.stop, len(hoods), 1.0)
        for j, inverse in zip(part, made, strict=True):
            _add(total, hoods[j], reach[j], inverse)
    return G.freeze(), total.freeze()


def _refuse(needed: int, count: int, blocks: Blocks, slow: str = " (slow to set up)") -> None:
    less = f", or streamed=True{slow}" if slow else ""
    require(
        needed,
        f"additive Schwarz with {count:,} local inverses (blocks={blocks!r})",
        f"use fewer features or a smaller overlap, blocks='diagonal', or LSQR with RRQR{less}",
    )


def _parts(count: int, streamed: bool) -> Iterator[range]:
    """The inverses that are held at one time."""
    step = CORES if streamed else max(count, 1)
    for start in range(0, count, step):
        yield range(start, min(start + step, count))


def _batches(part: range) -> list[range]:
    """Some sixteen pieces, between which progress is shown; none too small for all cores."""
    step = max(8 * CORES, -(-len(part) // 16))
    return [part[start : start + step] for start in range(0, len(part), step)]


def pseudo_inverse(A_j: Array, cutoff: float) -> Array:
    """A_j^+ of a positive semidefinite matrix, symmetric to the last bit.

    Eigenvalues below cutoff times the largest, and negative ones, are rounding and count as zero;
    rows and columns of zeros stay exactly zero. Where Cholesky's factor shows that no eigenvalue
    is so small, the inverse comes from it, ten times faster than from the eigenvectors.
    """
    alive = np.flatnonzero(np.diag(A_j))
    inner = A_j[np.ix_(alive, alive)]
    inverse = _inverse_if_definite(inner, cutoff)
    if inverse is None:
        values, vectors = scipy.linalg.eigh(inner, check_finite=False)
        kept = values > cutoff * values.max(initial=0.0)
        half = vectors[:, kept] / np.sqrt(values[kept])
        inverse = half @ half.T
    out = np.zeros_like(A_j)
    out[np.ix_(alive, alive)] = inverse
    return out


def _inverse_if_definite(A_j: Array, cutoff: float) -> Array | None:
    """The inverse, if the condition number estimated in the 1-norm is ten times below 1/cutoff."""
    if not len(A_j):
        return None
    R, info = lapack.dpotrf(A_j)
    if info:
        return None
    reciprocal, _ = lapack.dpocon(R, np.abs(A_j).sum(axis=0).max())
    if reciprocal < 10 * cutoff:
        return None
    upper, _ = lapack.dpotri(R)
    upper = np.triu(upper)
    return upper + np.triu(upper, 1).T


def _restricted(G: SymmetricBlocks, hood: Index, reach: Index) -> Array:
    """W_j G W_j^T for the columns `reach` that the blocks of `hood` own."""
    A_j = np.zeros((len(reach), len(reach)))
    for k in hood.tolist():
        own = np.searchsorted(reach, G.pattern.columns[k])
        at = np.minimum(np.searchsorted(reach, G.reach[k]), len(reach) - 1)
        inside = reach[at] == G.reach[k]
        A_j[own[:, None], at[inside]] = G.columns[k][:, inside]
    return A_j


def _add(total: SymmetricBlocks, hood: Index, reach: Index, inverse: Array) -> None:
    """total += W_j^T inverse W_j."""
    for k in hood.tolist():
        own = np.searchsorted(reach, total.pattern.columns[k])
        total.columns[k][:, np.searchsorted(total.reach[k], reach)] += inverse[own]


def principal_directions(A: BlockMatrix, threshold: float) -> tuple[BlockMatrix, BlockMatrix]:
    """(A V, V): every block in the directions V_j of its singular values above the threshold.

    Unknowns and columns share one numbering: a block that keeps r directions keeps its first r
    columns' numbers, and the others belong to no block any more.
    """
    reduced, directions = [], []
    for block in A.blocks():
        U, s, Vt = np.linalg.svd(block.values, full_matrices=False)
        r = int(np.count_nonzero(s > threshold * s.max(initial=0.0)))
        columns = block.columns[:r]
        reduced.append(Block(U[:, :r] * s[:r], block.rows, columns))
        directions.append(Block(Vt[:r].T, block.columns, columns))
    n = A.shape[1]
    return from_blocks(reduced, A.shape), from_blocks(directions, (n, n))
