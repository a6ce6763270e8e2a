"""Several unknowns: statement, assembly, both couplings, files, every message."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from problems import manufactured
from tessella.overlap.system import assemble

u, v, p = ts.Field("u"), ts.Field("v"), ts.Field("p")
Dx, Dy, LAPLACE = ts.D(x=1), ts.D(y=1), ts.Laplacian()
SQUARE = ts.Box(x=(0, 1), y=(0, 1))
POINTS = np.random.default_rng(0).uniform(0, 1, (40, 2))


STOKES = manufactured(
    ts.Problem(
        SQUARE,
        [
            ts.Equation(-LAPLACE @ u + Dx @ p, name="momentum x"),
            ts.Equation(-LAPLACE @ v + Dy @ p, name="momentum y"),
            ts.Equation(Dx @ u + Dy @ v, name="continuity"),
        ],
        [ts.Dirichlet(of=u), ts.Dirichlet(of=v), ts.Dirichlet(of=p, on="xmin")],
        exact={
            "u": lambda x: jnp.sin(np.pi * x[:, 0]) * jnp.cos(np.pi * x[:, 1]),
            "v": lambda x: -jnp.cos(np.pi * x[:, 0]) * jnp.sin(np.pi * x[:, 1]),
            "p": lambda x: jnp.sin(2 * x[:, 0]) * jnp.cos(3 * x[:, 1]),
        },
        fields=("u", "v", "p"),
        name="stokes",
    )
)


@pytest.fixture(scope="module")
def flow():
    return ts.solve(STOKES, subdomains=2, features=60, estimate=False)


@pytest.fixture(scope="module")
def glued_flow():
    return ts.solve(STOKES, subdomains=2, features=80, coupling="interfaces")


def test_stokes_in_both_couplings(flow, glued_flow):
    assert flow.report.error["l2_relative"] < 1e-6
    assert glued_flow.report.error["l2_relative"] < 1e-4


def test_more_features_gain_decades_in_every_unknown(glued_flow):
    coarse = ts.solve(STOKES, subdomains=2, features=40, coupling="interfaces")
    exact = STOKES.exact_values(POINTS)
    worse, better = (np.abs(s(POINTS) - exact).max(axis=0) for s in (coarse, glued_flow))
    assert np.all(better < worse / 5)


def test_a_tolerance_for_a_system():
    solution = ts.solve(STOKES, tol=1e-3)
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.error["l1_normalised"] < 3e-3


def test_values_have_a_column_per_unknown(flow):
    values = flow(POINTS)
    assert values.shape == (40, 3)
    for k, name in enumerate("uvp"):
        np.testing.assert_array_equal(flow[name](POINTS), values[:, k])
        np.testing.assert_array_equal(flow.apply(ts.Field(name), POINTS), values[:, k])


def test_an_operator_of_several_unknowns_is_the_sum_of_its_parts(flow):
    divergence = flow.apply(Dx @ u + Dy @ v, POINTS)
    parts = flow["u"].apply(Dx, POINTS) + flow["v"].apply(Dy, POINTS)
    np.testing.assert_allclose(divergence, parts, atol=1e-12)
    assert np.abs(divergence).max() < 1e-4


def test_the_worst_unknown_is_the_error(flow):
    at = np.asarray(SQUARE.grid((100, 100)))
    each = np.abs(flow(at) - STOKES.exact_values(at))
    assert flow.report.error["max"] == pytest.approx(each.max(), rel=1e-6)


def test_jumps_are_told_apart(glued_flow):
    names = list(glued_flow.report.jumps)
    assert "value of p" in names and "normal derivative of u" in names
    assert "normal derivative of p" not in names, "the pressure is differentiated once only"
    assert glued_flow.report.jumps["value of p"]["max"] < 1e-2


@pytest.mark.parametrize("which", ["flow", "glued_flow"])
def test_files_keep_every_unknown(which, request, tmp_path):
    solution = request.getfixturevalue(which)
    path = solution.save(tmp_path / "flow.npz")
    np.testing.assert_array_equal(ts.load(path)(POINTS), solution(POINTS))
    np.testing.assert_array_equal(ts.load(path, problem=STOKES)["p"](POINTS), solution["p"](POINTS))


def test_unknowns_that_do_not_meet_are_solved_as_if_alone():
    f = {"u": 1.0, "v": lambda x: np.exp(x[:, 0])}
    alone = {}
    decomposition, features = ts.Decomposition(SQUARE, 2), ts.RandomFeatures(20)
    bases = {"u": ts.Basis(decomposition, features, 3), "v": ts.Basis(decomposition, features, 4)}
    grid = ts.Grid(points_per_axis=14)
    for name, basis in bases.items():
        problem = ts.Problem(SQUARE, ts.Equation(-LAPLACE, f[name]), [ts.Dirichlet(weight=100.0)])
        alone[name] = ts.solve(problem, basis=basis, collocation=grid, solver="nested-qr")
    both = ts.Problem(
        SQUARE,
        [ts.Equation(-LAPLACE @ w, f[w.name], weight=1.0) for w in (u, v)],
        [ts.Dirichlet(of=w, weight=100.0) for w in (u, v)],
    )
    together = ts.solve(both, basis=ts.Fields(**bases), collocation=grid, solver="nested-qr")
    for name, solution in alone.items():
        np.testing.assert_allclose(together[name](POINTS), solution(POINTS), rtol=1e-7, atol=1e-9)


def test_a_system_is_the_scalar_problem_of_its_only_unknown():
    named = ts.Problem(SQUARE, ts.Equation(-LAPLACE @ u, 1.0), [ts.Dirichlet(of=u)])
    plain = ts.Problem(SQUARE, ts.Equation(-LAPLACE, 1.0), [ts.Dirichlet()])
    one, other = (ts.solve(q, subdomains=2, features=20) for q in (named, plain))
    np.testing.assert_array_equal(one(POINTS), other(POINTS))
    assert one(POINTS).shape == (40,)


def test_rows_of_other_unknowns_take_no_storage():
    basis = ts.Fields(
        **{
            name: ts.Basis(ts.Decomposition(SQUARE, 2), ts.RandomFeatures(10), seed)
            for seed, name in enumerate("uvp")
        }
    )
    system = assemble(STOKES, basis, ts.Grid(2.0).rows(STOKES, basis))
    dense = system.M.to_dense()
    first = {name: 4 * 11 * k for k, name in enumerate("uvp")}
    in_continuity = dense[system.parts["continuity"]]
    assert not in_continuity[:, first["p"] :].any()
    assert in_continuity[:, : first["p"]].any(axis=1).all()
    interior = system.parts["momentum x"].stop
    largest = max(int(g.heights.max()) for g in system.M.groups if g.level == 2)
    assert largest <= 2 * interior + 50, (
        "the pressure is in two of three equations, and on one face"
    )


def test_an_ansatz_per_unknown():
    bubble = ts.Ansatz(multiplier=lambda x: x[:, 0] * (1 - x[:, 0]) * x[:, 1] * (1 - x[:, 1]))
    problem = ts.Problem(
        SQUARE,
        [ts.Equation(-LAPLACE @ u + v, 1.0), ts.Equation(-LAPLACE @ v - u, 0.0)],
        [ts.Dirichlet(2.0, of=v)],
        ansatz={"u": bubble},
    )
    solution = ts.solve(problem, subdomains=2, features=16)
    edge = np.array([[0.0, 0.3], [1.0, 0.5], [0.4, 1.0]])
    np.testing.assert_array_equal(solution["u"](edge), 0.0)
    np.testing.assert_allclose(solution["v"](edge), 2.0, atol=2e-2)


def test_traction_uses_the_normal_in_both_ways():
    """n . grad u written out is the normal derivative."""
    written = ts.Condition(ts.Normal("x") @ Dx + ts.Normal("y") @ Dy, 1.0, on="ymax")
    problems = [
        ts.Problem(SQUARE, ts.Equation(-LAPLACE + 1, 0.0), [c])
        for c in (written, ts.Neumann(1.0, "ymax"))
    ]
    one, other = (ts.solve(q, subdomains=2, features=20, sigma=1e-6) for q in problems)
    np.testing.assert_allclose(one(POINTS), other(POINTS), rtol=1e-9, atol=1e-9)


def test_an_iterative_solver_watches_the_worst_unknown():
    solution = ts.solve(
        STOKES, subdomains=2, features=20, solver=ts.LSQR(max_iterations=30), sigma=1e-8
    )
    assert solution.history.error[-1] == pytest.approx(
        solution.report.error["l1_normalised"], rel=1e-6
    )


EQUATIONS = [ts.Equation(-LAPLACE @ u + v), ts.Equation(-LAPLACE @ v)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ts.Field("not a name"), "a Field's name must be an identifier"),
        (lambda: ts.Problem(SQUARE, EQUATIONS[:1]), r"1 equation\(s\) for 2 unknowns \(u, v\)"),
        (
            lambda: ts.Problem(SQUARE, EQUATIONS, fields=("u", "v", "p")),
            "no equation contains the unknown 'p'",
        ),
        (lambda: ts.Problem(SQUARE, EQUATIONS, fields=("u",)), r"Field\('v'\) is not among fields"),
        (
            lambda: ts.Problem(SQUARE, EQUATIONS, [ts.Dirichlet()]),
            "'dirichlet' does not say which unknown it acts on",
        ),
        (lambda: ts.Problem(SQUARE, EQUATIONS, exact=np.sin), "exact must be a mapping"),
        (lambda: ts.Problem(SQUARE, EQUATIONS, exact={"u": np.sin}), "leaves out the unknown 'v'"),
        (
            lambda: ts.Problem(SQUARE, EQUATIONS, ansatz={"w": ts.Ansatz()}),
            "ansatz names 'w', but the unknowns are u, v",
        ),
        (lambda: ts.Problem(SQUARE, ts.Equation(u @ LAPLACE)), "stands left of an operator"),
        (lambda: ts.Dirichlet(of="u"), r"name the unknown by its Field, e.g. of=Field\('u'\)"),
        (lambda: ts.Fields(), "Fields needs a basis for every unknown"),
        (
            lambda: ts.solve(
                ts.Problem(SQUARE, EQUATIONS),
                basis=ts.Basis(ts.Decomposition(SQUARE, 2), ts.RandomFeatures(5)),
            ),
            r"the problem has 2 unknowns \(u, v\), but the basis serves one: use Fields\(u=",
        ),
        (
            lambda: ts.Fields(
                u=ts.Basis(ts.Decomposition(SQUARE, 2), ts.RandomFeatures(5)),
                v=ts.Basis(ts.Decomposition(SQUARE, 3), ts.RandomFeatures(5)),
            ),
            "must share one decomposition",
        ),
        (
            lambda: ts.solve(
                dataclasses.replace(STOKES, conditions=STOKES.conditions[:2]), tol=1e-3
            ),
            "the unknown 'p' is determined up to a constant",
        ),
        (lambda: ts.pinn(STOKES), "one unknown"),
    ],
)
def test_bad_systems_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_an_unknown_name_lists_those_there_are(flow):
    with pytest.raises(ValueError, match="unknown field 'w': this solution has u, v, p"):
        flow["w"]
    with pytest.raises(ValueError, match=r"unknown Field\('w'\): this problem has u, v, p"):
        flow.apply(ts.Field("w"), POINTS)
    with pytest.raises(ValueError, match="does not say which unknown it acts on"):
        flow.apply(Dx, POINTS)


def test_equations_that_contradict_each_other_are_remarked_upon():
    line = ts.Box(x=(0, 1))
    both = [ts.Equation(ts.D(x=1), 1.0), ts.Equation(ts.D(x=1), -1.0)]
    torn = ts.solve(ts.Problem(line, both, [ts.Dirichlet(0.0, "xmin")]), subdomains=2, features=5)
    assert "% of the data are not met: equations and conditions contradict" in torn.report.advice
    fine = ts.solve(
        ts.Problem(line, both[:1], [ts.Dirichlet(0.0, "xmin")]), subdomains=2, features=5
    )
    assert fine.report.advice == ""


def test_a_fluid_that_is_left_alone_does_not_move_faster():
    """However little its viscosity balances, and though its start is no flow at all: a pressure is
    exchanged in proportion to what it does balance."""
    nu, walls = 0.01, ("xmin", "ymin", "ymax")
    moving = ts.D(t=1) - nu * LAPLACE
    problem = ts.Problem(
        ts.Box(x=(0, 2), y=(0, 1), t=(0, 0.4)),
        [
            ts.Equation(moving @ u + Dx @ p),
            ts.Equation(moving @ v + Dy @ p),
            ts.Equation(Dx @ u + Dy @ v),
        ],
        [
            *(ts.Dirichlet(0.0, on=walls, of=field) for field in (u, v)),
            ts.Condition(nu * Dx @ u - p, on="xmax"),
            ts.Condition(Dx @ v, on="xmax"),
            ts.Initial(lambda x: np.sin(23 * x[:, 0] * x[:, 1]), of=u),
            ts.Initial(lambda x: np.sin(23 * x[:, 0] * x[:, 1] + 1), of=v),
        ],
        fields=("u", "v", "p"),
    )
    found = ts.march(
        problem, 8, subdomains=(2, 2, 1), features=80, coupling="interfaces", estimate=False
    )
    first, last = (found(np.insert(POINTS * [2, 1], 2, t, axis=1))[:, :2] for t in (0.05, 0.4))
    assert np.linalg.norm(last) < np.linalg.norm(first) < np.sqrt(first.size)
