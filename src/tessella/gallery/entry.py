"""What a named problem of the gallery consists of, and how to solve it by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from tessella.cells.basis import CellBasis, default_features
from tessella.cells.shaped import off_regions
from tessella.cells.solvers import CELL_SOLVERS, solver_named
from tessella.cells.tiling import Tiling
from tessella.features.enrichment import Enrichment
from tessella.features.random_features import RandomFeatures
from tessella.geometry.functions import Function
from tessella.linalg.iterative.iteration import Progress
from tessella.overlap.basis import AnyBasis, Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solution.marched import Marched
from tessella.solution.solution import Solution
from tessella.solving.march import march
from tessella.solving.solve import COUPLINGS, SIDE_BY_SIDE_SIGMA, for_fields, solve


@dataclass(frozen=True)
class Method:
    """Every number of the method that a preset fixes and `--set` may change."""

    subdomains: int | tuple[int, ...] = 8
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
    """Or "interfaces": subdomains side by side, joined by maps; `overlap` then plays no part."""
    trace_degree: int | None = None
    shared: bool = True
    solver: str = "rrqr-lsqr"
    """What `solver=None` means."""
    enriched: int = 0
    """How many of the problem's enrichment functions are columns of every subdomain."""
    cutoff: float = 1e-15
    """Of as-cg's pseudo-inverses; 1e-15 is what the paper's runs used, 1e-13 is more accurate."""
    streamed: bool = False
    """True adds as-cg's pseudo-inverses up one by one, where all of them at once do not fit."""

    @property
    def own_solver(self) -> str:
        """The solver if none is named; cells, which `--set coupling=interfaces` may have put in
        the place of overlapping subdomains, choose their own."""
        other = self.coupling == "interfaces" and self.solver not in CELL_SOLVERS
        return "auto" if other else self.solver


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
    method: Method
    build: Callable[..., Problem]
    test_counts: Callable[[tuple[int, ...]], tuple[int, ...]]
    notes: str = ""
    networks: Mapping[str, Network] = field(
        default_factory=lambda: {"pinn": Network(2, 64), "fbpinn": Network(1, 16)}
    )
    enrichment: Callable[..., Sequence[Function]] | None = None
    """Functions of the solution, given the parameters; `enriched` of the method says how many."""

    def enrichment_of(self, parameters: Mapping[str, float]) -> tuple[Enrichment, ...]:
        """All enrichment functions that fit the problem with these parameters."""
        if self.enrichment is None:
            return ()
        return tuple(map(Enrichment, self.enrichment(**{**self.parameters, **parameters})))

    def trained(self, solver: str) -> TrainedMethod:
        """The numbers of the baseline of this name."""
        method, network = self.method, self.networks[solver]
        shared = {f.name for f in dataclasses.fields(TrainedMethod)} - {"depth", "track_every"}
        own = {k: v for k, v in dataclasses.asdict(method).items() if k in shared}
        return TrainedMethod(hidden=network.hidden, depth=network.depth, **own)


@dataclass(frozen=True)
class Entry:
    """A named problem with its presets; the first is taken where none is named."""

    name: str
    summary: str
    presets: Mapping[str, Preset] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The preset taken where none is named."""
        return next(iter(self.presets))

    def preset(self, name: str | None = None) -> Preset:
        if name is None:
            return self.presets[self.first]
        if name not in self.presets:
            raise ValueError(
                f"{self.name} has no preset {name!r}: choose one of {', '.join(self.presets)}"
            )
        return self.presets[name]

    def problem(self, preset: str | None = None, **parameters: float) -> Problem:
        """The problem alone, for a solve of your own."""
        chosen = self.preset(preset)
        unknown = set(parameters) - set(chosen.parameters)
        if unknown:
            raise ValueError(
                f"{self.name} has no parameter {', '.join(sorted(unknown))}: it has "
                f"{', '.join(chosen.parameters)}"
            )
        return chosen.build(**{**chosen.parameters, **parameters})

    def solve(
        self,
        preset: str | None = None,
        *,
        seed: int = 0,
        solver: str | None = None,
        settings: Mapping[str, Any] | None = None,
        condition: bool = False,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        tol: float | None = None,
        patience: float = 120.0,
    ) -> Solution:
        """Solve with a preset, some of its numbers replaced by `settings`.

        `solver` is a linear solver's name, or "pinn" or "fbpinn" for a network of the paper's size
        trained on the same points; that one may keep its state in the file `checkpoint`. With `tol`
        only the preset's problem counts, and the method is chosen to meet the tolerance.
        """
        preset = preset or self.first
        if tol is not None:
            if solver is not None or condition or checkpoint is not None:
                raise ValueError("tol chooses the method: leave out solver, condition, checkpoint")
            return self._to_tolerance(preset, seed, settings or {}, tol, patience, progress)
        if solver in TRAINED:
            if condition:
                raise ValueError(f"a {solver} has no condition numbers: leave out `condition`")
            return self._train(preset, seed, solver, settings or {}, progress, checkpoint)
        if checkpoint is not None:
            raise ValueError(f"only {' and '.join(TRAINED)} keep checkpoints, not {solver!r}")
        chosen = self.preset(preset)
        problem, basis, method = self.parts(preset, seed, settings)
        options = {k: getattr(method, k) for k in _ITERATIVE}
        rule, engine = solver_named(solver or method.own_solver, method.sigma, options)
        solution = solve(
            problem,
            basis=basis,
            collocation=Grid(method.oversampling),
            filter=rule,
            solver=engine or "auto",
            test_grid=Grid(points_per_axis=chosen.test_counts(basis.decomposition.subdomains)),
            condition=condition,
            progress=progress,
        )
        report = dataclasses.replace(
            solution.report, preset=preset, settings=dataclasses.asdict(method)
        )
        return dataclasses.replace(solution, report=report)

    def march(
        self,
        preset: str | None = None,
        slabs: int = 20,
        *,
        seed: int = 0,
        solver: str | None = None,
        settings: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        tol: float | None = None,
        patience: float = 120.0,
    ) -> Marched:
        """Solve slab by slab in time; the method's numbers, or `tol`, are those of one slab."""
        preset = preset or self.first
        if solver in TRAINED:
            raise ValueError(f"slabs are solved by features, not by a {solver}: leave out slabs")
        how: dict[str, Any]
        if tol is not None:
            if solver is not None:
                raise ValueError(f"tol chooses the method: leave out solver={solver!r}")
            problem, kept = self._stated(preset, settings or {}), {}
            how = {"tol": tol, "patience": patience, "seed": seed}
        else:
            problem, basis, method = self.parts(preset, seed, settings)
            options = {k: getattr(method, k) for k in _ITERATIVE}
            rule, engine = solver_named(solver or method.own_solver, method.sigma, options)
            grid, kept = Grid(method.oversampling), dataclasses.asdict(method)
            how = {"basis": basis, "collocation": grid, "filter": rule, "solver": engine or "auto"}
        marched = march(problem, slabs, progress=progress, **how)
        first = dataclasses.replace(marched.report.first, preset=preset, settings=kept)
        report = dataclasses.replace(marched.report, first=first)
        return dataclasses.replace(marched, report=report)

    def parts(
        self, preset: str | None = None, seed: int = 0, settings: Mapping[str, Any] | None = None
    ) -> tuple[Problem, AnyBasis, Method]:
        """Problem, basis and numbers of a preset, for work with the system itself."""
        parameters, method = split_settings(self, self.preset(preset), settings or {})
        problem = self.problem(preset, **parameters)
        features = RandomFeatures(
            method.features,
            method.depth,
            method.activation,
            method.constant,
            method.bias,
            method.scale,
        )
        known = self.preset(preset).enrichment_of(parameters)
        if not 0 <= method.enriched <= len(known):
            raise ValueError(
                f"{self.name} has {len(known)} enrichment functions, so enriched must be a number "
                f"from 0 to {len(known)}, got {method.enriched!r}"
            )
        used = known[: int(method.enriched)]
        each = [
            dataclasses.replace(_basis(problem, method, features, seed + k), enrichment=used)
            for k in range(len(problem.fields))
        ]
        return problem, for_fields(problem, each), method

    def _to_tolerance(
        self,
        preset: str,
        seed: int,
        settings: Mapping[str, Any],
        tol: float,
        patience: float,
        progress: Progress | None,
    ) -> Solution:
        chosen, method = self.preset(preset), self.preset(preset).method
        problem = self._stated(preset, settings)
        S = Decomposition(problem.domain, method.subdomains, method.overlap).subdomains
        grid = Grid(points_per_axis=chosen.test_counts(S))
        solution = solve(
            problem,
            tol=tol,
            patience=patience,
            seed=seed,
            enrichment=chosen.enrichment_of(problem.parameters)[: method.enriched],
            test_grid=grid,
            progress=progress,
        )
        report = dataclasses.replace(solution.report, preset=preset)
        return dataclasses.replace(solution, report=report)

    def _stated(self, preset: str, settings: Mapping[str, Any]) -> Problem:
        """The problem with these parameters; numbers of the method are refused."""
        chosen = self.preset(preset)
        for key in settings:
            if key not in chosen.parameters:
                raise ValueError(
                    f"tol chooses the method, so {key} cannot be set: only "
                    f"{', '.join(chosen.parameters)} can, or leave out tol"
                )
        return self.problem(preset, **split_settings(self, chosen, settings)[0])

    def _train(
        self,
        preset: str,
        seed: int,
        solver: str,
        settings: Mapping[str, Any],
        progress: Progress | None,
        checkpoint: str | Path | None,
    ) -> Solution:
        from tessella.networks import Training, fbpinn, pinn

        chosen = self.preset(preset)
        parameters, method = split_settings(self, chosen, settings, chosen.trained(solver))
        problem = self.problem(preset, **parameters)
        decomposition = Decomposition(problem.domain, method.subdomains, method.overlap)
        features = RandomFeatures(method.features, constant=method.constant)
        counts = Grid(method.oversampling).counts(Basis(decomposition, features))
        common: dict[str, Any] = {
            "hidden": method.hidden,
            "depth": method.depth,
            "activation": method.activation,
            "scale": method.scale,
            "seed": seed,
            "collocation": Grid(points_per_axis=counts),
            "training": Training(
                method.steps, method.learning_rate, method.track_every, method.patience, checkpoint
            ),
            "test_grid": Grid(points_per_axis=chosen.test_counts(decomposition.subdomains)),
            "progress": progress,
        }
        if solver == "pinn":
            solution = pinn(problem, **common)
        else:
            solution = fbpinn(
                problem,
                subdomains=decomposition.subdomains,
                overlap=decomposition.overlap,
                **common,
            )
        report = dataclasses.replace(
            solution.report, preset=preset, settings=dataclasses.asdict(method)
        )
        return dataclasses.replace(solution, report=report)


def _basis(problem: Problem, method: Method, features: RandomFeatures, seed: int) -> Basis:
    if method.coupling not in COUPLINGS:
        raise ValueError(
            f"unknown coupling {method.coupling!r}: choose one of {', '.join(COUPLINGS)}"
        )
    if method.coupling == "overlap":
        return Basis(
            Decomposition(problem.domain, method.subdomains, method.overlap), features, seed
        )
    tiling = off_regions(Tiling(problem.domain, method.subdomains))
    return CellBasis(tiling, features, seed, method.trace_degree, method.shared)


def side_by_side(
    subdomains: int | tuple[int, ...], features: int, dimension: int, bandwidth: float = 1.0
) -> Method:
    """A frozen outcome of `tol`: subdomains side by side, sines, joined by maps."""
    drawn = default_features(features, dimension)
    return Method(
        subdomains=subdomains,
        features=features,
        activation="sin",
        scale=bandwidth * drawn.scale,
        sigma=SIDE_BY_SIDE_SIGMA,
        oversampling=1.5,
        coupling="interfaces",
        solver="auto",
    )


def fixed(*counts: int) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """A test grid that does not follow the subdomains, so that methods can be compared."""
    return lambda _: counts


def need_positive(**parameters: float) -> None:
    """Refuse a problem's parameter that is not a positive number."""
    for name, value in parameters.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive, got {value!r}")


_ITERATIVE = ("max_iterations", "atol", "btol", "track_every", "cutoff", "streamed")


def split_settings(
    entry: Entry,
    preset: Preset,
    settings: Mapping[str, Any],
    method: Method | TrainedMethod | None = None,
) -> tuple[dict[str, float], Any]:
    """Sort settings into problem parameters and changes of the method, by default the preset's."""
    method = method or preset.method
    known = {f.name for f in dataclasses.fields(method)} - {"solver"}
    unknown = [key for key in settings if key not in known and key not in preset.parameters]
    if unknown:
        raise ValueError(
            f"unknown setting {unknown[0]!r} for {entry.name}: its parameters are "
            f"{', '.join(preset.parameters)}; the method's are {', '.join(sorted(known))}"
        )
    parameters = {k: v for k, v in settings.items() if k in preset.parameters}
    changes = {k: v for k, v in settings.items() if k in known}
    for key, value in parameters.items():
        _check_setting(key, value, Real)
    for key, value in changes.items():
        default = getattr(method, key)
        kind = type(default) if isinstance(default, bool | str) else Real
        several = isinstance(value, tuple | list) and key in ("subdomains", "overlap")
        for one in value if several else [value]:
            _check_setting(key, one, kind)
    return {k: float(v) for k, v in parameters.items()}, dataclasses.replace(method, **changes)


_KINDS = {Real: "a number", bool: "true or false", str: "a name"}


def _check_setting(key: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is Real and isinstance(value, bool)):
        raise ValueError(f"setting {key} must be {_KINDS[kind]}, got {value!r}")
