"""Which way of joining is taken: foretold by size, tried before it is trusted."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from problems import PLANE, SMOOTH
from tessella.cells import factoring
from tessella.cells.joins import choosing
from tessella.cells.joins.exchanged import Exchanged
from tessella.cells.maps.leaves import map_bytes
from tessella.cells.solvers import ROUNDING, Exchange, Merging
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.factored import Watching
from tessella.solving.method import Method
from tessella.solving.ways import way

SPACE = ts.Box(x=(0, 1), y=(0, 1), z=(0, 1))


def varying(p):
    return 2 + jnp.sin(3 * p[:, 0]) * jnp.cos(2 * p[:, 1])


def in_space(cells, features=100):
    """A coefficient that varies, so that no two cells are alike."""
    equation = ts.Equation(-ts.Laplacian() + varying * ts.Identity(), 1.0)
    problem = ts.Problem(SPACE, equation, [ts.Dirichlet(0.0)])
    return problem, {"subdomains": cells, "features": features, "coupling": "interfaces"}


@pytest.fixture
def eager(monkeypatch):
    """Every exchange is thought to be soonest, however small the problem."""
    monkeypatch.setattr(choosing, "_merging", lambda *_: 100.0)


def test_in_space_an_exchange_is_sooner_and_as_good():
    problem, choices = in_space(4)
    taken = ts.solve(problem, estimate=False, **choices)
    assert taken.report.solver == "exchange" and taken.report.iterations < 60
    assert taken.report.solver_note.startswith("sooner than merging all: about ")
    direct = ts.solve(problem, estimate=False, solver="merging", **choices)
    x = SPACE.grid((7, 7, 7))
    np.testing.assert_allclose(taken(x), direct(x), atol=1e-12 * np.abs(direct(x)).max())


def test_many_right_hand_sides_are_worth_merging():
    problem, choices = in_space(4)
    assert ts.factor(problem, **choices).ready.solver == Merging()


def test_small_problems_are_merged_at_once(monkeypatch):
    """Nobody thinks of groups, which takes time too."""
    monkeypatch.setattr(choosing, "front_of", None)
    report = ts.solve(SMOOTH, subdomains=3, features=24, coupling="interfaces").report
    assert report.solver == "merging" and report.solver_note.startswith("direct: about")


def test_a_solution_of_groups_is_judged_as_a_direct_one_is(eager):
    """It ends at rounding errors, so a second opinion is asked for by itself."""
    report = ts.solve(SMOOTH, subdomains=4, features=60, coupling="interfaces").report
    assert report.solver == "exchange" and report.error_estimate is not None
    assert report.error["l2_relative"] < 10 * report.error_estimate


def test_sums_over_all_cells_are_merged(eager):
    """A mean couples all of them."""
    problem = ts.Problem(PLANE, ts.Equation(-ts.Laplacian(), 0.0), [ts.Neumann(), ts.MeanZero()])
    report = ts.solve(problem, subdomains=3, features=40, coupling="interfaces").report
    assert report.solver == "merging"


def helmholtz(square):
    """On a square of side pi: k^2 = 5 is an eigenvalue, with sin x sin 2y and sin 2x sin y."""
    box = ts.Box(x=(0, np.pi), y=(0, np.pi))

    def source(p):
        return np.sin(p[:, 0]) * np.sin(p[:, 1])

    return ts.Problem(box, ts.Equation(ts.Laplacian() + square, source), [ts.Dirichlet(0.0)])


def test_an_eigenvalue_is_noticed_though_the_data_do_not_see_it(eager):
    """The right-hand side is another eigenfunction: an iteration solves for it, and knows nothing
    of what it leaves open. Random data do."""
    choices = {"subdomains": 4, "features": 200, "coupling": "interfaces", "estimate": False}
    report = ts.solve(helmholtz(5.0), **choices).report
    assert report.solver == "merging" and "may not be unique" in report.solver_note
    assert "an exchange was tried before, and did not settle" in report.solver_note
    beside = ts.solve(helmholtz(4.5), **choices)
    assert beside.report.solver == "exchange" and "unique" not in beside.report.solver_note
    x = np.array([[1.0, 2.0]])
    np.testing.assert_allclose(beside(x), np.sin(1) * np.sin(2) / 2.5, rtol=1e-6)


def test_what_does_not_settle_is_merged(eager, monkeypatch):
    monkeypatch.setattr(Exchanged, "settles", lambda *_: False)
    x = PLANE.grid((9, 9))
    choices = {"subdomains": 4, "features": 40, "coupling": "interfaces", "estimate": False}
    taken, direct = ts.solve(SMOOTH, **choices), ts.solve(SMOOTH, solver="merging", **choices)
    assert taken.report.solver == "merging"
    np.testing.assert_array_equal(taken(x), direct(x))


@pytest.mark.parametrize("group", [1, 4, 9])
def test_groups_may_be_asked_for(group):
    solver = Exchange(tolerance=1e-13, group=group)
    choices = {"subdomains": 6, "features": 40, "coupling": "interfaces", "estimate": False}
    taken, direct = (ts.solve(SMOOTH, solver=s, **choices) for s in (solver, "merging"))
    x = PLANE.grid((9, 9))
    np.testing.assert_allclose(taken(x), direct(x), atol=1e-11)


def test_larger_groups_take_fewer_iterations():
    made = [
        ts.solve(
            SMOOTH, subdomains=8, features=40, coupling="interfaces", estimate=False,
            solver=Exchange(tolerance=1e-12, group=group),
        ).report.iterations
        for group in (1, 4, 16)
    ]  # fmt: skip
    assert made[0] > made[1] > made[2]


def test_an_exchange_that_ends_at_rounding_is_not_called_iterative():
    assert Exchange().iterative and not Exchange(tolerance=ROUNDING).iterative


@pytest.mark.parametrize("group", [0, -1, 1.5, "4"])
def test_groups_of_no_cells_are_refused(group):
    with pytest.raises(ValueError, match="group must be a whole number of at least 1, got"):
        Exchange(group=group)


def test_saved_factors_of_groups_solve_again(tmp_path):
    choices = {"subdomains": 4, "features": 40, "coupling": "interfaces"}
    factored = ts.factor(SMOOTH, solver=Exchange(tolerance=1e-13, group=4), **choices)
    factored.save(tmp_path / "groups.npz")
    x = PLANE.grid((9, 9))
    np.testing.assert_allclose(
        ts.load(tmp_path / "groups.npz").solve()(x), factored.solve()(x), atol=1e-13
    )


# --- factors that serve one right-hand side


def varying_plane():
    """Sixteen different cells."""
    equation = ts.Equation(-ts.Laplacian() + varying * ts.Identity(), lambda p: p[:, 0])
    return ts.Problem(PLANE, equation, [ts.Dirichlet(lambda p: p[:, 1])])


def factored_for(right_sides, monkeypatch):
    monkeypatch.setattr(factoring, "MUCH", -1)
    choices = {"subdomains": 4, "features": 60, "coupling": "interfaces"}
    problem = varying_plane()
    parts = dataclasses.replace(Method(**choices).parts(problem), right_sides=right_sides)
    system = way(parts.basis).assemble(problem, parts)
    ready = way(parts.basis).factor(system, parts, Stopwatch())
    return ready, ready.solve(Stopwatch(), Watching(problem, parts.basis, None, None, False)).a


def test_factors_for_one_right_hand_side_are_not_kept(monkeypatch):
    """The same coefficients, from a fraction of the memory, and for nothing else."""
    (one, a), (many, b) = (factored_for(n, monkeypatch) for n in (1, 50))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    assert one.once and not many.once
    r = one.mapped[0].columns
    assert many.bytes - one.bytes == 8 * 16 * r * (r - 1)
    assert many.renewed(many.system) is not None and one.renewed(one.system) is None
    with pytest.raises(AssertionError, match="serve one right-hand side"):
        one.many(np.zeros((2, len(one.system.right))))


def test_equal_cells_keep_their_factor(monkeypatch):
    """One factor serves the right-hand sides of many cells."""
    monkeypatch.setattr(factoring, "MUCH", -1)
    x = PLANE.grid((9, 9))
    choices = {"subdomains": 5, "features": 40, "coupling": "interfaces"}
    taken, kept = ts.solve(SMOOTH, estimate=False, **choices), ts.factor(SMOOTH, **choices).solve()
    np.testing.assert_allclose(taken(x), kept(x), atol=1e-12)


def test_memory_of_maps_without_factors_is_foretold(monkeypatch):
    ready, _ = factored_for(1, monkeypatch)
    kept = map_bytes(ready.kinds, ready.system.asked)
    less = map_bytes(ready.kinds, ready.system.asked, once=True)
    r = ready.mapped[0].columns
    assert kept - less == 8 * 16 * r * (r - 1)
    assert sum(own.bytes for own in ready.mapped) < less
