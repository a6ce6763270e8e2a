"""What a named problem of the gallery consists of, and how to solve it by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from tessella.cells.basis import default_features
from tessella.cells.solvers import CELL_SOLVERS
from tessella.cells.tiling import Cuts, Tiling
from tessella.features.enrichment import Enrichment
from tessella.features.random_features import RandomFeatures
from tessella.geometry.functions import Function
from tessella.linalg.solvers import SOLVERS
from tessella.machine.progress import Shown
from tessella.overlap.basis import AnyBasis, Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solution.marched import Marched
from tessella.solution.solution import Solution
from tessella.solving.march import march
from tessella.solving.method import CELL_POINTS, CELL_SIGMA, ITERATIVE, Method, unknown
from tessella.solving.solve import solve


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

CHOICES = ("seed", "solver", "condition", "tol", "patience")
"""What may be chosen beside a preset and its settings."""


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


@dataclass(frozen=True)
class Entry:
    """A named problem with its presets; the first is taken where none is named."""

    name: str
    summary: str
    presets: Mapping[str, Preset] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.summary}"]
        for name, preset in self.presets.items():
            numbers = ", ".join(f"{key}={value:g}" for key, value in preset.parameters.items())
            lines.append(f"  {name} ({numbers or 'no parameters'})")
        return "\n".join(lines)

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
        settings: Mapping[str, Any] | None = None,
        checkpoint: str | Path | None = None,
        progress: Shown = None,
        **choices: Any,
    ) -> Solution | Marched:
        """Solve with a preset, some of its numbers replaced by `settings`.

        `choices` are `seed`, `solver`, `condition`, `tol` and `patience`. `solver` is a linear
        solver's name, or "pinn" or "fbpinn" for a network of the paper's size trained on the same
        points; that one may keep its state in the file `checkpoint`. With `tol` only the preset's
        problem counts, and the method is chosen to meet the tolerance; `checkpoint` is then a
        folder for finished steps, and of a preset with slabs one for these.
        """
        preset, settings = preset or self.first, settings or {}
        given = Method.of(choices, f"{self.name}.solve", takes=CHOICES).given
        trained = given.get("solver") in TRAINED
        if "tol" in given:
            if given.keys() & {"solver", "condition"}:
                raise ValueError("tol chooses the method: leave out solver and condition")
            solution = self._to_tolerance(preset, settings, given, progress, checkpoint)
            return _recorded(solution, preset, {})
        if trained and given.get("condition"):
            raise ValueError(f"a {given['solver']} has no condition numbers: leave out `condition`")
        if trained:
            return self._train(preset, settings, given, progress, checkpoint)
        if self.preset(preset).slabs is not None:
            kept: dict[str, Any] = {"progress": progress, "checkpoint": checkpoint}
            return self.march(preset, settings=settings, **kept, **choices)
        if checkpoint is not None:
            raise ValueError(
                f"only {' and '.join(TRAINED)} keep checkpoints, not {given.get('solver')!r}: name "
                f"tol or slabs, whose steps are kept, or leave checkpoint out"
            )
        problem, method, enrichment = self._chosen(preset, settings)
        whole = method.choices(**given, enrichment=enrichment)
        whole = dataclasses.replace(
            whole, test_grid=_test_grid(self.preset(preset), problem, method)
        )
        start = self.preset(preset).start_of(problem.parameters)
        found = solve(problem, whole, start=start, progress=progress)
        return _recorded(found, preset, method.settings)

    def march(
        self,
        preset: str | None = None,
        slabs: int | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        progress: Shown = None,
        checkpoint: str | Path | None = None,
        **choices: Any,
    ) -> Marched:
        """Solve slab by slab in time; the method's numbers, or `tol`, are those of one slab. Left
        out, `slabs` are the preset's, or 20. Finished ones are kept in the folder `checkpoint`."""
        preset, settings = preset or self.first, settings or {}
        slabs = slabs or self.preset(preset).slabs or 20
        given = Method.of(choices, f"{self.name}.march", takes=CHOICES).given
        if given.get("solver") in TRAINED:
            raise ValueError(
                f"slabs are solved by features, not by a {given['solver']}: leave out slabs"
            )
        kept: dict[str, Any] = {}
        if "tol" in given:
            if "solver" in given:
                raise ValueError(f"tol chooses the method: leave out solver={given['solver']!r}")
            problem, how = self._stated(preset, settings), Method(**given)
        else:
            problem, method, enrichment = self._chosen(preset, settings)
            how, kept = method.choices(**given, enrichment=enrichment), method.settings
        marched = march(problem, slabs, how, progress=progress, checkpoint=checkpoint)
        return _recorded(marched, preset, kept)

    def parts(
        self, preset: str | None = None, seed: int = 0, settings: Mapping[str, Any] | None = None
    ) -> tuple[Problem, AnyBasis, PresetMethod]:
        """Problem, basis and numbers of a preset, for work with the system itself."""
        problem, method, enrichment = self._chosen(preset, settings or {})
        whole = method.choices(seed=seed, enrichment=enrichment)
        return problem, whole.parts(problem).basis, method

    def _chosen(
        self, preset: str | None, settings: Mapping[str, Any]
    ) -> tuple[Problem, PresetMethod, tuple[Enrichment, ...]]:
        """Problem and numbers with these settings, and the enrichment that is used."""
        parameters, method = split_settings(self, self.preset(preset), settings)
        known = self.preset(preset).enrichment_of(parameters)
        if not 0 <= method.enriched <= len(known):
            raise ValueError(
                f"{self.name} has {len(known)} enrichment functions, so enriched must be a number "
                f"from 0 to {len(known)}, got {method.enriched!r}"
            )
        return self.problem(preset, **parameters), method, known[: int(method.enriched)]

    def _to_tolerance(
        self,
        preset: str,
        settings: Mapping[str, Any],
        given: Mapping[str, Any],
        progress: Shown,
        checkpoint: str | Path | None,
    ) -> Solution | Marched:
        chosen, method = self.preset(preset), self.preset(preset).method
        problem = self._stated(preset, settings)
        return solve(
            problem,
            Method(
                **given,
                enrichment=chosen.enrichment_of(problem.parameters)[: method.enriched],
                test_grid=_test_grid(chosen, problem, method),
            ),
            start=chosen.start_of(problem.parameters),
            progress=progress,
            checkpoint=checkpoint,
        )

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
        settings: Mapping[str, Any],
        given: Mapping[str, Any],
        progress: Shown,
        checkpoint: str | Path | None,
    ) -> Solution:
        from tessella.networks import Training, fbpinn, pinn

        chosen, solver = self.preset(preset), given["solver"]
        parameters, method = split_settings(self, chosen, settings, chosen.trained(solver))
        problem = self.problem(preset, **parameters)
        decomposition = Decomposition(problem.domain, method.subdomains, method.overlap)
        features = RandomFeatures(method.features, constant=method.constant)
        counts = Grid(method.oversampling).counts(Basis(decomposition, features))
        common: dict[str, Any] = {
            "training": Training(
                method.steps, method.learning_rate, method.track_every, method.patience, checkpoint
            ),
            "progress": progress,
            "depth": method.depth,
            "activation": method.activation,
            "scale": method.scale,
            "seed": given.get("seed", 0),
            "collocation": Grid(points_per_axis=counts),
            "test_grid": Grid(points_per_axis=chosen.test_counts(decomposition.subdomains)),
        }
        if solver == "fbpinn":
            common |= {"subdomains": method.subdomains, "overlap": method.overlap}
        network = pinn if solver == "pinn" else fbpinn
        solution = network(problem, method.hidden, **common)
        return _recorded(solution, preset, method.settings)


def _test_grid(preset: Preset, problem: Problem, method: PresetMethod) -> Grid:
    """Where the error is measured."""
    if method.coupling == "interfaces":
        counts = Tiling(problem.domain, method.subdomains).subdomains
    else:
        counts = Decomposition(problem.domain, method.subdomains, method.overlap).subdomains
    return Grid(points_per_axis=preset.test_counts(counts))


def _recorded(solution: Found, preset: str, settings: dict[str, Any]) -> Found:
    """The solution with what it was made of in its report."""
    report: Any = solution.report
    if isinstance(solution, Marched):
        first = dataclasses.replace(report.first, preset=preset, settings=settings)
        return dataclasses.replace(solution, report=dataclasses.replace(report, first=first))
    report = dataclasses.replace(report, preset=preset, settings=settings)
    return dataclasses.replace(solution, report=report)


Found = TypeVar("Found", Solution, Marched, Solution | Marched)


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


def need_positive(**parameters: float) -> None:
    """Refuse a problem's parameter that is not a positive number."""
    for name, value in parameters.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive, got {value!r}")


def split_settings(
    entry: Entry,
    preset: Preset,
    settings: Mapping[str, Any],
    method: PresetMethod | TrainedMethod | None = None,
) -> tuple[dict[str, float], Any]:
    """Sort settings into problem parameters and changes of the method, by default the preset's."""
    method = method or preset.method
    known = [name for name in type(method).__annotations__ if name != "solver"]
    for key in settings:
        if key not in (*known, *preset.parameters):
            raise ValueError(
                f"{entry.name} has no setting {unknown(key, [*preset.parameters, *known])}"
            )
    parameters = {k: v for k, v in settings.items() if k in preset.parameters}
    changes = {k: v for k, v in settings.items() if k not in preset.parameters}
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
