"""Entries of the gallery with one preset, so that each reads as its few facts."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence

from tessella.cells.boxes.tiling import Cuts
from tessella.gallery.entry import Entry
from tessella.gallery.preset import Preset, fixed, side_by_side
from tessella.geometry.functions import Function
from tessella.problem.problem import Problem


def single(
    build: Callable[..., Problem],
    summary: str,
    subdomains: int | Sequence[Cuts],
    features: int,
    test_grid: tuple[int, ...],
    bandwidth: float = 1.0,
    enriched: int = 0,
    enrichment: Callable[..., Sequence[Function]] | None = None,
    start: Callable[..., Function] | None = None,
    slabs: int | None = None,
) -> Entry:
    """A problem with the preset "best": sines on subdomains side by side, joined by maps.

    Its name and its parameters are those of the function that states it. The error is measured on
    `test_grid`, whatever the subdomains; `enriched` of the functions that `enrichment` gives for
    the parameters are columns of every subdomain. Newton's method begins at what `start` gives for
    them, or at 0. With `slabs` of time, these are solved one after the other.
    """
    parameters = {p.name: p.default for p in inspect.signature(build).parameters.values()}
    method = side_by_side(subdomains, features, len(test_grid), bandwidth)
    best = Preset(
        parameters,
        dataclasses.replace(method, enriched=enriched),
        build,
        fixed(*test_grid),
        enrichment=enrichment,
        start=start,
        slabs=slabs,
    )
    return Entry(build.__name__.replace("_", "-"), summary, {"best": best})
