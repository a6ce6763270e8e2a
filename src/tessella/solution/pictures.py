"""Pictures of solutions: lines in 1D, maps in 2D, slices or snapshots in 3D."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.cells.tiling import Tiling
from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.machine.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tessella.solution.marched import Marched
    from tessella.solution.solution import Solution

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
"""From Okabe and Ito's palette, which stays apart for colour-blind eyes."""


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure as NewFigure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'tessella[plot]'") from None
    return NewFigure(figsize=(width, height), layout="constrained", dpi=150)


def plot_solution(solution: Solution, path: str | Path | None = None) -> Figure:
    """The solution, beside the exact one and the error where it is known."""
    domain = solution.problem.domain
    if domain.dimension == 1:
        figure = _lines(solution)
    elif domain.dimension == 2:
        figure = _maps(solution)
    elif domain.dimension == 3:
        figure = _slices(solution)
    else:
        raise ValueError(
            f"no plot for axes {domain.axes}: plots cover up to three axes; "
            f"evaluate the solution on a slice and plot that"
        )
    figure.suptitle(_title(solution), fontsize=11)
    if path is not None:
        figure.savefig(path)
    return figure


def _title(solution: Solution) -> str:
    report = solution.report
    name = "" if report.problem == "problem" else report.problem
    parameters = ", ".join(f"{k} = {v:g}" for k, v in report.parameters.items())
    error = f"error {report.error['l1_normalised']:.1e}" if report.error else ""
    if not error and report.error_estimate is not None:
        error = f"estimated error {report.error_estimate:.1e}"
    return " · ".join(part for part in (name, parameters, report.solver, error) if part)


class Shown(NamedTuple):
    """One unknown to draw: its name, its values, and the exact ones where they are known."""

    name: str
    values: Callable[[Array], Array]
    exact: Callable[[Array], Array] | None


def _shown(solution: Solution) -> list[Shown]:
    problem = solution.problem
    known = problem.exact_function is not None
    if len(problem.unknowns) == 1:
        return [Shown(problem.unknowns[0], solution, problem.exact_values if known else None)]

    def column(function: Callable[[Array], Array], k: int) -> Callable[[Array], Array]:
        return lambda points: function(points)[:, k]

    return [
        Shown(name, solution[name], column(problem.exact_values, k) if known else None)
        for k, name in enumerate(problem.unknowns)
    ]


def _lines(solution: Solution) -> Figure:
    """Every unknown, and its error below it."""
    problem = solution.problem
    (axis,) = problem.domain.axes
    x = problem.domain.grid((2000,))
    shown = _shown(solution)
    rows = sum(1 if one.exact is None else 2 for one in shown)
    figure = _figure(8, 2 + 2 * rows)
    axes = list(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
    axes[-1].set_xlabel(axis)
    decomposition = solution.basis.decomposition
    marks = decomposition.centres[:, 0]
    if isinstance(decomposition, Tiling):
        marks = np.sort(marks - decomposition.half_widths[:, 0])[1:]
    for one in shown:
        ax, u = axes.pop(0), one.values(x)
        if one.exact is not None:
            exact, below = one.exact(x), axes.pop(0)
            ax.plot(x[:, 0], exact, color=GREY, lw=3, alpha=0.5, label="exact")
            below.semilogy(x[:, 0], np.abs(u - exact) + 1e-17, color=ORANGE, lw=0.8)
            below.set_ylabel("absolute error")
        ax.plot(x[:, 0], u, color=BLUE, lw=1.2, label="tessella")
        for mark in marks if len(marks) <= 60 else ():
            ax.axvline(mark, color=GREY, lw=0.4, alpha=0.5)
        ax.set_ylabel(one.name)
        ax.legend(loc="best")
    return figure


def _maps(solution: Solution) -> Figure:
    """A line of maps for every unknown: exact, computed, error."""
    domain, n = solution.problem.domain, 201
    points = domain.grid((n, n))
    inside = domain.contains(points)
    shown = _shown(solution)
    columns = 1 if shown[0].exact is None else 3
    figure = _figure(4.2 * columns, 3.8 * len(shown))
    axes = figure.subplots(len(shown), columns, squeeze=False)
    for one, line in zip(shown, axes, strict=True):
        u = _masked(one.values, points, inside, n)
        panels: list[tuple[str, Array, str]] = [("tessella", u, "values")]
        if one.exact is not None:
            exact = _masked(one.exact, points, inside, n)
            panels = [
                ("exact", exact, "values"),
                *panels,
                ("absolute error", np.abs(u - exact), "error"),
            ]
        low, high = float(np.nanmin(panels[0][1])), float(np.nanmax(panels[0][1]))
        for ax, (title, values, kind) in zip(line, panels, strict=True):
            image = _image(ax, values, domain, (low, high) if kind == "values" else None)
            _draw_boundary(ax, domain, points, n)
            ax.set_title(title if len(shown) == 1 else f"{one.name}, {title}")
            figure.colorbar(image, ax=ax, fraction=0.046)
    if columns == 3 or not solution.basis.decomposition.equal:
        _outline(axes[0, -1], solution)
    return figure


def _slices(solution: Solution, count: int = 4) -> Figure:
    """Across the third axis: from start to end if it is time, inside the domain otherwise."""
    problem = solution.problem
    domain, n = problem.domain, 101
    timelike = domain.axes[2] == "t"
    places = np.linspace(*domain.bounds[2], count if timelike else count + 2)
    places = places if timelike else places[1:-1]
    shown = _shown(solution)
    kinds = ["tessella"] if shown[0].exact is None else ["exact", "tessella", "absolute error"]
    titles = [kind if len(shown) == 1 else f"{one.name}, {kind}" for one in shown for kind in kinds]
    figure = _figure(3.1 * count, 2.8 * len(titles))
    axes = figure.subplots(len(titles), count, squeeze=False)
    plane = domain.grid((n, n, 1))
    images: list[list[Array]] = []
    for place in places:
        points = plane.copy()
        points[:, 2] = place
        inside = domain.contains(points)
        column: list[Array] = []
        for one in shown:
            u = _masked(one.values, points, inside, n)
            if one.exact is None:
                column.append(u)
            else:
                exact = _masked(one.exact, points, inside, n)
                column += [exact, u, np.abs(u - exact)]
        images.append(column)
    for r, title in enumerate(titles):
        low = min(float(np.nanmin(column[r])) for column in images)
        high = max(float(np.nanmax(column[r])) for column in images)
        if not title.endswith("absolute error"):
            low, high = -max(-low, high), max(-low, high)
        for k, column in enumerate(images):
            limits = (low, high)
            image = _image(
                axes[r, k], column[r], domain, limits, "RdBu_r" if low < 0 else "viridis"
            )
            _draw_boundary(axes[r, k], domain, plane, n)
            if r == 0:
                axes[r, k].set_title(f"{domain.axes[2]} = {places[k]:.3g}")
        axes[r, 0].set_ylabel(f"{title}\n{domain.axes[1]}")
        figure.colorbar(image, ax=axes[r, :].tolist(), shrink=0.85)
    return figure


def _masked(
    function: Callable[[Array], Array], points: Array, inside: NDArray[np.bool_], n: int
) -> Array:
    """Values on an n x n grid, NaN at its points outside the domain."""
    values = np.full(len(points), np.nan)
    values[inside] = function(points[inside])
    return values.reshape(n, n)


def _draw_boundary(ax: Any, domain: Domain, points: Array, n: int) -> None:
    """The line where the signed distance to a shape vanishes; a box has the frame."""
    if not isinstance(domain, Box):
        distance = domain.signed_distance(points).reshape(n, n)
        x, y = points[:, 0].reshape(n, n), points[:, 1].reshape(n, n)
        ax.contour(x, y, distance, levels=[0.0], colors="black", linewidths=0.8)


def _image(
    ax: Any, values: Array, domain: Any, limits: tuple[float, float] | None, cmap: str = "viridis"
) -> Any:
    from matplotlib.colors import Normalize

    (x0, x1), (y0, y1) = domain.bounds[:2]
    ax.set_xlabel(domain.axes[0])
    ax.set_ylabel(domain.axes[1])
    return ax.imshow(
        values.T,
        origin="lower",
        extent=(x0, x1, y0, y1),
        norm=_error_norm(values) if limits is None else Normalize(*limits),
        cmap=cmap,
        aspect="auto" if domain.axes[1] == "t" else "equal",
        interpolation="bilinear",
    )


DECADES = 4
"""An error is drawn from its largest value down to so many powers of ten below it."""


def _error_norm(errors: Array) -> Any:
    """Colours by powers of ten, unless nothing is wrong anywhere."""
    from matplotlib.colors import LogNorm, Normalize

    most = float(np.nanmax(errors))
    return LogNorm(most * 10.0**-DECADES, most, clip=True) if most > 0 else Normalize(0, 1)


MOST_OUTLINED = 1000
"""Subdomains drawn into a map."""


def _outline(ax: Any, solution: Solution) -> None:
    """The faces of subdomains side by side; of overlapping ones the centres, and the middle one."""
    decomposition = solution.basis.decomposition
    if decomposition.count > MOST_OUTLINED:
        return
    if isinstance(decomposition, Tiling):
        from matplotlib.collections import LineCollection

        ends = np.array([[-1.0], [1.0]])
        lines = [f.points(decomposition, ends) for f in decomposition.faces]
        ax.add_collection(
            LineCollection(list(np.concatenate(lines)), colors="white", lw=0.5, alpha=0.6)
        )
        return
    centres, half = decomposition.centres, decomposition.half_width
    ax.plot(centres[:, 0], centres[:, 1], ".", color="white", ms=2)
    middle = centres[np.argmin(np.linalg.norm(centres - centres.mean(axis=0), axis=1))]
    corner_x = middle[0] + half[0] * np.array([-1, 1, 1, -1, -1])
    corner_y = middle[1] + half[1] * np.array([-1, -1, 1, 1, -1])
    ax.plot(corner_x, corner_y, color="white", lw=1)


def plot_history(solution: Solution, path: str | Path | None = None) -> Figure:
    """Residual and, where known, error against the iteration; of a refinement to a tolerance,
    residual and estimated error against the unknowns of every step."""
    if solution.report.refinement:
        return _refinement(solution, path)
    history = solution.history
    figure = _figure(7, 4)
    ax = figure.subplots()
    steps = np.arange(1, len(history.residual) + 1)
    ax.loglog(steps, history.residual, color=BLUE, label="residual")
    ax.loglog(steps, history.normal_residual, color=GREY, lw=0.8, label="normal residual")
    known = np.isfinite(history.error)
    if known.any():
        ax.loglog(steps[known], history.error[known], color=ORANGE, label="error (normalised L1)")
    ax.set_xlabel("iteration")
    ax.set_ylabel("norm, error")
    ax.legend()
    ax.set_title(_title(solution), fontsize=11)
    if path is not None:
        figure.savefig(path)
    return figure


def _refinement(solution: Solution, path: str | Path | None) -> Figure:
    """Every step of `tol`; what was changed is written at its residual."""
    report = solution.report
    figure = _figure(7, 4)
    ax = figure.subplots()
    steps = report.refinement or ()
    unknowns = [step.unknowns for step in steps]
    ax.loglog(unknowns, [s.residual for s in steps], "o-", color=BLUE, label="held-out residual")
    judged = [(s.unknowns, s.estimate) for s in steps if s.estimate is not None]
    if judged:
        ax.loglog(*zip(*judged, strict=True), "s-", color=ORANGE, label="estimated error")
    for number, step in enumerate(steps, 1):
        ax.annotate(
            f"{number} {step.change}",
            (step.unknowns, step.residual),
            textcoords="offset points",
            xytext=(4, 5),
            fontsize=7,
            color=GREY,
        )
    if report.tolerance is not None:
        ax.axhline(report.tolerance, color=GREY, lw=0.8, ls="--", label="tolerance")
    ax.margins(x=0.15)
    ax.set_xlabel("unknowns")
    ax.set_ylabel("residual, error")
    ax.legend()
    ax.set_title(_title(solution), fontsize=11)
    if path is not None:
        figure.savefig(path)
    return figure


def plot_march(marched: Marched, path: str | Path | None = None) -> Figure:
    """How the error of a march grew, below the solution where one axis beside t shows it all."""
    domain = marched.problem.domain
    shown = domain.dimension <= 2
    figure = _figure(9, 6 if shown else 3.5)
    axes = figure.subplots(2 if shown else 1, 1, squeeze=False)[:, 0]
    if domain.dimension == 1:
        t = domain.grid((2000,))
        axes[0].plot(t[:, 0], marched(t), color=BLUE, lw=0.8)
    elif domain.dimension == 2:
        time = domain.axis_index("t")
        values = marched(domain.grid((201, 201))).reshape(201, 201)
        image = axes[0].imshow(
            values if time else values.T,
            origin="lower",
            extent=(*domain.bounds[time], *domain.bounds[1 - time]),
            aspect="auto",
            cmap="RdBu_r",
            interpolation="bilinear",
        )
        axes[0].set_ylabel(domain.axes[1 - time])
        figure.colorbar(image, ax=axes[0])
    _growth(axes[-1], marched)
    axes[-1].set_xlim(axes[0].get_xlim())
    figure.suptitle(f"{marched.report.problem}, {len(marched.slabs)} slabs", fontsize=11)
    if path is not None:
        figure.savefig(path)
    return figure


def _growth(ax: Any, marched: Marched) -> None:
    slabs = marched.report.slabs
    ends = [slab.end for slab in slabs]
    jump = next(iter(slabs[0].jumps))
    curves: dict[str, tuple[str, list[float | None]]] = {
        f"jump, {jump}, rms": (GREY, [slab.jumps[jump] for slab in slabs]),
        "estimated error, normalised L1": (BLUE, [slab.estimate for slab in slabs]),
        "true error, normalised L1": (
            ORANGE,
            [(s.error or {}).get("l1_normalised") for s in slabs],
        ),
    }
    for label, (colour, values) in curves.items():
        if all(value is not None for value in values):
            ax.semilogy(ends, values, ".-", color=colour, lw=1, ms=4, label=label)
    ax.set_xlabel("t")
    ax.legend()
