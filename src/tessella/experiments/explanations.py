"""What no record can say by itself: known differences of text and numbers, and why cells differ."""

from __future__ import annotations

DIFFERENCES: tuple[tuple[str, str, str], ...] = (
    ("columns per subdomain", "K features", "K features and one constant"),
    ("bias", "none in the last layer", "in every layer, uniform on ±1/sqrt(fan_in) like weights"),
    ("points per axis", "S ceil(K^(1/d))", "S ceil((K+1)^(1/d)), end points included"),
    ("oscillator's weights", "not given", "1e6 for u(0) = 1, 1e2 for u'(0) = 0"),
    ("Laplacian's baseline", "n = 3", "n = 4: omega = 2, 4, 8, 16"),
    ("wave's interval", "t in [0, 1]", "t in [0, 0.5]"),
    ("wave's walls", "tanh(x/d) tanh((1-x)/d)", "tanh((x+1)/d) tanh((1-x)/d)"),
    (
        "wave's start term",
        "exp(-((0.6 t/tau)^2 + r/lambda)^2 / 2)",
        "exp(-(1.5 c t/lambda)^2 / 2 - (r/lambda)^2 / 2)",
    ),
    ("wave's test grid", "4S per axis", "4S in x and y, 10 in t"),
    ("wave's reference", "finite differences", "here the exact sine series"),
    ("AS block", "the columns of subdomain j", "all columns that overlap subdomain j"),
    ("condition numbers", "not said", "from one extra seed; here medians over seeds"),
    ("validity of the random-matrix estimate", "2 epsilon < 1", "2 epsilon^2 < 1 is what it needs"),
)
"""Topic, as printed, as run."""

EXCEPTIONS: dict[tuple[int, str, str], str] = {}
"""Why a cell lies outside the paper's range: (table, row, figure) -> reason."""
