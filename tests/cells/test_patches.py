"""Integrals over parts of a boundary: lengths and areas are those that geometry knows."""

import numpy as np
import pytest
from scipy.special import ellipe

import tessella as ts
from tessella.cells.cut.patches import boundary_rule

SQUARE = ts.Box(x=(-1, 1), y=(-1, 1))
BALL = ts.Ball(x=0, y=0, z=0, radius=2)
SLANT = ts.HalfSpace(x=0.7, y=0.2, z=0.4, normal=(1, 2, -0.5), name="cut")
HEIGHT = np.array([0.7, 0.2, 0.4]) @ SLANT.normal
HOLE = ts.Ball(x=0.9, y=0.3, radius=0.4, name="hole")
RING = ts.Ball(x=0, y=0, radius=1) - ts.Ball(x=0.3, y=0, radius=0.4, name="hole")


def ellipse(p):
    return (p[:, 0] / 0.8) ** 2 + (p[:, 1] / 0.5) ** 2 - 1


OVAL = ts.Implicit(ellipse, bounds={"x": (-1, 1), "y": (-1, 1)})

CASES = [
    (ts.Box(x=(0, 3)), "xmax", 1.0),
    (ts.Box(x=(0, 1), y=(0, 2), z=(0, 3)), "xmin", 6.0),
    (ts.Polygon([(0, 0), (2, 0), (0, 1)], name="rim"), "rim", 3 + np.sqrt(5)),
    (SQUARE - HOLE, "hole", 0.8 * (np.pi - np.arccos(0.25))),
    (SQUARE - HOLE, "xmax", 2 - 2 * np.sqrt(0.15)),
    ((SQUARE | ts.Ball(x=1, y=0, radius=0.5)).named("rim"), "rim", 7 + np.pi / 2),
    (SQUARE - ts.Box(x=(-1, 0), y=(-1, 0)), "xmin", 1.0),
    (SQUARE - ts.Box(x=(-1, 0), y=(-1, 0)), "xmax", 3.0),
    (SQUARE & ts.HalfSpace(x=1, y=0, normal=(1, 1), name="cut"), "cut", np.sqrt(2)),
    (ts.Divided(SQUARE, core=ts.Ball(x=0, y=0, radius=0.5)), "core/rest", np.pi),
    (OVAL, "surface", 3.2 * ellipe(1 - (0.5 / 0.8) ** 2)),
    (BALL, "ball", 16 * np.pi),
    (BALL & SLANT, "ball", 16 * np.pi - 4 * np.pi * (2 - HEIGHT)),
    (BALL & SLANT, "cut", np.pi * (4 - HEIGHT**2)),
    (RING.over(z=(0, 2)), "hole", 1.6 * np.pi),
    (RING.over(z=(0, 2)), "zmax", np.pi * 0.84),
]


@pytest.mark.parametrize(("domain", "part", "measure"), CASES)
def test_the_measure_of_a_part(domain, part, measure):
    points, normals, weights = boundary_rule(domain, part, 8, 10)
    assert weights.sum() == pytest.approx(measure, rel=3e-8)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-12)
    assert domain.contains(points).all()


CAP = 2 - HEIGHT
VOLUMES = [
    (BALL & SLANT, np.pi * (32 / 3 - CAP**2 * (6 - CAP) / 3)),
    (RING.over(z=(0, 2)), 1.68 * np.pi),
    (OVAL, 0.4 * np.pi),
]


@pytest.mark.parametrize(("domain", "volume"), VOLUMES)
def test_the_normals_point_outward_by_the_theorem_of_gauss(domain, volume):
    """The flux of a constant field through all of a boundary is zero, that of x its volume."""
    every = [boundary_rule(domain, part, 8, 10) for part in domain.parts]
    flux = sum(own.measure @ own.normals for own in every)
    np.testing.assert_allclose(flux, 0, atol=1e-6)
    found = sum(own.measure @ (own.normals[:, 0] * own.points[:, 0]) for own in every)
    assert found == pytest.approx(volume, rel=1e-7)


def test_what_has_no_pieces_is_refused():
    sphere = ts.Implicit(
        lambda p: (p**2).sum(axis=1) - 1, {"x": (-2, 2), "y": (-2, 2), "z": (-2, 2)}
    )
    with pytest.raises(ValueError, match="are for the plane"):
        boundary_rule(sphere, "surface", 2, 4)
    with pytest.raises(ValueError, match="unknown face 'rim'"):
        boundary_rule(SQUARE, "rim", 2, 4)
