"""What is faster where, asked in one place."""

import os
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


def test_arrays_go_to_a_device_of_this_process(monkeypatch):
    """`jax.distributed` shows those of all, the ones of its process 0 first."""
    monkeypatch.setattr(jax, "devices", lambda *_: ["of another process"])
    assert device.device() in jax.local_devices()


@pytest.fixture
def gpus(monkeypatch):
    """What processes do to JAX and to the environment is undone."""
    before = jax.config.read("jax_cuda_visible_devices")
    for name in (device.SEEN, *device.PARTS):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield monkeypatch
    jax.config.update("jax_cuda_visible_devices", before)


@pytest.mark.parametrize(
    ("place", "number", "count", "taken", "part"),
    [
        (2, 4, 4, "2", None),
        (1, 2, 8, "1", None),
        (5, 8, 4, "1", "0.375"),
        (4, 5, 4, "0", "0.375"),
        (3, 5, 4, "3", None),
        (1, 3, 1, "all", "0.250"),
        (1, 3, 0, "all", None),
        (0, 1, 8, "all", None),
    ],
)
def test_processes_of_a_machine_share_its_gpus_out(place, number, count, taken, part, gpus):
    device.take_gpu(place, number, count)
    assert jax.config.read("jax_cuda_visible_devices") == taken
    assert os.environ.get(device.PARTS[0]) == part


def test_what_was_said_of_gpus_by_hand_stays(gpus):
    jax.config.update("jax_cuda_visible_devices", "3")
    gpus.setenv(device.PARTS[1], "0.2")
    device.take_gpu(1, 8, 4)
    assert jax.config.read("jax_cuda_visible_devices") == "3"
    assert device.PARTS[0] not in os.environ


def test_a_single_gpu_is_known_by_the_file_that_may_be_opened(tmp_path):
    """A launcher may show every process its own one as the first."""
    (tmp_path / "nvidia0").symlink_to(tmp_path / "nothing")
    (tmp_path / "nvidia1").touch()
    assert device.named_gpus(["0"], tmp_path) == "0,nvidia1"
    assert device.named_gpus(["0", "1"], tmp_path) == "0,1"
    assert device.named_gpus([], tmp_path) == ""


def test_gpus_are_those_of_the_machine_or_those_it_was_given(gpus, tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert device.visible_gpus(tmp_path) == ["nvidia0", "nvidia1"]
    for said, seen in (("4,6", ["4", "6"]), ("GPU-1234", ["GPU-1234"]), ("", [])):
        gpus.setenv(device.SEEN, said)
        assert device.visible_gpus(tmp_path) == seen
