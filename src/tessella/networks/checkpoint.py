"""The state of a training on disk, so that it can go on another day."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tessella.machine import archive
from tessella.machine.archive import Archive
from tessella.machine.arrays import Array, on_device
from tessella.machine.schema import as_type
from tessella.networks.objective import Objective
from tessella.networks.training import State
from tessella.overlap.basis import Basis
from tessella.problem.problem import Problem

VERSION = 2

LARGEST = 1e100
"""Of networks' numbers; squares of larger ones are not finite."""


def describe_training(problem: Problem, basis: Basis) -> dict[str, Any]:
    """What must agree for a training to go on; steps and learning rate may change."""
    features, decomposition = basis.features, basis.decomposition
    return {
        "problem": problem.name,
        "parameters": dict(problem.parameters),
        "subdomains": list(decomposition.subdomains),
        "overlap": list(decomposition.overlap),
        "hidden": features.count,
        "depth": features.depth,
        "activation": features.function.name,
        "scale": features.scale,
        "seed": basis.seed,
    }


def save_checkpoint(
    path: Path, about: dict[str, Any], objective: Objective, state: State, history: Array
) -> None:
    leaves = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    header = {"about": about}
    archive.write(
        path, "checkpoint", VERSION, header, history=history, probe=_probe(objective), **leaves
    )


def load_checkpoint(
    path: Path, about: dict[str, Any], objective: Objective, fresh: State
) -> tuple[State, Array]:
    """The stored state, if it is of this problem and these networks."""
    with archive.opened(path, "checkpoint", VERSION) as file:
        with file.read_as("header"):
            stored = as_type(dict[str, Any], file.header.get("about"), "about")
        for key, value in about.items():
            if stored.get(key) != value:
                raise ValueError(
                    f"the checkpoint {path} has {key} {stored.get(key)!r}, but this training "
                    f"{value!r}: name another file, or delete it to start afresh"
                )
        found = _probe(objective)
        same = found.shape == file.shape("probe")
        if not (same and np.allclose(found, file.array("probe", found.shape), rtol=1e-9, atol=0)):
            raise ValueError(
                f"the checkpoint {path} belongs to another problem (equation, conditions, weights "
                f"or collocation points differ): name another file, or delete it to start afresh"
            )
        leaves, tree = jax.tree.flatten(fresh)
        read = [_leaf(file, i, np.asarray(leaf)) for i, leaf in enumerate(leaves)]
        state: State = jax.tree.unflatten(tree, [on_device(leaf) for leaf in read])
        history = file.array("history", (3, None), math.nan)
    steps = (state.best_step, state.mark_step, state.step)
    if not (min(map(int, steps)) >= 0 and max(map(int, steps)) == history.shape[1]):
        raise file.damaged(f"{[int(n) for n in steps]} steps with {history.shape[1]} of history")
    return state, history


def _leaf(file: Archive, i: int, fresh: Array) -> Array:
    """A part of the state; losses are infinite before the first step, nothing else is."""
    largest = math.nan if fresh.shape == () else LARGEST
    found = file.array(f"state_{i}", fresh.shape, largest, fresh.dtype.kind)
    if np.any(np.isnan(found)):
        raise file.damaged(f"'state_{i}' has numbers that are NaN")
    return found


def _probe(objective: Objective) -> Array:
    """A few sums over the rows' coefficients and right-hand sides that tell problems apart."""
    parts = [float(jnp.abs(objective.target).sum()), float(objective.target.size)]
    for batch in objective.batches:
        weight = np.cos(np.arange(batch.rows.shape[1]))
        each = jnp.einsum("bgm,m->g", batch.coefficients**2, weight**2)
        parts += [float(v) for v in each] + [float((batch.z**2).sum())]
    return np.array(parts)
