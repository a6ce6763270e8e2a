"""The paper's bounds on condition numbers, and our corrections to them: every one is a test."""

from __future__ import annotations

import itertools
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.gallery.oscillator import harmonic_oscillator
from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.rrqr import Filtered
from tessella.machine.arrays import Array
from tessella.overlap import theory
from tessella.overlap.system import assemble
from tessella.overlap.theory import Bound, Coupling, HaarModel, haar, haar_strip

ROUNDING = 1e-9

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
PROBLEMS = {
    "oscillator": harmonic_oscillator(),
    "slow oscillator": harmonic_oscillator(omega0=20.0),
    "fit": ts.Problem(domain=ts.Box(x=(0, 1)), equation=ts.Equation(ts.Identity(), 1.0)),
    "helmholtz": ts.Problem(
        domain=SQUARE,
        equation=ts.Equation(ts.Laplacian() + 400.0 * ts.Identity(), 1.0),
        conditions=[ts.Dirichlet(0.0)],
    ),
    "fit 2D": ts.Problem(domain=SQUARE, equation=ts.Equation(ts.Identity(), 1.0)),
}
SIGMAS = (0.0, 1e-8, 1e-2, 1e-1, 3e-1)


@cache
def matrix(
    name: str,
    subdomains: int | tuple[int, ...],
    overlap: float,
    features: int,
    seed: int,
    points: int | None = None,
) -> BlockMatrix:
    problem = PROBLEMS[name]
    decomposition = ts.Decomposition(problem.domain, subdomains, overlap)
    basis = ts.Basis(decomposition, ts.RandomFeatures(features), seed)
    return assemble(problem, basis, ts.Grid(4.0, points).rows(problem, basis)).M


def kappa(filtered: Filtered) -> float:
    return float(np.linalg.cond(filtered.Q.to_dense()[:, filtered.kept]))


def from_blocks(blocks: list[tuple[Array, np.ndarray]]) -> BlockMatrix:
    """(values, rows) per block; columns numbered in the order given."""
    groups, start = [], 0
    for values, rows in blocks:
        m, C = values.shape
        arrays = jax.device_put((values.T[None], rows[None], np.arange(start, start + C)[None]))
        groups.append(Group(arrays[0], arrays[1], arrays[2], np.array([m]), np.array([C])))
        start += C
    height = 1 + max(int(rows.max()) for _, rows in blocks)
    return BlockMatrix(tuple(groups), (height, start))


def chain(J: int, angle: float) -> BlockMatrix:
    """J single columns (cos, sin), each sharing one row with the next: alpha = sin(2 angle) / 2."""
    column = np.array([[math.cos(angle)], [math.sin(angle)]])
    return from_blocks([(column, np.array([j, j + 1])) for j in range(J)])


# --- couplings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "subdomains", "overlap"),
    [("oscillator", 10, 1.7), ("fit", 10, 2.9), ("fit 2D", (3, 3), 1.1)],
)
def test_couplings_are_the_off_diagonal_blocks_of_the_gramian(
    name: str, subdomains: int | tuple[int, ...], overlap: float
) -> None:
    Q = ts.RRQR(1e-4).apply(matrix(name, subdomains, overlap, 8, 0)).Q
    found = theory.coupling(Q)
    dense = Q.to_dense()
    columns = sorted((b.columns for b in Q.blocks()), key=min)
    for i, j in itertools.combinations(range(len(columns)), 2):
        expected = dense[:, columns[i]].T @ dense[:, columns[j]]
        if (i, j) in found.blocks:
            np.testing.assert_allclose(found.blocks[i, j], expected, atol=1e-13)
            assert found.norms[i, j] == found.norms[j, i] <= 1 + 1e-12
        else:
            assert not expected.any()
    assert found.alpha == max(np.linalg.norm(A, 2) for A in found.blocks.values())


@pytest.mark.parametrize(
    ("strip", "name", "subdomains", "overlap", "features"),
    [
        (True, "oscillator", 10, 1.7, 8),
        (True, "fit", 10, 2.0, 8),
        (True, "helmholtz", (5, 1), 1.7, 16),
        (False, "fit", 10, 2.9, 8),
        (False, "fit 2D", (3, 3), 1.1, 8),
    ],
)
def test_a_strip_is_where_only_neighbours_overlap(
    strip: bool, name: str, subdomains: int | tuple[int, ...], overlap: float, features: int
) -> None:
    Q = ts.RRQR().apply(matrix(name, subdomains, overlap, features, 0)).Q
    assert theory.coupling(Q).is_strip == strip


def test_a_ring_is_not_a_strip_but_obeys_gershgorin() -> None:
    column = np.array([[0.8], [0.6]])
    ring = from_blocks([(column, np.array([j, (j + 1) % 6])) for j in range(6)])
    found = theory.coupling(ring)
    assert not found.is_strip
    assert theory.gershgorin_bound(found).spread == pytest.approx(2 * 0.48)
    # The circulant matrix has eigenvalues 1 +- 2 alpha: here the theorem's bound is attained.
    assert np.linalg.cond(ring.to_dense()) == pytest.approx(math.sqrt(1.96 / 0.04))


def test_a_star_is_not_a_strip() -> None:
    centre = (np.full((4, 1), 0.5), np.arange(4))
    leaf = np.array([[0.6], [0.8]])
    star = from_blocks([centre, *((leaf, np.array([j, 4 + j])) for j in range(3))])
    found = theory.coupling(star)
    assert not found.is_strip
    with pytest.raises(ValueError, match="needs a strip"):
        theory.strip_bound(found)
    # Three couplings of 0.3 to one block: |N| = 0.3 sqrt(3), and scalars attain it.
    assert theory.comparison_bound(found).spread == pytest.approx(0.3 * math.sqrt(3))
    assert np.linalg.cond(star.to_dense()) == pytest.approx(theory.comparison_bound(found).value)


def test_relabelling_blocks_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    frames = [(haar(12, k, rng), np.arange(12) + 8 * j) for j, k in enumerate((3, 5, 2, 4, 1))]
    first = theory.coupling(from_blocks(frames))
    second = theory.coupling(from_blocks([frames[j] for j in (3, 0, 4, 2, 1)]))
    assert first.is_strip and second.is_strip
    for bound in (theory.strip_bound, theory.gershgorin_bound, theory.comparison_bound):
        assert bound(first).spread == pytest.approx(bound(second).spread, rel=1e-12)


# --- Theorem 3.2 and its relatives -------------------------------------------------------------


STRIPS: list[tuple[str, int | tuple[int, ...], float, int, int]] = [
    *itertools.product(("oscillator",), (10,), (1.7,), (4, 8), (0, 1)),
    ("oscillator", 10, 1.2, 8, 0),
    *itertools.product(("slow oscillator",), (5,), (1.8,), (8,), (0,)),
    *itertools.product(("fit",), (10,), (1.1, 1.4, 2.0), (8,), (0, 1)),
    *itertools.product(("helmholtz",), ((5, 1),), (1.7,), (16,), (0, 1)),
    *itertools.product(("fit 2D",), ((5, 1),), (1.4,), (16,), (0, 1)),
]


@cache
def checked(name: str) -> tuple[tuple[float, Bound, Coupling], ...]:
    """(kappa, Theorem 3.2, couplings) on every strip of the problem and every sigma."""
    found = []
    for case, sigma in itertools.product((s for s in STRIPS if s[0] == name), SIGMAS):
        filtered = ts.RRQR(sigma).apply(matrix(*case))
        couplings = theory.coupling(filtered.Q)
        found.append((kappa(filtered), theory.strip_bound(couplings), couplings))
    return tuple(found)


@pytest.mark.parametrize(
    ("name", "valid_at_least"),
    [
        ("oscillator", 8),
        ("slow oscillator", 1),
        ("fit", 10),
        ("helmholtz", 3),
        ("fit 2D", 6),
    ],
)
def test_theorem_3_2_holds_on_real_strips(name: str, valid_at_least: int) -> None:
    cases = checked(name)
    valid = [(value, bound) for value, bound, _ in cases if bound.valid]
    assert len(valid) >= valid_at_least
    for value, bound in valid:
        assert 1 <= value <= bound.value * (1 + ROUNDING)
    for _, bound, couplings in cases:
        assert bound.valid == (2 * couplings.alpha < 1)
        assert math.isinf(bound.value) != bound.valid


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_every_bound_is_above_kappa_and_below_the_next(name: str) -> None:
    rescued = 0
    for value, theorem, couplings in checked(name):
        comparison = theory.comparison_bound(couplings)
        gershgorin = theory.gershgorin_bound(couplings)
        assert comparison.spread <= gershgorin.spread * (1 + 1e-12)
        assert gershgorin.spread <= theorem.spread * (1 + 1e-12)
        J = len(couplings.heights)
        assert comparison.spread <= theorem.spread * math.cos(math.pi / (J + 1)) * (1 + 1e-12)
        if comparison.valid:
            assert value <= comparison.value * (1 + ROUNDING)
        rescued += comparison.valid and not theorem.valid
    assert name != "fit" or rescued, "the comparison bound should hold where the theorem is silent"


@pytest.mark.parametrize(
    ("name", "subdomains", "overlap"),
    [("fit 2D", (3, 3), 1.1), ("fit", 10, 2.9)],
)
def test_gershgorin_covers_what_is_no_strip(
    name: str, subdomains: int | tuple[int, ...], overlap: float
) -> None:
    valid = 0
    for sigma in (*SIGMAS, 0.6):
        filtered = ts.RRQR(sigma).apply(matrix(name, subdomains, overlap, 8, 0))
        couplings = theory.coupling(filtered.Q)
        with pytest.raises(ValueError, match="needs a strip"):
            theory.strip_bound(couplings)
        for bound in (theory.gershgorin_bound(couplings), theory.comparison_bound(couplings)):
            valid += bound.valid
            assert kappa(filtered) <= bound.value * (1 + ROUNDING)
    assert valid or name != "fit 2D"


def test_bounds_hold_on_random_strips_of_unequal_blocks() -> None:
    rng = np.random.default_rng(11)
    valid = 0
    for _ in range(200):
        start, blocks = 0, []
        for _ in range(rng.integers(2, 7)):
            n = int(rng.integers(20, 60))
            blocks.append((haar(n, int(rng.integers(1, 5)), rng), start + np.arange(n)))
            start += n - int(rng.integers(0, 10))
        Q = from_blocks(blocks)
        couplings = theory.coupling(Q)
        bound = theory.strip_bound(couplings)
        valid += bound.valid
        value = float(np.linalg.cond(Q.to_dense()))
        assert value <= theory.comparison_bound(couplings).value * (1 + ROUNDING)
        assert value <= bound.value * (1 + ROUNDING)
    assert valid > 100


def test_theorem_3_2_is_sharp_as_the_strip_grows() -> None:
    gaps = []
    for J in (2, 8, 32, 128):
        Q = chain(J, angle=0.5)
        found = theory.coupling(Q)
        value = float(np.linalg.cond(Q.to_dense()))
        exact = 2 * found.alpha * math.cos(math.pi / (J + 1))
        assert found.alpha == pytest.approx(math.sin(1.0) / 2, rel=1e-14)
        assert value == pytest.approx(math.sqrt((1 + exact) / (1 - exact)), rel=1e-10)
        assert theory.comparison_bound(found).value == pytest.approx(value, rel=1e-10)
        gaps.append(theory.strip_bound(found).value / value - 1)
    assert gaps == sorted(gaps, reverse=True) and 0 < gaps[-1] < 2e-3


def test_at_alpha_one_half_kappa_grows_with_the_strip_and_the_theorem_is_silent() -> None:
    for J in (4, 16, 64):
        Q = chain(J, angle=math.pi / 4)
        found = theory.coupling(Q)
        theorem = theory.strip_bound(found)
        assert found.alpha == pytest.approx(0.5)
        assert theorem.value > 1e7 and (theorem.valid or math.isinf(theorem.value))
        growing = 1 / math.tan(math.pi / (2 * (J + 1)))
        assert np.linalg.cond(Q.to_dense()) == pytest.approx(growing, rel=1e-9)
        assert theory.comparison_bound(found).value == pytest.approx(growing, rel=1e-9)


def test_without_overlap_the_bounds_are_one() -> None:
    for blocks in (1, 5):
        found = theory.coupling(haar_strip(blocks, HaarModel(8, 3, 0), seed=1))
        assert found.alpha == 0 and not found.blocks
        assert theory.strip_bound(found).value == 1
        assert theory.gershgorin_bound(found).value == theory.comparison_bound(found).value == 1


@pytest.mark.parametrize("name", ["oscillator", "fit", "helmholtz"])
def test_a_larger_sigma_never_raises_alpha_or_kappa(name: str) -> None:
    case = next(s for s in STRIPS if s[0] == name)
    filtered = [ts.RRQR(sigma).apply(matrix(*case)) for sigma in SIGMAS]
    alphas = [theory.coupling(f.Q).alpha for f in filtered]
    kappas = [kappa(f) for f in filtered]
    for small, large in itertools.pairwise(range(len(SIGMAS))):
        assert alphas[large] <= alphas[small] * (1 + ROUNDING)
        assert kappas[large] <= kappas[small] * (1 + ROUNDING)
    assert alphas[-1] < alphas[0] and kappas[-1] < kappas[0]


def test_less_overlap_couples_less_only_for_operators_of_order_zero() -> None:
    def alpha(name: str, overlap: float, points: int | None = None) -> float:
        M = matrix(name, 10, overlap, 8, 0, points)
        return theory.coupling(ts.RRQR(1e-2).apply(M).Q).alpha

    assert alpha("fit", 1.1) < alpha("fit", 1.4) < alpha("fit", 2.0)
    assert alpha("oscillator", 1.1, 4_000) > alpha("oscillator", 1.2) > alpha("oscillator", 1.7)
    assert alpha("oscillator", 1.1, 4_000) > 0.99


# --- two blocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize(("name", "subdomains"), [("oscillator", 2), ("helmholtz", (2, 1))])
def test_two_block_formula_is_exact(
    name: str, subdomains: int | tuple[int, ...], sigma: float
) -> None:
    filtered = ts.RRQR(sigma).apply(matrix(name, subdomains, 1.7, 8, 3))
    found = theory.coupling(filtered.Q)
    exact = theory.two_block_condition(found.blocks[0, 1])
    value = kappa(filtered)
    # 1 - |A| is known to rounding only, so kappa^2 ulps is what both sides can agree to.
    assert exact.valid
    assert exact.value == pytest.approx(value, rel=1e-13 * value**2 + 1e-12)
    assert theory.comparison_bound(found).value == pytest.approx(exact.value, rel=1e-6)
    theorem = theory.strip_bound(found)
    assert exact.value <= theorem.value
    assert theorem.valid == (found.alpha < 0.5)


def test_two_block_eigenvalues_with_unequal_widths() -> None:
    rng = np.random.default_rng(2)
    Q = from_blocks([(haar(10, 5, rng), np.arange(10)), (haar(9, 2, rng), np.arange(6, 15))])
    A = theory.coupling(Q).blocks[0, 1]
    s = np.linalg.svd(A, compute_uv=False)
    expected = np.sort(np.concatenate([1 - s, np.ones(3), 1 + s]))
    dense = Q.to_dense()
    np.testing.assert_allclose(np.linalg.eigvalsh(dense.T @ dense), expected, atol=1e-13)
    value = theory.two_block_condition(A).value
    assert value == pytest.approx(np.linalg.cond(dense), rel=1e-12)


def test_two_identical_blocks_are_singular() -> None:
    assert theory.two_block_condition(np.eye(3)) == Bound(
        math.inf, False, 1.0, "two blocks, exact: spread = |A|"
    )
    assert theory.two_block_condition([[0.6]]).value == pytest.approx(2.0)


def test_the_haar_model_does_not_bound_real_couplings() -> None:
    # The appendix's experiment: sigma = 0 and many points, so that epsilon is small.
    filtered = ts.RRQR(0.0).apply(matrix("oscillator", 10, 1.1, 8, 0, 4_000))
    found = theory.coupling(filtered.Q)
    model = found.worst_model()
    assert model.kappa.valid and model.direct < 0.3
    assert found.alpha > 0.99
    assert kappa(filtered) > 10 * model.kappa.value


# --- bad input ---------------------------------------------------------------------------------


def test_blocks_that_are_not_orthonormal_are_refused() -> None:
    with pytest.raises(ValueError, match=r"block 0 of Q does not have orthonormal columns"):
        theory.coupling(matrix("fit", 10, 1.4, 8, 0))
    good, bad = haar(6, 2, seed=0), haar(6, 2, seed=1)
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"block 1 of Q does not have orthonormal columns"):
        theory.coupling(from_blocks([(good, np.arange(6)), (bad, np.arange(6))]))


def test_shared_columns_and_empty_matrices_are_refused() -> None:
    Q = haar_strip(2, HaarModel(6, 2, 2), seed=0)
    (group,) = Q.groups
    twice = BlockMatrix((group._replace(columns=jnp.zeros_like(group.columns) + 1),), Q.shape)
    with pytest.raises(ValueError, match="share a column"):
        theory.coupling(twice)
    with pytest.raises(ValueError, match="no columns"):
        theory.coupling(Q.select(np.zeros(0, dtype=int)))
    with pytest.raises(ValueError, match="no overlap"):
        theory.coupling(haar_strip(3, HaarModel(6, 2, 0), seed=0)).worst_model()


def test_a_block_that_lost_all_columns_does_not_count() -> None:
    Q = haar_strip(4, HaarModel(10, 2, 4), seed=0)
    found = theory.coupling(Q.select(np.array([0, 1, 4, 5, 6, 7])))
    assert len(found.heights) == 3 and set(found.blocks) == {(1, 2)}
    assert theory.comparison_bound(found).value == pytest.approx(
        theory.two_block_condition(theory.coupling(Q).blocks[2, 3]).value
    )


@pytest.mark.parametrize(
    ("A", "complaint"),
    [
        (2 * np.eye(2), "norm 2 > 1"),
        (np.full((2, 2), np.nan), "finite"),
        (np.zeros((0, 3)), "finite"),
        (np.zeros((2, 2, 2)), "matrix"),
    ],
)
def test_two_block_condition_refuses(A: Array, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        theory.two_block_condition(A)
