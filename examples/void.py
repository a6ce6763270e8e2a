"""Where is the hole? Its radius and its place from the potential around a plate.

Around a hole in the field x + x^2 - y^2 the potential is known. Currents enter a square around it
as they do there, and potentials on three walls tell the hole. Theta moves a boundary; derivatives
follow it, by what u is a little further.
"""

import numpy as np

import tessella as ts

TRUTH = np.array([0.2, 0.55, 0.45])  # radius and place
square = ts.Box(x=(0, 1), y=(0, 1))


def around(p):  # the potential, and its slopes along x and y
    z, r2 = p[:, 0] - TRUTH[1] + 1j * (p[:, 1] - TRUTH[2]), TRUTH[0] ** 2
    slope = 1 - r2 / z**2 + 2 * z - 2 * r2**2 / z**3
    return (z + r2 / z + z**2 + r2**2 / z**2).real, slope.real, -slope.imag


def problem_of(theta):
    radius, x, y = theta
    conditions = [
        ts.Dirichlet(lambda p: around(p)[0], on="xmin"),
        ts.Neumann(lambda p: around(p)[1], on="xmax"),
        ts.Neumann(lambda p: -around(p)[2], on="ymin"),
        ts.Neumann(lambda p: around(p)[2], on="ymax"),
        ts.Neumann(0.0, on="hole"),
    ]
    plate = square - ts.Ball(x=x, y=y, radius=radius, name="hole")
    return ts.Problem(plate, ts.Equation(ts.Laplacian()), conditions, name="plate with a hole")


s = np.linspace(0.1, 1, 9)
walls = np.concatenate([np.column_stack(own) for own in ((s**0, s), (s, 0 * s), (s, s**0))])
cells = ts.Method(coupling="interfaces", subdomains=4, features=140)
found = ts.identify(problem_of, (walls, around(walls)[0]), np.array([0.25, 0.5, 0.5]), cells)
print(found)

off = np.max(np.abs(found.values - TRUTH))
print(f"off by at most {off:.0e}")
assert off < 1e-4
