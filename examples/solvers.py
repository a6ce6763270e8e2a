"""Choosing filter and solver: three ways to solve one least-squares problem, and two filters.

Airy's equation u'' = x u, with waves that shorten to the left and decay to the right. A direct
solver and two iterations end at the same solution; a coarser filter keeps fewer columns, which
makes iterations shorter and the solution worse.
"""

import numpy as np
from scipy.special import airy

import tessella as ts


def ai(p):
    return airy(p[:, 0])[0]


def position(p):
    return p[:, 0]


problem = ts.Problem(
    domain=ts.Box(x=(-15, 5)),
    equation=ts.Equation(ts.D(x=2) - position * ts.Identity()),
    conditions=[ts.Dirichlet(ai)],
    exact=ai,
)
choices = {
    "direct, by nested dissection": (ts.RRQR(1e-8), ts.NestedQR()),
    "LSQR, as in the paper": (ts.RRQR(1e-8), ts.LSQR()),
    "CG with additive Schwarz": (ts.RRQR(1e-8), ts.SchwarzCG()),
    "LSQR, a coarser filter": (ts.RRQR(1e-4), ts.LSQR()),
}
solutions = {}
for name, (filter, solver) in choices.items():
    solution = ts.solve(problem, subdomains=16, features=12, filter=filter, solver=solver)
    report, solutions[name] = solution.report, solution
    error = report.error["l1_normalised"]
    print(
        f"{name:<28} {report.columns_kept} columns, {report.iterations:4} steps, error {error:.1e}"
    )

x = np.linspace(-15, 5, 300)
direct, lsqr, schwarz, coarse = (solution(x) for solution in solutions.values())
fine_error, coarse_error = (np.max(np.abs(u - airy(x)[0])) for u in (direct, coarse))
assert np.allclose(lsqr, direct, atol=1e-6) and np.allclose(schwarz, direct, atol=1e-6)
assert fine_error < 1e-5 and coarse_error > 10 * fine_error
