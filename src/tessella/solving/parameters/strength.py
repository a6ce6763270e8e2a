"""How strongly to regularise: the strength under which the data are most likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

from tessella.machine.arguments import is_number
from tessella.machine.arrays import Array

WEAKEST, STRONGEST = 1e-12, 1e4
"""Strengths that are looked at, over the largest singular value of what the data say."""

TICKS = 200
"""Strengths tried between them; the best one is then refined."""


@dataclass(frozen=True)
class Strength:
    """A factor of the regularisation, and why it is this one."""

    value: float
    why: str


def asked(given: Any, rows: int, smooth: bool) -> Strength | None:
    """None if the data are to choose it."""
    if smooth:
        if is_number(given) and given == 1:
            return Strength(1.0, "")
        raise ValueError(f"strength is what Smooth finds itself, got {given!r}: leave it out")
    if isinstance(given, str) and given == "auto":
        if rows:
            return None
        raise ValueError(
            "strength='auto' has no regularisation to choose the strength of: say which theta are "
            "likelier, regularisation=1.0 or weights that grow with roughness"
        )
    if not (is_number(given) and given > 0):
        raise ValueError(f"strength must be a positive number or 'auto', got {given!r}")
    return Strength(float(given), "given")


def likeliest(J: Array, left: Array, R: Array, noise_known: bool) -> Strength:
    """The lambda that maximises the marginal likelihood of data, with all theta integrated out.

    J            derivatives (n, p) of the data by theta, over the noise
    left         what of the data the prior leaves unexplained, over the noise
    R            rows of the regularisation (m, p), of full rank
    noise_known  otherwise the noise is one more thing that the data must tell

    In the model left = J d + noise, with |lambda R d| of the size of the noise and nothing known of
    d where R d = 0, the singular values g of J R^+ and the parts b of `left` along them tell all:

        2 log p(left) = sum log h - sum h b^2 + ...,    h = lambda^2 / (lambda^2 + g^2)

    (Laplace's approximation, where u is not linear in theta). The sum of 1 - h is the number of
    parameters that the data tell, not the prior.
    """
    free = scipy.linalg.orth(J @ scipy.linalg.null_space(R))
    A, b = (own - free @ (free.T @ own) for own in (J @ np.linalg.pinv(R), left))
    U, g, _ = np.linalg.svd(A, full_matrices=False)
    parts = U.T @ b
    rest = float(np.sum((b - U @ parts) ** 2))
    freedom = len(left) - free.shape[1]

    def shrunk(log: float) -> Array:
        return np.asarray(1 / (1 + (g / np.exp(log)) ** 2))

    def unlikely(log: float) -> float:
        h = shrunk(log)
        misfit = max(rest + float(h @ parts**2), 1e-300)
        return (misfit if noise_known else freedom * np.log(misfit)) - float(np.sum(np.log(h)))

    if not np.any(g > 0):
        return Strength(1.0, "the data say nothing of what is regularised")
    ticks = np.log(g[0]) + np.linspace(np.log(WEAKEST), np.log(STRONGEST), TICKS)
    best = int(np.argmin([unlikely(log) for log in ticks]))
    if best == 0:
        return Strength(float(np.exp(ticks[0])), "the data ask for none")
    if best == TICKS - 1:
        return Strength(float(np.exp(ticks[-1])), "the data ask for the prior itself")
    ends = (ticks[best - 1], ticks[best + 1])
    log = float(scipy.optimize.minimize_scalar(unlikely, bounds=ends, method="bounded").x)
    told = float(np.sum(1 - shrunk(log)))
    return Strength(
        float(np.exp(log)), f"the data are likeliest with it, and tell {told:.1f} of {len(R)}"
    )
