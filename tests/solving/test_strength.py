"""The strength that data choose is that of the largest marginal likelihood."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from tessella.solving.parameters.strength import likeliest

WEIGHTS = np.array([1.0, 4.0, 9.0, 0.5])


@pytest.mark.parametrize("noise_known", [True, False])
@pytest.mark.parametrize("open_one", [False, True])
def test_the_likeliest_is_that_of_the_density(noise_known: bool, open_one: bool) -> None:
    """By the normal density of data with theta, and any noise, integrated out."""
    draw = np.random.default_rng(4)
    J, noise = draw.standard_normal((30, 4)), 0.2
    theta = np.array([0.8, -0.3, 0.1, 1.5])
    left = (J @ theta + noise * draw.standard_normal(30)) / (noise if noise_known else 1.0)
    J = J / noise if noise_known else J
    R = np.diag(WEIGHTS)[: 3 if open_one else 4]

    def unlikely(logs: np.ndarray) -> float:
        noise = 1.0 if noise_known else np.exp(logs[1])
        spread = noise * np.exp(-logs[0]) / WEIGHTS
        spread[3] = 1e3 if open_one else spread[3]
        covariance = (J * spread**2) @ J.T + noise**2 * np.eye(30)
        return float(np.linalg.slogdet(covariance)[1] + left @ np.linalg.solve(covariance, left))

    best = scipy.optimize.minimize(
        unlikely, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}
    )
    found = likeliest(J, left, R, noise_known)
    assert found.value == pytest.approx(np.exp(best.x[0]), rel=1e-3)
    assert "likeliest" in found.why


def test_what_data_do_not_tell_is_said() -> None:
    draw = np.random.default_rng(0)
    J, R = draw.standard_normal((20, 3)), np.eye(3)
    assert "say nothing" in likeliest(0 * J, draw.standard_normal(20), R, True).why
    assert "the prior itself" in likeliest(J, np.zeros(20), R, True).why
    assert "ask for none" in likeliest(J, J @ np.ones(3), R, False).why
