"""Ctrl-C is raised where it does no harm, exactly once, and never lost."""

import os
import signal
import threading
import traceback

import jax
import jax.numpy as jnp
import pytest

from tessella.machine.interrupts import Interrupts, at_safe_points


def press():
    os.kill(os.getpid(), signal.SIGINT)


def package_of(name, source):
    """The function `act` of a module called so."""
    scope = {"__name__": name, "press": press}
    exec(source, scope)
    return scope["act"]


SWALLOWS = """
def act(done):
    try:
        press()
        done.append("went on")
    except BaseException:
        done.append("swallowed")
"""


def test_an_interrupt_waits_until_jax_has_compiled():
    seen = []

    def listen(event, duration, **_):
        if not seen:
            press()
        seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    program = jax.jit(lambda x: jnp.sin(x) + 7.125)
    try:
        with pytest.raises(KeyboardInterrupt) as caught, at_safe_points():
            program(jnp.ones(3))
            len("the next call")
            pytest.fail("nothing was raised")
    finally:
        seen.append("over")
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [file for file in files if f"{os.sep}jax{os.sep}" in file]
    assert program._cache_size() == 1


@pytest.mark.parametrize("name", ["jax._src.lib", "weakref"])
def test_an_interrupt_is_not_lost_in_a_callback(name):
    act, done = package_of(name, SWALLOWS), []
    with pytest.raises(KeyboardInterrupt), at_safe_points() as interrupts:
        act(done)
        done.append("after")
    assert done == ["went on"]
    assert interrupts.seen is signal.SIGINT


def test_elsewhere_it_is_raised_at_once():
    done = []
    with pytest.raises(KeyboardInterrupt), at_safe_points():
        press()
        done.append("after")
    assert done == []


def test_the_outermost_holds_and_all_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    with at_safe_points(signal.SIGTERM) as outer:
        with at_safe_points() as inner:
            assert inner is outer
        assert signal.getsignal(signal.SIGTERM) is outer
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_handlers_of_others_and_other_threads_are_left_alone():
    def own(*_): ...

    before = signal.signal(signal.SIGINT, own)
    try:
        with at_safe_points():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    found = []

    def elsewhere():
        with at_safe_points() as interrupts:
            found.append((interrupts, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(found[0][0], Interrupts)
    assert found[0][1] is before
