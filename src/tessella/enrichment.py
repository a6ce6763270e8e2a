"""Known functions as extra columns: what random features would need very many of to resolve.

A corner's r^(2/3) sin(2 theta/3) or a boundary layer's exp(-(1-x)/eps) is not smooth on the scale
of a subdomain, and no number of smooth features makes up for that. Handed in, such a function psi
gives every subdomain j the extra column omega_j psi (on boxes side by side: psi), which the local
filter judges with the features: where psi is smooth after all, it is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tessella.arrays import on_device
from tessella.decomposition import Decomposition
from tessella.domain import Array, Box, Domain
from tessella.operators import Function, Orders, check_values, directional, function_name


@dataclass(frozen=True)
class Enrichment:
    """A function psi of the points, written with `jax.numpy`, as a column of the subdomains.

    where  a Box with some of the domain's axes: only subdomains that reach into it get the column.
           Leave it out unless psi means something near one place only, e.g. an angle that jumps
           elsewhere. Side by side it also keeps equal subdomains equal, which is faster.
    """

    function: Function
    where: Box | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                f"enrichment must be functions of the points, e.g. "
                f"enrichment=[lambda p: jnp.exp(-p[:, 0] / eps)], got {self.function!r}"
            )
        if self.where is not None and not isinstance(self.where, Box):
            raise TypeError(
                f"where of {function_name(self.function)} must be a Box, e.g. "
                f"Enrichment(psi, where=Box(x=(0.9, 1))), got {self.where!r}"
            )

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


@dataclass(frozen=True)
class Corner:
    """r^a sin(a theta) around a corner, or r^a cos(a theta): what corners put into a solution.

    opening   angle of the domain at the corner; theta runs from `start` to start + opening
    start     direction of the corner's first side, counterclockwise from the first axis
    at        where the corner is, in the first two coordinates
    exponent  a, by default pi / opening, the first singularity of the Laplacian with u = 0 on both
              sides; u = 0 on one side and du/dn = 0 on the other give half of that
    wave      "sin" vanishes on the first side, "cos" has no normal derivative there

    Equal corners share their compiled derivatives.
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

    @property
    def __name__(self) -> str:
        place = ", ".join(f"{c:g}" for c in self.at)
        return f"r^{self.power:.4g} {self.wave} at corner ({place})"

    @property
    def power(self) -> float:
        return math.pi / self.opening if self.exponent is None else self.exponent

    def __call__(self, points: Any) -> Any:
        x, y = points[:, 0] - self.at[0], points[:, 1] - self.at[1]
        # Measured from the bisector, so that the angle jumps outside the domain.
        middle = self.start + self.opening / 2
        along = math.cos(middle) * x + math.sin(middle) * y
        across = math.cos(middle) * y - math.sin(middle) * x
        theta = jnp.arctan2(across, along) + self.opening / 2
        wave = jnp.sin if self.wave == "sin" else jnp.cos
        return jnp.sqrt(x**2 + y**2) ** self.power * wave(self.power * theta)


Functions = Sequence[Function | Enrichment]


def as_enrichment(given: Any, domain: Domain) -> tuple[Enrichment, ...]:
    """One function or several, plain or as `Enrichment`, checked against the domain."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    made = tuple(
        one if isinstance(one, Enrichment) else Enrichment(one)
        for one in (given if several else (given,))
    )
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


def active(decomposition: Decomposition, enrichment: Sequence[Enrichment]) -> Array:
    """1 where a subdomain has the column and 0 where not, shape (J, E)."""
    found = np.ones((decomposition.count, len(enrichment)))
    half = decomposition.half_widths
    for e, one in enumerate(enrichment):
        for axis, (low, high) in _limits(one, decomposition.domain):
            centre, reach = decomposition.centres[:, axis], half[:, axis]
            found[:, e] *= (centre + reach > low) & (centre - reach < high)
    return found


def enriched_values(
    decomposition: Decomposition,
    enrichment: Sequence[Enrichment],
    points: Array,
    needed: Mapping[Orders, np.ndarray],
) -> Array:
    """D^gamma psi_e at the points where `needed[gamma]`, 0 elsewhere; shape (E, G, n).

    A derivative is evaluated only where an operator uses it: the value of a corner singularity on
    the corner is finite, and its second derivatives there matter only if an equation is asked
    there.
    """
    found = np.zeros((len(enrichment), len(needed), len(points)))
    for e, one in enumerate(enrichment):
        near = _reached(decomposition, one, points)
        for g, (gamma, asked) in enumerate(needed.items()):
            at = np.flatnonzero(asked & near)
            what = function_name(one.function)
            what = f"the derivative {gamma} of {what}" if any(gamma) else what
            try:
                values = _derivative(one.function, gamma, points[at])
                found[e, g, at] = check_values(values, points[at], f"enrichment: {what}")
            except ValueError as error:
                raise ValueError(f"{error}; {_REMEDY}") from None
    return found


_REMEDY = (
    "keep the points off a singularity (an even or odd number of points_per_axis), or give the "
    "column to other subdomains with Enrichment(function, where=...)"
)

CHUNK = 1024
"""Points at which a function is evaluated at a time, so that each derivative compiles once."""


def _derivative(function: Function, gamma: Orders, points: Array) -> Array:
    """D^gamma psi as it comes, finite or not; its plain value may be NumPy code."""
    found = []
    for start in range(0, len(points), CHUNK):
        pick = np.minimum(np.arange(start, start + CHUNK), len(points) - 1)
        try:
            value = np.asarray(_compiled(function, gamma)(on_device(points[pick])))
        except jax.errors.TracerArrayConversionError:
            if not any(gamma):
                return np.asarray(function(points))
            raise TypeError(
                f"the enrichment {function_name(function)} must be differentiated, which needs "
                f"jax.numpy inside it: replace NumPy calls such as np.exp by jnp.exp"
            ) from None
        if value.shape not in ((), (CHUNK,)):
            return np.asarray(function(points))
        found.append(np.broadcast_to(value, CHUNK)[: len(points) - start])
    return np.concatenate(found) if found else np.zeros(0)


@lru_cache(maxsize=256)
def _compiled(function: Function, gamma: Orders) -> Callable[[jax.Array], jax.Array]:
    return jax.jit(directional(function, gamma))


def scales(norms: Array, extra: int) -> Array:
    """Factors of all columns, (J, C), for the filter; `norms` are the columns' lengths in each
    block, the last `extra` of which are enrichment.

    The filter's threshold is relative to a block's longest column. A function as large as
    1/eps^2 would raise it for all features, and a tiny one would be dropped by it. So each function
    gets the one factor that makes it as long as the longest feature of a block and nowhere longer.
    """
    factors = np.ones_like(norms)
    longest = norms[:, : norms.shape[1] - extra].max(axis=1)
    for column in range(norms.shape[1] - extra, norms.shape[1]):
        own = norms[:, column]
        used = (own > 0) & (longest > 0)
        if used.any():
            factors[:, column] = np.min(longest[used] / own[used])
    return factors


def _limits(one: Enrichment, domain: Domain) -> list[tuple[int, tuple[float, float]]]:
    if one.where is None:
        return []
    return [
        (domain.axis_index(axis), ends)
        for axis, ends in zip(one.where.axes, one.where.bounds, strict=True)
    ]


def _reached(decomposition: Decomposition, one: Enrichment, points: Array) -> np.ndarray:
    """The points inside a subdomain that has the column, or on its faces."""
    inside = np.ones(len(points), dtype=bool)
    if one.where is None:
        return inside
    members = active(decomposition, (one,))[:, 0] > 0
    centres, half = decomposition.centres[members], decomposition.half_widths[members]
    low, high = centres - half, centres + half
    if decomposition.equal:  # such subdomains fill a box
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
    inside[:] = False
    for a, b in zip(low, high, strict=True):
        near = 1e-12 * (b - a)
        inside |= np.all((points >= a - near) & (points <= b + near), axis=1)
    return inside
