"""Which polynomials a solution in many dimensions needs: those next to the large ones it has.

All of them up to a degree are too many, and most are of no use: a sum of functions of one variable
each has no mixed ones, an even function no odd ones. So the set grows by what those contribute that
have been tried, and by the lowest degrees not yet tried, which find what no other one shows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from tessella.accuracy import tuning
from tessella.features.polynomials import HIGHEST, product_derivatives
from tessella.features.random_features import Layer
from tessella.geometry.functions import Orders
from tessella.solution.solution import Solution

SEED = 20_041

Terms = tuple[Orders, ...]
"""Degrees along every axis of one polynomial after the other."""

Sizes = Mapping[Orders, float]
"""How much all polynomials contribute that have been tried."""


def first_terms(dimension: int) -> Terms:
    """Up to the square of every variable, and the lowest total degrees up to a number."""
    own = np.eye(dimension, dtype=int)
    powers = [(0,) * dimension, *map(tuple, own.tolist()), *map(tuple, (2 * own).tolist())]
    more = max(0, tuning.FEWEST_TERMS - len(powers))
    known = dict.fromkeys(powers)
    return (*powers, *itertools.islice((a for a in lowest(dimension) if a not in known), more))


def lowest(dimension: int) -> Iterator[Orders]:
    """All of them by total degree."""
    for degree in itertools.count():
        for chosen in itertools.combinations_with_replacement(range(dimension), degree):
            yield tuple(np.bincount(np.array(chosen, int), minlength=dimension).tolist())


def sizes(solution: Solution) -> list[dict[Orders, float]]:
    """Of every unknown what each polynomial contributes inside, root mean square, in parts of the
    largest."""
    x = solution.problem.domain.scatter(tuning.INTERIOR, np.random.default_rng(SEED))
    found, end = [], 0
    for basis in solution.basis.levels:
        own, (layer,) = basis.decomposition, basis.layers
        z = ((x - own.centres[0]) / own.half_widths[0]).T
        nothing = (0,) * len(z)
        one = Layer(layer.weights[0], layer.biases[0])
        values = product_derivatives(one, list(z), [np.ones(1)] * len(z), (nothing,))[nothing]
        a = solution.coefficients[end : end + len(values)]
        made = np.abs(a) * np.sqrt(np.mean(np.asarray(values) ** 2, axis=1))
        degrees = map(tuple, np.asarray(layer.weights[0]).astype(int).tolist())
        found.append(dict(zip(degrees, (made / (made.max() or 1.0)).tolist(), strict=True)))
        end += basis.columns
    return found


def more_terms(known: Sizes, count: int, error: float = 1.0) -> Terms:
    """`count` of them: those that contribute far more than the `error` of the last solution, then
    those that contribute most, or should, by those that come before them; a part is kept for the
    lowest not yet tried."""
    hoped = dict(known)
    for alpha in known:
        for axis, degree in enumerate(alpha):
            for following in (1, 2) if degree == 0 else (degree + 2,):
                beta = _with(alpha, axis, following)
                if beta not in hoped and following <= HIGHEST:
                    before = [known.get(own, 0.0) for own in _before(beta)]
                    hoped[beta] = tuning.FALL * math.prod(before) ** (1 / len(before))
    certain = {alpha for alpha, size in known.items() if size > tuning.CERTAIN * error}
    largest = sorted(hoped, key=lambda own: (own not in certain, -hoped[own], sum(own)))
    chosen = dict.fromkeys(largest[: count - int(tuning.UNTRIED * count)])
    others = (a for a in lowest(len(next(iter(known)))) if a not in known and a not in chosen)
    return (*chosen, *itertools.islice(others, count - len(chosen)))


def _before(alpha: Orders) -> list[Orders]:
    """Those of two degrees less along one axis: an odd one after an odd one. So what is even stays
    even, and what has no mixed terms gets none."""
    return [_with(alpha, axis, max(n - 2, 0)) for axis, n in enumerate(alpha) if n]


def _with(alpha: Orders, axis: int, degree: int) -> Orders:
    return (*alpha[:axis], degree, *alpha[axis + 1 :])
