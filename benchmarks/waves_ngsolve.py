"""Waves by NGSolve: elements of high order in space, and no steps in time.

In space u_tt = c^2 Laplace(u) becomes M u'' + K u = 0, and from rest u(t) = cos(t sqrt(A)) u(0)
with A = M^-1 K. Two ways to that cosine, both as exact in time as wanted and for all times at once:

chebyshev   its Chebyshev series: nothing but products with A, as in explicit stepping, and as few
            of them as any such scheme can do with (the peers' Taylor scheme takes 1.7 times more)
krylov      in the Krylov space of (K + s M)^-1 M: one factorisation, and tens of solves where the
            start holds few modes. The fastest we found, by two to nine; of two modes alone a
            space of five holds the whole answer, and no time is too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.special import jv

Array = np.ndarray
Formula = Callable[[Any, Any, Any], Any]
"""f(x, y, library), the library being NumPy or NGSolve."""

SMALL = 1e-9
"""Terms of the Chebyshev series below this are left out."""

TOGETHER = 32
"""Chebyshev vectors that are added up at a time."""


@dataclass(frozen=True)
class Elements:
    """Elements of a degree: on squares, as many per side as `cells` says, of a box; or curved
    triangles of at most `width` between two circles (centre, radius)."""

    degree: int
    box: tuple[float, float] = (0.0, 1.0)
    cells: int = 0
    circles: tuple[tuple[tuple[float, float], float], ...] = ()
    width: float = 0.0

    def mesh(self) -> Any:
        import ngsolve as ng
        from netgen.geom2d import Circle, CSG2d
        from ngsolve.meshes import MakeStructured2DMesh

        if not self.circles:
            low, high = self.box
            return MakeStructured2DMesh(
                quads=True,
                nx=self.cells,
                ny=self.cells,
                mapping=lambda x, y: (low + (high - low) * x, low + (high - low) * y),
            )
        outer, hole = (Circle(centre, radius) for centre, radius in self.circles)
        geometry = CSG2d()
        geometry.Add(outer - hole)
        mesh = ng.Mesh(geometry.GenerateMesh(maxh=self.width))
        mesh.Curve(self.degree)
        return mesh

    def __str__(self) -> str:
        size = f"width {self.width:g}" if self.circles else f"{self.cells} x {self.cells}"
        return f"degree {self.degree}, {size}"


@dataclass(frozen=True)
class Snapshots:
    """u at some times."""

    mesh: Any
    space: Any
    times: Array
    vectors: Array
    """(unknowns, times)"""

    def __call__(self, points: Array) -> Array:
        """At points (x, y, t) whose times are among them."""
        import ngsolve as ng

        found, values = ng.GridFunction(self.space), np.full(len(points), np.nan)
        for t, vector in zip(self.times, self.vectors.T, strict=True):
            at = np.isclose(points[:, 2], t)
            found.vec.FV().NumPy()[:] = vector
            values[at] = np.asarray(found(self.mesh(points[at, 0], points[at, 1]))).ravel()
        return values


class Assembled:
    """M, K and the projected start, with u = 0 on the whole boundary."""

    def __init__(self, elements: Elements, start: Formula, speed: Formula | None = None) -> None:
        import ngsolve as ng

        ng.ngsglobals.msg_level = 0
        ng.SetNumThreads(1)
        self.mesh = elements.mesh()
        self.space = ng.H1(self.mesh, order=elements.degree, dirichlet=".*")
        u, v = self.space.TnT()
        weight = 1.0 if speed is None else 1 / speed(ng.x, ng.y, ng) ** 2
        more = ng.dx(bonus_intorder=0 if speed is None else 4)
        self.M = ng.BilinearForm(weight * u * v * more, symmetric=True).Assemble().mat
        self.K = ng.BilinearForm(ng.grad(u) * ng.grad(v) * ng.dx, symmetric=True).Assemble().mat
        given = weight * start(ng.x, ng.y, ng)
        load = ng.LinearForm(given * v * ng.dx(bonus_intorder=4)).Assemble().vec
        self.mass = self.inverse(self.M)
        self.start = load.CreateVector()
        self.start.data = self.mass * load

    def inverse(self, matrix: Any) -> Any:
        return matrix.Inverse(self.space.FreeDofs(), inverse="sparsecholesky")

    def snapshots(self, times: Sequence[float], vectors: Array) -> Snapshots:
        return Snapshots(self.mesh, self.space, np.asarray(times), vectors)


def krylov(
    elements: Elements,
    start: Formula,
    times: Sequence[float],
    size: int,
    shift: float,
    speed: Formula | None = None,
) -> Snapshots:
    """cos(t sqrt(A)) in `size` vectors of the Krylov space of (K + shift M)^-1 M."""
    made = Assembled(elements, start, speed)
    shifted = made.K.CreateMatrix()
    shifted.AsVector().data = made.K.AsVector() + shift * made.M.AsVector()
    inverse = made.inverse(shifted)
    q, z, image = (made.start.CreateVector() for _ in range(3))
    q.data = made.start
    image.data = made.M * q
    Q, images = (np.empty((size, len(q))) for _ in range(2))
    diagonal, below = np.empty(size), np.empty(size)
    length = norm = math.sqrt(q.InnerProduct(image))
    for j in range(size):
        Q[j], images[j] = q.FV().NumPy() / norm, image.FV().NumPy() / norm
        image *= 1 / norm
        z.data = inverse * image
        own = z.FV().NumPy()
        parts = images[: j + 1] @ own
        own -= parts @ Q[: j + 1]
        diagonal[j] = parts[j]
        q.data = z
        image.data = made.M * q
        below[j] = norm = math.sqrt(q.InnerProduct(image))
    values, vectors = eigh_tridiagonal(diagonal, below[:-1])
    omega = np.sqrt(np.maximum(1 / np.maximum(values, 1e-300) - shift, 0.0))
    cosines = np.cos(np.outer(omega, times)) * (length * vectors[0])[:, None]
    return made.snapshots(times, Q.T @ (vectors @ cosines))


def chebyshev(
    elements: Elements,
    start: Formula,
    times: Sequence[float],
    speed: Formula | None = None,
    fastest: float = 1.0,
) -> Snapshots:
    """cos(t sqrt(A)) by its series in T_k(2 A / rho - 1), rho being above all eigenvalues of A;
    `fastest` is the largest speed."""
    made = Assembled(elements, start, speed)
    rho = fastest**2 * _radius(elements) if not elements.circles else _found_radius(made)
    c = _series(np.asarray(times) * math.sqrt(rho))
    before, now, force, following = (made.start.CreateVector() for _ in range(4))
    before.data = made.start
    force.data = made.K * before
    now.data = made.mass * force
    now *= 2 / rho
    now -= before
    block = np.empty((TOGETHER, len(now)))
    block[0], block[1], held = before.FV().NumPy(), now.FV().NumPy(), 2
    total = np.zeros((len(now), len(times)))
    for k in range(2, len(c)):
        force.data = (4 / rho) * made.K * now
        following.data = made.mass * force
        following.data -= 2 * now
        following -= before
        before, now, following = now, following, before
        block[held] = now.FV().NumPy()
        held += 1
        if held == TOGETHER or k == len(c) - 1:
            total += block[:held].T @ c[k + 1 - held : k + 1]
            held = 0
    return made.snapshots(times, total)


def _series(z: Array) -> Array:
    """Coefficients (k, times) of cos(z s) = J_0(z) + 2 sum (-1)^k J_2k(z) T_k(2 s^2 - 1)."""
    k = np.arange(int(np.max(z) / 2 + 20 + 6 * np.max(z) ** (1 / 3)))[:, None]
    c = 2 * (-1.0) ** k * jv(2 * k, z)
    c[0] /= 2
    return np.asarray(c[: 1 + np.flatnonzero(np.abs(c).max(axis=1) > SMALL)[-1]])


def _radius(elements: Elements) -> float:
    """The largest eigenvalue of one square alone, which is above those of all together."""
    import ngsolve as ng

    low, high = elements.box
    width = (high - low) / elements.cells
    mesh = Elements(elements.degree, (0.0, width), 1).mesh()
    space = ng.H1(mesh, order=elements.degree)
    u, v = space.TnT()
    forms = (ng.grad(u) * ng.grad(v) * ng.dx, u * v * ng.dx)
    K, M = (ng.BilinearForm(form).Assemble().mat.ToDense().NumPy() for form in forms)
    return 1.001 * float(eigh(K, M, eigvals_only=True)[-1])


def _found_radius(made: Assembled, steps: int = 40) -> float:
    """The largest eigenvalue of A by a power iteration, and a little more."""
    q, force = made.start.CreateVector(), made.start.CreateVector()
    force.FV().NumPy()[:] = np.random.default_rng(0).standard_normal(len(q))
    q.data = made.mass * force
    rho = 0.0
    for _ in range(steps):
        q /= math.sqrt(q.InnerProduct(q))
        force.data = made.K * q
        square = q.InnerProduct(force)
        q.data = made.mass * force
        rho = q.InnerProduct(force) / square
    return 1.1 * rho


def helmholtz(elements: Elements, k: float, exact: Formula) -> Callable[[Array], Array]:
    """Laplace(u) + k^2 u = 0 with u given on the boundary, inner unknowns eliminated."""
    import ngsolve as ng

    ng.ngsglobals.msg_level = 0
    ng.SetNumThreads(1)
    mesh = elements.mesh()
    space = ng.H1(mesh, order=elements.degree, dirichlet=".*")
    u, v = space.TnT()
    A = ng.BilinearForm(space, condense=True, symmetric=True)
    A += (ng.grad(u) * ng.grad(v) - k**2 * u * v) * ng.dx
    A.Assemble()
    found = ng.GridFunction(space)
    found.Set(exact(ng.x, ng.y, ng), ng.BND)
    load = found.vec.CreateVector()
    load.data = -A.mat * found.vec
    load.data += A.harmonic_extension_trans * load
    found.vec.data += A.mat.Inverse(space.FreeDofs(True), inverse="sparsecholesky") * load
    found.vec.data += A.harmonic_extension * found.vec
    found.vec.data += A.inner_solve * load
    return lambda points: np.asarray(found(mesh(points[:, 0], points[:, 1]))).ravel()
