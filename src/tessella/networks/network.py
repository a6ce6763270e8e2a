"""One small network per subdomain: its parameters, and any linear operator applied to it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.features.random_features import (
    Activation,
    Layer,
    deep_derivatives,
    shallow_derivatives,
)
from tessella.geometry.functions import Orders
from tessella.machine.arrays import AnyArray, on_device
from tessella.overlap.basis import Basis


class Parameters(NamedTuple):
    """Hidden layers, (J, width, fan_in) and (J, width) each, and the output layer (J, width + 1).

    The output's last entry is its bias: the coefficient of the basis's constant feature.
    """

    layers: tuple[Layer, ...]
    output: Any


def initial_parameters(basis: Basis) -> Parameters:
    """The basis's own hidden layers, and an output layer drawn like them: +-1/sqrt(fan_in)."""
    J, C = basis.decomposition.count, basis.features.columns
    bound = 1 / math.sqrt(basis.features.count)
    output = np.random.default_rng([basis.seed, 1]).uniform(-bound, bound, (J, C))
    layers = tuple(Layer(on_device(w), on_device(b)) for w, b in basis.layers)
    return Parameters(layers, on_device(output))


def apply_operator(
    activation: Activation,
    network: Parameters,
    z: jax.Array,
    coefficients: jax.Array,
    gammas: tuple[Orders, ...],
) -> jax.Array:
    """sum_gamma coefficients[gamma] D^gamma network at the points z (d, m) of one subdomain, (m,).

    Up to second order the operator as a whole is carried through the layers; beyond, the features'
    own derivatives are taken one by one.
    """
    c = dict(zip(gammas, coefficients, strict=True))
    a, bias = network.output[:-1], network.output[-1]
    zero = (0,) * len(z)
    if max(map(sum, gammas)) <= 2:
        value, rest = _carry_operator(activation, network.layers, z, c)
        total = value * c[zero] if rest is None else value * c[zero] + rest
    else:
        rates = [jnp.ones(())] * len(z)
        if len(network.layers) == 1:
            phi = shallow_derivatives(activation, network.layers[0], list(z), rates, gammas)
        else:
            phi = deep_derivatives(activation, network.layers, list(z), rates, gammas)
        total = sum(phi[gamma] * c[gamma] for gamma in gammas)
    return a @ total + bias * c[zero]


def _carry_operator(
    activation: Activation, layers: tuple[Layer, ...], z: jax.Array, c: dict[Orders, jax.Array]
) -> tuple[jax.Array, jax.Array | None]:
    """Last hidden layer f and L f for L = sum of c_gamma D^gamma over 1 <= |gamma| <= 2.

    L s(f) = s'(f) L f + s''(f) sum_ij c_ij D_i f D_j f, so that next to f and its gradient a
    single array passes through the layers, however many second derivatives L has; at depth one
    this is the closed form.
    """
    d = len(z)
    first = {i: c[g] for g in c if sum(g) == 1 for i in range(d) if g[i]}
    second = {tuple(i for i in range(d) for _ in range(g[i])): c[g] for g in c if sum(g) == 2}
    order = 2 if second else 1 if first else 0
    axes = sorted({i for pair in second for i in pair})
    f: Any = z
    Ls: Any = None
    Lf: Any = None
    Q: Any = None
    Df: dict[int, AnyArray] = {}
    for level, (W, b) in enumerate(layers):
        if level == 0:
            # D_i s = W_i is the same everywhere, which leaves three products with small matrices.
            s = jnp.column_stack([W, b]) @ jnp.concatenate([z, jnp.ones_like(z[:1])])
            Ds = {i: W[:, i, None] for i in axes}
            if first:
                Ls = W[:, np.array(list(first))] @ jnp.stack(list(first.values()))
            if second:
                pairs = jnp.stack([W[:, i] * W[:, j] for i, j in second], axis=1)
                Q = pairs @ jnp.stack(list(second.values()))
        else:
            s = b[:, None] + W @ f
            Ds = {i: W @ Df[i] for i in axes}
            Ls = W @ Lf if order else None
            if second:
                Q = sum(c_ij * (Ds[i] * Ds[j]) for (i, j), c_ij in second.items())
        sigma = activation.derivatives(s, order)
        f = sigma[0]
        if order:
            Lf = 0.0 if Ls is None else sigma[1] * Ls
        if order == 2:
            Lf = Lf + sigma[2] * Q
            Df = {i: sigma[1] * Ds[i] for i in axes}
    return f, Lf
