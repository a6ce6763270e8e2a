"""What counts as free, and what is refused before it is allocated."""

import resource
import subprocess
import sys

import jax
import pytest

import tessella as ts
from tessella.machine import memory

GIB = 2**30
SQUARE = ts.Box(x=(0, 1), y=(0, 1))


def poisson(**more):
    return ts.Problem(SQUARE, ts.Equation(-ts.Laplacian(), 1.0), [ts.Dirichlet(0.0)], **more)


@pytest.mark.parametrize(
    ("line", "folder", "names"),
    [("0::/a/b", "", memory.TWO), ("4:memory:/a/b", "memory", memory.ONE)],
)
def test_a_containers_limit_counts(tmp_path, line, folder, names):
    limit, used, cache = names
    own, inside = tmp_path / "cgroup", tmp_path / folder / "a" / "b"
    own.write_text(f"9:cpu:/\n{line}\n")
    inside.mkdir(parents=True)
    assert memory._of_the_container(tmp_path, own) is None
    (inside / limit).write_text("max\n")
    (inside / used).write_text(f"{GIB}\n")
    (inside.parent / limit).write_text(f"{4 * GIB}\n")
    (inside.parent / used).write_text(f"{3 * GIB}\n")
    (inside.parent / "memory.stat").write_text(f"anon 7\n{cache} {GIB // 2}\n")
    assert memory._of_the_container(tmp_path, own) == GIB + GIB // 2
    (inside / limit).write_text(f"{GIB + 100}\n")
    assert memory._of_the_container(tmp_path, own) == 100


LIMITED = """
import resource
from tessella.machine import memory
free = memory.available_bytes()
used = memory._numbers(memory.Path("/proc/self/status"))["VmSize:"] * 1024
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, before[1]))
try:
    within = memory.available_bytes()
    memory.require(2**29, "a", "b")
except MemoryError as error:
    print(error)
finally:
    resource.setrlimit(resource.RLIMIT_AS, before)
assert within <= 2**28 < free
"""


def test_the_limit_of_the_process_counts():
    told = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("a needs about 0.5 GiB, but 0.2")


def test_what_others_are_about_to_take_is_not_free(monkeypatch):
    monkeypatch.setattr(memory, "_read_lately", lambda now: 10_000)
    monkeypatch.setattr(memory, "_of_the_process", lambda: None)
    assert memory.available_bytes() == 10_000 and memory.available_bytes(7_000) == 3_000
    with memory.limited(5_000):
        assert memory.available_bytes(1_000) == 5_000 and memory.available_bytes(7_000) == 3_000
    with pytest.raises(MemoryError, match="a needs about"):
        memory.require(4_000, "a", "b", beside=7_000)


def test_without_a_limit_there_is_none(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 0))
    assert memory._of_the_process() is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."), "9"),
        (MemoryError("Unable to allocate 7. GiB for an array"), "7. GiB for an array: use fewer"),
        (MemoryError(), "out of memory: use fewer features, subdomains or points"),
    ],
)
def test_what_was_not_foreseen_has_a_remedy_too(monkeypatch, error, words):
    def exhausted(*_, **__):
        raise error

    monkeypatch.setattr("tessella.solving.ways.assemble", exhausted)
    with pytest.raises(MemoryError, match="use fewer") as refusal:
        ts.solve(poisson(), subdomains=2, features=10)
    assert words in str(refusal.value)


def test_other_errors_stay_what_they_are(monkeypatch):
    def broken(*_, **__):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr("tessella.solving.ways.assemble", broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        ts.solve(poisson(), subdomains=2, features=10)


def refused(limit, problem, **choices):
    """The refusal, and that nothing near the limit was allocated for it."""
    before = memory.peak_mib()
    with memory.limited(limit), pytest.raises(MemoryError) as refusal:
        ts.solve(problem, **choices)
    assert memory.peak_mib() - before < 200
    return str(refusal.value)


@pytest.mark.parametrize("coupling", ["overlap", "interfaces"])
def test_a_test_grid_is_refused_before_it_is_made(coupling):
    known = poisson(exact=lambda x: x[:, 0])
    fine = ts.Grid(points_per_axis=50_000)
    told = refused(64 * GIB, known, subdomains=2, features=9, coupling=coupling, test_grid=fine)
    assert "measuring the error at 50,000 x 50,000 points needs about" in told
    assert "use a coarser test_grid" in told


def test_watching_an_iteration_is_refused():
    known = poisson(exact=lambda x: x[:, 0])
    fine = ts.Grid(points_per_axis=200)
    choices = {"subdomains": 2, "features": 60, "solver": "rrqr-lsqr", "test_grid": fine}
    assert "watching the error of an iteration" in refused(2**26, known, **choices)


def test_additive_schwarz_is_refused_before_it_is_assembled():
    choices = {"subdomains": 60, "features": 100, "solver": "as-cg"}
    told = refused(2 * GIB, poisson(), **choices)
    assert "additive Schwarz with 3,600 local inverses" in told
    assert "streamed=True" in told


@pytest.mark.parametrize("solver", ["exchange", "merging"])
def test_joining_cells_is_refused_before_it_begins(solver):
    choices = {"subdomains": 16, "features": 40, "coupling": "interfaces", "solver": solver}
    told = refused(2**22, poisson(), **choices)
    assert f"columns and joining 256 by {solver} needs about" in told
