"""Overlapping subdomains shared by several processes: the solution of one, by the same iterations.

This file is also the script that they run (`tessella.machine.launch`).
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.linalg import row_matrix, shared_matrix
from tessella.linalg.row_matrix import RowMatrix
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.machine import processes
from tessella.machine.launch import launch

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
AT = np.random.default_rng(0).random((200, 2))
STEPS = {"max_iterations": 10, "atol": 0.0, "btol": 0.0}
CHOICES = {"subdomains": (5, 4), "features": 12, "oversampling": 2.0, "sigma": 1e-4}


def source(x):
    return jnp.sin(3 * x[:, 0]) * jnp.cos(2 * x[:, 1])


def coefficient(x):
    return 1 + 0.5 * jnp.sin(5 * x[:, 0]) * x[:, 1]


def varying():
    equation = ts.Equation(-ts.Laplacian() + coefficient * ts.Identity(), source)
    return ts.Problem(SQUARE, equation, [ts.Dirichlet(0.0)])


def wave(x):
    return jnp.cos(2 * jnp.pi * x[:, 0]) / (1 + 4 * jnp.pi**2)


def known():
    """On a ring, with an exact solution that is watched."""
    equation = ts.Equation(-ts.Laplacian() + ts.Identity(), lambda x: jnp.cos(2 * jnp.pi * x[:, 0]))
    conditions = [ts.Periodic("x"), ts.Neumann(0.0, on=("ymin", "ymax"))]
    return ts.Problem(SQUARE, equation, conditions, exact=wave)


def disc():
    equation = ts.Equation(-ts.Laplacian(), 1.0)
    return ts.Problem(ts.Ball(x=0.5, y=0.5, radius=0.8), equation, [ts.Dirichlet(0.0)])


def flow():
    u, p = ts.Field("u"), ts.Field("p")
    equations = [
        ts.Equation(ts.D(x=1) @ u - p, source),
        ts.Equation(ts.D(x=1) @ p + ts.D(y=2) @ u, 1.0),
    ]
    return ts.Problem(SQUARE, equations, [ts.Dirichlet(0.0, of=u)])


BOXES = ts.Decomposition(SQUARE, 8, 2.2)
LEVELS = {
    "basis": ts.Multilevel.two(ts.Basis(BOXES, ts.RandomFeatures(8))),
    "oversampling": 3.0,
    "sigma": 1e-4,
}


@cache
def factored():
    """In several processes common rows are on their way while the others are filled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_matrix, "WORTHWHILE", 1)
        return ts.factor(flow(), solver=ts.LSQR(**STEPS), **CHOICES)


@cache
def by_rows(name):
    """On one core every process has its rows with all columns that they reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_matrix, "PADDED", np.inf)
        if name == "ring by rows":
            return ts.factor(known(), solver=ts.LSMR(**STEPS), **CHOICES)
        if name == "levels by rows":
            return ts.factor(varying(), solver=ts.LSQR(**STEPS), **LEVELS)
        return ts.factor(flow(), solver=ts.LSMR(**STEPS), **CHOICES)


CASES = {
    "lsqr": lambda: factored().solve(),
    "rows": lambda: by_rows("rows").solve(),
    "ring by rows": lambda: by_rows("ring by rows").solve(),
    "levels by rows": lambda: by_rows("levels by rows").solve(),
    "lsmr": lambda: ts.solve(known(), solver=ts.LSMR(**STEPS), **CHOICES),
    "cg": lambda: ts.solve(disc(), solver=ts.CG(**STEPS), **CHOICES),
    "deflated": lambda: ts.solve(
        varying(), solver=ts.DeflatedLSQR(max_iterations=3, atol=0, btol=0), **LEVELS
    ),
}
"""Every solver: with two unknowns, round a ring where the error is watched, on a disc, and with two
levels."""


@cache
def solved(name):
    return CASES[name]()


def test_three_processes_iterate_like_one(tmp_path, capfd, monkeypatch):
    """Every process finds the solution, after the iterations of a single one, and what they send is
    foretold. Before that they refuse what they cannot share."""
    assert run(3, "processes", tmp_path) == 0, capfd.readouterr().err
    said = capfd.readouterr().out
    assert said.count("3 processes cannot share 2 overlapping subdomains: start at most 2") == 3
    assert said.count("differ in the problem") == 6
    for index in range(3):
        with np.load(tmp_path / f"{index}.npz") as found:
            for name in CASES:
                own, u = solved(name), np.asarray(solved(name)(AT))
                apart = np.max(np.abs(found[name] - u)) / np.max(np.abs(u))
                assert apart < 1e-12, (index, name)
                np.testing.assert_allclose(found[f"{name} report"], numbers(own), rtol=1e-9)
            for foretold, counted, _ in found["bytes"]:
                np.testing.assert_allclose(counted, foretold, rtol=0.01)
            _, (foretold, _, by_common_rows) = found["bytes"]
            assert foretold < by_common_rows
    check_parts(tmp_path, monkeypatch)


def check_parts(folder, monkeypatch):
    """What three processes saved is loaded whole, or by two, each its share; a part that is missing
    or another one is refused."""
    whole = ts.load(folder / "u")
    u = np.asarray(solved("deflated")(AT))
    np.testing.assert_allclose(whole(AT), u, rtol=0, atol=1e-12 * np.max(np.abs(u)))
    shares = []
    for index in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(processes, "alone", lambda: False)
            patch.setattr(processes, "number", lambda: 2)
            patch.setattr(processes, "index", lambda index=index: index)
            own = ts.load(folder / "u")
        columns = own.parted.columns(index)
        np.testing.assert_array_equal(own.coefficients, whole.coefficients[columns])
        shares.append(columns)
    every = np.sort(np.concatenate(shares))
    np.testing.assert_array_equal(every, np.arange(len(whole.coefficients)))
    first, second = sorted(folder.glob("u.part*"))[:2]
    second.write_bytes(first.read_bytes())
    with pytest.raises(ValueError, match="not the part that"):
        ts.load(folder / "u")
    second.unlink()
    with pytest.raises(FileNotFoundError, match=r"part1-\w+.npz is missing, a part of"):
        ts.load(folder / "u")


SPREAD = ("lsmr", "cg")
"""What is tried on several devices; LSQR's steps are among LSMR's."""


def test_four_devices_iterate_like_one(tmp_path):
    """Of one process: rows that several have are added up by XLA."""
    flag = "--xla_force_host_platform_device_count=4"
    command = [sys.executable, __file__, "devices", str(tmp_path)]
    subprocess.run(command, env={**os.environ, "XLA_FLAGS": flag}, check=True)
    with np.load(tmp_path / "0.npz") as found:
        for name in SPREAD:
            own = solved(name)
            np.testing.assert_allclose(found[name], np.asarray(own(AT)), atol=1e-12)
            np.testing.assert_allclose(found[f"{name} report"], numbers(own), rtol=1e-9)


def numbers(solution):
    """Of the report: what does not depend on who solved."""
    report = solution.report
    own = [report.rows, report.columns, report.columns_kept, report.iterations]
    return np.array([*own, *report.residual.values(), report.error_oracle_minimum or 0.0])


def bytes_sent():
    """Foretold, counted, and foretold if every row is kept by all that see it."""
    found = []
    for name, own in (("lsqr", factored()), ("levels by rows", by_rows("levels by rows"))):
        counted = re.search(r"sent ([\d,]+) bytes", solved(name).report.solver_note)
        state = own.ready.state
        each = state.bytes if isinstance(state, RowMatrix) else None
        often = STEPS["max_iterations"]
        foretold, by_common = (own.ready.share.bytes(often, each=x) for x in (each, None))
        found.append((foretold, int(counted[1].replace(",", "")), by_common))
    return found


def check_rows():
    """Those of all processes together are those of the matrix, each once; M v and M^T u are the
    same either way."""
    for name in ("rows", "ring by rows", "levels by rows"):
        ready = by_rows(name).ready
        rows, shared = ready.state, SharedMatrix(ready.state.blocks, ready.share.halo)
        assert isinstance(rows, RowMatrix) and rows.shape == shared.shape
        own = [at[at < rows.shape[0]] for at in (rows.border.rows, rows.inner.rows)]
        assert processes.total("rows", np.array(sum(map(len, own)))) == ready.system.rows
        assert len(own[0]) and len(np.intersect1d(*own)) == 0
        random = np.random.default_rng(processes.index())
        v = random.standard_normal(rows.shape[1])
        u = np.asarray(shared.matvec(v))
        np.testing.assert_allclose(rows.matvec(v), u, rtol=0, atol=1e-12)
        np.testing.assert_allclose(rows.rmatvec(u), shared.rmatvec(u), rtol=0, atol=1e-11)
        with pytest.MonkeyPatch.context() as patch:  # what does not pay for one is done by none
            patch.setattr(row_matrix, "PADDED", 0.0 if processes.index() == 1 else np.inf)
            assert row_matrix.by_rows(shared) is shared


def check_sums():
    """On their way while more is exchanged than sockets hold, and the same to the last bit."""
    me, every = processes.index(), range(processes.number())
    parts = np.random.default_rng(2).standard_normal((len(every), 5))
    first = processes.coming_total("first", parts[me])
    second = processes.coming_total("second", 2.0 * parts[me])
    much = {q: np.full(1 << 19, 10.0 * me + q) for q in every if q != me}
    for q, got in processes.swapped("much", much).items():
        assert got.shape == (1 << 19,) and np.all(got == 10 * q + me)
    np.testing.assert_array_equal(second(), sum(2.0 * parts))
    np.testing.assert_array_equal(first(), sum(parts))


def run(number, *arguments):
    return launch(number, [sys.executable, __file__, *map(str, arguments)], most=1)


def main(what, folder):
    ts.distributed()
    values = {}
    if what == "processes":
        inner = [len(part.groups) for part in factored().ready.state._parts][1]
        assert processes.largest("inner", inner) > 0
        check_sums()
        check_rows()
        refused()
        values["bytes"] = bytes_sent()
    for name in CASES if what == "processes" else SPREAD:
        u = solved(name)
        values |= {name: np.asarray(u(AT)), f"{name} report": numbers(u)}
    if what == "processes":
        solved("deflated").save(Path(folder) / "u")
    np.savez(Path(folder) / f"{processes.index()}.npz", **values)


def refused():
    """Fewer subdomains than processes, and another problem in each; not one that is rounded in
    another way."""
    me, few = processes.index(), ts.LSQR(max_iterations=1)
    for subdomains, features, more in (
        ((2, 1), 12, 0.0), (4, 12 + me, 0.0), (4, 12, 1e-6), (4, 12, 4e-16)
    ):  # fmt: skip
        equation = ts.Equation(-ts.Laplacian(), lambda x, more=more: source(x) * (1.0 + me * more))
        problem = ts.Problem(SQUARE, equation, [ts.Dirichlet(0.0)])
        try:
            ts.solve(problem, subdomains=subdomains, features=features, solver=few)
        except ValueError as error:
            print(error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
