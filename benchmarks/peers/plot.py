"""Error against time, one picture per problem, each peer labelled where its curve ends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.problems import PROBLEMS
from benchmarks.peers.score import TARGETS, pareto
from benchmarks.peers.tables import finished
from tessella.machine.files import written_whole

LOOKS: dict[str, tuple[str, str]] = {
    "tessella": ("#D55E00", "o"),
    "tessella march": ("#8C510A", "h"),
    "tessella tol": ("#CC79A7", "*"),
    "tessella overlap": ("#E69F00", "s"),
    "paper's recipe": ("#000000", "X"),
    "SciPy DOP853": ("#0072B2", "D"),
    "scikit-fem P2": ("#56B4E9", "v"),
    "scikit-fem P4": ("#56B4E9", "^"),
    "NGSolve p = 4": ("#0072B2", "v"),
    "NGSolve p = 6": ("#0072B2", "<"),
    "NGSolve p = 8": ("#0072B2", "^"),
    "NGSolve p = 10": ("#0072B2", "s"),
    "NGSolve p = 12": ("#0072B2", "D"),
    "NGSolve p = 15": ("#0072B2", "P"),
    "jaxhps": ("#6A3D9A", "d"),
    "fastlsq": ("#009E73", "P"),
    "pyrfm": ("#7F7F7F", "p"),
    "DeepXDE": ("#B8A800", "h"),
}
"""Okabe and Ito's colours, which the colour-blind can tell apart, and a marker of one's own."""


def curve_name(record: dict[str, Any]) -> str:
    """A peer, or one degree of a peer that has several."""
    peer, degree = record["peer"], record["settings"].get("degree")
    if degree is None:
        return str(peer)
    return f"{peer} P{degree}" if peer == "scikit-fem" else f"{peer} p = {degree}"


def plot_problem(name: str, records: Iterable[dict[str, Any]], path: Path) -> Path | None:
    """Warm times filled, cold ones hollow where compilation makes them differ; None if no runs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    done = [r for r in finished(records) if 0 < r["error"] < float("inf")]
    if not done:
        return None
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    ends: list[tuple[float, float, str, str]] = []
    for curve, (colour, marker) in LOOKS.items():
        own = [r for r in done if curve_name(r) == curve]
        if not own:
            continue
        # Runs that differ by rounding only (other threads) are no progress along a curve.
        front = [own[i] for i in pareto([(r["warm"], float(f"{r['error']:.1e}")) for r in own])]
        times, errors = [r["warm"] for r in front], [r["error"] for r in front]
        axes.plot(times, errors, color=colour, marker=marker, lw=1.4, ms=7, zorder=3)
        for r in own:
            if r not in front:
                axes.plot(r["warm"], r["error"], color=colour, marker=marker, ms=4, alpha=0.5)
            if r["cold"] > 1.5 * r["warm"] and r["peer"].startswith(
                ("tessella", "paper", "jaxhps")
            ):
                axes.plot(r["cold"], r["error"], color=colour, marker=marker, mfc="none", ms=6)
        ends.append((times[-1], errors[-1], curve, colour))
    best = pareto([(r["warm"], r["error"]) for r in done])
    axes.step(
        [done[i]["warm"] for i in best],
        [done[i]["error"] for i in best],
        where="post",
        color="0.88",
        lw=6,
        zorder=1,
        solid_capstyle="round",
    )
    axes.set(xscale="log", yscale="log", title=PROBLEMS[name][0])
    axes.set_xlabel("seconds, warm (hollow: cold, with compilation)")
    axes.set_ylabel("mean |u - exact| / std(exact)")
    for target in TARGETS:
        if min(r["error"] for r in done) <= target <= max(r["error"] for r in done):
            axes.axhline(target, color="0.5", lw=1.2, ls=":", zorder=2)
    axes.grid(True, which="major", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.22)
    _label_ends(axes, ends)
    axes.text(
        0.01,
        0.01,
        "grey band: Pareto front, dotted: errors compared",
        transform=axes.transAxes,
        color="0.45",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as unfinished:
        figure.savefig(unfinished, dpi=150)
    plt.close(figure)
    return path


def _label_ends(axes: Any, ends: list[tuple[float, float, str, str]]) -> None:
    """Labels right of the curves' ends, pushed apart where they would overlap."""
    if not ends:
        return
    axes.figure.canvas.draw()
    to_pixels, height = axes.transData, 17.0
    placed: list[tuple[float, float]] = []
    for x, y, text, colour in sorted(ends, key=lambda end: -end[1]):
        px, py = to_pixels.transform((x, y))
        wanted = py
        while any(abs(wanted - qy) < height and abs(px - qx) < 150 for qx, qy in placed):
            wanted -= 2
        placed.append((px, wanted))
        axes.annotate(
            text,
            (x, y),
            xytext=(7, 72 / axes.figure.dpi * (wanted - py)),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=10,
            fontweight="bold" if text.startswith("tessella") else "normal",
        )
