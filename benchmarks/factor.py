"""Factored once: a thousand right-hand sides, and eigenvalues with their errors.

Seconds are those of the clock and those of the processor, which other work beside does not change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import reduce
from operator import sub
from typing import Any

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from benchmarks.peers import problems
from benchmarks.peers.score import normalised_l1
from tessella.gallery.reference.four_holes import CENTRES, RADIUS

COUNT, FEATURES = 1_000, 140
L_SHAPE, CLAMPED = 9.6397238440219, 1294.9339795917128
"""The first eigenvalues of the L and of the clamped unit square, from the literature."""


def _timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    found = run()
    return found, time.perf_counter() - wall, time.process_time() - processor


def right_sides() -> None:
    """The Laplacian n = 4 at 1e-8: its own right-hand side, a thousand others, and in batches."""
    case, rng = problems.laplace(4), np.random.default_rng(0)
    factored = ts.factor(case.stated(), subdomains=8, features=FEATURES, coupling="interfaces")
    print(factored)
    x = rng.random((4_000, 2))
    own = case.stated().equations[0].rhs
    error = normalised_l1(factored.solve(rhs=own)(x), case.exact(x))
    waves = rng.uniform(1, 16, (COUNT, 2))
    loads = [lambda p, w=w: np.sin(np.pi * p @ w) for w in waves]
    rows = []
    for batch in (1, 10, 100, COUNT):

        def run(batch: int = batch) -> None:
            for i in range(0, COUNT, batch):
                factored.solve(rhs=loads[i] if batch == 1 else loads[i : i + batch])

        _, wall, processor = _timed(run)
        rows.append(
            {
                "at once": batch,
                "ms each": 1e3 * wall / COUNT,
                "processor ms each": 1e3 * processor / COUNT,
                "error of its own": error,
            }
        )
    save("right_sides", rows)
    table(f"Laplacian n = 4, {COUNT:,} right-hand sides", rows)


def corner_terms(top: float) -> list[ts.Enrichment]:
    """r^(a + 2 m) sin(a theta), a = 2 n / 3, up to an exponent: what eigenfunctions contain at the
    corner of an L."""
    near, found = ts.Box(x=(-0.45, 0.45), y=(-0.45, 0.45)), []
    for n, m in ((n, m) for n in range(1, 12) for m in range(4)):
        if n % 3 and 2 * n / 3 + 2 * m < top:
            corner = ts.Corner(1.5 * math.pi, exponent=2 * n / 3)

            def term(p: Any, corner: ts.Corner = corner, m: int = m) -> Any:
                return jnp.sum(p[:, :2] ** 2, axis=1) ** m * corner(p)

            found.append(ts.Enrichment(term, where=near))
    return found


def l_shape() -> ts.Problem:
    square, quadrant = ts.Box(x=(-1, 1), y=(-1, 1)), ts.Box(x=(0, 1), y=(-1, 0))
    drum = ts.Equation(-ts.Laplacian())
    return ts.Problem(square - quadrant, drum, [ts.Dirichlet(0.0)], name="L")


def four_holes() -> ts.Problem:
    square = ts.Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    discs: list[Any] = [ts.Ball(x=x, y=y, radius=RADIUS) for x, y in CENTRES]
    drum = ts.Equation(-ts.Laplacian())
    return ts.Problem(reduce(sub, discs, square), drum, [ts.Dirichlet(0.0)], name="four holes")


def finite_elements(order: int, size: float, count: int) -> np.ndarray:
    """Eigenvalues of the square with four holes by NGSolve's curved elements."""
    import ngsolve
    import scipy.sparse
    from netgen.geom2d import Circle, CSG2d, Rectangle

    geometry, shape = CSG2d(), Rectangle((-0.5, -0.5), (0.5, 0.5), bc="wall")
    for centre in CENTRES:
        shape = shape - Circle(centre, RADIUS, bc="wall")
    geometry.Add(shape)
    mesh = ngsolve.Mesh(geometry.GenerateMesh(maxh=size))
    mesh.Curve(order)
    space = ngsolve.H1(mesh, order=order, dirichlet="wall")
    u, v = space.TnT()
    measure = ngsolve.dx(bonus_intorder=6)
    inside = [i for i in range(space.ndof) if space.FreeDofs()[i]]

    def matrix(form: Any) -> Any:
        rows, columns, values = ngsolve.BilinearForm(form * measure).Assemble().mat.COO()
        entries = np.array(values), (np.array(rows), np.array(columns))
        return scipy.sparse.csr_matrix(entries, (space.ndof,) * 2)[inside][:, inside].tocsc()

    stiffness, mass = matrix(ngsolve.grad(u) * ngsolve.grad(v)), matrix(u * v)
    found = scipy.sparse.linalg.eigsh(stiffness, count, mass, sigma=0.0, tol=1e-14)[0]
    return np.sort(found)


def eigenvalues() -> None:
    """A corner, holes and the fourth order, warm."""
    holes = finite_elements(12, 0.06, 24)[:20]
    apart = np.max(np.abs(finite_elements(10, 0.08, 24)[:20] / holes - 1))
    print(f"finite elements of two orders agree to {apart:.0e}")
    plate = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        ts.Equation(ts.Laplacian() @ ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Neumann(0.0)],
        name="clamped plate",
    )
    edges = [0, 0.03, 0.1, 0.3, 0.7, 0.9, 0.97, 1]
    corner = {"subdomains": 4, "features": 200, "enrichment": corner_terms(6.0)}
    finer = ts.eigs(
        l_shape(), k=20, subdomains=6, features=300, enrichment=corner_terms(8.0), estimate=False
    )
    graded = {"subdomains": (edges, edges), "features": 200}
    cases: list[tuple[str, ts.Problem, np.ndarray, dict[str, Any]]] = [
        ("L, first", l_shape(), np.array([L_SHAPE]), {**corner, "estimate": False}),
        ("L, first, with estimate", l_shape(), np.array([L_SHAPE]), corner),
        ("L, 20 against finer", l_shape(), finer.values, corner),
        ("four holes, 20", four_holes(), holes, {"subdomains": 10, "features": 220}),
        ("plate, first", plate, np.array([CLAMPED]), graded),
    ]
    rows = []
    for name, problem, known, settings in cases:

        def run(problem: ts.Problem = problem, k: int = len(known), own: Any = settings) -> Any:
            return ts.eigs(problem, k=k, **own)

        run()
        found, wall, processor = _timed(run)
        rows.append(
            {
                "case": name,
                "relative error": float(np.max(np.abs(found.values / known - 1))),
                "estimated": float(np.max(found.errors / found.values)),
                "s": wall,
                "processor s": processor,
                "columns": found.functions[0].report.columns,
                "right-hand sides": found.solves,
            }
        )
    save("eigenvalues", rows)
    table("Eigenvalues", rows)
