"""A solution that was found slab by slab in time, and how its error grew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tessella.geometry.domain import real_numbers
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.schema import as_type
from tessella.overlap.parted import CALLED, Parted
from tessella.problem.operators import Identity, Operator
from tessella.problem.problem import Problem
from tessella.solution.export import Sampled
from tessella.solution.report import NORMS, Report, Step, error_norms, estimated, finite
from tessella.solution.solution import (
    Component,
    Solution,
    as_normals,
    as_operator,
    check_inside,
    component,
    missed_of_equations,
    test_points,
    together_if,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 20
"""Slabs that a printed report lists; of more than that it lists as many, evenly spaced."""


@dataclass(frozen=True)
class Slab:
    """The figures of one slab.

    end       the time it ends
    residual  root of the loss at points it has not seen, its start included; without an estimate at
              its own points
    jumps     root mean square misfit of every initial condition: to the given data in the first
              slab, to the end of the slab before in the others
    estimate  estimated mean error in the slab, everything that came before included, in parts of
              the spread of all slabs together: one slab can be compared with another
    error     true error in the slab where the exact solution is known; normalised L1 likewise
    reused    whether it was solved with the factors of an earlier slab
    overall   estimated normalised L1 error of all slabs so far together
    columns   of its system
    largest   estimated largest error of all slabs so far, in parts of the spread of them together
    grown     by which factor what earlier slabs lost has grown or faded by now, as a poorer march
              shows that goes its own way
    """

    end: float
    residual: float
    jumps: dict[str, float]
    estimate: float | None
    error: dict[str, float] | None
    reused: bool
    seconds: float
    overall: float | None = None
    columns: int | None = None
    largest: float | None = None
    grown: float | None = None


@dataclass(frozen=True)
class MarchReport:
    """The figures of a march; `first` is the report of the first slab, whose sizes all have unless
    a tolerance chose others."""

    first: Report
    slabs: tuple[Slab, ...]
    planned: int
    stop_reason: str
    advice: str = ""
    error: dict[str, float] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory_mib: float = 0.0
    tolerance: float | None = None
    refinement: tuple[Step, ...] = ()
    energy_drift: float | None = None

    @property
    def problem(self) -> str:
        return self.first.problem

    @property
    def parameters(self) -> dict[str, float]:
        return self.first.parameters

    @property
    def preset(self) -> str | None:
        return self.first.preset

    @property
    def error_estimate(self) -> float | None:
        """Of all slabs together, in parts of the spread of the whole."""
        return self.slabs[-1].overall

    @property
    def largest_error_estimate(self) -> float | None:
        """At the worst point of all slabs, in the same unit."""
        return self.slabs[-1].largest

    def estimate_in(self, norm: str | None) -> float | None:
        """The estimate of the largest error, or else of the mean one."""
        return self.largest_error_estimate if norm == "largest" else self.error_estimate

    @property
    def stopped_early(self) -> bool:
        return len(self.slabs) < self.planned

    @property
    def factorisations(self) -> int:
        return sum(not slab.reused for slab in self.slabs)

    def growth(self) -> tuple[float, str] | None:
        """p of error ~ (number of the slab)^p over the second half, and of which error.

        About 1 is what a scheme that neither damps nor amplifies its errors gives; errors that
        feed on themselves give a p that rises with the number of slabs.
        """
        late = range(len(self.slabs) // 2, len(self.slabs))
        if len(late) < 3:
            return None
        for what, values in (
            ("error", [(s.error or {}).get("l1_normalised") for s in self.slabs]),
            ("estimate", [s.estimate for s in self.slabs]),
        ):
            own = [values[k] for k in late]
            if all(own):
                logs = np.log(np.array(own, dtype=np.float64))
                return float(np.polyfit(np.log(np.array(late) + 1.0), logs, 1)[0]), what
        return None

    @staticmethod
    def from_saved(fields: object) -> MarchReport:
        """From the fields that `dataclasses.asdict` gave, after a way through JSON."""
        report: MarchReport = as_type(MarchReport, fields, "report")
        report.first.check()
        ends = [slab.end for slab in report.slabs]
        if not ends or not all(np.isfinite(ends)) or sorted(set(ends)) != ends:
            raise ValueError(f"report.slabs must end one after the other, got {ends}")
        names = [slab.jumps.keys() for slab in report.slabs]
        if not names[0] or not all(names[0] <= own for own in names):
            raise ValueError("report.slabs must all have the jumps of the first")
        for error in (report.error, *(slab.error for slab in report.slabs)):
            if error is not None and error.keys() != NORMS.keys():
                raise ValueError("report.error lacks a norm")
        return report

    def to_json(self) -> dict[str, Any]:
        """The keys of a single solve, sizes being those of one slab, and the list of slabs."""
        growth = self.growth()
        own = {
            "stop_reason": self.stop_reason,
            "advice": self.advice,
            "error": self.error,
            "error_estimate": self.error_estimate,
            "largest_error_estimate": self.largest_error_estimate,
            "seconds": self.seconds,
            "peak_memory_mib": self.peak_memory_mib,
            "tolerance": self.tolerance,
            "refinement": [dataclasses.asdict(step) for step in self.refinement],
            "slabs_planned": self.planned,
            "factorisations": self.factorisations,
            "growth": None if growth is None else growth[0],
            "slabs": [dataclasses.asdict(slab) for slab in self.slabs],
        }
        return finite({**self.first.to_json(), **own})

    def lines(self) -> Iterator[tuple[str, str]]:
        """(label, text) pairs for a person."""
        first = self.first
        for number, step in enumerate(self.refinement, 1):
            yield f"{number}. {step.change}", str(step)
        columns = sorted({slab.columns or first.columns for slab in self.slabs})
        if len(columns) == 1:
            yield "system", f"{first.rows:,} rows x {first.columns:,} columns in every slab"
        else:
            yield "system", f"{columns[0]:,} to {columns[-1]:,} columns in a slab"
        if first.columns_kept is not None:
            yield "features kept", f"{first.columns_kept:,} of {first.columns:,} in the first slab"
        times = self.factorisations
        yield (
            "solver",
            f"{first.solver}, factored {'once' if times == 1 else f'{times:,} times'} for "
            f"{len(self.slabs):,} slabs",
        )
        yield "stopped", self.stop_reason + (f" ({self.advice})" if self.advice else "")
        if self.error_estimate is not None:
            told = estimated(self.error_estimate, self.largest_error_estimate)
            yield "error estimate", f"{told} of all slabs"
        if self.error is None:
            yield "error", "unknown: the problem has no exact solution"
        else:
            yield (
                "error",
                f"{self.error['l1_normalised']:.2e} normalised L1, "
                f"{self.error['l2_relative']:.2e} relative L2, {self.error['max']:.2e} max",
            )
        growth, grown = self.growth(), self.slabs[-1].grown
        says = []
        if grown is not None:
            says.append(f"what earlier slabs lost counts {grown:.2g} times at the end")
        if growth is not None:
            says.append(f"{growth[1]} ~ slabs^{growth[0]:.2f} over the second half")
        if says:
            yield "growth", "; ".join(says)
        if self.energy_drift is not None:
            yield "energy", f"kept to {self.energy_drift:.1e} of what it was"
        yield "seconds", f"{self.seconds.get('total', 0.0):.2f}"
        yield "peak memory", f"{self.peak_memory_mib:,.0f} MiB"

    def table(self) -> str:
        """Error growth: one line per slab."""
        jump = next(iter(self.slabs[0].jumps))
        heads = ("slab", "until", "residual", f"jump, {jump}", "estimate", "error")
        lines: list[tuple[str, ...]] = [heads]
        count = len(self.slabs)
        shown = sorted({round(k) for k in np.linspace(0, count - 1, min(count, SHOWN))})
        for k in shown:
            slab = self.slabs[k]
            error = None if slab.error is None else slab.error["l1_normalised"]
            figures = (slab.residual, slab.jumps[jump], slab.estimate, error)
            lines.append((str(k + 1), f"{slab.end:g}", *map(_show, figures)))
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        return "\n".join(
            "  " + "  ".join(f"{text:>{w}}" for text, w in zip(line, widths, strict=True))
            for line in lines
        )

    def __str__(self) -> str:
        pairs = list(self.lines())
        width = max(len(label) for label, _ in pairs)
        title = self.problem + (f" ({self.preset})" if self.preset else "")
        body = "\n".join(f"  {label:<{width}}  {text}" for label, text in pairs)
        return f"{title}, slab by slab to t = {self.slabs[-1].end:g}\n{body}\n{self.table()}"


def _show(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


@dataclass(frozen=True, repr=False)
class Marched(Sampled):
    """u on the whole domain as one function, made of the solutions of all slabs.

    If the march was interrupted, the problem's domain ends where the last finished slab does.

    >>> import tessella as ts
    >>> decay = ts.Equation(ts.D(t=1) + 1.0, rhs=0.0)
    >>> problem = ts.Problem(ts.Box(t=(0, 4)), decay, [ts.Initial(1.0)])
    >>> solution = ts.march(problem, 4, subdomains=2, features=16, coupling="interfaces")
    >>> len(solution.slabs), round(float(solution(4.0)[0]), 6)
    (4, 0.018316)
    """

    problem: Problem
    slabs: tuple[Solution, ...]
    report: MarchReport

    def __call__(self, points: ArrayLike) -> Array:
        """Values at an (n, d) array of points; a column for each of several unknowns."""
        names = self.problem.unknowns
        columns = [self.apply(self.problem.unknown(name), points) for name in names]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def apply(self, operator: Operator, points: ArrayLike, normals: Array | None = None) -> Array:
        """Any operator applied to the solution, e.g. `apply(D(t=1), points)`.

        Where two slabs meet, the later one answers.
        """
        operator = as_operator(operator, "apply()")
        with together_if(self.parted):
            x = self.problem.domain.points(points)
            check_inside(self.problem, x)
            normals = as_normals(normals, x)
        owner = self._owners(x[:, self.problem.domain.axis_index("t")])
        values, asked = np.zeros(len(x)), np.zeros(len(self.slabs))
        asked[owner] = 1
        if self.parted is not None:
            with processes.together():
                asked = processes.total(CALLED, asked)
        for k in np.flatnonzero(asked).tolist():
            own = owner == k
            values[own] = self.slabs[k].apply(
                operator, x[own], None if normals is None else normals[own]
            )
        return values

    @property
    def parted(self) -> Parted | None:
        """Who has which coefficients of the first slab that is in parts."""
        return next((slab.parted for slab in self.slabs if slab.parted is not None), None)

    def whole(self) -> Marched:
        """With the coefficients of all processes in each, who all call this (see `Solution`)."""
        return dataclasses.replace(self, slabs=tuple(slab.whole() for slab in self.slabs))

    def _owners(self, times: Array) -> np.ndarray:
        """The slabs that answer at these times."""
        owner = np.searchsorted(self._ends[:-1], times, side="right") - 1
        return np.clip(owner, 0, None)

    @property
    def _ends(self) -> Array:
        """Where slabs begin and end."""
        first = self.problem.domain.bounds[self.problem.domain.axis_index("t")][0]
        return np.array([first, *(slab.end for slab in self.report.slabs)])

    def residual(self, points: ArrayLike) -> Array:
        """What is missed of the equations at the points, as of a `Solution`."""
        return missed_of_equations(self, points)

    def __getitem__(self, field: str) -> Component:
        """One unknown of a system as a function."""
        return component(self, field)

    def energy(self, times: ArrayLike | None = None) -> Array:
        """Of a wave, at the given times, by default where slabs begin and end: half the integral
        over space of u_t^2 + c^2 |grad u|^2, with the coefficients that the equation has.

        Between walls at rest and without a source it should not change; then printing the march
        shows by how much it does.
        """
        from tessella.solution.energy import energy

        return energy(self, self.slabs[0].basis, self._ends if times is None else times)

    def integral(self, operator: Operator | None = None, times: ArrayLike | None = None) -> Array:
        """The integral over space of an operator applied to the solution, by default of the
        solution itself, at the given times; left out, those are where slabs begin and end."""
        from tessella.solution.over_space import space_points

        operator = as_operator(Identity() if operator is None else operator, "integral()")
        moments = self._ends if times is None else np.atleast_1d(real_numbers(times, "times"))
        pieces: dict[int, tuple[Array, Array]] = {}
        found = []
        for moment, k in zip(moments, self._owners(moments).tolist(), strict=True):
            if k not in pieces:
                pieces[k] = space_points(self.problem.domain, self.slabs[k].basis)
            space, weights = pieces[k]
            at = np.insert(space, self.problem.domain.axis_index("t"), moment, axis=1)
            found.append(float(weights @ self.apply(operator, at)))
        return np.array(found)

    @cached_property
    def _energy_drift(self) -> float | None:
        from tessella.solution.energy import drift

        return drift(self, self.slabs[0].basis, [slab.end for slab in self.report.slabs])

    def __str__(self) -> str:
        """Without the energy's drift where processes have parts, of which one may print alone."""
        drift = None if self.parted else self._energy_drift
        return str(dataclasses.replace(self.report, energy_drift=drift))

    def errors(self, points: ArrayLike | None = None) -> dict[str, float]:
        """Normalised L1, relative L2 and maximum error against the exact solution."""
        given = None if points is None else self.problem.domain.points(points)
        at = test_points(self.problem, self.slabs[0].basis, None) if given is None else given
        if at is None:
            at = np.zeros((0, self.problem.domain.dimension))
        exact = self.problem.exact_values(at)
        return error_norms(self(at), exact)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The solution over time and the growth of its error; saved if a path is given."""
        from tessella.solution.pictures import plot_march

        return plot_march(self, path)

    def save(self, path: str | Path) -> Path:
        """Write all slabs to one file that `tessella.load` reads."""
        from tessella.solution.files import save_march

        return save_march(self, path)

    def __repr__(self) -> str:
        return f"<Marched solution of {self.report.problem!r}: {len(self.slabs):,} slabs>"
