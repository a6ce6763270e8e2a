"""Every example runs as it is read, and what it prints is true."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(tmp_path, monkeypatch):
    """An example as a module, with a fresh working folder for its pictures."""
    monkeypatch.chdir(tmp_path)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def drawn(name):
    return Path("out", f"{name}.png").stat().st_size > 10_000


def test_heat_is_balanced(example, capsys):
    solution, lost, left = example("heat").main()
    assert solution.report.error["l1_normalised"] <= 3e-8
    assert lost == pytest.approx(left, abs=1e-7)
    assert "tolerance met" in capsys.readouterr().out and drawn("heat")


def test_the_plate_agrees_with_the_handbook(example, capsys):
    plate = example("plate")
    deflection, moment = plate.main(tol=1e-3)
    assert deflection == pytest.approx(plate.DEFLECTION, rel=1e-3)
    assert moment == pytest.approx(plate.MOMENT, rel=5e-3)
    assert "unknown: the problem has no exact solution" in capsys.readouterr().out
    assert drawn("plate")


def test_a_thinner_layer_gets_more_subdomains_across_it(example, capsys):
    wide, thin = example("layer").main(widths=(0.1, 0.02), tol=1e-3)
    assert thin.error["l1_normalised"] <= 3e-3 and wide.error["l1_normalised"] <= 3e-3
    across, along = thin.refinement[-1].subdomains
    assert across > wide.refinement[-1].subdomains[0] and across > along
    assert len(capsys.readouterr().out.splitlines()) == 4 and drawn("layer")


def test_a_front_is_refined_along_itself(example, capsys):
    solution = example("front").main(steepness=100.0, tol=1e-4)
    assert solution.report.error["l1_normalised"] <= 3e-4
    assert solution.basis.decomposition.cut and drawn("front")
    assert "as small everywhere they would be" in capsys.readouterr().out


def test_the_string_keeps_its_energy(example, capsys):
    solution, drift = example("waves").main(tol=1e-4)
    assert solution.report.error["l1_normalised"] <= 3e-4
    assert drift <= 1e-3
    assert "largest relative drift" in capsys.readouterr().out and drawn("waves")


def test_the_beam_bends_as_timoshenko_says(example, capsys):
    assert example("beam").main(tol=1e-5) == pytest.approx(-0.267, rel=1e-5)
    assert "slender-beam theory says -0.2560000" in capsys.readouterr().out and drawn("beam")


def test_four_holes(example, capsys):
    solution = example("four_holes").main(tol=0.1)
    assert solution.report.error["l1_normalised"] <= 0.3
    assert "beside a hole" in capsys.readouterr().out and drawn("four_holes")


def test_enrichment_is_worth_decades(example, capsys):
    example("enrichment").main()
    lines = capsys.readouterr().out.splitlines()
    errors = {line[25:49].strip(): float(line[49:].split()[0]) for line in lines[1:5]}
    assert errors["4 term(s) of the corner"] < 1e-8 * errors["plain"]
    assert drawn("motz")
