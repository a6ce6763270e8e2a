"""A branch: solutions along a parameter, and where it turns back or meets others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tessella.machine.arrays import Array
from tessella.machine.printing import counted
from tessella.solution.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLD, CROSSING = "fold", "bifurcation"


@dataclass(frozen=True, eq=False)
class BranchPoint:
    """A value of the parameter, the solution there, and its measure. `crossings` counts the points
    before it at which the linearised problem is singular: every one changes whether it is stable in
    one direction."""

    parameter: float
    measure: float
    solution: Solution
    crossings: int = 0


@dataclass(frozen=True, eq=False)
class Singular:
    """Where the linearised problem is singular: at a "fold" the branch turns back, at a
    "bifurcation" another branch may cross it."""

    kind: str
    parameter: float
    measure: float
    solution: Solution


@dataclass(frozen=True, repr=False, eq=False)
class Branch:
    """Solutions along a parameter, one after the other (see `branch`).

    name      of the parameter
    points    `BranchPoint`s: parameter, measure, solution
    singular  folds and bifurcations between them, found to about ten and four digits
    reason    why it ends

    >>> import tessella as ts, jax.numpy as jnp
    >>> def bratu(lam):
    ...     equation = ts.Equation(lambda d, x: -d(x=2) - lam * jnp.exp(d()))
    ...     return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)])
    >>> found = ts.branch(bratu, "lam", (3, 4), points=12, subdomains=4, features=20,
    ...     coupling="interfaces")
    >>> [round(fold.parameter, 6) for fold in found.folds]
    [3.513831]
    """

    name: str
    measured: str
    points: tuple[BranchPoint, ...]
    singular: tuple[Singular, ...]
    reason: str
    seconds: dict[str, float]

    @property
    def folds(self) -> tuple[Singular, ...]:
        return tuple(one for one in self.singular if one.kind == FOLD)

    @property
    def parameters(self) -> Array:
        return np.array([point.parameter for point in self.points])

    @property
    def measures(self) -> Array:
        return np.array([point.measure for point in self.points])

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, number: int) -> BranchPoint:
        return self.points[number]

    def __iter__(self) -> Iterator[BranchPoint]:
        return iter(self.points)

    def near(self, value: float) -> list[Solution]:
        """A solution for every time that the branch passes a value of the parameter, at the nearest
        point: starts for `solve` there."""
        lam = self.parameters
        there = np.flatnonzero((lam[:-1] <= value) != (lam[1:] <= value))
        nearer = [i + (abs(lam[i + 1] - value) < abs(lam[i] - value)) for i in there.tolist()]
        return [self.points[i].solution for i in nearer]

    def plot(self, path: str | Path | None = None) -> Figure:
        """The bifurcation diagram: the measure over the parameter; saved if a path is given."""
        from tessella.solution.pictures import plot_branch

        return plot_branch(self, path)

    def __repr__(self) -> str:
        return f"<Branch in {self.name}: {counted(len(self), 'point')}, {self._turns()}>"

    def _turns(self) -> str:
        crossed = len(self.singular) - len(self.folds)
        return f"{counted(len(self.folds), 'fold')}, {counted(crossed, 'bifurcation')}"

    def __str__(self) -> str:
        lam = self.parameters
        lines = [
            f"{self.points[0].solution.report.problem}: {counted(len(self), 'point')} of a branch "
            f"in {self.name}, from {lam[0]:.6g} to {lam[-1]:.6g}"
        ]
        for one in self.singular:
            digits = 10 if one.kind == FOLD else 5
            lines.append(
                f"  {one.kind} at {self.name} = {one.parameter:.{digits}g}, {self.measured} "
                f"{one.measure:.6g}"
            )
        lines += [f"  {self.reason}", f"  {self.seconds.get('total', 0.0):.2f} s"]
        return "\n".join(lines)
