"""Command `cutover adopt`: writes the definition of a team's own jobs, and tests it against log and tables.

The file that it writes and the table that it prints say of each part where it was seen.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer

from cutover.adoption.adopt import Adoption, AdoptionRequest, adopt
from cutover.adoption.draft import Choose, JobDraft, Question, Seen, Stated
from cutover.adoption.hypotheses import CellDifference
from cutover.adoption.search import UnexplainedColumn
from cutover.cli.init import locate_new_definition, write_definition
from cutover.counts import count_noun
from cutover.definition.windows.kinds import Sessions, Sliding, SlidingWindows
from cutover.engine import storage
from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.output.console import Line, Output, make_table, show_spinner
from cutover.settings import load_settings
from cutover.timestamps import MICROSECONDS, format_duration, format_micros

_UNITS = ("day", "hour", "minute", "second")
_LINE = 118
_LATEST = Seen(text="the table has several rows of a window and key, ordered by this column", is_guess=True)


def format_window(window: SlidingWindows | Sessions) -> str:
    """Format a window as a definition has it."""
    if isinstance(window, Sessions):
        return f'Sessions(gap="{window.gap}")'
    offset = f', offset="{format_duration(window.offset)}"' if window.offset else ""
    if window.every != window.size:
        return f'Sliding(size="{format_duration(window.size)}", every="{format_duration(window.every)}"{offset})'
    rest, parts = window.size, []
    for unit in _UNITS:
        count, rest = divmod(rest, MICROSECONDS[unit])
        parts += [f"{unit}s={count}"] if count else []
    return f"Fixed({', '.join(parts)}{offset})"


def list_definition_parts(adoption: Adoption) -> Iterator[tuple[str, str, Seen]]:
    """Yield the parts of a definition: name, value, where it was seen."""
    draft, seen = adoption.draft, adoption.draft.seen
    yield "topic", draft.topic, seen["topic"]
    yield (
        "schema",
        count_noun(len(draft.types), "field"),
        Seen(text="; ".join([f"sample of {count_noun(adoption.sampled, 'record')}", *_list_notes(draft)])),
    )
    yield "event_time", draft.event_time, seen["event_time"]
    yield "time_format", draft.time_format, seen["time_format"]
    yield "parse", draft.parse, seen["parse"]
    if draft.record_id is not None:
        yield "record_id", draft.record_id, seen["record_id"]
    yield "where", draft.where or "none", seen["where"]
    yield "key", ", ".join(part.expression or part.field for part in draft.key), seen["key"]
    yield "window", format_window(draft.window), seen["window"]
    for column, choice in draft.measures.items():
        yield draft.name_measure(column), choice.text, seen[f"measures.{column}"]
    for column, reason in draft.omitted.items():
        yield column, "left out", Seen(text=reason)
    yield "output_mode", draft.output_mode, seen["output_mode"]
    if draft.latest_by is not None:
        yield "latest_by", draft.latest_by, _LATEST
    if draft.single_watermark:
        yield "single_watermark", "True", seen["single_watermark"]
    if "watermark" in seen:
        yield "watermark", "read per batch", seen["watermark"]


def _list_notes(draft: JobDraft) -> Iterator[str]:
    """Yield for each text that is read as a number how many of its values are none, and which types are stated."""
    cast = {name for choice in draft.measures.values() if choice.cast is not None for name in choice.types}
    for name, others in draft.text_numbers.items():
        if others and (draft.types[name] != "string" or name in cast):
            verb = "value is no number, and counts" if others == 1 else "values are no numbers, and count"
            yield f"{name}: {others:,} sampled {verb} as null"
    yield from (f"{name}: --type" for name in draft.stated_types)


def describe_test(adoption: Adoption) -> list[str]:
    """Describe what was tested, and which cells speak against the definition."""
    batch = [adoption.batch.describe()] if adoption.batch else []
    verification = adoption.verification
    if verification is None or adoption.obstacle is not None:
        return [f"Not tested against the log: {adoption.obstacle}.", *batch]
    cells = f"{verification.equal_cells:,} of {count_noun(verification.cells, 'cell')}"
    basis = f"{count_noun(verification.records, 'record')} of {count_noun(verification.batches, 'batch')}"
    basis = f"the newest {basis} (older ones were not read)" if verification.is_partial else basis
    tried = f"{adoption.tried:,} {'hypothesis' if adoption.tried == 1 else 'hypotheses'} tried"
    windows = count_noun(verification.windows, "window")
    first = "Reproduces all" if verification.is_exact else "Reproduces only"
    left_out = "" if adoption.draft.row_per_record else _count_left_out(len(adoption.draft.omitted))
    lines = [f"{first} {cells} of the table in {windows}, computed from {basis}; {tried}{left_out}."]
    lines += [_describe_difference(cell) for cell in verification.differences]
    for column, unexplained in adoption.unexplained.items():
        lines += _describe_unexplained(column, unexplained)
    lines += batch
    differences = adoption.batch.check.differences if adoption.batch and adoption.batch.check else ()
    return [*lines, *map(_describe_difference, differences)]


def _count_left_out(columns: int) -> str:
    return f"; {count_noun(columns, 'column')} left out" if columns else ""


def _describe_unexplained(column: str, unexplained: UnexplainedColumn) -> Iterator[str]:
    """Describe the hypothesis that is closest to a column, and two cells that speak against it."""
    check = unexplained.check
    cells = f"{check.equal_cells:,} of {count_noun(check.cells, 'cell')}"
    yield (
        f"Column `{visible(column)}` is left out: nothing that was tried reproduces it; nearest is "
        f"{unexplained.nearest.text}, in {cells}. Against it speak:"
    )
    yield from map(_describe_difference, check.differences[:2])


def _describe_difference(cell: CellDifference) -> str:
    key = ", ".join(visible(str(value)) for value in cell.key)
    values = f"the table has {visible(str(cell.actual))}, the definition {visible(str(cell.expected))}"
    return f"  {format_micros(cell.window_start)} {key}, {cell.column}: {values}"


def render_adoption(adoption: Adoption) -> str:
    """Render the file of a definition."""
    draft, seen = adoption.draft, adoption.draft.seen
    names = {"Delta", "Pipeline", "Policy", "SparkStream", "Topic"}
    names |= {choice.kind for choice in draft.measures.values()} | {format_window(draft.window).partition("(")[0]}
    names |= {"JsonField"} if draft.paths else set()
    names |= {"BatchJob", type(adoption.batch.job.table).__name__} if adoption.batch else set()
    lines = [
        f'"""{draft.name}: what a streaming job of ours computes, in one sentence.',
        "",
        "Written by `cutover adopt`. The comment behind a value says where it was seen; GUESS marks what was not.",
        *(_escape_docstring(line) for line in describe_test(adoption)),
        '"""',
        "",
        f"from cutover.definition import {', '.join(sorted(names))}",
        "",
        "pipeline = Pipeline(",
        f"    name={json.dumps(draft.name)},",
        *_render_topic(draft, adoption.sampled),
        *_comment("    where=" + (json.dumps(draft.where) if draft.where else "None") + ",", seen["where"]),
        *_comment(f"    key=({', '.join(json.dumps(part.field) for part in draft.key)},),", seen["key"]),
        *_comment(f"    window={format_window(draft.window)},", seen["window"]),
        *([f"    derive={json.dumps(dict(draft.derive))},"] if draft.derive else []),
        *([f"    # Aggregates of the query: {_escape(seen['measures'].text)}."] if "measures" in seen else []),
        "    measures={",
        *_render_measures(draft),
        "    },",
        *_render_stream(draft),
        *([f"    batch={adoption.batch.render()},"] if adoption.batch else []),
        "    # How much difference between the job and batch is acceptable.",
        "    policy=Policy(max_late_share=1e-2),",
        ")",
    ]
    return "\n".join(lines) + "\n"


def _render_topic(draft: JobDraft, sampled: int) -> Iterator[str]:
    seen = draft.seen
    yield "    source=Topic("
    yield from _comment(f"        name={json.dumps(draft.topic)},", seen["topic"])
    basis = f"sample of {count_noun(sampled, 'record')}"
    yield f"        # Fields: {basis}; types of the key: state metadata; of numbers: columns of the table."
    yield from (f"        # {_escape(note)}." for note in _list_notes(draft))
    yield '        schema="""'
    fields = [
        f"            {name} {kind}{' NOT NULL' if name == draft.record_id else ''}"
        for name, kind in draft.types.items()
    ]
    yield ",\n".join(fields)
    yield '        """,'
    yield from _comment(f"        event_time={json.dumps(draft.event_time)},", seen["event_time"])
    yield from _comment(f"        time_format={json.dumps(draft.time_format)},", seen["time_format"])
    yield from _comment(f'        parse="{draft.parse}",', seen["parse"])
    if draft.paths:
        yield "        # Fields of the JSON that have another place or name than the column: sample of the records."
        yield "        fields={"
        yield from (
            f"            {json.dumps(name)}: JsonField(path={json.dumps(path)})," for name, path in draft.paths.items()
        )
        yield "        },"
    if draft.reads_uncommitted:
        seen_gaps = Seen(text="Spark's default; offsets without records hint at transactions", is_guess=True)
        yield from _comment('        isolation="read_uncommitted",', seen_gaps)
    if draft.record_id is not None:
        yield from _comment(f"        record_id={json.dumps(draft.record_id)},", seen["record_id"])
    yield "    ),"


def _render_measures(draft: JobDraft) -> Iterator[str]:
    for column, choice in draft.measures.items():
        text = f"        {json.dumps(draft.name_measure(column))}: {choice.text},"
        yield from _comment(text, draft.seen[f"measures.{column}"])
    for column, reason in draft.omitted.items():
        yield f"        # Left out: column `{_escape(column)}` ({_escape(reason)})."


def _render_stream(draft: JobDraft) -> Iterator[str]:
    yield "    stream=SparkStream("
    yield f"        table=Delta({json.dumps(draft.table)}),"
    yield f"        checkpoint={json.dumps(draft.checkpoint)},"
    yield from _comment(f"        output_mode={json.dumps(draft.output_mode)},", draft.seen["output_mode"])
    if draft.row_per_record:
        yield from _comment("        row_per_record=True,", Seen(text="state metadata: no grouping"))
    if draft.single_watermark:
        yield from _comment("        single_watermark=True,", draft.seen["single_watermark"])
    if draft.latest_by is not None:
        yield from _comment(f"        latest_by={json.dumps(draft.latest_by)},", _LATEST)
    columns: Mapping[str, str] = dict(draft.list_columns())
    if columns:
        yield from _comment(f"        columns={json.dumps(columns)},", draft.seen["start"])
    if "watermark" in draft.seen:
        delay = _escape(draft.seen["watermark"].text)
        yield f"        # The watermark of each batch is read from the checkpoint; {delay}."
    yield "    ),"


def _comment(line: str, seen: Seen) -> Sequence[str]:
    """Return a line with where its value was seen behind it, or before it if it would be too long."""
    text = f"# {'GUESS: ' if seen.is_guess else ''}{_escape(seen.text)}"
    if len(line) + len(text) + 2 <= _LINE:
        return [f"{line}  {text}"]
    return [f"{line[: len(line) - len(line.lstrip())]}{text}", line]


def _escape(text: str) -> str:
    return visible(text)


def _escape_docstring(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


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
