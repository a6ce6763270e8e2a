"""Parameters: gradients against differences, and coefficients found from measurements.

PInv and HInv are stated as PINNacle does (Hao et al. 2023, arXiv 2306.08827): u is measured at
2,500 points with noise of 0.1, f is known, the coefficient a is known on the boundary, and nothing
is said of u there or at the start. What u is there is looked for too, and f is that of u and a (its
formula of PInv has 2 x + 1 where 2 x - 1 is right). a is what its boundary says, and products of
sines that vanish there; u at the start and on the walls is expanded likewise. Of all of them it is
expected that they are `Smooth`, and nothing else: how large, how smooth and in how many functions
the data say. "error" is PINNacle's, of u and a together; "expected" the spread of a as the fit
tells it, "covered" the share of the domain where a is within its interval of 95 in 100, "before"
the error of what the boundary says of a. HInv's a - 2 is one of the sines, which helps; so it is
looked for in polynomials too, and other truths by the same lines: a bump in a corner, two scales.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.harness import save, table

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
CELLS = ts.Method(subdomains=4, features=160, coupling="interfaces")
PI = np.pi
SMOOTH, DISC = (6, 200), (5, 200)
"""Subdomains and features."""


def _conduction(a: Callable[[Any], Any]) -> ts.Operator:
    return ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1))  # type: ignore[operator]


def _cosines(theta: Any, counts: tuple[int, int]) -> Callable[[Any], Any]:
    """exp of cosines on the unit square."""

    def a(p: Any) -> Any:
        along = [jnp.cos(PI * p[:, i, None] * jnp.arange(float(n))) for i, n in enumerate(counts)]
        return jnp.exp(jnp.einsum("ni,nj,ij->n", *along, theta.reshape(counts)))

    return a


def gradients() -> None:
    """30 parameters of a conductivity: one gradient against central differences of solves."""
    draw = np.random.default_rng(0)
    x, w = draw.random((50, 2)), draw.standard_normal(50)

    def problem_of(theta: Any) -> ts.Problem:
        load = ts.Equation(-_conduction(_cosines(theta, (6, 5))), lambda p: 10 * p[:, 0])
        return ts.Problem(SQUARE, load, [ts.Dirichlet(lambda p: p[:, 1])])

    u = ts.parametric(problem_of, x, CELLS)

    def loss(theta: Any) -> Any:
        return jnp.sum(w * u(theta) ** 2)

    theta = 0.1 * draw.standard_normal(30)
    for k in range(5):
        jax.grad(loss)(theta + 1e-3 * k)
    solve, both = [], []
    for k in range(9):
        new = theta + 1e-3 * (10 + k)
        begun = time.perf_counter()
        loss(new).block_until_ready()
        solve.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        jax.grad(loss)(new).block_until_ready()
        both.append(time.perf_counter() - begun)
    found, h = np.asarray(jax.grad(loss)(theta)), 1e-4
    steps = np.array([float(loss(theta + e) - loss(theta - e)) for e in h * np.eye(30)]) / (2 * h)
    cosine = found @ steps / np.linalg.norm(found) / np.linalg.norm(steps)
    row = {
        "parameters": 30,
        "1 - cosine": 1 - cosine,
        "relative difference": np.linalg.norm(found - steps) / np.linalg.norm(steps),
        "solve ms": 1e3 * float(np.median(solve)),
        "gradient ms": 1e3 * float(np.median(both)),
        "gradient / solve": float(np.median(both) / np.median(solve)),
        "tables by": u.derived,
    }
    table("Gradient in 30 parameters", [row])
    save("gradients", [row])


def inverse() -> None:
    """An inclusion without noise, and PInv and HInv with it: error of what is found, seconds."""
    rows = [_inclusion(), _disc()]
    for name, stated in (("PInv", _pinv), ("HInv", _hinv)):
        seeds = [_noisy(stated, name, seed) for seed in range(SEEDS)]
        rows += [*seeds, _mean(seeds)]
    rows += _least()
    for name, (given, count) in OTHERS.items():
        own = partial(_hinv, **given)
        rows.append(_mean([_noisy(own, name, seed) for seed in range(count)]))
    table("Found from measurements", rows)
    save("inverse", rows)


def _around(theta: Any, p: Any, slope: bool = False) -> Any:
    """The potential z + z^2 (its real part) around a disc, and inside it; or its slope along x."""
    k, radius, x, y = theta
    z, found = p[:, 0] - x + 1j * (p[:, 1] - y), 0.0
    beta, outside = (k - 1) / (k + 1), np.abs(z) > radius
    for n in (1, 2):
        away = np.where(outside, z, 1.0)
        field, answer = (z**n, -beta * radius ** (2 * n) / away**n)
        if slope:
            field, answer = n * z ** (n - 1), n * beta * radius ** (2 * n) / away ** (n + 1)
        found = found + np.where(outside, field + answer, (1 - beta) * field).real
    return found


def _fluxes() -> np.ndarray:
    """Points on two walls of the square, through which fluxes are measured."""
    s = np.linspace(0.05, 0.95, 12)
    return np.concatenate([np.stack([side * np.ones(12), s], axis=1) for side in (0.0, 1.0)])


def _inclusion() -> dict[str, Any]:
    """A place that conducts better: how much, where, how wide, from the fluxes through two walls
    that a potential and a source drive; all data are those of a formula."""
    truth = np.array([2.0, 0.4, 0.55, 0.25])

    def source(p: Any) -> Any:
        """Of z + z^2 (its real part)."""
        away = p - truth[1:3]
        slope = np.stack([1 + 2 * p[:, 0], -2 * p[:, 1]], axis=1)
        bump = truth[0] * np.exp(-np.sum(away**2, axis=1) / truth[3] ** 2)
        return 2 / truth[3] ** 2 * bump * np.sum(away * slope, axis=1)

    def problem_of(theta: Any) -> ts.Problem:
        def a(p: Any) -> Any:
            away = (p[:, 0] - theta[1]) ** 2 + (p[:, 1] - theta[2]) ** 2
            return 1 + theta[0] * jnp.exp(-away / theta[3] ** 2)

        walls = ts.Dirichlet(lambda p: p[:, 0] + p[:, 0] ** 2 - p[:, 1] ** 2)
        return ts.Problem(SQUARE, ts.Equation(-_conduction(a), source), [walls])

    x = _fluxes()
    cells = ts.Method(subdomains=SMOOTH[0], features=SMOOTH[1], coupling="interfaces")
    start, data = np.array([1.0, 0.5, 0.5, 0.3]), (x, 1 + 2 * x[:, 0])
    return _row("inclusion", problem_of, data, start, cells, truth)


def _disc() -> dict[str, Any]:
    """The same of a disc, whose boundary moves; all data are those of a formula."""
    truth = np.array([3.0, 0.2, 0.55, 0.425])

    def problem_of(theta: Any) -> ts.Problem:
        k, radius, x, y = theta
        domain = ts.Divided(SQUARE, core=ts.Ball(x=x, y=y, radius=radius))
        inside = ts.Equation(-k * ts.Laplacian(), 0.0, where="core")
        outside = ts.Equation(-ts.Laplacian(), 0.0, where="rest")
        joined = ts.Transmission("core", "rest", flux=(k, 1.0))
        walls = ts.Dirichlet(lambda p: _around(truth, p))
        return ts.Problem(domain, [inside, outside], [walls, *joined])

    x = _fluxes()
    cells = ts.Method(subdomains=DISC[0], features=DISC[1], coupling="interfaces")
    start = np.array([2.0, 0.15, 0.5, 0.5])
    return _row("disc", problem_of, (x, _around(truth, x, True)), start, cells, truth)


def _row(
    case: str, problem_of: Any, data: Any, start: Any, cells: ts.Method, truth: np.ndarray
) -> dict[str, Any]:
    found, seconds = _timed(lambda: ts.identify(problem_of, data, start, cells, of=ts.D(x=1)))
    print(found)
    error = float(np.max(np.abs(found.values - truth)))
    open_ones = dict.fromkeys(OPEN)
    return {
        "case": case,
        "parameters": len(truth),
        "error": error,
        **open_ones,
        "seconds": seconds,
    }


# --- PINNacle's

NOISE, MEASURED, SEEDS = 0.1, 2_500, 5
OPEN = ("error of a", "expected", "covered", "before", "error of u", "functions")
SINES = 6
"""Along each axis: more than noise of 0.1 lets one see."""

FRINGE = [(j, k) for j in range(5) for k in range(5) if j + k <= 4 and (j, k) != (2, 2)]
"""Degrees of polynomials that any values on the boundary of a square are made of: none of their
sums vanishes there."""


class Square:
    """Fields on a square, in functions of which the wavenumbers are known."""

    def __init__(self, low: float, width: float, polynomials: bool = False) -> None:
        self.low, self.width, self.polynomials = low, width, polynomials
        k = np.arange(1.0, SINES + 1) ** 2
        self.inner = ts.Smooth(PI / width * np.sqrt(k[:, None] + k))
        self.rim = ts.Smooth(PI / width * np.hypot(*np.transpose(FRINGE)))

    def within(self, theta: Any) -> Callable[[Any], Any]:
        """Sines, or 1 - s^2 times Chebyshev's polynomials, in products: they vanish on the rim."""

        def along(s: Any) -> Any:
            if not self.polynomials:
                return jnp.sin((s[:, None] + 1) * (PI / 2 * jnp.arange(1.0, SINES + 1)))
            T = [1 - s**2, s * (1 - s**2)]
            for _ in range(2, SINES):
                T.append(2 * s * T[-1] - T[-2])
            return jnp.stack(T, axis=1)

        def values(p: Any) -> Any:
            x, y = (along(2 * (p[:, i] - self.low) / self.width - 1) for i in (0, 1))
            return jnp.einsum("ni,nj,ij->n", x, y, theta.reshape(SINES, SINES))

        return values

    def fringe(self, theta: Any, p: Any) -> Any:
        """Products of Chebyshev's polynomials."""
        T = []
        for s in (2 * (p[:, i] - self.low) / self.width - 1 for i in (0, 1)):
            T.append([1 + 0 * s, s, 2 * s**2 - 1, 4 * s**3 - 3 * s, 8 * s**4 - 8 * s**2 + 1])
        return sum(c * T[0][j] * T[1][k] for c, (j, k) in zip(theta, FRINGE, strict=True))


def _pinv(seed: int) -> tuple[Any, ...]:
    """-div(a grad u) = f on the unit square; a is known on its boundary."""
    square = Square(0.0, 1.0)

    def truth(p: Any) -> Any:
        x, y = p[:, 0], p[:, 1]
        return 1 / (1 + x**2 + y**2 + (x - 1) ** 2 + (y - 1) ** 2)

    def u(p: Any) -> Any:
        return jnp.sin(PI * p[:, 0]) * jnp.sin(PI * p[:, 1])

    def known(p: Any) -> Any:
        """What the values of a on the boundary say inside, blended from all sides."""
        x, y, at = p[:, 0], p[:, 1], lambda x, y: truth(jnp.stack([x, y], axis=1))
        zero = 0.0 * x
        sides = (1 - x) * at(zero, y) + x * at(zero + 1, y)
        sides += (1 - y) * at(x, zero) + y * at(x, zero + 1)
        return sides - at(zero, zero)  # a is the same at all corners

    def f(p: Any) -> Any:
        x, y, pi = p[:, 0], p[:, 1], PI
        a, sx, sy, cx, cy = truth(p), *(fn(pi * q) for fn in (np.sin, np.cos) for q in (x, y))
        a_x, a_y = -(4 * x - 2) * a**2, -(4 * y - 2) * a**2
        return 2 * pi**2 * a * sx * sy - pi * (a_x * cx * sy + a_y * sx * cy)

    def coefficient(theta: Any) -> Any:
        more = square.within(theta["a"])
        return lambda p: known(p) + more(p)

    def problem_of(theta: Any) -> ts.Problem:
        walls = ts.Dirichlet(lambda p: square.fringe(theta["wall"], p))
        return ts.Problem(SQUARE, ts.Equation(-_conduction(coefficient(theta)), f), [walls])

    ticks = np.linspace(0, 1, 50)
    x = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    start = {"a": np.zeros(SINES**2), "wall": np.zeros(len(FRINGE))}
    expected = {"a": square.inner, "wall": square.rim}
    cells = ts.Method(subdomains=3, features=120, coupling="interfaces")
    return problem_of, u, x, start, expected, cells, coefficient, truth


def _smooth(p: Any) -> Any:
    return 2 + jnp.sin(PI * p[:, 0]) * jnp.sin(PI * p[:, 1])


def _bubble(p: Any) -> Any:
    return (1 - p[:, 0] ** 2) * (1 - p[:, 1] ** 2)


def _corner(p: Any) -> Any:
    away = (p[:, 0] - 0.5) ** 2 + (p[:, 1] - 0.5) ** 2
    return 2 + 2 * _bubble(p) * jnp.exp(-away / 0.08)


def _two_scales(p: Any) -> Any:
    fine = jnp.sin(3 * PI * p[:, 0]) * jnp.cos(2.5 * PI * p[:, 1])
    return 2 + _bubble(p) * (0.8 + 0.4 * fine)


OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "HInv in polynomials": ({"polynomials": True}, SEEDS),
    "HInv with a bump in a corner": ({"truth": _corner}, 2),
    "HInv with two scales": ({"truth": _two_scales}, 2),
}
"""What differs, and how many seeds."""


def _hinv(
    seed: int, truth: Callable[[Any], Any] = _smooth, polynomials: bool = False
) -> tuple[Any, ...]:
    """u_t - div(a grad u) = f; a is 2 on the boundary of the square."""
    domain, square = ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 1)), Square(-1.0, 2.0, polynomials)

    def u(p: Any) -> Any:
        return jnp.exp(-p[:, 2]) * jnp.sin(PI * p[:, 0]) * jnp.sin(PI * p[:, 1])

    def f(p: Any) -> Any:
        p = jnp.asarray(p)
        along = jnp.eye(3)[:2, None] + 0 * p
        slopes = [[jax.jvp(own, (p,), (e,))[1] for e in along] for own in (truth, u)]
        return (2 * PI**2 * truth(p) - 1) * u(p) - sum(a * b for a, b in zip(*slopes, strict=True))

    def coefficient(theta: Any) -> Any:
        more = square.within(theta["a"])
        return lambda p: 2 + more(p)

    def problem_of(theta: Any) -> ts.Problem:
        before, wall = square.within(theta["start"]), partial(square.fringe, theta["wall"])
        conditions = [
            ts.Dirichlet(lambda p: wall(p) + p[:, 2] * square.fringe(theta["later"], p)),
            ts.Initial(lambda p: before(p) + wall(p)),
        ]
        heat = ts.Equation(ts.D(t=1) - _conduction(coefficient(theta)), f)
        return ts.Problem(domain, heat, conditions)

    x = domain.scatter(MEASURED, np.random.default_rng(100 + seed))
    none, start = np.zeros(len(FRINGE)), np.zeros(SINES**2)
    begun = {"a": start, "later": none, "start": start, "wall": none}
    expected = dict(zip(begun, 2 * [square.inner, square.rim], strict=True))
    cells = ts.Method(subdomains=(3, 3, 2), features=220, coupling="interfaces")
    return problem_of, u, x, begun, expected, cells, coefficient, truth


def _least() -> list[dict[str, Any]]:
    """What the noise leaves of HInv's a if it were known to be one sine, of unknown size."""
    problem_of, _, x, theta, _, cells, *_ = _hinv(0)
    one = np.eye(SINES**2)[SINES + 1]
    u = ts.parametric(problem_of, x, cells)
    numbers = np.asarray(u.numbers(theta | {"a": one, "start": one}))
    unknown = np.eye(len(numbers))[np.r_[SINES + 1, SINES**2 : len(numbers)]]
    J = u.tangents(numbers, unknown).T / NOISE
    size = float(np.sqrt(0.25 / 4.25))
    spreads = {
        "u is known on the walls and at the start": 1 / np.linalg.norm(J[:, 0]),
        "u is free there": np.sqrt(np.linalg.inv(J.T @ J)[0, 0]),
    }
    return [
        {
            "case": f"HInv with one sine, {what}",
            "parameters": count,
            "error": None,
            **dict.fromkeys(OPEN),
            "expected": float(spread * size),
            "seconds": None,
        }
        for (what, spread), count in zip(spreads.items(), (1, len(unknown)), strict=True)
    ]


def _noisy(stated: Callable[[int], tuple[Any, ...]], case: str, seed: int) -> dict[str, Any]:
    problem_of, u, x, start, expected, cells, coefficient, truth = stated(seed)
    values = np.asarray(u(x)) + NOISE * np.random.default_rng(seed).standard_normal(len(x))
    found, seconds = _timed(
        lambda: ts.identify(
            problem_of, (x, values), start, cells, noise=NOISE, regularisation=expected
        )
    )
    print("\n".join(str(found).splitlines()[-2 - len(expected) :]), flush=True)
    domain = found.u.family.first.domain
    fine = domain.scatter(20_000, np.random.default_rng(7))
    exact, exact_u = np.asarray(truth(fine)), np.asarray(u(fine))
    a, before = (np.asarray(coefficient(theta)(fine)) for theta in (found.theta, start))
    at = [i for i, name in enumerate(found.names) if name.startswith("a[")]
    slope = np.asarray(jax.jacfwd(lambda own: coefficient({"a": own})(fine))(np.zeros(len(at))))
    spread = np.sqrt(np.einsum("ni,ij,nj->n", slope, found.covariance[np.ix_(at, at)], slope))
    told = found.solution()(fine)
    return {
        "case": f"{case} seed {seed}",
        "parameters": len(found.values),
        "error": _off(np.append(told, a), np.append(exact_u, exact)),
        "error of a": _off(a, exact),
        "expected": float(np.linalg.norm(spread) / np.linalg.norm(exact)),
        "covered": float(np.mean(np.abs(a - exact) <= 1.96 * spread)),
        "before": _off(before, exact),
        "error of u": _off(told, exact_u),
        "functions": found.fields["a"].functions,
        "seconds": seconds,
    }


def _off(told: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(told) - exact) / np.linalg.norm(exact))


def _mean(rows: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = {name: float(np.mean([row[name] for row in rows])) for name in list(rows[0])[1:]}
    case = rows[0]["case"].split(" seed")[0]
    return {"case": f"{case} mean", **numbers, "parameters": rows[0]["parameters"]}


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    found = run()
    return found, time.perf_counter() - begun
