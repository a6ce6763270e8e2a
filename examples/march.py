"""A wave followed to T = 10 in twenty slabs of time, and how its error grows.

Prints the table of all slabs and draws solution and growth into out/.
"""

from pathlib import Path

import numpy as np

import tessella as ts

PI = np.pi


def exact(p: np.ndarray) -> np.ndarray:
    """Two standing waves of u_tt = 4 u_xx."""
    x, t = p[:, 0], p[:, 1]
    slow = np.sin(PI * x) * np.cos(2 * PI * t)
    return slow + 0.5 * np.sin(4 * PI * x) * np.cos(8 * PI * t)


def energy(marched: ts.Marched, t: float) -> float:
    """The integral of u_t^2 + 4 u_x^2, which the equation keeps."""
    x, weights = np.polynomial.legendre.leggauss(60)
    points = np.stack([(x + 1) / 2, np.full(60, t)], axis=1)
    speed, slope = (marched.apply(D, points) for D in (ts.D(t=1), ts.D(x=1)))
    return float(weights @ (speed**2 + 4 * slope**2) / 2)


def main() -> None:
    out = Path("out")
    out.mkdir(exist_ok=True)
    problem = ts.Problem(
        domain=ts.Box(x=(0, 1), t=(0, 10)),
        equation=ts.Equation(ts.D(t=2) - 4 * ts.D(x=2)),
        conditions=[ts.Dirichlet(0.0), ts.Initial(exact), ts.InitialVelocity(0.0)],
        exact=exact,
        name="wave",
    )
    # Each slab is 0.5 long: one period of the slow wave takes two of them, of the fast one half.
    # The coefficients do not depend on time, so that one factorisation serves all slabs.
    marched = ts.march(problem, 20, subdomains=(2, 2), features=200, coupling="interfaces")
    print(marched)

    end = problem.domain.grid((201, 1))
    end[:, 1] = 10.0
    print(f"\nat t = 10: largest error {np.max(np.abs(marched(end) - exact(end))):.1e}")
    start, later = energy(marched, 0.0), energy(marched, 10.0)
    print(
        f"energy     {start:.12g} at t = 0, changed by {abs(later - start) / start:.1e} at t = 10"
    )

    marched.plot(out / "march.png")
    marched.save(out / "march.npz")
    again = ts.load(out / "march.npz", problem)
    print(f"pictures: {out / 'march.png'}; {out / 'march.npz'} holds {again!r}")


if __name__ == "__main__":
    main()
