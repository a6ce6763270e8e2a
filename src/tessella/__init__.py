"""tessella: linear PDEs with filtered random features on overlapping subdomains."""

import jax as _jax

_jax.config.update("jax_enable_x64", True)
if _jax.dtypes.canonicalize_dtype("float64") != "float64":
    raise ImportError("tessella needs float64, but JAX refuses it: unset JAX_ENABLE_X64=0")

from tessella import gallery
from tessella.baselines import Training, fbpinn, pinn
from tessella.basis import Basis, Fields, Multilevel
from tessella.cells.glued import Glued
from tessella.collocation import Grid
from tessella.compiled import keep_compiled as _keep_compiled
from tessella.conditions import (
    Absorbing,
    Condition,
    Dirichlet,
    Initial,
    InitialVelocity,
    Integral,
    MeanZero,
    Measured,
    Neumann,
    Periodic,
    Robin,
    Transmission,
)
from tessella.decomposition import Decomposition
from tessella.domain import Box
from tessella.enrichment import Corner, Enrichment
from tessella.features import Activation, RandomFeatures
from tessella.io import load
from tessella.linalg.deflation import DeflatedLSQR
from tessella.linalg.krylov import CG, LSMR, LSQR
from tessella.linalg.nested_qr import NestedQR
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.schwarz import SchwarzCG
from tessella.march import march
from tessella.marched import Marched
from tessella.operator_function import operator
from tessella.operators import D, Field, Identity, Laplacian, Normal, NormalDerivative
from tessella.problem import Ansatz, Equation, Problem, Reference
from tessella.regions import Divided
from tessella.sampled import Implicit, PointCloud
from tessella.shapes import Ball, HalfSpace, Polygon
from tessella.solution import Solution
from tessella.solve import solve
from tessella.tiling import Tiling
from tessella.version import __version__

_keep_compiled()

__all__ = [
    "CG",
    "LSMR",
    "LSQR",
    "RRQR",
    "Absorbing",
    "Activation",
    "Ansatz",
    "Ball",
    "Basis",
    "Box",
    "Condition",
    "Corner",
    "D",
    "Decomposition",
    "DeflatedLSQR",
    "Dirichlet",
    "Divided",
    "Enrichment",
    "Equation",
    "Field",
    "Fields",
    "Glued",
    "Grid",
    "HalfSpace",
    "Identity",
    "Implicit",
    "Initial",
    "InitialVelocity",
    "Integral",
    "Laplacian",
    "Marched",
    "MeanZero",
    "Measured",
    "Multilevel",
    "NestedQR",
    "Neumann",
    "Normal",
    "NormalDerivative",
    "Periodic",
    "PointCloud",
    "Polygon",
    "Problem",
    "RandomFeatures",
    "Reference",
    "Robin",
    "SchwarzCG",
    "Solution",
    "Tiling",
    "Training",
    "Transmission",
    "Unfiltered",
    "__version__",
    "fbpinn",
    "gallery",
    "load",
    "march",
    "operator",
    "pinn",
    "solve",
]
