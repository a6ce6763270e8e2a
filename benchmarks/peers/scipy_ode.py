"""SciPy's DOP853 on the oscillator."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Case, Oscillator

TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)


def sizes(name: str, case: Case) -> list[Settings]:
    if not isinstance(case, Oscillator):
        raise NotApplicableError("solves ordinary differential equations only")
    return [{"rtol": tol} for tol in TOLERANCES]


def solve(case: Oscillator, rtol: float) -> Answer:
    stiffness = case.omega0**2

    def right_side(t: float, state: np.ndarray) -> list[float]:
        u, v = state
        return [v, -case.mu * v - stiffness * u]

    scale = np.array([rtol, rtol * case.omega0])
    found = solve_ivp(
        right_side, (0, 1), [1.0, 0.0], "DOP853", dense_output=True, rtol=rtol, atol=scale
    )
    return lambda points: found.sol(points[:, 0])[0]


DOP853 = Peer(
    "SciPy DOP853",
    "solve_ivp with dense output, atol = rtol for u and rtol omega_0 for u'",
    sizes,
    solve,
)
