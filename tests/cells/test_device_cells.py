"""Cells on a device, which is the CPU here, give the host's answers."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.cells.boxes.basis import default_features
from tessella.cells.device import factors as device
from tessella.cells.device import maps as device_maps
from tessella.cells.device.factors import DeviceFactors
from tessella.cells.device.merging import inverted
from tessella.cells.factoring import factor_cells
from tessella.cells.factors import CellFactors
from tessella.cells.solvers import Exchange
from tessella.cells.system.system import cell_system
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.factored import Watching

LAPLACE, D = ts.Laplacian(), ts.D
PLANE = ts.Box(x=(0, 1), y=(0, 1))
U, V = ts.Field("u"), ts.Field("v")


@pytest.fixture
def pretend_gpu(monkeypatch):
    """Call it, and from then on the path for a GPU is taken, however small a problem is."""

    def pretend():
        monkeypatch.setattr(device, "WORTH", 0.0)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    return pretend


def source(p):
    return np.sin(2 * np.pi * p[:, 0] + 1) * np.cos(2 * p[:, -1])


def plain(operator, *conditions, domain=PLANE):
    conditions = list(conditions) or [ts.Dirichlet(0.3)]
    return ts.Problem(domain, ts.Equation(operator, source), conditions)


VARYING = plain(-(D(x=1) @ ((lambda p: 1 + 0.5 * jnp.sin(3 * p[:, 0])) * D(x=1)) + D(y=2)))
HEAT = plain(
    D(t=1) - D(x=2),
    ts.Dirichlet(0.0, on=["xmin", "xmax"]),
    ts.Dirichlet(lambda p: np.sin(np.pi * p[:, 0]), on="tmin"),
    domain=ts.Box(x=(0, 1), t=(0, 0.5)),
)
ELASTIC = ts.Problem(
    PLANE,
    [
        ts.Equation((2 * D(x=2) + D(y=2)) @ U + D(x=1, y=1) @ V, source),
        ts.Equation((2 * D(y=2) + D(x=2)) @ V + D(x=1, y=1) @ U, 1.0),
    ],
    [ts.Dirichlet(0.0, of=U), ts.Dirichlet(0.0, of=V)],
    fields=("u", "v"),
)
AROUND = plain(LAPLACE - 1, ts.Periodic("x"), ts.Dirichlet(0.3))
SPACE = plain(LAPLACE, domain=ts.Box(x=(0, 1), y=(0, 1), z=(0, 1)))


def solved(problem, subdomains, features):
    settings = {"coupling": "interfaces", "subdomains": subdomains, "features": features}
    return ts.solve(problem, estimate=False, **settings)


def system(problem, subdomains=(3, 2), features=40):
    tiling = ts.Tiling(problem.domain, subdomains)
    basis = ts.CellBasis(tiling, default_features(features, problem.domain.dimension))
    return cell_system(problem, basis, ts.Grid(2.0))


def factored(made, solver=None):
    return factor_cells(made, ts.RRQR(1e-14), solver)


@pytest.mark.parametrize(
    ("problem", "subdomains", "features"),
    [
        (plain(LAPLACE), (3, 2), 40),
        (VARYING, (3, 2), 40),
        (plain(LAPLACE + 400), (3, 2), 40),
        (HEAT, (2, 3), 40),
        (ELASTIC, 2, 40),
        (AROUND, (3, 1), 40),
        (SPACE, (2, 2, 1), 60),
        (plain(D(x=2), domain=ts.Box(x=(0, 1))), 3, 12),
    ],
    ids=["laplace", "variable", "helmholtz", "heat", "elastic", "periodic", "3D", "1D"],
)
def test_answers_are_the_hosts(problem, subdomains, features, pretend_gpu, monkeypatch):
    points = problem.domain.grid((9,) * problem.domain.dimension)
    host = solved(problem, subdomains, features)
    pretend_gpu()
    made, factors = [], device.DeviceFactors
    monkeypatch.setattr(device, "DeviceFactors", lambda *a: made.append(factors(*a)) or made[-1])
    found = solved(problem, subdomains, features)
    assert len(made) == 1
    assert found.report.columns_kept == host.report.columns_kept
    expected = np.asarray(host(points))
    np.testing.assert_allclose(found(points), expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    for part, value in host.report.residual.items():
        assert found.report.residual[part] == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_the_last_program_is_compiled_ahead_and_once(pretend_gpu, caplog):
    pretend_gpu()
    jax.config.update("jax_log_compiles", True)
    try:
        solved(VARYING, (3, 3), 33)
        solved(VARYING, (3, 3), 33)
    finally:
        jax.config.update("jax_log_compiles", False)
    made = [r for r in caplog.records if "XLA compilation of jit(fit_cells)" in r.getMessage()]
    assert len(made) == 1 and made[0].threadName != threading.main_thread().name


def test_rows_may_be_made_in_parts(pretend_gpu, monkeypatch):
    host = factored(system(VARYING, 2, 27))
    pretend_gpu()
    monkeypatch.setattr(device_maps, "BATCH", 1)
    whole = factored(system(VARYING, 2, 27))
    assert isinstance(whole, DeviceFactors)
    found, expected = (f.solve(Stopwatch(), Watching(VARYING, None)) for f in (whole, host))
    scale = np.abs(expected.a).max()
    np.testing.assert_allclose(found.a, expected.a, rtol=0, atol=1e-6 * scale)
    assert whole.conditions()["preconditioned"] == pytest.approx(
        host.conditions()["preconditioned"]
    )


@pytest.mark.parametrize(
    ("problem", "subdomains", "solver"),
    [
        (plain(LAPLACE, ts.Dirichlet(0.0), ts.Integral(0.1)), 2, None),
        (plain(LAPLACE), ([0, 0.3, 1], 2), None),
        (plain(LAPLACE), 2, Exchange()),
    ],
    ids=["an integral", "two widths", "an iteration"],
)
def test_what_does_not_fit_stays_on_the_host(problem, subdomains, solver, pretend_gpu):
    pretend_gpu()
    assert isinstance(factored(system(problem, subdomains), solver), CellFactors)


def test_what_is_small_or_badly_conditioned_stays_on_the_host(pretend_gpu, monkeypatch):
    pretend_gpu()
    made = system(plain(LAPLACE))
    assert isinstance(factored(made), DeviceFactors)
    for name, value in (("WELL", 1.0), ("MAGNIFIED", 1.0), ("WORTH", 1e9)):
        with monkeypatch.context() as patch:
            patch.setattr(device, name, value)
            assert isinstance(factored(made), CellFactors)


def test_the_host_needs_to_be_no_device(pretend_gpu, monkeypatch):
    """With JAX_PLATFORMS=cuda JAX does not know it."""

    def only_gpus(backend=None):
        if backend == "cpu":
            raise RuntimeError("Unknown backend cpu")
        return known(backend=backend)

    pretend_gpu()
    known = jax.local_devices
    monkeypatch.setattr(jax, "local_devices", only_gpus)
    monkeypatch.setattr(jax, "devices", only_gpus)
    assert isinstance(factored(system(plain(LAPLACE), ([0, 0.3, 1], 2))), CellFactors)


def test_another_right_hand_side_needs_no_other_factorisation(pretend_gpu, monkeypatch):
    pretend_gpu()
    first, other = plain(LAPLACE), plain(LAPLACE, ts.Dirichlet(lambda p: p[:, 0]))
    expected = factored(system(other)).solve(Stopwatch(), Watching(other, None))
    kept = factored(system(first))
    monkeypatch.setattr(device, "map_cells", None)
    renewed = kept.renewed(system(other))
    assert renewed.leaves is kept.leaves
    found = renewed.solve(Stopwatch(), Watching(other, None))
    np.testing.assert_array_equal(found.a, expected.a)
    assert kept.renewed(system(plain(LAPLACE + 1))) is None


def test_large_slabs_of_a_march_are_factored_there_once(pretend_gpu, monkeypatch):
    choices = {"coupling": "interfaces", "subdomains": (3, 1), "features": 40, "estimate": False}
    host = ts.march(HEAT, 3, **choices)
    pretend_gpu()
    made, factors = [], device.DeviceFactors
    monkeypatch.setattr(device, "DeviceFactors", lambda *a: made.append(factors(*a)) or made[-1])
    ts.march(HEAT, 3, **choices)
    assert not made
    monkeypatch.setattr(device, "FAR", 0.0)
    found = ts.march(HEAT, 3, **choices)
    assert len(made) == 1
    x = HEAT.domain.scatter(50, np.random.default_rng(0))
    np.testing.assert_allclose(found(x), host(x), rtol=0, atol=1e-10)


def test_inverses_are_exact_to_rounding():
    random = np.random.default_rng(0)
    D = np.eye(20) - 0.9 * np.linalg.qr(random.standard_normal((5, 20, 20)))[0]
    found, regular = inverted(jnp.asarray(D))
    assert regular
    np.testing.assert_allclose(found @ D, np.broadcast_to(np.eye(20), D.shape), atol=1e-13)


def test_a_singular_matrix_has_no_inverse():
    assert not inverted(jnp.asarray(np.diag([1.0, 0.0]))[None])[1]


def test_a_factored_problem_takes_other_data_there(pretend_gpu):
    settings = {"coupling": "interfaces", "subdomains": (3, 2), "features": 40}
    data = {"rhs": [2.0, source], "values": {"dirichlet": 0.1}}
    host = ts.factor(VARYING, **settings).solve(**data)
    pretend_gpu()
    factored = ts.factor(VARYING, **settings)
    assert isinstance(factored.ready, DeviceFactors)
    x = PLANE.scatter(50, np.random.default_rng(0))
    for one, other in zip(factored.solve(**data), host, strict=True):
        assert one(x) == pytest.approx(other(x), abs=1e-9)
        assert one.report.residual == pytest.approx(other.report.residual, rel=1e-3, abs=1e-9)
