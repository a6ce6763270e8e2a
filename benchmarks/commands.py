"""The command line with one option that is wrong: one line says so, and nothing ends inside."""

from __future__ import annotations

from typing import Any

import numpy as np
from typer.testing import CliRunner

from benchmarks.fuzz_files import in_time
from tessella import cli

TINY = ["--set", "subdomains=2", "--set", "features=4", "--set", "max_iterations=3"]
OPTIONS = ("--set", "--seed", "--tol", "--patience", "--slabs", "--preset", "--solver")
FILES = ("--json", "--plot", "--save", "--checkpoint")
TEXTS = [
    *("", "a", "-1", "0", "nan", "inf", "1e400", "9" * 30, "n=inf", "n=nan", "n=0", "n=1,2", "n="),
    *("=3", "sigma=2", "sigma=nan", "overlap=0", "features=1e9", "features=inf", "depth=inf"),
    *("constant=3", "activation=3", "subdomains=0,1", "subdomains=1,2,3", "scale=-1", "omega0=inf"),
    *("best", "as-run", "lsqr", "pinn", "/", ".", "/no/such/u.png", "u.cake", "\u00e9", "[red]"),
]


def command_lines(count: int, seed: int) -> list[dict[str, Any]]:
    """So many calls of the command line with one option that is wrong."""
    rows = []
    for number in range(count):
        random = np.random.default_rng([seed, 4, number])
        problem = ["laplace", "laplace", "harmonic-oscillator", "a"][random.integers(4)]
        options = OPTIONS if random.random() < 0.8 else FILES
        option, text = (
            own[random.integers(len(own))]
            for own in (options, [t for t in TEXTS if options is OPTIONS or "/" in t or not t])
        )
        arguments = ["solve", problem, *TINY, option, text]
        rows.append(_row_of_line(number, arguments))
    return rows


def _row_of_line(number: int, arguments: list[str]) -> dict[str, Any]:
    outcome, why = "refused", ""
    try:
        with in_time():
            result = CliRunner().invoke(cli.app, arguments)
        error = result.exception
        if error is None:
            outcome = "right answer"
        elif not isinstance(error, (*cli.MISTAKES, SystemExit)) or isinstance(error, UnicodeError):
            outcome, why = "ends inside", f"{type(error).__name__}: {error}"
    except AssertionError as slow:
        outcome, why = "ends inside", str(slow)
    line = " ".join(arguments[:2] + arguments[-2:])
    return {"what": "command", "number": number, "change": line, "outcome": outcome, "why": why}
