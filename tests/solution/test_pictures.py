"""Pictures for one, two and two-plus-one dimensions."""

import dataclasses
import itertools

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import LogNorm

import tessella as ts
from tessella.solution.pictures import plot_history
from tessella.solution.report import Step

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def _no_figure_is_left_open():
    yield
    pyplot.close("all")


def visible(figure):
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def random_function(combination, domain, exact=None, subdomains=2, name="problem"):
    problem = ts.Problem(domain, ts.Equation(ts.Identity()), exact=exact, name=name)
    basis = ts.Basis(ts.Decomposition(domain, subdomains), ts.RandomFeatures(3))
    if domain.regions:
        basis = ts.Fields(**dict.fromkeys(domain.regions, basis))
    a = np.random.default_rng(0).standard_normal(basis.columns)
    return combination(problem, basis, a)


def test_a_line_without_an_exact_solution(line_solution, tmp_path):
    path = tmp_path / "line.png"
    (axes,) = visible(line_solution.plot(path))
    assert path.read_bytes().startswith(PNG)
    drawn = next(line for line in axes.lines if line.get_label() == "tessella")
    x = drawn.get_xdata()
    assert len(x) >= 2_000
    np.testing.assert_array_equal(drawn.get_ydata(), line_solution(x))
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


def test_three_dimensions_and_time_are_drawn_in_the_middle_of_the_third(combination):
    solution = random_function(combination, ts.Box(x=(0, 1), y=(0, 1), z=(0, 1), t=(0, 3)))
    axes = visible(solution.plot())
    assert [ax.get_title() for ax in axes] == [f"t = {k}, z = 0.5" for k in range(4)]
    corner = axes[3].images[0].get_array()[0, -1]
    assert corner == pytest.approx(solution([[1.0, 0.0, 0.5, 3.0]])[0])


def test_snapshots_show_space_wherever_time_stands(combination):
    first = random_function(combination, ts.Box(t=(0, 3), x=(0, 1), y=(0, 1)))
    axes = visible(first.plot())
    assert [ax.get_title() for ax in axes] == ["t = 0", "t = 1", "t = 2", "t = 3"]
    assert axes[0].get_xlabel() == "x"
    assert axes[3].images[0].get_array()[0, -1] == pytest.approx(first([[3.0, 1.0, 0.0]])[0])


def test_four_dimensions_of_space_have_no_picture(combination):
    solution = random_function(combination, ts.Box(w=(0, 1), x=(0, 1), y=(0, 1), z=(0, 1)))
    with pytest.raises(ValueError, match=r"no plot for axes .*three axes of space.*slice"):
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


def test_titles_and_labels_stay_inside_the_figure(combination, square_solution, line_solution):
    long = {"name": "the displacement of a plate that is clamped all around", "parameters": {}}
    long["parameters"] = {"stiffness": 1.5e5, "thickness": 0.25, "temperature": 300.0}
    space = random_function(combination, ts.Box(x=(0, 1), y=(0, 1), z=(0, 1)))
    beam = random_function(combination, ts.Box(x=(0, 8), y=(0, 1)))
    for solution in (square_solution, line_solution, space, beam):
        report = dataclasses.replace(
            solution.report, problem=long["name"], parameters=long["parameters"]
        )
        problem = dataclasses.replace(solution.problem, exact=None)
        figure = dataclasses.replace(solution, report=report, problem=problem).plot()
        figure.draw_without_rendering()
        drawn = figure.get_tightbbox()
        assert drawn.x0 >= 0 and drawn.x1 <= figure.get_figwidth()
        assert drawn.y0 >= 0 and drawn.y1 <= figure.get_figheight()


def test_a_figure_without_a_file_is_known_to_pyplot(line_solution, tmp_path):
    figure = line_solution.plot()
    history = line_solution.plot_history()
    assert {pyplot.figure(number) for number in pyplot.get_fignums()} == {figure, history}
    line_solution.plot(tmp_path / "line.png")
    assert len(pyplot.get_fignums()) == 2


def test_a_notebook_shows_a_figure_once(line_solution, monkeypatch):
    monkeypatch.setattr("matplotlib.get_backend", lambda: "module://matplotlib_inline.backend")
    line_solution.plot()
    assert not pyplot.get_fignums()


def outlines(ax):
    """The lines drawn where a signed distance vanishes, as arrays of points."""
    lines = [c for c in ax.collections if not c.filled]
    return [p.vertices for c in lines for p in c.get_paths() if len(p.vertices) > 4]


def test_slices_of_a_shape_are_outlined_at_their_height(combination):
    solution = random_function(combination, ts.Ball(x=0, y=0, z=0, radius=1))
    axes = visible(solution.plot())
    for ax in axes:
        (line,) = outlines(ax)
        z = float(ax.get_title().removeprefix("z = "))
        np.testing.assert_allclose(np.hypot(*line.T), np.sqrt(1 - z**2), atol=2e-3)
    assert len({ax.get_title() for ax in axes}) == 4


def test_outlines_are_the_same_at_all_times(combination):
    box, hole = ts.Box(x=(-1, 1), y=(-1, 1)), ts.Ball(x=0, y=0, radius=0.5)
    holed = (box - hole).over(t=(0, 1))
    divided = ts.Divided(ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 1)), core=hole.over(t=(0, 1)))
    for domain in (holed, divided):
        for ax in visible(random_function(combination, domain).plot()):
            line = np.concatenate(outlines(ax))
            inner = line[np.max(np.abs(line), axis=1) < 0.9]
            assert len(inner) > 50
            np.testing.assert_allclose(np.hypot(*inner.T), 0.5, atol=2e-3)


def test_edges_of_a_shape_are_clean(combination):
    """The map reaches beyond the outline, and what is outside is painted over."""
    (ax,) = visible(random_function(combination, ts.Ball(x=0, y=0, radius=1)).plot())
    values = ax.images[0].get_array().filled(np.nan)
    m, n = values.shape
    x, y = np.meshgrid(np.linspace(-1, 1, m), np.linspace(-1, 1, n), indexing="ij")
    assert np.all(np.isfinite(values[np.hypot(x, y) < 1 + 1 / m]))
    assert any(c.filled for c in ax.collections)


def test_slices_lie_where_the_shape_is(combination):
    """Bounds may enclose a shape loosely; a slice that misses it would show nothing."""
    flat = ts.Implicit(lambda p: 25 * p[:, 2] ** 2 + p[:, 0] ** 2 + p[:, 1] ** 2 - 0.9,
                       bounds={"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)})  # fmt: skip
    for ax in visible(random_function(combination, flat).plot()):
        assert np.isfinite(ax.images[0].get_array()).mean() > 0.2


def test_errors_in_slices_share_one_scale_by_powers_of_ten(combination):
    domain = ts.Box(x=(0, 1), y=(0, 1), z=(0, 1))
    solution = random_function(combination, domain, exact=lambda p: p[:, 2])
    axes = visible(solution.plot())
    norms = {ax.images[0].norm for ax in axes[8:]}
    (norm,) = norms
    assert isinstance(norm, LogNorm)
    assert norm.vmax == max(ax.images[0].get_array().max() for ax in axes[8:])
    values = [ax.images[0].norm for ax in axes[:8]]
    assert len({(n.vmin, n.vmax) for n in values}) == 1


def test_regions_are_outlined(combination):
    box = ts.Box(x=(-1, 1), y=(-1, 1))
    domain = ts.Divided(
        box, core=ts.Ball(x=0, y=0, radius=0.5), bar=ts.Box(x=(-1, 1), y=(-0.2, 0.2))
    )
    (ax,) = visible(random_function(combination, domain).plot())
    points = np.concatenate(outlines(ax))
    for name, depth in (("core", 0.5), ("bar", 0.2)):
        distance = domain.depth(name, points)
        assert np.mean(np.abs(distance) < 0.01 * depth) > 0.2
    assert np.all(np.min([np.abs(domain.depth(n, points)) for n in ("core", "bar")], axis=0) < 0.02)


@pytest.mark.parametrize("ends", [(0, 1), (-3, 40)])
def test_a_line_has_points_enough_for_every_feature(combination, ends):
    """A pulse as narrow as a subdomain's features allow is not missed between two points."""
    solution = random_function(combination, ts.Box(x=ends), subdomains=1_500)
    x = visible(solution.plot())[0].lines[0].get_xdata()
    tiles = solution.basis.decomposition
    widest = np.diff(x).max()
    assert widest < 2 * tiles.half_widths.min() / solution.basis.features.columns
    assert len(x) <= 22_000


def test_maps_are_finer_where_subdomains_are_small(combination):
    domain = ts.Box(x=(0, 1), y=(0, 1))
    coarse = random_function(combination, domain, subdomains=2).plot()
    fine = random_function(combination, domain, subdomains=(200, 2)).plot()
    assert visible(coarse)[0].images[0].get_array().shape == (201, 201)
    n_y, n_x = visible(fine)[0].images[0].get_array().shape
    assert n_y == 201
    assert n_x == 4 * 199 / 2


def test_long_domains_have_long_pictures(combination):
    sizes = []
    for length in (1, 4):
        figure = random_function(combination, ts.Box(x=(0, length), y=(0, 1))).plot()
        sizes.append(figure.get_figheight() / figure.get_figwidth())
    assert sizes[1] < 0.5 * sizes[0]


def test_labels_of_a_refinement_do_not_overlap(line_solution):
    steps = tuple(
        Step(change, (4,), 8, 1.0, 1_000 + k // 3, 10.0**-k, None, 10.0 ** (-k - 1), 0.1)
        for k, change in enumerate(["start", *["features", "subdomains", "bandwidth"] * 5])
    )
    report = dataclasses.replace(line_solution.report, refinement=steps, tolerance=1e-9)
    figure = dataclasses.replace(line_solution, report=report).plot_history()
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text().split("\n")[0] for label in labels] == [s.change for s in steps]
    boxes = [label.get_window_extent() for label in labels]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)


@pytest.fixture(scope="module")
def drum():
    """A march in two space dimensions."""
    problem = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, 0.2)),
        ts.Equation(ts.D(t=1) - ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Initial(lambda p: np.sin(np.pi * p[:, 0]))],
        name="drum",
    )
    return ts.march(problem, 2, subdomains=1, features=12, estimate=False)


def test_a_march_in_the_plane_is_drawn_in_snapshots(drum, tmp_path):
    figure = drum.plot(tmp_path / "drum.png")
    *snapshots, growth = [ax for ax in figure.findobj(pyplot.Axes) if ax in visible(figure)]
    assert [ax.get_title() for ax in snapshots] == ["t = 0", "t = 0.0667", "t = 0.133", "t = 0.2"]
    at = snapshots[3].images[0].get_array()
    assert at[0, -1] == pytest.approx(drum([[1.0, 0.0, 0.2]])[0])
    assert growth.get_xlabel() == "t"
    assert "2 slabs" in figure.get_suptitle()


def test_times_of_a_march_are_as_dense_as_its_slabs(combination):
    """Eighty slabs of two waves each need more than the 201 points of one map."""
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 40)),
        ts.Equation(ts.D(t=1)),
        [ts.Initial(lambda p: p[:, 0])],
    )
    marched = ts.march(problem, 40, subdomains=1, features=24, estimate=False)
    (strip, growth) = visible(marched.plot())
    n_x, n_t = strip.images[0].get_array().shape
    assert (n_x, n_t) == (201, 40 * 10)
    assert strip.get_xlim() == growth.get_xlim() == (0, 40)


def test_every_unknown_of_a_march_is_drawn():
    u, v = ts.Field("u"), ts.Field("v")
    for space in ({}, {"x": (0, 1)}):
        problem = ts.Problem(
            ts.Box(**space, t=(0, 1)),
            [ts.Equation(ts.D(t=1) @ u - v), ts.Equation(ts.D(t=1) @ v + u)],
            [ts.Initial(1.0, of=u), ts.Initial(0.0, of=v)],
        )
        marched = ts.march(problem, 2, subdomains=1, features=8, estimate=False)
        assert len(visible(marched.plot())) == 3
