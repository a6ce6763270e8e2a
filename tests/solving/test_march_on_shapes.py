"""Waves on shapes, slab by slab: cut cells, even slivers, keep what they start from."""

import numpy as np
import pytest
from scipy.special import j0, jn_zeros

import tessella as ts

K = float(jn_zeros(0, 2)[1])


def drum(p):
    return j0(K * np.hypot(p[:, 0], p[:, 1])) * np.cos(K * p[:, 2])


def beaten(T):
    return ts.Problem(
        ts.Ball(x=0, y=0, radius=1).over(t=(0, T)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Initial(drum), ts.InitialVelocity(0.0)],
        exact=drum,
    )


@pytest.mark.parametrize("features", [{"features": 150}, {"features": 250, "activation": "sin"}])
def test_slivers_do_not_feed_on_themselves(features):
    """Of one cell a hundredth is inside."""
    shape = ts.Box(x=(0, 1), y=(0, 1)) - ts.Ball(x=0.55, y=0.45, radius=0.25, name="hole")

    def start(p):
        far = (p[:, 0] - 0.25) ** 2 + (p[:, 1] - 0.75) ** 2
        return np.exp(-far / 0.02) * np.sin(np.pi * p[:, 0]) * np.sin(np.pi * p[:, 1])

    problem = ts.Problem(
        shape.over(t=(0, 1)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Initial(start), ts.InitialVelocity(0.0)],
    )
    sizes = {"subdomains": (4, 4, 1), "coupling": "interfaces", "estimate": False, **features}
    marched = ts.march(problem, 8, **sizes)
    residuals = [slab.residual for slab in marched.report.slabs]
    assert max(residuals) < 2 * residuals[0]


@pytest.mark.parametrize("cells", [4, ([-1, -0.97, -0.3, 0.3, 1], 4, 1)], ids=["cut", "sliver"])
def test_a_drum_is_still_right_after_many_slabs(cells):
    sizes = {"features": 100, "coupling": "interfaces", "estimate": False}
    subdomains = (cells, cells, 1) if isinstance(cells, int) else cells
    marched = ts.march(beaten(4.0), 10, subdomains=subdomains, **sizes)
    errors = [slab.error["l1_normalised"] for slab in marched.report.slabs]
    assert marched.report.factorisations == 1
    assert errors[-1] < 12 * errors[0]
    assert max(errors) < 1e-2


def test_waves_do_not_grow_in_slivers():
    """A drum's mode; of six cells along an axis some are a fortieth of a cell."""
    k = 8.653727912911013  # J0 has its third zero there

    def exact(p):
        return j0(k * np.hypot(p[:, 0], p[:, 1])) * np.cos(k * p[:, 2])

    problem = ts.Problem(
        ts.Ball(x=0.0, y=0.0, radius=1.0).over(t=(0, 1)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(), ts.Initial(exact), ts.InitialVelocity()],
        exact=exact,
    )
    sizes = {"subdomains": (6, 6, 1), "features": 90, "coupling": "interfaces"}
    marched = ts.march(problem, 12, **sizes, estimate=False)
    assert marched.report.error["l1_normalised"] < 3e-4
    assert marched.report.slabs[-1].error["l1_normalised"] < 1e-3


def test_a_wave_passes_from_one_material_to_another():
    """Reflected and transmitted as the speeds say, slab by slab."""
    slow, fast = 1.0, 2.0
    back, on = (slow - fast) / (slow + fast), 2 * slow / (slow + fast)

    def hump(s):
        return np.exp(-((s + 0.25) ** 2) / (2 * 0.05**2))

    def exact(p):
        x, t = p[:, 0] - 0.5, p[:, 1]
        left = hump(x - slow * t) + back * hump(-x - slow * t)
        return np.where(x < 0, left, on * hump((x - fast * t) * slow / fast))

    def velocity(p):
        x = p[:, 0] - 0.5
        steep = [-(s + 0.25) / 0.05**2 * hump(s) for s in (x, -x, x * slow / fast)]
        left = -slow * (steep[0] + back * steep[1])
        return np.where(x < 0, left, -slow * on * steep[2])

    domain = ts.Divided(ts.Box(x=(0, 1), t=(0, 0.4)), left=ts.Box(x=(0, 0.5), t=(0, 0.4)))
    problem = ts.Problem(
        domain,
        [
            ts.Equation(ts.D(t=2) - slow**2 * ts.D(x=2), where="left"),
            ts.Equation(ts.D(t=2) - fast**2 * ts.D(x=2), where="rest"),
        ],
        [
            ts.Dirichlet(exact),
            ts.Initial(exact),
            ts.InitialVelocity(velocity),
            *ts.Transmission("left", "rest", flux=(slow**2, fast**2)),
        ],
        exact=exact,
    )
    sizes = {"subdomains": (7, 1), "features": 100, "coupling": "interfaces"}
    report = ts.march(problem, 6, **sizes).report
    assert report.error["l1_normalised"] < 1e-4
    assert 0.1 < report.error_estimate / report.error["l1_normalised"] < 10
