"""Condition numbers and spectra: every route against the dense singular values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella.linalg import conditioning
from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.conditioning import (
    condition_number,
    golub_kahan,
    gramian_condition,
    gramian_spectrum,
    schwarz_condition,
    schwarz_spectrum,
    singular_values,
)
from tessella.linalg.iterative.schwarz import SchwarzCG, schwarz_inverse

ROWS, COLUMNS = 40, 18


@pytest.fixture(scope="session")
def strip():
    """Six overlapping blocks of three columns whose singular values spread over `decades`."""

    def make(seed=0, decades=2.0):
        random = np.random.default_rng(seed)
        scale = np.diag(10.0 ** -np.linspace(0, decades, 3))
        blocks = [
            Block(
                random.standard_normal((15, 3)) @ scale,
                np.arange(5 * j, 5 * j + 15),
                3 * j + np.arange(3),
            )
            for j in range(6)
        ]
        return from_blocks(blocks, (ROWS, COLUMNS))

    return make


def products(dense):
    return lambda v: dense @ v, lambda u: dense.T @ u


def with_singular_values(s, rows, seed=0):
    random = np.random.default_rng(seed)
    U, _ = np.linalg.qr(random.standard_normal((rows, len(s))))
    V, _ = np.linalg.qr(random.standard_normal((len(s), len(s))))
    return (U * s) @ V.T


def choose(monkeypatch, route):
    """Make a matrix of 18 columns count as large enough for the route."""
    if route != "svd":
        monkeypatch.setattr(conditioning, "DENSE_COLUMNS", 2)
    if route == "golub-kahan":
        monkeypatch.setattr(conditioning, "QR_WORK", 1)
        monkeypatch.setattr(conditioning, "SQUARE_COLUMNS", 2)


@pytest.mark.parametrize(
    ("route", "method"),
    [("svd", "singular values"), ("qr", "QR and Lanczos"), ("golub-kahan", "Golub-Kahan")],
)
@settings(max_examples=5)
@given(seed=st.integers(0, 100), decades=st.floats(0, 5))
def test_every_route_gives_the_dense_condition_number(strip, route, method, seed, decades):
    A = strip(seed, decades)
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, route)
        found = condition_number(A)
    assert found.method.startswith(method)
    assert found.value == pytest.approx(np.linalg.cond(A.to_dense()), rel=2e-3)


def test_little_memory_leads_to_golub_and_kahan(strip, monkeypatch):
    A = strip()
    monkeypatch.setattr(conditioning, "available_bytes", lambda *_: 12_000)
    found = condition_number(A)
    assert "lower bound" in found.method
    assert 1 < found.value <= np.linalg.cond(A.to_dense())
    monkeypatch.setattr(conditioning, "available_bytes", lambda *_: 100)
    with pytest.raises(MemoryError, match="Golub-Kahan needs"):
        condition_number(A)


def test_condition_numbers_do_not_depend_on_scale_or_order(strip, rng):
    A = strip()
    rows, columns = rng.permutation(ROWS), rng.permutation(COLUMNS)
    blocks = [Block(1e-3 * v, rows[r], columns[c]) for v, r, c in A.blocks()]
    moved = from_blocks(blocks[::-1], A.shape)
    for kappa in (condition_number, gramian_condition, schwarz_condition):
        assert kappa(moved).value == pytest.approx(kappa(A).value, rel=1e-4)


@pytest.mark.parametrize("route", ["svd", "qr", "golub-kahan"])
def test_a_singular_matrix_has_an_infinite_or_rounding_level_condition_number(
    strip, monkeypatch, route
):
    A = strip()
    (group,) = A.groups
    zero = BlockMatrix((group._replace(values=group.values.at[1, 1].set(0.0)),), A.shape)
    twice = BlockMatrix(
        (group._replace(values=group.values.at[1, 1].set(group.values[1, 2])),), A.shape
    )
    choose(monkeypatch, route)
    for kappa in (condition_number, gramian_condition, schwarz_condition):
        assert kappa(zero).value == np.inf
        assert "zero" in kappa(zero).method
    for kappa in (condition_number, gramian_condition):
        assert kappa(twice).value > 1e14


def test_a_wide_matrix_is_measured_by_its_rows(rng):
    dense = rng.standard_normal((6, 9))
    A = from_blocks([Block(dense, np.arange(6), np.arange(9))], (6, 9))
    assert condition_number(A).value == pytest.approx(np.linalg.cond(dense))
    found = golub_kahan(*products(dense), dense.shape)
    assert found.complete
    assert found.condition.value == pytest.approx(np.linalg.cond(dense))


def test_spectra_are_the_dense_singular_values(strip):
    A = strip()
    dense = A.to_dense()
    s = np.linalg.svd(dense, compute_uv=False)
    np.testing.assert_allclose(singular_values(A), s, rtol=1e-9)
    np.testing.assert_allclose(gramian_spectrum(A), s**2, rtol=1e-9)
    product = schwarz_inverse(A)[1].to_dense() @ dense.T @ dense
    expected = np.linalg.svd(product, compute_uv=False)
    np.testing.assert_allclose(schwarz_spectrum(A), expected, rtol=1e-6)
    reduced = schwarz_spectrum(A, SchwarzCG(pca=0.05))
    assert len(reduced) == 12 and reduced[-1] > 0


def test_the_gramian_squares_the_condition_number_up_to_rounding(strip, monkeypatch):
    A = strip(decades=2)
    exact = np.linalg.cond(A.to_dense()) ** 2
    assert gramian_condition(A).value == pytest.approx(exact, rel=1e-6)
    rounded = gramian_condition(strip(decades=10))
    assert "formed Gramian" in rounded.method
    assert 1e15 < rounded.value < np.inf
    choose(monkeypatch, "qr")
    assert gramian_condition(A).value == pytest.approx(exact, rel=2e-3)
    choose(monkeypatch, "golub-kahan")
    large = gramian_condition(A)
    assert large.method.startswith("square of kappa(A)")
    assert large.value == pytest.approx(exact, rel=4e-3)


@pytest.mark.parametrize("solver", [SchwarzCG(), SchwarzCG(blocks="diagonal", gramian=False)])
def test_every_route_gives_the_condition_number_of_the_schwarz_product(strip, monkeypatch, solver):
    A = strip(1)
    s = schwarz_spectrum(A, solver)
    for route in ("svd", "qr", "golub-kahan"):
        choose(monkeypatch, route)
        assert schwarz_condition(A, solver).value == pytest.approx(s[0] / s[-1], rel=2e-3)


def test_the_unknowns_that_pca_removed_do_not_count(strip, monkeypatch):
    A, solver = strip(1), SchwarzCG(pca=0.05)
    exact = schwarz_condition(A, solver).value
    assert exact < 1e6
    choose(monkeypatch, "golub-kahan")
    assert schwarz_condition(A, solver).value == pytest.approx(exact, rel=2e-3)


def test_neighbourhoods_improve_the_spectrum_that_cg_sees(strip):
    """The eigenvalues of A_AS^-1 A, not the singular values in the tables, decide CG's speed."""
    A = strip(decades=3)
    G = A.to_dense().T @ A.to_dense()

    def spread(matrix):
        values = np.sort(np.linalg.eigvals(matrix).real)
        return values[-1] / values[0]

    diagonal, hood = (
        schwarz_inverse(A, blocks)[1].to_dense() for blocks in ("diagonal", "neighbourhood")
    )
    assert spread(hood @ G) < spread(diagonal @ G) < 1e-3 * spread(G)


def test_golub_kahan_approaches_the_svd_from_inside():
    s = np.geomspace(1, 1e-4, 60)
    dense = with_singular_values(s, 90)
    previous = 0.0
    for steps in (5, 15, 30, 45, 60):
        found = golub_kahan(*products(dense), dense.shape, tolerance=0, max_steps=steps)
        assert found.steps == steps
        assert found.largest <= 1 + 1e-12 and found.smallest >= 1e-4 * (1 - 1e-9)
        assert found.condition.value >= previous
        previous = found.condition.value
    assert found.complete and found.accuracy == 0
    assert found.condition.value == pytest.approx(1e4, rel=1e-8)
    assert "complete after 60 steps" in found.condition.method


def test_the_stated_accuracy_holds():
    s = np.concatenate([np.linspace(1, 2, 297), [0.5, 0.1, 0.01]])
    dense = with_singular_values(s, 320)
    found = golub_kahan(*products(dense), dense.shape, tolerance=1e-3)
    assert found.steps < 300 and not found.complete
    assert 0 < found.accuracy <= 1e-3
    assert np.min(np.abs(s - found.smallest)) <= found.accuracy * found.smallest
    assert found.condition.value == pytest.approx(200, rel=2e-3)
    assert f"had converged to {found.accuracy:.1e}" in found.condition.method
    early = golub_kahan(*products(dense), dense.shape, max_steps=3)
    assert early.condition.value <= 200 * (1 + 1e-12)


def test_repeated_singular_values_are_found_by_starting_again():
    found = golub_kahan(*products(np.eye(12)), (12, 12), tolerance=0)
    assert found.complete
    assert found.condition.value == pytest.approx(1)
    mixed = np.diag([1.0] * 8 + [1e-3])
    assert golub_kahan(*products(mixed), (9, 9), tolerance=0).condition.value == pytest.approx(1e3)


def test_ill_conditioning_is_seen_up_to_rounding():
    dense = with_singular_values(np.geomspace(1, 1e-12, 30), 50)
    found = golub_kahan(*products(dense), dense.shape)
    assert found.condition.value == pytest.approx(1e12, rel=1e-2)


def test_bad_input_is_refused_by_name(strip, monkeypatch):
    A = strip()
    (group,) = A.groups
    poisoned = BlockMatrix((group._replace(values=group.values.at[3, 0, 0].set(np.nan)),), A.shape)
    empty = A.select(np.zeros(0, dtype=int))
    for kappa in (condition_number, gramian_condition, schwarz_condition, singular_values):
        with pytest.raises(ValueError, match="block 3 of the matrix contains NaN"):
            kappa(poisoned)
        with pytest.raises(ValueError, match="no columns"):
            kappa(empty)
    monkeypatch.setattr("tessella.machine.memory.available_bytes", lambda *_: 100)
    with pytest.raises(MemoryError, match="singular values of a 40 x 18 matrix needs about"):
        singular_values(A)
    for spectrum in (gramian_spectrum, schwarz_spectrum):
        with pytest.raises(MemoryError, match="dense Gramian of order 18 needs about"):
            spectrum(A)
