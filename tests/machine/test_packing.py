"""Objects in files: what comes back is what went in, and nothing but known classes is made."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import jax
import numpy as np
import pytest

from tessella.machine import archive
from tessella.machine.arrays import Array, on_device
from tessella.machine.packing import known_as, pack, unpack


class Pair(NamedTuple):
    left: Array
    right: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Thing:
    name: str
    kind: Literal["one", "other"]
    pairs: tuple[Pair, ...]
    table: dict[tuple[int, str], Array]
    part: slice
    digits: bytes
    numbers: list[int]
    share: float
    there: jax.Array
    late: int = 7
    _remembered: dict[str, int] = field(default_factory=dict)


KNOWN = known_as((Pair, Thing))
X = np.arange(6.0).reshape(2, 3)


def thing(**changes):
    pair = Pair(np.asfortranarray(X), np.array([True, False]))
    whole = {
        "name": "é", "kind": "other", "pairs": (pair, pair, Pair(X, np.array([1], np.int32))),
        "table": {(1, "u"): X}, "part": slice(2, 5), "digits": b"\x00\xff", "numbers": [3],
        "share": np.float64(0.1), "there": on_device(X), "_remembered": {"n": 1},
    }  # fmt: skip
    return Thing(**whole | changes)


def through_file(value, path, change=lambda tree: None, later=None):
    packed = pack(value, KNOWN)
    change(packed.tree)
    archive.write(path, "things", 3, {"tree": packed.tree}, **packed.arrays)
    with archive.opened(path, "things", 3) as file:
        return unpack(file.header["tree"], file, KNOWN, later=later)


def test_what_comes_back_is_what_went_in(tmp_path):
    found = through_file(thing(), tmp_path / "things.npz")
    assert (found.name, found.kind, found.part) == ("é", "other", slice(2, 5))
    assert (found.digits, found.numbers, found.share) == (b"\x00\xff", [3], 0.1)
    assert found.pairs[0] is found.pairs[1] and found.pairs[2].left is found.table[1, "u"]
    assert found.pairs[0].left.flags.f_contiguous and isinstance(found.there, jax.Array)
    assert [own.right.dtype for own in found.pairs[1:]] == [np.bool_, np.int32]
    for array in (found.pairs[0].left, found.pairs[2].left, found.there):
        np.testing.assert_array_equal(array, X)
    assert found._remembered == {}


def put(key, value):
    def change(tree):
        tree["objects"][-1][1][key] = value

    return change


def renamed(tree):
    tree["objects"][0][0] = "Path"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (renamed, "there is no 'Path'"),
        (put("name", 3), "'name' of a Thing is of another type"),
        (put("kind", "third"), "'kind' of a Thing"),
        (put("pairs", [[1, 2]]), "'pairs' of a Thing"),
        (put("pairs", {"object": 99}), "nothing is described"),
        (put("numbers", {"list": [10**15]}), "too large to count"),
        (put("more", 1), "no 'Thing' of such fields"),
        (put("table", {"dict": [[1]]}), "length 1; 2 is required"),
    ],
)
def test_what_makes_no_sense_is_refused(change, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        through_file(thing(), tmp_path / "things.npz", change)


def without(key):
    return lambda tree: tree["objects"][-1][1].pop(key)


def test_older_files_may_lack_what_came_later(tmp_path):
    path, later = tmp_path / "things.npz", {"Thing": {"late"}}
    assert through_file(thing(late=3), path, later=later).late == 3
    assert through_file(thing(late=3), path, without("late"), later).late == 7
    for key, allowed in (("late", None), ("name", later)):
        with pytest.raises(ValueError, match="no 'Thing' of such fields"):
            through_file(thing(), path, without(key), allowed)


def test_other_classes_are_not_written():
    with pytest.raises(TypeError, match="cannot hold a complex"):
        pack(thing(share=1j), KNOWN)
