"""A boundary layer: how a tolerance finds the subdomains that a thin layer needs.

-eps Laplace(u) + u_x = f on the unit square with u = 0 around it. The flow carries u to the right,
where it must fall to zero within a layer of width eps. Nothing varies so fast along y, and the
refinement notices: it divides the x axis more finely. Thin layers show in the operator itself, and
the subdomains are halved towards them: a layer ten times thinner needs three more.
"""

from pathlib import Path

import numpy as np

import tessella as ts


def layer(eps):
    """The problem with its exact solution X(x) sin(pi y), where -eps X'' + X' = 1."""

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
        name=f"layer of width {eps:g}",
    )


def main(widths=(0.1, 0.01, 1e-3, 1e-4), tol=1e-5):
    print(f"{'eps':>6} {'subdomains':>12} {'features':>9} {'estimate':>9} {'true error':>10}")
    reports = []
    for eps in widths:
        solution = ts.solve(layer(eps), tol=tol)
        report = solution.report
        shape = " x ".join(str(S) for S in solution.basis.decomposition.subdomains)
        features = solution.basis.features.count
        true = report.error["l1_normalised"]
        print(f"{eps:6g} {shape:>12} {features:9} {report.error_estimate:9.1e} {true:10.1e}")
        reports.append(report)

    out = Path("out")
    out.mkdir(exist_ok=True)
    solution.plot(out / "layer.png")
    print(f"picture of the last: {out / 'layer.png'}")
    return reports


if __name__ == "__main__":
    main()
