"""Block Arnoldi: the eigenvalues of largest modulus of a linear map that can only be applied.

A block of vectors at a time, so that an eigenvalue whose multiplicity is at most the block's width
shows all its eigenvectors at once, and so that the map is applied to several vectors together.
Nothing is restarted: what is asked for is some ten eigenvalues of inverses of differential
operators, which a few hundred vectors hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from tessella.machine.arrays import Array

TINY = 1e-14
"""What is left of a vector beside the others, in parts of it, below which it is nothing new."""


class Ritz(NamedTuple):
    """Eigenvalues, largest modulus first, their vectors (n, count), and relative residuals.

    Eigenvalues closer together than `together` count as equal: their vectors are orthonormal, and
    all are real if their imaginary parts are as small.
    """

    values: np.ndarray
    vectors: np.ndarray
    residual: Array
    applied: int


def largest(
    apply: Callable[[Array], Array],
    size: int,
    count: int,
    *,
    block: int = 4,
    tolerance: float = 1e-13,
    together: float = 1e-7,
    most: int = 600,
    seed: int = 0,
) -> Ritz:
    """The `count` largest eigenvalues of X -> apply(X) for X (size, vectors), to a residual of
    `tolerance`, with at most so many vectors; one more where a complex pair would be cut."""
    start = np.random.default_rng(seed).standard_normal((size, min(block, size)))
    V, H = np.linalg.qr(apply(start))[0], np.zeros((0, 0))
    room = np.empty((size, 16 * block), order="F")
    room[:, : V.shape[1]] = V
    V = room[:, : V.shape[1]]
    most, first, last, below = min(most, size), 0, 0, np.zeros((0, 0))
    applied = V.shape[1]
    while True:
        W = apply(V[:, last:])
        applied += W.shape[1]
        size_before = float(np.linalg.norm(W))
        columns = np.zeros((V.shape[1], W.shape[1]))
        for _ in range(2):
            more = V.T @ W
            W, columns = W - V @ more, columns + more
        H = _bordered(H, below, columns, first)
        Q, R, _ = scipy.linalg.qr(W, mode="economic", pivoting=True)
        Q = Q[:, np.abs(np.diag(R)) > TINY * size_before]
        below = Q.T @ W
        values, Y = scipy.linalg.eig(H)
        order = np.argsort(-np.abs(values), kind="stable")
        values, Y = values[order], Y[:, order]
        residual = np.linalg.norm(below @ Y[last:], axis=0) / np.maximum(np.abs(values), 1e-300)
        wanted = _whole_pairs(values, count)
        met = len(values) > wanted and np.all(residual[:wanted] <= tolerance)
        if met or not Q.size or V.shape[1] >= most:
            break
        first, last, end = last, V.shape[1], V.shape[1] + Q.shape[1]
        if end > room.shape[1]:
            room = np.concatenate([room, np.empty_like(room)], axis=1)
        room[:, last:end] = Q
        V = room[:, :end]
    values, basis = _basis(H, values[:wanted], Y[:, :wanted], together)
    return Ritz(values, V @ basis, residual[:wanted], applied)


def _bordered(H: Array, below: Array, columns: Array, first: int) -> Array:
    """H with the columns of another block, and below the last one (from `first` on) what led
    there."""
    n, m = len(H), len(columns)
    grown = np.zeros((m, m))
    grown[:n, :n], grown[:, n:] = H, columns
    if n:
        grown[n:, first:n] = below
    return grown


def _whole_pairs(values: np.ndarray, count: int) -> int:
    """As many, or one more if the last one's conjugate comes next."""
    count = min(count, len(values))
    last = values[count - 1]
    if last.imag == 0 or count == len(values):
        return count
    pairs = np.count_nonzero(np.isclose(values[:count].conj(), last, rtol=1e-10, atol=0))
    alike = np.count_nonzero(np.isclose(values[:count], last, rtol=1e-10, atol=0))
    return count + 1 if alike > pairs else count


def _basis(
    H: Array, values: np.ndarray, Y: np.ndarray, together: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of H, as `Ritz` tells."""
    values, found = values.copy(), Y.astype(np.complex128)
    for own in _clusters(values, together):
        if np.any(np.abs(values[own].imag) > together * np.abs(values[own])):
            continue
        values[own] = values[own].real
        parts = np.concatenate([Y[:, own].real, Y[:, own].imag], axis=1)
        U, sizes, _ = np.linalg.svd(parts, full_matrices=False)
        if sizes[len(own) - 1] < PARALLEL * sizes[0]:
            U = _invariant(H, values[own])
        found[:, own] = U[:, : len(own)]
    return values, found


PARALLEL = 1e-5
"""Eigenvectors of a cluster that are as parallel as this do not show its space."""


def _invariant(H: Array, values: np.ndarray) -> Array:
    """An orthonormal basis of the space that belongs to some eigenvalues close together."""
    centre = float(np.mean(values.real))
    nearest = np.argsort(np.abs(scipy.linalg.eigvals(H) - centre))
    radius = float(np.abs(scipy.linalg.eigvals(H) - centre)[nearest[len(values) - 1]])

    def near(real: float, imaginary: float) -> bool:
        return abs(complex(real, imaginary) - centre) <= 1.001 * radius

    return np.asarray(scipy.linalg.schur(H, output="real", sort=near)[1])


def _clusters(values: np.ndarray, together: float) -> list[list[int]]:
    """Numbers of eigenvalues that are close together."""
    found: list[list[int]] = []
    for i, value in enumerate(values):
        for own in found:
            if abs(value - values[own[0]]) <= 2 * together * abs(value):
                own.append(i)
                break
        else:
            found.append([i])
    return found
