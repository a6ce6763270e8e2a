"""One line for whoever waits: after two seconds, on a terminal, gone at the end."""

import io
import itertools
from types import SimpleNamespace

import pytest

import tessella as ts
from tessella.machine import progress
from tessella.machine.progress import Line, attended, inner, spoken


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, and a clock on which every look takes three quarters of a second."""
    shown, clock = Terminal(), itertools.count(0.0, 0.75)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    return shown


def lines(shown):
    return [line for line in shown.getvalue().split("\r") if line.strip()]


def test_a_line_appears_after_two_seconds_predicts_and_leaves_nothing(terminal):
    with attended(None) as show:
        for done in range(1, 9):
            show(done, 100_000, 0.5)
    first, *_, last = lines(terminal)
    assert first == f"[{'.' * 24}] 3 of 100,000, residual 5.0e-01, about 20.8 h left"
    assert last == first.replace("3 of", "8 of")
    assert terminal.getvalue().endswith("\r")


def test_what_is_over_within_two_seconds_shows_nothing(terminal):
    with attended(None) as show:
        show(1, 2, 1.0)
        show(2, 2, 1.0)
    assert terminal.getvalue() == ""


def test_steps_without_a_number_of_them_show_the_estimate(terminal):
    with attended(None) as show:
        for step in range(1, 6):
            show(step, 0, 10.0**-step)
    assert lines(terminal)[-1] == "step 5, error about 1.0e-05, 4 s"


def test_parts_are_shown_until_the_whole_reports(terminal):
    with attended(None) as show:
        part = inner(show)
        for _ in range(4):
            part(3, 7, 1.0)
        show(1, 4, 0.1)
        part(5, 7, 1.0)
    assert "3 of 7" in lines(terminal)[-2]
    assert "1 of 4" in lines(terminal)[-1]


def test_silent_without_a_terminal_or_when_told_so(terminal, monkeypatch):
    with attended(False) as show:
        assert show is None
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=io.StringIO()))
    with attended(None) as show:
        assert show is None
    with attended(True) as show:
        assert isinstance(show, Line)


def test_a_function_of_ones_own_is_told_of_everything():
    def own(*_): ...

    with attended(own) as show:
        assert show is own
        assert inner(show) is own


def test_a_closed_terminal_does_not_end_a_solve(terminal):
    terminal.close()
    with attended(None) as show:
        assert show is None
    line = Line()
    for done in range(9):
        line(done, 10, 1.0)
    line.erase()


@pytest.mark.parametrize(("seconds", "words"), [(45, "45 s"), (720, "12 min"), (12_600, "3.5 h")])
def test_times_are_said_as_one_would(seconds, words):
    assert spoken(seconds) == words


def test_marches_and_tolerances_show_themselves(terminal, monkeypatch):
    monkeypatch.setattr(progress, "BRIEF", 0.0)
    heat = ts.Equation(ts.D(t=1) - ts.D(x=2), 1.0)
    box = ts.Box(x=(0, 1), t=(0, 1))
    problem = ts.Problem(box, heat, [ts.Dirichlet(0.0), ts.Initial(0.0)])
    choices = {"subdomains": (2, 1), "features": 40, "coupling": "interfaces"}
    ts.march(problem, 3, **choices)
    assert any(" of 3, residual" in line for line in lines(terminal))
    start = len(lines(terminal))
    ts.solve(problem, tol=1e-3)
    assert any(line.startswith("step ") for line in lines(terminal)[start:])
    start = len(lines(terminal))
    ts.march(problem, 3, progress=False, **choices)
    assert len(lines(terminal)) == start
