"""Where was it? The place and the strength of a source from twelve thermometers.

Heat enters a disc around an unknown place, -Laplace(u) = s exp(-|x - x_0|^2 / 0.02), and leaves
through its rim. Noise of 1e-4 at twelve thermometers on a ring leaves intervals, and the truth lies
in them; the gradient of the misfit by JAX vanishes at what was found.
"""

import jax
import jax.numpy as jnp
import numpy as np

import tessella as ts

disc = ts.Ball(x=0, y=0, radius=1)


def problem_of(theta):
    def source(p):
        away = (p[:, 0] - theta["x"]) ** 2 + (p[:, 1] - theta["y"]) ** 2
        return theta["strength"] * jnp.exp(-away / 0.02)

    return ts.Problem(disc, ts.Equation(-ts.Laplacian(), source), [ts.Dirichlet(0.0)])


angles = 2 * np.pi * np.arange(12) / 12
ring = 0.8 * np.column_stack([np.cos(angles), np.sin(angles)])
truth = {"strength": 40.0, "x": 0.3, "y": -0.2}
cells = ts.Method(coupling="interfaces", subdomains=6, features=120)
u = ts.parametric(problem_of, ring, cells)
noise = 1e-4 * np.random.default_rng(0).standard_normal(12)
data = np.asarray(u(truth)) + noise
start = {"strength": 20.0, "x": 0.0, "y": 0.0}
found = ts.identify(problem_of, (ring, data), start, cells, noise=1e-4)
print(found)

slope = jax.grad(lambda theta: jnp.sum((u(theta) - data) ** 2))
level, there = slope(start), slope(found.theta)
right = np.array([truth[name] for name in found.names])
print(f"off by {np.max(np.abs(found.values - right)):.0e}")
assert all(abs(there[name]) < 1e-4 * abs(level[name]) for name in ("x", "y"))
assert np.all(np.abs(found.values - right) < 3 * (found.intervals[:, 1] - found.values))
