"""Named problems with exact or reference solutions; one file per family."""

from __future__ import annotations

import difflib

from tessella.gallery.entry import TRAINED, Entry, Method, Network, Preset
from tessella.gallery.laplace import LAPLACE
from tessella.gallery.oscillator import OSCILLATOR
from tessella.gallery.shapes import FOUR_HOLES, L_SHAPE
from tessella.gallery.singular import BOUNDARY_LAYER, MOTZ
from tessella.gallery.wave import WAVE

ENTRIES: dict[str, Entry] = {
    e.name: e for e in (OSCILLATOR, LAPLACE, WAVE, FOUR_HOLES, L_SHAPE, MOTZ, BOUNDARY_LAYER)
}


def names() -> list[str]:
    """The gallery's problems."""
    return list(ENTRIES)


def get(name: str) -> Entry:
    """A problem by name."""
    if name not in ENTRIES:
        near = difflib.get_close_matches(name, ENTRIES, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown problem {name!r}: {hint}the gallery has {', '.join(ENTRIES)}")
    return ENTRIES[name]


__all__ = ["ENTRIES", "TRAINED", "Entry", "Method", "Network", "Preset", "get", "names"]
