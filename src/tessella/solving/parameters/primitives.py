"""What JAX knows of u(theta): a value that is computed on the host, and both its derivatives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tessella.machine.arrays import Array

if TYPE_CHECKING:
    from tessella.solving.parameters.parametric import Parametric

value_p = Primitive("tessella_value")
"""theta -> u; computed on the host, where JAX does not look."""

derivative_p = Primitive("tessella_derivative")
"""(theta, v) -> J v, or J^T v if `back`; v may be several, (..., p), and so is what it returns."""


def _ends(own: Parametric, theta: Any, back: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of one v and of what becomes of it."""
    return (own.shape, theta.shape) if back else (theta.shape, own.shape)


def _on_host(theta: Any, v: Any, *, own: Parametric, back: bool) -> Array:
    v = np.asarray(v)
    into, out = _ends(own, theta, back)
    several = v.reshape(-1, *into)
    made = (own.gradients if back else own.tangents)(np.asarray(theta), several)
    return made.reshape(*v.shape[: v.ndim - len(into)], *out)


def _shaped(theta: Any, v: Any, *, own: Parametric, back: bool) -> Any:
    into, out = _ends(own, theta, back)
    return jax.core.ShapedArray((*v.shape[: v.ndim - len(into)], *out), jnp.dtype(jnp.float64))


def _lowered(theta: Any, v: Any, *, own: Parametric, back: bool) -> Any:
    shape = _shaped(theta, v, own=own, back=back)
    result = jax.ShapeDtypeStruct(shape.shape, shape.dtype)
    call = partial(_on_host, own=own, back=back)
    return jax.pure_callback(call, result, theta, v, vmap_method="sequential")


def _jvp(primals: Any, tangents: Any, *, own: Parametric, back: bool) -> Any:
    (theta, v), (theta_dot, v_dot) = primals, tangents
    if type(theta_dot) is not ad.Zero:
        raise NotImplementedError(
            "u(theta) has first derivatives only: for second ones take differences of gradients"
        )
    made = derivative_p.bind(theta, v, own=own, back=back)
    if type(v_dot) is ad.Zero:
        return made, jnp.zeros_like(made)
    return made, derivative_p.bind(theta, v_dot, own=own, back=back)


def _transpose(cotangent: Any, theta: Any, v: Any, *, own: Parametric, back: bool) -> Any:
    if type(cotangent) is ad.Zero:
        return None, ad.Zero(v.aval)
    return None, derivative_p.bind(theta, cotangent, own=own, back=not back)


def _batch(arguments: Any, axes: Any, *, own: Parametric, back: bool) -> Any:
    (theta, v), (theta_axis, v_axis) = arguments, axes
    bind = partial(derivative_p.bind, own=own, back=back)
    if theta_axis is None:
        return bind(theta, jnp.moveaxis(v, v_axis, 0)), 0
    theta = jnp.moveaxis(theta, theta_axis, 0)
    if v_axis is None:
        return jax.lax.map(lambda one: bind(one, v), theta), 0
    return jax.lax.map(lambda pair: bind(*pair), (theta, jnp.moveaxis(v, v_axis, 0))), 0


def _value_lowered(theta: Any, *, own: Parametric) -> Any:
    result = jax.ShapeDtypeStruct(own.shape, jnp.float64)
    return jax.pure_callback(own.value, result, theta, vmap_method="sequential")


def _value_jvp(primals: Any, tangents: Any, *, own: Parametric) -> Any:
    ((theta,), (direction,)) = primals, tangents
    made = value_p.bind(theta, own=own)
    if type(direction) is ad.Zero:
        return made, jnp.zeros_like(made)
    return made, derivative_p.bind(theta, direction, own=own, back=False)


def _value_batch(arguments: Any, axes: Any, *, own: Parametric) -> Any:
    theta = jnp.moveaxis(arguments[0], axes[0], 0)
    return jax.lax.map(lambda one: value_p.bind(one, own=own), theta), 0


value_p.def_impl(lambda theta, *, own: jnp.asarray(own.value(theta)))
value_p.def_abstract_eval(
    lambda theta, *, own: jax.core.ShapedArray(own.shape, jnp.dtype(jnp.float64))
)
ad.primitive_jvps[value_p] = _value_jvp
batching.primitive_batchers[value_p] = _value_batch
mlir.register_lowering(value_p, mlir.lower_fun(_value_lowered, multiple_results=False))

derivative_p.def_impl(lambda *given, **how: jnp.asarray(_on_host(*given, **how)))
derivative_p.def_abstract_eval(_shaped)
ad.primitive_jvps[derivative_p] = _jvp
ad.primitive_transposes[derivative_p] = _transpose
batching.primitive_batchers[derivative_p] = _batch
mlir.register_lowering(derivative_p, mlir.lower_fun(_lowered, multiple_results=False))
