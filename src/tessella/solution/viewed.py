"""What the viewer shows of a solution: values, errors and residuals on lines and planes through its
domain, the subdomains there, and everything at a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tessella.machine.arrays import Array
from tessella.solution.export import Sampled
from tessella.solution.marched import Marched
from tessella.solution.panels import shown_unknowns
from tessella.solution.solution import UNKNOWN, Solution

POINTS = {1: 801, 2: 141}
"""Points along each axis that is drawn, of a line and of a map."""

SAMPLES = 2_000
"""Random points that tell the range of values."""

MOST_CELLS = 4_000
"""More subdomains than this are not sent."""

VALUE, EXACT, ERROR, RESIDUAL = "value", "exact", "error", "residual"


@dataclass(frozen=True, eq=False)
class Viewed:
    """A solution that answers the viewer's questions."""

    solution: Sampled
    _ranges: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def about(self) -> dict[str, Any]:
        """What there is to choose from."""
        problem, domain = self.solution.problem, self.solution.problem.domain
        return {
            "title": self.solution.report.problem,
            "report": str(self.solution),
            "unknowns": list(problem.unknowns),
            "layers": list(self.layers),
            "axes": list(domain.axes),
            "bounds": [list(map(float, sides)) for sides in domain.bounds],
            "time": domain.axis_index("t") if "t" in domain.axes else None,
        }

    @cached_property
    def layers(self) -> dict[str, Callable[[str, Array], Array]]:
        """Functions of an unknown's name and points: values, and what is known of their error."""
        shown = {one.name: one for one in shown_unknowns(self.solution)}
        found: dict[str, Callable[[str, Array], Array]] = {
            VALUE: lambda name, x: shown[name].values(x)
        }
        if self.solution.problem.exact_function is not None:

            def exact(name: str, x: Array) -> Array:
                known = shown[name].exact
                assert known is not None
                return known(x)

            found[EXACT] = exact
            found[ERROR] = lambda name, x: np.abs(shown[name].values(x) - exact(name, x))
        if not self.solution.problem.equations[0].name.startswith(UNKNOWN):
            found[RESIDUAL] = lambda name, x: self._missed(x)
        return found

    def _missed(self, x: Array) -> Array:
        """What is missed of all equations together."""
        values = np.zeros(len(x))
        for own, here in self._parts(x):
            missed = own.residual(x[here])
            values[here] = np.abs(missed) if missed.ndim == 1 else np.sqrt(np.nansum(missed**2, 1))
        return values

    def _parts(self, x: Array) -> list[tuple[Solution, Array]]:
        """Solutions that hold at points, and at which: of a march its slabs."""
        whole = self.solution
        if isinstance(whole, Solution):
            return [(whole, np.ones(len(x), bool))]
        assert isinstance(whole, Marched)
        time = whole.problem.domain.axis_index("t")
        starts = [slab.problem.domain.bounds[time][0] for slab in whole.slabs]
        owner = np.clip(np.searchsorted(starts, x[:, time], side="right") - 1, 0, None)
        return [(whole.slabs[k], owner == k) for k in np.unique(owner)]

    def drawn(
        self, axes: Sequence[int], at: Mapping[int, float], name: str, layer: str
    ) -> dict[str, Any]:
        """A line along one axis or a map of two, with the range of values in the whole domain;
        None outside."""
        bounds = self.solution.problem.domain.bounds
        if not set(axes) <= set(range(len(bounds))):
            raise ValueError(f"axes are numbered from 0 to {len(bounds) - 1}, got {list(axes)}")
        x = self._grid(axes, at)
        values = self._values(x, name, layer)
        low, high = self._range(name, layer)
        here = values[np.isfinite(values)]
        return {
            "values": [None if np.isnan(v) else float(f"{v:.6g}") for v in values],
            "count": POINTS[len(axes)],
            "range": [min(low, here.min(initial=low)), max(high, here.max(initial=high))],
            "cells": self._cells(axes, x[len(x) // 2]),
        }

    def probed(self, point: Sequence[float]) -> dict[str, float]:
        """Every unknown and layer at a point, as accurate as it is; nothing outside the domain."""
        x = np.array([point], dtype=float)
        axes = self.solution.problem.domain.axes
        if x.shape != (1, len(axes)):
            raise ValueError(f"a point has a number for each of {', '.join(axes)}, got {point}")
        if not self._inside(x)[0]:
            return {}
        names = self.solution.problem.unknowns
        found: dict[str, float] = {}
        for layer, function in self.layers.items():
            for name in names[:1] if layer == RESIDUAL else names:
                label = name if layer == VALUE else f"{layer} {name}" if len(names) > 1 else layer
                found[RESIDUAL if layer == RESIDUAL else label] = float(function(name, x)[0])
        return found

    def _grid(self, axes: Sequence[int], at: Mapping[int, float]) -> Array:
        bounds = self.solution.problem.domain.bounds
        ticks = [np.linspace(*bounds[axis], POINTS[len(axes)]) for axis in axes]
        grid = np.meshgrid(*ticks, indexing="ij")
        x = np.zeros((grid[0].size, len(bounds)))
        for axis in range(len(bounds)):
            x[:, axis] = at.get(axis, np.mean(bounds[axis]))
        for axis, own in zip(axes, grid, strict=True):
            x[:, axis] = own.ravel()
        return x

    def _inside(self, x: Array) -> Array:
        """Where there is something to evaluate."""
        return np.asarray(self.solution.problem.domain.contains(x))

    def _values(self, x: Array, name: str, layer: str) -> Array:
        inside = self._inside(x)
        values = np.full(len(x), np.nan)
        if inside.any():
            values[inside] = self.layers[layer](name, x[inside])
        return values

    def _range(self, name: str, layer: str) -> tuple[float, float]:
        """Of the values at random points; values and exact ones share theirs."""
        key = (name, VALUE if layer == EXACT else layer)
        if key not in self._ranges:
            domain = self.solution.problem.domain
            draw = np.random.default_rng(0)
            x = draw.uniform(domain.lower, domain.upper, (SAMPLES, domain.dimension))
            values = self._values(x, *key)
            values = values[np.isfinite(values)]
            self._ranges[key] = (float(values.min()), float(values.max()))
        return self._ranges[key]

    def _cells(self, axes: Sequence[int], point: Array) -> list[list[float]]:
        """Sides [low, high] along each drawn axis of the subdomains that a line or plane through
        the point meets."""
        whole = self.solution
        owners = [own for own, _ in self._parts(point[None])]
        if isinstance(whole, Marched) and whole.problem.domain.axis_index("t") in axes:
            owners = list(whole.slabs)
        tiles = [own.basis.decomposition for own in owners]
        low = np.concatenate([one.centres - one.half_widths for one in tiles])
        high = np.concatenate([one.centres + one.half_widths for one in tiles])
        others = [axis for axis in range(len(point)) if axis not in axes]
        met = np.all((low <= point)[:, others] & (point <= high)[:, others], axis=1)
        if np.count_nonzero(met) > MOST_CELLS:
            return []
        sides = [side[met][:, axis] for axis in axes for side in (low, high)]
        return np.stack(sides, axis=1).tolist()
