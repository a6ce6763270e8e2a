"""Seconds per phase, and apart from them what XLA's compiler took."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import jax

_OWN = threading.local()
"""Seconds this thread has spent compiling, beside those of others that solve at the same time."""


def _compiling() -> float:
    return getattr(_OWN, "seconds", 0.0)


_COMPILATION = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


def _count_compilation(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILATION:
        _OWN.seconds = _compiling() + duration_secs


jax.monitoring.register_event_duration_secs_listener(_count_compilation)


@dataclass
class Stopwatch:
    """Wall seconds per named phase without what XLA's compiler took, which is `compile`."""

    seconds: dict[str, float] = field(default_factory=dict)
    _compiling: float = field(default_factory=_compiling)
    _started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start, compiled = time.perf_counter(), _compiling()
        try:
            yield
        finally:
            own = time.perf_counter() - start - (_compiling() - compiled)
            self.seconds[name] = self.seconds.get(name, 0.0) + max(own, 0.0)

    def total(self) -> dict[str, float]:
        return {
            **self.seconds,
            "compile": _compiling() - self._compiling,
            "total": time.perf_counter() - self._started,
        }
