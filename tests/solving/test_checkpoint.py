"""Runs that are ended at any moment and begun again: nothing finished is lost, the end is the same.

This file is also the script that is killed.
"""

import os
import random
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.solving import checkpoint, tolerance
from tessella.solving.time.track import Track

AT = np.random.default_rng(0).random((200, 2))
CELLS = {"coupling": "interfaces", "features": 30}


def peak(width=0.02):
    equation = ts.Equation(
        -ts.Laplacian(), lambda x: jnp.exp(-jnp.sum((x - 0.3) ** 2, axis=1) / width**2)
    )
    return ts.Problem(ts.Box(x=(0, 1), y=(0, 1)), equation, [ts.Dirichlet(0.0)])


def rod(power=1):
    start = ts.Initial(lambda x: jnp.sin(jnp.pi * x[:, 0]) ** power)
    equation = ts.Equation(ts.D(t=1) - 0.1 * ts.D(x=2))
    return ts.Problem(ts.Box(x=(0, 1), t=(0, 1)), equation, [ts.Dirichlet(0.0), start])


def wave():
    start = ts.Initial(lambda x: jnp.exp(-100 * (x[:, 0] - 0.3) ** 2))
    equation = ts.Equation(ts.D(t=2) - ts.D(x=2))
    conditions = [ts.Dirichlet(0.0), start, ts.InitialVelocity(0.0)]
    return ts.Problem(ts.Box(x=(0, 1), t=(0, 1)), equation, conditions)


def bent():
    equation = ts.Equation(lambda d, x: -d(x=2) + d() ** 3, lambda x: 1e3 * jnp.sin(20 * x[:, 0]))
    return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)])


DOORS = {
    "refined": lambda **kept: ts.solve(peak(), tol=1e-8, **kept)(AT),
    "marched": lambda **kept: ts.march(rod(), 8, subdomains=(3, 1), **CELLS, **kept)(AT),
    "unjudged": lambda **kept: ts.march(
        rod(), 8, subdomains=(3, 1), estimate=False, **CELLS, **kept
    )(AT),
    "stepped": lambda **kept: ts.solve(wave(), tol=1e-6, **kept)(AT),
    "nonlinear": lambda **kept: ts.solve(bent(), tol=1e-8, **kept)(AT[:, :1]),
}


class KilledError(BaseException):
    """As if the process had ended."""


def dying(function, at):
    """The same function, whose call number `at` is the last thing that happens."""
    calls = []

    def called(*arguments, **named):
        calls.append(arguments)
        if len(calls) == at:
            raise KilledError
        return function(*arguments, **named)

    return called


@pytest.mark.parametrize(
    ("door", "where", "at"),
    [
        ("refined", (tolerance, "run"), 3),
        ("marched", (Track, "solve"), 11),
        ("unjudged", (os, "replace"), 6),
        ("stepped", (Track, "solve"), 25),
        ("nonlinear", (checkpoint.archive, "write"), 3),
    ],
)
def test_what_is_ended_goes_on(door, where, at, tmp_path, monkeypatch):
    """In the middle of a step, of a slab, and of writing one; nothing is solved twice."""
    with monkeypatch.context() as changed:
        changed.setattr(*where, dying(getattr(*where), at))
        with pytest.raises(KilledError):
            DOORS[door](checkpoint=tmp_path)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.npz")}
    assert len(kept) > 1
    found, alone = DOORS[door](checkpoint=tmp_path), DOORS[door]()
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-12 * np.max(np.abs(alone)))
    assert kept.items() <= {f: f.stat().st_mtime_ns for f in tmp_path.glob("*.npz")}.items()


def test_a_killed_process_loses_nothing_finished(tmp_path):
    """SIGKILL at random moments, until a run comes to its end."""
    draw = random.Random(time.time_ns())
    for _ in range(2):
        before = len(list(tmp_path.glob("*.npz")))
        run = subprocess.Popen([sys.executable, __file__, "marched", tmp_path])
        while run.poll() is None and len(list(tmp_path.glob("*.npz"))) <= max(before, 1):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.1))
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert len(list(tmp_path.glob("*.npz"))) > before
    alone = DOORS["marched"]()
    found = DOORS["marched"](checkpoint=tmp_path)
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-12 * np.max(np.abs(alone)))


def test_a_finished_run_is_found_whole(tmp_path, monkeypatch):
    first = DOORS["marched"](checkpoint=tmp_path)
    monkeypatch.setattr(Track, "solve", dying(Track.solve, 1))
    np.testing.assert_array_equal(DOORS["marched"](checkpoint=tmp_path), first)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda kept: ts.march(rod(), 4, subdomains=(3, 1), **CELLS, **kept), "its slabs is 2"),
        (lambda kept: ts.march(rod(), 2, subdomains=(4, 1), **CELLS, **kept), "its subdomains is"),
        (lambda kept: ts.march(rod(3), 2, subdomains=(3, 1), **CELLS, **kept), "another problem"),
        (lambda kept: ts.solve(peak(), tol=1e-2, **kept), "its door is 'march'"),
        (lambda kept: ts.solve(peak(), subdomains=2, features=20, **kept), "there are none"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(other, said, tmp_path):
    checkpoint.opened(tmp_path, "march", rod(), ts.Method(subdomains=(3, 1), **CELLS), slabs=2)
    with pytest.raises(ValueError, match=said):
        other({"checkpoint": tmp_path})


def test_a_damaged_record_is_made_again(tmp_path):
    first = DOORS["marched"](checkpoint=tmp_path)
    file = tmp_path / "00005.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)
    np.testing.assert_allclose(DOORS["marched"](checkpoint=tmp_path), first, rtol=0, atol=1e-12)


if __name__ == "__main__":
    DOORS[sys.argv[1]](checkpoint=sys.argv[2])
