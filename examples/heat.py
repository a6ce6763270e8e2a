"""Heat in a rod: state a problem in space and time, solve it to a tolerance, check the balance.

A rod of length 1 is insulated at its left end and held at zero at its right end. It starts at
cos(pi x / 2), so the exact temperature is known: cos(pi x / 2) exp(-alpha pi^2 t / 4).
"""

from pathlib import Path

import numpy as np
from numpy.polynomial import legendre

import tessella as ts

ALPHA, T = 0.5, 1.0


def temperature(p):
    """The exact solution, from an (n, 2) array of points (x, t) to n values."""
    x, t = p[:, 0], p[:, 1]
    return np.cos(np.pi * x / 2) * np.exp(-ALPHA * np.pi**2 / 4 * t)


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), t=(0, T)),
    equation=ts.Equation(ts.D(t=1) - ALPHA * ts.D(x=2), 0.0),
    conditions=[
        ts.Neumann(0.0, on="xmin"),
        ts.Dirichlet(0.0, on="xmax"),
        ts.Initial(temperature),
    ],
    exact=temperature,  # only for the error in the report; the solver never looks at it
    name="heat in a rod",
)


def balance(solution):
    """Heat inside at the start minus heat inside at the end, and what left through x = 1."""
    nodes, weights = legendre.leggauss(20)
    nodes, weights = (nodes + 1) / 2, weights / 2
    start = weights @ solution(np.column_stack([nodes, np.zeros(20)]))
    end = weights @ solution(np.column_stack([nodes, np.full(20, T)]))
    wall = np.column_stack([np.ones(20), T * nodes])
    left = -ALPHA * T * weights @ solution.apply(ts.D(x=1), wall)
    return start - end, left


def main():
    solution = ts.solve(problem, tol=1e-8)
    print(solution)
    lost, left = balance(solution)
    print(f"  heat lost inside {lost:.10f}, heat through the end {left:.10f}")
    out = Path("out")
    out.mkdir(exist_ok=True)
    solution.plot(out / "heat.png")
    print(f"  picture: {out / 'heat.png'}")
    return solution, lost, left


if __name__ == "__main__":
    main()
