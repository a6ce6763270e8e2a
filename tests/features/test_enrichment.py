"""Functions as columns: exact where a solution contains them, refused where they cannot be."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.overlap.enriched import CHUNK
from tessella.overlap.system import assemble

EPS = 1e-3
LINE = ts.Box(x=(0, 1))
PLANE = ts.Box(x=(-1, 1), y=(0, 1))
ROOT = ts.Corner(math.pi, exponent=0.5, wave="cos")


def layer(p):
    return jnp.exp((p[:, 0] - 1) / EPS)


def wiggle(p):
    return jnp.sin(3 * p[:, 0]) * jnp.exp(p[:, 1]) + p[:, 0] ** 2


def layer_problem():
    return ts.gallery.get("boundary-layer").problem("best", eps=EPS)


def plane_basis(coupling, *enrichment):
    features = ts.RandomFeatures(6)
    if coupling == "overlap":
        decomposition = ts.Decomposition(PLANE, (3, 2), 1.8)
        return ts.Basis(decomposition, features, seed=1, enrichment=enrichment)
    return ts.CellBasis(ts.Tiling(PLANE, (3, 2)), features, seed=1, enrichment=enrichment)


def plane_problem():
    return ts.Problem(PLANE, ts.Equation(ts.Laplacian()), [ts.Dirichlet(0.0)], name="plane")


def autodiff(psi, points):
    """Gradient and Hessian at the points, by reverse and forward mode."""

    def one(p):
        return psi(p[None])[0]

    both = jax.jit(jax.vmap(lambda p: (jax.grad(one)(p), jax.hessian(one)(p))))
    return both(jnp.asarray(points))


def columns(basis, number):
    """Coefficients that are 1 for one column of every subdomain."""
    a = np.zeros((basis.decomposition.count, basis.width))
    a[:, number] = 1.0
    return a.ravel()


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_a_layer_in_the_span_is_found_to_rounding_and_lost_without(coupling):
    """-eps u'' + u' = 1 at equal columns: enrichment makes up for a scale of 1/1000."""
    problem = layer_problem()
    small = {"subdomains": 4, "coupling": coupling, "estimate": False}
    enriched = ts.solve(problem, features=20, enrichment=[layer], **small).report
    plain = ts.solve(problem, features=21, **small).report
    assert enriched.columns == plain.columns
    assert enriched.error["l2_relative"] < 1e-13
    assert plain.error["l2_relative"] > 1e-2


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_enrichment_columns_obey_the_product_rule(coupling, combination, rng):
    """The windows sum to one, so equal coefficients of all columns omega_j psi give psi itself."""
    basis = plane_basis(coupling, wiggle, ROOT)
    points = PLANE.lower + (PLANE.upper - PLANE.lower) * rng.uniform(0.05, 0.95, (40, 2))
    for number, psi in ((-2, wiggle), (-1, ROOT)):
        u = combination(plane_problem(), basis, columns(basis, number))
        gradient, hessian = autodiff(psi, points)
        for operator, expected in (
            (ts.Identity(), psi(points)),
            (ts.D(x=1), gradient[:, 0]),
            (ts.D(y=1), gradient[:, 1]),
            (ts.D(x=2), hessian[:, 0, 0]),
            (ts.D(x=1, y=1), hessian[:, 0, 1]),
        ):
            scale = np.max(np.abs(expected))
            np.testing.assert_allclose(u.apply(operator, points), expected, atol=1e-11 * scale)


def test_a_single_column_is_the_window_times_the_function(combination, rng):
    """d/dx (omega psi) from the constant feature's column, which is omega alone."""
    basis, problem = plane_basis("overlap", wiggle), plane_problem()
    points = PLANE.lower + (PLANE.upper - PLANE.lower) * rng.random((30, 2))
    one = np.zeros((basis.decomposition.count, basis.width))
    one[2, -2] = 1.0
    window = combination(problem, basis, one.ravel())
    product = combination(problem, basis, np.roll(one, 1, axis=1).ravel())
    slope = autodiff(wiggle, points)[0][:, 0]
    expected = window.apply(ts.D(x=1), points) * wiggle(points) + window(points) * slope
    np.testing.assert_allclose(product.apply(ts.D(x=1), points), expected, atol=1e-12)


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
@pytest.mark.parametrize("size", [2.0**-40, 2.0**30])
def test_the_size_of_a_function_does_not_matter(coupling, size):
    """Neither the filter nor the balance of the conditions may depend on a user's units."""

    def scaled(p):
        return size * layer(p)

    found = []
    for psi in (layer, scaled):
        small = {"subdomains": 4, "features": 20, "coupling": coupling, "estimate": False}
        found.append(ts.solve(layer_problem(), enrichment=[psi], **small))
    plain, large = found
    assert large.report.columns_kept == plain.report.columns_kept
    for name, weight in plain.report.weights.items():
        assert large.report.weights[name] == pytest.approx(weight, rel=1e-12)
    assert large.report.error["l2_relative"] < 1e-13


def test_a_function_the_features_can_do_is_filtered_out():
    def nothing_new(p):
        return 1.0 + 0.0 * p[:, 0]

    basis = ts.Basis(ts.Decomposition(LINE, 4), ts.RandomFeatures(8), enrichment=[nothing_new])
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=2)), [ts.Dirichlet(0.0)])
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    kept = system.reduce(ts.RRQR(1e-10)).kept
    for j in range(4):
        own = set(kept) & {j * basis.width + 8, j * basis.width + 9}
        assert len(own) == 1, "the constant feature and the constant function are one direction"


def test_where_limits_the_columns_to_subdomains_that_reach_there(combination):
    """The logarithm is not finite at 0, but no subdomain near 0 has it."""

    def logarithm(p):
        return jnp.log(p[:, 0])

    near = ts.Enrichment(logarithm, where=ts.Box(x=(0.9, 1)))
    basis = ts.Basis(ts.Decomposition(LINE, 5), ts.RandomFeatures(4), enrichment=near)
    np.testing.assert_array_equal(basis.active[:, 0], [0, 0, 0, 1, 1])
    problem = ts.Problem(LINE, ts.Equation(ts.D(x=2)), [ts.Dirichlet(0.0)])
    x = np.linspace(0, 1, 81)
    values = combination(problem, basis, columns(basis, -1))(x)
    assert np.all(values[x <= 0.5] == 0) and np.all(values[(x > 0.55) & (x < 1)] != 0)
    np.testing.assert_allclose(values[x >= 0.75], np.log(x[x >= 0.75]), atol=1e-15)


def test_side_by_side_equal_subdomains_remain_equal_away_from_an_enrichment():
    problem = ts.Problem(
        ts.Box(x=(0, 6), y=(0, 6)), ts.Equation(ts.Laplacian()), [ts.Dirichlet(0.0)]
    )
    tiling, features = ts.Tiling(problem.domain, 6), ts.RandomFeatures(9, activation="sin")
    found = []
    for where in (None, ts.Box(x=(0, 0.5), y=(0, 0.5))):
        psi = ts.Enrichment(ts.Corner(math.pi / 2, exponent=0.5), where)
        basis = ts.CellBasis(tiling, features, enrichment=[psi])
        found.append(ts.solve(problem, basis=basis, estimate=False).report.distinct_subdomains)
    # nine kinds, and the corner's subdomain with its two neighbours
    assert found == [36, 9 + 2]


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_one_term_of_the_singularity_is_worth_a_factor_of_a_hundred(coupling):
    """Motz's problem at equal columns, with the singular point on an interior face (four boxes
    across): a polynomial trace would not do."""
    problem = ts.gallery.get("motz").problem("best")
    S = (4, 2)
    grid = ts.Grid(points_per_axis=(64, 32)) if coupling == "overlap" else None
    found = []
    for enrichment in ([], [ROOT], [ROOT, ts.Corner(math.pi, exponent=1.5, wave="cos")]):
        solution = ts.solve(
            problem,
            subdomains=S,
            features=70 - len(enrichment),
            coupling=coupling,
            enrichment=enrichment,
            collocation=grid,
            estimate=False,
        )
        found.append(solution.report.error["l2_relative"])
    without, one, two = found
    assert one < without / 100
    assert two < one / 10


def test_a_shape_with_a_corner_is_worth_a_factor_of_a_hundred():
    """r^(2/3) sin(2 theta/3) and a smooth part on an L: one for enrichment, one for features."""
    corner = ts.Corner(1.5 * math.pi)
    square, quadrant = ts.Box(x=(-1, 1), y=(-1, 1)), ts.Box(x=(0, 1), y=(-1, 0))

    def exact(p):
        return np.asarray(corner(p)) + np.exp(p[:, 0]) * np.sin(p[:, 1])

    problem = ts.Problem(
        square - quadrant, ts.Equation(ts.Laplacian()), [ts.Dirichlet(exact)], exact=exact
    )
    small = {"subdomains": 3, "oversampling": 3.0, "scale": 1.5, "estimate": False}
    plain = ts.solve(problem, features=41, **small).report
    enriched = ts.solve(problem, features=40, enrichment=[corner], **small).report
    assert enriched.columns == plain.columns
    assert enriched.error["l2_relative"] < plain.error["l2_relative"] / 100
    assert enriched.error["l2_relative"] < 1e-5


def test_a_tolerance_works_with_enrichment():
    solution = ts.solve(layer_problem(), tol=1e-8, enrichment=[layer])
    assert solution.report.stop_reason == "tolerance met"
    assert solution.report.error["l1_normalised"] < 1e-8


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_every_unknown_of_a_system_has_its_own_enrichment(coupling):
    """The same layer as a first-order system, q = u': u needs it at size 1, q at size 1/eps."""
    u, q = ts.Field("u"), ts.Field("q")
    whole = layer_problem()
    problem = ts.Problem(
        LINE,
        [
            ts.Equation(ts.D(x=1) @ u - ts.Identity() @ q, name="slope"),
            ts.Equation(ts.Identity() @ q - EPS * ts.D(x=1) @ q, 1.0, name="balance"),
        ],
        [ts.Dirichlet(0.0, of=u)],
    )
    small = {"subdomains": 4, "features": 20, "coupling": coupling, "estimate": False}
    x = np.linspace(0, 1, 101)[:, None]
    for enrichment in ([layer], {"u": [layer], "q": [layer]}):
        found = ts.solve(problem, enrichment=enrichment, **small)(x)
        np.testing.assert_allclose(found[:, 0], whole.exact(x), atol=1e-11)
    half = ts.solve(problem, enrichment={"u": [layer]}, **small)(x)
    assert np.max(np.abs(half[:, 0] - whole.exact(x))) > 1e-3
    with pytest.raises(
        ValueError, match="enrichment has the unknown 'p', but the problem has u, q"
    ):
        ts.solve(problem, enrichment={"p": [layer]}, **small)


def test_another_seed_compiles_nothing_and_equal_corners_are_one_program(compilations):
    def solve(seed, corner):
        basis = ts.Basis(
            ts.Decomposition(PLANE, 2), ts.RandomFeatures(5), seed, enrichment=[corner]
        )
        grid = ts.Grid(points_per_axis=12)
        return ts.solve(plane_problem(), basis=basis, collocation=grid, estimate=False)

    solve(0, ROOT)
    before = compilations()
    solve(1, ts.Corner(math.pi, exponent=0.5, wave="cos"))
    assert compilations() == before


def test_evaluation_beyond_one_chunk_of_points(combination):
    basis = plane_basis("overlap", wiggle)
    u = combination(plane_problem(), basis, columns(basis, -1))
    points = PLANE.grid((60, 40))
    assert len(points) > 2 * CHUNK
    np.testing.assert_allclose(u(points), wiggle(points), atol=1e-14)


def test_only_the_finest_level_of_a_pyramid_is_enriched():
    pyramid = ts.Multilevel.pyramid(plane_basis("overlap", wiggle))
    assert [len(level.enrichment) for level in pyramid.levels] == [0, 1]
    assert pyramid.width == 8
    assert pyramid.columns == sum(
        level.decomposition.count * level.width for level in pyramid.levels
    )


def test_a_second_opinion_has_the_same_enrichment():
    for coupling in ("overlap", "interfaces"):
        basis = plane_basis(coupling, wiggle)
        assert basis.coarser().enrichment == basis.enrichment
        assert basis.coarser().width == 3 + 1 + 1


# Corners


@pytest.mark.parametrize(
    ("opening", "start", "wave"),
    [(1.5 * math.pi, 0.0, "sin"), (2.0, 1.0, "cos"), (6.0, -2.0, "sin")],
)
def test_a_corner_function_is_harmonic_and_meets_its_sides(opening, start, wave, rng):
    corner = ts.Corner(opening, start, at=(0.3, -0.2), wave=wave)
    r, theta = rng.uniform(0.1, 1.0, 50), start + opening * rng.uniform(0.01, 0.99, 50)
    points = np.stack([0.3 + r * np.cos(theta), -0.2 + r * np.sin(theta)], axis=1)
    hessian = autodiff(corner, points)[1]
    np.testing.assert_allclose(hessian[:, 0, 0] + hessian[:, 1, 1], 0, atol=1e-11)
    angle = theta - start
    expected = r**corner.power * getattr(np, wave)(corner.power * angle)
    np.testing.assert_allclose(corner(points), expected, atol=1e-14)


def test_a_corner_refuses_what_is_none():
    with pytest.raises(ValueError, match=r"opening must be an angle in \(0, 2 pi\], got 7"):
        ts.Corner(7)
    with pytest.raises(ValueError, match="wave must be 'sin' or 'cos', got 'tan'"):
        ts.Corner(1.0, wave="tan")


# Refusals


def test_a_singularity_at_a_collocation_point_is_refused_by_name_derivative_and_place():
    problem = plane_problem()
    keywords = {"subdomains": 2, "features": 9, "enrichment": [ROOT], "estimate": False}
    with pytest.raises(
        ValueError,
        match=r"enrichment: the derivative \(0, 1\) of the function 'r\^0.5 cos at corner \(0, 0\)'"
        r" is nan at the point \(0, 0\).*keep the points off a singularity",
    ):
        ts.solve(problem, collocation=ts.Grid(points_per_axis=(9, 9)), **keywords)
    # The value there is 0; only the equation asks for derivatives, and not at this point.
    solution = ts.solve(problem, collocation=ts.Grid(points_per_axis=(10, 9)), **keywords)
    beside = solution([1e-12, 1e-12])
    assert solution([0.0, 0.0]) == pytest.approx(beside, abs=1e-4)
    with pytest.raises(ValueError, match=r"is (nan|inf|-inf) at the point \(0, 0\)"):
        solution.apply(ts.D(x=1), [0.0, 0.0])


def test_functions_must_be_differentiable_by_jax():
    def with_numpy(p):
        return np.exp(p[:, 0])

    with pytest.raises(TypeError, match=r"'with_numpy' must be differentiated.*jnp\.exp"):
        ts.solve(layer_problem(), subdomains=2, features=4, enrichment=[with_numpy])


def test_values_alone_may_be_numpy_code(combination, rng):
    def with_numpy(p):
        return np.exp(p[:, 0])

    basis = plane_basis("overlap", with_numpy)
    points = PLANE.lower + (PLANE.upper - PLANE.lower) * rng.random((9, 2))
    u = combination(plane_problem(), basis, columns(basis, -1))
    np.testing.assert_allclose(u(points), np.exp(points[:, 0]), rtol=1e-14)


@pytest.mark.parametrize(
    ("enrichment", "error", "message"),
    [
        ([3.0], TypeError, r"enrichment must be functions of the points.*got 3.0"),
        ("psi", TypeError, r"enrichment must be functions of the points.*got 'psi'"),
        ([lambda p: p], ValueError, r"returned shape \(\d+, 1\) for \d+ points"),
    ],
)
def test_what_is_no_function_of_the_points_is_refused(enrichment, error, message):
    with pytest.raises(error, match=message):
        ts.solve(layer_problem(), subdomains=2, features=4, enrichment=enrichment)


def test_where_must_be_a_region_of_the_domain():
    decomposition, features = ts.Decomposition(LINE, 2), ts.RandomFeatures(3)
    with pytest.raises(
        TypeError, match=r"where of the function 'layer' must be a Box.*got \(0, 1\)"
    ):
        ts.Enrichment(layer, where=(0, 1))
    with pytest.raises(ValueError, match="'layer' has the axis 'y', but the domain has x"):
        ts.Basis(decomposition, features, enrichment=[ts.Enrichment(layer, where=ts.Box(y=(0, 1)))])
    with pytest.raises(ValueError, match="'layer' meets no subdomain"):
        ts.Basis(decomposition, features, enrichment=[ts.Enrichment(layer, where=ts.Box(x=(2, 3)))])


def test_a_whole_basis_and_an_enrichment_beside_it_are_refused():
    basis = ts.Basis(ts.Decomposition(LINE, 2), ts.RandomFeatures(3))
    with pytest.raises(ValueError, match=r"pass either `basis` or its shorthand .*enrichment"):
        ts.solve(layer_problem(), basis=basis, enrichment=[layer])


# Files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    where = ts.Box(x=(0.5, 1))
    solution = ts.solve(
        layer_problem(),
        subdomains=3,
        features=6,
        enrichment=[ts.Enrichment(layer, where)],
        estimate=False,
    )
    return solution, solution.save(tmp_path_factory.mktemp("enriched") / "layer.npz")


def test_round_trip_with_the_functions_given_again(saved):
    solution, path = saved
    loaded = ts.load(path, enrichment=[layer])
    assert loaded.basis.enrichment == solution.basis.enrichment
    x = np.linspace(0, 1, 41)
    for operator in (ts.Identity(), ts.D(x=2)):
        np.testing.assert_array_equal(loaded.apply(operator, x), solution.apply(operator, x))


def test_a_file_asks_for_its_functions(saved):
    with pytest.raises(ValueError, match=r"has 1 enrichment functions \(layer\).*and 0 are given"):
        ts.load(saved[1])
    with pytest.raises(ValueError, match=r"load\(path, enrichment=\[...\]\)"):
        ts.load(saved[1], enrichment=[layer, layer])


def test_a_file_knows_other_functions(saved):
    def thicker(p):
        return jnp.exp((p[:, 0] - 1) / (1.01 * EPS))

    with pytest.raises(ValueError, match="solved with other enrichment than the functions given"):
        ts.load(saved[1], enrichment=[thicker])
