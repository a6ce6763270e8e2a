"""How finely things vary along every axis, in degrees of polynomials.

A refinement starts with subdomains that resolve what the problem itself shows: its data and the
scales of its operator. Where a solution must be refined, its own expansion in every subdomain says
along which axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from numpy.polynomial import legendre

from tessella.accuracy import tuning
from tessella.geometry.box import Box, Face
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, Orders
from tessella.geometry.gauss import gauss_rule
from tessella.machine.arrays import Array
from tessella.problem.normal_form import NormalComponent, Term, symbol
from tessella.problem.problem import Problem

SEED = 20_021


def degrees(problem: Problem, pieces: int = 1) -> tuple[int, ...]:
    """Degree per axis that the problem's data and the scales of its operators ask for.

    Data are right-hand sides, values of conditions, variable coefficients and the ansatz; on a
    shape, where lines end anywhere, they are not looked at. The scales of c_m D^m + c_j D^j + ...
    along an axis are its wavenumbers or inverse lengths (c_j / c_m)^(1/(m - j)). The solution may
    be finer than both, seldom much coarser. Where they are rates of growth and decay, most of it is
    in layers at the ends of the axis (see `layers`); if they are thin, `CALM` degrees are enough
    between them. Data too fine for the points on a line are looked at in `pieces` of it.
    """
    domain = problem.domain
    draw = np.random.default_rng(SEED)
    found = np.zeros(domain.dimension)
    for function, fixed in _data(problem) if isinstance(domain, Box) else ():
        for axis in range(domain.dimension):
            if fixed is None or fixed[0] != axis:
                lines = lines_along(domain.lower, domain.upper, axis, tuning.NODES, draw)
                if fixed is not None:
                    lines[..., fixed[0]] = fixed[1]
                degree = _degree(function, lines)
                if pieces > 1 and degree > tuning.NODES / 2:
                    degree = pieces * _degree(function, _in_pieces(domain, lines, axis, pieces))
                found[axis] = max(found[axis], degree)
    inside = domain.scatter(tuning.NODES, draw)
    graded = np.array([isinstance(domain, Box) and a not in domain.periodic for a in domain.axes])
    for equation, field in itertools.product(problem.equations, problem.fields):
        terms = problem.terms(equation.operator, field)
        asked = np.ceil(_wavenumbers(terms, inside) * (domain.upper - domain.lower) / 2)
        calm = np.array(
            [not _oscillates(own) for own in _exponents(terms, inside[: tuning.EXPONENTS])]
        )
        calm &= graded & (asked > tuning.THIN)
        found = np.maximum(found, np.where(calm, tuning.CALM, asked))
    return tuple(int(n) for n in found)


def layers(problem: Problem) -> tuple[tuple[float, float], ...]:
    """Per axis, how fast a solution may decay away from its lower and from its upper end.

    With the coefficients on an end frozen and all other derivatives left out, solutions along an
    axis are sums of exp(lambda x). Those with a negative real part make layers at the lower end,
    those with a positive one at the upper end. Coefficients may be singular on the end itself.
    """
    domain = problem.domain
    assert isinstance(domain, Box)
    found = np.zeros((domain.dimension, 2))
    draw = np.random.default_rng(SEED)
    for axis, name in enumerate(domain.axes):
        for side in (0, 1) if name not in domain.periodic else ():
            on_end = domain.scatter(tuning.EXPONENTS, draw)
            low, high = domain.bounds[axis]
            inwards = (1 - 2 * side) * tuning.BESIDE * (high - low)
            on_end[:, axis] = domain.bounds[axis][side] + inwards
            for equation, field in itertools.product(problem.equations, problem.fields):
                rates = _exponents(problem.terms(equation.operator, field), on_end)[axis].real
                fastest = float(np.max(rates if side else -rates, initial=0.0))
                found[axis, side] = max(found[axis, side], fastest)
    return tuple((low, high) for low, high in found.tolist())


def total_degree(columns: int, dimension: int) -> float:
    """Of as many polynomials as there are columns."""
    return float(math.factorial(dimension) * columns) ** (1 / dimension)


def _data(problem: Problem) -> Iterator[tuple[Function, tuple[int, float] | None]]:
    """Every function the problem is stated with; on a face, with the face's axis and position."""
    domain = problem.domain
    assert isinstance(domain, Box)
    inside: list[object] = [equation.rhs for equation in problem.equations]
    for field in problem.fields:
        ansatz = problem.ansatz_of(field)
        inside += [ansatz.multiplier, ansatz.offset]
        for equation in problem.equations:
            for term in problem.terms(equation.operator, field):
                inside += [f for f, _ in term.functions if not isinstance(f, NormalComponent)]
    for given in dict.fromkeys(inside):
        if callable(given):
            yield given, None
    for condition in problem.conditions:
        for name in condition.faces(domain):
            face = domain.face(name)
            if callable(condition.value):
                yield _facing(condition.value, face), (face.axis, face.position)


def _facing(value: Any, face: Face) -> Function:
    """Data on a face as a function of the points alone."""
    if not getattr(value, "takes_normals", False):
        return value

    def facing(x: Array) -> Array:
        normals = np.zeros_like(x)
        normals[:, face.axis] = face.sign
        return value(x, normals)

    return facing


def _wavenumbers(terms: Sequence[Term], points: Array) -> Array:
    """(c_j / c_m)^(1/(m - j)) per axis, the largest over j < m, with root mean squares."""
    size = {alpha: float(np.sqrt(np.mean(c**2))) for alpha, c in symbol(terms, points).items()}
    k = np.zeros(points.shape[1])
    for axis in range(len(k)):
        pure = {alpha[axis]: c for alpha, c in size.items() if sum(alpha) == alpha[axis] and c > 0}
        m = max(pure, default=0)
        for j, c in pure.items():
            if j < m:
                k[axis] = max(k[axis], (c / pure[m]) ** (1 / (m - j)))
    return k


def _exponents(terms: Sequence[Term], points: Array) -> list[Array]:
    """Per axis, all roots lambda of sum_j c_j lambda^j, with c_j of D^j there, at all points."""
    nothing: Any = np.zeros(0, dtype=np.complex128)
    try:
        table = symbol(terms, points)
    except ValueError:  # no values there: others will say so where it matters
        return [nothing] * points.shape[1]
    found = []
    for axis in range(points.shape[1]):
        pure = {
            alpha[axis]: np.broadcast_to(c, len(points))
            for alpha, c in table.items()
            if sum(alpha) == alpha[axis]
        }
        top = max(pure, default=0)
        zero = np.zeros(len(points))
        polynomials = np.stack([pure.get(j, zero) for j in range(top, -1, -1)], axis=1)
        size = np.max(np.abs(polynomials), axis=1, keepdims=True)
        polynomials = np.where(np.abs(polynomials) > tuning.VANISHED * size, polynomials, 0.0)
        roots = [np.roots(p) for p in np.unique(polynomials, axis=0)]
        found.append(np.concatenate([nothing, *roots]))
    return found


def _oscillates(exponents: Array) -> bool:
    """Whether solutions turn as they grow or decay."""
    turn = np.max(np.abs(exponents.imag), initial=0.0)
    return bool(turn >= tuning.TURNING * np.max(np.abs(exponents.real), initial=0.0))


def lines_along(
    lower: Array, upper: Array, axis: int, nodes: int, draw: np.random.Generator
) -> Array:
    """Gauss points on random lines along an axis of a box, shape (tuning.LINES, nodes, d)."""
    d = len(lower)
    share = np.repeat(draw.random((tuning.LINES, 1, d)), nodes, axis=1)
    share[..., axis] = (gauss_rule(nodes)[0] + 1) / 2
    return lower + (upper - lower) * share


def _in_pieces(domain: Domain, lines: Array, axis: int, pieces: int) -> Array:
    """The same lines cut into pieces with as many points each."""
    low, high = domain.bounds[axis]
    found = np.repeat(lines, pieces, axis=0)
    piece = np.tile(np.arange(pieces), len(lines))[:, None]
    found[..., axis] = low + (piece * (high - low) + found[..., axis] - low) / pieces
    return found


def spectrum(values: Array) -> Array:
    """Squares of the coefficients in orthonormal Legendre polynomials, lines along the rows."""
    return np.asarray(values @ _legendre(values.shape[1])) ** 2


@cache
def _legendre(n: int) -> Array:
    """From values at Gauss points to coefficients."""
    nodes, weights = gauss_rule(n)
    values = legendre.legvander(nodes, n - 1) * np.sqrt(np.arange(n) + 0.5)
    return np.asarray(weights[:, None] * values)


def _degree(function: Function, lines: Array) -> int:
    """The degree beyond which less than `VISIBLE` of the function is left."""
    shape = lines.shape[:2]
    flat = lines.reshape(-1, lines.shape[2])
    values = np.broadcast_to(np.asarray(function(flat), dtype=np.float64), (len(flat),))
    values = values.reshape(shape)
    energy = spectrum(values[np.all(np.isfinite(values), axis=1)]).sum(axis=0)
    left = np.cumsum(energy[::-1])[::-1]
    return int(np.count_nonzero(left > tuning.VISIBLE**2 * left[0]) - 1) if left[0] > 0 else 0


def turning_rate(problem: Problem, wavenumbers: Array) -> tuple[float, bool]:
    """How fast waves of these wavenumbers along the axes change in time, and whether they turn
    rather than decay: the roots s of the symbol with exp(s t + i k x), coefficients frozen."""
    domain = problem.domain
    axis = domain.axis_index("t")
    x = domain.scatter(tuning.EXPONENTS, np.random.default_rng(SEED))
    roots: list[complex] = []
    for region in domain.regions or (None,):
        fields = [f for f in problem.fields if problem.region(f) in (region, None)]
        held = [e for e in problem.equations if e.where in (region, None)]
        own = x[domain.inside(region, x)] if isinstance(domain, Divided) and region else x
        tables = [[problem.symbol(e.operator, own, None, f) for f in fields] for e in held]
        for along, k in enumerate(wavenumbers):
            if along != axis and len(own):
                roots += _roots(tables, len(own), axis, along, float(k))
    found = np.array(roots, dtype=complex)
    return float(np.max(np.abs(found), initial=0.0)), _oscillates(found)


def _roots(
    tables: list[list[dict[Orders, Array]]], some: int, axis: int, along: int, k: float
) -> list[complex]:
    """s at every point with det A(s) = 0, where A_ef(s) = sum_alpha c_alpha s^a_t (i k)^a_x is what
    equation e makes of unknown f, as eigenvalues of the companion pencil; those that are infinite
    belong to unknowns without a derivative in time."""
    order = max((alpha[axis] for row in tables for own in row for alpha in own), default=0)
    n = len(tables)
    if not order or any(len(row) != n for row in tables):
        return []
    A = np.zeros((some, order + 1, n, n), dtype=complex)
    for (e, row), f in itertools.product(enumerate(tables), range(n)):
        for alpha, c in row[f].items():
            if not any(m for i, m in enumerate(alpha) if i not in (axis, along)):
                A[:, alpha[axis], e, f] += c * (1j * k) ** alpha[along]
    found: list[complex] = []
    for one in np.unique(A.reshape(some, -1).round(12), axis=0).reshape(-1, *A.shape[1:]):
        left, right = np.eye(order * n, k=n, dtype=complex), np.eye(order * n, dtype=complex)
        left[-n:] = -np.concatenate(list(one[:-1]), axis=1)
        right[-n:, -n:] = one[-1]
        top, bottom = scipy.linalg.eigvals(left, right, homogeneous_eigvals=True)
        finite = np.abs(bottom) > tuning.VANISHED * np.abs(top)
        found += (top[finite] / bottom[finite]).tolist()
    return found
