"""The paper's theory as diagnostics: coupling, condition bounds, random-matrix estimates.

After the filter every block Q_j has orthonormal columns, so Q^T Q = I + E, where E holds only the
couplings A_ij = Q_i^T Q_j of blocks that share rows. Whatever bounds |E|_2 by some `spread` < 1
bounds the condition number: kappa(Q) <= sqrt((1 + spread) / (1 - spread)). The bounds below differ
only in their spread. They are statements about one matrix and hold for it.

The estimates of the paper's appendix (`HaarModel`) are about independent random frames, which
neighbouring features are not. They approximate the same functions, and under a differential
operator a narrow overlap is ruled by the derivatives of the two windows, which sum to one: the
columns become antiparallel. So real couplings can be far above the model's, and the paper's
"smaller overlap, better conditioned" holds in the model and for operators of order zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Literal

import jax
import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.sparse import csgraph

from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.machine.arrays import Array
from tessella.machine.memory import require

Pair = tuple[int, int]
Regime = Literal["small overlap", "large overlap", "not applicable"]

ORTHONORMAL = 1e-10
"""How far Q_j^T Q_j may be from the identity."""

ROUNDING = 1e-14
"""Smaller couplings are none: windows that end on the same point touch by rounding."""


@dataclass(frozen=True)
class Bound:
    """kappa <= value; infinite unless valid, i.e. spread < 1. Q^T Q is within spread of I."""

    value: float
    valid: bool
    spread: float
    statement: str


@dataclass(frozen=True)
class Coupling:
    """A_ij = Q_i^T Q_j for every pair i < j of blocks with rows in common.

    Blocks are numbered by their first column; those without columns are left out. `shared` counts
    the common rows of a pair, `heights` the rows of a block.
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
        """max |A_ij|_2 (Theorem 3.2). A larger sigma drops parts of A_ij, so never raises it."""
        return float(self.norms.max())

    @cached_property
    def is_strip(self) -> bool:
        """Whether Q^T Q is block tridiagonal in some order of the blocks: the theorem's setting.

        So with overlaps up to 2 along one axis; the paper's 2.9 also couples blocks j and j + 2.
        """
        coupled = self.norms > ROUNDING
        edges = np.count_nonzero(coupled) // 2
        chains, _ = csgraph.connected_components(scipy.sparse.csr_array(coupled))
        return bool(coupled.sum(axis=1).max() <= 2 and edges == len(coupled) - chains)

    def worst_model(self) -> HaarModel:
        """The `HaarModel` of the pair with the largest epsilon."""
        if not self.blocks:
            raise ValueError("no two blocks share rows: there is no overlap to model")
        models = []
        for (i, j), A in self.blocks.items():
            n = min(self.heights[i], self.heights[j])
            models.append(HaarModel(n, min(n, max(A.shape)), self.shared[i, j]))
        return max(models, key=lambda model: model.epsilon)


def coupling(Q: BlockMatrix) -> Coupling:
    """All couplings of a block matrix with orthonormal blocks, e.g. `RRQR().apply(M).Q`.

    A_j = Q_j^T Q_{j+1} sums over the rows both blocks have. The paper prints Q_{j+1,j}^T Q_{j,j},
    two parts of one block; by its own equation for Q the second factor is Q_{j+1,j+1}.
    """
    blocks = sorted((b for b in Q.blocks() if len(b.columns)), key=lambda b: int(b.columns.min()))
    if not blocks:
        raise ValueError("Q has no columns: every feature was filtered out; lower sigma")
    columns = np.concatenate([b.columns for b in blocks])
    if len(np.unique(columns)) < len(columns):
        raise ValueError("two blocks of Q share a column: the theory needs one block per column")
    for number, block in enumerate(blocks):
        defect = np.max(np.abs(block.values.T @ block.values - np.eye(len(block.columns))))
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
    owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    entries = (np.ones(len(owner)), (owner, np.concatenate(rows)))
    seen = scipy.sparse.csr_array(entries, (len(rows), n_rows))
    meeting = scipy.sparse.coo_array(scipy.sparse.triu(seen @ seen.T, k=1))
    return sorted(zip(meeting.row.tolist(), meeting.col.tolist(), strict=True))


def _bound(spread: float, statement: str) -> Bound:
    value = math.sqrt((1 + spread) / (1 - spread)) if spread < 1 else math.inf
    return Bound(value, spread < 1, spread, statement)


def strip_bound(coupling: Coupling) -> Bound:
    """Theorem 3.2: kappa(Q) <= sqrt((1 + 2 alpha) / (1 - 2 alpha)) for a strip with 2 alpha < 1.

    A row of blocks has two couplings, hence the 2, which is sharp as the number of blocks grows.
    """
    if not coupling.is_strip:
        raise ValueError("Theorem 3.2 needs a strip (overlap <= 2, one axis): use gershgorin_bound")
    return _bound(2 * coupling.alpha, "Theorem 3.2: spread = 2 alpha")


def gershgorin_bound(coupling: Coupling) -> Bound:
    """For any overlap: the spread is the largest row sum of |A_ij|_2, on a strip <= 2 alpha."""
    spread = float(coupling.norms.sum(axis=1).max())
    return _bound(spread, "block Gershgorin: spread = max_i sum_j |A_ij|")


def comparison_bound(coupling: Coupling) -> Bound:
    """For any overlap, never worse than Gershgorin: the spread is |N|_2 with N_ij = |A_ij|_2.

    On a strip of J blocks |N| <= 2 alpha cos(pi / (J + 1)); for two blocks it is exact.
    """
    spread = float(np.linalg.eigvalsh(coupling.norms)[-1])
    return _bound(spread, "comparison matrix: spread = |N|, N_ij = |A_ij|")


def two_block_condition(A: ArrayLike) -> Bound:
    """Two blocks, exactly: kappa(Q) = sqrt((1 + |A|) / (1 - |A|)) (remark after Theorem 3.2).

    The eigenvalues of Q^T Q are 1 +- sigma_i(A), and 1 if the blocks differ in width (which the
    paper leaves out; kappa is the same). Not valid means singular: |A| = 1.
    """
    matrix = np.atleast_2d(np.asarray(A, dtype=np.float64))
    if matrix.ndim != 2 or not matrix.size or not np.all(np.isfinite(matrix)):
        raise ValueError(f"A must be a matrix of finite numbers, got shape {matrix.shape}")
    norm = float(np.linalg.norm(matrix, 2))
    if norm > 1 + ORTHONORMAL:
        raise ValueError(f"A has norm {norm:.6g} > 1: it is no product of orthonormal blocks")
    return _bound(norm, "two blocks, exact: spread = |A|")


def haar(n: int, k: int, seed: int | np.random.Generator, draws: int | None = None) -> Array:
    """Random semi-orthogonal (n, k) matrix, uniform on the orthonormal k-frames of R^n.

    The factor Q of a Gaussian matrix with R's diagonal positive; with LAPACK's signs it would not
    be invariant. k = n gives an orthogonal matrix; `draws` of them come as (draws, n, k).
    """
    n, k = _whole(n, "n", 1), _whole(k, "k", 1)
    if k > n:
        raise ValueError(f"k={k} orthonormal columns do not fit into n={n} rows: use k <= n")
    if seed is None:
        raise ValueError("seed must be given: a whole number or a numpy Generator, not None")
    count = 1 if draws is None else _whole(draws, "draws", 1)
    gaussian = np.random.default_rng(seed).standard_normal((count, n, k))
    Q, R = np.linalg.qr(gaussian)
    Q *= np.where(np.diagonal(R, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None, :]
    return Q[0] if draws is None else Q


@dataclass(frozen=True)
class HaarModel:
    """The appendix's model: blocks are independent (n, K) Haar frames, neighbours share ell rows.

    P_1, Q_1 are the shared (ell, K) parts of two frames and A = Q_1^T P_1 is their coupling.
    """

    n: int
    K: int
    ell: int

    def __post_init__(self) -> None:
        n = _whole(self.n, "n", 1)
        if not (_whole(self.K, "K", 1) <= n and _whole(self.ell, "ell", 0) <= n):
            raise ValueError(f"K={self.K} and ell={self.ell} must be at most n={n}, a block's rows")

    @property
    def frobenius(self) -> float:
        """E|A|_F <= K sqrt(ell) / n; E|A|_F^2 is exactly its square."""
        return self.K * math.sqrt(self.ell) / self.n

    @property
    def block_frobenius(self) -> float:
        """E|P_1|_F <= sqrt(K ell / n); the paper prints =, true of E|P_1|_F^2 = K ell / n only."""
        return math.sqrt(self.K * self.ell / self.n)

    @property
    def submultiplicative(self) -> float:
        """E|A|_F <= E|Q_1|_F E|P_1|_F <= K ell / n, sqrt(ell) times `frobenius`."""
        return self.K * self.ell / self.n

    @property
    def epsilon(self) -> float:
        """E|P_1|_2 <= (1 + K/2n) (sqrt(K) + sqrt(ell)) / sqrt(n) (Tropp 2012); |P_1|_2 <= 1 too."""
        gaussian = math.sqrt(self.K / self.n) + math.sqrt(self.ell / self.n)
        return (1 + self.K / (2 * self.n)) * gaussian

    @property
    def spectral(self) -> float:
        """E|A|_2 <= E|Q_1|_2 E|P_1|_2 <= epsilon^2; the first step needs independence."""
        return self.epsilon**2

    @property
    def direct(self) -> float:
        """E|A|_2 <= (1 + K/2n) sqrt(K/n) (epsilon + sqrt(ell/n)), at most epsilon^2.

        What the appendix's remark leaves open: Tropp's comparison for X -> |Q_1^T X|_2 with Q_1
        fixed, Chevet's E|B G|_2 <= sqrt(K) |B|_2 + |B|_F, then the mean over Q_1.
        """
        gaussian = math.sqrt(self.K / self.n) * (self.epsilon + math.sqrt(self.ell / self.n))
        return (1 + self.K / (2 * self.n)) * gaussian

    @property
    def kappa(self) -> Bound:
        """The appendix's estimate of E[kappa(Q)]: Theorem 3.2 with alpha = epsilon^2.

        Valid when 2 epsilon^2 < 1, where its denominator is positive; the paper writes
        2 epsilon < 1, which is more than needed and not the limit epsilon^2 = 1/2 it gives later.
        An estimate, no bound, even in the model: alpha is a maximum over pairs, the bound is convex
        in alpha (both raise the mean), and A_j, A_{j+1} share Q_{j+1}, so they are not independent
        as the paper says. It succeeds where epsilon^2 is generous enough.
        """
        return _bound(2 * self.spectral, "Haar estimate: spread = 2 epsilon^2")

    @property
    def kappa_small_overlap(self) -> float:
        """1 + 2 epsilon^2, the estimate of kappa up to O(epsilon^4), and always below it."""
        return 1 + 2 * self.spectral

    @property
    def regime(self) -> Regime:
        """The paper's regimes; a large K leaves the small one just as a large overlap does.

        The paper draws no line. Here: sqrt(1 - 4 epsilon^4), expansion over estimate, is 0.9.
        """
        spread = 2 * self.spectral
        if spread >= 1:
            return "not applicable"
        return "small overlap" if math.sqrt(1 - spread**2) >= 0.9 else "large overlap"


def haar_strip(blocks: int, model: HaarModel, seed: int | np.random.Generator) -> BlockMatrix:
    """A strip drawn from the model: the last ell rows of a block are the first of the next."""
    J, (n, K, ell) = _whole(blocks, "blocks", 1), (model.n, model.K, model.ell)
    if J > 2 and 2 * ell > n:
        raise ValueError(f"ell={ell} of n={n} rows: in a strip at most half of them are shared")
    frames = haar(n, K, seed, draws=J)
    rows = np.arange(J)[:, None] * (n - ell) + np.arange(n)
    arrays = jax.device_put((frames.transpose(0, 2, 1), rows, np.arange(J * K).reshape(J, K)))
    group = Group(arrays[0], arrays[1], arrays[2], np.full(J, n), np.full(J, K))
    return BlockMatrix((group,), (J * (n - ell) + ell, J * K))


def _whole(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)
