"""Periodic axes: exact at the seam, blind to where the seam is, refused where senseless."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.features.random_features import Layer
from tessella.linalg.solvers import by_name
from tessella.networks.fit import as_basis, least_squares
from tessella.networks.network import initial_parameters
from tessella.overlap.system import assemble

TURN = 2 * np.pi


def wave(x):
    return jnp.exp(jnp.sin(TURN * x[:, 0]))


def helmholtz_rhs(x):
    s, c = np.sin(TURN * x[:, 0]), np.cos(TURN * x[:, 0])
    return np.exp(s) * (5.0 - TURN**2 * (c**2 - s))


def helmholtz(rhs=helmholtz_rhs, exact=wave, conditions=()):
    return ts.Problem(
        ts.Box(x=(0, 1)),
        ts.Equation(-ts.D(x=2) + 5.0, rhs),
        [ts.Periodic("x"), *conditions],
        exact=exact,
    )


def plane_wave(x):
    return np.sin(TURN * x[:, 0]) * np.cos(TURN * x[:, 1])


def poisson():
    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        ts.Equation(-ts.Laplacian(), lambda x: 2 * TURN**2 * plane_wave(x)),
        [ts.Periodic("x"), ts.Periodic("y"), ts.MeanZero()],
        exact=plane_wave,
    )


def ends(domain, axis, count=9):
    """The same places seen from both ends of a periodic axis."""
    share = np.random.default_rng(1).random((count, domain.dimension))
    low = domain.lower + share * (domain.upper - domain.lower)
    high = low.copy()
    low[:, axis], high[:, axis] = domain.bounds[axis]
    return low, high


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_poisson_on_a_torus_in_two_dimensions(coupling):
    solution = ts.solve(poisson(), subdomains=3, features=100, coupling=coupling, estimate=False)
    assert solution.report.error["l2_relative"] < 1e-8
    for axis in (0, 1):
        low, high = ends(solution.problem.domain, axis)
        for operator in (ts.Identity(), ts.D(x=1), ts.D(y=1), ts.D(x=2), ts.D(x=1, y=1)):
            assert np.array_equal(solution.apply(operator, low), solution.apply(operator, high))


@pytest.mark.parametrize(
    ("coupling", "subdomains"), [("overlap", 2), ("overlap", 5), ("interfaces", 2)]
)
def test_helmholtz_on_a_circle(coupling, subdomains):
    """Two subdomains are the fewest: side by side they share two faces."""
    solution = ts.solve(
        helmholtz(), subdomains=subdomains, features=40, coupling=coupling, estimate=False
    )
    assert solution.report.error["l2_relative"] < 1e-8


def test_a_periodic_solution_is_smooth_across_the_seam():
    """With windows nothing jumps, whatever the coefficients: one-sided limits agree."""
    solution = ts.solve(helmholtz(), subdomains=3, features=8, estimate=False)
    step = 1e-9
    for operator in (ts.Identity(), ts.D(x=1), ts.D(x=2)):
        before, after = solution.apply(operator, [[1 - step], [step]])
        slope = solution.apply(ts.D(x=1) @ operator, [[0.0]])[0]
        assert after - before == pytest.approx(2 * step * slope, abs=1e-8 + 1e-6 * abs(slope))


def shared(problem, S):
    """A basis whose subdomains have all the same draw."""
    features = ts.RandomFeatures(20)
    one = features.draw(1, 1, seed=3)[0]
    layer = Layer(*(np.repeat(array, S, axis=0) for array in one))
    return ts.Basis(ts.Decomposition(problem.domain, S), features).with_layers((layer,))


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_shifting_the_data_by_a_subdomain_shifts_the_solution(coupling):
    S = 4
    first = helmholtz()
    second = helmholtz(lambda x: helmholtz_rhs((x - 1 / S) % 1.0), exact=None)
    found = []
    for problem in (first, second):
        if coupling == "overlap":
            basis, sigma, solver = shared(problem, S), 1e-10, "nested-qr"
        else:
            basis = ts.CellBasis(
                ts.Tiling(problem.domain, S), ts.RandomFeatures(20, activation="sin")
            )
            sigma, solver = 1e-14, "merging"
        found.append(
            ts.solve(problem, basis=basis, filter=ts.RRQR(sigma), solver=solver, estimate=False)
        )
    x = np.linspace(0, 1, 50, endpoint=False)[:, None]
    moved = found[1]((x + 1 / S) % 1.0)
    # The elimination begins elsewhere, so rounding differs; the discretisation does not.
    assert np.allclose(moved, found[0](x), atol=1e-9, rtol=0)
    assert np.max(np.abs(found[0](x) - wave(x))) < 1e-4


def test_equal_subdomains_of_a_torus_are_all_of_one_kind():
    solution = ts.solve(poisson(), subdomains=3, features=30, coupling="interfaces", estimate=False)
    assert solution.report.distinct_subdomains == 1


def test_a_wave_carried_once_around_returns_to_its_start():
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(ts.D(t=1) + ts.D(x=1)),
        [ts.Periodic("x"), ts.Initial(lambda x: np.exp(np.sin(TURN * x[:, 0])))],
    )
    solution = ts.solve(problem, subdomains=3, features=150, coupling="interfaces", estimate=False)
    x = np.linspace(0, 1, 60)
    start, end = (solution(np.stack([x, np.full_like(x, t)], axis=1)) for t in (0.0, 1.0))
    assert np.max(np.abs(end - start)) < 1e-5


def test_tol_divides_every_periodic_axis():
    """A long thin torus: along the short axis one subdomain would be enough, but not allowed."""
    problem = ts.Problem(
        ts.Box(x=(0, 4), y=(0, 1)),
        ts.Equation(-ts.Laplacian() + 1.0, lambda x: np.cos(TURN * x[:, 1])),
        [ts.Periodic("y"), ts.Neumann()],
    )
    solution = ts.solve(problem, tol=1e-2)
    assert solution.report.stop_reason == "tolerance met"
    assert all(step.subdomains[1] >= 2 for step in solution.report.refinement)


def test_tol_needs_no_conditions_where_every_axis_is_periodic():
    solution = ts.solve(helmholtz(), tol=1e-8)
    assert solution.report.error["l1_normalised"] < 1e-7


def test_direct_and_iterative_solvers_agree():
    problem = helmholtz()
    found = []
    for name in ("nested-qr", "rrqr-lsqr"):
        rule, solver = by_name(name, 1e-4)
        found.append(
            ts.solve(
                problem, subdomains=4, features=10, filter=rule, solver=solver, estimate=False
            ).coefficients
        )
    assert np.allclose(*found, rtol=1e-5, atol=1e-6 * np.max(np.abs(found[0])))


def test_a_saved_solution_is_still_periodic(tmp_path):
    solution = ts.solve(helmholtz(), subdomains=3, features=8, estimate=False)
    loaded = ts.load(solution.save(tmp_path / "circle"))
    assert loaded.problem.domain == solution.problem.domain
    x = np.linspace(0, 1, 11)
    assert np.array_equal(loaded(x), solution(x))


def test_networks_wrap_around_and_one_network_cannot():
    """An untrained network has the residual of its features with its output layer."""
    problem = helmholtz()
    basis = ts.Basis(ts.Decomposition(problem.domain, 3), ts.RandomFeatures(4))
    rows = ts.Grid(2.0).rows(problem, basis)
    objective, _, _ = least_squares(problem, basis, rows)
    parameters = initial_parameters(basis)
    _, a = as_basis(basis, parameters)
    system = assemble(problem, basis, rows)
    expected = np.asarray(system.M.matvec(a)) - system.h
    assert np.allclose(objective.residual(parameters), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"pinn trains one network .* periodic axis 'x'.*fbpinn"):
        ts.pinn(problem)


def test_a_periodic_axis_has_no_end_in_its_grids():
    domain = ts.Box(x=(0, 1), t=(0, 2)).closed("x")
    assert np.array_equal(domain.grid((4, 1))[:, 0], [0, 0.25, 0.5, 0.75])
    assert domain.walls == ()
    assert "periodic in x" in repr(domain)
    assert ts.Box(x=(0, 1)).closed("x").over(t=(0, 2)) == domain
    assert domain != ts.Box(x=(0, 1), t=(0, 2))
    assert np.array_equal(domain.wrapped(np.array([[1.0, 2.0]])), [[0.0, 2.0]])


def refuse(message, conditions, equation=None, **more):
    equation = equation or ts.Equation(-ts.Laplacian() + 1.0)
    with pytest.raises((ValueError, TypeError), match=message):
        ts.Problem(ts.Box(x=(0, 1), y=(0, 1)), equation, conditions, **more)


def test_refusals_of_problems():
    x = ts.Periodic("x")
    with pytest.raises(ValueError, match=r"Periodic\('x'\) needs a Box.* but the domain is Ball"):
        ts.Problem(ts.Ball(x=0, y=0, radius=1), ts.Equation(ts.Identity()), [x])
    refuse("unknown axis 'z': this domain has x, y", [ts.Periodic("z")])
    refuse("axis 'x' is made periodic twice: drop one", [x, x])
    refuse(
        r"dirichlet lies on 'xmax', but the axis 'x' is periodic .*drop the condition there, or "
        r"Periodic\('x'\)",
        [x, ts.Dirichlet(on="xmax")],
    )
    refuse("neumann lies on 'xmin', but the axis 'x' is", [x, ts.Neumann(on=("ymin", "xmin"))])
    refuse(
        "dirichlet lies on all faces .* has none: drop it", [x, ts.Periodic("y"), ts.Dirichlet()]
    )

    def ramp(points):
        return points[:, 0]

    walls = [x, ts.Dirichlet()]
    place = r"it is 0 at \(0, 0\.\d+\) and 1 at the other end"
    refuse(
        f"right-hand side of 'equation' is not periodic in 'x': {place}",
        walls,
        ts.Equation(-ts.Laplacian(), ramp),
    )
    refuse(
        f"the function 'ramp' in 'equation' is not periodic in 'x': {place}",
        walls,
        ts.Equation(-ts.Laplacian() + ramp * ts.Identity()),
    )
    refuse("the derivative .* of the function", walls, ts.Equation(ts.D(x=1) @ _kink))
    refuse("value of 'dirichlet' is not periodic in 'x'", [x, ts.Dirichlet(ramp)])
    for part in ("multiplier", "offset"):
        refuse(f"ansatz's {part} is not periodic in 'x'", walls, ansatz=ts.Ansatz(**{part: ramp}))


def _kink(points):
    return points[:, 0] * (1 - points[:, 0])


def test_time_cannot_be_periodic_and_begin():
    with pytest.raises(ValueError, match="initial value lies on 'tmin', but the axis 't' is peri"):
        ts.Problem(
            ts.Box(x=(0, 1), t=(0, 1)),
            ts.Equation(ts.D(t=1)),
            [ts.Periodic("t"), ts.Initial(0.0)],
        )


def test_refusals_of_decompositions():
    problem = helmholtz()
    for coupling in ("overlap", "interfaces"):
        with pytest.raises(ValueError, match=r"one subdomain along the periodic axis 'x'.*two"):
            ts.solve(problem, subdomains=1, features=10, coupling=coupling)
    with pytest.raises(ValueError, match=r"overlap=2.9 with 2 subdomains.*at least 3 .* at most 2"):
        ts.solve(problem, subdomains=2, features=10, overlap=2.9)
    with pytest.raises(ValueError, match=r"leaves .* in no subdomain"):
        ts.solve(problem, subdomains=4, features=10, overlap=0.5)


def test_the_constant_of_a_periodic_poisson_problem_is_open():
    blind = dataclasses.replace(poisson(), exact=None)
    free = dataclasses.replace(blind, conditions=())
    with pytest.raises(ValueError, match=r"determined up to a constant.*or MeanZero\(\)"):
        ts.solve(free, tol=1e-3)
    half = ts.Problem(ts.Box(x=(0, 1), t=(0, 1)), blind.equations, [ts.Periodic("x")])
    with pytest.raises(ValueError, match="has no conditions, so its solution is not unique"):
        ts.solve(half, tol=1e-3)
