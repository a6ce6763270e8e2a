"""tessella beside other software: error against time on ten problems.

Finished runs are kept in results/peers/ and not run again; --redo runs them all the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.plot import plot_problem
from benchmarks.peers.problems import PROBLEMS
from benchmarks.peers.registry import PEERS
from benchmarks.peers.run import METRIC, TIMING, run_all
from benchmarks.peers.store import Store, machine, versions
from benchmarks.peers.tables import print_problem, print_ratios, print_recipe

RESULTS = Path(__file__).resolve().parents[2] / "results" / "peers"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PROBLEM", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--peers", nargs="+", metavar="PEER", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--quick", action="store_true", help="the smallest size of each, in quick/")
    parser.add_argument("--redo", action="store_true", help="run what is stored once more")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for JSON and pictures")
    given = parser.parse_args(arguments)
    names, peers = given.only or list(PROBLEMS), given.peers or list(PEERS)
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
    print_ratios(by_problem)
    print_recipe(by_problem)
    print(f"\n{store.path} and pictures beside it")


if __name__ == "__main__":
    main()
