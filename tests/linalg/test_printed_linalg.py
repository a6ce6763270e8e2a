"""Solvers print as one writes them, matrices with their sizes."""

import jax
import numpy as np
import pytest

import tessella as ts
from tessella.linalg.solvers import SOLVERS

OPTIONS = {"max_iterations": 50, "leaf": 64, "atol": 1e-6}


@pytest.mark.parametrize("kind", [*SOLVERS.values(), ts.RRQR, ts.Unfiltered])
def test_solvers_and_filters_print_what_makes_them_again(kind):
    assert repr(kind()) == f"{kind.__name__}()"
    known = {name: value for name, value in OPTIONS.items() if name in kind.__dataclass_fields__}
    other = kind(**known)
    assert eval(repr(other), {kind.__name__: kind}) == other
    assert all(f"{name}={value!r}" in repr(other) for name, value in known.items())


def test_only_what_differs_from_the_default_is_printed():
    assert repr(ts.RRQR(1e-6)) == "RRQR(sigma=1e-06)"
    assert repr(ts.LSQR(atol=0, btol=0)) == "LSQR(atol=0, btol=0)"
    assert repr(ts.DeflatedLSQR(max_iterations=1_000)) == "DeflatedLSQR()"
    assert repr(ts.SchwarzCG(blocks="diagonal")) == "SchwarzCG(blocks='diagonal')"


def test_a_matrix_prints_its_shape_and_blocks_and_size(column_blocks):
    A = column_blocks(np.ones((500, 200)), 4)
    assert repr(A) == "BlockMatrix of 500 x 200, 4 blocks of up to 500 x 50 (0.81 MB)"


def test_a_matrix_inside_a_compiled_function_prints_the_same(column_blocks):
    A, seen = column_blocks(np.ones((6, 4)), 2), []

    @jax.jit
    def look(A):
        seen.append(repr(A))
        return A.groups[0].values

    look(A)
    assert seen == [repr(A)]


def test_what_solvers_make_prints_in_one_line(column_blocks, rng):
    A, b = column_blocks(rng.standard_normal((30, 8)), 2), rng.standard_normal(30)
    direct = ts.NestedQR()
    factors = direct.init(A)
    assert repr(factors).startswith("Factorisation of 30 x 8: 1 front, largest 8 columns")
    assert repr(direct.solve(factors, b)).startswith("SolverResult(solved directly, residual ")
    found = ts.LSQR(max_iterations=3).solve(A, b)
    assert repr(found).startswith("SolverResult(3 iterations, iteration limit, residual ")
    assert repr(found.history).startswith("History of 3 iterations, residual ")
    filtered = ts.RRQR().apply(A)
    assert repr(filtered).startswith("Filtered: 8 columns kept of BlockMatrix of 30 x 8")
    assert repr(filtered.preconditioner) == "TriangularBlocks of 8 unknowns, 2 blocks"
