"""Command `cutover adopt`: writes the definition of a team's own jobs, and tests it against log and tables."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from cutover.adoption.adopt import Adoption, AdoptionRequest, adopt
from cutover.adoption.definition_file import describe_test, list_definition_parts, render_adoption
from cutover.adoption.draft import Choose, Question, Stated
from cutover.cli.init import locate_new_definition, write_definition
from cutover.definition.windows.kinds import Sliding, SlidingWindows
from cutover.engine import storage
from cutover.errors import DefinitionError
from cutover.output.console import Line, Output, make_table, show_spinner
from cutover.settings import load_settings

_ADDRESS = re.compile(r"env:|\w+://")
RECORDS = 30_000
"""Records that are read at most, unless the caller says otherwise."""


def adopt_jobs(  # noqa: PLR0913, PLR0917 -- each is an option of the command
    name: Annotated[str, typer.Argument(help="Name of the new pipeline.")],
    checkpoint: Annotated[str, typer.Option(help="checkpointLocation of the streaming query: a folder or a URI.")],
    stream: Annotated[str, typer.Option(help="Delta table that the query writes: a folder or a URI.")],
    batch: Annotated[
        str | None,
        typer.Option(help="Table of the batch job: a folder, `iceberg://catalog/ns.table` or `env:NAME#schema.table`."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic that the query reads; the checkpoint has to name it.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Filter of the query, in SQL.")] = None,
    event_time: Annotated[str | None, typer.Option(help="Field with the event time.")] = None,
    time_format: Annotated[
        str | None, typer.Option(help="Pattern of the times, such as `dd/MM/yyyy`, if the records do not show it.")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="FIELD=TYPE, such as `fare=decimal(10,2)`; repeatable.")
    ] = None,
    record_id: Annotated[str | None, typer.Option(help="Field with the id of a record.")] = None,
    window: Annotated[str | None, typer.Option(help="Length of a window or gap of sessions: `1 hour`.")] = None,
    window_start: Annotated[str | None, typer.Option(help="Column of the table with the start of a window.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="COLUMN=FIELD or COLUMN=EXPRESSION of the grouping; repeatable.")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="COLUMN=MEASURE, such as `total=Sum(amount)`; repeatable.")
    ] = None,
    records: Annotated[
        int, typer.Option(min=1, help="Records that are read at most to test the definition.")
    ] = RECORDS,
    yes: Annotated[
        bool, typer.Option("--yes", help="Take the first of several values that fit, without asking.")
    ] = False,
) -> Output:
    """Write the definition of jobs that a team has, and test it against the log and their tables.

    Exit code 0: every cell is reproduced, or none could be tested, which is said. 1: some cells differ.
    """
    settings = load_settings()
    target = locate_new_definition(settings, name)
    stated = Stated(
        where=where,
        event_time=event_time,
        record_id=record_id,
        window=None if window is None else _parse_window(window),
        window_start=window_start,
        types=dict(_parse_pairs("--type", types, "FIELD=TYPE, such as `fare=decimal(10,2)`")),
        keys=dict(_parse_pairs("--key", key)),
        measures=dict(_parse_pairs("--measure", measure)),
    )
    request = AdoptionRequest(
        name=name,
        checkpoint=storage.make_absolute(checkpoint, of="--checkpoint"),
        stream=storage.make_absolute(stream, of="--stream"),
        batch=None if batch is None else batch if _ADDRESS.match(batch) else storage.make_absolute(batch, of="--batch"),
        topic=topic,
        time_format=time_format,
        records=records,
        stated=stated,
    )
    with show_spinner(f"Reading {request.checkpoint}") as report:
        adoption = adopt(settings, request, make_choose(yes=yes), report)
    write_definition(target, render_adoption(adoption))
    return Output(
        document=_encode(adoption, str(target)),
        lines=_list_lines(adoption, str(target)),
        exit_code=1 if adoption.is_different else 0,
    )


def _is_exact(adoption: Adoption) -> bool:
    return adoption.verification is not None and adoption.verification.is_exact


def _parse_window(text: str) -> SlidingWindows:
    return Sliding(size=text, every=text)


def _parse_pairs(
    option: str, texts: Sequence[str] | None, form: str = "COLUMN=VALUE, such as `total=Sum(amount)`"
) -> Iterator[tuple[str, str]]:
    for text in texts or ():
        column, separator, value = text.partition("=")
        if not separator or not column.strip() or not value.strip():
            msg = f"{option}: expected {form}, got `{text[:80]}`."
            raise DefinitionError(msg)
        yield column.strip(), value.strip()


def make_choose(*, yes: bool) -> Choose:
    """Make the function that decides between several values: it asks on a terminal; `--yes` takes the first."""

    def choose(question: Question) -> str:
        listed = ", ".join(f"`{choice}`" for choice in question.choices)
        if len(question.choices) == 1 or yes:
            return question.choices[0]
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            msg = f"{question.part}: expected one value, several fit: {listed}; {question.reason}."
            hint = f"\nHint: state it by `{question.option}`, or take the first by `--yes`."
            raise DefinitionError(msg[0].upper() + msg[1:] + hint)
        typer.echo(f"{question.part[0].upper()}{question.part[1:]} cannot be known: {question.reason}.", err=True)
        for number, choice in enumerate(question.choices, start=1):
            typer.echo(f"  {number}  {choice}", err=True)
        number = 0
        while not 1 <= number <= len(question.choices):
            number = typer.prompt("Number", default=1, type=int, err=True)
        return question.choices[number - 1]

    return choose


def _list_lines(adoption: Adoption, file: str) -> Iterator[Line]:
    rows = (
        (part, value, ("GUESS: " if seen.is_guess else "") + seen.text)
        for part, value, seen in list_definition_parts(adoption)
    )
    yield make_table(("part", "value", "seen"), rows)
    yield from describe_test(adoption)
    name = adoption.draft.name
    yield f"Wrote {file}. Read its comments and correct the guesses; then `cutover lint {name}`."


def _encode(adoption: Adoption, file: str) -> dict[str, object]:
    verification = adoption.verification
    return {
        "pipeline": adoption.draft.name,
        "file": file,
        "level": "reproduced" if _is_exact(adoption) else "different" if adoption.obstacle is None else "not tested",
        "obstacle": adoption.obstacle,
        "cells": verification.cells if verification else 0,
        "equal_cells": verification.equal_cells if verification else 0,
        "hypotheses": adoption.tried,
        "left_out": [
            {
                "column": column,
                "nearest": unexplained.nearest.text,
                "cells": unexplained.check.cells,
                "equal_cells": unexplained.check.equal_cells,
            }
            for column, unexplained in adoption.unexplained.items()
        ],
        "batch": None if adoption.batch is None else adoption.batch.describe(),
        "different_cells": [
            {
                "window_start": cell.window_start,
                "key": cell.key,
                "column": cell.column,
                "table": cell.actual,
                "definition": cell.expected,
            }
            for cell in (verification.differences if verification else ())
        ],
        "parts": [
            {"part": part, "value": value, "seen": seen.text, "is_guess": seen.is_guess}
            for part, value, seen in list_definition_parts(adoption)
        ],
    }


COMMANDS = {"adopt": adopt_jobs}
