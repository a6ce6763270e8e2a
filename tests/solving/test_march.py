"""Slab by slab in time: the same answers, one factorisation, errors that add up and no more."""

import dataclasses
import importlib

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.accuracy import estimate
from tessella.cells.factors import CellFactors
from tessella.cells.system.later import later
from tessella.cells.system.system import cell_system
from tessella.problem.slabs import slab_problem, until
from tessella.solution.marched import Slab
from tessella.solving.method import CELL_POINTS, CELL_SIGMA
from tessella.solving.plan import on_basis
from tessella.solving.time.track import Track
from tessella.solving.ways import Factored

PI = np.pi
SIDE = {"subdomains": (2, 1), "features": 60, "coupling": "interfaces"}
WINDOWS = {"subdomains": (2, 2), "features": 30, "scale": 2.0, "solver": "nested-qr"}
LINE = {"subdomains": 3, "features": 8, "omega0": 10}
WAVE = ts.D(t=2) - 4 * ts.D(x=2)


def standing(p):
    return np.sin(PI * p[:, 0]) * np.cos(2 * PI * p[:, 1])


def wave(T=2.0, **keywords):
    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        keywords.pop("equation", ts.Equation(WAVE)),
        keywords.pop("conditions", [ts.Dirichlet(), ts.Initial(standing), ts.InitialVelocity()]),
        name="wave-1d",
        **{"exact": standing, "parameters": {"c": 2.0}, **keywords},
    )


def first_order(operator, exact, walls, T=1.0):
    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(operator),
        [ts.Dirichlet(exact, on=walls), ts.Initial(exact)],
        exact=exact,
    )


@pytest.fixture(scope="module")
def marched():
    return ts.march(wave(), 4, **SIDE)


@pytest.fixture
def points(rng):
    return rng.random((200, 2)) * [1.0, 2.0]


@pytest.mark.parametrize("settings", [SIDE, WINDOWS], ids=["interfaces", "overlap"])
def test_one_slab_is_a_plain_solve(settings, points):
    x = points * [1.0, 0.25]
    problem = wave(0.5)
    one = ts.march(problem, 1, estimate=False, **settings)
    plain = ts.solve(problem, estimate=False, **settings)
    np.testing.assert_allclose(one(x), plain(x), atol=1e-10)
    assert one.slabs[0].report.residual == pytest.approx(plain.report.residual, rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [SIDE, WINDOWS, {**SIDE, "solver": "exchange"}],
    ids=["interfaces", "overlap", "iterative"],
)
def test_reused_factors_give_what_new_ones_give(settings, points, monkeypatch):
    reused = ts.march(wave(), 4, estimate=False, **settings)
    assert reused.report.factorisations == 1
    assert [slab.reused for slab in reused.report.slabs] == [False, True, True, True]
    for kind in (Factored, CellFactors):
        for way in ("renewed", "later"):
            monkeypatch.setattr(kind, way, lambda self, *_: None)
    anew = ts.march(wave(), 4, estimate=False, **settings)
    assert anew.report.factorisations == 4
    np.testing.assert_allclose(reused(points), anew(points), atol=1e-8)


def test_factors_of_other_wavenumbers_are_reused_too(points, monkeypatch):
    plain = ts.march(wave(), 4, estimate=False, **SIDE)
    monkeypatch.setattr("tessella.cells.factoring.TUNINGS", (1.7,))
    tuned = ts.march(wave(), 4, estimate=False, **SIDE)
    assert tuned.report.factorisations == 1
    np.testing.assert_allclose(tuned(points), plain(points), atol=1e-6)


def pushed(operator, **keywords):
    """A wave with data that change in time, on a line or on the section of a shape."""
    domain = keywords.pop("domain", ts.Box(x=(0, 1), t=(0, 2)))
    wall = ts.Dirichlet(lambda p: np.sin(3 * p[:, -1]) + p[:, 0])
    start = [ts.Initial(lambda p: p[:, 0] - p[:, -1]), ts.InitialVelocity(2.0)]
    source = ts.Equation(operator, lambda p: np.exp(p[:, -1]) * p[:, 0])
    return ts.Problem(domain, source, [wall, *start], **keywords)


DISC = ts.Ball(x=0, y=0, radius=1).over(t=(0, 2))
BENT = ts.D(t=2) - (lambda p: 1 + p[:, 0] ** 2) * ts.D(x=2)
LATE = ts.D(t=2) - (lambda p: 1 + (p[:, -1] > 1.5)) * ts.D(x=2)


@pytest.mark.parametrize(
    ("problem", "same"),
    [
        (pushed(WAVE), True),
        (pushed(BENT), True),
        (pushed(ts.D(t=2) - ts.Laplacian(), domain=DISC), True),
        (pushed(LATE), False),
        (pushed(WAVE, ansatz=ts.Ansatz(lambda p: 1 + p[:, 0])), False),
    ],
    ids=["number", "function of space", "shape", "switched on", "ansatz"],
)
def test_what_is_asked_later_is_what_would_be_assembled(problem, same):
    first, second = (slab_problem(problem, bounds) for bounds in ((0.0, 1.0), (1.0, 2.0)))
    cells = (2,) * (problem.domain.dimension - 1)
    basis = ts.CellBasis(ts.Tiling(first.domain, (*cells, 1)), ts.RandomFeatures(30))
    system, moved = cell_system(first, basis, ts.Grid(1.5)), basis.moved(second.domain)
    found = later(system, second, moved)
    assert (found is not None) == same
    if same:
        anew = cell_system(second, moved, ts.Grid(1.5))
        assert found.has_matrix_of(anew)
        np.testing.assert_allclose(found.right, anew.right, rtol=1e-9, atol=1e-12)


def test_coefficients_that_change_in_time_are_factored_in_every_slab():
    def exact(p):
        return np.exp(-(p[:, 1] + p[:, 1] ** 2 / 2)) * np.sin(PI * p[:, 0])

    growing = (lambda p: (1 + p[:, 1]) / PI**2) * ts.D(x=2)
    problem = first_order(ts.D(t=1) - growing, exact, ("xmin", "xmax"))
    marched = ts.march(problem, 3, estimate=False, **SIDE)
    assert marched.report.factorisations == 3
    assert marched.report.error["l2_relative"] < 1e-5


def test_a_source_that_changes_in_time_needs_one_factorisation():
    def exact(p):
        return np.sin(3 * p[:, 1]) * p[:, 0]

    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(
            ts.D(t=1) + ts.D(x=1), lambda p: 3 * np.cos(3 * p[:, 1]) * p[:, 0] + np.sin(3 * p[:, 1])
        ),
        [ts.Dirichlet(exact, on="xmin"), ts.Initial(exact)],
        exact=exact,
    )
    marched = ts.march(problem, 3, estimate=False, **SIDE)
    assert marched.report.factorisations == 1
    assert marched.report.error["l2_relative"] < 1e-5


def test_heat_decays_and_advection_travels():
    def heat(p):
        return np.exp(-0.1 * PI**2 * p[:, 1]) * np.sin(PI * p[:, 0])

    def travelling(p):
        return np.sin(2 * PI * (p[:, 0] - p[:, 1]))

    cooled = ts.march(
        first_order(ts.D(t=1) - 0.1 * ts.D(x=2), heat, ("xmin", "xmax")), 3, estimate=False, **SIDE
    )
    carried = ts.march(
        first_order(ts.D(t=1) + ts.D(x=1), travelling, "xmin"), 3, estimate=False, **SIDE
    )
    assert cooled.report.error["l2_relative"] < 1e-5
    times = np.array([0.0, 0.2, 1.0])
    amount = 2 / PI * np.exp(-0.1 * PI**2 * times)
    np.testing.assert_allclose(cooled.integral(times=times), amount, rtol=1e-5)
    np.testing.assert_allclose(
        cooled.integral(ts.D(t=1))[[0, -1]], -0.1 * PI**2 * amount[[0, -1]], rtol=1e-3
    )
    with pytest.raises(ValueError, match="outside"):
        cooled.integral(times=1.5)
    assert carried.report.error["l2_relative"] < 1e-5


def test_the_errors_of_a_wave_add_up_and_no_more():
    """Growth like the number of slabs, not like its exponential; energy stays."""
    marched = ts.march(wave(12.0), 24, estimate=False, **SIDE)
    errors = [slab.error["l1_normalised"] for slab in marched.report.slabs]
    assert errors[-1] < 24 * errors[0]
    power, what = marched.report.growth()
    assert what == "error"
    assert power < 1.5

    def energy(t):
        x, w = np.polynomial.legendre.leggauss(40)
        p = np.stack([(x + 1) / 2, np.full(40, t)], axis=1)
        return w @ (marched.apply(ts.D(t=1), p) ** 2 + 4 * marched.apply(ts.D(x=1), p) ** 2)

    assert energy(12.0) == pytest.approx(energy(0.0), rel=1e-4)


def test_shorter_slabs_converge_at_a_high_order():
    """Halving the slab at fixed features per slab: far better than second order."""
    errors = [
        ts.march(wave(2.0), n, estimate=False, **{**SIDE, "features": 40}).errors()["l2_relative"]
        for n in (2, 4, 8)
    ]
    assert errors[0] > 50 * errors[1]
    assert errors[1] > 1_000 * errors[2]


def test_the_estimate_follows_what_has_accumulated(marched):
    for slab in marched.report.slabs:
        assert 0.1 <= slab.estimate / slab.error["l1_normalised"] <= 100
    assert marched.report.error_estimate == marched.report.slabs[-1].overall
    each = [slab.estimate for slab in marched.report.slabs]
    assert np.mean(each) == pytest.approx(marched.report.error_estimate)


def test_a_tolerance_solves_every_slab_with_the_numbers_it_tried(monkeypatch):
    module, used = importlib.import_module("tessella.solving.time.march"), []

    def spy(basis):
        used.append(on_basis(basis))
        return used[-1]

    monkeypatch.setattr(module, "on_basis", spy)
    marched = ts.march(wave(1.0), 2, tol=1e-1)
    assert used[0].basis == marched.slabs[0].basis
    chosen = used[0].collocation.oversampling, used[0].filter.sigma
    assert chosen == (CELL_POINTS, CELL_SIGMA)


def test_a_march_is_judged_as_a_solve_is():
    """A needle that no system sees leaves u = 0, which both call wrong by all of it."""

    def needle(p):
        far = (p[:, 0] - 0.31) ** 2 + (p[:, 1] - 0.47) ** 2
        return 1e8 * np.exp(-far / (2 * 1e-4**2))

    problem = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 0.1)),
        ts.Equation(ts.D(t=1) - ts.Laplacian(), needle),
        [ts.Dirichlet(), ts.Initial()],
    )
    sizes = {"subdomains": (2, 2, 1), "features": 60, "coupling": "interfaces"}
    marched = ts.march(problem, 2, **sizes)
    assert np.abs(marched(np.array([[0.31, 0.47, 0.1]]))).max() < 1e-6
    assert marched.report.error_estimate >= 0.9


def test_the_estimate_does_not_read_the_exact_solution(marched):
    unknown = ts.march(wave(exact=None), 4, **SIDE)
    assert [s.estimate for s in unknown.report.slabs] == [s.estimate for s in marched.report.slabs]
    assert unknown.report.error is None
    assert "unknown: the problem has no exact solution" in str(unknown)
    with pytest.raises(ValueError, match="no exact solution"):
        unknown.errors()


def test_slabs_meet(marched):
    """Jumps are what the reports say, and small; the later slab answers where two meet."""
    x = np.stack([np.linspace(0, 1, 33), np.full(33, 1.0)], axis=1)
    before, after = marched.slabs[1](x), marched.slabs[2](x)
    jump = np.sqrt(np.mean((after - before) ** 2))
    assert jump == pytest.approx(marched.report.slabs[2].jumps["initial value"], rel=1.0)
    assert jump < 1e-4
    np.testing.assert_array_equal(marched(x), after)
    assert set(marched.report.slabs[0].jumps) == {"initial value", "initial velocity"}


def test_the_whole_is_one_function(marched, points):
    np.testing.assert_allclose(marched(points), standing(points), atol=1e-3)
    slope = -2 * PI * np.sin(PI * points[:, 0]) * np.sin(2 * PI * points[:, 1])
    np.testing.assert_allclose(marched.apply(ts.D(t=1), points), slope, atol=2e-2)
    assert marched.errors(points)["l2_relative"] < 1e-3
    with pytest.raises(ValueError, match="outside"):
        marched([[0.5, 2.5]])


def test_normals_reach_every_slab(marched):
    wall = np.array([[1.0, 0.3], [1.0, 1.7]])
    outward = np.array([[1.0, 0.0]] * 2)
    flux = marched.apply(ts.NormalDerivative(), wall, outward)
    np.testing.assert_allclose(flux, marched.apply(ts.D(x=1), wall))


def test_any_condition_on_tmin_is_continued():
    """A start stated through the outward normal is the same start."""
    start = [ts.Initial(standing), ts.Neumann(0.0, on="tmin", name="outward rate")]
    other = ts.march(wave(conditions=[ts.Dirichlet(), *start]), 4, estimate=False, **SIDE)
    assert other.report.factorisations == 1
    assert other.report.error["l2_relative"] < 1e-3
    assert set(other.report.slabs[0].jumps) == {"initial value", "outward rate"}


def test_the_report_shows_the_growth(marched):
    text = str(marched)
    assert text.startswith("wave-1d, slab by slab to t = 2\n")
    assert "factored once for 4 slabs" in text
    head, *rows = text.splitlines()[-5:]
    assert head.split() == [
        "slab",
        "until",
        "residual",
        "jump,",
        "initial",
        "value",
        "estimate",
        "error",
    ]
    assert [row.split()[:2] for row in rows] == [["1", "0.5"], ["2", "1"], ["3", "1.5"], ["4", "2"]]
    figures = marched.report.to_json()
    assert figures["slabs"][3]["end"] == 2.0
    assert figures["factorisations"] == 1
    assert figures["error"] == marched.report.error
    assert repr(marched) == "<Marched solution of 'wave-1d': 4 slabs>"


def test_a_long_report_lists_some_of_the_slabs(marched):
    many = dataclasses.replace(marched.report, slabs=marched.report.slabs * 25)
    lines = many.table().splitlines()
    assert len(lines) == 21
    assert lines[-1].split()[0] == "100"


def test_growth_is_measured_on_what_is_known(marched):
    def grown(errors, estimates):
        slabs = tuple(
            Slab(k, 1.0, {}, g, e and {"l1_normalised": e}, True, 0.0)
            for k, (e, g) in enumerate(zip(errors, estimates, strict=True))
        )
        return dataclasses.replace(marched.report, slabs=slabs).growth()

    n = np.arange(1.0, 9.0)
    assert grown(n**2, n) == (pytest.approx(2.0), "error")
    assert grown([None] * 8, n) == (pytest.approx(1.0), "estimate")
    assert grown([None] * 8, [None] * 8) is None
    assert grown(n[:2], n[:2]) is None


def test_progress_counts_slabs():
    calls = []
    ts.march(wave(1.0), 2, estimate=False, progress=lambda *a: calls.append(a), **SIDE)
    assert [c[:2] for c in calls if c[2] != 1.0] == [(1, 2), (2, 2)]


def test_without_an_estimate_nothing_is_asked_but_what_a_slab_starts_from(monkeypatch):
    def looked(*_):
        raise AssertionError("residuals at points that no slab has seen")

    monkeypatch.setattr(estimate, "defects", looked)
    sizes = {"subdomains": (3, 1), "features": 60, "coupling": "interfaces"}
    slabs = ts.march(wave(1.0), 3, **sizes, estimate=False).report.slabs
    assert all(0 < slab.residual < 1e-3 for slab in slabs)
    assert all(0 < jump < 1e-3 for slab in slabs for jump in slab.jumps.values())


@pytest.mark.parametrize("estimate", [False, True])
def test_a_solution_that_grows_without_end_is_stopped(estimate):
    """Backwards in time, heat has no solution that depends on its data."""
    backwards = first_order(ts.D(t=1) + ts.D(x=2), lambda p: 0 * p[:, 0], ("xmin", "xmax"))
    start = ts.Initial(lambda p: np.sin(PI * p[:, 0]))
    problem = dataclasses.replace(
        backwards, conditions=[backwards.conditions[0], start], exact=None
    )
    stopped = ts.march(problem, 8, **SIDE, estimate=estimate)
    assert stopped.report.stop_reason.startswith("unstable in slab")
    assert "the solution has grown" in stopped.report.advice
    assert len(stopped.slabs) == len(stopped.report.slabs)


def test_an_interrupt_keeps_the_finished_slabs(monkeypatch, tmp_path):
    steps, whole = [], Track.solve

    def step(self, *arguments):
        steps.append(arguments)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return whole(self, *arguments)

    monkeypatch.setattr(Track, "solve", step)
    kept = ts.march(wave(), 4, estimate=False, **SIDE)
    assert len(kept.slabs) == 2
    assert kept.report.stop_reason == "interrupted in slab 3 of 4"
    assert kept.report.advice == "kept until t = 1"
    assert kept.problem.domain.bounds[1] == (0.0, 1.0)
    assert kept.errors()["l2_relative"] < 1e-3
    again = ts.load(kept.save(tmp_path / "part"), wave())
    np.testing.assert_array_equal(again([[0.5, 0.9]]), kept([[0.5, 0.9]]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_with_nothing_finished_an_interrupt_is_an_interrupt(monkeypatch, error):
    def step(*_):
        raise error

    monkeypatch.setattr(Track, "solve", step)
    with pytest.raises(error):
        ts.march(wave(), 4, **SIDE)


def test_save_and_load(marched, points, tmp_path):
    path = marched.save(tmp_path / "wave")
    assert path.name == "wave.npz"
    again = ts.load(path, wave())
    assert isinstance(again, ts.Marched)
    np.testing.assert_array_equal(again(points), marched(points))
    assert again.report == marched.report
    start = again.slabs[1].problem.conditions[1].value
    x = np.array([[0.3, 0.5]])
    np.testing.assert_array_equal(start(x), marched.slabs[0](x))
    unknown = ts.load(path)
    np.testing.assert_array_equal(unknown(points), marched(points))
    with pytest.raises(ValueError, match="was solved on"):
        ts.load(path, wave(3.0))


def test_a_tolerance_chooses_on_the_first_slab():
    marched = ts.march(wave(1.0), 2, tol=1e-3)
    assert marched.report.tolerance == 1e-3
    assert marched.report.refinement
    assert marched.report.slabs[0].estimate < 1e-2
    assert marched.report.error["l1_normalised"] < 1e-2
    assert "1. start" in str(marched)
    hasty = ts.march(wave(1.0), 2, tol=1e-12, patience=0.0)
    assert hasty.report.advice.startswith("first slab: tolerance not met, out of patience")


def test_a_whole_basis_is_moved_to_every_slab(points):
    problem = wave()
    basis = ts.CellBasis(
        ts.Tiling(problem.domain, (2, 1)), ts.RandomFeatures(60, activation="sin", scale=3.0)
    )
    marched = ts.march(problem, 4, basis=basis, sigma=1e-14, estimate=False)
    assert marched.slabs[3].basis.decomposition.domain == ts.Box(x=(0, 1), t=(1.5, 2))
    assert marched.slabs[3].basis.layers is basis.layers
    elsewhere = ts.Basis(ts.Decomposition(ts.Box(x=(0, 1), t=(0, 1)), 2), ts.RandomFeatures(8))
    with pytest.raises(ValueError, match="decompose the problem's domain"):
        ts.march(problem, 4, basis=elsewhere)


def test_a_shape_marches():
    """Heat on a disc, where every slab is the disc over a part of time."""

    def exact(p):
        return np.exp(-p[:, 2]) * np.cos(p[:, 0])

    problem = ts.Problem(
        ts.Ball(x=0, y=0, radius=1).over(t=(0, 1)),
        ts.Equation(ts.D(t=1) - ts.Laplacian()),
        [ts.Dirichlet(exact), ts.Initial(exact)],
        exact=exact,
    )
    marched = ts.march(problem, 2, subdomains=1, features=100, solver="nested-qr")
    assert marched.report.factorisations == 1
    assert marched.slabs[1].problem.domain == ts.Ball(x=0, y=0, radius=1).over(t=(0.5, 1))
    assert marched.report.error["l2_relative"] < 1e-3


def test_a_reference_is_met_at_its_points(marched, rng):
    at = rng.random((50, 2)) * [1.0, 2.0]
    problem = wave(exact=ts.Reference(at, standing(at)))
    again = ts.march(problem, 4, estimate=False, **SIDE)
    assert again.report.error["max"] == pytest.approx(marched.errors(at)["max"], rel=1e-3)
    assert again.report.slabs[0].error is None
    assert until(problem, 1.0).exact is None


def test_several_levels_march_and_have_no_second_opinion():
    box = ts.Box(t=(0, 1))
    problem = ts.Problem(
        box, ts.Equation(ts.D(t=1) + 1), [ts.Initial(1.0)], exact=lambda p: np.exp(-p[:, 0])
    )
    levels = ts.Multilevel(
        tuple(ts.Basis(ts.Decomposition(box, S), ts.RandomFeatures(8), S) for S in (1, 3))
    )
    marched = ts.march(problem, 2, basis=levels, solver="nested-qr")
    assert marched.report.error["l2_relative"] < 1e-6
    assert marched.report.error_estimate is None


def test_a_system_marches(points, tmp_path):
    """The same wave as two equations of first order, each unknown continued by itself."""
    v, s = ts.Field("v"), ts.Field("s")

    def strain(p):
        return np.cos(PI * p[:, 0]) * np.sin(2 * PI * p[:, 1]) / 2

    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 2)),
        [
            ts.Equation(ts.D(t=1) @ v - 4 * ts.D(x=1) @ s),
            ts.Equation(ts.D(t=1) @ s - ts.D(x=1) @ v),
        ],
        [ts.Dirichlet(0.0, of=v), ts.Initial(standing, of=v), ts.Initial(0.0, of=s)],
        exact={"v": standing, "s": strain},
    )
    marched = ts.march(problem, 4, **SIDE)
    assert marched.report.factorisations == 1
    assert marched.report.error["l2_relative"] < 1e-3
    assert marched(points).shape == (200, 2)
    again = ts.load(marched.save(tmp_path / "system"), problem)
    np.testing.assert_array_equal(again(points), marched(points))
    with pytest.raises(ValueError, match=r"2 \(1 for v, 1 for s\), but has 1"):
        ts.march(dataclasses.replace(problem, conditions=[ts.Initial(standing, of=v)]), 2, **SIDE)


def test_an_ansatz_for_the_walls_marches():
    def wall(p):
        return p[:, 0] * (1 - p[:, 0])

    start = [ts.Initial(standing), ts.InitialVelocity()]
    problem = wave(1.0, conditions=start, ansatz=ts.Ansatz(wall))
    marched = ts.march(problem, 2, estimate=False, **SIDE)
    assert marched.report.error["l2_relative"] < 1e-3
    assert marched.report.factorisations == 1


def test_pictures(marched, tmp_path):
    marched.plot(tmp_path / "wave.png")
    assert (tmp_path / "wave.png").stat().st_size > 10_000
    line = ts.gallery.get("harmonic-oscillator").march(slabs=3, solver="nested-qr", settings=LINE)
    assert len(line.plot().axes) == 2


def test_the_gallery_marches(tmp_path):
    entry = ts.gallery.get("harmonic-oscillator")
    marched = entry.march(slabs=3, solver="nested-qr", settings=LINE)
    assert marched.report.preset == "as-run"
    again = ts.load(marched.save(tmp_path / "u"))
    x = np.array([[0.5]])
    np.testing.assert_array_equal(again.problem.exact(x), marched.problem.exact(x))
    np.testing.assert_array_equal(again([0.5]), marched([0.5]))
    assert entry.march(slabs=2, tol=1e-3, settings={"omega0": 10}).report.tolerance == 1e-3
    with pytest.raises(ValueError, match="features cannot be set"):
        entry.march(slabs=2, tol=1e-3, settings={"features": 10})
    with pytest.raises(ValueError, match="leave out solver='rrqr-lsqr'"):
        entry.march(slabs=2, tol=1e-3, solver="rrqr-lsqr")
    with pytest.raises(ValueError, match="not by a pinn"):
        entry.march(slabs=2, solver="pinn")
    with pytest.raises(ValueError, match=r"multiplier vanishes at tmin.*Initial\(\.\.\.\)"):
        ts.gallery.get("wave").march(slabs=2)


def test_the_command_line_marches():
    from typer.testing import CliRunner

    from tessella import cli

    small = [part for k, v in LINE.items() for part in ("--set", f"{k}={v}")]
    arguments = ["solve", "harmonic-oscillator", "--slabs", "3", "--solver", "nested-qr", *small]
    run = CliRunner().invoke(cli.app, [*arguments, "--json", "-"], catch_exceptions=False)
    assert '"slabs_planned": 3' in run.stdout
    with pytest.raises(ValueError, match="leave out --slabs"):
        CliRunner().invoke(cli.app, [*arguments, "--condition"], catch_exceptions=False)


def growing(p):
    return jnp.tanh(p[:, 1]) ** 2 * p[:, 0]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            ts.Problem(ts.Box(x=(0, 1), y=(0, 1)), ts.Equation(ts.Laplacian()), [ts.Dirichlet()]),
            "needs a time axis called 't', but the domain has x, y: use solve",
        ),
        (
            wave(conditions=[ts.Initial(standing)]),
            r"orders in t, 2 \(2 for u\), but has 1 \(initial value\): add",
        ),
        (
            ts.Problem(
                ts.Box(x=(0, 1), t=(0, 1)) - ts.Ball(x=0.5, t=0.5, radius=0.2),
                ts.Equation(WAVE),
                [ts.Dirichlet()],
            ),
            r"cuts the time axis, so the domain must be a Box or a shape.over\(t=...\)",
        ),
        (wave(conditions=[ts.Dirichlet()]), r"has 0 \(none\): add Initial\(...\) and InitialVel"),
        (
            wave(conditions=[ts.Initial(), ts.Dirichlet(on="tmax", name="aim")]),
            "'aim' holds on tmax, but a march knows only the past",
        ),
        (
            wave(conditions=[ts.Dirichlet(standing, on=("tmin", "xmin"))]),
            "'dirichlet' holds on tmin, xmin at once.*condition of its own",
        ),
        (wave(equation=ts.Equation(ts.D(x=2))), "no derivative in t, so nothing marches"),
        (
            wave(conditions=[ts.Dirichlet()], ansatz=ts.Ansatz(growing, standing)),
            "vanishes at tmin, so it builds in the initial data",
        ),
    ],
)
def test_what_cannot_march_says_why(problem, message):
    with pytest.raises(ValueError, match=message):
        ts.march(problem, 2, **SIDE)


@pytest.mark.parametrize("slabs", [0, 2.5, "many", [0.5, 1.0], [1.0, 0.5, 2.0], []])
def test_slabs_are_counted_or_end_where_time_does(slabs):
    with pytest.raises(ValueError, match="slabs must be a whole number >= 1, or the times"):
        ts.march(wave(), slabs, **SIDE)


def test_slabs_end_at_the_times_given(marched, points):
    ends = [0.25, 0.5, 1.0, 1.5, 2.0]
    uneven = ts.march(wave(), ends, **SIDE, estimate=False)
    assert [slab.end for slab in uneven.report.slabs] == ends
    assert [slab.reused for slab in uneven.report.slabs] == [False, True, False, True, True]
    np.testing.assert_allclose(uneven(points), marched(points), atol=1e-6)
    with pytest.raises(ValueError, match="slabs of one length"):
        ts.march(wave(), ends, tol=1e-3)


def test_arguments_are_those_of_solve():
    with pytest.raises(
        TypeError, match=r"march\(\) has no argument 'featurs': did you mean 'features'\?"
    ):
        ts.march(wave(), 2, subdomains=2, featurs=10)
    with pytest.raises(ValueError, match="leave out subdomains"):
        ts.march(wave(), 2, tol=1e-3, subdomains=2)
    with pytest.raises(ValueError, match="`subdomains` and `features`"):
        ts.march(wave(), 2, subdomains=2)


def test_matrices_are_told_apart_by_their_numbers(rng, column_blocks):
    dense = rng.standard_normal((12, 6))
    A = column_blocks(dense, 2)
    assert A.acts_like(column_blocks(dense * (1 + 1e-14), 3))
    changed = dense.copy()
    changed[3, 4] += 1e-8
    assert not A.acts_like(column_blocks(changed, 2))
    assert not A.acts_like(column_blocks(dense[:11], 2))
