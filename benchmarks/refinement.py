"""Refinement where the solution is poor, against refinement everywhere; and what reuse saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from tessella.cells.maps.shelf import Shelf
from tessella.problem.normal_form import apply_to_function
from tessella.solving.tolerance import solve_to

PATIENCE = 30.0


def peak(sharpness: float) -> ts.Problem:
    """-Laplace(u) = f with a Gaussian of width sharpness^-1/2 on a smooth background."""

    def u(p: Any) -> Any:
        x, y = p[:, 0] - 0.3, p[:, 1] - 0.6
        return jnp.exp(-sharpness * (x**2 + y**2)) + jnp.sin(3 * p[:, 0] + p[:, 1])

    domain = ts.Box(x=(0, 1), y=(0, 1))
    operator = -1.0 * ts.Laplacian()
    terms = operator.expand(domain.axes)
    equation = ts.Equation(operator, lambda p: apply_to_function(terms, u, p))
    return ts.Problem(domain, equation, [ts.Dirichlet(u)], exact=u, name=f"peak {sharpness:g}")


def spreading(width: float) -> ts.Problem:
    """Heat from a Gaussian of this width, which is all there is at the start."""

    def u(p: Any) -> Any:
        s = width**2 + 0.04 * p[:, 1]
        return width / jnp.sqrt(s) * jnp.exp(-((p[:, 0] - 0.4) ** 2) / s)

    domain = ts.Box(x=(0, 1), t=(0, 0.5))
    equation = ts.Equation(ts.D(t=1) - 0.01 * ts.D(x=2))
    return ts.Problem(
        domain, equation, [ts.Dirichlet(u), ts.Initial(u)], exact=u, name=f"spreading {width:g}"
    )


def varied(steepness: float) -> ts.Problem:
    """The front of the gallery where the coefficient varies: no two subdomains are equal."""
    plain = ts.gallery.get("front").problem(steepness=steepness)
    u: Any = plain.exact

    def a(p: Any) -> Any:
        return 1.0 + 0.5 * jnp.sin(3 * p[:, 0] + 2 * p[:, 1])

    operator = -1.0 * (ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1)))
    terms = operator.expand(plain.domain.axes)
    equation = ts.Equation(operator, lambda p: apply_to_function(terms, u, p))
    return ts.Problem(plain.domain, equation, [ts.Dirichlet(u)], exact=u, name="varied front")


def _of_gallery(name: str, **parameters: float) -> Callable[[], ts.Problem]:
    return lambda: ts.gallery.get(name).problem(**parameters)


PROBLEMS: dict[str, Callable[[], ts.Problem]] = {
    "advection-diffusion 1e-3": _of_gallery("advection-diffusion", eps=1e-3),
    "advection-diffusion 1e-4": _of_gallery("advection-diffusion", eps=1e-4),
    "advection-diffusion 1e-5": _of_gallery("advection-diffusion", eps=1e-5),
    "reaction-diffusion 1e-3": _of_gallery("reaction-diffusion", eps=1e-3),
    "reaction-diffusion 1e-5": _of_gallery("reaction-diffusion", eps=1e-5),
    "front 60": _of_gallery("front", steepness=60.0),
    "front 120": _of_gallery("front", steepness=120.0),
    "front 60, varied coefficient": lambda: varied(60.0),
    "peak 1e3": lambda: peak(1e3),
    "peak 1e4": lambda: peak(1e4),
    "spreading 0.01": lambda: spreading(0.01),
    "spreading 0.003": lambda: spreading(0.003),
}


@contextmanager
def everywhere() -> Iterator[None]:
    """All subdomains of one size."""

    def none(problem: ts.Problem) -> tuple[tuple[float, float], ...]:
        return tuple((0.0, 0.0) for _ in problem.domain.axes)

    with (
        patch("tessella.solving.refinement.split", lambda tiling, errors, axes: None),
        patch("tessella.solving.plan.layers", none),
        patch("tessella.accuracy.tuning.THIN", np.inf),
    ):
        yield


@contextmanager
def without_reuse() -> Iterator[None]:
    with patch("tessella.solving.tolerance.Shelf", lambda: Shelf(most=0)):
        yield


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


WAYS = {"local": as_it_is, "local, nothing reused": without_reuse, "everywhere": everywhere}


def refinement() -> None:
    """`solve(problem, tol=1e-6)` three ways, never slab by slab; every run twice, the second one
    counts."""
    method = ts.Method(tol=1e-6, patience=PATIENCE)
    rows: list[dict[str, Any]] = []
    for name, make in PROBLEMS.items():
        for way, inside in WAYS.items():
            problem = make()
            for _ in range(2):
                with inside():
                    solution = solve_to(problem, method, None)
            report, steps = solution.report, solution.report.refinement
            rows.append(
                {
                    "problem": name,
                    "refined": way,
                    "met": report.stop_reason == "tolerance met",
                    "estimate": report.error_estimate,
                    "true": (report.error or {})["l1_normalised"],
                    "subdomains": solution.basis.decomposition.count,
                    "unknowns": report.columns + (report.traces or 0),
                    "steps": len(steps),
                    "factored": sum(step.distinct - step.reused for step in steps),
                    "reused": sum(step.reused for step in steps),
                    "s": report.seconds["total"] - report.seconds["compile"],
                }
            )
            save("refinement", rows)
            print(f"  {name}, {way}: {rows[-1]['true']:.1e}, {rows[-1]['s']:.2f} s", flush=True)
    table("solve(problem, tol=1e-6)", rows)
