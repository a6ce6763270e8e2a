"""Which polynomials a solution in many dimensions needs: those next to the large ones it has.

All of them up to a degree are too many, and most are of no use: a sum of functions of one variable
each has no mixed ones, an even function no odd ones. So the set grows by what the coefficients of
the last solution show, and by the lowest degrees not yet tried, which chance upon what no
coefficient shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from tessella.accuracy import tuning
from tessella.features.polynomials import HIGHEST
from tessella.geometry.functions import Orders
from tessella.solution.solution import Solution

Terms = tuple[Orders, ...]
"""Degrees along every axis of one polynomial after the other."""

Sizes = Mapping[Orders, float]
"""How large the coefficients of all polynomials were that have been tried."""


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
            yield tuple(np.bincount(chosen, minlength=dimension).tolist()) if degree else (
                (0,) * dimension
            )


def sizes(solution: Solution) -> list[dict[Orders, float]]:
    """The coefficients of every unknown, in parts of its largest."""
    found, end = [], 0
    for basis in solution.basis.levels:
        degrees = np.asarray(basis.layers[0].weights[0]).astype(int).tolist()
        a = np.abs(solution.coefficients[end : end + basis.columns][: len(degrees)])
        end += basis.columns
        found.append(dict(zip(map(tuple, degrees), (a / (a.max() or 1.0)).tolist(), strict=True)))
    return found


def more_terms(known: Sizes, count: int) -> Terms:
    """`count` of them: those whose coefficients are large, or should be large since those of one
    or two degrees less along an axis are; a part is kept for the lowest not yet tried."""
    hoped = dict(known)
    for alpha, size in known.items():
        for axis, step in itertools.product(range(len(alpha)), (1, 2)):
            beta = (*alpha[:axis], alpha[axis] + step, *alpha[axis + 1 :])
            if beta not in known and beta[axis] <= HIGHEST:
                hoped[beta] = max(hoped.get(beta, 0.0), tuning.FALL * size)
    largest = sorted(hoped, key=lambda alpha: (-hoped[alpha], sum(alpha)))
    chosen = dict.fromkeys(largest[: count - int(tuning.UNTRIED * count)])
    others = (a for a in lowest(len(next(iter(known)))) if a not in known and a not in chosen)
    return (*chosen, *itertools.islice(others, count - len(chosen)))
