"""Additive Schwarz: what it sums, what it costs, and how it fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.linalg.block_matrix import Block, BlockMatrix, Group, from_blocks
from tessella.linalg.iterative.gramian import pattern, second_neighbours
from tessella.linalg.iterative.iteration import Stop
from tessella.linalg.iterative.krylov import LSQR
from tessella.linalg.iterative.normal_equations import CG
from tessella.linalg.iterative.schwarz import (
    SchwarzCG,
    principal_directions,
    pseudo_inverse,
    schwarz_bytes,
    schwarz_inverse,
)
from tessella.machine.memory import gib
from tessella.overlap.system import assemble
from tessella.solution import monitor, solution

GIB = 2**30


@pytest.fixture(scope="session")
def strip():
    """Blocks of 3 columns on windows of 8 rows that move on by 4: neighbours are next to it."""

    def make(count=6, seed=0):
        random = np.random.default_rng(seed)
        blocks = [
            Block(random.standard_normal((8, 3)), np.arange(4 * j, 4 * j + 8), 3 * j + np.arange(3))
            for j in range(count)
        ]
        return from_blocks(blocks, (4 * count + 4, 3 * count))

    return make


def near(j, reach, count):
    return [k for k in range(count) if abs(j - k) <= reach]


def by_definition(A, groups):
    """sum_j W_j^T (W_j A^T A W_j^T)^+ W_j for groups of blocks of three columns."""
    dense = A.to_dense()
    G, total = dense.T @ dense, np.zeros((A.shape[1], A.shape[1]))
    for group in groups:
        at = np.concatenate([3 * k + np.arange(3) for k in group])
        total[np.ix_(at, at)] += np.linalg.pinv(G[np.ix_(at, at)])
    return total


def test_neighbours_share_a_row_and_second_neighbours_a_neighbour(strip):
    p = pattern(strip())
    assert [n.tolist() for n in p.neighbours] == [near(j, 1, 6) for j in range(6)]
    assert [n.tolist() for n in second_neighbours(p)] == [near(j, 2, 6) for j in range(6)]


def test_padding_makes_no_neighbours(rng):
    blocks = [
        Block(rng.standard_normal((5, 2)), np.arange(5), np.array([0, 1])),
        Block(rng.standard_normal((2, 1)), np.array([6, 7]), np.array([2])),
        Block(np.zeros((0, 1)), np.zeros(0, int), np.array([3])),
        Block(rng.standard_normal((3, 0)), np.arange(3, 6), np.zeros(0, int)),
    ]
    p = pattern(from_blocks(blocks, (8, 4)))
    assert [n.tolist() for n in p.neighbours] == [[0], [1], [2]]
    assert [r.tolist() for r in p.rows] == [[0, 1, 2, 3, 4], [6, 7], []]


def test_the_sum_of_inverses_is_that_of_the_definition(strip):
    A = strip()
    hoods = {
        "neighbourhood": [near(j, 1, 6) for j in range(6)],
        "diagonal": [[j] for j in range(6)],
    }
    for blocks, groups in hoods.items():
        G, inverse = schwarz_inverse(A, blocks)
        expected = by_definition(A, groups)
        np.testing.assert_allclose(inverse.to_dense(), expected, atol=1e-10 * expected.max())
        assert np.array_equal(inverse.to_dense(), inverse.to_dense().T)
        np.testing.assert_allclose(G.to_dense(), A.to_dense().T @ A.to_dense(), atol=1e-12)
        streamed = schwarz_inverse(A, blocks, streamed=True)[1]
        assert np.array_equal(streamed.to_dense(), inverse.to_dense())


def test_where_all_blocks_overlap_it_is_the_exact_inverse(strip, rng):
    A = strip(2)
    result = SchwarzCG().solve(SchwarzCG().init(A), rng.standard_normal(A.shape[0]))
    assert result.stop == Stop.OPTIMUM
    assert result.iterations <= 3


def test_neighbourhoods_beat_diagonal_blocks_and_both_beat_none(strip, rng):
    A = strip()
    skewed = from_blocks(
        [Block(v @ np.diag([1.0, 1e-2, 1e-4]), r, c) for v, r, c in A.blocks()], A.shape
    )
    b = rng.standard_normal(A.shape[0])
    solvers = (SchwarzCG(), SchwarzCG(blocks="diagonal"), CG())
    counts = [solver.solve(solver.init(skewed), b).iterations for solver in solvers]
    assert counts[0] < counts[1] < counts[2]


def test_the_pseudo_inverse_forgets_dependent_and_zero_columns(rng):
    half = rng.standard_normal((6, 3))
    A_j = np.zeros((5, 5))
    A_j[:4, :4] = np.hstack([half, half[:, :1]]).T @ np.hstack([half, half[:, :1]])
    inverse = pseudo_inverse(A_j, 1e-13)
    np.testing.assert_allclose(inverse, np.linalg.pinv(A_j, rcond=1e-12), atol=1e-12)
    assert np.all(inverse[4] == 0) and np.all(inverse[:, 4] == 0)
    assert np.all(pseudo_inverse(np.zeros((2, 2)), 1e-13) == 0)


def test_pca_solves_in_the_directions_it_kept(strip, rng):
    A = strip()
    skewed = from_blocks(
        [Block(v @ np.diag([1.0, 1e-1, 1e-4]), r, c) for v, r, c in A.blocks()], A.shape
    )
    reduced, V = principal_directions(skewed, 1e-3)
    dense, directions = skewed.to_dense(), V.to_dense()
    owned = np.flatnonzero(np.any(directions, axis=0))
    assert len(owned) == 12
    np.testing.assert_allclose(reduced.to_dense(), dense @ directions, atol=1e-12)
    np.testing.assert_allclose(
        (directions.T @ directions)[np.ix_(owned, owned)], np.eye(12), atol=1e-12
    )

    b = rng.standard_normal(A.shape[0])
    solver = SchwarzCG(pca=1e-3, atol=1e-14, track_every=1)
    seen = SumOfSquares(jnp.asarray(1.0))
    result = solver.solve(solver.init(skewed), b, seen)
    y = np.linalg.lstsq(dense @ directions[:, owned], b, rcond=None)[0]
    np.testing.assert_allclose(result.x, directions[:, owned] @ y, atol=1e-9)
    assert result.history.error[-1] == pytest.approx(float(jnp.sum(result.x**2)), rel=1e-12)


class SumOfSquares:
    """A monitor that shows which unknowns it is given."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * jnp.sum(x**2)


jax.tree_util.register_pytree_node(
    SumOfSquares, lambda s: ((s.factor,), None), lambda _, children: SumOfSquares(*children)
)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="blocks must be one of 'neighbourhood', 'diagonal'"):
        SchwarzCG(blocks="all")
    for pca in (0.0, 1.0, -1e-3, float("nan")):
        with pytest.raises(ValueError, match="pca must be None or lie in"):
            SchwarzCG(pca=pca)
    for cutoff in (0.0, 1e-17, 1.0, float("nan")):
        with pytest.raises(ValueError, match="cutoff must lie in"):
            SchwarzCG(cutoff=cutoff)


def test_memory_is_counted_from_the_pattern(strip):
    A, count = strip(50), 50
    inverses = sum(len(near(j, 1, count)) ** 2 for j in range(count)) * 9 * 8
    kept = schwarz_bytes(A)
    assert inverses < kept < 4 * inverses
    assert schwarz_bytes(A, "diagonal") < schwarz_bytes(A, streamed=True) < kept


@pytest.fixture(scope="session")
def paper_pattern():
    """The pattern of a paper's run, with values that take no memory."""

    def make(box, subdomains, overlap, features):
        decomposition = ts.Decomposition(box, subdomains, overlap)
        C, d = features + 1, box.dimension
        per_axis = decomposition.subdomains[0] * int(np.ceil(C ** (1 / d) - 1e-9))
        points = box.grid((per_axis,) * d)
        subdomain, point = decomposition.seen(points)
        heights = np.bincount(subdomain, minlength=decomposition.count)
        J, m = decomposition.count, int(heights.max())
        rows = np.zeros((J, m), dtype=np.int32)
        rows[np.arange(m) < heights[:, None]] = point
        columns = np.arange(J * C, dtype=np.int32).reshape(J, C)
        values = np.broadcast_to(np.zeros(()), (J, C, m))
        group = Group(values, rows, columns, heights, np.full(J, C))
        return BlockMatrix((group,), (len(points), J * C))

    return make


def test_the_runs_that_exhausted_the_papers_machine_are_refused_with_a_figure(
    paper_pattern, monkeypatch
):
    monkeypatch.setattr("tessella.machine.memory.available_bytes", lambda *_: 20 * GIB)
    square = ts.Box(x=(0, 1), y=(0, 1))
    space_time = ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 0.5))
    for box, S, overlap, K in ((square, 32, 5.8, 16), (space_time, 8, 2.9, 32)):
        A = paper_pattern(box, S, overlap, K)
        needed = schwarz_bytes(A)
        assert needed > 24 * GIB
        figure = gib(needed)
        with pytest.raises(MemoryError, match=f"needs about {figure}, but 20 GiB") as refusal:
            schwarz_inverse(A)
        assert "streamed=True" in str(refusal.value)
        assert schwarz_bytes(A, streamed=True) < needed / 3


def test_the_papers_baselines_fit(paper_pattern):
    assert schwarz_bytes(paper_pattern(ts.Box(x=(0, 1), y=(0, 1)), 16, 2.9, 16)) < GIB
    wave = ts.Box(x=(-1, 1), y=(-1, 1), t=(0, 0.5))
    assert schwarz_bytes(paper_pattern(wave, 8, 2.9, 8)) < 3 * GIB


@pytest.fixture(scope="session")
def oscillator():
    """The paper's first problem as it was run, seed 0: (M, h, error monitor)."""
    problem = ts.gallery.get("harmonic-oscillator").problem()
    basis = ts.Basis(
        ts.Decomposition(problem.domain, 20, 2.9), ts.RandomFeatures(8, 1, "tanh", True, True), 0
    )
    system = assemble(problem, basis, ts.Grid(1.0).rows(problem, basis))
    filtered = ts.Unfiltered().apply(system.M)
    at = solution.test_points(problem, basis, ts.Grid(points_per_axis=1000))
    return system.M, system.h, monitor.error_monitor(problem, basis, filtered.preconditioner, at)


def forced(solver_type, system, count, **options):
    M, h, monitor = system
    solver = solver_type(atol=0, btol=0, track_every=1, max_iterations=count, **options)
    return solver.solve(solver.init(M), h, monitor)


def test_its_late_instability_is_shown(oscillator):
    result = forced(SchwarzCG, oscillator, 2_000, cutoff=1e-15)
    iteration, least = result.history.oracle()
    assert (result.stop, result.iterations) == (Stop.LIMIT, 2_000)
    assert iteration < 500
    assert least < 2e-3
    assert result.history.error[-1] > 20 * least
    assert result.history.residual[-1] > result.history.residual.min()
    rule, error = result.rule
    assert rule < 2_000 and error >= least


def test_it_needs_fewer_iterations_than_lsqr_without_preconditioner(oscillator):
    least = forced(SchwarzCG, oscillator, 200).history.oracle()[1]
    assert least < 0.1 * forced(LSQR, oscillator, 200).history.oracle()[1]
