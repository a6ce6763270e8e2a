"""The paper's figures, from records written by hand and from small solves."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tessella as ts
from tessella import gallery
from tessella.reproduction import cases, figure_parts, figures, record_figures, solution_figures
from tessella.reproduction.figure_parts import SOLVERS, Source
from tessella.reproduction.store import Store

PNG = b"\x89PNG\r\n\x1a\n"
LIVE = [d.name for d in figures.DRAWINGS if d.name.endswith("solution")] + ["oscillator-condition"]
FROM_RECORDS = [d for d in figures.DRAWINGS if d.name not in LIVE]
REFUSED = (
    "additive Schwarz with 64 local inverses needs about 123 GiB, but 24 GiB are free: use LSQR"
)


def record(case, seed):
    """A plausible run whose numbers depend on nothing but the case's size."""
    error = 0.1 / case.settings.get("features", 8)
    found = {
        "solve": {
            "error_oracle_minimum": error,
            "error_at_stopping_rule": 2 * error,
            "stopping_rule_iteration": 50,
            "seconds": {"assemble": 0.1, "filter": 0.5, "solve": 0.01 / error + seed},
        },
        "coupling": {
            "condition": {"M": 1e9, "preconditioned": 1e3},
            "alpha": 0.9,
            "theorem": None,
            "comparison": None,
            "estimate": None,
        },
        "spectrum": {
            "spectrum": {
                "M": {"index": [1, 2, 3], "value": [10.0, 1e-3, 1e-15]},
                "preconditioned": {"index": [1, 2], "value": [1.5, 1e-3]},
            }
        },
    }[case.kind]
    if case.kind == "solve" and seed == 0:
        found["curve"] = {"iteration": [1, 10, 100], "error": [1.0, 3 * error, error]}
    labels = {"experiment": case.experiment, "row": case.row, "seed": seed}
    return {**labels, "case": case.identity, **found}


def fill(root, wanted, seeds=1, quick=False, **changed):
    """A store with a record for every case, some keys of every record changed."""
    store = Store(Path(root))
    for case in map(cases.quick, wanted) if quick else wanted:
        for seed in range(seeds):
            store.write({**record(case, seed), **changed})
    return store


def series(experiment):
    return [case for case in cases.series() if case.experiment == experiment]


def linear(table):
    return [case for case in cases.tables(table) if case.row in SOLVERS]


def source(store, quick=False):
    return Source(store, quick, lambda _: None)


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Records of everything, and all figures that need nothing else."""
    root = tmp_path_factory.mktemp("records")
    everything = [*linear(1), *linear(2), *linear(3), *cases.series(), *cases.appendix()]
    return fill(root, [*everything, *cases.spectra()])


@pytest.mark.parametrize("drawing", FROM_RECORDS, ids=lambda drawing: drawing.name)
def test_every_figure_of_records_has_labelled_axes_with_data(full, drawing):
    figure, note = drawing.sketch(source(full))
    assert note.endswith(".")
    for ax in figure.axes:
        assert ax.lines
    assert any(ax.get_xlabel() for ax in figure.axes)
    assert any(ax.get_ylabel() for ax in figure.axes)


@pytest.mark.parametrize("name", ["laplace-convergence", "wave-weak", "appendix-condition"])
def test_figures_are_written_as_png_and_svg(full, name, tmp_path):
    (drawn,) = figures.draw(full, tmp_path, only=name)
    assert drawn.path == tmp_path / f"{name}.png", drawn.reason
    assert drawn.path.read_bytes().startswith(PNG)
    assert drawn.path.stat().st_size < 90_000
    assert "<svg" in drawn.path.with_suffix(".svg").read_text()[:2000]
    assert {path.name for path in tmp_path.iterdir()} == {
        "captions.json",
        f"{name}.png",
        f"{name}.svg",
    }
    assert figures.drawn(tmp_path) == [drawn]


def test_the_figures_are_the_papers_figures_2_to_20_in_order():
    assert [drawing.number for drawing in figures.DRAWINGS] == list(range(2, 21))
    for drawing in figures.DRAWINGS:
        assert f"(Figure {drawing.number} of the paper.)" in drawing.title


def test_without_records_a_figure_is_skipped_and_says_what_it_lacks(tmp_path):
    store, folder = Store(tmp_path / "none"), tmp_path / "figures"
    (drawn,) = figures.draw(store, folder, only="wave-weak")
    assert drawn.path is None
    assert drawn.reason.startswith("6 of 9 runs of wave-weak are missing: lambda=0.4 S=4 rrqr-lsqr")
    assert drawn.reason.endswith(", ...")
    assert drawn.caption.startswith("Wave")
    assert [path.name for path in folder.iterdir()] == ["captions.json"]


def test_a_picture_that_is_gone_or_whose_records_are_gone_does_not_count(full, tmp_path):
    (drawn,) = figures.draw(full, tmp_path, only="wave-convergence")
    drawn.path.rename(tmp_path / "elsewhere")
    (deleted,) = figures.drawn(tmp_path)
    assert deleted.path is None
    assert deleted.reason.endswith("wave-convergence.png is gone: draw it again")
    (tmp_path / "elsewhere").rename(drawn.path)
    (skipped,) = figures.draw(Store(tmp_path / "none"), tmp_path, only="wave-convergence")
    (known,) = figures.drawn(tmp_path)
    assert known.path is None
    assert known.reason == skipped.reason
    assert known.caption == f"not drawn: {skipped.reason}"


def test_one_missing_run_is_enough_to_skip(tmp_path):
    wanted = series("wave-weak")
    store = fill(tmp_path, wanted[1:])
    (drawn,) = figures.draw(store, tmp_path / "figures", only="wave-weak")
    assert drawn.reason == f"1 of 9 runs of wave-weak are missing: {wanted[0].row}"


def test_a_missing_run_of_additive_schwarz_is_shown_as_not_run(tmp_path):
    wanted = series("wave-weak")
    assert wanted[-1].solver == "as-cg"
    store = fill(tmp_path, wanted[:-1])
    found = source(store).records(wanted, optional="as-cg")
    assert figure_parts.refusal(found[wanted[-1].row][0]) == "not run"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("it needs about 26 GiB, but", "refused, needs 26 GiB"),
        ("it would take about 85 minutes to set up", "refused, takes 85 minutes"),
        ("something else", "refused, too large"),
    ],
)
def test_refusals_are_told_in_few_words(message, words):
    assert figure_parts.refusal({"refused": message}) == words


def test_a_case_without_its_first_seed_has_no_curve_and_is_missing(tmp_path):
    wanted = linear(1)
    store = fill(tmp_path, wanted[1:])
    store.write(record(wanted[0], 1))
    with pytest.raises(figure_parts.MissingRecordsError, match="1 of 4 runs of table1"):
        record_figures.convergence(source(store), table=1)


def test_records_of_other_settings_are_no_records(tmp_path):
    store = fill(tmp_path, linear(1), quick=True)
    (drawn,) = figures.draw(store, tmp_path / "figures", only="oscillator-convergence")
    assert drawn.path is None
    assert "other settings" in drawn.reason
    figure, _ = record_figures.convergence(source(store, quick=True), table=1)
    assert len(figure.axes[0].lines) == 9


def test_an_unknown_name_is_answered_with_the_names_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"no figure matches 'tables'; there are: oscillator-sol"):
        figures.draw(Store(tmp_path), tmp_path, only="tables")


def test_a_failed_save_leaves_the_old_figure_and_no_rubbish(full, tmp_path, monkeypatch):
    figures.draw(full, tmp_path, only="wave-convergence")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(path):
        raise OSError("disk full")

    monkeypatch.setattr(figures, "_shrink", fail)
    with pytest.raises(OSError, match="disk full"):
        figures.draw(full, tmp_path, only="wave-convergence")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_every_solver_looks_the_same_in_every_figure(full):
    curves, _ = record_figures.convergence(source(full), table=1)
    (ax,) = curves.axes
    lines = {line.get_label(): line for line in ax.lines}
    scaling, _ = record_figures.scaling(source(full), experiment="wave-weak")
    costs = {line.get_label(): line for line in scaling.axes[1].lines}
    looks = set()
    for style in SOLVERS.values():
        drawn = [group[style.label] for group in (lines, costs) if style.label in group]
        assert drawn
        for line in drawn:
            assert (line.get_color(), line.get_marker()) == (style.colour, style.marker)
        looks.add((style.colour, style.marker, style.line))
    for part in zip(*looks, strict=True):
        assert len(set(part)) == len(SOLVERS)


def test_convergence_shows_the_recorded_curve_and_the_stopping_rule(full):
    figure, note = record_figures.convergence(source(full), table=2)
    (ax,) = figure.axes
    curve = record(linear(2)[0], 0)["curve"]
    line = next(line for line in ax.lines if line.get_label() == "RRQR-LSQR")
    np.testing.assert_array_equal(line.get_xdata(), curve["iteration"])
    np.testing.assert_array_equal(line.get_ydata(), curve["error"])
    stars = [
        tuple(s.get_xydata()[0]) for s in ax.lines if s.get_marker() == "*" and len(s.get_xdata())
    ]
    assert stars == [(50, 2 * curve["error"][-1])] * 4
    assert "Seed 0" in note


def test_cost_is_filter_plus_solve_of_the_fastest_seed(tmp_path):
    store = fill(tmp_path, series("wave-features"), seeds=3)
    figure, note = record_figures.scaling(source(store), experiment="wave-features")
    line = next(line for line in figure.axes[1].lines if line.get_label() == "LSQR")
    np.testing.assert_allclose(line.get_xdata(), 0.5 + 0.1 * np.array([4, 8, 16, 32]))
    np.testing.assert_allclose(line.get_ydata(), 0.1 / np.array([4, 8, 16, 32]))
    assert [t for t in texts(figure) if t.isdigit()] == ["4", "8", "16", "32"] * 3
    assert "Medians over 3 seeds" in note
    assert "seconds of the fastest seed" in note


def test_seconds_of_another_machine_than_the_first_seeds_do_not_count(tmp_path):
    wanted = series("wave-features")
    store = fill(tmp_path, wanted, device="slow")
    for case in wanted:
        quick = {"assemble": 0.0, "filter": 0.0, "solve": 1e-6}
        store.write({**record(case, 1), "device": "fast", "seconds": quick})
    figure, _ = record_figures.scaling(source(store), experiment="wave-features")
    line = next(line for line in figure.axes[1].lines if line.get_label() == "LSQR")
    np.testing.assert_allclose(line.get_xdata(), 0.5 + 0.1 * np.array([4, 8, 16, 32]))


def test_a_refused_run_is_a_labelled_cross_with_its_memory(tmp_path):
    wanted = series("wave-features")
    store = fill(tmp_path, wanted)
    refused = wanted[-1]
    known = {k: record(refused, 0)[k] for k in ("experiment", "row", "seed", "case")}
    store.write({**known, "refused": REFUSED})
    figure, _ = record_figures.scaling(source(store), experiment="wave-features")
    assert "AS-CG, $K$ = 32: refused, needs 123 GiB" in texts(figure)
    (cross,) = [line for line in figure.axes[1].lines if line.get_marker() == "x"]
    assert cross.get_color() == SOLVERS["as-cg"].colour
    line = next(line for line in figure.axes[1].lines if line.get_label() == "AS-CG")
    assert len(line.get_xdata()) == 3


def test_a_run_that_never_had_an_error_leaves_a_gap(tmp_path):
    wanted = series("wave-weak")
    store = fill(tmp_path, wanted)
    bad = {"error_oracle_minimum": None, "error_at_stopping_rule": None}
    curve = {"iteration": [], "error": []}
    store.write({**record(wanted[0], 0), **bad, "curve": curve})
    figure, _ = record_figures.scaling(source(store), experiment="wave-weak")
    line = next(line for line in figure.axes[1].lines if line.get_label() == "RRQR-LSQR")
    assert np.isnan(line.get_ydata()).tolist() == [True, False, False]
    assert texts(figure).count("0.4") == 2


def test_the_appendix_says_where_no_bound_is_valid(full):
    figure, _ = record_figures.appendix(source(full))
    assert sum(text.startswith("No bound is valid here") for text in texts(figure)) == 3


def test_the_appendix_draws_a_bound_only_where_every_seed_allows_it(tmp_path):
    wanted = cases.appendix()
    store = fill(tmp_path, wanted, seeds=2, theorem=5.0)
    half_valid = wanted[0]
    store.write({**record(half_valid, 1), "theorem": None})
    figure, _ = record_figures.appendix(source(store))
    bound = next(line for line in figure.axes[0].lines if "Theorem" in line.get_label())
    assert np.isnan(bound.get_ydata()[0])
    assert set(bound.get_ydata()[1:]) == {5.0}
    statement = next(text for text in texts(figure) if text.startswith("Valid nowhere here"))
    assert "Theorem" not in statement
    assert "comparison" in statement


def test_oscillator_figures_are_solved_for_and_say_how(tmp_path):
    store = fill(tmp_path, cases.spectra(), quick=True)
    said = []
    drawn = figures.draw(
        store, tmp_path / "out", quick=True, only="oscillator-[cs]o[ln][ud]*", report=said.append
    )
    assert [d.name for d in drawn] == ["oscillator-solution", "oscillator-condition"]
    assert all(d.path and d.path.stat().st_size < 90_000 for d in drawn)
    assert "RRQR-LSQR, 50 iterations, seed 0" in drawn[0].caption
    assert any("iteration 50 of 50" in line for line in said)


def test_three_frequencies_are_compared_with_the_exact_solution(tmp_path):
    figure, _ = solution_figures.oscillator_weak(source(Store(tmp_path), quick=True))
    assert len(figure.axes) == 6
    for ax in figure.axes:
        exact, model = (line.get_ydata() for line in ax.lines)
        assert np.abs(exact - model).max() < 0.2


@pytest.fixture
def unsolved(monkeypatch, combination):
    """Solves of the gallery replaced by functions that cost nothing."""

    def solve(self, problem, iterations, **settings):
        settings.pop("subdomains", None)
        named = gallery.get(problem).problem("as-run", **settings)
        stated = dataclasses.replace(named, exact=lambda points: np.cos(points[:, 0]))
        basis = ts.Basis(ts.Decomposition(stated.domain, 4), ts.RandomFeatures(2))
        return combination(stated, basis, np.zeros(basis.columns))

    monkeypatch.setattr(Source, "solve", solve)


def test_maps_show_what_they_are_of(full, unsolved):
    figure, _ = solution_figures.laplace_solution(source(full))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0] == "exact"
    assert "16 subdomains, three outlined" in titles
    labels = [text.get_text() for text in figure.axes[3].get_legend().get_texts()]
    assert labels[0] == "$M$, singular"
    assert labels[1].endswith(r"$1.5\times10^{3}$")
    exact, model = (ax.images[0].get_array() for ax in figure.axes[:2])
    assert np.abs(exact).max() > 0.5
    assert np.abs(model).max() == 0


def test_weak_scaling_maps_have_a_column_per_case(full, unsolved):
    figure, _ = solution_figures.laplace_weak(source(full))
    titles = [ax.get_title().split(",")[0] for ax in figure.axes[:3]]
    assert titles == ["$n=2$", "$n=4$", "$n=6$"]


def test_the_wave_is_shown_over_time(full, unsolved):
    figure, note = solution_figures.wave_solution(source(full))
    times = [ax.get_title().split("\n")[0] for ax in figure.axes if ax.get_title()]
    assert times == ["$t=0$", "$t=0.125$", "$t=0.25$", "$t=0.375$", "$t=0.5$"] * 3
    assert "largest exact" in note
    first = figure.axes[0].images[0].get_array()
    assert first.max() == pytest.approx(1.0)


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, tessella.reproduction.figures; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr
