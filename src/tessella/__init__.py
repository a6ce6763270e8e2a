"""tessella: PDEs, linear and nonlinear, with filtered random features on subdomains."""

from contextlib import ExitStack as _ExitStack
from importlib import import_module as _import_module

from tessella.machine.interrupts import at_safe_points as _at_safe_points

_loading = _ExitStack()
_loading.enter_context(_at_safe_points())

import jax as _jax

_jax.config.update("jax_enable_x64", True)
if _jax.dtypes.canonicalize_dtype("float64") != "float64":
    raise ImportError("tessella needs float64, but JAX refuses it: unset JAX_ENABLE_X64=0")

from tessella import gallery
from tessella.cells.boxes.basis import CellBasis
from tessella.cells.boxes.tiling import Tiling
from tessella.features.enrichment import Corner, Enrichment
from tessella.features.random_features import Activation, RandomFeatures
from tessella.geometry.box import Box
from tessella.geometry.divided import Divided
from tessella.geometry.implicit import Implicit
from tessella.geometry.point_cloud import PointCloud
from tessella.geometry.polygon import Polygon
from tessella.geometry.shapes import Ball, HalfSpace
from tessella.linalg.direct.nested_qr import NestedQR
from tessella.linalg.iterative.deflation import DeflatedLSQR
from tessella.linalg.iterative.krylov import LSMR, LSQR
from tessella.linalg.iterative.normal_equations import CG
from tessella.linalg.iterative.schwarz import SchwarzCG
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine.compiled import keep_compiled as _keep_compiled
from tessella.machine.processes import distributed
from tessella.overlap.basis import Basis, Fields, Multilevel
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.absorbing import Absorbing
from tessella.problem.conditions import (
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
)
from tessella.problem.layers import with_layers
from tessella.problem.operator_function import operator
from tessella.problem.operators import D, Field, Identity, Laplacian, Normal, NormalDerivative
from tessella.problem.outgoing import Outgoing
from tessella.problem.problem import Ansatz, Equation, Problem
from tessella.problem.reference import Reference
from tessella.problem.transmission import Transmission
from tessella.solution.branch import Branch
from tessella.solution.files import load
from tessella.solution.marched import Marched
from tessella.solution.solution import Solution
from tessella.solution.spectrum import Spectrum
from tessella.solving.branches import branch
from tessella.solving.eigenvalues import eigs
from tessella.solving.factor import FactoredProblem, factor
from tessella.solving.method import Method
from tessella.solving.parameters.identified import Identified
from tessella.solving.parameters.identify import identify
from tessella.solving.parameters.parametric import Parametric, parametric
from tessella.solving.parameters.smooth import Smooth
from tessella.solving.several import solutions
from tessella.solving.solve import solve
from tessella.solving.time.march import march
from tessella.version import __version__

_keep_compiled()
_loading.close()

_NETWORKS = ("Training", "fbpinn", "pinn")


def __getattr__(name: str) -> object:
    """Networks are loaded when they are asked for."""
    if name in _NETWORKS:
        return getattr(_import_module("tessella.networks"), name)
    raise AttributeError(f"module 'tessella' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


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
    "Branch",
    "CellBasis",
    "Condition",
    "Corner",
    "D",
    "Decomposition",
    "DeflatedLSQR",
    "Dirichlet",
    "Divided",
    "Enrichment",
    "Equation",
    "FactoredProblem",
    "Field",
    "Fields",
    "Grid",
    "HalfSpace",
    "Identified",
    "Identity",
    "Implicit",
    "Initial",
    "InitialVelocity",
    "Integral",
    "Laplacian",
    "Marched",
    "MeanZero",
    "Measured",
    "Method",
    "Multilevel",
    "NestedQR",
    "Neumann",
    "Normal",
    "NormalDerivative",
    "Outgoing",
    "Parametric",
    "Periodic",
    "PointCloud",
    "Polygon",
    "Problem",
    "RandomFeatures",
    "Reference",
    "Robin",
    "SchwarzCG",
    "Smooth",
    "Solution",
    "Spectrum",
    "Tiling",
    "Training",
    "Transmission",
    "Unfiltered",
    "__version__",
    "branch",
    "distributed",
    "eigs",
    "factor",
    "fbpinn",
    "gallery",
    "identify",
    "load",
    "march",
    "operator",
    "parametric",
    "pinn",
    "solutions",
    "solve",
    "with_layers",
]
