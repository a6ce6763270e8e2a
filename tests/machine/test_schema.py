"""JSON against types: what fits is built, what does not is refused with its place."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tessella.machine.schema import as_type


@dataclass(frozen=True)
class Inner:
    kind: Literal["a", "b"]
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outer:
    name: str
    inner: dict[str, Inner] = field(default_factory=dict)
    size: int | None = None


def test_what_fits_is_built():
    found = as_type(Outer, {"name": "u", "inner": {"x": {"kind": "a", "numbers": [1, 2.5]}}}, "it")
    assert found == Outer("u", {"x": Inner("a", (1.0, 2.5))})
    assert as_type(int, 3.0, "it") == 3
    assert as_type(dict[str, Any], {"x": [[]]}, "it") == {"x": [[]]}
    assert as_type(tuple[int | tuple[float, ...], ...], [2, [0.3]], "it") == (2, (0.3,))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (float, True, "it is True where a number belongs"),
        (float, 10**400, "where a number belongs"),
        (int, 2.5, "it is 2.5 where a whole number belongs"),
        (int, float("inf"), "it is inf where a whole number belongs"),
        (bool, 1, "it is 1 where true or false belongs"),
        (str, "\ud800", "surrogates not allowed"),
        (tuple[float, float], [1.0], "where list of 2 belongs"),
        (int | None, "a", "it is 'a' where a whole number or null belongs"),
        (Outer, [], r"it is \[\] where an object belongs"),
        (Outer, {}, "'name' is missing from it"),
        (Outer, {"name": "u", "colour": 1}, "it has an unknown 'colour'"),
        (
            Outer,
            {"name": "u", "inner": {"x": {"kind": "c"}}},
            "inner.x.kind is 'c' where 'a' or",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(kind, value, message):
    with pytest.raises(ValueError, match=message):
        as_type(kind, value, "it")


def test_what_is_nested_too_deeply():
    value: Any = []
    for _ in range(2_000):
        value = [value]
    with pytest.raises(ValueError, match="it is nested too deeply"):
        as_type(Any, value, "it")
