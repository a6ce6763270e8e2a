"""The paper's method piece by piece: windows, random features, filter, preconditioner, LSQR.

An oscillator u'' + 4 u' + 6400 u = 0, with basis, points, filter and solver chosen by hand. The
condition numbers kappa of the matrix M, of its kept columns and of those times the preconditioner
show what the filter is for.
"""

import numpy as np

import tessella as ts

DELTA, OMEGA = 2.0, np.sqrt(6400 - 2.0**2)


def oscillation(p):
    t = p[:, 0]
    return np.exp(-DELTA * t) * (np.cos(OMEGA * t) + DELTA / OMEGA * np.sin(OMEGA * t))


line = ts.Box(t=(0, 1))
problem = ts.Problem(
    domain=line,
    equation=ts.Equation(ts.D(t=2) + 2 * DELTA * ts.D(t=1) + 6400),
    conditions=[ts.Initial(1.0), ts.InitialVelocity(0.0)],
    exact=oscillation,
)
subdomains = ts.Decomposition(line, 20, overlap=2.9)
basis = ts.Basis(subdomains, ts.RandomFeatures(16, activation="tanh"), seed=0)
reports = []
for filter in (ts.Unfiltered(), ts.RRQR(sigma=1e-8)):
    solution = ts.solve(
        problem,
        basis=basis,
        collocation=ts.Grid(oversampling=2),
        filter=filter,
        solver=ts.LSQR(max_iterations=1_000),
        condition=True,
    )
    report = solution.report
    kappa = ", ".join(f"{name} {value:.0e}" for name, value in report.condition.items() if value)
    print(f"{report.solver}: {report.columns_kept} of {report.columns} columns; kappa of {kappa}")
    print(f"  error {report.error['l1_normalised']:.1e} after {report.iterations} iterations")
    reports.append(report)

plain, filtered = reports
assert filtered.error["l1_normalised"] < 1e-4 < plain.error["l1_normalised"]
assert filtered.condition["preconditioned"] < 1e-4 * filtered.condition["M_hat"]
assert filtered.condition["M_hat"] < 1e-4 * plain.condition["M"]
