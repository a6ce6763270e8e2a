"""GMRES for a linear map that can only be applied, on vectors that may be in parts.

Every process has some numbers of each vector, and asks the others for one or two sums an iteration:
the products of the new vector with all earlier ones, and again where much of it was in these, so
that they stay orthogonal to rounding (classical Gram-Schmidt made once loses that then, and with it
the convergence).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tessella.linalg.iterative.iteration import Stop
from tessella.machine.arrays import Array
from tessella.machine.progress import Progress

Map = Callable[[Array], Array]

Total = Callable[[Array], Array]
"""The sum over all processes, of what each has."""

FALLS = 0.5
"""Part of the residual that a cycle may leave; an iteration that leaves more is at its end."""


NEW = 0.5
"""Part of a vector's square beyond which what is new in it is orthogonal to all others at once: no
digit of it has cancelled (Daniel, Gragg, Kaufman and Stewart)."""


class Solved(NamedTuple):
    """x, the relative residual after every iteration, why it ended, the true one at the end, the
    reciprocal condition number of the map that was iterated as far as it was seen, and in how many
    iterations vectors were made orthogonal a second time."""

    x: Array
    history: list[float]
    stop: Stop
    residual: float
    regular: float
    again: int = 0


def gmres(
    product: Map,
    right: Array,
    *,
    tolerance: float,
    most: int,
    restart: int,
    before: Map | None = None,
    total: Total | None = None,
    progress: Progress | None = None,
) -> Solved:
    """Solve product(x) = right to a relative residual of `tolerance` in at most so many iterations,
    begun anew after `restart` of them; with `before`, something like the inverse of the product,
    product(before(y)) = right is what is iterated, and x = before(y)."""
    add: Total = total or (lambda own: own)
    both: Map = product if before is None else (lambda y: product(before(y)))
    x, left, size = np.zeros_like(right), right, _norm(right, add)
    history: list[float] = []
    if size == 0.0:
        return Solved(x, history, Stop.ZERO, 0.0, 1.0)
    error, regular, again, stop = 1.0, 1.0, 0, None
    while stop is None:
        cycle = _Cycle(both, left, error * size, min(restart, most - len(history)), add)
        while cycle.goes_on and not (history and history[-1] <= tolerance):
            history.append(cycle.grown() / size)
            if progress is not None:
                progress(len(history), most, history[-1])
        y = cycle.solution()
        x = x + (y if before is None else before(y))
        regular, again = min(regular, cycle.regular()), again + cycle.again
        left = right - product(x)
        error, last = _norm(left, add) / size, error
        stop = _ending(error, last, tolerance, len(history) >= most)
        if history and error > tolerance:
            history[-1] = error
    return Solved(x, history, stop, error, regular, again)


def _ending(error: float, last: float, tolerance: float, enough: bool) -> Stop | None:
    """Why to stop after a cycle, or not to."""
    if error <= tolerance:
        return Stop.RESIDUAL
    if not np.isfinite(error):
        return Stop.NOT_FINITE
    if enough:
        return Stop.LIMIT
    return Stop.STAGNATED if error > FALLS * last else None


def _norm(x: Array, total: Total) -> float:
    return float(np.sqrt(total(np.array(x @ x))))


class _Cycle:
    """Iterations from one beginning. The rows of V are orthonormal, A V_k = V_k+1 H, and turned by
    Q, a product of Givens rotations, H is a triangle R."""

    def __init__(self, product: Map, left: Array, size: float, most: int, total: Total) -> None:
        self.product, self.total, self.k, self.goes_on = product, total, 0, most > 0
        self.again = 0
        self.V = np.empty((most + 1, len(left)))  # pages that no iteration reaches take no memory
        np.divide(left, size, out=self.V[0])
        self.Q, self.R = np.eye(most + 1), np.zeros((most, most), order="F")
        self.right = np.zeros(most + 1)
        self.right[0] = size

    def grown(self) -> float:
        """One iteration, and the residual after it."""
        k = self.k
        w, h, size = self._new(self.product(self.V[k]) - self.V[k], self.V[: k + 1])
        h[k] += 1.0  # the map is near the identity: of what is beside that most is new
        column = self.Q[: k + 2, : k + 1] @ h
        column[k + 1] = size
        length = np.hypot(column[k], size) or 1.0
        c, s = column[k] / length, size / length
        turn = np.array([[c, s], [-s, c]])
        self.R[: k + 1, k] = column[: k + 1]
        self.R[k, k] = length
        self.Q[k : k + 2] = turn @ self.Q[k : k + 2]
        self.right[k : k + 2] = turn @ self.right[k : k + 2]
        self.k += 1
        self.goes_on = self.k < len(self.R) and size > np.finfo(float).eps * length
        if size > 0:
            np.divide(w, size, out=self.V[k + 1])
        return abs(float(self.right[k + 1]))

    def _new(self, w: Array, V: Array) -> tuple[Array, Array, float]:
        """What is new in w beside the rows of V, what is not, and the size of the former."""
        w, h, size, mostly = self._apart(w, V)
        if mostly:
            return w, h, size
        self.again += 1
        w, more, size, _ = self._apart(w, V)
        return w, h + more, size

    def _apart(self, w: Array, V: Array) -> tuple[Array, Array, float, bool]:
        """The same made once, and whether most of w is new."""
        *along, square = self.total(np.append(V @ w, w @ w))
        h = np.array(along)
        left = square - h @ h
        return w - h @ V, h, float(np.sqrt(max(left, 0.0))), bool(left > NEW * square)

    def solution(self) -> Array:
        """What these iterations add to x."""
        k = self.k
        if k == 0:
            return np.zeros_like(self.V[0])
        R, right = self.R[:k, :k], self.right[:k]
        y, singular = lapack.dtrtrs(R, right)
        if singular:
            y = np.linalg.lstsq(R, right)[0]
        return np.asarray(y @ self.V[:k])

    def regular(self) -> float:
        """The reciprocal condition number of R, which is that of H."""
        return float(lapack.dtrcon(self.R[: self.k, : self.k])[0]) if self.k else 1.0
