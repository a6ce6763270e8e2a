"""A page for every public name, made of its docstring; a name that explains nothing is refused."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from pathlib import Path

import tessella as ts

GROUPS = {
    "Problems": "Problem Equation Ansatz Reference gallery",
    "Operators": "D Laplacian Identity NormalDerivative Normal Field operator",
    "Domains": "Box Ball Polygon HalfSpace Implicit PointCloud Divided",
    "Conditions": "Dirichlet Neumann Robin Initial InitialVelocity Absorbing Outgoing Periodic "
    "Measured Integral MeanZero Transmission Condition with_layers",
    "Solving": "solve march factor eigs Method FactoredProblem",
    "Solutions": "Solution Marched Spectrum load",
    "Features and subdomains": "RandomFeatures Activation Enrichment Corner Basis CellBasis Fields "
    "Multilevel Decomposition Tiling Grid",
    "Filters and solvers": "RRQR Unfiltered NestedQR LSQR LSMR CG SchwarzCG DeflatedLSQR",
    "Networks": "pinn fbpinn Training",
}
"""The order of the pages; names that are missing here come last."""

COLUMN = re.compile(r"(\S.*?)\s{2,}(\S.*)")


def grouped() -> dict[str, list[str]]:
    """Every public name once."""
    found = {title: names.split() for title, names in GROUPS.items()}
    known = {name for names in found.values() for name in names}
    rest = [name for name in ts.__all__ if name not in known and name != "__version__"]
    return found | ({"More": rest} if rest else {})


def write_reference(target: Path) -> None:
    """All pages, and one that lists them."""
    target.mkdir(parents=True, exist_ok=True)
    lines = ["# API", "", "Every public name, with an example that is run as a test.", ""]
    for title, names in grouped().items():
        lines += [f"## {title}", "", "| | |", "| --- | --- |"]
        for name in names:
            (target / f"{name}.md").write_text(page(name))
            first = documented(getattr(ts, name), name).split("\n\n")[0].replace("\n", " ")
            lines.append(f"| [`{name}`]({name}.md) | {escaped(first, name)} |")
        lines += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
    (target / "index.md").write_text("\n".join(lines))


def page(name: str) -> str:
    """Signature, what it is, an example, and what can be called."""
    thing = getattr(ts, name)
    text = documented(thing, name)
    if ">>>" not in text:
        raise ValueError(f"{name} has no >>> example in its docstring")
    kind = "class" if inspect.isclass(thing) else "function"
    parts = [f"# {name}"]
    if callable(thing):
        parts.append(f"```{{py:{kind}}} tessella.{name}{signature(thing)}\n```")
    parts.append(markdown(text, name))
    members = methods(thing) if inspect.isclass(thing) else []
    if members:
        parts.append("## Methods")
    parts += [_method(name, key, value) for key, value in members]
    return "\n\n".join(parts) + "\n"


def documented(thing: object, name: str) -> str:
    text = inspect.getdoc(thing)
    if not text:
        raise ValueError(f"{name} has no docstring")
    return text


def methods(kind: type) -> list[tuple[str, object]]:
    """What a class offers by public names and explains, in the order in which it is written."""
    found = {}
    for base in kind.__mro__:
        if base.__module__.startswith("tessella"):
            for key, value in vars(base).items():
                if not key.startswith("_") and inspect.isroutine(_function(value)):
                    found.setdefault(key, value)
    for key in found if kind in (ts.Solution, ts.Marched, ts.FactoredProblem) else ():
        documented(getattr(kind, key), f"{kind.__name__}.{key}")
    return [(key, value) for key, value in found.items() if inspect.getdoc(getattr(kind, key))]


def _function(value: object) -> object:
    """The function behind a property or a method of the class."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, cached_property):
        return value.func
    return getattr(value, "__func__", value)


def _method(name: str, key: str, value: object) -> str:
    text = markdown(documented(getattr(getattr(ts, name), key), key), name)
    if isinstance(value, property | cached_property):
        head = f"::::{{py:attribute}} tessella.{name}.{key}"
    else:
        head = f"::::{{py:method}} tessella.{name}.{key}{signature(_function(value), method=True)}"
    return f"{head}\n\n{text}\n::::"


def signature(thing: object, method: bool = False) -> str:
    """Parameters with short defaults, without types."""
    parameters = list(inspect.signature(thing).parameters.values())  # type: ignore[arg-type]
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    bare = []
    for one in parameters:
        default = one.default
        if default is not one.empty:
            short = repr(default)
            default = default if len(short) < 30 and "<" not in short else _Dots()
        bare.append(one.replace(annotation=one.empty, default=default))
    return str(inspect.Signature(bare))


class _Dots:
    def __repr__(self) -> str:
        return "..."


def markdown(text: str, name: str) -> str:
    """A docstring's paragraphs, lists of names and examples."""
    return "\n\n".join(_paragraph(part, name) for part in text.split("\n\n"))


def _paragraph(part: str, name: str) -> str:
    lines = part.splitlines()
    if lines[0].startswith(">>>"):
        return f"```pycon\n{part}\n```"
    if not any(COLUMN.fullmatch(line) for line in lines if not line.startswith(" ")):
        return escaped(part, name)
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        column = COLUMN.fullmatch(line)
        if line.startswith(" ") and found:
            found[-1][1].append(line.strip())
        elif column:
            found.append((column[1], [column[2]]))
        else:
            found.append((line, []))
    return "\n\n".join(f"`{term}`\n: {escaped(' '.join(said), name)}" for term, said in found)


def escaped(text: str, name: str) -> str:
    """Plain text for Markdown; public names in backticks lead to their pages."""
    parts = re.split(r"(`[^`]*`)", text)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            parts[number] = re.sub(r"([$<*_|\[\]])", r"\\\1", part)
        elif part[1:-1] in ts.__all__ and part[1:-1] != name:
            parts[number] = f"[{part}]({part[1:-1]}.md)"
    return "".join(parts)
