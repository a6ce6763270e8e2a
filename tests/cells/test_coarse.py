"""The coarse level of an exchange: it solves for long waves, so that iterations do not grow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.cells.factors import CellFactors
from tessella.cells.joins import exchanged as exchanged_module
from tessella.cells.joins.exchanged import Exchanged
from tessella.cells.solvers import Exchange
from tessella.cells.system import ports

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
AT = np.random.default_rng(3).random((300, 2))


def source(x):
    return jnp.sin(7 * x[:, 0]) * jnp.exp(x[:, 1])


def wavy(x):
    return 1 + 0.5 * jnp.sin(5 * x[:, 0]) * jnp.cos(4 * x[:, 1])


def poisson(operator=None, domain=SQUARE):
    operator = -ts.Laplacian() + wavy * ts.Identity() if operator is None else operator
    return ts.Problem(domain, ts.Equation(operator, source), [ts.Dirichlet(0.0)])


WALLS = [ts.Periodic("x"), ts.Dirichlet(0.0, on="ymin"), ts.Dirichlet(0.0, on="ymax")]
RING = ts.Problem(
    SQUARE, ts.Equation(-ts.Laplacian(), lambda x: jnp.sin(2 * jnp.pi * x[:, 0])), WALLS
)


def solved(problem, subdomains=8, features=60, **choices):
    solver = Exchange(tolerance=1e-13, **choices)
    return ts.solve(
        problem, subdomains=subdomains, features=features, coupling="interfaces", solver=solver,
        estimate=False,
    )  # fmt: skip


def exchanged(problem, subdomains=4, features=40, group=1, coarse=True) -> Exchanged:
    factored = ts.factor(
        problem, subdomains=subdomains, features=features, coupling="interfaces",
        solver=Exchange(tolerance=1e-13, group=group, coarse=coarse),
    )  # fmt: skip
    assert isinstance(factored.ready, CellFactors)
    assert isinstance(factored.ready.joined, Exchanged)
    return factored.ready.joined


@pytest.mark.parametrize("group", [1, 4, 16])
def test_iterations_do_not_grow_with_the_number_of_cells(group):
    few, many = (solved(poisson(), n, group=group).report.iterations for n in (6, 24))
    assert many <= few + 2
    alone = [solved(poisson(), n, group=group, coarse=False).report.iterations for n in (6, 24)]
    assert alone[1] > 1.5 * alone[0] and alone[1] > 2 * many


@pytest.mark.parametrize(
    ("problem", "subdomains"),
    [
        (poisson(), (6, 5)),
        (poisson(ts.Laplacian() + 20.0**2 * ts.Identity()), 8),
        (RING, (3, 4)),
        (poisson(domain=SQUARE - ts.Ball(x=0.5, y=0.5, radius=0.2)), 6),
        (poisson(-0.01 * ts.Laplacian() + ts.D(x=1)), 8),
    ],
    ids=["plane", "waves", "ring of three", "cut", "carried"],
)
@pytest.mark.parametrize("group", [1, 4])
def test_it_finds_what_neighbours_find_alone(problem, subdomains, group):
    one, other = (
        solved(problem, subdomains, 80, group=group, coarse=coarse) for coarse in (True, False)
    )
    assert one.report.iterations < other.report.iterations
    at = AT[problem.domain.contains(AT)]
    exact = np.asarray(other(at))
    assert np.max(np.abs(one(at) - exact)) <= 1e-8 * np.max(np.abs(exact))


def test_every_unknown_has_long_waves():
    u, v = ts.Field("u"), ts.Field("v")
    equations = [
        ts.Equation(-ts.Laplacian() @ u + 3 * v, 1.0, name="first"),
        ts.Equation(-ts.Laplacian() @ v - 2 * u, source, name="second"),
    ]
    walls = [ts.Dirichlet(of=u), ts.Dirichlet(of=v)]
    problem = ts.Problem(SQUARE, equations, walls, fields=("u", "v"))
    one = exchanged(problem, 3).order
    single = exchanged(poisson(), 3).order
    assert one.size == 2 * single.size and one.long.sum() == 2 * single.long.sum()
    found = [solved(problem, n).report.iterations for n in (4, 12)]
    assert found[1] <= found[0] + 3


@pytest.mark.parametrize("group", [1, 4])
def test_with_all_waves_it_is_the_inverse(monkeypatch, group):
    monkeypatch.setattr(ports, "LONG", 1.0)
    joined = exchanged(poisson(), subdomains=(4, 5), group=group)
    assert joined.order.long.all()
    assert len(joined.trial(10).history) <= 2


@pytest.mark.parametrize("group", [1, 4])
def test_forth_and_back_are_transposed(group):
    joined = exchanged(poisson(), group=group)
    level, random = joined._helping.level, np.random.default_rng(1)
    size = sum(own.taken.size for own in joined._sides[0].groups)
    x, y = random.standard_normal((2, size))
    assert level.solve(x) @ y == pytest.approx(x @ level.solve_back(y), rel=1e-12)
    assert not np.allclose(level.solve(x), x)


def sharp(x):
    return 1 + 1e4 * jax.nn.sigmoid(60 * (x[:, 0] - 0.5)) * jax.nn.sigmoid(60 * (x[:, 1] - 0.5))


MISLEADING = {
    "contrast": (
        poisson(-(ts.D(x=1) @ (sharp * ts.D(x=1)) + ts.D(y=1) @ (sharp * ts.D(y=1)))),
        (8, 80),
    ),
    "waves of few features": (poisson(ts.Laplacian() + 35.97476**2 * ts.Identity()), (8, 40)),
    "too long waves": (poisson(ts.Laplacian() + 51.1515**2 * ts.Identity()), (7, 60)),
}


@pytest.mark.parametrize("name", MISLEADING)
def test_a_level_that_misleads_is_left_out(name):
    problem, sizes = MISLEADING[name]
    one, other = (solved(problem, *sizes, coarse=coarse) for coarse in (True, False))
    assert one.report.stop_reason.startswith("converged")
    assert one.report.iterations <= other.report.iterations + exchanged_module.SOON + 20
    exact = np.asarray(other(AT))
    assert np.max(np.abs(one(AT) - exact)) <= 1e-8 * np.max(np.abs(exact))


def test_what_misled_once_is_not_asked_again():
    problem, (cells, features) = MISLEADING["contrast"]
    joined = exchanged(problem, cells, features)
    assert joined.coarse_order is not None
    joined.trial(500)
    assert joined.coarse_order is None


def test_a_level_that_hardly_determines_what_it_closes_is_left_out():
    resonant = poisson(ts.Laplacian() + 29.49472294268076**2 * ts.Identity())
    assert exchanged(resonant, 6, 40, group=4).coarse_order is None


def test_progress_goes_on_where_a_level_is_left_out():
    problem, (cells, features) = MISLEADING["contrast"]
    joined, seen = exchanged(problem, cells, features), []
    joined.trial(500, lambda *at: seen.append(at[:2]))
    assert seen == [(k + 1, 500) for k in range(len(seen))] and len(seen) > exchanged_module.SOON


def test_its_memory_counts():
    with_level, without = (exchanged(poisson(), 8, coarse=coarse).bytes for coarse in (True, False))
    assert without == 0 < with_level


def test_whether_there_is_one_is_said_by_yes_or_no():
    with pytest.raises(ValueError, match="coarse must be True or False, got 'no'"):
        Exchange(coarse="no")
