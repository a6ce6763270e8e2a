"""Compiled programs survive the process, in a folder of choice; few of them stay in memory."""

import gc
import os
import subprocess
import sys
import weakref

import jax
import numpy as np
import pytest

import tessella as ts
from tessella.machine.compiled import compiled, keep_compiled

SOLVE = """
import jax
compiled = []
jax.monitoring.register_event_listener(lambda name, **_: compiled.append(name))
import tessella as ts
problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(ts.D(x=2), 1.0), [ts.Dirichlet()])
ts.solve(problem, subdomains=3, features=7, solver="rrqr-lsqr")
print(compiled.count("/jax/compilation_cache/cache_hits"), jax.config.jax_compilation_cache_dir)
"""


def run(cache):
    """Programs found in the cache, and the cache's folder, in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "TESSELLA_"))}
    found = subprocess.run(
        [sys.executable, "-c", SOLVE],
        env={**kept, "TESSELLA_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    count, folder = found.stdout.split()
    return int(count), folder


def test_a_second_process_finds_the_first_ones_programs(tmp_path):
    first, folder = run(tmp_path)
    again, _ = run(tmp_path)
    assert folder.startswith(str(tmp_path))
    assert again > first


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where a cache would be, and how JAX is told of one, as if nothing had been set."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TESSELLA_CACHE", raising=False)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_cache_is_at_home(home):
    assert keep_compiled().parent == home / "tessella"
    assert jax.config.jax_compilation_cache_dir == os.environ["JAX_COMPILATION_CACHE_DIR"]


def test_a_folder_set_for_jax_is_left_alone(home):
    jax.config.update("jax_compilation_cache_dir", "own")
    assert keep_compiled() is None
    assert jax.config.jax_compilation_cache_dir == "own"


def test_the_cache_can_be_switched_off(home, monkeypatch):
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    assert keep_compiled() is None
    assert jax.config.jax_compilation_cache_dir is None
    assert not list(home.iterdir())


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_a_small_direct_solve_compiles_nothing(coupling, compilations):
    square = ts.Box(x=(0, 1), y=(0, 1))
    problem = ts.Problem(square, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet()])
    before = compilations()
    solution = ts.solve(problem, subdomains=2, features=23, coupling=coupling)
    solution(square.grid((5, 5)))
    assert compilations() == before


def test_only_the_programs_used_last_are_kept(compilations):
    traced = []

    @compiled(2)
    def double(x):
        traced.append(x.shape)
        return 2 * x

    for size in (1, 2, 1, 3):  # 3 takes the place of 2, which was used before 1
        np.testing.assert_array_equal(double(np.ones(size)), 2 * np.ones(size))
    assert traced == [(1,), (2,), (3,)]
    before = compilations()
    double(np.ones(1))
    double(np.ones(3))
    assert compilations() == before
    double(np.ones(2))
    assert traced == [(1,), (2,), (3,), (2,)]


def test_static_arguments_and_numbers_in_a_bounded_program():
    @compiled(4, static=(0,))
    def power(order, x, factor):
        return factor * x**order

    assert [float(power(n, np.float64(3.0), f)) for n, f in ((1, 2), (2, 2), (2, 0.5))] == [
        6.0,
        18.0,
        4.5,
    ]


def test_forgotten_programs_are_freed():
    class Sentinel:
        """Held by what is traced, as long as that lives."""

    held = weakref.WeakSet()

    @compiled(1)
    def marked(x):
        mark = Sentinel()
        held.add(mark)
        return jax.pure_callback(lambda y, mark=mark: y, x, x)

    for size in range(1, 6):
        marked(np.ones(size)).block_until_ready()
    gc.collect()
    assert len(held) == 1
