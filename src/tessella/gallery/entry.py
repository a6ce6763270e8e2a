"""What a named problem of the gallery consists of, and how to solve it by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from tessella.cells.boxes.tiling import Tiling
from tessella.features.enrichment import Enrichment
from tessella.features.random_features import RandomFeatures
from tessella.gallery.preset import TRAINED, Preset, PresetMethod, TrainedMethod
from tessella.machine.progress import Shown
from tessella.overlap.basis import AnyBasis, Basis
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solution.marched import Marched
from tessella.solution.solution import Solution
from tessella.solving.method import Method, unknown
from tessella.solving.solve import solve
from tessella.solving.time.march import march

CHOICES = ("seed", "solver", "condition", "tol", "patience")
"""What may be chosen beside a preset and its settings."""


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
