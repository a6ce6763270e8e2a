"""Random features, and their products with windows, differentiated in two independent ways."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
import tessella.overlap.evaluation as evaluation_module
from tessella.features.random_features import (
    ACTIVATIONS,
    Layer,
    deep_derivatives,
    shallow_derivatives,
)
from tessella.overlap.matrices import evaluate_matrix

PLANE = ts.Box(x=(0, 1), y=(-1, 1))
GAMMAS = tuple(g for g in itertools.product(range(5), repeat=2) if sum(g) <= 4)
GAUSS = ts.Activation.from_function("gauss", lambda s: jnp.exp(-(s**2)))


def nested(f, orders, axes=2):
    """D^orders of a function of one point, by nested forward-mode differentiation."""
    for axis, order in enumerate(orders):
        direction = jnp.eye(axes)[axis]
        for _ in range(order):
            f = lambda p, f=f, direction=direction: jax.jvp(f, (p,), (direction,))[1]  # noqa: E731
    return f


def close(found, expected, tolerance=1e-10):
    """Agreement relative to the largest entry."""
    scale = max(float(np.abs(expected).max()), 1e-300)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_differentiate_themselves(name):
    s = jnp.linspace(-6, 6, 25)
    activation = ACTIVATIONS[name]
    by_jax = ts.Activation.from_function(name, lambda s: activation.derivatives(s, 0)[0])
    closed, automatic = jax.jit(
        lambda s: (activation.derivatives(s, 5), by_jax.derivatives(s, 5)),
    )(s)
    assert len(closed) == 6
    for order in range(6):
        close(closed[order], automatic[order], 1e-12)


@pytest.mark.parametrize(
    ("name", "function"),
    [("tanh", np.tanh), ("sigmoid", lambda s: 1 / (1 + np.exp(-s))), ("sin", np.sin)],
)
def test_activations_are_what_their_names_say(name, function):
    s = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(ACTIVATIONS[name].derivatives(jnp.asarray(s), 0)[0], function(s))


@pytest.mark.parametrize("activation", [*ACTIVATIONS.values(), GAUSS], ids=lambda a: a.name)
def test_closed_form_and_forward_mode_features_agree(activation, rng):
    layer = Layer(rng.uniform(-1, 1, (6, 2)), rng.uniform(-1, 1, 6))
    z = [jnp.asarray(rng.uniform(-1, 1, 11)) for _ in range(2)]
    rates = [jnp.asarray(r) for r in (3.0, 0.5)]

    @jax.jit
    def both(layer, z):
        return (
            shallow_derivatives(activation, layer, z, rates, GAMMAS),
            deep_derivatives(activation, (layer,), z, rates, GAMMAS),
        )

    closed, forward = both(layer, z)
    for gamma in GAMMAS:
        close(closed[gamma], forward[gamma])


def test_weights_and_biases_are_uniform_within_their_bounds():
    features = ts.RandomFeatures(100, depth=3, scale=5.0)
    first, second, last = features.draw(subdomains=7, dimension=2, seed=3)
    assert first.weights.shape == (7, 100, 2)
    assert second.weights.shape == last.weights.shape == (7, 100, 100)
    assert first.biases.shape == last.biases.shape == (7, 100)
    for layer, bound in ((first, 5 / np.sqrt(2)), (second, 0.1), (last, 0.1)):
        for drawn in layer:
            assert 0.98 * bound < np.abs(drawn).max() <= bound
            assert abs(drawn.mean()) < 0.1 * bound


def test_only_the_last_layer_loses_its_bias():
    first, last = ts.RandomFeatures(4, depth=2, bias=False).draw(3, 1, 0)
    assert np.all(first.biases != 0)
    assert np.all(last.biases == 0)


def test_the_same_seed_gives_the_same_features():
    features = ts.RandomFeatures(5)
    a, b, c = (features.draw(3, 2, seed)[0] for seed in (7, 7, 8))
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.biases, b.biases)
    assert not np.any(a.weights == c.weights)


def test_whole_numbers_may_be_written_as_floats():
    assert ts.RandomFeatures(1e1) == ts.RandomFeatures(np.int64(10)) == ts.RandomFeatures(10)


def test_the_constant_feature_is_one_more_column():
    decomposition = ts.Decomposition(PLANE, (3, 2))
    assert ts.RandomFeatures(8).columns == 9
    assert ts.RandomFeatures(8, constant=False).columns == 8
    assert ts.Basis(decomposition, ts.RandomFeatures(8)).columns == 6 * 9


def make_basis(depth=1, activation="tanh", constant=True):
    decomposition = ts.Decomposition(PLANE, (2, 3), (1.7, 2.4))
    features = ts.RandomFeatures(3, depth, activation, constant, scale=2.0)
    return ts.Basis(decomposition, features, seed=4)


POINTS = np.concatenate(
    [np.random.default_rng(5).uniform(PLANE.lower, PLANE.upper, (7, 2)), PLANE.grid((2, 2))]
)
ALPHAS = [(0, 0), (1, 0), (0, 2), (2, 1), (4, 0)]


def stacked(basis):
    """Every derivative in ALPHAS of every basis function at every point, (alpha, point, column)."""
    copies = np.tile(POINTS, (len(ALPHAS), 1))
    chosen = np.repeat(np.eye(len(ALPHAS)), len(POINTS), axis=0)
    matrix = evaluate_matrix(basis, copies, dict(zip(ALPHAS, chosen.T, strict=True)))
    return matrix.to_dense().reshape(len(ALPHAS), len(POINTS), -1)


def basis_functions(basis):
    """The paper's formulas written out for one point, nothing shared with the package."""
    decomposition = basis.decomposition
    centres, half_width = decomposition.centres, decomposition.half_width

    def functions(p):
        z = (p - centres) / half_width
        bumps = jnp.where(jnp.abs(z) < 1, (1 + jnp.cos(jnp.pi * z)) ** 2, 0.0).prod(axis=1)
        windows = bumps / bumps.sum()
        state = z
        for weights, biases in basis.layers:
            state = jnp.tanh(jnp.einsum("jkd,jd->jk", weights, state) + biases)
        columns = jnp.concatenate([state, jnp.ones((len(z), 1))], axis=1)
        return (windows[:, None] * columns).ravel()

    return functions


@pytest.mark.parametrize("depth", [1, 2])
def test_basis_functions_are_windows_times_features(depth):
    basis = make_basis(depth)
    functions = basis_functions(basis)

    @jax.jit
    def direct(points):
        return [jax.vmap(nested(functions, alpha))(points) for alpha in ALPHAS]

    for found, expected in zip(stacked(basis), direct(POINTS), strict=True):
        close(found, expected)


def test_basis_derivatives_agree_with_finite_differences():
    basis, h = make_basis(), 1e-3
    functions = jax.jit(jax.vmap(basis_functions(basis)))
    inside = POINTS[:7] * 0.9
    step = np.array([0.0, h])
    values = [np.asarray(functions(inside + k * step)) for k in (-2, -1, 0, 1, 2)]
    second = (-values[0] + 16 * values[1] - 30 * values[2] + 16 * values[3] - values[4]) / 12 / h**2
    found = evaluate_matrix(basis, inside, {(0, 2): np.ones(7)}).to_dense()
    close(found, second, 1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_basis_evaluation_agrees_through_both_kinds_of_derivatives(activation, monkeypatch):
    basis = make_basis(activation=activation)
    closed = stacked(basis)

    def forward(activation, layer, *rest):
        return deep_derivatives(activation, (layer,), *rest)

    monkeypatch.setattr(evaluation_module, "SMALL", 0)
    monkeypatch.setattr(evaluation_module, "shallow_derivatives", forward)
    compiled = fresh(evaluation_module._compiled_blocks)
    monkeypatch.setattr(evaluation_module, "_compiled_blocks", compiled)
    through_jax = stacked(basis)
    for a, b in zip(closed, through_jax, strict=True):
        close(a, b)


def corner(p):
    return jnp.exp(p[:, 0]) * p[:, 1] ** 3


BASES = {
    **{name: lambda name=name: make_basis(activation=name) for name in ACTIVATIONS},
    "no constant": lambda: make_basis(constant=False),
    "undivided axis": lambda: ts.Basis(ts.Decomposition(PLANE, (3, 1)), ts.RandomFeatures(4), 0),
    "enriched": lambda: ts.Basis(
        ts.Decomposition(PLANE, (3, 1)), ts.RandomFeatures(4), 0, enrichment=(corner,)
    ),
    "side by side": lambda: ts.CellBasis(
        ts.Tiling(PLANE, (2, 2)), ts.RandomFeatures(4), 0, enrichment=(corner,)
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_small_blocks_by_numpy_are_those_compiled(name, monkeypatch):
    basis = BASES[name]()
    by_numpy = stacked(basis)
    called, jitted = [], evaluation_module._compiled_blocks

    def compiled(*arguments):
        called.append(arguments)
        return jitted(*arguments)

    monkeypatch.setattr(evaluation_module, "SMALL", 0)
    monkeypatch.setattr(evaluation_module, "_compiled_blocks", compiled)
    for a, b in zip(by_numpy, stacked(basis), strict=True):
        close(a, b, 1e-13)
    assert called


def fresh(jitted):
    """The same function, traced anew."""
    return jax.jit(lambda *a: jitted.__wrapped__(*a), static_argnums=0)


def test_a_custom_activation_is_used():
    named, own = (
        make_basis(activation="tanh"),
        make_basis(activation=ts.Activation.from_function("mine", jnp.tanh)),
    )
    for a, b in zip(stacked(named), stacked(own), strict=True):
        close(b, a)


def test_basis_functions_vanish_outside_their_subdomain():
    basis = make_basis()
    values = stacked(basis)[0].reshape(len(POINTS), basis.decomposition.count, -1)
    subdomain, point = basis.decomposition.seen(POINTS)
    seen = np.zeros((len(POINTS), basis.decomposition.count), dtype=bool)
    seen[point, subdomain] = True
    assert np.all(values[~seen] == 0)
    assert np.all(values[seen][:, -1] > 0)


def test_without_the_constant_feature_the_others_are_unchanged():
    with_constant = stacked(make_basis()).reshape(len(ALPHAS), len(POINTS), 6, 4)
    without = stacked(make_basis(constant=False)).reshape(len(ALPHAS), len(POINTS), 6, 3)
    close(without, with_constant[..., :3], 1e-14)
