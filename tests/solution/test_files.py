"""Solutions on disk: what is loaded is what was saved, and bad files say what is wrong."""

import dataclasses
import json
import re
import tracemalloc
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts

X = np.linspace(0, 1, 37)


def edit(path, change):
    """Rewrite a solution file after change(header, arrays), as the version that had no digests."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    del arrays["digest"], header["digests"]
    header["version"] = 2
    change(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, header=text, **arrays)
    return path


def unchanged(header, arrays):
    pass


@pytest.fixture
def saved(line_solution, tmp_path):
    return line_solution.save(tmp_path / "line.npz")


def assert_same(loaded, original, points):
    for operator in (ts.Identity(), ts.D(x=1), ts.D(x=2) + 3):
        found, expected = (s.apply(operator, points) for s in (loaded, original))
        np.testing.assert_array_equal(found, expected)
    assert json.dumps(loaded.report.to_json()) == json.dumps(original.report.to_json())
    for found, expected in zip(
        dataclasses.astuple(loaded.history), dataclasses.astuple(original.history), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_round_trip_without_the_problem(line_solution, saved):
    loaded = ts.load(saved)
    assert_same(loaded, line_solution, X)
    assert loaded.problem.name == "line"
    assert str(loaded) == str(line_solution)


def test_round_trip_with_the_problem(line_solution, saved):
    loaded = ts.load(saved, line_solution.problem)
    np.testing.assert_array_equal(loaded.residual(X), line_solution.residual(X))


def test_round_trip_of_hard_constraints(hard_solution, hard_problem, tmp_path):
    loaded = ts.load(hard_solution.save(tmp_path / "hard.npz"), hard_problem)
    assert_same(loaded, hard_solution, X)


def test_round_trip_in_two_dimensions(square_solution, tmp_path):
    points = square_solution.problem.domain.grid((7, 7))
    loaded = ts.load(square_solution.save(tmp_path / "square.npz"), square_solution.problem)
    assert_same(loaded, square_solution, points)
    assert loaded.errors() == square_solution.report.error


def test_gallery_problems_are_found_again_by_name(tmp_path):
    entry = ts.gallery.get("laplace")
    small = {"n": 1, "subdomains": 2, "features": 6}
    solution = entry.solve(settings=small, solver="nested-qr")
    loaded = ts.load(solution.save(tmp_path / "laplace.npz"))
    assert loaded.problem.parameters == {"n": 1}
    assert loaded.errors() == solution.errors()


def test_round_trip_of_deep_features_with_an_activation_of_ones_own(
    line_problem, combination, tmp_path, rng
):
    gauss = ts.Activation.from_function("gauss", lambda s: jnp.exp(-(s**2)))
    problem = line_problem(ts.Dirichlet(0.0))
    features = ts.RandomFeatures(3, depth=2, activation=gauss, constant=False, bias=False, scale=3)
    basis = ts.Basis(ts.Decomposition(problem.domain, 2, 1.5), features, seed=5)
    solution = combination(problem, basis, rng.standard_normal(basis.columns))
    path = solution.save(tmp_path / "deep.npz")
    assert_same(ts.load(path, activation=gauss), solution, X)
    with pytest.raises(ValueError, match=r"the activation 'gauss': pass it, load\(path, activ"):
        ts.load(path)


def test_round_trip_of_several_levels(line_problem, combination, tmp_path, rng):
    problem = line_problem(ts.Dirichlet(0.0))
    finest = ts.Basis(ts.Decomposition(problem.domain, 4), ts.RandomFeatures(3), seed=5)
    basis = ts.Multilevel.pyramid(finest)
    solution = combination(problem, basis, rng.standard_normal(basis.columns))
    loaded = ts.load(solution.save(tmp_path / "levels.npz"))
    assert_same(loaded, solution, X)
    assert [level.decomposition.count for level in loaded.basis.levels] == [2, 4]


def test_a_direct_solve_can_be_saved(line_problem, tmp_path):
    """It has one entry of residual history and none of error."""
    problem = line_problem(ts.Dirichlet(0.0))
    solution = ts.solve(problem, subdomains=4, features=8, solver="nested-qr")
    assert_same(ts.load(solution.save(tmp_path / "direct.npz")), solution, X)


def test_numpy_numbers_can_be_saved(line_problem, tmp_path):
    problem = line_problem(ts.Dirichlet(0.0), parameters={"n": np.int64(3)})
    solution = ts.solve(problem, subdomains=np.int64(4), features=np.int64(8), seed=np.int64(2))
    loaded = ts.load(solution.save(tmp_path / "numbers.npz"))
    assert loaded.problem.parameters == {"n": 3}
    np.testing.assert_array_equal(loaded(X), solution(X))


def test_the_suffix_is_added_and_nothing_else_is_left_behind(line_solution, tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    assert line_solution.save(target / "u").name == "u.npz"
    assert line_solution.save(str(target / "u.npz")).name == "u.npz"
    assert [p.name for p in target.iterdir()] == ["u.npz"]


def test_the_file_holds_plain_arrays_and_json(saved):
    with np.load(saved, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fu" for name in file.files)
        header = json.loads(file["header"].tobytes())
    assert header["format"] == "tessella solution"


def test_the_weights_come_from_the_file_not_from_the_seed(line_solution, saved):
    """Another NumPy may draw differently; what was solved with counts."""

    def other_seed(header, arrays):
        for level in header["levels"]:
            level["seed"] += 1

    np.testing.assert_array_equal(ts.load(edit(saved, other_seed))(X), line_solution(X))


def test_a_file_of_the_version_without_digests(line_solution, saved):
    assert_same(ts.load(edit(saved, unchanged)), line_solution, X)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file(saved, part):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ValueError, match=r"line\.npz is not a tessella solution, or is truncated"):
        ts.load(saved)


def test_a_damaged_byte(saved):
    whole = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        at = archive.getinfo("coefficients.npy").header_offset + 200
    whole[at] ^= 0xFF
    saved.write_bytes(whole)
    with pytest.raises(ValueError, match=r"line\.npz is damaged: 'coefficients' is unreadable"):
        ts.load(saved)


@pytest.mark.parametrize("name", ["coefficients", "weights_0_0", "header"])
def test_a_number_that_changed_without_damage_to_the_zip(saved, name):
    with np.load(saved) as file:
        arrays = dict(file)
    changed = arrays[name].copy()
    changed.flat[-2] += 1
    np.savez(saved, **{**arrays, name: changed})
    with pytest.raises(ValueError, match=r"line\.npz .*(changed since it was written|no header)"):
        ts.load(saved)


@pytest.mark.parametrize("version", [0, 1, 99, None, "2", [3]])
def test_a_file_of_another_version(saved, version):
    edit(saved, lambda header, arrays: header.update(version=version))
    message = f"version {re.escape(str(version))}, this tessella reads 2 and 3: load it with"
    with pytest.raises(ValueError, match=message):
        ts.load(saved)


def write_text(path):
    path.write_text("u = sin(x)")


def write_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


def write_arrays(path):
    np.savez(path, coefficients=np.zeros(3))


def write_strange_header(path):
    np.savez(path, header=np.frombuffer(b'{"format": "cake"}', dtype=np.uint8))


def write_no_json(path):
    np.savez(path, header=np.zeros(4, dtype=np.uint8))


def write_list(path):
    np.savez(path, header=np.frombuffer(b"[1, 2]", dtype=np.uint8))


@pytest.mark.parametrize(
    "write",
    [write_text, write_array, write_arrays, write_strange_header, write_no_json, write_list],
)
def test_a_file_that_is_not_ours(tmp_path, write):
    path = tmp_path / "other.npz"
    write(path)
    with pytest.raises(ValueError, match=r"other\.npz is not a tessella solution"):
        ts.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no solution file .*missing\.npz"):
        ts.load(tmp_path / "missing.npz")


@pytest.mark.parametrize("name", ["coefficients", "history_error", "ansatz_probe", "weights_0_0"])
def test_a_missing_array(saved, name):
    edit(saved, lambda header, arrays: arrays.pop(name))
    with pytest.raises(ValueError, match=f"is damaged: '{name}' is missing"):
        ts.load(saved)


@pytest.mark.parametrize("key", ["report", "domain", "ansatz"])
def test_a_missing_part_of_the_header(saved, key):
    edit(saved, lambda header, arrays: header.pop(key))
    with pytest.raises(ValueError, match=rf"line\.npz is damaged: .*'{key}' is missing"):
        ts.load(saved)


def test_too_few_coefficients(saved):
    edit(saved, lambda header, arrays: arrays.update(coefficients=np.zeros(3)))
    with pytest.raises(
        ValueError, match=r"damaged: 'coefficients' has shape \(3,\) .*where \(36\)"
    ):
        ts.load(saved)


def put(*path, value):
    """A change of the header: the value at this path."""

    def change(header, arrays):
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = value

    return change


def nested(depth):
    value = {"x": [0, 1]}
    for _ in range(depth):
        value = {"shape": "named", "name": "n", "domain": value}
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("ansatz", value=3), "header: it.ansatz is 3 where an object belongs"),
        (put("ansatz", "u", "offset", value=np.inf), "problem: Ansatz offset must be finite"),
        (put("domain", value=nested(400)), "it.domain.* is nested too deeply"),
        (put("domain", "x", value=[0, "a"]), r"domain: x\[1\] is 'a' where a number belongs"),
        (put("domain", "x", value=[-1e308, 1e308]), "domain: Box axis 'x' must have finite"),
        (put("levels", value=[]), "levels"),
        (
            put("levels", 0, "subdomains", value=[10**9]),
            "subdomains of level 0: weights of 4 for 1,",
        ),
        (put("levels", 0, "features", "count", value=10**5), "'weights_0_0' has shape"),
        (put("levels", 0, "features", "depth", value=2), "'weights_0_1' is missing"),
        (put("report", "error", value={}), "report: report.error lacks a norm"),
        (put("report", "columns", value=0), "report.columns is not positive"),
        (put("report", "weights", value={}), "residual has names that weights lack"),
        (put("report", "rows", value="many"), "rows is 'many' where a whole number belongs"),
        (put("problem", value=None), "it.problem is None where a text belongs"),
    ],
)
def test_a_header_that_makes_no_sense(saved, change, message):
    with pytest.raises(ValueError, match=rf"line\.npz is damaged: .*({message})"):
        ts.load(edit(saved, change))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("coefficients", np.full(36, np.nan), "has numbers that are NaN or beyond"),
        ("coefficients", np.full(36, 1e308), "has numbers that are NaN or beyond"),
        ("coefficients", np.zeros(36, complex), "is unreadable"),
        ("coefficients", np.zeros(36, int), r"of int64 where \(36\) of float64 belongs"),
        ("weights_0_0", np.full((4, 8, 1), np.inf), "has numbers that are NaN or beyond"),
        ("biases_0_0", np.zeros((4, 1)), r"has shape \(4, 1\) of float64 where \(4, 8\)"),
        ("history_error", np.zeros(7), "its history has the lengths"),
    ],
)
def test_arrays_that_make_no_sense(saved, name, array, message):
    edit(saved, lambda header, arrays: arrays.update({name: array}))
    with pytest.raises(ValueError, match=rf"line\.npz is damaged: .*{message}"):
        ts.load(saved)


def repack(path, change, **options):
    """Rewrite the zip archive after change(members), with checksums that fit."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, content in members.items():
            file.writestr(name, content)


def test_a_member_that_would_inflate_is_not_inflated(saved):
    """64 MiB of zeros in a file of 70 kB."""
    zeros = np.zeros(1 << 23)
    edit(saved, lambda header, arrays: arrays.update(coefficients=zeros))
    repack(saved, lambda members: None, compression=zipfile.ZIP_DEFLATED)
    assert saved.stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"line\.npz .* is compressed, which none of ours is"):
        ts.load(saved)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_no_more_is_read_than_the_header_asks_for(saved):
    edit(saved, lambda header, arrays: arrays.update(coefficients=np.zeros(1 << 23)))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"line\.npz is damaged: 'coefficients' has shape"):
        ts.load(saved)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_an_encrypted_member(saved):
    whole = bytearray(saved.read_bytes())
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        whole[whole.find(mark) + flags] |= 1
    saved.write_bytes(whole)
    with pytest.raises(ValueError, match=r"line\.npz .*is encrypted"):
        ts.load(saved)


@pytest.mark.parametrize("name", ["u", "u.1", "u.npz", "v0.2.final"])
def test_a_solution_is_loaded_by_the_name_it_was_saved_under(line_solution, tmp_path, name):
    line_solution.save(tmp_path / name)
    np.testing.assert_array_equal(ts.load(tmp_path / name)(X), line_solution(X))


def test_a_path_that_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="is not a file: name a solution file"):
        ts.load(tmp_path)
    with pytest.raises(TypeError, match="path must be the name of a file, got 3"):
        ts.load(3)


def test_a_parameter_that_a_file_cannot_hold(line_problem, tmp_path):
    problem = line_problem(ts.Dirichlet(0.0), parameters={"f": np.sin})
    solution = ts.solve(problem, subdomains=2, features=4)
    with pytest.raises(TypeError, match="cannot be stored in a file: leave it out of the parame"):
        solution.save(tmp_path / "u")


def test_a_gallery_problem_on_another_domain(tmp_path):
    small = {"n": 1, "subdomains": 2, "features": 6}
    solution = ts.gallery.get("laplace").solve(settings=small, solver="nested-qr")
    path = edit(solution.save(tmp_path / "u.npz"), put("domain", "x", value=[0.0, 3.0]))
    with pytest.raises(ValueError, match=r"u\.npz is damaged: laplace was not solved on Box"):
        ts.load(path)


def test_hard_constraints_need_their_problem(hard_solution, tmp_path):
    path = hard_solution.save(tmp_path / "hard.npz")
    with pytest.raises(ValueError, match=r"ansatz made of functions.*load\(path, problem=\.\.\.\)"):
        ts.load(path)


def test_hard_constraints_of_another_problem(hard_solution, hard_problem, tmp_path):
    path = hard_solution.save(tmp_path / "hard.npz")
    other = dataclasses.replace(hard_problem, ansatz=ts.Ansatz(hard_problem.ansatz.multiplier))
    with pytest.raises(ValueError, match="another ansatz than the given problem has: pass the pro"):
        ts.load(path, other)


def test_a_problem_on_another_domain(saved):
    other = ts.Problem(ts.Box(x=(0, 2)), ts.Equation(ts.D(x=1)))
    with pytest.raises(ValueError, match=r"solved on Box\(x=\(0, 1\)\), the given problem on Box"):
        ts.load(saved, other)
