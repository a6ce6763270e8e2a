"""The paper's figures: each drawn from the records of a store, or from a solve of its own."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tessella.machine.files import written_whole
from tessella.reproduction import record_figures, solution_figures
from tessella.reproduction.figure_parts import LOOK, MissingRecordsError, Source
from tessella.reproduction.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawn:
    """A figure on disk; or none, and the reason why."""

    name: str
    caption: str
    path: Path | None
    reason: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn, and the figure of the paper it stands for."""

    name: str
    number: int
    caption: str
    sketch: Callable[[Source], tuple[Figure, str]]

    @property
    def title(self) -> str:
        return f"{self.caption} (Figure {self.number} of the paper.)"


def _scaling(name: str, number: int, caption: str) -> Drawing:
    explained = (
        f"{caption}: error along the iterations for each solver, and the smallest error (filled) "
        f"and that at the stopping rule (hollow) against the seconds to filter and solve."
    )
    return Drawing(name, number, explained, partial(record_figures.scaling, experiment=name))


def _of_records(problem: str, title: str, table: int, number: int, weak: str) -> list[Drawing]:
    """The four figures that every problem has, from `number` on: convergence and three series."""
    convergence = Drawing(
        f"{problem}-convergence",
        number,
        f"{title}: convergence of all linear solvers, and where their stopping rule ends them.",
        partial(record_figures.convergence, table=table),
    )
    series = {
        "features": "more features K per subdomain",
        "subdomains": "more subdomains S of the same width",
        "weak": weak,
    }
    return [
        convergence,
        *(
            _scaling(f"{problem}-{name}", number + k, f"{title}, {words}")
            for k, (name, words) in enumerate(series.items(), 1)
        ),
    ]


DRAWINGS = [
    Drawing(
        "oscillator-solution",
        2,
        "Oscillator: exact and model solution, the decomposition, and the basis functions of its "
        "10th subdomain (dotted where the filter drops them).",
        solution_figures.oscillator_solution,
    ),
    Drawing(
        "oscillator-condition",
        3,
        "Oscillator: entries of M and of the filtered, preconditioned matrix, and their singular "
        "values.",
        solution_figures.oscillator_condition,
    ),
    *_of_records("oscillator", "Oscillator", 1, 4, "higher frequency with more subdomains"),
    Drawing(
        "oscillator-weak-solution",
        8,
        "Oscillator: exact and model solution at three frequencies, and their last tenth.",
        solution_figures.oscillator_weak,
    ),
    Drawing(
        "laplace-solution",
        9,
        "Laplacian: exact solution, model, decomposition, and singular values.",
        solution_figures.laplace_solution,
    ),
    *_of_records("laplace", "Laplacian", 2, 10, "more scales n with more subdomains"),
    Drawing(
        "laplace-weak-solution",
        14,
        "Laplacian: exact solution, model and their difference for three numbers of scales.",
        solution_figures.laplace_weak,
    ),
    Drawing(
        "wave-solution",
        15,
        "Wave: exact (sine series) and model solution over time for three widths.",
        solution_figures.wave_solution,
    ),
    *_of_records("wave", "Wave", 3, 16, "narrower start with more subdomains"),
    Drawing(
        "appendix-condition",
        20,
        "Oscillator, nothing filtered: condition of M and Q over K and overlap, the bounds where "
        "they are valid, and the coupling alpha.",
        record_figures.appendix,
    ),
]
"""In the order of the paper, whose Figure 1 is a diagram."""


def draw(
    store: Store,
    folder: Path,
    *,
    quick: bool = False,
    only: str | None = None,
    report: Callable[[str], None] | None = None,
) -> list[Drawn]:
    """Draw every figure whose records are in the store, as PNG and SVG in `folder`.

    A figure that lacks records is left out and says what it lacks. `quick` reads the records of a
    quick reproduction and solves small problems: for trying things, not for looking at them.
    `only` is a pattern for names, such as "wave-*".
    """
    chosen = [d for d in DRAWINGS if only is None or fnmatch.fnmatch(d.name, only)]
    if not chosen:
        names = ", ".join(drawing.name for drawing in DRAWINGS)
        raise ValueError(f"no figure matches {only!r}; there are: {names}")
    try:
        import matplotlib
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'tessella[plot]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    say = report or (lambda _: None)
    drawn = []
    with matplotlib.rc_context(LOOK):
        for drawing in chosen:
            say(f"drawing {drawing.name}")
            drawn.append(_draw_one(drawing, Source(store, quick, say), folder))
            _note(drawn[-1], folder)
    return drawn


CAPTIONS = "captions.json"
NOT_DRAWN = "not drawn: "


def _note(drawn: Drawn, folder: Path) -> None:
    """Keep the caption beside the picture, or the reason why there is none."""
    captions = _captions(folder)
    captions[drawn.name] = drawn.caption if drawn.path else NOT_DRAWN + drawn.reason
    with written_whole(folder / CAPTIONS) as unfinished:
        unfinished.write_text(json.dumps(captions, indent=1) + "\n")


def _captions(folder: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((folder / CAPTIONS).read_text())
    except FileNotFoundError:
        return {}
    return found


def drawn(folder: Path) -> list[Drawn]:
    """The figures of an earlier `draw`, in the order of the paper.

    A picture that the last `draw` could not renew does not count, even if an older one is there.
    """
    captions = _captions(folder)
    return [_kept(d.name, captions[d.name], folder) for d in DRAWINGS if d.name in captions]


def _kept(name: str, caption: str, folder: Path) -> Drawn:
    path = folder / f"{name}.png"
    if caption.startswith(NOT_DRAWN):
        return Drawn(name, caption, None, caption.removeprefix(NOT_DRAWN))
    if not path.exists():
        return Drawn(name, caption, None, f"{path} is gone: draw it again")
    return Drawn(name, caption, path)


def _draw_one(drawing: Drawing, source: Source, folder: Path) -> Drawn:
    try:
        figure, note = drawing.sketch(source)
    except MissingRecordsError as missing:
        return Drawn(drawing.name, drawing.title, None, str(missing))
    caption = f"{drawing.title} {note}"
    return Drawn(drawing.name, caption, _save(figure, folder, drawing.name))


def _save(figure: Figure, folder: Path, name: str) -> Path:
    """Both formats or neither."""
    png, svg = (folder / f"{name}.{kind}" for kind in ("png", "svg"))
    with written_whole(png) as dots, written_whole(svg) as lines:
        figure.savefig(lines, metadata={"Date": None})
        figure.savefig(dots)
        _shrink(dots)
    return png


def _shrink(png: Path) -> None:
    """256 colours are enough for lines and for maps of few levels, and take a third of the room."""
    from PIL import Image

    with Image.open(png) as picture:
        few = picture.convert("RGB").quantize(
            256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(png, optimize=True)
