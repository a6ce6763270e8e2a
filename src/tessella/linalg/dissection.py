"""Nested dissection of a block pattern: an elimination tree for NestedQR.

The pattern is a graph: column blocks are its nodes, and two are joined when some row touches both.
A separator is a set of blocks whose removal splits the rest in two parts that share no row. The
parts are split again, and every node of the resulting tree owns the blocks of its separator (a leaf
owns all that is left). Blocks that some row touches together always lie on one path to the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path

from tessella.domain import Array


@dataclass
class Node:
    """A tree node and the blocks it owns; `children` are eliminated before it."""

    blocks: np.ndarray
    children: list[Node] = field(default_factory=list)
    level: int = 0


def block_graph(rows: Sequence[np.ndarray], n_rows: int) -> scipy.sparse.csr_array:
    """Which blocks share a row, from the rows of every block."""
    sizes = [len(r) for r in rows]
    block = np.repeat(np.arange(len(rows)), sizes)
    row = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    ones = np.ones(len(row), dtype=np.int32)
    touches = scipy.sparse.csr_array((ones, (row, block)), shape=(n_rows, len(rows)))
    graph = scipy.sparse.csr_array(touches.T @ touches)
    graph.data[:] = 1
    return graph


def dissect(
    graph: scipy.sparse.csr_array,
    weights: np.ndarray,
    positions: Array | None = None,
    leaf: int = 256,
) -> Node:
    """Elimination tree of the graph.

    `weights` are the numbers of columns of the blocks, `positions` their places in a grid (without
    them, distances from far-away blocks stand in), and parts of at most `leaf` columns are left
    whole.
    """
    if positions is None:
        positions = _distances(graph)
    root = _split(np.arange(len(weights)), graph, weights, positions, leaf)
    _number(root, 0)
    return root


def _number(node: Node, level: int) -> None:
    node.level = level
    for child in node.children:
        _number(child, level + 1)


def _split(
    nodes: np.ndarray,
    graph: scipy.sparse.csr_array,
    weights: np.ndarray,
    positions: Array,
    leaf: int,
) -> Node:
    if len(nodes) <= 1 or weights[nodes].sum() <= leaf:
        return Node(nodes)
    local = graph[nodes][:, nodes]
    count, part = connected_components(local, directed=False)
    if count > 1:
        parts = [nodes[part == k] for k in range(count)]
        children = [_split(p, graph, weights, positions, leaf) for p in parts]
        return Node(np.zeros(0, dtype=np.int64), children)
    found = _separator(local, weights[nodes], positions[nodes])
    if found is None:
        return Node(nodes)
    separator, sides = found
    children = [
        _split(nodes[side], graph, weights, positions, leaf) for side in sides if side.any()
    ]
    return Node(nodes[separator], children)


def _separator(
    graph: scipy.sparse.csr_array, weights: np.ndarray, positions: Array
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Cheapest slab across some axis: light, and leaving two parts of like weight.

    A cut puts the blocks up to some coordinate on one side; the blocks of either side that touch
    the other side form a slab that separates what is left.
    """
    best: tuple[float, np.ndarray, list[np.ndarray]] | None = None
    total = weights.sum()
    for axis in range(positions.shape[1]):
        x = positions[:, axis]
        for cut in _cuts(x):
            left = x <= cut
            right = ~left
            for side, other in ((left, right), (right, left)):
                separator = side & (graph @ other.astype(np.int32) > 0)
                rest = side & ~separator
                if not rest.any() and not other.any():
                    continue
                a, b = float(weights[rest].sum()), float(weights[other].sum())
                # One part must shrink, or the recursion would only peel.
                if max(a, b) > 0.9 * total:
                    continue
                cost = float(weights[separator].sum()) + 0.3 * abs(a - b)
                if best is None or cost < best[0]:
                    best = cost, separator, [rest, other]
    return None if best is None else (best[1], best[2])


def _cuts(x: Array) -> Array:
    """Coordinates in the middle half at which to try a cut."""
    values = np.unique(x)[:-1]
    if len(values) <= 4:
        return values
    low, high = len(values) // 4, -(-3 * len(values) // 4)
    middle = values[low:high]
    return middle[:: max(1, len(middle) // 12)]


def _distances(graph: scipy.sparse.csr_array, landmarks: int = 3) -> Array:
    """Graph distances from a few blocks far from each other, as makeshift coordinates."""
    n = graph.shape[0]
    start = int(breadth_first_order(graph, 0, directed=False)[0][-1]) if n else 0
    columns: list[Array] = []
    for _ in range(landmarks):
        d = shortest_path(graph, method="D", directed=False, unweighted=True, indices=start)
        columns.append(np.where(np.isfinite(d), d, n))
        start = int(np.argmax(np.min(columns, axis=0)))
    return np.stack(columns, axis=1)


def postorder(root: Node) -> list[Node]:
    """Every node after all its children."""
    order: list[Node] = []
    stack = [(root, False)]
    while stack:
        node, visited = stack.pop()
        if visited:
            order.append(node)
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
    return order
