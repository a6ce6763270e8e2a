"""Cells cut by a boundary: wherever it runs, in two and three dimensions, over time, in regions."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tessella as ts

SQUARE = ts.Box(x=(0, 1), y=(0, 1))


def harmonic(p):
    return np.exp(p[:, 0]) * np.sin(p[:, 1]) + p[:, 0] * p[:, 1]


def solved(domain, equation, conditions, exact, features=70, subdomains=4, **options):
    problem = ts.Problem(domain, equation, conditions, exact=exact)
    sizes = {"features": features, "subdomains": subdomains, **options}
    return ts.solve(problem, coupling="interfaces", estimate=False, **sizes)


LAPLACE = ts.Equation(ts.Laplacian())


@settings(deadline=None, max_examples=12)
@given(
    x=st.floats(0.3, 0.7),
    y=st.floats(0.3, 0.7),
    radius=st.floats(0.05, 0.2),
)
@example(x=0.5, y=0.5, radius=0.25)  # touches four faces at their middles
@example(x=0.5, y=0.5, radius=0.25 + 1e-7)  # leaves slivers of 1e-7 beyond them
@example(x=0.5, y=0.5, radius=0.25 - 1e-7)
@example(x=0.375, y=0.5, radius=0.125)  # touches faces and runs through a corner
@example(x=0.4, y=0.6, radius=0.02)  # small inside one cell
def test_a_hole_may_be_anywhere(x, y, radius):
    hole = ts.Ball(x=x, y=y, radius=radius)
    report = solved(SQUARE - hole, LAPLACE, [ts.Dirichlet(harmonic)], harmonic).report
    assert report.error["l2_relative"] < 1e-6 and report.error["max"] < 1e-4


@settings(deadline=None, max_examples=6)
@example(turn=3.453244, shift=0.006898)
@given(turn=st.floats(0, 2 * np.pi), shift=st.floats(0, 0.25))
def test_a_polygon_may_lie_anywhere(turn, shift):
    corners = [
        (0.5 + shift + np.cos(turn + a), 0.5 + np.sin(turn + a)) for a in (0.0, 1.7, 3.3, 5.0)
    ]
    report = solved(ts.Polygon(corners), LAPLACE, [ts.Dirichlet(harmonic)], harmonic, 100).report
    assert report.error["l2_relative"] < 1e-6


def test_errors_fall_with_features_on_a_shape():
    ring = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0.25, y=0.1, radius=0.3)
    errors = [
        solved(ring, LAPLACE, [ts.Dirichlet(harmonic)], harmonic, K).report.error["l2_relative"]
        for K in (40, 80, 160)
    ]
    assert errors[1] < 3e-2 * errors[0] and errors[2] < 3e-2 * errors[1]


def test_functions_in_the_span_are_found_in_cut_cells():
    """Cubic features: a polynomial is found to rounding, whatever was cut off."""
    cube = ts.Activation("cube", lambda s, n: [s**3, 3 * s**2, 6 * s, 6 + 0 * s][: n + 1])

    def exact(p):
        return p[:, 0] ** 3 - 3 * p[:, 0] * p[:, 1] ** 2 + p[:, 1]

    shape = SQUARE - ts.Ball(x=0.4, y=0.6, radius=0.22)
    solution = solved(
        *(shape, LAPLACE, [ts.Dirichlet(exact)], exact, 20, 2),
        **{"activation": cube, "scale": 1.0, "trace_degree": 3},
    )
    assert solution.report.error["max"] < 1e-10


def test_a_normal_derivative_on_a_hole():
    hole = ts.Ball(x=0.5, y=0.45, radius=0.2, name="hole")

    def slope(p):
        out = -(np.asarray(p) - [0.5, 0.45]) / 0.2
        dx = np.exp(p[:, 0]) * np.sin(p[:, 1]) + p[:, 1]
        dy = np.exp(p[:, 0]) * np.cos(p[:, 1]) + p[:, 0]
        return dx * out[:, 0] + dy * out[:, 1]

    conditions = [ts.Dirichlet(harmonic, on=SQUARE.walls), ts.Neumann(slope, on="hole")]
    report = solved(SQUARE - hole, LAPLACE, conditions, harmonic, 100).report
    assert report.error["l2_relative"] < 1e-7


def test_a_ball_in_space():
    def exact(p):
        return np.exp(p[:, 0]) * np.sin(p[:, 1]) + p[:, 2]

    ball = ts.Ball(x=0, y=0, z=0, radius=1)
    report = solved(ball, LAPLACE, [ts.Dirichlet(exact)], exact, 120, 2).report
    assert report.error["l2_relative"] < 1e-4


def test_heat_on_a_disc_over_time():
    def exact(p):
        return np.exp(-p[:, 2]) * np.cos(p[:, 0])

    domain = ts.Ball(x=0, y=0, radius=1).over(t=(0, 0.4))
    equation = ts.Equation(ts.D(t=1) - ts.D(x=2) - ts.D(y=2))
    conditions = [ts.Dirichlet(exact), ts.Initial(exact)]
    report = solved(domain, equation, conditions, exact, 130, (2, 2, 1)).report
    assert report.error["l2_relative"] < 1e-3


def test_a_system_on_a_shape():
    u, v = ts.Field("u"), ts.Field("v")
    exact = {"u": lambda p: np.sin(p[:, 0]) * p[:, 1], "v": lambda p: np.cos(p[:, 1]) + p[:, 0]}
    equations = [
        ts.Equation(ts.Laplacian() @ u + v, lambda p: -exact["u"](p) + exact["v"](p)),
        ts.Equation(ts.Laplacian() @ v - u, lambda p: -np.cos(p[:, 1]) - exact["u"](p)),
    ]
    conditions = [ts.Dirichlet(exact["u"], of=u), ts.Dirichlet(exact["v"], of=v)]
    shape = SQUARE - ts.Ball(x=0.5, y=0.5, radius=0.2)
    report = solved(shape, equations, conditions, exact, 80, 3).report
    assert report.error["l2_relative"] < 1e-5


@pytest.mark.parametrize("subdomains", [3, 4, 5])
def test_a_material_may_end_along_faces_or_across_them(subdomains):
    """A square core, whose sides lie on faces of 4 x 4 cells: the edges are moved aside."""
    core = ts.Box(x=(0.25, 0.75), y=(0.25, 0.75))

    def exact(p):
        return p[:, 0] + 2 * p[:, 1]

    problem = ts.Problem(
        ts.Divided(SQUARE, core=core),
        LAPLACE,
        [ts.Dirichlet(exact), *ts.Transmission("core", "rest")],
        exact=exact,
    )
    report = ts.solve(problem, subdomains=subdomains, features=60, coupling="interfaces").report
    assert report.error["max"] < 1e-4


def test_integrals_over_a_shape():
    disc = ts.Ball(x=0, y=0, radius=1)
    conditions = [ts.Neumann(lambda p: p[:, 0]), ts.Integral(np.pi)]

    def exact(p):
        return 1 + p[:, 0]

    solution = solved(disc, LAPLACE, conditions, exact, 100)
    assert solution.report.error["max"] < 1e-5
    assert solution.integral() == pytest.approx(np.pi, abs=1e-9)
    assert solution.integral(ts.D(x=1)) == pytest.approx(np.pi, abs=1e-4)


def test_tol_refines_towards_a_small_hole():
    hole = ts.Ball(x=0.31, y=0.64, radius=0.01, name="hole")

    def exact(p):
        r = np.hypot(p[:, 0] - 0.31, p[:, 1] - 0.64)
        return np.log(r)

    problem = ts.Problem(SQUARE - hole, LAPLACE, [ts.Dirichlet(exact)], exact=exact)
    solution = ts.solve(problem, tol=1e-5)
    report, tiling = solution.report, solution.basis.decomposition
    assert report.stop_reason == "tolerance met" and report.error["l1_normalised"] <= 3e-5
    smallest = np.argmin(tiling.half_widths[:, 0])
    assert tiling.cut and np.abs(tiling.centres[smallest] - [0.31, 0.64]).max() < 0.2


def test_what_is_too_thin_is_refused_with_the_place():
    slit = ts.Box(x=(0.41, 0.4101), y=(0.3, 0.33))
    with pytest.raises(ValueError, match=r"near \(0\.4.*too thin for subdomains of size"):
        solved(SQUARE - slit, LAPLACE, [ts.Dirichlet(0.0)], lambda p: 0 * p[:, 0])


def test_a_shape_in_space_over_time_is_refused_by_name():
    ball = ts.Ball(x=0, y=0, z=0, radius=1).over(t=(0, 1))
    heat = ts.Equation(ts.D(t=1) - ts.Laplacian("x", "y", "z"))
    with pytest.raises(ValueError, match=r"radius=1\)\.over.* has 4 \(x, y, z, t\): use coupling="):
        solved(ball, heat, [ts.Initial(1.0)], None, features=20, subdomains=2)


def test_no_point_lies_on_an_inner_corner():
    """An odd number of points has one in the middle of the cell, where the corner is."""
    shape = ts.Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])
    corner = ts.Corner(1.5 * math.pi)
    problem = ts.Problem(shape, ts.Equation(ts.Laplacian()), [ts.Dirichlet(corner)])
    solution = ts.solve(
        problem,
        subdomains=3,
        features=40,
        coupling="interfaces",
        enrichment=[corner],
        collocation=ts.Grid(points_per_axis=33),
    )
    x = np.array([[0.3, 0.3], [-0.1, 0.05]])
    np.testing.assert_allclose(solution(x), corner(x), atol=1e-10)
