"""Every public name explains itself by an example, and the examples say what is true."""

import doctest
import inspect

import pytest

import tessella as ts

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NAMES = [name for name in ts.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_holds(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.cleandoc(getattr(ts, name).__doc__ or "")
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples, f"{name} has no >>> example in its docstring"
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert result.failed == 0, "".join(said)
