"""Several unknowns in several materials: what passes between them, in either coupling."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.cells.cell.exchange import exchange
from tessella.cells.cell.groups import orders_along

COUPLINGS = ["overlap", "interfaces"]
LINE = ts.Divided(ts.Box(x=(0, 1)), left=ts.Box(x=(0, 0.4)))
SQUARE = ts.Box(x=(-1, 1), y=(-1, 1))
POINTS = SQUARE.scatter(200, np.random.default_rng(0))
u, v, p = (ts.Field(name) for name in "uvp")


def chain(stiff: float = 7.0) -> ts.Problem:
    """u'' = 2 with a kink; v'' + u' = 0 with another one."""
    at, a = 0.4, stiff

    def left_u(x):
        return x**2 - a * x

    def right_u(x):  # u and a u' pass
        return x**2 + (left_u(at) - at**2) + (a * (2 * at - a) - 2 * at) * (x - at)

    def left_v(x):
        return -(x**3) / 3 + a * x**2 / 2 + x

    def right_v(x):
        slope = a * (2 * at - a) - 2 * at
        free = -(x**3 - at**3) / 3 - slope * (x - at) ** 2 / 2 + at**2 * (x - at)
        return left_v(at) + 3 * (-(at**2) + a * at + 1) * (x - at) + free

    def both(left, right):
        return lambda q: jnp.where(q[:, 0] < at, left(q[:, 0]), right(q[:, 0]))

    exact = {"u": both(left_u, right_u), "v": both(left_v, right_v)}
    return ts.Problem(
        LINE,
        [ts.Equation(ts.D(x=2) @ u, 2.0), ts.Equation(ts.D(x=2) @ v + ts.D(x=1) @ u)],
        [
            *(ts.Dirichlet(exact[f.name], of=f) for f in (u, v)),
            *ts.Transmission("left", "rest", flux=(a, 1.0), of=u),
            *ts.Transmission("left", "rest", flux=(3.0, 1.0), of=v),
        ],
        exact=exact,
        name="chain",
    )


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_kinks_of_two_unknowns_are_exact(coupling):
    solution = ts.solve(chain(), subdomains=3, features=14, coupling=coupling)
    assert solution.report.error["max"] < 1e-9
    slopes = [solution.apply(ts.D(x=1) @ f, [[0.4 - 1e-9], [0.4 + 1e-9]]) for f in (u, v)]
    assert slopes[0][1] / slopes[0][0] == pytest.approx(7.0, rel=1e-6)
    assert slopes[1][1] / slopes[1][0] == pytest.approx(3.0, rel=1e-6)


def test_a_system_of_regions_meets_a_tolerance_and_is_loaded_and_drawn(tmp_path):
    problem = chain()
    solution = ts.solve(problem, tol=1e-8)
    assert solution.report.error["l1_normalised"] < 1e-8
    loaded = ts.load(solution.save(tmp_path / "chain.npz"))
    x = np.linspace(0, 1, 21)[:, None]
    assert loaded.problem.fields == problem.fields
    np.testing.assert_array_equal(loaded(x), solution(x))
    np.testing.assert_array_equal(loaded["v in rest"](x[10:]), solution(x[10:])[:, 1])
    solution.plot(tmp_path / "chain.png")
    with pytest.raises(ValueError, match="knows no equation"):
        loaded.residual(x)


def stresses(lame, mu):
    x, y = ts.D(x=1), ts.D(y=1)
    xx, yy = (lame * (x @ u + y @ v) + 2 * mu * own for own in (x @ u, y @ v))
    return xx, yy, mu * (y @ u + x @ v)


def plate(lower=(3.0, 2.0), upper=(1.0, 0.5), height=0.1) -> ts.Problem:
    """Two layers under shear and pressure: strains are uniform in each."""
    slip = {"lower": 0.2 / lower[1], "rest": 0.2 / upper[1]}
    press = {"lower": 1 / (lower[0] + 2 * lower[1]), "rest": 1 / (upper[0] + 2 * upper[1])}

    def layered(slope):
        def value(q):
            y = q[:, 1] - height
            return jnp.where(y < 0, slope["lower"] * y, slope["rest"] * y)

        return value

    exact = {"u": layered(slip), "v": layered(press)}
    domain = ts.Divided(SQUARE, lower=ts.HalfSpace(x=0, y=height, normal=(0, 1)))
    x, y, equations, pulls = ts.D(x=1), ts.D(y=1), [], []
    for region, moduli in (("lower", lower), ("rest", upper)):
        xx, yy, xy = stresses(*moduli)
        equations += [
            ts.Equation(x @ xx + y @ xy, where=region),
            ts.Equation(x @ xy + y @ yy, where=region),
        ]
        nx, ny = ts.Normal("x"), ts.Normal("y")
        pulls.append((nx @ xx + ny @ xy, nx @ xy + ny @ yy))
    conditions = [ts.Dirichlet(exact[f.name], of=f) for f in (u, v)]
    for f, flux in zip((u, v), zip(*pulls, strict=True), strict=True):
        conditions += ts.Transmission("lower", "rest", flux=flux, of=f)
    return ts.Problem(domain, equations, conditions, exact=exact, fields=("u", "v"))


@pytest.mark.parametrize(
    ("coupling", "subdomains", "features"), [("overlap", 2, 60), ("interfaces", (1, 3), 110)]
)
def test_tractions_pass_through_a_layer(coupling, subdomains, features):
    """The interface runs through the cells of the middle row."""
    solution = ts.solve(plate(), subdomains=subdomains, features=features, coupling=coupling)
    error = np.abs(solution(POINTS) - solution.problem.exact_values(POINTS))
    assert error.max() < 3e-9
    assert solution.report.residual["flux of u lower/rest"] < 1e-7


def test_two_fluids_have_a_pressure_each():
    """A viscous and a thin fluid side by side in a channel; the pressure is held in one point."""
    mu, at, push = {"oil": 5.0, "rest": 1.0}, 0.1, 1.0
    rows = [[-1, 1, 0, 0], [0, 0, 1, 1], [at, 1, -at, -1], [mu["oil"], 0, -mu["rest"], 0]]
    thick, thin = push / (2 * mu["oil"]), push / (2 * mu["rest"])
    a, b, c, d = np.linalg.solve(rows, [thick, thin, (thick - thin) * at**2, 0])

    def along(q):
        y = q[:, 1]
        return jnp.where(y < at, -thick * y**2 + a * y + b, -thin * y**2 + c * y + d)

    exact = {"u": along, "v": lambda q: 0 * q[:, 0], "p": lambda q: -push * q[:, 0]}
    x, y, nx, ny = ts.D(x=1), ts.D(y=1), ts.Normal("x"), ts.Normal("y")
    equations, pulls = [ts.Equation(x @ u + y @ v, name="volume")], []
    for region, m in mu.items():
        for axis, f in ((x, u), (y, v)):
            force = -m * ts.Laplacian() @ f + axis @ p
            equations.append(ts.Equation(force, where=region, name=f"force {f.name} {region}"))
        slip = m * (y @ u + x @ v)
        pulls.append(
            (
                2 * m * nx @ x @ u + ny @ slip - nx @ p,
                nx @ slip + 2 * m * ny @ y @ v - ny @ p,
            )
        )
    conditions = [ts.Dirichlet(exact[f.name], of=f) for f in (u, v)]
    conditions.append(ts.Measured([[0.5, 0.5]], [-0.5 * push], operator=p))
    for f, flux in zip((u, v), zip(*pulls, strict=True), strict=True):
        conditions += ts.Transmission("oil", "rest", flux=flux, of=f)
    domain = ts.Divided(SQUARE, oil=ts.HalfSpace(x=0, y=at, normal=(0, 1)))
    problem = ts.Problem(domain, equations, conditions, exact=exact, fields=("u", "v", "p"))
    solution = ts.solve(problem, subdomains=(1, 3), features=90, coupling="interfaces")
    error = np.abs(solution(POINTS) - problem.exact_values(POINTS)).max(axis=0)
    assert np.all(error[:2] < 1e-6) and error[2] < 1e-4


def test_heat_flows_through_a_wall_that_the_flow_does_not_enter():
    """Conjugate heat: the fluid's speed lives in one region only, and is zero elsewhere."""
    domain = ts.Divided(ts.Box(x=(0, 2)), fluid=ts.Box(x=(0, 1)))
    w, T = ts.Field("w"), ts.Field("T")
    problem = ts.Problem(
        domain,
        [
            ts.Equation(ts.D(x=2) @ w, -2.0, where="fluid", name="flow"),
            ts.Equation(ts.D(x=2) @ T + w, where="fluid", name="warmed by the flow"),
            ts.Equation(4.0 * ts.D(x=2) @ T, where="rest", name="wall"),
        ],
        [
            ts.Dirichlet(0.0, on=("xmin", "fluid/rest"), of=ts.Field("w", "fluid")),
            ts.Dirichlet(0.0, on=("xmin", "xmax"), of=T),
            *ts.Transmission("fluid", "rest", flux=(1.0, 4.0), of=T),
        ],
    )
    assert problem.fields == ("w in fluid", "T in fluid", "T in rest")
    for coupling in COUPLINGS:
        solution = ts.solve(problem, subdomains=4, features=14, coupling=coupling)
        w_there, T_there = solution([[0.25], [0.75], [1.25], [1.75]]).T
        np.testing.assert_allclose(w_there, [0.1875, 0.1875, 0, 0], atol=1e-9)
        inner = [x**4 / 12 - x**3 / 6 + x / 10 for x in (0.25, 0.75)]  # T'' = x^2 - x
        np.testing.assert_allclose(T_there, [*inner, 0.75 / 60, 0.25 / 60], atol=1e-8)


def test_a_scatterer_bends_a_complex_wave():
    """Bessel functions in and around a disc in which waves are shorter."""
    from scipy.special import h1vp, hankel1, jv, jvp

    waves, R = {"core": 4.0, "rest": 2.0}, 0.5
    k, q = waves.values()
    rows = [[jv(0, q * R), hankel1(0, q * R)], [q * jvp(0, q * R), q * h1vp(0, q * R)]]
    c = np.linalg.solve(rows, (1 + 0.5j) * np.array([jv(0, k * R), k * jvp(0, k * R)]))

    def exact(x):
        r = np.hypot(*x.T)
        far = c[0] * jv(0, q * r) + c[1] * hankel1(0, q * np.maximum(r, R / 2))
        return np.where(r < R, (1 + 0.5j) * jv(0, k * r), far)

    parts = {"a": lambda x: exact(x).real, "b": lambda x: exact(x).imag}
    fields = [ts.Field(name) for name in parts]
    problem = ts.Problem(
        ts.Divided(SQUARE, core=ts.Ball(x=0, y=0, radius=R)),
        [
            ts.Equation((ts.Laplacian() + n**2) @ f, where=region, name=f"{f.name} {region}")
            for region, n in waves.items()
            for f in fields
        ],
        [
            *(ts.Dirichlet(parts[f.name], of=f) for f in fields),
            *(c for f in fields for c in ts.Transmission("core", "rest", of=f)),
        ],
        exact=parts,
        fields=("a", "b"),
    )
    solution = ts.solve(problem, subdomains=3, features=90, coupling="interfaces")
    assert solution.report.error["max"] < 1e-4


def test_every_region_exchanges_what_its_own_equations_ask_for():
    """A plate on one side, a membrane on the other: two data here, one there."""
    domain = ts.Divided(ts.Box(x=(0, 1)), left=ts.Box(x=(0, 0.5)))
    problem = ts.Problem(
        domain,
        [ts.Equation(ts.D(x=4), where="left"), ts.Equation(ts.D(x=2), where="rest")],
        [ts.Dirichlet(0.0), *ts.Transmission("left", "rest")],
    )
    assert orders_along(problem).tolist() == [[4], [2]]
    (along,) = exchange(problem, np.linspace(0.05, 0.95, 10)[:, None])
    assert [d.field for d in along.below] == [0, 0, 1]


def test_two_temperatures_in_two_materials_over_time():
    """Electrons and lattice, say: both kinked, each warming the other."""
    slopes, k = {"left": 1.0, "rest": 3.0}, {"left": 3.0, "rest": 1.0}
    box = ts.Box(x=(0, 1), t=(0, 0.5))
    domain = ts.Divided(box, left=ts.Box(x=(0, 0.4), t=(0, 0.5)))

    def profile(x, region):
        return 1 + slopes[region] * (x - 0.4) + (x - 0.4) ** 2

    def exact(factor):
        def value(q):
            x, t = q[:, 0], q[:, 1]
            both = jnp.where(x < 0.4, profile(x, "left"), profile(x, "rest"))
            return factor * both * jnp.exp(-t)

        return value

    def source(factor, region):
        return lambda q: -factor * np.exp(-q[:, 1]) * (profile(q[:, 0], region) + 2 * k[region])

    equations, conditions = [], []
    for f, other, factor in ((u, 0.5 * (v - 2 * u), 1.0), (v, 2 * u - v, 2.0)):
        for region in k:
            heat = ts.D(t=1) @ f - k[region] * ts.D(x=2) @ f + other
            name = f"{f.name} {region}"
            equations.append(ts.Equation(heat, source(factor, region), where=region, name=name))
        conditions += [ts.Dirichlet(exact(factor), of=f), ts.Initial(exact(factor), of=f)]
        conditions += ts.Transmission("left", "rest", flux=(3.0, 1.0), of=f)
    problem = ts.Problem(
        domain, equations, conditions, exact={"u": exact(1.0), "v": exact(2.0)}, fields="uv"
    )
    across, forward = exchange(problem, box.scatter(50, np.random.default_rng(0)))
    assert (len(across.below), len(across.above)) == (4, 4)
    assert (len(forward.below), len(forward.above)) == (4, 0)
    solution = ts.solve(problem, subdomains=(3, 2), features=60, coupling="interfaces")
    assert solution.report.error["max"] < 1e-4
