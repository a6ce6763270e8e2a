"""Divided domains: one unknown with a part of its own in every region."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

SQUARE = ts.Box(x=(-1, 1), y=(-1, 1))
DISC = ts.Ball(x=0, y=0, radius=0.5)
DIVIDED = ts.Divided(SQUARE, core=DISC)
LINE = ts.Box(x=(0, 1))
LEFT = ts.Box(x=(0, 0.5))
POINTS = np.random.default_rng(1).uniform(-1, 1, (200, 2))


def test_regions_cover_the_domain_once():
    core, rest = (DIVIDED.inside(name, POINTS) for name in ("core", "rest"))
    np.testing.assert_array_equal(core, ~rest)
    np.testing.assert_array_equal(core, np.linalg.norm(POINTS, axis=1) <= 0.5)
    assert DIVIDED.regions == ("core", "rest")
    halves = ts.Divided(LINE, left=LEFT, right=ts.Box(x=(0.5, 1)))
    assert halves.regions == ("left", "right"), "nothing is left, so there is no rest"


def test_the_interface_is_a_part_with_normals_out_of_the_first_region():
    points, normals = DIVIDED.boundary("core/rest", (41, 41))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 0.5)
    np.testing.assert_allclose(normals, points / 0.5, atol=1e-12)
    assert "core/rest" not in DIVIDED.walls
    scattered, _ = DIVIDED.scatter_on("core/rest", 100, np.random.default_rng(0), DIVIDED)
    np.testing.assert_allclose(np.linalg.norm(scattered, axis=1), 0.5)


def test_an_interface_that_leaves_the_domain_is_cut_off_at_its_boundary():
    plane = ts.HalfSpace(x=0.0, y=0.0, normal=(1.0, 0.0))
    halves = ts.Divided(SQUARE, left=plane)
    points, normals = halves.boundary("left/rest", (21, 21))
    np.testing.assert_allclose(points[:, 0], 0.0, atol=1e-12)
    assert len(points) and np.all(np.abs(points[:, 1]) <= 1)
    np.testing.assert_allclose(normals[:, 0], 1.0)


def layered(k: float) -> ts.Problem:
    """(a u')' = 0 on [0, 1], a = k left of 1/2 and 1 right of it: two straight pieces."""
    slope = 2 / (1 + k)

    def exact(x):
        return jnp.where(x[:, 0] < 0.5, slope * x[:, 0], 1 - k * slope * (1 - x[:, 0]))

    return ts.Problem(
        ts.Divided(LINE, left=LEFT),
        [ts.Equation(k * ts.D(x=2), where="left"), ts.Equation(ts.D(x=2), where="rest")],
        [ts.Dirichlet(exact), *ts.Transmission("left", "rest", flux=(k, 1.0))],
        exact=exact,
    )


@pytest.fixture(scope="module")
def layers():
    return ts.solve(layered(7.0), subdomains=3, features=10)


def test_a_kink_is_exact(layers):
    assert layers.report.error["max"] < 1e-8
    x = np.array([[0.49999], [0.50001]])
    slopes = layers.apply(ts.D(x=1), x)
    assert slopes[1] / slopes[0] == pytest.approx(7.0, rel=1e-6)


def test_a_kink_inside_a_cell_is_exact_side_by_side():
    """Every region has features of its own in the cell that the interface divides."""
    solution = ts.solve(layered(7.0), subdomains=3, features=10, coupling="interfaces")
    assert solution.report.error["max"] < 1e-8
    slopes = solution.apply(ts.D(x=1), [[0.49999], [0.50001]])
    assert slopes[1] / slopes[0] == pytest.approx(7.0, rel=1e-6)


def test_values_are_one_column_and_parts_have_names(layers):
    x = np.linspace(0, 1, 9)[:, None]
    assert layers(x).shape == (9,)
    np.testing.assert_array_equal(layers["left"](x[:4]), layers(x[:4]))
    np.testing.assert_array_equal(layers["rest"](x[5:]), layers(x[5:]))


def test_an_equation_without_where_holds_in_every_region():
    same = ts.Problem(
        ts.Divided(LINE, left=LEFT),
        ts.Equation(-ts.D(x=2), lambda x: np.sin(3 * x[:, 0])),
        [ts.Dirichlet(0.0), *ts.Transmission("left", "rest")],
    )
    whole = ts.Problem(
        LINE, ts.Equation(-ts.D(x=2), lambda x: np.sin(3 * x[:, 0])), [ts.Dirichlet()]
    )
    x = np.linspace(0, 1, 50)[:, None]
    one, other = (ts.solve(p, subdomains=3, features=10)(x) for p in (same, whole))
    np.testing.assert_allclose(one, other, atol=1e-7)


def test_jumps_that_are_asked_for():
    problem = ts.Problem(
        ts.Divided(LINE, left=LEFT),
        ts.Equation(ts.D(x=2)),
        [ts.Dirichlet(0.0), *ts.Transmission("left", "rest", jump=1.0, flux_jump=0.0)],
    )
    u = ts.solve(problem, subdomains=3, features=10)
    assert float(u([[0.499999]])[0] - u([[0.500001]])[0]) == pytest.approx(1.0, abs=1e-4)


def test_an_inclusion_bends_the_field():
    solution = ts.gallery.get("inclusion").solve(settings={"features": 100, "subdomains": 4})
    assert solution.report.error["l2_relative"] < 1e-4


def test_files_and_pictures_know_regions(layers, tmp_path):
    loaded = ts.load(layers.save(tmp_path / "layers.npz"))
    x = np.linspace(0, 1, 11)[:, None]
    np.testing.assert_array_equal(loaded(x), layers(x))
    layers.plot(tmp_path / "layers.png")
    assert (tmp_path / "layers.png").stat().st_size > 1000


def test_an_ansatz_serves_all_regions():
    bubble = ts.Ansatz(multiplier=lambda x: x[:, 0] * (1 - x[:, 0]), offset=2.0)
    problem = ts.Problem(
        ts.Divided(LINE, left=LEFT),
        ts.Equation(ts.D(x=2), 1.0),
        ts.Transmission("left", "rest"),
        ansatz=bubble,
    )
    u = ts.solve(problem, subdomains=3, features=10)
    x = np.linspace(0, 1, 11)[:, None]
    np.testing.assert_allclose(u(x), 2 + (x[:, 0] ** 2 - x[:, 0]) / 2, atol=1e-7)


EQUATION = ts.Equation(ts.Laplacian())
U, V = (ts.Laplacian() @ ts.Field(name) for name in "uv")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ts.Divided(SQUARE), "needs at least one region"),
        (lambda: ts.Divided(SQUARE, rest=DISC), "'rest' is what the others leave"),
        (lambda: ts.Divided(SQUARE, core=1.0), "the region 'core' must be a domain, got 1.0"),
        (lambda: ts.Divided(SQUARE, core=LINE), r"has the axes \('x',\), but the domain"),
        (
            lambda: ts.Problem(ts.Divided(SQUARE, far=ts.Ball(x=9, y=9, radius=1)), EQUATION),
            "the region 'far'.* is empty or outside",
        ),
        (
            lambda: ts.Problem(DIVIDED, ts.Equation(ts.Laplacian(), where="shell")),
            "unknown region 'shell' in where=: this domain has core, rest",
        ),
        (
            lambda: ts.Problem(DIVIDED, ts.Equation(ts.Laplacian(), where="core")),
            "no equation holds in the region 'rest'",
        ),
        (
            lambda: ts.Problem(SQUARE, ts.Equation(ts.Laplacian(), where="core")),
            "unknown region 'core'.* is not divided, see Divided",
        ),
        (
            lambda: ts.Problem(
                DIVIDED,
                [ts.Equation(ts.Laplacian() @ ts.Field("v")), EQUATION],
                ts.Transmission("core", "rest"),
            ),
            r"Field\('core'\) is a region, .*write Field\('u', 'core'\)",
        ),
        (
            lambda: ts.Problem(
                DIVIDED, [ts.Equation(U), ts.Equation(V, where="core")], fields="uw"
            ),
            "no equation contains the unknown 'w'",
        ),
        (
            lambda: ts.Problem(DIVIDED, [ts.Equation(U + V)]),
            r"1 equation\(s\) for 2 unknowns \(u, v\) in the region 'core'",
        ),
        (
            lambda: ts.Problem(
                DIVIDED,
                [ts.Equation(U), ts.Equation(V, where="core")],
                [ts.Dirichlet(0.0, on="core/rest", of=ts.Field("v", "rest"))],
            ),
            "no equation contains 'v in rest'",
        ),
        (
            lambda: ts.Problem(
                DIVIDED,
                [ts.Equation(U)],
                [ts.Dirichlet(0.0, on="core/rest", of=ts.Field("u", "shell"))],
            ),
            "unknown region 'shell' in 'u in shell'",
        ),
        (
            lambda: ts.Problem(SQUARE, ts.Equation(ts.Laplacian() @ ts.Field("u", "core"))),
            "'u in core' names a region, but .* is not divided",
        ),
        (
            lambda: ts.Problem(
                DIVIDED, [ts.Equation(U), ts.Equation(V)], ansatz=ts.Ansatz(offset=2.0)
            ),
            r"ansatz must be a mapping from the unknowns \(u, v\)",
        ),
        (
            lambda: ts.Problem(DIVIDED, EQUATION, ts.Transmission("rest", "core")),
            "unknown face 'rest/core': this domain has .*core/rest",
        ),
    ],
)
def test_bad_regions_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_regions_over_time_are_regions():
    over = DIVIDED.over(t=(0, 2))
    points = np.column_stack([POINTS, np.linspace(0, 2, len(POINTS))])
    np.testing.assert_array_equal(over.inside("core", points), DIVIDED.inside("core", POINTS))
    assert over.axes == ("x", "y", "t") and "tmin" not in over.walls
    between, normals = over.boundary("core/rest", (21, 21, 5))
    np.testing.assert_allclose(np.linalg.norm(between[:, :2], axis=1), 0.5)
    np.testing.assert_allclose(normals[:, 2], 0.0, atol=1e-12)


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_heat_passes_from_one_material_to_the_next(coupling):
    """u = (1 + slope (x - 1/2)) e^t with a flux that passes, warmed by u_t."""

    def exact(p):
        x, t = p[:, 0] - 0.5, p[:, 1]
        return (1 + jnp.where(x < 0, x, 4 * x)) * jnp.exp(t)

    problem = ts.Problem(
        ts.Divided(LINE, left=LEFT).over(t=(0, 0.5)),
        [
            ts.Equation(ts.D(t=1) - 4 * ts.D(x=2), exact, where="left"),
            ts.Equation(ts.D(t=1) - ts.D(x=2), exact, where="rest"),
        ],
        [
            ts.Dirichlet(exact),
            ts.Initial(exact),
            *ts.Transmission("left", "rest", flux=(4.0, 1.0)),
        ],
        exact=exact,
    )
    solution = ts.solve(problem, subdomains=(3, 1), features=60, coupling=coupling)
    assert solution.report.error["max"] < 2e-4


def test_unknowns_have_a_part_in_every_region_whose_equations_contain_them():
    problem = ts.Problem(
        DIVIDED,
        [ts.Equation(U), ts.Equation(V, where="core")],
        ansatz={"u": ts.Ansatz(2.0), "u in rest": ts.Ansatz(3.0)},
    )
    assert problem.unknowns == ("u", "v")
    assert problem.fields == ("u in core", "u in rest", "v in core")
    assert [problem.region(name) for name in problem.fields] == ["core", "rest", "core"]
    assert [problem.multiplier(name) for name in problem.fields] == [2.0, 3.0, 1.0]
    core, rest = (np.array([[x, 0.0]]) for x in (0.0, 0.9))
    assert problem.symbol(V, core, field="v in core")[2, 0] == 1.0
    assert problem.symbol(V, rest, field="v in core")[2, 0] == 0.0
    named = ts.D(x=1) @ ts.Field("u", "rest")
    assert problem.symbol(named, core, field="u in rest")[1, 0] == 3.0
    assert not problem.symbol(named, core, field="u in core")
    copied = dataclasses.replace(problem, name="again")
    assert copied.fields == problem.fields


def test_one_unknown_may_have_a_name():
    T = ts.Field("T")
    problem = ts.Problem(
        ts.Divided(LINE, left=LEFT),
        [ts.Equation(7 * ts.D(x=2) @ T, where="left"), ts.Equation(ts.D(x=2) @ T, where="rest")],
        [ts.Dirichlet(lambda x: x[:, 0]), *ts.Transmission("left", "rest", flux=(7, 1), of=T)],
    )
    assert problem.fields == ("T in left", "T in rest")
    solution = ts.solve(problem, subdomains=3, features=10)
    np.testing.assert_allclose(solution([0.5]), 0.125, atol=1e-8)
    np.testing.assert_array_equal(solution["T"]([0.2]), solution["T in left"]([0.2]))


def test_the_depth_of_a_region_is_negative_inside_it(rng):
    """Where regions overlap, the deeper one counts, so the other one ends there."""
    box = ts.Box(x=(-1, 1), y=(-1, 1))
    shapes = {
        "core": ts.Ball(x=0, y=0, radius=0.5),
        "bar": ts.Box(x=(-1, 1), y=(-0.2, 0.2)),
        "drop": ts.Ball(x=0.6, y=0.6, radius=0.3),
    }
    domain = ts.Divided(box, **shapes)
    points = box.scatter(2_000, rng)
    for name in shapes:
        inside = domain.inside(name, points)
        assert 0 < inside.sum() < len(points)
        np.testing.assert_array_equal(domain.depth(name, points) < 0, inside)


def test_regions_in_time_meet_along_it_and_where_one_begins():
    core = ts.Divided(SQUARE, core=DISC).over(t=(0, 1))
    points, normals = core.boundary("core/rest", (9, 9, 9))
    assert np.all(normals[:, 2] == 0)
    assert np.unique(points[:, 2]).size == 9
    late = ts.Divided(SQUARE.over(t=(0, 1)), core=DISC.over(t=(0.5, 1)))
    points, normals = late.boundary("core/rest", (9, 9, 9))
    assert np.any(normals[:, 2] == -1), "its beginning is a boundary too"
    assert not np.any(normals[:, 2] == 1), "its end is that of all"
