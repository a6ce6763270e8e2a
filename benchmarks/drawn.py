"""Problems drawn at random, each with a solution that is known: made up, or waves and modes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tessella as ts
from tessella.machine.arrays import Array, namespace
from tessella.problem.normal_form import apply_to_function
from tessella.problem.operators import Operator

PI = np.pi

Random = np.random.Generator
Function = Callable[[Array], Array]


class Profile(NamedTuple):
    """A function of one variable: waves, and a peak."""

    waves: tuple[tuple[float, float, float], ...]
    peak: tuple[float, float, float]

    def __call__(self, z: Array) -> Array:
        xp = namespace(z)
        height, centre, width = self.peak
        found = height * xp.exp(-(((z - centre) / width) ** 2))
        return found + sum(a * xp.sin(k * z + b) for a, k, b in self.waves)


def profile(random: Random, period: float | None = None, low: float = 0.0) -> Profile:
    """Smooth, peaked or oscillating, on about [low, low + 1]; periodic ones have no peak."""
    kind = random.choice(
        ["smooth", "oscillating"] if period else ["smooth", "peaked", "oscillating"]
    )
    most = 12 if kind == "oscillating" else 3
    unit = 2 * PI / (period or 2 * PI / 3)
    waves = [
        (random.normal() / (1 + j), unit * random.integers(1, most + 1), random.uniform(0, 2 * PI))
        for j in range(3)
    ]
    height = random.uniform(0.5, 2) if kind == "peaked" else 0.0
    peak = (height, low + random.uniform(0.2, 0.8), 10 ** random.uniform(-1.7, -0.7))
    return Profile(tuple(waves), peak)


def planes(random: Random, d: int) -> Function:
    """A sum of two profiles along random directions."""
    parts = []
    for _ in range(2):
        n = random.normal(size=d)
        parts.append((profile(random), n / np.linalg.norm(n)))
    return lambda p: sum(f(p @ n) for f, n in parts)


def applied(operator: Operator, u: Function, axes: Sequence[str]) -> Function:
    """What an operator makes of a function."""
    terms = operator.expand(tuple(axes))
    return lambda p: apply_to_function(terms, u, np.asarray(p))


def made(
    domain: Any, operator: Operator, u: Function, conditions: Sequence[ts.Condition]
) -> ts.Problem:
    """The problem with this solution: its source is what the operator makes of it."""
    return ts.Problem(
        domain, ts.Equation(operator, applied(operator, u, domain.axes)), conditions, exact=u
    )


def start(u: Function, axes: Sequence[str], order: int) -> list[ts.Condition]:
    """Initial conditions of an equation of first or second order in time."""
    found = [ts.Initial(u)]
    return [*found, ts.InitialVelocity(applied(ts.D(t=1), u, axes))] if order == 2 else found


def square(random: Random) -> ts.Box:
    return ts.Box(x=(0, 10 ** random.uniform(-1, 1)), y=(0, 1))


def duration(random: Random) -> float:
    """Short or long."""
    return float(10 ** random.uniform(-0.7, 1.2))


def wave_modes(random: Random, most: int, rate: Callable[[float], float], end: str) -> Function:
    """Standing waves between walls at x = 0 and 1, which turn at these rates."""
    modes = [
        (random.normal() / (1 + j), random.integers(1, most + 1), random.uniform(0, 2 * PI))
        for j in range(3)
    ]

    def u(p: Array) -> Array:
        xp = namespace(p)
        shape = xp.sin if end == "fixed" else xp.cos
        x, t = p[:, 0], p[:, -1]
        return sum(a * shape(m * PI * x) * xp.cos(rate(m * PI) * t + b) for a, m, b in modes)

    return u


# --- elliptic


def poisson(random: Random) -> ts.Problem:
    u = planes(random, 2)
    return made(square(random), -ts.Laplacian(), u, [ts.Dirichlet(u)])


def smooth_coefficient(random: Random) -> ts.Problem:
    contrast, k = random.uniform(0.2, 0.9), random.uniform(1, 8)
    u = planes(random, 2)

    def a(p: Array) -> Array:
        xp = namespace(p)
        return 1 + contrast * xp.sin(k * p[:, 0]) * xp.cos(k * p[:, 1])

    operator = -(ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1)))
    return made(ts.Box(x=(0, 1), y=(0, 1)), operator, u, [ts.Dirichlet(u)])


def sharp_coefficient(random: Random) -> ts.Problem:
    high, width, at = (
        10 ** random.uniform(0, 2),
        10 ** random.uniform(-2, -1),
        random.uniform(0.3, 0.7),
    )
    u = planes(random, 2)

    def a(p: Array) -> Array:
        return 1 + high * (1 + namespace(p).tanh((p[:, 0] - at) / width))

    operator = -(ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1)))
    return made(ts.Box(x=(0, 1), y=(0, 1)), operator, u, [ts.Dirichlet(u)])


def helmholtz(random: Random) -> ts.Problem:
    k = random.uniform(3, 40)
    u = planes(random, 2)
    robin = ts.NormalDerivative() + 1.0
    walls = [ts.Dirichlet(u, on=("xmin", "ymin", "ymax"))]
    slope = applied(ts.D(x=1) + 1.0, u, ("x", "y"))
    walls.append(ts.Condition(robin, slope, on="xmax", name="robin"))
    return made(ts.Box(x=(0, 1), y=(0, 1)), ts.Laplacian() + k**2, u, walls)


def layer(random: Random) -> ts.Problem:
    """-eps u'' + u' = 1 on an interval, a boundary layer."""
    eps = 10 ** random.uniform(-4, -1)

    def u(p: Array) -> Array:
        xp = namespace(p)
        x = p[:, 0]
        rise = (xp.exp((x - 1) / eps) - math.exp(-1 / eps)) / (1 - math.exp(-1 / eps))
        return x - rise

    equation = ts.Equation(-eps * ts.D(x=2) + ts.D(x=1), 1.0)
    return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)], exact=u)


def shaped(random: Random) -> ts.Problem:
    shapes = (
        ts.Ball(radius=0.5, x=0.5, y=0.5),
        ts.Box(x=(0, 1), y=(0, 1)) - ts.Ball(radius=0.2, x=0.4, y=0.6),
        ts.Polygon([(0, 0), (1, 0), (1, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)]),
    )
    u = planes(random, 2)
    domain = shapes[random.integers(len(shapes))]
    return made(domain, -ts.Laplacian() + random.uniform(0, 10), u, [ts.Dirichlet(u)])


# --- parabolic


def heat_modes(random: Random) -> ts.Problem:
    alpha, T = 10 ** random.uniform(-3, 0), duration(random)
    modes = [(random.normal(), random.integers(1, 9)) for _ in range(3)]

    def u(p: Array) -> Array:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        return sum(a * xp.sin(m * PI * x) * xp.exp(-alpha * (m * PI) ** 2 * t) for a, m in modes)

    equation = ts.Equation(ts.D(t=1) - alpha * ts.D(x=2))
    walls = [ts.Dirichlet(0.0), ts.Initial(u)]
    return ts.Problem(ts.Box(x=(0, 1), t=(0, T)), equation, walls, exact=u)


def heat_made(random: Random) -> ts.Problem:
    """A variable coefficient, and walls that change in time."""
    u, k = planes(random, 2), random.uniform(1, 6)

    def a(p: Array) -> Array:
        return 0.2 + 0.1 * namespace(p).sin(k * p[:, 0] + p[:, 1])

    operator = ts.D(t=1) - ts.D(x=1) @ (a * ts.D(x=1))
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    return made(domain, operator, u, [ts.Dirichlet(u), ts.Initial(u)])


def carried_heat(random: Random) -> ts.Problem:
    """Advection that is stronger than diffusion."""
    u, eps = planes(random, 2), 10 ** random.uniform(-3, -1)
    operator = ts.D(t=1) + ts.D(x=1) - eps * ts.D(x=2)
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    return made(domain, operator, u, [ts.Dirichlet(u), ts.Initial(u)])


def heat_2d(random: Random) -> ts.Problem:
    alpha, T = 10 ** random.uniform(-2, 0), float(random.uniform(0.2, 2))
    m, n = random.integers(1, 4, 2)

    def u(p: Array) -> Array:
        xp = namespace(p)
        x, y, t = p[:, 0], p[:, 1], p[:, 2]
        fade = xp.exp(-alpha * (m**2 + n**2) * PI**2 * t)
        return xp.sin(m * PI * x) * xp.cos(n * PI * y) * fade

    walls = [ts.Dirichlet(0.0, on=("xmin", "xmax")), ts.Neumann(0.0, on=("ymin", "ymax"))]
    equation = ts.Equation(ts.D(t=1) - alpha * ts.Laplacian())
    domain = ts.Box(x=(0, 1), y=(0, 1), t=(0, T))
    return ts.Problem(domain, equation, [*walls, ts.Initial(u)], exact=u)


# --- hyperbolic


def string(random: Random) -> ts.Problem:
    """Standing waves between fixed or free ends."""
    c, end = random.uniform(0.3, 3), str(random.choice(["fixed", "free"]))
    u = wave_modes(random, 8, lambda k: c * k, end)
    wall = ts.Dirichlet(0.0) if end == "fixed" else ts.Neumann(0.0)
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    equation = ts.Equation(ts.D(t=2) - c**2 * ts.D(x=2))
    return ts.Problem(domain, equation, [wall, *start(u, domain.axes, 2)], exact=u)


def travelling(random: Random) -> ts.Problem:
    """Waves to both sides that enter through the walls, or around a ring."""
    c, ring = random.uniform(0.3, 3), bool(random.integers(2))
    right, left = (profile(random, 1.0 if ring else None) for _ in range(2))
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))

    def u(p: Array) -> Array:
        return right(p[:, 0] - c * p[:, 1]) + left(p[:, 0] + c * p[:, 1])

    wall = ts.Periodic("x") if ring else ts.Dirichlet(u)
    equation = ts.Equation(ts.D(t=2) - c**2 * ts.D(x=2))
    return ts.Problem(domain, equation, [wall, *start(u, domain.axes, 2)], exact=u)


def leaving(random: Random) -> ts.Problem:
    """A peak that leaves through an absorbing wall."""
    c, f = random.uniform(0.5, 2), profile(random)
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))

    def u(p: Array) -> Array:
        return f(p[:, 0] - c * p[:, 1])

    walls = [ts.Dirichlet(u, on="xmin"), ts.Absorbing(c, on="xmax")]
    equation = ts.Equation(ts.D(t=2) - c**2 * ts.D(x=2))
    return ts.Problem(domain, equation, [*walls, *start(u, domain.axes, 2)], exact=u)


def variable_speed(random: Random) -> ts.Problem:
    u, k = planes(random, 2), random.uniform(1, 8)

    def square_of_speed(p: Array) -> Array:
        return 1 + 0.7 * namespace(p).sin(k * p[:, 0])

    operator = ts.D(t=2) - ts.D(x=1) @ (square_of_speed * ts.D(x=1))
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    return made(domain, operator, u, [ts.Dirichlet(u), *start(u, domain.axes, 2)])


def burst(random: Random) -> ts.Problem:
    """A source that is on for a while in the middle of time."""
    T, m = duration(random), random.integers(1, 7)
    at, width = T * random.uniform(0.3, 0.7), T * 10 ** random.uniform(-1.5, -0.7)

    def u(p: Array) -> Array:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        calm = xp.sin(PI * x) * xp.cos(PI * t)
        return calm + xp.exp(-(((t - at) / width) ** 2)) * xp.sin(m * PI * x)

    domain = ts.Box(x=(0, 1), t=(0, T))
    walls = [ts.Dirichlet(0.0), *start(u, domain.axes, 2)]
    return made(domain, ts.D(t=2) - ts.D(x=2), u, walls)


def damped(random: Random) -> ts.Problem:
    c, gamma, m = random.uniform(0.5, 3), 10 ** random.uniform(-1, 0.3), random.integers(1, 7)
    omega = math.sqrt((c * m * PI) ** 2 - gamma**2) if c * m * PI > gamma else 0.0

    def u(p: Array) -> Array:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        return xp.exp(-gamma * t) * xp.sin(m * PI * x) * xp.cos(omega * t)

    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    equation = ts.Equation(ts.D(t=2) + 2 * gamma * ts.D(t=1) - c**2 * ts.D(x=2))
    return ts.Problem(domain, equation, [ts.Dirichlet(0.0), *start(u, domain.axes, 2)], exact=u)


def klein_gordon(random: Random) -> ts.Problem:
    mass = random.uniform(0, 20)
    u = wave_modes(random, 6, lambda k: math.sqrt(k**2 + mass**2), "fixed")
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    equation = ts.Equation(ts.D(t=2) - ts.D(x=2) + mass**2)
    return ts.Problem(domain, equation, [ts.Dirichlet(0.0), *start(u, domain.axes, 2)], exact=u)


def advection(random: Random) -> ts.Problem:
    """Around a ring, or in through a wall and out through the other."""
    c, ring = random.uniform(0.3, 3), bool(random.integers(2))
    f, growth = profile(random, 1.0 if ring else None), random.choice([0.0, -1.0, 0.5])
    domain = ts.Box(x=(0, 1), t=(0, duration(random)))

    def u(p: Array) -> Array:
        xp = namespace(p)
        return xp.exp(growth * p[:, 1]) * f(p[:, 0] - c * p[:, 1])

    wall = ts.Periodic("x") if ring else ts.Dirichlet(u, on="xmin")
    equation = ts.Equation(ts.D(t=1) + c * ts.D(x=1) - growth)
    return ts.Problem(domain, equation, [wall, ts.Initial(u)], exact=u)


def entering(random: Random) -> ts.Problem:
    """A pulse that enters late and leaves before the end."""
    T, width = float(random.uniform(3, 8)), 10 ** random.uniform(-2, -0.7)
    late, calm = T * random.uniform(0.3, 0.5), profile(random)._replace(peak=(0.0, 0.0, 1.0))

    def u(p: Array) -> Array:
        z = p[:, 0] - p[:, 1]
        return calm(z / 3) + namespace(p).exp(-(((z + late) / width) ** 2))

    walls = [ts.Dirichlet(u, on="xmin"), ts.Initial(u)]
    equation = ts.Equation(ts.D(t=1) + ts.D(x=1))
    return ts.Problem(ts.Box(x=(0, 1), t=(0, T)), equation, walls, exact=u)


def advection_variable(random: Random) -> ts.Problem:
    u, k = planes(random, 2), random.uniform(1, 8)

    def speed(p: Array) -> Array:
        return 1 + 0.6 * namespace(p).sin(k * p[:, 0] + p[:, 1])

    domain = ts.Box(x=(0, 1), t=(0, duration(random)))
    walls = [ts.Dirichlet(u, on="xmin"), ts.Initial(u)]
    return made(domain, ts.D(t=1) + speed * ts.D(x=1), u, walls)


def membrane(random: Random) -> ts.Problem:
    m, n = (int(k) for k in random.integers(1, 4, 2))
    omega = math.hypot(m, n) * PI

    def u(p: Array) -> Array:
        xp = namespace(p)
        x, y, t = p[:, 0], p[:, 1], p[:, 2]
        return xp.sin(m * PI * x) * xp.sin(n * PI * y) * xp.cos(omega * t)

    domain = ts.Box(x=(0, 1), y=(0, 1), t=(0, float(random.uniform(0.3, 3))))
    equation = ts.Equation(ts.D(t=2) - ts.Laplacian())
    return ts.Problem(domain, equation, [ts.Dirichlet(0.0), *start(u, domain.axes, 2)], exact=u)


def advection_2d(random: Random) -> ts.Problem:
    a, b = random.uniform(-1, 1, 2)
    f, g = profile(random, 1.0), profile(random, 1.0)

    def u(p: Array) -> Array:
        return f(p[:, 0] - a * p[:, 2]) * g(p[:, 1] - b * p[:, 2])

    domain = ts.Box(x=(0, 1), y=(0, 1), t=(0, float(random.uniform(0.3, 3))))
    equation = ts.Equation(ts.D(t=1) + a * ts.D(x=1) + b * ts.D(y=1))
    walls = [ts.Periodic("x"), ts.Periodic("y"), ts.Initial(u)]
    return ts.Problem(domain, equation, walls, exact=u)


def dispersive(random: Random) -> ts.Problem:
    """u_t = -a u_xxx around a ring, or a beam u_tt = -a^2 u_xxxx between hinges."""
    a, m = 10 ** random.uniform(-3, -1), int(random.integers(1, 4))
    k, beam = m * 2 * PI, bool(random.integers(2))
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.3, 3))))

    def u(p: Array) -> Array:
        xp = namespace(p)
        x, t = p[:, 0], p[:, 1]
        return xp.sin(k * x) * xp.cos(a * k**2 * t) if beam else xp.sin(k * x + a * k**3 * t)

    if beam:
        hinges = [ts.Dirichlet(0.0), ts.Condition(ts.D(x=2), 0.0, name="moment")]
        equation = ts.Equation(ts.D(t=2) + a**2 * ts.D(x=4))
        return ts.Problem(domain, equation, [*hinges, *start(u, domain.axes, 2)], exact=u)
    equation = ts.Equation(ts.D(t=1) + a * ts.D(x=3))
    return ts.Problem(domain, equation, [ts.Periodic("x"), ts.Initial(u)], exact=u)


# --- systems


def acoustics(random: Random) -> ts.Problem:
    """p_t + v_x = 0, v_t + c^2 p_x = 0 around a ring."""
    c, f, g = random.uniform(0.3, 3), profile(random, 1.0), profile(random, 1.0)
    p, v = ts.Field("p"), ts.Field("v")

    def pressure(z: Array) -> Array:
        return f(z[:, 0] - c * z[:, 1]) + g(z[:, 0] + c * z[:, 1])

    def velocity(z: Array) -> Array:
        return c * (f(z[:, 0] - c * z[:, 1]) - g(z[:, 0] + c * z[:, 1]))

    equations = [
        ts.Equation(ts.D(t=1) @ p + ts.D(x=1) @ v),
        ts.Equation(ts.D(t=1) @ v + c**2 * ts.D(x=1) @ p),
    ]
    walls = [ts.Periodic("x"), ts.Initial(pressure, of=p), ts.Initial(velocity, of=v)]
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.3, 3))))
    return ts.Problem(domain, equations, walls, exact={"p": pressure, "v": velocity})


def mixed_poisson(random: Random) -> ts.Problem:
    """q = -u', q' + u = f on an interval."""
    f = profile(random)
    u, q = ts.Field("u"), ts.Field("q")

    def exact(p: Array) -> Array:
        return f(p[:, 0])

    flux, source = applied(-ts.D(x=1), exact, "x"), applied(-ts.D(x=2) + 1.0, exact, "x")
    equations = [ts.Equation(1.0 * q + ts.D(x=1) @ u), ts.Equation(ts.D(x=1) @ q + 1.0 * u, source)]
    walls = [ts.Dirichlet(exact, of=u)]
    return ts.Problem(ts.Box(x=(0, 1)), equations, walls, exact={"u": exact, "q": flux})


def schroedinger(random: Random) -> ts.Problem:
    """i psi_t = -psi_xx between walls: real and imaginary part."""
    modes = [(random.normal(), int(random.integers(1, 4))) for _ in range(2)]
    u, v = ts.Field("u"), ts.Field("v")

    def part(shift: float) -> Function:
        def value(p: Array) -> Array:
            xp = namespace(p)
            x, t = p[:, 0], p[:, 1]
            return sum(a * xp.sin(m * PI * x) * xp.cos((m * PI) ** 2 * t + shift) for a, m in modes)

        return value

    exact = {"u": part(0.0), "v": part(PI / 2)}
    equations = [
        ts.Equation(ts.D(t=1) @ u + ts.D(x=2) @ v),
        ts.Equation(ts.D(t=1) @ v - ts.D(x=2) @ u),
    ]
    walls = [ts.Dirichlet(0.0, of=w) for w in (u, v)]
    begin = [ts.Initial(exact["u"], of=u), ts.Initial(exact["v"], of=v)]
    domain = ts.Box(x=(0, 1), t=(0, float(random.uniform(0.1, 1))))
    return ts.Problem(domain, equations, [*walls, *begin], exact=exact)


CLASSES: dict[str, tuple[Callable[[Random], ts.Problem], ...]] = {
    "elliptic": (poisson, smooth_coefficient, sharp_coefficient, helmholtz, layer, shaped),
    "parabolic": (heat_modes, heat_made, carried_heat, heat_2d),
    "hyperbolic": (
        *(string, travelling, leaving, variable_speed, burst, damped, klein_gordon),
        *(advection, entering, advection_variable, membrane, advection_2d, dispersive),
    ),
    "system": (acoustics, mixed_poisson, schroedinger),
}
