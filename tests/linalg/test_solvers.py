"""Every solver of the registry on every kind of system, against dense least squares."""

import numpy as np
import pytest

import tessella as ts
from tessella.linalg import solvers
from tessella.linalg.solvers import NAMES, SOLVERS, by_name, choose, full_name
from tessella.overlap.system import assemble


def oscillator_system():
    problem = ts.gallery.get("harmonic-oscillator").problem(omega0=10.0)
    basis = ts.Basis(ts.Decomposition(problem.domain, 4, 1.6), ts.RandomFeatures(4), 0)
    return assemble(problem, basis, ts.Grid(3.0).rows(problem, basis))


def heat_system():
    problem = ts.Problem(
        ts.Box(x=(0, 1), t=(0, 0.5)),
        ts.Equation(ts.D(t=1) - ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Initial(lambda p: np.sin(np.pi * p[:, 0]))],
    )
    basis = ts.Basis(ts.Decomposition(problem.domain, (3, 2), 1.7), ts.RandomFeatures(6), 0)
    return assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))


SYSTEMS = {"oscillator": oscillator_system, "heat": heat_system}


@pytest.fixture(scope="module", params=SYSTEMS)
def system(request):
    return SYSTEMS[request.param]()


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_solves_every_filtered_system(name, system):
    filtered = ts.RRQR(1e-3).apply(system.M)
    Q = filtered.Q
    dense = Q.to_dense()
    best = np.linalg.lstsq(dense, system.h, rcond=None)[0]
    _, solver = by_name(name, 0.0, {"patience": 1_000})
    result = solver.solve(solver.init(Q), system.h)
    least = np.linalg.norm(dense @ best - system.h)
    assert np.linalg.norm(dense @ np.asarray(result.x) - system.h) <= least * (1 + 1e-6) + 1e-10
    assert np.allclose(result.x, best, rtol=1e-4, atol=1e-5 * np.abs(best).max())
    assert str(result.stop).startswith(("converged", "solved"))


def test_names_make_solvers_and_solvers_have_names():
    assert by_name("auto", 1e-8)[1] is None
    for name in set(NAMES) - {"auto"}:
        assert full_name(*by_name(name, 1e-8)) == name
    with pytest.raises(ValueError, match="unknown solver 'gmres': choose one of auto, nested-qr"):
        by_name("gmres", 1e-8)


def test_auto_goes_direct_when_it_fits_and_iterates_when_not(system, monkeypatch):
    Q = ts.RRQR(1e-8).apply(system.M).Q
    solver, note = choose(Q)
    assert solver.name == "nested-qr"
    assert "GFLOP" in note
    monkeypatch.setattr(solvers, "available_bytes", lambda *_: 10)
    solver, note = choose(Q)
    assert solver.name == "lsqr"
    assert note.startswith("iterative, because a direct solve would need")
    monkeypatch.undo()
    assert choose(Q, patience=0.0)[0].name == "lsqr"


@pytest.mark.parametrize(
    "solver", [ts.NestedQR(leaf=4), SOLVERS["as-cg"](), SOLVERS["as-cg"](streamed=True)]
)
def test_long_set_ups_show_progress(system, solver):
    seen = []
    solver.init(ts.RRQR(1e-3).apply(system.M).Q, lambda *figures: seen.append(figures))
    done, total, residual = zip(*seen, strict=True)
    assert list(done) == sorted(set(done))
    assert done[-1] == total[0] == total[-1] > 1
    assert set(residual) == {1.0}
