"""Every public door with arguments that are right, and values that are wrong for every kind of
argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import tessella as ts

NAN, INF = float("nan"), float("inf")
ANYTHING: list[Any] = [
    *(
        "a",
        "",
        b"x",
        1j,
        [],
        [1, 2, 3, 4, 5],
        {},
        {"x": 1},
        object(),
        {1},
        ts.D,
        ts.LSQR,
        iter([1]),
    ),
    *(np.array(["a"]), np.array([[1.0]]), np.array([1j]), float, ts.Grid, range(3), Ellipsis),
]
NUMBERS = [NAN, INF, -INF, "1", [1, 2], np.array([1.0, 2.0]), math.sin, ts.D(x=1), lambda p: p]
COUNTS = [*NUMBERS, 0, -1, 1.5, 10**30, -(10**30)]
WORDS = [3, 1.5, NAN, [3], ("a", 3), math.sin, ts.D(x=1), True]
OBJECTS = [3, NAN, "word", [3], math.sin, True, ts.D(x=1)]
ORDERS = [order for order in COUNTS if not (isinstance(order, int) and order == 0)]
SEEDS = [*NUMBERS, -1, 1.5, -(10**30)]
UNKNOWNS = [3, NAN, "word", [3], math.sin, True]
PAIRS = [*NUMBERS, (1.0,), (1.0, 2.0, 3.0), ("a", "b")]
FUNCTIONS = [
    *(NAN, INF, [1, 2], np.array([1.0, 2.0]), math.sin, ts.D(x=1)),
    *(lambda: 1.0, lambda x, y: x, lambda p: math.sin(p[:, 0]), lambda p: p, lambda p: None),
    *(lambda p: "a", lambda p: p[:, 0] + 1j, lambda p: p[:, 7], lambda p: p["x"], lambda p: p.x),
    *(lambda p: p + p[:, 0], lambda p: [None] * len(p), lambda p: np.full(len(p), NAN)),
    *(lambda p: np.ma.masked_array(p[:, 0], np.ones(len(p))), lambda p: ts.D(x=1), lambda p: {}),
]
OPERATORS = [3, NAN, "dx", [ts.D(x=1)], math.sin, True, lambda u: u, np.eye(2)]
POINTS = [
    *(NAN, INF, 7.5, [[0.1, 0.2, 0.3]], [[[0.1]]], [0.1, None], [0.1, "a"], np.array([0.1 + 1j])),
    *(np.ma.masked_array([0.1, 0.5], [False, True]), math.sin, [[0.1], [0.1, 0.2]], "0.5"),
]
FLAGS = [NAN, "yes", 3, math.sin, np.array([True, False])]
PATHS = [3, NAN, math.sin, [3], "/no/such/folder/u.npz", ".", "/"]
KINDS = {
    "number": NUMBERS,
    "count": COUNTS,
    "word": WORDS,
    "object": OBJECTS,
    "function": FUNCTIONS,
    "operator": OPERATORS,
    "points": POINTS,
    "flag": FLAGS,
    "path": PATHS,
    "unknown": UNKNOWNS,
    "pair": PAIRS,
    "order": ORDERS,
    "seed": SEEDS,
}


class Door(NamedTuple):
    """What is called, with which arguments, what is done with its answer, and of which kind its
    arguments are."""

    call: Callable[..., Any]
    good: dict[str, Any]
    use: Callable[[Any], Any]
    kinds: dict[str, str]


def _kinds(**names: str) -> dict[str, str]:
    """The kind of every argument, from names by kind."""
    return {name: kind for kind, text in names.items() for name in text.split()}


LINE = ts.Box(x=(0, 1))
POISSON = ts.Equation(-ts.D(x=2), 2.0)
ZERO = ts.Dirichlet(0.0)
SIZES: dict[str, Any] = {"subdomains": 2, "features": 8}
X = np.array([[0.2], [0.7]])
STRING = ts.Box(x=(0, 1), t=(0, 1))
DISC = ts.Ball(x=0, y=0, radius=1)


def _solved(problem: Any, **choices: Any) -> Any:
    return ts.solve(problem, **{**SIZES, **choices})(X)


def _on(domain: Any) -> Any:
    problem = ts.Problem(domain, ts.Equation(ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)])
    solution = ts.solve(problem, subdomains=2, features=4)
    return float(np.mean(solution(problem.domain.scatter(5, np.random.default_rng(0)))))


def _with_condition(condition: Any) -> Any:
    own = condition if isinstance(condition, tuple) else (condition,)
    return _solved(ts.Problem(LINE, POISSON, [*own, ts.Dirichlet(0.0, on="xmax")]))


def _over_time(condition: Any) -> Any:
    heat = ts.Equation(ts.D(t=1) - ts.D(x=2), 0.0)
    problem = ts.Problem(STRING, heat, [ts.Dirichlet(0.0), condition])
    return ts.solve(problem, **SIZES).integral()


def _by(**choice: Any) -> Any:
    return _solved(ts.Problem(LINE, POISSON, [ZERO]), **choice)


def doors(folder: str) -> dict[str, Door]:
    """Every public door, with arguments that are right; files are written to the folder."""
    line = ts.Problem(LINE, POISSON, [ZERO])
    solution = ts.solve(line, **SIZES)
    decay = ts.Problem(ts.Box(t=(0, 2)), ts.Equation(ts.D(t=1) + 1.0, 0.0), [ts.Initial(1.0)])
    marched = ts.march(decay, 2, **SIZES, coupling="interfaces")
    boxes, features = ts.Decomposition(LINE, 2), ts.RandomFeatures(8)
    laplace = ts.gallery.get("laplace")
    small = {"n": 1, "subdomains": 2, "features": 4}
    boundary = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], float)
    cloud = {"interior": 0.3 * boundary, "boundary": boundary, "normals": boundary}
    statement = _kinds(operator="operator", number="weight")
    parts = _kinds(function="value", unknown="of", number="weight", word="name on")
    same: Callable[[Any], Any] = lambda answer: answer  # noqa: E731
    method = _kinds(
        number="sigma scale overlap oversampling",
        count="subdomains features depth trace_degree",
        seed="seed",
        word="coupling activation solver",
        flag="constant bias shared any_data condition estimate",
        object="basis collocation filter test_grid enrichment progress method",
        function="enrichment",
    )
    found = {
        "Box": Door(ts.Box, {"x": (0, 1), "y": (0, 1)}, _on, _kinds(number="x y")),
        "Ball": Door(
            ts.Ball,
            {"x": 0, "y": 0, "radius": 1, "name": "rim"},
            _on,
            _kinds(number="x y radius", word="name"),
        ),
        "HalfSpace": Door(
            ts.HalfSpace,
            {"x": 0.5, "y": 0, "normal": (1, 0), "name": "cut"},
            lambda half: _on(DISC & half),
            _kinds(number="x y", pair="normal", word="name"),
        ),
        "Polygon": Door(
            ts.Polygon,
            {"vertices": [(0, 0), (1, 0), (0, 1)], "holes": (), "name": "rim", "axes": ("x", "y")},
            _on,
            _kinds(points="vertices holes", word="name axes"),
        ),
        "Implicit": Door(
            ts.Implicit,
            {
                "function": lambda p: jnp.sum(p**2, axis=1) - 1,
                "bounds": {"x": (-1.2, 1.2), "y": (-1.2, 1.2)},
            },
            _on,
            _kinds(function="function", object="bounds", word="name"),
        ),
        "PointCloud": Door(
            ts.PointCloud,
            cloud,
            lambda made: made.signed_distance(0.1 * boundary),
            _kinds(points="interior boundary normals", word="axes"),
        ),
        "Divided": Door(
            ts.Divided,
            {"whole": ts.Box(x=(-2, 2), y=(-2, 2)), "core": DISC},
            lambda made: made.regions,
            _kinds(object="whole core"),
        ),
        "over": Door(lambda t: DISC.over(t=t), {"t": (0, 1)}, _extent, _kinds(pair="t")),
        "&": Door(lambda other: DISC & other, {"other": DISC}, _extent, _kinds(object="other")),
        "named": Door(DISC.named, {"name": "rim"}, lambda d: d.parts, _kinds(word="name")),
        "D": Door(ts.D, {"x": 2}, lambda d: solution.apply(d, X), _kinds(order="x")),
        "f * D": Door(
            lambda f: f * ts.D(x=1), {"f": 2.0}, lambda d: solution.apply(d, X), {"f": "function"}
        ),
        "Field": Door(ts.Field, {"name": "u"}, lambda u: solution.apply(u, X), _kinds(word="name")),
        "Equation": Door(
            ts.Equation,
            {"operator": -ts.D(x=2), "rhs": 2.0, "name": "e", "weight": 1.0, "where": None},
            lambda e: _solved(ts.Problem(LINE, e, [ZERO])),
            {**statement, **_kinds(word="name where", function="rhs")},
        ),
        "Condition": Door(
            ts.Condition,
            {"operator": ts.Identity(), "value": 0.0, "on": "xmin", "weight": 1.0, "name": "c"},
            _with_condition,
            {**statement, **_kinds(word="name on", function="value")},
        ),
        "Dirichlet": Door(ts.Dirichlet, {"value": 0.0, "on": "xmin"}, _with_condition, parts),
        "Neumann": Door(ts.Neumann, {"value": 0.0, "on": "xmin"}, _with_condition, parts),
        "Robin": Door(
            ts.Robin,
            {"alpha": 1.0, "beta": 1.0, "value": 0.0, "on": "xmin"},
            _with_condition,
            {**parts, **_kinds(function="alpha beta")},
        ),
        "Initial": Door(
            ts.Initial,
            {"value": 1.0},
            _over_time,
            _kinds(function="value", unknown="of", number="weight", word="name axis"),
        ),
        "Integral": Door(
            ts.Integral,
            {"value": 0.1},
            _with_condition,
            _kinds(number="value weight", unknown="of"),
        ),
        "Measured": Door(
            ts.Measured,
            {"points": [[0.0]], "values": [0.0]},
            _with_condition,
            _kinds(points="points values", operator="operator", number="weight"),
        ),
        "Periodic": Door(
            ts.Periodic,
            {"axis": "x"},
            lambda c: _solved(ts.Problem(LINE, ts.Equation(ts.D(x=2) - 1, 1.0), [c])),
            _kinds(word="axis"),
        ),
        "Transmission": Door(
            ts.Transmission,
            {"first": "core", "second": "rest"},
            _joined,
            _kinds(word="first second", function="jump flux_jump", pair="flux"),
        ),
        "Ansatz": Door(
            ts.Ansatz,
            {"multiplier": lambda p: p[:, 0] * (1 - p[:, 0]), "offset": 0.0},
            lambda a: _solved(ts.Problem(LINE, POISSON, ansatz=a)),
            _kinds(function="multiplier offset"),
        ),
        "Reference": Door(
            ts.Reference,
            {"points": X, "values": X[:, 0] * (1 - X[:, 0])},
            lambda r: ts.solve(ts.Problem(LINE, POISSON, [ZERO], exact=r), **SIZES).errors()["max"],
            _kinds(points="points values"),
        ),
        "Problem": Door(
            ts.Problem,
            {"domain": LINE, "equation": POISSON, "conditions": [ZERO]},
            _solved,
            _kinds(
                object="domain equation ansatz parameters",
                function="exact",
                word="name fields",
            ),
        ),
        "operator": Door(
            ts.operator,
            {"function": lambda d, x: d(x=2)},
            lambda made: _solved(ts.Problem(LINE, ts.Equation(-made, 2.0), [ZERO])),
            _kinds(function="function"),
        ),
        "solve": Door(
            lambda problem=line, **k: ts.solve(problem, **{**SIZES, **k}),
            {},
            lambda u: u(X),
            {**method, "problem": "object"},
        ),
        "solve cells": Door(
            lambda **k: ts.solve(line, **{**SIZES, "coupling": "interfaces", **k}),
            {},
            lambda u: u(X),
            {k: v for k, v in method.items() if k not in ("overlap", "filter")},
        ),
        "solve tol": Door(
            lambda **k: ts.solve(line, **{"tol": 1e-3, "patience": 9.0, **k}),
            {},
            lambda u: u(X),
            _kinds(number="tol patience", seed="seed", object="test_grid enrichment progress"),
        ),
        "solve iterative": Door(
            lambda **k: ts.solve(line, solver="rrqr-lsqr", **SIZES, **k),
            {},
            lambda u: u(X),
            _kinds(number="atol btol", count="max_iterations track_every", object="progress"),
        ),
        "march": Door(
            lambda problem=decay, slabs=2, **k: ts.march(problem, slabs, **{**SIZES, **k}),
            {},
            lambda u: u(1.5),
            {**method, **_kinds(object="problem", count="slabs")},
        ),
        "fbpinn": Door(
            lambda problem=line, hidden=4, **k: ts.fbpinn(
                problem, hidden, **{"subdomains": 2, "training": ts.Training(steps=2), **k}
            ),
            {},
            lambda u: u(X),
            _kinds(
                object="problem training collocation test_grid progress",
                count="hidden subdomains depth",
                seed="seed",
                number="overlap scale oversampling",
                word="activation",
            ),
        ),
        "Training": Door(
            ts.Training,
            {"steps": 2},
            lambda t: ts.fbpinn(line, 4, subdomains=2, training=t)(X),
            _kinds(
                number="learning_rate",
                count="steps track_every patience checkpoint_every",
                path="checkpoint",
            ),
        ),
        "Decomposition": Door(
            ts.Decomposition,
            {"domain": LINE, "subdomains": 2, "overlap": 2.0},
            lambda made: _by(basis=ts.Basis(made, features), subdomains=None, features=None),
            _kinds(object="domain", count="subdomains", number="overlap"),
        ),
        "Tiling": Door(
            ts.Tiling,
            {"domain": LINE, "subdomains": 2},
            lambda made: _by(basis=ts.CellBasis(made, features), subdomains=None, features=None),
            _kinds(object="domain", count="subdomains"),
        ),
        "RandomFeatures": Door(
            ts.RandomFeatures,
            {"count": 8},
            lambda made: _by(basis=ts.Basis(boxes, made), subdomains=None, features=None),
            _kinds(count="count depth", word="activation", flag="constant bias", number="scale"),
        ),
        "Basis": Door(
            ts.Basis,
            {"decomposition": boxes, "features": features, "seed": 0},
            lambda made: _by(basis=made, subdomains=None, features=None),
            _kinds(object="decomposition features", seed="seed", function="enrichment"),
        ),
        "CellBasis": Door(
            ts.CellBasis,
            {"decomposition": ts.Tiling(LINE, 2), "features": features},
            lambda made: _by(basis=made, subdomains=None, features=None),
            _kinds(
                object="decomposition features", seed="seed", count="trace_degree", flag="shared"
            ),
        ),
        "Multilevel.pyramid": Door(
            ts.Multilevel.pyramid,
            {"finest": ts.Basis(ts.Decomposition(LINE, 4), features)},
            lambda made: _by(basis=made, subdomains=None, features=None),
            _kinds(object="finest", count="coarsest"),
        ),
        "Fields": Door(
            ts.Fields, {"u": ts.Basis(boxes, features)}, lambda made: made.columns, {"u": "object"}
        ),
        "Grid": Door(
            ts.Grid,
            {"oversampling": 2.0},
            lambda made: _by(collocation=made),
            _kinds(number="oversampling", count="points_per_axis"),
        ),
        "RRQR": Door(
            ts.RRQR,
            {"sigma": 1e-10},
            lambda made: _by(filter=made),
            _kinds(number="sigma f", flag="strong"),
        ),
        "LSQR": Door(
            ts.LSQR,
            {},
            lambda made: _by(solver=made),
            _kinds(number="atol btol stagnation", count="max_iterations track_every"),
        ),
        "NestedQR": Door(ts.NestedQR, {}, lambda made: _by(solver=made), {}),
        "Enrichment": Door(
            ts.Enrichment,
            {"function": lambda p: jnp.exp(-p[:, 0]), "where": None},
            lambda made: _by(enrichment=[made]),
            _kinds(function="function", object="where"),
        ),
        "Solution": Door(solution, {"points": X}, same, _kinds(points="points")),
        "Solution.apply": Door(
            solution.apply,
            {"operator": ts.D(x=1), "points": X},
            same,
            _kinds(operator="operator", points="points normals"),
        ),
        "Solution.integral": Door(solution.integral, {}, same, _kinds(operator="operator")),
        "Solution.residual": Door(solution.residual, {"points": X}, same, _kinds(points="points")),
        "Solution[]": Door(
            lambda field: solution[field](X), {"field": "u"}, same, _kinds(word="field")
        ),
        "Solution.on_grid": Door(
            solution.on_grid,
            {"resolution": 3},
            lambda pair: pair[1],
            _kinds(count="resolution", function="where"),
        ),
        "Solution.to_vtk": Door(
            solution.to_vtk,
            {"path": f"{folder}/misuse.vts", "resolution": 3},
            str,
            _kinds(path="path", count="resolution", object="derivatives"),
        ),
        "Solution.save": Door(
            solution.save, {"path": f"{folder}/misuse.npz"}, str, _kinds(path="path")
        ),
        "Solution.plot": Door(
            solution.plot,
            {"path": f"{folder}/misuse.png"},
            lambda _: "",
            _kinds(path="path"),
        ),
        "Marched": Door(marched, {"points": [0.5, 1.5]}, same, _kinds(points="points")),
        "Marched.apply": Door(
            marched.apply,
            {"operator": ts.D(t=1), "points": [0.5, 1.5]},
            same,
            _kinds(operator="operator", points="points normals"),
        ),
        "load": Door(
            ts.load,
            {"path": solution.save(f"{folder}/misuse_load.npz")},
            lambda u: u(X),
            _kinds(path="path", object="problem activation enrichment"),
        ),
        "gallery.get": Door(ts.gallery.get, {"name": "laplace"}, str, _kinds(word="name")),
        "gallery problem": Door(
            laplace.problem,
            {"n": 1},
            lambda p: p.exact_values(np.array([[0.3, 0.4]])),
            {"n": "count"},
        ),
        "gallery solve": Door(
            lambda **own: laplace.solve(settings={**small, **own}, solver="nested-qr"),
            {},
            lambda u: u([[0.3, 0.4]]),
            _kinds(
                count="n subdomains features depth",
                number="sigma scale oversampling",
                word="activation coupling",
                flag="constant bias",
            ),
        ),
    }
    return found


def _extent(domain: Any) -> Any:
    return domain.bounds


def _joined(conditions: Any) -> Any:
    box = ts.Box(x=(-2, 2), y=(-2, 2))
    problem = ts.Problem(
        ts.Divided(box, core=DISC),
        ts.Equation(ts.Laplacian(), 1.0),
        [ts.Dirichlet(0.0), *conditions],
    )
    return ts.solve(problem, subdomains=2, features=4)([[0.1, 0.1]])
