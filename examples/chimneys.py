"""Who smokes? 24 strengths of sources from the time series of 4 sensors.

A wind blows over a square and carries smoke that spreads, u_t + 4 u_x = Laplace(u) / 20 + sum of
24 chimneys s_k exp(-|x - x_k|^2 / 0.01). Four sensors tell u at 40 times, with a noise of 1e-5.
What is measured depends on the strengths linearly, so one Gauss-Newton step would do.
"""

import numpy as np

import tessella as ts

draw = np.random.default_rng(0)
ROWS, COLUMNS = np.meshgrid(np.linspace(0.15, 0.6, 6), np.linspace(0.2, 0.8, 4))
CHIMNEYS = np.column_stack([ROWS.ravel(), COLUMNS.ravel()])
domain = ts.Box(x=(0, 1), y=(0, 1), t=(0, 1))


def problem_of(strengths):
    def smoke(p):
        away = ((p[:, None, :2] - CHIMNEYS) ** 2).sum(axis=2)
        return np.exp(-away / 0.01) @ strengths

    carried = ts.D(t=1) + 4.0 * ts.D(x=1) - 0.05 * ts.Laplacian()
    calm = [ts.Initial(0.0), ts.Dirichlet(0.0, on="xmin"), ts.Neumann(0.0, on=("ymin", "ymax"))]
    out = ts.Neumann(0.0, on="xmax", name="out")
    return ts.Problem(domain, ts.Equation(carried, smoke), [*calm, out], name="chimneys")


places = np.array([[0.8, 0.2], [0.8, 0.4], [0.8, 0.6], [0.8, 0.8]])
times = np.linspace(0.02, 0.7, 40)
sensors = np.array([(x, y, t) for x, y in places for t in times])
truth = draw.uniform(0.5, 2.0, 24)
cells = ts.Method(coupling="interfaces", subdomains=(5, 4, 4), features=200)
u = ts.parametric(problem_of, sensors, cells)
measured = np.asarray(u(truth)) + 1e-5 * draw.standard_normal(len(sensors))
found = ts.identify(problem_of, (sensors, measured), np.ones(24), cells, noise=1e-5)
print(found)

missed = np.abs(found.values - truth)
inside = (found.intervals[:, 0] <= truth) & (truth <= found.intervals[:, 1])
print(f"strengths off by at most {missed.max():.2f}; {inside.sum()} of 24 within their intervals")
assert inside.sum() >= 20 and missed.max() < 0.3
