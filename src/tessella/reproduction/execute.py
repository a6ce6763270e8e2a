"""One run of one case: solve, measure, and write down what an honest table needs."""

from __future__ import annotations

import datetime
import platform

import jax
import numpy as np
import scipy

from tessella import gallery
from tessella.gallery.entry import split_settings
from tessella.gallery.preset import TRAINED, PresetMethod
from tessella.linalg.conditioning import (
    condition_number,
    gramian_condition,
    schwarz_condition,
    singular_values,
)
from tessella.linalg.iterative.schwarz import SchwarzCG
from tessella.linalg.rrqr import RRQR
from tessella.machine import memory
from tessella.machine.progress import Shown
from tessella.machine.threads import CORES
from tessella.overlap.basis import AnyBasis
from tessella.overlap.points import Grid
from tessella.overlap.system import LeastSquares, assemble
from tessella.overlap.theory import comparison_bound, coupling, strip_bound
from tessella.problem.problem import Problem
from tessella.reproduction.cases import Case, Setting
from tessella.reproduction.store import Record, Settings
from tessella.solution.solution import Solution
from tessella.version import __version__

CURVE_POINTS = 120
"""Points kept of a convergence curve, spaced evenly in the logarithm of the iteration."""

MEMORY_LIMIT = 24 * 2**30
"""Runs that would need more are refused and recorded as such. The authors had 50 GB."""

SETUP_LIMIT = 7_200.0
"""Additive Schwarz set-ups that would take more seconds are refused and recorded as such."""

EIGEN_FLOPS, CORE_FLOPS = 9.0, 10e9
"""Operations of a symmetric eigendecomposition per order^3, and per second and core."""

LABELS = ("experiment", "row", "seed")


def execute(case: Case, seed: int, progress: Shown = False) -> Record:
    """Run a case and return its record."""
    kinds = {"solve": _solve, "spectrum": _spectrum, "coupling": _coupling}
    with memory.limited(MEMORY_LIMIT):
        try:
            found = kinds[case.kind](case, seed, progress)
        except (MemoryError, TooLongError) as error:
            found = {"refused": str(error)}
    return {
        "experiment": case.experiment,
        "row": case.row,
        "seed": seed,
        "case": case.identity,
        "settings": settings_of(case),
        "device": memory.device_name(),
        **{key: value for key, value in found.items() if key not in LABELS},
        "date": datetime.date.today().isoformat(),
        "versions": {
            "tessella": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
    }


def settings_of(case: Case) -> Settings:
    """Every number of the method a case runs with: the preset's, with the case's changes."""
    entry = gallery.get(case.problem)
    preset = entry.preset(case.preset)
    trained = preset.trained(case.solver) if case.solver in TRAINED else None
    _, method = split_settings(entry, preset, _changes(case), trained)
    return dict(method.settings)


def _changes(case: Case) -> dict[str, Setting]:
    """What a case changes in its preset."""
    return {key: value for key, value in case.settings.items() if key != "points"}


def _solve(case: Case, seed: int, progress: Shown) -> Record:
    if case.solver == "as-cg":
        _refuse_endless_setup(case, seed)
    wanted = seed < case.condition
    solution = gallery.get(case.problem).solve(
        case.preset,
        seed=seed,
        solver=case.solver,
        settings=case.settings,
        condition=wanted,
        progress=progress,
    )
    assert isinstance(solution, Solution)
    record = solution.report.to_json()
    if wanted and case.solver in ("cg", "as-cg"):
        record["condition"] |= _normal_conditions(case, seed)
    if seed == 0:
        record["curve"] = _curve(solution)
    return record


class TooLongError(RuntimeError):
    """A run that is not worth its time."""


def _refuse_endless_setup(case: Case, seed: int) -> None:
    """Every subdomain's neighbourhood costs one eigendecomposition of its Gramian."""
    _, basis, _ = _parts(case, seed)
    orders = basis.decomposition.neighbours() * basis.features.columns
    seconds = EIGEN_FLOPS * float(np.sum(orders**3)) / (CORE_FLOPS * CORES)
    if seconds > SETUP_LIMIT:
        raise TooLongError(
            f"additive Schwarz would take about {seconds / 60:,.0f} minutes to set up: "
            f"{len(orders):,} eigendecompositions of order up to {int(orders.max()):,}"
        )


def _normal_conditions(case: Case, seed: int) -> dict[str, float]:
    """kappa of the Gramian, and of the Gramian behind additive Schwarz."""
    system, method = _system(case, seed)
    found = {"gramian": gramian_condition(system.M).value}
    if case.solver == "as-cg":
        found["schwarz"] = schwarz_condition(system.M, SchwarzCG(cutoff=method.cutoff)).value
    return found


def _curve(solution: Solution) -> dict[str, list[float]]:
    """The error along the iterations, thinned; the smallest one is always kept."""
    error = solution.history.error
    measured = np.flatnonzero(np.isfinite(error))
    if not len(measured):
        return {"iteration": [], "error": []}
    wanted = np.geomspace(measured[0] + 1, measured[-1] + 1, CURVE_POINTS) - 1
    nearest = measured[np.searchsorted(measured, wanted).clip(0, len(measured) - 1)]
    chosen = np.unique(np.append(nearest, np.nanargmin(error)))
    return {
        "iteration": [int(i) + 1 for i in chosen],
        "error": [float(f"{error[i]:.4g}") for i in chosen],
    }


def _parts(case: Case, seed: int) -> tuple[Problem, AnyBasis, PresetMethod]:
    return gallery.get(case.problem).parts(case.preset, seed, _changes(case))


def _system(case: Case, seed: int) -> tuple[LeastSquares, PresetMethod]:
    """The least-squares system a gallery solve of this case assembles."""
    problem, basis, method = _parts(case, seed)
    points = int(case.number("points", 0))
    grid = Grid(points_per_axis=points) if points else Grid(method.oversampling)
    return assemble(problem, basis, grid.rows(problem, basis)), method


def _spectrum(case: Case, seed: int, _: Shown) -> Record:
    system, method = _system(case, seed)
    filtered = RRQR(method.sigma).apply(system.M)
    spectra = {
        "M": singular_values(system.M),
        "preconditioned": singular_values(filtered.Q.select(filtered.kept)),
    }
    thinned = {name: _thinned(values) for name, values in spectra.items()}
    return {"spectrum": thinned}


def _thinned(values: np.ndarray) -> dict[str, list[float]]:
    index = np.unique(np.linspace(0, len(values) - 1, 400).astype(int))
    return {
        "index": [int(i) + 1 for i in index],
        "value": [float(f"{values[i]:.4g}") for i in index],
    }


def _coupling(case: Case, seed: int, _: Shown) -> Record:
    system, method = _system(case, seed)
    filtered = RRQR(method.sigma).apply(system.M)
    Q = filtered.Q.select(filtered.kept)
    pairs = coupling(Q)
    theorem = strip_bound(pairs) if pairs.is_strip else None
    comparison = comparison_bound(pairs)
    model = pairs.worst_model()
    return {
        "condition": {
            "M": condition_number(system.M).value,
            "M_hat": None,
            "preconditioned": condition_number(Q).value,
        },
        "alpha": pairs.alpha,
        "theorem": theorem.value if theorem and theorem.valid else None,
        "comparison": comparison.value if comparison.valid else None,
        "estimate": model.kappa.value if model.kappa.valid else None,
        "epsilon": model.epsilon,
    }
