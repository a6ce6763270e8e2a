"""All choices of a solve in one place, and the objects they stand for."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from tessella.cells.boxes.basis import CellBasis, default_features, on_cells
from tessella.cells.boxes.fitting import off_regions
from tessella.cells.boxes.tiling import Cuts, Tiling
from tessella.cells.solvers import CELL_SOLVERS, Exchange, Merging, solver_named
from tessella.features.random_features import Activation, RandomFeatures
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import SOLVERS, Solver
from tessella.machine.arguments import check_flag, check_kind
from tessella.overlap.basis import AnyBasis, Basis, Fields, Multilevel
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.solving.bases import ByField, for_fields
from tessella.solving.waves import waves_of
from tessella.solving.ways import Parts

COUPLINGS = ("overlap", "interfaces")

OVERLAP_SIGMA, CELL_SIGMA = 1e-10, 1e-14
"""Default thresholds of the filter."""

OVERLAP_POINTS, CELL_POINTS = 2.0, 1.5
"""Points per feature. With windows twice as many as features; in cells, whose incoming data are
rows too, the error does not change from 1.3 to 2.5."""

PATIENCE = 120.0
"""Seconds for meeting a tolerance, unless given."""

MEAN, LARGEST = NORMS = ("mean", "largest")
"""Of the error: what a tolerance may be asked of."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """All choices of a solve. What is left out chooses itself.

    `solve(problem, features=100, ...)` and `solve(problem, Method(features=100, ...))` are the
    same; `march`, the gallery's presets, `--set` of the command line and the networks build one.

    To a tolerance, everything below chosen but any_data, seed, enrichment and test_grid:

    tol             estimated error to refine to, in parts of the spread (standard deviation) of
                    the solution, e.g. 1e-6
    norm            of that error: "mean" (default) is the paper's normalised L1, "largest" the one
                    at the worst point, which thin layers and corners cannot hide from
    patience        about so many seconds at most (120); they are spent before a tolerance is given
                    up, unless nothing is left to try in them

    Subdomains:

    subdomains      one number for all axes or one per axis; side by side also edges,
                    `([0, 0.1, 1], 4)` has two slabs along the first axis and four along the second
    coupling        "overlap" (default) is the paper's: windows blend neighbours. "interfaces" puts
                    them side by side, on boxes and on shapes, whose boundaries cut them: every cell
                    answers data that come in over its faces with data that go out, and these maps
                    are joined. Tens of times faster at equal error
    overlap         width of subdomains in spacings (2); only with "overlap"
    trace_degree    degree of the polynomials in which data cross a face; only with "interfaces"
    shared          one draw for all subdomains, so that equal ones are factored once (the default
                    with "interfaces", and only there)

    Features:

    features        per subdomain
    activation      tanh with "overlap", sin with "interfaces", or an `Activation`; if nothing is
                    said of the features, plane waves or exponentials where they solve the equation
                    (in time, with constant coefficients and no source)
    scale           bandwidth: 1 with "overlap", and what fits `features` with "interfaces"
    depth           hidden layers (1)
    constant, bias  whether there is a constant function beside the features, and biases in them
    enrichment      functions the solution is known to contain, e.g. a corner's singularity or a
                    layer, as extra columns (see `Enrichment`); for several unknowns those of every
                    one, or a mapping from their names
    any_data        True leaves such waves out, so that the features serve other sources and
                    coefficients too (the default of `factor` and `parametric`)
    seed            of the random features (0); unknowns after the first take the next ones

    Points and linear algebra:

    oversampling    points per feature: 2 with "overlap", 1.5 with "interfaces"
    sigma           threshold of the filter: 1e-10 with "overlap", 1e-14 with "interfaces"
    solver          an object or a name (see `tessella.linalg.solvers.NAMES`). "auto" solves
                    directly, by NestedQR or by "merging", where predicted memory and time fit, else
                    by LSQR or "exchange" (GMRES)
    max_iterations, atol, btol, track_every, cutoff, streamed
                    of an iterative solver that is named

    Whole objects in place of their shorthand:

    basis           of subdomains and features; `Fields(u=..., p=...)` of several unknowns
    collocation     of oversampling
    filter          of sigma; `Unfiltered()` solves without filter and preconditioner

    What else to find out:

    test_grid       where the error is measured if an exact solution is known; plays no part in the
                    solve
    condition       True computes condition numbers too
    estimate        True estimates the error by a second, coarser solve (the default where the
                    solver is direct)

    >>> import tessella as ts
    >>> ts.Method(subdomains=8, features=100)
    Method(subdomains=8, features=100)
    """

    tol: float | None = None
    norm: str | None = None
    patience: float | None = None
    subdomains: int | Sequence[Cuts] | None = None
    coupling: str | None = None
    overlap: float | Sequence[float] | None = None
    trace_degree: int | None = None
    shared: bool | None = None
    features: int | None = None
    activation: str | Activation | None = None
    scale: float | None = None
    depth: int | None = None
    constant: bool | None = None
    bias: bool | None = None
    enrichment: ByField | None = None
    any_data: bool | None = None
    seed: int | None = None
    oversampling: float | None = None
    sigma: float | None = None
    solver: Solver | Merging | Exchange | str | None = None
    max_iterations: int | None = None
    atol: float | None = None
    btol: float | None = None
    track_every: int | None = None
    cutoff: float | None = None
    streamed: bool | None = None
    basis: AnyBasis | None = None
    collocation: Grid | None = None
    filter: RRQR | Unfiltered | None = None
    test_grid: Grid | None = None
    condition: bool | None = None
    estimate: bool | None = None

    def __post_init__(self) -> None:
        for name in ("test_grid", "collocation"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Grid):
                raise ValueError(
                    f"{name} must be a Grid, got {value!r}: write Grid(points_per_axis=50)"
                )
        if isinstance(self.solver, type):
            raise ValueError(
                f"solver={self.solver.__name__} is a class: write {self.solver.__name__}()"
            )
        coupling = self.coupling
        if coupling is not None and not (isinstance(coupling, str) and coupling in COUPLINGS):
            raise ValueError(f"unknown coupling {coupling!r}: choose one of {', '.join(COUPLINGS)}")
        patience = self.patience
        if patience is not None and not (isinstance(patience, Real) and float(patience) >= 0):
            raise ValueError(f"patience must be a number of seconds, got {patience!r}")
        if patience is not None and self.tol is None:
            raise ValueError(
                f"patience={patience!r} is for meeting a tolerance: add tol=..., or leave it out"
            )
        if self.norm is not None and self.norm not in NORMS:
            raise ValueError(f"unknown norm {self.norm!r}: choose one of {', '.join(NORMS)}")
        if self.norm is not None and self.tol is None:
            raise ValueError(
                f"norm={self.norm!r} is what a tolerance is asked in: add tol=..., or leave it out"
            )
        if self.tol is not None:
            for name, value in self.given.items():
                if name not in BESIDE_TOL:
                    raise ValueError(
                        f"tol chooses discretisation and solver itself: leave out {name}={value!r},"
                        f" or tol"
                    )
        for whole, shorthand in SHORTHAND.items():
            if getattr(self, whole) is not None and any(n in self.given for n in shorthand):
                raise ValueError(
                    f"pass either `{whole}` or its shorthand ({', '.join(shorthand)}), not both: "
                    f"put the values into the {whole} object"
                )
        self._check_kinds()

    def _check_kinds(self) -> None:
        """Refuse objects that are not what their names say."""
        for name, (kinds, wanted) in OBJECTS.items():
            if getattr(self, name) is not None:
                check_kind(getattr(self, name), kinds, name, wanted)
        for name in FLAGS:
            if getattr(self, name) is not None:
                check_flag(getattr(self, name), name)
        if self.seed is not None and not (isinstance(self.seed, Integral) and self.seed >= 0):
            raise ValueError(f"seed must be a whole number >= 0, got {self.seed!r}")
        named = isinstance(self.solver, str | type) or hasattr(self.solver, "name")
        if self.solver is not None and not named:
            raise TypeError(
                f"solver must be a name or an object such as LSQR(), got {self.solver!r}"
            )

    @classmethod
    def of(
        cls,
        choices: Mapping[str, Any],
        door: str = "solve",
        start: Method | None = None,
        takes: Sequence[str] | None = None,
    ) -> Method:
        """From keywords, added to those of another one; an unknown name is refused with the nearest
        right one. `takes` are the names a door knows, if not all."""
        known = takes or [field.name for field in dataclasses.fields(cls)]
        for name in choices:
            if name not in known:
                raise TypeError(f"{door}() has no argument {unknown(name, known)}")
        if start is not None and not isinstance(start, Method):
            raise TypeError(f"{door}() takes a Method or keywords, got {start!r}")
        return dataclasses.replace(start, **choices) if start is not None else cls(**choices)

    @property
    def given(self) -> dict[str, Any]:
        """What was chosen."""
        return {name: getattr(self, name) for name in self._said}

    @functools.cached_property
    def _said(self) -> tuple[str, ...]:
        names = (field.name for field in dataclasses.fields(self))
        return tuple(name for name in names if getattr(self, name) is not None)

    def __repr__(self) -> str:
        return f"Method({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    def without(self, *names: str) -> Self:
        """The same with these choices left open."""
        return dataclasses.replace(self, **dict.fromkeys(names))

    def for_any_data(self) -> Self:
        """The same for data that are not known yet, unless the features are chosen."""
        chosen = self.basis is not None or self.any_data is not None
        return self if chosen else dataclasses.replace(self, any_data=True)

    # --- the objects they stand for

    def parts(self, problem: Problem) -> Parts:
        """What the algorithm works with; no solver means that sizes decide."""
        basis = self.basis if self.basis is not None else self._basis(problem)
        if basis.decomposition.domain != problem.domain:
            raise ValueError(
                f"the basis lives on {basis.decomposition.domain!r}, but the problem on "
                f"{problem.domain!r}: decompose the problem's domain"
            )
        cells = on_cells(basis)
        sigma, points = self.sigma, self.oversampling
        if sigma is None:
            sigma = CELL_SIGMA if cells else OVERLAP_SIGMA
        if points is None:
            points = CELL_POINTS if cells else OVERLAP_POINTS
        own_filter: RRQR | Unfiltered = RRQR(sigma)
        solver = self.solver
        if solver is None or isinstance(solver, str):
            own_filter, solver = solver_named(solver or "auto", sigma, self._options())
        elif self._options():
            raise ValueError(
                f"{next(iter(self._options()))} belongs into the solver: write "
                f"{type(solver).__name__}({next(iter(self._options()))}=...)"
            )
        return Parts(basis, self.collocation or Grid(points), self.filter or own_filter, solver)

    def _options(self) -> dict[str, Any]:
        """Numbers for the solver that is named; one that it does not have is refused."""
        options = {name: self.given[name] for name in ITERATIVE if name in self.given}
        if isinstance(self.solver, str) or self.solver is None:
            kind = (SOLVERS | CELL_SOLVERS).get((self.solver or "auto").removeprefix("rrqr-"))
            has = {field.name for field in dataclasses.fields(kind)} if kind else set()
            for name in options:
                if name not in has:
                    raise ValueError(
                        f"{name}={options[name]!r} has no meaning for solver="
                        f"{self.solver or 'auto'!r}: leave it out, or name a solver that has it, "
                        f"e.g. solver='rrqr-lsqr'"
                    )
        return options

    def _basis(self, problem: Problem) -> AnyBasis:
        if self.subdomains is None or self.features is None:
            raise ValueError(
                "solve() needs a tolerance, e.g. solve(problem, tol=1e-6), or `subdomains` and "
                "`features`, e.g. solve(problem, subdomains=8, features=100), or a whole `basis`"
            )
        cells = self.coupling == "interfaces"
        features = self._features(problem.domain.dimension, cells)
        make = self._on_cells if cells else self._overlapping
        return for_fields(
            problem, lambda seed: make(problem, features, seed), self.seed, self.enrichment
        )

    def _features(self, dimension: int, cells: bool) -> RandomFeatures:
        assert self.features is not None
        depth = 1 if self.depth is None else self.depth
        RandomFeatures(self.features, depth)  # refuses numbers that are none
        function = self.activation or ("sin" if cells else "tanh")
        if cells and function == "sin" and self.scale is None:
            drawn = default_features(self.features, dimension, depth)
        else:
            scale = 1.0 if self.scale is None else self.scale
            drawn = RandomFeatures(self.features, depth, function, scale=scale)
        given = {name: self.given[name] for name in ("constant", "bias") if name in self.given}
        return dataclasses.replace(drawn, **given)

    def _overlapping(self, problem: Problem, features: RandomFeatures, seed: int) -> Basis:
        for name in ("trace_degree", "shared"):
            if name in self.given:
                raise ValueError(
                    f"{name}={self.given[name]!r} belongs to subdomains side by side: add "
                    f"coupling='interfaces', or leave {name} out"
                )
        counts = self.subdomains
        if isinstance(counts, Sequence) and any(np.ndim(own) > 0 for own in counts):
            raise ValueError(
                f"subdomains={counts!r} has edges, which belong to subdomains side by side: add "
                f"coupling='interfaces', or give a number per axis"
            )
        overlap = 2.0 if self.overlap is None else self.overlap
        return Basis(Decomposition(problem.domain, counts, overlap), features, seed)  # type: ignore[arg-type]

    def _on_cells(self, problem: Problem, features: RandomFeatures, seed: int) -> Basis:
        if self.overlap is not None:
            raise ValueError(
                f"overlap={self.overlap!r} has no meaning with coupling='interfaces', where "
                f"subdomains lie side by side: leave it out, or use coupling='overlap'"
            )
        assert self.subdomains is not None
        tiling = off_regions(Tiling(problem.domain, self.subdomains))
        said = self.given.keys() & {"activation", "scale", "depth", "constant", "bias"}
        if not said and not self.any_data:
            features = waves_of(problem, tiling, features.count) or features
        shared = True if self.shared is None else self.shared
        return CellBasis(tiling, features, seed, self.trace_degree, shared)


OBJECTS: dict[str, tuple[tuple[type, ...], str]] = {
    "basis": ((Basis, Multilevel, Fields), "a Basis, CellBasis, Multilevel or Fields"),
    "filter": ((RRQR, Unfiltered), "RRQR(sigma) or Unfiltered()"),
}

FLAGS = ("shared", "constant", "bias", "any_data", "condition", "estimate")

BESIDE_TOL = ("tol", "norm", "patience", "any_data", "seed", "enrichment", "test_grid")

ITERATIVE = ("max_iterations", "atol", "btol", "track_every", "cutoff", "streamed")

SHORTHAND = {
    "basis": (
        *("subdomains", "features", "coupling", "overlap", "trace_degree", "shared", "scale"),
        *("activation", "depth", "constant", "bias", "enrichment", "any_data", "seed"),
    ),
    "collocation": ("oversampling",),
    "filter": ("sigma",),
}


def unknown(name: str, known: Iterable[str]) -> str:
    """A wrong name, the nearest right one, and all there are."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 1, cutoff=0.7)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{name!r}: {hint}there are {', '.join(known)}"
