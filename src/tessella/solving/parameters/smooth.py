"""Fields in many functions: how large, how smooth, and which functions occur, as data tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from tessella.machine.arrays import Array

DETERMINED = 1e-12
"""Singular values below this part of the largest say nothing about theta."""

DECAYS = (2.0, 32.0)
"""m of a field, from rough to Gaussian."""


@dataclass(frozen=True, eq=False)
class Smooth:
    """Expected of coefficients: the higher the wavenumber, the smaller, and many may be none.

    wavenumbers  of the functions that the coefficients belong to, in the order of the parameters:
                 j pi / width of sin(j pi x / width), of products the root of the sum of squares.
                 The functions should be of about the same size

    The coefficient of wavenumber k is zero, or normal with variance s^2 / (1 + (l k)^2 / 2 m)^m: a
    field of length l that is the smoother the larger m, in the limit exp(-(l k)^2 / 2). Nothing
    of that is yours to choose: s, l, m and which coefficients occur are averaged over, as likely as
    the data make them. Where few functions are enough, few are taken; where the data do not say,
    the field is smooth, and no function is missed that occurs.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import tessella as ts
    >>> k = np.pi * np.arange(1, 9)
    >>> def problem_of(theta):
    ...     load = ts.Equation(-ts.D(x=2), lambda p: jnp.sin(p[:, :1] * k) @ theta)
    ...     return ts.Problem(ts.Box(x=(0, 1)), load, [ts.Dirichlet(0.0)])
    >>> x = np.linspace(0.05, 0.95, 40)
    >>> noisy = np.sin(np.pi * x) + 0.05 * np.random.default_rng(0).standard_normal(40)
    >>> found = ts.identify(problem_of, (x, noisy), np.zeros(8), noise=0.05,
    ...     regularisation=ts.Smooth(k), subdomains=2, features=20, coupling="interfaces")
    >>> print(f"{found.values[0]:.1f} for {np.pi**2:.1f}, of {found.fields['theta'].of} functions")
    9.8 for 9.9, of 8 functions
    """

    wavenumbers: ArrayLike

    def __post_init__(self) -> None:
        k = np.array(self.wavenumbers, dtype=np.float64).ravel()
        if not (len(k) and np.all(np.isfinite(k)) and np.all(k >= 0)):
            raise ValueError(
                f"wavenumbers must be numbers that are not negative, got {self.wavenumbers!r}"
            )
        object.__setattr__(self, "wavenumbers", k)

    def __repr__(self) -> str:
        return f"Smooth({len(np.asarray(self.wavenumbers))} wavenumbers)"

    @property
    def ranges(self) -> Array:
        """Of the logarithms of length and decay: from what the finest function can show to half a
        wave of the coarsest."""
        k = np.asarray(self.wavenumbers)
        known = k[k > 0] if np.any(k > 0) else np.ones(1)
        return np.log([[0.5 / known.max(), np.pi / known.min()], list(DECAYS)])

    def deviations(self, size: float, length: float, decay: float) -> Array:
        """Standard deviations of the coefficients; `size` is that of the coarsest."""
        k = np.asarray(self.wavenumbers)
        fall = np.log1p((length * k) ** 2 / (2 * decay))
        return np.asarray(size * np.exp(-decay / 2 * (fall - fall.min())))


class Part(NamedTuple):
    """An array of theta, and what is expected of its numbers: smoothness, or their weights."""

    name: str
    expected: Smooth | Array
    size: int


def parts_of(theta: Any) -> list[tuple[str, Any]]:
    """Its arrays and their names."""
    return [
        ("".join(str(getattr(k, "key", getattr(k, "idx", k))) for k in path) or "theta", leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(theta)[0]
    ]


def by_parts(given: Any, start: Any) -> tuple[list[Part], Any]:
    """What is expected of theta part by part, if any of it is smooth; and weights to begin with."""
    smooth = any(isinstance(own, Smooth) for own in jax.tree_util.tree_leaves(given))
    if not (smooth or isinstance(given, dict)):
        return [], given
    try:
        structure: Any = jax.tree_util.tree_structure(start)
        expected = structure.flatten_up_to(given)
    except ValueError:
        raise ValueError(
            f"regularisation must have a part for each of start ("
            f"{', '.join(name for name, _ in parts_of(start))}), 0 for none, got {given!r}"
        ) from None
    parts = [
        _part(name, own, int(np.size(leaf)))
        for (name, leaf), own in zip(parts_of(start), expected, strict=True)
    ]
    weights = [
        np.ones(own.size) if isinstance(own.expected, Smooth) else own.expected for own in parts
    ]
    return parts if smooth else [], np.concatenate(weights)


def _part(name: str, given: Any, size: int) -> Part:
    if isinstance(given, Smooth):
        count = len(np.asarray(given.wavenumbers))
        if count != size:
            raise ValueError(
                f"regularisation of {name} has {count} wavenumbers for {size} parameters: give one "
                f"for each"
            )
        return Part(name, given, size)
    weights = np.asarray(given, dtype=np.float64).ravel()
    if len(weights) not in (1, size) or not np.all(np.isfinite(weights) & (weights >= 0)):
        raise ValueError(
            f"regularisation of {name} must be Smooth, or weights that are not negative, one or "
            f"{size}, got {given!r}"
        )
    return Part(name, np.broadcast_to(weights, size), size)


def rows_of(given: Any, p: int) -> Array:
    """Rows of the regularisation, (m, p), as many as are independent."""
    if given is None:
        return np.zeros((0, p))
    found = np.asarray(given, dtype=np.float64)
    found = np.diag(np.broadcast_to(found, p)) if found.ndim < 2 and found.size in (1, p) else found
    if found.ndim != 2 or found.shape[1] != p or not np.all(np.isfinite(found)):
        raise ValueError(
            f"regularisation must be a number, {p} numbers or a matrix (m, {p}), got shape "
            f"{np.shape(given)}"
        )
    _, s, V = np.linalg.svd(found, full_matrices=False)
    return np.asarray((s[:, None] * V)[s > DETERMINED * np.max(s, initial=0.0)])
