"""A solution handed to other software: NumPy, xarray and ParaView.

Solves the heat equation on a square over time, and writes into out/.
"""

from pathlib import Path

import numpy as np

import tessella as ts

PI = np.pi


def exact(p: np.ndarray) -> np.ndarray:
    """A mode that decays like exp(-t / 2)."""
    x, y, t = p.T
    return np.exp(-0.5 * t) * np.sin(PI * x) * np.sin(PI * y)


def main() -> None:
    out = Path("out")
    out.mkdir(exist_ok=True)
    problem = ts.Problem(
        domain=ts.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
        equation=ts.Equation(ts.D(t=1) - 0.25 / PI**2 * ts.Laplacian()),
        conditions=[ts.Dirichlet(0.0), ts.Initial(exact)],
        exact=exact,
        name="heat",
        parameters={"kappa": 0.25 / PI**2},
    )
    solution = ts.solve(problem, subdomains=(2, 2, 1), features=300, coupling="interfaces")
    print(f"solved: relative L2 error {solution.errors()['l2_relative']:.1e}")

    # Plain arrays: the ticks of every axis, and the values on their grid.
    (x, _, _), values = solution.on_grid((21, 21, 11))
    centre = values[len(x) // 2, len(x) // 2]
    print(f"NumPy:  {values.shape} values; at the centre {centre[0]:.4f} falls to {centre[-1]:.4f}")

    # Named axes; flux is any linear operator on the solution.
    flux = {"flux_x": -0.25 / PI**2 * ts.D(x=1), "u_t": ts.D(t=1)}
    data = solution.to_xarray(21, derivatives=flux)
    wall = data["flux_x"].sel(x=0.0).integrate("y").isel(t=0)
    print(f"xarray: {', '.join(data.data_vars)}; heat through xmin at t = 0: {float(wall):+.4f}")
    print(f"        attributes {', '.join(data.attrs)}")

    # ParaView: time as a series of files, or as the third axis of one file.
    series = solution.to_vtk(out / "heat.vtu", 31, derivatives=flux, times=11)
    block = solution.to_vtk(out / "heat.vts", (31, 31, 21))
    print(f"VTK:    {series} lists 11 files; {block} has time as its third axis")

    # A part of the box: cells outside are left out.
    disc = solution.to_vtk(
        out / "disc.vtu",
        41,
        times=[1.0],
        where=lambda p: np.hypot(p[:, 0] - 0.5, p[:, 1] - 0.5) < 0.4,
    )
    print(f"        {disc} shows a disc at the end")


if __name__ == "__main__":
    main()
