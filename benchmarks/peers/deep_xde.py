"""DeepXDE: a network trained by Adam for a bounded number of steps."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case, Cube, Oscillator, Plate, Square

os.environ["DDE_BACKEND"] = "pytorch"  # read when deepxde is imported

STEPS, MINUTES = 2_000, 20 / 60
"""Whatever ends first."""

POINTS = {"oscillator": 500, "square": 2_000, "wave": 2_000}


def sizes(name: str, case: Case) -> list[Settings]:
    varies = isinstance(case, Cube) or (isinstance(case, Square) and case.varying is not None)
    if isinstance(case, Plate) or varies:
        raise NotApplicableError("set up here for constant coefficients on boxes")
    return [{"width": 64, "layers": 3, "steps": STEPS}]


def solve(case: Any, width: int, layers: int, steps: int) -> Answer:
    import deepxde as dde
    import torch

    torch.set_num_threads(1)
    dde.config.set_default_float("float64")
    dde.config.set_random_seed(0)
    geometry, residual, transform = _statement(case, dde)
    count = POINTS[case.kind]
    data = dde.data.PDE(geometry, residual, [], num_domain=count, train_distribution="Hammersley")
    net = dde.nn.FNN([len(case.axes)] + [width] * layers + [1], "sin", "Glorot normal")
    net.apply_output_transform(transform)
    model = dde.Model(data, net)
    model.compile("adam", lr=1e-3, verbose=0)
    timer = dde.callbacks.Timer(MINUTES)
    model.train(iterations=steps, callbacks=[timer], display_every=steps, verbose=0)

    def answer(points: Array) -> Array:
        return np.asarray(model.predict(points))[:, 0]

    return answer


def _statement(case: Any, dde: Any) -> tuple[Any, Any, Any]:
    """Geometry, scaled residual, and the conditions built into the network's output."""
    import torch

    def second(u: Any, x: Any, axis: int) -> Any:
        return dde.grad.hessian(u, x, i=axis, j=axis)

    def first(u: Any, x: Any, axis: int) -> Any:
        return dde.grad.jacobian(u, x, i=0, j=axis)

    k = case.wavenumber
    if isinstance(case, Oscillator):

        def oscillator(x: Any, u: Any) -> Any:
            return (second(u, x, 0) + case.mu * first(u, x, 0)) / k**2 + u

        return (
            dde.geometry.Interval(0, 1),
            oscillator,
            lambda x, v: 1 + torch.tanh(k * x) ** 2 * v,
        )
    if isinstance(case, Square):

        def square(x: Any, u: Any) -> Any:
            left = -case.a * (second(u, x, 0) + second(u, x, 1)) + case.c * u
            for axis, factor in enumerate(case.b):
                left = left + factor * first(u, x, axis)
            f = case.source(x[:, :1], x[:, 1:], torch)
            return (left - f) / (case.a * k**2)

        def walls(x: Any, v: Any) -> Any:
            return 16 * (x * (1 - x)).prod(dim=1, keepdim=True) * v

        return dde.geometry.Rectangle([0, 0], [1, 1]), square, walls

    def wave(x: Any, u: Any) -> Any:
        return (second(u, x, 0) + second(u, x, 1) - second(u, x, 2)) / k**2

    def start(x: Any, v: Any) -> Any:
        wall = (1 - x[:, :2] ** 2).prod(dim=1, keepdim=True)
        initial = case.initial(x[:, :1], x[:, 1:2], torch)
        return initial + wall * (x[:, 2:] / case.T) ** 2 * v

    return dde.geometry.Cuboid([-1, -1, 0], [1, 1, case.T]), wave, start


DEEPXDE = Peer(
    "DeepXDE",
    "PyTorch in float64, one thread, 3 hidden layers of 64 sines, conditions built in, Adam at "
    f"1e-3 for {STEPS:,} steps or {60 * MINUTES:.0f} s",
    sizes,
    solve,
    requires=("deepxde", "torch"),
)
