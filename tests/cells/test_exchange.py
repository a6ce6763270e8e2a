"""What cells take from their neighbours, and what they give them: as many data as make a cell's
own problem well posed, at the ends where the equation needs them."""

import numpy as np
import pytest

import tessella as ts
from tessella.cells.cell.exchange import exchange
from tessella.cells.cell.groups import orders_along

u, v, p = ts.Field("u"), ts.Field("v"), ts.Field("p")
D, LAPLACE = ts.D, ts.Laplacian()
SQUARE, PAST = ts.Box(x=(0, 1), y=(0, 1)), ts.Box(x=(0, 1), t=(0, 1))
START = ts.Initial()


def across(domain, operators, *conditions):
    """Per axis what is taken from below and from above, each as {(unknown, order): factor}."""
    operators = operators if isinstance(operators, list) else [operators]
    names = [name for name in "uvp" if any(name in str(o) for o in operators)]
    fields = {"fields": tuple(names)} if len(operators) > 1 else {}
    problem = ts.Problem(domain, [ts.Equation(o) for o in operators], conditions, **fields)

    def described(data):
        return [{(problem.fields[t.field], t.order): t.factor for t in d.terms} for d in data]

    found = exchange(problem, domain.scatter(50, np.random.default_rng(0)))
    axes = zip(domain.axes, found, strict=True)
    return {axis: (described(own.below), described(own.above)) for axis, own in axes}


def counts(*arguments):
    return {axis: (len(a), len(b)) for axis, (a, b) in across(*arguments).items()}


def solved(problem, subdomains, features):
    settings = {"coupling": "interfaces", "estimate": False}
    report = ts.solve(problem, subdomains=subdomains, features=features, **settings).report
    return report.error["l2_relative"]


STOKES = [-LAPLACE @ u + D(x=1) @ p, -LAPLACE @ v + D(y=1) @ p, D(x=1) @ u + D(y=1) @ v]
SOUND = [D(t=1) @ p + D(x=1) @ u, D(t=1) @ u + D(x=1) @ p]
NO_SLIP = (ts.Dirichlet(of=u), ts.Dirichlet(of=v))


@pytest.mark.parametrize(
    ("domain", "operators", "conditions", "expected"),
    [
        (SQUARE, LAPLACE, [ts.Dirichlet()], {"x": (1, 1), "y": (1, 1)}),
        (PAST, D(t=1) - D(x=2), [ts.Dirichlet(), START], {"x": (1, 1), "t": (1, 0)}),
        (
            PAST,
            D(t=1) + D(x=2),
            [ts.Dirichlet(on=("xmin", "xmax", "tmax"))],
            {"x": (1, 1), "t": (0, 1)},
        ),
        (
            PAST,
            D(t=2) - D(x=2),
            [ts.Dirichlet(), START, ts.InitialVelocity()],
            {"x": (1, 1), "t": (2, 0)},
        ),
        (SQUARE, LAPLACE @ LAPLACE, [ts.Dirichlet(), ts.Neumann()], {"x": (2, 2), "y": (2, 2)}),
        (PAST, D(t=1) + D(x=1), [START, ts.Dirichlet(on="xmin")], {"x": (1, 0), "t": (1, 0)}),
        (PAST, D(t=1) - D(x=1), [START, ts.Periodic("x")], {"x": (0, 1), "t": (1, 0)}),
        (
            PAST,
            D(t=1) + D(x=3),
            [START, ts.Dirichlet(), ts.Neumann(on="xmax")],
            {"x": (1, 2), "t": (1, 0)},
        ),
        (
            PAST,
            D(t=1) - D(x=3),
            [START, ts.Dirichlet(), ts.Neumann(on="xmin")],
            {"x": (2, 1), "t": (1, 0)},
        ),
        (SQUARE, STOKES, NO_SLIP, {"x": (2, 2), "y": (2, 2)}),
        (PAST, SOUND, [ts.Initial(of=u), ts.Initial(of=p)], {"x": (1, 1), "t": (2, 0)}),
        (SQUARE, D(y=2), [ts.Dirichlet()], {"x": (0, 0), "y": (1, 1)}),
    ],
    ids=[
        *("laplace", "heat", "heat backwards", "wave", "plate", "wind", "wind from above"),
        *("third order", "third order mirrored", "stokes", "sound", "lines"),
    ],
)
def test_as_many_data_are_taken_at_either_end_as_the_equation_needs(
    domain, operators, conditions, expected
):
    assert counts(domain, operators, *conditions) == expected


def test_half_of_second_order_is_robin_data_of_opposite_sign():
    (below,), (above,) = across(SQUARE, LAPLACE, ts.Dirichlet())["x"]
    assert below == {("u", 0): -1.0, ("u", 1): 1.0}
    assert above == {("u", 0): 1.0, ("u", 1): 1.0}


def test_what_starts_at_one_end_is_plain_initial_data():
    wave = across(PAST, D(t=2) - D(x=2), ts.Dirichlet(), START, ts.InitialVelocity())
    assert wave["t"] == ([{("u", 0): 1.0}, {("u", 1): 1.0}], [])


def test_an_ansatz_tells_where_a_problem_starts_too():
    built_in = ts.Ansatz(lambda x: x[:, 1] ** 2 * x[:, 0] * (1 - x[:, 0]))
    problem = ts.Problem(PAST, ts.Equation(D(t=2) - D(x=2)), ansatz=built_in)
    x, t = exchange(problem, PAST.scatter(20, np.random.default_rng(0)))
    assert (len(x.below), len(x.above), len(t.below), len(t.above)) == (1, 1, 2, 0)


def test_the_pressure_of_a_flow_belongs_to_its_flux():
    """On faces across x to that of u, across y to that of v: the traction."""
    found = across(SQUARE, STOKES, *NO_SLIP)
    for axis, with_it in (("x", "u"), ("y", "v")):
        for data in found[axis]:
            carrying = [datum for datum in data if ("p", 0) in datum]
            assert len(carrying) == 1 and (with_it, 1) in carrying[0]
            assert carrying[0]["p", 0] == -carrying[0][with_it, 1]


def test_sound_is_exchanged_as_what_runs_to_either_side():
    (right,), (left,) = across(PAST, SOUND, ts.Initial(of=u), ts.Initial(of=p))["x"]
    assert right["u", 0] == pytest.approx(right["p", 0])
    assert left["u", 0] == pytest.approx(-left["p", 0])


def test_what_one_neighbour_takes_the_other_gives():
    problem = ts.Problem(PAST, ts.Equation(D(t=1) + D(x=3)), [START])
    for own in exchange(problem, PAST.scatter(9, np.random.default_rng(0))):
        assert own.given(1) == own.taken(0) and own.given(0) == own.taken(1)


def test_orders_are_counted_per_unknown_and_axis():
    problem = ts.Problem(SQUARE, [ts.Equation(o) for o in STOKES], fields=("u", "v", "p"))
    assert orders_along(problem).tolist() == [[2, 2], [2, 2], [1, 1]]


@pytest.mark.parametrize(("end", "sign", "expected"), [("xmin", -1, (2, 1)), ("xmax", 1, (1, 2))])
def test_a_boundary_value_problem_takes_data_where_its_conditions_are(end, sign, expected):
    """Of third order, with two conditions at either end: no sign tells which."""

    def exact(p):
        return np.exp(p[:, 0])

    conditions = [ts.Dirichlet(exact), ts.Neumann(lambda p: sign * exact(p), on=end)]
    line = ts.Box(x=(0, 1))
    assert counts(line, D(x=3) - 1.0, *conditions) == {"x": expected}
    problem = ts.Problem(line, ts.Equation(D(x=3) - 1.0), conditions, exact=exact)
    assert solved(problem, 4, 20) < 1e-9


def test_a_wind_that_turns_is_taken_where_it_enters():
    """From the left below the middle and from the right above it."""

    def carried(p):
        return np.sin(3 * (p[:, 0] - (p[:, 1] - 0.5) ** 2 / 2))

    wind = D(y=1) + (lambda p: p[:, 1] - 0.5) * D(x=1)
    walls = [ts.Dirichlet(carried, on=("ymin", "xmin", "xmax"))]
    problem = ts.Problem(SQUARE, ts.Equation(wind), walls, exact=carried)
    assert solved(problem, (3, 4), 60) < 1e-4
    assert solved(problem, 3, 60) < 1e-4, "in the middle of a face"


def test_a_rotating_wind_carries_around():
    def turned(p):
        x, y, t = np.asarray(p).T
        return np.exp(-4 * (x * np.cos(t) + y * np.sin(t) - 0.3) ** 2)

    domain = ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 1))
    rotation = (lambda p: p[:, 0]) * D(y=1) - (lambda p: p[:, 1]) * D(x=1)
    conditions = [ts.Initial(turned), ts.Dirichlet(turned)]
    problem = ts.Problem(domain, ts.Equation(D(t=1) + rotation), conditions, exact=turned)
    assert solved(problem, (2, 2, 1), 150) < 1e-2


def test_winds_of_two_unknowns_turn_in_places_of_their_own():
    """Two substances carried by a shear and by its opposite, each feeding the other."""
    c, e = ts.Field("c"), ts.Field("e")
    exact = {
        "c": lambda p: np.sin(p[:, 0] + p[:, 1]),
        "e": lambda p: np.cos(p[:, 0] - p[:, 1]),
    }

    def wind(p):
        return p[:, 1] - 0.1

    def source_c(p):
        x, y = p.T
        return (y - 0.1) * np.cos(x + y) + 2 * np.sin(x + y) - np.cos(x - y)

    def source_e(p):
        x, y = p.T
        return (y - 0.1) * np.sin(x - y) + 2 * np.cos(x - y) - np.sin(x + y)

    def enters(p, sign):
        return np.isclose(p[:, 0], np.where(sign * wind(p) > 0, -1.0, 1.0))

    problem = ts.Problem(
        ts.Box(x=(-1, 1), y=(-1, 1)),
        [
            ts.Equation(wind * (ts.D(x=1) @ c) + 2 * c - e, source_c),
            ts.Equation(-1.0 * (wind * (ts.D(x=1) @ e)) + 2 * e - c, source_e),
        ],
        [
            ts.Dirichlet(exact["c"], on=lambda p: enters(p, 1), of=c),
            ts.Dirichlet(exact["e"], on=lambda p: enters(p, -1), of=e),
        ],
        exact=exact,
    )
    solution = ts.solve(problem, subdomains=3, features=90, coupling="interfaces")
    assert solution.report.error["max"] < 1e-5


def test_an_elliptic_system_of_first_order_is_determined_by_one_of_its_unknowns():
    """Cauchy and Riemann: u on all walls and v in one point."""
    exact = {
        "u": lambda x: np.exp(x[:, 0]) * np.cos(x[:, 1]),
        "v": lambda x: np.exp(x[:, 0]) * np.sin(x[:, 1]),
    }
    equations = [D(x=1) @ u - D(y=1) @ v, D(y=1) @ u + D(x=1) @ v]
    point = np.array([[0.4, 0.3]])
    problem = ts.Problem(
        SQUARE,
        [ts.Equation(o) for o in equations],
        [ts.Dirichlet(exact["u"], of=u), ts.Measured(point, exact["v"](point), operator=v)],
        exact=exact,
        fields=("u", "v"),
    )
    assert solved(problem, 3, 60) < 1e-4


def test_more_equations_than_unknowns_meet_a_tolerance():
    """Slopes in two directions: whoever gives a tolerance has not chosen how cells are joined."""

    def exact(p):
        return np.sin(p[:, 0] + 2 * p[:, 1])

    def slope(p):
        return np.cos(p[:, 0] + 2 * p[:, 1])

    equations = [ts.Equation(D(x=1), slope), ts.Equation(D(x=1) + D(y=1), lambda p: 3 * slope(p))]
    measured = ts.Measured([[0.5, 0.5]], [np.sin(1.5)])
    report = ts.solve(ts.Problem(SQUARE, equations, [measured], exact=exact), tol=1e-4).report
    assert report.error["l1_normalised"] < 3e-4


def test_an_exchange_that_is_not_known_is_refused_with_a_remedy():
    twice = ts.Problem(SQUARE, [ts.Equation(D(x=1)), ts.Equation(D(x=1) + D(y=1))])
    with pytest.raises(ValueError, match=r"2 equations differentiate 1 .*coupling='overlap'"):
        ts.solve(twice, subdomains=2, features=10, coupling="interfaces")
