"""Coefficients that jump and are differentiated all the same: their fluxes would be lost.

D(x=1) @ (a * D(x=1)) is a u'' + a' u', and where a jumps its derivative is seen by no point. So
jumps are looked for: the largest differences between neighbours on lines through the domain are
halved again and again, and those that stay are jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.domain import Bounds, Domain
from tessella.geometry.functions import Function, function_name
from tessella.machine.arrays import Array
from tessella.machine.device import on_the_cpu
from tessella.problem.normal_form import NormalComponent

if TYPE_CHECKING:
    from tessella.problem.problem import Problem

LINES, NODES = 64, 64
"""Lines along every axis, and points on each."""

FOLLOWED = 512
"""Differences that are halved at a time; also the points at which a function is called at once, so
that what JAX compiles for it is compiled for one shape."""

HALVINGS = 36
"""After which continuous functions differ no more, unless they are as steep as a jump."""

JUMP = 1e-3
"""Part of a function's range that must remain for a jump."""

SEED = 20_041


def check_jumps(problem: Problem) -> None:
    """Refuse coefficients that jump where an operator differentiates them."""
    seen: set[Function] = set()
    for statement in problem.statements:
        for term in statement.operator.expand(problem.domain.axes):
            for function, gamma in term.functions:
                if not any(gamma) or isinstance(function, NormalComponent) or function in seen:
                    continue
                seen.add(function)
                if _known(function, problem.domain):
                    continue
                found = jump(function, problem.domain)
                if found is not None:
                    _refuse(function, statement.name, found)
                _CHECKED[function] = problem.domain.bounds


_CHECKED: WeakKeyDictionary[Function, Bounds] = WeakKeyDictionary()
"""Where functions have been looked at: slabs of time, and copies of a problem, need not again."""


def _known(function: Function, domain: Domain) -> bool:
    known = _CHECKED.get(function)
    if known is None or len(known) != domain.dimension:
        return False
    return all(
        a <= low and high <= b for (a, b), (low, high) in zip(known, domain.bounds, strict=True)
    )


def _refuse(function: Function, statement: str, found: tuple[Array, float, float]) -> None:
    place = ", ".join(f"{c:.6g}" for c in found[0])
    raise ValueError(
        f"{function_name(function)} jumps from {found[1]:.6g} to {found[2]:.6g} at ({place}), and "
        f"{statement!r} differentiates it, which would lose the flux there: make that place a "
        f"boundary between regions, Divided(domain, core=...), with an Equation for each region "
        f"and *Transmission('core', 'rest', flux=(k_core, k_rest)) among the conditions"
    )


def jump(function: Function, domain: Domain) -> tuple[Array, float, float] | None:
    """A place where a function jumps inside the domain (not between regions of a divided one), and
    its values on both sides."""
    a, b = _neighbours(domain)
    together = _same_region(domain, a, b)
    a, b = a[together], b[together]
    if not len(a):
        return None
    at_a, at_b = _values(function, a), _values(function, b)
    every = np.concatenate([at_a, at_b])
    if np.all(np.isnan(every)):
        return None
    reach = float(np.nanmax(every) - np.nanmin(every))
    steepest = np.argsort(-np.nan_to_num(np.abs(at_b - at_a)))[:FOLLOWED]
    a, b, at_a, at_b = a[steepest], b[steepest], at_a[steepest], at_b[steepest]
    for _ in range(HALVINGS):
        if not np.nanmax(np.abs(at_b - at_a), initial=0.0) > JUMP * reach:
            return None
        middle = (a + b) / 2
        at = _values(function, middle)
        left = np.nan_to_num(np.abs(at - at_a)) > np.nan_to_num(np.abs(at_b - at))
        b, at_b = np.where(left[:, None], middle, b), np.where(left, at, at_b)
        a, at_a = np.where(left[:, None], a, middle), np.where(left, at_a, at)
    sizes = np.nan_to_num(np.abs(at_b - at_a))
    sizes[~_same_region(domain, a, b)] = 0.0
    worst = int(np.argmax(sizes))
    if not sizes[worst] > JUMP * reach:
        return None
    return a[worst], float(at_a[worst]), float(at_b[worst])


def _neighbours(domain: Domain) -> tuple[Array, Array]:
    """Pairs of neighbouring points on random lines along all axes, both inside."""
    draw, d = np.random.default_rng(SEED), domain.dimension
    ticks = (np.arange(NODES) + 0.5 + 0.3 * draw.random()) / (NODES + 0.5)
    first, second = [], []
    for axis in range(d):
        share = np.repeat(draw.random((LINES if d > 1 else 1, 1, d)), NODES, axis=1)
        share[..., axis] = ticks
        x = domain.lower + (domain.upper - domain.lower) * share
        first.append(x[:, :-1].reshape(-1, d))
        second.append(x[:, 1:].reshape(-1, d))
    a, b = np.concatenate(first), np.concatenate(second)
    inside = domain.contains(a) & domain.contains(b)
    return a[inside], b[inside]


def _same_region(domain: Domain, a: Array, b: Array) -> NDArray[np.bool_]:
    same = np.ones(len(a), dtype=bool)
    for region in domain.regions:
        same &= domain.inside(region, a) == domain.inside(region, b)
    return same


def _values(function: Function, points: Array) -> Array:
    """In calls of one shape; values that are not finite are not compared. A GPU would take ten
    times as long, most of it to compile."""
    found = []
    for start in range(0, len(points), FOLLOWED):
        own = points[np.minimum(np.arange(start, start + FOLLOWED), len(points) - 1)]
        with on_the_cpu(True):
            values = np.asarray(function(own), dtype=np.float64)
        found.append(np.broadcast_to(values, (FOLLOWED,))[: len(points) - start])
    values = np.concatenate(found)
    return np.where(np.isfinite(values), values, np.nan)
