"""The numbers with which a problem of the gallery is stated, solved, and its error measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tessella.cells.boxes.basis import default_features
from tessella.cells.boxes.tiling import Cuts
from tessella.cells.solvers import CELL_SOLVERS
from tessella.features.enrichment import Enrichment
from tessella.geometry.functions import Function
from tessella.linalg.solvers import SOLVERS
from tessella.problem.problem import Problem
from tessella.solving.method import CELL_POINTS, CELL_SIGMA, ITERATIVE, Method


@dataclass(frozen=True, kw_only=True)
class PresetMethod(Method):
    """Every number of the method that a preset fixes and `--set` may change: a `Method` with
    nothing left open, unless told otherwise as in the paper's runs."""

    subdomains: Any = 8
    """A number, one per axis, or side by side the edges along an axis."""
    overlap: float | tuple[float, ...] = 2.0
    features: int = 32
    depth: int = 1
    activation: str = "tanh"
    constant: bool = True
    bias: bool = True
    scale: float = 1.0
    sigma: float = 1e-8
    oversampling: float = 1.0
    max_iterations: int = 10_000
    atol: float = 0.0
    btol: float = 0.0
    track_every: int = 1
    coupling: str = "overlap"
    trace_degree: int | None = None
    shared: bool = True
    solver: str = "rrqr-lsqr"
    enriched: int = 0
    """How many of the problem's enrichment functions are columns of every subdomain."""
    cutoff: float = 1e-15
    """Of as-cg's pseudo-inverses; 1e-15 is what the paper's runs used, 1e-13 is more accurate."""
    streamed: bool = False
    """True adds as-cg's pseudo-inverses up one by one, where all of them at once do not fit."""

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers, for records."""
        return {name: getattr(self, name) for name in self.__annotations__}

    def choices(self, solver: str | None = None, **others: Any) -> Method:
        """What `solve` is told: the numbers that have a meaning for this coupling and solver.

        Cells, which `--set coupling=interfaces` may have put in the place of overlapping
        subdomains, choose their own solver if none is named."""
        cells = self.coupling == "interfaces"
        if solver is None:
            solver = "auto" if cells and self.solver not in CELL_SOLVERS else self.solver
        kind = (SOLVERS | CELL_SOLVERS).get(solver.removeprefix("rrqr-"))
        has = {field.name for field in dataclasses.fields(kind)} if kind else set()
        idle = {name for name in ITERATIVE if name not in has} | {"enriched", "solver"}
        idle |= {"overlap"} if cells else {"trace_degree", "shared"}
        kept = {name: value for name, value in self.settings.items() if name not in idle}
        return Method(**kept, solver=solver, **others)


@dataclass(frozen=True)
class TrainedMethod:
    """The same for a trained network. `subdomains`, `features`, `constant` and `oversampling` fix
    the collocation points, those of the feature solver; an FBPINN has the same subdomains too."""

    hidden: int
    depth: int
    subdomains: int | tuple[int, ...]
    overlap: float | tuple[float, ...]
    features: int
    activation: str
    constant: bool
    scale: float
    oversampling: float
    steps: int = 10_000
    learning_rate: float = 1e-3
    track_every: int = 10
    patience: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers, for records."""
        return dataclasses.asdict(self)


TRAINED = ("pinn", "fbpinn")


@dataclass(frozen=True)
class Network:
    """Size of a trained network: `depth` hidden layers of `hidden` units."""

    depth: int
    hidden: int


@dataclass(frozen=True)
class Preset:
    """Problem parameters, method, networks of the baselines, and where the error is measured."""

    parameters: Mapping[str, float]
    method: PresetMethod
    build: Callable[..., Problem]
    test_counts: Callable[[tuple[int, ...]], tuple[int, ...]]
    networks: Mapping[str, Network] = field(
        default_factory=lambda: {"pinn": Network(2, 64), "fbpinn": Network(1, 16)}
    )
    enrichment: Callable[..., Sequence[Function]] | None = None
    """Functions of the solution, given the parameters; `enriched` of the method says how many."""
    start: Callable[..., Function] | None = None
    """Where Newton's method starts, given the parameters; nowhere is 0."""
    slabs: int | None = None
    """How many slabs of time it is solved in; the method's numbers are those of one."""

    def start_of(self, parameters: Mapping[str, float]) -> Function | None:
        """The start of a nonlinear problem with these parameters."""
        return self.start and self.start(**{**self.parameters, **parameters})

    def enrichment_of(self, parameters: Mapping[str, float]) -> tuple[Enrichment, ...]:
        """All enrichment functions that fit the problem with these parameters."""
        if self.enrichment is None:
            return ()
        return tuple(map(Enrichment, self.enrichment(**{**self.parameters, **parameters})))

    def trained(self, solver: str) -> TrainedMethod:
        """The numbers of the baseline of this name."""
        method, network = self.method, self.networks[solver]
        shared = {f.name for f in dataclasses.fields(TrainedMethod)} - {"depth", "track_every"}
        own = {k: v for k, v in method.settings.items() if k in shared}
        return TrainedMethod(hidden=network.hidden, depth=network.depth, **own)


def side_by_side(
    subdomains: int | Sequence[Cuts], features: int, dimension: int, bandwidth: float = 1.0
) -> PresetMethod:
    """A frozen outcome of `tol`: subdomains side by side, sines, joined by maps."""
    drawn = default_features(features, dimension)
    return PresetMethod(
        subdomains=subdomains,
        features=features,
        activation="sin",
        scale=bandwidth * drawn.scale,
        sigma=CELL_SIGMA,
        oversampling=CELL_POINTS,
        coupling="interfaces",
        solver="auto",
    )


def fixed(*counts: int) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """A test grid that does not follow the subdomains, so that methods can be compared."""
    return lambda _: counts
