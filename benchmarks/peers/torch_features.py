"""Random features in PyTorch: fastlsq (global sines) and pyrfm (tanh on a partition of unity)."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case, Cube, Oscillator, Plate, Square, Wave

SCALE = 0.8
"""fastlsq's bandwidth, in units of the largest wavenumber of the data, which it is told: its own
search compares with the exact solution."""

FASTLSQ_ROWS, PYRFM_ROWS = 2, 4
"""Rows per column; with fewer pyrfm's windows leave errors of order one."""


def _interior(case: Case, count: int) -> Array:
    """About `count` Chebyshev-like points of a tensor grid, denser near the sides."""
    low, high = _box(case)
    per_axis = max(2, round(count ** (1 / len(low))))
    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(per_axis) + 0.5) / per_axis)
    mesh = np.meshgrid(*(a + (b - a) * nodes for a, b in zip(low, high, strict=True)))
    return np.stack(mesh, axis=-1).reshape(-1, len(low))


def _box(case: Case) -> tuple[list[float], list[float]]:
    if isinstance(case, Oscillator):
        return [0.0], [1.0]
    if isinstance(case, Square):
        return [0.0, 0.0], [1.0, 1.0]
    assert isinstance(case, Wave)
    return [-1.0, -1.0, 0.0], [1.0, 1.0, case.T]


def _sides(case: Square, count: int) -> Array:
    line = 0.5 - 0.5 * np.cos(np.pi * (np.arange(count // 4) + 0.5) / (count // 4))
    zero, one = np.zeros_like(line), np.ones_like(line)
    pairs = ((line, zero), (line, one), (zero, line), (one, line))
    return np.concatenate([np.column_stack(pair) for pair in pairs])


def _prepare(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)


def _with_threads(sizes: list[Settings]) -> list[Settings]:
    """One thread, and the largest size also with all: PyTorch's threads suffer when a core is busy
    with something else."""
    last = {**sizes[-1], "threads": os.cpu_count() or 1}
    return [{**one, "threads": 1} for one in sizes] + [last]


def _system(case: Oscillator | Square, rows: int, values: Any, derivative: Any) -> tuple[Any, Any]:
    """Rows of the equation and of the conditions, weighted by the largest wavenumber.

    `values(x)` and `derivative(x, axis, order)` are a library's feature matrices.
    """
    import torch

    x = torch.as_tensor(_interior(case, rows))
    if isinstance(case, Oscillator):
        k = case.omega0
        A = derivative(x, 0, 2) + case.mu * derivative(x, 0, 1) + k**2 * values(x)
        start = torch.zeros(1, 1)
        weight = float(len(x)) ** 0.5
        begin = [weight * values(start), weight / k * derivative(start, 0, 1)]
        right = [torch.zeros(len(x), 1), torch.full((1, 1), weight), torch.zeros(1, 1)]
        return torch.cat([A / k**2, *begin]), torch.cat(right)
    A = -case.a * (derivative(x, 0, 2) + derivative(x, 1, 2)) + case.c * values(x)
    for axis, factor in enumerate(case.b):
        if factor:
            A = A + factor * derivative(x, axis, 1)
    f = case.source(x[:, 0], x[:, 1], torch)[:, None]
    s = torch.as_tensor(_sides(case, 4 * 2 * round(len(x) ** 0.5)))
    weight = case.a * case.wavenumber**2
    return torch.cat([A / weight, values(s)]), torch.cat([f / weight, torch.zeros(len(s), 1)])


def _refuse_others(case: Case) -> None:
    varies = isinstance(case, Cube) or (isinstance(case, Square) and case.varying is not None)
    if isinstance(case, Plate) or varies:
        raise NotApplicableError("set up here for constant coefficients on boxes")


def fastlsq_sizes(name: str, case: Case) -> list[Settings]:
    _refuse_others(case)
    if isinstance(case, Wave):
        raise NotApplicableError("one dense matrix: too few global features fit for this wave")
    counts: Any = (500, 1000, 2000)
    if isinstance(case, Oscillator):
        counts = [round(share * case.omega0) for share in (0.7, 1.0, 1.7, 3.0)]
    scale = round(SCALE * case.wavenumber, 3)
    return _with_threads([{"features": n, "scale": scale} for n in counts])


def fastlsq_solve(case: Any, features: int, scale: float, threads: int) -> Answer:
    import torch
    from fastlsq.linalg import solve_lstsq
    from fastlsq.solvers import FastLSQSolver

    _prepare(threads)
    torch.manual_seed(0)
    solver = FastLSQSolver(len(case.axes))
    solver.add_block(hidden_size=features, scale=scale)
    basis = solver.basis

    def derivative(x: Any, axis: int, order: int) -> Any:
        alpha = tuple(order if i == axis else 0 for i in range(len(case.axes)))
        return basis.derivative(x, alpha=alpha)

    A, f = _system(case, FASTLSQ_ROWS * features, basis.evaluate, derivative)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*numerically rank-deficient")
        solver.beta = solve_lstsq(A, f, method="qr")
    return lambda points: solver.predict(torch.as_tensor(points)).numpy()[:, 0]


PYRFM: dict[str, list[tuple[int, int]]] = {
    "oscillator-60": [(10, 20), (10, 40), (20, 40)],
    "oscillator-580": [(40, 25), (80, 25)],
    "laplace-3": [(4, 60), (4, 100), (4, 150)],
    "laplace-4": [(4, 150), (5, 150)],
    "helmholtz": [(4, 100), (4, 200)],
    "layer": [(4, 100), (4, 200)],
}
"""Subdomains per axis and features of each: one dense QR of at most about 4,000 columns."""


def pyrfm_sizes(name: str, case: Case) -> list[Settings]:
    _refuse_others(case)
    if isinstance(case, Wave):
        raise NotApplicableError("one dense matrix: too few features fit for this wave")
    if name not in PYRFM:
        raise NotApplicableError("one dense matrix: too few features fit for this many waves")
    return _with_threads([{"subdomains": S, "features": K} for S, K in PYRFM[name]])


def pyrfm_solve(case: Any, subdomains: int, features: int, threads: int) -> Answer:
    import pyrfm
    import torch

    _prepare(threads)
    low, high = _box(case)
    domain = [end for pair in zip(low, high, strict=True) for end in pair]
    d = len(low)
    model = pyrfm.RFMBase(
        dim=d, n_hidden=features, domain=domain, n_subdomains=subdomains, pou=pyrfm.PsiB
    )

    def values(x: Any) -> Any:
        return model.features(x).cat(dim=1)

    def derivative(x: Any, axis: int, order: int) -> Any:
        if order == 1:
            return model.features_derivative(x, axis).cat(dim=1)
        return model.features_second_derivative(x, axis1=axis, axis2=axis).cat(dim=1)

    A, f = _system(case, PYRFM_ROWS * features * subdomains**d, values, derivative)
    model.compute(A, verbose=False)
    model.solve(f)
    return lambda points: model(torch.as_tensor(points)).numpy().ravel()


FASTLSQ = Peer(
    "fastlsq",
    f"global sines, solve_lstsq(method='qr') (faster here than 'auto', no less accurate), "
    f"{FASTLSQ_ROWS} rows per column, rows divided by "
    f"the largest wavenumber squared, bandwidth {SCALE:g} x that wavenumber",
    fastlsq_sizes,
    fastlsq_solve,
    requires=("fastlsq", "torch"),
)
PYRFM_PEER = Peer(
    "pyrfm",
    f"RFMBase: tanh features, PsiB partition of unity, {PYRFM_ROWS} rows per column, the same "
    "rows as fastlsq, its own row scaling and dense QR",
    pyrfm_sizes,
    pyrfm_solve,
    requires=("pyrfm", "torch"),
)
