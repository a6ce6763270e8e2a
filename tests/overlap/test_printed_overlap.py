"""A basis prints its sizes, a system its rows and weights, in one line each."""

import numpy as np
import pytest

import tessella as ts
from tessella.overlap.system import assemble

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
EIGHT = ts.Decomposition(SQUARE, 8)
BASIS = ts.Basis(EIGHT, ts.RandomFeatures(100))
TILES = ts.Tiling(SQUARE, 4)


def ramp(p):
    return p[:, 0]


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (EIGHT, "Decomposition of Box(x=(0, 1), y=(0, 1)) in 8 x 8 subdomains, overlap 2"),
        (BASIS, "Basis of 8 x 8 overlapping subdomains, 100 tanh features each (6,464 columns)"),
        (
            ts.Basis(ts.Decomposition(SQUARE, 1), ts.RandomFeatures(9, activation="sin")),
            "Basis of one subdomain, 9 sin features each (10 columns)",
        ),
        (
            ts.Basis(EIGHT, ts.RandomFeatures(9, depth=2), enrichment=(ramp,)),
            "Basis of 8 x 8 overlapping subdomains, 9 tanh features of depth 2 and 1 function more "
            "each (704 columns)",
        ),
        (
            ts.Multilevel.two(BASIS),
            "Multilevel of 2 x 2 + 8 x 8 overlapping subdomains, 100 tanh features each "
            "(6,868 columns)",
        ),
        (
            ts.Fields(u=BASIS, p=ts.Basis(EIGHT, ts.RandomFeatures(50))),
            "Fields of u with 100 tanh features, p with 50 tanh features on 8 x 8 overlapping "
            "subdomains (9,728 columns)",
        ),
        (
            ts.Fields(u=ts.CellBasis(TILES, ts.RandomFeatures(9))),
            "Fields of u with 9 tanh features on 16 subdomains side by side (160 columns)",
        ),
        (ts.Grid(), "Grid()"),
        (ts.Grid(2), "Grid(oversampling=2)"),
        (ts.Grid(points_per_axis=(20, 30)), "Grid(points_per_axis=(20, 30))"),
    ],
)
def test_in_one_line(thing, text):
    assert repr(thing) == text


def test_a_system_prints_rows_columns_blocks_and_weights(line_problem):
    problem = line_problem(ts.Dirichlet(0.0, weight=10.0))
    basis = ts.Basis(ts.Decomposition(problem.domain, 4), ts.RandomFeatures(8))
    rows = ts.Grid(2).rows(problem, basis)
    system = assemble(problem, basis, rows)
    text = repr(system)
    assert text.startswith("LeastSquares of 74 rows and 36 columns, 4 blocks of up to ")
    assert text.endswith(": equation 72 rows of weight 1, dirichlet 2 rows of weight 10")
    assert len(text) < 200
    assert repr(rows[0]) == "Rows of 'equation' at 72 points"
    reduced = system.reduce(ts.RRQR())
    assert repr(reduced).startswith(f"Reduced: {len(reduced.kept)} columns kept of BlockMatrix")


def test_a_condition_on_the_whole_is_one_row_of_a_printed_system():
    problem = ts.Problem(
        SQUARE,
        ts.Equation(-ts.Laplacian(), lambda p: np.cos(np.pi * p[:, 0])),
        [ts.Neumann(0.0), ts.MeanZero(weight=2.0)],
    )
    basis = ts.Basis(ts.Decomposition(SQUARE, 2), ts.RandomFeatures(8))
    text = repr(assemble(problem, basis, ts.Grid(2).rows(problem, basis)))
    assert "1 row of weight 2" in text
