"""The paper's recipe: its discretisation as run, local RRQR, SciPy's LSQR on a CSR matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import lsqr

import tessella as ts
from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case
from tessella.overlap.matrices import evaluate_at
from tessella.overlap.system import assemble

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "oscillator-60": ("harmonic-oscillator", {"omega0": 60.0}),
    "laplace-4": ("laplace", {"n": 4}),
    "wave-0.2": ("wave", {}),
}
"""The three baselines of the paper, by gallery name and parameters."""

ITERATIONS = (100, 1_000, 10_000)


def sizes(name: str, case: Case) -> list[Settings]:
    if name not in CASES:
        raise NotApplicableError("not one of the paper's three baselines")
    entry, parameters = CASES[name]
    return [{"entry": entry, "parameters": parameters, "iterations": n} for n in ITERATIONS]


def solve(case: Case, entry: str, parameters: dict[str, float], iterations: int) -> Answer:
    preset = ts.gallery.get(entry).preset("as-run")
    problem, method = ts.gallery.get(entry).problem(**parameters), preset.method
    basis = ts.Basis(
        ts.Decomposition(problem.domain, method.subdomains, method.overlap),
        ts.RandomFeatures(method.features),
    )
    system = assemble(problem, basis, ts.Grid(method.oversampling).rows(problem, basis))
    reduced = system.reduce(ts.RRQR(method.sigma)).preconditioned()
    csr = reduced.Q.to_csr()
    y = lsqr(csr, reduced.h, atol=0, btol=0, conlim=0, iter_lim=iterations)[0]
    a = reduced.coefficients(y)

    def answer(points: Array) -> Array:
        E, e = evaluate_at(problem, basis, ts.Identity(), points)
        return e + np.asarray(E.matvec(a))

    return answer


RECIPE = Peer(
    "paper's recipe",
    "gallery preset as-run (seed 0), RRQR filter and preconditioner at sigma 1e-8, M.to_csr(), "
    "scipy.sparse.linalg.lsqr(atol=btol=0); the last iterate, not the paper's minimum over all",
    sizes,
    solve,
    compiled=True,
)
