"""The command line: `tessella list`, `tessella solve`, `tessella view`, `tessella reproduce`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Table
except ModuleNotFoundError as error:
    sys.exit(f"error: the command line needs {error.name}: pip install 'tessella[cli]'")

from tessella.machine.interrupts import Interrupts, at_safe_points

if TYPE_CHECKING:
    from tessella.reproduction.run import Step
    from tessella.reproduction.store import Store
    from tessella.solution.marched import Marched
    from tessella.solution.solution import Solution

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Solve linear PDEs with filtered random features on overlapping subdomains.",
)
console = Console()


@app.command("list")
def list_problems() -> None:
    """Show the gallery, one problem a line: name, what it is, parameters (presets)."""
    from tessella import gallery

    entries = gallery.ENTRIES.values()
    names, summaries = (max(len(getattr(e, c)) for e in entries) for c in ("name", "summary"))
    for entry in entries:
        shown = " ".join(f"{k}={v:g}" for k, v in entry.preset().parameters.items())
        presets = ", ".join(entry.presets)
        line = f"{entry.name:<{names}}  {entry.summary:<{summaries}}  {shown} ({presets})"
        console.print(line, highlight=False, soft_wrap=True, markup=False)


@app.command()
def solve(
    name: Annotated[str, typer.Argument(help="a problem from `tessella list`")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="as-run reproduces the paper's tables, printed follows its text, best is the most "
            "accurate; the problem's first in `tessella list` if left out"
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="choose the method to meet this normalised L1 error, by an estimate"),
    ] = None,
    patience: Annotated[float, typer.Option(help="seconds to spend on meeting --tol")] = 120.0,
    slabs: Annotated[
        int | None,
        typer.Option(help="solve slab by slab in time; all numbers are then those of one slab"),
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of the random features")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a number; repeat as needed"),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="rrqr-lsqr (the paper's), nested-qr (direct), auto, or lsqr, lsmr, cg, as-cg "
            "without the filter and rrqr-... with it; pinn or fbpinn trains a network instead; the "
            "preset's own if left out"
        ),
    ] = None,
    condition: Annotated[
        bool, typer.Option("--condition", help="compute the condition numbers too")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="write the figures to this file (- for stdout)")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="draw the solution to this file")] = None,
    animate: Annotated[
        Path | None, typer.Option(help="show it in time, as a moving picture: a .gif or .mp4 file")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="save the solution to this file")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="keep finished steps (--tol) or slabs in this folder, or the state of a pinn's or "
            "fbpinn's training in this file, and go on from there"
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(help="share subdomains side by side among so many processes of this machine"),
    ] = 1,
) -> None:
    """Solve one problem of the gallery and report."""
    from tessella import gallery
    from tessella.machine.processes import index

    steps = tol is not None or slabs is not None
    _check_targets(json_file, plot, save, None if steps else checkpoint, animate)
    entry = gallery.get(name)
    _share(processes)
    changes = dict(parse_setting(text) for text in settings or [])
    if slabs is not None and condition:
        raise ValueError("a march has no condition numbers: leave out --slabs or --condition")
    with at_safe_points() as interrupts:
        common: dict[str, Any] = {
            "seed": seed,
            "solver": solver,
            "settings": changes,
            "tol": tol,
            "patience": None if tol is None else patience,
        }
        solution: Solution | Marched
        if slabs is not None:
            solution = entry.march(preset, slabs, checkpoint=checkpoint, **common)
        else:
            solution = entry.solve(
                preset, condition=condition or None, checkpoint=checkpoint, **common
            )
        interrupts.kept = "the report tells what was found until then"
    solution = solution.whole()
    if index() == 0:
        _hand_over(solution, json_file, plot, save, animate)


def _share(number: int) -> None:
    """Start so many processes with the command that this one was given, or be one of them."""
    from tessella.machine.launch import CHILD, launch
    from tessella.machine.processes import distributed

    if CHILD in os.environ:
        distributed()
    elif number != 1:
        program = "from tessella.cli import main; main()"
        raise typer.Exit(launch(number, [sys.executable, "-c", program, *sys.argv[1:]]))


def _check_targets(
    json_file: Path | None,
    plot: Path | None,
    save: Path | None,
    checkpoint: Path | None,
    animate: Path | None,
) -> None:
    """Refuse what could not be written in the end, before there is anything to lose."""
    from tessella.machine.files import check_writable
    from tessella.solution.files import named

    if plot is not None:
        from tessella.solution.panels import picture_file

        plot = picture_file(plot)
    targets = [json_file, plot, named(save) if save is not None else None, checkpoint, animate]
    given = [target for target in targets if target is not None and str(target) != "-"]
    for number, target in enumerate(given):
        if target in given[:number]:
            raise ValueError(f"{target} is named twice: write every result to a file of its own")
        check_writable(target)


def _hand_over(
    solution: Solution | Marched,
    json_file: Path | None,
    plot: Path | None,
    save: Path | None,
    animate: Path | None,
) -> None:
    """Save, print, write and draw what was asked for; what fails does not take the rest with it."""

    def show() -> None:
        if str(json_file) == "-":
            print(json.dumps(solution.report.to_json(), indent=2))
        else:
            console.print(str(solution), highlight=False, soft_wrap=True)

    tasks: list[Callable[[], object]] = [show]
    if save is not None:
        tasks.insert(0, lambda: solution.save(save))
    if json_file is not None and str(json_file) != "-":
        tasks.append(lambda: _write_json(solution, json_file))
    if plot is not None:
        tasks.append(lambda: solution.plot(plot))
    if animate is not None:
        tasks.append(lambda: solution.animate(animate))
    failed: list[Exception] = []
    for task in tasks:
        try:
            task()
        except MISTAKES as error:
            failed.append(error)
    if failed:
        raise ValueError("; ".join(map(_told, failed)))


def _write_json(solution: Solution | Marched, path: Path) -> None:
    from tessella.machine.files import written_whole

    with written_whole(path) as unfinished:
        unfinished.write_text(json.dumps(solution.report.to_json(), indent=2) + "\n")


@app.command()
def view(
    file: Annotated[Path, typer.Argument(help="a saved solution: `tessella solve --save FILE`")],
    no_open: Annotated[
        bool, typer.Option("--no-open", help="only say the address, do not open a browser")
    ] = False,
) -> None:
    """Show a saved solution in the browser, from this machine only, until Ctrl-C.

    The equation of a problem that is not in the gallery is not in its file; for the residual use
    Python, `ts.load(FILE, problem=problem).view()`.
    """
    from tessella.solution.files import load
    from tessella.solving.factor import FactoredProblem

    found = load(file)
    if isinstance(found, FactoredProblem):
        raise ValueError(f"{file} has factors, not a solution: solve for some data first")
    viewer = found.view(browser=not no_open)
    console.print(f"{file} is shown at {viewer.url} until Ctrl-C", soft_wrap=True)
    viewer.wait()


@app.command()
def reproduce(
    targets: Annotated[
        list[str],
        typer.Argument(
            help="table1, table2, table3, series, appendix, printed, seconds, spectra, figures, "
            "report, or all"
        ),
    ],
    seeds: Annotated[int, typer.Option(help="runs per row, with seeds 0, 1, ...")] = 5,
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="rows to run, e.g. 'table1/*sigma*'")
    ] = None,
    out: Annotated[Path, typer.Option(help="folder of the records and the report")] = Path(
        "results"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="small sizes, minutes instead of hours")
    ] = False,
    redo: Annotated[bool, typer.Option("--redo", help="run again what is already there")] = False,
    workers: Annotated[int, typer.Option(help="processes, each on one core")] = 1,
) -> None:
    """Make the paper's tables and figures again; finished runs are kept and never repeated.

    Started with the same --out on several machines that see that folder, or several times on one,
    the command divides the runs, and waits for those of the others before it shows the whole.
    """
    from tessella.reproduction import Plan, Store, figures, report
    from tessella.reproduction import reproduce as run

    store = Store(out)
    drawing = {"figures", "all"} & set(targets)
    running = [target for target in targets if target not in ("figures", "report")]
    if drawing and not {"all", "spectra"} & set(running):
        running.append("spectra")
    if running:
        with at_safe_points() as interrupts, _RunBar() as show:
            interrupts.kept = f"finished runs are in {out}; the same command goes on"
            plan = Plan(running, seeds, only, quick)
            run(plan, out, redo=redo, workers=workers, report=show)
    for number in (1, 2, 3):
        if {f"table{number}", "all"} & set(targets):
            _print_comparison(store, number, quick)
    if drawing:
        with Console(stderr=True).status("drawing the figures") as status:
            figures.draw(store, out / "figures", quick=quick, report=status.update)
    page, web = report.write(store, figures.drawn(out / "figures"), quick)
    console.print(f"the whole report: {page} and {web}", highlight=False, soft_wrap=True)


def _print_comparison(store: Store, number: int, quick: bool) -> None:
    """One of the paper's tables, ours beside theirs."""
    from tessella.reproduction.compare import compare

    table = Table(box=None, pad_edge=False, header_style="bold", title=f"Table {number}")
    for title in ("row", "error", "paper", "verdict", "kappa", "paper", "n"):
        table.add_column(title, no_wrap=True)
    for row in compare(store, number, quick):
        kappa = row.kappa["preconditioned"]
        table.add_row(
            row.case.row.replace("rrqr-lsqr ", "  "),
            "" if row.error.ours is None else f"{row.error.ours:.1e}",
            f"{row.row.error:.1e} ± {row.row.error_range:.0e}",
            row.error.verdict,
            "" if kappa.ours is None else f"{kappa.ours:.1e}",
            "" if kappa.paper is None else f"{kappa.paper:.1e}",
            str(len(row.records)),
        )
    console.print(table)


def parse_setting(text: str) -> tuple[str, Any]:
    """KEY=VALUE with a number, a comma-separated list of numbers, true/false, or a word."""
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise ValueError(f"--set needs KEY=VALUE, got {text!r}")
    if "," in value:
        return key, tuple(_number_or_word(part) for part in value.split(","))
    return key, _number_or_word(value)


def _number_or_word(text: str) -> int | float | bool | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class _RunBar:
    """Runs done, what ran last and the time left, on stderr; a line per run without a terminal."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.completed:,} of {task.total:,} runs"),
            BarColumn(),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.description}", style="dim"),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("starting", total=None, left="?")

    def __enter__(self) -> _RunBar:
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __call__(self, step: Step) -> None:
        if not self.console.is_terminal:
            text = f"{step.done}/{step.total} {step.last} ({step.left} left)"
            print(text, file=sys.stderr, flush=True)
        self.bar.update(
            self.task, completed=step.done, total=step.total, description=step.last, left=step.left
        )

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.bar.stop()


def main() -> None:
    """Entry point: one line for a mistake in the input or an interrupt, a traceback for one of
    ours."""
    code: str | int | None = 0
    interrupts = Interrupts()
    try:
        with at_safe_points(signal.SIGTERM) as interrupts:
            app()
    except KeyboardInterrupt:
        code = 130
    except SystemExit as ended:
        code = ended.code
    except MISTAKES as error:
        _complain("error", _told(error))
        code = 1
    if interrupts.seen:
        _complain("interrupted", interrupts.kept)
        code = 128 + interrupts.seen
    sys.exit(code)


def _complain(what: str, text: str) -> None:
    told = Console(stderr=True, soft_wrap=True)
    told.print(f"[bold red]{what}:[/] {escape(text)}", highlight=False)


MISTAKES = (ValueError, MemoryError, ImportError, OSError)
"""What is wrong with the input or the machine, not with us."""


def _told(error: Exception) -> str:
    """In one line; Python's own MemoryError says nothing."""
    return " ".join(str(error).split()) or "not enough memory"
