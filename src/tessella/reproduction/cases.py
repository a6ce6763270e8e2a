"""What the paper runs: one case per table row and per point of a series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tessella.reproduction import paper

Setting = bool | int | float | str
"""A number or name that a case changes in its preset."""

Point = tuple[str, dict[str, Setting]]
"""One point of a series: its label and what it changes."""

SCALED_SOLVERS = ("rrqr-lsqr", "lsqr", "as-cg")
"""The solvers the paper compares in its scaling tests."""

SERIES_TRACKING = 10
"""The error is measured at every tenth iteration in a series, at every one in a table."""

STREAMED = ("wave-weak", "lambda=0.1 S=16 as-cg")
"""The authors ran it; all inverses at once would take 28.7 GiB, more than a run is allowed here."""


@dataclass(frozen=True)
class Case:
    """One run of an experiment, up to the seed.

    kind   "solve" runs a solver; "spectrum" all singular values of M and M_hat S^-1;
           "coupling" the condition numbers, alpha and bounds of the appendix
    condition   condition numbers are computed for this many seeds
    """

    experiment: str
    row: str
    problem: str
    solver: str = "rrqr-lsqr"
    preset: str = "as-run"
    settings: Mapping[str, Setting] = field(default_factory=dict)
    kind: str = "solve"
    condition: int = 0

    @property
    def identity(self) -> dict[str, str | dict[str, Setting]]:
        """What a stored record must agree with to stand for this case."""
        return {
            "problem": self.problem,
            "solver": self.solver,
            "preset": self.preset,
            "kind": self.kind,
            "settings": dict(sorted(self.settings.items())),
        }

    def number(self, name: str, default: float) -> float:
        """A setting that is a number, or what the preset has instead."""
        return float(self.settings.get(name, default))


def tables(number: int) -> list[Case]:
    """The 14 rows of Table 1 (oscillator), 2 (Laplacian) or 3 (wave)."""
    return [_table_case(f"table{number}", row) for row in paper.table(paper.PROBLEMS[number - 1])]


CONDITION_SEEDS = {"harmonic-oscillator": 5, "laplace": 3, "wave": 1}
"""Seeds with condition numbers, which take longer than the solve in two and three dimensions."""


def _table_case(experiment: str, row: paper.PaperRow) -> Case:
    settings: dict[str, Setting] = {}
    if not row.trained:
        if row.sigma is not None and row.sigma != paper.BASELINE_SIGMA:
            settings["sigma"] = row.sigma
        if row.activation != "tanh":
            settings["activation"] = row.activation
        if row.depth != 1:
            settings["depth"] = row.depth
    seeds = 0 if row.trained else CONDITION_SEEDS[row.problem]
    return Case(experiment, row.name, row.problem, row.solver, settings=settings, condition=seeds)


def seconds() -> list[Case]:
    """Every table row once more without measuring errors, for the seconds columns."""
    cases = []
    for number, problem in enumerate(paper.PROBLEMS, 1):
        for case in tables(number):
            steps = {} if case.solver not in ("pinn", "fbpinn") else {"steps": TIMED_STEPS[problem]}
            quiet = {**case.settings, **steps, "track_every": 10_000}
            cases.append(replace(case, experiment=f"seconds{number}", settings=quiet, condition=0))
    return cases


TIMED_STEPS = {"harmonic-oscillator": 10_000, "laplace": 500, "wave": 200}
"""Training steps timed on a CPU core; the table states the time of 10,000 at that pace."""


def _series(experiment: str, problem: str, points: Iterable[Point]) -> list[Case]:
    found = []
    for label, settings in points:
        for solver in SCALED_SOLVERS:
            row = f"{label} {solver}"
            own: dict[str, Setting] = {**settings, "track_every": SERIES_TRACKING}
            if (experiment, row) == STREAMED:
                own["streamed"] = True
            found.append(Case(experiment, row, problem, solver, settings=own))
    return found


def _features(*counts: int) -> list[Point]:
    return [(f"K={K}", {"features": K}) for K in counts]


def _subdomains(*pairs: tuple[int, float]) -> list[Point]:
    return [(f"S={S} overlap={o}", {"subdomains": S, "overlap": o}) for S, o in pairs]


def _weak(name: str, *pairs: tuple[float, int]) -> list[Point]:
    return [(f"{name}={value:g} S={S}", {name: value, "subdomains": S}) for value, S in pairs]


def series() -> list[Case]:
    """All scaling tests, with the values of the paper's text."""
    oscillator, laplace, wave = paper.PROBLEMS
    widening = (1.45, 2.9, 5.8, 11.6, 23.2)
    return [
        *_series("oscillator-features", oscillator, _features(4, 8, 16, 32, 64)),
        *_series(
            "oscillator-subdomains",
            oscillator,
            _subdomains(*zip((10, 20, 40, 80, 160), widening, strict=True)),
        ),
        *_series(
            "oscillator-weak",
            oscillator,
            _weak("omega0", (30, 10), (60, 20), (120, 40), (240, 80), (580, 160)),
        ),
        *_series("laplace-features", laplace, _features(4, 8, 16, 32, 64)),
        *_series("laplace-subdomains", laplace, _subdomains((8, 1.45), (16, 2.9), (32, 5.8))),
        *_series(
            "laplace-weak", laplace, _weak("n", (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64))
        ),
        *_series("wave-features", wave, _features(4, 8, 16, 32)),
        *_series("wave-subdomains", wave, _subdomains((4, 1.45), (8, 2.9), (16, 5.8))),
        *_series("wave-weak", wave, _weak("lambda", (0.4, 4), (0.2, 8), (0.1, 16))),
    ]


def appendix() -> list[Case]:
    """kappa(M) and kappa(Q) of the oscillator over K and over the overlap, nothing filtered.

    The text gives sigma = 0 and 2,000 points; the values along the axes are ours. The third series,
    one feature and little overlap, is where the bounds have their best chance.
    """
    base: dict[str, Setting] = {"sigma": 0.0, "points": 2_000}
    over_features: list[tuple[str, str, dict[str, Setting]]] = [
        ("appendix-features", f"K={K}", {"features": K}) for K in (1, 2, 3, 4, 6, 8, 12, 16)
    ]
    over_overlap = [
        ("appendix-overlap", f"overlap={o}", {"overlap": o})
        for o in (1.1, 1.3, 1.5, 1.7, 1.9, 2.1, 2.5, 2.9, 3.5, 4.5)
    ]
    one_feature = [
        ("appendix-one-feature", f"K=1 overlap={o}", {"features": 1, "overlap": o})
        for o in (1.05, 1.1, 1.2, 1.4, 1.6, 1.8, 1.95)
    ]
    return [
        Case(experiment, row, paper.PROBLEMS[0], settings={**base, **own}, kind="coupling")
        for experiment, row, own in over_features + over_overlap + one_feature
    ]


def printed() -> list[Case]:
    """The baselines with each printed difference on its own, and all of them together."""
    _, laplace, wave = paper.PROBLEMS
    changes: list[tuple[str, str, str, dict[str, Setting]]] = []
    for problem in paper.PROBLEMS:
        changes += [
            (problem, "as-run", "as run", {}),
            (problem, "as-run", "no constant feature", {"constant": False}),
            (problem, "as-run", "no bias", {"bias": False}),
        ]
    changes += [
        (laplace, "as-run", "n = 3", {"n": 3}),
        (wave, "as-run", "T = 1", {"T": 1.0}),
        *((problem, "printed", "all as printed", {}) for problem in paper.PROBLEMS),
    ]
    return [
        Case(
            "printed",
            f"{problem} {label}",
            problem,
            preset=preset,
            settings={**own, "max_iterations": 2_000},
            condition=1,
        )
        for problem, preset, label, own in changes
    ]


def spectra() -> list[Case]:
    """All singular values of M and M_hat S^-1, for the figures of the first two problems."""
    return [Case("spectra", p, p, kind="spectrum") for p in paper.PROBLEMS[:2]]


def sized(found: Iterable[Case], small: bool) -> list[Case]:
    """Cases as the paper has them, or at sizes that take seconds."""
    return [quick(case) for case in found] if small else list(found)


def quick(case: Case) -> Case:
    """The same case at a size that takes seconds: for trying things, not for the numbers."""
    S = {"harmonic-oscillator": 10, "laplace": 4, "wave": 2}[case.problem]
    settings = {**case.settings, "subdomains": int(min(case.number("subdomains", S), S))}
    settings["features"] = int(min(case.number("features", 8), 8))
    settings["overlap"] = min(case.number("overlap", 2.9), 2.9)
    shrunk: dict[str, tuple[str, float]] = {
        "harmonic-oscillator": ("omega0", 20.0),
        "laplace": ("n", 2),
        "wave": ("lambda", 0.4),
    }
    name, value = shrunk[case.problem]
    settings[name] = value
    if case.kind == "coupling":
        settings["points"] = 200
    elif case.solver in ("pinn", "fbpinn"):
        settings["steps"] = 20
        settings["track_every"] = 10
    elif case.kind == "solve":
        settings["max_iterations"] = 50
    if case.kind == "solve":
        settings["track_every"] = 1 if "seconds" not in case.experiment else 50
    return replace(case, settings=settings)


_SIZES: dict[str, tuple[int, float, float]] = {  # dimension, S and K of the presets
    "harmonic-oscillator": (1, 20, 8),
    "laplace": (2, 16, 16),
    "wave": (3, 8, 8),
}


def cost(case: Case) -> float:
    """Relative price of one run: entries of M times iterations. Used to order and to predict."""
    d, S, K = _SIZES[case.problem]
    S, K = case.number("subdomains", S), case.number("features", K)
    overlap = min(case.number("overlap", 2.9), S)
    points = (S * math.ceil((K + 1) ** (1 / d))) ** d
    entries = points * overlap**d * (K + 1)
    if case.kind != "solve":
        return points * (S**d * K) ** 2 / 1e6
    iterations = case.number("max_iterations", case.number("steps", 10_000))
    factor = {"as-cg": 8.0, "pinn": 100.0, "fbpinn": 30.0}.get(case.solver, 1.0)
    return iterations * (entries * factor + 1e5)
