"""What a peer is: a name, what it needs, which sizes it runs of a problem, and how it solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchmarks.peers.problems import Array, Case

Settings = dict[str, Any]
Answer = Callable[[Array], Array]
"""Values of the found solution at points."""


class NotApplicableError(Exception):
    """Why a peer does not do a problem; printed and recorded."""


@dataclass(frozen=True)
class Peer:
    """`solve(case, **settings)` is what is timed: everything from the problem's statement to a
    solution that only needs evaluating. Imports and evaluation at the test points are not timed."""

    name: str
    configuration: str
    sizes: Callable[[str, Case], list[Settings]]
    """Settings of the runs of a problem, smallest first, or NotApplicableError with a reason."""
    solve: Callable[..., Answer]
    requires: tuple[str, ...] = ()
    compiled: bool = False
    """Whether it compiles as it runs, so that its second run is another matter than its first."""

    def missing(self) -> str | None:
        for package in self.requires:
            if find_spec(package) is None:
                return f"{package} is not installed: pip install 'tessella[peers]'"
        return None
