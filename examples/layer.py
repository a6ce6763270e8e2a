"""Advection and diffusion: a tolerance finds the subdomains that a thin layer needs.

-eps Laplace(u) + u_x = f on the unit square, u = 0 around it. The flow carries u to the right,
where it must fall to zero within a layer of width eps. Nothing varies so fast along y.
"""

import numpy as np

import tessella as ts


def layer(eps):
    """The exact solution is X(x) sin(pi y), where -eps X'' + X' = 1."""

    def profile(x):
        return x - (np.exp((x - 1) / eps) - np.exp(-1 / eps)) / (1 - np.exp(-1 / eps))

    def exact(p):
        return profile(p[:, 0]) * np.sin(np.pi * p[:, 1])

    def source(p):
        return (1 + eps * np.pi**2 * profile(p[:, 0])) * np.sin(np.pi * p[:, 1])

    return ts.Problem(
        domain=ts.Box(x=(0, 1), y=(0, 1)),
        equation=ts.Equation(ts.D(x=1) - eps * ts.Laplacian(), source),
        conditions=[ts.Dirichlet(0.0)],
        exact=exact,
    )


print(f"{'eps':>6} {'subdomains':>10} {'estimate':>9} {'true error':>10}")
for eps in (0.1, 0.01, 1e-3):
    solution = ts.solve(layer(eps), tol=1e-4)
    across, along = solution.basis.decomposition.subdomains
    estimate, error = solution.report.error_estimate, solution.report.error["l1_normalised"]
    print(f"{eps:6g} {f'{across} x {along}':>10} {estimate:9.1e} {error:10.1e}")
    assert error < 3e-4

assert across > along
