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


@pytest.mark.parametrize("cells", [4, ([-1, -0.97, -0.3, 0.3, 1], 4, 1)], ids=["cut", "sliver"])
def test_a_drum_is_still_right_after_many_slabs(cells):
    sizes = {"features": 100, "coupling": "interfaces", "estimate": False}
    subdomains = (cells, cells, 1) if isinstance(cells, int) else cells
    marched = ts.march(beaten(4.0), 10, subdomains=subdomains, **sizes)
    errors = [slab.error["l1_normalised"] for slab in marched.report.slabs]
    assert marched.report.factorisations == 1
    assert errors[-1] < 12 * errors[0]
    assert max(errors) < 1e-2
