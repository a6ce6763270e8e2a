"""Figures of solutions: solved here and now, because records keep numbers and not functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.rrqr import RRQR
from tessella.machine.arrays import Array
from tessella.overlap.basis import per_field
from tessella.overlap.matrices import evaluate_matrix
from tessella.overlap.points import Grid
from tessella.overlap.system import assemble
from tessella.reproduction import cases, paper
from tessella.reproduction.figure_parts import (
    BLUE,
    GREY,
    MAP_DPI,
    ORANGE,
    Source,
    draw_error_map,
    draw_map,
    page,
    power,
    shades,
    spectrum_panel,
)
from tessella.reproduction.store import Record
from tessella.solution.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

OSCILLATOR, LAPLACE, WAVE = paper.PROBLEMS

ITERATIONS = {OSCILLATOR: 1_000, LAPLACE: 500, WAVE: 500}
"""Enough to see no difference from the exact solution where the method reaches it."""

TENTH = 9
"""The subdomain whose basis functions the paper shows."""


def _systems(solution: Solution) -> tuple[BlockMatrix, BlockMatrix, np.ndarray]:
    """M, M_hat S^-1 and the columns kept, of the system a solution was found with."""
    settings = solution.report.settings
    rows = Grid(settings["oversampling"]).rows(solution.problem, solution.basis)
    M = assemble(solution.problem, solution.basis, rows).M
    filtered = RRQR(settings["sigma"]).apply(M)
    return M, filtered.Q.select(filtered.kept), filtered.kept


def _error(solution: Solution) -> float:
    return float((solution.report.error or {}).get("l1_normalised", np.nan))


def _note(*solutions: Solution) -> str:
    counts = sorted({s.report.iterations for s in solutions})
    return f"RRQR-LSQR, {counts[-1]:,} iterations, seed 0."


def oscillator_solution(source: Source) -> tuple[Figure, str]:
    """Solution over its subdomains, and the basis functions of the tenth of them."""
    solution = source.solve(OSCILLATOR, ITERATIONS[OSCILLATOR])
    figure = page(7.2, 3.6)
    axes = figure.subplot_mosaic(
        [["u", "basis"], ["boxes", "basis"]], width_ratios=[1.5, 1], height_ratios=[2.2, 1]
    )
    t = solution.problem.domain.grid((1000,))
    _compare(axes["u"], t, solution)
    axes["u"].set_title(f"error {power(_error(solution))}", fontsize=9)
    axes["u"].legend(loc="upper right", ncols=2, borderaxespad=0)
    axes["u"].set_ylim(-1.15, 1.45)
    _intervals(axes["boxes"], solution)
    axes["boxes"].sharex(axes["u"])
    axes["u"].tick_params(labelbottom=False)
    _basis_functions(axes["basis"], solution)
    return figure, _note(solution)


def _compare(ax: Axes, t: Array, solution: Solution) -> None:
    ax.plot(t[:, 0], solution.problem.exact_values(t), color=GREY, lw=4, alpha=0.4, label="exact")
    ax.plot(t[:, 0], solution(t), color=BLUE, lw=1.2, label="model")
    ax.set_ylabel("$u(t)$")


def _intervals(ax: Axes, solution: Solution) -> None:
    """One bar per subdomain, stacked so that overlapping ones lie on different lines."""
    decomposition = solution.basis.decomposition
    half, (low, high) = decomposition.half_width[0], decomposition.domain.bounds[0]
    lines = int(np.ceil(decomposition.overlap[0])) + 1
    for j, centre in enumerate(decomposition.centres[:, 0]):
        ends = np.clip([centre - half, centre + half], low, high)
        tenth = j == TENTH
        ax.plot(
            ends,
            [j % lines] * 2,
            color=ORANGE if tenth else GREY,
            lw=3 if tenth else 2,
            solid_capstyle="butt",
        )
    ax.set_ylim(-0.7, lines - 0.3)
    ax.set_yticks([])
    ax.set_ylabel("subdomains")
    ax.set_xlabel("time $t$")


def _basis_functions(ax: Axes, solution: Solution) -> None:
    """omega_j phi_jk of the tenth subdomain; those the filter drops are dashed."""
    (basis,) = per_field(solution.basis, solution.problem.fields)
    decomposition, C = basis.decomposition, basis.features.columns
    j = min(TENTH, decomposition.count - 1)
    centre, half = decomposition.centres[j, 0], decomposition.half_width[0]
    low, high = decomposition.domain.bounds[0]
    t = np.linspace(max(low, centre - half), min(high, centre + half), 400)[:, None]
    values = evaluate_matrix(basis, t, {(0,): np.ones(len(t))}).to_csr()
    own = values[:, j * C : (j + 1) * C].toarray()
    kept = set(_systems(solution)[2].tolist())
    colours = shades(ORANGE, C)
    for k in range(C):
        stays = j * C + k in kept
        ax.plot(t[:, 0], own[:, k], color=colours[k], lw=1.3, ls="-" if stays else ":")
    dropped = C - sum(j * C + k in kept for k in range(C))
    ax.set_title(f"subdomain {j + 1}: {C} functions, {dropped} dropped", fontsize=9)
    ax.set_xlabel("time $t$")
    ax.set_ylabel(r"$\omega_j(t)\,\varphi_{jk}(t)$")


def oscillator_condition(source: Source) -> tuple[Figure, str]:
    """Where M and M_hat S^-1 have entries, and their singular values."""
    record = _spectrum(source, OSCILLATOR)
    solution = source.solve(OSCILLATOR, 1)
    M, Q, _ = _systems(solution)
    figure = page(7.2, 2.9)
    axes = figure.subplots(1, 3, width_ratios=[1, 1, 1.7])
    for ax, matrix, name in ((axes[0], M, "$M$"), (axes[1], Q, r"$\widehat{M}S^{-1}$")):
        _sparsity(ax, matrix)
        ax.set_title(f"{name}, {matrix.shape[0]:,}$\\,\\times\\,${matrix.shape[1]:,}")
    axes[0].set_ylabel("row")
    spectrum_panel(axes[2], record)
    return figure, "Singular values divided by the largest; below the dotted line lies rounding."


def _sparsity(ax: Axes, matrix: BlockMatrix) -> None:
    from matplotlib.colors import ListedColormap

    filled = matrix.to_csr().toarray() != 0
    ax.imshow(
        filled,
        cmap=ListedColormap(["white", BLUE]),
        interpolation="nearest",
        aspect="auto",
        vmin=0,
        vmax=1,
    )
    ax.set_xlabel("column")
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)


def _spectrum(source: Source, problem: str) -> Record:
    found = source.records([case for case in cases.spectra() if case.problem == problem])
    return found[problem][0]


def oscillator_weak(source: Source) -> tuple[Figure, str]:
    """Three frequencies: the whole interval, and its last tenth, where errors have grown."""
    chosen = {30: 10, 120: 40, 580: 160}
    solutions = [
        source.solve(OSCILLATOR, ITERATIONS[OSCILLATOR], omega0=omega0, subdomains=S)
        for omega0, S in chosen.items()
    ]
    figure = page(7.2, 4.6)
    axes = figure.subplots(3, 2, width_ratios=[2.2, 1], sharex="col")
    for (whole, end), solution in zip(axes, solutions, strict=True):
        _compare(whole, solution.problem.domain.grid((4000,)), solution)
        _compare(end, np.linspace(0.9, 1.0, 800)[:, None], solution)
        end.set_ylabel("")
        whole.set_title(f"{_setting(solution)}, error {power(_error(solution))}", fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("time $t$")
    axes[-1, 1].set_xticks([0.9, 0.95, 1.0])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure, _note(*solutions)


_VARIED = {OSCILLATOR: ("omega0", r"\omega_0"), LAPLACE: ("n", "n"), WAVE: ("lambda", r"\lambda")}


def _setting(solution: Solution) -> str:
    key, symbol = _VARIED[solution.problem.name]
    S = solution.basis.decomposition.subdomains[0]
    return f"${symbol}={solution.problem.parameters[key]:g}$, $S={S}$"


def laplace_solution(source: Source) -> tuple[Figure, str]:
    """Exact solution, model, decomposition and spectra, two by two as in the paper."""
    record = _spectrum(source, LAPLACE)
    solution = source.solve(LAPLACE, ITERATIONS[LAPLACE])
    figure = page(6.8, 5.8, MAP_DPI)
    (exact, model), (boxes, spectra) = figure.subplots(2, 2)
    values, computed = _on_plane(solution, 151)
    top = float(np.abs(values).max())
    draw_map(exact, values, (0, 1), top)
    image = draw_map(model, computed, (0, 1), top)
    figure.colorbar(image, ax=[exact, model], label="$u(x, y)$")
    exact.set_title("exact")
    model.set_title(f"model, error {power(_error(solution))}")
    _boxes(boxes, solution)
    for ax in (exact, model, boxes):
        ax.set_xlabel("$x$")
        ax.set_ylabel("$y$")
        ax.set_xticks([0, 0.5, 1])
        ax.set_yticks([0, 0.5, 1])
    spectrum_panel(spectra, record)
    spectra.set_title("singular values")
    return figure, _note(solution)


def _on_plane(solution: Solution, n: int, **fixed: float) -> tuple[Array, Array]:
    """Exact and computed values on an n by n grid of the first two axes."""
    domain = solution.problem.domain
    points = domain.grid((n, n) + (1,) * (domain.dimension - 2))
    for axis, value in fixed.items():
        points[:, domain.axis_index(axis)] = value
    exact = solution.problem.exact_values(points)
    return exact.reshape(n, n), solution(points).reshape(n, n)


def _boxes(ax: Axes, solution: Solution) -> None:
    """The centre of every subdomain, and the reach of three of them."""
    from matplotlib.patches import Rectangle

    decomposition = solution.basis.decomposition
    centres, half = decomposition.centres, decomposition.half_width
    S = decomposition.subdomains[1]
    ax.plot(centres[:, 0], centres[:, 1], ".", color=GREY, ms=3, clip_on=False)
    row = S // 2
    for column, colour in ((0, BLUE), (S // 2, ORANGE), (S // 2 + 1, GREY)):
        x, y = centres[column * S + row]
        ax.add_patch(
            Rectangle(
                (x - half[0], y - half[1]), *(2 * half), fc=colour, alpha=0.3, ec=colour, lw=1.5
            )
        )
        ax.plot(x, y, "o", color=colour, ms=4, clip_on=False)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_title(f"{decomposition.count:,} subdomains, three outlined")


def laplace_weak(source: Source) -> tuple[Figure, str]:
    """Exact, model and error for three numbers of scales."""
    solutions = [
        source.solve(LAPLACE, ITERATIONS[LAPLACE], n=n, subdomains=S)
        for n, S in {2: 4, 4: 16, 6: 64}.items()
    ]
    figure = page(6.8, 6.4, MAP_DPI)
    axes = figure.subplots(3, 3, sharex=True, sharey=True)
    pairs = [_on_plane(solution, 151) for solution in solutions]
    top = max(float(np.abs(exact).max()) for exact, _ in pairs)
    for column, solution, (exact, model) in zip(axes.T, solutions, pairs, strict=True):
        values = draw_map(column[0], exact, (0, 1), top)
        draw_map(column[1], model, (0, 1), top)
        _error_map(column[2], np.abs(model - exact))
        column[0].set_title(f"{_setting(solution)}\nerror {power(_error(solution))}")
        column[2].set_xlabel("$x$")
    for ax, name in zip(axes[:, 0], ("exact", "model", "|model - exact|"), strict=True):
        ax.set_ylabel(f"{name}\n$y$")
    figure.colorbar(values, ax=axes[:2].ravel().tolist(), label="$u(x, y)$", shrink=0.8)
    return figure, _note(*solutions)


def _error_map(ax: Axes, error: Array) -> None:
    """The error with a scale of its own, of which the two ends say enough."""
    image = draw_error_map(ax, error, (0, 1))
    bar = ax.figure.colorbar(image, ax=ax, location="bottom", shrink=0.9)
    bar.set_ticks([0, float(error.max())], labels=["0", power(float(error.max()))])


def wave_solution(source: Source) -> tuple[Figure, str]:
    """Exact and model over time, for three widths of the start."""
    solutions = [
        source.solve(WAVE, ITERATIONS[WAVE], **{"lambda": width, "subdomains": S})
        for width, S in {0.4: 4, 0.2: 8, 0.1: 16}.items()
    ]
    figure = page(6.8, 8.0, MAP_DPI)
    parts: Any = figure.subfigures(3, 1)
    for part, solution in zip(parts, solutions, strict=True):
        _snapshots(part, solution, np.linspace(*solution.problem.domain.bounds[2], 5))
    return figure, f"Each column over the largest exact |u| at its time. {_note(*solutions)}"


def _snapshots(part: SubFigure, solution: Solution, times: Array) -> None:
    """A column per time, exact above model."""
    axes = part.subplots(2, len(times), sharex=True, sharey=True)
    for (above, below), t in zip(axes.T, times, strict=True):
        exact, model = _on_plane(solution, 81, t=float(t))
        top = float(np.abs(exact).max())
        for ax, values in ((above, exact), (below, model)):
            image = draw_map(ax, values / top, (-1, 1), 1.0)
        above.set_title(f"$t={t:.3g}$\n$\\max|u|={top:.2f}$", fontsize=9)
        below.set_xlabel("$x$")
    for ax, name in zip(axes[:, 0], ("exact", "model"), strict=True):
        ax.set_ylabel(f"{name}\n$y$")
    part.colorbar(image, ax=axes.ravel().tolist(), label=r"$u\,/\max|u|$", shrink=0.8)
    part.suptitle(f"{_setting(solution)}, error {power(_error(solution))}", fontsize=10)
