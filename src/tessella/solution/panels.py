"""What pictures are made of: figures, the unknowns to draw, and maps of planes with outlines."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.cells.boxes.faces import interior_faces
from tessella.cells.boxes.tiling import Tiling
from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.machine.arguments import as_path
from tessella.machine.arrays import Array
from tessella.machine.files import written_whole
from tessella.solution.export import Sampled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from tessella.solution.solution import Solution

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
"""From Okabe and Ito's palette, which stays apart for colour-blind eyes."""

TICKS = 5
"""Ticks along an axis of a map."""

TITLE = 11
"""Size of the letters in a figure's title, in points."""

LETTER = 0.55
"""Width of a letter in parts of that, on average or a little more."""


NO_PLOTS = "plots need matplotlib: pip install 'tessella[plot]'"


def new_figure(width: float, height: float, path: str | Path | None) -> Figure:
    """An empty figure; one that is not for a file is known to `pyplot.show()`.

    A notebook shows what a cell returns, and would show a figure that pyplot knows a second time.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure as NewFigure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise ImportError(NO_PLOTS) from None
    size, layout = (width, height), ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    if path is None:
        from matplotlib import pyplot

        if "inline" not in matplotlib.get_backend():
            return pyplot.figure(figsize=size, layout=layout, dpi=150)
    return NewFigure(figsize=size, layout=layout, dpi=150)


def finished(figure: Figure, title: str, path: str | Path | None) -> Figure:
    """With its title, in as many lines as it needs, and saved if a path is given."""
    text = wrapped(figure, title)
    figure.suptitle(text, fontsize=TITLE)
    figure.set_figheight(figure.get_figheight() + 1.3 * TITLE * text.count("\n") / 72)
    if path is not None:
        with written_whole(picture_file(path)) as unfinished:
            figure.savefig(unfinished)
    return figure


def wrapped(figure: Figure, title: str) -> str:
    """A title in lines that fit the figure's width."""
    return "\n".join(textwrap.wrap(title, int(72 * figure.get_figwidth() / (LETTER * TITLE))))


def picture_file(path: str | Path) -> Path:
    """The file that a picture is drawn to, a PNG unless its name says otherwise; refused if there
    is no such kind of picture."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise ImportError(NO_PLOTS) from None
    target = as_path(path)
    if not target.suffix:
        return target.with_name(f"{target.name}.png")
    kinds = FigureCanvasBase.get_supported_filetypes()
    if target.suffix[1:].lower() not in kinds:
        raise ValueError(
            f"{target} is no picture: name it .png, or one of {', '.join(sorted(kinds))}"
        )
    return target


class Shown(NamedTuple):
    """One unknown to draw: its name, its values, and the exact ones where they are known."""

    name: str
    values: Callable[[Array], Array]
    exact: Callable[[Array], Array] | None


def shown_unknowns(solution: Sampled) -> list[Shown]:
    """All unknowns of a solution."""
    problem = solution.problem
    names = problem.unknowns

    def exact(points: Array, k: int) -> Array:
        return problem.exact_values(points).reshape(len(points), -1)[:, k]

    return [
        Shown(
            name,
            partial(solution.apply, problem.unknown(name)),
            partial(exact, k=k) if problem.exact_function is not None else None,
        )
        for k, name in enumerate(names)
    ]


def resolution(solution: Solution) -> Array:
    """Points per axis that show all that the features can: two for every one of them along each
    axis of the smallest subdomain."""
    basis, domain = solution.basis, solution.problem.domain
    widths = 2 * basis.decomposition.half_widths.min(axis=0)
    each = 2 * basis.features.columns ** (1 / domain.dimension)
    return np.asarray(np.ceil(each * (domain.upper - domain.lower) / widths))


def line_points(domain: Domain, solutions: Sequence[Solution], least: int, most: int) -> Array:
    """Points of an interval, (n, 1): regular ones, and those that each subdomain's features ask
    for, as far as `most` points allow."""
    found = [domain.grid((least,))]
    subdomains = sum(one.basis.decomposition.count for one in solutions)
    for one in solutions:
        tiles = one.basis.decomposition
        each = min(2 * one.basis.features.columns, max(2, most // subdomains))
        inside = tiles.centres + tiles.half_widths * np.linspace(-1, 1, each)
        found.append(inside.reshape(-1, 1))
    x = np.unique(np.concatenate(found))
    return x[(x >= domain.lower[0]) & (x <= domain.upper[0])].reshape(-1, 1)


def drawn_axes(domain: Domain) -> tuple[int, int]:
    """The two axes of a map: the first two of space, or the only one of space and time."""
    space = [i for i, name in enumerate(domain.axes) if name != "t"]
    first, second = space[:2] if len(space) > 1 else (0, 1)
    return first, second


def cut_places(domain: Domain, count: int) -> list[dict[str, float]]:
    """Where a domain of three axes or more is cut to be drawn in so many maps: at times from start
    to end, a third axis of space in its middle; without time across the third axis, inside."""
    drawn = drawn_axes(domain)
    (across, *others) = sorted(
        (domain.axes[i] for i in range(domain.dimension) if i not in drawn), key="t".__ne__
    )
    if domain.dimension > (4 if across == "t" else 3):
        raise ValueError(
            f"no plot for axes {', '.join(domain.axes)}: plots cover up to three axes of space, "
            f"and time; evaluate the solution on a slice and plot that"
        )
    fixed = {axis: float(_through(domain, axis, 1)[0]) for axis in others}
    if across == "t":
        places = np.linspace(*domain.bounds[domain.axis_index("t")], count)
    else:
        places = _through(domain, across, count)
    return [{across: float(place), **fixed} for place in places]


def _through(domain: Domain, axis: str, count: int) -> Array:
    """Evenly spaced places inside the domain along an axis."""
    index = domain.axis_index(axis)
    low, high = domain.bounds[index]
    if not isinstance(domain, Box):
        counts = [PROBED if i == index else PROBED // 2 for i in range(domain.dimension)]
        if "t" in domain.axes:
            counts[domain.axis_index("t")] = 1
        inside = domain.interior(tuple(counts))[:, index]
        low, high = float(inside.min()), float(inside.max())
    return np.linspace(low, high, count + 2)[1:-1]


PROBED = 61
"""Places along an axis at which a shape is probed for where it begins and ends."""


@dataclass(frozen=True, eq=False)
class Plane:
    """A grid of the plane of two axes of the domain; `at` are the places along the others."""

    domain: Domain
    counts: tuple[int, int]
    at: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def axes(self) -> tuple[int, int]:
        return drawn_axes(self.domain)

    @property
    def names(self) -> tuple[str, str]:
        return self.domain.axes[self.axes[0]], self.domain.axes[self.axes[1]]

    @cached_property
    def points(self) -> Array:
        i, j = self.axes
        ticks = [
            np.linspace(*self.domain.bounds[k], n)
            for k, n in zip(self.axes, self.counts, strict=True)
        ]
        found = np.zeros((*self.counts, self.domain.dimension))
        found[..., i], found[..., j] = np.meshgrid(*ticks, indexing="ij")
        for name, place in self.at.items():
            found[..., self.domain.axis_index(name)] = place
        return found.reshape(-1, self.domain.dimension)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        return self.domain.contains(self.points)

    def values(self, function: Callable[[Array], Array]) -> Array:
        """Values on the grid, NaN at its points outside the domain."""
        found = np.full(len(self.points), np.nan)
        found[self.inside] = function(self.points[self.inside])
        return found.reshape(self.counts)

    def draw(self, ax: Axes, values: Array, norm: Normalize, colours: str) -> AxesImage:
        """A map of the values, and the outlines of the domain and its regions.

        Values just outside are guessed from those inside and painted over, for a clean edge.
        """
        i, j = self.axes
        image = ax.imshow(
            spread(values).T,
            origin="lower",
            extent=(*self.domain.bounds[i], *self.domain.bounds[j]),
            norm=norm,
            cmap=colours,
            aspect="auto" if "t" in self.names else "equal",
            interpolation="bilinear",
        )
        ax.locator_params(nbins=TICKS)
        for distance, edge in self._outlines():
            if np.nanmin(distance) < 0 < np.nanmax(distance):
                x, y = self.points[:, i], self.points[:, j]
                x, y, z = (a.reshape(self.counts) for a in (x, y, distance))
                if edge:
                    ax.contourf(x, y, z, levels=[0.0, np.inf], colors="white")
                ax.contour(x, y, z, levels=[0.0], colors="black", linewidths=0.8)
        return image

    def _outlines(self) -> list[tuple[Array, bool]]:
        """Functions that vanish on the outlines to draw, and whether the domain ends there; a box
        has the frame.

        They are the same at all times, and taken in the middle of it: at its ends the distance to
        a shape over time vanishes everywhere.
        """
        domain, x = self.domain, self.points.copy()
        found: list[tuple[Array, bool]] = []
        if "t" in self.at:
            time = domain.axis_index("t")
            x[:, time] = np.mean(domain.bounds[time])
        if isinstance(domain, Divided):
            depths = [domain.depth(name, x) for name, _ in domain.shapes]
            found = [(np.where(self.inside, depth, np.nan), False) for depth in depths]
            domain = domain.whole
        if isinstance(domain, Extrusion):
            found.append((domain.base.signed_distance(x[:, :-1]), True))
        elif not isinstance(domain, Box):
            found.append((domain.signed_distance(x), True))
        return found


def spread(values: Array) -> Array:
    """A grid of values in which NaN next to numbers are their means, two points far."""
    found = values
    for _ in range(2 if np.isnan(values).any() else 0):
        wide = np.pad(found, 1, constant_values=np.nan)
        m, n = found.shape
        near = np.stack([wide[i : i + m, j : j + n] for i in range(3) for j in range(3)])
        count = np.isfinite(near).sum(axis=0)
        mean = np.nansum(near, axis=0) / np.maximum(count, 1)
        found = np.where(np.isnan(found) & (count > 0), mean, found)
    return found


def panel_size(domain: Domain, width: float) -> tuple[float, float]:
    """Width and height of a map of about this width, in inches."""
    i, j = drawn_axes(domain)
    if "t" in (domain.axes[i], domain.axes[j]):
        return width, width
    sides = domain.upper - domain.lower
    ratio = min(max(float(sides[j] / sides[i]), 0.25), 4.0)
    return (width, width * ratio) if ratio <= 1.5 else (1.5 * width / ratio, 1.5 * width)


FAINT = 0.05
"""Negative values below this part of the largest one do not make a second colour."""


def value_colours(images: Sequence[Array], diverging: bool) -> tuple[Normalize, str]:
    """One range for all of them; around zero, in two colours, if wanted and both signs occur."""
    from matplotlib.colors import Normalize

    low = min(float(np.nanmin(values)) for values in images)
    high = max(float(np.nanmax(values)) for values in images)
    if diverging and low < -FAINT * high:
        most = max(-low, high)
        return Normalize(-most, most), "RdBu_r"
    return Normalize(low, high), "viridis"


DECADES = 4
"""An error is drawn from its largest value down to so many powers of ten below it."""


def error_colours(images: Sequence[Array]) -> tuple[Normalize, str]:
    """One range for all of them, by powers of ten, unless nothing is wrong anywhere."""
    from matplotlib.colors import LogNorm, Normalize

    most = max(float(np.nanmax(errors)) for errors in images)
    norm = LogNorm(most * 10.0**-DECADES, most, clip=True) if most > 0 else Normalize(0, 1)
    return norm, "viridis"


MOST_OUTLINED = 1000
"""Subdomains drawn into a map."""


def draw_subdomains(ax: Axes, solution: Solution) -> None:
    """The faces of subdomains side by side; of overlapping ones the centres, and the middle one."""
    decomposition = solution.basis.decomposition
    if decomposition.count > MOST_OUTLINED:
        return
    if isinstance(decomposition, Tiling):
        from matplotlib.collections import LineCollection

        ends = np.array([[-1.0], [1.0]])
        lines = [f.points(decomposition, ends) for f in interior_faces(decomposition)]
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
