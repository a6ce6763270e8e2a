"""The benchmark beside other software: its metric, its problems, its store, and a quick run."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import problems
from benchmarks.peers.__main__ import main
from benchmarks.peers.peer import NotApplicableError
from benchmarks.peers.plot import LOOKS, curve_name
from benchmarks.peers.registry import PEERS
from benchmarks.peers.run import isolated, label, plan, run_all
from benchmarks.peers.score import error_within, normalised_l1, pareto, time_to
from benchmarks.peers.store import Store
from benchmarks.peers.tables import print_targets

import tessella as ts


def test_the_metric_is_free_of_units_and_of_the_mean(rng):
    exact, error = rng.standard_normal(100), 1e-3 * rng.standard_normal(100)
    one = normalised_l1(exact + error, exact)
    assert one == pytest.approx(np.mean(np.abs(error)) / np.std(exact))
    assert normalised_l1(5 + 7 * (exact + error), 5 + 7 * exact) == pytest.approx(one)


def test_the_metric_calls_nan_infinite_and_refuses_other_points():
    exact = np.arange(4.0)
    assert normalised_l1(np.array([0, np.nan, 2, 3]), exact) == math.inf
    with pytest.raises(ValueError, match=r"\(3,\) values for \(4,\) test points"):
        normalised_l1(exact[:3], exact)


def test_nothing_beats_the_pareto_front_and_it_beats_everything_else(rng):
    points = [tuple(p) for p in rng.integers(1, 30, (200, 2)).astype(float)]
    front = [points[i] for i in pareto(points)]
    assert front == sorted(front)
    for t, e in points:
        at_least_as_good = [p for p in front if p[0] <= t and p[1] <= e]
        assert at_least_as_good
        if (t, e) in front:
            assert at_least_as_good == [(t, e)]


def test_equal_error_and_equal_time_take_runs_that_happened():
    curve = [(1.0, 1e-2), (4.0, 1e-6), (2.0, 1e-7)]
    assert time_to(1e-6, curve) == 2.0
    assert time_to(1e-9, curve) is None
    assert error_within(1.5, curve) == 1e-2
    assert error_within(0.5, curve) is None


STENCILS = {1: [4 / 5, -1 / 5, 4 / 105, -1 / 280], 2: [8 / 5, -1 / 5, 8 / 315, -1 / 560]}
"""Central differences of eighth order, without their middle."""


def differentiated(function, points, axis, order, h):
    """By differences: nothing of the package takes part."""
    step = h * np.eye(points.shape[1])[axis]
    total = -205 / 72 * function(points) if order == 2 else 0.0
    for j, weight in enumerate(STENCILS[order], 1):
        ahead, behind = function(points + j * step), function(points - j * step)
        total = total + weight * (ahead + (-1) ** order * behind)
    return total / h**order


SQUARES = [name for name in problems.PROBLEMS if problems.get(name).kind == "square"]


@pytest.mark.parametrize("name", SQUARES)
def test_exact_solutions_solve_their_equations_and_vanish_on_the_sides(name):
    case = problems.get(name)
    points = 0.05 + 0.9 * np.random.default_rng(0).random((200, 2))
    h = 0.05 / case.wavenumber

    def a(p):
        return case.diffusion(p[:, 0], p[:, 1], np) + np.zeros(len(p))

    left = case.c * case.exact(points)
    for axis in range(2):
        first, second = (differentiated(case.exact, points, axis, k, h) for k in (1, 2))
        left += (case.b[axis] - differentiated(a, points, axis, 1, 0.01)) * first - a(
            points
        ) * second
    f = case.source(points[:, 0], points[:, 1], np)
    assert np.max(np.abs(left - f)) < 1e-6 * (case.a * case.wavenumber**2)
    line = np.linspace(0, 1, 7)
    for side in (0.0, 1.0):
        for wall in (
            np.column_stack([line, side + 0 * line]),
            np.column_stack([side + 0 * line, line]),
        ):
            assert np.max(np.abs(case.exact(wall))) < 1e-12


def test_the_cubes_exact_solution_solves_its_equation_and_vanishes_on_its_sides():
    case = problems.get("cube-2")
    points = 0.05 + 0.9 * np.random.default_rng(0).random((200, 3))
    h, left = 0.05 / case.wavenumber, np.zeros(200)

    def a(p):
        return case.varying.value(*p.T, np)

    for axis, slope in enumerate(case.varying.slopes):
        first, second = (differentiated(case.exact, points, axis, k, h) for k in (1, 2))
        there = differentiated(a, points, axis, 1, 0.01)
        np.testing.assert_allclose(slope(*points.T, np), there, atol=1e-11)
        left -= there * first + a(points) * second
    f = case.source(*points.T, np)
    assert np.max(np.abs(left - f)) < 1e-6 * case.wavenumber**2
    np.testing.assert_allclose(case.varying.at(points), a(points), rtol=1e-14)
    for axis in range(3):
        for side in (0.0, 1.0):
            wall = points.copy()
            wall[:, axis] = side
            assert np.max(np.abs(case.exact(wall))) < 1e-12


@pytest.mark.parametrize("n", [4, 6])
def test_the_variable_coefficient_has_the_slopes_it_says_and_the_laplacians_solution(n):
    case, plain = problems.get(f"variable-{n}"), problems.get(f"laplace-{n}")
    points = case.points[::97]
    x, y = points.T
    for axis, slope in enumerate(case.varying.slopes):
        there = differentiated(lambda p: case.varying.value(*p.T, np), points, axis, 1, 0.01)
        np.testing.assert_allclose(slope(x, y, np), there, atol=1e-11)
    np.testing.assert_allclose(case.varying.at(points), case.diffusion(x, y, np), rtol=1e-14)
    assert np.min(case.diffusion(x, y, np)) > 0.4
    np.testing.assert_array_equal(case.exact(points), plain.exact(points))


def test_a_variable_coefficient_is_one_function_however_often_it_is_stated():
    """Or every solve would compile its slopes anew, and none would be warm."""
    case = problems.get("variable-4")
    assert len({case.varying.at for _ in range(2)}) == 1


def test_the_disc_with_a_hole_has_its_exact_solution():
    case = problems.get("disc-with-hole")
    points = case.points[::41]
    assert np.all(np.hypot(*points.T) < 1) and np.all(np.hypot(*(points.T - [[0.25], [0.1]])) > 0.3)
    left = -sum(differentiated(case.exact, points, axis, 2, 0.01) for axis in range(2))
    np.testing.assert_allclose(left, case.source(*points.T, np), atol=1e-9)
    np.testing.assert_array_equal(case.outside(*points.T, np), case.exact(points))
    np.testing.assert_array_equal(case.inside(*points.T, np), case.exact(points))
    stated = case.stated()
    assert stated.domain.parts == ("outside", "hole")
    np.testing.assert_array_equal(stated.equations[0].rhs(points), case.source(*points.T, np))


def test_the_four_holes_are_the_gallerys():
    case, stated = problems.get("four-holes"), ts.gallery.get("four-holes").problem()
    assert case.stated().domain == stated.domain
    assert case.stated().conditions == stated.conditions
    np.testing.assert_array_equal(case.exact(case.points), stated.exact_values(case.points))


def test_the_laplacian_is_the_gallerys():
    case, stated = problems.get("laplace-3"), ts.gallery.get("laplace").problem(n=3)
    points = case.points[::97]
    np.testing.assert_allclose(case.exact(points), stated.exact_values(points), atol=1e-14)
    f = case.source(points[:, 0], points[:, 1], np)
    np.testing.assert_allclose(f, stated.equations[0].rhs(points), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_every_peer_has_runs_or_a_reason_and_a_look(name):
    case = problems.get(name)
    for peer in PEERS.values():
        try:
            settings = peer.sizes(name, case)
        except NotApplicableError as reason:
            assert str(reason)
            continue
        assert settings
        for one in settings:
            json.dumps(one)
            assert label(one)
            assert curve_name({"peer": peer.name, "settings": one}) in LOOKS


def test_a_missing_package_is_a_reason_not_a_silence(monkeypatch):
    monkeypatch.setattr("benchmarks.peers.peer.find_spec", lambda name: None)
    ((_, _, settings, reason),) = plan(["laplace-3"], ["NGSolve"], quick=True)
    assert settings == []
    assert reason == "ngsolve is not installed: pip install 'tessella[peers]'"


def test_finished_runs_are_kept_at_once_and_not_run_again(tmp_path, monkeypatch):
    calls = []

    def measured(peer, problem, settings):
        calls.append(settings["rtol"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"error": settings["rtol"], "cold": 1.0, "warm": 1.0, "repeats": 0}

    monkeypatch.setattr("benchmarks.peers.run.isolated", measured)
    path, arguments = tmp_path / "peers.json", (["oscillator-60"], ["SciPy DOP853"])
    with pytest.raises(KeyboardInterrupt):
        run_all(Store(path, {"device": "here"}), *arguments)
    stored = json.loads(path.read_text())
    assert stored["device"] == "here"
    assert [r["settings"]["rtol"] for r in stored["runs"]] == calls[:2]
    run_all(Store(path, {}), *arguments)
    assert calls[3:] == [1e-8, 1e-10, 1e-12]
    run_all(Store(path, {}), *arguments, redo=True)
    assert len(calls) == 3 + 3 + 5
    assert len(json.loads(path.read_text())["runs"]) == 5


def test_runs_of_sizes_no_longer_made_are_forgotten(tmp_path, monkeypatch):
    found = {"error": 1e-3, "cold": 1.0, "warm": 1.0, "repeats": 0}
    monkeypatch.setattr("benchmarks.peers.run.isolated", lambda *_: found)
    store = Store(tmp_path / "peers.json", {})
    for peer in ("SciPy DOP853", "tessella"):
        old = {"problem": "oscillator-60", "peer": peer, "settings": {"rtol": 0.5}}
        store.add({**old, **found})
    run_all(store, ["oscillator-60"], ["SciPy DOP853"])
    left = [r for r in Store(store.path, {}).of("oscillator-60") if r["settings"]["rtol"] == 0.5]
    assert [r["peer"] for r in left] == ["tessella"]


SHARED = """
import sys, time
from pathlib import Path
from benchmarks.peers import run
from benchmarks.peers.store import Store
from tessella.machine import sweep

sweep.LOOK = 0.05
path = Path(sys.argv[1])

def measured(peer, problem, settings):
    with open(path.with_name("log"), "a") as log:
        log.write(f"{sys.argv[2]} {settings['rtol']}\\n")
    while len(set(line.split()[0] for line in open(path.with_name("log")))) < 2:
        time.sleep(0.02)
    return {"error": settings["rtol"], "cold": 1.0, "warm": 1.0, "repeats": 0}

run.isolated = measured
run.run_all(Store(path, {"device": sys.argv[2]}), ["oscillator-60"], ["SciPy DOP853"])
"""


def test_two_commands_divide_the_runs_and_keep_all_of_them(tmp_path):
    path, root = tmp_path / "peers.json", Path(__file__).parents[1]
    commands = [
        subprocess.Popen([sys.executable, "-c", SHARED, path, device], cwd=root)
        for device in ("one", "two")
    ]
    assert [command.wait(120) for command in commands] == [0, 0]
    made = sorted(tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines())
    runs = json.loads(path.read_text())["runs"]
    assert sorted((r["device"], str(r["settings"]["rtol"])) for r in runs) == made
    assert len(runs) == len(made) == 5 and {device for device, _ in made} == {"one", "two"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log", "peers.json"]


def test_runs_without_a_device_are_of_the_one_their_file_names(tmp_path):
    run = {"problem": "oscillator-60", "peer": "tessella", "settings": {}, "warm": 1.0}
    path = tmp_path / "peers.json"
    path.write_text(json.dumps({"device": "old", "runs": [run]}))
    Store(path, {"device": "new"}).add({**run, "settings": {"rtol": 1}})
    assert [r["device"] for r in json.loads(path.read_text())["runs"]] == ["old", "new"]


def test_times_to_targets_are_those_of_runs_with_ours_over_theirs(capsys):
    runs = {
        "tessella": [(1.0, 1e-7), (3.0, 1e-9)],
        "NGSolve": [(0.5, 1e-6), (2.0, 1e-12)],
        "jaxhps": [],
    }
    records = [
        {"peer": peer, "settings": {}, "warm": t, "cold": 2 * t, "error": e}
        for peer, all_runs in runs.items()
        for t, e in all_runs
    ]
    records.append({"peer": "jaxhps", "settings": {}, "failed": "no memory"})
    print_targets({"laplace-3": records}, ["tessella", "NGSolve", "jaxhps", "pyrfm"], "warm")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert lines[0] == ["problem", "error", "tessella", "NGSolve", "jaxhps"]
    assert lines[1] == ["laplace-3", "1e-06", "1", "0.5", "(2)", "–"]
    assert lines[2] == ["laplace-3", "1e-08", "3", "2", "(1.5)", "–"]
    assert lines[3] == ["laplace-3", "1e-11", "–", "2", "–"]
    print_targets({"laplace-3": []}, ["tessella"], "warm")
    assert capsys.readouterr().out == ""


def test_a_run_that_fails_or_takes_too_long_is_a_record_with_its_reason():
    broken = isolated("SciPy DOP853", "oscillator-60", {"nonsense": 1})
    assert "nonsense" in broken["failed"]
    assert isolated("SciPy DOP853", "oscillator-60", {"rtol": 1e-4}, limit=0.01) == {
        "failed": "not finished within 0.01 s"
    }


def test_a_quick_run_prints_and_keeps_everything(tmp_path, capsys):
    chosen = ["--only", "oscillator-60", "--quick", "--out", str(tmp_path)]
    main([*chosen, "--peers", "tessella", "paper's recipe", "SciPy DOP853"])
    printed = capsys.readouterr().out
    stored = json.loads((tmp_path / "quick" / "peers.json").read_text())
    errors = {r["peer"]: r["error"] for r in stored["runs"]}
    assert errors["tessella"] < 1e-4 and errors["SciPy DOP853"] < 1e-3
    assert errors["paper's recipe"] < 1e-1
    assert stored["versions"]["jax"] and stored["configuration"]["NGSolve"] and stored["device"]
    assert (tmp_path / "quick" / "oscillator-60.png").stat().st_size > 10_000
    assert "against the paper's recipe" in printed and "front" in printed


def test_unknown_problems_and_peers_are_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "poisson"])
    assert "unknown problem 'poisson': choose from oscillator-60" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--peers", "fenics"])
    assert "unknown peer 'fenics': choose from tessella" in capsys.readouterr().err
