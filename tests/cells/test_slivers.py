"""Boxes of which a shape leaves a sliver have the features of a neighbour."""

import numpy as np
import pytest
from scipy.special import j0, jn_zeros

import tessella as ts
from tessella.problem.operators import Identity

DISC = ts.Ball(x=0, y=0, radius=1)
"""In 6 x 6 boxes each corner has a sliver, a fiftieth of a box."""

STRIP = ts.Box(x=(0, 1), y=(0, 1)) - ts.Box(x=(0.26, 1), y=(0.5, 1)).named("rest")
"""In 4 x 4 boxes two of them are a twenty-fifth inside, beside whole ones."""


def test_a_sliver_has_the_neighbour_with_the_longest_common_face():
    hosts = ts.Tiling(STRIP, (4, 4)).hosts
    assert {i: int(j) for i, j in enumerate(hosts) if i != j} == {6: 2, 7: 3}


def test_points_in_a_sliver_are_seen_by_its_neighbour():
    tiling, x = ts.Tiling(STRIP, (4, 4)), np.array([[0.255, 0.6], [0.6, 0.1], [0.255, 0.9]])
    box, point = tiling.seen(x)
    assert dict(zip(point.tolist(), box.tolist(), strict=True)) == {0: 2, 1: 8, 2: 3}
    assert tiling.containing(x)[0].tolist() == [6, 7, 8]


def test_there_are_none_in_a_box_nor_where_boxes_are_well_cut():
    assert ts.Tiling(ts.Box(x=(0, 1), y=(0, 1)), 6).hosts is None
    assert ts.Tiling(DISC, 4).hosts is None
    corner = ts.Box(x=(0, 1), y=(0, 1)) - ts.Box(x=(0.5, 1), y=(0.5, 1)).named("corner")
    assert ts.Tiling(corner, 4).hosts is None


def test_a_neighbour_is_as_large_as_its_sliver():
    """Left of these is a box a fifth as wide; one of them lies above a whole one."""
    hosts = ts.Tiling(STRIP, ([0, 0.2, 0.25, 0.5, 1], 4)).hosts
    assert {i: int(j) for i, j in enumerate(hosts) if i != j} == {10: 9}


@pytest.fixture(scope="module")
def harmonic():
    def exact(p):
        return np.exp(p[:, 0]) * np.cos(p[:, 1])

    problem = ts.Problem(DISC, ts.Equation(ts.Laplacian()), [ts.Dirichlet(exact)], exact=exact)
    return ts.solve(problem, subdomains=6, features=150, coupling="interfaces", estimate=False)


def test_slivers_have_a_solution_and_its_slope(harmonic):
    angle = np.linspace(0.76, 0.81, 20)
    x = 0.99 * np.column_stack([np.cos(angle), np.sin(angle)])
    x = x[harmonic.basis.decomposition.containing(x)[0] == 35]
    assert len(x)
    assert np.max(np.abs(harmonic(x) - harmonic.problem.exact(x))) < 1e-9
    slope = harmonic.apply(ts.D(x=1), x)
    assert np.max(np.abs(slope - harmonic.problem.exact(x))) < 1e-7


def test_slivers_count_in_integrals(harmonic):
    assert harmonic.integral(Identity()) == pytest.approx(np.pi, rel=1e-9)


def test_what_waves_lose_in_slivers_does_not_grow():
    k = float(jn_zeros(0, 1)[0])

    def drum(p):
        return j0(k * np.hypot(p[:, 0], p[:, 1])) * np.cos(k * p[:, 2])

    problem = ts.Problem(
        DISC.over(t=(0, 2)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Initial(drum), ts.InitialVelocity(0.0)],
        exact=drum,
    )
    sizes = {"subdomains": (6, 6, 1), "features": 220, "coupling": "interfaces"}
    marched = ts.march(problem, 8, **sizes, estimate=False)
    errors = [slab.error["l1_normalised"] for slab in marched.report.slabs]
    assert max(errors) < 3e-6
    assert errors[-1] < 12 * errors[0]
