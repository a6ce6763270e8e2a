"""Parameters from measurements: what is found, how sure it is, and what is refused."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

LINE = {"subdomains": 2, "features": 20, "coupling": "interfaces"}
X = np.linspace(0.05, 0.95, 25)


def wire(theta: Any) -> ts.Problem:
    """-k u'' = 2 + c x between cold ends."""
    heat = ts.Equation(-theta["k"] * ts.D(x=2), lambda p: 2.0 + theta["c"] * p[:, 0])
    return ts.Problem(ts.Box(x=(0, 1)), heat, [ts.Dirichlet(0.0)])


def heated(k: float, c: float) -> np.ndarray:
    return (X * (1 - X) + c * X * (1 - X**2) / 6) / k


TRUTH, START = {"k": 2.0, "c": 3.0}, {"k": 1.0, "c": 0.0}


def identified(values: np.ndarray, start: Any = START, **more: Any) -> ts.Identified:
    return ts.identify(wire, (X, values), start, **LINE, **more)


def test_data_without_noise_give_the_truth() -> None:
    found = identified(heated(**TRUTH))
    assert found.converged
    assert found.theta["k"] == pytest.approx(2.0, abs=1e-8)
    assert found.theta["c"] == pytest.approx(3.0, abs=1e-8)
    np.testing.assert_allclose(found.solution()(X), heated(**TRUTH), atol=1e-9)
    told = str(found)
    assert "2 parameters from 25 measurements" in told
    assert "  k  " in told and "+-" in told and "noise" in told


@pytest.mark.parametrize("known", [True, False])
def test_intervals_hold_the_truth_as_often_as_promised(known: bool) -> None:
    sigma, truth = 0.002, np.array([3.0, 2.0])
    draw, inside, scaled = np.random.default_rng(0), [], []

    def plain(theta: Any) -> ts.Problem:
        return wire({name: float(value) for name, value in theta.items()})

    for _ in range(20):
        noisy = heated(**TRUTH) + sigma * draw.standard_normal(len(X))
        given = sigma if known else None
        found = ts.identify(plain, (X, noisy), TRUTH, noise=given, **LINE)
        low, high = found.intervals.T
        inside.append((low <= truth) & (truth <= high))
        scaled.append((found.values - truth) ** 2 / np.diag(found.covariance))
    assert found.names == ("c", "k")
    assert 0.85 <= np.mean(inside) <= 1.0
    assert 0.5 <= np.mean(scaled) <= 1.7


def test_a_field_needs_regularisation() -> None:
    def field(theta: Any) -> ts.Problem:
        def source(p: Any) -> Any:
            return sum(theta[k] * jnp.sin((k + 1) * jnp.pi * p[:, 0]) for k in range(8))

        return ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), source), [ts.Dirichlet(0.0)])

    few = np.array([0.2, 0.5, 0.7])
    data = (few, np.sin(np.pi * few) / np.pi**2)
    with pytest.raises(ValueError, match="3 measurements cannot determine 8 parameters"):
        ts.identify(field, data, np.zeros(8), **LINE)
    rough = np.diag(np.arange(1.0, 9.0) ** 2)
    found = ts.identify(field, data, np.zeros(8), noise=1e-4, regularisation=rough, **LINE)
    assert found.values[0] == pytest.approx(1.0, abs=2e-2)
    assert np.max(np.abs(found.values[1:])) < 2e-2
    spread = np.sqrt(np.diag(found.covariance))
    assert np.all(spread <= 1.001 / np.diag(rough)) and spread[0] < 0.01


# --- how strongly to regularise

WAVES = np.arange(1.0, 9.0)
ROUGH = WAVES**2
SMOOTH = ts.Smooth(np.pi * WAVES)
SPOTS = np.linspace(0.02, 0.98, 60)
SIGMA = 0.03


def rod(theta: Any) -> ts.Problem:
    """-(a u')' = 10 between cold ends, where log a has eight cosines."""

    def a(p: Any) -> Any:
        return jnp.exp(jnp.cos(jnp.pi * p[:, 0, None] * WAVES) @ theta)

    flux = ts.D(x=1) @ (a * ts.D(x=1))  # type: ignore[operator]
    return ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-flux, 10.0), [ts.Dirichlet(0.0)])


def measured(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some theta, the smoother the likelier, and noisy measurements."""
    draw = np.random.default_rng(seed)
    theta = 0.8 * draw.standard_normal(8) / ROUGH
    u = np.asarray(ts.parametric(rod, SPOTS, **LINE)(theta))
    return theta, u + SIGMA * draw.standard_normal(len(SPOTS))


def of_rod(values: np.ndarray, start: float = 0.0, **more: Any) -> ts.Identified:
    data = (SPOTS, values)
    return ts.identify(rod, data, np.full(8, start), prior=0.0, **LINE, **more)


def test_data_choose_a_strength_near_the_best() -> None:
    """The best is that of the smallest error over all draws; for one of them that is chance."""
    strengths, chosen, errors, lost = 10.0 ** np.arange(4), [], [], []
    for seed in range(2):
        truth, values = measured(seed)

        def off(found: ts.Identified, truth: np.ndarray = truth) -> float:
            return float(np.linalg.norm(found.values - truth))

        given = {"noise": SIGMA, "regularisation": ROUGH}
        errors.append([off(of_rod(values, strength=own, **given)) for own in strengths])
        known = of_rod(values, strength="auto", **given)
        unknown = of_rod(values, strength="auto", regularisation=ROUGH)
        chosen += [known.strength, unknown.strength / unknown.noise]
        smooth = of_rod(values, noise=SIGMA, regularisation=SMOOTH)
        lost += [off(own) / min(errors[-1]) for own in (known, unknown, smooth)]
    best = strengths[int(np.argmin(np.sum(np.square(errors), axis=0)))]
    assert best / 10 < min(chosen) and max(chosen) < 10 * best
    assert max(lost) < 2


@pytest.mark.parametrize("noise", [SIGMA, None])
def test_the_chosen_strength_depends_on_the_data_only(noise: float | None) -> None:
    _, values = measured(3)
    one = of_rod(values, noise=noise, regularisation=ROUGH, strength="auto")
    for scale, start in ((1e5, 0.05), (1e-5, -0.05)):
        own = of_rod(values, start, noise=noise, regularisation=scale * ROUGH, strength="auto")
        assert scale * own.strength == pytest.approx(one.strength, rel=0.03)
        np.testing.assert_allclose(own.values, one.values, atol=2e-3)
    assert f"regularisation x {one.strength:.3g} (the data are likeliest with it" in str(one)


def test_a_prior_that_explains_the_data_is_kept() -> None:
    _, values = measured(0)
    exact = np.asarray(ts.parametric(rod, SPOTS, **LINE)(np.zeros(8)))
    found = of_rod(exact, noise=SIGMA, regularisation=ROUGH, strength="auto")
    assert "the prior itself" in found.strength_why
    assert np.max(np.abs(found.values)) < 1e-6
    told = of_rod(values, noise=SIGMA, regularisation=2 * ROUGH)
    twice = of_rod(values, noise=SIGMA, regularisation=ROUGH, strength=2.0)
    np.testing.assert_allclose(told.values, twice.values, atol=1e-6)


def test_weights_of_zero_ask_for_nothing() -> None:
    """What is not regularised neither counts as a measurement nor moves the strength."""
    values = heated(**TRUTH) + 0.002 * np.random.default_rng(0).standard_normal(len(X))
    plain = identified(values)
    for none in (np.zeros(2), np.zeros((0, 2))):
        zero = identified(values, regularisation=none)
        np.testing.assert_allclose(zero.intervals, plain.intervals, rtol=1e-10)
    found = identified(values, regularisation=np.array([1.0, 0.0]), strength="auto")
    assert found.theta["k"] == pytest.approx(2.0, abs=0.1)
    assert "of 1)" in str(found)


def test_a_field_of_one_function_is_found_as_such() -> None:
    truth = 0.5 * (WAVES == 3)
    u = np.asarray(ts.parametric(rod, SPOTS, **LINE)(truth))
    values = u + SIGMA * np.random.default_rng(1).standard_normal(len(SPOTS))
    weighed = of_rod(values, noise=SIGMA, regularisation=ROUGH, strength="auto")
    for noise in (SIGMA, None):
        found = of_rod(values, noise=noise, regularisation=SMOOTH)
        assert found.converged
        assert np.linalg.norm(found.values - truth) < 0.5 * np.linalg.norm(weighed.values - truth)
        low, high = found.intervals.T
        assert np.all((low <= truth) & (truth <= high))
        assert found.noise == pytest.approx(SIGMA, rel=0.2)
        assert 0.9 < found.fields["theta"].functions < 4 and "of 8 functions" in str(found)
    held = of_rod(values, noise=SIGMA, regularisation=SMOOTH, bounds=(-0.3, 0.3))
    assert held.values[2] == pytest.approx(0.3)


@pytest.mark.parametrize("expected", [None, SMOOTH])
def test_exact_data_give_a_field_from_nothing(expected: Any) -> None:
    """However small the noise is said to be, a start at zero is left."""
    truth = 0.5 / ROUGH
    exact = np.asarray(ts.parametric(rod, SPOTS, **LINE)(truth))
    found = of_rod(exact, noise=1e-9, regularisation=expected)
    np.testing.assert_allclose(found.values, truth, atol=1e-7)
    assert found.converged and np.all(np.diff(found.intervals) > 0)


def test_parts_of_theta_are_expected_to_be_different() -> None:
    values = heated(**TRUTH) + 0.002 * np.random.default_rng(0).standard_normal(len(X))
    one = identified(values, noise=0.002, regularisation={"k": 0, "c": 0.5})
    other = identified(values, noise=0.002, regularisation=np.array([0.5, 0.0]))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-6)
    plain = identified(values, noise=0.002)
    free = identified(values, noise=0.002, regularisation={"k": 0, "c": ts.Smooth([1.0])})
    assert np.all(np.abs(free.values - plain.values) < 0.5 * np.sqrt(np.diag(plain.covariance)))
    assert set(free.fields) == {"c"} and free.converged


def test_a_reaction_is_found() -> None:
    """-u'' + c u^3 = f with u = sin(pi x) and c = 2, from c = 1/2."""
    u = np.sin(np.pi * X)

    def reacting(c: Any) -> ts.Problem:
        def source(p: Any) -> Any:
            sine = jnp.sin(np.pi * p[:, 0])
            return np.pi**2 * sine + 2 * sine**3

        equation = ts.Equation(lambda d, x: -d(x=2) + c * d() ** 3, source)
        return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)])

    found = ts.identify(reacting, (X, u), 0.5, **LINE)
    assert found.converged and found.theta == pytest.approx(2.0, abs=1e-6)


def test_bounds_hold() -> None:
    found = identified(heated(**TRUTH), bounds=({"k": 0.5, "c": -1.0}, {"k": 1.5, "c": 10.0}))
    assert found.theta["k"] == pytest.approx(1.5, abs=1e-4)


def test_thetas_without_a_problem_are_stepped_back_from() -> None:
    def positive(theta: Any) -> ts.Problem:
        if not theta > 0.01:
            raise ValueError(f"a wire conducts nothing: {theta}")
        return wire({"k": float(theta), "c": 0.0})

    found = ts.identify(positive, (X, heated(0.5, 0.0)), 3.0, **LINE)
    assert float(found.theta) == pytest.approx(0.5, abs=1e-7)
    told = "fails in identify(), a wire conducts nothing"
    assert "stepped back from where problem_of([" in found.reason and told in found.reason
    with pytest.raises(RuntimeError, match=r"problem_of\(\[3\]\) fails in identify\(\), Key"):
        ts.identify(lambda theta: wire({}), (X, heated(0.5, 0.0)), 3.0, **LINE)


def test_parameters_that_cannot_be_told_apart_are_said_to_be() -> None:
    def twice(theta: Any) -> ts.Problem:
        return wire({"k": 1.0, "c": theta[0] + theta[1]})

    found = ts.identify(twice, (X, heated(1.0, 3.0)), np.array([1.0, 0.5]), **LINE)
    assert "the data determine 1 of 2 parameters only" in found.reason
    assert np.sum(found.values) == pytest.approx(3.0, abs=1e-7)
    assert np.all(np.isinf(found.intervals)) and "not determined" in str(found)


def test_somebody_may_watch() -> None:
    seen: list[int] = []
    identified(heated(**TRUTH), progress=lambda done, most, misfit: seen.append(done))
    assert seen and seen == sorted(seen)


VALUES = heated(**TRUTH)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"data": (X + 1, VALUES)}, "lie outside Box"),
        ({"data": (X, VALUES[:3])}, "one value for each point"),
        ({"data": VALUES}, r"must be a pair \(points, values\)"),
        ({"data": (X, np.where(X > 0.5, np.nan, VALUES))}, "NaN or infinite"),
        ({"data": (X[:1], VALUES[:1])}, "1 measurements cannot determine 2 parameters"),
        ({"noise": 0.0}, "noise must be a positive number"),
        ({"bounds": 3.0}, "bounds must be a pair"),
        ({"bounds": (2.0, 5.0)}, "is not within its bounds"),
        ({"regularisation": np.ones(3)}, "regularisation must be a number, 2 numbers"),
        ({"strength": "auto"}, "strength='auto' has no regularisation"),
        ({"regularisation": 1.0, "strength": "some"}, "strength must be a positive number or"),
        ({"regularisation": 1.0, "strength": 0.0}, "strength must be a positive number or"),
        ({"regularisation": {"k": 1.0}}, r"a part for each of start \(c, k\), 0 for none"),
        ({"regularisation": {"k": -1.0, "c": 0}}, "of k must be Smooth, or weights that are not"),
        ({"regularisation": ts.Smooth([1.0])}, "a part for each of start"),
        ({"regularisation": {"k": 0, "c": ts.Smooth([1, 2])}}, "of c has 2 wavenumbers for 1"),
        ({"regularisation": {"k": 0, "c": ts.Smooth(1.0)}, "strength": 2.0}, "what Smooth finds"),
        (
            {"data": (X[:2], VALUES[:2]), "regularisation": {"k": 0, "c": ts.Smooth(1.0)}},
            "2 measurements cannot tell the noise from 2 parameters",
        ),
        ({"start": {"k": np.inf, "c": 0.0}}, "start must be finite"),
        ({"prior": np.ones(3)}, "prior must be a number or like start"),
    ],
)
def test_bad_input_is_refused_by_name(choices: Any, message: str) -> None:
    given: dict[str, Any] = {"data": (X, VALUES), "start": START} | choices
    with pytest.raises((ValueError, TypeError), match=message):
        ts.identify(wire, **given, **LINE)


def test_wavenumbers_are_not_negative() -> None:
    with pytest.raises(ValueError, match=r"wavenumbers must be numbers that are not negative, got"):
        ts.Smooth([1.0, -2.0])


def test_a_parameter_without_influence_is_named() -> None:
    with pytest.raises(ValueError, match="extra does not change what is measured"):
        ts.identify(wire, (X, VALUES), START | {"extra": 1.0}, **LINE)
