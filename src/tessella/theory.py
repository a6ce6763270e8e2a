"""The paper's theory as diagnostics: coupling, condition bounds, random-matrix estimates.

After the filter every block Q_j has orthonormal columns, so Q^T Q = I + E, where E holds only the
couplings A_ij = Q_i^T Q_j of blocks that share rows. Whatever bounds |E|_2 by some `spread` < 1
bounds the condition number: kappa(Q) <= sqrt((1 + spread) / (1 - spread)). The bounds below differ
only in their spread. They are statements about one matrix and hold for it.

The estimates of the paper's appendix (`HaarModel`) are statements about independent random frames.
Neighbouring random features are not that: they approximate the same functions, and where a
differential operator meets a narrow overlap, the derivatives of the two windows, which sum to one,
cancel and make the columns nearly antiparallel. Couplings of real systems can be far above the
model's, and shrinking the overlap can raise them; the paper's "smaller overlap, better conditioned"
holds in the model and for operators of order zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from numbers import Integral
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from tessella.domain import Array
from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.memory import require

Pair = tuple[int, int]

ORTHONORMAL = 1e-10
"""How far Q_j^T Q_j may be from the identity: rounding, not modelling."""

ROUNDING = 1e-14
"""Couplings up to this are none: windows that end on the same point touch by rounding."""


@dataclass(frozen=True)
class Bound:
    """An upper bound sqrt((1 + spread) / (1 - spread)) of kappa; infinite where it is not valid."""

    value: float
    valid: bool
    spread: float
    statement: str

    @staticmethod
    def from_spread(spread: float, statement: str) -> Bound:
        """The eigenvalues of Q^T Q lie in [1 - spread, 1 + spread]; useful if spread < 1."""
        valid = spread < 1
        value = math.sqrt((1 + spread) / (1 - spread)) if valid else math.inf
        return Bound(value, valid, spread, statement)


@dataclass(frozen=True)
class Coupling:
    """A_ij = Q_i^T Q_j for every pair i < j of blocks with rows in common.

    Blocks are numbered by their first column, those without columns left out. `shared` counts the
    common rows of a pair, `heights` the rows of every block.
    """

    blocks: dict[Pair, Array]
    shared: dict[Pair, int]
    heights: tuple[int, ...]

    @cached_property
    def norms(self) -> Array:
        """|A_ij|_2 as a symmetric (J, J) matrix: the cosine of the smallest angle of the ranges."""
        J = len(self.heights)
        require(3 * 8 * J * J, f"the couplings of {J:,} blocks", "ask for it on a smaller problem")
        norms = np.zeros((J, J))
        for (i, j), A in self.blocks.items():
            norms[i, j] = norms[j, i] = np.linalg.norm(A, 2)
        return norms

    @property
    def alpha(self) -> float:
        """max |A_ij|_2, the strength of the coupling (Theorem 3.2); 0 without any, never above 1.

        Dropping columns of a block only drops rows or columns of A_ij, so with column-pivoted QR a
        larger sigma never raises alpha, as the paper says after the theorem.
        """
        return float(self.norms.max(initial=0.0))

    @cached_property
    def is_strip(self) -> bool:
        """Whether the blocks form chains, each coupled to the one before and the one after only.

        Then Q^T Q is block tridiagonal in some order of the blocks. The paper's overlap of 2.9
        spacings is not a strip, as blocks j and j + 2 share rows; up to 2 is.
        """
        coupled = self.norms > ROUNDING
        edges = np.count_nonzero(coupled) // 2
        chains, _ = scipy.sparse.csgraph.connected_components(scipy.sparse.csr_array(coupled))
        return bool(coupled.sum(axis=1).max(initial=0) <= 2 and edges == len(coupled) - chains)

    def worst_model(self) -> HaarModel:
        """The `HaarModel` of the pair with the largest epsilon: its rows, columns, common rows."""
        if not self.blocks:
            raise ValueError("no two blocks share rows: there is no overlap to model")
        models = []
        for (i, j), A in self.blocks.items():
            n = min(self.heights[i], self.heights[j])
            models.append(HaarModel(n, min(n, max(A.shape)), self.shared[i, j]))
        return max(models, key=lambda model: model.epsilon)


def coupling(Q: BlockMatrix) -> Coupling:
    """All couplings of a block matrix with orthonormal blocks, e.g. `RRQR().apply(M).Q`.

    A_j = Q_j^T Q_{j+1} sums over the rows the two blocks share. The paper prints
    Q_{j+1,j}^T Q_{j,j}, which pairs two parts of the same block; with its own equation for Q the
    second factor must be Q_{j+1,j+1}, the part of the next block in the shared rows.
    """
    blocks = sorted((b for b in Q.blocks() if len(b.columns)), key=lambda b: int(b.columns.min()))
    columns = np.concatenate([b.columns for b in blocks] or [np.zeros(0, dtype=int)])
    if len(np.unique(columns)) < len(columns):
        raise ValueError("two blocks of Q share a column: the theory needs one block per column")
    for number, block in enumerate(blocks):
        V = block.values
        defect = float(np.max(np.abs(V.T @ V - np.eye(V.shape[1]))))
        if not defect <= ORTHONORMAL:
            raise ValueError(
                f"block {number} of Q does not have orthonormal columns (|Q^T Q - I| = "
                f"{defect:.2g}): pass the filtered factor, RRQR().apply(M).Q"
            )
    found, shared = {}, {}
    for i, j in _pairs([b.rows for b in blocks], Q.shape[0]):
        common, own, other = np.intersect1d(blocks[i].rows, blocks[j].rows, return_indices=True)
        found[i, j] = blocks[i].values[own].T @ blocks[j].values[other]
        shared[i, j] = len(common)
    return Coupling(found, shared, tuple(len(b.rows) for b in blocks))


def _pairs(rows: list[np.ndarray], n_rows: int) -> list[Pair]:
    """All i < j whose lists of rows meet."""
    if not rows:
        return []
    owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    touched = np.concatenate(rows)
    seen = scipy.sparse.csr_array((np.ones(len(owner)), (owner, touched)), (len(rows), n_rows))
    meeting = scipy.sparse.coo_array(scipy.sparse.triu(seen @ seen.T, k=1))
    return sorted(zip(meeting.row.tolist(), meeting.col.tolist(), strict=True))


def strip_bound(coupling: Coupling) -> Bound:
    """Theorem 3.2: kappa(Q) <= sqrt((1 + 2 alpha) / (1 - 2 alpha)) for a strip with 2 alpha < 1.

    The eigenvalues of E reach at most 2 alpha because a row of blocks has two couplings. The bound
    does not see the number of blocks, and without that no smaller constant than 2 will do.
    """
    if not coupling.is_strip:
        raise ValueError(
            "the blocks are not a strip: some block couples to more than its two neighbours, and "
            "Theorem 3.2 does not apply. Use gershgorin_bound, or an overlap of at most 2"
        )
    return Bound.from_spread(2 * coupling.alpha, "Theorem 3.2: spread = 2 alpha")


def gershgorin_bound(coupling: Coupling) -> Bound:
    """Theorem 3.2 for any overlap: the spread is the largest row sum of |A_ij|_2.

    Block Gershgorin. On a strip it is at most 2 alpha, so never worse than the theorem.
    """
    spread = float(coupling.norms.sum(axis=1).max(initial=0.0))
    return Bound.from_spread(spread, "block Gershgorin: spread = max_i sum_j |A_ij|")


def comparison_bound(coupling: Coupling) -> Bound:
    """The sharpest bound that only knows the norms: the spread is the norm of the matrix |A_ij|_2.

    |E x| <= |N| |x| with N_ij = |A_ij|_2, and |N| is at most its largest row sum. On a strip of J
    blocks |N| <= 2 alpha cos(pi / (J + 1)), so it is often valid where 2 alpha >= 1; for two blocks
    it is the exact formula.
    """
    norms = coupling.norms
    spread = float(np.linalg.eigvalsh(norms)[-1]) if norms.size else 0.0
    return Bound.from_spread(spread, "comparison matrix: spread = |N|, N_ij = |A_ij|")


def two_block_condition(A: ArrayLike) -> Bound:
    """Two blocks, exactly: kappa(Q) = sqrt((1 + |A|) / (1 - |A|)) (remark after Theorem 3.2).

    The eigenvalues of Q^T Q are 1 +- sigma_i(A), and also 1 where the blocks differ in width,
    which the paper leaves out and which changes nothing. Not valid means singular: |A| = 1.
    """
    matrix = np.atleast_2d(np.asarray(A, dtype=np.float64))
    if matrix.ndim != 2 or not matrix.size or not np.all(np.isfinite(matrix)):
        raise ValueError(f"A must be a matrix of finite numbers, got shape {matrix.shape}")
    norm = float(np.linalg.norm(matrix, 2))
    if norm > 1 + ORTHONORMAL:
        raise ValueError(f"A has norm {norm:.6g} > 1: it is no product of orthonormal blocks")
    return Bound.from_spread(norm, "two blocks, exact: spread = |A|")


def haar(n: int, k: int, seed: int | np.random.Generator, draws: int | None = None) -> Array:
    """Random semi-orthogonal (n, k) matrix, uniform on the orthonormal k-frames of R^n.

    The factor Q of a Gaussian matrix, with the signs that make R's diagonal positive; without them
    LAPACK's convention would show, and the distribution would not be invariant. k = n gives a
    random orthogonal matrix. `draws` independent ones come as (draws, n, k).
    """
    n, k = _whole(n, "n", 1), _whole(k, "k", 1)
    if k > n:
        raise ValueError(f"k={k} orthonormal columns do not fit into n={n} rows: use k <= n")
    count = 1 if draws is None else _whole(draws, "draws", 1)
    gaussian = np.random.default_rng(seed).standard_normal((count, n, k))
    Q, R = np.linalg.qr(gaussian)
    Q *= np.where(np.diagonal(R, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None, :]
    return Q[0] if draws is None else Q


class Regime(StrEnum):
    """Where the estimate of kappa stands; small is where its expansion is within a tenth of it."""

    SMALL = "small overlap"
    LARGE = "large overlap"
    NONE = "not applicable"


@dataclass(frozen=True)
class HaarModel:
    """The appendix's model: blocks are independent Haar frames, (n, K), neighbours share ell rows.

    P_1 and Q_1 below are the shared (ell, K) parts of two such frames, A = Q_1^T P_1 their
    coupling. Every property is an upper bound of the mean it names, in the model.
    """

    n: int
    K: int
    ell: int

    def __post_init__(self) -> None:
        n = _whole(self.n, "n", 1)
        if not (_whole(self.K, "K", 1) <= n and _whole(self.ell, "ell", 0) <= n):
            raise ValueError(
                f"K={self.K} columns and ell={self.ell} shared rows must fit into n={n} rows"
            )

    @property
    def frobenius(self) -> float:
        """E|A|_F <= K sqrt(ell) / n; E|A|_F^2 is exactly its square."""
        return self.K * math.sqrt(self.ell) / self.n

    @property
    def block_frobenius(self) -> float:
        """E|P_1|_F <= sqrt(K ell / n).

        The paper's remark prints an equality. Only E|P_1|_F^2 = K ell / n is one; the mean of the
        norm itself is smaller unless ell = n or K = n.
        """
        return math.sqrt(self.K * self.ell / self.n)

    @property
    def submultiplicative(self) -> float:
        """E|A|_F <= E|Q_1|_F E|P_1|_F <= K ell / n, weaker than `frobenius` by sqrt(ell)."""
        return self.K * self.ell / self.n

    @property
    def epsilon(self) -> float:
        """E|P_1|_2 <= epsilon = (1 + K/2n) (sqrt(K) + sqrt(ell)) / sqrt(n) (Tropp 2012).

        |P_1|_2 <= 1 always, so it says something only where epsilon < 1.
        """
        return (
            (1 + self.K / (2 * self.n))
            * (math.sqrt(self.K) + math.sqrt(self.ell))
            / (math.sqrt(self.n))
        )

    @property
    def spectral(self) -> float:
        """E|A|_2 <= epsilon^2, by E(|Q_1| |P_1|) = E|Q_1| E|P_1|: independence is needed too."""
        return self.epsilon**2

    @property
    def direct(self) -> float:
        """E|A|_2 <= (1 + K/2n) (epsilon sqrt(K/n) + sqrt(K ell)/n), always below epsilon^2.

        What the appendix's last remark leaves open: Tropp's comparison applied to X -> |Q_1^T X|_2
        with Q_1 fixed, Chevet's inequality E|B G| <= sqrt(K) |B|_2 + |B|_F, then the mean over Q_1.
        """
        gaussian = self.epsilon * math.sqrt(self.K / self.n) + math.sqrt(self.K * self.ell) / self.n
        return (1 + self.K / (2 * self.n)) * gaussian

    @property
    def kappa(self) -> Bound:
        """The appendix's estimate of E[kappa(Q)]: Theorem 3.2 with alpha = epsilon^2.

        Valid when 2 epsilon^2 < 1, where its denominator is positive. The paper writes 2 epsilon <
        1, which is sufficient but not needed, and contradicts its own limit epsilon^2 -> 1/2.

        An estimate and not a bound even in the model: alpha is a maximum over pairs, whose mean
        exceeds the mean of each; kappa's bound is convex in alpha, so the mean of the bound exceeds
        the bound of the mean; and A_j, A_{j+1} share Q_{j+1}, so they are not independent as the
        paper says. It succeeds because epsilon^2 is generous.
        """
        return Bound.from_spread(2 * self.spectral, "Haar estimate: spread = 2 epsilon^2")

    @property
    def kappa_small_overlap(self) -> float:
        """1 + 2 epsilon^2, the estimate of kappa up to O(epsilon^4), and always below it."""
        return 1 + 2 * self.spectral

    @property
    def regime(self) -> Regime:
        """The paper's regimes, with the line it does not draw: expansion within 10% of the estimate.

        Their quotient is sqrt(1 - (2 epsilon^2)^2). A large K leaves the small regime just as a
        large overlap does.
        """
        spread = 2 * self.spectral
        if spread >= 1:
            return Regime.NONE
        return Regime.SMALL if math.sqrt(1 - spread**2) >= 0.9 else Regime.LARGE


def haar_strip(blocks: int, model: HaarModel, seed: int | np.random.Generator) -> BlockMatrix:
    """A strip drawn from the model: the last ell rows of a block are the first of the next."""
    J, (n, K, ell) = _whole(blocks, "blocks", 1), (model.n, model.K, model.ell)
    if J > 2 and 2 * ell > n:
        raise ValueError(
            f"ell={ell} shared rows of n={n}: in a strip only neighbours meet, so at "
            f"most half of a block's rows are shared with each"
        )
    frames = haar(n, K, seed, draws=J)
    rows = np.arange(J)[:, None] * (n - ell) + np.arange(n)
    group = Group(
        jnp.asarray(frames.transpose(0, 2, 1)),
        jnp.asarray(rows.astype(np.int32)),
        jnp.asarray(np.arange(J * K, dtype=np.int32).reshape(J, K)),
        np.full(J, n),
        np.full(J, K),
    )
    return BlockMatrix((group,), (int(rows[-1, -1]) + 1, J * K))


def _whole(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)
