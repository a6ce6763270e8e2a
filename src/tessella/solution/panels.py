"""What pictures are made of: figures, the unknowns to draw, and maps of planes with outlines."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.cells.faces import interior_faces
from tessella.cells.tiling import Tiling
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
    lines = textwrap.wrap(title, int(72 * figure.get_figwidth() / (LETTER * TITLE)))
    figure.suptitle("\n".join(lines), fontsize=TITLE)
    figure.set_figheight(figure.get_figheight() + 1.3 * TITLE * max(len(lines) - 1, 0) / 72)
    if path is not None:
        with written_whole(picture_file(path)) as unfinished:
            figure.savefig(unfinished)
    return figure


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


@dataclass(frozen=True, eq=False)
class Plane:
    """A grid of the plane of the first two axes, at a place of the third if there is one."""

    domain: Domain
    counts: tuple[int, int]
    place: float | None = None

    @cached_property
    def points(self) -> Array:
        ticks = [
            np.linspace(*ends, n)
            for ends, n in zip(self.domain.bounds[:2], self.counts, strict=True)
        ]
        last = [] if self.place is None else [np.array([self.place])]
        grid = np.meshgrid(*ticks, *last, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, self.domain.dimension)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        return self.domain.contains(self.points)

    def values(self, function: Callable[[Array], Array]) -> Array:
        """Values on the grid, NaN at its points outside the domain."""
        found = np.full(len(self.points), np.nan)
        found[self.inside] = function(self.points[self.inside])
        return found.reshape(self.counts)

    def draw(self, ax: Axes, values: Array, norm: Normalize, colours: str) -> AxesImage:
        """A map of the values, and the outlines of the domain and its regions."""
        (x0, x1), (y0, y1) = self.domain.bounds[:2]
        image = ax.imshow(
            values.T,
            origin="lower",
            extent=(x0, x1, y0, y1),
            norm=norm,
            cmap=colours,
            aspect="auto" if "t" in self.domain.axes[:2] else "equal",
            interpolation="bilinear",
        )
        for distance in self._outlines():
            if np.nanmin(distance) < 0 < np.nanmax(distance):
                x, y = self.points[:, 0], self.points[:, 1]
                x, y, z = (a.reshape(self.counts) for a in (x, y, distance))
                ax.contour(x, y, z, levels=[0.0], colors="black", linewidths=0.8)
        return image

    def _outlines(self) -> list[Array]:
        """Functions that vanish on the outlines to draw; a box has the frame."""
        domain, found = self.domain, []
        if isinstance(domain, Divided):
            found = [domain.depth(name, self.points) for name, _ in domain.shapes]
            found = [np.where(self.inside, depth, np.nan) for depth in found]
            domain = domain.whole
        if isinstance(domain, Extrusion):
            found.append(domain.base.signed_distance(self.points[:, :-1]))
        elif not isinstance(domain, Box):
            found.append(domain.signed_distance(self.points))
        return found


def panel_size(domain: Domain, width: float) -> tuple[float, float]:
    """Width and height of a map of about this width, in inches."""
    if "t" in domain.axes[:2]:
        return width, width
    sides = domain.upper - domain.lower
    ratio = min(max(float(sides[1] / sides[0]), 0.25), 4.0)
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
