"""Domains in files: checked as they are read, and built again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tessella.geometry.box import Box
from tessella.geometry.combinations import Combination
from tessella.geometry.divided import Divided
from tessella.geometry.domain import Domain
from tessella.geometry.point_cloud import PointCloud
from tessella.geometry.polygon import Polygon
from tessella.geometry.shapes import Ball, HalfSpace
from tessella.machine.schema import as_type

Description = dict[str, Any]
"""What a domain says of itself, after a way through JSON."""

Pair = tuple[float, float]
Places = tuple[tuple[float, ...], ...]

CONTENT: dict[str, dict[str, Any]] = {
    "divided": {"whole": Description, "regions": dict[str, Description]},
    "ball": {"radius": float, "name": str},
    "halfspace": {"normal": tuple[float, ...], "name": str},
    "polygon": {
        "vertices": Places,
        "holes": tuple[Places, ...],
        "name": str,
        "axes": tuple[str, ...],
    },
    "cloud": {
        "interior": Places,
        "boundary": dict[str, Places],
        "normals": dict[str, Places],
        "axes": tuple[str, ...],
    },
    "combination": {"kind": Literal["|", "&", "-"], "left": Description, "right": Description},
    "named": {"domain": Description, "name": str},
    "extrusion": {"base": Description, "over": dict[str, Pair]},
}
"""What every shape is described by; balls and half-spaces also by a number for every axis."""


class FunctionInDomainError(Exception):
    """A domain that is given by a function, which a file cannot hold."""


def domain_of(description: Mapping[str, Any]) -> Domain:
    """The domain that describes itself like this; a Box has bounds only, all others a shape."""
    shape = description.get("shape")
    if shape is None:
        return Box(**{axis: as_type(Pair, ends, axis) for axis, ends in description.items()})
    if shape == "implicit":
        raise FunctionInDomainError("a domain given by a function")
    if not isinstance(shape, str) or shape not in CONTENT:
        raise ValueError(f"unknown shape {shape!r}")
    content = CONTENT[shape]
    for name in content:
        if name not in description:
            raise ValueError(f"{name!r} is missing from a {shape}")
    own = {
        name: as_type(content.get(name, float), value, name)
        for name, value in description.items()
        if name != "shape"
    }
    return _built(shape, own)


def _built(shape: str, own: dict[str, Any]) -> Domain:
    match shape:
        case "divided":
            regions = {name: domain_of(one) for name, one in own["regions"].items()}
            return Divided(domain_of(own["whole"]), **regions)
        case "ball":
            return Ball(**own)
        case "halfspace":
            return HalfSpace(**own)
        case "polygon":
            return Polygon(**own)
        case "cloud":
            return PointCloud(**own)
        case "combination":
            return Combination(own["kind"], domain_of(own["left"]), domain_of(own["right"]))
        case "named":
            return domain_of(own["domain"]).named(own["name"])
    return domain_of(own["base"]).over(**own["over"])
