"""Solutions for other software: NumPy arrays, xarray datasets, VTK files.

Everything is sampled on a regular grid of the domain, as a dictionary from names to values: the
unknown `u`, or all of them by their names, derivatives by the names they are given, and `exact` and
`error` (`exact_p`, `error_p` of several unknowns) where the exact solution is known as a function.
Of a domain that is not a box the grid is that of its bounding box, and holds NaN outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tessella.geometry.box import Box
from tessella.geometry.domain import Domain
from tessella.geometry.functions import explained
from tessella.machine.arguments import as_path, check_callable, check_kind, whole_numbers
from tessella.machine.arrays import Array
from tessella.machine.progress import Shown, attended
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem
from tessella.problem.reference import Reference
from tessella.solution.vtk import STRUCTURED, UNSTRUCTURED, write_grid, write_series
from tessella.version import __version__

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from tessella.solution.marched import MarchReport
    from tessella.solution.report import Report
    from tessella.solution.viewer import Viewer

RESOLUTION = {1: 1_001, 2: 101, 3: 41}
"""Points per axis unless given, by dimension; 11 beyond."""

FRAMES = 21
"""Times of a series unless given."""

Region = Callable[[Array], Array]
"""From (n, d) points to (n,) truth values: where there is something to show."""


class Sampled:
    """A function on a problem's domain that can be written for other software."""

    problem: Problem
    report: Report | MarchReport

    def __call__(self, points: ArrayLike) -> Array:
        raise NotImplementedError

    def apply(self, operator: Operator, points: ArrayLike, normals: Array | None = None) -> Array:
        raise NotImplementedError

    def plot(self, path: str | Path | None = None) -> Figure:
        raise NotImplementedError

    def whole(self) -> Sampled:
        """With all coefficients in every process."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.report)

    def on_grid(
        self, resolution: int | Sequence[int] | None = None, where: Region | None = None
    ) -> tuple[tuple[Array, ...], Array]:
        """Ticks of every axis and the values on their grid, NaN outside the domain or `where`.

        Several unknowns lie along a last axis, in the order of `problem.unknowns`.
        """
        ticks = _ticks(self.problem, resolution)
        points = _grid(ticks)
        inside = _inside(self.problem, points, where)
        found = self(points[inside])
        values = np.full((len(points), *found.shape[1:]), np.nan)
        values[inside] = found
        return ticks, values.reshape(*(len(tick) for tick in ticks), *found.shape[1:])

    def to_xarray(
        self,
        resolution: int | Sequence[int] | None = None,
        derivatives: Mapping[str, Operator] | None = None,
        where: Region | None = None,
    ) -> xarray.Dataset:
        """A dataset with the axes as coordinates and the problem and its figures as attributes;
        `derivatives` such as {"u_x": D(x=1)} stand beside the values."""
        try:
            import xarray
        except ImportError:
            raise ImportError("datasets need xarray: pip install 'tessella[xarray]'") from None
        axes, ticks = self.problem.domain.axes, _ticks(self.problem, resolution)
        points = _grid(ticks)
        inside = _inside(self.problem, points, where)
        fields = _filled(sample(self, points[inside], derivatives), inside)
        shape = [len(tick) for tick in ticks]
        return xarray.Dataset(
            {name: (axes, values.reshape(shape)) for name, values in fields.items()},
            coords=dict(zip(axes, ticks, strict=True)),
            attrs=_attributes(self),
        )

    def to_vtk(
        self,
        path: str | Path,
        resolution: int | Sequence[int] | None = None,
        derivatives: Mapping[str, Operator] | None = None,
        times: int | Sequence[float] | None = None,
        where: Region | None = None,
    ) -> Path:
        """Write a VTK file, or a series of them; returns the file to open.

        `.vts` holds a structured grid, `.vtu` and `.vtk` (through meshio) an unstructured one, of
        which only the cells inside the domain and the region `where` are written. Time is an axis
        like any other unless `times` asks for a series, one file for each of these times (or for so
        many, evenly spaced) and a `.pvd` file that lists them; with three axes beside t it is
        always a series. `resolution` counts the points of the axes that a file has.
        """
        target, domain = as_path(path), self.problem.domain
        _check_kind(target, domain, where)
        if times is None and "t" in domain.axes and domain.dimension > 3:
            times = FRAMES
        if times is not None:
            moments = _moments(domain, times)
            return _write_series(target, self, resolution, derivatives, moments, where)
        if domain.dimension > 3:
            raise ValueError(
                f"VTK files have three axes at most, the domain has {', '.join(domain.axes)}: "
                f"evaluate the solution on a slice"
            )
        ticks = _ticks(self.problem, resolution)
        _write(target, self, ticks, _grid(ticks), derivatives, where)
        return target

    def animate(
        self,
        path: str | Path,
        frames: int = 60,
        fps: float = 20.0,
        field: str | None = None,
        progress: Shown = None,
    ) -> Path:
        """Write a moving picture of the solution in time: a `.gif`, or an `.mp4` by ffmpeg.

        A curve along one axis of space, a map of two, a slice across the middle of the third; the
        range of values stays the same. `frames` are evenly spaced from start to end, `fps` of them
        are shown in a second. Of several unknowns `field` names the one to show; left out, all are
        shown. `progress` is as in `solve`; a function of yours is called with (steps
        done, steps, 1), two steps for every frame.
        """
        from tessella.solution.animation import animate

        with attended(progress) as show:
            return animate(self, path, frames, fps, field, show)

    def view(self, browser: bool = True) -> Viewer:
        """Show the solution in the browser: maps, lines and surfaces to turn, slice, step through
        and probe, with errors, residuals and subdomains.

        The page is served to this machine only, as long as Python runs or until `close()` of what
        is returned; `wait()` keeps a script from ending. Left to itself with `browser=False`, the
        page waits at `url`.
        """
        from tessella.solution.viewer import Viewer

        return Viewer(self.whole(), browser)

    def _repr_html_(self) -> str:
        """What a notebook shows: a picture, where matplotlib is there, and the report."""
        from tessella.solution.notebook import as_html

        return as_html(self)


def _check_kind(target: Path, domain: Domain, where: Region | None) -> None:
    """Refuse an unknown kind of file, and one that cannot leave out what is to be left out."""
    if target.suffix not in (*UNSTRUCTURED, STRUCTURED):
        raise ValueError(
            f"unknown kind of file {target.name!r}: use {', '.join(UNSTRUCTURED)} or {STRUCTURED}"
        )
    if target.suffix == STRUCTURED and not (where is None and isinstance(domain, Box)):
        raise ValueError(
            f"a structured grid ({STRUCTURED}) has no holes, so it cannot leave out what is "
            f"outside {'the domain' if where is None else '`where`'}: write {UNSTRUCTURED[0]}"
        )


def sample(
    solution: Sampled, points: Array, derivatives: Mapping[str, Operator] | None = None
) -> dict[str, Array]:
    """All there is to know at the points, by name."""
    problem = solution.problem
    columns = _columns(solution(points))
    found = dict(zip(problem.unknowns, columns, strict=True))
    if problem.exact is not None and not isinstance(problem.exact, Reference):
        exact = _columns(problem.exact_values(points))
        for name, own, right in zip(problem.unknowns, columns, exact, strict=True):
            end = "" if len(columns) == 1 else f"_{name}"
            found[f"exact{end}"], found[f"error{end}"] = right, own - right
    check_kind(derivatives or {}, Mapping, "derivatives", 'operators by name, {"u_x": D(x=1)}')
    for name, operator in (derivatives or {}).items():
        if name in found:
            raise ValueError(f"derivatives cannot be called {name!r}: that name is taken")
        if not isinstance(operator, Operator):
            raise TypeError(
                f"derivatives {name!r} must be an operator such as D(x=1), got {operator!r}"
            )
        found[name] = solution.apply(operator, points)
    return found


def _columns(values: Array) -> list[Array]:
    return [values] if values.ndim == 1 else list(values.T)


def _write_series(
    target: Path,
    solution: Sampled,
    resolution: int | Sequence[int] | None,
    derivatives: Mapping[str, Operator] | None,
    moments: Array,
    where: Region | None,
) -> Path:
    """A file per moment, and the collection that ParaView opens."""
    domain = solution.problem.domain
    time = domain.axis_index("t")
    if domain.dimension == 1:
        raise ValueError(
            "t is the only axis, so a file per time would hold one point: leave out times"
        )
    ticks = _ticks(solution.problem, resolution, without=time)
    space = _grid(ticks)
    files: dict[str, float] = {}
    for k, moment in enumerate(moments):
        file = target.with_name(f"{target.stem}_{k:04d}{target.suffix}")
        _write(file, solution, ticks, np.insert(space, time, moment, axis=1), derivatives, where)
        files[file.name] = float(moment)
    return write_series(target.with_suffix(".pvd"), files)


def _write(
    target: Path,
    solution: Sampled,
    ticks: tuple[Array, ...],
    points: Array,
    derivatives: Mapping[str, Operator] | None,
    where: Region | None,
) -> None:
    """One file: the fields at `points` of the domain, placed on the grid of `ticks`."""
    inside = _inside(solution.problem, points, where)
    fields = _filled(sample(solution, points[inside], derivatives), inside)
    write_grid(target, _grid(ticks), tuple(map(len, ticks)), fields, inside)


def _ticks(
    problem: Problem, resolution: int | Sequence[int] | None, without: int | None = None
) -> tuple[Array, ...]:
    """Evenly spaced points along every axis, or along all but one."""
    kept = [i for i in range(problem.domain.dimension) if i != without]
    names = [problem.domain.axes[i] for i in kept]
    given = whole_numbers(RESOLUTION.get(len(kept), 11) if resolution is None else resolution)
    if given is None or given.size not in (1, len(kept)) or np.any(given < 2):
        raise ValueError(
            f"resolution must be a whole number >= 2, or one for each of {', '.join(names)}, got "
            f"{resolution!r}"
        )
    counts = np.broadcast_to(given, (len(kept),)).astype(int)
    return tuple(
        np.linspace(*problem.domain.bounds[i], n) for i, n in zip(kept, counts, strict=True)
    )


def _moments(domain: Domain, times: int | Sequence[float]) -> Array:
    if "t" not in domain.axes:
        raise ValueError(
            f"times={times!r} asks for a series, but the domain has no axis t: leave it out"
        )
    low, high = domain.bounds[domain.axis_index("t")]
    if isinstance(times, int):
        if times < 1:
            raise ValueError(f"times must be a number of files >= 1 or a list, got {times!r}")
        return np.linspace(low, high, times)
    moments = np.asarray(times, dtype=np.float64)
    if moments.ndim != 1 or not np.all((low <= moments) & (moments <= high)):
        raise ValueError(f"times must lie between {low:g} and {high:g}, got {times!r}")
    return moments


def _grid(ticks: Sequence[Array]) -> Array:
    return np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(ticks))


def _inside(problem: Problem, points: Array, where: Region | None) -> np.ndarray:
    """Which points lie in the domain and in the region."""
    inside = problem.domain.contains(points)
    if where is not None:
        check_callable(where, "where", "a function from points to truth values")
        with explained(where, points, "where"):
            chosen: np.ndarray = np.asarray(where(points))
        if chosen.shape != (len(points),) or chosen.dtype != bool:
            raise ValueError(
                f"where must map an (n, {points.shape[1]}) array of points to (n,) truth values, "
                f"got {chosen.dtype} of shape {chosen.shape}"
            )
        inside = inside & chosen
    if not inside.any():
        raise ValueError(
            "no point of the grid lies in the domain and in `where`: raise resolution, or check it"
        )
    return inside


def _filled(fields: dict[str, Array], inside: np.ndarray) -> dict[str, Array]:
    """Values on the whole grid, NaN where there is none."""
    whole = {}
    for name, values in fields.items():
        whole[name] = np.full(len(inside), np.nan)
        whole[name][inside] = values
    return whole


def _attributes(solution: Sampled) -> dict[str, str | float]:
    """Names and numbers only, so that every file format can hold them."""
    report = solution.report
    found: dict[str, str | float] = {"problem": report.problem}
    found |= {f"parameter_{name}": float(value) for name, value in report.parameters.items()}
    if report.error_estimate is not None:
        found["error_estimate"] = float(report.error_estimate)
    for name, value in (report.error or {}).items():
        found[f"error_{name}"] = float(value)
    return {**found, "stop_reason": report.stop_reason, "source": f"tessella {__version__}"}
