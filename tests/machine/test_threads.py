"""BLAS threads are given back, whoever asked for one of them, and solves may run side by side."""

import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import tessella as ts
from tessella.machine import threads
from tessella.machine.threads import OutOfTimeError, in_parallel, single_threaded_blas, until

SOLVE = """
import tessella as ts
problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
print(float(ts.solve(problem, subdomains=7, features=31, solver="rrqr-lsqr")(0.5)[0]))
"""


def blas():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield blas()


def test_overlapping_limits_are_lifted_by_the_last(two_threads):
    steps = Barrier(2)

    def first():
        with single_threaded_blas():
            steps.wait(10)
            steps.wait(10)

    def second():
        steps.wait(10)
        with single_threaded_blas():
            steps.wait(10)
            first_is_over.result(10)
            assert set(blas()) == {1}

    with ThreadPoolExecutor(2) as pool:
        first_is_over = pool.submit(first)
        pool.submit(second).result(20)
    assert blas() == two_threads


def test_four_threads_solve_at_once(two_threads):
    def solve(n):
        line = ts.Box(x=(0, 1))
        problem = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0 * n), [ts.Dirichlet(0.0)])
        coupling = "interfaces" if n % 2 else "overlap"
        choices = {"subdomains": 3 + n, "features": 20, "coupling": coupling}
        return float(ts.solve(problem, **choices)(0.5)[0])

    numbers = [1, 2, 3, 4] * 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(solve, numbers))
    np.testing.assert_allclose(found, np.array(numbers) / 4, rtol=1e-6)
    assert blas() == two_threads


def test_two_processes_share_a_cache(tmp_path):
    shared = {**os.environ, "TESSELLA_CACHE": str(tmp_path), "JAX_COMPILATION_CACHE_DIR": ""}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SOLVE], env=shared, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in both:
        answer, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        assert float(answer) == pytest.approx(0.25, rel=1e-6)
    assert any(tmp_path.rglob("*"))


@pytest.mark.parametrize("flops", [0.0, float("inf")])
def test_results_come_in_order(flops):
    assert in_parallel(lambda i: i * i, range(10), flops) == [i * i for i in range(10)]


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("flops", [0.0, float("inf")])
def test_nothing_is_begun_when_time_is_over(monkeypatch, cores, flops):
    monkeypatch.setattr(threads, "CORES", cores)
    done = []
    with pytest.raises(OutOfTimeError), until(time.perf_counter() - 1.0):
        in_parallel(done.append, range(10), flops)
    assert not done
    in_parallel(done.append, range(10), flops)
    assert len(done) == 10


def test_who_is_helped_may_ask_for_help_himself(monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)

    def outer(i):
        return sum(in_parallel(lambda k: 10 * i + k, range(5)))

    assert in_parallel(outer, range(8)) == [50 * i + 10 for i in range(8)]


@pytest.mark.parametrize("bad", [0, 1, 5])
def test_an_error_of_any_thread_ends_the_others_after_what_they_are_at(monkeypatch, bad):
    monkeypatch.setattr(threads, "CORES", 2)
    begun, ended = [], []

    def work(i):
        begun.append(i)
        if i == bad:
            raise ValueError(f"number {i}")
        time.sleep(0.01)
        ended.append(i)

    with pytest.raises(ValueError, match=f"number {bad}"):
        in_parallel(work, range(200))
    assert len(begun) < 20
    assert sorted(begun) == sorted([*ended, bad])


def test_nothing_that_a_helper_raises_is_lost(monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)
    meet, me = Barrier(2), threading.get_ident()

    def leave(_):
        meet.wait(10)
        if threading.get_ident() != me:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        in_parallel(leave, range(2))


def test_helpers_stay_for_the_next_call(monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)
    monkeypatch.setattr(threads, "_helpers", cache(lambda: ThreadPoolExecutor(1)))

    def names():
        meet = Barrier(2)

        def name(_):
            meet.wait(10)
            return threading.current_thread().ident

        return set(in_parallel(name, range(2)))

    first = names()
    assert len(first) == 2 and threading.get_ident() in first
    assert names() == first


def test_helpers_compute_as_the_caller_does(monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)
    meet = Barrier(2)

    def divided(_):
        meet.wait(10)
        return np.geterr()["divide"]

    with np.errstate(divide="raise"):
        assert in_parallel(divided, range(2)) == ["raise", "raise"]


def test_of_several_errors_the_first_item_s_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)
    meet = Barrier(2)

    def fail(i):
        meet.wait(10)
        time.sleep(0.02 * (1 - i))
        raise ValueError(f"number {i}")

    with pytest.raises(ValueError, match="number 0"):
        in_parallel(fail, range(2))


def test_without_a_thread_to_be_had_the_caller_does_all(monkeypatch):
    """As at the end of the interpreter, or where processes may not have more."""
    monkeypatch.setattr(threads, "CORES", 2)
    over = ThreadPoolExecutor(1)
    over.shutdown()
    monkeypatch.setattr(threads, "_helpers", lambda: over)
    assert in_parallel(lambda i: i * i, range(5)) == [0, 1, 4, 9, 16]


def test_a_forked_process_has_helpers_of_its_own(monkeypatch):
    monkeypatch.setattr(threads, "CORES", 2)
    in_parallel(lambda i: time.sleep(0.01), range(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forking with threads is what is tried
        child = os.fork()
    if not child:
        failed = 1
        try:
            meet = Barrier(2)
            in_parallel(lambda _: meet.wait(10), range(2))
            failed = 0
        finally:
            os._exit(failed)
    assert os.waitpid(child, 0)[1] == 0
