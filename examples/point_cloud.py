"""A domain known by points only: electrostatics inside a measured outline.

All there is are points inside, points on the outline and its normals there, as a scanner or a mesh
delivers them. Laplace(u) = 0 with the potential of a charge outside on the outline.
"""

import numpy as np

import tessella as ts

rng = np.random.default_rng(1)
angle = np.linspace(0, 2 * np.pi, 240, endpoint=False)
outline = np.column_stack([1.2 * np.cos(angle), 0.8 * np.sin(angle)])
normals = np.column_stack([0.8 * np.cos(angle), 1.2 * np.sin(angle)])
normals /= np.linalg.norm(normals, axis=1)[:, None]
scattered = rng.uniform(-1.2, 1.2, (5000, 2))
inside = scattered[(scattered[:, 0] / 1.2) ** 2 + (scattered[:, 1] / 0.8) ** 2 < 0.98]


def charge(p):
    return np.log(np.hypot(p[:, 0] - 1.5, p[:, 1] - 0.6))


problem = ts.Problem(
    domain=ts.PointCloud(inside, outline, normals),
    equation=ts.Equation(ts.Laplacian()),
    conditions=[ts.Dirichlet(charge)],
    exact=charge,
    name="cloud",
)
solution = ts.solve(problem, subdomains=3, features=60)
error = np.max(np.abs(solution(inside) - charge(inside)))
field = solution.apply(ts.D(x=1), [(0.0, 0.0)])[0]
exactly = -1.5 / (1.5**2 + 0.6**2)
print(f"{len(inside)} points inside: largest error {error:.1e}")
print(f"field in the middle {field:.6f}, exactly {exactly:.6f}")

assert error < 1e-4 and abs(field - exactly) < 1e-3
