"""Every mistake in the input is refused at once: the argument, its value, and what to do."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
import tessella.machine.memory as memory
from tessella.gallery.entry import split_settings

LINE = ts.Box(x=(0, 1))
PLANE = ts.Box(x=(0, 1), y=(0, 1))


def solve(**changes):
    """A sound little problem, with some of its parts replaced."""
    parts = {
        "operator": ts.D(x=2) + ts.D(x=1) + 1,
        "rhs": 1.0,
        "value": 0.0,
        "ansatz": ts.Ansatz(),
        "exact": None,
        "on": None,
    }
    arguments = {"subdomains": 4, "features": 8}
    for key, value in changes.items():
        (parts if key in parts else arguments)[key] = value
    problem = ts.Problem(
        LINE,
        ts.Equation(parts["operator"], parts["rhs"]),
        [ts.Dirichlet(parts["value"], on=parts["on"])],
        ansatz=parts["ansatz"],
        exact=parts["exact"],
    )
    return ts.solve(problem, **arguments)


def refused(message, **changes):
    with pytest.raises(ValueError, match=message):
        solve(**changes)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({}, r"at least one axis, e\.g\. Box\(x=\(0, 1\)\)"),
        ({"x": (1, 0)}, r"axis 'x' must have finite low < high, got \(1, 0\)"),
        ({"x": (0, 0)}, r"axis 'x' must have finite low < high, got \(0, 0\)"),
        ({"y": (0, np.inf)}, r"axis 'y' must have finite low < high, got \(0, inf\)"),
        ({"x": 1.0}, r"axis 'x' must be a pair \(low, high\), got 1.0"),
        ({"x": (0, 1, 2)}, r"axis 'x' must be a pair \(low, high\), got \(0, 1, 2\)"),
        ({"x": "ab"}, r"axis 'x' must be a pair \(low, high\), got 'ab'"),
    ],
)
def test_boxes(bounds, message):
    with pytest.raises(ValueError, match=message):
        ts.Box(**bounds)


def test_overlap_that_leaves_points_uncovered():
    """41 points, 5 subdomains of half a spacing: the first gap begins behind 1/16."""
    grid = ts.Grid(points_per_axis=41)
    message = (
        r"overlap=0\.5 leaves 20 of 43 points in no subdomain, the first at \(0\.075\): "
        r"use an overlap above 1$"
    )
    refused(message, subdomains=5, features=2, overlap=0.5, collocation=grid)


@pytest.mark.parametrize("overlap", [0, -1.0, np.nan, np.inf])
def test_overlap_that_makes_no_sense(overlap):
    refused(f"overlap must be positive, got {overlap}: it is the width", overlap=overlap)


@pytest.mark.parametrize("overlap", [(2.0, 2.0), "wide", [[2.0]]])
def test_overlap_of_another_shape(overlap):
    refused(
        rf"overlap must be one number or one per axis \(x\), got {re.escape(repr(overlap))}",
        overlap=overlap,
    )


@pytest.mark.parametrize("subdomains", [0, -3, 1.5, np.nan, np.inf])
def test_subdomains_below_what_makes_sense(subdomains):
    refused(
        f"subdomains must be whole numbers >= 1, got {subdomains}; 1 leaves an axis undivided",
        subdomains=subdomains,
    )


@pytest.mark.parametrize("subdomains", [(4, 4), "four", (4, "four")])
def test_subdomains_of_another_shape(subdomains):
    refused(
        rf"subdomains must be one number or one per axis \(x\), got {re.escape(repr(subdomains))}",
        subdomains=subdomains,
    )


@pytest.mark.parametrize("features", [0, -1, 2.5, np.nan, np.inf, "many"])
def test_features_below_what_makes_sense(features):
    refused(f"features must be a whole number >= 1, got {features!r}", features=features)


@pytest.mark.parametrize("depth", [0, 1.5, "deep"])
def test_depth_below_what_makes_sense(depth):
    refused(f"depth must be a whole number >= 1, got {depth!r}", depth=depth)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, "big"])
def test_scale(scale):
    refused(f"scale must be a positive number, got {scale!r}", scale=scale)


@pytest.mark.parametrize("seed", [-1, 1.5, "lucky"])
def test_seed(seed):
    refused(f"seed must be a whole number >= 0, got {seed!r}", seed=seed)


@pytest.mark.parametrize("sigma", [-1e-3, 1.0, 7.0, np.nan, "small"])
def test_sigma_outside_its_interval(sigma):
    refused(
        rf"sigma must lie in \[0, 1\), got {sigma!r}: .*1e-8 is the paper's choice", sigma=sigma
    )


@pytest.mark.parametrize("f", [0.5, np.nan])
def test_the_bound_of_strong_rrqr(f):
    with pytest.raises(ValueError, match=f"f must be at least 1, got {f} .2 is usual"):
        ts.RRQR(strong=True, f=f)


@pytest.mark.parametrize("oversampling", [0.0, -1.0, np.nan])
def test_oversampling(oversampling):
    refused(
        f"oversampling must be a positive number, got {oversampling}", oversampling=oversampling
    )


@pytest.mark.parametrize("count", [0, 1.5, (3, 0)])
def test_points_per_axis(count):
    with pytest.raises(ValueError, match=r"points_per_axis must be whole numbers >= 1, got "):
        ts.Grid(points_per_axis=count)


def test_points_per_axis_of_another_dimension():
    refused(
        r"points_per_axis must be one number or one per axis, got \(3, 4\) in 1 dimensions",
        collocation=ts.Grid(points_per_axis=(3, 4)),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iterations": 0}, "max_iterations must be .*at least 1, got 0"),
        ({"atol": -1.0}, "atol must be 0 or a positive number, got -1.0"),
        ({"btol": np.nan}, "btol must be 0 or a positive number, got nan"),
        ({"stagnation": np.inf}, "stagnation must be 0 or a positive number, got inf"),
        ({"track_every": 0}, "track_every must be .*at least 1, got 0"),
    ],
)
def test_tolerances_and_limits(options, message):
    with pytest.raises(ValueError, match=message):
        ts.LSQR(**options)


def test_an_unknown_face():
    refused("unknown face 'left': this domain has xmin, xmax", on="left")


def test_an_unknown_axis():
    refused(r"D\(.*uses the axis 'z', but the domain has x", operator=ts.D(z=1))
    with pytest.raises(ValueError, match="unknown axis 'z': this domain has x, y"):
        PLANE.axis_index("z")


def test_an_unknown_axis_of_time():
    with pytest.raises(ValueError, match="unknown face 'tmin': this domain has xmin, xmax"):
        ts.Problem(LINE, ts.Equation(ts.D(x=1)), [ts.Initial(0.0)])


def test_an_unknown_activation():
    refused(
        r"unknown activation 'relu': choose one of tanh, sigmoid, sin, or pass a tessella\.Activ",
        activation="relu",
    )


def test_an_unknown_solver():
    refused("unknown solver 'magic': choose one of auto, nested-qr, rrqr-lsqr", solver="magic")


def test_an_unknown_parameter():
    entry = ts.gallery.get("laplace")
    with pytest.raises(ValueError, match="laplace has no parameter omega0: it has n"):
        entry.problem(omega0=3.0)
    with pytest.raises(
        ValueError, match=r"laplace has no setting 'omega0': there are n, subdomains"
    ):
        entry.solve(settings={"omega0": 3.0})
    with pytest.raises(
        ValueError, match=r"no setting 'feature': did you mean 'features'\? there are"
    ):
        entry.solve(settings={"feature": 3})
    with pytest.raises(
        TypeError, match=r"solve\(\) has no argument 'feature': did you mean 'features'\?"
    ):
        solve(feature=3)


def test_an_unknown_problem_or_preset():
    with pytest.raises(ValueError, match=r"unknown problem 'laplce': did you mean 'laplace'\? the"):
        ts.gallery.get("laplce")
    with pytest.raises(ValueError, match="laplace has no preset 'fast': choose one of as-run"):
        ts.gallery.get("laplace").solve("fast")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": "two"}, "setting n must be a number, got 'two'"),
        ({"n": True}, "setting n must be a number, got True"),
        ({"sigma": "small"}, "setting sigma must be a number, got 'small'"),
        ({"max_iterations": "all"}, "setting max_iterations must be a number, got 'all'"),
        ({"features": (3, 4)}, r"setting features must be a number, got \(3, 4\)"),
        ({"subdomains": (3, "x")}, "setting subdomains must be a number, got 'x'"),
        ({"constant": "maybe"}, "setting constant must be true or false, got 'maybe'"),
        ({"activation": 3}, "setting activation must be a name, got 3"),
    ],
)
def test_settings_of_the_wrong_kind(settings, message):
    entry = ts.gallery.get("laplace")
    with pytest.raises(ValueError, match=message):
        split_settings(entry, entry.preset("as-run"), settings)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("harmonic-oscillator", {"omega0": 1.0}, "omega0=1 with mu=4 is not under-damped: use"),
        ("laplace", {"n": 1.5}, "n must be a whole number >= 1, got 1.5"),
        ("laplace", {"n": 0}, "n must be a whole number >= 1, got 0"),
        ("wave", {"lambda": 0.0}, "lambda must be positive, got 0.0"),
        ("wave", {"T": -1.0}, "T must be positive, got -1.0"),
    ],
)
def test_parameters_of_the_gallery(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        ts.gallery.get(name).problem(**parameters)


def wrong_shape(p):
    return np.ones((len(p), 2))


def too_short(p):
    return np.ones(len(p) - 1)


def not_a_number(p):
    return np.where(p[:, 0] > 0.9999, np.nan, 1.0)


def infinite(p):
    return jnp.where(p[:, 0] > 0.9999, jnp.inf, 1.0)


def nothing(p):
    return None


def imaginary(p):
    return 1j * p[:, 0]


PLACES = {
    "right-hand side": (lambda f: {"rhs": f}, "equation right-hand side"),
    "boundary value": (lambda f: {"value": f}, "dirichlet value"),
    "coefficient": (lambda f: {"operator": f * ts.D(x=2)}, r"the function '\w+'"),
    "multiplier": (lambda f: {"ansatz": ts.Ansatz(f), "operator": ts.Identity()}, "the function"),
    "offset": (lambda f: {"ansatz": ts.Ansatz(1.0, f), "operator": ts.Identity()}, "the function"),
    "exact": (lambda f: {"exact": f}, "the exact solution"),
}
places = pytest.mark.parametrize(("place", "what"), PLACES.values(), ids=PLACES)


@places
@pytest.mark.parametrize("function", [wrong_shape, too_short])
def test_functions_of_the_wrong_shape(place, what, function):
    message = rf"{what}.* returned shape .* points: it must map an \(n, 1\) array of points to an"
    refused(message, **place(function))


@places
@pytest.mark.parametrize(("function", "value"), [(not_a_number, "nan"), (infinite, "inf")])
def test_functions_that_are_not_finite_name_the_point(place, what, function, value):
    message = rf"{what}.* is {value} at the point \(1\), and not finite at \d+ of \d+ points"
    refused(message, **place(function))


@places
@pytest.mark.parametrize("function", [nothing, imaginary])
def test_functions_that_are_not_real(place, what, function):
    words = "(must be real numbers, got complex128 values|returned None: is a `return` missing)"
    refused(f"{what}.* {words}", **place(function))


def test_derivatives_that_are_not_finite_name_the_point():
    def root(p):
        return jnp.sqrt(p[:, 0])

    refused(
        r"the derivative \(1,\) of the function 'root' is inf at the point \(0\)",
        ansatz=ts.Ansatz(1.0, root),
        operator=ts.D(x=1),
    )


def test_a_number_that_is_not_finite():
    refused(r"equation right-hand side is nan at the point \(0\)", rhs=np.nan)


def test_fewer_rows_than_columns():
    refused(
        r"fewer rows than columns \(12 < 36\): raise oversampling .*or use fewer features",
        collocation=ts.Grid(points_per_axis=10),
    )


def test_neither_basis_nor_sizes():
    refused(r"needs a tolerance, .*or `subdomains` and `features`, e\.g\.", features=None)
    refused(r"needs a tolerance, .*or `subdomains` and `features`, e\.g\.", subdomains=None)


def test_both_basis_and_sizes():
    basis = ts.Basis(ts.Decomposition(LINE, 4), ts.RandomFeatures(8))
    refused("either `basis` or its shorthand .*subdomains, features.*, not both", basis=basis)


def test_a_basis_of_another_domain():
    basis = ts.Basis(ts.Decomposition(ts.Box(x=(0, 2)), 4), ts.RandomFeatures(8))
    refused(
        r"basis lives on Box\(x=\(0, 2\)\), but the problem on Box\(x=\(0, 1\)\): decompose",
        basis=basis,
        subdomains=None,
        features=None,
    )


def test_too_much_memory_is_refused_before_anything_is_allocated(monkeypatch):
    """Ten thousand subdomains per axis would need petabytes; not even the points are made."""

    def allocate(*_):
        raise AssertionError("points were made")

    monkeypatch.setattr(ts.Box, "grid", allocate)
    monkeypatch.setattr(ts.RandomFeatures, "draw", allocate)
    for dimension in (2, 3):
        domain = ts.Box(**dict.fromkeys("xyz"[:dimension], (0, 1)))
        problem = ts.Problem(domain, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
        message = (
            r"system of [\d,]+ rows and [\d,]+ columns needs about [\d.e+]+ GiB, but [\d.e+-]+ GiB "
            r"are free: use fewer features, subdomains or points"
        )
        with pytest.raises(MemoryError, match=message):
            ts.solve(problem, subdomains=10_000, features=100)


def test_what_is_refused_depends_on_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda *_: 1000)
    with pytest.raises(MemoryError, match=r"72 rows and 36 columns needs about .*9.31e-07 GiB are"):
        solve()


def test_free_memory_is_known():
    assert 2**20 < memory.available_bytes() < 2**50
    assert memory.peak_mib() > 10


# Misuse that once ended inside


SOUND = ts.Problem(LINE, ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])


@pytest.fixture(scope="module")
def sound():
    return ts.solve(SOUND, subdomains=2, features=8)


@pytest.mark.parametrize("operator", ["dx", None, ts.D, 3, np.eye(2)])
def test_what_is_no_operator(sound, operator):
    with pytest.raises(TypeError, match=r"apply\(\) operator must be built from D"):
        sound.apply(operator, [0.5])


def test_an_integral_of_no_operator(sound):
    with pytest.raises(TypeError, match=r"integral\(\) operator must be .*got 'dx'"):
        sound.integral("dx")


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (None, "points contain NaN or infinity"),
        (object(), "points must be an array of real numbers, got <object"),
        ([[0.1], [0.1, 0.2]], "points must be an array of real numbers"),
        (np.array([0.1 + 1j]), "points must be real numbers, got complex128"),
        (np.ma.masked_array([0.1, 0.2], [False, True]), "points are a masked array"),
    ],
)
def test_points_that_are_none(sound, points, message):
    with pytest.raises(ValueError, match=message):
        sound(points)


def test_normals_of_another_shape(sound):
    with pytest.raises(ValueError, match=r"normals must have a line for each .*\(2, 1\), got \(3,"):
        sound.apply(ts.D(x=1), [0.1, 0.2], np.ones((3, 1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exact": "sin"}, "Problem exact must be a function, or one by name, got 'sin'"),
        ({"on": 3}, "dirichlet on must be a face, a list of them or a function .*got 3"),
        ({"on": [3]}, "dirichlet on must be a face, a list of them or a function .*got 3"),
        ({"ansatz": 3}, r"Problem ansatz must be Ansatz\(multiplier, offset\).*got 3"),
        ({"basis": "x", "subdomains": None, "features": None}, "basis must be a Basis.*got 'x'"),
        ({"filter": "x"}, r"filter must be RRQR\(sigma\) or Unfiltered\(\), got 'x'"),
        ({"solver": 3}, r"solver must be a name or .*LSQR\(\), got 3"),
        ({"condition": "yes"}, "condition must be True or False, got 'yes'"),
        ({"constant": 3}, "constant must be True or False, got 3"),
        ({"progress": 3}, "progress must be a function of .*got 3"),
        ({"rhs": int}, "Equation rhs must be a number or a function of the points, got <class"),
        ({"rhs": lambda p: p.x}, r"right-hand side fails, .*it must map an \(n, 1\) array"),
    ],
)
def test_objects_of_the_wrong_kind(changes, message):
    with pytest.raises(TypeError, match=message):
        solve(**changes)


def test_a_function_that_masks_what_it_returns():
    def masked(p):
        return np.ma.masked_array(p[:, 0], p[:, 0] > 0.5)

    refused("right-hand side returned a masked array: fill in", rhs=masked)


def test_operators_have_no_powers_and_do_not_divide():
    for wrong in (lambda u: u**2, lambda u: 1 / u, lambda u: u / u):
        with pytest.raises(TypeError, match=r"would not be linear|divided by numbers"):
            wrong(ts.D(x=1))


@pytest.mark.parametrize("n", [np.inf, np.nan, 10.0**12])
def test_scales_of_the_gallery_that_are_none(n):
    with pytest.raises(ValueError, match=r"n must be (a whole number >= 1|at most 40), got"):
        ts.gallery.get("laplace").solve(settings={"n": n})


@pytest.mark.parametrize("patience", ["a", np.nan, -1.0])
def test_patience_that_is_none(patience):
    with pytest.raises(ValueError, match=f"patience must be a number of seconds, got {patience!r}"):
        ts.solve(SOUND, tol=1e-3, patience=patience)


def test_units_too_wide_for_a_difference():
    with pytest.raises(ValueError, match="must have finite low < high"):
        ts.Box(x=(-1e308, 1e308))


def test_a_reference_with_masked_values():
    values = np.ma.masked_array([0.1, 0.2], [False, True])
    with pytest.raises(ValueError, match="Reference values are a masked array"):
        ts.Reference([[0.1], [0.2]], values)


@pytest.mark.parametrize("door", [ts.pinn, ts.fbpinn])
def test_networks_need_a_problem_and_a_training(door):
    with pytest.raises(TypeError, match=r"pinn\(\) needs a Problem"):
        door(None, 3)
    size = {"subdomains": 2} if door is ts.fbpinn else {}
    with pytest.raises(TypeError, match=r"training must be Training\(steps=...\), got 3"):
        door(SOUND, 4, training=3, **size)
