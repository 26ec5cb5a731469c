"""Sources of a job: methods of sessions and readers, SQL, and settings of the session."""

import re
from collections.abc import Iterable
from dataclasses import replace

import sqlglot

from cutover.parity.jobs.sqltext import find_view, follow_statements
from cutover.parity.jobs.texts import mark_parameters
from cutover.parity.jobs.trace import Arguments, JobAnalysis
from cutover.parity.jobs.values import (
    Constant,
    Frame,
    JobValue,
    Reader,
    Session,
    UnknownValue,
    describe_value,
    get_taint,
    get_text,
    list_alternatives,
    merge_alternatives,
    override,
    walk_values,
)
from cutover.parity.rules import Construct

STATEMENT = re.compile(
    r"\s*(select|with|from|insert|create|replace|merge|update|delete|truncate|set|use|drop|alter|refresh|optimize|vacuum"
    r"|analyze|describe|show|call|msck|cache|clear|explain)\b",
    re.IGNORECASE,
)


def record_setting(job: JobAnalysis, arguments: Arguments) -> None:
    """Record a session setting that rules depend on."""
    name = get_text(arguments.get(0, "key") or UnknownValue())
    settings = {name} if name else set(arguments.keywords)
    job.trace.has_time_zone = job.trace.has_time_zone or "spark.sql.session.timeZone" in settings
    checkpoint_location = "spark.sql.streaming.checkpointLocation"
    job.trace.has_checkpoint_root = job.trace.has_checkpoint_root or checkpoint_location in settings
    overwrite_mode = "spark.sql.sources.partitionoverwritemode"
    job.trace.has_dynamic_overwrite = job.trace.has_dynamic_overwrite or overwrite_mode in {
        setting.lower() for setting in settings
    }


def call_on_session(job: JobAnalysis, name: str, arguments: Arguments, line: int) -> JobValue:
    """Evaluate a method call on the session."""
    argument = arguments.get(0, "sqlQuery", "tableName")
    if name == "sql" and argument is not None:
        return merge_alternatives(follow_sql(job, alternative, line) for alternative in list_alternatives(argument))
    if name == "table" and argument is not None:
        return merge_alternatives(read_table(job, alternative, line) for alternative in list_alternatives(argument))
    if name in {"createDataFrame", "range"}:
        rows = next((value for value in walk_values(arguments.values) if isinstance(value, Frame)), None)
        return rows or job.trace.add_frame(Frame(op="literal", line=line, subject=name, is_stream=False))
    if name in {"set", "config"}:
        record_setting(job, arguments)
    if name in {"read", "readStream"}:
        return Reader(is_stream=name == "readStream", line=line)
    return Session() if name in {"newSession", "getOrCreate", "getActiveSession"} else UnknownValue(f"spark.{name}")


def record_taint(job: JobAnalysis, values: Iterable[JobValue], line: int) -> None:
    """Record rows or columns that depend on the driver's clock or random values."""
    taint = {source for value in values for source in get_taint(value)}
    if "clock" in taint:
        job.trace.findings.add((line, Construct.CLOCK, "time of the driver"))
    if "random" in taint:
        job.trace.findings.add((line, Construct.RANDOM, "random value of the driver"))


def follow_sql(job: JobAnalysis, text: JobValue, line: int) -> JobValue:
    """Return the DataFrame of a statement; unknown parts of its text are treated as names."""
    record_taint(job, (text,), line)
    statement = mark_parameters(describe_value(text)) if not isinstance(text, Constant) else get_text(text)
    job.trace.operation_count += 1
    if not isinstance(text, Constant) and not STATEMENT.match(statement or ""):
        statement = None  # an unknown text, not a statement with unknown parts
    job.trace.check_sql(statement, line, is_statement=True)
    try:
        frame = follow_statements(job.trace, statement or "(", line)
    except (sqlglot.errors.SqlglotError, ValueError):
        job.trace.add_gap(line, "sql: a text that is built at run time, or not valid Spark SQL")
        return job.trace.add_frame(Frame(op="unknown", line=line, subject="sql"))
    return frame or UnknownValue("sql")


def read_table(job: JobAnalysis, table: JobValue, line: int, reader: Reader | None = None) -> JobValue:
    """Return the DataFrame of a table, or of the view of that name."""
    name = describe_value(table)
    view = find_view(job.trace, name.rpartition(".")[2] if name.startswith("global_temp.") else name)
    if view is not None:
        return view
    record_taint(job, (table,), line)
    reader = reader or Reader(is_stream=False, line=line)
    is_known = reader.is_complete and isinstance(table, Constant)
    source = replace(reader, format=reader.format or "table", is_complete=is_known)
    return job.trace.add_frame(Frame(op="source", line=line, subject=name, is_stream=reader.is_stream, source=source))


def call_on_reader(job: JobAnalysis, reader: Reader, name: str, arguments: Arguments, line: int) -> JobValue:
    """Evaluate a method call on a reader."""
    if name in {"option", "options"}:
        options, is_complete = merge_options(reader.options, arguments, is_single_option=name == "option")
        return replace(reader, options=options, is_complete=reader.is_complete and is_complete)
    argument = arguments.get(0, "source", "path", "tableName")
    if name == "format":
        return replace(reader, format=get_text(argument or UnknownValue()))
    if name == "schema":
        return reader
    if name == "table" and argument is not None:
        return merge_alternatives(
            read_table(job, alternative, line, reader) for alternative in list_alternatives(argument)
        )
    options, is_complete = merge_options(reader.options, replace(arguments, positional=()), is_single_option=False)
    if argument is not None and name != "load":
        options = {**options, "path": argument}
    elif argument is not None:
        options = {**options, "path": argument} if get_text(argument) is None or "path" not in options else options
    format_argument = arguments.get(-1, "format")
    default_format = reader.format if name == "load" else name
    reader = replace(
        reader,
        options=options,
        is_complete=reader.is_complete and is_complete,
        format=default_format if format_argument is None else get_text(format_argument),
    )
    record_taint(job, options.values(), line)
    subject = (
        describe_value(options["path"]).replace("{", "").replace("}", "")
        if "path" in options
        else reader.format or "source"
    )
    return job.trace.add_frame(
        Frame(op="source", line=line, subject=subject, is_stream=reader.is_stream, source=reader)
    )


def merge_options(
    known_options: object, arguments: Arguments, *, is_single_option: bool
) -> tuple[dict[str, JobValue], bool]:
    """Merge the options of a call into known options, and report whether all are known."""
    options: dict[str, JobValue] = dict(known_options) if isinstance(known_options, dict) else {}
    if not is_single_option:
        options |= {name: override(options.get(name), value) for name, value in arguments.keywords.items()}
        return options, arguments.is_complete
    key, value = arguments.get(0, "key"), arguments.get(1, "value")
    name = get_text(key) if key is not None else None
    if name is None or value is None:
        return options, False
    options[name] = override(options.get(name), value)
    return options, True
