"""The wave equation in two space dimensions and time (the paper's third problem)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from tessella.gallery.entry import Entry
from tessella.gallery.preset import Network, Preset, PresetMethod, fixed, side_by_side
from tessella.gallery.reference.series import GaussianWave
from tessella.geometry.box import Box
from tessella.problem.operators import D, Laplacian
from tessella.problem.problem import Ansatz, Equation, Problem


def wave(T: float = 0.5, c: float = 1.0, printed: bool = False, **parameters: float) -> Problem:
    """Laplace(u) - u_tt / c^2 = 0 on [-1, 1]^2 x [0, T], u = 0 on the walls, a Gaussian of width
    `lambda` at rest in the middle at t = 0. The exact solution is a double sine series.

    All conditions are built in. `printed` takes the ansatz as the paper's text has it: its walls
    are at x = 0 and 1 instead of -1 and 1, and its start term is not smooth in the middle.
    """
    width = parameters.pop("lambda", 0.2)
    if parameters:
        raise ValueError(f"wave has no parameter {', '.join(parameters)}")
    for name, value in (("lambda", width), ("T", T), ("c", c)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value!r}")
    d, tau = width / 2.5, width / (2.5 * c)
    near = 0.0 if printed else 1.0

    def wall(x: jax.Array) -> jax.Array:
        return jnp.tanh((x + near) / d) * jnp.tanh((1 - x) / d)

    def multiplier(points: jax.Array) -> jax.Array:
        x, y, t = points[:, 0], points[:, 1], points[:, 2]
        return wall(x) * wall(y) * jnp.tanh(t / tau) ** 2

    def offset(points: jax.Array) -> jax.Array:
        x, y, t = points[:, 0], points[:, 1], points[:, 2]
        if printed:
            radius = jnp.sqrt(x**2 + y**2) / width
            start = jnp.exp(-0.5 * ((0.6 * t / tau) ** 2 + radius) ** 2)
        else:
            start = jnp.exp(-0.5 * (1.5 * c * t / width) ** 2 - 0.5 * (x**2 + y**2) / width**2)
        return wall(x) * wall(y) * start

    return Problem(
        domain=Box(x=(-1.0, 1.0), y=(-1.0, 1.0), t=(0.0, T)),
        equation=Equation(Laplacian("x", "y") - (1 / c**2) * D(t=2)),
        ansatz=Ansatz(multiplier, offset),
        exact=GaussianWave(width, c),
        name="wave",
        parameters={"lambda": width, "T": T, "c": c},
    )


def _as_run_counts(subdomains: tuple[int, ...]) -> tuple[int, ...]:
    return (4 * subdomains[0], 4 * subdomains[1], 10)


def _printed_counts(subdomains: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(4 * S for S in subdomains)


NETWORKS = {"pinn": Network(2, 128), "fbpinn": Network(1, 8)}
"""Sizes of the paper's baselines."""

WAVE = Entry(
    "wave",
    "wave equation on a square, a Gaussian of width lambda spreading, in (2+1)D",
    {
        "as-run": Preset(
            {"lambda": 0.2, "T": 0.5, "c": 1.0},
            PresetMethod(subdomains=8, overlap=2.9, features=8),
            wave,
            _as_run_counts,
            networks=NETWORKS,
        ),
        "printed": Preset(
            {"lambda": 0.2, "T": 1.0, "c": 1.0},
            PresetMethod(subdomains=8, overlap=2.9, features=8, constant=False, bias=False),
            partial(wave, printed=True),
            _printed_counts,
            networks=NETWORKS,
        ),
        "best": Preset(
            {"lambda": 0.2, "T": 0.5, "c": 1.0},
            side_by_side((4, 4, 2), 550, 3),
            wave,
            fixed(32, 32, 10),
            networks=NETWORKS,
        ),
    },
)
"""As run it reproduces the paper's Table 3, which goes to T = 0.5; as printed its ansatz forces
u = 0 on x = 0 and y = 0. The best is what a tolerance chose, frozen: error about 7e-6 on the grid
of the preset as run."""
