"""Fronts used the other way."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.linalg.direct import dense_qr


@pytest.mark.parametrize("rank", [40, 25])
@pytest.mark.parametrize("late", [False, True])
def test_reducing_and_substituting_have_their_transposes(rank: int, late: bool) -> None:
    """Fronts with rows that begin late, which are factored by panels, and without; of full rank in
    their own columns, and not."""
    draw, own = np.random.default_rng(0), 40
    n = dense_qr.LEAST * dense_qr.PANEL + 10 if late else 60
    m = n + 200
    F = draw.standard_normal((m, n))
    F[:, :own] = F[:, :rank] @ draw.standard_normal((rank, own))
    begins = np.sort(draw.integers(0, n, m)) if late else None
    if begins is not None:
        begins[: 2 * own] = 0
        F *= np.arange(n) >= begins[:, None]
        F[:, :own] = F[:, :rank] @ draw.standard_normal((rank, own)) * (begins == 0)[:, None]
    front, _ = dense_qr.factor(np.asfortranarray(F), own, 1e-10, begins)
    assert front.kept == rank and isinstance(front.Q, dense_qr.Staircase) == late
    c, k = draw.standard_normal((m, 3)), front.kept
    fitted, handed, _ = front.reduce(c.copy())
    assert len(handed) == front.left_over
    f, h = draw.standard_normal(fitted.shape), draw.standard_normal(handed.shape)
    back = front.reduce_back(f, h)
    assert np.sum(fitted * f) + np.sum(handed * h) == pytest.approx(np.sum(c * back), rel=1e-10)
    y, beyond, x = (draw.standard_normal((size, 3)) for size in (k, n - own, k))
    solved = front.substitute(y, beyond)
    to_fitted, to_beyond = front.substitute_back(x)
    there = np.sum(solved * x)
    assert np.sum(y * to_fitted) + np.sum(beyond * to_beyond) == pytest.approx(there, rel=1e-8)
