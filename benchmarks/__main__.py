"""Run benchmarks by name, all but the longest by default."""

from __future__ import annotations

import argparse

from benchmarks import (
    agreement,
    clocks,
    core,
    device,
    factor,
    fuzz,
    gallery,
    growth,
    honesty,
    house,
    interfaces,
    inverse,
    large,
    march,
    nonlinear,
    refinement,
    robust,
    scaling,
    scaling_paper,
    solvers,
    talking,
    tolerance,
    trained,
    waves,
)
from benchmarks.pinnacle.board import pinnacle

BENCHMARKS = {
    "cold_start": core.cold_start,
    "dropped": core.dropped,
    "baselines": core.baselines,
    "large": core.large,
    "small": core.small,
    "direct_against_lsqr": solvers.direct_against_lsqr,
    "direct": solvers.direct,
    "weak_scaling": solvers.weak_scaling,
    "patches": solvers.patches,
    "interfaces": interfaces.interfaces,
    "growth": growth.growth,
    "another_right_side": growth.another_right_side,
    "right_sides": factor.right_sides,
    "eigenvalues": factor.eigenvalues,
    "gradients": inverse.gradients,
    "inverse": inverse.inverse,
    "compared": solvers.compared,
    "gpu": device.gpu,
    "gpu_breakdown": device.breakdown,
    "gpu_large": device.large,
    "fbpinn_step": trained.fbpinn_step,
    "finite_difference": trained.finite_difference,
    "oscillator_networks": trained.oscillator_networks,
    "trained": trained.trained,
    "tolerance": tolerance.tolerance,
    "tolerance_unseen": tolerance.tolerance_unseen,
    "honesty": honesty.honesty,
    "honesty_tuning": honesty.honesty_tuning,
    "honesty_nonlinear": honesty.honesty_nonlinear,
    "refinement": refinement.refinement,
    "march": march.march,
    "gallery": gallery.gallery,
    "house": house.house,
    "fuzz": fuzz.fuzz,
    "waves": waves.waves,
    "pinnacle": pinnacle,
    "nonlinear": nonlinear.nonlinear,
    "gallery_nonlinear": nonlinear.gallery_nonlinear,
    "scaling": scaling.scaling,
    "scaling_3d": scaling.scaling_3d,
    "operations": scaling.operations,
    "sent": scaling.sent,
    "clocks": clocks.clocks,
    "messages": talking.messages,
    "read_once": solvers.read_once,
    "weak_scaling_paper": scaling_paper.weak_scaling_paper,
    "large_paper": large.large_paper,
    "large_cells": large.large_cells,
    "coarse_level": large.coarse_level,
    "scarce": scaling.scarce,
    "exchange_growth": scaling.exchange_growth,
    "agreement": agreement.agreement,
    "kills": agreement.kills,
    "memory": robust.predictions,
    "side_by_side": robust.side_by_side,
    "endurance": robust.endurance,
    "picture": core.demo_picture,
}
LONG = (
    *("compared", "gpu", "gpu_breakdown", "gpu_large", "oscillator_networks", "trained", "picture"),
    *("honesty", "honesty_tuning", "honesty_nonlinear", "fuzz", "nonlinear", "gallery_nonlinear"),
    *("pinnacle", "large_paper", "large_cells"),
)
COUNTED = ("honesty", "honesty_tuning", "honesty_nonlinear", "fuzz")
"""Benchmarks that take a number."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME [N]",
        help=f"of {', '.join(BENCHMARKS)}; honesty takes the number of problems, "
        "fuzz that of files",
    )
    names = parser.parse_args().names or [n for n in BENCHMARKS if n not in LONG]
    wanted: list[tuple[str, list[int]]] = []
    for name in names:
        if name.isdecimal() and wanted and wanted[-1][0] in COUNTED:
            wanted[-1][1].append(int(name))
        elif name in BENCHMARKS:
            wanted.append((name, []))
        else:
            parser.error(f"unknown benchmark {name!r}: choose from {', '.join(BENCHMARKS)}")
    for name, count in wanted:
        print(f"\n== {name}", flush=True)
        BENCHMARKS[name](*count)


if __name__ == "__main__":
    main()
