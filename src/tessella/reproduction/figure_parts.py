"""What all figures share: where their numbers come from, one look per solver, and the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessella import gallery
from tessella.machine.arrays import Array
from tessella.reproduction import cases
from tessella.reproduction.cases import Case, Setting
from tessella.reproduction.store import OtherSettingsError, Record, Store
from tessella.solution.pictures import BLUE, GREY, ORANGE
from tessella.solution.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

GREEN, PURPLE, SKY, AMBER, BLACK = "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"
"""More of Okabe and Ito's palette."""

LOOK: dict[Any, bool | float | str] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "mathtext.fontset": "cm",
    "svg.hashsalt": "tessella",
}
"""Matplotlib settings of every figure; readable when a figure is shrunk to half a page."""

HOPELESS = 10.0
"""Normalised errors above this are not drawn: nothing is left of the solution."""


ROUNDING = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Style:
    """How a curve looks: colour, marker and dashes differ together, for print and for all eyes."""

    label: str
    colour: str
    marker: str
    line: str

    @property
    def options(self) -> dict[str, str]:
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line}


SOLVERS = {
    "rrqr-lsqr": Style("RRQR-LSQR", BLUE, "o", "-"),
    "lsqr": Style("LSQR", ORANGE, "s", "--"),
    "as-cg": Style("AS-CG", GREEN, "^", "-."),
    "cg": Style("CG", PURPLE, "D", ":"),
}
"""The same in every figure."""


class MissingRecordsError(Exception):
    """A figure cannot be drawn; says what it lacks and how to get it."""


NOT_RUN = "not run"


@dataclass(frozen=True)
class Source:
    """Where a drawing gets its numbers: finished records, and solves of its own.

    With `quick` both are of the small sizes `cases.quick` makes.
    """

    store: Store
    quick: bool
    report: Callable[[str], None]

    def records(
        self, wanted: Sequence[Case], optional: str | None = None
    ) -> dict[str, list[Record]]:
        """The records of every case by row, seed 0 first; all of them, or `MissingRecordsError`.

        Runs of the solver `optional` may be missing: they count as refused because not run.
        """
        found = {}
        for case in cases.sized(wanted, self.quick):
            try:
                found[case.row] = self.store.seeds(case)
            except OtherSettingsError as error:
                raise MissingRecordsError(str(error)) from None
        may_miss = {case.row for case in wanted if case.solver == optional}
        for row in may_miss:
            if not _has_first_seed(found[row]):
                found[row] = [{"seed": 0, "refused": NOT_RUN}]
        absent = [row for row, records in found.items() if not _has_first_seed(records)]
        if absent:
            raise MissingRecordsError(
                f"{len(absent)} of {len(found)} runs of {wanted[0].experiment} are missing: "
                f"{', '.join(absent[:3])}{', ...' if len(absent) > 3 else ''}"
            )
        return found

    def solve(self, problem: str, iterations: int, **settings: Setting) -> Solution:
        """A gallery solve with rrqr-lsqr as run, for drawings that need the solution itself."""
        own = {**settings, "max_iterations": iterations, "track_every": iterations}
        (case,) = cases.sized([Case("figures", problem, problem, settings=own)], self.quick)
        words = ", ".join(f"{key}={value}" for key, value in settings.items())

        def progress(done: int, limit: int, _: float) -> None:
            self.report(f"solving {problem} {words}: iteration {done:,} of {limit:,}")

        self.report(f"solving {problem} {words}")
        solution = gallery.get(problem).solve(
            case.preset, solver=case.solver, settings=case.settings, progress=progress
        )
        assert isinstance(solution, Solution)
        return solution


def _has_first_seed(records: list[Record]) -> bool:
    return bool(records) and records[0]["seed"] == 0


def page(width: float, height: float, dpi: int = 150) -> Figure:
    """An empty figure, in inches; no window system and no global state.

    Maps do with fewer dots than lines, and need it to stay small.
    """
    from matplotlib.figure import Figure as NewFigure

    return NewFigure(figsize=(width, height), layout="constrained", dpi=dpi)


def numbers(records: Sequence[Record], key: str, part: str | None = None) -> Array:
    """One quantity of several seeds, or a part of it; NaN where a run has none."""
    values = []
    for record in records:
        value = record.get(key)
        if part is not None:
            value = (value or {}).get(part)
        values.append(np.nan if value is None else float(value))
    return np.array(values)


def middle(values: Array) -> float:
    """The median of the numbers there are."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def seeds_note(found: dict[str, list[Record]]) -> str:
    """How many seeds stand behind medians, in words."""
    counts = {len(records) for records in found.values()}
    most = max(counts)
    if most == 1:
        return "One seed."
    some = "" if counts == {most} else f"{min(counts)} to "
    return f"Medians over {some}{most} seeds."


def power(value: float) -> str:
    """2.4e-05 as mathematics."""
    if not np.isfinite(value):
        return "unknown"
    digits, exponent = f"{value:.1e}".split("e")
    return rf"${digits}\times10^{{{int(exponent)}}}$"


def refusal(record: Record) -> str:
    """Why there is no run, in few words of its message."""
    message = record["refused"]
    if message == NOT_RUN:
        return message
    memory = re.search(r"needs about (\S+ GiB)", message)
    time = re.search(r"about (\S+ minutes)", message)
    if memory or time:
        return "refused, " + (
            f"needs {memory[1]}" if memory else f"takes {time[1] if time else ''}"
        )
    return "refused, too large"


def error_limits(*errors: Array) -> tuple[float, float]:
    """A logarithmic error axis that shows everything worth showing."""
    values = np.concatenate([np.ravel(e) for e in errors])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 1e-8, HOPELESS
    high = min(float(values.max()) * 2, HOPELESS)
    return min(float(values.min()), high / 10) / 2, high


def shades(colour: str, count: int) -> list[tuple[float, float, float]]:
    """One colour from pale to full."""
    full = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    strengths = np.linspace(0.35, 1.0, count) if count > 1 else [1.0]
    return [(float(r), float(g), float(b)) for r, g, b in (1 - (1 - full) * s for s in strengths)]


MAP_DPI = 100


def draw_map(ax: Axes, values: Array, ends: tuple[float, float], top: float) -> AxesImage:
    """A picture of values on a square, first axis to the right, white at zero up to +-top."""
    return _picture(ax, values, ends, "RdBu_r", 101, (-top, top))


def draw_error_map(ax: Axes, values: Array, ends: tuple[float, float]) -> AxesImage:
    """The same for absolute errors, from zero to the largest."""
    return _picture(ax, values, ends, "viridis", 64, (0.0, float(values.max())))


def _picture(
    ax: Axes,
    values: Array,
    ends: tuple[float, float],
    colours: str,
    levels: int,
    limits: tuple[float, float],
) -> AxesImage:
    from matplotlib import colormaps

    return ax.imshow(
        values.T,
        origin="lower",
        extent=(*ends, *ends),
        interpolation="bilinear",
        interpolation_stage="data",
        cmap=colormaps[colours].resampled(levels),
        vmin=limits[0],
        vmax=limits[1],
    )


def spectrum_panel(ax: Axes, record: Record) -> None:
    """Singular values of M and M_hat S^-1 over those of the largest, and their condition."""
    looks = {
        "M": (r"$M$", GREY, "--"),
        "preconditioned": (r"$\widehat{M}S^{-1}$", BLUE, "-"),
    }
    for key, (symbol, colour, line) in looks.items():
        spectrum = record["spectrum"][key]
        values = np.array(spectrum["value"])
        singular = values[-1] <= ROUNDING * values[0]
        kappa = "singular" if singular else rf"$\kappa$ = {power(values[0] / values[-1])}"
        label = f"{symbol}, {kappa}"
        ax.semilogy(spectrum["index"], values / values[0], line, color=colour, lw=2, label=label)
    if ax.get_ylim()[0] < ROUNDING:
        ax.axhline(ROUNDING, color=GREY, lw=0.8, ls=":")
        ax.text(
            0.02,
            1.3 * ROUNDING,
            "rounding",
            transform=ax.get_yaxis_transform(),
            fontsize=8,
            color=GREY,
            va="bottom",
        )
        ax.set_ylim(bottom=ROUNDING / 10)
    ax.set_xlabel("index $i$")
    ax.set_ylabel(r"$\sigma_i\,/\,\sigma_1$")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 0.12), handlelength=1.6)
