"""The paper's three problems: the paper's own recipe beside tessella's direct solver.

Prints a table and draws the solutions into out/.
"""

import time
from pathlib import Path

import tessella as ts

RICH = {
    "harmonic-oscillator": {"features": 32, "sigma": 1e-10, "oversampling": 2.0},
    "laplace": {
        "subdomains": 8,
        "features": 150,
        "overlap": 2.0,
        "oversampling": 2.25,
        "sigma": 1e-10,
        "scale": 2.0,
    },
    "wave": {
        "subdomains": (4, 4, 2),
        "features": 150,
        "overlap": 2.0,
        "oversampling": 2.0,
        "sigma": 1e-10,
    },
}
PAPER = {"harmonic-oscillator": "1.0e-04", "laplace": "1.9e-03", "wave": "2.2e-02"}


def main() -> None:
    out = Path("out")
    out.mkdir(exist_ok=True)
    print(f"{'problem':<20} {'method':<34} {'error':>9} {'paper':>9} {'seconds':>8}")
    for name, settings in RICH.items():
        entry = ts.gallery.get(name)
        recipe = {"max_iterations": 1_000, "track_every": 10}
        runs = [
            ("paper's recipe, 1,000 iterations", "rrqr-lsqr", recipe),
            ("richer subdomains, direct solve", "nested-qr", settings),
        ]
        for label, solver, changes in runs:
            start = time.perf_counter()
            solution = entry.solve(solver=solver, settings=changes)
            seconds = time.perf_counter() - start
            error = (solution.report.error or {})["l1_normalised"]
            paper = PAPER[name] if solver == "rrqr-lsqr" else ""
            print(f"{name:<20} {label:<34} {error:9.1e} {paper:>9} {seconds:8.1f}", flush=True)
        solution.plot(out / f"{name}.png")
    print(f"pictures: {', '.join(str(out / f'{name}.png') for name in RICH)}")


if __name__ == "__main__":
    main()
