"""Work in parts: in order, on all cores, and no longer than there is time."""

import time

import pytest

from tessella.machine import threads
from tessella.machine.threads import OutOfTimeError, in_parallel, until


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
