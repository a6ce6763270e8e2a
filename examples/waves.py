"""A plucked string: space and time in one solve, and a check that needs no exact solution.

u_tt = c^2 u_xx on [0, 1] x [0, T], fixed at both ends, released at rest with a bump in the middle.
Until the bump meets the ends d'Alembert's formula is exact: two halves that travel apart.
The energy, the integral of (u_t^2 + c^2 u_x^2) / 2, must stay what it was.
"""

from pathlib import Path

import numpy as np
from numpy.polynomial import legendre

import tessella as ts

C, T, WIDTH = 1.0, 0.25, 0.06


def bump(x):
    return np.exp(-(((x - 0.5) / WIDTH) ** 2))


def travelling(p):
    """d'Alembert: half the bump to the left, half to the right."""
    x, t = p[:, 0], p[:, 1]
    return (bump(x - C * t) + bump(x + C * t)) / 2


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), t=(0, T)),
    equation=ts.Equation(ts.D(t=2) - C**2 * ts.D(x=2), 0.0),
    conditions=[
        ts.Dirichlet(travelling),  # below 1e-7 until t = 0.25
        ts.Initial(travelling),
        ts.InitialVelocity(0.0),
    ],
    exact=travelling,
    name="plucked string",
)


def energy(solution, t):
    nodes, weights = legendre.leggauss(200)
    p = np.column_stack([(nodes + 1) / 2, np.full(200, t)])
    velocity, slope = solution.apply(ts.D(t=1), p), solution.apply(ts.D(x=1), p)
    return float(weights / 4 @ (velocity**2 + C**2 * slope**2))


def main(tol=1e-6):
    solution = ts.solve(problem, tol=tol)
    print(solution)
    energies = [energy(solution, t) for t in np.linspace(0, T, 5)]
    drift = max(abs(e / energies[0] - 1) for e in energies)
    print(f"  energy {energies[0]:.8f}, largest relative drift {drift:.1e}")
    out = Path("out")
    out.mkdir(exist_ok=True)
    solution.plot(out / "waves.png")
    print(f"  picture: {out / 'waves.png'}")
    return solution, drift


if __name__ == "__main__":
    main()
