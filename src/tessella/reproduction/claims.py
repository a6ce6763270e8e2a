"""The paper's qualitative claims, each checked against the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tessella.reproduction import cases, paper
from tessella.reproduction.cases import Case
from tessella.reproduction.compare import conditions, median, seconds_of, values
from tessella.reproduction.store import Record, Store

HOLDS, FAILS, OPEN = "holds", "does not hold", "not yet run"


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, whether our records bear it out, and the figures that say so."""

    claim: str
    verdict: str
    evidence: str


class Evidence:
    """Figures of the records by experiment and row; raises NotRunError for what was not run."""

    def __init__(self, store: Store, quick: bool = False) -> None:
        found = [*(c for n in (1, 2, 3) for c in cases.tables(n))]
        found += [*cases.seconds(), *cases.series(), *cases.appendix()]
        known = cases.sized(found, quick)
        self.cases: dict[tuple[str, str], Case] = {(c.experiment, c.row): c for c in known}
        self.store = store

    def records(self, experiment: str, row: str) -> list[Record]:
        records = self.store.seeds(self.cases[experiment, row])
        if not records:
            raise NotRunError(f"{experiment} / {row}")
        return records

    def figure(self, experiment: str, row: str, key: str) -> float:
        return _known(values(self.records(experiment, row), key), f"{key} of {experiment} / {row}")

    def error(self, experiment: str, row: str) -> float:
        return self.figure(experiment, row, "error_oracle_minimum")

    def last(self, experiment: str, row: str) -> float:
        found = [r["error"]["l1_normalised"] for r in self.records(experiment, row) if r["error"]]
        value = median([e for e in found if e is not None])
        return float("inf") if value is None else value

    def kappa(self, experiment: str, row: str, name: str) -> float:
        found = conditions(self.records(experiment, row), name)
        return _known(found, f"kappa {name} of {experiment} / {row}")

    def seconds(self, experiment: str, row: str) -> float:
        found = [seconds_of(r) for r in self.records(experiment, row) if not r.get("refused")]
        return _known(found, f"seconds of {experiment} / {row}")

    def settled(self, experiment: str, row: str, factor: float = 1.5) -> int:
        """The first iteration with an error within a factor of the smallest (seed 0)."""
        for record in self.records(experiment, row):
            curve = record.get("curve")
            if curve and curve["iteration"]:
                least = min(curve["error"])
                pairs = zip(curve["iteration"], curve["error"], strict=True)
                return int(next(i for i, e in pairs if e <= factor * least))
        raise NotRunError(f"curve of {experiment} / {row}")

    def refusal(self, experiment: str, row: str) -> str | None:
        return next((r["refused"] for r in self.records(experiment, row) if "refused" in r), None)


class NotRunError(LookupError):
    """A record that a claim needs is not in the store."""


def _known(numbers: list[float], name: str) -> float:
    found = median(numbers)
    if found is None:
        raise NotRunError(name)
    return found


Check = Callable[[Evidence], tuple[bool, str]]
CLAIMS: list[tuple[str, Check]] = []


def _claim(text: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CLAIMS.append((text, check))
        return check

    return register


def check_all(store: Store, quick: bool = False) -> list[Verdict]:
    """Every claim with its verdict, in the paper's order."""
    evidence = Evidence(store, quick)
    found = []
    for text, check in CLAIMS:
        try:
            holds, because = check(evidence)
            found.append(Verdict(text, HOLDS if holds else FAILS, because))
        except NotRunError as missing:
            found.append(Verdict(text, OPEN, f"needs {missing}"))
    return found


TABLES = {"table1": "oscillator", "table2": "Laplacian", "table3": "wave"}
BASE = "rrqr-lsqr"
SIGMAS = (" sigma=1e-10", "", " sigma=1e-06", " sigma=1e-04", " sigma=1e-02")
"""Row endings from the weakest filter to the strongest."""


def _list(parts: dict[str, float], style: str = ".1e") -> str:
    return ", ".join(f"{name} {value:{style}}" for name, value in parts.items())


@_claim("Filtering and preconditioning always improve the conditioning of M.")
def _(e: Evidence) -> tuple[bool, str]:
    worst, where = 0.0, ""
    for number, experiment in enumerate(TABLES, 1):
        for row in paper.table(paper.PROBLEMS[number - 1]):
            if row.solver != BASE:
                continue
            kappas = [e.kappa(experiment, row.name, k) for k in ("M", "M_hat", "preconditioned")]
            growth = max(kappas[1] / kappas[0], kappas[2] / kappas[1])
            if growth > worst:
                worst, where = growth, f"{experiment} / {row.name}"
    return worst <= 1.001, f"largest kappa ratio after a step: {worst:.2g} ({where})"


@_claim("The oscillator's filter drops columns; those of the Laplacian and the wave drop none.")
def _(e: Evidence) -> tuple[bool, str]:
    dropped = {name: e.figure(t, BASE, "dropped_percent") for t, name in TABLES.items()}
    holds = dropped["oscillator"] > 5 and dropped["Laplacian"] < 0.5 and dropped["wave"] < 0.5
    return holds, _list(dropped, ".1f") + " % dropped"


@_claim("RRQR-LSQR converges within 1,000, a few hundred, and a few tens of iterations.")
def _(e: Evidence) -> tuple[bool, str]:
    settled = {name: e.settled(t, BASE) for t, name in TABLES.items()}
    limits = {"oscillator": 1_000, "Laplacian": 500, "wave": 100}
    text = _list({k: float(v) for k, v in settled.items()}, ",.0f")
    return all(settled[n] <= limits[n] for n in limits), text + " (within 1.5x of the minimum)"


@_claim("LSQR and CG without preconditioner need nearly all of the 10,000 iterations.")
def _(e: Evidence) -> tuple[bool, str]:
    ratio = {
        f"{name} {solver}": e.settled(t, solver) / e.settled(t, BASE)
        for t, name in TABLES.items()
        for solver in ("lsqr", "cg")
    }
    best = {
        f"{name} {solver}": e.figure(t, solver, "oracle_iteration")
        for t, name in TABLES.items()
        for solver in ("lsqr", "cg")
    }
    return min(best.values()) > 5_000, (
        f"smallest error at iteration {_list(best, ',.0f')}; within 1.5x of it after "
        f"{min(ratio.values()):.0f} to {max(ratio.values()):.0f} times RRQR-LSQR's iterations"
    )


@_claim("AS-CG converges about as fast as RRQR-LSQR.")
def _(e: Evidence) -> tuple[bool, str]:
    settled = {name: float(e.settled(t, "as-cg")) for t, name in TABLES.items()}
    limits = {"oscillator": 1_000, "Laplacian": 500, "wave": 100}
    return all(settled[n] <= limits[n] for n in limits), "iterations: " + _list(settled, ",.0f")


@_claim("AS-CG becomes unstable late on the oscillator and the Laplacian.")
def _(e: Evidence) -> tuple[bool, str]:
    growth = {TABLES[t]: e.last(t, "as-cg") / e.error(t, "as-cg") for t in ("table1", "table2")}
    return min(growth.values()) > 10, "last error over smallest: " + _list(growth, ".0f")


@_claim("RRQR-LSQR is the most accurate linear solver on the oscillator and the Laplacian.")
def _(e: Evidence) -> tuple[bool, str]:
    texts, holds = [], True
    for t in ("table1", "table2"):
        errors = {s: e.error(t, s) for s in (BASE, "lsqr", "cg", "as-cg")}
        holds = holds and min(errors, key=lambda s: errors[s]) == BASE
        texts.append(f"{TABLES[t]}: {_list(errors)}")
    return holds, "; ".join(texts)


@_claim("On the wave all models reach a similar accuracy.")
def _(e: Evidence) -> tuple[bool, str]:
    solvers = (BASE, "lsqr", "cg", "as-cg", "pinn", "fbpinn")
    errors = {s: e.error("table3", s) for s in solvers}
    return max(errors.values()) <= 3 * min(errors.values()), _list(errors)


@_claim("FBPINN and PINN are one and three orders of magnitude less accurate (oscillator).")
def _(e: Evidence) -> tuple[bool, str]:
    ratio = {s: e.error("table1", s) / e.error("table1", BASE) for s in ("fbpinn", "pinn")}
    return ratio["fbpinn"] > 5 and ratio["pinn"] > 300, "times RRQR-LSQR's error: " + _list(
        ratio, ",.0f"
    )


@_claim("Training PINN and FBPINN is much slower: two orders on the Laplacian and the wave.")
def _(e: Evidence) -> tuple[bool, str]:
    ratio = {
        f"{TABLES[f'table{n}']} {s}": e.seconds(f"seconds{n}", s) / e.seconds(f"seconds{n}", BASE)
        for n in (2, 3)
        for s in ("pinn", "fbpinn")
    }
    return min(ratio.values()) > 10, "times RRQR-LSQR's seconds: " + _list(ratio, ",.0f")


@_claim("A larger sigma drops more columns and lowers kappa(M_hat) and kappa(M_hat S^-1).")
def _(e: Evidence) -> tuple[bool, str]:
    holds, texts = True, []
    for t, name in TABLES.items():
        dropped = [e.figure(t, BASE + s, "dropped_percent") for s in SIGMAS]
        hat = [e.kappa(t, BASE + s, "M_hat") for s in SIGMAS]
        last = [e.kappa(t, BASE + s, "preconditioned") for s in SIGMAS]
        holds = holds and _rises(dropped) and _rises(hat[::-1]) and _rises(last[::-1], 1.02)
        texts.append(f"{name} {' '.join(f'{d:.0f}' for d in dropped)} %")
    return holds, "; ".join(texts) + " for sigma = 1e-10 ... 1e-2"


def _rises(numbers: list[float], slack: float = 1.001) -> bool:
    return all(b * slack >= a for a, b in pairwise(numbers))


@_claim("The error grows with sigma.")
def _(e: Evidence) -> tuple[bool, str]:
    errors = {name: [e.error(t, BASE + s) for s in SIGMAS] for t, name in TABLES.items()}
    texts = (f"{n} " + " ".join(f"{x:.1e}" for x in v) for n, v in errors.items())
    return all(v[-1] > 1.5 * v[0] for v in errors.values()), "; ".join(texts)


@_claim("Sigmoid and sine features do not improve the accuracy.")
def _(e: Evidence) -> tuple[bool, str]:
    ratio = {
        f"{name} {kind}": e.error(t, f"{BASE} {kind}") / e.error(t, BASE)
        for t, name in TABLES.items()
        for kind in ("sigmoid", "sin")
    }
    return min(ratio.values()) > 0.8, "times tanh's error: " + _list(ratio, ".2f")


@_claim("Depth helps on the oscillator (error and kappa(M)) and does not on the other two.")
def _(e: Evidence) -> tuple[bool, str]:
    ratio = {
        f"{name} depth {h}": e.error(t, f"{BASE} depth={h}") / e.error(t, BASE)
        for t, name in TABLES.items()
        for h in (3, 5)
    }
    helped = [v for k, v in ratio.items() if k.startswith("oscillator")]
    others = [v for k, v in ratio.items() if not k.startswith("oscillator")]
    return max(helped) < 1 and min(others) > 0.8, "times depth 1's error: " + _list(ratio, ".2f")


def _along(e: Evidence, experiment: str, solver: str) -> dict[str, float]:
    """The errors of a solver along a series, by the point's label; refused points are left out."""
    found = {}
    for name, row in e.cases:
        if name == experiment and row.endswith(f" {solver}"):
            label = row.removesuffix(f" {solver}")
            if e.refusal(name, row) is None:
                found[label] = e.error(name, row)
    return found


@_claim("Every solver gains accuracy with K, and with S and overlap together.")
def _(e: Evidence) -> tuple[bool, str]:
    worst, where, rises = 0.0, "", {}
    for problem in ("oscillator", "laplace", "wave"):
        for kind in ("features", "subdomains"):
            for solver in cases.SCALED_SOLVERS:
                name = f"{problem}-{kind}"
                errors = _along(e, name, solver)
                first, *_, last = errors.values()
                if last / first > worst:
                    worst, where = last / first, f"{name} {solver}"
                for (_, before), (label, after) in pairwise(errors.items()):
                    if after > 1.5 * before:
                        rises[f"{name} {label} {solver}"] = _rows_per_column(e, name, label)
    text = f"last error over first, at worst: {worst:.2g} ({where})"
    if rises:
        listed = ", ".join(f"{point} ({ratio:.2g})" for point, ratio in rises.items())
        text += f"; not at every step: it rises at (rows per column) {listed}"
    return worst < 1, text


def _rows_per_column(e: Evidence, experiment: str, label: str) -> float:
    record = e.records(experiment, f"{label} {BASE}")[0]
    return float(record["rows"] / record["columns"])


@_claim("At K = 64 RRQR-LSQR is far more accurate than LSQR and AS-CG on the oscillator.")
def _(e: Evidence) -> tuple[bool, str]:
    errors = {s: e.error("oscillator-features", f"K=64 {s}") for s in cases.SCALED_SOLVERS}
    return min(errors["lsqr"], errors["as-cg"]) > 3 * errors[BASE], _list(errors)


@_claim("At K = 64 LSQR is an order of magnitude less accurate than the others on the Laplacian.")
def _(e: Evidence) -> tuple[bool, str]:
    errors = {s: e.error("laplace-features", f"K=64 {s}") for s in cases.SCALED_SOLVERS}
    ratio = {s: errors["lsqr"] / errors[s] for s in (BASE, "as-cg")}
    text = f"{_list(errors)}; LSQR's error over that of {_list(ratio, '.2g')}"
    return min(ratio.values()) > 5, text


@_claim("LSQR without preconditioner fails at omega_0 = 240 and 580; the other two do not.")
def _(e: Evidence) -> tuple[bool, str]:
    errors = {
        f"{s} {w}": e.error("oscillator-weak", f"omega0={w} S={S} {s}")
        for w, S in ((240, 80), (580, 160))
        for s in cases.SCALED_SOLVERS
    }
    failing = min(v for k, v in errors.items() if k.startswith("lsqr"))
    working = max(v for k, v in errors.items() if not k.startswith("lsqr"))
    return failing > 0.05 and working < 0.005, _list(errors)


@_claim("The Laplacian's and the wave's errors grow along the weak scaling.")
def _(e: Evidence) -> tuple[bool, str]:
    growth = {}
    for experiment in ("laplace-weak", "wave-weak"):
        errors = list(_along(e, experiment, BASE).values())
        growth[experiment] = errors[-1] / errors[0]
    return min(growth.values()) > 1, "last error over first: " + _list(growth, ".1f")


@_claim("AS runs out of memory for the Laplacian with S = 32, overlap 5.8, the wave with K = 32.")
def _(e: Evidence) -> tuple[bool, str]:
    texts = [
        e.refusal("laplace-subdomains", "S=32 overlap=5.8 as-cg"),
        e.refusal("wave-features", "K=32 as-cg"),
    ]
    return all(texts), "; ".join(text or "it ran" for text in texts)


@_claim("RRQR-LSQR's convergence on the wave worsens as K increases.")
def _(e: Evidence) -> tuple[bool, str]:
    settled = {f"K={K}": float(e.settled("wave-features", f"K={K} {BASE}")) for K in (4, 8, 16, 32)}
    return settled["K=32"] > settled["K=4"], "iterations: " + _list(settled, ",.0f")


@_claim("kappa(M) and kappa(Q) grow with K and with the overlap (appendix).")
def _(e: Evidence) -> tuple[bool, str]:
    holds, texts = True, []
    for experiment in ("appendix-features", "appendix-overlap"):
        rows = [row for name, row in e.cases if name == experiment]
        M = {row: e.kappa(experiment, row, "M") for row in rows}
        Q = {row: e.kappa(experiment, row, "preconditioned") for row in rows}
        first, last, least = rows[0], rows[-1], min(Q, key=lambda row: Q[row])
        holds = holds and M[last] > M[first] and Q[last] > Q[first]
        texts.append(
            f"{first} to {last}: kappa(M) {M[first]:.1e} to {M[last]:.1e}, "
            f"kappa(Q) {Q[first]:.1e} to {Q[last]:.1e}, smallest {Q[least]:.1e} at {least}"
        )
    return holds, "; ".join(texts)


@_claim("The bound of Theorem 3.2 and the random-matrix estimate describe kappa(Q) (appendix).")
def _(e: Evidence) -> tuple[bool, str]:
    alphas, ratios = [], {}
    for name, row in e.cases:
        if not name.startswith("appendix"):
            continue
        records = e.records(name, row)
        alphas += values(records, "alpha")
        for r in records:
            if r["estimate"] is not None:
                ratios[row] = r["condition"]["preconditioned"] / r["estimate"]
    least = min(alphas)
    text = f"alpha is {least:.2f} or more in every run, so the theorem (alpha < 0.5) says nothing"
    if ratios:
        worst = max(ratios, key=lambda row: ratios[row])
        text += (
            f"; the estimate is valid in {len(ratios)} points and up to {ratios[worst]:,.0f} times "
            f"too small ({worst}): neighbours are not independent, both peak where their windows "
            f"change fastest"
        )
    return least < 0.5 and all(r <= 1 for r in ratios.values()), text
