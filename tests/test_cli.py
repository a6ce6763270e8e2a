"""The command line: what it prints, what it writes, and one line for every mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tessella as ts
from tessella import cli

SMALL = ["--set", "subdomains=3", "--set", "features=6", "--set", "max_iterations=30"]
CONTRACT = {
    "problem": str,
    "preset": str,
    "seed": int,
    "solver": str,
    "rows": int,
    "columns": int,
    "columns_kept": int,
    "dropped_percent": float,
    "iterations": int,
    "stop_reason": str,
    "error": dict,
    "error_oracle_minimum": float,
    "error_estimate": type(None),
    "residual": dict,
    "condition": dict,
    "seconds": dict,
    "peak_memory_mib": float,
}


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)


def test_list_shows_the_gallery():
    text = invoke("list").stdout
    for name in ts.gallery.names():
        assert any(line.startswith(name) for line in text.splitlines())
    assert "omega0=60" in text
    assert "as-run" in text


def test_a_moving_picture_is_written_where_it_is_asked_for(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(ts.Solution, "animate", lambda self, path: asked.append((self, path)))
    path = tmp_path / "u.gif"
    invoke("solve", "harmonic-oscillator", *SMALL, "--set", "omega0=10", "--animate", path)
    ((solution, where),) = asked
    assert solution.report.problem == "harmonic-oscillator"
    assert where == path


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """One small run that writes everything it can."""
    folder = tmp_path_factory.mktemp("cli")
    files = {kind: folder / f"u.{kind}" for kind in ("json", "png", "npz")}
    result = invoke(
        *("solve", "harmonic-oscillator", *SMALL, "--set", "omega0=10", "--seed", "3"),
        *("--condition", "--json", files["json"], "--plot", files["png"], "--save", files["npz"]),
    )
    assert result.exit_code == 0
    return result.stdout, files


def test_solve_prints_a_report(solved):
    text, _ = solved
    assert text.startswith("harmonic-oscillator (as-run)\n")
    for words in ("features kept", "rrqr-lsqr", "iteration limit", "oracle minimum", "condition"):
        assert words in text


def test_the_json_keeps_its_contract(solved):
    figures = json.loads(solved[1]["json"].read_text())
    for key, kind in CONTRACT.items():
        assert isinstance(figures[key], kind), key
    assert set(figures["error"]) == {"l1_normalised", "l2_relative", "max"}
    assert set(figures["condition"]) == {"M", "M_hat", "preconditioned"}
    assert all(value > 1 for value in figures["condition"].values())
    assert set(figures["residual"]) == {"equation", "initial value", "initial velocity"}
    assert {"assemble", "filter", "solve", "compile", "total"} <= set(figures["seconds"])
    assert (figures["problem"], figures["preset"]) == ("harmonic-oscillator", "as-run")
    assert (figures["seed"], figures["iterations"], figures["columns"]) == (3, 30, 21)
    assert figures["columns_kept"] <= 21
    assert figures["dropped_percent"] == pytest.approx(100 * (1 - figures["columns_kept"] / 21))
    assert figures["parameters"] == {"omega0": 10.0, "mu": 4.0}
    assert figures["settings"]["features"] == 6


def test_the_picture_is_a_png(solved):
    assert solved[1]["png"].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_saved_solution_can_be_loaded(solved):
    figures = json.loads(solved[1]["json"].read_text())
    solution = ts.load(solved[1]["npz"])
    assert solution.report.error == figures["error"]
    assert solution.problem.parameters["omega0"] == 10.0


def test_json_on_standard_output_stands_alone(solved):
    result = invoke("solve", "harmonic-oscillator", *SMALL, "--set", "omega0=10", "--json", "-")
    figures = json.loads(result.stdout)
    assert figures["condition"] == {"M": None, "M_hat": None, "preconditioned": None}
    assert figures["seed"] == 0


def figures_of(*arguments):
    return json.loads(invoke("solve", *arguments, "--json", "-").stdout)


def test_runs_repeat_by_seed(solved):
    first = json.loads(solved[1]["json"].read_text())
    arguments = ["harmonic-oscillator", *SMALL, "--set", "omega0=10"]
    again, other = (figures_of(*arguments, "--seed", seed) for seed in (3, 4))
    assert again["error"] == first["error"]
    assert other["error"] != first["error"]


def test_settings_may_be_lists():
    figures = figures_of(
        *("laplace", "--set", "n=1", "--set", "subdomains=2,3", "--set", "overlap=2,2.5"),
        *("--set", "features=4", "--solver", "nested-qr"),
    )
    assert figures["columns"] == 2 * 3 * 5
    assert figures["rows"] == 6 * 9
    assert figures["settings"]["overlap"] == [2, 2.5]


def test_the_printed_preset():
    figures = figures_of("harmonic-oscillator", "--preset", "printed", *SMALL, "--solver", "lsqr")
    assert (figures["preset"], figures["columns"]) == ("printed", 18)


@pytest.mark.parametrize("solver", ["lsqr", "nested-qr"])
def test_solvers_by_name(solver):
    figures = figures_of("harmonic-oscillator", *SMALL, "--solver", solver)
    assert figures["solver"] == solver
    assert set(figures) >= set(CONTRACT)
    assert figures["error"]["max"] < 10


@pytest.mark.parametrize("solver", ["pinn", "fbpinn"])
def test_a_network_is_trained_from_the_command_line(solver, tmp_path):
    arguments = (
        *("harmonic-oscillator", "--solver", solver, "--set", "steps=12", "--set", "hidden=4"),
        *("--set", "subdomains=3", "--set", "omega0=10", "--set", "learning_rate=0.01"),
        *("--set", "depth=1"),
        *("--checkpoint", tmp_path / "state.npz", "--save", tmp_path / "u.npz"),
    )
    figures = figures_of(*arguments)
    assert set(figures) >= set(CONTRACT)
    assert (figures["solver"], figures["iterations"]) == (solver, 12)
    assert figures["stop_reason"] == "step limit"
    assert figures["rows"] == 3 * 9 + 2
    assert figures["columns"] == {"pinn": 4 + 4 + 5, "fbpinn": 3 * (4 + 4 + 5)}[solver]
    for key in ("columns_kept", "dropped_percent", "error_estimate"):
        assert figures[key] is None
    assert figures["condition"] == {"M": None, "M_hat": None, "preconditioned": None}
    assert figures["seconds"]["filter"] is None
    assert all(figures["seconds"][key] >= 0 for key in ("assemble", "solve", "compile", "total"))
    assert figures["error_oracle_minimum"] <= figures["error"]["l1_normalised"]
    assert figures["settings"]["learning_rate"] == 0.01
    assert ts.load(tmp_path / "u.npz").report.error == figures["error"]
    assert figures_of(*arguments, "--set", "steps=20")["iterations"] == 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n=3", ("n", 3)),
        ("sigma=1e-8", ("sigma", 1e-8)),
        ("subdomains=4,5", ("subdomains", (4, 5))),
        ("overlap=2.5,3", ("overlap", (2.5, 3))),
        ("constant=false", ("constant", False)),
        ("bias=True", ("bias", True)),
        ("activation=sin", ("activation", "sin")),
    ],
)
def test_settings_are_parsed(text, expected):
    key, value = cli.parse_setting(text)
    assert (key, value) == expected
    assert type(value) is type(expected[1])


TINY = ["solve", "harmonic-oscillator", *SMALL, "--set", "omega0=10"]


def write_nothing(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("broken", ["--json", "--plot"])
def test_what_fails_in_the_end_does_not_take_the_solution_with_it(tmp_path, monkeypatch, broken):
    files = {"--json": tmp_path / "u.json", "--plot": tmp_path / "u.png"}
    wrong = {"--json": "cli._write_json", "--plot": "solution.pictures.plot_solution"}
    monkeypatch.setattr(f"tessella.{wrong[broken]}", write_nothing)
    written = [text for pair in files.items() for text in pair]
    with pytest.raises(ValueError, match="No space left on device"):
        invoke(*TINY, *written, "--save", tmp_path / "u")
    assert ts.load(tmp_path / "u").report.iterations == 30
    other = files["--plot" if broken == "--json" else "--json"]
    assert other.exists()
    assert not files[broken].exists()


@pytest.mark.parametrize("option", ["--json", "--plot", "--save", "--checkpoint"])
@pytest.mark.parametrize(
    ("name", "words"), [("", "is a folder"), ("none/u.png", "does not exist: create it first")]
)
def test_places_where_nothing_can_be_written_are_refused_before_the_solve(
    tmp_path, monkeypatch, option, name, words
):
    monkeypatch.setattr(ts.gallery, "get", lambda name: pytest.fail("it was solved"))
    (tmp_path / "folder.png.npz").mkdir()
    target = tmp_path / name if name else tmp_path / "folder.png.npz"
    if option == "--plot" and not name:
        target = target.rename(tmp_path / "folder.png")
    with pytest.raises(OSError, match=words):
        invoke(*TINY, option, target)


def test_a_picture_of_an_unknown_kind_is_refused_before_the_solve(tmp_path, monkeypatch):
    monkeypatch.setattr(ts.gallery, "get", lambda name: pytest.fail("it was solved"))
    with pytest.raises(ValueError, match=r"u\.cake is no picture: name it \.png"):
        invoke(*TINY, "--plot", tmp_path / "u.cake")


def test_one_file_for_two_results_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"u\.npz is named twice"):
        invoke(*TINY, "--json", tmp_path / "u.npz", "--save", tmp_path / "u")


def test_the_json_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "u.json"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", write_nothing)
    with pytest.raises(ValueError, match=rf"No space left on device: '{path}'"):
        invoke(*TINY, "--json", path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("u.json", "old")]


def test_a_device_is_written_to_and_not_replaced():
    invoke(*TINY, "--json", "/dev/null")
    assert not Path("/dev/null").is_file()


@pytest.fixture
def mistake(monkeypatch, capsys):
    """Run `tessella ...` through its entry point; returns the exit code and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tessella", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "laplce"], "unknown problem 'laplce': did you mean 'laplace'? the gallery has"),
        (["solve", "wave", "--preset", "fast"], "wave has no preset 'fast': choose one of as-run"),
        (
            ["solve", "wave", "--set", "speed=3"],
            "wave has no setting 'speed': there are lambda, T, c",
        ),
        (["solve", "wave", "--solver", "magic"], "unknown solver 'magic': choose one of"),
        (["solve", "wave", "--set", "lambda"], "--set needs KEY=VALUE, got 'lambda'"),
        (["solve", "wave", "--set", "lambda="], "--set needs KEY=VALUE, got 'lambda='"),
        (["solve", "wave", "--set", "lambda=wide"], "lambda must be a number, got 'wide'"),
        (["solve", "wave", "--set", "max_iterations=all"], "max_iterations must be a number, got"),
        (["solve", "wave", "--set", "sigma=2"], "sigma must lie in [0, 1), got 2: it is a thresh"),
        (["solve", "wave", "--set", "features=0"], "features must be a whole number >= 1, got 0"),
        (["solve", "wave", "--set", "overlap=0.5"], "overlap=0.5 leaves"),
        (["solve", "wave", "--set", "subdomains=4000"], "GiB are free: use fewer features"),
        (
            ["solve", "wave", "--solver", "pinn", "--set", "sigma=1"],
            "wave has no setting 'sigma': there are",
        ),
        (["solve", "wave", "--solver", "pinn", "--condition"], "a pinn has no condition numbers"),
        (["solve", "wave", "--checkpoint", "a.npz"], "only pinn and fbpinn keep checkpoints, not"),
        (["solve", "wave", "--json", "no/such/folder/u.json"], "does not exist: create it first"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
def test_a_mistake_gets_one_line_and_exit_code_one(mistake, arguments, words):
    code, text = mistake(*arguments)
    assert code == 1
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    assert words in text


def test_square_brackets_in_a_message_survive(mistake, monkeypatch):
    def no_plots(*_):
        raise ImportError("plots need matplotlib: pip install 'tessella[plot]'")

    monkeypatch.setattr(ts.gallery, "get", no_plots)
    assert mistake("solve", "wave") == (
        1,
        "error: plots need matplotlib: pip install 'tessella[plot]'\n",
    )


def test_an_unknown_option_is_a_usage_error(mistake):
    code, text = mistake("solve", "wave", "--sigma", "1")
    assert code == 2
    assert "No such option" in text


def test_the_installed_command_runs(tmp_path):
    command = Path(sys.executable).with_name("tessella")
    environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    failed = subprocess.run(
        [command, "solve", "nothing"], capture_output=True, text=True, env=environment
    )
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: unknown problem 'nothing'")
