"""FBPINN: a network per subdomain, joined by windows, all layers trained (Moseley et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.features.random_features import Activation, RandomFeatures
from tessella.linalg.iterative.iteration import Progress
from tessella.networks.fit import fit
from tessella.networks.training import Training
from tessella.overlap.basis import Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solution.solution import Solution


def fbpinn(
    problem: Problem,
    *,
    subdomains: int | Sequence[int],
    hidden: int,
    depth: int = 1,
    overlap: float | Sequence[float] = 2.0,
    activation: str | Activation = "tanh",
    scale: float = 1.0,
    oversampling: float = 2.0,
    seed: int = 0,
    collocation: Grid | None = None,
    training: Training | None = None,
    test_grid: Grid | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve by training one network per subdomain with Adam, to compare with `solve`.

    Each network has `depth` hidden layers of `hidden` units and a linear output layer with a bias:
    `solve`'s features with the same seed, if those were trained too. Loss, weights, windows and
    collocation points are those of `solve` with as many features; `collocation` replaces the
    points. Give `training=Training(steps=..., learning_rate=...)` for other than the paper's
    10,000 steps at 1e-3.
    """
    basis = Basis(
        Decomposition(problem.domain, subdomains, overlap),
        RandomFeatures(hidden, depth, activation, scale=scale),
        seed,
    )
    rows = (collocation or Grid(oversampling)).rows(problem, basis)
    return fit("fbpinn", problem, basis, rows, training or Training(), test_grid, progress)
