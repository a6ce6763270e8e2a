"""Two solutions that are not smooth, with and without the function that makes them so.

Motz's problem has a singularity like sqrt(r) where its boundary condition changes; an advected
quantity has a layer of width 1e-4 at the outflow. Prints a table at equal columns and draws the
first solution into out/.
"""

import math
from pathlib import Path

import jax.numpy as jnp

import tessella as ts

EPS = 1e-4


def layer(points):
    return jnp.exp((points[:, 0] - 1) / EPS)


def corner(terms):
    """The first terms of the singularity: r^(k + 1/2) cos((k + 1/2) theta)."""
    return [ts.Corner(math.pi, exponent=k + 0.5, wave="cos") for k in range(terms)]


def main() -> None:
    out = Path("out")
    out.mkdir(exist_ok=True)
    motz = ts.gallery.get("motz").problem("best")
    stream = ts.gallery.get("boundary-layer").problem("best", eps=EPS)
    runs = [
        (motz, (4, 2), 104, "plain", []),
        *((motz, (4, 2), 104 - n, f"{n} term(s) of the corner", corner(n)) for n in (1, 2, 4)),
        (stream, 4, 21, "plain", []),
        (stream, 4, 20, "the layer", [layer]),
    ]
    head = ("problem", "columns", "enrichment", "L2 error", "largest", "seconds")
    print("{:<15} {:>7}  {:<24} {:>8} {:>8} {:>8}".format(*head))
    for problem, subdomains, features, label, enrichment in runs:
        solution = ts.solve(
            problem,
            subdomains=subdomains,
            features=features,
            coupling="interfaces",
            enrichment=enrichment,
            estimate=False,
        )
        report = solution.report
        print(
            f"{problem.name:<15} {report.columns:>7,}  {label:<24} "
            f"{report.error['l2_relative']:8.1e} {report.error['max']:8.1e} "
            f"{report.seconds['total']:8.1f}",
            flush=True,
        )
        if label.startswith("4"):
            solution.plot(out / "motz.png")
    print(f"picture: {out / 'motz.png'}")


if __name__ == "__main__":
    main()
