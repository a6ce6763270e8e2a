"""What the paper's three tables say, row by row (`paper.csv`)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROBLEMS = ("harmonic-oscillator", "laplace", "wave")
"""Tables 1, 2 and 3, in this order."""

BASELINE_SIGMA = 1e-8


@dataclass(frozen=True)
class PaperRow:
    """One row of a table: what was run, and the figures printed for it (None where none are)."""

    problem: str
    solver: str
    activation: str
    depth: int
    features: int
    sigma: float | None
    kappa: dict[str, float | None]
    dropped_percent: float | None
    error: float
    error_range: float
    seconds: float
    seconds_std: float

    @property
    def trained(self) -> bool:
        """A network trained by gradient descent, not a linear solve."""
        return self.solver in ("pinn", "fbpinn")

    @property
    def name(self) -> str:
        """The solver, and what differs from its baseline."""
        words = [self.solver]
        if self.sigma not in (None, BASELINE_SIGMA):
            words.append(f"sigma={self.sigma:.0e}")
        if self.activation != "tanh":
            words.append(self.activation)
        if self.depth != 1 and not self.trained:
            words.append(f"depth={self.depth}")
        return " ".join(words)


@cache
def table(problem: str) -> tuple[PaperRow, ...]:
    """The 14 rows of a problem's table, as printed."""
    with open(Path(__file__).with_name("paper.csv"), newline="") as lines:
        return tuple(_row(line) for line in csv.DictReader(lines) if line["problem"] == problem)


_KAPPA = {
    "M": "kappa_M",
    "M_hat": "kappa_M_hat",
    "preconditioned": "kappa_M_hat_S_inv",
    "gramian": "kappa_MtM",
    "schwarz": "kappa_AS",
}


def _row(line: dict[str, str]) -> PaperRow:
    solver = line["optimiser"].lower().removesuffix("-adam")
    return PaperRow(
        problem=line["problem"],
        solver=solver,
        activation={"ELM-sigmoid": "sigmoid", "ELM-sin": "sin"}.get(line["network"], "tanh"),
        depth=int(line["depth"]),
        features=int(line["features"]),
        sigma=_number(line["sigma"]),
        kappa={ours: _number(line[theirs]) for ours, theirs in _KAPPA.items()},
        dropped_percent=_number(line["dropped_percent"]),
        error=float(line["error_median"]),
        error_range=float(line["error_range"]),
        seconds=float(line["seconds_mean"]),
        seconds_std=float(line["seconds_std"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
