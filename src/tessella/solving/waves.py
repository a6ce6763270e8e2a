"""Which problems have functions of their own: plane waves, or else exponentials."""

from __future__ import annotations

from tessella.cells.boxes.tiling import Tiling
from tessella.features.exponentials import exponentials
from tessella.features.plane_waves import PlaneWaves, plane_waves
from tessella.geometry.functions import Orders
from tessella.problem.problem import Ansatz, Problem
from tessella.problem.slabs import TIME


def waves_of(problem: Problem, tiling: Tiling, count: int) -> PlaneWaves | None:
    """Plane waves or else exponentials, where the equation is one with constant coefficients,
    without a source and in time, and all cells are equal."""
    domain = problem.domain
    if TIME not in domain.axes or not tiling.equal or problem.ansatz_of() != Ansatz():
        return None
    if len(problem.equations) > 1 or len(problem.fields) > 1 or domain.regions:
        return None
    (equation,) = problem.equations
    terms = equation.operator.expand(domain.axes)
    if callable(equation.rhs) or equation.rhs or any(term.functions for term in terms):
        return None
    coefficients: dict[Orders, float] = {}
    for term in terms:
        coefficients[term.orders] = coefficients.get(term.orders, 0.0) + term.factor
    given = coefficients, tiling.half_widths[0], domain.axis_index(TIME), count
    return plane_waves(*given) or exponentials(*given)
