"""Fourth order: a clamped square plate under uniform load, as engineers' handbooks tabulate it.

Laplace^2 w = 1 on the unit square, w = dw/dn = 0 around it. The deflection in the middle is
0.001265319087 (Taylor and Govindjee 2004), the moment in the middle of an edge 0.0513338.
"""

from pathlib import Path

import tessella as ts

DEFLECTION, MOMENT = 0.001265319087, 0.0513338

problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=ts.Equation(ts.Laplacian() @ ts.Laplacian(), 1.0),
    conditions=[ts.Dirichlet(0.0), ts.Neumann(0.0)],
    name="clamped plate",
)
solution = ts.solve(problem, tol=1e-5)

deflection = solution([(0.5, 0.5)])[0]
moment = solution.apply(ts.D(x=2) + 0.3 * ts.D(y=2), [(0.0, 0.5)])[0]  # Poisson's ratio 0.3
print(f"deflection {deflection:.10f}, handbook {DEFLECTION:.10f}")
print(f"moment at an edge {moment:.7f}, handbook {MOMENT:.7f}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/plate.png")
assert abs(deflection / DEFLECTION - 1) < 1e-5
assert abs(moment / MOMENT - 1) < 1e-4
