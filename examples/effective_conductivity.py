"""A coefficient that varies 55-fold: the flux through a symmetric composite is exactly one.

div(a grad u) = 0 with a = exp(2 cos(2 pi x) cos(2 pi y)), u = 0 on the left and 1 on the right,
insulated above and below. Moved by half a period a becomes 1 / a; turned by 90 degrees it stays as
it is. By Keller's duality (1964) such a material conducts as if a were 1 everywhere.
"""

import jax.numpy as jnp
import numpy as np

import tessella as ts


def a(p):  # differentiated by the equation, therefore written with jax.numpy
    return jnp.exp(2 * jnp.cos(2 * np.pi * p[:, 0]) * jnp.cos(2 * np.pi * p[:, 1]))


flux = {axis: a * ts.D(**{axis: 1}) for axis in "xy"}
problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(ts.D(x=1) @ flux["x"] + ts.D(y=1) @ flux["y"]),
    conditions=[
        ts.Dirichlet(0.0, on="xmin"),
        ts.Dirichlet(1.0, on="xmax"),
        ts.Neumann(0.0, on=("ymin", "ymax")),
    ],
    name="composite",
)
solution = ts.solve(problem, tol=1e-7)

# The same through every cross-section, so its integral over the square is the total flux too.
total = solution.integral(flux["x"])
y = np.linspace(0, 1, 200, endpoint=False) + 1 / 400
inlet = np.mean(solution.apply(flux["x"], np.column_stack([np.zeros(200), y])))
print(f"total flux {total:.9f}, at the inlet {inlet:.9f}; by duality 1")
print(f"estimated error {solution.report.error_estimate:.1e}")

assert abs(total - 1) < 1e-6 and abs(inlet - 1) < 1e-5
