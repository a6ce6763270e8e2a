"""NumPy and JAX side by side: formulas written once for both, and the way from one to the other."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.machine.device import on_host

Array = NDArray[np.float64]
AnyArray = Array | jax.Array
"""What formulas written once for both take and make."""


def namespace(x: AnyArray | np.generic | float) -> ModuleType:
    """`numpy` for its arrays and plain numbers, else `jax.numpy`."""
    return np if isinstance(x, np.ndarray | np.generic | float | int) else jnp


def on_device(x: np.ndarray | jax.Array | float) -> jax.Array:
    """A NumPy array where JAX computes; on a CPU both may share memory, so it is not to be changed.

    Unlike `jnp.asarray`, which compiles a program for every new shape, it compiles nothing.
    """
    return jax.device_put(x)


def added(terms: Iterable[AnyArray]) -> AnyArray:
    """The sum of at least one."""
    return reduce(operator.add, terms)


def some(x: jax.Array, which: slice | np.ndarray) -> jax.Array:
    """x[which], compiling nothing on a CPU."""
    return on_device(np.asarray(x)[which]) if on_host(x) else x[which]


def leading(x: AnyArray, count: int) -> AnyArray:
    """x[:count], of either kind."""
    if isinstance(x, np.ndarray):
        return x[:count]
    return x if count == len(x) else some(x, slice(count))
