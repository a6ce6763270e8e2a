"""Flow in a square cavity under a moving lid, by Chebyshev polynomials and Newton's method.

For the stream function psi, u = psi_y and v = -psi_x,

    Laplace^2 psi = Re (psi_y Laplace(psi)_x - psi_x Laplace(psi)_y),    psi = 0 on the walls,

psi_y = 1 at the lid y = 1 and slopes of zero at the other walls. Where the lid meets a wall the
velocity jumps; Stokes flow between the two, r times a function of the angle, is taken out at both
corners, and polynomials stand for the rest (Botella and Peyret 1998 do so for u, v and p).

`python -m tessella.gallery.reference.cavity` computes the extrema again (half an hour, 4 GB).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from tessella.gallery.reference.chebyshev import (
    chebyshev_points,
    differentiation,
    interpolation,
)
from tessella.machine.arrays import AnyArray, Array, namespace


class Extremum(NamedTuple):
    """The largest or smallest velocity on a centre line, and where."""

    at: float
    value: float


class Extrema(NamedTuple):
    """u on x = 1/2 by its y, v on y = 1/2 by its x."""

    u_min: Extremum
    v_max: Extremum
    v_min: Extremum


EXTREMA = {
    100.0: Extrema(
        Extremum(0.4581, -0.2140424), Extremum(0.2370, 0.1795728), Extremum(0.8104, -0.2538030)
    ),
    400.0: Extrema(
        Extremum(0.2800, -0.328730), Extremum(0.2253, 0.303833), Extremum(0.8622, -0.454066)
    ),
    1000.0: Extrema(
        Extremum(0.1717, -0.3885698), Extremum(0.1578, 0.3769447), Extremum(0.9092, -0.5270771)
    ),
    3200.0: Extrema(
        Extremum(0.0931, -0.435900), Extremum(0.0968, 0.433003), Extremum(0.9477, -0.568461)
    ),
}
"""By Reynolds number. 100 and 1,000 are Botella and Peyret's, which 64 points meet to 1e-7 and
2e-6; 400 and 3,200 are ours, to 1e-6 and 2e-6, with 64 and 88."""


_ALONG = 1 / (np.pi**2 / 4 - 1)
_ACROSS = np.pi / 2 * _ALONG
_LID = -np.pi / 2 * _ACROSS


class Corners(NamedTuple):
    """psi of Stokes flow at both corners and the derivatives that the equation needs."""

    psi: Any
    x: Any
    y: Any
    vorticity_x: Any
    vorticity_y: Any


def lid_corners(x: AnyArray, y: AnyArray) -> Corners:
    """Stokes flow between the lid and a wall, the sum of both corners, with NumPy or JAX.

    With a and b the distances from wall and lid and theta the angle from the lid, it is psi =
    c_0 b + theta (c_1 a + c_2 b): biharmonic, psi_y = 1 at the lid, no flow at the wall. At the
    corner itself its derivatives are those along the lid.
    """
    xp, b, rows = namespace(x), 1 - y, []
    for a, sign in ((x, 1.0), (1 - x, -1.0)):
        inside = a**2 + b**2 > 0
        r2 = xp.where(inside, a**2 + b**2, 1.0)
        theta, along = xp.arctan2(b, a), _ALONG * a + _ACROSS * b
        laplacian = 2 * (_ACROSS * a - _ALONG * b) / r2
        rows.append(
            (
                _LID * b + theta * along,
                sign * (theta * _ALONG - b / r2 * along),
                -(_LID + theta * _ACROSS + xp.where(inside, a / r2 * along, _ALONG)),
                sign * 2 * (_ACROSS - a * laplacian) / r2,
                2 * (_ALONG + b * laplacian) / r2,
            )
        )
    return Corners(*(one + other for one, other in zip(*rows, strict=True)))


@dataclass(frozen=True)
class LidCavity:
    """psi at (n, 2) points, for a Reynolds number.

    Polynomials of degree `points` along both axes: 40 give centre lines to 1e-6 at Re = 100 and to
    1e-5 at Re = 1,000. Newton's method starts from a smaller Reynolds number.
    """

    Re: float
    points: int = 40

    @cached_property
    def x(self) -> Array:
        return chebyshev_points(self.points, 0.0, 1.0)

    @cached_property
    def _corners(self) -> Corners:
        return lid_corners(*np.meshgrid(self.x, self.x, indexing="ij"))

    @cached_property
    def smooth(self) -> Array:
        """psi without its corners at the points of the grid, [x, y]."""
        before = self.Re / 2.5
        n = self.points + 1
        w = LidCavity(before, self.points).smooth if before > 100 else np.zeros((n, n))
        for _ in range(20):
            J, missed = self._linearised(w)
            scale = 1 / np.max(np.abs(J), axis=1)
            J *= scale[:, None]
            factors = lu_factor(J, overwrite_a=True, check_finite=False)
            change = lu_solve(factors, scale * missed.ravel()).reshape(n, n)
            w = w - change
            if np.max(np.abs(change)) < 1e-9:
                return w
        raise ValueError(f"Newton's method did not converge at Re={self.Re:g}")

    def _linearised(self, w: Array) -> tuple[Array, Array]:
        """Jacobian and defect of the equation and, in the rows of the two outermost rings of
        points, of the conditions."""
        n, Re, S = self.points + 1, self.Re, self._corners
        D = differentiation(self.x)
        D2 = D @ D
        D3, D4 = D @ D2, D2 @ D2
        psi_x, psi_y = D @ w + S.x, w @ D.T + S.y
        vorticity_x = D3 @ w + D @ w @ D2.T + S.vorticity_x
        vorticity_y = D2 @ w @ D.T + w @ D3.T + S.vorticity_y
        missed = D4 @ w + 2 * D2 @ w @ D2.T + w @ D4.T
        missed -= Re * (psi_y * vorticity_x - psi_x * vorticity_y)
        J = np.empty((n, n, n, n))
        for i in range(n):
            J[i] = 2 * D2[i][:, None] * D2[:, None, :]
            J[i] -= Re * psi_y[i][:, None, None] * D[i][:, None] * D2[:, None, :]
            J[i] += Re * psi_x[i][:, None, None] * D2[i][:, None] * D[:, None, :]
        for i in range(n):
            f = Re * psi_y[:, i, None], Re * vorticity_y[:, i, None]
            J[:, i, :, i] += D4 - f[0] * D3 + f[1] * D
            g = Re * vorticity_x[i, :, None], Re * psi_x[i, :, None]
            J[i, :, i, :] += D4 - g[0] * D + g[1] * D3
        self._conditions(w, D, J, missed)
        return J.reshape(n * n, n * n), missed

    def _conditions(self, w: Array, D: Array, J: Array, missed: Array) -> None:
        n, S = self.points, self._corners
        for wall in (0, n):
            for k in range(n + 1):
                for i, j in ((wall, k), (k, wall)):
                    J[i, j] = 0.0
                    J[i, j, i, j] = 1.0
                    missed[i, j] = w[i, j] + S.psi[i, j]
        for wall, next_to in ((0, 1), (n, n - 1)):
            for j in range(1, n):
                J[next_to, j] = 0.0
                J[next_to, j, :, j] = D[wall]
                missed[next_to, j] = D[wall] @ w[:, j] + S.x[wall, j]
            for i in range(2, n - 1):
                J[i, next_to] = 0.0
                J[i, next_to, i, :] = D[wall]
                missed[i, next_to] = w[i] @ D[wall] + S.y[i, wall] - (wall == n)

    def __call__(self, points: Array) -> Array:
        return self._sum(points, self.smooth, lid_corners(*points.T).psi)

    def without_corners(self, points: Array) -> Array:
        """What is left of psi when Stokes flow at both corners is taken out."""
        return self._sum(points, self.smooth, np.zeros(len(points)))

    def u(self, points: Array) -> Array:
        D = differentiation(self.x)
        return self._sum(points, self.smooth @ D.T, lid_corners(*points.T).y)

    def v(self, points: Array) -> Array:
        D = differentiation(self.x)
        return -self._sum(points, D @ self.smooth, lid_corners(*points.T).x)

    def _sum(self, points: Array, values: Array, corners: Array) -> Array:
        x, y = (interpolation(self.x, c) for c in points.T)
        return np.asarray(np.sum((x @ values) * y, axis=1) + corners)

    def extrema(self) -> Extrema:
        s = np.linspace(0.0, 1.0, 4_001)[1:-1]
        middle = np.full_like(s, 0.5)
        u, v = self.u(np.stack([middle, s], axis=1)), self.v(np.stack([s, middle], axis=1))
        return Extrema(_largest(s, -u, -1), _largest(s, v), _largest(s, -v, -1))


def _largest(s: Array, f: Array, sign: int = 1) -> Extremum:
    """Of the parabola through the largest value and its neighbours."""
    k = int(np.argmax(f))
    left, top, right = f[k - 1 : k + 2]
    shift = 0.5 * (left - right) / (left - 2 * top + right)
    value = top - 0.25 * (left - right) * shift
    return Extremum(float(s[k] + shift * (s[1] - s[0])), float(sign * value))


def main() -> None:
    for Re in (100.0, 400.0, 1000.0, 3200.0):
        for points in (64, 80, 88) if Re > 1000 else (40, 48, 64):
            found = LidCavity(Re, points).extrema()
            text = ", ".join(f"{e.value:.7f} at {e.at:.4f}" for e in found)
            print(f"Re = {Re:g}, {points} points: {text}", flush=True)


if __name__ == "__main__":
    main()
