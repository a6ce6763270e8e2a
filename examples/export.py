"""A solution for other software: plain arrays, xarray with named axes, and files for ParaView.

The heat equation on a square over time, with a mode that decays like exp(-t / 2).
"""

from pathlib import Path

import numpy as np

import tessella as ts

KAPPA = 0.25 / np.pi**2


def mode(p):
    x, y, t = p.T
    return np.exp(-0.5 * t) * np.sin(np.pi * x) * np.sin(np.pi * y)


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
    equation=ts.Equation(ts.D(t=1) - KAPPA * ts.Laplacian()),
    conditions=[ts.Dirichlet(0.0), ts.Initial(mode)],
    name="heat",
    parameters={"kappa": KAPPA},
)
solution = ts.solve(problem, tol=1e-3)
out = Path("out")
out.mkdir(exist_ok=True)

ticks, values = solution.on_grid((21, 21, 11))
first, last = values[10, 10, [0, -1]]
print(f"NumPy:  {values.shape} values, in the middle from {first:.4f} to {last:.4f}")

flux = {"flux_x": -KAPPA * ts.D(x=1)}  # any linear operator on the solution
data = solution.to_xarray(21, derivatives=flux)
wall = float(data["flux_x"].sel(x=0.0).integrate("y").isel(t=0))
print(f"xarray: {', '.join(data.data_vars)}; heat through xmin at first {wall:+.5f}")

series = solution.to_vtk(out / "heat.vtu", 31, derivatives=flux, times=6)  # a file for each time
block = solution.to_vtk(out / "heat.vts", (31, 31, 21))  # time as the third axis
round_part = solution.to_vtk(
    out / "disc.vtu", 41, times=[1.0], where=lambda p: np.hypot(p[:, 0] - 0.5, p[:, 1] - 0.5) < 0.4
)
print(f"VTK:    {series}, {block}, {round_part}")

assert abs(last - np.exp(-0.5)) < 1e-2
assert abs(wall + 0.5 / np.pi**2) < 1e-3
assert len(list(out.glob("heat_*.vtu"))) == 6 and block.exists()
