"""Parameters from measurements: least squares with the derivatives that the factors give."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import ArrayLike

from tessella.machine.arrays import Array
from tessella.machine.progress import Progress, attended
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem
from tessella.solving.doors import with_choices
from tessella.solving.method import Method
from tessella.solving.parameters.averaged import Averaged, Told, averaged
from tessella.solving.parameters.identified import Identified
from tessella.solving.parameters.parametric import Parametric, parametric
from tessella.solving.parameters.smooth import DETERMINED, Part, by_parts, parts_of, rows_of
from tessella.solving.parameters.strength import Strength, asked, likeliest

CONFIDENCE = 0.95
"""Share of repeated experiments whose intervals hold the truth."""

WIDTH = float(scipy.special.ndtri(0.5 + CONFIDENCE / 2))

STEPS = 100
"""Thetas that are tried at most."""

CONVERGED = 1e-8
"""Relative change of theta or of the misfit at which nothing more is gained."""

ROUGHLY = 1e-5
"""The same between averages, which are no surer than that."""

SETTLED = 0.02
"""Relative change of the strength that changes theta by far less than its interval."""

STAYED = 0.2
"""Change of theta, in standard deviations, at which averages are not taken again."""

ROUNDS = 20
"""Strengths that are tried at most."""


@with_choices()
def identify(
    problem_of: Callable[[Any], Problem],
    data: tuple[ArrayLike, ArrayLike],
    start: Any,
    method: Method | None = None,
    *,
    of: Operator | None = None,
    state: Any = None,
    noise: float | ArrayLike | None = None,
    bounds: tuple[Any, Any] | None = None,
    regularisation: Any = None,
    strength: float | Literal["auto"] = 1.0,
    prior: Any = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Identified:
    """The theta with which u fits measurements best, by Levenberg-Marquardt.

    problem_of      theta -> Problem, as for `parametric`
    data            (points, values): u, or the operator `of` on it, at points (n, d), values (n,)
    start           theta to begin with, an array or any tree of arrays; near enough for u to look
                    like the data, since the nearest minimum is found
    state           of a nonlinear problem: what Newton's method starts from, as for `parametric`
    noise           standard deviation of the measurements, one or of each; left out, it is taken
                    from what the best fit leaves over
    bounds          (lowest, highest) of theta, numbers or like `start`; infinite ones are none
    regularisation  weights w of rows w (theta - prior), a number, one for each parameter, or a
                    matrix (m, p): for fields that data determine poorly. If `noise` is given and
                    theta is expected within s of the prior, w = 1 / s. For coefficients of waves
                    `Smooth(wavenumbers)` finds all weights; where theta is a tree, one like it
    strength        factor of these weights. "auto" lets the data choose it, and only the ratios of
                    the weights are yours: the strength that makes the data likeliest when all theta
                    are integrated out (in Laplace's approximation). Some ten thetas more
    prior           theta that is preferred, `start` unless given
    progress        called with (thetas tried, most, misfit); True shows a line

    The choices are those of `solve`. Every theta costs a factorisation, its derivatives a
    right-hand side each. Intervals are those of a linear model around the best theta.

    >>> import numpy as np
    >>> import tessella as ts
    >>> def problem_of(k):
    ...     wire = ts.Box(x=(0, 1))
    ...     return ts.Problem(wire, ts.Equation(-k * ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> x = np.array([0.25, 0.5, 0.75])
    >>> found = ts.identify(problem_of, (x, x * (1 - x) / 3), start=1.0,
    ...     subdomains=2, features=16, coupling="interfaces")
    >>> round(float(found.theta), 8)
    3.0
    """
    chosen = Method.of(choices, "identify", method)
    points, values = _data(data)
    u = parametric(problem_of, points, chosen, of=of, state=state)
    u.family.door = "identify"
    fit = _Fit(u, values, start, noise, bounds, regularisation, strength, prior)
    with attended(progress) as show:
        return fit.found(show)


class Bounds(NamedTuple):
    low: Array
    high: Array


class _Spread(NamedTuple):
    theta: Array
    covariance: Array
    sigma: Array
    width: float
    more: str
    fields: dict[str, Told]


class _Fit:
    """Measurements and what is asked of theta, checked."""

    def __init__(
        self,
        u: Parametric,
        values: Array,
        start: Any,
        noise: Any,
        bounds: Any,
        regularisation: Any,
        strength: Any,
        prior: Any,
    ) -> None:
        self.u, self.data, self.refused, self.tried = u, values, "", 0
        self._last: tuple[bytes, Array] = (b"", np.empty(0))
        self.start = np.asarray(u.numbers(start))
        if not np.all(np.isfinite(self.start)):
            raise ValueError(f"start must be finite, got {start!r}")
        p = len(self.start)
        self.names = _names(start)
        self.sigma = _noise(noise, len(values))
        self.prior = self.start if prior is None else self._like_start(prior, "prior")
        self.parts, weights = by_parts(regularisation, start)
        self.R = rows_of(weights, p)
        self.chosen = asked(strength, len(self.R), bool(self.parts))
        if len(values) + len(self.R) < p:
            raise ValueError(
                f"{len(values)} measurements cannot determine {p} parameters: measure more, "
                f"identify fewer, or add regularisation"
            )
        if self.parts and noise is None and len(values) <= p:
            raise ValueError(
                f"{len(values)} measurements cannot tell the noise from {p} parameters: give noise"
            )
        self.bounds = self._bounded(bounds)

    def _like_start(self, given: Any, what: str) -> Array:
        if isinstance(given, Real):
            return np.full(len(self.start), float(given))
        try:
            return np.asarray(self.u.numbers(given))
        except ValueError as error:
            raise ValueError(f"{what} must be a number or like start: {error}") from None

    def _bounded(self, bounds: Any) -> Bounds:
        if bounds is None:
            return Bounds(np.full(len(self.start), -np.inf), np.full(len(self.start), np.inf))
        if not (isinstance(bounds, tuple | list) and len(bounds) == 2):
            raise ValueError(f"bounds must be a pair (lowest, highest), got {bounds!r}")
        low, high = (self._like_start(own, "bounds") for own in bounds)
        outside = np.flatnonzero(~((low < high) & (low <= self.start) & (self.start <= high)))
        if len(outside):
            j = int(outside[0])
            raise ValueError(
                f"start {self.names[j]}={self.start[j]:.6g} is not within its bounds "
                f"[{low[j]:.6g}, {high[j]:.6g}]: move it there, or widen them"
            )
        return Bounds(low, high)

    def misfit(self, theta: Array) -> Array:
        """Not finite where there is no problem to solve: then a shorter step is taken."""
        try:
            left = (self.u.value(theta) - self.data) / self._unit
        except ValueError as error:
            self.refused = str(error)
            left = np.full(len(self.data), np.nan)
        return np.concatenate([left, self._rows @ (theta - self.prior)])

    def slope(self, theta: Array) -> Array:
        if self._last[0] != theta.tobytes():
            self._last = theta.tobytes(), self.u.tangents(theta, np.eye(len(theta))).T
        J = self._last[1]
        return np.concatenate([J / np.broadcast_to(self._unit, len(J))[:, None], self._rows])

    @property
    def _rows(self) -> Array:
        return self.R if self.chosen is None else self.chosen.value * self.R

    @property
    def _unit(self) -> Array:
        return np.ones(1) if self.sigma is None else self.sigma

    def found(self, progress: Progress | None) -> Identified:
        started, average = time.perf_counter(), None
        self._check_influence()
        if self.parts:
            result, average, settled = self._averaged(self.parts, progress)
        elif self.chosen is None:
            result, settled = self._balanced(progress)
        else:
            result, settled = self._fitted(self.start, progress), True
        if average is None:
            spread = self._spread(result)
        else:
            spread = self._mixed(average)
            settled = settled and self._fits(spread, result)
        return self._told(spread, result.status > 0, settled, time.perf_counter() - started)

    def _fitted(self, start: Array, progress: Progress | None, enough: float = CONVERGED) -> Any:
        """In units of the first misfit, so that a first step may undo all of it."""
        unit = float(np.linalg.norm(self.misfit(start)))
        unit = unit if unit > 0 and np.isfinite(unit) else 1.0

        def tell(intermediate_result: Any) -> None:
            if progress is not None:
                size = unit * float(np.sqrt(2 * intermediate_result.cost / len(self.data)))
                progress(self.tried + intermediate_result.nfev, self.tried + STEPS, size)

        result = scipy.optimize.least_squares(
            lambda theta: self.misfit(theta) / unit, start, lambda theta: self.slope(theta) / unit,
            bounds=tuple(self.bounds), method="trf", x_scale="jac", ftol=enough, xtol=enough,
            gtol=1e-15, max_nfev=STEPS, callback=tell,
        )  # fmt: skip
        self.tried += int(result.nfev)
        result.fun, result.jac = unit * result.fun, unit * result.jac
        return result

    def _balanced(self, progress: Progress | None) -> tuple[Any, bool]:
        """Strength and theta in turn, each of the other's, until the strength stays."""
        theta = self.start
        found = self._likeliest(theta, self.misfit(theta), self.slope(theta))
        for _ in range(ROUNDS):
            self.chosen = found
            result = self._fitted(theta, progress)
            theta = np.asarray(result.x)
            found = self._likeliest(theta, result.fun, result.jac)
            if abs(np.log(found.value / self.chosen.value)) < SETTLED:
                return result, True
        return result, False

    def _likeliest(self, theta: Array, misfit: Array, slope: Array) -> Strength:
        J, left = self._linear(theta, misfit, slope)
        return likeliest(J, left, self.R, self.sigma is not None)

    def _linear(self, theta: Array, misfit: Array, slope: Array) -> tuple[Array, Array]:
        """Derivatives of the data, and what of them the prior leaves unexplained."""
        n = len(self.data)
        return slope[:n], slope[:n] @ (theta - self.prior) - misfit[:n]

    def _averaged(
        self, parts: Sequence[Part], progress: Progress | None
    ) -> tuple[Any, Averaged, bool]:
        """The average over all fields of the problem linearised at theta, and theta with weights
        that say the same, in turn."""
        theta, known = self.start, self.sigma is not None
        found = averaged(*self._linear(theta, self.misfit(theta), self.slope(theta)), parts, known)
        for _ in range(ROUNDS):
            self.R, before = np.diag(found.weights), found
            result = self._fitted(theta, progress, ROUGHLY)
            theta = np.asarray(result.x)
            found = averaged(*self._linear(theta, result.fun, result.jac), parts, known)
            moved = (found.mean - before.mean) ** 2 / np.diag(found.covariance)
            if np.sqrt(np.mean(moved)) < STAYED and found.settled:
                return result, found, True
        return result, found, False

    def _check_influence(self) -> None:
        J = self.slope(self.start)
        silent = np.flatnonzero(~np.any(J, axis=0))
        if len(silent):
            raise ValueError(
                f"{self.names[int(silent[0])]} does not change what is measured at start: leave it "
                f"out, start elsewhere, or write problem_of with smooth functions of theta"
            )

    def _spread(self, result: Any) -> _Spread:
        """Of a linear model around the best theta."""
        p, J = len(self.start), np.asarray(result.jac)
        free = len(J) - p
        sigma, width = self.sigma, WIDTH
        if sigma is None:
            square = float(result.fun @ result.fun) / free if free else np.inf
            sigma = np.array([np.sqrt(square)])
            width = float(scipy.special.stdtrit(free, 0.5 + CONFIDENCE / 2)) if free else np.inf
            J = J / max(float(sigma[0]), 1e-300)
        covariance, rank = _inverse(J)
        more = f"; the data determine {rank} of {p} parameters only" if rank < p else ""
        return _Spread(np.asarray(result.x), covariance, sigma, width, more, {})

    def _mixed(self, average: Averaged) -> _Spread:
        """Of all fields that may be true."""
        theta = np.clip(self.prior + average.mean, *self.bounds)
        sigma = np.array([average.noise]) if self.sigma is None else self.sigma
        return _Spread(theta, average.covariance, sigma, WIDTH, "", average.told)

    def _fits(self, own: _Spread, result: Any) -> bool:
        """Whether the mean fits as a linear model says, which is hardly worse than the best."""
        n, p = len(self.data), len(self.start)
        mean, best = (float(np.sum(f[:n] ** 2)) for f in (self.misfit(own.theta), result.fun))
        return mean - best < 2 * p * (1.0 if self.sigma is not None else float(own.sigma[0]) ** 2)

    def _told(self, own: _Spread, done: bool, settled: bool, seconds: float) -> Identified:
        theta = own.theta
        left = self.u.value(theta) - self.data
        ends = own.width * np.sqrt(np.diag(own.covariance))
        reason = "converged" if done else f"stopped after {STEPS} thetas"
        if not settled:
            reason = f"the strength had not settled after {ROUNDS} rounds"
            if self.parts:
                reason = "the averages did not settle: intervals may be too small"
        if self.refused:
            reason += f"; stepped back from where {self.refused.split(': ')[0]}"
        reason += own.more
        assert self.u.family.shape is not None
        return Identified(
            theta=self.u.family.shape.theta(theta),
            values=theta,
            names=self.names,
            covariance=own.covariance,
            intervals=np.stack([theta - ends, theta + ends], axis=1),
            residual=float(np.sqrt(np.mean(left**2))),
            noise=float(np.sqrt(np.mean(own.sigma**2))),
            noise_given=self.sigma is not None,
            strength=self.chosen.value if self.chosen and len(self.R) else 0.0,
            strength_why=self.chosen.why if self.chosen else "",
            fields=own.fields,
            converged=settled and done,
            reason=reason,
            tried=self.tried,
            measurements=len(self.data),
            seconds=seconds,
            u=self.u,
        )


def _data(data: Any) -> tuple[Array, Array]:
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise TypeError(
            f"data must be a pair (points, values), got {type(data).__name__}: write "
            f"data=(points, values)"
        )
    points, values = (np.asarray(own, dtype=np.float64) for own in data)
    if values.ndim != 1 or len(values) != len(points) or not len(values):
        raise ValueError(
            f"data must have one value for each point, got points {points.shape} and values "
            f"{values.shape}"
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("data have values that are NaN or infinite: leave them out")
    return points, values


def _noise(noise: Any, n: int) -> Array | None:
    if noise is None:
        return None
    found = np.atleast_1d(np.asarray(noise, dtype=np.float64))
    if found.shape not in ((1,), (n,)) or not np.all((found > 0) & np.isfinite(found)):
        raise ValueError(
            f"noise must be a positive number, or one for each of the {n} measurements, got "
            f"{noise!r}; leave it out if it is not known"
        )
    return found


def _names(theta: Any) -> tuple[str, ...]:
    found = []
    for name, leaf in parts_of(theta):
        places = np.ndindex(*np.shape(leaf))
        found += [f"{name}[{', '.join(map(str, i))}]" if i else name for i in places]
    return tuple(found)


def _inverse(J: Array) -> tuple[Array, int]:
    """(J^T J)^-1 and the rank of J; infinite for parameters that J leaves open."""
    _, s, V = np.linalg.svd(J, full_matrices=False)
    kept = s > DETERMINED * s[0] if len(s) and s[0] > 0 else np.zeros(len(s), dtype=bool)
    rank = int(kept.sum())
    found = np.asarray((V[kept].T / s[kept] ** 2) @ V[kept])
    if rank < J.shape[1]:
        missing = 1 - np.sum(V[kept] ** 2, axis=0)
        open_ones = missing > 1e-6
        found[np.ix_(open_ones, open_ones)] = np.where(np.eye(int(open_ones.sum())), np.inf, 0.0)
    return found, rank
