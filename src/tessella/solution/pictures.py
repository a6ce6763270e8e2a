"""Pictures of solutions: lines in 1D, maps in 2D, slices or snapshots in 3D; of how they were
found, and of marches in time."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline

from tessella.cells.boxes.tiling import Tiling
from tessella.machine.arrays import Array
from tessella.machine.printing import counted
from tessella.solution.export import Sampled
from tessella.solution.panels import (
    BLUE,
    GREY,
    ORANGE,
    Plane,
    Shown,
    cut_places,
    draw_subdomains,
    drawn_axes,
    error_colours,
    finished,
    line_points,
    new_figure,
    panel_size,
    resolution,
    shown_unknowns,
    value_colours,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from tessella.solution.branch import Branch, BranchPoint, Singular
    from tessella.solution.marched import Marched, MarchReport
    from tessella.solution.report import Report
    from tessella.solution.solution import Solution

LINE, MAP, SLICE, TIMES = (2_000, 20_000), (201, 501), (151, 251), (201, 1_001)
"""Points of a line, and points per axis of maps, slices and times of a march: at least, at most."""

SLICES = 4


def plot_solution(solution: Solution, path: str | Path | None = None) -> Figure:
    """The solution, beside the exact one and the error where it is known."""
    domain = solution.problem.domain
    if domain.dimension == 1:
        figure = _lines(solution, path)
    elif domain.dimension == 2:
        figure = _maps(solution, path)
    else:
        cuts = cut_places(domain, SLICES)
        figure = new_figure(*_slices_size(solution), path)
        _slices(figure, solution, _slice_counts(solution), cuts)
    return finished(figure, _title(solution.report, solution.report.solver), path)


def _title(report: Report | MarchReport, solver: str) -> str:
    name = "" if report.problem == "problem" else report.problem
    parameters = ", ".join(f"{k} = {v:g}" for k, v in report.parameters.items())
    error = f"error {report.error['l1_normalised']:.1e}" if report.error else ""
    if not error and report.error_estimate is not None:
        error = f"estimated error {report.error_estimate:.1e}"
    return " · ".join(part for part in (name, parameters, solver, error) if part)


def _lines(solution: Solution, path: str | Path | None) -> Figure:
    """Every unknown, and its error below it."""
    domain = solution.problem.domain
    x = line_points(domain, [solution], *LINE)
    shown = shown_unknowns(solution)
    rows = sum(1 if one.exact is None else 2 for one in shown)
    figure = new_figure(8, 2 + 2 * rows, path)
    axes = list(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
    axes[-1].set_xlabel(domain.axes[0])
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


def _maps(solution: Solution, path: str | Path | None) -> Figure:
    """A line of maps for every unknown: exact, computed, error."""
    domain = solution.problem.domain
    m, n = np.clip(resolution(solution), *MAP).astype(int).tolist()
    plane = Plane(domain, (m, n))
    shown = shown_unknowns(solution)
    columns = 1 if shown[0].exact is None else 3
    width, height = panel_size(domain, 3.1)
    figure = new_figure((width + 1.3) * columns, (height + 0.7) * len(shown) + 0.2, path)
    axes = figure.subplots(len(shown), columns, squeeze=False)
    for one, line in zip(shown, axes, strict=True):
        panels = {"tessella": plane.values(one.values)}
        if one.exact is not None:
            exact = plane.values(one.exact)
            errors = np.abs(panels["tessella"] - exact)
            panels = {"exact": exact, **panels, "absolute error": errors}
        for ax, (title, values) in zip(line, panels.items(), strict=True):
            wrong = title == "absolute error"
            first = next(iter(panels.values()))
            colours = (
                error_colours([values]) if wrong else value_colours([first], "t" in domain.axes)
            )
            image = plane.draw(ax, values, *colours)
            ax.set_xlabel(plane.names[0])
            ax.set_ylabel(plane.names[1])
            ax.set_title(title if len(shown) == 1 else f"{one.name}, {title}")
            figure.colorbar(image, ax=ax, fraction=0.046)
        if columns == 3 or not solution.basis.decomposition.equal:
            draw_subdomains(line[-1], solution)
    return figure


def _slice_counts(solution: Solution) -> tuple[int, int]:
    drawn = list(drawn_axes(solution.problem.domain))
    m, n = np.clip(resolution(solution)[drawn], *SLICE).astype(int).tolist()
    return m, n


def _slices_size(solution: Sampled) -> tuple[float, float]:
    shown = shown_unknowns(solution)
    rows = len(shown) * (1 if shown[0].exact is None else 3)
    width, height = panel_size(solution.problem.domain, 2.3)
    return (width + 0.5) * SLICES + 1.2, (height + 0.4) * rows + 0.7


def _slices(
    figure: Figure | SubFigure,
    solution: Sampled,
    counts: tuple[int, int],
    cuts: Sequence[Mapping[str, float]],
) -> None:
    """A line for every unknown, its exact values and its error: maps at all cuts, one range."""
    planes = [Plane(solution.problem.domain, counts, cut) for cut in cuts]
    rows: list[tuple[str, list[Array], list[Array] | None]] = []
    for one in shown_unknowns(solution):
        name = "" if len(solution.problem.unknowns) == 1 else f"{one.name}, "
        u = [plane.values(one.values) for plane in planes]
        if one.exact is not None:
            exact = [plane.values(one.exact) for plane in planes]
            errors = [np.abs(a - b) for a, b in zip(u, exact, strict=True)]
            rows += [(f"{name}exact", exact, [*exact, *u]), (f"{name}tessella", u, [*exact, *u])]
            rows += [(f"{name}absolute error", errors, None)]
        else:
            rows += [(name.removesuffix(", "), u, u)]
    axes = figure.subplots(len(rows), len(planes), squeeze=False, sharex=True, sharey=True)
    for line, (title, images, common) in zip(axes, rows, strict=True):
        norm, colours = error_colours(images) if common is None else value_colours(common, True)
        drawn = [
            plane.draw(ax, values, norm, colours)
            for ax, plane, values in zip(line, planes, images, strict=True)
        ]
        line[0].set_ylabel(f"{textwrap.fill(title, 24)}\n{planes[0].names[1]}".lstrip())
        figure.colorbar(drawn[0], ax=line.tolist(), shrink=0.85)
    for top, bottom, plane in zip(axes[0], axes[-1], planes, strict=True):
        top.set_title(", ".join(f"{axis} = {place:.3g}" for axis, place in plane.at.items()))
        bottom.set_xlabel(plane.names[0])


def plot_history(solution: Solution, path: str | Path | None = None) -> Figure:
    """Residual and, where known, error against the iteration; of a refinement to a tolerance,
    residual and estimated error after every step, with what it changed and its unknowns."""
    if solution.report.refinement:
        figure = _refinement(solution, path)
    else:
        figure = _iterations(solution, path)
    return finished(figure, _title(solution.report, solution.report.solver), path)


def _iterations(solution: Solution, path: str | Path | None) -> Figure:
    history = solution.history
    figure = new_figure(7, 4, path)
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
    return figure


def _refinement(solution: Solution, path: str | Path | None) -> Figure:
    """Every step of `tol` side by side; what it changed and its unknowns are written below it."""
    report = solution.report
    steps = report.refinement or ()
    figure = new_figure(max(7.0, 1.0 + 0.8 * len(steps)), 4, path)
    ax = figure.subplots()
    numbers = range(1, len(steps) + 1)
    ax.semilogy(numbers, [s.residual for s in steps], "o-", color=BLUE, label="held-out residual")
    judged = [(k, s.estimate) for k, s in zip(numbers, steps, strict=True) if s.estimate]
    if judged:
        ax.semilogy(*zip(*judged, strict=True), "s-", color=ORANGE, label="estimated error")
    if report.tolerance is not None:
        ax.axhline(report.tolerance, color=GREY, lw=0.8, ls="--", label="tolerance")
    words = [f"{textwrap.fill(step.change, 12)}\n{step.unknowns:,}" for step in steps]
    ax.set_xticks(numbers, words, fontsize=8)
    ax.set_xlim(0.5, len(steps) + 0.5)
    ax.set_xlabel("what was changed, and the unknowns then")
    ax.set_ylabel("residual, error")
    ax.legend()
    return figure


def plot_march(marched: Marched, path: str | Path | None = None) -> Figure:
    """The solution in time, and how its error grew."""
    dimension = marched.problem.domain.dimension
    if dimension > 2:
        cuts = cut_places(marched.problem.domain, SLICES)
        width, height = _slices_size(marched)
        grows = len(marched.slabs) > 1
        figure = new_figure(width, height + 3 * grows, path)
        ratios = (height, 3) if grows else (height,)
        parts = figure.subfigures(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        _slices(parts[0], marched, _slice_counts(marched.slabs[0]), cuts)
        if grows:
            _growth(parts[1].subplots(), marched)
    else:
        shown = shown_unknowns(marched)
        figure = new_figure(9, 3 * (len(shown) + 1), path)
        *axes, last = figure.subplots(len(shown) + 1, 1, squeeze=False, sharex=True)[:, 0]
        for ax, one in zip(axes, shown, strict=True):
            (_curve if dimension == 1 else _strip)(figure, ax, marched, one)
        _growth(last, marched)
    title = _title(marched.report, marched.report.first.solver)
    return finished(figure, f"{title} · {counted(len(marched.slabs), 'slab')}", path)


def _curve(figure: Figure, ax: Axes, marched: Marched, one: Shown) -> None:
    t = line_points(marched.problem.domain, marched.slabs, *LINE)
    ax.plot(t[:, 0], one.values(t), color=BLUE, lw=0.8)
    ax.set_ylabel(one.name)


def _strip(figure: Figure, ax: Axes, marched: Marched, one: Shown) -> None:
    """One space axis upwards, time to the right."""
    domain, finest = marched.problem.domain, resolution(marched.slabs[0])
    time = domain.axis_index("t")
    counts = np.clip(finest, *MAP)
    counts[time] = np.clip(len(marched.slabs) * finest[time], *TIMES)
    m, n = counts.astype(int).tolist()
    values = Plane(domain, (m, n)).values(one.values)
    norm, colours = value_colours([values], True)
    image = ax.imshow(
        values if time else values.T,
        origin="lower",
        extent=(*domain.bounds[time], *domain.bounds[1 - time]),
        aspect="auto",
        norm=norm,
        cmap=colours,
        interpolation="bilinear",
    )
    name = "" if len(marched.problem.unknowns) == 1 else f"{one.name}\n"
    ax.set_ylabel(f"{name}{domain.axes[1 - time]}")
    figure.colorbar(image, ax=ax)


def _growth(ax: Axes, marched: Marched) -> None:
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
    domain = marched.problem.domain
    ax.set_xlim(domain.bounds[domain.axis_index("t")])
    ax.set_xlabel("t")
    ax.legend()


def plot_branch(branch: Branch, path: str | Path | None = None) -> Figure:
    """The measure over the parameter; dashed after an odd number of singular points, where what
    was stable at first is not, or the other way round."""
    figure = new_figure(7, 4.5, path)
    ax = figure.subplots()
    turns = list(branch.singular)
    for count in range(branch.points[-1].crossings + 1):
        own = [point for point in branch.points if point.crossings == count]
        x, y = _smooth([*turns[count - 1 : count], *own, *turns[count : count + 1]])
        ax.plot(x, y, color=BLUE, lw=1.2, ls="--" if count % 2 else "-")
    ax.plot(branch.parameters, branch.measures, ".", color=BLUE, ms=4)
    for kind, mark in (("fold", "o"), ("bifurcation", "s")):
        these = [one for one in turns if one.kind == kind]
        if these:
            places = zip(*((one.parameter, one.measure) for one in these), strict=True)
            ax.plot(*places, mark, color=ORANGE, label=kind)
    for one in turns:
        place = one.parameter, one.measure
        text, where = f"{one.parameter:.6g}", "offset points"
        ax.annotate(text, place, (-8, 4), textcoords=where, ha="right", color=ORANGE)
    if turns:
        ax.legend()
    ax.set_xlabel(branch.name)
    ax.set_ylabel(branch.measured)
    report = branch.points[0].solution.report
    name = "" if report.problem == "problem" else report.problem
    return finished(figure, " · ".join(filter(None, (name, f"branch in {branch.name}"))), path)


def _smooth(points: Sequence[BranchPoint | Singular]) -> tuple[Array, Array]:
    """A curve through points of a branch, by a spline over the polygon's length."""
    x, y = (np.array([getattr(p, of) for p in points]) for of in ("parameter", "measure"))
    spans = [np.diff(v) / (np.ptp(v) or 1.0) for v in (x, y)]
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*spans))])
    kept = np.concatenate([[True], np.diff(length) > 1e-9])
    if np.count_nonzero(kept) < 3:
        return x, y
    s = np.linspace(0.0, length[-1], 20 * len(points))
    spline = CubicSpline(length[kept], np.stack([x, y], axis=1)[kept])
    x, y = spline(s).T
    return x, y
