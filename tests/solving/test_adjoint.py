"""Factors used the other way: the transpose of solving passes the dot-test, however cells meet."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
CELLS: dict[str, Any] = {"subdomains": 3, "features": 60, "coupling": "interfaces"}
OVERLAP: dict[str, Any] = {"subdomains": 3, "features": 30}


def carried() -> ts.Problem:
    slowed = (lambda p: 1 + p[:, 0] * p[:, 1]) * ts.Identity()
    return ts.Problem(
        SQUARE, ts.Equation(slowed + 2.0 * ts.D(x=1) - ts.Laplacian()), [ts.Dirichlet(0.0)]
    )


def insulated() -> ts.Problem:
    """A sum over all cells fixes the constant."""
    return ts.Problem(SQUARE, ts.Equation(-ts.Laplacian()), [ts.Neumann(0.0), ts.MeanZero()])


def ring() -> ts.Problem:
    shape = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0.2, y=0.1, radius=0.3, name="hole")
    return ts.Problem(shape, ts.Equation(-ts.Laplacian()), [ts.Dirichlet(0.0)])


def stokes() -> ts.Problem:
    u, v, p = (ts.Field(name) for name in "uvp")
    equations = [
        ts.Equation(-ts.Laplacian() @ u + ts.D(x=1) @ p),
        ts.Equation(-ts.Laplacian() @ v + ts.D(y=1) @ p),
        ts.Equation(ts.D(x=1) @ u + ts.D(y=1) @ v),
    ]
    walls = [ts.Dirichlet(0.0, of=u), ts.Dirichlet(0.0, of=v)]
    return ts.Problem(SQUARE, equations, [*walls, ts.MeanZero(of=p)])


WAVE = {"enrichment": [lambda p: jnp.sin(9 * p[:, 0])]}


@pytest.mark.parametrize(
    ("problem", "choices"),
    [
        (carried(), CELLS),
        (carried(), CELLS | {"solver": "exchange"}),
        (carried(), CELLS | WAVE),
        (insulated(), CELLS),
        (ring(), CELLS),
        (stokes(), CELLS),
        (carried(), OVERLAP),
        (insulated(), OVERLAP),
    ],
    ids=[
        "merged",
        "exchanged",
        "enriched",
        "sums",
        "cut",
        "system",
        "overlap",
        "overlap with sums",
    ],
)
def test_solving_and_its_transpose_pass_the_dot_test(problem: ts.Problem, choices: Any) -> None:
    ready = ts.factor(problem, **choices).ready
    draw = np.random.default_rng(0)
    right = draw.standard_normal((2, len(ready.system.right)))
    a = ready.many(right).a
    back = draw.standard_normal(a.shape)
    found = ready.transposed(back)
    assert found is not None and found.shape == right.shape
    there, here = np.einsum("ij,ij->i", a, back), np.einsum("ij,ij->i", right, found)
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(back, axis=1)
    assert np.all(np.abs(there - here) < 1e-10 * size)


def test_an_iteration_has_no_transpose() -> None:
    problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2)), [ts.Dirichlet(0.0)])
    ready = ts.factor(problem, subdomains=2, features=8, solver="rrqr-lsqr").ready
    assert ready.transposed(np.ones((1, 18))) is None
