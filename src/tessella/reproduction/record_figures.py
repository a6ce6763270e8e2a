"""Figures drawn from records alone: convergence, scaling series, conditions and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tessella.reproduction import cases
from tessella.reproduction.cases import SCALED_SOLVERS, Case
from tessella.reproduction.figure_parts import (
    AMBER,
    BLACK,
    BLUE,
    GREY,
    SKY,
    SOLVERS,
    Source,
    error_limits,
    middle,
    numbers,
    page,
    refusal,
    seeds_note,
    shades,
)
from tessella.reproduction.store import Record, on_first_device

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ERROR = "normalised $L_1$ error"

ROOM = 1.8
"""Factor left free on both sides of the first and last point on an axis of seconds."""

SYMBOLS = {"K": "K", "S": "S", "omega0": r"\omega_0", "n": "n", "lambda": r"\lambda"}
"""Parameters of the series in the paper's letters."""


def convergence(source: Source, table: int) -> tuple[Figure, str]:
    """Error along the iterations of all linear solvers, with the point of the stopping rule."""
    wanted = [case for case in cases.tables(table) if case.row in SOLVERS]
    found = source.records(wanted)
    figure = page(5.6, 3.6)
    ax = figure.subplots()
    for name, style in SOLVERS.items():
        record = found[name][0]
        curve = record["curve"]
        if not curve["iteration"]:
            continue
        ax.loglog(
            curve["iteration"],
            curve["error"],
            label=style.label,
            markevery=(list(SOLVERS).index(name) * 4, 16),
            **style.options,
        )
        _stopping_mark(ax, record, style.colour)
    ax.plot([], [], "*", ms=11, mfc="white", mec=GREY, label="stopping rule")
    ax.set_ylim(error_limits(*(np.array(found[name][0]["curve"]["error"]) for name in SOLVERS)))
    ax.set_xlabel("iteration")
    ax.set_ylabel(ERROR)
    figure.legend(loc="outside upper center", ncols=5, handlelength=2.2, columnspacing=1.2)
    return figure, "Seed 0; the error is measured, not used, by the solvers."


def _stopping_mark(ax: Axes, record: Record, colour: str) -> None:
    iteration, error = record["stopping_rule_iteration"], record["error_at_stopping_rule"]
    if iteration and error:
        ax.plot(iteration, error, "*", ms=11, mfc="white", mec=colour, mew=1.2, zorder=5)


def scaling(source: Source, experiment: str) -> tuple[Figure, str]:
    """Convergence per solver on the left, error against seconds on the right."""
    wanted = [case for case in cases.series() if case.experiment == experiment]
    found = source.records(wanted, optional="as-cg")
    symbol = SYMBOLS[wanted[0].row.split("=")[0]]
    figure = page(7.2, 5.0)
    axes = figure.subplot_mosaic([[s, "cost"] for s in SCALED_SOLVERS], width_ratios=[1, 1.15])
    limits = error_limits(*_all_errors(found))
    for solver in SCALED_SOLVERS:
        own = [case for case in wanted if case.solver == solver]
        _curves(axes[solver], own, found, limits)
        _cost_line(axes["cost"], own, found)
    _finish_curves([axes[solver] for solver in SCALED_SOLVERS])
    _finish_cost(axes["cost"], symbol, _cost_limits(found), _refusals(wanted, found))
    points = [_point(case) for case in wanted if case.solver == SCALED_SOLVERS[0]]
    _shade_legend(figure, symbol, points)
    _cost_legend(figure, axes["cost"])
    words = "Curves are of seed 0, seconds of the fastest seed on its machine."
    return figure, f"{seeds_note(found)} {words}"


def _point(case: Case) -> str:
    """The value that varies: "8" of "K=8 lsqr"."""
    return case.row.split()[0].split("=")[1]


def _all_errors(found: dict[str, list[Record]]) -> list[np.ndarray]:
    curves = [np.array(r[0].get("curve", {}).get("error", [])) for r in found.values()]
    return curves + [numbers(r, "error_oracle_minimum") for r in found.values()]


def _cost_limits(found: dict[str, list[Record]]) -> tuple[float, float]:
    """From the medians shown alone: a curve that diverges late must not flatten them."""
    kinds = ("error_oracle_minimum", "error_at_stopping_rule")
    return error_limits(*(np.array([middle(numbers(r, k)) for k in kinds]) for r in found.values()))


def _curves(
    ax: Axes, own: Sequence[Case], found: dict[str, list[Record]], limits: tuple[float, float]
) -> None:
    style = SOLVERS[own[0].solver]
    for k, (case, shade) in enumerate(zip(own, shades(style.colour, len(own)), strict=True)):
        curve = found[case.row][0].get("curve")
        if curve and curve["iteration"]:
            width = 1.0 + 1.2 * k / len(own)
            ax.loglog(curve["iteration"], curve["error"], color=shade, lw=width)
    ax.set_ylim(limits)
    ax.set_title(style.label, color=style.colour, loc="left", pad=3)


def _finish_curves(axes: Sequence[Axes]) -> None:
    ends = [ax.get_xlim() for ax in axes if ax.lines]
    for ax in axes:
        ax.set_xscale("log")
        ax.set_yscale("log")
        if ends:
            ax.set_xlim(min(e[0] for e in ends), max(e[1] for e in ends))
        ax.tick_params(labelbottom=ax is axes[-1])
    axes[len(axes) // 2].set_ylabel(ERROR)
    axes[-1].set_xlabel("iteration")


def _cost_line(ax: Axes, own: Sequence[Case], found: dict[str, list[Record]]) -> None:
    """Oracle minima against seconds as one line, the error at the stopping rule beside them."""
    from matplotlib.patheffects import withStroke

    style = SOLVERS[own[0].solver]
    done = [case for case in own if "refused" not in found[case.row][0]]
    seconds = np.array([_solve_seconds(found[case.row]) for case in done])
    oracle = np.array([middle(numbers(found[case.row], "error_oracle_minimum")) for case in done])
    rule = np.array([middle(numbers(found[case.row], "error_at_stopping_rule")) for case in done])
    ax.loglog(seconds, oracle, label=style.label, **style.options)
    ax.vlines(seconds, oracle, rule, color=style.colour, lw=0.6, alpha=0.4)
    ax.loglog(
        seconds, rule, style.marker, mfc="white", mec=style.colour, alpha=0.45, ms=4, zorder=1.5
    )
    halo = [withStroke(linewidth=2.5, foreground="white")]
    below = own[0].solver == "rrqr-lsqr"
    for case, x, y in zip(done, seconds, oracle, strict=True):
        if np.isfinite(y):
            offset = (-4, -9) if below else (4, 3)
            ax.annotate(
                _point(case),
                (x, y),
                xytext=offset,
                textcoords="offset points",
                color=style.colour,
                fontsize=8,
                ha="right" if below else "left",
                path_effects=halo,
            )


def _solve_seconds(records: Sequence[Record]) -> float:
    """Of the fastest seed on seed 0's machine: other work there only slows a run.

    Filtering is part of what a filtered solve costs; assembly is the same for all.
    """
    same = on_first_device(records)
    seconds = numbers(same, "seconds", "filter") + numbers(same, "seconds", "solve")
    known = seconds[np.isfinite(seconds)]
    return float(known.min()) if len(known) else float("nan")


def _refusals(wanted: Sequence[Case], found: dict[str, list[Record]]) -> list[tuple[str, str]]:
    """(solver, what was refused) for every run that did not fit into memory or time."""
    return [
        (case.solver, f"{_point(case)}: {refusal(found[case.row][0])}")
        for case in wanted
        if "refused" in found[case.row][0]
    ]


def _finish_cost(
    ax: Axes, symbol: str, limits: tuple[float, float], refused: Sequence[tuple[str, str]]
) -> None:
    room = 10 ** (0.06 * len(refused) * np.log10(limits[1] / limits[0]))
    ax.set_ylim(limits[0], limits[1] * room)
    left, right = ax.dataLim.intervalx
    if np.isfinite(right) and left > 0:
        ax.set_xlim(left / ROOM, right * ROOM)
    _plain_seconds(ax)
    ax.set_xlabel("seconds to filter and solve")
    ax.set_ylabel(ERROR)
    ax.set_title(f"points labelled with ${symbol}$", fontsize=9, pad=3)
    for k, (solver, words) in enumerate(refused):
        height, colour = 0.975 - 0.055 * k, SOLVERS[solver].colour
        ax.plot(0.06, height, "x", color=colour, ms=7, mew=2, transform=ax.transAxes)
        ax.text(
            0.1,
            height,
            f"{SOLVERS[solver].label}, ${symbol}$ = {words}",
            fontsize=8,
            color=colour,
            va="center",
            transform=ax.transAxes,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            zorder=6,
        )


def _plain_seconds(ax: Axes) -> None:
    """1, 2, 5, 10, ... where the axis is short, decades only where it is long."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    if low > 0 and high / low < 200:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())


def _cost_legend(figure: Figure, ax: Axes) -> None:
    """Which marker is which, below everything."""
    handles, labels = ax.get_legend_handles_labels()
    filled = ax.plot([], [], "o", color=GREY)[0]
    hollow = ax.plot([], [], "o", mfc="white", mec=GREY, alpha=0.6, ms=4)[0]
    figure.legend(
        [*handles, filled, hollow],
        [*labels, "oracle minimum", "at the stopping rule"],
        loc="outside lower center",
        ncols=5,
        handlelength=2.6,
        columnspacing=1.2,
    )


def _shade_legend(figure: Figure, symbol: str, points: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=shade, lw=1.0 + 1.2 * k / len(points), label=f"${symbol}={p}$")
        for k, (p, shade) in enumerate(zip(points, shades(BLACK, len(points)), strict=True))
    ]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(handles),
        handlelength=1.6,
        columnspacing=1.2,
    )


BOUNDS = {
    "theorem": (r"Theorem 3.2 ($2\alpha<1$)", AMBER, "^", "-."),
    "comparison": (r"comparison matrix ($|N|<1$)", SKY, "D", "--"),
    "estimate": (r"random-matrix estimate ($2\varepsilon^2<1$)", BLACK, "v", ":"),
}
"""What is known of kappa(Q) beforehand, with the condition each needs."""


def appendix(source: Source) -> tuple[Figure, str]:
    """kappa(M), kappa(Q), the bounds where they say anything, and the coupling alpha."""
    panels = {
        "appendix-features": "features $K$",
        "appendix-overlap": r"overlap $\delta$",
        "appendix-one-feature": r"overlap $\delta$, one feature",
    }
    found = {
        name: source.records([case for case in cases.appendix() if case.experiment == name])
        for name in panels
    }
    figure = page(9.6, 3.9)
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (name, label) in zip(axes, panels.items(), strict=True):
        x = np.array([float(row.split("=")[-1]) for row in found[name]])
        rows = list(found[name].values())
        _conditions(ax, x, rows)
        twin = _alpha(ax, x, rows)
        twin.tick_params(labelright=ax is axes[-1])
        ax.set_xlabel(label)
    axes[0].xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("condition number")
    twin.set_ylabel(r"coupling $\alpha$")
    handles = {
        label: handle
        for ax in figure.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4)
    seeds = seeds_note({row: r for rows in found.values() for row, r in rows.items()})
    return figure, f"Above 1e16, kappa(M) is rounding. {seeds}"


def _conditions(ax: Axes, x: np.ndarray, rows: Sequence[list[Record]]) -> None:
    """A bound is drawn where it is valid for every seed; one that never is, is named instead."""
    for key, label, colour, marker, line in (
        ("M", r"$\kappa(M)$", GREY, "s", "--"),
        ("preconditioned", r"$\kappa(Q)$", BLUE, "o", "-"),
    ):
        kappa = [middle(numbers(records, "condition", key)) for records in rows]
        ax.semilogy(x, kappa, line, color=colour, marker=marker, label=label)
    silent = []
    for key, (label, colour, marker, line) in BOUNDS.items():
        bound = np.array([np.median(numbers(records, key)) for records in rows])
        if np.isfinite(bound).any():
            ax.semilogy(x, bound, line, color=colour, marker=marker, label=label, mfc="none")
        else:
            silent.append(label)
    if silent:
        title = "No bound is valid here:" if len(silent) == len(BOUNDS) else "Valid nowhere here:"
        free_below = max(kappa) > 1e6
        ax.text(
            0.98,
            0.03 if free_below else 0.4,
            "\n".join([title, *silent]),
            transform=ax.transAxes,
            ha="right",
            va="bottom",
            fontsize=8,
        )


def _alpha(ax: Axes, x: np.ndarray, rows: Sequence[list[Record]]) -> Axes:
    """The coupling on an axis of its own, from 0 to 1."""
    twin = ax.twinx()
    twin.spines["right"].set_visible(True)
    y = [middle(numbers(records, "alpha")) for records in rows]
    twin.plot(x, y, "-", color=BLACK, lw=0.7, label=r"$\alpha$ (right axis)")
    twin.set_ylim(0, 1.05)
    return twin
