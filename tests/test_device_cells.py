"""Cells on a device, which is the CPU here, give the host's answers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.cells import device
from tessella.cells.device import DeviceFactors
from tessella.cells.device_merging import inverted
from tessella.cells.factors import CellFactors, factor_cells
from tessella.cells.glued import default_features
from tessella.cells.system import cell_system
from tessella.report import Stopwatch

LAPLACE, D = ts.Laplacian(), ts.D
PLANE = ts.Box(x=(0, 1), y=(0, 1))
U, V, P = ts.Field("u"), ts.Field("v"), ts.Field("p")


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
STOKES = ts.Problem(
    PLANE,
    [
        ts.Equation(D(x=1) @ P - LAPLACE @ U, source),
        ts.Equation(D(y=1) @ P - LAPLACE @ V, 1.0),
        ts.Equation(D(x=1) @ U + D(y=1) @ V, 0.0),
    ],
    [ts.Dirichlet(0.0, of=U), ts.Dirichlet(0.0, of=V), ts.Dirichlet(0.0, of=P, on="xmin")],
    fields=("u", "v", "p"),
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


def solved(problem, subdomains, features, **more):
    settings = {"coupling": "interfaces", "subdomains": subdomains, "features": features}
    return ts.solve(problem, estimate=False, **settings, **more)


@pytest.mark.parametrize(
    ("problem", "subdomains", "features"),
    [
        (plain(LAPLACE), 4, 40),
        (VARYING, (3, 4), 40),
        (plain(LAPLACE + 400), 4, 40),
        (HEAT, (2, 4), 40),
        (ELASTIC, 2, 40),
        (AROUND, (3, 2), 40),
        (SPACE, 2, 60),
        (plain(D(x=2), domain=ts.Box(x=(0, 1))), 7, 12),
    ],
    ids=["laplace", "variable", "helmholtz", "heat", "elastic", "periodic", "3D", "1D"],
)
def test_answers_are_the_hosts(problem, subdomains, features, pretend_gpu, monkeypatch):
    points = problem.domain.grid((9,) * problem.domain.dimension)
    host = solved(problem, subdomains, features)
    pretend_gpu()
    made = []
    factors = device.DeviceFactors
    monkeypatch.setattr(device, "DeviceFactors", lambda *a: made.append(factors(*a)) or made[-1])
    found = solved(problem, subdomains, features)
    assert len(made) == 1
    assert found.report.columns_kept == host.report.columns_kept
    expected = np.asarray(host(points))
    np.testing.assert_allclose(found(points), expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    for part, value in host.report.residual.items():
        assert found.report.residual[part] == pytest.approx(value, rel=1e-6, abs=1e-9)
