"""Stokes flow on a shape: walls far away hold a cylinder back.

-Laplace(u, v) + grad p = 0, div (u, v) = 0 between a shaft that moves sideways with unit speed and
a shell at rest, of radius 1/2 and 1. The drag per length is 4 pi / (log k - (k^2 - 1) / (k^2 + 1))
with k = 2 for unit viscosity; in an infinite fluid it would be zero, which is Stokes' paradox.
"""

import numpy as np

import tessella as ts

K = 2.0
u, v, p = ts.Field("u"), ts.Field("v"), ts.Field("p")
shell = ts.Ball(x=0, y=0, radius=1, name="shell")
problem = ts.Problem(
    domain=shell - ts.Ball(x=0, y=0, radius=1 / K, name="shaft"),
    equation=[
        ts.Equation(-ts.Laplacian() @ u + ts.D(x=1) @ p, name="momentum x"),
        ts.Equation(-ts.Laplacian() @ v + ts.D(y=1) @ p, name="momentum y"),
        ts.Equation(ts.D(x=1) @ u + ts.D(y=1) @ v, name="continuity"),
    ],
    conditions=[
        ts.Dirichlet(0.0, on="shell", of=u),
        ts.Dirichlet(1.0, on="shaft", of=u),
        ts.Dirichlet(0.0, of=v),
        ts.MeanZero(of=p),
    ],
    name="shaft in a shell",
)
solution = ts.solve(problem, tol=1e-4)

# The force is that of the stress on any closed curve around the shaft.
traction = ts.Normal("x") @ (2 * ts.D(x=1) @ u - p) + ts.Normal("y") @ (
    ts.D(y=1) @ u + ts.D(x=1) @ v
)
angle = 2 * np.pi * np.arange(60) / 60
normal = np.column_stack([np.cos(angle), np.sin(angle)])
force = 2 * np.pi * 0.75 * np.mean(solution.apply(traction, 0.75 * normal, normals=normal))
exactly = 4 * np.pi / (np.log(K) - (K**2 - 1) / (K**2 + 1))
print(f"drag {-force:.5f}, exactly {exactly:.5f}")

assert abs(-force / exactly - 1) < 1e-4
