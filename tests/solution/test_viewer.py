"""The viewer: served to this machine only, and showing what the solution is."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlencode

import numpy as np
import pytest

import tessella as ts
from tessella.solution.viewed import POINTS
from tessella.solution.viewer import FILES, Viewer


@pytest.fixture(scope="module")
def square(square_solution):
    viewer = square_solution.view(browser=False)
    yield viewer
    viewer.close()


def get(viewer, path, host=None, **query):
    asked = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in query.items()
    }
    url = f"{viewer.url}{path}?{urlencode(asked)}"
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def ask(viewer, path, **query):
    return json.loads(get(viewer, path, **query))


def drawn(viewer, axes=(0, 1), at=None, field="u", layer="value"):
    found = ask(viewer, "drawn", axes=list(axes), at=at or {}, field=field, layer=layer)
    values = np.array(found["values"], dtype=float)
    return found, values.reshape((POINTS[len(axes)],) * len(axes))


def refused(viewer, path, **query):
    with pytest.raises(urllib.error.HTTPError) as error:
        get(viewer, path, **query)
    return error.value.code, error.value.read().decode()


def test_it_listens_on_this_machine_only(square):
    assert square._server.server_address[0] == "127.0.0.1"
    assert refused(square, "about", host="other.example")[0] == 403
    assert "'self'" in urllib.request.urlopen(square.url).headers["Content-Security-Policy"]


def test_the_page_asks_for_files_that_are_there_and_no_other_machine(square):
    for path in FILES:
        text = get(square, path[1:]).decode()
        assert "//" not in text.replace("// ", "").replace("http://www.w3.org", ""), path
    page = get(square, "").decode()
    assert 'src="viewer.js"' in page and 'href="viewer.css"' in page


@pytest.mark.parametrize("path", ["viewer.py", "../viewer.py", "%2e%2e/files.py", "etc/passwd"])
def test_no_other_file_is_served(square, path):
    assert refused(square, path)[0] == 404


def test_what_there_is_to_choose_from(square, square_solution):
    about = ask(square, "about")
    assert about["axes"] == ["x", "y"] and about["bounds"] == [[0, 1], [0, 1]]
    assert about["layers"] == ["value", "exact", "error", "residual"]
    assert about["report"] == str(square_solution)


def test_a_map_holds_the_values_of_the_solution(square, square_solution):
    found, values = drawn(square)
    ticks = np.linspace(0, 1, POINTS[2])
    x = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=2).reshape(-1, 2)
    assert values.ravel() == pytest.approx(square_solution(x), rel=1e-5, abs=1e-5)
    low, high = found["range"]
    assert low <= values.min() + 1e-6 and values.max() <= high + 1e-6
    assert len(found["cells"]) == 4 and all(len(cell) == 4 for cell in found["cells"])


def test_a_line_is_cut_where_the_others_stand(square, square_solution):
    _, values = drawn(square, axes=[1], at={"0": 0.25})
    y = np.linspace(0, 1, POINTS[1])
    exact = square_solution(np.column_stack([np.full(len(y), 0.25), y]))
    assert values == pytest.approx(exact, rel=1e-5, abs=1e-5)


def test_error_and_residual_are_those_of_the_solution(square, square_solution):
    point = [0.3, 0.6]
    found = ask(square, "probed", point=point)
    assert found["u"] == square_solution([point])[0]
    assert found["error"] == pytest.approx(abs(found["u"] - found["exact"]))
    assert found["residual"] == pytest.approx(abs(square_solution.residual([point])[0]))


def test_outside_of_a_shape_there_is_nothing(tmp_path):
    disc = ts.Ball(x=0, y=0, radius=1)
    problem = ts.Problem(disc, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
    solution = ts.solve(problem, subdomains=2, features=60, coupling="interfaces", estimate=False)
    loaded = Viewer(ts.load(solution.save(tmp_path / "disc")), browser=False)
    try:
        assert ask(loaded, "about")["layers"] == ["value"], "a file holds no equation"
        _, values = drawn(loaded)
        assert np.isnan(values[0, 0]) and values[70, 70] == pytest.approx(0.25, abs=1e-3)
        assert ask(loaded, "probed", point=[0.9, 0.9]) == {}
    finally:
        loaded.close()


def test_a_march_is_shown_as_one():
    rod = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 1)),
        ts.Equation(ts.D(t=1) - ts.D(x=2)),
        [ts.Dirichlet(0.0), ts.Initial(lambda p: np.sin(np.pi * p[:, 0]))],
    )
    marched = ts.march(
        rod, 2, subdomains=(2, 1), features=40, coupling="interfaces", estimate=False
    )
    viewer = marched.view(browser=False)
    try:
        assert ask(viewer, "about")["time"] == 1
        found, _ = drawn(viewer)
        assert len(found["cells"]) == 4, "two cells in each of two slabs"
        found, values = drawn(viewer, axes=[0], at={"1": 0.75}, layer="residual")
        assert len(found["cells"]) == 2
        x = np.column_stack([np.linspace(0, 1, POINTS[1]), np.full(POINTS[1], 0.75)])
        assert values == pytest.approx(np.abs(marched.slabs[1].residual(x)), rel=1e-4)
    finally:
        viewer.close()


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("drawn", {"axes": [0, 7], "at": {}, "field": "u", "layer": "value"}),
        ("drawn", {"axes": [0, 0], "at": {}, "field": "u", "layer": "value"}),
        ("drawn", {"axes": [0, 1], "at": {}, "field": "q", "layer": "value"}),
        ("drawn", {"axes": [0, 1], "at": {}, "field": "u", "layer": "colour"}),
        ("drawn", {"axes": "x", "at": {}, "field": "u", "layer": "value"}),
        ("probed", {"point": [0.5]}),
        ("probed", {}),
    ],
)
def test_nonsense_is_refused(square, path, query):
    assert refused(square, path, **query)[0] == 400


def test_the_browser_is_opened_where_the_page_is(line_solution, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    viewer = line_solution.view()
    viewer.close()
    assert opened == [viewer.url]
    with pytest.raises(urllib.error.URLError):
        get(viewer, "about")


def test_the_command_ends_politely(line_solution, tmp_path):
    path = line_solution.save(tmp_path / "line")
    start = "from tessella.cli import main; main()"
    command = [sys.executable, "-c", start, "view", str(path), "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        said = run.stdout.readline()
        url = said.partition(" at ")[2].split()[0]
        assert json.load(urllib.request.urlopen(f"{url}about"))["title"] == "line"
        run.send_signal(signal.SIGINT)
        _, complaints = run.communicate(timeout=60)
    assert (run.returncode, complaints) == (0, "")


def test_a_notebook_shows_picture_and_report(line_solution):
    shown = line_solution._repr_html_()
    assert "data:image/png;base64," in shown
    assert "residual, equation" in shown and "<pre>" in shown


def test_a_notebook_without_matplotlib_shows_the_report(line_solution, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = line_solution._repr_html_()
    assert "<img" not in shown and "residual, equation" in shown
