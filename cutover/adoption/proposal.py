"""Proposal of a draft: event time, window and key by what checkpoint, table and a sample of the records show."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutover.adoption.draft import Choose, JobDraft, KeyPart, MeasureChoice, Question, Seen, Stated
from cutover.adoption.evidence import SCHEMA_TYPES, QueryShape, StreamTable, find_period
from cutover.adoption.sample import RecordSample
from cutover.counts import count_noun
from cutover.definition.model.pipeline import OutputMode
from cutover.definition.model.topic import IDENTIFIER
from cutover.definition.windows.kinds import Sessions, SlidingWindows
from cutover.errors import DefinitionError
from cutover.records.proposal.names import is_id_name
from cutover.timestamps import MICROSECONDS, format_duration

_DAY = MICROSECONDS["day"]
_END_NAME = re.compile(r"end|until|_to$|^to$|stop")
_START_NAME = re.compile(r"start|begin|from|window|hour|day|minute|(?<!up)date|bucket|slot")


def propose(
    draft: JobDraft, shape: QueryShape, table: StreamTable, sample: RecordSample, *, stated: Stated, choose: Choose
) -> JobDraft:
    """Add to a draft what can be seen: all but the measures and the filter, which the log has to decide.

    Args:
        draft: Made by `begin_draft`.
        shape: Of the query.
        table: That the query writes.
        sample: Of the records of its topic.
        stated: What the caller knows.
        choose: Asks which of several values is meant.

    Raises:
        DefinitionError: The window, the key or the id cannot be found.
    """
    fields = {column.name: column for column in sample.guess.columns}
    draft = _add_output_mode(draft, table, has_sessions=shape.has_sessions)
    if shape.is_grouped:
        draft = _add_windows(draft, shape, table, sample, stated=stated, choose=choose)
    else:
        draft = _add_records(draft, shape, table, sample, stated=stated, choose=choose)
    id_name = shape.deduplicated_by
    if id_name is None:
        return draft
    record_id = _find_field(stated.record_id or id_name, fields)
    if record_id is None:
        msg = f"--checkpoint: the query deduplicates by `{id_name}`, expected a field of that name, "
        hint = "\nHint: `--record-id FIELD` names the one from which the query computes it."
        raise DefinitionError(msg + f"the records have {', '.join(fields)}." + hint)
    seen = Seen(text=f"state of the deduplication: `{id_name}`")
    return replace(draft, record_id=record_id, seen={**draft.seen, "record_id": seen})


def begin_draft(name: str, checkpoint: str, shape: QueryShape, sample: RecordSample, stated: Stated) -> JobDraft:
    """Draft the topic of a definition.

    Raises:
        DefinitionError: No field of the records is a time.
    """
    times = list_event_times(shape, sample, stated)
    if not times:
        raise sample.reject_times(shape.topic, stated.event_time or shape.deduplicated_time)
    basis = f"sample of {count_noun(sample.records, 'record')}"
    parse = Seen(text="Spark's from_json with its default options, as most jobs read JSON", is_guess=True)
    if sample.parse == "avro":
        parse = Seen(text=f"{basis}: values in Avro, in the wire format of a schema registry")
    topic = Seen(text="offsets of the checkpoint")
    columns = sample.guess.columns
    names = {column.name for column in columns}
    return JobDraft(
        name=name,
        topic=shape.topic,
        checkpoint=checkpoint,
        table="",
        types={column.name: column.type for column in columns},
        stated_types={column.name: column.type for column in columns if column.name in stated.types},
        text_numbers={name: count for name, count in sample.text_numbers.items() if name in names},
        parse=sample.parse,
        paths={field: path for field, path in sample.paths.items() if field in names},
        event_time=times[0],
        time_format=sample.guess.time_format,
        window=SlidingWindows(size=_DAY, every=_DAY),
        start_column="",
        key=(),
        value_columns={},
        row_per_record=not shape.is_grouped,
        has_counts=any("Count" in aggregate.measures for aggregate in shape.aggregates),
        drops_late=shape.drops_late,
        reads_uncommitted=sample.offsets > sample.records,
        where=stated.where,
        seen={
            "topic": topic,
            "event_time": _describe_event_time(times, shape, sample, stated),
            "time_format": Seen(text=basis),
            "parse": parse,
        },
    )


def _describe_event_time(times: Sequence[str], shape: QueryShape, sample: RecordSample, stated: Stated) -> Seen:
    """Describe why the first of some times is the event time, and how many of its values are none."""
    text = f"sample of {count_noun(sample.records, 'record')}: "
    text += "its only time" if len(times) == 1 else f"of the times {', '.join(times)}"
    if stated.event_time is not None:
        text = "--event-time"
    elif shape.deduplicated_time is not None:
        text = f"state of the deduplication: `{shape.deduplicated_time}`"
    nulls = f"; {sample.text_times[times[0]].describe_nulls()}" if times[0] in sample.text_times else ""
    return Seen(text=f"{text}{nulls}")


def list_event_times(shape: QueryShape, sample: RecordSample, stated: Stated) -> list[str]:
    """List the fields that may be the event time, the most likely one first."""
    times = {column.name: column for column in sample.guess.columns if column.type == "timestamp"}
    known = stated.event_time or shape.deduplicated_time
    if known is not None:
        name = _find_field(known, times)
        if name is not None or stated.event_time is not None:
            return [] if name is None else [name]
    return sorted(times, key=lambda name: name != sample.guess.event_time)


def _find_field(name: str, fields: Mapping[str, object]) -> str | None:
    """Find a field by its name, in any case."""
    return next((known for known in fields if known.lower() == name.lower()), None)


def _add_output_mode(draft: JobDraft, table: StreamTable, *, has_sessions: bool) -> JobDraft:
    draft = replace(draft, table=table.place)
    if table.output_mode is not None:
        seen = Seen(text=f"commit of version {table.version}: outputMode")
        return replace(draft, output_mode=table.output_mode, seen={**draft.seen, "output_mode": seen})
    # Spark has no update mode for sessions: a MERGE is that of a query in append mode.
    is_append = (draft.row_per_record and table.operation == "WRITE") or has_sessions
    seen = Seen(text=f"{table.operation} in version {table.version} of the table", is_guess=True)
    mode: OutputMode = "append" if is_append else "update"
    return replace(draft, output_mode=mode, seen={**draft.seen, "output_mode": seen})


def _add_windows(
    draft: JobDraft, shape: QueryShape, table: StreamTable, sample: RecordSample, *, stated: Stated, choose: Choose
) -> JobDraft:
    """Add window, key and types of a table with a row per window and key."""
    keys = _find_keys(shape, table, sample, stated=stated, choose=choose)
    used = {part.column for part in keys}
    start, end, seen_start = _find_start(table, used, shape, stated=stated, choose=choose)
    window, seen_window = _find_window_of(shape, table, start, end, stated)
    types = dict(draft.types)
    in_key = {word for part in keys for word in re.findall(r"\w+", part.expression or part.field)}
    types |= {name: "string" for name, others in draft.text_numbers.items() if others and name in in_key}
    for part, state in zip(keys, shape.keys, strict=True):
        if part.expression is None:
            types[part.field] = SCHEMA_TYPES.get(state.type, state.type)
    seen = {
        **draft.seen,
        "window": seen_window,
        "start": seen_start,
        "key": Seen(text=f"state metadata: {shape.describe_operators()}"),
        "measures": Seen(text=", ".join(aggregate.describe() for aggregate in shape.aggregates)),
    }
    if shape.delay is not None:
        seen["watermark"] = Seen(text=f"its delay is {format_duration(shape.delay)}, by the state metadata")
    return replace(
        draft,
        window=window,
        start_column=start,
        end_column=end if shape.has_sessions else None,
        key=keys,
        value_columns={name: kind for name, kind in table.columns.items() if name not in {*used, start, end}},
        types=types,
        text_numbers={name: others for name, others in draft.text_numbers.items() if name not in in_key},
        seen=seen,
    )


def _find_keys(
    shape: QueryShape, table: StreamTable, sample: RecordSample, *, stated: Stated, choose: Choose
) -> tuple[KeyPart, ...]:
    """Find the columns of the key in the table and in the records."""
    fields = {column.name: column for column in sample.guess.columns}
    unknown = [column for column in stated.keys if column not in table.columns]
    if unknown:
        msg = f"--key {unknown[0]}: expected a column of the table `{table.place}`, it has {', '.join(table.columns)}."
        raise DefinitionError(msg)
    parts = list[KeyPart]()
    for state in shape.keys:
        named = _find_field(state.name, table.columns)
        if named is None and len(shape.keys) == len(stated.keys):
            named = next((column for column in stated.keys if column not in {part.column for part in parts}), None)
        column = named or _find_key_column(state.name, shape, table, sample, choose)
        expression = stated.keys.get(column)
        if expression is not None:
            parts.append(_make_key_part(column, expression, fields))
            continue
        name = _find_field(state.name, fields)
        if name is None:
            name = _find_key_field(state.name, column, table, sample, choose)
        parts.append(KeyPart(field=name, column=column))
    return tuple(parts)


def _make_key_part(column: str, expression: str, fields: Mapping[str, object]) -> KeyPart:
    if expression in fields:
        return KeyPart(field=expression, column=column)
    name = re.sub(r"[^A-Za-z0-9_]+", "_", column)
    is_usable = IDENTIFIER.match(name) and _find_field(name, fields) is None
    return KeyPart(field=name if is_usable else f"key_{name}", column=column, expression=expression)


def _find_key_column(name: str, shape: QueryShape, table: StreamTable, sample: RecordSample, choose: Choose) -> str:
    """Find the column of the table with a key of the state, if none has its name."""
    known = {column for state in shape.keys if (column := _find_field(state.name, table.columns))}
    others = [column for column in table.columns if column not in known and not _is_time(table.columns[column])]
    values = sample.values.get(name)
    if values:
        shared = {column: len(table.list_values(column) & values) for column in others}
        others = [column for column in others if shared[column] and shared[column] == max(shared.values())]
    others.sort(key=lambda column: table.columns[column] != "VARCHAR")
    if not others:
        msg = f"Table `{table.place}`: expected a column with values of the key `{name}`, it has "
        hint = "\nHint: `--key COLUMN=EXPRESSION` states how the query computes it."
        msg += f"{', '.join(table.columns)}.{hint}"
        raise DefinitionError(msg)
    reason = f"the query groups by `{name}`, and no column of the table has this name"
    question = Question(
        option="--key COLUMN=FIELD", part=f"the column with the key `{name}`", choices=tuple(others), reason=reason
    )
    return choose(question)


def _find_key_field(name: str, column: str, table: StreamTable, sample: RecordSample, choose: Choose) -> str:
    """Find the field whose values cover those of a column of the key."""
    values = table.list_values(column)
    covering = [field for field, known in sample.values.items() if values and values <= known]
    if not covering:
        msg = f"Key `{name}` (column `{column}`): expected a field of the records with its values, the records have "
        hint = f"\nHint: `--key {column}=EXPRESSION` states how the query computes it, such as `trim(merchant)`."
        raise DefinitionError(msg + f"{', '.join(sample.values)}.{hint}")
    reason = f"several fields have all values of the column `{column}`"
    return choose(
        Question(
            option=f"--key {column}=FIELD",
            part=f"the field of the key `{name}`",
            choices=tuple(covering),
            reason=reason,
        )
    )


def _is_time(kind: str) -> bool:
    return kind.startswith("TIMESTAMP") or kind == "DATE"


def _find_window_of(
    shape: QueryShape, table: StreamTable, start: str, end: str | None, stated: Stated
) -> tuple[SlidingWindows | Sessions, Seen]:
    if shape.has_sessions:
        return _find_sessions(table, start, end, stated)
    if shape.day is not None:
        return SlidingWindows(size=_DAY, every=_DAY), Seen(text=f"state metadata: `{shape.day.name}`", is_guess=True)
    return _find_window(table, start, end, stated)


def _find_sessions(table: StreamTable, start: str, end: str | None, stated: Stated) -> tuple[Sessions, Seen]:
    """Find the gap of sessions: the size of the shortest one; the log shows whether it is a gap longer."""
    if end is None:
        msg = f"Table `{table.place}`: expected columns with the start and the end of a session, it has "
        msg += f"{', '.join(table.columns)}.\nHint: the end shows the gap, and it is compared."
        raise DefinitionError(msg)
    if stated.window is not None:
        return Sessions(gap=format_duration(stated.window.size)), Seen(text="--window")
    sizes = table.list_sizes(start, end)
    if not sizes:
        raise _reject_empty(table, start)
    text = f"table columns `{start}`, `{end}`: each session ends a gap after a record of the log"
    return Sessions(gap=format_duration(min(sizes))), Seen(text=text)


def _reject_empty(table: StreamTable, start: str) -> DefinitionError:
    msg = f"Table `{table.place}`: expected rows with windows, column `{start}` has none."
    return DefinitionError(msg + "\nHint: adopt the job once it has written some.")


def _find_start(
    table: StreamTable, used: set[str], shape: QueryShape, *, stated: Stated, choose: Choose
) -> tuple[str, str | None, Seen]:
    """Find the columns in which a window starts and ends."""
    times = [name for name, kind in table.columns.items() if _is_time(kind) and name not in used]
    if stated.window_start is not None and stated.window_start not in times:
        msg = (
            f"--window-start: expected a column with times of the table `{table.place}`, got `{stated.window_start}`; "
        )
        raise DefinitionError(msg + f"it has {', '.join(times) or 'none'}.")
    for struct in ("window", "session_window"):
        if f"{struct}.start" in times and stated.window_start is None:
            end = f"{struct}.end" if f"{struct}.end" in times else None
            return f"{struct}.start", end, Seen(text=f"table column `{struct}`")
    if not times:
        msg = f"Table `{table.place}`: expected a column with the start of a window, it has {', '.join(table.columns)}."
        raise DefinitionError(msg)
    ends = [name for name in times if _END_NAME.search(name.lower())]
    starts = [name for name in times if name not in ends] or times
    if not shape.has_sessions:  # times of the job's runs have fractions
        starts = [name for name in starts if table.has_whole_seconds(name)] or starts
    named = [name for name in starts if _START_NAME.search(name.lower())] or starts
    named = [name for name in starts if shape.day is not None and name.lower() == shape.day.name.lower()] or named
    start = stated.window_start or (
        named[0]
        if len(named) == 1
        else choose(
            Question(
                option="--window-start COLUMN",
                part="the column with the start of a window",
                choices=tuple(named),
                reason=f"the table has several times: {', '.join(named)}",
            )
        )
    )
    text = f"table column `{start}`" + (f", of the times {', '.join(times)}" if len(times) > 1 else ", its only time")
    return start, ends[0] if len(ends) == 1 and ends[0] != start else None, Seen(text=text, is_guess=len(named) > 1)


def _find_window(table: StreamTable, start: str, end: str | None, stated: Stated) -> tuple[SlidingWindows, Seen]:
    """Find size, period and offset of the windows from the starts and ends that the table has."""
    starts = table.list_starts(start)
    if not starts:
        raise _reject_empty(table, start)
    sizes = [] if end is None else table.list_sizes(start, end)
    period = find_period(starts)
    if stated.window is not None:
        if starts[0] % stated.window.every != stated.window.offset:
            offset = format_duration(starts[0] % stated.window.every)
            window = replace(stated.window, offset=starts[0] % stated.window.every)
            return window, Seen(text=f"--window; offset {offset}: table column `{start}`")
        return stated.window, Seen(text="--window")
    if len(sizes) > 1:
        listed = " and ".join(format_duration(size) for size in sizes[:2])
        msg = f"Table `{table.place}`: expected windows of one size, `{start}` to `{end}` has sizes such as {listed}."
        raise DefinitionError(
            msg + "\nHint: sessions, calendar months and days with a change of the clock cannot be followed."
        )
    size = sizes[0] if sizes else period
    if size is None or size <= 0:
        msg = f"Table `{table.place}`: expected windows whose distance shows their length, column `{start}` has one."
        raise DefinitionError(msg + '\nHint: state it: `--window "1 hour"`, or adopt the job once it has written more.')
    every = min(size, period or size)
    if sizes and size % every and every < size:
        every = period or size
    text = f"table column `{start}`: {count_noun(len(starts), 'start')}" + (f", `{end}`" if sizes else "")
    return SlidingWindows(size=size, every=every, offset=starts[0] % every), Seen(text=text, is_guess=not sizes)


def _add_records(
    draft: JobDraft, shape: QueryShape, table: StreamTable, sample: RecordSample, *, stated: Stated, choose: Choose
) -> JobDraft:
    """Add key, measures and types of a table with a row per record."""
    fields = {column.name: column for column in sample.guess.columns}
    shared = {column: name for column in table.columns if (name := _find_field(column, fields)) is not None}
    event_column = _find_event_column(draft, table, shared, choose)
    id_column = _find_id_column(shape, sample, shared, stated=stated, choose=choose)
    types = dict(draft.types)
    for column, name in shared.items():
        types[name] = _to_schema_type(table.columns[column]) or types[name]
    rows = "rows" if "rows" not in table.columns else "row_count"
    measures = {rows: MeasureChoice("Count")} | {
        column: MeasureChoice("Max", name)
        for column, name in shared.items()
        if column not in {event_column, id_column} and name != draft.event_time
    }
    omitted = {
        column: "no field of the records has its name: name an expression in `derive` to compare it"
        for column in table.columns
        if column not in {*shared, event_column}
    }
    key = Seen(text=f"table column `{id_column}`", is_guess=True)
    if shape.deduplicated_by is not None:
        key = Seen(text="state of the deduplication")
    seen = {
        **draft.seen,
        "window": Seen(text="a day of the event time: the rows of a day are compared once it is over", is_guess=True),
        "start": Seen(text=f"table column `{event_column}`"),
        "key": key,
        **{f"measures.{column}": Seen(text=f"table column `{column}`") for column in measures},
        f"measures.{rows}": Seen(text="rows of the table with this id"),
    }
    return replace(
        draft,
        start_column=event_column,
        key=(KeyPart(field=shared[id_column], column=id_column),),
        measures=measures,
        value_columns={column: table.columns[column] for column in measures if column != rows},
        types=types,
        seen=seen,
        omitted=omitted,
        window=stated.window or draft.window,
    )


def _find_event_column(draft: JobDraft, table: StreamTable, shared: Mapping[str, str], choose: Choose) -> str:
    named = next((column for column, name in shared.items() if name == draft.event_time), None)
    times = [column for column, kind in table.columns.items() if kind.startswith("TIMESTAMP")]
    if named is None and not times:
        msg = f"Table `{table.place}`: expected a column with the event time `{draft.event_time}`, it has "
        raise DefinitionError(msg + f"{', '.join(table.columns)}.")
    if named is not None or len(times) == 1:
        return named or times[0]
    reason = f"no column has the name of the event time `{draft.event_time}`"
    return choose(
        Question(
            option="--window-start COLUMN", part="the column with the event time", choices=tuple(times), reason=reason
        )
    )


def _find_id_column(
    shape: QueryShape, sample: RecordSample, shared: Mapping[str, str], *, stated: Stated, choose: Choose
) -> str:
    """Find the column by which records are told apart: that of the deduplication, else the one with most values."""
    wanted: Sequence[str]
    known = stated.record_id or shape.deduplicated_by
    if known is not None:
        wanted = [column for column, name in shared.items() if known.lower() in {column.lower(), name.lower()}]
    else:
        counts = {column: len(sample.values.get(name, ())) for column, name in shared.items()}
        most = max(counts.values(), default=0)
        wanted = [column for column, count in counts.items() if count == most and count > 1]
        wanted = [column for column in wanted if is_id_name(column)] or wanted
    if not wanted:
        msg = "--stream: expected a column with the id of a record"
        found = f", of the columns that the records have, too: {', '.join(shared) or 'none'}."
        raise DefinitionError(msg + found + "\nHint: `--record-id FIELD` names it.")
    if len(wanted) == 1:
        return wanted[0]
    reason = f"several columns have as many values: {', '.join(wanted)}"
    return choose(Question(option="--record-id FIELD", part="the id of a record", choices=tuple(wanted), reason=reason))


def _to_schema_type(kind: str) -> str | None:
    """Convert a type of DuckDB to one of our schemas; None: they have none for it."""
    simple = {"BIGINT": "bigint", "INTEGER": "int", "DOUBLE": "double", "VARCHAR": "string", "BOOLEAN": "boolean"}
    return kind.lower() if kind.startswith("DECIMAL(") else simple.get(kind)
