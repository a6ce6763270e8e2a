"""The while loop and the loop of fixed length make the same iterations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.linalg.iterative import loops
from tessella.linalg.iterative.iteration import Stop
from tessella.linalg.iterative.normal_equations import CG
from tessella.machine.device import PREFERENCES, Preferences

M, N = 60, 24


def distance(target, y):
    return jnp.linalg.norm(y - target)


@pytest.fixture(scope="module")
def system(column_blocks):
    random = np.random.default_rng(5)
    dense = random.standard_normal((M, N)) @ np.diag(np.geomspace(1, 1e-3, N))
    b = random.standard_normal(M)
    return column_blocks(dense, 2), dense, b


def both(monkeypatch, solver, A, b, **hooks):
    results = []
    for blind in (False, True):
        monkeypatch.setitem(PREFERENCES, "cpu", Preferences(numpy=True, blind=blind))
        results.append(solver.solve(solver.init(A), b, **hooks))
    return results


def same(one, other):
    assert (one.iterations, one.stop) == (other.iterations, other.stop)
    # Compiled in other company, sums may be rounded otherwise; iterations multiply that.
    for a, b in zip(vars(one.history).values(), vars(other.history).values(), strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_allclose(a[:10], b[:10], rtol=1e-11)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-6 * np.abs(one.x).max())


@pytest.mark.parametrize("kind", [ts.LSQR, CG])
def test_stopping_tests_end_both_at_once(monkeypatch, system, kind):
    A, _, b = system
    one, other = both(monkeypatch, kind(atol=1e-5), A, b)
    assert one.stop == Stop.OPTIMUM
    assert one.iterations % loops.CHUNK
    same(one, other)


@pytest.mark.parametrize("limit", [1, 99, 100, 130])
def test_limits_inside_and_at_the_end_of_a_chunk(monkeypatch, system, limit):
    A, _, b = system
    one, other = both(monkeypatch, ts.LSQR(max_iterations=limit, atol=0, btol=0), A, b)
    assert one.iterations == limit
    same(one, other)


@pytest.mark.parametrize("track_every", [1, 7, 150])
def test_errors_are_measured_at_the_same_iterations(monkeypatch, system, track_every):
    A, dense, b = system
    monitor = jax.tree_util.Partial(distance, jnp.asarray(np.linalg.lstsq(dense, b, rcond=None)[0]))
    solver = ts.LSQR(max_iterations=120, atol=0, btol=0, track_every=track_every)
    one, other = both(monkeypatch, solver, A, b, monitor=monitor)
    assert np.isfinite(one.history.error).sum() >= loops.FIRST
    same(one, other)
    assert one.rule[0] == other.rule[0]


def test_a_breakdown_ends_both_with_the_last_finite_iterate(monkeypatch, system, column_blocks):
    _, dense, b = system
    for result in both(monkeypatch, ts.LSQR(), column_blocks(1e200 * dense, 2), b):
        assert result.stop == Stop.NOT_FINITE
        left = 1e200 * dense @ np.asarray(result.x) - b
        assert result.residual_norm == pytest.approx(np.linalg.norm(left))


def test_progress_comes_once_per_chunk(monkeypatch, system):
    A, _, b = system
    seen = []
    solver = ts.LSQR(max_iterations=250, atol=0, btol=0)
    both(monkeypatch, solver, A, b, progress=lambda done, *_: seen.append(done))
    assert seen == 2 * [100, 200, 250]


def test_no_predicate_leaves_the_device(system):
    """The fixed loop compiles to loops of known length and no branches."""
    A, _, b = system
    start = ts.LSQR._begin(A, jnp.asarray(b))
    tests = loops.Tests(1.0, 1e-10, 1e-12, False)
    recurrence = loops.Recurrence(ts.LSQR._step, A, None, tests, 10)
    run = (recurrence, start, 0, 100)
    texts = (
        jax.jit(loops._until.__wrapped__).lower(*run).compile().as_text(),
        jax.jit(loops._fixed.__wrapped__, static_argnums=0)
        .lower(loops.CHUNK, *run)
        .compile()
        .as_text(),
    )
    for text, known in zip(texts, (False, True), strict=True):
        assert ("known_trip_count" in text) == known
        assert "conditional(" not in text
