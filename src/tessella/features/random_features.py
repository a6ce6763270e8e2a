"""Random features: networks with random, fixed hidden layers, and their derivatives."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from tessella.geometry.functions import Orders
from tessella.machine.arguments import check_flag
from tessella.machine.arrays import AnyArray, Array, added, namespace
from tessella.machine.printing import as_written

Derivatives = Callable[[AnyArray, int], list[AnyArray]]
"""(s, order) -> [f(s), f'(s), ..., f^(order)(s)]"""


@dataclass(frozen=True, repr=False)
class Activation:
    """A function of one variable and its derivatives in closed form.

    `derivatives(s, order)` returns the list [f(s), f'(s), ..., f^(order)(s)]. Add one of your own
    by passing an `Activation` wherever a name is accepted. `from_function` differentiates by JAX;
    give the derivatives yourself when speed matters. `plain` says that they also take and return
    NumPy arrays. `single(s, order)` may return one derivative where that takes less than all below
    it. A `separable` one is many functions, whose products along the axes are the features.

    >>> import tessella as ts
    >>> import jax.numpy as jnp
    >>> gauss = ts.Activation.from_function("gauss", lambda s: jnp.exp(-(s**2)))
    >>> ts.RandomFeatures(100, activation=gauss).in_words
    '100 gauss features'
    >>> [float(f) for f in ts.RandomFeatures(100).function.derivatives(0.0, 1)]  # of tanh
    [0.0, 1.0]
    """

    name: str
    derivatives: Derivatives
    plain: bool = False
    single: Callable[[AnyArray, int], AnyArray] | None = None
    separable: bool = False

    def some(self, s: AnyArray, orders: Collection[int]) -> dict[int, AnyArray]:
        """The derivatives of these orders, by their orders."""
        if self.single is not None and len(orders) == 1:
            (order,) = orders
            return {order: self.single(s, order)}
        return dict(enumerate(self.derivatives(s, max(orders))))

    def __repr__(self) -> str:
        # Where two have one name, the address tells them apart.
        own = "" if ACTIVATIONS.get(self.name) is self else f" at {id(self.derivatives):#x}"
        return f"Activation({self.name!r}{own})"

    @staticmethod
    def from_function(name: str, function: Callable[[jax.Array], jax.Array]) -> Activation:
        def derivatives(s: AnyArray, order: int) -> list[AnyArray]:
            chain = [function]
            for _ in range(order):
                chain.append(_derivative(chain[-1]))
            return [f(jnp.asarray(s)) for f in chain]

        return Activation(name, derivatives)


def _derivative(f: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return lambda s: jax.jvp(f, (s,), (jnp.ones_like(s),))[1]


def _by_polynomial(base: Callable[[AnyArray], AnyArray], slope: Polynomial) -> Derivatives:
    """For f' = slope(f): f^(k) = p_k(f) with p_0 = t and p_{k+1} = p_k' * slope."""

    def derivatives(s: AnyArray, order: int) -> list[AnyArray]:
        f = base(s)
        p, values = Polynomial([0.0, 1.0]), [f]
        for _ in range(order):
            p = p.deriv() * slope
            values.append(_horner(np.asarray(p.coef, float), f))
        return values

    return derivatives


def _horner(coefficients: Array, t: AnyArray) -> AnyArray:
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * t + c
    return value


def _tanh(s: AnyArray) -> AnyArray:
    return namespace(s).tanh(s)


def _sin_derivatives(s: AnyArray, order: int) -> list[AnyArray]:
    sin = namespace(s).sin(s)
    if order == 0:
        return [sin]
    cos = namespace(s).cos(s)
    cycle = [sin, cos, -sin, -cos]
    return [cycle[k % 4] for k in range(order + 1)]


def _sin_derivative(s: AnyArray, order: int) -> AnyArray:
    value = namespace(s).cos(s) if order % 2 else namespace(s).sin(s)
    return -value if order % 4 > 1 else value


ACTIVATIONS: dict[str, Activation] = {
    own.name: own
    for own in (
        Activation("tanh", _by_polynomial(_tanh, Polynomial([1.0, 0.0, -1.0])), plain=True),
        Activation(
            "sigmoid",
            _by_polynomial(lambda s: 0.5 * (1 + _tanh(0.5 * s)), Polynomial([0.0, 1.0, -1.0])),
            plain=True,
        ),
        Activation("sin", _sin_derivatives, plain=True, single=_sin_derivative),
    )
}


class Layer(NamedTuple):
    """Weights (J, width, fan_in) and biases (J, width) of one layer of every subdomain."""

    weights: AnyArray
    biases: AnyArray


MOST = {"count": 1_000_000, "depth": 100}
"""Features of one subdomain and hidden layers; nobody has the memory for more."""

RICHNESS = 0.73
"""Degree on faces, in parts of the total degree of as many polynomials."""


@dataclass(frozen=True, repr=False)
class RandomFeatures:
    """K random features per subdomain (the paper's equation for phi_jk).

    count       K, the number of features; all hidden layers are K wide
    depth       h, the number of layers; 1 has closed-form derivatives and is fastest
    activation  "tanh", "sigmoid", "sin" or an `Activation`
    constant    add one constant feature, so that a subdomain has K + 1 columns
    bias        whether the last layer has a bias
    scale       factor on the first layer's weights and biases, i.e. the bandwidth of the features
                in units of the subdomain: more oscillating solutions and more features want more

    Weights and biases are uniform on +-1/sqrt(fan_in), times `scale` in the first layer.

    >>> import tessella as ts
    >>> features = ts.RandomFeatures(100, activation="sin", scale=3.0)
    >>> features.columns
    101
    >>> features.draw(subdomains=8, dimension=2, seed=0)[0].weights.shape
    (8, 100, 2)
    """

    count: int
    depth: int = 1
    activation: str | Activation = "tanh"
    constant: bool = True
    bias: bool = True
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, what in (("count", "features"), ("depth", "depth")):
            value = getattr(self, name)
            if not (isinstance(value, Real) and float(value) >= 1 and float(value).is_integer()):
                raise ValueError(f"{what} must be a whole number >= 1, got {value!r}")
            if float(value) > MOST[name]:
                raise ValueError(f"{what} must be at most {MOST[name]:,}, got {value!r}")
            object.__setattr__(self, name, int(float(value)))
        if not (isinstance(self.scale, Real) and 0 < self.scale < math.inf):
            raise ValueError(f"scale must be a positive number, got {self.scale!r}")
        for name in ("constant", "bias"):
            check_flag(getattr(self, name), name)
        named = isinstance(self.activation, str) and self.activation in ACTIVATIONS
        if not named and not isinstance(self.activation, Activation):
            raise ValueError(
                f"unknown activation {self.activation!r}: choose one of "
                f"{', '.join(ACTIVATIONS)}, or pass a tessella.Activation"
            )

    def __repr__(self) -> str:
        return as_written(self)

    @property
    def in_words(self) -> str:
        """How many of which kind."""
        depth = f" of depth {self.depth}" if self.depth > 1 else ""
        return f"{self.count:,} {self.function.name} features{depth}"

    def poorer(self, dimension: int) -> RandomFeatures:
        """Half as many, with the bandwidth that goes with them."""
        count = max(1, self.count // 2)
        share = (count / self.count) ** (1 / dimension)
        return dataclasses.replace(self, count=count, scale=share * self.scale)

    def stretched(self, ratio: Array) -> RandomFeatures:
        """For subdomains wider by these ratios: in their own coordinates they stay as they are."""
        return self

    def face_degree(self, dimension: int) -> int:
        """Of polynomials on a face of a cell that are about as fine as the features inside."""
        if dimension == 1:
            return 0
        whole = float(math.factorial(dimension) * self.columns) ** (1 / dimension)
        return math.ceil(RICHNESS * whole)

    @property
    def columns(self) -> int:
        """C, the number of columns per subdomain."""
        return self.count + int(self.constant)

    @property
    def function(self) -> Activation:
        a = self.activation
        return a if isinstance(a, Activation) else ACTIVATIONS[a]

    def draw(self, subdomains: int, dimension: int, seed: int) -> tuple[Layer, ...]:
        """The layers of all subdomains from one explicit seed."""
        random = np.random.default_rng(seed)
        layers, fan_in = [], dimension
        for level in range(self.depth):
            bound = (self.scale if level == 0 else 1.0) / math.sqrt(fan_in)
            weights = random.uniform(-bound, bound, (subdomains, self.count, fan_in))
            biases = random.uniform(-bound, bound, (subdomains, self.count))
            if level == self.depth - 1 and not self.bias:
                biases = np.zeros_like(biases)
            layers.append(Layer(weights, biases))
            fan_in = self.count
        return tuple(layers)


def shallow_derivatives(
    activation: Activation,
    layer: Layer,
    z: Sequence[AnyArray],
    rates: Sequence[AnyArray],
    gammas: tuple[Orders, ...],
) -> dict[Orders, AnyArray]:
    """D^gamma act(w.z + b) = prod_i (w_i rate_i)^gamma_i act^(|gamma|), (..., K, m).

    `z` are the normalised coordinates (one (..., m) array per axis) and `rates` are dz_i/dx_i;
    leading axes count subdomains, of which the layer then has as many. Twice as many weights are
    those of exponentials (see `exponentials`).
    """
    if layer.weights.shape[-1] == 2 * len(z):
        return exponential_derivatives(layer, z, rates, gammas)
    s = layer.biases[..., None] + added(
        layer.weights[..., i, None] * z_i[..., None, :] for i, z_i in enumerate(z)
    )
    values = activation.some(s, {sum(g) for g in gammas})
    powers = [layer.weights[..., i] * rate for i, rate in enumerate(rates)]
    one = namespace(s).ones(())
    return {
        gamma: values[sum(gamma)]
        * math.prod((p**g for p, g in zip(powers, gamma, strict=True) if g), start=one)[..., None]
        for gamma in gammas
    }


def exponential_derivatives(
    layer: Layer, z: Sequence[AnyArray], rates: Sequence[AnyArray], gammas: tuple[Orders, ...]
) -> dict[Orders, AnyArray]:
    """D^gamma Im exp(zeta.z + i b) = Im prod_i (zeta_i rate_i)^gamma_i exp(zeta.z + i b), in parts
    of the largest value on [-1, 1]^d; weights are Im zeta, then Re zeta."""
    d = len(z)
    q, p = layer.weights[..., :d], layer.weights[..., d:]
    xp = namespace(layer.weights)
    s = layer.biases[..., None] + added(q[..., i, None] * z[i][..., None, :] for i in range(d))
    size = xp.exp(added(p[..., i, None] * z[i][..., None, :] - xp.abs(p[..., i, None])
                        for i in range(d)))  # fmt: skip
    sin, cos = size * xp.sin(s), size * xp.cos(s)
    powers = [(p[..., i] + 1j * q[..., i]) * rate for i, rate in enumerate(rates)]
    found = {}
    for gamma in gammas:
        factor = math.prod(
            (own**g for own, g in zip(powers, gamma, strict=True) if g), start=xp.ones((), complex)
        )[..., None]
        found[gamma] = factor.real * sin + factor.imag * cos
    return found


Coordinates = tuple[AnyArray, ...]


def deep_derivatives(
    activation: Activation,
    layers: tuple[Layer, ...],
    z: Sequence[AnyArray],
    rates: Sequence[AnyArray],
    gammas: tuple[Orders, ...],
) -> dict[Orders, AnyArray]:
    """The same for any depth, by forward-mode differentiation along the axes."""

    def network(coordinates: Coordinates) -> AnyArray:
        state: AnyArray = jnp.stack(coordinates, axis=-2)
        for layer in layers:
            state = activation.derivatives(layer.weights @ state + layer.biases[..., None], 0)[0]
        return state

    def along(f: Callable[[Coordinates], AnyArray], axis: int) -> Callable[[Coordinates], AnyArray]:
        def derivative(coordinates: Coordinates) -> AnyArray:
            tangent = tuple(
                jnp.full_like(c, rates[i] if i == axis else 0.0) for i, c in enumerate(coordinates)
            )
            return jax.jvp(f, (coordinates,), (tangent,))[1]

        return derivative

    found = {}
    for gamma in gammas:
        f: Callable[[Coordinates], AnyArray] = network
        for axis, order in enumerate(gamma):
            for _ in range(order):
                f = along(f, axis)
        found[gamma] = f(tuple(z))
    return found
