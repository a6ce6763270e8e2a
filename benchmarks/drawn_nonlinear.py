"""Nonlinear problems drawn at random, each with the only solution it has.

Steady ones are monotone, so that no other solution could be found; those in time are unique anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import tessella as ts
from benchmarks.drawn import PI, Function, Profile, Random, planes, profile, square, start
from tessella.geometry.functions import derivatives
from tessella.machine.arrays import Array
from tessella.problem.operator_function import Formula, Given, OperatorFunction


@dataclass(frozen=True)
class Source:
    """What a function of the derivatives makes of u."""

    formula: Formula
    u: Function
    axes: tuple[str, ...]

    def __call__(self, p: Array) -> Array:
        terms = OperatorFunction(self.formula).expand(self.axes)
        found = derivatives(self.u, [term.orders for term in terms], np.asarray(p))
        values = {(None, alpha): found[alpha] for alpha in found}
        return np.asarray(self.formula(Given(self.axes, "source", values), np.asarray(p)))


def made(
    domain: Any, formula: Formula, u: Function, conditions: Sequence[ts.Condition]
) -> ts.Problem:
    """The problem with this solution."""
    source = Source(formula, u, domain.axes)
    return ts.Problem(domain, ts.Equation(formula, source), conditions, exact=u)


def line(random: Random) -> Function:
    own = profile(random)
    return lambda p: own(p[:, 0])


def carried(random: Random) -> Function:
    """A profile that moves."""
    own, speed = profile(random), random.normal()
    return lambda p: own(p[:, 0] - speed * p[:, -1])


def moving_period(random: Random) -> Function:
    """A smooth profile of period 1 that moves; for equations of higher order."""
    waves = tuple(
        (random.normal() / (1 + j), 2 * PI * random.integers(1, 3), random.uniform(0, 2 * PI))
        for j in range(2)
    )
    own, speed = Profile(waves, (0.0, 0.5, 1.0)), random.normal()
    return lambda p: own(p[:, 0] - speed * p[:, -1])


# --- steady


def cubic(random: Random) -> ts.Problem:
    u, a = planes(random, 2), float(10 ** random.uniform(-1, 2))

    def formula(d: Any, x: Array) -> Array:
        return -d(x=2) - d(y=2) + a * d() ** 3

    return made(square(random), formula, u, [ts.Dirichlet(u)])


def exponential(random: Random) -> ts.Problem:
    u, a = line(random), float(10 ** random.uniform(-1, 1))

    def formula(d: Any, x: Array) -> Array:
        return -d(x=2) + a * jnp.exp(d())

    return made(ts.Box(x=(0, 1)), formula, u, [ts.Dirichlet(u)])


def quasilinear(random: Random) -> ts.Problem:
    """-div(k(u) grad u) with k = 1 + a u^2: monotone in the integral of k."""
    u, a = planes(random, 2), float(random.uniform(0.1, 2))

    def formula(d: Any, x: Array) -> Array:
        steep = d(x=1) ** 2 + d(y=1) ** 2
        return -(1 + a * d() ** 2) * (d(x=2) + d(y=2)) - 2 * a * d() * steep

    return made(square(random), formula, u, [ts.Dirichlet(u)])


def minimal_surface(random: Random) -> ts.Problem:
    u = planes(random, 2)

    def formula(d: Any, x: Array) -> Array:
        p, q = d(x=1), d(y=1)
        return -(1 + q**2) * d(x=2) + 2 * p * q * d(x=1, y=1) - (1 + p**2) * d(y=2) + d()

    return made(ts.Box(x=(0, 1), y=(0, 1)), formula, lambda p: 0.3 * u(p), [
        ts.Dirichlet(lambda p: 0.3 * u(p))
    ])  # fmt: skip


def on_a_disc(random: Random) -> ts.Problem:
    u = planes(random, 2)

    def formula(d: Any, x: Array) -> Array:
        return -d(x=2) - d(y=2) + jnp.sinh(d())

    return made(ts.Ball(radius=0.5, x=0.5, y=0.5), formula, u, [ts.Dirichlet(u)])


def radiating(random: Random) -> ts.Problem:
    """A line that radiates at its end: u' + b u |u| there."""
    u, b = line(random), float(random.uniform(0.5, 3))
    axes = ("x",)

    def end(d: Any, x: Array) -> Array:
        return d(x=1) + b * d() * jnp.abs(d())

    problem = made(ts.Box(x=(0, 1)), lambda d, x: -d(x=2) + d() ** 3, u, [
        ts.Dirichlet(u, on="xmin"), ts.Condition(end, Source(end, u, axes), on="xmax")
    ])  # fmt: skip
    return problem


# --- in time


def burgers(random: Random) -> ts.Problem:
    u, nu = carried(random), float(10 ** random.uniform(-2.5, -0.5))
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.2, 1))))

    def formula(d: Any, x: Array) -> Array:
        return d(t=1) + d() * d(x=1) - nu * d(x=2)

    return made(domain, formula, u, [ts.Dirichlet(u), ts.Initial(u)])


def reaction(random: Random) -> ts.Problem:
    u, nu = carried(random), float(10 ** random.uniform(-3, -1))
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.2, 2))))

    def formula(d: Any, x: Array) -> Array:
        return d(t=1) - nu * d(x=2) - d() + d() ** 3

    return made(domain, formula, u, [ts.Dirichlet(u), ts.Initial(u)])


def korteweg_de_vries(random: Random) -> ts.Problem:
    u = moving_period(random)
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.2, 1))))

    def formula(d: Any, x: Array) -> Array:
        return d(t=1) + d() * d(x=1) + 1e-3 * d(x=3)

    return made(domain, formula, u, [ts.Periodic("x"), ts.Initial(u)])


def sine_gordon(random: Random) -> ts.Problem:
    u = carried(random)
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.2, 1))))

    def formula(d: Any, x: Array) -> Array:
        return d(t=2) - d(x=2) + 4 * jnp.sin(d())

    return made(domain, formula, u, [ts.Dirichlet(u), *start(u, domain.axes, 2)])


def reaction_2d(random: Random) -> ts.Problem:
    waves = [(random.normal(), *random.integers(1, 3, 2), random.uniform(0, 3)) for _ in range(2)]

    def u(p: Any) -> Any:
        each = (
            a * jnp.sin(m * PI * p[:, 0]) * jnp.cos(n * PI * p[:, 1]) * jnp.exp(-r * p[:, 2])
            for a, m, n, r in waves
        )
        return sum(each)

    domain = ts.Box(x=(0, 1), y=(0, 1), t=(0, float(random.uniform(0.1, 0.5))))

    def formula(d: Any, x: Array) -> Array:
        return d(t=1) - 0.1 * (d(x=2) + d(y=2)) + d() ** 3

    return made(domain, formula, u, [ts.Dirichlet(u), ts.Initial(u)])


NONLINEAR: dict[str, tuple[Callable[[Random], ts.Problem], ...]] = {
    "steady": (cubic, exponential, quasilinear, minimal_surface, on_a_disc, radiating),
    "in time": (burgers, reaction, korteweg_de_vries, sine_gordon, reaction_2d),
}
