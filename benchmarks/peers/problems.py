"""The problems all peers solve: coefficients, data, exact solution, and one test grid each.

Data are written as formulas of (x, y, library), so that NumPy, JAX, NGSolve and PyTorch read the
same text. Every problem on the square is -div(a grad(u)) + b . grad(u) + c u = f with u = 0 on its
sides; on the cube formulas are of (x, y, z, library), and b = c = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import sub
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

import tessella as ts
from tessella.gallery.reference.four_holes import CENTRES, RADIUS, table
from tessella.gallery.reference.series import GaussianWave

Array = np.ndarray
Formula = Callable[..., Any]


def interior_grid(*axes: tuple[float, float, int]) -> Array:
    """Midpoints of equal cells: no point lies on a side, and few on a node of anyone's mesh."""
    lines = [low + (high - low) * (np.arange(n) + 0.5) / n for low, high, n in axes]
    return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(axes))


@dataclass(frozen=True)
class Oscillator:
    """u'' + mu u' + omega_0^2 u = 0 on [0, 1], u(0) = 1, u'(0) = 0."""

    omega0: float
    mu: float = 4.0
    kind: ClassVar[str] = "oscillator"
    axes: ClassVar[tuple[str, ...]] = ("t",)

    @property
    def wavenumber(self) -> float:
        return self.omega0

    @cached_property
    def points(self) -> Array:
        return interior_grid((0, 1, 4001))

    def exact(self, points: Array) -> Array:
        return self.stated().exact_values(points)

    def stated(self) -> ts.Problem:
        return ts.gallery.get("harmonic-oscillator").problem(omega0=self.omega0, mu=self.mu)


@dataclass(frozen=True)
class Varying:
    """A coefficient that varies, and its slopes for those who expand div(a grad(u)) by hand."""

    value: Formula
    slopes: tuple[Formula, ...]

    def at(self, points: Any) -> Any:
        """For tessella, which differentiates it; a method, so that two statements share it."""
        return self.value(*points.T, jnp)


@dataclass(frozen=True)
class Square:
    """-div(a grad(u)) + b . grad(u) + c u = f on the unit square, u = 0 on its sides."""

    source: Formula
    solution: Callable[[Array], Array]
    wavenumber: float
    """The largest of the data, for peers that must be told a scale."""
    a: float = 1.0
    b: tuple[float, float] = (0.0, 0.0)
    c: float = 0.0
    varying: Varying | None = None
    """In place of `a`, which then is its size only."""
    kind: ClassVar[str] = "square"
    axes: ClassVar[tuple[str, ...]] = ("x", "y")

    @cached_property
    def points(self) -> Array:
        return interior_grid((0, 1, 199), (0, 1, 199))

    def exact(self, points: Array) -> Array:
        return self.solution(points)

    def diffusion(self, x: Any, y: Any, library: Any) -> Any:
        """a(x, y): a number where it is constant."""
        return self.a if self.varying is None else self.varying.value(x, y, library)

    def stated(self) -> ts.Problem:
        """As a person would state it: soft boundary values, no ansatz."""
        operator: Any = -self.a * ts.Laplacian()
        if self.varying is not None:
            x, y = (first @ (self.varying.at * first) for first in (ts.D(x=1), ts.D(y=1)))
            operator = -(x + y)
        for factor, first in zip(self.b, (ts.D(x=1), ts.D(y=1)), strict=True):
            if factor:
                operator = operator + factor * first
        if self.c:
            operator = operator + self.c
        return ts.Problem(
            ts.Box(x=(0.0, 1.0), y=(0.0, 1.0)),
            ts.Equation(operator, lambda p: self.source(p[:, 0], p[:, 1], np)),
            [ts.Dirichlet(0.0)],
        )


@dataclass(frozen=True)
class Cube:
    """-div(a grad(u)) = f on the unit cube, u = 0 on its sides."""

    source: Formula
    solution: Callable[[Array], Array]
    wavenumber: float
    varying: Varying
    kind: ClassVar[str] = "cube"
    axes: ClassVar[tuple[str, ...]] = ("x", "y", "z")

    @cached_property
    def points(self) -> Array:
        return interior_grid(*[(0, 1, 29)] * 3)

    def exact(self, points: Array) -> Array:
        return self.solution(points)

    def stated(self) -> ts.Problem:
        """As a person would state it: soft boundary values, no ansatz."""
        x, y, z = (d @ (self.varying.at * d) for d in (ts.D(x=1), ts.D(y=1), ts.D(z=1)))
        return ts.Problem(
            ts.Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0)),
            ts.Equation(-(x + y + z), lambda p: self.source(*p.T, np)),
            [ts.Dirichlet(0.0)],
        )


@dataclass(frozen=True)
class Wave:
    """u_tt = Laplace(u) on [-1, 1]^2 x [0, T], u = 0 on the walls, a Gaussian at rest at t = 0.

    Scored against the double sine series; times of the test grid are T/10, 2T/10, ..., T. The
    Gaussian does not vanish on the walls (3.7e-6 at width 0.2, 2e-22 at 0.1), which the
    series, whose walls are zero, cannot follow: at width 0.2 expect agreement to no better than
    that, about.
    """

    width: float
    T: float
    kind: ClassVar[str] = "wave"
    axes: ClassVar[tuple[str, ...]] = ("x", "y", "t")
    TIMES: ClassVar[int] = 10

    @property
    def wavenumber(self) -> float:
        return 4.0 / self.width

    @cached_property
    def points(self) -> Array:
        """Times are T/10, 2T/10, ..., T, for those who step through time."""
        plane = interior_grid((-1, 1, 41), (-1, 1, 41))
        times = self.T * np.arange(1, self.TIMES + 1) / self.TIMES
        return np.concatenate([np.column_stack([plane, np.full(len(plane), t)]) for t in times])

    def exact(self, points: Array) -> Array:
        return GaussianWave(self.width)(points)

    def initial(self, x: Any, y: Any, library: Any) -> Any:
        return library.exp(-0.5 * (x * x + y * y) / self.width**2)

    def stated(self) -> ts.Problem:
        """As a person would state it: soft conditions, no ansatz."""
        walls = [ts.Dirichlet(0.0, on=side) for side in ("xmin", "xmax", "ymin", "ymax")]
        start = [
            ts.Initial(lambda p: self.initial(p[:, 0], p[:, 1], np)),
            ts.InitialVelocity(0.0),
        ]
        return ts.Problem(
            ts.Box(x=(-1.0, 1.0), y=(-1.0, 1.0), t=(0.0, self.T)),
            ts.Equation(ts.Laplacian("x", "y") - ts.D(t=2)),
            walls + start,
        )


@dataclass(frozen=True)
class Plate:
    """-Laplace(u) = f on a square or a disc without smaller discs, u given on all edges."""

    outline: ts.Box | ts.Ball
    holes: tuple[ts.Ball, ...]
    outside: Formula | float
    """u on the outline."""
    inside: Formula | float
    """u on the holes."""
    solution: Callable[[Array], Array]
    points: Array
    source: Formula | None = None
    """None is zero."""
    kind: ClassVar[str] = "plate"
    axes: ClassVar[tuple[str, ...]] = ("x", "y")

    def exact(self, points: Array) -> Array:
        return self.solution(points)

    def stated(self) -> ts.Problem:
        """As a person would state it: soft boundary values, no ansatz."""
        return ts.Problem(
            reduce(sub, self.holes, self.outline),
            ts.Equation(-ts.Laplacian(), _of_points(self.source or 0.0)),
            [
                ts.Dirichlet(_of_points(self.outside), on=self.outline.parts),
                ts.Dirichlet(_of_points(self.inside), on=HOLE),
            ],
        )


HOLE = "hole"
"""What the edges of all holes are called."""


def _of_points(formula: Formula | float) -> Any:
    return (lambda p: formula(p[:, 0], p[:, 1], np)) if callable(formula) else formula


Case = Oscillator | Square | Cube | Wave | Plate


def _scales(n: int) -> list[float]:
    return [np.pi * 2.0**i for i in range(1, n + 1)]


def _mean_of_waves(p: Array, n: int) -> Array:
    """The mean of sin(w x) sin(w y), in space sin(w x) sin(w y) sin(w z), over n scales."""
    return np.asarray(sum(np.prod(np.sin(w * p), axis=1) for w in _scales(n))) / n


def laplace(n: int) -> Square:
    """n scales 2, 4, ..., 2^n."""

    def source(x: Any, y: Any, library: Any) -> Any:
        return sum(2 * w**2 * library.sin(w * x) * library.sin(w * y) for w in _scales(n)) / n

    return Square(source, partial(_mean_of_waves, n=n), np.pi * 2**n)


def variable(n: int) -> Square:
    """The solution of the Laplacian's problem, where a = 1 + sin(3 x) cos(2 y) / 2."""
    a = Varying(
        lambda x, y, library: 1 + 0.5 * library.sin(3 * x) * library.cos(2 * y),
        (
            lambda x, y, library: 1.5 * library.cos(3 * x) * library.cos(2 * y),
            lambda x, y, library: -library.sin(3 * x) * library.sin(2 * y),
        ),
    )

    def source(x: Any, y: Any, library: Any) -> Any:
        laplacian, u_x, u_y = 0.0, 0.0, 0.0
        for w in _scales(n):
            sin_x, sin_y = library.sin(w * x), library.sin(w * y)
            laplacian = laplacian - 2 * w**2 * sin_x * sin_y
            u_x = u_x + w * library.cos(w * x) * sin_y
            u_y = u_y + w * sin_x * library.cos(w * y)
        a_x, a_y = (slope(x, y, library) for slope in a.slopes)
        return -(a.value(x, y, library) * laplacian + a_x * u_x + a_y * u_y) / n

    return Square(source, partial(_mean_of_waves, n=n), np.pi * 2**n, varying=a)


def cube(n: int) -> Cube:
    """n scales 2, 4, ..., 2^n in space, where a = 1 + sin(3 x) cos(2 y) cos(z) / 2."""
    a = Varying(
        lambda x, y, z, library: 1 + 0.5 * library.sin(3 * x) * library.cos(2 * y) * library.cos(z),
        (
            lambda x, y, z, of: 1.5 * of.cos(3 * x) * of.cos(2 * y) * of.cos(z),
            lambda x, y, z, of: -of.sin(3 * x) * of.sin(2 * y) * of.cos(z),
            lambda x, y, z, of: -0.5 * of.sin(3 * x) * of.cos(2 * y) * of.sin(z),
        ),
    )

    def source(x: Any, y: Any, z: Any, library: Any) -> Any:
        found, at = 0.0, (x, y, z, library)
        slopes = [slope(*at) for slope in a.slopes]
        for w in _scales(n):
            sines = [library.sin(w * t) for t in (x, y, z)]
            found = found + 3 * w**2 * a.value(*at) * sines[0] * sines[1] * sines[2]
            for i, (slope, t) in enumerate(zip(slopes, (x, y, z), strict=True)):
                j, k = (i + 1) % 3, (i + 2) % 3
                found = found - w * slope * library.cos(w * t) * sines[j] * sines[k]
        return found / n

    return Cube(source, partial(_mean_of_waves, n=n), np.pi * 2**n, a)


def helmholtz(k: float = 30.0, width: float = 0.025) -> Square:
    """-Laplace(u) - k^2 u = a Gaussian of integral 1 at (0.4, 0.55); reference by its sine series.

    k^2 / pi^2 = 91.19 is not a sum of two squares, so the cavity does not resonate. The Gaussian is
    16 widths from the nearest wall, so its sine coefficients are those of the whole plane.
    """
    x0, y0 = 0.4, 0.55
    m = np.arange(1, int(9 / (np.pi * width)) + 1)

    def coefficients(centre: float) -> Array:
        return 2 * np.sin(np.pi * m * centre) * np.exp(-0.5 * (np.pi * m * width) ** 2)

    squares = (np.pi * m[:, None]) ** 2 + (np.pi * m[None, :]) ** 2
    C = np.outer(coefficients(x0), coefficients(y0)) / (squares - k**2)

    def source(x: Any, y: Any, library: Any) -> Any:
        r2 = (x - x0) * (x - x0) + (y - y0) * (y - y0)
        return library.exp(-0.5 * r2 / width**2) / (2 * np.pi * width**2)

    def solution(p: Array) -> Array:
        waves = (np.sin(np.pi * np.outer(p[:, i], m)) for i in range(2))
        return np.einsum("pm,pm->p", next(waves) @ C, next(waves))

    return Square(source, solution, 3.0 / width, c=-(k**2))


def layer(epsilon: float = 0.01) -> Square:
    """-epsilon Laplace(u) + u_x = f with a layer of width epsilon at x = 1.

    u = g(x) sin(pi y), where -epsilon g'' + g' = 1 and g = 0 at both ends.
    """

    def g(x: Any, library: Any) -> Any:
        edge = np.exp(-1 / epsilon)
        return x - (library.exp((x - 1) / epsilon) - edge) / (1 - edge)

    def source(x: Any, y: Any, library: Any) -> Any:
        return (1 + epsilon * np.pi**2 * g(x, library)) * library.sin(np.pi * y)

    def solution(p: Array) -> Array:
        return np.asarray(g(p[:, 0], np)) * np.sin(np.pi * p[:, 1])

    return Square(source, solution, 1 / epsilon, a=epsilon, b=(1.0, 0.0))


def four_holes() -> Plate:
    """The gallery's: u = 1 on a square and 0 on four discs, harmonic between; known at points."""
    points, values = table()
    return Plate(
        ts.Box(x=(-0.5, 0.5), y=(-0.5, 0.5)),
        tuple(ts.Ball(x=x, y=y, radius=RADIUS, name=HOLE) for x, y in CENTRES),
        outside=1.0,
        inside=0.0,
        solution=ts.Reference(points, values),
        points=points,
    )


def disc_with_hole() -> Plate:
    """u = exp(x) sin(2 y) + cos(3 x y) on the unit disc without a disc of 0.3 off its centre."""

    def u(x: Any, y: Any, library: Any) -> Any:
        return library.exp(x) * library.sin(2 * y) + library.cos(3 * x * y)

    def source(x: Any, y: Any, library: Any) -> Any:
        waves = 9 * (x * x + y * y) * library.cos(3 * x * y)
        return 3 * library.exp(x) * library.sin(2 * y) + waves

    outline = ts.Ball(x=0.0, y=0.0, radius=1.0, name="outside")
    hole = ts.Ball(x=0.25, y=0.1, radius=0.3, name=HOLE)
    grid = interior_grid((-1, 1, 199), (-1, 1, 199))
    return Plate(
        outline,
        (hole,),
        outside=u,
        inside=u,
        solution=_of_points(u),
        points=grid[(outline - hole).contains(grid)],
        source=source,
    )


PROBLEMS: dict[str, tuple[str, Callable[[], Case]]] = {
    "oscillator-60": ("oscillator, omega_0 = 60", partial(Oscillator, 60.0)),
    "oscillator-580": ("oscillator, omega_0 = 580", partial(Oscillator, 580.0)),
    **{f"laplace-{n}": (f"Laplacian, n = {n}", partial(laplace, n)) for n in (3, 4, 5, 6)},
    **{f"variable-{n}": (f"variable coefficient, n = {n}", partial(variable, n)) for n in (4, 6)},
    "cube-2": ("variable coefficient in space, n = 2", partial(cube, 2)),
    "wave-0.2": ("wave, lambda = 0.2, T = 0.5", partial(Wave, 0.2, 0.5)),
    "wave-0.1": ("wave, lambda = 0.1, T = 1", partial(Wave, 0.1, 1.0)),
    "helmholtz": ("Helmholtz, k = 30, Gaussian source of width 0.025", helmholtz),
    "layer": ("advection-diffusion, layer of width 0.01", layer),
    "four-holes": ("Laplace's equation on a square with four holes", four_holes),
    "disc-with-hole": ("Poisson's equation on a disc with a hole", disc_with_hole),
}


def get(name: str) -> Case:
    return PROBLEMS[name][1]()
