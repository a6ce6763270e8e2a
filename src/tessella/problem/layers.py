"""Layers behind the walls of a box in which waves die away, whatever their angle.

In a perfectly matched layer space itself is stretched by a complex factor 1 + sigma/(i omega), so a
wave enters without reflection and decays by exp(-integral of sigma cos(theta) / c). In time that is
an equation of second order with a memory phi for every axis (Grote and Sim 2010),

    u_tt + (sigma_x + sigma_y) u_t + sigma_x sigma_y u = c^2 Laplace u + div phi + f
    phi_x,t + sigma_x phi_x = c^2 (sigma_y - sigma_x) u_x      (and so on for y),

where every sigma depends on its own axis and vanishes inside. The layer is exact whatever sigma is;
cells that end where it begins see a number, and lose nothing by its jump. What is left at the end
of the layer meets the first-order condition u_t + sigma_y u + (c^2 u_n + phi_n) / c = 0. Waves of
one frequency need no memory (`problem.outgoing`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array
from tessella.problem.absorbing import AbsorbingCondition
from tessella.problem.conditions import Condition, Initial, IntegralCondition
from tessella.problem.operators import D, Field, Normal, Operator
from tessella.problem.outgoing import with_stretched_layers
from tessella.problem.problem import Ansatz, Equation, Problem


def with_layers(problem: Problem, width: float, damping: float = 8.0) -> Problem:
    """Waves with walls that let them out at any angle, on a larger box.

    The walls with an `Absorbing` condition, or without time an `Outgoing` one, get a layer of this
    width behind them, in which waves die away: those at an angle theta to the normal come back
    smaller by exp(-2 damping cos theta) (1 - cos theta) / (1 + cos theta), the last factor being
    all that the condition alone achieves. Data must vanish in the layers.

    In time the equation must be u_tt = c^2 Laplace u (+ f) with a number c, in one or two
    dimensions of space; beside its unknown the new problem has a memory for every axis, `memory_x`
    and so on. Without time it is Laplace(u) + k^2 u = f for u = a + i b, with one equation for a
    and one for b, on a box or around holes in it; k may be a function that does not change across
    layers.

    Use it with coupling="interfaces", and cells that end where the layers begin, since the damping
    jumps there, or begins to grow: take the width of a cell, or give edges. The larger `damping`,
    the more features a cell of the layer needs; 8 leaves less than 1e-4 of waves up to 60 degrees.

    >>> import tessella as ts
    >>> import numpy as np
    >>> wave = ts.Equation(ts.D(t=2) - ts.Laplacian())
    >>> pulse = ts.Initial(lambda p: np.exp(-20 * (p[:, 0] ** 2 + p[:, 1] ** 2)))
    >>> square = ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 3))
    >>> lake = ts.Problem(square, wave, [ts.Absorbing(), pulse, ts.InitialVelocity(0.0)])
    >>> sea = ts.with_layers(lake, width=0.5)
    >>> sea.domain, sea.fields
    (Box(x=(-1.5, 1.5), y=(-1.5, 1.5), t=(0, 3)), ('u', 'memory_x', 'memory_y'))
    >>> a, b = ts.Field("a"), ts.Field("b")
    >>> helmholtz = ts.Laplacian() + 20.0**2
    >>> source = lambda p: -np.exp(-80 * (p[:, 0] ** 2 + p[:, 1] ** 2))
    >>> antenna = ts.Problem(
    ...     ts.Box(x=(-1, 1), y=(-1, 1)),
    ...     [ts.Equation(helmholtz @ a, source), ts.Equation(helmholtz @ b, name="imaginary")],
    ...     ts.Outgoing(20.0, of=(a, b)),
    ...     fields=("a", "b"),
    ... )
    >>> ts.with_layers(antenna, width=0.5).domain
    Box(x=(-1.5, 1.5), y=(-1.5, 1.5))
    """
    for name, value in (("width", width), ("damping", damping)):
        if not (np.isreal(value) and 0 < float(value) < math.inf):
            raise ValueError(f"with_layers() {name} must be a positive number, got {value!r}")
    domain = problem.domain
    if "t" not in domain.axes:
        return with_stretched_layers(problem, float(width), float(damping))
    if not isinstance(domain, Box) or domain.dimension > 3:
        raise ValueError(
            f"with_layers() needs a Box with time and one or two axes of space, got {domain!r}"
        )
    space = [axis for axis in domain.axes if axis != "t"]
    open_walls = _open_walls(problem)
    c2, equation = _wave_equation(problem)
    u = Field(problem.fields[0])
    memory = {axis: Field(f"memory_{axis}") for axis in space}
    bounds = dict(zip(domain.axes, domain.bounds, strict=True))
    sigma, larger = {}, dict(bounds)
    for axis in space:
        low, high = bounds[axis]
        below, above = (f"{axis}{end}" in open_walls for end in ("min", "max"))
        larger[axis] = (low - below * width, high + above * width)
        if below or above:
            rate = damping * math.sqrt(c2) / width
            sigma[axis] = Damping(domain.axis_index(axis), low, high, rate)
    conditions = [
        dataclasses.replace(c, operator=_of(c.operator, u, domain))
        for c in problem.conditions
        if not isinstance(c, AbsorbingCondition)
    ]
    conditions += [_outlet(wall, u, memory, sigma, math.sqrt(c2)) for wall in open_walls]
    conditions += [Initial(0.0, of=field) for field in memory.values()]
    return dataclasses.replace(
        problem,
        domain=Box(**larger).closed(*domain.periodic),
        equation=_stretched(equation, u, memory, sigma, c2),
        conditions=conditions,
        ansatz=Ansatz(),
        exact=None,
        fields=(u.name, *(field.name for field in memory.values())),
    )


@dataclass(frozen=True)
class Damping:
    """sigma along one axis: zero inside, a number behind either wall."""

    axis: int
    low: float
    high: float
    rate: float

    def __call__(self, points: Array) -> Array:
        x = points[:, self.axis]
        return np.where((x < self.low) | (x > self.high), self.rate, 0.0)


def _open_walls(problem: Problem) -> tuple[str, ...]:
    """The walls that waves leave through; whatever a layer has no answer to is refused."""
    found: list[str] = []
    for c in problem.conditions:
        if isinstance(c, IntegralCondition):
            raise ValueError(
                f"{c.name!r} is an integral over the domain, which layers enlarge: drop it"
            )
        if isinstance(c, AbsorbingCondition):
            if callable(c.on):
                raise ValueError(f"{c.name!r} lies where a function says: name whole walls instead")
            found += c.faces(problem.domain)
    if not found:
        raise ValueError(
            "with_layers() puts layers behind walls that absorb, but there is none: add "
            "Absorbing(), or Absorbing(on=...) for some walls"
        )
    return tuple(dict.fromkeys(found))


def _wave_equation(problem: Problem) -> tuple[float, Equation]:
    """c^2, and the equation in the form u_tt - c^2 Laplace u = f."""
    if len(problem.equations) > 1 or len(problem.fields) > 1 or problem.ansatz_of() != Ansatz():
        raise ValueError(
            "with_layers() needs one equation for one unknown without an ansatz: state what the "
            "ansatz builds in as conditions"
        )
    (equation,), axes = problem.equations, problem.domain.axes
    found: dict[Orders, float] = {}
    for term in equation.operator.expand(axes):
        if term.functions:
            found.clear()
            break
        found[term.orders] = found.get(term.orders, 0.0) + term.factor
    unit = {axis: tuple(2 * int(a == axis) for a in axes) for axis in axes}
    front = found.get(unit["t"], 0.0)
    squares = [-found.get(unit[axis], 0.0) / (front or 1.0) for axis in axes if axis != "t"]
    if not front or len(found) != len(axes) or min(squares) <= 0 or not np.ptp(squares) == 0:
        raise ValueError(
            f"with_layers() knows the wave equation u_tt = c^2 Laplace u with a number c, got "
            f"{equation.operator!r}: keep Absorbing alone for others"
        )
    rhs = equation.rhs
    scaled = (lambda p: rhs(p) / front) if callable(rhs) else rhs / front
    return squares[0], dataclasses.replace(equation, rhs=scaled)


def _of(operator: Operator, u: Field, domain: Box) -> Operator:
    """An operator of the only unknown, with its name."""
    named = any(term.field is not None for term in operator.expand(domain.axes))
    return operator if named else operator @ u


def _stretched(
    equation: Equation,
    u: Field,
    memory: dict[str, Field],
    sigma: dict[str, Damping],
    c2: float,
) -> list[Equation]:
    """The equation and those of the memories."""
    wave: Operator = D(t=2) @ u
    corner: Operator = u
    for own in sigma.values():
        wave, corner = wave + own * (D(t=1) @ u), own * corner
    if len(sigma) > 1:
        wave = wave + corner
    found = []
    for axis, phi in memory.items():
        along = D(**{axis: 1})
        wave = wave - c2 * (D(**{axis: 2}) @ u) - along @ phi
        law: Operator = D(t=1) @ phi
        for other, own in sigma.items():
            if other == axis:
                law = law + own * phi + c2 * (own * (along @ u))
            else:
                law = law - c2 * (own * (along @ u))
        found.append(Equation(law, name=phi.name.replace("_", " in ")))
    return [dataclasses.replace(equation, operator=wave), *found]


def _outlet(
    wall: str, u: Field, memory: dict[str, Field], sigma: dict[str, Damping], c: float
) -> Condition:
    """At the end of a layer: the first-order condition in stretched coordinates."""
    axis = wall[:-3]
    flux = c * (Normal(axis) @ D(**{axis: 1}) @ u) + (1 / c) * (Normal(axis) @ memory[axis])
    operator = D(t=1) @ u + flux
    for other, own in sigma.items():
        if other != axis:
            operator = operator + own * u
    return Condition(operator, 0.0, wall, name=f"outlet {wall}")
