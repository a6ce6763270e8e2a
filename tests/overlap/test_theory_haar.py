"""Haar matrices and the probabilistic model: means over draws against the paper's formulas.

Monte Carlo means are compared within `ERRORS` standard errors, from fixed seeds.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import beta, kstest

from tessella.machine.arrays import Array
from tessella.overlap import theory
from tessella.overlap.theory import HaarModel, haar, haar_strip

ERRORS = 4.0
ROUNDING = 1e-9


def within(samples: Array, mean: float) -> bool:
    """Whether the samples' mean agrees with `mean`."""
    return bool(abs(samples.mean() - mean) <= ERRORS * standard_error(samples) + 1e-12)


def at_most(samples: Array, bound: float) -> bool:
    """Whether the samples' mean respects the bound."""
    return bool(samples.mean() <= bound + ERRORS * standard_error(samples) + 1e-12)


def standard_error(samples: Array) -> float:
    return float(samples.std(ddof=1) / math.sqrt(len(samples)))


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


# --- bad input ---------------------------------------------------------------------------------


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
