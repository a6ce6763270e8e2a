"""Two materials: a uniform field is weaker inside a disc that conducts better.

div(k grad u) = 0 with k = 10 in a disc and 1 around it. Temperature and flux pass through the
interface, the slope jumps; inside the field is uniform, 2 / (1 + k) of the one far away.
"""

from pathlib import Path

import numpy as np

import tessella as ts

K, RADIUS = 10.0, 0.5


def far_field(p):
    """u = x, bent by the disc's dipole."""
    return p[:, 0] * (1 - (K - 1) / (K + 1) * RADIUS**2 / (p[:, 0] ** 2 + p[:, 1] ** 2))


disc = ts.Ball(x=0, y=0, radius=RADIUS)
problem = ts.Problem(
    domain=ts.Divided(ts.Box(x=(-1, 1), y=(-1, 1)), disc=disc),  # what is left is the "rest"
    equation=[
        ts.Equation(K * ts.Laplacian(), where="disc"),
        ts.Equation(ts.Laplacian(), where="rest"),
    ],
    conditions=[ts.Dirichlet(far_field), *ts.Transmission("disc", "rest", flux=(K, 1.0))],
    name="disc of another material",
)
solution = ts.solve(problem, tol=1e-6)

inside = solution.apply(ts.D(x=1), [(0.0, 0.0), (0.3, 0.2), (-0.1, -0.4)])
edge = np.array([[RADIUS, 0.0]])
slopes = [solution[part].apply(ts.D(x=1), edge)[0] for part in ("disc", "rest")]
print(f"field inside {inside}, exactly {2 / (1 + K):.9f}")
print(f"slopes at the interface {slopes[0]:.7f} inside, {slopes[1]:.7f} outside")

Path("out").mkdir(exist_ok=True)
solution.plot("out/two_materials.png")
assert np.allclose(inside, 2 / (1 + K), atol=1e-5)
assert abs(slopes[1] / slopes[0] - K) < 1e-3
