"""Problems on boxes beyond the paper's: exact solutions that are exact, presets that keep their
word, parameters that are checked."""

import json

import numpy as np
import pytest
from scipy import special
from typer.testing import CliRunner

import tessella as ts
from tessella.accuracy.held_out import held_out
from tessella.cli import app
from tessella.geometry.functions import function_values
from tessella.problem.conditions import Condition
from tessella.problem.normal_form import apply_to_function

NAMES = [
    "variable-poisson",
    "poisson-3d",
    "helmholtz",
    "plate",
    "advection-diffusion",
    "reaction-diffusion",
    "front",
    "airy",
    "heat",
    "anisotropic-heat",
    "fokker-planck",
    "wave-1d",
]
SMALLER = {"anisotropic-heat": {"features": 300}, "poisson-3d": {"features": 300}}
"""Where the preset takes longer than a test should."""


@pytest.mark.parametrize("name", [n for n in NAMES if n != "airy"])
def test_the_exact_solution_satisfies_equation_and_conditions(name):
    problem = ts.gallery.get(name).problem()
    for part in held_out(problem):
        source = part.source
        terms = source.operator.expand(problem.domain.axes)
        found = apply_to_function(terms, problem.exact, part.points, part.normals)
        given = source.value if isinstance(source, Condition) else source.rhs
        wanted = function_values(given, part.points)
        slack = 1e-11 * (1 + np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, rtol=0, atol=slack, err_msg=source.name)


def test_the_airy_function_satisfies_its_equation(rng):
    """By differences of fourth order: it comes from SciPy, which JAX cannot differentiate."""
    problem = ts.gallery.get("airy").problem()
    x, h = rng.uniform(-29, 4, (50, 1)), 1e-3
    u = {k: problem.exact(x + k * h) for k in (-2, -1, 0, 1, 2)}
    second = (-u[-2] + 16 * u[-1] - 30 * u[0] + 16 * u[1] - u[2]) / (12 * h**2)
    np.testing.assert_allclose(second, x[:, 0] * u[0], atol=1e-8)
    ends = problem.domain.lower[None]
    np.testing.assert_array_equal(problem.conditions[0].value(ends), problem.exact(ends))


@pytest.mark.parametrize("name", NAMES)
def test_one_solve_with_the_preset_keeps_its_promise(name):
    """At most 1e-6 relative L2 along one or two axes, 1e-4 along three."""
    problem, basis, method = ts.gallery.get(name).parts(settings=SMALLER.get(name))
    assert (method.coupling, method.solver) == ("interfaces", "auto")
    solution = ts.solve(
        problem,
        basis=basis,
        collocation=ts.Grid(method.oversampling),
        filter=ts.RRQR(method.sigma),
        estimate=False,
    )
    promised = 1e-6 if problem.domain.dimension < 3 else 1e-4
    assert solution.report.error["l2_relative"] <= promised


@pytest.mark.parametrize("name", ["reaction-diffusion", "airy"])
def test_a_tolerance_finds_what_the_preset_froze(name):
    report = ts.gallery.get(name).solve(tol=1e-7).report
    assert report.stop_reason == "tolerance met" and report.preset == "best"
    assert report.error["l1_normalised"] <= 3e-7


def test_the_plate_works_with_either_coupling():
    """Fourth order: two data from either side of a face, two conditions share one."""
    problem = ts.gallery.get("plate").problem(n=1)
    sizes = {"subdomains": 2, "estimate": False}
    glued = ts.solve(problem, features=120, coupling="interfaces", **sizes).report
    assert glued.error["l2_relative"] <= 1e-6
    assert list(glued.jumps)[-1] == "normal derivative 3"
    assert glued.weights["dirichlet"] > 10 * glued.weights["neumann"] > 1e6
    windows = ts.solve(problem, features=80, coupling="overlap", solver="nested-qr", **sizes).report
    assert windows.error["l2_relative"] <= 1e-3


def test_every_entry_states_the_problem_of_its_name_with_its_parameters():
    for name, entry in ts.gallery.ENTRIES.items():
        for preset in entry.presets:
            problem = entry.problem(preset)
            assert problem.name == entry.name == name
            assert problem.parameters == entry.preset(preset).parameters


def test_entries_beyond_the_paper_have_one_preset_which_is_taken():
    assert set(NAMES) <= set(ts.gallery.names())
    for name in NAMES:
        entry = ts.gallery.get(name)
        assert list(entry.presets) == ["best"] == [entry.first]
    assert ts.gallery.get("wave").first == "as-run"
    with pytest.raises(ValueError, match="heat has no preset 'printed': choose one of best"):
        ts.gallery.get("heat").solve("printed")


def test_the_command_line_takes_the_first_preset():
    result = CliRunner().invoke(app, ["solve", "airy", "--set", "L=20", "--json", "-"])
    figures = json.loads(result.stdout)
    assert (figures["problem"], figures["preset"]) == ("airy", "best")
    assert figures["error"]["l2_relative"] <= 1e-6
    assert figures["error"]["l2_relative"] <= 100 * figures["error_estimate"] <= 1e-2


def test_the_list_has_one_line_per_problem():
    lines = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ts.gallery.names()
    for line, entry in zip(lines, ts.gallery.ENTRIES.values(), strict=True):
        assert entry.summary in line


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("variable-poisson", {"contrast": 1.0}, "contrast must lie between -1 and 1, got 1"),
        ("poisson-3d", {"n": 1.5}, "n must be a whole number >= 1, got 1.5"),
        ("plate", {"n": 0.0}, "n must be a whole number >= 1, got 0"),
        ("heat", {"alpha": -1.0}, "alpha must be positive, got -1"),
        ("heat", {"T": np.inf}, "T must be positive, got inf"),
        ("anisotropic-heat", {"T": 0.0}, "T must be positive, got 0"),
        ("wave-1d", {"c": 0.0}, "c must be positive, got 0"),
        ("advection-diffusion", {"eps": 0.0}, "eps must be positive, got 0"),
        ("reaction-diffusion", {"eps": np.nan}, "eps must be positive, got nan"),
        ("helmholtz", {"k": np.pi * np.sqrt(5)}, "is a resonance of the unit square: .* move k"),
        ("airy", {"L": -special.ai_zeros(9)[0][-1]}, "is near a zero of Ai, .*: move L by 0.1"),
        ("fokker-planck", {"diffusion": 2.0}, "at most 0.5, got 2.0: the density would"),
        ("fokker-planck", {"T": -1.0}, "T must be positive, got -1"),
        ("heat", {"kappa": 1.0}, "heat has no parameter kappa: it has alpha, T"),
    ],
)
def test_parameters_are_checked(name, parameters, words):
    with pytest.raises(ValueError, match=words):
        ts.gallery.get(name).problem(**parameters)


def test_layers_of_any_width_have_finite_exact_solutions():
    points = np.array([[0.0, 0.5], [0.5, 0.5], [0.999, 0.5], [1.0, 0.5]])
    for eps in (1e-4, 1.0, 100.0):
        u = ts.gallery.get("advection-diffusion").problem(eps=eps).exact(points)
        assert np.all(np.isfinite(u)) and abs(u[0]) < 1e-12 and abs(u[-1]) < 1e-12
