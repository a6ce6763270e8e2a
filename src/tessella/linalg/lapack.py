"""LAPACK without Python's lock, so that several threads can be inside it at once.

SciPy's wrappers hold the lock while they compute, NumPy's batched functions do not but lack the
triangular ones. These call the same library through the addresses that SciPy exports. Matrices are
passed as their transposes in C's order, which are theirs in Fortran's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from tessella.machine.arrays import Array


@cache
def _routine(name: str, arguments: int) -> Callable[..., None]:
    library = cython_lapack if name in cython_lapack.__pyx_capi__ else cython_blas
    capsule = library.__pyx_capi__[name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _int(n: int) -> object:
    return ctypes.byref(ctypes.c_int(n))


def _char(letter: bytes) -> Any:
    return ctypes.byref(ctypes.c_char(letter))


LOWER, PLAIN, TRANSPOSED = (_char(letter) for letter in (b"L", b"N", b"T"))
LEFT, RIGHT = (_char(letter) for letter in (b"L", b"R"))
ONE, LESS = (ctypes.byref(ctypes.c_double(x)) for x in (1.0, -1.0))

BLOCK = 64
"""Columns that LAPACK takes together, for the sizes of its workspaces."""

WIDTH = 96
"""About so many columns of a triangle are solved for at a time, if there are more than twice as
many: in equal parts, since a narrow one takes as long as a wide one. In narrower ones some cores
are faster alone, and many slower together, since every call waits for Python."""


# --- inverses


def invert(D: Array) -> None:
    """Overwrite every matrix (count, n, n) by its inverse."""
    if not D.size:
        return
    assert D.flags.c_contiguous
    count, n = D.shape[:2]
    factor, invert = _routine("dgetrf", 6), _routine("dgetri", 7)
    pivots, work, info = np.empty(n, dtype=np.int32), np.empty(n * BLOCK), ctypes.c_int(0)
    size, found, start, step = _int(n), ctypes.byref(info), D.ctypes.data, D.strides[0]
    order, space, room = pivots.ctypes.data, work.ctypes.data, _int(len(work))
    for i in range(count):
        at = start + i * step
        factor(size, size, at, size, order, found)
        if info.value:
            raise np.linalg.LinAlgError("Singular matrix")
        invert(size, at, size, order, space, room, found)


# --- Cholesky


def add_gramians(M: Array, G: Array) -> None:
    """Add M_i^T M_i for M (rows, count, n) to one triangle of G (count, n, n): the one that
    `cholesky` reads."""
    rows, count, n = M.shape
    if not M.size:
        return
    assert M.flags.c_contiguous and G.flags.c_contiguous
    routine, size, height, width = _routine("dsyrk", 10), _int(n), _int(rows), _int(count * n)
    start, step, to, to_step = M.ctypes.data, M.strides[1], G.ctypes.data, G.strides[0]
    for i in range(count):
        own, at = start + i * step, to + i * to_step
        routine(LOWER, PLAIN, size, height, ONE, own, width, ONE, at, size)


def cholesky(G: Array) -> np.ndarray:
    """Overwrite one triangle of every symmetric matrix (count, n, n) by its Cholesky factor, and
    tell which have one."""
    count, n = G.shape[:2]
    assert G.flags.c_contiguous
    routine, size, info = _routine("dpotrf", 5), _int(max(n, 1)), ctypes.c_int(0)
    start, step, failed = G.ctypes.data, G.strides[0], ctypes.byref(info)
    found = np.empty(count, dtype=bool)
    for i in range(count):
        routine(LOWER, size, start + i * step, size, failed)
        found[i] = info.value == 0
    return found


def solve_cholesky(L: Array, x: Array) -> None:
    """Overwrite x (count, n, m) by G_i^-1 x_i, for the factors that `cholesky` left. Of large ones
    some columns are solved for at a time, so that most of it are products, which are faster."""
    if not x.size:
        return
    assert L.flags.c_contiguous and x.flags.c_contiguous
    count, n, m = x.shape
    solve, product, size, rows = _routine("dtrsm", 11), _routine("dgemm", 13), _int(n), _int(m)
    width = n if n <= 2 * WIDTH else -(-n // round(n / WIDTH))
    ends = [(a, min(a + width, n)) for a in range(0, n, width)]
    steps = [(8 * a, 8 * b, _int(a), _int(b - a), _int(n - b)) for a, b in ends]
    factor, factor_step, start, step = L.ctypes.data, L.strides[0], x.ctypes.data, x.strides[0]
    for i in range(count):
        own, at = factor + i * factor_step, start + i * step
        for a, _, before, wide, _ in steps:
            here, corner = at + m * a, own + a * (n + 1)
            if a:
                given = at, rows, own + a, size, ONE, here, rows
                product(PLAIN, TRANSPOSED, rows, wide, before, LESS, *given)
            solve(RIGHT, LOWER, TRANSPOSED, PLAIN, rows, wide, ONE, corner, size, here, rows)
        for a, b, _, wide, after in reversed(steps):
            here, corner = at + m * a, own + a * (n + 1)
            if b < 8 * n:
                given = at + m * b, rows, own + a * n + b, size, ONE, here, rows
                product(PLAIN, PLAIN, rows, wide, after, LESS, *given)
            solve(RIGHT, LOWER, PLAIN, PLAIN, rows, wide, ONE, corner, size, here, rows)


def solve_cholesky_rows(L: Array, x: Array, starts: np.ndarray) -> None:
    """Overwrite the rows x[starts[i] : starts[i + 1]] of x (rows, n) by G_i^-1 of them."""
    if not x.size:
        return
    n, ends = x.shape[1], starts.tolist()
    if L.shape != (len(ends) - 1, n, n) or sorted([0, *ends, len(x)]) != [0, *ends, len(x)]:
        raise ValueError(f"factors {L.shape} do not fit {x.shape} in parts that begin at {ends}")
    assert L.flags.c_contiguous and x.flags.c_contiguous
    size, one, info = _int(n), _int(1), _int(0)
    many, single = _routine("dpotrs", 8), _routine("dtrsv", 8)
    factor, factor_step, row, row_step = L.ctypes.data, L.strides[0], x.ctypes.data, x.strides[0]
    for i, (begin, end) in enumerate(pairwise(ends)):
        own, at = factor + i * factor_step, row + begin * row_step
        if end - begin == 1:
            single(LOWER, PLAIN, PLAIN, size, own, size, at, one)
            single(LOWER, TRANSPOSED, PLAIN, size, own, size, at, one)
        elif end > begin:
            many(LOWER, size, _int(end - begin), own, size, at, size, info)


# --- QR


class Reflections(NamedTuple):
    """A QR factorisation as LAPACK leaves it: R in one triangle of `packed` (columns, rows), and
    reflections of which Q is the product."""

    packed: Array
    scales: Array

    @property
    def R(self) -> Array:
        """(n, columns), with n the smaller of rows and columns."""
        n = min(self.packed.shape)
        return np.triu(self.packed[:, :n].T)

    def turned(self, x: Array, back: bool = False) -> Array:
        """Q^T x of every row of x (count, rows), or Q x."""
        x = np.array(x, order="C")
        rows, count = self.packed.shape[1], len(x)
        if x.shape[1:] != (rows,) or len(self.scales) > min(self.packed.shape):
            raise ValueError(f"{len(self.scales)} reflections of {rows} do not turn {x.shape}")
        if not x.size or not len(self.scales):
            return x
        assert self.packed.flags.c_contiguous and self.scales.flags.c_contiguous
        work = np.empty(max(1, count) * BLOCK)
        which = PLAIN if back else TRANSPOSED
        sizes = _int(rows), _int(count), _int(len(self.scales))
        given = self.packed.ctypes.data, _int(rows), self.scales.ctypes.data
        own = x.ctypes.data, _int(rows), work.ctypes.data, _int(len(work))
        _routine("dormqr", 13)(LEFT, which, *sizes, *given, *own, _int(0))
        return x


def qr(packed: Array) -> Reflections:
    """QR of the transpose of (columns, rows), which is overwritten."""
    assert packed.flags.c_contiguous
    columns, rows = packed.shape
    scales, work = np.empty(min(columns, rows)), np.empty(max(1, columns) * BLOCK)
    if packed.size:
        sizes = _int(rows), _int(columns), packed.ctypes.data, _int(rows)
        space = scales.ctypes.data, work.ctypes.data, _int(len(work))
        _routine("dgeqrf", 8)(*sizes, *space, _int(0))
    return Reflections(packed, scales)


def pivoted_qr(packed: Array) -> tuple[Reflections, np.ndarray]:
    """The same with the largest columns first, and which they are."""
    assert packed.flags.c_contiguous
    columns, rows = packed.shape
    scales, work = np.empty(min(columns, rows)), np.empty(2 * columns + (columns + 1) * BLOCK)
    pivots = np.zeros(columns, dtype=np.int32)
    if packed.size:
        sizes = _int(rows), _int(columns), packed.ctypes.data, _int(rows), pivots.ctypes.data
        space = scales.ctypes.data, work.ctypes.data, _int(len(work))
        _routine("dgeqp3", 9)(*sizes, *space, _int(0))
    return Reflections(packed, scales), pivots.astype(np.int64) - 1
