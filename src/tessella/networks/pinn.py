"""PINN: one network on the whole domain, trained on the residual (Raissi et al. 2019)."""

from __future__ import annotations

from tessella.features.random_features import Activation, RandomFeatures
from tessella.linalg.iterative.iteration import Progress
from tessella.networks.fit import fit
from tessella.networks.training import Training
from tessella.overlap.basis import Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solution.solution import Solution

POINTS = {1: 400, 2: 64, 3: 16}
"""Collocation points per axis, if none are given: about 4,000 from two dimensions on."""


def pinn(
    problem: Problem,
    *,
    hidden: int = 64,
    depth: int = 2,
    activation: str | Activation = "tanh",
    scale: float = 1.0,
    seed: int = 0,
    collocation: Grid | None = None,
    training: Training | None = None,
    test_grid: Grid | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve by training one global network with Adam, to compare with `solve`.

    The network has `depth` hidden layers of `hidden` units and a linear output layer; its inputs
    are scaled to [-1, 1]. Loss and weights are those of `solve`. For the same points too, pass
    `collocation=Grid(points_per_axis=...)`. It is an FBPINN on an undivided domain.
    """
    d = problem.domain.dimension
    if problem.domain.periodic:
        raise ValueError(
            f"pinn trains one network on the whole domain, which cannot wrap around the periodic "
            f"axis {problem.domain.periodic[0]!r}: use fbpinn with two subdomains or more, or solve"
        )
    basis = Basis(
        Decomposition(problem.domain, 1),
        RandomFeatures(hidden, depth, activation, scale=scale),
        seed,
    )
    collocation = collocation or Grid(points_per_axis=POINTS.get(d, max(2, round(4096 ** (1 / d)))))
    rows = collocation.rows(problem, basis)
    return fit("pinn", problem, basis, rows, training or Training(), test_grid, progress)
