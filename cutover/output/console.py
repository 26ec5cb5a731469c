"""The console: a command returns an `Output`, and this module alone prints it.

`wrap_command` wraps the function of a command: it adds `--json` to its options, prints the output as JSON or as lines
and tables, and returns the exit code. Text from data is escaped on the way, so that no key can move the cursor or add
markup. Progress goes to standard error: a spinner or a bar on a terminal, otherwise one line per step.
"""

import inspect
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import Annotated, Any, NamedTuple

import typer
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from cutover.errors import CutoverError
from cutover.output.cells import literal_text, visible

_LINE_EVERY = 10.0  # seconds between two lines of progress where there is no terminal


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text that is written as it is, such as a page of Markdown or rows of CSV."""

    text: str


Line = str | Text | Table | Verbatim
"""What an output prints: a string as a separate line with control characters escaped, styled text, or a table."""

ReportProgress = Callable[[str], None]
"""Replaces the text that a spinner shows."""

_PADDING = 2  # between two columns of a table
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line, instead of text.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Result of a command.

    Args:
        document: Value that `--json` prints; JSON types, other objects as `str` gives them. An
            iterator prints a line for each of its values; None prints nothing.
        lines: Everything that is printed otherwise. Not evaluated under `--json`.
        warnings: Lines for standard error, printed in either case.
        exit_code: 0 ok, 1 different, 2 no answer.
        replaces_previous: On a terminal a later output of the same command overwrites this one.
    """

    document: object = None
    lines: Iterable[Line] = ()
    warnings: Iterable[str] = ()
    exit_code: int = 0
    replaces_previous: bool = False


def wrap_command(function: Callable[..., Output | Iterator[Output]]) -> Callable[..., int]:
    """Make the function of a command print its output and return its exit code, and give it the option `--json`.

    A function that yields several outputs has each printed when it comes; the last one's exit code counts. The message
    of an error names the pipeline of the arguments in its commands.
    """
    signature = inspect.signature(function)
    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)

    @wraps(function)
    def run(*args: object, as_json: bool = False, **kwargs: object) -> int:
        try:
            outcome = function(*args, **kwargs)
            return render(iter([outcome]) if isinstance(outcome, Output) else outcome, as_json=as_json)
        except CutoverError as error:
            if isinstance(name := kwargs.get("pipeline"), str) and name.isidentifier():
                error.name_pipeline(name)
            raise

    run.__annotations__ = {**function.__annotations__, "as_json": AsJson, "return": int}
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters, return_annotation=int)  # type: ignore[attr-defined]  # read by inspect.signature
    return run


def returns_output(function: Callable[..., object]) -> bool:
    """Return whether a function leaves printing to `wrap_command`, by its annotation."""
    return inspect.signature(function).return_annotation in {Output, Iterator[Output]}


def render(outputs: Iterator[Output], *, as_json: bool = False) -> int:
    """Print outputs as they come and return the exit code of the last one."""
    exit_code = 0
    first = next(outputs, None)
    rest = chain(() if first is None else (first,), outputs)
    if first is not None and first.replaces_previous and not as_json and sys.stdout.isatty():
        with Live(_group(first), auto_refresh=False) as live:
            for output in rest:
                live.update(_group(output), refresh=True)
                exit_code = output.exit_code
        return exit_code
    for output in rest:
        _print_json(output.document) if as_json else _print_lines(output.lines)
        print_warnings(output.warnings)
        exit_code = output.exit_code
    return exit_code


def _print_json(document: object) -> None:
    documents = document if isinstance(document, Iterator) else () if document is None else (document,)
    for each in documents:
        sys.stdout.write(encode_json(each) + "\n")
    sys.stdout.flush()


def encode_json(document: object) -> str:
    """Return a value as JSON in one line; a number that JSON does not have becomes the text that Python gives it."""
    try:
        return json.dumps(document, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_replace_non_finite(document), allow_nan=False, default=str)


def _replace_non_finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _replace_non_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _print_lines(lines: Iterable[Line]) -> None:
    console = Console(highlight=False)
    for line in lines:
        if isinstance(line, Verbatim):
            sys.stdout.write(line.text)
        else:
            # A sentence is wrapped by the terminal, so that a command in it can be copied; a table fits the width.
            console.print(_renderable(line, console.width), soft_wrap=not isinstance(line, Table))
    sys.stdout.flush()


def print_warnings(lines: Iterable[str]) -> None:
    """Print lines on standard error."""
    for line in lines:
        sys.stderr.write(f"{visible(line)}\n")


def _renderable(line: str | Text | Table, width: int) -> RenderableType:
    if isinstance(line, Table):
        fit_columns(line, width)
    return Text(_on_one_line(line)) if isinstance(line, str) else line  # no markup in it, and no code of an emoji


def _on_one_line(text: str) -> str:
    return visible(text.replace("\nHint: ", " Hint: "))


def _group(output: Output) -> Group:
    width = Console().width
    return Group(*(_renderable(line, width) for line in output.lines if not isinstance(line, Verbatim)))


def styled(*parts: str | tuple[str, str]) -> Text:
    """Return one line of which parts have a style: `styled(("DIVERGED", "bold red"), "  2 rows differ")`."""
    return Text.assemble(
        *(_on_one_line(part) if isinstance(part, str) else (_on_one_line(part[0]), part[1]) for part in parts)
    )


def make_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    right: Iterable[str] = (),
    no_wrap: Iterable[str] = (),
    title: str | None = None,
) -> Table:
    """Return a table of cells that are printed to the letter.

    Args:
        columns: Heads.
        rows: A cell for each column: text, styled text, or another value as `str` gives it; None is empty.
        right: Heads of the columns that are aligned right, as numbers are.
        no_wrap: Heads of the columns whose cells stay on one line.
        title: Printed above it.
    """
    table = Table(box=None, pad_edge=False, padding=(0, _PADDING, 0, 0), title=title, title_justify="left")
    right_columns, unwrapped = set(right), set(no_wrap)
    for column in columns:
        justify = "right" if column in right_columns else "left"
        table.add_column(Text(visible(column)), justify=justify, no_wrap=column in unwrapped, overflow="fold")  # type: ignore[arg-type]  # one of two literals
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else _cell(cell) for cell in row))
    return table


def fit_columns(table: Table, width: int) -> None:
    """Take room from the widest columns of a table until it fits: heads wrap before cells, and both between words.

    Rich alone breaks words. It does so still in a terminal too narrow for the longest word of each head.
    """
    columns = [_ColumnRoom.measure(column) for column in table.columns]
    widths, room = [min(column.full, width) for column in columns], width - _PADDING * len(columns)
    for least in ([c.head_wrapped for c in columns], [c.all_wrapped for c in columns], [c.head_word for c in columns]):
        if sum(least) > room:
            continue
        while sum(widths) > room:
            shrinkable = [at for at, wide in enumerate(widths) if wide > least[at]]
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
        for column, wide in zip(table.columns, widths, strict=True):
            column.width = wide
        return


class _ColumnRoom(NamedTuple):
    """Widths of a column of a table, in characters."""

    full: int
    head_wrapped: int  # cells on one line
    all_wrapped: int  # only words are whole
    head_word: int  # only words of the head are whole

    @classmethod
    def measure(cls, column: Column) -> "_ColumnRoom":
        """Measure the parts of a column; one that is not wrapped always needs its full width."""
        head_word = _find_longest(str(column.header).split())
        cells = [str(cell) for cell in column.cells]
        lines, words = (
            max(head_word, _find_longest(part for cell in cells for part in split(cell)))
            for split in (str.splitlines, str.split)
        )
        full = max(lines, cell_len(str(column.header)))
        return cls(full, full, full, full) if column.no_wrap else cls(full, lines, words, head_word)


def _find_longest(parts: Iterable[str]) -> int:
    return max(map(cell_len, parts), default=0)


def _cell(value: object) -> Text:
    return Text("" if value is None else _on_one_line(str(value)))


def multiline(text: str) -> Text:
    """Return a text whose lines stay lines in a cell, as `make_table` escapes a line break elsewhere."""
    return Text("\n".join(visible(line) for line in text.split("\n")))


@contextmanager
def show_spinner(first_text: str) -> Iterator[ReportProgress]:
    """Show a text on standard error while the block runs, and whatever replaces it: a spinner, or a line for each."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status(literal_text(first_text)) as status:
            yield lambda text: status.update(literal_text(text))
        return
    last_text = ""

    def print_line(text: str) -> None:
        nonlocal last_text
        if text != last_text:
            last_text = text
            print_warnings([text])

    print_line(first_text)
    yield print_line


@contextmanager
def show_bar(description: str, *, first_line_after: float = _LINE_EVERY) -> Iterator[Callable[..., None]]:
    """Show how much is done on standard error: a bar with the remaining time, or a line every ten seconds.

    Args:
        description: What is done.
        first_line_after: Seconds before the first line; a bar is shown at once.

    Yields:
        `update(completed, total, description=None)`; a total of None is not known yet.
    """
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(" of "))
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
    started = time.monotonic()
    due = started + first_line_after
    with bar if console.is_terminal else nullcontext():
        task = bar.add_task(description, total=None)

        def update(completed: int, total: int | None, text: str = description) -> None:
            nonlocal due
            bar.update(task, completed=completed, total=total, description=text)
            now = time.monotonic()
            if not console.is_terminal and now >= due:
                due = now + _LINE_EVERY
                print_warnings([f"{text}{_describe_progress(completed, total, now - started)}"])

        yield update


def _describe_progress(completed: int, total: int | None, seconds: float) -> str:
    if not total or not completed or seconds < 1:
        return f" ({seconds:.0f} s)"
    return f": {completed:,} of {total:,}, about {seconds * (total - completed) / completed:.0f} s left"


def as_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that returns an `Output`; leave any other as it is."""
    return wrap_command(function) if returns_output(function) else function
