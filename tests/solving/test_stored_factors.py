"""Factored problems in files: what is loaded solves as before, and what has changed is refused."""

import json

import numpy as np
import pytest

import tessella as ts

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
RING = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0, y=0, radius=0.4, name="hole")
U, P = ts.Field("u"), ts.Field("p")
CELLS = {"subdomains": 2, "features": 40, "coupling": "interfaces"}
OVERLAP = {"subdomains": 2, "features": 30}
ENRICHED = {**CELLS, "subdomains": 4, "features": 60, "enrichment": [ts.Corner(np.pi, 0.3)]}


def bump(p):
    return np.exp(p[:, 0]) * np.cos(3 * p[:, 1])


def poisson(rhs=1.0):
    return ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), rhs), [ts.Dirichlet(bump)])


def ring():
    walls = [ts.Dirichlet(0.0, on="hole"), ts.Neumann(0.0, on="ball")]
    return ts.Problem(RING, ts.Equation(-ts.Laplacian(), 1.0), walls)


def system():
    return ts.Problem(
        SQUARE,
        [
            ts.Equation(-ts.Laplacian() @ U + P, bump, name="first"),
            ts.Equation(-ts.Laplacian() @ P, 1.0, name="second"),
        ],
        [
            ts.Dirichlet(0.0, of=U),
            ts.Neumann(0.0, of=P),
            ts.Integral(1.0, P),
            ts.Measured([(0.3, 0.4), (0.8, 0.6), (0.1, 0.9)], [0.0, 0.1, 0.0], U),
        ],
    )


CASES = [
    (poisson(), CELLS, {"rhs": bump}),
    (poisson(), {**CELLS, "solver": "exchange"}, {"rhs": bump}),
    (poisson(), OVERLAP, {"rhs": bump, "values": {"dirichlet": 2.0}}),
    (poisson(), {**OVERLAP, "solver": "rrqr-lsqr"}, {"rhs": bump}),
    (ring(), ENRICHED, {"values": {"neumann": 0.5}}),
    (ring(), {**OVERLAP, "subdomains": 3}, {"rhs": bump}),
    (system(), CELLS, {"rhs": {"first": 2.0}, "values": {"integral": 3.0, "data": [0.1, 0, 0.2]}}),
    (system(), OVERLAP, {"rhs": {"first": 2.0}, "values": {"integral": 3.0}}),
]


@pytest.mark.parametrize(("problem", "settings", "data"), CASES)
def test_what_is_loaded_solves_as_before(problem, settings, data, tmp_path):
    factored = ts.factor(problem, **settings)
    path = factored.save(tmp_path / "factors")
    loaded = ts.load(path, enrichment=settings.get("enrichment", ()))
    assert loaded.data == factored.data
    assert 0.5 * path.stat().st_size < factored.bytes + 2e5 and factored.bytes < path.stat().st_size
    x = problem.domain.scatter(100, np.random.default_rng(1))
    for own in (data, {}):
        found, wanted = loaded.solve(**own), factored.solve(**own)
        np.testing.assert_allclose(
            found(x), wanted(x), rtol=0, atol=1e-12 * np.abs(wanted(x)).max()
        )
        assert found.report.residual == pytest.approx(wanted.report.residual, rel=1e-6, abs=1e-13)


def test_with_its_problem_it_knows_equations_and_without_it_does_not(tmp_path):
    path = ts.factor(poisson(), **CELLS).save(tmp_path / "factors.npz")
    x = [(0.3, 0.4)]
    known = ts.load(path, problem=poisson()).solve(rhs=bump)
    assert known.problem.equations[0].rhs(np.array(x)) == bump(np.array(x))
    assert np.abs(known.residual(x)).max() < 0.02
    with pytest.raises(ValueError, match="knows no equation"):
        ts.load(path).solve(rhs=bump).residual(x)


OTHERS = [
    (ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 1.0), [ts.Neumann(0.0)]), "are not"),
    (poisson(2.0), "whose data of 'equation' are others"),
    (ts.Problem(SQUARE, ts.Equation(-ts.Laplacian() + 5.0, 1.0), [ts.Dirichlet(bump)]), "misses"),
]


@pytest.mark.parametrize("settings", [CELLS, OVERLAP])
@pytest.mark.parametrize(("other", "told"), OTHERS)
def test_another_problem_is_refused(settings, other, told, tmp_path):
    path = ts.factor(poisson(), **settings).save(tmp_path / "factors.npz")
    with pytest.raises(ValueError, match=f"factored for another problem .*{told}"):
        ts.load(path, problem=other)


def test_a_loaded_one_can_be_saved_and_says_its_size(tmp_path):
    factored = ts.factor(poisson(), **CELLS)
    assert f"{factored.bytes / 2**20:.1f} MiB" in repr(factored)
    loaded = ts.load(factored.save(tmp_path / "factors"))
    again = ts.load(loaded.save(tmp_path / "again"))
    x = [(0.3, 0.4)]
    assert again.solve(rhs=bump)(x) == loaded.solve(rhs=bump)(x)


def changed(path, change):
    """Rewrite a file after change(header, arrays), as the version that had no digests."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    del arrays["digest"], header["digests"]
    header["version"] = 2
    change(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, header=text, **arrays)


def largest(header, arrays):
    name = max((n for n in arrays if n.startswith("packed")), key=lambda n: arrays[n].size)
    arrays[name] = 1.1 * arrays[name]


def numbers(header, arrays):
    for name, own in arrays.items():
        if name.startswith("packed") and own.dtype == np.int64:
            arrays[name] = own + 10**6


def counted(header, arrays):
    for name, fields in header["tree"]["objects"]:
        if name in ("KeptCells", "BlockMatrix"):
            fields["count" if name == "KeptCells" else "shape"] = 10**15


def class_of_another(header, arrays):
    header["tree"]["objects"][0][0] = "Popen"


def shortened(header, arrays):
    name = next(n for n in arrays if n.startswith("packed") and arrays[n].ndim > 1)
    arrays[name] = arrays[name][:-1]


@pytest.mark.parametrize("settings", [CELLS, OVERLAP])
@pytest.mark.parametrize("change", [largest, numbers, counted, class_of_another, shortened])
def test_a_changed_file_is_refused_by_its_name(settings, change, tmp_path):
    path = ts.factor(poisson(), **settings).save(tmp_path / "factors.npz")
    changed(path, change)
    with pytest.raises(ValueError, match=r"factors\.npz is damaged"):
        ts.load(path)
