"""Functions of points that fill a grid are evaluated along its axes, and nobody can tell."""

import jax.numpy as jnp
import numpy as np
import pytest

from tessella.geometry import lattice
from tessella.geometry.functions import derivatives, function_values
from tessella.geometry.gauss import gauss
from tessella.geometry.lattice import Along, along_axes, gridded

BOXES, COUNTS = (3, 4), (10, 12)


def points(boxes=BOXES, counts=COUNTS):
    """Of cells of different widths, one after the other, as a tiling has them."""
    edges = [np.cumsum(np.arange(1, S + 2) / S) for S in boxes]
    low, high = (
        np.stack(np.meshgrid(*own, indexing="ij"), axis=-1).reshape(-1, 1, len(boxes))
        for own in ([e[:-1] for e in edges], [e[1:] for e in edges])
    )
    z = gauss(counts)[0]
    return (low + (high - low) * (z + 1) / 2).reshape(-1, len(boxes))


def separate(p):
    x, y = p[:, 0], p[..., -1]
    return 2 * np.sin(3 * x) * np.cos(y) - x**2 / (1 + np.abs(y)) + np.hypot(x, y)


def turned_on(p):
    return np.where(p[:, 0] > 1.5, p[:, 1], 0.0) + (p[:, 1] < 1) * p[:, 0]


def filled_in(p):
    values = np.zeros(len(p))
    values[p[:, 0] > 1.0] = 3.0
    return values + p[:, 1]


def changed_in_place(p):
    values = 1 * p[:, 0]
    values += 2.0
    np.multiply(values, 2.0, out=values)
    return values


def one_by_one(p):
    return [x * y for x, y in zip(p[:, 0], p[:, 1], strict=True)]


def by_number(p):
    x = p[:, 0]
    return [x[i] for i in range(len(x))]


def with_others(p):
    return np.arange(len(p)) * p[:, 0] + np.linalg.norm(p, axis=1) * np.arange(p.shape[0])


def of_all(p):
    return p[:, 0] / np.max(p[:, 0]) + p[:, 1].mean()


def whole_parts(p):
    fraction, whole = np.modf(p[:, 0])
    return fraction - whole * p[:, 1]


def unpacked(p):
    x, y = p.T
    return x - y


FUNCTIONS = [
    separate, turned_on, filled_in, changed_in_place, one_by_one, by_number, with_others, of_all,
    whole_parts, unpacked, lambda p: jnp.sin(p[:, 0]) * p[:, 1], lambda p: 3,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_are_those_at_plain_points(function):
    x = points()
    found = function_values(function, gridded(x, BOXES, COUNTS))
    np.testing.assert_allclose(found, function_values(function, x), rtol=1e-15, atol=1e-15)


def test_three_axes_have_their_own_order():
    boxes, counts = (2, 3, 2), (4, 5, 6)
    x = points(boxes, counts)
    on = gridded(x, boxes, counts)
    for i in range(3):
        np.testing.assert_array_equal(np.asarray(along_axes(lambda p, i=i: p[:, i], on)), x[:, i])
    numbers = np.random.default_rng(0).standard_normal(len(x))
    back = on.lattice.at_points(on.lattice.on_grid(numbers))
    np.testing.assert_array_equal(back, numbers)


def test_a_function_of_one_axis_is_taken_along_it_only():
    sizes = []

    def counted(p):
        along = np.sin(p[:, 0])
        both = along * p[:, 1]
        sizes.extend([along._values.size, both._values.size])
        return both

    assert isinstance(along_axes(counted, gridded(points(), BOXES, COUNTS)), Along)
    assert sizes == [30, 30 * 48]


def test_some_points_of_a_grid_are_plain_and_few_are_not_worth_it(monkeypatch):
    x = gridded(points(), BOXES, COUNTS)
    assert along_axes(separate, x[::2]) is None
    assert along_axes(separate, np.asarray(x)) is None
    monkeypatch.setattr(lattice, "MANY", len(x) + 1)
    assert along_axes(separate, x) is None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda p: p[:, 5], "fails, index 5"),
        (lambda p: p, "returned shape"),
        (lambda p: None, "returned None"),
        (lambda p: 1 / (p[:, 0] - p[0, 0]), "is inf at the point"),
        (lambda p: 1.0 if p[:, 0] > 0 else 0.0, "ambiguous"),
    ],
)
def test_mistakes_are_named_as_ever(function, message):
    with pytest.raises((TypeError, ValueError), match=message), np.errstate(divide="ignore"):
        function_values(function, gridded(points(), BOXES, COUNTS))


def test_a_value_and_its_derivatives_are_one_program():
    def square(p):
        return p[:, 0] ** 2 * jnp.sin(p[:, 1])

    x = points()
    found = derivatives(square, [(0, 0), (1, 0)], gridded(x, BOXES, COUNTS))
    np.testing.assert_allclose(found[0, 0], x[:, 0] ** 2 * np.sin(x[:, 1]), rtol=1e-14)
    np.testing.assert_allclose(found[1, 0], 2 * x[:, 0] * np.sin(x[:, 1]), rtol=1e-14)
