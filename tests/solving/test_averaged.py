"""Averages over fields are those of their density, and intervals hold as often as they say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tessella.solving.parameters.averaged
from tessella.solving.parameters.averaged import SIZES, averaged
from tessella.solving.parameters.smooth import Part, Smooth

ALIKE = [Part("a", Smooth(np.ones(3)), 3)]
"""No wavenumber is higher than another, so that only sizes and occurrence are averaged over."""


def _by_sums(J: np.ndarray, left: np.ndarray, noises: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviations by adding up all subsets, sizes and noises."""
    n, sums = len(left), [0.0, np.zeros(3), np.zeros(3)]
    unit = np.sqrt(np.max(np.diag(J.T @ J)))
    for noise, on, log in product(noises, product([0, 1], repeat=3), np.linspace(0, 1, 60)):
        size = np.exp(np.log(SIZES) @ [1 - log, log]) / unit * np.median(noises)
        A = size**2 * np.diag(on) @ J.T @ J / noise**2 + np.eye(3)
        C = np.linalg.solve(A, size**2 * np.diag(on))
        mean = C @ J.T @ left / noise**2
        misfit = left @ (left - J @ mean) / noise**2
        chance = 1 / [1, 3, 3, 1][sum(on)] / 4 / np.sqrt(np.linalg.det(A))
        chance *= np.exp(-misfit / 2) * (noise / np.median(noises)) ** -n
        for i, own in enumerate((1.0, mean, mean**2 + np.diag(C))):
            sums[i] = sums[i] + chance * own
    mean = sums[1] / sums[0]
    return mean, np.sqrt(sums[2] / sums[0] - mean**2)


@pytest.mark.parametrize("known", [True, False])
def test_averages_are_those_of_the_density(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tessella.solving.parameters.averaged, "SWEEPS", 600)
    draw = np.random.default_rng(1)
    J = draw.standard_normal((12, 3))
    left = J @ [0.9, 0.0, -0.6] + 0.5 * draw.standard_normal(12)
    if known:
        J, left = J / 0.5, left / 0.5
    alone = left - J @ np.linalg.lstsq(J, left, rcond=None)[0]
    level = 1.0 if known else np.linalg.norm(alone) / 3
    noises = level * (np.ones(1) if known else np.exp(np.linspace(-1, 1, 21)))
    mean, spread = _by_sums(J, left, noises)
    found = averaged(J, left, ALIKE, known)
    assert np.max(np.abs(found.mean - mean) / spread) < 0.1
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), spread, rtol=0.1)
    assert 1 < found.told["a"].functions < 3 and found.settled


def test_intervals_of_fields_hold_as_often_as_promised() -> None:
    """Of fields as they are expected; data blur them, and one number more is free."""
    k, draw = np.arange(1.0, 9.0), np.random.default_rng(3)
    x = np.linspace(0, np.pi, 40)
    J = np.column_stack([np.sin(x[:, None] * k) / k**2, np.ones(40)]) / 0.05
    parts = [Part("a", Smooth(k), 8), Part("level", np.zeros(1), 1)]
    scaled, lost = [], []
    for few in [False] * 6 + [True] * 6:
        truth = np.append(np.exp(-((0.5 * k) ** 2) / 4) * draw.standard_normal(8), 5.0)
        if few:
            truth[:8] *= np.arange(8) == draw.integers(3)
        left = J @ truth + draw.standard_normal(40)
        found = averaged(J, left, parts, True)
        scaled.append((found.mean - truth) / np.sqrt(np.diag(found.covariance)))
        plain = np.linalg.lstsq(J, left, rcond=None)[0]
        lost.append(np.linalg.norm(found.mean - truth) / np.linalg.norm(plain - truth))
    assert np.mean(np.abs(scaled) < 1.96) > 0.9
    assert np.exp(np.mean(np.log(lost[:6]))) < 0.5
    assert np.exp(np.mean(np.log(lost[6:]))) < 0.25
