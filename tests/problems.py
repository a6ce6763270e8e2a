"""Problems that several tests share: solutions in the span of few features, waves, systems."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import tessella as ts
from tessella.cells.boxes.basis import default_features
from tessella.geometry.functions import derivatives
from tessella.problem.normal_form import apply_to_function


def manufactured(problem: ts.Problem) -> ts.Problem:
    """The same operators with right-hand sides and values that the exact solution satisfies."""

    def made(operator):
        def data(points, normals=None):
            points = np.asarray(points)
            return sum(
                apply_to_function(terms, problem.exact[name], points, normals)
                for name in problem.fields
                if (terms := problem.terms(operator, name))
            )

        return data

    return dataclasses.replace(
        problem,
        equation=[dataclasses.replace(e, rhs=made(e.operator)) for e in problem.equations],
        conditions=[dataclasses.replace(c, value=made(c.operator)) for c in problem.conditions],
    )


SQUARE = ts.Activation("square", lambda s, n: [s**2, 2 * s, 2 + 0 * s, *[0 * s] * n][: n + 1])
FOURTH = ts.Activation(
    "fourth",
    lambda s, n: [s**4, 4 * s**3, 12 * s**2, 24 * s, 24 + 0 * s, *[0 * s] * n][: n + 1],
)


def wall(p):
    return p[:, 0] * (2 - p[:, 0])


def lift(p):
    return 1 + p[:, 0] ** 2


def slope(p):
    return 1 + p[:, 0] ** 2


def applied(operator, u, domain):
    """L u at points, by automatic differentiation: the right-hand side that makes u exact."""
    problem = ts.Problem(domain, ts.Equation(operator), ansatz=ts.Ansatz(0.0, u))
    return lambda p: problem.lift(operator, p)


def stated(domain, operator, u, *conditions, **keywords):
    equation = ts.Equation(operator, applied(operator, u, domain))
    return ts.Problem(domain, equation, conditions, exact=u, **keywords)


LINE, PLANE = ts.Box(x=(0, 2)), ts.Box(x=(0, 2), y=(-1, 1))
CUBE, PAST = ts.Box(x=(0, 1), y=(0, 2), z=(0, 1)), ts.Box(x=(0, 2), t=(0, 1))


def parabola(p):
    return 1 + 2 * p[:, 0] - p[:, 0] ** 2


def bowl(p):
    return p[:, 0] ** 2 - 3 * p[:, 0] * p[:, 1] + p[:, 1] + 2


def bowl3(p):
    return bowl(p) + p[:, 2] ** 2 - p[:, 0] * p[:, 2]


def quartic(p):
    return p[:, 0] ** 4 - p[:, 0] + 1


def quartic2(p):
    return p[:, 0] ** 4 - p[:, 0] * p[:, 1] ** 3 + p[:, 1] ** 2


def saddle(p):
    return p[:, 0] ** 2 - p[:, 1] ** 2 + p[:, 0]


def rows(p):
    return p[:, 1] ** 2 - p[:, 1]


U, V, P = ts.Field("u"), ts.Field("v"), ts.Field("p")
DIVERGENCE = ts.D(x=1) @ U + ts.D(y=1) @ V


def unknowns(domain, exact, *operators, walls=None):
    """A system with its unknowns' values on all walls, or on those that are given; of a pressure
    on one."""
    walls = walls or {"u": domain.faces, "v": domain.faces, "p": ("xmin",)}
    conditions = [ts.Dirichlet(of=ts.Field(name), on=tuple(walls[name])) for name in exact]
    equations = [ts.Equation(operator) for operator in operators]
    return manufactured(ts.Problem(domain, equations, conditions, exact=exact, fields=tuple(exact)))


def lifted(p):
    return lift(p) + wall(p) * bowl(p)


def slopes(u, axis, sign):
    return lambda p: sign * np.asarray(derivatives(u, [axis], p)[axis])


EXACT = {
    "first order in 1D": (
        stated(LINE, ts.D(x=1) + 1, parabola, ts.Dirichlet(parabola, on="xmin")),
        {"subdomains": 4, "features": 4},
    ),
    "variable coefficient in 1D": (
        stated(LINE, ts.D(x=1) @ (slope * ts.D(x=1)), parabola, ts.Dirichlet(parabola)),
        {"subdomains": 4, "features": 4},
    ),
    "fourth order in 1D": (
        stated(
            LINE,
            ts.D(x=4) + 1,
            quartic,
            ts.Dirichlet(quartic),
            ts.Neumann(slopes(quartic, (1,), -1.0), on="xmin"),
            ts.Neumann(slopes(quartic, (1,), 1.0), on="xmax"),
        ),
        {"subdomains": 3, "features": 6, "activation": FOURTH},
    ),
    "Dirichlet in 2D": (
        stated(PLANE, -ts.Laplacian(), bowl, ts.Dirichlet(bowl)),
        {"subdomains": (3, 2), "features": 8},
    ),
    "Neumann and Robin in 2D": (
        stated(
            PLANE,
            -ts.Laplacian() + slope * ts.D(y=1),
            bowl,
            ts.Dirichlet(bowl, on=("xmin", "ymin")),
            ts.Neumann(slopes(bowl, (1, 0), 1.0), on="xmax"),
            ts.Robin(2.0, 1.0, lambda p: 2 * bowl(p) + slopes(bowl, (0, 1), 1.0)(p), on="ymax"),
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "ansatz in 2D": (
        stated(
            PLANE,
            -ts.Laplacian(),
            lifted,
            ts.Dirichlet(lifted, on=("ymin", "ymax")),
            ansatz=ts.Ansatz(wall, lift),
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "3D": (
        stated(CUBE, -ts.Laplacian(), bowl3, ts.Dirichlet(bowl3)),
        {"subdomains": (2, 2, 1), "features": 14},
    ),
    "heat in space-time": (
        stated(
            PAST,
            ts.D(t=1) - ts.D(x=2),
            bowl,
            ts.Initial(bowl),
            ts.Dirichlet(bowl),
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "waves in space-time": (
        stated(
            PAST,
            ts.D(t=2) - 0.25 * ts.D(x=2),
            bowl,
            ts.Initial(bowl),
            ts.InitialVelocity(lambda p: 1 - 3 * p[:, 0]),
            ts.Dirichlet(bowl, weight=100.0),
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "periodic in 2D": (
        stated(
            PLANE,
            -ts.Laplacian() + 1,
            rows,
            ts.Periodic("x"),
            ts.Dirichlet(rows, on=("ymin", "ymax")),
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "wind in 2D": (
        stated(PLANE, ts.D(x=1) - 2 * ts.D(y=1), bowl, ts.Dirichlet(bowl, on=("xmin", "ymax"))),
        {"subdomains": (3, 2), "features": 8},
    ),
    "third order in space-time": (
        stated(
            PAST,
            ts.D(t=1) + ts.D(x=3),
            bowl,
            ts.Initial(bowl),
            ts.Dirichlet(bowl),
            ts.Neumann(slopes(bowl, (1, 0), 1.0), on="xmax"),
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "plate in 2D": (
        stated(
            PLANE,
            ts.Laplacian() @ ts.Laplacian(),
            quartic2,
            ts.Dirichlet(quartic2),
            *(
                ts.Neumann(slopes(quartic2, alpha, sign), on=face)
                for alpha, sign, face in (
                    ((1, 0), -1.0, "xmin"),
                    ((1, 0), 1.0, "xmax"),
                    ((0, 1), -1.0, "ymin"),
                    ((0, 1), 1.0, "ymax"),
                )
            ),
        ),
        {"subdomains": (3, 2), "features": 20, "activation": FOURTH},
    ),
    "elasticity": (
        unknowns(
            PLANE,
            {"u": bowl, "v": saddle},
            ts.Laplacian() @ U + ts.D(x=1) @ DIVERGENCE,
            ts.Laplacian() @ V + ts.D(y=1) @ DIVERGENCE,
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "flow": (
        unknowns(
            PLANE,
            {"u": bowl, "v": saddle, "p": bowl},
            -ts.Laplacian() @ U + ts.D(x=1) @ P,
            -ts.Laplacian() @ V + ts.D(y=1) @ P,
            DIVERGENCE,
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
    "sound": (
        unknowns(
            PAST,
            {"u": bowl, "p": saddle},
            ts.D(t=1) @ P + ts.D(x=1) @ U,
            ts.D(t=1) @ U + ts.D(x=1) @ P,
            walls={"u": ("xmin", "xmax", "tmin"), "p": ("tmin",)},
        ),
        {"subdomains": (3, 2), "features": 8},
    ),
}


def waves(p):
    return jnp.sin(3 * p[:, 0] + 1) * jnp.cos(2 * p[:, 1])


SMOOTH = stated(PLANE, -ts.Laplacian(), waves, ts.Dirichlet(waves), name="waves")


def on(tiling, problem, features=24, **settings):
    drawn = default_features(features, problem.domain.dimension)
    basis = ts.CellBasis(
        tiling, settings.pop("drawn", drawn), trace_degree=settings.pop("degree", None)
    )
    return ts.solve(problem, basis=basis, **{"solver": "merging", **settings})
