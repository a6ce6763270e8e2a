"""Boxes of cells that processes have."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessella.cells.device.boxes import Blocks


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(1, 3), st.data())
def test_boxes_of_a_grid_are_found_again(counts, cuts, data):
    """Cut along an axis again and again, whoever gets which."""
    boxes = [[(0, n) for n in counts]]
    for _ in range(cuts):
        box = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
        axis = data.draw(st.integers(0, len(counts) - 1))
        a, b = box[axis]
        at = (a + b) // 2
        halves = [[*box[:axis], own, *box[axis + 1 :]] for own in ((a, at), (at, b))]
        boxes += [own for own in halves if all(x < y for x, y in own)]
    boxes = data.draw(st.permutations(boxes))
    whose = np.full(counts, -1)
    for i, box in enumerate(boxes):
        whose[tuple(slice(*own) for own in box)] = i
    found = Blocks.of(tuple(counts), (False,) * len(counts), whose.ravel(), len(boxes))
    for i, box in enumerate(boxes):
        assert list(zip(found.low[i], found.high[i], strict=True)) == box
        assert np.all(whose.ravel()[found.cells(i)] == i)
    assert found.largest == np.bincount(whose.ravel()).max()


def test_what_is_no_box_is_none():
    corner = np.array([0, 0, 0, 1])
    assert Blocks.of((2, 2), (False, False), corner, 2) is None
    assert Blocks.of((2, 2), (False, False), corner, 3) is None
    assert Blocks.of((2, 2), (False, False), np.array([0, 1, 0, 1]), 2) is not None
