"""A solution that others have found, to measure errors by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessella.geometry.domain import real_numbers
from tessella.machine.arrays import Array


@dataclass(frozen=True, eq=False)
class Reference:
    """A solution known at some points only, for `Problem(exact=Reference(points, values))`.

    Errors are then measured at these points; they should spread over the domain.

    >>> import tessella as ts
    >>> import numpy as np
    >>> known = ts.Reference(np.array([[0.25], [0.75]]), np.array([1.0, 3.0]))
    >>> problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=1), 4.0), exact=known)
    >>> problem.exact_values(known.points)
    array([1., 3.])
    """

    points: Array
    values: Array

    def __post_init__(self) -> None:
        points = real_numbers(self.points, "Reference points")
        values = real_numbers(self.values, "Reference values")
        if points.ndim != 2 or values.shape != points.shape[:1] or not len(points):
            raise ValueError(
                f"Reference needs points (n, d) and values (n,), got {points.shape} and "
                f"{values.shape}"
            )
        if not (np.all(np.isfinite(points)) and np.all(np.isfinite(values))):
            raise ValueError("Reference points or values contain NaN or infinity: leave them out")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "values", values)

    def __call__(self, points: Array) -> Array:
        if not np.array_equal(points, self.points):
            raise ValueError(
                f"the solution is known at {len(self.points)} points only: leave out the points "
                f"(or test_grid), and the error is measured there"
            )
        return self.values
