"""Solutions that are not smooth: a corner singularity and a thin layer, for `enrichment`."""

from __future__ import annotations

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.features.enrichment import Corner
from tessella.gallery.reference.motz import Motz
from tessella.gallery.single import single
from tessella.geometry.box import Box
from tessella.geometry.functions import Function
from tessella.machine.arrays import Array
from tessella.problem.conditions import Dirichlet, Neumann
from tessella.problem.operators import D, Laplacian
from tessella.problem.problem import Equation, Problem


def motz() -> Problem:
    """Laplace(u) = 0 on [-1, 1] x [0, 1], u = 500 at the right end, u = 0 on the left half of the
    lower side, and du/dn = 0 elsewhere on the boundary (Motz 1947).

    Where the condition changes, at the origin, u is like sqrt(r) cos(theta / 2).
    """

    def cold(points: Array) -> NDArray[np.bool_]:
        x, y = points.T
        return (y == 0) & (x < 0)

    def insulated(points: Array) -> NDArray[np.bool_]:
        x, y = points.T
        return (y == 0) & (x > 0) & (x < 1)  # the point (1, 0) has the hot end's normal, too

    return Problem(
        domain=Box(x=(-1.0, 1.0), y=(0.0, 1.0)),
        equation=Equation(Laplacian()),
        conditions=[
            Dirichlet(500.0, on="xmax", name="hot end"),
            Dirichlet(0.0, on=cold, name="cold half"),
            Neumann(on=insulated, name="insulated half"),
            Neumann(on=("xmin", "ymax"), name="insulated sides"),
        ],
        exact=Motz(),
        name="motz",
    )


def motz_terms() -> list[Function]:
    """The first terms of the solution's own series, r^(k + 1/2) cos((k + 1/2) theta)."""
    return [Corner(math.pi, exponent=k + 0.5, wave="cos") for k in range(8)]


def boundary_layer(eps: float = 1e-4) -> Problem:
    """-eps u'' + u' = 1 on [0, 1], u = 0 at both ends: nearly x, and a layer of width eps at 1."""
    if not eps > 0:
        raise ValueError(f"eps must be positive, got {eps!r}")

    def exact(points: Array) -> Array:
        x, nothing = points[:, 0], math.exp(-1 / eps)
        return np.asarray(x - (np.exp((x - 1) / eps) - nothing) / (1 - nothing))

    return Problem(
        domain=Box(x=(0.0, 1.0)),
        equation=Equation(D(x=1) - eps * D(x=2), 1.0),
        conditions=[Dirichlet(0.0)],
        exact=exact,
        name="boundary-layer",
        parameters={"eps": eps},
    )


@lru_cache
def _layer(eps: float) -> Function:
    def layer(points: jax.Array) -> jax.Array:
        return jnp.exp((points[:, 0] - 1) / eps)

    return layer


def layer_terms(eps: float) -> list[Function]:
    """exp(-(1 - x) / eps)."""
    return [_layer(eps)]


MOTZ = single(
    motz,
    "Laplace's equation with a singularity where the boundary condition changes",
    subdomains=(4, 2),
    features=120,
    test_grid=(100, 50),
    enriched=4,
    enrichment=motz_terms,
)
"""Four terms of the singularity as enrichment: error 7e-12, without them 0.15."""

BOUNDARY_LAYER = single(
    boundary_layer,
    "-eps u'' + u' = 1, a layer of width eps at the outflow",
    subdomains=4,
    features=24,
    test_grid=(1_000,),
    enriched=1,
    enrichment=layer_terms,
)
"""The layer as enrichment: error 1e-14, without it 1."""
