"""Eigenvalues with their functions, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tessella.machine.arrays import Array
from tessella.solution.solution import Solution


@dataclass(frozen=True, eq=False)
class Mode:
    """An eigenvalue, its estimated error, and its function; of a complex one the real and the
    imaginary part of it."""

    value: complex
    error: float | None
    function: Solution
    imaginary: Solution | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Spectrum:
    """Eigenvalues nearest to a number, nearest first, and their functions (see `eigs`).

    values     real if all are; equal ones are listed as often as they have functions
    errors     of every one, estimated by a poorer discretisation; NaN if that was not asked for
    functions  a `Solution` for each, whose mean square (of M u) is one; those of eigenvalues that
               agree up to their errors are orthogonal, those of complex ones the real parts
    imaginary  the imaginary parts, None for a real eigenvalue

    >>> import tessella as ts
    >>> line = ts.Problem(ts.Box(x=(0, 3.141592653589793)), ts.Equation(-ts.D(x=2)),
    ...     [ts.Dirichlet(0.0)])
    >>> found = ts.eigs(line, k=3, subdomains=4, features=20)
    >>> found.values.round(8).tolist()
    [1.0, 4.0, 9.0]
    >>> bool(abs(found[0].function(1.5707963267948966)[0] - 2**0.5) < 1e-8)
    True
    """

    values: np.ndarray
    errors: Array
    functions: tuple[Solution, ...]
    imaginary: tuple[Solution | None, ...]
    near: float
    shift: float
    remark: str
    seconds: dict[str, float]
    solves: int
    """For how many right-hand sides the factored problem was solved."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> Mode:
        error = float(self.errors[number])
        return Mode(
            self.values[number].item(),
            None if np.isnan(error) else error,
            self.functions[number],
            self.imaginary[number],
        )

    def __iter__(self) -> Iterator[Mode]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Spectrum of {len(self)} eigenvalues near {self.near:g}>"

    def __str__(self) -> str:
        problem = self.functions[0].report
        lines = [f"{problem.problem}: {len(self)} eigenvalues near {self.near:g}"]
        for number, (value, error) in enumerate(zip(self.values, self.errors, strict=True), 1):
            known = "" if np.isnan(error) else f"  +- {error:.0e}"
            lines.append(f"  {number:3d}  {_in_digits(value.item(), error)}{known}")
        lines.append(
            f"  {problem.rows:,} rows x {problem.columns:,} columns, {self.solves:,} right-hand "
            f"sides, {self.seconds.get('total', 0.0):.2f} s"
        )
        if self.remark:
            lines.append(f"  {self.remark}")
        return "\n".join(lines)


def _in_digits(value: complex, error: float) -> str:
    """As many digits as the error leaves, and one more."""
    size = abs(value)
    digits = 14
    if np.isfinite(error) and error > 0 and size > 0:
        digits = int(np.clip(np.ceil(np.log10(size / error)) + 1, 2, 15))
    if value.imag:
        sign = "-" if value.imag < 0 else "+"
        return f"{value.real:.{digits}g} {sign} {abs(value.imag):.{digits}g}i"
    return f"{value.real:.{digits}g}"
