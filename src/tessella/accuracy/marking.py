"""Where a solution is poor: which cells a refinement splits, and along which axes."""

from __future__ import annotations

import math

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.scales import SEED, lines_along, spectrum, total_degree
from tessella.cells.boxes.tiling import Tiling
from tessella.machine.arrays import Array
from tessella.solution.solution import Solution


def split(tiling: Tiling, errors: Array, axes: tuple[int, ...]) -> Tiling | None:
    """Finer where most of the error is; None where that is everywhere and all boxes are equal.

    Slabs are halved along the axes that need it, or single boxes cut in all directions, whichever
    makes fewer.
    """
    squares = errors**2
    poor = _bulk(squares)
    if len(poor) > tuning.FEW_CELLS * tiling.count:
        if tiling.equal:
            return None
        poor = np.arange(tiling.count)
    boxes = tiling.refined(poor) if len(axes) > 1 or tiling.cut else None
    if tiling.cut:
        return boxes
    per_axis = [
        _bulk(np.bincount(tiling.multi_index[:, axis], squares)) if axis in axes else ()
        for axis in range(tiling.domain.dimension)
    ]
    slabs = tiling.split([set(chosen) for chosen in per_axis])
    return slabs if boxes is None or slabs.count <= boxes.count else boxes


def _bulk(squares: np.ndarray) -> np.ndarray:
    """The fewest that hold most of a sum of squares."""
    order = np.argsort(-squares, kind="stable")
    reached = np.cumsum(squares[order]) >= tuning.BULK * squares.sum()
    return order[: int(np.argmax(reached)) + 1]


def coarse_axes(solution: Solution) -> tuple[int, ...]:
    """The axes along which the solution's expansion in its subdomains ends too early.

    Lines that leave the domain are not looked at; if all do, every axis counts.
    """
    basis, domain = solution.basis.levels[0], solution.problem.domain
    grid, d = basis.decomposition, domain.dimension
    if d == 1:
        return (0,)
    draw = np.random.default_rng(SEED)
    chosen = draw.permutation(grid.count)[: tuning.LOOKED_AT]
    n = math.ceil(total_degree(basis.features.columns, d)) + 1
    half = (
        grid.half_widths[chosen]
        if isinstance(grid, Tiling)
        else np.broadcast_to(grid.spacing / 2, (len(chosen), d))
    )
    tails = np.zeros(d)
    for axis in range(d):
        local = lines_along(-np.ones(d), np.ones(d), axis, n, draw)
        x = grid.centres[chosen][:, None, None] + local * half[:, None, None]
        x = x.reshape(-1, n, d)
        x = x[np.all(domain.contains(x.reshape(-1, d)).reshape(-1, n), axis=1)]
        if not len(x):
            return tuple(range(d))
        values = solution(x.reshape(-1, d)).reshape(len(x), n, -1)
        for unknown in np.moveaxis(values, 2, 0):
            energy = spectrum(unknown).sum(axis=0)
            tails[axis] = max(tails[axis], math.sqrt(energy[n // 2 :].sum() / (energy.sum() or 1)))
    return tuple(i for i in range(d) if tails[i] >= tuning.ALIKE_AXES * tails.max())
