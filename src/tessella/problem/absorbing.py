"""Walls that waves leave through."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function
from tessella.problem.conditions import Condition, On, of_unknown
from tessella.problem.operators import D, NormalDerivative, Operator


@dataclass(frozen=True)
class AbsorbingCondition(Condition):
    """A condition on walls that needs time."""

    def faces(self, domain: Domain) -> tuple[str, ...]:
        if "t" not in domain.axes:
            raise ValueError(
                f"{self.name} lets waves out as time goes by, but {domain!r} has no axis 't': add "
                f"one, e.g. t=(0, 1), or use Robin where nothing depends on time"
            )
        for name in () if self.on is None or callable(self.on) else self.on:
            if name in ("tmin", "tmax"):
                raise ValueError(
                    f"{self.name} lies on {name!r}, where time begins or ends: name walls, e.g. "
                    f"on='{domain.axes[0]}min', or leave `on` out"
                )
        return super().faces(domain)


def Absorbing(
    speed: float | Function = 1.0,
    on: On = None,
    weight: float | None = None,
    name: str = "absorbing",
    of: Operator | None = None,
) -> Condition:
    """u_t + speed du/dn = 0, so that waves of that speed leave through the wall.

    The first-order condition: exact in one dimension, and for waves that meet the wall head-on;
    those at an angle theta are reflected by (1 - cos theta) / (1 + cos theta), unless `with_layers`
    puts a layer behind the wall. `of` says of which unknown, where there are several.

    >>> import tessella as ts
    >>> ts.Absorbing(speed=2.0, on="xmax").operator
    D(t=1) + 2 * NormalDerivative()
    """
    if isinstance(speed, Real) and not 0 < float(speed) < np.inf:
        raise ValueError(f"{name} speed must be positive, got {speed!r}")
    operator, name = of_unknown(D(t=1) + speed * NormalDerivative(), of, name)
    return AbsorbingCondition(operator, 0.0, on, weight, name)
