"""Domains print as a person would build them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts

BOX = ts.Box(x=(0, 1), y=(0, 1))
BALL = ts.Ball(x=0.5, y=0.5, radius=0.2)
HOLE = ts.Ball(x=0.25, y=0.5, radius=0.1, name="hole")
HALF = ts.HalfSpace(x=0, y=0.5, normal=(0, 1))
TRIANGLE = ts.Polygon([(0, 0), (2, 0), (0, 1)])


def ellipse(p):
    return (p[:, 0] / 0.8) ** 2 + (p[:, 1] / 0.5) ** 2 - 1


def circle(n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


EXACT = [
    (BOX - BALL, "Box(x=(0, 1), y=(0, 1)) - Ball(x=0.5, y=0.5, radius=0.2)"),
    (HOLE, "Ball(x=0.25, y=0.5, radius=0.1, name='hole')"),
    (HALF, "HalfSpace(x=0, y=0.5, normal=(0, 1))"),
    (TRIANGLE, "Polygon([(0, 0), (2, 0), (0, 1)])"),
    (
        ts.Divided(BOX, core=BALL, left=HOLE),
        f"Divided({BOX!r}, core={BALL!r}, left={HOLE!r})",
    ),
    (BALL.named("rim"), "Ball(x=0.5, y=0.5, radius=0.2).named('rim')"),
    ((BOX - BALL).over(t=(0, 2)), f"({BOX!r} - {BALL!r}).over(t=(0, 2))"),
    ((BOX | BALL).named("rim"), f"({BOX!r} | {BALL!r}).named('rim')"),
    (BOX - BALL - HOLE, f"{BOX!r} - {BALL!r} - {HOLE!r}"),
    (BOX - (BALL - HOLE), f"{BOX!r} - ({BALL!r} - {HOLE!r})"),
    (BOX & (BALL | HOLE), f"{BOX!r} & ({BALL!r} | {HOLE!r})"),
    (BOX & BALL | HOLE, f"{BOX!r} & {BALL!r} | {HOLE!r}"),
]
SHORT = [
    (
        ts.Polygon(circle(40), name="disc"),
        r"Polygon\(\[\(1, 0\), .*, \.\.\. 40 in all\], name='disc'\)",
    ),
    (
        ts.Polygon(3 * circle(3), [0.1 * circle(30)]),
        r"Polygon\(\[.*\], holes=\[\[.* \.\.\. 30 in all\]\]\)",
    ),
    (
        ts.Implicit(ellipse, bounds={"x": (-1, 1), "y": (-1, 1)}),
        r"Implicit\(ellipse, bounds=dict\(x=\(-1, 1\), y=\(-1, 1\)\)\)",
    ),
    (
        ts.Implicit(lambda p: ellipse(p), {"x": (-1, 1), "y": (-1, 1)}, "rim"),
        r"Implicit\(f\(x\), bounds=dict\(.*\), name='rim'\)",
    ),
    (
        ts.PointCloud(0.5 * circle(70), circle(50), circle(50)),
        r"PointCloud\(70 points inside, 50 on the boundary\)",
    ),
]


@pytest.mark.parametrize(("domain", "text"), EXACT, ids=[text for _, text in EXACT])
def test_domains_print_as_they_are_built(domain, text):
    assert repr(domain) == text
    assert eval(text, {name: getattr(ts, name) for name in ts.__all__}) == domain


@pytest.mark.parametrize(("domain", "pattern"), SHORT, ids=["polygon", "hole", "f", "g", "cloud"])
def test_what_is_long_is_printed_shortly(domain, pattern):
    assert re.fullmatch(pattern, repr(domain))
    assert len(repr(domain)) < 150


def larger(inner):
    return st.builds(
        lambda kind, a, b: {"|": a | b, "-": a - b, "&": BOX & (a | b)}[kind],
        st.sampled_from("|-&"),
        inner,
        inner,
    )


@given(st.recursive(st.sampled_from([BOX, BALL, HOLE, HALF]), larger, max_leaves=5))
def test_the_text_of_a_combination_is_the_combination(domain):
    assert eval(repr(domain), {name: getattr(ts, name) for name in ts.__all__}) == domain


def test_errors_quote_both_sides_of_a_combination():
    far = ts.Ball(x=5, y=5, radius=1)
    with pytest.raises(ValueError, match=r"\) & Ball\(x=5, y=5, radius=1\) is empty: the two"):
        BOX & far
