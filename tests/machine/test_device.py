"""What is faster where, asked in one place."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

import tessella
from tessella.linalg.block_kernels import bucket
from tessella.machine import device

SOURCE = Path(tessella.__file__).parent


def test_only_the_machine_asks_jax_for_its_devices():
    asks = re.compile(r"default_backend|jax\.devices|local_devices|\.platform\b")
    asking = [path for path in SOURCE.rglob("*.py") if asks.search(path.read_text())]
    assert {path.parent.name for path in asking} == {"machine"}


def test_plain_numbers_are_numpys_and_traced_ones_are_not():
    assert device.on_host(np.ones(2), jax.device_put(np.ones(2)))
    seen = []

    @jax.jit
    def traced(x):
        seen.append(device.on_host(np.ones(2), x))
        return x

    traced(np.ones(3))
    assert seen == [False]


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_an_accelerator_does_without_numpy(kind, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: kind)
    assert not device.on_host(np.ones(2))
    assert device.preferred().batches == (kind == "gpu")


def test_a_solve_on_the_cpu_beside_a_gpu_has_the_cpus_preferences(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with device.on_the_cpu(True):
        assert device.preferred() == device.PREFERENCES["cpu"]
        assert device.device().platform == "cpu"
        with device.on_the_cpu(False):
            assert device.preferred() == device.PREFERENCES["gpu"]
        assert device.on_host()
    assert device.preferred() == device.PREFERENCES["gpu"]


def test_a_gpu_that_is_lent_takes_large_batches_only(monkeypatch):
    assert not device.accelerated()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert device.accelerated()
    with device.on_the_cpu(True):
        assert not device.accelerated()
    with device.on_the_cpu(True, lent=True):
        assert device.accelerated()
        assert device.preferred() == device.PREFERENCES["cpu"]
        with device.on_the_cpu(True):
            assert not device.accelerated()
    assert device.preferred() == device.PREFERENCES["gpu"]


def test_blocks_are_padded_to_as_many_heights_as_the_device_prefers(monkeypatch):
    heights = np.repeat([1_000, 2_000, 4_000, 8_000], 100)
    assert len(np.unique(bucket(heights, 100))) == 3
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert np.all(bucket(heights, 100) == 8_000)
