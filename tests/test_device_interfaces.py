"""Interfaces on a device, which is the CPU here, give the host's answers."""

import dataclasses

import jax
import numpy as np
import pytest

import tessella as ts
from tessella.device_traces import DeviceTraces
from tessella.gluing import glue
from tessella.host_traces import HostTraces


@pytest.fixture
def pretend_gpu(monkeypatch):
    """Call it, and from then on the path for a GPU is taken."""

    def pretend():
        monkeypatch.setattr("tessella.linalg.nested_qr.GPU_COLUMNS", 1)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    return pretend


LAPLACE = ts.gallery.get("laplace").problem(n=2)
WAVE = dataclasses.replace(ts.gallery.get("wave").problem(), exact=None)
U, V = ts.Field("u"), ts.Field("v")
SYSTEM = ts.Problem(
    ts.Box(x=(0, 1), y=(0, 1)),
    [ts.Equation(ts.D(x=1) @ U + ts.D(y=1) @ V, 1.0), ts.Equation(ts.Laplacian() @ V - U, 2.0)],
    [ts.Dirichlet(0.0, of=U, on="xmin"), ts.Dirichlet(1.0, of=V)],
    fields=("u", "v"),
)
SOFT = ts.Problem(LAPLACE.domain, LAPLACE.equation, [ts.Dirichlet(0.0)])


CUT = ts.Glued(ts.Tiling(SOFT.domain, 2).refined([1]), ts.RandomFeatures(20, activation="sin"))


def solved(problem, **settings):
    if "basis" not in settings:
        settings["coupling"] = "interfaces"
    return ts.solve(problem, solver="nested-qr", estimate=False, **settings)


@pytest.mark.parametrize(
    ("problem", "settings", "all_kept"),
    [
        (SOFT, {"subdomains": 3, "features": 30, "sigma": 1e-3}, False),
        (WAVE, {"subdomains": (2, 1, 1), "features": 12}, True),
        (SYSTEM, {"subdomains": 2, "features": 20}, True),
        (SOFT, {"subdomains": ([0, 0.3, 1], 2), "features": 20}, True),
        (SOFT, {"basis": CUT}, True),
    ],
    ids=[
        "equal ones and a coarse filter",
        "space-time",
        "two unknowns",
        "slabs of two widths",
        "boxes of two sizes",
    ],
)
def test_answers_are_the_hosts(problem, settings, all_kept, pretend_gpu):
    points = problem.domain.grid((9,) * problem.domain.dimension)
    host = solved(problem, **settings)
    pretend_gpu()
    device = solved(problem, **settings)
    assert (host.report.columns_kept == host.report.columns) == all_kept
    assert device.report.columns_kept == host.report.columns_kept
    scale = np.abs(host(points)).max()
    np.testing.assert_allclose(device(points), host(points), rtol=0, atol=1e-10 * scale)
    for part, value in host.report.residual.items():
        assert device.report.residual[part] == pytest.approx(value, rel=1e-6, abs=1e-8)


def system(problem=SOFT):
    features = ts.RandomFeatures(20, activation="sin", scale=2.0)
    return glue(problem, ts.Glued(ts.Tiling(problem.domain, 2), features), ts.Grid(2.0))


def test_blocks_and_the_whole_matrix_are_the_hosts(pretend_gpu):
    host = system()
    pretend_gpu()
    device = system()
    assert isinstance(device.values, jax.Array)
    np.testing.assert_allclose(device.values, host.values, atol=1e-10 * np.abs(host.values).max())
    np.testing.assert_allclose(
        device.M.to_dense(), host.M.to_dense(), atol=1e-10 * np.abs(host.values).max()
    )


def test_a_strong_filter_stays_with_lapack(pretend_gpu):
    pretend_gpu()
    made = system()
    assert isinstance(made.reduce(ts.RRQR(1e-14)).eliminated, DeviceTraces)
    assert isinstance(made.reduce(ts.RRQR(1e-14, strong=True)).eliminated, HostTraces)


def test_progress_is_reported_when_all_are_done(pretend_gpu):
    pretend_gpu()
    seen = []
    made = system()
    made.reduce(ts.RRQR(1e-14), lambda *step: seen.append(step))
    assert seen == [(len(made.kinds), len(made.kinds), 1.0)]


@pytest.mark.parametrize("sigma", [1e-14, 1e-3], ids=["all kept", "some dropped"])
def test_another_right_hand_side_needs_no_other_factorisation(pretend_gpu, sigma):
    pretend_gpu()
    made, rule = system(), ts.RRQR(sigma)
    kept = made.reduce(rule, keep=True)
    assert (len(kept.kept) == made.columns.size) == (sigma < 1e-10)
    other = dataclasses.replace(made, h=np.zeros_like(made.h))
    other.h[:, :5] = np.random.default_rng(0).standard_normal((len(made.h), 5))
    assert other.has_matrix_of(made)
    renewed, fresh = kept.renewed(other), other.reduce(rule)
    np.testing.assert_allclose(renewed.h, fresh.h, atol=1e-12)
    t = np.random.default_rng(1).standard_normal(made.traces)
    found, expected = (list(other.residuals(r.coefficients(t)).values()) for r in (renewed, fresh))
    np.testing.assert_allclose(found, expected)


def test_integrals_stay_with_lapack(pretend_gpu):
    pretend_gpu()
    problem = dataclasses.replace(SOFT, conditions=[*SOFT.conditions, ts.Integral(0.0)])
    assert isinstance(system(problem).values, np.ndarray)
