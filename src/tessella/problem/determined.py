"""Are there enough conditions? Counted axis by axis, which finds what was forgotten."""

from __future__ import annotations

from tessella.geometry.box import Box
from tessella.problem.conditions import IntegralCondition, PointCondition
from tessella.problem.problem import Problem


def missing_conditions(problem: Problem) -> str:
    """A remark where an axis has fewer conditions than the equation's order along it; or nothing.

    Only counts: an equation of order m along an axis takes m conditions at its two ends. Silent
    where counting says little: on shapes, for systems, with an ansatz, measurements or integrals.
    """
    domain = problem.domain
    other = any(isinstance(c, PointCondition | IntegralCondition) for c in problem.conditions)
    if not isinstance(domain, Box) or len(problem.fields) > 1 or other:
        return ""
    if callable(problem.multiplier(problem.fields[0])):
        return ""
    held = [name for c in problem.conditions for name in c.faces(domain)]
    terms = [term for e in problem.equations for term in e.operator.expand(domain.axes)]
    for i, axis in enumerate(domain.axes):
        order = max((term.orders[i] for term in terms), default=0)
        ends = (f"{axis}min", f"{axis}max")
        count = sum(name in ends for name in held)
        if count >= order or axis in domain.periodic:
            continue
        bare = [name for name in ends if name not in held] or list(ends)
        where = bare[0] if axis == "t" else " or ".join(bare)
        return (
            f"the equation has order {order} along {axis}, but there "
            f"{'is 1 condition' if count == 1 else f'are {count} conditions'} at its ends: the "
            f"solution may not be determined; add a condition on {where}"
        )
    return ""
