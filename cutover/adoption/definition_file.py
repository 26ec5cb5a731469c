"""Text of the file that `cutover adopt` writes, and the table that it prints: each part with where it was seen."""

import json
from collections.abc import Iterator, Mapping, Sequence

from cutover.adoption.adopt import Adoption
from cutover.adoption.draft import JobDraft, Seen
from cutover.adoption.hypotheses import CellDifference
from cutover.adoption.search import UnexplainedColumn
from cutover.counts import count_noun
from cutover.definition.windows.kinds import Sessions, SlidingWindows
from cutover.durations import MICROSECONDS, format_duration
from cutover.output.cells import visible
from cutover.timestamps import format_micros

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
