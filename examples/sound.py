"""Complex Helmholtz with walls that absorb: the sound field of a loudspeaker outside the room.

Laplace(u) + k^2 u = 0 on the unit square with impedance walls, du/dn - i k u = g; real and
imaginary part are two unknowns. The field is Hankel's outgoing wave H_0(k r) around a source at
(-0.2, 0.4).
"""

from pathlib import Path

import numpy as np
from scipy.special import hankel1

import tessella as ts

K, SOURCE = 20.0, np.array([-0.2, 0.4])
a, b = ts.Field("a"), ts.Field("b")  # u = a + i b


def field(p):
    return hankel1(0, K * np.linalg.norm(p - SOURCE, axis=1))


def impedance(wall, normal):
    """du/dn - i k u on a wall, as two real conditions."""

    def g(p):
        r = np.linalg.norm(p - SOURCE, axis=1)
        return -K * hankel1(1, K * r) * ((p - SOURCE) @ normal) / r - 1j * K * field(p)

    slope = ts.NormalDerivative()
    yield ts.Condition(slope @ a + K * b, lambda p: g(p).real, wall, name=f"{wall}, real")
    yield ts.Condition(slope @ b - K * a, lambda p: g(p).imag, wall, name=f"{wall}, imaginary")


walls = {"xmin": (-1, 0), "xmax": (1, 0), "ymin": (0, -1), "ymax": (0, 1)}
problem = ts.Problem(
    domain=ts.Box(x=(0, 1), y=(0, 1)),
    equation=[ts.Equation((ts.Laplacian() + K**2) @ part) for part in (a, b)],
    conditions=[c for wall, normal in walls.items() for c in impedance(wall, np.array(normal))],
    name="sound",
)
solution = ts.solve(problem, tol=1e-5)
points = np.random.default_rng(0).random((500, 2))
real, imaginary = solution(points).T
error = np.max(np.abs(real + 1j * imaginary - field(points)))
print(f"largest error at 500 points {error:.1e} of {np.max(np.abs(field(points))):.2f}")

Path("out").mkdir(exist_ok=True)
solution.plot("out/sound.png")
assert error < 1e-4
