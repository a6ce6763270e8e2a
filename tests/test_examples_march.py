"""The examples on marching and export run, and say what they promise."""

import importlib.util
from pathlib import Path

import meshio
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, folder, monkeypatch, capsys):
    """The example's output; its files go to the folder."""
    monkeypatch.chdir(folder)
    described = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    module.main()
    return capsys.readouterr().out


def test_march(tmp_path, monkeypatch, capsys):
    text = run("march", tmp_path, monkeypatch, capsys)
    assert "factored once for 20 slabs" in text
    assert float(text.split("largest error ")[1].split()[0]) < 1e-8
    assert float(text.split("changed by ")[1].split()[0]) < 1e-8
    assert (tmp_path / "out" / "march.png").exists()


def test_export(tmp_path, monkeypatch, capsys):
    text = run("export", tmp_path, monkeypatch, capsys)
    assert float(text.split("relative L2 error ")[1].split()[0]) < 1e-5
    assert float(text.split("at t = 0: ")[1].split()[0]) == pytest.approx(-0.0507, abs=2e-4)
    disc = meshio.read(tmp_path / "out" / "disc_0000.vtu")
    assert 0.9 < disc.point_data["u"].max() / 0.6065 < 1.1
    assert len(list((tmp_path / "out").glob("heat_*.vtu"))) == 11
