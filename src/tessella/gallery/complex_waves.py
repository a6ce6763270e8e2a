"""Complex amplitudes as two real unknowns, their real part `a` and imaginary part `b`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from tessella.gallery.entry import need_positive
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.machine.arrays import Array
from tessella.problem.conditions import Condition, Dirichlet, Initial
from tessella.problem.operators import D, Field, Identity, Laplacian, NormalDerivative
from tessella.problem.problem import Equation, Problem

A, B = Field("a"), Field("b")


def helmholtz_complex(k: float = 20.0) -> Problem:
    """Laplace(u) + k^2 u = 0 on the unit square with impedance walls, du/dn - i k u = g.

    The exact field is that of a point source at (-0.2, 0.4), just outside: u = H_0(k r), Hankel's
    outgoing wave. Walls that absorb make it well posed at every k.
    """
    need_positive(k=k)
    source = np.array([-0.2, 0.4])

    def field(points: Array) -> Array:
        return scipy.special.hankel1(0, k * np.linalg.norm(points - source, axis=1))

    def wall_data(normal: Array) -> Callable[[Array], Array]:
        def g(points: Array) -> Array:
            offset = points - source
            r = np.linalg.norm(offset, axis=1)
            slope = -k * scipy.special.hankel1(1, k * r) * (offset @ normal) / r
            return slope - 1j * k * field(points)

        return g

    domain = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    conditions: list[Condition] = []
    for name, face in domain.faces.items():
        g = wall_data(face.sign * np.eye(2)[face.axis])
        slope = NormalDerivative()
        conditions += [
            Condition(slope @ A + k * B, _part(g, np.real), name, name=f"impedance {name}, real"),
            Condition(
                slope @ B - k * A, _part(g, np.imag), name, name=f"impedance {name}, imaginary"
            ),
        ]
    return Problem(
        domain=domain,
        equation=[
            Equation((Laplacian() + k**2) @ A, name="real part"),
            Equation((Laplacian() + k**2) @ B, name="imaginary part"),
        ],
        conditions=conditions,
        exact={"a": _part(field, np.real), "b": _part(field, np.imag)},
        fields=("a", "b"),
        name="helmholtz-complex",
        parameters={"k": k},
    )


def schroedinger(x0: float = 2.0, T: float = 2.0) -> Problem:
    """i psi_t = -psi_xx / 2 + x^2 psi / 2 on [-8, 8]: a packet swings from x0 without spreading.

    The exact solution is the coherent state of the harmonic oscillator.
    """
    need_positive(T=T)
    if not abs(x0) <= 3:
        raise ValueError(f"x0 must lie in [-3, 3], far from the walls at -8 and 8, got {x0!r}")

    def psi(points: Array) -> Array:
        x, t = points[:, 0], points[:, 1]
        phase = t / 2 + x0 * x * np.sin(t) - x0**2 * np.sin(2 * t) / 4
        return np.pi**-0.25 * np.exp(-((x - x0 * np.cos(t)) ** 2) / 2 - 1j * phase)

    def potential(points: Array) -> Array:
        return points[:, 0] ** 2 / 2

    energy = -0.5 * D(x=2) + potential * Identity()
    start = {"a": _part(psi, np.real), "b": _part(psi, np.imag)}
    return Problem(
        domain=Box(x=(-8.0, 8.0), t=(0.0, T)),
        equation=[
            Equation(D(t=1) @ A - energy @ B, name="real part"),
            Equation(D(t=1) @ B + energy @ A, name="imaginary part"),
        ],
        conditions=[
            *(Dirichlet(0.0, of=w) for w in (A, B)),
            *(Initial(start[w.name], of=w) for w in (A, B)),
        ],
        exact=start,
        fields=("a", "b"),
        name="schroedinger",
        parameters={"x0": x0, "T": T},
    )


def _part(
    function: Callable[[Array], Array], take: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    return lambda points: np.asarray(take(function(points)))


HELMHOLTZ_COMPLEX = single(
    helmholtz_complex,
    "complex Helmholtz with impedance walls, as two real unknowns",
    subdomains=(4, 4),
    features=200,
    test_grid=(100, 100),
)
"""Chosen by hand, after what a tolerance found."""

SCHROEDINGER = single(
    schroedinger,
    "Schroedinger equation: a swinging packet, as two real unknowns",
    subdomains=(8, 2),
    features=250,
    test_grid=(160, 40),
)
"""Chosen by hand, after what a tolerance found."""
