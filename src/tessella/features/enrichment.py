"""Known functions as extra columns: what random features would need very many of to resolve.

A corner's r^(2/3) sin(2 theta/3) or a boundary layer's exp(-(1-x)/eps) is not smooth on the scale
of a subdomain, and no number of smooth features makes up for that. Handed in, such a function psi
gives every subdomain j the extra column omega_j psi (on boxes side by side: psi), which the local
filter judges with the features: where psi is smooth after all, it is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import isfunction

import jax
import jax.numpy as jnp

from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, function_name
from tessella.machine.arrays import AnyArray
from tessella.machine.printing import as_written


@dataclass(frozen=True, repr=False)
class Enrichment:
    """A function psi of the points, written with `jax.numpy`, as a column of the subdomains.

    where  a Box with some of the domain's axes: only subdomains that reach into it get the column.
           Leave it out unless psi means something near one place only, e.g. an angle that jumps
           elsewhere. Side by side it also keeps equal subdomains equal, which is faster.

    >>> import tessella as ts
    >>> import jax.numpy as jnp
    >>> layer = ts.Enrichment(lambda p: jnp.exp(-p[:, 0] / 0.01), where=ts.Box(x=(0, 0.1)))
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1)), 8)
    >>> ts.Basis(boxes, ts.RandomFeatures(20), enrichment=[layer]).active.ravel().tolist()
    [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    function: Function
    where: Box | None = None

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise TypeError(
                f"enrichment must be functions of the points, e.g. "
                f"enrichment=[lambda p: jnp.exp(-p[:, 0] / eps)], got {self.function!r}"
            )
        if self.where is not None and not isinstance(self.where, Box):
            raise TypeError(
                f"where of {function_name(self.function)} must be a Box, e.g. "
                f"Enrichment(psi, where=Box(x=(0.9, 1))), got {self.where!r}"
            )

    def __repr__(self) -> str:
        own = getattr(self.function, "__name__", "") if isfunction(self.function) else ""
        where = f", where={self.where!r}" if self.where else ""
        return f"Enrichment({own or repr(self.function)}{where})"

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


@dataclass(frozen=True, repr=False)
class Corner:
    """r^a sin(a theta) around a corner, or r^a cos(a theta): what corners put into a solution.

    opening   angle of the domain at the corner; theta runs from `start` to start + opening
    start     direction of the corner's first side, counterclockwise from the first axis
    at        where the corner is, in the first two coordinates
    exponent  a, by default pi / opening, the first singularity of the Laplacian with u = 0 on both
              sides; u = 0 on one side and du/dn = 0 on the other give half of that
    wave      "sin" vanishes on the first side, "cos" has no normal derivative there

    Equal corners share their compiled derivatives.

    >>> import tessella as ts
    >>> import math
    >>> corner = ts.Corner(1.5 * math.pi)  # as of an L
    >>> round(corner.power, 4)
    0.6667
    >>> ts.Enrichment(corner).name
    'r^0.6667 sin at corner (0, 0)'
    """

    opening: float
    start: float = 0.0
    at: tuple[float, float] = (0.0, 0.0)
    exponent: float | None = None
    wave: str = "sin"

    def __post_init__(self) -> None:
        if not 0 < self.opening <= 2 * math.pi:
            raise ValueError(f"opening must be an angle in (0, 2 pi], got {self.opening!r}")
        if self.wave not in ("sin", "cos"):
            raise ValueError(f"wave must be 'sin' or 'cos', got {self.wave!r}")

    def __repr__(self) -> str:
        return as_written(self)

    @property
    def __name__(self) -> str:
        place = ", ".join(f"{c:g}" for c in self.at)
        return f"r^{self.power:.4g} {self.wave} at corner ({place})"

    @property
    def power(self) -> float:
        return math.pi / self.opening if self.exponent is None else self.exponent

    def __call__(self, points: AnyArray) -> jax.Array:
        x, y = points[:, 0] - self.at[0], points[:, 1] - self.at[1]
        # Measured from the bisector, so that the angle jumps outside the domain.
        middle = self.start + self.opening / 2
        along = math.cos(middle) * x + math.sin(middle) * y
        across = math.cos(middle) * y - math.sin(middle) * x
        theta = jnp.arctan2(across, along) + self.opening / 2
        wave = jnp.sin if self.wave == "sin" else jnp.cos
        return jnp.sqrt(x**2 + y**2) ** self.power * wave(self.power * theta)


Functions = Sequence[Function | Enrichment]


def as_enrichment(
    given: Function | Enrichment | Functions, domain: Domain
) -> tuple[Enrichment, ...]:
    """One function or several, plain or as `Enrichment`, checked against the domain."""
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    made = tuple(one if isinstance(one, Enrichment) else Enrichment(one) for one in several)
    for one in made:
        unknown = [
            axis for axis in (one.where.axes if one.where else ()) if axis not in domain.axes
        ]
        if unknown:
            raise ValueError(
                f"where={one.where!r} of the enrichment {one.name!r} has the axis {unknown[0]!r}, "
                f"but the domain has {', '.join(domain.axes)}"
            )
    return made
