"""Solutions on disk: one .npz file of plain arrays with a JSON header; no pickle.

The arrays are everything the solution needs to be evaluated (decomposition, feature weights,
coefficients). Functions cannot be stored: a solution whose problem has an ansatz made of functions
needs the problem again when it is loaded, and one with enrichment its functions; the file carries a
few values of each to tell whether they are the same.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tessella.cells.basis import CellBasis
from tessella.cells.tiling import Tiling
from tessella.features.enrichment import Enrichment, Functions, as_enrichment
from tessella.features.random_features import ACTIVATIONS, Activation, Layer, RandomFeatures
from tessella.geometry.box import Box
from tessella.geometry.combinations import Combination
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.geometry.functions import function_values
from tessella.geometry.point_cloud import PointCloud
from tessella.geometry.shapes import Ball, HalfSpace, Polygon
from tessella.linalg.iterative.krylov import History
from tessella.machine import archive
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis, Basis, Fields, Multilevel, per_field
from tessella.overlap.decomposition import Decomposition
from tessella.problem.fields import part_named
from tessella.problem.hard import stated
from tessella.problem.operators import Field, Identity
from tessella.problem.problem import Ansatz, Equation, Problem
from tessella.problem.slabs import slab_problem, until
from tessella.solution.marched import Marched, MarchReport
from tessella.solution.report import Report
from tessella.solution.solution import UNKNOWN, Solution

VERSION = 2
SOLUTION, MARCH = "solution", "march"


def save(solution: Solution, path: str | Path) -> Path:
    """Write atomically: a reader sees the old file or the whole new one."""
    target = _target(path)
    archive.write(target, SOLUTION, VERSION, _header(solution), **_arrays(solution))
    return target


def save_march(marched: Marched, path: str | Path) -> Path:
    """All slabs of a march in one file, written like a solution."""
    target = _target(path)
    header = {
        **_describe_problem(marched.problem),
        "report": dataclasses.asdict(marched.report),
        "slabs": [_header(slab) for slab in marched.slabs],
    }
    arrays = {
        f"slab{k}_{name}": array
        for k, slab in enumerate(marched.slabs)
        for name, array in _arrays(slab).items()
    }
    archive.write(target, MARCH, VERSION, header, **arrays)
    return target


def load(
    path: str | Path,
    problem: Problem | None = None,
    activation: Activation | None = None,
    enrichment: Functions = (),
) -> Solution | Marched:
    """Read a solution, or a march, back.

    `problem` is needed when the ansatz is made of functions and the problem is not in the gallery;
    without it the loaded solution can be evaluated and differentiated, but knows no equation.
    `activation` is needed when the features used an activation of your own, and `enrichment` when
    the basis had any: the same functions in the same order, unknown by unknown and level by level
    if there are several.

    >>> import tempfile
    >>> import tessella as ts
    >>> problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> solution = ts.solve(problem, subdomains=2, features=16)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = ts.load(solution.save(f"{folder}/line.npz"))
    >>> bool((again([0.2, 0.7]) == solution([0.2, 0.7])).all())
    True
    """
    header, arrays = archive.read(Path(path), SOLUTION, VERSION, MARCH)
    read = _read_march if header["kind"] == MARCH else _read_solution
    try:
        return read(header, arrays, path, problem, activation, enrichment)
    except (KeyError, TypeError) as missing:
        raise ValueError(f"{path} is damaged: {missing} is missing from it") from None


def _read_solution(
    header: dict[str, Any],
    arrays: dict[str, Array],
    path: str | Path,
    problem: Problem | None,
    activation: Activation | None,
    enrichment: Functions,
) -> Solution:
    report = Report.from_saved(header["report"])
    problem = _problem(header, problem, report.preset, path)
    given = as_enrichment(enrichment, problem.domain)
    functions = _functions(header, given, report, path)
    levels = tuple(
        _level(description, k, problem.domain, arrays, activation, functions[k], path)
        for k, description in enumerate(header["levels"])
    )
    basis = _whole(levels, problem.fields)
    coefficients = arrays["coefficients"]
    history = History(*(arrays[f"history_{f.name}"] for f in dataclasses.fields(History)))
    if coefficients.shape != (basis.columns,):
        raise ValueError(
            f"{path} is damaged: {coefficients.shape} coefficients for {basis.columns}"
        )
    if not _has_ansatz_of(problem, arrays["ansatz_probe"]):
        raise ValueError(
            f"{path} was solved with another ansatz than the given problem has: pass the problem "
            f"it was solved for"
        )
    return Solution(problem, basis, coefficients, report, history)


def _read_march(
    header: dict[str, Any],
    arrays: dict[str, Array],
    path: str | Path,
    problem: Problem | None,
    activation: Activation | None,
    enrichment: Functions,
) -> Marched:
    """Every slab again starts where the one before it ends."""
    report = MarchReport.from_saved(header["report"])
    end = report.slabs[-1].end
    if problem is not None and report.stopped_early:
        problem = until(problem, end)
    whole = until(_problem(header, problem, report.preset, path), end)
    if not _has_ansatz_of(whole, arrays["slab0_ansatz_probe"]):
        whole = stated(whole) or whole
    start, _ = whole.domain.bounds[whole.domain.axis_index("t")]
    slabs: list[Solution] = []
    for k, own in enumerate(header["slabs"]):
        bounds = (report.slabs[k - 1].end if k else start, report.slabs[k].end)
        part = slab_problem(whole, bounds, slabs[-1] if slabs else None)
        prefix = f"slab{k}_"
        stored = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        slabs.append(_read_solution(own, stored, path, part, activation, enrichment))
    return Marched(whole, tuple(slabs), report)


def _target(path: str | Path) -> Path:
    target = Path(path)
    return target if target.suffix == ".npz" else target.with_name(target.name + ".npz")


def _describe_problem(problem: Problem) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "parameters": problem.parameters,
        "domain": problem.domain.describe(),
        "periodic": problem.domain.periodic,
        "ansatz": {name: _describe_ansatz(problem.ansatz_of(name)) for name in problem.fields},
    }


def _header(solution: Solution) -> dict[str, Any]:
    return {
        **_describe_problem(solution.problem),
        "levels": [_describe_level(level) for level in _levels(solution)],
        "report": dataclasses.asdict(solution.report),
    }


def _arrays(solution: Solution) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        "coefficients": solution.coefficients,
        "ansatz_probe": _probe(solution.problem),
    }
    for field in dataclasses.fields(History):
        arrays[f"history_{field.name}"] = getattr(solution.history, field.name)
    for k, level in enumerate(_levels(solution)):
        for i, layer in enumerate(level.layers):
            arrays[f"weights_{k}_{i}"], arrays[f"biases_{k}_{i}"] = map(np.asarray, layer)
        if level.enrichment:
            arrays[f"enrichment_{k}"] = _probe_enrichment(level.enrichment, solution.problem.domain)
    return arrays


def _levels(solution: Solution) -> list[Basis]:
    """All bases, unknown after unknown."""
    each = per_field(solution.basis, solution.problem.fields)
    return [level for own in each for level in own.levels]


def _describe_ansatz(ansatz: Ansatz) -> dict[str, float | str]:
    return {
        name: "function" if callable(value) else float(value)
        for name, value in (("multiplier", ansatz.multiplier), ("offset", ansatz.offset))
    }


def _problem(
    header: dict[str, Any], given: Problem | None, preset: str | None, path: str | Path
) -> Problem:
    if given is not None:
        described = json.loads(json.dumps(given.domain.describe()))
        if described != header["domain"] or list(given.domain.periodic) != header["periodic"]:
            raise ValueError(
                f"{path} was solved on {_shown(header['domain'])}, the given problem on "
                f"{given.domain!r}"
            )
        return given
    from tessella import gallery

    if preset and header["problem"] in gallery.ENTRIES:
        return gallery.get(header["problem"]).problem(preset, **header["parameters"])
    ansatz = header["ansatz"]
    if any("function" in own.values() for own in ansatz.values()):
        raise ValueError(
            f"{path} has an ansatz made of functions, which a file cannot hold: pass the problem, "
            f"load(path, problem=...)"
        )
    names = tuple(ansatz)
    domain = _periodic(_domain(header["domain"], path), header["periodic"])
    parts = [part_named(domain, name) for name in names]
    single = len({part.unknown for part in parts}) == 1
    return Problem(
        domain,
        [Equation(Identity() if single else Field(u), name=UNKNOWN, where=r) for u, r in parts],
        ansatz={name: Ansatz(**own) for name, own in ansatz.items()},
        fields=names,
        name=header["problem"],
        parameters=header["parameters"],
    )


def _whole(levels: tuple[Basis, ...], fields: Sequence[str]) -> AnyBasis:
    if len(fields) > 1:
        return Fields(**dict(zip(fields, levels, strict=True)))
    return levels[0] if len(levels) == 1 else Multilevel(levels)


def _periodic(domain: Domain, axes: Sequence[str]) -> Domain:
    return domain.closed(*axes) if isinstance(domain, Box) and axes else domain


def _domain(description: dict[str, Any], path: str | Path) -> Domain:
    """The domain that describes itself like this; a Box has bounds only, all others a shape."""
    own = {key: value for key, value in description.items() if key != "shape"}
    match description.get("shape"):
        case "divided":
            regions = {name: _domain(one, path) for name, one in own["regions"].items()}
            return Divided(_domain(own["whole"], path), **regions)
        case "ball":
            return Ball(**own)
        case "halfspace":
            return HalfSpace(**own)
        case "polygon":
            return Polygon(**own)
        case "cloud":
            return PointCloud(**own)
        case "combination":
            return Combination(own["kind"], _domain(own["left"], path), _domain(own["right"], path))
        case "named":
            return _domain(own["domain"], path).named(own["name"])
        case "extrusion":
            return _domain(own["base"], path).over(**own["over"])
        case "implicit":
            raise ValueError(
                f"{path} has a domain given by a function, which a file cannot hold: pass the "
                f"problem, load(path, problem=...)"
            )
        case _:
            return Box(**description)


def _shown(description: dict[str, Any]) -> str:
    try:
        return repr(_domain(description, ""))
    except ValueError:
        return f"another shape, {description}"


def _describe_level(level: Basis) -> dict[str, Any]:
    features = level.features
    return {
        **_cuts(level.decomposition),
        **_describe_coupling(level),
        "seed": level.seed,
        "features": {
            **{k: getattr(features, k) for k in ("count", "depth", "constant", "bias", "scale")},
            "activation": features.function.name,
        },
        "enrichment": [
            {"name": one.name, "where": one.where and one.where.describe()}
            for one in level.enrichment
        ],
    }


def _level(
    description: dict[str, Any],
    k: int,
    domain: Domain,
    arrays: dict[str, Array],
    activation: Activation | None,
    enrichment: tuple[Enrichment, ...],
    path: str | Path,
) -> Basis:
    stored = description["features"]
    features = RandomFeatures(
        **{**stored, "activation": _activation(stored["activation"], activation, path)}
    )
    if enrichment and not np.allclose(
        _probe_enrichment(enrichment, domain), arrays[f"enrichment_{k}"], 1e-12, 1e-300, True
    ):
        raise ValueError(
            f"{path} was solved with other enrichment than the functions given: pass those it was "
            f"solved with, in the same order"
        )
    level = dataclasses.replace(_coupled(description, domain, features), enrichment=enrichment)
    # The stored weights replace the draw, which another NumPy might make differently.
    layers = tuple(
        Layer(arrays[f"weights_{k}_{i}"], arrays[f"biases_{k}_{i}"]) for i in range(features.depth)
    )
    return level.with_layers(layers)


def _functions(
    header: dict[str, Any], given: tuple[Enrichment, ...], report: Report, path: str | Path
) -> list[tuple[Enrichment, ...]]:
    """The enrichment of every level, with the regions it was stored with."""
    stored = [description.get("enrichment", []) for description in header["levels"]]
    names = [one["name"] for level in stored for one in level]
    from tessella import gallery

    if not given and report.preset and header["problem"] in gallery.ENTRIES:
        entry = gallery.get(header["problem"])
        given = entry.preset(report.preset).enrichment_of(header["parameters"])[: len(names)]
    if len(given) != len(names):
        raise ValueError(
            f"{path} has {len(names)} enrichment functions ({', '.join(names) or 'none'}), which a "
            f"file cannot hold, and {len(given)} are given: load(path, enrichment=[...])"
        )
    rest = iter(given)
    return [
        tuple(
            Enrichment(next(rest).function, Box(**one["where"]) if one["where"] else None)
            for one in level
        )
        for level in stored
    ]


def _cuts(decomposition: Decomposition) -> dict[str, Any]:
    """Numbers of equal subdomains per axis, or widths of unequal ones, and which are in parts."""
    if not isinstance(decomposition, Tiling):
        return {"subdomains": decomposition.subdomains}
    return {"subdomains": decomposition.described, "cut": sorted(decomposition.cut)}


def _describe_coupling(level: Basis) -> dict[str, Any]:
    if isinstance(level, CellBasis):
        return {"trace_degree": level.trace_degree, "shared": level.shared}
    return {"overlap": level.decomposition.overlap}


def _coupled(description: dict[str, Any], domain: Domain, features: RandomFeatures) -> Basis:
    subdomains, seed = description["subdomains"], description["seed"]
    if "overlap" in description:
        return Basis(Decomposition(domain, subdomains, description["overlap"]), features, seed)
    traces = (description["trace_degree"], description["shared"])
    tiling = Tiling.of_widths(domain, subdomains, description.get("cut", ()))
    return CellBasis(tiling, features, seed, *traces)


def _activation(name: str, given: Activation | None, path: str | Path) -> str | Activation:
    if given is not None:
        return given
    if name not in ACTIVATIONS:
        raise ValueError(
            f"{path} uses the activation {name!r}: pass it, load(path, activation=...)"
        )
    return name


def _has_ansatz_of(problem: Problem, probe: Array) -> bool:
    own = _probe(problem)
    return own.shape == probe.shape and np.allclose(own, probe, rtol=1e-12, atol=1e-12)


def _probe(problem: Problem) -> Array:
    """Values of the ansatz at a few fixed points inside the domain."""
    domain = problem.domain
    share = np.random.default_rng(0).uniform(0.1, 0.9, (400, domain.dimension))
    points = domain.lower + share * (domain.upper - domain.lower)
    points = points[domain.contains(points)][:4]
    each = [problem.ansatz_of(name) for name in problem.fields]
    return np.stack([function_values(f, points) for a in each for f in (a.multiplier, a.offset)])


def _probe_enrichment(enrichment: Sequence[Enrichment], domain: Domain) -> Array:
    """Values of the functions at fixed points, many of them close to the boundary, where layers
    live; not finite where the function is not."""
    draw = np.random.default_rng(0)
    near = 10.0 ** draw.uniform(-5, np.log10(0.5), (32, domain.dimension))
    share = np.where(draw.random(near.shape) < 0.5, near, 1 - near)
    points = domain.lower + share * (domain.upper - domain.lower)
    return np.stack([np.broadcast_to(one.function(points), len(points)) for one in enrichment])
