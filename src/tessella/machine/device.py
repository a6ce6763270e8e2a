"""Where we compute, and what is faster there: every question about the device is answered here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import jax


@dataclass(frozen=True)
class Preferences:
    """What is faster on a kind of device; the results are the same up to rounding.

    numpy    plain numbers by NumPy, which compiles nothing
    batches  many small matrices factored at once, rather than by LAPACK one after the other
    lookups  sums by looking their terms up: no atomic additions, the same result every time
    blind    loops of fixed length: the host need not read a stopping test back every time
    heights  most padded heights of blocks: each costs kernels, fewer cost padding
    """

    numpy: bool = False
    batches: bool = False
    lookups: bool = False
    blind: bool = False
    heights: int = 3


PREFERENCES = {
    "cpu": Preferences(numpy=True),
    "gpu": Preferences(batches=True, lookups=True, blind=True, heights=1),
}
"""By JAX's name of the kind of device."""

_HOST: ContextVar[bool] = ContextVar("host", default=False)
_LENT: ContextVar[bool] = ContextVar("lent", default=False)


def preferred() -> Preferences:
    """What is faster where JAX computes now."""
    kind = "cpu" if _HOST.get() else jax.default_backend()
    return PREFERENCES.get(kind, Preferences())


def has_gpu() -> bool:
    """Whether this process has one, used or not."""
    return PREFERENCES.get(jax.default_backend(), Preferences()).batches


def accelerated() -> bool:
    """Whether large batches may go to a GPU: there is one, and it is used or at least lent."""
    return has_gpu() and (_LENT.get() or not _HOST.get())


def on_host(*arrays: object) -> bool:
    """Whether NumPy is preferred for these: none is traced by JAX, and no GPU is used."""
    return preferred().numpy and not any(isinstance(x, jax.core.Tracer) for x in arrays)


def device() -> jax.Device:
    """Where arrays go: to a device of this process, of several that JAX has joined too."""
    return jax.local_devices(backend="cpu" if _HOST.get() else None)[0]


def devices() -> list[jax.Device]:
    """Those of this process that may share what is large."""
    return [device()] if _HOST.get() else jax.local_devices()


@contextmanager
def on_the_cpu(wanted: bool, lent: bool = False) -> Iterator[None]:
    """Inside, JAX computes on the CPU although there is a GPU; or, not wanted, on the GPU again. A
    GPU that is `lent` may still be given large batches."""
    if jax.default_backend() == "cpu":
        yield
        return
    tokens = (_HOST, _HOST.set(wanted)), (_LENT, _LENT.set(lent))
    try:
        with jax.default_device(device()):
            yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


# --- several processes


SEEN = "CUDA_VISIBLE_DEVICES"
"""The GPUs that a process may use, if not all of its machine."""

PARTS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
"""How much of a GPU's memory JAX takes, under its new name and its old one."""

TAKEN = 0.75
"""What it takes if nothing is said."""


def visible_gpus(devices: Path = Path("/dev")) -> list[str]:
    """The names of those that this process may use, found without waking any of them."""
    if SEEN in os.environ:
        return [name for name in os.environ[SEEN].split(",") if name.strip()]
    return sorted(x.name for x in devices.glob("nvidia[0-9]*"))


def named_gpus(names: list[str], devices: Path = Path("/dev")) -> str:
    """What to call those of a process. A single one may be another one than that of the same name
    elsewhere on the machine, if only its own file may be opened."""
    files = sorted(devices.glob("nvidia[0-9]*")) if len(names) == 1 else []
    return ",".join([*names, *(file.name for file in files if _opens(file))])


def _opens(file: Path) -> bool:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def take_gpu(place: int, number: int, count: int) -> None:
    """Of so many GPUs, use the one that is due to this of so many processes that see the same ones;
    of one that several use each takes its part of the memory. What was set by hand stays, and it is
    too late once JAX has been used."""
    if not count or number == 1:
        return
    if count > 1 and jax.config.read("jax_cuda_visible_devices") == "all":
        jax.config.update("jax_cuda_visible_devices", str(place % count))
    sharing = len(range(place % count, number, count))
    if sharing > 1 and not any(name in os.environ for name in PARTS):
        os.environ[PARTS[0]] = f"{TAKEN / sharing:.3f}"
