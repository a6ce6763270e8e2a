"""What lies inside? A place that conducts better, from the fluxes through two walls.

The conductivity of a plate is 1 + c exp(-|x - x_0|^2 / w^2). A source is chosen such that the
potential is x + x^2 - y^2 when c = 2, x_0 = (0.4, 0.55), w = 0.25, and so are the values on the
walls; the fluxes that are measured are then 1 + 2 x. Four numbers are found from 24 of them.
"""

import jax.numpy as jnp
import numpy as np

import tessella as ts

TRUTH = {"c": 2.0, "w": 0.25, "x": 0.4, "y": 0.55}
square = ts.Box(x=(0, 1), y=(0, 1))


def bump(theta, p):
    away = (p[:, 0] - theta["x"]) ** 2 + (p[:, 1] - theta["y"]) ** 2
    return theta["c"] * jnp.exp(-away / theta["w"] ** 2)


def source(p):  # -div(a grad u) of the potential, which is harmonic
    along = (p[:, 0] - TRUTH["x"]) * (1 + 2 * p[:, 0]) - (p[:, 1] - TRUTH["y"]) * 2 * p[:, 1]
    return 2 / TRUTH["w"] ** 2 * np.asarray(bump(TRUTH, p)) * along


def problem_of(theta):
    def a(p):
        return 1 + bump(theta, p)

    flux = ts.D(x=1) @ (a * ts.D(x=1)) + ts.D(y=1) @ (a * ts.D(y=1))
    walls = ts.Dirichlet(lambda p: p[:, 0] + p[:, 0] ** 2 - p[:, 1] ** 2)
    return ts.Problem(square, ts.Equation(-flux, source), [walls], name="inclusion")


s = np.linspace(0.05, 0.95, 12)
walls = np.concatenate([np.column_stack([np.full(12, side), s]) for side in (0.0, 1.0)])
found = ts.identify(
    problem_of,
    data=(walls, 1 + 2 * walls[:, 0]),
    start={"c": 1.0, "w": 0.3, "x": 0.5, "y": 0.5},
    of=ts.D(x=1),
    coupling="interfaces",
    subdomains=6,
    features=160,
)
print(found)

off = max(abs(found.theta[name] - value) for name, value in TRUTH.items())
print(f"off by at most {off:.0e}")
assert off < 1e-7
