"""tessella: linear PDEs with filtered random features on overlapping subdomains."""

import jax as _jax

_jax.config.update("jax_enable_x64", True)
if _jax.dtypes.canonicalize_dtype("float64") != "float64":
    raise ImportError("tessella needs float64, but JAX refuses it: unset JAX_ENABLE_X64=0")

from tessella import gallery  # noqa: E402
from tessella.basis import Basis  # noqa: E402
from tessella.collocation import Grid  # noqa: E402
from tessella.decomposition import Decomposition  # noqa: E402
from tessella.domain import Box  # noqa: E402
from tessella.features import Activation, RandomFeatures  # noqa: E402
from tessella.linalg.krylov import LSQR  # noqa: E402
from tessella.linalg.rrqr import RRQR, Unfiltered  # noqa: E402
from tessella.operators import D, Identity, Laplacian, NormalDerivative  # noqa: E402
from tessella.problem import (  # noqa: E402
    Ansatz,
    Condition,
    Dirichlet,
    Equation,
    Initial,
    InitialVelocity,
    Neumann,
    Problem,
    Robin,
)
from tessella.solution import Solution  # noqa: E402
from tessella.solve import solve  # noqa: E402
