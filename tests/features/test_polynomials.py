"""Products of Legendre's polynomials, and which of them a solution needs next."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import legendre

from tessella.accuracy import tuning
from tessella.accuracy.terms import first_terms, lowest, more_terms
from tessella.features.polynomials import Polynomials, product_derivatives
from tessella.features.random_features import Layer

DEGREES = ((0, 0, 0), (1, 0, 2), (3, 1, 0), (0, 4, 1), (2, 2, 2))
GAMMAS = tuple(g for g in itertools.product(range(3), repeat=3) if sum(g) <= 3)


def along(degree, order, z):
    own = legendre.Legendre.basis(degree).deriv(order) if order else legendre.Legendre.basis(degree)
    return np.sqrt(2 * degree + 1) * own(z)


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_derivatives_are_those_of_the_factors(convert, rng):
    z, rates = rng.uniform(-1, 1, (3, 1, 7)), np.array([2.0, 1.0, 0.5])
    (layer,) = Polynomials.of(DEGREES).draw(1, 3, seed=0)
    made = product_derivatives(
        Layer(*map(convert, layer)), [convert(c) for c in z], [convert(r) for r in rates], GAMMAS
    )
    for gamma in GAMMAS:
        expected = [
            np.prod(
                [r**g * along(n, g, c[0]) for n, g, r, c in zip(own, gamma, rates, z, strict=True)],
                axis=0,
            )
            for own in DEGREES
        ]
        np.testing.assert_allclose(made[gamma][0], expected, rtol=1e-12, atol=1e-12)


def test_the_lowest_come_by_total_degree():
    found = list(itertools.islice(lowest(3), 20))
    assert [sum(own) for own in found] == sorted(sum(own) for own in found)
    assert len(set(found)) == 20 and sum(found[-1]) == 3  # C(3 + 3, 3) up to the third


def test_the_first_have_all_squares():
    for dimension in (4, 40):
        found = first_terms(dimension)
        assert len(set(found)) == len(found) >= tuning.FEWEST_TERMS
        assert {tuple(2 * (i == k) for i in range(dimension)) for k in range(dimension)} <= {*found}


def test_large_coefficients_are_followed_and_small_ones_left():
    """Of an even function of the first variable, the next even degree."""
    known = dict.fromkeys(itertools.islice(lowest(4), 70), 1e-16)
    known |= {(0, 0, 0, 0): 1.0, (2, 0, 0, 0): 0.1, (4, 0, 0, 0): 0.01}
    found = more_terms(known, 40)
    assert len(set(found)) == len(found) == 40
    assert (6, 0, 0, 0) in found
    assert (0, 0, 0, 3) not in found
    untried = [own for own in found if own not in known and sum(own) == 5]
    assert len(untried) >= 0.25 * 40 - 4
