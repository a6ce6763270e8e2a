"""Overlapping subdomains cover the domain, and their windows are a partition of unity."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.overlap.matrices import evaluate_matrix
from tessella.overlap.windows import bump, bump_sums, quotient

ORDERS = 4


def line(a=0.0, b=1.0):
    return ts.Box(x=(a, b))


def test_centres_and_widths_follow_the_paper():
    decomposition = ts.Decomposition(ts.Box(x=(0, 2), y=(-1, 1)), (5, 3), (2.0, 3.0))
    np.testing.assert_allclose(decomposition.spacing, [0.5, 1.0])
    np.testing.assert_allclose(decomposition.half_width, [0.5, 1.5])
    assert decomposition.count == 15
    centres = itertools.product([0, 0.5, 1, 1.5, 2], [-1, 0, 1])
    np.testing.assert_allclose(decomposition.centres, list(centres))
    corner, last = decomposition.multi_index[[0, -1]]
    assert tuple(corner) == (0, 0)
    assert tuple(last) == (4, 2)


def test_one_number_serves_all_axes():
    square = ts.Box(x=(0, 1), y=(0, 1))
    assert ts.Decomposition(square, 3, 2.9) == ts.Decomposition(square, (3, 3), (2.9, 2.9))


def test_an_axis_with_one_subdomain_is_not_divided():
    decomposition = ts.Decomposition(ts.Box(x=(0, 1), y=(2, 4)), (3, 1))
    assert np.all(decomposition.centres[:, 1] == 3.0)
    assert decomposition.half_width[1] == 1.0
    subdomain, _ = decomposition.seen(np.array([[0.5, 2.0], [0.5, 4.0]]))
    assert set(subdomain) == {1}


@given(
    subdomains=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    overlap=st.tuples(st.floats(1.05, 4.0), st.floats(1.05, 4.0)),
    seed=st.integers(0, 99),
)
def test_seen_lists_exactly_the_points_inside(subdomains, overlap, seed):
    domain = ts.Box(x=(-1, 1), y=(0, 3))
    decomposition = ts.Decomposition(domain, subdomains, overlap)
    inside = np.random.default_rng(seed).uniform(domain.lower, domain.upper, (20, 2))
    points = np.concatenate([inside, domain.grid((2, 2))])
    subdomain, point = decomposition.seen(points)
    near = np.abs(points[None] - decomposition.centres[:, None]) < decomposition.half_width
    expected = np.argwhere((near | (np.array(subdomains) == 1)).all(axis=2))
    np.testing.assert_array_equal(np.stack([subdomain, point], axis=1), expected)
    assert np.bincount(point).max() <= decomposition.pairs_per_point()


@given(subdomains=st.integers(2, 8), overlap=st.floats(0.1, 0.95), count=st.integers(9, 40))
def test_a_gap_is_reported_with_the_smallest_overlap_that_closes_it(subdomains, overlap, count):
    points = line().grid((count,))
    distance = np.abs(points - ts.Decomposition(line(), subdomains).centres[:, 0]).min(axis=1)
    needed = 2 * distance.max() * (subdomains - 1)
    if overlap > needed:
        ts.Decomposition(line(), subdomains, overlap).seen(points)
        return
    with pytest.raises(ValueError, match="use an overlap above") as caught:
        ts.Decomposition(line(), subdomains, overlap).seen(points)
    first = points[distance * (subdomains - 1) >= overlap / 2][0, 0]
    assert f"the first at ({first:.6g})" in str(caught.value)
    stated = float(re.search(r"overlap above ([\d.e-]+)", str(caught.value))[1])
    assert stated == pytest.approx(needed, rel=1e-3)
    ts.Decomposition(line(), subdomains, 1.001 * stated).seen(points)


@jax.jit
def windows(x, centre, half_width, sums):
    return quotient(bump(x, centre, half_width, ORDERS), list(sums))


@given(
    subdomains=st.integers(1, 7),
    overlap=st.floats(1.05, 5.0),
    length=st.floats(0.1, 10.0),
    seed=st.integers(0, 99),
)
def test_windows_sum_to_one_and_their_derivatives_to_zero(subdomains, overlap, length, seed):
    decomposition = ts.Decomposition(line(-1.0, length), subdomains, overlap)
    x = np.random.default_rng(seed).uniform(-1.0, length, 30)
    x[:2] = -1.0, length
    half_width = decomposition.half_width[0]
    sums = bump_sums(decomposition, x[:, None], ORDERS)[0]
    total, largest = np.zeros((ORDERS + 1, 30)), np.zeros(ORDERS + 1)
    for centre in decomposition.centres[:, 0]:
        if subdomains == 1:
            window = [np.ones(30)] + [np.zeros(30)] * ORDERS
        else:
            window = windows(x, centre, half_width, sums)
        total += np.stack(window)
        largest = np.maximum(largest, np.abs(window).max(axis=1))
    np.testing.assert_allclose(total[0], 1.0, rtol=1e-13)
    for order in range(1, ORDERS + 1):
        assert np.abs(total[order]).max() <= 1e-10 * max(
            largest[order], (np.pi / half_width) ** order
        )


@pytest.mark.parametrize(
    ("subdomains", "overlap"), [((3,), 1.5), ((4,), 2.9), ((3, 2), 2.0), ((2, 3, 2), (1.3, 2.0, 3))]
)
def test_windows_of_a_basis_are_a_partition_of_unity(subdomains, overlap):
    """The constant feature's column is the window itself, in any dimension."""
    d = len(subdomains)
    domain = ts.Box(**dict(zip("xyz"[:d], [(0, 1), (-1, 1), (0, 3)][:d], strict=True)))
    features = ts.RandomFeatures(1, constant=True)
    basis = ts.Basis(ts.Decomposition(domain, subdomains, overlap), features)
    points = domain.grid((5,) * d)
    highest = 4 if d < 3 else 2
    alphas = [a for a in itertools.product(range(highest + 1), repeat=d) if sum(a) <= highest]
    copies = np.tile(points, (len(alphas), 1))
    chosen = np.repeat(np.eye(len(alphas)), len(points), axis=0)
    window = np.zeros(basis.columns)
    window[1::2] = 1.0
    matrix = evaluate_matrix(basis, copies, dict(zip(alphas, chosen.T, strict=True)))
    total = np.asarray(matrix.matvec(window)).reshape(len(alphas), -1)
    dense = matrix.to_dense()[:, 1::2].reshape(len(alphas), len(points), -1)
    assert np.all(dense[alphas.index((0,) * d)] >= 0)
    for alpha, values, size in zip(alphas, total, np.abs(dense).max(axis=(1, 2)), strict=True):
        expected = 0.0 if any(alpha) else 1.0
        np.testing.assert_allclose(values, expected, atol=1e-12 * max(size, 1.0))


def paper_window(x, centre, half_width):
    inside = jnp.abs(x - centre) < half_width
    return jnp.where(inside, (1 + jnp.cos(jnp.pi * (x - centre) / half_width)) ** 2, 0.0)


def test_the_bump_and_its_derivatives_are_those_of_the_paper():
    x = jnp.linspace(-0.4, 1.4, 41)

    @jax.jit
    def by_differentiation(x):
        f = lambda t: paper_window(t, 0.5, 0.7)  # noqa: E731
        found = []
        for _ in range(ORDERS + 1):
            found.append(f(x))
            f = lambda t, f=f: jax.jvp(f, (t,), (jnp.ones_like(t),))[1]  # noqa: E731
        return found

    in_closed_form = jax.jit(lambda x: bump(x, 0.5, 0.7, ORDERS))(x)
    for order, expected in enumerate(by_differentiation(x)):
        scale = (np.pi / 0.7) ** order
        np.testing.assert_allclose(in_closed_form[order], expected, atol=1e-12 * scale)


def test_the_bump_vanishes_outside_and_is_smooth_at_its_edge():
    x = jnp.array([-1.0, -0.5, 0.5, 2.0, 0.5 - 1e-9])
    values = jax.jit(lambda x: bump(x, 0.0, 0.5, ORDERS))(x)
    np.testing.assert_array_equal(np.array(values)[:, :4], 0.0)
    assert np.all(np.abs(np.array(values)[:4, 4]) < 1e-4)


@pytest.mark.parametrize("distance", [1e-2, 1e-5, 1e-8])
def test_the_bump_is_accurate_relative_to_itself_where_it_vanishes(distance):
    """4 cos^4 near the edge is 4 (pi e / 2)^4 (1 + O(e^2)) at a relative distance e."""
    value = float(bump(jnp.array([1.0 - distance]), 0.0, 1.0, 0)[0][0])
    leading = 4 * (np.pi * distance / 2) ** 4
    assert value == pytest.approx(leading, rel=4 * distance**2 + 1e-7)


def test_quotient_inverts_the_product_rule():
    """Of (x^2 e^x) / x^2, whose derivatives are all e^x."""
    x = np.array([0.5, 1.0, 2.0])
    top = [jnp.asarray(np.exp(x) * (x**2 + 2 * k * x + k * (k - 1))) for k in range(ORDERS + 1)]
    bottom = [jnp.asarray(b) for b in (x**2, 2 * x, 2 + 0 * x, 0 * x, 0 * x)]
    for derivative in quotient(top, bottom):
        np.testing.assert_allclose(derivative, np.exp(x), rtol=1e-10)
