"""The same script in several processes: the same solution, and an end that names who is missing.

This file is also that script (`tessella.machine.launch`).
"""

import dataclasses
import os
import re
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.accuracy import tuning
from tessella.cells import factoring
from tessella.cells.device import factors as device
from tessella.cells.device import shared as device_blocks
from tessella.cells.device.shared import DeviceBlocks, block_factors
from tessella.cells.factors import CellFactors
from tessella.cells.joins import choosing
from tessella.cells.joins import join as joins
from tessella.cells.joins.traffic import exchange_traffic, traffic
from tessella.cells.maps import leaves
from tessella.cells.order.front import Front
from tessella.cells.solvers import Exchange
from tessella.machine import archive, processes
from tessella.machine.launch import launch
from tessella.machine.memory import limited

SQUARE = ts.Box(x=(0, 1), y=(0, 1))
CELLS = {"coupling": "interfaces", "features": 30}
GROUPS = Exchange(tolerance=1e-14, group=4)
AT = np.random.default_rng(0).random((200, 2))


def source(x):
    return jnp.sin(3 * x[:, 0]) * jnp.cos(2 * x[:, 1])


def coefficient(x):
    return 1 + 0.5 * jnp.sin(5 * x[:, 0]) * x[:, 1]


def varying(value=0.0):
    equation = ts.Equation(-ts.Laplacian() + coefficient * ts.Identity(), source)
    return ts.Problem(SQUARE, equation, [ts.Dirichlet(value)])


def closed():
    equation = ts.Equation(-ts.Laplacian(), lambda x: jnp.cos(jnp.pi * x[:, 0]))
    return ts.Problem(SQUARE, equation, [ts.Neumann(0.0), ts.MeanZero()])


def rod():
    start = ts.Initial(lambda x: jnp.sin(jnp.pi * x[:, 0]))
    equation = ts.Equation(ts.D(t=1) - 0.1 * ts.D(x=2))
    return ts.Problem(ts.Box(x=(0, 1), t=(0, 0.3)), equation, [ts.Dirichlet(0.0), start])


def breaking():
    """A coefficient that is no number for a while, at few points of one process."""

    def broken(x):
        return np.where((x[:, 0] > 0.9) & (np.abs(x[:, 1] - 0.12) < 0.01), np.nan, 0.1)

    equation = ts.Equation(ts.D(t=1) - broken * ts.D(x=2))
    return dataclasses.replace(rod(), equation=equation)


def disc():
    equation = ts.Equation(-ts.Laplacian(), 1.0)
    return ts.Problem(ts.Ball(x=0.5, y=0.5, radius=1.0), equation, [ts.Dirichlet(0.0)])


def blown():
    """A wind that turns, and not at a face."""
    wind = ts.D(y=1) + (lambda x: x[:, 0] - 0.4) * ts.D(x=1) + ts.Identity()
    return ts.Problem(SQUARE, ts.Equation(wind, source), [ts.Dirichlet(1.0, on="ymin")])


def measured():
    """Half of the boundary, which a function chooses, and readings in single cells."""
    left = ts.Dirichlet(0.0, on=lambda x: x[:, 0] < 0.5, name="left")
    right = ts.Neumann(1.0, on=lambda x: x[:, 0] >= 0.5)
    values = np.array([0.01, 0.02]) * (1.0 + 4e-16 * processes.index())  # as others may round
    seen = ts.Measured([[0.3, 0.4], [0.35, 0.45]], values, name="seen")
    return ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), source), [left, right, seen])


def after():
    """A solution in parts as the data of another problem."""
    u = ts.solve(varying(), subdomains=(3, 2), estimate=False, **CELLS)
    equation, wall = (lambda x: u(np.asarray(x))), ts.Dirichlet(lambda x: u(np.asarray(x)))
    problem = ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), equation), [wall])
    return ts.solve(problem, subdomains=(3, 2), estimate=False, **CELLS)(AT)


def gradient():
    """By two parameters, of values at points."""

    def problem_of(theta):
        operator = -ts.Laplacian() + theta[0] * ts.Identity()
        equation = ts.Equation(operator, lambda x: theta[1] * source(x))
        return ts.Problem(SQUARE, equation, [ts.Dirichlet(0.0)])

    u = ts.parametric(problem_of, AT[:5], subdomains=2, **CELLS)
    return jax.grad(lambda theta: jnp.sum(u(theta) ** 2))(jnp.array([1.0, 2.0]))


def points_asked():
    """The most points at which a coefficient and data are asked for."""
    asked = []

    def counted(x):
        asked.append(len(x))
        return 1 + x[:, 0]

    equation = ts.Equation(-ts.Laplacian() + counted * ts.Identity(), counted)
    problem = ts.Problem(SQUARE, equation, [ts.Dirichlet(counted)])
    ts.factor(problem, subdomains=6, **CELLS).solve(rhs=counted)
    return max(asked)


def warming():
    """A coefficient that changes in time."""
    diffusion = (lambda x: 0.1 + 0.1 * x[:, 1]) * ts.D(x=2)
    return dataclasses.replace(rod(), equation=ts.Equation(ts.D(t=1) - diffusion))


def marched(problem=None, subdomains=(4, 1), **kept):
    march = ts.march(problem or rod(), slabs=3, subdomains=subdomains, **CELLS, **kept)
    return march(AT * [1, 0.3])


def back(problem, **choices):
    """Of the transposed system, of which every process has its own rows, a number for each of two
    right-hand sides."""
    factored = ts.factor(problem, subdomains=4, **CELLS, **choices)
    a = np.random.default_rng(1).standard_normal((2, factored.parts.basis.columns))
    rows = factored.ready.transposed(a)
    return processes.total("back", rows @ (1 + factored.ready.system.right))


def after_an_error():
    """What one process cannot map or join, and a function that is not finite in the cells of one,
    are refused by all, and what they solve for afterwards is right."""
    factored = ts.factor(varying(), subdomains=3, **CELLS)
    for module, name in ((leaves, "cholesky"), (joins, "invert")):
        with pytest.MonkeyPatch.context() as patch:
            if processes.index() == processes.number() - 1:
                patch.setattr(module, name, no_room)
            with pytest.raises(MemoryError, match="no room"):
                ts.factor(varying(), subdomains=4, **CELLS)
    with pytest.raises(ValueError, match="not finite"):
        factored.solve(rhs=lambda x: np.where(x[:, 0] > 0.9, np.nan, 1.0))
    with pytest.raises(ValueError, match="not finite"):
        ts.march(breaking(), slabs=3, subdomains=(4, 1), **CELLS)
    return factored.solve(rhs=7.0)(AT)


def sooner():
    """Groups that exchange the rest, thought to be the faster way; whatever the process, all do the
    same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "_merging", lambda *_: 100.0)
        u = ts.solve(varying(), subdomains=(5, 4), estimate=False, **CELLS)
    assert u.report.solver == "exchange"
    return u(AT)


def no_room(*_):
    raise MemoryError("no room for this")


def rounding():
    """Data that are rounding errors, which other points beside them change."""

    def data(x):
        return np.full(len(x), 1e-14 * x[0, 0])

    return ts.solve(varying(data), subdomains=3, estimate=False, **CELLS)(AT)


def differing(me):
    """Problems that are not those of the other process: in cells, data, weights, where a condition
    holds, and what is integrated."""
    equation = ts.Equation(-ts.Laplacian(), 1.0)
    corner = ts.Dirichlet(0.0, on=lambda x: x[:, 0] < 0.5 + 0.2 * me)
    share = ts.Integral(0.1, of=(lambda x: 1.0 + me * x[:, 0]) * ts.Identity())
    swapped = ts.Dirichlet(0.0, on=("xmin", "xmax")[me])
    yield varying(0.0), 2 + me
    yield varying(float(me)), 2
    yield varying(lambda x: x[:, 0] + 1e-6 * me), 2
    yield ts.Problem(SQUARE, equation, [ts.Dirichlet(0.0, weight=1.0 + 99 * me)]), 2
    yield ts.Problem(SQUARE, equation, [corner, ts.Neumann(0.0, on=lambda x: x[:, 0] > 0.5)]), 2
    yield ts.Problem(SQUARE, equation, [ts.Neumann(0.0, on=("ymin", "ymax")), swapped]), 2
    yield ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 0.0), [ts.Neumann(0.0), share]), 2
    yield ts.Problem(SQUARE, equation, [ts.Dirichlet(0.0), ts.Measured([[0.3, 0.4]], [me])]), 2


def solved():
    """What is compared."""
    factored = ts.factor(varying(), subdomains=4, **CELLS)
    return {
        "merged": ts.solve(varying(), subdomains=(5, 4), estimate=False, **CELLS)(AT),
        "exchanged": ts.solve(varying(), subdomains=(3, 2), solver="exchange", **CELLS)(AT),
        "groups": ts.solve(varying(), subdomains=(5, 4), solver=GROUPS, **CELLS)(AT),
        "sooner": sooner(),
        "sums": ts.solve(closed(), subdomains=3, estimate=False, **CELLS)(AT),
        "disc": ts.solve(disc(), subdomains=3, estimate=False, **CELLS)(AT),
        "refined": ts.solve(varying(), tol=1e-3)(AT),
        "marched": marched(),
        "several": np.stack([np.asarray(u(AT)) for u in factored.solve(rhs=[1.0, source])]),
        "transposed": back(varying()),
        "transposed sums": back(closed()),
        "transposed groups": back(varying(), solver=GROUPS),
        "blown": ts.solve(blown(), subdomains=(3, 2), estimate=False, **CELLS)(AT),
        "measured": ts.solve(measured(), subdomains=4, estimate=False, **CELLS)(AT),
        "after": after(),
        "after an error": after_an_error(),
        "rounding": rounding(),
        "gradient": gradient(),
    }


def apart():
    """Pieces that touch nowhere: some joins close no ports."""
    domain = ts.Box(x=(0, 1), y=(0, 1)) | ts.Box(x=(1.5, 2), y=(0, 1)) | ts.Box(x=(3, 4), y=(0, 1))
    problem = ts.Problem(domain, ts.Equation(-ts.Laplacian(), source), [ts.Dirichlet(0.0)])
    return ts.solve(problem, subdomains=(8, 2), estimate=False, **CELLS)(AT)


def joined_together():
    """What joins of several processes are asked for."""
    factored = ts.factor(varying(), subdomains=(7, 6), **CELLS)
    return {
        "merged": factored.solve()(AT),
        "several": np.stack([np.asarray(u(AT)) for u in factored.solve(rhs=[1.0, source])]),
        "sums": ts.solve(closed(), subdomains=4, estimate=False, **CELLS)(AT),
        "transposed": back(varying()),
        "transposed sums": back(closed()),
        "transposed groups": back(varying(), solver=GROUPS),
        "apart": apart(),
        "growth": processes.largest("growth", factored.ready.joined.growth),
    }


def ring():
    """A coefficient that varies round a ring."""
    around = (lambda x: 2 + jnp.sin(2 * jnp.pi * x[:, 0])) * ts.Identity()
    equation = ts.Equation(-ts.Laplacian() + around, 1.0)
    return ts.Problem(SQUARE, equation, [ts.Periodic("x"), ts.Dirichlet(0.3)])


def halves():
    """Two conditions on one side, each for half of it: one that the cells of a process know nothing
    of."""
    below = lambda x: jnp.where(x[:, 1] < 0.5, 1.0, 0.0)  # noqa: E731
    above = lambda x: 1.0 - below(x)  # noqa: E731
    mixed = [
        ts.Condition(below * ts.Identity(), 0.0, on="xmin", name="below"),
        ts.Condition(above * ts.D(x=1), 0.0, on="xmin", name="above"),
    ]
    walls = ts.Dirichlet(0.0, on=["xmax", "ymin", "ymax"])
    return ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 1.0), [walls, *mixed])


def marched_in_boxes():
    """Slabs whose coefficient changes, each factored as the first one chose to be; and again with
    half of the features."""
    made = []

    def kept(*given):
        made.append(block_factors(*given))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "_merging", lambda *_: 100.0)
        patch.setattr(factoring, "block_factors", kept)
        values = marched(warming(), (8, 1))
    solvers = {own.solver for own in made if own is not None}
    every = [Exchange(tolerance=1e-14, group=2, coarse=own) for own in (False, True)]
    assert processes.alone() or (len(made) == 6 and len(solvers) == 1 and solvers < set(every))
    return values


def on_devices():
    """What boxes of cells are asked for that each process has on a device of its own: merged, and
    between boxes exchanged."""
    factored = ts.factor(varying(), subdomains=(5, 4), **CELLS)
    return {
        "merged": ts.solve(varying(), subdomains=(5, 4), estimate=False, **CELLS)(AT),
        "sooner": sooner(),
        "halves": ts.solve(halves(), subdomains=(2, 4), estimate=False, **CELLS)(AT),
        "marched, exchanged": marched_in_boxes(),
        "ring": ts.solve(ring(), subdomains=(8, 2), estimate=False, **CELLS)(AT),
        "several": np.stack([np.asarray(u(AT)) for u in factored.solve(rhs=[1.0, source])]),
        "refined": ts.solve(varying(), tol=1e-3)(AT),
        "marched": marched(subdomains=(8, 1)),
    }


def pretend_gpus():
    """Whoever asks for one has it, and all work is worth it."""
    jax.default_backend = lambda: "gpu"
    device.WORTH = device.FAR = tuning.GPU_WORK = 0.0


def what_belongs_there():
    """Boxes of cells that are well determined; what does not fit is refused by all."""

    def made(problem=None):
        return type(ts.factor(problem or varying(), subdomains=4, **CELLS).ready)

    assert made() is DeviceBlocks
    assert made(closed()) is made(disc()) is CellFactors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_blocks, "WELL", 1.0)
        assert made() is CellFactors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_blocks, "joining_bytes", lambda *_: 1e16 * processes.index())
        with pytest.raises(MemoryError, match=r"what 4 processes have on their devices by merging"):
            made()
    exchange = ts.factor(varying(), subdomains=4, solver=Exchange(group=4), **CELLS).ready
    assert type(exchange) is DeviceBlocks
    assert exchange.solver == Exchange(group=4)
    assert type(ts.factor(varying(), subdomains=4, solver="exchange", **CELLS).ready) is CellFactors
    for name in ("ported", "map_cells", "risen", "fallen", "finished"):
        full_in_one(name)
    full_in_one("risen", calls=1)


def full_in_one(program, calls=0):
    """A device that has no room, perhaps after so many calls, is one for all."""
    own, left = getattr(device_blocks, program), iter(range(calls))

    class Full:
        eval_shape = getattr(own, "eval_shape", None)

        def __call__(self, *given, **named):
            if next(left, None) is not None:
                return own(*given, **named)
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    with pytest.MonkeyPatch.context() as patch:
        if processes.index() == processes.number() - 1:
            patch.setattr(device_blocks, program, Full())
        with pytest.raises(MemoryError, match="use fewer features, subdomains or points"):
            ts.factor(varying(), subdomains=4, **CELLS).solve()


def in_parts(file):
    """A solution of which each process has a part: called with the same points, and with points of
    each one's own; saved, and loaded again. A save that fails in one of them, or to folders that
    are not the same, leaves what was there, and the next one leaves no other parts."""
    u = ts.solve(varying(), subdomains=(5, 4), estimate=False, **CELLS)
    me, values = processes.index(), u(AT)
    assert 0 < len(u.coefficients) < u.basis.columns
    np.testing.assert_allclose(u(AT[me : 2 * me]), values[me : 2 * me], rtol=0, atol=1e-14)
    np.testing.assert_allclose(u.whole()(AT), values, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="1 points lie outside"):
        u([[0.5, 2.0 * me]])
    half = dataclasses.replace(u, coefficients=u.coefficients / 2)
    half.save(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "write", elsewhere(archive.write) if me else archive.write)
        with pytest.raises((OSError, RuntimeError), match=r"process 1 has written .* does not see"):
            u.save(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "write", archive.write if me else full_disk)
        with pytest.raises((OSError, RuntimeError), match="disk is full"):
            u.save(file)
    u.save(file)
    return values


def elsewhere(write):
    """To a folder of the same name on the disk of another machine."""
    return lambda path, *given, **arrays: write(path.with_name(f".{path.name}"), *given, **arrays)


def full_disk(*_, **__):
    raise OSError("the disk is full")


SMALL = 2048
"""Bytes of norms, residuals and jumps, which are not foretold."""

SCARCE = 11 << 18
"""Bytes that are too few for one process and enough for each of two."""


def scarce():
    return ts.solve(varying(), subdomains=8, solver="merging", estimate=False, **CELLS)(AT)


def bytes_sent():
    """To join and to solve, foretold and counted: merged, and between groups after a trial."""
    found = []
    choices = {"subdomains": 6, "coupling": "interfaces", "features": 60}
    for solver in (None, GROUPS):
        factored = ts.factor(varying(), solver=solver, **choices)
        ready, report = factored.ready, factored.solve().report
        columns = max(space.columns for space in ready.spaces)
        joined, ends = ready.joined, ready.system.cells.faces.ends
        foretold = traffic(joined.order, ends, columns)
        counted = re.search(r"sent ([\d,]+) bytes to join and ([\d,]+)", report.solver_note)
        counted = [int(n.replace(",", "")) for n in counted.groups()]
        if solver is not None:
            before = processes.sent_bytes()
            trial = joined.trial(100)
            sent = processes.total("sent", np.array([processes.sent_bytes() - before]))[0]
            tried = len(trial.history)
            made = report.iterations, tried, trial.again / tried
            coarse = joined.coarse_order
            foretold = exchange_traffic(Front(joined.order, 4), ends, columns, *made, coarse)
            counted[0] += sent
        found.append([foretold, counted])
    return found


def run(number, *arguments):
    return launch(number, [sys.executable, __file__, *map(str, arguments)])


def test_two_processes_find_what_one_does(tmp_path, capfd):
    """Cells merged and exchanged, cut and summed over, refined, marched and factored; and what is
    too large for one of them."""
    assert run(2, "solve", tmp_path) == 0, capfd.readouterr().err
    with limited(SCARCE), pytest.raises(MemoryError, match="take 2 processes"):
        scarce()
    alone = {**solved(), "scarce": scarce()}
    alone["parts"], asked = alone["merged"], points_asked()
    for index in range(2):
        with np.load(tmp_path / f"{index}.npz") as found:
            for name, value in alone.items():
                apart = np.max(np.abs(found[name] - value)) / np.max(np.abs(value))
                assert apart < (1e-12 if name != "refined" else 1e-10), (index, name)
            for foretold, counted in found["bytes"]:
                np.testing.assert_allclose(counted, foretold, rtol=0.1, atol=SMALL)
            assert found["asked"] < 0.55 * asked
            assert found["beside"].tolist() == [10 + (1 - index), 7]

    files = sorted(file.name[:8] for file in tmp_path.glob("u.*"))
    assert files == ["u.npz", "u.part0-", "u.part1-"]
    np.testing.assert_allclose(ts.load(tmp_path / "u")(AT), alone["merged"], rtol=0, atol=1e-12)


def test_four_processes_make_joins_together(tmp_path, capfd):
    assert run(4, "join", tmp_path) == 0, capfd.readouterr().err
    alone = joined_together()
    with np.load(tmp_path / "3.npz") as found:
        for name, value in alone.items():
            apart = np.max(np.abs(found[name] - value)) / np.max(np.abs(value))
            assert apart < (1e-12 if name != "growth" else 0.5), name
        for foretold, counted in found["bytes"]:
            np.testing.assert_allclose(counted, foretold, rtol=0.1, atol=SMALL)


def test_each_of_four_processes_has_its_cells_on_a_device_of_its_own(tmp_path, capfd):
    assert run(4, "devices", tmp_path) == 0, capfd.readouterr().err
    alone = on_devices()
    with np.load(tmp_path / "1.npz") as found:
        for name, value in alone.items():
            apart = np.max(np.abs(found[name] - value)) / np.max(np.abs(value))
            assert apart < (1e-12 if name != "refined" else 1e-10), name


def test_a_killed_process_ends_the_other_and_is_named(tmp_path, capfd):
    """Before that they state different problems, which both notice and survive; what they had
    finished until then another one goes on from."""
    assert run(2, "end", tmp_path) == 128 + signal.SIGKILL
    said = capfd.readouterr()
    assert said.out.count("differ in the problem") == 16
    assert "process 1 ended without a word" in said.err
    assert "process 1 was ended by SIGKILL" in said.err
    assert "solved without the other" not in said.out
    first = (tmp_path / "00001.npz").stat().st_mtime_ns
    np.testing.assert_allclose(marched(checkpoint=tmp_path), marched(), rtol=0, atol=1e-12)
    assert (tmp_path / "00001.npz").stat().st_mtime_ns == first


def main(what, *folder):
    ts.distributed()
    if what == "solve":
        values = solved()
        with limited(SCARCE):
            values["scarce"] = scarce()
        values["parts"] = in_parts(Path(*folder) / "u")
        known = {"bytes": bytes_sent(), "asked": points_asked()}
        known["beside"] = processes.beside("beside", 10 + processes.index(), 7)
        np.savez(Path(*folder) / f"{processes.index()}.npz", **known, **values)
        return
    me = processes.index()
    if what == "join":
        np.savez(Path(*folder) / f"{me}.npz", bytes=bytes_sent(), **joined_together())
        return
    if what == "devices":
        pretend_gpus()
        what_belongs_there()
        np.savez(Path(*folder) / f"{me}.npz", **on_devices())
        return
    for problem, cells in differing(me):
        try:
            ts.solve(problem, subdomains=cells, **CELLS)
        except ValueError as error:
            print(error, flush=True)
    kept = Path(*folder)

    def killing(*_):
        if processes.index() == 1 and (kept / "00001.npz").exists():
            os.kill(os.getpid(), signal.SIGKILL)

    marched(progress=killing, checkpoint=kept)
    print("solved without the other")


if __name__ == "__main__":
    main(*sys.argv[1:])
