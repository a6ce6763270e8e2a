"""Features print as one writes them."""

import jax.numpy as jnp
import pytest

import tessella as ts


def layer(p):
    return jnp.exp(-p[:, 0])


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (ts.RandomFeatures(100), "RandomFeatures(100)"),
        (
            ts.RandomFeatures(30, activation="sin", scale=2.0),
            "RandomFeatures(30, activation='sin', scale=2.0)",
        ),
        (ts.RandomFeatures(8, 2, constant=False), "RandomFeatures(8, depth=2, constant=False)"),
        (ts.Corner(1.5), "Corner(1.5)"),
        (ts.Corner(2.0, at=(0.5, 0.5), wave="cos"), "Corner(2.0, at=(0.5, 0.5), wave='cos')"),
        (ts.Enrichment(layer), "Enrichment(layer)"),
        (
            ts.Enrichment(ts.Corner(1.5), where=ts.Box(x=(0, 0.5))),
            "Enrichment(Corner(1.5), where=Box(x=(0, 0.5)))",
        ),
    ],
)
def test_as_written(thing, text):
    assert repr(thing) == text


def test_an_activation_prints_its_name():
    assert repr(ts.RandomFeatures(3).function) == "Activation('tanh')"


def test_two_activations_of_one_name_do_not_print_alike():
    one, other = (ts.Activation.from_function("mine", f) for f in (jnp.exp, jnp.cos))
    assert repr(one).startswith("Activation('mine'")
    assert repr(ts.RandomFeatures(3, activation=one)) != repr(
        ts.RandomFeatures(3, activation=other)
    )
