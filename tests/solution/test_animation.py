"""Moving pictures: what they show, in fixed ranges, written whole."""

import numpy as np
import pytest
from matplotlib import rcParams
from PIL import Image

import tessella as ts
from tessella.solution import animation


def made(combination, domain, **more):
    problem = ts.Problem(domain, ts.Equation(ts.Identity()), **more)
    basis = ts.Basis(ts.Decomposition(domain, 2), ts.RandomFeatures(3))
    a = np.random.default_rng(0).standard_normal(basis.columns)
    return combination(problem, basis, a)


@pytest.fixture
def staged(monkeypatch):
    """The figures that were made, as they stand at the last frame."""
    figures = []

    def kept(*size):
        figures.append(new_figure(*size))
        return figures[-1]

    new_figure = animation.new_figure
    monkeypatch.setattr(animation, "new_figure", kept)
    return figures


def test_a_curve_moves_between_axes_that_stand_still(combination, staged, tmp_path):
    solution = made(combination, ts.Box(x=(0, 1), t=(0, 3)), exact=lambda p: p[:, 1])
    told = []
    path = solution.animate(
        tmp_path / "u.gif", frames=4, fps=10, progress=lambda *step: told.append(step)
    )
    picture = Image.open(path)
    assert picture.n_frames == 4
    assert picture.info["duration"] == 100
    assert [done for done, total, _ in told if total == 8] == list(range(1, 9))
    (ax,) = staged[0].axes
    computed, exact = ax.lines
    x = computed.get_xdata()
    np.testing.assert_allclose(computed.get_ydata(), solution(np.column_stack([x, 0 * x + 3])))
    np.testing.assert_allclose(exact.get_ydata(), 3.0)
    everywhere = np.array([solution(np.column_stack([x, 0 * x + t])) for t in range(4)])
    low, high = ax.get_ylim()
    assert low < everywhere.min() and everywhere.max() < high
    assert staged[0].get_suptitle().endswith("t = 3")


def test_a_map_keeps_its_colours(combination, staged, tmp_path):
    domain = (ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0, y=0, radius=0.3)).over(t=(0, 1))
    solution = made(combination, domain)
    solution.animate(tmp_path / "u.gif", frames=3)
    image = staged[0].axes[0].images[0]
    ticks = np.linspace(-1, 1, image.get_array().shape[0])
    x, y = (a.ravel() for a in np.meshgrid(ticks, ticks))
    for t in (0.0, 0.5, 1.0):
        points = np.column_stack([x, y, 0 * x + t])
        u = solution(points[domain.contains(points)])
        assert image.norm.vmin <= u.min() and u.max() <= image.norm.vmax
    values = image.get_array().filled(np.nan).ravel()
    points = np.column_stack([x, y, 0 * x + 1.0])
    inside = domain.contains(points)
    np.testing.assert_allclose(values[inside], solution(points[inside]), atol=1e-12)
    assert np.isnan(values[np.hypot(x, y) < 0.2]).all()


def test_three_dimensions_are_shown_on_a_slice_that_is_named(combination, staged, tmp_path):
    solution = made(combination, ts.Box(x=(0, 1), y=(0, 1), z=(0, 4), t=(0, 1)))
    solution.animate(tmp_path / "u.gif", frames=2)
    assert staged[0].get_suptitle().endswith("t = 1 · slice at z = 2")
    last = staged[0].axes[0].images[0].get_array()[0, -1]
    assert last == pytest.approx(solution([[1.0, 0.0, 2.0, 1.0]])[0])


@pytest.fixture(scope="module")
def pair():
    """A march of a system with two unknowns."""
    u, v = ts.Field("u"), ts.Field("v")
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        [ts.Equation(ts.D(t=1) @ u - v), ts.Equation(ts.D(t=1) @ v + u)],
        [ts.Initial(1.0, of=u), ts.Initial(0.0, of=v)],
    )
    return ts.march(problem, 2, subdomains=1, features=8, estimate=False)


def test_all_unknowns_of_a_march_or_the_one_that_is_named(pair, staged, tmp_path):
    pair.animate(tmp_path / "both.gif", frames=2)
    pair.animate(tmp_path / "one.gif", frames=2, field="v")
    both, one = ([ax.get_ylabel() for ax in figure.axes] for figure in staged)
    assert both == ["u", "v"]
    assert one == ["v"]
    np.testing.assert_allclose(staged[1].axes[0].lines[0].get_ydata(), -np.sin(1), atol=0.03)
    with pytest.raises(ValueError, match=r"unknown field 'w': this solution has u, v"):
        pair.animate(tmp_path / "none.gif", field="w")


def test_what_cannot_be_animated_says_what_to_do(combination, pair, tmp_path):
    plane = made(combination, ts.Box(x=(0, 1), y=(0, 1)))
    with pytest.raises(ValueError, match=r"only x, y: use plot\(\)"):
        plane.animate(tmp_path / "u.gif")
    moment = made(combination, ts.Box(t=(0, 1)))
    with pytest.raises(ValueError, match=r"t is the only axis.*plot\(\)"):
        moment.animate(tmp_path / "u.gif")
    with pytest.raises(ValueError, match=r"'u.avi': use .gif or .mp4"):
        pair.animate(tmp_path / "u.avi")
    with pytest.raises(ValueError, match=r"frames must be a whole number >= 2, got 1"):
        pair.animate(tmp_path / "u.gif", frames=1)
    with pytest.raises(ValueError, match=r"fps must be a positive number.*got 0"):
        pair.animate(tmp_path / "u.gif", fps=0)


def test_without_ffmpeg_the_remedy_is_named(pair, tmp_path, monkeypatch):
    monkeypatch.setitem(rcParams, "animation.ffmpeg_path", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"u.mp4 needs .*ffmpeg.*or write u.gif"):
        pair.animate(tmp_path / "u.mp4")


def test_with_ffmpeg_frames_are_handed_to_it(pair, tmp_path, monkeypatch):
    """A program in its place that keeps what it is given."""
    program = tmp_path / "ffmpeg"
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setitem(rcParams, "animation.ffmpeg_path", str(program))
    path = pair.animate(tmp_path / "u.mp4", frames=3)
    pixels = path.stat().st_size / 4 / 3
    assert pixels == int(pixels) and pixels > 100 * 100
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ffmpeg", "u.mp4"]


def test_an_interrupted_picture_leaves_the_old_one(pair, tmp_path):
    path = tmp_path / "u.gif"
    path.write_text("old")

    def stop(done, total, _):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pair.animate(path, frames=2, progress=stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
