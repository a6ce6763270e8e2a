"""What was found from measurements, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.machine.arrays import Array
from tessella.solution.solution import Solution
from tessella.solving.parameters.averaged import Told
from tessella.solving.parameters.parametric import Parametric


@dataclass(frozen=True, repr=False, eq=False)
class Identified:
    """What was found (see `identify`); it prints itself.

    theta       as `start` was given; `values` are its numbers, `names` what these are called
    covariance  (p, p) of the values, and `intervals` (p, 2) that hold the truth in 95 of 100
                repeats; infinite where the data do not determine a parameter
    residual    root mean square of what the fit leaves over
    noise       of the measurements, as given or as the residual tells
    strength    factor of the regularisation, and `strength_why` that one; 0 if there is none
    fields      of every part of theta that is `Smooth`: how many `functions` the data tell, `of`
                how many, and its `length`
    u           the parametric solution: `u.solution(theta)` is all of u

    >>> import tessella as ts
    >>> def problem_of(load):
    ...     return ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), load), [ts.Dirichlet(0.0)])
    >>> found = ts.identify(problem_of, ([0.25, 0.5], [0.19, 0.25]), start=1.0, noise=0.01,
    ...     subdomains=2, features=16, coupling="interfaces")
    >>> found.values.round(4).tolist(), found.intervals.round(2).tolist()
    ([2.0096], [[1.88, 2.14]])
    """

    theta: Any
    values: Array
    names: tuple[str, ...]
    covariance: Array
    intervals: Array
    residual: float
    noise: float
    noise_given: bool
    strength: float
    strength_why: str
    fields: Mapping[str, Told]
    converged: bool
    reason: str
    tried: int
    measurements: int
    seconds: float
    u: Parametric

    def solution(self) -> Solution:
        """u for the theta that was found."""
        return self.u.solution(self.theta)

    def __repr__(self) -> str:
        return f"<Identified: {len(self.values)} parameters, {self.reason}>"

    def __str__(self) -> str:
        wide = max(map(len, self.names))
        lines = [f"{len(self.values)} parameters from {self.measurements:,} measurements"]
        for name, value, (low, high) in zip(self.names, self.values, self.intervals, strict=True):
            half = (high - low) / 2
            known = f"+- {half:.1e}" if np.isfinite(half) else "not determined"
            lines.append(f"  {name:{wide}}  {value:.{_digits(value, half)}g}  {known}")
        known = "given" if self.noise_given else "as the fit tells"
        lines.append(f"  residual {self.residual:.2e}, noise {self.noise:.2e} ({known})")
        if self.strength and self.strength_why:
            lines.append(f"  regularisation x {self.strength:.3g} ({self.strength_why})")
        for name, (told, of, length) in self.fields.items():
            lines.append(
                f"  {name}: the data tell {told:.1f} of {of} functions, length {length:.2g}"
            )
        lines.append(f"  {self.reason}; {self.tried} thetas tried, {self.seconds:.2f} s")
        return "\n".join(lines)


def _digits(value: float, half: float) -> int:
    """As many as the interval leaves, and one more."""
    if not (np.isfinite(half) and half > 0 and value):
        return 10
    return int(np.clip(np.ceil(np.log10(abs(value) / half)) + 2, 2, 15))
