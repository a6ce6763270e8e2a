"""Single cells: well conditioned in a filtered draw, answering what comes in, equal where they are
equal."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from problems import PAST, PLANE, SMOOTH, stated, waves
from tessella.cells.boxes import slots
from tessella.cells.boxes.basis import default_features
from tessella.cells.boxes.tree import WHOLE
from tessella.cells.cell.draw import DRAWS, Slot, drawn, unfiltered
from tessella.cells.factoring import factor_cells
from tessella.cells.maps import singles
from tessella.cells.maps.family import Family
from tessella.cells.system.system import cell_system
from tessella.geometry.functions import derivatives
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.factored import Watching

LAPLACE, D = ts.Laplacian(), ts.D
OPERATORS = {
    "laplace": LAPLACE,
    "helmholtz": LAPLACE + 400,
    "wind": D(x=1) - 1e-3 * LAPLACE,
    "stretched": D(x=2) + 100 * D(y=2),
    "variable": (lambda p: 1 + p[:, 0] ** 2) * LAPLACE,
    "heat": D(y=1) - D(x=2),
}


def factored(problem, subdomains=3, features=40, sigma=1e-14, **keywords):
    tiling = ts.Tiling(problem.domain, subdomains)
    basis = ts.CellBasis(tiling, default_features(features, problem.domain.dimension), **keywords)
    return factor_cells(cell_system(problem, basis, ts.Grid(2.0)), ts.RRQR(sigma), None)


def free(operator, *more):
    return ts.Problem(PLANE, ts.Equation(operator), [ts.Dirichlet(), *more])


# --- the filter of a draw


@pytest.mark.parametrize("count", [20, 60, 150])
def test_a_filtered_draw_is_orthonormal_in_its_own_rows(count):
    features = default_features(count, 2)
    one = drawn(features, features.draw(1, 2, seed=0), 0)
    inner = (slots.inside((14, 14)), (((0, 2), 0), ((2, 0), 0)))
    faces = [
        (slots.on_face((14,), (axis, side, WHOLE)), (((0, 0), 3), ((1 - axis, axis), 2)))
        for axis in (0, 1)
        for side in (0, 1)
    ]
    draw = DRAWS.get(one, (inner, *faces), 1e-10)
    rows = [
        2.0**power * np.sqrt(slot.weights)[:, None] * draw.table(slot, alpha)
        for slot, wanted in (inner, *faces)
        for alpha, power in wanted
    ]
    Q = np.concatenate(rows)
    np.testing.assert_allclose(Q.T @ Q, np.eye(draw.columns), atol=1e-5)
    assert draw.columns <= count + 1
    assert draw.condition[1] <= draw.condition[0] and draw.condition[1] <= 1e10
    assert DRAWS.get(one, (inner, *faces), 1e-10) is draw, "filtered once"


def test_a_filtered_draw_is_made_of_its_features():
    features = default_features(30, 2)
    one = drawn(features, features.draw(1, 2, seed=3), 0)
    slot = slots.inside((9, 9))
    draw = DRAWS.get(one, ((slot, (((0, 0), 0),)),), 1e-4)
    assert draw.columns < one.columns
    a = np.random.default_rng(0).standard_normal((draw.columns, 2))
    expected = one.table(slot, (1, 0)) @ draw.coefficients(a)
    size = np.abs(draw.coefficients(a)).max()
    np.testing.assert_allclose(draw.table(slot, (1, 0)) @ a, expected, atol=1e-12 * size)


@pytest.mark.parametrize("sigma", [None, 1e-4], ids=["as drawn", "filtered"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("activation", ["sin", "tanh"])
def test_derivatives_are_combined_as_their_tables_are(activation, depth, sigma, rng):
    """At more points than are evaluated together."""
    features = ts.RandomFeatures(20, depth, activation, scale=3.0)
    one = drawn(features, features.draw(1, 2, seed=1), 0)
    asked = ((slots.inside((9, 9)), (((0, 0), 0),)),)
    draw = unfiltered(one) if sigma is None else DRAWS.get(one, asked, sigma)
    slot = Slot(rng.uniform(-1, 1, (300, 2)), np.ones(300))
    for alphas in ([(2, 0), (0, 2)], [(0, 0), (1, 0), (1, 1)], [(1, 0)]):
        symbol = {alpha: rng.standard_normal(300) for alpha in alphas}
        found = np.empty((draw.columns, 300))
        draw.combined(slot, symbol, found)
        tables = draw.tables(slot, alphas)
        expected = sum(c[:, None] * tables[alpha] for alpha, c in symbol.items())
        np.testing.assert_allclose(found.T, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("features", [40, 150])
def test_rows_of_cells_are_well_conditioned_where_features_are_not(name, features):
    found = factored(free(OPERATORS[name]), features=features)
    kappa = found.conditions()
    assert kappa["M"] > 1e4 and kappa["preconditioned"] < 10
    assert all(isinstance(own, Family) for own in found.mapped), "no QR of their own"


def test_a_plate_is_conditioned_well_too():
    kappa = factored(free(LAPLACE @ LAPLACE, ts.Neumann()), features=150).conditions()
    assert kappa["M"] > 1e9 and kappa["preconditioned"] < 100


# --- maps


@pytest.mark.parametrize("name", OPERATORS)
def test_maps_are_finite_and_moderate(name):
    for own in factored(free(OPERATORS[name])).mapped:
        assert np.max(np.linalg.norm(own.T, 2, axis=(1, 2))) < 30


@pytest.mark.parametrize(("features", "slack"), [(40, 1e-4), (150, 1e-6)])
def test_laplace_reflects_no_more_than_comes_in(features, slack):
    """The Robin data of a harmonic function lose 4 kappa |grad u|^2 on their way; a constant loses
    nothing, and only cells with a wall of their own lose it."""
    found = factored(free(LAPLACE), features=features)
    sizes = {
        int(found.kinds[k].members[0]): np.linalg.norm(T, 2)
        for own in found.mapped
        for k, T in zip(own.numbers, own.T, strict=True)
    }
    inner = sizes.pop(4)
    assert inner == pytest.approx(1.0, abs=slack)
    assert max(sizes.values()) < 0.95


def test_a_cell_answers_as_the_function_that_comes_in_does():
    """Incoming data of u = exp(x) cos(y) make it go out: for every face, value and slope."""

    def harmonic(p):
        return jnp.exp(p[:, 0]) * jnp.cos(p[:, 1])

    found = factored(free(LAPLACE), features=150)
    kind = next(k for k in range(9) if found.kinds[k].members[0] == 4)
    ports = found.kinds[kind].ports
    (T,) = (own.T[own.numbers == kind][0] for own in found.mapped if kind in own.numbers)
    tiling = found.system.cells
    taken, given = [], []
    for port in ports:
        x = tiling.centres[4] + port.slot.points * tiling.half_widths[4]
        root = np.sqrt(port.slot.weights)
        alpha = tuple(int(i == port.axis) for i in range(2))
        slope = np.asarray(derivatives(harmonic, [alpha], x)[alpha])
        for data, modes, into in (
            (port.taken, port.modes_taken, taken),
            (port.given, port.modes_given, given),
        ):
            ((value, flux),) = [d.terms for d in data]
            datum = value.factor * harmonic(x) + flux.factor * slope / port.kappa
            into.append(modes[0].T @ (root * np.asarray(datum)))
    out = T @ np.concatenate(taken)
    np.testing.assert_allclose(out, np.concatenate(given), atol=1e-8)


def test_a_cell_whose_map_is_not_finite_is_named_by_its_place():
    found = factored(free(LAPLACE))
    inner = next(own for own in found.mapped if own.cells[0] == 4)
    broken = dataclasses.replace(inner, T=np.full_like(inner.T, np.nan))
    singles.check_finite(found.system, found.mapped)
    with pytest.raises(ValueError, match=r"the subdomain around \(1, 0\) cannot match incoming"):
        singles.check_finite(found.system, [*found.mapped, broken])


# --- equal cells


@pytest.mark.parametrize(
    ("problem", "subdomains", "count"),
    [
        (SMOOTH, (6, 5), 9),
        (SMOOTH, (2, 7), 6),
        (free((lambda p: 1 + p[:, 1] ** 2) * LAPLACE), (4, 5), 3 * 5),
        (free((lambda p: 1 + p[:, 0] * p[:, 1]) * LAPLACE), (4, 4), 16),
        (
            ts.Problem(
                PAST, ts.Equation(D(t=1) - D(x=2)), [ts.Initial(lambda p: p[:, 0]), ts.Dirichlet()]
            ),
            (5, 6),
            9,
        ),
        (ts.Problem(PLANE, SMOOTH.equations, [ts.Dirichlet(on="xmin"), ts.Periodic("y")]), 4, 3),
    ],
    ids=["square", "two columns", "by rows", "all different", "heat", "tube"],
)
def test_cells_with_the_same_numbers_are_one_kind(problem, subdomains, count):
    found = factored(problem, subdomains, 12)
    assert len(found.kinds) == sum(len(own.numbers) for own in found.mapped) == count
    members = np.concatenate([kind.members for kind in found.kinds])
    assert sorted(members.tolist()) == list(range(found.system.cells.count))


def test_kinds_that_take_and_give_as_much_are_mapped_together():
    found = factored(SMOOTH, (6, 5), 12)
    assert sorted(len(own.numbers) for own in found.mapped) == [1, 4, 4], "inside, sides, corners"


def test_draws_of_their_own_make_cells_different():
    assert len(factored(SMOOTH, 4, 12, shared=False).kinds) == 16


def test_measurements_at_equal_places_of_equal_cells_are_told_apart():
    """Each belongs to a row of its own."""
    points = np.linspace(0, 1, 9)
    problem = ts.Problem(
        ts.Box(x=(0, 1)),
        ts.Equation(D(x=2) + 4.0),
        [ts.Measured(points, np.sin(2 * points))],
        exact=lambda x: np.sin(2 * x[:, 0]),
    )
    report = ts.solve(
        problem, subdomains=8, features=16, coupling="interfaces", estimate=False
    ).report
    assert report.error["max"] < 1e-9


# --- right-hand sides


def test_factors_serve_other_right_hand_sides():
    def other(p):
        return jnp.cos(2 * p[:, 0]) * p[:, 1]

    first = factored(SMOOTH, features=60)
    problem = stated(PLANE, -LAPLACE, other, ts.Dirichlet(other))
    basis = first.system.basis
    system = cell_system(problem, basis, ts.Grid(2.0))
    renewed = first.renewed(system)
    assert renewed.mapped is first.mapped and renewed.joined is first.joined
    anew = factor_cells(system, ts.RRQR(1e-14), None)
    solved = [f.solve(Stopwatch(), Watching(problem, basis)).a for f in (renewed, anew)]
    np.testing.assert_array_equal(*solved)


@pytest.mark.parametrize(
    "other",
    [
        stated(PLANE, -2 * LAPLACE, waves, ts.Dirichlet(waves)),
        stated(PLANE, -LAPLACE, waves, ts.Neumann(0.0)),
        stated(PLANE, -LAPLACE, waves, ts.Dirichlet(waves, weight=3.0)),
    ],
    ids=["operator", "condition", "weight"],
)
def test_factors_of_another_matrix_are_not_taken(other):
    first = factored(SMOOTH, features=12)
    system = cell_system(other, first.system.basis, ts.Grid(2.0))
    assert first.renewed(system) is None
    again = dataclasses.replace(first.system, problem=SMOOTH)
    assert first.renewed(again).mapped is first.mapped
