"""Named problems with exact or reference solutions; one file per family.

>>> import tessella as ts
>>> ts.gallery.names()[:3]
['harmonic-oscillator', 'laplace', 'wave']
>>> problem = ts.gallery.get("heat").problem(alpha=0.5, T=2.0)
>>> problem.domain
Box(x=(0, 1), t=(0, 2))
"""

from __future__ import annotations

import difflib

from tessella.gallery.branches import BRATU, BRATU_1D, FORCED_BRATU
from tessella.gallery.complex_waves import HELMHOLTZ_COMPLEX, SCHROEDINGER
from tessella.gallery.diffusion import ANISOTROPIC_HEAT, HEAT, POISSON_3D, VARIABLE_POISSON
from tessella.gallery.dispersive import KORTEWEG_DE_VRIES, KURAMOTO_SIVASHINSKY, SINE_GORDON
from tessella.gallery.elasticity import BEAM
from tessella.gallery.entry import Entry
from tessella.gallery.flows import BURGERS, CAVITY, CYLINDER, KOVASZNAY, STEADY_BURGERS
from tessella.gallery.helmholtz import AIRY, HELMHOLTZ
from tessella.gallery.laplace import LAPLACE
from tessella.gallery.large_deformation import MINIMAL_SURFACE, NEO_HOOKEAN, P_LAPLACE
from tessella.gallery.layers import ADVECTION_DIFFUSION, FRONT, REACTION_DIFFUSION
from tessella.gallery.materials import INCLUSION
from tessella.gallery.oscillator import OSCILLATOR
from tessella.gallery.plate import PLATE
from tessella.gallery.preset import TRAINED, Network, Preset, PresetMethod
from tessella.gallery.probability import FOKKER_PLANCK
from tessella.gallery.reactions import (
    ALLEN_CAHN,
    CUBIC_POISSON,
    GRAY_SCOTT,
    NONLINEAR_HELMHOLTZ,
    QUADRATIC_POISSON,
)
from tessella.gallery.shapes import FOUR_HOLES, L_SHAPE
from tessella.gallery.singular import BOUNDARY_LAYER, MOTZ
from tessella.gallery.stokes import STOKES
from tessella.gallery.string import WAVE_1D
from tessella.gallery.wave import WAVE

PAPER = (OSCILLATOR, LAPLACE, WAVE)
"""The paper's problems, with presets that reproduce it."""

ENTRIES: dict[str, Entry] = {
    e.name: e
    for e in (
        *PAPER,
        VARIABLE_POISSON,
        POISSON_3D,
        HELMHOLTZ,
        PLATE,
        ADVECTION_DIFFUSION,
        REACTION_DIFFUSION,
        BOUNDARY_LAYER,
        FRONT,
        AIRY,
        HEAT,
        ANISOTROPIC_HEAT,
        FOKKER_PLANCK,
        WAVE_1D,
        STOKES,
        BEAM,
        HELMHOLTZ_COMPLEX,
        SCHROEDINGER,
        MOTZ,
        L_SHAPE,
        FOUR_HOLES,
        INCLUSION,
        CUBIC_POISSON,
        QUADRATIC_POISSON,
        NONLINEAR_HELMHOLTZ,
        BRATU,
        BRATU_1D,
        FORCED_BRATU,
        MINIMAL_SURFACE,
        P_LAPLACE,
        NEO_HOOKEAN,
        STEADY_BURGERS,
        KOVASZNAY,
        CAVITY,
        CYLINDER,
        BURGERS,
        ALLEN_CAHN,
        GRAY_SCOTT,
        SINE_GORDON,
        KORTEWEG_DE_VRIES,
        KURAMOTO_SIVASHINSKY,
    )
}
"""The paper's first, then steady problems on boxes, in time, systems, singular ones, shapes; last
the nonlinear ones, steady and in time."""


def names() -> list[str]:
    """The gallery's problems."""
    return list(ENTRIES)


def get(name: str) -> Entry:
    """A problem by name."""
    if not isinstance(name, str) or name not in ENTRIES:
        near = difflib.get_close_matches(str(name), ENTRIES, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown problem {name!r}: {hint}the gallery has {', '.join(ENTRIES)}")
    return ENTRIES[name]


__all__ = ["ENTRIES", "TRAINED", "Entry", "Network", "Preset", "PresetMethod", "get", "names"]
