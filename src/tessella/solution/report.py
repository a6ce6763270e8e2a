"""What happened, for people and for JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tessella.machine.arrays import Array
from tessella.machine.schema import as_type

PHASES = ("assemble", "filter", "solve", "compile", "total")
"""What the JSON always names, computed or not."""

NORMS = dict.fromkeys(("l1_normalised", "l2_relative", "max"), 0.0)
"""The errors that are measured together."""

CONDITIONS = {"M": "M", "M_hat": "filtered", "preconditioned": "preconditioned"}
"""Condition numbers by the matrix, and what a person reads."""


@dataclass(frozen=True)
class Step:
    """One discretisation on the way to a tolerance: what changed, its size, how it was judged."""

    change: str
    subdomains: tuple[int, ...]
    features: int
    bandwidth: float
    unknowns: int
    residual: float
    difference: float | None
    estimate: float | None
    seconds: float
    distinct: int = 0
    reused: int = 0
    """Of the distinct subdomains, how many an earlier step had factored."""
    count: int = 0
    """Of all subdomains: more than `subdomains` per axis say where some of them are cut."""

    @property
    def shape(self) -> str:
        """Subdomains per axis; their number where some are cut."""
        if self.count > math.prod(self.subdomains):
            return f"{self.count:,}"
        return " x ".join(str(S) for S in self.subdomains)

    def __str__(self) -> str:
        guess = "" if self.estimate is None else f", error about {self.estimate:.1e}"
        again = f", {self.reused} of {self.distinct} factors reused" if self.reused else ""
        return (
            f"{self.shape} subdomains, {self.features} features, bandwidth x {self.bandwidth:g}: "
            f"residual {self.residual:.1e}{guess}{again} ({self.seconds:.2f} s)"
        )


@dataclass(frozen=True)
class Correction:
    """A step of Newton's method: `kind` "newton" with new factors, "chord" with those at hand, or
    "time" where time was added to the equations; how large the correction was in parts of the
    solution's spread, and by which factor it was damped."""

    kind: str
    size: float
    damping: float = 1.0


@dataclass(frozen=True)
class Reached:
    """A value of a parameter on the way to the one that was asked for: with how many
    linearisations, whether it was inserted, and whether a solution was found."""

    parameter: str
    value: float
    linearisations: int
    inserted: bool = False
    found: bool = True

    def __str__(self) -> str:
        remark = "" if self.found else " failed"
        return f"{self.value:.6g}{' inserted' if self.inserted and self.found else remark}"


@dataclass(frozen=True)
class Report:
    """The figures of one solve. A quantity that was not computed is None.

    `error_estimate` is of the mean error, the paper's normalised L1, `largest_error_estimate` of
    the error at the worst point; both are in parts of the spread (standard deviation) of the
    solution. `spreads` are these, by unknown: an estimate times a spread is an error in the units
    of that unknown (`absolute_estimates`).

    A trained network has no columns to keep or drop: `columns` are its parameters, `columns_kept`
    is None. Its stopping rule is the state of the lowest loss.
    """

    problem: str
    seed: int
    solver: str
    device: str
    rows: int
    columns: int
    columns_kept: int | None
    iterations: int
    stop_reason: str
    advice: str
    weights: dict[str, float]
    residual: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory_mib: float = 0.0
    error: dict[str, float] | None = None
    error_oracle_minimum: float | None = None
    oracle_iteration: int | None = None
    error_at_stopping_rule: float | None = None
    stopping_rule_iteration: int | None = None
    error_estimate: float | None = None
    largest_error_estimate: float | None = None
    spreads: dict[str, float] = field(default_factory=dict)
    solver_note: str = ""
    condition: dict[str, float | None] = field(
        default_factory=lambda: {"M": None, "M_hat": None, "preconditioned": None}
    )
    active_subdomains: int | None = None
    """Of a shape: how many of the bounding box's subdomains see it."""
    coupling: str = "overlap"
    features: str = ""
    """How many of which kind, per subdomain."""
    traces: int | None = None
    distinct_subdomains: int | None = None
    reused_subdomains: int | None = None
    """Of the distinct ones: how many an earlier solve of the same refinement had factored."""
    jumps: dict[str, dict[str, float]] | None = None
    tolerance: float | None = None
    refinement: tuple[Step, ...] = ()
    newton: tuple[Correction, ...] = ()
    """Of a nonlinear problem: the corrections of its last solve."""
    continuation: tuple[Reached, ...] = ()
    """The values of a parameter by which it was reached."""
    parameters: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None

    @staticmethod
    def from_saved(fields: object) -> Report:
        """From the fields that `dataclasses.asdict` gave, after a way through JSON."""
        report: Report = as_type(Report, fields, "report")
        report.check()
        return report

    def check(self) -> None:
        """Refuse figures that do not belong together, as only a damaged file has them."""
        pairs = {
            "residual has names that weights lack": self.residual.keys() <= self.weights.keys(),
            "error lacks a norm": self.error is None or self.error.keys() == NORMS.keys(),
            "columns is not positive": self.columns > 0,
            "condition has other names": self.condition.keys() <= CONDITIONS.keys(),
            "jumps lack rms or max": all(
                size.keys() == {"rms", "max"} for size in (self.jumps or {}).values()
            ),
            "traces come without distinct_subdomains": (
                self.traces is None or self.distinct_subdomains is not None
            ),
            "error_at_stopping_rule comes without its iteration": (
                self.error_at_stopping_rule is None or self.stopping_rule_iteration is not None
            ),
            "error_oracle_minimum comes without its iteration": (
                self.error_oracle_minimum is None or self.oracle_iteration is not None
            ),
        }
        for wrong, holds in pairs.items():
            if not holds:
                raise ValueError(f"report.{wrong}")

    @property
    def unfinished(self) -> float:
        """What Newton's method has left: the last correction, or after a chord step the next one,
        smaller by the same ratio; in parts of the spread."""
        if not self.newton:
            return 0.0
        *_, before, last = (None, *self.newton)
        if before is None or last.kind != "chord":
            return last.size
        return last.size * min(1.0, last.size / max(before.size, 1e-300))

    @property
    def absolute_estimates(self) -> dict[str, dict[str, float]]:
        """Estimates of the mean and of the largest error in the units of every unknown: no unknown
        should be further off, since the relative ones are those of the worst."""
        each = {"mean": self.error_estimate, "largest": self.largest_error_estimate}
        return {
            name: {norm: own * spread for norm, own in each.items() if own is not None}
            for name, spread in self.spreads.items()
        }

    @property
    def dropped_percent(self) -> float | None:
        if self.columns_kept is None:
            return None
        return 100.0 * (1 - self.columns_kept / self.columns)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, with null for what is not finite; the contract's keys come first."""
        return finite(
            {
                "problem": self.problem,
                "preset": self.preset,
                "seed": self.seed,
                "solver": self.solver,
                "rows": self.rows,
                "columns": self.columns,
                "columns_kept": self.columns_kept,
                "dropped_percent": self.dropped_percent,
                "iterations": self.iterations,
                "stop_reason": self.stop_reason,
                "error": self.error,
                "error_oracle_minimum": self.error_oracle_minimum,
                "error_estimate": self.error_estimate,
                "largest_error_estimate": self.largest_error_estimate,
                "spreads": self.spreads,
                "residual": self.residual,
                "condition": self.condition,
                "seconds": {**dict.fromkeys(PHASES), **self.seconds},
                "peak_memory_mib": self.peak_memory_mib,
                "active_subdomains": self.active_subdomains,
                "coupling": self.coupling,
                "features": self.features,
                "traces": self.traces,
                "distinct_subdomains": self.distinct_subdomains,
                "reused_subdomains": self.reused_subdomains,
                "jumps": self.jumps,
                "tolerance": self.tolerance,
                "refinement": [dataclasses.asdict(step) for step in self.refinement],
                "newton": [dataclasses.asdict(step) for step in self.newton],
                "continuation": [dataclasses.asdict(step) for step in self.continuation],
                "advice": self.advice,
                "solver_note": self.solver_note,
                "oracle_iteration": self.oracle_iteration,
                "error_at_stopping_rule": self.error_at_stopping_rule,
                "stopping_rule_iteration": self.stopping_rule_iteration,
                "weights": self.weights,
                "parameters": self.parameters,
                "settings": self.settings,
                "device": self.device,
            }
        )

    def lines(self) -> Iterator[tuple[str, str]]:
        """(label, text) pairs for a person, most important first."""
        for number, step in enumerate(self.refinement, 1):
            yield f"{number}. {step.change}", str(step)
        if self.columns_kept is None:
            yield "system", f"{self.rows:,} rows, {self.columns:,} trained parameters"
        else:
            yield "system", f"{self.rows:,} rows x {self.columns:,} columns"
            if self.features:
                yield "features", f"{self.features} per subdomain"
            yield (
                "features kept",
                f"{self.columns_kept:,} of {self.columns:,} ({self.dropped_percent:.1f} % dropped)",
            )
        if self.active_subdomains is not None:
            yield "subdomains", f"{self.active_subdomains:,} see a part of the domain"
        if self.traces is not None:
            yield (
                "interfaces",
                f"{self.traces:,} numbers exchanged, "
                f"{self.distinct_subdomains:,} distinct subdomains",
            )
        effort = f", {self.iterations:,} iterations" if self.iterations else ""
        yield (
            "solver",
            self.solver + effort + (f" ({self.solver_note})" if self.solver_note else ""),
        )
        if self.continuation:
            name = self.continuation[0].parameter
            yield "continuation", f"{name} = {', '.join(map(str, self.continuation))}"
        if self.newton:
            yield "newton", _corrections(self.newton)
        yield "stopped", self.stop_reason + (f" ({self.advice})" if self.advice else "")
        for name, value in self.residual.items():
            yield f"residual, {name}", f"{value:.2e} rms (weight {self.weights[name]:.3g})"
        for name, size in (self.jumps or {}).items():
            yield f"jump, {name}", f"{size['rms']:.2e} rms, {size['max']:.2e} max"
        yield from self._error_lines()
        if any(v is not None for v in self.condition.values()):
            yield (
                "condition",
                ", ".join(
                    f"{CONDITIONS[k]} {v:.1e}" for k, v in self.condition.items() if v is not None
                ),
            )
        times = ", ".join(f"{k} {v:.2f}" for k, v in self.seconds.items() if k != "total")
        yield "seconds", f"{self.seconds.get('total', 0.0):.2f} ({times})"
        yield "peak memory", f"{self.peak_memory_mib:,.0f} MiB"

    def _error_lines(self) -> Iterator[tuple[str, str]]:
        if self.error_estimate is not None:
            yield (
                "error estimate",
                estimated(self.error_estimate, self.largest_error_estimate),
            )
            for name, own in self.absolute_estimates.items():
                told = ", ".join(f"{size:.1e} {norm}" for norm, size in own.items())
                yield f"  in units of {name}", f"{told} (its spread is {self.spreads[name]:.3g})"
        if self.error is None:
            yield "error", "unknown: the problem has no exact solution"
            return
        yield (
            "error",
            f"{self.error['l1_normalised']:.2e} normalised L1, "
            f"{self.error['l2_relative']:.2e} relative L2, {self.error['max']:.2e} max",
        )
        if self.error_at_stopping_rule is not None:
            yield (
                "  at stopping rule",
                f"{self.error_at_stopping_rule:.2e} at iteration {self.stopping_rule_iteration:,}",
            )
        if self.error_oracle_minimum is not None:
            yield (
                "  oracle minimum",
                f"{self.error_oracle_minimum:.2e} at iteration {self.oracle_iteration:,} "
                f"(picked with the exact solution)",
            )

    def __str__(self) -> str:
        pairs = list(self.lines())
        width = max(len(label) for label, _ in pairs)
        how = self.preset if self.tolerance is None else f"tol {self.tolerance:g}"
        title = self.problem + (f" ({how})" if how else "")
        body = "\n".join(f"  {label:<{width}}  {text}" for label, text in pairs)
        return f"{title}\n{body}"


def _corrections(steps: tuple[Correction, ...]) -> str:
    """Newton's way in a line: a chord step in brackets, a damped one with its factor, one in
    pseudo-time in square brackets."""
    said, marks = [], {"newton": "{}", "chord": "({})", "time": "[{}]"}
    for step in steps:
        size = f"{step.size:.1e}" + (f" x {step.damping:.2g}" if step.damping < 1 else "")
        said.append(marks[step.kind].format(size))
    count = sum(step.kind != "chord" for step in steps)
    return f"{count} linearisations; corrections {', '.join(said)}"


def estimated(mean: float, largest: float | None) -> str:
    """Estimates of the mean and of the largest error in words."""
    worst = "" if largest is None else f", {largest:.1e} at the worst point"
    return f"{mean:.1e} normalised L1{worst}"


def finite(value: Any) -> Any:
    """NaN and infinities as None, all the way down: JSON has no words for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


CONSTANT = 1e-8
"""Values that spread less than this part of their size are constant: errors are compared with the
size then."""


def unit(spread: Array, size: Array) -> Array:
    """What normalised errors are parts of: the spread of a function, or the size of a constant."""
    found = np.where(spread > CONSTANT * size, spread, size)
    return np.asarray(np.where(found > 0, found, 1.0))


def error_norms(computed: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """The paper's normalised L1 (mean |e| / std u), relative L2 and maximum error.

    Values with a column for each of several unknowns give the largest of their errors.
    """
    if computed.ndim == 2:
        each = [error_norms(c, e) for c, e in zip(computed.T, exact.T, strict=True)]
        return {name: max(norms[name] for norms in each) for name in each[0]}
    difference = computed - exact
    size = float(np.linalg.norm(exact))
    whole = unit(np.std(exact), np.max(np.abs(exact), initial=0.0))
    return {
        "l1_normalised": float(np.mean(np.abs(difference)) / whole),
        "l2_relative": float(np.linalg.norm(difference)) / (size or 1.0),
        "max": float(np.max(np.abs(difference))),
    }
