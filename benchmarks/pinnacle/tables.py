"""Right values by NGSolve, kept in tables: `python -m benchmarks.pinnacle.tables NAME ...` computes
them again, each with two orders, and tells how far these are apart."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).with_name("tables")
PI = np.pi
Values = tuple[np.ndarray, np.ndarray]


def table(name: str) -> Values:
    """Points and values there."""
    kept = np.load(HERE / f"{name}.npz")
    return kept["points"], kept["values"]


def _points(contains: Callable[[np.ndarray], np.ndarray], low: Any, high: Any, n: int) -> Any:
    """Random points where a function says."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    x = low + (high - low) * np.random.default_rng(7).random((20 * n, len(low)))
    return x[contains(x)][:n]


def _solved(mesh: Any, space: Any, form: Any, load: Any, found: Any) -> Any:
    """The solution of a symmetric problem with inner unknowns eliminated."""
    import ngsolve as ng

    a = ng.BilinearForm(form, condense=True).Assemble()
    f = ng.LinearForm(load).Assemble()
    rest = f.vec.CreateVector()
    rest.data = f.vec - a.mat * found.vec
    rest.data += a.harmonic_extension_trans * rest
    found.vec.data += a.mat.Inverse(space.FreeDofs(True), "sparsecholesky") * rest
    found.vec.data += a.harmonic_extension * found.vec
    found.vec.data += a.inner_solve * rest
    return found


def charged(finer: bool) -> Values:
    import ngsolve as ng
    from netgen.geom2d import Circle, CSG2d, Rectangle

    from benchmarks.pinnacle.poisson import DISCS

    shape = Rectangle((-1, -1), (1, 1), bc="outer")
    for x, y, r in DISCS:
        shape = shape - Circle((x, y), r, bc="hole")
    geometry = CSG2d()
    geometry.Add(shape)
    order = 12 if finer else 10
    mesh = ng.Mesh(geometry.GenerateMesh(maxh=0.08))
    mesh.Curve(order)
    space = ng.H1(mesh, order=order, dirichlet="outer|hole")
    u, v = space.TnT()
    x, y = ng.x, ng.y
    f = 10 * (17 + x**2 + y**2) * ng.sin(PI * x) * ng.sin(4 * PI * y)
    found = ng.GridFunction(space)
    found.Set(mesh.BoundaryCF({"outer": 0.2, "hole": 1.0}), ng.BND)
    form = (ng.grad(u) * ng.grad(v) + 64 * u * v) * ng.dx
    _solved(mesh, space, form, f * v * ng.dx(bonus_intorder=6), found)

    def outside(p: np.ndarray) -> np.ndarray:
        return np.all([np.hypot(p[:, 0] - a, p[:, 1] - b) > r for a, b, r in DISCS], axis=0)

    at = _points(outside, (-1, -1), (1, 1), 3_000)
    return at, np.asarray(found(mesh(*at.T))).ravel()


def balls(finer: bool) -> Values:
    import ngsolve as ng
    from netgen.csg import CSGeometry, OrthoBrick, Plane, Pnt, Sphere, Vec

    from benchmarks.pinnacle.poisson import BALLS

    cube = OrthoBrick(Pnt(0, 0, 0), Pnt(1, 1, 1))
    for x, y, z, r in BALLS:
        cube = cube - Sphere(Pnt(x, y, z), r)
    half = Plane(Pnt(0, 0, 0.5), Vec(0, 0, 1))
    geometry = CSGeometry()
    geometry.Add((cube * half).mat("low"))
    geometry.Add((cube - half).mat("high"))
    order = 6 if finer else 5
    mesh = ng.Mesh(geometry.GenerateMesh(maxh=0.11))
    mesh.Curve(order)
    space = ng.H1(mesh, order=order)
    u, v = space.TnT()
    waves = [ng.sin(k * PI * c) for k, c in zip((1, 10, 5), (ng.x, ng.y, ng.z), strict=True)]
    r2 = ng.x**2 + ng.y**2 + ng.z**2
    f = 20 * ng.exp(sum(waves)) * (r2 - 1) / (r2 + 1) + 100 * waves[0] * waves[1] * waves[2]
    k2 = mesh.MaterialCF({"low": 64.0, "high": 100.0})
    found = ng.GridFunction(space)
    form = (ng.grad(u) * ng.grad(v) + k2 * u * v) * ng.dx
    _solved(mesh, space, form, f * v * ng.dx(bonus_intorder=4), found)

    def outside(p: np.ndarray) -> np.ndarray:
        away = [np.linalg.norm(p - b[:3], axis=1) > 1.02 * b[3] for b in BALLS]
        return np.all(away, axis=0)

    at = _points(outside, (0, 0, 0), (1, 1, 1), 3_000)
    return at, np.asarray(found(mesh(*at.T))).ravel()


def areas(finer: bool) -> Values:
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured2DMesh

    from benchmarks.pinnacle.poisson import AREAS

    mesh = MakeStructured2DMesh(
        quads=True, nx=20, ny=20, mapping=lambda x, y: (20 * x - 10, 20 * y - 10)
    )
    space = ng.H1(mesh, order=12 if finer else 10)
    u, v = space.TnT()
    load = 0.0
    for row, (a, one, wave) in enumerate(AREAS):
        x, y = (ng.x + 10) / 4 - row // 5, (ng.y + 10) / 4 - row % 5
        inside = (
            ng.IfPos(x, 1, 0) * ng.IfPos(1 - x, 1, 0) * ng.IfPos(y, 1, 0) * ng.IfPos(1 - y, 1, 0)
        )
        load += inside * (one + wave * ng.sin(PI * x) * ng.sin(PI * y)) / a
    found = ng.GridFunction(space)
    form = ng.grad(u) * ng.grad(v) * ng.dx + u * v * ng.ds
    _solved(mesh, space, form, load * v * ng.dx(bonus_intorder=6), found)
    at = _points(lambda p: np.ones(len(p), bool), (-10, -10), (10, 10), 3_000)
    return at, np.asarray(found(mesh(*at.T))).ravel()


def _tables() -> dict[str, Callable[[bool], Values]]:
    from benchmarks.pinnacle import chaotic_tables as chaotic
    from benchmarks.pinnacle import flow_tables as flow
    from benchmarks.pinnacle import heat_tables as heat
    from benchmarks.pinnacle import wave_tables as wave

    own = (charged, balls, areas, heat.varying, heat.stove, heat.long, flow.cavity, flow.step)
    own += (flow.swinging, chaotic.spots, wave.jumping)
    return {make.__name__: make for make in own}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    tables = _tables()
    for name in sys.argv[1:] or tables:
        (x, fine), (_, rough) = tables[name](True), tables[name](False)
        apart = np.linalg.norm(fine - rough) / np.linalg.norm(fine)
        print(f"{name}: two orders are {apart:.0e} apart", flush=True)
        np.savez_compressed(HERE / f"{name}.npz", points=x, values=fine)


if __name__ == "__main__":
    main()
