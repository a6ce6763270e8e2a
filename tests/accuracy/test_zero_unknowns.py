"""An unknown that is zero is judged by what would balance the others, a small one by itself."""

import numpy as np
import pytest

import tessella as ts

U, V, P = ts.Field("u"), ts.Field("v"), ts.Field("p")


def flow(pressure):
    """Shear flow, which needs no pressure, and one that a force holds in balance."""

    def u(p):
        return np.exp(p[:, 1])

    def p(x):
        return pressure * np.sin(3 * x[:, 0])

    def zero(x):
        return 0 * x[:, 0]

    corner = np.array([[1.0, 1.0]])
    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        [
            ts.Equation(
                -ts.Laplacian() @ U + ts.D(x=1) @ P,
                rhs=lambda x: 3 * pressure * np.cos(3 * x[:, 0]) - u(x),
                name="momentum x",
            ),
            ts.Equation(-ts.Laplacian() @ V + ts.D(y=1) @ P, name="momentum y"),
            ts.Equation(ts.D(x=1) @ U + ts.D(y=1) @ V, name="continuity"),
        ],
        [
            ts.Dirichlet(u, of=U),
            ts.Dirichlet(0.0, of=V),
            ts.Measured(corner, p(corner), P, name="pinned pressure"),
        ],
        exact={"u": u, "v": zero, "p": p},
        fields=("u", "v", "p"),
    )


def test_unknowns_that_are_zero_do_not_keep_a_tolerance_from_being_met():
    report = ts.solve(flow(0.0), tol=1e-6).report
    assert report.stop_reason == "tolerance met"
    assert report.advice.endswith("; rounding leaves nothing of v, p")
    assert report.error["l1_normalised"] < 1e-8


@pytest.mark.parametrize("size", [1e-5, 1e-9])
def test_a_small_unknown_is_no_zero(size):
    findable = size > 1e-7
    report = ts.solve(flow(size), tol=1e-3, patience=60 if findable else 2).report
    met = report.stop_reason == "tolerance met"
    assert met == findable
    assert not met or report.error["l1_normalised"] < 3e-3
    assert " p" not in report.advice.partition("nothing of")[2]
