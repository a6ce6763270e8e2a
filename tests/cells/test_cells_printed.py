"""What cells print of themselves: a line or two, with sizes and without numbers by the thousand."""

import doctest

import pytest

import tessella as ts
from problems import PLANE, SMOOTH
from tessella.cells.boxes import basis, tiling
from tessella.cells.factoring import factor_cells
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.system.system import cell_system


@pytest.mark.parametrize("module", [tiling, basis])
def test_examples_in_docstrings_print_what_they_say(module):
    found = doctest.testmod(module)
    assert found.attempted > 3 and not found.failed


@pytest.mark.parametrize("cuts", [4, (3, [-1, 0.5, 1]), (2, range(-1, 2))])
def test_a_tiling_prints_as_it_is_written(cuts):
    made = ts.Tiling(PLANE, cuts)
    assert eval(repr(made), {"Tiling": ts.Tiling, "Box": ts.Box}) == made


def test_many_slabs_and_cut_boxes_are_counted():
    many = ts.Tiling(PLANE, ([0.01 * i for i in range(20)] + [2], 2))
    assert "20 unequal" in repr(many)
    assert repr(many.refined([0, 5])).endswith(f"some cut: {many.refined([0, 5]).count} boxes")


@pytest.mark.parametrize("solver", [Merging(), Exchange()])
def test_a_system_and_its_factors_print_their_sizes(solver):
    own = ts.CellBasis(ts.Tiling(SMOOTH.domain, (8, 4)), ts.RandomFeatures(12, activation="sin"))
    system = cell_system(SMOOTH, own, ts.Grid(2.0))
    factors = factor_cells(system, ts.RRQR(1e-14), solver)
    assert f"32 subdomains with {system.rows:,} rows" in repr(system)
    assert f"9 of them distinct, joined at 52 faces by {solver.name}" in repr(factors)
    for one in (own, system, factors):
        assert len(repr(one)) < 160 and "array" not in repr(one)
