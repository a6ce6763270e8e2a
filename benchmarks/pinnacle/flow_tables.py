"""What is right for the flows: Taylor and Hood's elements of high order, by NGSolve."""

from __future__ import annotations

from typing import Any

import numpy as np

Values = tuple[np.ndarray, np.ndarray]
NU = 0.01


def _steady(mesh: Any, order: int, still: str, given: dict[str, Any], at: np.ndarray) -> np.ndarray:
    """u, v and p at points, by Newton's method from Stokes flow."""
    import ngsolve as ng

    V = ng.VectorH1(mesh, order=order, dirichlet="|".join([still, *given]))
    X = V * ng.H1(mesh, order=order - 1)
    (u, p), (v, q) = X.TnT()
    stokes = NU * ng.InnerProduct(ng.Grad(u), ng.Grad(v)) - ng.div(u) * q - ng.div(v) * p
    a = ng.BilinearForm(X)
    a += (stokes + ng.InnerProduct(ng.Grad(u) * u, v) - 1e-10 * p * q) * ng.dx
    found = ng.GridFunction(X)
    found.components[0].Set(mesh.BoundaryCF(given, default=ng.CF((0, 0))), ng.BND)
    free, change, rest = X.FreeDofs(), found.vec.CreateVector(), found.vec.CreateVector()
    for _ in range(12):
        a.Apply(found.vec, rest)
        a.AssembleLinearization(found.vec)
        change.data = a.mat.Inverse(free, "umfpack") * rest
        found.vec.data -= change
        if change.Norm() < 1e-10 * found.vec.Norm():
            break
    places = mesh(*at.T)
    flow = np.asarray(found.components[0](places))
    return np.column_stack([flow, np.asarray(found.components[1](places)).ravel()])


def cavity(finer: bool) -> Values:
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured2DMesh

    def graded(s: float) -> float:
        return float(0.5 - 0.5 * np.cos(np.pi * s))

    mesh = MakeStructured2DMesh(
        quads=True, nx=14, ny=14, mapping=lambda x, y: (graded(x), graded(y))
    )
    at = np.concatenate([np.random.default_rng(7).random((3_000, 2)), [[1e-9, 1e-9]]])
    lid = ng.CF((4 * ng.x * (1 - ng.x), 0))
    found = _steady(mesh, 7 if finer else 6, "left|right|bottom", {"top": lid}, at)
    found[:, 2] -= found[-1, 2]
    return at[:-1], found[:-1]


def step(finer: bool) -> Values:
    import ngsolve as ng
    from netgen.geom2d import SplineGeometry

    geometry = SplineGeometry()
    corners = [(0, 0), (4, 0), (4, 2), (2, 2), (2, 1), (0, 1)]
    names = ["wall", "out", "wall", "wall", "wall", "in"]
    points = [geometry.AppendPoint(*c, maxh=0.005 if c == (2, 1) else 0.15) for c in corners]
    for k, name in enumerate(names):
        geometry.Append(["line", points[k], points[(k + 1) % 6]], bc=name)
    mesh = ng.Mesh(geometry.GenerateMesh(maxh=0.15, grading=0.4))
    x = np.random.default_rng(7).random((6_000, 2)) * [4, 2]
    at = x[(x[:, 0] > 2) | (x[:, 1] < 1)][:3_000]
    inflow = ng.CF((4 * ng.y * (1 - ng.y), 0))
    return at, _steady(mesh, 5 if finer else 4, "wall", {"in": inflow}, at)


def swinging(finer: bool) -> Values:
    """Crank and Nicolson's steps. Twice as many tell their error, which is taken out; it falls with
    the square of their number, whatever the order in space."""
    (at, few), (_, many) = (_stepped(4, steps) for steps in (200, 400))
    error = 4 / 3 * (few - many)
    if not finer:
        return at, few - error
    return at, _stepped(5, 250)[1] - (200 / 250) ** 2 * error


TIMES = 10


def _stepped(order: int, steps: int) -> Values:
    """At ten times. The pressure of a step is that of its middle, so the mean of two is taken."""
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured2DMesh

    mesh = MakeStructured2DMesh(quads=True, nx=10, ny=6, mapping=lambda x, y: (2 * x, y))
    V = ng.VectorH1(mesh, order=order, dirichlet="left|top|bottom")
    X = V * ng.H1(mesh, order=order - 1)
    (u, p), (v, q) = X.TnT()
    h, t = 5 / steps, ng.Parameter(0.0)
    before, found = ng.GridFunction(X), ng.GridFunction(X)
    old = before.components[0]
    half = (u + old) / 2
    slope = (ng.Grad(u) + ng.Grad(old)) / 2
    force = -ng.sin(np.pi * ng.x) * ng.sin(np.pi * ng.y) * ng.sin(np.pi * (t - h / 2))
    a = ng.BilinearForm(X)
    a += ((u - old) * v / h + NU * ng.InnerProduct(slope, ng.Grad(v))) * ng.dx
    a += (ng.InnerProduct(slope * half, v) - force * v[1]) * ng.dx
    a += (-ng.div(u) * q - ng.div(v) * p - 1e-10 * p * q) * ng.dx
    swing = sum(ng.sin(k * np.pi * t) for k in (1, 3, 5))
    inflow = mesh.BoundaryCF({"left": ng.CF((ng.sin(np.pi * ng.y) * swing, 0))}, ng.CF((0, 0)))
    free, rest, change = X.FreeDofs(), found.vec.CreateVector(), found.vec.CreateVector()
    x = np.random.default_rng(7).random((300, 2)) * [2, 1]
    places, points, values = mesh(*x.T), [], []
    for step in range(1, steps + 2):
        t.Set(step * h)
        before.vec.data = found.vec
        found.components[0].Set(inflow, ng.BND)
        for _ in range(3):
            a.Apply(found.vec, rest)
            a.AssembleLinearization(found.vec)
            change.data = a.mat.Inverse(free, "umfpack") * rest
            found.vec.data -= change
            if change.Norm() < 1e-8 * found.vec.Norm():
                break
        pressure = np.asarray(found.components[1](places))
        if step % (steps // TIMES) == 0:
            points.append(np.column_stack([x, np.full(len(x), step * h)]))
            values.append(np.column_stack([np.asarray(found.components[0](places)), pressure]))
        elif step > 1 and (step - 1) % (steps // TIMES) == 0:
            values[-1][:, 2:] = (values[-1][:, 2:] + pressure.reshape(-1, 1)) / 2
    return np.concatenate(points), np.concatenate(values)
