"""tessella: side by side at chosen sizes, in slabs of time, to a tolerance, and overlapping."""

from __future__ import annotations

import dataclasses
from typing import Any

import tessella as ts
from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Case

GLUED: dict[str, list[tuple[Any, int]]] = {
    "oscillator-60": [(10, 8), (10, 12), (10, 16), (10, 24)],
    "oscillator-580": [(100, 8), (100, 12), (100, 16), (100, 24)],
    "laplace-3": [(4, 100), (4, 140), (4, 240)],
    "laplace-4": [(6, 140), (8, 100), (8, 124), (8, 140), (8, 220), (6, 300)],
    "laplace-5": [(16, 104), (16, 120), (16, 140), (16, 220), (12, 300)],
    "laplace-6": [(32, 110), (32, 120), (32, 140), (32, 220), (24, 300)],
    "variable-4": [(6, 138), (5, 196), (5, 220), (6, 300)],
    "variable-6": [(24, 140), (24, 160), (20, 220), (24, 280)],
    "cube-2": [(4, 200), (4, 300), (5, 300), (5, 450), (5, 600), (6, 600), (5, 900), (6, 900)],
    "wave-0.2": [
        ((3, 3, 1), 200),
        ((3, 3, 1), 300),
        ((4, 4, 1), 400),
        ((4, 4, 2), 400),
        ((4, 4, 2), 550),
    ],
    "wave-0.1": [((6, 6, 3), 130), ((6, 6, 3), 200), ((8, 8, 4), 160)],
    "helmholtz": [(8, 100), (8, 160), (10, 200), (10, 250)],
    "layer": [((8, 2), 160), ((16, 2), 160), ((16, 2), 220), ((16, 2), 260)],
    "four-holes": [(10, 80), (10, 120), (10, 140), (10, 220), (12, 160), (12, 250)],
    "disc-with-hole": [(2, 60), (2, 80), (2, 100), (2, 160), (3, 160)],
}
"""Subdomains per axis and features of each."""

OVERSAMPLING = {"variable-4": 1.1, "variable-6": 1.1, "cube-2": 1.2}
"""Points per feature where rows cost most, fewer than by default: the error is the same."""

WINDOWED: dict[str, list[tuple[Any, int]]] = {
    "oscillator-60": [(20, 16), (20, 32)],
    "oscillator-580": [(200, 16), (200, 32)],
    "laplace-3": [(4, 100), (4, 200)],
    "laplace-4": [(6, 140), (8, 100), (8, 150)],
    "laplace-5": [(16, 60), (16, 100)],
    "variable-4": [(8, 100), (8, 150)],
    "wave-0.2": [((4, 4, 2), 200)],
    "helmholtz": [(8, 100), (12, 150)],
    "layer": [((16, 2), 100), ((24, 2), 150)],
    "four-holes": [(8, 125)],
    "disc-with-hole": [(4, 60), (4, 100)],
}

MARCHED: dict[str, list[tuple[int, Any, int]]] = {
    "wave-0.2": [(4, (4, 4, 1), 200), (4, (4, 4, 1), 300), (4, (5, 5, 1), 400)],
    "wave-0.1": [(8, (8, 8, 1), 200), (8, (8, 8, 1), 300), (8, (10, 10, 1), 400)],
}
"""Slabs, subdomains per axis of a slab and features of each."""

TOLERANCES = (1e-4, 1e-6, 1e-8)
PATIENCE = 20.0
"""Seconds after which no further refinement is begun."""


def _blind(case: Case) -> ts.Problem:
    stated = case.stated()
    return stated if stated.exact is None else dataclasses.replace(stated, exact=None)


def _chosen(table: dict[str, list[tuple[Any, int]]], name: str) -> list[Settings]:
    if name not in table:
        raise NotApplicableError("takes longer than a minute here for less than side by side gives")
    return [{"subdomains": S, "features": K} for S, K in table[name]]


def _sizes(name: str) -> list[Settings]:
    more = {"oversampling": OVERSAMPLING[name]} if name in OVERSAMPLING else {}
    return [own | more for own in _chosen(GLUED, name)]


def side_by_side(case: Case, subdomains: Any, features: int, **choices: Any) -> Answer:
    return ts.solve(
        _blind(case),
        coupling="interfaces",
        subdomains=subdomains,
        features=features,
        estimate=False,
        **choices,
    )


def overlapping(case: Case, subdomains: Any, features: int) -> Answer:
    return ts.solve(
        _blind(case),
        subdomains=subdomains,
        features=features,
        scale=2.0,
        sigma=1e-11,
        oversampling=2.25,
        solver="nested-qr",
        estimate=False,
    )


def to_tolerance(case: Case, tol: float) -> Answer:
    return ts.solve(_blind(case), tol=tol, patience=PATIENCE)


def in_slabs(case: Case, slabs: int, subdomains: Any, features: int) -> Answer:
    return ts.march(
        _blind(case),
        slabs,
        coupling="interfaces",
        subdomains=subdomains,
        features=features,
        estimate=False,
    )


def _slabs(name: str) -> list[Settings]:
    if name not in MARCHED:
        raise NotApplicableError("has no time axis, or one that a single solve covers")
    return [{"slabs": n, "subdomains": S, "features": K} for n, S, K in MARCHED[name]]


SIDE_BY_SIDE = Peer(
    "tessella",
    "ts.solve(problem, coupling='interfaces', subdomains, features); all "
    "conditions soft, no ansatz; no error estimate, as no peer at fixed size makes one",
    lambda name, case: _sizes(name),
    side_by_side,
    compiled=True,
)
IN_SLABS = Peer(
    "tessella march",
    "ts.march(problem, slabs, coupling='interfaces', subdomains, features): one slab after the "
    "other, factored once; no error estimate",
    lambda name, case: _slabs(name),
    in_slabs,
    compiled=True,
)
TO_TOLERANCE = Peer(
    "tessella tol",
    f"ts.solve(problem, tol, patience={PATIENCE:g}): everything chosen, all refinement timed",
    lambda name, case: [{"tol": tol} for tol in TOLERANCES],
    to_tolerance,
    compiled=True,
)
OVERLAPPING = Peer(
    "tessella overlap",
    "the paper's windows (overlap 2), tanh of scale 2, sigma 1e-11, 2.25 x points, NestedQR",
    lambda name, case: _chosen(WINDOWED, name),
    overlapping,
    compiled=True,
)
