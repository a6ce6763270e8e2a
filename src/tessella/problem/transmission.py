"""What passes from one region of a divided domain to the next."""

from __future__ import annotations

from tessella.geometry.functions import Function
from tessella.problem.conditions import Condition
from tessella.problem.operators import Field, NormalDerivative, Operator, in_region
from tessella.problem.statement import check_data

Flux = float | Function | Operator
"""k in k du/dn, or the whole of what passes through an interface."""


def Transmission(
    first: str,
    second: str,
    flux: tuple[Flux, Flux] = (1.0, 1.0),
    jump: float | Function = 0.0,
    flux_jump: float | Function = 0.0,
    of: Field | None = None,
) -> tuple[Condition, Condition]:
    """Two conditions between regions of a `Divided` domain: value and flux pass from one to the
    other, u_1 - u_2 = jump and k_1 du_1/dn - k_2 du_2/dn = flux_jump with k = `flux`, n out of the
    first. Put them among the others with a star: `[Dirichlet(0.0), *Transmission("core", "rest")]`.

    `of` says of which unknown, where there are several. If the flux is not k du/dn, it is given as
    two operators, such as the traction that belongs to a displacement in either material.

    >>> import tessella as ts
    >>> value, flux = ts.Transmission("core", "rest", flux=(3.0, 1.0))
    >>> value.operator, flux.on
    (Field('core') - Field('rest'), ('core/rest',))
    >>> u, p = ts.Field("u"), ts.Field("p")
    >>> pushes = [mu * ts.NormalDerivative() @ u - ts.Normal("x") @ p for mu in (3.0, 1.0)]
    >>> ts.Transmission("drop", "rest", flux=pushes, of=u)[0].operator
    Field('u', 'drop') - Field('u', 'rest')
    """
    try:
        first_flux, second_flux = flux
    except (TypeError, ValueError):
        raise ValueError(
            f"Transmission flux must be a pair, e.g. (3.0, 1.0), got {flux!r}"
        ) from None
    for k in (first_flux, second_flux):
        if not isinstance(k, Operator):
            check_data(k, "Transmission flux")
    on, what = f"{first}/{second}", "" if of is None else f" of {of.name}"
    inside, outside = (Field(r) if of is None else Field(of.name, r) for r in (first, second))
    leaving, arriving = _flux(first_flux, inside), _flux(second_flux, outside)
    return (
        Condition(inside - outside, jump, on, name=f"value{what} {on}"),
        Condition(leaving - arriving, flux_jump, on, name=f"flux{what} {on}"),
    )


def _flux(flux: Flux, part: Field) -> Operator:
    """What passes out of one region."""
    if not isinstance(flux, Operator):
        return flux * (NormalDerivative() @ part)
    return flux @ part if part.region is None else in_region(flux, part.region)
