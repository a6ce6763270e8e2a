"""NestedQR: the exact least-squares solution of any block pattern."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.linalg.batched_qr import padded_size
from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.direct import dense_qr
from tessella.linalg.direct.device_qr import DeviceFactors
from tessella.linalg.direct.dissection import block_graph, dissect, postorder
from tessella.linalg.direct.factorisation import factor
from tessella.machine.threads import CORES
from tessella.overlap.system import assemble


def grid_matrix(shape, reach, width, rows_per_cell, seed=0, positions=True):
    """Blocks on a grid of cells; a row of a cell touches the blocks of cells within `reach`."""
    random = np.random.default_rng(seed)
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    blocks = []
    for b, cell in enumerate(cells):
        near = np.flatnonzero(np.max(np.abs(cells - cell), axis=1) <= reach)
        rows = np.concatenate([np.arange(k * rows_per_cell, (k + 1) * rows_per_cell) for k in near])
        columns = np.arange(b * width, (b + 1) * width)
        blocks.append(Block(random.standard_normal((len(rows), width)), rows, columns))
    total = (len(cells) * rows_per_cell, len(cells) * width)
    return from_blocks(blocks, total, cells.astype(float) if positions else None)


def dense_solution(A: BlockMatrix, b):
    return np.linalg.lstsq(A.to_dense(), b, rcond=None)[0]


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize(
    ("shape", "reach"),
    [((12,), 1), ((12,), 3), ((5, 7), 1), ((7, 3), 2), ((3, 3, 3), 1), ((4, 2, 3), 2), ((1,), 1)],
)
def test_it_solves_odd_grids_of_every_dimension_and_overlap(shape, reach, positions):
    A = grid_matrix(shape, reach, width=3, rows_per_cell=5, positions=positions)
    b = np.random.default_rng(1).standard_normal(A.shape[0])
    solver = ts.NestedQR(leaf=6)
    result = solver.solve(solver.init(A), b)
    expected = dense_solution(A, b)
    assert np.allclose(result.x, expected, rtol=1e-9, atol=1e-9)
    assert result.residual_norm == pytest.approx(np.linalg.norm(A.to_dense() @ expected - b))
    assert result.stop == "solved directly"


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_it_solves_random_block_patterns(data):
    n_rows = data.draw(st.integers(8, 40))
    n_blocks = data.draw(st.integers(1, 7))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    blocks, start = [], 0
    for _ in range(n_blocks):
        width = data.draw(st.integers(0, 3))
        rows = np.sort(random.permutation(n_rows)[: data.draw(st.integers(0, n_rows))])
        columns = np.arange(start, start + width)
        blocks.append(Block(random.standard_normal((len(rows), width)), rows, columns))
        start += width
    A = from_blocks(blocks, (n_rows, start))
    b = random.standard_normal(n_rows)
    state = ts.NestedQR(leaf=2).init(A)
    x, residual = state.solve(b)
    dense = A.to_dense()
    best = np.linalg.norm(dense @ dense_solution(A, b) - b) if start else np.linalg.norm(b)
    assert residual == pytest.approx(np.linalg.norm(dense @ x - b), abs=1e-9)
    assert np.linalg.norm(dense @ x - b) <= best * (1 + 1e-9) + 1e-9


def test_one_front_is_plain_dense_qr():
    A = grid_matrix((2, 2), 1, 3, 6)
    plan = ts.NestedQR(leaf=1000).analyse(A)
    assert len(plan.fronts) == 1
    assert plan.fronts[0].shape == A.shape


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_staircase_has_the_triangle_of_the_whole_matrix(data):
    """Panels that skip the rows which have not begun give the QR that LAPACK gives."""
    m, n = data.draw(st.integers(1, 40)), data.draw(st.integers(3, 30))
    own = data.draw(st.integers(0, n))
    random = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    begins = random.integers(0, n + 1, m)
    F = np.where(np.arange(n) >= begins[:, None], random.standard_normal((m, n)), 0.0)
    c = random.standard_normal((m, 2))
    whole = dense_qr.Staircase
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_qr, "PANEL", 3)
        patch.setattr(dense_qr, "LEAST", 1)
        patch.setattr(dense_qr, "WORTH", np.inf)
        alone = data.draw(st.booleans())
        stairs, left = dense_qr.factor(np.asfortranarray(F), own, 1e-12, begins, alone)
    plain, other = dense_qr.factor(np.asfortranarray(F), own, 1e-12)
    assert isinstance(stairs.Q, whole) and not isinstance(plain.Q, whole)
    assert stairs.kept == plain.kept

    def rows(factor, leftover):
        """The Gramian of what the parent gets, which reflections do not change."""
        G = np.zeros((leftover.rows, n - own))
        leftover.copy_into(G, np.arange(n - own))
        fitted, handed, rest = factor.reduce(c)
        return G.T @ G, G.T @ handed, np.sum(fitted**2) + np.sum(handed**2) + rest

    for one, two in zip(rows(stairs, left), rows(plain, other), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
    beyond = random.standard_normal((n - own, 2))
    x, y = (
        np.linalg.norm(
            F[:, f.order[: f.kept]] @ f.substitute(f.reduce(c)[0], beyond) + F[:, own:] @ beyond - c
        )
        for f in (stairs, plain)
    )
    assert x == pytest.approx(y, abs=1e-9)


def test_large_fronts_are_factored_by_panels_with_the_same_answer(monkeypatch):
    A = grid_matrix((12, 12), 1, 3, 6)
    b = np.random.default_rng(2).standard_normal(A.shape[0])
    x, residual = ts.NestedQR(leaf=9).init(A).solve(b)
    monkeypatch.setattr(dense_qr, "PANEL", 4)
    monkeypatch.setattr(dense_qr, "LEAST", 1)
    state = ts.NestedQR(leaf=9).init(A)
    used = [isinstance(front.Q, dense_qr.Staircase) for front in state.factors.fronts]
    assert used[-1] and sum(used) > 3
    y, same = state.solve(b)
    np.testing.assert_allclose(y, x, atol=1e-10 * np.abs(x).max())
    assert same == pytest.approx(residual)


def test_the_tree_separates():
    """Blocks of different subtrees share no row, and every block is owned exactly once."""
    A = grid_matrix((9, 8), 2, 2, 1)
    rows, columns = A.pattern()
    graph = block_graph(rows, A.shape[0])
    root = dissect(graph, np.array([len(c) for c in columns]), A.positions(), leaf=8)
    nodes = postorder(root)
    owned = np.sort(np.concatenate([node.blocks for node in nodes]))
    assert np.array_equal(owned, np.arange(72))

    def subtree(node):
        return np.concatenate([node.blocks, *(subtree(c) for c in node.children)])

    dense = graph.toarray()
    for node in nodes:
        for i, left in enumerate(node.children):
            for right in node.children[i + 1 :]:
                assert not dense[np.ix_(subtree(left), subtree(right))].any()
    assert len(nodes) > 5


def test_many_right_hand_sides_from_one_factorisation():
    A = grid_matrix((6, 6), 1, 3, 6)
    B = np.random.default_rng(2).standard_normal((A.shape[0], 4))
    state = ts.NestedQR(leaf=9).init(A)
    X, _ = state.solve(B)
    assert np.allclose(X, np.linalg.lstsq(A.to_dense(), B, rcond=None)[0], atol=1e-9)
    single = np.stack([state.solve(b)[0] for b in B.T], axis=1)
    assert np.allclose(X, single, atol=1e-12)


def test_scaling_of_columns_and_permutation_of_rows_change_nothing():
    A = grid_matrix((5, 4), 1, 3, 5)
    b = np.random.default_rng(3).standard_normal(A.shape[0])
    x, residual = ts.NestedQR(leaf=6).init(A).solve(b)
    factors = 10.0 ** np.random.default_rng(4).uniform(-9, 9, A.shape[1])
    order = np.random.default_rng(5).permutation(A.shape[0])
    changed = from_blocks(
        [Block(k.values * factors[k.columns], order[k.rows], k.columns) for k in A.blocks()],
        A.shape,
    )
    moved = np.empty_like(b)
    moved[order] = b
    y, same = ts.NestedQR(leaf=6).init(changed).solve(moved)
    assert np.allclose(y * factors, x, rtol=1e-8, atol=1e-10)
    assert same == pytest.approx(residual)


def test_redundant_columns_are_found_at_the_merge_that_reveals_them():
    """Two neighbouring blocks with the same column: locally regular, together dependent."""
    A = grid_matrix((6,), 1, 3, 6)
    blocks = list(A.blocks())
    dense = A.to_dense()
    shared = np.intersect1d(blocks[2].rows, blocks[3].rows)
    column = np.zeros(A.shape[0])
    column[shared] = 1.0
    for b in (2, 3):
        values = blocks[b].values.copy()
        values[:, 0] = column[blocks[b].rows]
        blocks[b] = Block(values, blocks[b].rows, blocks[b].columns)
    A = from_blocks(blocks, A.shape, A.positions())
    dense = A.to_dense()
    assert np.linalg.matrix_rank(dense) == A.shape[1] - 1
    b = np.random.default_rng(6).standard_normal(A.shape[0])
    state = ts.NestedQR(leaf=3).init(A)
    x, residual = state.solve(b)
    assert sum(state.dropped.values()) == 1
    best = np.linalg.norm(dense @ dense_solution(A, b) - b)
    assert residual == pytest.approx(best) == np.linalg.norm(dense @ x - b)


def test_a_looser_tolerance_drops_more_and_keeps_the_residual_close():
    entry = ts.gallery.get("harmonic-oscillator")
    problem = entry.problem()
    basis = ts.Basis(ts.Decomposition(problem.domain, 20, 2.9), ts.RandomFeatures(16), 0)
    system = assemble(problem, basis, ts.Grid(2.0).rows(problem, basis))
    Q = ts.RRQR(1e-10).apply(system.M).Q
    dropped, residuals = [], []
    for tolerance in (1e-13, 1e-6, 1e-3):
        state = ts.NestedQR(tolerance).init(Q)
        dropped.append(sum(state.dropped.values()))
        residuals.append(state.solve(system.h)[1])
    assert dropped[0] <= dropped[1] < dropped[2]
    assert residuals[0] <= residuals[1] <= residuals[2]


def test_equal_fronts_are_factored_once():
    """Two far apart groups of blocks with the same numbers share their factors."""
    values = np.random.default_rng(7).standard_normal((10, 3))
    blocks = [
        Block(values, np.arange(10 * b, 10 * b + 10), np.arange(3 * b, 3 * b + 3)) for b in range(8)
    ]
    A = from_blocks(blocks, (80, 24))
    solver = ts.NestedQR(leaf=3)
    state = solver.init(A)
    assert 8 - CORES <= state.reused <= 7  # each core may begin before the first has finished
    b = np.random.default_rng(8).standard_normal(80)
    assert np.allclose(state.solve(b)[0], dense_solution(A, b))


def test_memory_and_work_are_known_before_and_refused_when_absurd(monkeypatch):
    A = grid_matrix((6, 6), 1, 3, 6)
    plan = ts.NestedQR(leaf=9).analyse(A)
    state = factor(A, plan, 1e-13)
    stored = sum(f.Q.qr.nbytes for f in state.factors.fronts)
    assert stored <= plan.bytes
    tall = [f for f in plan.fronts if f.shape[0] >= f.shape[1]]
    for f in tall:
        m, n = f.shape
        assert f.flops == pytest.approx(2 * m * n**2 - 2 / 3 * n**3)
    assert plan.flops >= sum(f.flops for f in tall) > 0
    monkeypatch.setattr("tessella.machine.memory.available_bytes", lambda *_: 1000)
    with pytest.raises(MemoryError, match=r"needs about .* but .* are free: use rrqr-lsqr"):
        ts.NestedQR(leaf=9).init(A)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="tolerance must lie in"):
        ts.NestedQR(tolerance=2.0)
    with pytest.raises(ValueError, match="below machine precision"):
        ts.NestedQR(tolerance=1e-20)
    with pytest.raises(ValueError, match="leaf must be at least 1"):
        ts.NestedQR(leaf=0)
    A = grid_matrix((4,), 1, 2, 4)
    state = ts.NestedQR().init(A)
    with pytest.raises(ValueError, match=r"right-hand side has shape \(5,\)"):
        state.solve(np.ones(5))
    with pytest.raises(ValueError, match="right-hand side contains NaN"):
        state.solve(np.full(A.shape[0], np.nan))
    blocks = list(A.blocks())
    broken = blocks[1].values.copy()
    broken[0, 0] = np.nan
    blocks[1] = Block(broken, blocks[1].rows, blocks[1].columns)
    with pytest.raises(ValueError, match="column 2 of the matrix contains NaN"):
        ts.NestedQR().init(from_blocks(blocks, A.shape))
    twice = [blocks[0], Block(blocks[0].values, blocks[0].rows, blocks[0].columns)]
    with pytest.raises(ValueError, match="every column in one block"):
        ts.NestedQR().init(from_blocks(twice, A.shape))


def test_zero_column_zero_right_hand_side_and_empty_block():
    A = grid_matrix((4,), 1, 2, 4)
    blocks = list(A.blocks())
    values = blocks[0].values.copy()
    values[:, 1] = 0.0
    blocks[0] = Block(values, blocks[0].rows, blocks[0].columns)
    blocks.append(Block(np.zeros((0, 2)), np.zeros(0, dtype=int), np.array([8, 9])))
    B = from_blocks(blocks, (A.shape[0], 10))
    b = np.random.default_rng(9).standard_normal(A.shape[0])
    x, residual = ts.NestedQR(leaf=2).init(B).solve(b)
    assert x[1] == 0.0
    assert np.all(x[8:] == 0)
    assert residual == pytest.approx(np.linalg.norm(B.to_dense() @ dense_solution(B, b) - b))
    zero, nothing = ts.NestedQR(leaf=2).init(B).solve(np.zeros(A.shape[0]))
    assert not zero.any()
    assert nothing == 0.0


def test_it_reaches_the_accuracy_lsqr_leaves_on_the_table():
    """Few rich subdomains, exactly solved: many digits beyond the paper's 1e-4."""
    solution = ts.gallery.get("harmonic-oscillator").solve(
        solver="nested-qr", settings={"features": 32, "sigma": 1e-10, "oversampling": 2.0}
    )
    assert solution.report.error["l1_normalised"] < 1e-9
    assert solution.report.solver == "nested-qr"
    assert solution.report.iterations == 0
    assert solution.report.error_oracle_minimum is None


def test_soft_condition_rows_take_part():
    def u(p):
        return np.sin(2 * p[:, 0]) * np.exp(p[:, 1])

    problem = ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1)),
        ts.Equation(-ts.Laplacian(), lambda p: 3 * u(p)),
        [ts.Dirichlet(u)],
        exact=u,
    )
    solution = ts.solve(problem, subdomains=3, features=40)
    assert solution.report.solver == "nested-qr"
    assert "direct:" in solution.report.solver_note
    assert solution.report.error["l2_relative"] < 1e-8


@pytest.mark.parametrize("leaf", [20, 400])
def test_the_answer_does_not_depend_on_the_tree(leaf):
    A = grid_matrix((6, 5), 1, 4, 8)
    b = np.random.default_rng(10).standard_normal(A.shape[0])
    x, _ = ts.NestedQR(leaf=leaf).init(A).solve(b)
    assert np.allclose(x, dense_solution(A, b), atol=1e-10)


@pytest.fixture
def pretended_gpu(monkeypatch):
    """Fronts on the device, which is the CPU here."""
    monkeypatch.setattr("tessella.linalg.direct.factorisation.GPU_COLUMNS", 1)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def test_fronts_on_the_device_give_the_same_answers(pretended_gpu):
    A = grid_matrix((4, 4), 1, 4, 9)
    b = np.random.default_rng(11).standard_normal(A.shape[0])
    made = ts.NestedQR(leaf=16).init(A)
    assert isinstance(made.factors, DeviceFactors)
    assert [front.level for front in made.plan.fronts] == [1, 1, 0]
    x, residual = made.solve(b)
    expected = dense_solution(A, b)
    assert np.allclose(x, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    assert residual == pytest.approx(np.linalg.norm(A.to_dense() @ expected - b))


def test_dependent_columns_are_found_on_the_device_too(pretended_gpu, monkeypatch):
    A = grid_matrix((4, 4), 1, 4, 9)
    (group,) = A.groups
    values = np.array(group.values)
    values[:, 3] = values[:, 0] + values[:, 1]
    A = BlockMatrix((group._replace(values=jax.numpy.asarray(values)),), A.shape)
    b = np.random.default_rng(14).standard_normal(A.shape[0])
    device = ts.NestedQR(leaf=16).init(A)
    x, residual = device.solve(b)
    monkeypatch.setattr("tessella.linalg.direct.factorisation.GPU_COLUMNS", 1000)
    host = ts.NestedQR(leaf=16).init(A)
    y, same = host.solve(b)
    assert device.dropped == host.dropped
    assert sum(device.dropped.values()) == 16
    assert residual == pytest.approx(same, rel=1e-10)
    assert np.allclose(A.matvec(x), A.matvec(y), atol=1e-9)


def test_fronts_with_fewer_rows_than_columns_on_the_device(pretended_gpu):
    A = grid_matrix((6,), 1, 3, 4, seed=3)
    B = np.random.default_rng(15).standard_normal((A.shape[0], 2))
    made = ts.NestedQR(leaf=3).init(A)
    assert (8, 9) in [front.shape for front in made.plan.fronts]
    x, residual = made.solve(B)
    expected = dense_solution(A, B)
    assert np.allclose(x, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    assert residual == pytest.approx(np.linalg.norm(A.to_dense() @ expected - B))


def test_padded_sizes_are_few_and_at_least_the_size():
    sizes = [padded_size(n) for n in range(1, 5000)]
    assert all(n <= size <= max(128, 1.125 * n + 128) for n, size in enumerate(sizes, 1))
    assert len(set(sizes)) <= 45
    assert sizes == sorted(sizes)


def test_lookup_and_scatter_give_the_same_product():
    A = grid_matrix((5, 4), 1, 3, 5)
    v = np.random.default_rng(12).standard_normal(A.shape[1])
    assert np.allclose(A.with_lookup().matvec(v), A.matvec(v), atol=1e-13)
    assert np.allclose(A.with_lookup().matvec(v), A.to_dense() @ v, atol=1e-13)
    u = np.random.default_rng(13).standard_normal(A.shape[0])
    assert np.allclose(A.with_lookup().rmatvec(u), A.to_dense().T @ u, atol=1e-13)
