"""Integrals over space at one time, by Gauss points between the edges of subdomains."""

from __future__ import annotations

import math

import numpy as np

from tessella.cells.boxes.basis import CellBasis
from tessella.cells.boxes.tiling import Tiling
from tessella.cells.system.shaped import integral_points
from tessella.features.random_features import RandomFeatures
from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.gauss import gauss_rule
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis
from tessella.overlap.quadrature import edges_along
from tessella.problem.operators import Identity
from tessella.problem.problem import Equation, Problem
from tessella.problem.slabs import TIME, section

FEWEST, RICHER = 8, 1.25
"""Gauss points per axis of a subdomain: at least, and in parts of the features along an axis. Less
than what is exact to rounding: features are that many in all axes, and space has one less."""


def space_points(domain: Domain, basis: AnyBasis) -> tuple[Array, Array]:
    """Points (n, d - 1) and weights of an integral over space, between the edges of subdomains."""
    axes = [i for i, name in enumerate(domain.axes) if name != TIME]
    if not axes:
        return np.zeros((1, 0)), np.ones(1)
    edges = [edges_along(basis, i) for i in axes]
    richest = max(level.features.columns for level in basis.levels)
    enough = max(FEWEST, math.ceil(RICHER * richest ** (1 / domain.dimension)))
    at_rest = section(domain)
    if at_rest is not None:
        if all(len(own) == 2 for own in edges):
            edges[0] = np.insert(edges[0], 1, edges[0].mean())
        tiling = Tiling(at_rest, [own.tolist() for own in edges])
        only = Problem(at_rest, Equation(Identity()))
        return integral_points(only, CellBasis(tiling, RandomFeatures(enough ** len(axes))))
    if not isinstance(domain, Box):
        raise ValueError(f"integrals over space need a Box or a shape.over(t=...), got {domain!r}")
    nodes, shares = gauss_rule(enough)
    ticks, weights = [], np.ones(1)
    for own in edges:
        half = np.diff(own) / 2
        ticks.append(((own[:-1] + half)[:, None] + half[:, None] * nodes).ravel())
        weights = np.multiply.outer(weights, (half[:, None] * shares).ravel()).ravel()
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1)
    return points.reshape(-1, len(axes)), weights
