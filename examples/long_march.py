"""Marching in time: a wave followed over five periods in slabs, and how its error grows.

u_tt = 4 u_xx on [0, 1]: two standing waves, which are back where they began at every whole t. The
coefficients do not depend on time, so one factorisation serves all slabs. No energy is lost.
"""

from pathlib import Path

import numpy as np

import tessella as ts


def standing(p):
    x, t = np.pi * p[:, 0], 2 * np.pi * p[:, 1]
    return np.sin(x) * np.cos(t) + 0.5 * np.sin(4 * x) * np.cos(4 * t)


problem = ts.Problem(
    domain=ts.Box(x=(0, 1), t=(0, 5)),
    equation=ts.Equation(ts.D(t=2) - 4 * ts.D(x=2)),
    conditions=[ts.Dirichlet(0.0), ts.Initial(standing), ts.InitialVelocity(0.0)],
    exact=standing,
    name="standing waves",
)
# A slab is half a unit of time: half a period of the slow wave, two of the fast one.
marched = ts.march(
    problem, 10, subdomains=(2, 2), features=150, coupling="interfaces", estimate=False
)
print(marched)

Path("out").mkdir(exist_ok=True)
marched.save("out/march.npz")
again = ts.load("out/march.npz", problem)
end = np.column_stack([np.linspace(0, 1, 201), np.full(201, 5.0)])
error = np.max(np.abs(again(end) - standing(end)))
marched.animate("out/march.gif", frames=20, fps=4)
energy = marched.energy([0.0, 5.0])
slabs = marched.report.slabs
growth = slabs[-1].error["l1_normalised"] / slabs[0].error["l1_normalised"]
print(f"at t = 5: largest error {error:.1e}; it grew {growth:.1f}-fold since the first slab")

assert error < 1e-5 and growth < 30 and abs(energy[1] / energy[0] - 1) < 1e-6
assert sum(not slab.reused for slab in slabs) == 1
