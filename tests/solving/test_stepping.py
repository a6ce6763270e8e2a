"""Where waves travel `tol` marches, and says what is true at loose tolerances too."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.accuracy.scales import turning_rate
from tessella.machine import threads
from tessella.solution.marched import Marched, MarchReport
from tessella.solving.time import stepping
from tessella.solving.time.stepping import in_slabs

WIDTH = 0.02


def pulse(s):
    return np.exp(-(s**2) / (2 * WIDTH**2))


def string(**keywords):
    def mirrored(s):
        s = np.mod(s + 1, 2) - 1
        return np.where(s >= 0, pulse(s - 0.5), -pulse(-s - 0.5))

    def exact(p):
        return (mirrored(p[:, 0] - p[:, 1]) + mirrored(p[:, 0] + p[:, 1])) / 2

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        keywords.pop("equation", ts.Equation(ts.D(t=2) - ts.D(x=2))),
        [ts.Dirichlet(), ts.Initial(lambda p: pulse(p[:, 0] - 0.5)), ts.InitialVelocity()],
        exact=exact,
        **keywords,
    )


def around(T, shape=pulse):
    def exact(p):
        return shape(np.mod(p[:, 0] - p[:, 1], 1) - 0.5)

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=1) + ts.D(x=1)),
        [ts.Periodic("x"), ts.Initial(exact)],
        exact=exact,
    )


@pytest.mark.parametrize("tol", [1e-1, 2e-2, 1e-5])
@pytest.mark.parametrize("problem", [string(), around(5.0)], ids=["string", "around"])
def test_solutions_that_would_fade_alike_are_not_called_met(problem, tol):
    report = ts.solve(problem, tol=tol).report
    assert report.stop_reason == "tolerance met"
    assert report.error["l1_normalised"] <= 3 * tol


def test_two_modes_of_an_anisotropic_membrane():
    def mode(p):
        return np.sin(3 * np.pi * p[:, 0]) * np.sin(2 * np.pi * p[:, 1])

    def exact(p):
        return mode(p) * np.cos(np.pi * np.sqrt(17) * p[:, 2])

    problem = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
        ts.Equation(ts.D(t=2) - ts.D(x=2) - 2 * ts.D(y=2)),
        [ts.Dirichlet(), ts.Initial(mode), ts.InitialVelocity()],
        exact=exact,
    )
    report = ts.solve(problem, tol=1e-1).report
    assert report.stop_reason == "tolerance met"
    assert report.error["l1_normalised"] <= 0.1


def test_the_estimate_of_everything_accumulated_is_honest():
    report = ts.solve(around(3.0, lambda s: np.exp(-(s**2) / 0.02)), tol=1e-2).report
    ratios = [slab.estimate / max(slab.error["l1_normalised"], 1e-13) for slab in report.slabs]
    assert min(ratios) > 0.05
    assert max(ratios) < 50


def test_a_varying_speed_marches_on_sines():
    def speed(p):
        return (1 + 0.3 * jnp.sin(2 * jnp.pi * p[:, 0])) ** 2

    problem = string(equation=ts.Equation(ts.D(t=2) - speed * ts.D(x=2)))
    solution = ts.solve(problem, tol=3e-2)
    assert isinstance(solution, Marched)
    assert "sin features" in solution.report.first.features
    assert solution.report.stop_reason == "tolerance met"


@pytest.mark.parametrize(
    ("problem", "waves"),
    [
        (string(), True),
        (ts.gallery.get("wave").problem(), True),
        (around(1.0), True),
        (
            ts.Problem(
                ts.Box(x=(0, 1), t=(0, 1)),
                ts.Equation(ts.D(t=1) - ts.D(x=2)),
                [ts.Dirichlet(), ts.Initial(lambda p: np.sin(np.pi * p[:, 0]))],
            ),
            False,
        ),
        (ts.gallery.get("laplace").problem(), False),
    ],
    ids=["string", "an ansatz", "advection", "heat", "no time"],
)
def test_what_oscillates_in_time_is_marched(problem, waves):
    assert (in_slabs(problem) is not None) == waves


def test_rates_are_the_roots_of_the_symbol():
    rate, turns = turning_rate(string(), np.array([7.0, 0.0]))
    assert (rate, turns) == (pytest.approx(7.0), True)
    heat = ts.Problem(ts.Box(x=(0, 1), t=(0, 1)), ts.Equation(ts.D(t=1) - 2 * ts.D(x=2)))
    rate, turns = turning_rate(heat, np.array([3.0, 0.0]))
    assert (rate, turns) == (pytest.approx(18.0), False)


CARRIED = ts.Equation(ts.D(t=1) + ts.D(x=1))


def carried(exact, x, T, *conditions):
    domain = ts.Box(x=(0, x), t=(0, T))
    return ts.Problem(domain, CARRIED, [*conditions, ts.Initial(exact)], exact=exact)


def test_an_error_that_has_left_the_domain_still_counts():
    """A pulse that enters late and is gone at the end."""

    def exact(p):
        late = jnp.exp(-(((p[:, 0] - p[:, 1] + 2) / 0.01) ** 2))
        return jnp.sin(6 * (p[:, 0] - p[:, 1])) + late

    problem = carried(exact, 2, 6.0, ts.Dirichlet(exact, on="xmin"))
    report = ts.solve(problem, tol=1e-4, patience=5).report
    true = report.error["l1_normalised"]
    assert report.stop_reason == "tolerance not met" or true <= 3e-4
    assert report.error_estimate > true / 10


def test_a_wall_too_many_is_not_called_met():
    def exact(p):
        return jnp.sin(2 * jnp.pi * (p[:, 0] - p[:, 1]))

    walls = [ts.Dirichlet(exact, on="xmin"), ts.Dirichlet(0.0, on="xmax", name="wall")]
    report = ts.solve(carried(exact, 1, 2.0, *walls), tol=1e-3, patience=5).report
    assert report.stop_reason == "tolerance not met"


def test_needles_that_travel_are_seen():
    def exact(p):
        return sum(jnp.exp(-(((p[:, 0] - p[:, 1] - 0.3 + n) / 0.002) ** 2)) for n in range(-1, 2))

    report = ts.solve(carried(exact, 1, 0.5, ts.Periodic("x")), tol=1e-3, patience=5).report
    assert report.error["l1_normalised"] <= 3e-3 or report.stop_reason == "tolerance not met"
    assert report.error_estimate > report.error["l1_normalised"] / 10


def test_smooth_waves_need_one_cell_and_get_two():
    def exact(p):
        return jnp.sin(3 * (p[:, 0] - p[:, 1]))

    problem = carried(exact, 1, 4.0, ts.Dirichlet(exact, on="xmin"))
    assert ts.solve(problem, tol=1e-6).report.error["l1_normalised"] < 1e-6


def test_what_a_wave_lacks_is_named():
    start = [ts.Initial(lambda p: jnp.sin(3 * p[:, 0])), ts.InitialVelocity()]
    problem = ts.Problem(ts.Box(x=(0, 1), t=(0, 2)), ts.Equation(ts.D(t=2) - ts.D(x=2)), start)
    report = ts.solve(problem, tol=1e-2, patience=3).report
    assert report.stop_reason == "tolerance not met"
    assert "add a condition on xmin or xmax" in report.advice


def test_a_wave_solved_by_its_name_is_saved_and_loaded(tmp_path):
    solution = ts.gallery.get("wave").solve(tol=1e-2)
    path = solution.save(tmp_path / "wave.npz")
    points = np.array([[0.1, 0.2, 0.3], [-0.5, 0.4, 0.1]])
    np.testing.assert_array_equal(ts.load(path)(points), solution(points))


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_a_pulse_that_enters_late_is_followed_by_finer_slabs(tol):
    """Nothing of it shows in the first slabs, which are all that a fixed choice would know."""

    def exact(p):
        return pulse(p[:, 1] - p[:, 0] - 0.6)

    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(ts.D(t=2) - ts.D(x=2)),
        [ts.Dirichlet(exact), ts.Initial(exact), ts.InitialVelocity()],
        exact=exact,
    )
    report = ts.solve(problem, tol=tol).report
    assert report.stop_reason == "tolerance met"
    assert report.error["l1_normalised"] <= tol


def spreading(width):
    def u(p):
        s = width**2 + 0.04 * p[:, 1]
        return width / jnp.sqrt(s) * jnp.exp(-((p[:, 0] - 0.4) ** 2) / s)

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, 0.5)),
        ts.Equation(ts.D(t=1) - 0.01 * ts.D(x=2)),
        [ts.Dirichlet(u), ts.Initial(u)],
        exact=u,
    )


@pytest.fixture(scope="module")
def fading():
    return ts.solve(spreading(0.01), tol=1e-5)


def test_where_things_fade_slabs_grow_and_cells_are_fewer(fading):
    found = fading
    assert isinstance(found, Marched)
    assert found.report.stop_reason == "tolerance met"
    assert found.report.error["l1_normalised"] <= 3e-5
    ends = np.array([0.0, *(slab.end for slab in found.report.slabs)])
    lengths = np.diff(ends)
    assert lengths[-2] > 20 * lengths[0]
    cells = [slab.basis.decomposition.count for slab in found.slabs]
    assert cells[-1] < cells[0] / 4
    columns = [slab.columns for slab in found.report.slabs]
    assert f"{min(columns):,} to {max(columns):,} columns" in str(found.report)


def test_smooth_heat_is_solved_at_once():
    assert in_slabs(spreading(0.3)) is None


def test_a_march_with_slabs_of_different_cells_is_saved_and_loaded(fading, tmp_path):
    found = fading
    x = np.random.default_rng(0).uniform((0, 0), (1, 0.5), (200, 2))
    again = ts.load(found.save(tmp_path / "heat"), found.problem)
    np.testing.assert_array_equal(again(x), found(x))


def test_losses_do_not_feed_on_themselves_in_slabs_of_three_quarters_of_a_cell():
    """Noise that cells can hardly hold neither grows nor dies in 40 slabs; in slabs as thick as a
    cell it grows."""
    draw = np.random.default_rng(0).standard_normal((12, 12))

    def noise(p):
        waves = [np.sin(np.pi * np.outer(x, np.arange(1, 13))) for x in (p[:, 0], p[:, 1])]
        return np.einsum("pm,mn,pn->p", waves[0], draw, waves[1])

    def grown(part):
        T = 40 * part / 3
        problem = ts.Problem(
            ts.Box(x=(0, 1), y=(0, 1), t=(0, T)),
            ts.Equation(ts.D(t=2) - ts.Laplacian()),
            [ts.Dirichlet(), ts.Initial(noise), ts.InitialVelocity()],
        )
        sizes = {"subdomains": (3, 3, 1), "features": 60, "coupling": "interfaces"}
        marched = ts.march(problem, 40, **sizes, estimate=False)
        x = np.random.default_rng(1).random((500, 2))
        ends = [slab.problem.domain.upper[2] for slab in marched.slabs]
        sizes = [np.std(marched(np.column_stack([x, np.full(len(x), t)]))) for t in ends]
        return np.mean(sizes[-5:]) / np.mean(sizes[15:20])

    assert grown(0.75) < 1.3
    assert grown(1.0) > 2.0


def test_a_march_to_the_end_is_not_given_up_for_a_part_of_a_finer_one(monkeypatch):
    made, whole = [], stepping._Stepping.march

    def march(self, checkpoint):
        made.append(self)
        self.patience *= len(made) == 1
        return whole(self, checkpoint)

    monkeypatch.setattr(stepping._Stepping, "march", march)
    monkeypatch.setattr(MarchReport, "estimate_in", lambda self, norm: 2e-6)
    found = ts.solve(around(2.0), tol=1e-6)
    assert len(made) == 2
    assert found.report.stop_reason == "tolerance not met"
    assert "another march was begun" in found.report.advice
    assert found.problem.domain.bounds[1] == (0, 2.0)


def test_patience_ends_a_slab_once_there_is_something_to_keep(monkeypatch):
    moments, whole = [], stepping.Walk.attempt

    def attempt(self, *slab):
        moments.append(threads._MOMENT.get())
        if len(self.figures) == 3:
            raise threads.OutOfTimeError
        return whole(self, *slab)

    monkeypatch.setattr(stepping.Walk, "attempt", attempt)
    found = ts.solve(around(2.0), tol=1e-6, patience=50.0)
    assert moments[0] == np.inf and moments[-1] < np.inf
    assert len(found.slabs) == 3
    assert found.report.stop_reason == "tolerance not met"
    assert "out of patience at t = " in found.report.advice


def two_speeds(T):
    """A hump that passes from one material to another, twice as fast."""

    def hump(s):
        return np.exp(-((s + 0.25) ** 2) / (2 * 0.06**2))

    def exact(p):
        x, t = p[:, 0] - 0.5, p[:, 1]
        return np.where(x < 0, hump(x - t) - hump(-x - t) / 3, 2 * hump(x / 2 - t) / 3)

    def velocity(p):
        x = p[:, 0] - 0.5
        steep = [(s + 0.25) / 0.06**2 * hump(s) for s in (x, -x, x / 2)]
        return np.where(x < 0, steep[0] - steep[1] / 3, 2 * steep[2] / 3)

    domain = ts.Divided(ts.Box(x=(0, 1), t=(0, T)), left=ts.Box(x=(0, 0.5), t=(0, T)))
    return ts.Problem(
        domain,
        [
            ts.Equation(ts.D(t=2) - ts.D(x=2), where="left"),
            ts.Equation(ts.D(t=2) - 4 * ts.D(x=2), where="rest"),
        ],
        [
            ts.Dirichlet(exact),
            ts.Initial(exact),
            ts.InitialVelocity(velocity),
            *ts.Transmission("left", "rest", flux=(1.0, 4.0)),
        ],
        exact=exact,
    )


def test_a_tolerance_marches_through_materials():
    found = ts.solve(two_speeds(0.5), tol=1e-5, patience=100)
    assert isinstance(found, ts.Marched)
    assert found.report.stop_reason == "tolerance met"
    assert found.report.error["l1_normalised"] < 3e-5


def test_each_material_has_a_rate_of_its_own():
    rate, oscillates = turning_rate(two_speeds(0.5), np.array([10.0, 0.0]))
    assert oscillates
    assert rate == pytest.approx(20.0)


def spreading_in_the_plane(width):
    def exact(p):
        wide = width**2 + 2 * p[:, 2]
        return width**2 / wide * np.exp(-(p[:, 0] ** 2 + p[:, 1] ** 2) / (2 * wide))

    return ts.Problem(
        ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 0.1)),
        ts.Equation(ts.D(t=1) - ts.Laplacian("x", "y")),
        [ts.Dirichlet(exact), ts.Initial(exact)],
        exact=exact,
    )


def test_heat_from_a_narrow_start_marches_in_the_plane():
    assert in_slabs(spreading_in_the_plane(0.2)) is None
    found = ts.solve(spreading_in_the_plane(0.05), tol=1e-2, patience=100)
    assert isinstance(found, ts.Marched)
    assert found.report.stop_reason == "tolerance met"
    assert found.report.error["l1_normalised"] < 3e-2
