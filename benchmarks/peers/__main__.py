"""tessella beside other software: error against time, and the time to equal errors.

Finished runs are kept in results/peers/ and not run again; --redo runs them all the same. Started
with the same --out on several machines of one kind, they divide the runs between them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.plot import plot_problem
from benchmarks.peers.problems import PROBLEMS
from benchmarks.peers.registry import PEERS
from benchmarks.peers.run import METRIC, TIMING, run_all
from benchmarks.peers.store import Store, machine, versions
from benchmarks.peers.tables import print_problem, print_recipe, print_targets

QUICK_PROBLEMS = ("oscillator-60", "laplace-3")
SLOW_PEERS = ("tessella tol", "tessella overlap", "DeepXDE")
"""Left out of --quick unless named."""

RESULTS = Path(__file__).resolve().parents[2] / "results" / "peers"

QUICK = (
    f"the smallest size of each, kept in quick/; by default {' and '.join(QUICK_PROBLEMS)} only, "
    f"without {', '.join(SLOW_PEERS)}"
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PROBLEM", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--peers", nargs="+", metavar="PEER", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--quick", action="store_true", help=QUICK)
    parser.add_argument("--redo", action="store_true", help="run what is stored once more")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for JSON and pictures")
    given = parser.parse_args(arguments)
    names, peers = list(PROBLEMS), list(PEERS)
    if given.quick:
        names, peers = list(QUICK_PROBLEMS), [p for p in PEERS if p not in SLOW_PEERS]
    names, peers = given.only or names, given.peers or peers
    for kind, chosen, known in (("problem", names, PROBLEMS), ("peer", peers, PEERS)):
        for name in chosen:
            if name not in known:
                parser.error(f"unknown {kind} {name!r}: choose from {', '.join(known)}")

    configuration = {name: PEERS[name].configuration for name in PEERS}
    about = {"metric": METRIC, "timing": TIMING, **machine(), "versions": versions()}
    out = given.out / "quick" if given.quick else given.out
    store = Store(out / "peers.json", {**about, "configuration": configuration})
    print(f"metric: {METRIC}\ntime: {TIMING}\n{about['device']}, {about['cores']} cores")
    print(", ".join(f"{k} {v or 'not installed'}" for k, v in versions().items()), "\n")
    for name in peers:
        print(f"  {name}: {configuration[name]}")
    print()
    left_out = run_all(store, names, peers, quick=given.quick, redo=given.redo)

    by_problem = {name: list(store.of(name)) for name in names}
    for name, records in by_problem.items():
        print_problem(name, records)
        for (problem, peer), reason in left_out.items():
            if problem == name:
                print(f"  {peer} left out: {reason}")
        plot_problem(name, records, out / f"{name}.png")
    for clock in ("warm", "cold"):
        print_targets(by_problem, peers, clock)
    print_recipe(by_problem)
    devices = sorted({str(r.get("device")) for records in by_problem.values() for r in records})
    if len(devices) > 1:
        print(f"\nseconds are of different machines, not to be compared: {', '.join(devices)}")
    print(f"\n{store.path} and pictures beside it")


if __name__ == "__main__":
    main()
