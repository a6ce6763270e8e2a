"""Waves of one frequency that leave: what holds at walls, and layers behind them.

A complex amplitude u = a + i b stands for Re(u exp(-i omega t)), so a wave exp(i k x) travels to
the right. In a matched layer an axis is stretched by s = 1 + i sigma, which turns that wave into
one that decays by exp(-k integral of sigma):

    u_xx / s^2 - s' u_x / s^3 + (the same along y) + k^2 u = f.

sigma grows from 0 like the cube of the depth. Where it begins u and u_x are what they are without a
layer, so that a and b need no fluxes beside them; a jump of s would be one of u_x.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tessella.geometry.box import Box
from tessella.geometry.combinations import Combination
from tessella.geometry.domain import Domain
from tessella.machine.arguments import is_number
from tessella.machine.arrays import Array, namespace
from tessella.problem.conditions import Condition, IntegralCondition, On
from tessella.problem.normal_form import Term
from tessella.problem.operators import D, Field, Identity, NormalDerivative
from tessella.problem.problem import Ansatz, Equation, Problem

POWER = 3
"""sigma grows like this power of the depth: 1e-6 of a source's field is wrong, where cells do not
end at the layer 5e-5; with squares 4e-7 and 2e-3."""

SAME = 1e-8
"""Part by which the k of walls may differ from that of the equation."""


@dataclass(frozen=True)
class OutgoingCondition(Condition):
    """The real or the imaginary part of du/dn = i k u."""

    k: float = 0.0
    pair: tuple[str, str] = ("", "")


def Outgoing(
    k: float,
    of: Sequence[Field],
    on: On = None,
    weight: float | None = None,
    name: str = "outgoing",
) -> tuple[Condition, Condition]:
    """du/dn = i k u for u = a + i b, so that waves of that wavenumber leave through the wall.

    `of` names the real and the imaginary part, of which both are conditions: unpack them into the
    list of a problem. A point source makes Hankel's H_0^(1)(k r). Waves that meet the wall at an
    angle theta are reflected by (1 - cos theta) / (1 + cos theta), unless `with_layers` puts a
    layer behind it.

    >>> import tessella as ts
    >>> real, imaginary = ts.Outgoing(20.0, of=(ts.Field("a"), ts.Field("b")), on="xmax")
    >>> real.name, imaginary.on
    ('outgoing, real', ('xmax',))
    """
    if not is_number(k) or not 0 < float(k) < math.inf:
        raise ValueError(f"{name} k must be a positive number, got {k!r}")
    fields = tuple(of) if isinstance(of, Sequence) else (of,)
    if len(fields) != 2 or not all(isinstance(field, Field) for field in fields):
        raise TypeError(
            f"{name} of={of!r}: name the real and the imaginary part, e.g. "
            f"of=(Field('a'), Field('b'))"
        )
    a, b = fields
    slope, pair = NormalDerivative(), (a.name, b.name)
    return (
        OutgoingCondition(slope @ a + k * b, 0.0, on, weight, f"{name}, real", k, pair),
        OutgoingCondition(slope @ b - k * a, 0.0, on, weight, f"{name}, imaginary", k, pair),
    )


def with_stretched_layers(problem: Problem, width: float, damping: float) -> Problem:
    """Helmholtz's equation on a larger domain, with layers behind walls that waves leave by."""
    box = _box(problem.domain)
    walls, k, pair = _open_walls(problem, box)
    stretches, larger = {}, dict(zip(box.axes, box.bounds, strict=True))
    for i, axis in enumerate(box.axes):
        low, high = larger[axis]
        below, above = (f"{axis}{end}" in walls for end in ("min", "max"))
        if below or above:
            steep = (POWER + 1) * damping / (k * width)
            stretches[axis] = Stretch(i, low, high, width, steep)
            larger[axis] = (low - below * width, high + above * width)
    kept = [c for c in problem.conditions if not isinstance(c, OutgoingCondition)]
    end = 1 + 1j * (POWER + 1) * damping / (k * width)
    return dataclasses.replace(
        problem,
        domain=_enlarged(problem.domain, Box(**larger).closed(*box.periodic)),
        equation=[_stretched(e, problem, pair, stretches, k) for e in problem.equations],
        conditions=[*kept, *(c for wall in walls for c in _end(wall, k * end, pair))],
        exact=None,
    )


@dataclass(frozen=True)
class Stretch:
    """s - 1 = i sigma along one axis: 0 inside, growing behind either wall."""

    axis: int
    low: float
    high: float
    width: float
    steep: float

    def factors(self, points: Array) -> tuple[Array, Array]:
        """What a layer adds in front of the second derivative and of the first: 1 / s^2 - 1 and
        -s' / s^3."""
        xp = namespace(points)
        x = points[:, self.axis]
        depth = (xp.maximum(x - self.high, 0.0) - xp.maximum(self.low - x, 0.0)) / self.width
        s = 1 + 1j * self.steep * xp.abs(depth) ** POWER
        slope = 1j * self.steep * POWER * xp.abs(depth) ** (POWER - 1) * xp.sign(depth) / self.width
        return 1 / s**2 - 1, -slope / s**3


@dataclass(frozen=True)
class Factor:
    """The real or imaginary part of what a stretch puts in front of a derivative."""

    stretch: Stretch
    order: int
    imaginary: bool

    def __call__(self, points: Array) -> Array:
        found = self.stretch.factors(points)[2 - self.order]
        return found.imag if self.imaginary else found.real


def _stretched(
    equation: Equation,
    problem: Problem,
    pair: tuple[str, str],
    stretches: dict[str, Stretch],
    k: float,
) -> Equation:
    """The equation of the real or the imaginary part; what a layer does to its Laplacian is
    added."""
    name, factor = _laplacian(equation, problem, k)
    own, other = Field(name), Field(pair[name == pair[0]])
    sign = -1.0 if name == pair[0] else 1.0
    operator = equation.operator
    for axis, stretch in stretches.items():
        for order in (2, 1):
            along = D(**{axis: order})
            operator = operator + factor * (Factor(stretch, order, False) * (along @ own))
            operator = operator + sign * factor * (Factor(stretch, order, True) * (along @ other))
    return dataclasses.replace(equation, operator=operator)


def _laplacian(equation: Equation, problem: Problem, k: float) -> tuple[str, float]:
    """The unknown whose Laplacian an equation contains, and how often."""
    axes = problem.domain.axes
    found: dict[tuple[str | None, tuple[int, ...]], float] = {}
    plain: dict[str | None, float] = {}
    terms = equation.operator.expand(axes)
    for term in terms:
        if not any(term.orders) and not term.functions:
            plain[term.field] = plain.get(term.field, 0.0) + term.factor
        if any(term.orders):
            key = term.field, term.orders
            found[key] = math.nan if term.functions else found.get(key, 0.0) + term.factor
    second = {tuple(2 * int(a == axis) for a in axes) for axis in axes}
    factors, names = set(found.values()), {name for name, _ in found}
    if len(factors) != 1 or len(names) != 1 or {alpha for _, alpha in found} != second:
        raise ValueError(
            f"with_layers() knows Helmholtz's equation, Laplace(u) + k^2 u = f, for the real and "
            f"the imaginary part, got {equation.operator!r} in {equation.name!r}: keep Outgoing "
            f"alone for others"
        )
    ((name,), (factor,)) = names, factors
    _check_k(terms, plain.get(name, 0.0) / factor, k, equation)
    assert name is not None
    return name, factor


def _check_k(terms: Sequence[Term], squared: float, k: float, equation: Equation) -> None:
    """Numbers are compared; a function of the points is believed to be k^2 at the walls."""
    varies = any(term.functions and not any(term.orders) for term in terms)
    if not varies and abs(squared - k**2) > SAME * k**2:
        raise ValueError(
            f"Outgoing has k = {k:g}, but {equation.name!r} has k^2 = {squared:g}: give both the "
            f"same k"
        )


def _end(wall: str, ks: complex, pair: tuple[str, str]) -> list[Condition]:
    """Where a layer ends: du/dn = i k s u."""
    a, b = map(Field, pair)
    slope, plain = NormalDerivative(), Identity()
    each = (
        slope @ a + ks.real * (plain @ b) + ks.imag * (plain @ a),
        slope @ b - ks.real * (plain @ a) + ks.imag * (plain @ b),
    )
    names = ("real", "imaginary")
    return [
        Condition(own, 0.0, wall, name=f"outlet {wall}, {name}")
        for own, name in zip(each, names, strict=True)
    ]


def _box(domain: Domain) -> Box:
    """The box that a domain is, or is cut out of."""
    box = domain
    while isinstance(box, Combination) and box.kind == "-":
        box = box.left
    if not isinstance(box, Box):
        raise ValueError(
            f"with_layers() needs a Box, or a Box - shape with holes in it, got {domain!r}"
        )
    return box


def _enlarged(domain: Domain, box: Box) -> Domain:
    if isinstance(domain, Combination):
        return _enlarged(domain.left, box) - domain.right
    return box


def _open_walls(problem: Problem, box: Box) -> tuple[tuple[str, ...], float, tuple[str, str]]:
    """The walls that waves leave by, their k, and the names of both parts; whatever a layer has no
    answer to is refused."""
    given = [c for c in problem.conditions if isinstance(c, OutgoingCondition)]
    if not given:
        raise ValueError(
            "with_layers() puts layers behind walls that waves leave by, but there is none: add "
            "*Outgoing(k, of=(a, b)), or Absorbing() where there is an axis 't'"
        )
    k, pair = given[0].k, given[0].pair
    walls: list[str] = []
    for c in given:
        if callable(c.on):
            raise ValueError(f"{c.name!r} lies where a function says: name whole walls instead")
        walls += c.faces(problem.domain)
        if (c.k, c.pair) != (k, pair):
            raise ValueError(
                f"{c.name!r} has k = {c.k:g} of {c.pair}, another one k = {k:g} of {pair}: layers "
                f"need one k"
            )
    for wall in walls:
        if wall not in box.faces:
            raise ValueError(
                f"{given[0].name!r} lies on {wall!r}, which is no side of {box!r}: name sides, "
                f"e.g. on={box.walls!r}"
            )
    for own in problem.conditions:
        if isinstance(own, IntegralCondition):
            raise ValueError(
                f"{own.name!r} is an integral over the domain, which layers enlarge: drop it"
            )
    plain = all(problem.ansatz_of(name) == Ansatz() for name in problem.fields)
    if set(problem.fields) != set(pair) or len(problem.equations) != 2 or not plain:
        raise ValueError(
            f"with_layers() needs one equation for each of {pair[0]!r} and {pair[1]!r} without an "
            f"ansatz: state what the ansatz builds in as conditions"
        )
    return tuple(dict.fromkeys(walls)), k, pair
