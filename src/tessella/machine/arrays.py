"""NumPy and JAX side by side: formulas written once for both, and the way from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def namespace(x: Any) -> Any:
    """`numpy` for its arrays and plain numbers, else `jax.numpy`."""
    return np if isinstance(x, np.ndarray | np.generic | float | int) else jnp


def on_device(x: Any) -> jax.Array:
    """A NumPy array where JAX computes; on a CPU both may share memory, so it is not to be changed.

    Unlike `jnp.asarray`, which compiles a program for every new shape, it compiles nothing.
    """
    return jax.device_put(x)


_HOST: ContextVar[bool] = ContextVar("host", default=False)


def backend() -> str:
    """Where JAX computes: "cpu", "gpu", ..."""
    return "cpu" if _HOST.get() else jax.default_backend()


def device() -> Any:
    """Of those, the one where arrays go."""
    return jax.devices("cpu")[0] if _HOST.get() else jax.devices()[0]


@contextmanager
def on_the_cpu(wanted: bool) -> Iterator[None]:
    """Inside, JAX computes on the CPU although there is a GPU; or, not wanted, on the GPU again."""
    if jax.default_backend() == "cpu":
        yield
        return
    token = _HOST.set(wanted)
    try:
        with jax.default_device(device()):
            yield
    finally:
        _HOST.reset(token)


def on_host(*arrays: Any) -> bool:
    """Whether these are plain numbers in the CPU's memory: none is traced, and no GPU is used."""
    traced = any(isinstance(x, jax.core.Tracer) for x in arrays)
    return not traced and backend() == "cpu"


def some(x: jax.Array, which: slice | np.ndarray) -> jax.Array:
    """x[which], compiling nothing on a CPU."""
    return on_device(np.asarray(x)[which]) if on_host(x) else x[which]


def leading(x: Any, count: int) -> Any:
    """x[:count], of either kind."""
    if isinstance(x, np.ndarray):
        return x[:count]
    return x if count == len(x) else some(x, slice(count))
