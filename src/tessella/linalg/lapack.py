"""LAPACK without Python's lock, so that several threads can be inside it at once.

SciPy's wrappers hold the lock while they compute, NumPy's batched functions do not but lack the
triangular ones. These call the same library through the addresses that SciPy exports.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import cython_lapack

from tessella.machine.arrays import Array


@cache
def _routine(name: str, arguments: int) -> Callable[..., None]:
    capsule = cython_lapack.__pyx_capi__[name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _int(n: int) -> object:
    return ctypes.byref(ctypes.c_int(n))


LOWER = ctypes.c_char(b"L")


def cholesky(G: Array) -> bool:
    """Overwrite one triangle of a symmetric matrix (n, n) by its Cholesky factor; whether it has
    one."""
    n, info = len(G), ctypes.c_int(0)
    assert G.flags.c_contiguous or G.flags.f_contiguous
    routine = _routine("dpotrf", 5)
    routine(ctypes.byref(LOWER), _int(n), G.ctypes.data, _int(max(n, 1)), ctypes.byref(info))
    return info.value == 0


def solve_cholesky(L: Array, b: Array) -> Array:
    """G^-1 b for the factor that `cholesky` left; b (n, m), the result in Fortran's order."""
    x = np.array(b, order="F", copy=True)
    n, m = x.shape
    if not x.size:
        return x
    info = ctypes.c_int(0)
    routine = _routine("dpotrs", 8)
    sizes = _int(n), _int(m), L.ctypes.data, _int(n), x.ctypes.data, _int(n)
    routine(ctypes.byref(LOWER), *sizes, ctypes.byref(info))
    return x
