"""(Problem, networks, collocation points) -> a trained `Solution`: what PINN and FBPINN share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np

from tessella.features.random_features import Layer
from tessella.linalg.iterative.iteration import History, Progress
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array, on_device
from tessella.machine.memory import device_name, peak_mib, refusals_with_remedy
from tessella.machine.stopwatch import Stopwatch
from tessella.networks.checkpoint import describe_training, load_checkpoint, save_checkpoint
from tessella.networks.network import Parameters, initial_parameters
from tessella.networks.objective import Objective, build_objective
from tessella.networks.training import (
    ADVICE,
    Ending,
    Monitor,
    Trained,
    Training,
    advance,
    begin,
    train,
)
from tessella.overlap.basis import Basis
from tessella.overlap.matrices import evaluate_matrix
from tessella.overlap.points import Grid, Rows
from tessella.overlap.system import Weighed, weigh
from tessella.problem.operators import Identity
from tessella.problem.problem import Problem
from tessella.solution.report import Report
from tessella.solution.solution import Solution, test_points
from tessella.solving.method import Method


@refusals_with_remedy()
def fit(
    name: str,
    problem: Problem,
    method: Method,
    every: Grid,
    training: Training,
    progress: Progress | None,
) -> Solution:
    """Train every layer of the method's basis and its coefficients on the paper's loss, at the
    points of its collocation or else at `every` one.

    The result is a `Solution` like any other: its basis has the trained hidden layers, its
    coefficients are the output layers.
    """
    check_kind(training, Training, "training", "Training(steps=...)")
    if len(problem.fields) > 1:
        raise ValueError(
            f"networks are trained for one unknown, this problem has {len(problem.fields)} "
            f"({', '.join(problem.fields)}): use solve"
        )
    basis = method.parts(problem).basis
    assert isinstance(basis, Basis)
    rows = (method.collocation or every).rows(problem, basis)
    for part in rows:
        if part.measure is not None:
            raise ValueError(
                f"{name} trains on points and cannot hold {part.source.name!r}, an integral over "
                f"the domain: use solve, or drop the condition"
            )
    watch = Stopwatch()
    with watch.phase("assemble"):
        objective, weighed, weights = least_squares(problem, basis, rows)
        at = test_points(problem, basis, method.test_grid)
        monitor = _monitor(problem, basis, at)
        jax.block_until_ready((objective, monitor))
    with watch.phase("prepare"):
        fresh = begin(initial_parameters(basis))
        jax.block_until_ready(advance(objective, monitor, fresh, 0, training))
    with watch.phase("solve"):
        trained = _train(problem, basis, objective, monitor, training, progress)
    with watch.phase("measure"):
        solution = Solution(
            problem,
            *as_basis(basis, trained.parameters),
            _report(name, problem, basis, objective, trained, weights),
            trained.history,
        )
        errors = solution.errors(at) if at is not None else None
        history = _with_last_error(trained, errors)
        rule = float(monitor(trained.best)) if monitor is not None else None
        r = np.asarray(jax.jit(Objective.residual)(objective, trained.parameters))
    report = dataclasses.replace(
        solution.report,
        error=errors,
        oracle_iteration=(history.oracle() or (None, None))[0],
        error_oracle_minimum=(history.oracle() or (None, None))[1],
        error_at_stopping_rule=rule,
        stopping_rule_iteration=trained.best_step if rule is not None else None,
        residual={
            part: float(np.linalg.norm(r[rows]) / np.sqrt(weights[part]))
            for part, rows in weighed.parts.items()
        },
        seconds=watch.total(),
        peak_memory_mib=peak_mib(),
    )
    return dataclasses.replace(solution, report=report, history=history)


def _with_last_error(trained: Trained, errors: dict[str, float] | None) -> History:
    """The last state's error, which was measured last, enters the history as well."""
    history = trained.history
    if errors is None or trained.ending is Ending.DIVERGED or not history.error.size:
        return history
    error = history.error.copy()
    error[-1] = errors["l1_normalised"]
    return dataclasses.replace(history, error=error)


def least_squares(
    problem: Problem, basis: Basis, rows: list[Rows]
) -> tuple[Objective, Weighed, dict[str, float]]:
    """The feature solver's objective as a function of all layers, and the weights in it.

    A condition without a weight is balanced as there: by the untrained hidden layers.
    """
    weighed = weigh(problem, rows)
    symbol, h = weighed.symbol, weighed.h
    if None in weighed.weights.values():
        M = evaluate_matrix(basis, weighed.points, symbol)
        weights, factors = weighed.balance(M.row_norms_squared())
        symbol, h = {alpha: factors * c for alpha, c in symbol.items()}, factors * h
    else:
        weights = {name: float(w) for name, w in weighed.weights.items() if w is not None}
    return build_objective(basis, weighed.points, symbol, h), weighed, weights


def as_basis(basis: Basis, parameters: Parameters) -> tuple[Basis, Array]:
    """A network is a basis and its coefficients: hidden layers and output layer."""
    layers = tuple(Layer(np.asarray(w), np.asarray(b)) for w, b in parameters.layers)
    return basis.with_layers(layers), np.asarray(parameters.output).ravel()


def _monitor(problem: Problem, basis: Basis, at: Array | None) -> Monitor | None:
    if at is None:
        return None
    exact = problem.exact_values(at)
    target = exact - problem.lift(Identity(), at)
    objective = build_objective(basis, at, problem.symbol(Identity(), at), target)
    return Monitor(objective, on_device(float(np.std(exact)) or 1.0))


def _train(
    problem: Problem,
    basis: Basis,
    objective: Objective,
    monitor: Monitor | None,
    training: Training,
    progress: Progress | None,
) -> Trained:
    state, history, keep = begin(initial_parameters(basis)), None, None
    if training.checkpoint is not None:
        path = Path(training.checkpoint)
        about = describe_training(problem, basis)
        if path.exists():
            state, history = load_checkpoint(path, about, objective, state)

        def keep(state, history):  # type: ignore[no-untyped-def]
            save_checkpoint(path, about, objective, state, history)

    return train(objective, state, training, monitor, progress, history, keep)


def _report(
    name: str,
    problem: Problem,
    basis: Basis,
    objective: Objective,
    trained: Trained,
    weights: dict[str, float],
) -> Report:
    return Report(
        problem=problem.name,
        parameters=dict(problem.parameters),
        seed=basis.seed,
        solver=name,
        device=device_name(),
        rows=objective.target.size,
        columns=sum(leaf.size for leaf in jax.tree.leaves(trained.parameters)),
        columns_kept=None,
        iterations=trained.steps,
        stop_reason=str(trained.ending),
        advice=ADVICE[trained.ending],
        weights=weights,
    )
