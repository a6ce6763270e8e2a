"""Objects in words."""

from dataclasses import dataclass

import numpy as np
import pytest

from tessella.machine.printing import as_written, counted, megabytes, times


@dataclass(frozen=True, repr=False)
class Thing:
    size: int
    colour: str = "red"
    places: object = None

    __repr__ = as_written


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Thing(3), "Thing(3)"),
        (Thing(3, "red"), "Thing(3)"),
        (Thing(size=3, colour="blue"), "Thing(3, colour='blue')"),
        (Thing(1, places=(2, 3)), "Thing(1, places=(2, 3))"),
    ],
)
def test_things_are_written_as_one_would_and_mean_the_same(thing, text):
    assert repr(thing) == text
    assert eval(text) == thing


def test_arrays_differ_from_no_array():
    assert "places=array([1, 2])" in repr(Thing(1, places=np.array([1, 2])))


def test_sizes_as_one_would_say_them():
    assert times((8, 1_200)) == "8 x 1,200"
    assert [counted(n, "block") for n in (0, 1, 2_000)] == ["0 blocks", "1 block", "2,000 blocks"]
    assert [megabytes(n) for n in (30_000, 1_250_000, 340_000_000, 2_500_000_000)] == [
        "0.03 MB",
        "1.2 MB",
        "340 MB",
        "2,500 MB",
    ]
