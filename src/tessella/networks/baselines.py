"""PINN: one network on the whole domain, trained on the residual (Raissi et al. 2019). FBPINN: a
network per subdomain, joined by windows (Moseley et al. 2023)."""

from __future__ import annotations

from typing import Any

from tessella.machine.progress import Shown, attended
from tessella.networks.fit import fit
from tessella.networks.training import Training
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solution.solution import Solution
from tessella.solving.doors import check_problem, with_choices
from tessella.solving.method import OVERLAP_POINTS, Method

POINTS = {1: 400, 2: 64, 3: 16}
"""Collocation points per axis, if none are given: about 4,000 from two dimensions on."""

ALONE = ("depth", "activation", "scale", "seed", "collocation", "test_grid")


@with_choices(*ALONE)
def pinn(
    problem: Problem,
    hidden: int = 64,
    *,
    training: Training | None = None,
    progress: Shown = None,
    **choices: Any,
) -> Solution:
    """Solve by training one global network with Adam, to compare with `solve`.

    The network has `depth` hidden layers (2) of `hidden` units and a linear output layer; its
    inputs are scaled to [-1, 1]. Loss and weights are those of `solve`. For the same points too,
    pass `collocation=Grid(points_per_axis=...)`. It is an FBPINN on an undivided domain. The
    choices are fields of `Method`.

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(ts.D(x=1), 1.0), [ts.Dirichlet(0.0, on="xmin")])
    >>> solution = ts.pinn(problem, 4, training=ts.Training(steps=10))
    >>> solution.report.solver
    'pinn'
    """
    check_problem(problem, "pinn")
    d = problem.domain.dimension
    if problem.domain.periodic:
        raise ValueError(
            f"pinn trains one network on the whole domain, which cannot wrap around the periodic "
            f"axis {problem.domain.periodic[0]!r}: use fbpinn with two subdomains or more, or solve"
        )
    size = Method(subdomains=1, features=hidden, depth=2)
    method = Method.of(choices, "pinn", size, ALONE)
    every = Grid(points_per_axis=POINTS.get(d, max(2, round(4096 ** (1 / d)))))
    chosen = Training() if training is None else training
    with attended(progress) as show:
        return fit("pinn", problem, method, every, chosen, show)


DIVIDED = ("subdomains", "overlap", "oversampling", *ALONE)


@with_choices(*DIVIDED)
def fbpinn(
    problem: Problem,
    hidden: int,
    *,
    training: Training | None = None,
    progress: Shown = None,
    **choices: Any,
) -> Solution:
    """Solve by training one network per subdomain with Adam, to compare with `solve`.

    Each network has `depth` hidden layers (1) of `hidden` units and a linear output layer with a
    bias: `solve`'s features with the same seed, if those were trained too. Loss, weights, windows
    and collocation points are those of `solve` with as many features; `collocation` replaces the
    points. The choices are fields of `Method`. Give `training=Training(steps=...,
    learning_rate=...)` for other than the paper's 10,000 steps at 1e-3.

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(ts.D(x=1), 1.0), [ts.Dirichlet(0.0, on="xmin")])
    >>> solution = ts.fbpinn(problem, 4, subdomains=2, training=ts.Training(steps=10))
    >>> solution.report.solver
    'fbpinn'
    """
    check_problem(problem, "fbpinn")
    method = Method.of(choices, "fbpinn", Method(features=hidden), DIVIDED)
    if method.subdomains is None:
        raise ValueError("fbpinn() needs `subdomains`, e.g. subdomains=8: one network in each")
    every = Grid(OVERLAP_POINTS if method.oversampling is None else method.oversampling)
    chosen = Training() if training is None else training
    with attended(progress) as show:
        return fit("fbpinn", problem, method, every, chosen, show)
