"""Dense QR of one front: Householder form by LAPACK, or an explicit Q on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import lapack

from tessella.domain import Array

GPU_COLUMNS = 192
"""Fronts of at least this many columns are worth the transfer to a GPU."""

STEP = 128
"""GPU fronts are padded with zeros to multiples of this, so that few shapes are compiled."""


@dataclass(frozen=True)
class Householder:
    """F = Q R with Q as LAPACK's reflectors; `qr` holds R in its upper triangle."""

    qr: Array
    tau: Array

    def transpose_times(self, c: Array) -> tuple[Array, float]:
        """The part of Q^T c along Q's columns, and the squared norm of the rest of c."""
        size = len(self.tau)
        if size == 0 or c.shape[1] == 0:
            return c[:size], float(np.sum(c[size:] ** 2))
        out = apply_transpose(self.qr[:, :size], self.tau, c)
        return out[:size], float(np.sum(out[size:] ** 2))


@dataclass(frozen=True)
class Explicit:
    """F = Q R with the columns of Q stored on the device, padded."""

    Q: jax.Array
    rows: int
    size: int

    def transpose_times(self, c: Array) -> tuple[Array, float]:
        padded = np.zeros((self.Q.shape[0], c.shape[1]))
        padded[: self.rows] = c
        along, rest = _project(self.Q, padded)
        return np.array(along[: self.size]), float(rest)


DenseQR = Householder | Explicit


@jax.jit
def _project(Q: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    along = Q.T @ c
    return along, jnp.sum((c - Q @ along) ** 2)


@jax.jit
def _device_qr(F: jax.Array) -> tuple[jax.Array, jax.Array]:
    Q, R = jnp.linalg.qr(F)
    return Q, R


def factor(F: Array) -> tuple[DenseQR, Array]:
    """(Q, R) of a front, with R of shape (min(m, n), n); F is overwritten."""
    m, n = F.shape
    size = min(m, n)
    if size == 0:
        return Householder(F, np.zeros(0)), np.zeros((0, n))
    if n >= GPU_COLUMNS and m >= n and jax.default_backend() == "gpu":
        rows, columns = (-(-k // STEP) * STEP for k in F.shape)
        padded = np.zeros((rows, columns))
        padded[:m, :n] = F
        Q, R = _device_qr(padded)
        return Explicit(Q[:, :n], m, n), np.asfortranarray(R[:n, :n])
    qr, tau, _, info = lapack.dgeqrf(F, lwork=64 * n, overwrite_a=1)
    assert info == 0
    return Householder(qr, tau), qr[:size]


def apply_transpose(qr: Array, tau: Array, c: Array) -> Array:
    """Q^T c for a Q in Householder form."""
    if c.shape[1] == 0 or not len(tau):
        return c
    out, _, info = lapack.dormqr("L", "T", qr, tau, np.asfortranarray(c), 64 * max(c.shape))
    assert info == 0
    return out
