"""Every statement of the paper's theory, and of our corrections to it, is a test.

Monte Carlo means are compared within `ERRORS` standard errors, from fixed seeds.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta, kstest

import tessella as ts
from tessella import theory
from tessella.assembly import assemble
from tessella.domain import Array
from tessella.gallery.oscillator import harmonic_oscillator
from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.linalg.rrqr import Filtered
from tessella.theory import Bound, Coupling, HaarModel, haar, haar_strip

ERRORS = 4.0
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


def within(samples: Array, mean: float) -> bool:
    """Whether the samples' mean agrees with `mean`."""
    return bool(abs(samples.mean() - mean) <= ERRORS * standard_error(samples) + 1e-12)


def at_most(samples: Array, bound: float) -> bool:
    """Whether the samples' mean respects the bound."""
    return bool(samples.mean() <= bound + ERRORS * standard_error(samples) + 1e-12)


def standard_error(samples: Array) -> float:
    return float(samples.std(ddof=1) / math.sqrt(len(samples)))


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


# --- Haar measure ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (9, 4), (30, 1)])
def test_haar_matrices_are_semi_orthogonal_and_reproducible(n: int, k: int) -> None:
    Q = haar(n, k, seed=3, draws=7)
    assert Q.shape == (7, n, k)
    np.testing.assert_allclose(
        Q.transpose(0, 2, 1) @ Q, np.broadcast_to(np.eye(k), (7, k, k)), atol=1e-13
    )
    np.testing.assert_array_equal(Q, haar(n, k, np.random.default_rng(3), draws=7))
    np.testing.assert_array_equal(Q[0], haar(n, k, seed=3))
    assert n == 1 or not np.array_equal(Q, haar(n, k, seed=4, draws=7))


def test_haar_is_the_gram_schmidt_factor_of_the_gaussian() -> None:
    Q = haar(6, 4, seed=8)
    R = Q.T @ np.random.default_rng(8).standard_normal((1, 6, 4))[0]
    np.testing.assert_allclose(np.tril(R, -1), 0, atol=1e-14)
    assert (np.diag(R) > 0).all()


def test_haar_moments() -> None:
    n = 5
    Q = haar(n, n, seed=0, draws=40_000)
    moments = {
        "mean": (Q[:, 0, 0], 0.0),
        "mean below the diagonal": (Q[:, 3, 1], 0.0),
        "second": (Q[:, 2, 4] ** 2, 1 / n),
        "fourth": (Q[:, 1, 1] ** 4, 3 / (n * (n + 2))),
        "same row": (Q[:, 1, 1] ** 2 * Q[:, 1, 3] ** 2, 1 / (n * (n + 2))),
        "same column": (Q[:, 0, 2] ** 2 * Q[:, 4, 2] ** 2, 1 / (n * (n + 2))),
        "neither": (Q[:, 0, 0] ** 2 * Q[:, 1, 1] ** 2, (n + 1) / (n * (n - 1) * (n + 2))),
        "minor": (
            Q[:, 0, 0] * Q[:, 1, 1] * Q[:, 0, 1] * Q[:, 1, 0],
            -1 / (n * (n - 1) * (n + 2)),
        ),
        "trace": (np.trace(Q, axis1=1, axis2=2), 0.0),
        "trace squared": (np.trace(Q, axis1=1, axis2=2) ** 2, 1.0),
        "determinant": (np.linalg.det(Q), 0.0),
    }
    for name, (samples, mean) in moments.items():
        assert within(samples, mean), name


def test_haar_is_invariant_under_multiplication() -> None:
    n, draws = 6, 20_000
    P, Q = haar(n, n, seed=1, draws=draws), haar(n, n, seed=2, draws=draws)
    U, V = haar(n, n, seed=3), haar(n, n, seed=4)
    swap = np.eye(n)[::-1]
    for name, Z in {
        "Q": Q,
        "U Q": U @ Q,
        "Q V": Q @ V,
        "U Q V": U @ Q @ V,
        "permuted": swap @ Q @ swap,
        "P Q": P @ Q,
    }.items():
        # An entry squared is Beta(1/2, (n - 1)/2) and its sign is fair: equation (GaussNorm).
        entry = Z[:, 2, 1]
        assert kstest(entry**2, beta(0.5, (n - 1) / 2).cdf).pvalue > 1e-3, name
        assert within(np.sign(entry), 0.0), name
        assert within(np.trace(Z, axis1=1, axis2=2), 0.0), name
        assert within(np.trace(Z, axis1=1, axis2=2) ** 2, 1.0), name


def test_columns_of_a_random_frame_are_interchangeable() -> None:
    whole = haar(8, 8, seed=6, draws=20_000)
    frame = haar(8, 3, seed=7, draws=20_000)
    for picked in (frame, whole[:, :, :3], whole[:, :, [7, 2, 5]]):
        top = np.linalg.norm(picked[:, :4], axis=(1, 2)) ** 2
        assert within(top, 3 * 4 / 8)
        # Var |P_1|_F^2 of a (4, 3) part of an (8, 8) Haar matrix, from the fourth moments.
        assert within((top - 1.5) ** 2, 2 * 3 * 4 * (8 - 3) * (8 - 4) / (8**2 * (8 - 1) * (8 + 2)))


# --- the appendix's propositions ---------------------------------------------------------------

MODELS = [
    HaarModel(n=40, K=3, ell=5),
    HaarModel(n=60, K=8, ell=20),
    HaarModel(n=30, K=10, ell=15),
    HaarModel(n=100, K=1, ell=2),
    HaarModel(n=12, K=12, ell=5),
    HaarModel(n=10, K=4, ell=10),
]


@cache
def parts(model: HaarModel) -> tuple[Array, Array]:
    """Shared parts P_1, Q_1 of independent frames: the last rows of one, the first of another."""
    P = haar(model.n, model.K, seed=100, draws=2_000)
    Q = haar(model.n, model.K, seed=200, draws=2_000)
    return P[:, model.n - model.ell :], Q[:, : model.ell]


@cache
def products(model: HaarModel) -> Array:
    P, Q = parts(model)
    return Q.transpose(0, 2, 1) @ P


def frobenius(matrices: Array) -> Array:
    return np.asarray(np.linalg.norm(matrices, axis=(1, 2)))


def spectral(matrices: Array) -> Array:
    return np.asarray(np.linalg.norm(matrices, 2, axis=(1, 2)))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_expected_frobenius_norm_of_the_product(model: HaarModel) -> None:
    norms = frobenius(products(model))
    assert within(norms**2, model.frobenius**2)
    assert at_most(norms, model.frobenius)
    assert model.frobenius == model.K * math.sqrt(model.ell) / model.n


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_expected_frobenius_norm_of_a_part(model: HaarModel) -> None:
    for part in parts(model):
        norms = frobenius(part)
        assert within(norms**2, model.block_frobenius**2)
        assert at_most(norms, model.block_frobenius)
    assert at_most(frobenius(products(model)), model.submultiplicative)
    assert model.submultiplicative == pytest.approx(math.sqrt(model.ell) * model.frobenius)


def test_expected_frobenius_norm_is_below_the_root_of_its_square() -> None:
    # The paper prints E|P_1|_F = sqrt(K ell / n); with K = 1, ell = 2 it is a tenth less.
    norms = frobenius(parts(HaarModel(n=100, K=1, ell=2))[0])
    assert norms.mean() < 0.92 * HaarModel(n=100, K=1, ell=2).block_frobenius


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_expected_spectral_norm_of_a_part(model: HaarModel) -> None:
    for part in parts(model):
        norms = spectral(part)
        assert at_most(norms, model.epsilon)
        assert norms.max() <= 1 + 1e-12
    assert model.epsilon == pytest.approx(
        (1 + model.K / (2 * model.n))
        * (math.sqrt(model.K) + math.sqrt(model.ell))
        / math.sqrt(model.n)
    )


def test_the_spectral_estimate_is_not_far_off() -> None:
    model = HaarModel(n=400, K=20, ell=40)
    norms = spectral(haar(model.n, model.K, seed=9, draws=100)[:, : model.ell])
    a, b = model.K / model.n, model.ell / model.n
    limit = math.sqrt(a * (1 - b)) + math.sqrt(b * (1 - a))
    assert norms.mean() == pytest.approx(limit, rel=0.05)
    assert limit < model.epsilon < 1.15 * limit


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_expected_coupling(model: HaarModel) -> None:
    norms = spectral(products(model))
    assert at_most(norms, model.spectral)
    assert at_most(norms, model.direct)
    assert at_most(norms, model.frobenius)
    assert model.direct <= model.spectral == model.epsilon**2
    gaussian = (
        model.epsilon * math.sqrt(model.K / model.n) + math.sqrt(model.K * model.ell) / model.n
    )
    assert model.direct == pytest.approx((1 + model.K / (2 * model.n)) * gaussian)
    assert HaarModel(model.n, model.K, 0).direct == pytest.approx(
        HaarModel(model.n, model.K, 0).spectral
    )


def test_neighbouring_couplings_are_not_independent() -> None:
    # n = 2, K = ell = 1: A_1 A_2 = cos(a) cos(t) sin(t) sin(b) with uniform angles.
    frames = haar(2, 1, seed=21, draws=90_000).reshape(3, -1, 2)
    A_1, A_2 = frames[0, :, 1] * frames[1, :, 0], frames[1, :, 1] * frames[2, :, 0]
    assert within(A_1**2, 1 / 4) and within(A_2**2, 1 / 4)
    assert within(A_1**2 * A_2**2, 1 / 32)
    strip = theory.coupling(haar_strip(3, HaarModel(2, 1, 1), seed=21))
    assert strip.is_strip and set(strip.blocks) == {(0, 1), (1, 2)}


@pytest.mark.parametrize(
    ("blocks", "model"),
    [
        (2, HaarModel(200, 3, 8)),
        (6, HaarModel(200, 3, 8)),
        (12, HaarModel(300, 2, 20)),
        (6, HaarModel(100, 6, 10)),
        (20, HaarModel(60, 1, 16)),
    ],
    ids=str,
)
def test_probabilistic_estimate_of_kappa(blocks: int, model: HaarModel) -> None:
    rng = np.random.default_rng(31)
    values = []
    for _ in range(40):
        Q = haar_strip(blocks, model, rng)
        value = float(np.linalg.cond(Q.to_dense()))
        bound = theory.strip_bound(theory.coupling(Q))
        assert value <= bound.value * (1 + ROUNDING)
        values.append(value)
    assert model.kappa.valid
    assert at_most(np.array(values), model.kappa.value)
    assert theory.coupling(Q).worst_model() == model


def test_validity_of_the_estimate_is_two_epsilon_squared_below_one() -> None:
    between = HaarModel(100, 6, 10)
    assert 2 * between.epsilon > 1 > 2 * between.spectral
    assert between.kappa.valid and between.kappa.value < math.inf
    for model in itertools.starmap(HaarModel, itertools.product((50, 400), (1, 5, 25), (0, 7, 50))):
        assert model.kappa.valid == (2 * model.epsilon**2 < 1)
        assert model.kappa.spread == 2 * model.spectral
        assert (model.regime == "not applicable") != model.kappa.valid
        if model.kappa.valid:
            x = 2 * model.epsilon**2
            assert model.kappa.value == math.sqrt((1 + x) / (1 - x))
            assert model.kappa_small_overlap <= model.kappa.value
        else:
            assert model.kappa.value == math.inf


def test_small_overlap_expansion_is_accurate_to_epsilon_to_the_fourth() -> None:
    remainders = [
        (model.kappa.value - model.kappa_small_overlap) / model.epsilon**4
        for model in (HaarModel(10**p, 2, 3) for p in (2, 3, 4, 5))
    ]
    assert remainders == sorted(remainders, reverse=True)
    assert remainders[-1] == pytest.approx(2.0, rel=1e-3)


def test_regimes() -> None:
    regimes = [HaarModel(400, 4, ell).regime for ell in (0, 4, 16, 100, 150, 200, 400)]
    assert regimes == [
        *["small overlap"] * 3,
        *["large overlap"] * 1,
        *["not applicable"] * 3,
    ]
    assert HaarModel(400, 200, 0).regime == "not applicable"
    for ell in range(120):
        model = HaarModel(400, 4, ell)
        if model.kappa.valid:
            close = model.kappa_small_overlap >= 0.9 * model.kappa.value
            assert (model.regime == "small overlap") == close


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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n": 3, "k": 4, "seed": 0}, "k=4 orthonormal columns do not fit into n=3 rows"),
        ({"n": 0, "k": 1, "seed": 0}, "n must be a whole number >= 1, got 0"),
        ({"n": 3.5, "k": 1, "seed": 0}, "n must be a whole number >= 1, got 3.5"),
        ({"n": 3, "k": True, "seed": 0}, "k must be a whole number >= 1, got True"),
        ({"n": 3, "k": 2, "seed": 0, "draws": 0}, "draws must be a whole number >= 1, got 0"),
        ({"n": 3, "k": 2, "seed": None}, "seed must be given"),
    ],
)
def test_haar_refuses(arguments: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        haar(**arguments)


@pytest.mark.parametrize(
    ("n", "K", "ell", "complaint"),
    [
        (0, 1, 0, "n must be a whole number >= 1, got 0"),
        (5, 0, 1, "K must be a whole number >= 1, got 0"),
        (5, 1, -1, "ell must be a whole number >= 0, got -1"),
        (5, 6, 1, "K=6 and ell=1 must be at most n=5"),
        (5, 1, 6, "K=1 and ell=6 must be at most n=5"),
        (5, math.nan, 1, "K must be a whole number >= 1, got nan"),
    ],
)
def test_haar_model_refuses(n: int, K: int, ell: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        HaarModel(n, K, ell)


def test_haar_strip_refuses_overlaps_that_meet() -> None:
    with pytest.raises(ValueError, match="ell=6 of n=10 rows"):
        haar_strip(3, HaarModel(10, 2, 6), seed=0)
    assert haar_strip(2, HaarModel(10, 2, 6), seed=0).shape == (14, 4)
    with pytest.raises(ValueError, match="blocks must be a whole number"):
        haar_strip(0, HaarModel(10, 2, 3), seed=0)
