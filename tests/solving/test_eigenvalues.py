"""Eigenvalues against formulas, with rates; multiplicities, shifts, complex ones, refusals."""

import itertools

import numpy as np
import pytest
from scipy.special import jn_zeros

import tessella as ts

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
DISC = ts.Ball(x=0, y=0, radius=1)
LAPLACE = ts.Equation(-ts.Laplacian())


def clamped(domain, equation=LAPLACE):
    return ts.Problem(domain, equation, [ts.Dirichlet(0.0)])


def of_box(count, d=2, first=1):
    each = (np.sum(np.square(n)) for n in itertools.product(range(first, 9), repeat=d))
    return np.pi**2 * np.sort(list(each))[:count]


def of_disc(count):
    every = [np.repeat(jn_zeros(m, 6) ** 2, 1 if m == 0 else 2) for m in range(9)]
    return np.sort(np.concatenate(every))[:count]


@pytest.mark.parametrize(("domain", "exact"), [(SQUARE, of_box(12)), (DISC, of_disc(12))])
def test_more_features_gain_decades_and_errors_are_estimated(domain, exact):
    worst = []
    for features in (40, 80, 160):
        found = ts.eigs(clamped(domain), k=12, subdomains=4, features=features)
        off = np.abs(found.values - exact)
        assert np.all(off < 8 * found.errors)
        assert np.median(found.errors / np.maximum(off, 1e-12)) < 300
        worst.append(np.max(off / exact))
    assert worst[1] < worst[0] / 30 and worst[2] < worst[1] / 30
    assert worst[2] < 1e-10


def test_functions_of_a_multiple_eigenvalue_are_orthogonal_and_of_mean_square_one():
    found = ts.eigs(clamped(SQUARE), k=4, subdomains=2, features=120)
    assert found.values == pytest.approx(of_box(4), rel=1e-9)
    grid = (np.stack(np.meshgrid(*[np.arange(24) / 24 + 1 / 48] * 2), -1)).reshape(-1, 2)
    u = np.stack([mode.function(grid) for mode in found])
    assert u @ u.T / len(grid) == pytest.approx(np.eye(4), abs=1e-6)
    for mode in found:
        assert np.max(np.abs(mode.function.residual(grid))) < 1e-4 * mode.value
        assert mode.function([(0.0, 0.3)])[0] == pytest.approx(0.0, abs=1e-7)


def test_three_dimensions():
    box = ts.Box(x=(0, 1), y=(0, 1), z=(0, 1))
    found = ts.eigs(clamped(box), k=4, subdomains=2, features=200, estimate=False)
    assert found.values == pytest.approx(of_box(4, 3), rel=1e-5)
    assert np.isnan(found.errors).all() and found[0].error is None


def test_the_nearest_come_first():
    found = ts.eigs(clamped(SQUARE), k=3, near=100.0, subdomains=3, features=120)
    assert found.values == pytest.approx(np.pi**2 * np.array([10, 10, 8]), rel=1e-8)
    assert np.all(np.diff(np.abs(found.values - 100.0)) > -1e-6)


@pytest.mark.parametrize("near", [0.0, np.pi**2])
def test_a_shift_at_an_eigenvalue_is_moved_and_that_is_said(near):
    free = ts.Problem(SQUARE, LAPLACE, [ts.Neumann(0.0)])
    found = ts.eigs(free, k=3, near=near, subdomains=2, features=120)
    nearest = np.sort(np.abs(of_box(9, first=0) - near))[:3]
    assert np.abs(found.values - near) == pytest.approx(nearest, abs=1e-7)
    assert found.shift != near and "the shift was moved" in str(found)


def test_a_flow_that_turns_makes_pairs():
    """Around the centre of a disc: j^2 +- i m b."""
    b = 6.0
    turning = ts.Equation(
        -ts.Laplacian() + (lambda p: b * p[:, 1]) * ts.D(x=1) - (lambda p: b * p[:, 0]) * ts.D(y=1)
    )
    found = ts.eigs(clamped(DISC, turning), k=2, subdomains=4, features=120)
    first, second = jn_zeros(0, 1)[0] ** 2, jn_zeros(1, 1)[0] ** 2
    assert len(found) == 3  # a pair is not cut
    assert found.values[0] == pytest.approx(first, rel=1e-9)
    assert sorted(found.values[1:].imag) == pytest.approx([-b, b], rel=1e-8)
    assert found.values[1:].real == pytest.approx([second, second], rel=1e-8)
    assert found[0].imaginary is None and f"{b:.3g}"[0] in str(found)
    mode, x = found[1], np.array([(0.3, 0.2), (-0.1, 0.5)])
    parts = [mode.function, mode.imaginary]
    u, Lu = (
        sum(c * part.apply(own, x) for c, part in zip((1, 1j), parts, strict=True))
        for own in (ts.Identity(), turning.operator)
    )
    assert Lu == pytest.approx(mode.value * u, rel=1e-6)


def test_masses_weigh_the_unknown():
    density = 4 * ts.Identity()
    found = ts.eigs(clamped(ts.Box(x=(0, 1))), k=2, mass=density, subdomains=3, features=20)
    assert found.values == pytest.approx(np.pi**2 * np.array([1, 4]) / 4, rel=1e-10)
    plate = ts.Problem(
        SQUARE,
        ts.Equation(ts.Laplacian() @ ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Condition(ts.Laplacian(), 0.0)],
    )
    buckling = ts.eigs(plate, k=2, mass=-ts.Laplacian(), subdomains=2, features=150)
    assert buckling.values == pytest.approx(of_box(2), rel=1e-6)


def test_modes_of_a_viscous_flow():
    u, v, p, laplace = ts.Field("u"), ts.Field("v"), ts.Field("p"), ts.Laplacian()
    stokes = ts.Problem(
        SQUARE,
        [
            ts.Equation(-laplace @ u + ts.D(x=1) @ p, name="along x"),
            ts.Equation(-laplace @ v + ts.D(y=1) @ p, name="along y"),
            ts.Equation(ts.D(x=1) @ u + ts.D(y=1) @ v, name="volume"),
        ],
        [ts.Dirichlet(of=u), ts.Dirichlet(of=v), ts.MeanZero(of=p)],
        fields=("u", "v", "p"),
    )
    found = ts.eigs(stokes, k=1, mass={"along x": u, "along y": v}, subdomains=2, features=150)
    assert found.values[0] == pytest.approx(52.3446911, rel=1e-5)  # the first buckling load too
    with pytest.raises(ValueError, match=r"3 equations.*mass="):
        ts.eigs(stokes)
    with pytest.raises(ValueError, match="did you mean 'along y'"):
        ts.eigs(stokes, mass={"along yy": u})


def test_a_tolerance_is_met_without_other_choices():
    found = ts.eigs(clamped(DISC), k=3, tol=1e-7)
    assert np.all(np.abs(found.values / of_disc(3) - 1) < 1e-7)
    assert np.all(found.errors < 1e-7 * found.values)
    ring = ts.Problem(ts.Box(x=(0, 2 * np.pi)), ts.Equation(-ts.D(x=2)), [ts.Periodic("x")])
    assert ts.eigs(ring, k=3).values == pytest.approx([0, 1, 1], abs=1e-8)


def test_out_of_patience_is_said():
    found = ts.eigs(clamped(SQUARE), k=8, tol=1e-12, patience=0.0)
    assert "tolerance not met: out of patience" in found.remark


def test_what_has_no_eigenvalues_is_refused():
    with pytest.raises(ValueError, match=r"'dirichlet' has the value 1.0"):
        ts.eigs(ts.Problem(SQUARE, LAPLACE, [ts.Dirichlet(1.0)]))
    with pytest.raises(ValueError, match="'equation' has the right-hand side"):
        ts.eigs(clamped(SQUARE, ts.Equation(-ts.Laplacian(), 1.0)))
    for wrong, told in (({"k": 0}, "k must"), ({"near": 1j}, "near must"), ({"mass": 2.0}, "mass")):
        with pytest.raises((ValueError, TypeError), match=told):
            ts.eigs(clamped(SQUARE), **wrong)
    with pytest.raises(ValueError, match="side by side"):
        ts.eigs(clamped(SQUARE), subdomains=2, features=20, coupling="overlap")
    offset = ts.Problem(SQUARE, LAPLACE, ansatz=ts.Ansatz(1.0, offset=1.0))
    with pytest.raises(ValueError, match="offset"):
        ts.eigs(offset)


def test_a_divided_domain_and_an_ansatz():
    halves = ts.Divided(SQUARE, left=ts.Box(x=(-1, 0.4), y=(-1, 2)))
    left, rest, slope = ts.Field("left"), ts.Field("rest"), ts.NormalDerivative()
    joined = ts.Problem(
        halves,
        [ts.Equation(-ts.Laplacian(), where=own, name=own) for own in ("left", "rest")],
        [
            ts.Dirichlet(0.0),
            ts.Condition(left - rest, 0.0, on="left/rest", name="value"),
            ts.Condition(slope @ left - slope @ rest, 0.0, on="left/rest", name="slope"),
        ],
    )
    found = ts.eigs(joined, k=3, subdomains=3, features=90, estimate=False)
    assert found.values == pytest.approx(of_box(3), rel=1e-6)

    def wall(p):
        return p[:, 0] * (1 - p[:, 0]) * p[:, 1] * (1 - p[:, 1])

    held = ts.Problem(SQUARE, LAPLACE, ansatz=ts.Ansatz(wall))
    found = ts.eigs(held, k=3, subdomains=2, features=90, estimate=False)
    assert found.values == pytest.approx(of_box(3), rel=1e-6)
    assert found[0].function([(0.0, 0.4)])[0] == 0.0
