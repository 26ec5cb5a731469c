"""What a job reads: methods of sessions and readers, SQL, and settings of the session."""

import re
from collections.abc import Iterable
from dataclasses import replace

import sqlglot

from cutover.parity.jobs.sqltext import find_view, follow_statements
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import (
    Constant,
    Frame,
    JobValue,
    Reader,
    Session,
    UnknownValue,
    alternatives,
    choose,
    describe,
    get_taint,
    get_text,
    mark_parameters,
    walk,
)
from cutover.parity.jobs.walk import Walk
from cutover.parity.rules import Construct

STATEMENT = re.compile(
    r"\s*(select|with|from|insert|create|replace|merge|update|delete|truncate|set|use|drop|alter|refresh|optimize|vacuum"
    r"|analyze|describe|show|call|msck|cache|clear|explain)\b",
    re.IGNORECASE,
)


def note_setting(job: Walk, arguments: Arguments) -> None:
    """Note a setting of the session that rules ask for."""
    name = get_text(arguments.get(0, "key") or UnknownValue())
    settings = {name} if name else set(arguments.keywords)
    job.trace.zone = job.trace.zone or "spark.sql.session.timeZone" in settings
    root = "spark.sql.streaming.checkpointLocation"
    job.trace.checkpoint_root = job.trace.checkpoint_root or root in settings
    mode = "spark.sql.sources.partitionoverwritemode"
    job.trace.is_dynamic = job.trace.is_dynamic or mode in {setting.lower() for setting in settings}


def call_on_session(job: Walk, name: str, arguments: Arguments, line: int) -> JobValue:
    """Return what a method of the session yields."""
    argument = arguments.get(0, "sqlQuery", "tableName")
    if name == "sql" and argument is not None:
        return choose(follow_sql(job, alternative, line) for alternative in alternatives(argument))
    if name == "table" and argument is not None:
        return choose(read_table(job, alternative, line) for alternative in alternatives(argument))
    if name in {"createDataFrame", "range"}:
        rows = next((value for value in walk(arguments.values) if isinstance(value, Frame)), None)
        return rows or job.trace.keep(Frame(op="literal", line=line, what=name, is_stream=False))
    if name in {"set", "config"}:
        note_setting(job, arguments)
    if name in {"read", "readStream"}:
        return Reader(is_stream=name == "readStream", line=line)
    return Session() if name in {"newSession", "getOrCreate", "getActiveSession"} else UnknownValue(f"spark.{name}")


def note_taint(job: Walk, values: Iterable[JobValue], line: int) -> None:
    """Note rows or columns that are chosen by the clock or by chance of the driver."""
    marks = {mark for value in values for mark in get_taint(value)}
    if "clock" in marks:
        job.trace.found.add((line, Construct.CLOCK, "time of the driver"))
    if "random" in marks:
        job.trace.found.add((line, Construct.RANDOM, "random value of the driver"))


def follow_sql(job: Walk, text: JobValue, line: int) -> JobValue:
    """Return the DataFrame of a statement; parts of its text that are not known stand for names."""
    note_taint(job, (text,), line)
    message = mark_parameters(describe(text)) if not isinstance(text, Constant) else get_text(text)
    job.trace.steps += 1
    if not isinstance(text, Constant) and not STATEMENT.match(message or ""):
        message = None  # a text from elsewhere, not one with parts that are not known
    job.trace.check_sql(message, line, is_statement=True)
    try:
        frame = follow_statements(job.trace, message or "(", line)
    except (sqlglot.errors.SqlglotError, ValueError):
        job.trace.add_gap(line, "sql: a text that is put together at run time, or no SQL of Spark")
        return job.trace.keep(Frame(op="unknown", line=line, what="sql"))
    return frame or UnknownValue("sql")


def read_table(job: Walk, place: JobValue, line: int, reader: Reader | None = None) -> JobValue:
    """Return the DataFrame of a table, or of the view that has its name."""
    name = describe(place)
    view = find_view(job.trace, name.rpartition(".")[2] if name.startswith("global_temp.") else name)
    if view is not None:
        return view
    note_taint(job, (place,), line)
    reader = reader or Reader(is_stream=False, line=line)
    is_known = reader.is_complete and isinstance(place, Constant)
    source = replace(reader, format=reader.format or "table", is_complete=is_known)
    return job.trace.keep(Frame(op="source", line=line, what=name, is_stream=reader.is_stream, source=source))


def call_on_reader(job: Walk, reader: Reader, name: str, arguments: Arguments, line: int) -> JobValue:
    """Return what a method of a reader yields."""
    if name in {"option", "options"}:
        options, is_complete = merge_options(reader.options, arguments, single=name == "option")
        return replace(reader, options=options, is_complete=reader.is_complete and is_complete)
    argument = arguments.get(0, "source", "path", "tableName")
    if name == "format":
        return replace(reader, format=get_text(argument or UnknownValue()))
    if name == "schema":
        return reader
    if name == "table" and argument is not None:
        return choose(read_table(job, alternative, line, reader) for alternative in alternatives(argument))
    options, is_complete = merge_options(reader.options, replace(arguments, positional=()), single=False)
    if argument is not None and name != "load":
        options = {**options, "path": argument}
    elif argument is not None:
        options = {**options, "path": argument} if get_text(argument) is None or "path" not in options else options
    whole = arguments.get(-1, "format")
    form = reader.format if name == "load" else name
    reader = replace(
        reader,
        options=options,
        is_complete=reader.is_complete and is_complete,
        format=form if whole is None else get_text(whole),
    )
    note_taint(job, options.values(), line)
    subject = (
        describe(options["path"]).replace("{", "").replace("}", "") if "path" in options else reader.format or "source"
    )
    return job.trace.keep(Frame(op="source", line=line, what=subject, is_stream=reader.is_stream, source=reader))


def merge_options(known_options: object, arguments: Arguments, *, single: bool) -> tuple[dict[str, JobValue], bool]:
    """Return options with those of a call, and whether all of them are known."""
    options: dict[str, JobValue] = dict(known_options) if isinstance(known_options, dict) else {}
    if not single:
        options.update(arguments.keywords)
        return options, arguments.is_complete
    key, value = arguments.get(0, "key"), arguments.get(1, "value")
    name = get_text(key) if key is not None else None
    if name is None or value is None:
        return options, False
    options[name] = value
    return options, True
