"""Two solutions and none: heat that makes more heat, up to the load at which it explodes.

u'' + lam e^u = 0 between walls at u = 0 (Bratu's problem). With cosh(b / 4)^2 = b^2 / (8 lam) there
are two solutions below lam = 3.5138307, where they meet, and none beyond.
"""

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import tessella as ts


def heated(lam):
    return ts.Problem(
        ts.Box(x=(0, 1)),
        ts.Equation(lambda d, x: d(x=2) + lam * jnp.exp(d())),
        [ts.Dirichlet(0.0)],
        name="Bratu",
    )


cells = {"subdomains": 4, "features": 24, "coupling": "interfaces"}
branch = ts.branch(heated, "lam", (0.5, 4.0), measure=0.5, points=20, **cells)
(fold,) = branch.singular
print(branch)
branch.plot("explosion.png")

cold, hot = (ts.solve(heated(2.0), start=start, **cells)([0.5])[0] for start in (0.0, 4.0))
roots = [
    brentq(lambda b: np.sqrt(2 * 2.0) * np.cosh(b / 4) - b, *ends) for ends in ((0, 4), (4, 20))
]
known = [2 * np.log(np.cosh(b / 4)) for b in roots]
print(f"in the middle {cold:.8f} and {hot:.8f}, by formula {known[0]:.8f} and {known[1]:.8f}")

assert abs(fold.parameter - 3.513830719) < 1e-6
assert abs(cold - known[0]) < 1e-6 and abs(hot - known[1]) < 1e-6
