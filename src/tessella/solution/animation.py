"""Moving pictures: curves, maps and slices as time goes by, in ranges that stay the same."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tessella.geometry.domain import Domain
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import Array
from tessella.machine.files import written_whole
from tessella.solution.export import Sampled
from tessella.solution.marched import Marched
from tessella.solution.panels import (
    BLUE,
    GREY,
    Plane,
    Shown,
    cut_places,
    drawn_axes,
    finished,
    new_figure,
    panel_size,
    resolution,
    shown_unknowns,
    spread,
    value_colours,
    wrapped,
)
from tessella.solution.solution import Solution

if TYPE_CHECKING:
    from matplotlib.animation import AbstractMovieWriter
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GIF, MP4 = ".gif", ".mp4"

CURVE, MAP = (501, 4_001), (121, 251)
"""Points of a curve, and points per axis of a map: at least, at most."""

DPI = 100

MARGIN = 0.05
"""Room above and below a curve, in parts of its range."""

Show = Callable[[int], None]
"""Puts the frame of a number into the figure."""


def animate(
    solution: Sampled,
    path: str | Path,
    frames: int,
    fps: float,
    field: str | None,
    progress: Progress | None,
) -> Path:
    """See `Sampled.animate`."""
    target, domain = Path(path), solution.problem.domain
    _check(target, domain, frames, fps)
    shown, writer = _chosen(solution, field), _writer(target, fps)
    times = np.linspace(*domain.bounds[domain.axis_index("t")], int(frames))

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, 2 * len(times), 1.0)

    reel = _Reel(solution, shown, times, target, tell)
    figure, show, where = (_curves if domain.dimension == 2 else _maps)(reel)
    name = "" if solution.report.problem == "problem" else f"{solution.report.problem} · "
    titles = [f"{name}t = {time:.{_decimals(times)}f}{where}" for time in times]
    finished(figure, titles[-1], None)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    with written_whole(target) as unfinished, writer.saving(figure, str(unfinished), DPI):
        for number, title in enumerate(titles):
            show(number)
            figure.suptitle(wrapped(figure, title))
            writer.grab_frame()
            tell(len(times) + number + 1)
    return target


def _check(target: Path, domain: Domain, frames: object, fps: object) -> None:
    """Refuse what cannot be drawn before anything is computed."""
    if target.suffix not in (GIF, MP4):
        raise ValueError(f"unknown kind of moving picture {target.name!r}: use {GIF} or {MP4}")
    if "t" not in domain.axes:
        raise ValueError(
            f"animate() shows time going by, but the domain has only {', '.join(domain.axes)}: use "
            f"plot(), or call the axis of time 't'"
        )
    if domain.dimension == 1:
        raise ValueError("t is the only axis, so there is nothing to see at one time: use plot()")
    if not (isinstance(frames, Integral) and int(frames) >= 2):
        raise ValueError(f"frames must be a whole number >= 2, got {frames!r}")
    if not (isinstance(fps, Real) and 0 < float(fps) < np.inf):
        raise ValueError(f"fps must be a positive number of frames per second, got {fps!r}")


def _chosen(solution: Sampled, field: str | None) -> list[Shown]:
    shown = {one.name: one for one in shown_unknowns(solution)}
    if field is None:
        return list(shown.values())
    if field not in shown:
        raise ValueError(f"unknown field {field!r}: this solution has {', '.join(shown)}")
    return [shown[field]]


def _one(solution: Sampled) -> Solution:
    """A march's first slab: all have its cells."""
    found = solution.slabs[0] if isinstance(solution, Marched) else solution
    assert isinstance(found, Solution)
    return found


def _writer(target: Path, fps: float) -> AbstractMovieWriter:
    try:
        from matplotlib.animation import FFMpegWriter, PillowWriter
    except ImportError:
        raise ImportError("moving pictures need matplotlib: pip install 'tessella[plot]'") from None
    if target.suffix == GIF:
        return PillowWriter(fps=fps)  # type: ignore[arg-type]
    if not FFMpegWriter.isAvailable():
        raise FileNotFoundError(
            f"{target.name} needs the program ffmpeg, which was not found: install it (apt, brew "
            f"or conda install ffmpeg), or write {target.with_suffix(GIF).name}"
        )
    return FFMpegWriter(fps=fps)  # type: ignore[arg-type]


def _decimals(times: Array) -> int:
    """As many as tell all times apart."""
    return max(0, int(np.ceil(-np.log10(times[1] - times[0]))))


class _Reel(NamedTuple):
    """What is shown, when, for which file, and who is told how far it is."""

    solution: Sampled
    shown: list[Shown]
    times: Array
    path: Path
    tell: Callable[[int], None]


def _curves(reel: _Reel) -> tuple[Figure, Show, str]:
    """One axis of space: a curve for every unknown, the exact one behind it."""
    solution, shown, times, path, tell = reel
    domain, first = solution.problem.domain, _one(solution)
    time = domain.axis_index("t")
    (m,) = np.clip(np.delete(resolution(first), time), *CURVE).astype(int)
    x = np.linspace(*domain.bounds[1 - time], m)
    at = [np.insert(x[:, None], time, t, axis=1) for t in times]
    exact = [one.exact for one in shown if one.exact is not None]
    values = []
    for number, points in enumerate(at):
        values.append([f(points) for f in (*(one.values for one in shown), *exact)])
        tell(number + 1)
    figure = new_figure(7, 1.0 + 2.6 * len(shown), path)
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    lines = []
    for k, (ax, one) in enumerate(zip(axes, shown, strict=True)):
        (line,) = ax.plot(x, values[0][k], color=BLUE, lw=1.4, label="tessella", zorder=3)
        lines.append(line)
        _fixed_range(ax, np.array([own[k] for own in values]))
        ax.set_xlim(x[0], x[-1])
        ax.set_ylabel(one.name)
    for k, ax in enumerate(axes if exact else ()):
        own = values[0][len(shown) + k]
        lines += ax.plot(x, own, color=GREY, lw=3.5, alpha=0.5, label="exact")
        ax.legend(loc="upper right")
    axes[-1].set_xlabel(domain.axes[1 - time])

    def show(number: int) -> None:
        for line, own in zip(lines, values[number], strict=True):
            line.set_ydata(own)

    return figure, show, ""


def _fixed_range(ax: Axes, values: Array) -> None:
    """Limits that hold all values of all times."""
    low, high = float(values.min()), float(values.max())
    room = MARGIN * (high - low) or 1.0
    ax.set_ylim(low - room, high + room)


def _maps(reel: _Reel) -> tuple[Figure, Show, str]:
    """Two axes of space, or a slice across the third: a map for every unknown."""
    solution, shown, times, path, tell = reel
    domain = solution.problem.domain
    cuts = cut_places(domain, len(times))
    fine = resolution(_one(solution))[list(drawn_axes(domain))]
    m, n = np.clip(fine, *MAP).astype(int).tolist()
    planes = [Plane(domain, (m, n), cut) for cut in cuts]
    values = []
    for number, plane in enumerate(planes):
        values.append([plane.values(one.values) for one in shown])
        tell(number + 1)
    width, height = panel_size(domain, 4.0)
    figure = new_figure((width + 1.5) * len(shown), height + 1.0, path)
    images = []
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for k, (ax, one) in enumerate(zip(axes, shown, strict=True)):
        colours = value_colours([own[k] for own in values], True)
        images.append(planes[0].draw(ax, values[0][k], *colours))
        ax.set_xlabel(planes[0].names[0])
        ax.set_ylabel(planes[0].names[1])
        ax.set_title(one.name if len(shown) > 1 else "")
        figure.colorbar(images[-1], ax=ax, fraction=0.046)

    def show(number: int) -> None:
        for image, own in zip(images, values[number], strict=True):
            image.set_data(spread(own).T)

    still = {axis: place for axis, place in cuts[0].items() if axis != "t"}
    where = "".join(f" · slice at {axis} = {place:.3g}" for axis, place in still.items())
    return figure, show, where
