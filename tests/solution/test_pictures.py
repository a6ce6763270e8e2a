"""Pictures for one, two and two-plus-one dimensions."""

import dataclasses

import numpy as np
import pytest
from matplotlib.colors import LogNorm

import tessella as ts
from tessella.solution.pictures import plot_history

PNG = b"\x89PNG\r\n\x1a\n"


def visible(figure):
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def random_function(combination, domain, exact=None):
    problem = ts.Problem(domain, ts.Equation(ts.Identity()), exact=exact)
    basis = ts.Basis(ts.Decomposition(domain, 2), ts.RandomFeatures(3))
    a = np.random.default_rng(0).standard_normal(basis.columns)
    return combination(problem, basis, a)


def test_a_line_without_an_exact_solution(line_solution, tmp_path):
    path = tmp_path / "line.png"
    (axes,) = visible(line_solution.plot(path))
    assert path.read_bytes().startswith(PNG)
    drawn = next(line for line in axes.lines if line.get_label() == "tessella")
    np.testing.assert_array_equal(
        drawn.get_ydata(), line_solution(line_solution.problem.domain.grid((2000,)))
    )
    assert axes.get_xlabel() == "x"


def test_a_line_with_an_exact_solution_shows_the_error(line_solution):
    problem = dataclasses.replace(line_solution.problem, exact=lambda p: np.sin(np.pi * p[:, 0]))
    figure = dataclasses.replace(line_solution, problem=problem).plot()
    values, error = visible(figure)
    assert {line.get_label() for line in values.lines} >= {"exact", "tessella"}
    assert error.get_ylabel() == "absolute error"
    assert error.lines[0].get_ydata().max() < 1e-5


def test_a_plane_shows_exact_computed_and_error(square_solution, tmp_path):
    path = tmp_path / "square.png"
    axes = visible(square_solution.plot(path))
    assert path.read_bytes().startswith(PNG)
    assert [ax.get_title() for ax in axes] == ["exact", "tessella", "absolute error"]
    image = axes[1].images[0]
    corner = square_solution([[1.0, 0.0]])[0]
    assert image.get_array()[0, -1] == pytest.approx(corner)
    assert image.get_extent() == [0, 1, 0, 1]


def test_space_and_time_are_shown_as_snapshots(combination, tmp_path):
    domain = ts.Box(x=(0, 1), y=(0, 2), t=(0, 3))
    path = tmp_path / "snapshots.png"
    figure = random_function(combination, domain, exact=lambda p: p[:, 2]).plot(path)
    assert path.read_bytes().startswith(PNG)
    axes = visible(figure)
    assert [ax.get_title() for ax in axes[:4]] == ["t = 0", "t = 1", "t = 2", "t = 3"]
    assert len(axes) == 12
    alone = random_function(combination, domain).plot()
    assert len(visible(alone)) == 4


def test_three_dimensions_in_space_are_drawn_in_slices_off_the_boundary(combination):
    solution = random_function(combination, ts.Box(x=(0, 1), y=(0, 1), z=(0, 1)))
    axes = visible(solution.plot())
    assert [ax.get_title() for ax in axes] == ["z = 0.2", "z = 0.4", "z = 0.6", "z = 0.8"]


def test_four_dimensions_have_no_picture(combination):
    solution = random_function(combination, ts.Box(x=(0, 1), y=(0, 1), z=(0, 1), t=(0, 1)))
    with pytest.raises(ValueError, match=r"no plot for axes .*up to three axes; evaluate.*slice"):
        solution.plot()


def test_errors_are_drawn_by_powers_of_ten(square_solution):
    norm = visible(square_solution.plot())[2].get_images()[0].norm
    assert isinstance(norm, LogNorm)
    assert norm.vmax == pytest.approx(1e4 * norm.vmin)


def test_without_an_exact_solution_the_title_has_the_estimate():
    problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Dirichlet()])
    solution = ts.solve(problem, tol=1e-2)
    estimate = f"estimated error {solution.report.error_estimate:.1e}"
    assert solution.plot().get_suptitle() == f"merging · {estimate}"


def test_the_title_names_problem_and_error(square_solution):
    title = square_solution.plot().get_suptitle()
    assert title.startswith("square")
    assert "error" in title


def test_the_history_shows_residual_and_error(square_solution, line_solution, tmp_path):
    path = tmp_path / "history.png"
    (axes,) = plot_history(square_solution, path).axes
    assert path.read_bytes().startswith(PNG)
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["residual", "normal residual", "error (normalised L1)"]
    assert len(axes.lines[0].get_ydata()) == square_solution.report.iterations
    (alone,) = plot_history(line_solution).axes
    assert len(alone.lines) == 2


def test_every_unknown_of_a_system_is_drawn(tmp_path):
    u, v = ts.Field("u"), ts.Field("v")
    one = {
        "u": lambda x: np.sin(x[:, 0]),
        "v": lambda x: np.cos(x[:, 0]),
    }
    flat = {"domain": ts.Box(x=(0, 1)), "D": ts.D(x=1)}
    maps = {"domain": ts.Box(x=(0, 1), y=(0, 1)), "D": ts.D(x=1)}
    for case, panels in ((flat, 4), (maps, 6)):
        problem = ts.Problem(
            case["domain"],
            [ts.Equation(case["D"] @ u - v), ts.Equation(case["D"] @ v + u)],
            [ts.Dirichlet(one["u"], "xmin", of=u), ts.Dirichlet(one["v"], "xmin", of=v)],
            exact=one,
        )
        figure = ts.solve(problem, subdomains=1, features=6).plot(tmp_path / "system.png")
        drawn = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
        assert len(drawn) == panels
    assert [ax.get_title() for ax in drawn][3:] == ["v, exact", "v, tessella", "v, absolute error"]


def test_a_refinement_is_drawn_step_by_step(tmp_path):
    problem = ts.Problem(
        ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), lambda x: np.exp(x[:, 0])), [ts.Dirichlet()]
    )
    solution = ts.solve(problem, tol=1e-8)
    (ax,) = solution.plot_history(tmp_path / "steps.png").axes
    residuals = ax.lines[0].get_ydata()
    assert list(residuals) == [step.residual for step in solution.report.refinement]
    assert any("tolerance" in str(line.get_label()) for line in ax.lines)
    assert (tmp_path / "steps.png").stat().st_size > 1000
