"""Factored once: other data give what a fresh solve gives, one by one and several at once."""

import dataclasses

import numpy as np
import pytest

import tessella as ts

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
CELLS = {"subdomains": 2, "features": 40, "coupling": "interfaces", "estimate": False}
OVERLAP = {"subdomains": 2, "features": 30, "estimate": False}


def poisson(rhs=1.0, walls=0.0, domain=SQUARE):
    return ts.Problem(domain, ts.Equation(-ts.Laplacian(), rhs), [ts.Dirichlet(walls)])


def bump(p):
    return np.exp(p[:, 0]) * np.cos(3 * p[:, 1])


def tilt(p):
    return p[:, 0] - 2 * p[:, 1]


def apart(one, other, n=200):
    x = one.problem.domain.scatter(n, np.random.default_rng(0))
    u, v = one(x), other(x)
    return np.max(np.abs(u - v)) / np.max(np.abs(v))


@pytest.mark.parametrize("settings", [CELLS, OVERLAP, {**OVERLAP, "solver": "rrqr-lsqr"}])
def test_other_data_give_what_a_fresh_solve_gives(settings):
    factored = ts.factor(poisson(), **settings)
    found = factored.solve(rhs=bump, values={"dirichlet": tilt})
    fresh = ts.solve(poisson(bump, tilt), **settings)
    assert apart(found, fresh) < 1e-12
    assert found.report.residual == pytest.approx(fresh.report.residual, rel=1e-6, abs=1e-14)
    assert found.problem.equations[0].rhs(SQUARE.lower[None]) == bump(SQUARE.lower[None])


@pytest.mark.parametrize(
    ("settings", "rounding"),
    [(CELLS, 1e-12), ({**CELLS, "solver": "exchange"}, 1e-12), (OVERLAP, 1e-8)],
)
def test_several_at_once_are_those_one_by_one(settings, rounding):
    """Windows leave columns that are nearly dependent, which magnify rounding."""
    factored = ts.factor(poisson(), **settings)
    together = factored.solve(rhs=[bump, 2.0, tilt], values={"dirichlet": tilt})
    columns = factored.solve(
        rhs=lambda p: np.stack([bump(p), np.full(len(p), 2.0), tilt(p)], axis=1),
        values={"dirichlet": tilt},
    )
    for i, rhs in enumerate((bump, 2.0, tilt)):
        alone = factored.solve(rhs=rhs, values={"dirichlet": tilt})
        assert apart(together[i], alone) < rounding
        assert apart(columns[i], alone) < rounding
        assert columns[i].report.residual == pytest.approx(alone.report.residual, abs=1e-10)


def test_more_than_a_batch_keep_their_order():
    factored = ts.factor(poisson(), **CELLS)
    every = factored.solve(rhs=[float(i) for i in range(70)])
    at = [(0.4, 0.7)]
    one = every[1](at)[0]
    assert [u(at)[0] for u in every] == pytest.approx([i * one for i in range(70)], rel=1e-10)


def test_on_a_shape_with_a_hole_and_an_enriched_corner():
    ring = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0, y=0, radius=0.4, name="hole")
    walls = [ts.Dirichlet(0.0, on="hole"), ts.Neumann(0.0, on="ball")]
    problem = ts.Problem(ring, ts.Equation(-ts.Laplacian(), 1.0), walls)
    settings = {**CELLS, "subdomains": 4, "features": 60, "enrichment": [ts.Corner(np.pi, 0.3)]}
    found = ts.factor(problem, **settings).solve(bump, {"dirichlet": tilt, "neumann": 0.5})
    walls = [ts.Dirichlet(tilt, on="hole"), ts.Neumann(0.5, on="ball")]
    fresh = ts.solve(ts.Problem(ring, ts.Equation(-ts.Laplacian(), bump), walls), **settings)
    assert apart(found, fresh) < 1e-12


@pytest.mark.parametrize(("settings", "rounding"), [(CELLS, 1e-12), (OVERLAP, 1e-6)])
def test_a_system_with_measurements_and_an_integral(settings, rounding):
    u, p = ts.Field("u"), ts.Field("p")

    def stated(source, walls, total, seen):
        return ts.Problem(
            SQUARE,
            [
                ts.Equation(-ts.Laplacian() @ u + p, source, name="first"),
                ts.Equation(-ts.Laplacian() @ p, 1.0, name="second"),
            ],
            [
                ts.Dirichlet(walls, of=u),
                ts.Neumann(0.0, of=p),
                ts.Integral(total, p),
                ts.Measured([(0.3, 0.4), (0.8, 0.6), (0.1, 0.9)], seen, u),
            ],
        )

    factored = ts.factor(stated(0.0, 0.0, 1.0, [0.0, 0.0, 0.0]), **settings)
    seen = np.array([[0.1, 0.3], [0.2, 0.1], [0.0, 0.4]])
    values = {"dirichlet of u": [tilt, 1.0], "integral": [0.5, 2.0], "data": seen}
    found = factored.solve({"first": [bump, 0.0]}, values)
    cases = ((bump, tilt, 0.5, seen[:, 0]), (0.0, 1.0, 2.0, seen[:, 1]))
    for own, case in zip(found, cases, strict=True):
        fresh = ts.solve(stated(*case), **settings)
        assert apart(own, fresh) < rounding
        assert own.report.residual == pytest.approx(fresh.report.residual, rel=1e-5, abs=1e-9)
        assert own.problem.conditions[3].value.values.tolist() == case[3].tolist()


@pytest.mark.parametrize("settings", [CELLS, OVERLAP])
def test_an_ansatz_keeps_its_offset(settings):
    def wall(p):
        return p[:, 0] * (1 - p[:, 0])

    def stated(rhs, top):
        return ts.Problem(
            SQUARE,
            ts.Equation(-ts.Laplacian() + 1.0, rhs),
            [ts.Dirichlet(top, on=("ymin", "ymax"))],
            ansatz=ts.Ansatz(wall, offset=lambda p: 1.0 + p[:, 0] * p[:, 1] ** 2),
        )

    found = ts.factor(stated(0.0, 0.0), **settings).solve(bump, {"dirichlet": tilt})
    assert apart(found, ts.solve(stated(bump, tilt), **settings)) < 1e-12


def test_regions_have_their_own_right_hand_sides():
    domain = ts.Divided(SQUARE, left=ts.Box(x=(-1, 0.4), y=(-1, 2)))

    def stated(left, rest):
        return ts.Problem(
            domain,
            [
                ts.Equation(-ts.Laplacian(), left, where="left", name="left"),
                ts.Equation(-3 * ts.Laplacian(), rest, where="rest", name="rest"),
            ],
            [ts.Dirichlet(0.0), *transmission(domain)],
        )

    found = ts.factor(stated(0.0, 0.0), **CELLS).solve({"left": bump, "rest": 2.0})
    assert apart(found, ts.solve(stated(bump, 2.0), **CELLS)) < 1e-12


def transmission(domain):
    left, rest = ts.Field("left"), ts.Field("rest")
    flux = ts.NormalDerivative() @ left - 3 * ts.NormalDerivative() @ rest
    return [
        ts.Condition(left - rest, 0.0, on="left/rest", name="value"),
        ts.Condition(flux, 0.0, on="left/rest", name="flux"),
    ]


def test_a_tolerance_finds_the_discretisation():
    problem = dataclasses.replace(poisson(bump), name="smooth")
    factored = ts.factor(problem, tol=1e-6)
    assert factored.refined.stop_reason == "tolerance met"
    assert factored.parts.basis.columns == factored.refined.columns
    assert apart(factored.solve(), ts.solve(problem, tol=1e-6)) < 1e-10


def test_without_data_it_is_the_problem_as_stated_with_its_error():
    problem = ts.Problem(
        SQUARE, ts.Equation(-ts.Laplacian()), [ts.Dirichlet(tilt)], exact=tilt, name="plane"
    )
    factored = ts.factor(problem, **CELLS)
    assert factored.solve().report.error["max"] < 1e-4
    assert factored.solve(rhs=1.0).report.error is None
    assert "4 subdomains" in repr(factored) and "equation, dirichlet" in repr(factored)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"rhs": ts.Laplacian()}, "'equation' got Laplacian.*change the matrix"),
        (
            {"values": {"dirichlet": ts.Neumann(0.0)}},
            "'dirichlet' got Condition.*change the matrix",
        ),
        ({"rhs": [1.0, SQUARE]}, "'equation' got Box.*change the matrix"),
        ({"values": {"dirichlets": 1.0}}, "did you mean 'dirichlet'"),
        ({"rhs": {"dirichlet": 1.0}}, "there are equation"),
        ({"rhs": [1.0, 2.0], "values": {"dirichlet": [1.0, 2.0, 3.0]}}, "equation has 2"),
        ({"rhs": []}, "empty list"),
        ({"rhs": lambda p: p[:3]}, "shape"),
        ({"rhs": lambda p: np.full(len(p), np.nan)}, "not finite"),
        ({"rhs": "one"}, "number or a function"),
    ],
)
def test_what_is_no_data_is_refused_by_its_name(data, told):
    factored = ts.factor(poisson(), subdomains=2, features=12, coupling="interfaces")
    with pytest.raises((ValueError, TypeError), match=told):
        factored.solve(**data)
