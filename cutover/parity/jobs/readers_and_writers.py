"""Readers and writers of a job: methods of sessions, SQL and settings; a call that starts or saves records a query."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import sqlglot

from cutover.parity.jobs.sqltext import find_view, follow_statements
from cutover.parity.jobs.trace import Arguments, ForeachBatchSink, JobAnalysis, mark_parameters
from cutover.parity.jobs.values import (
    Constant,
    Frame,
    JobValue,
    OneOf,
    Reader,
    Session,
    UnknownValue,
    Writer,
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


FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "delta", "jdbc", "avro", "xml"})
START_METHODS = frozenset({"start", "toTable", "table"})
SAVE_METHODS = frozenset({"save", "saveAsTable", "insertInto"}) | FORMATS
V2_MODES: Mapping[str, str] = {
    "append": "append",
    "overwrite": "overwrite",
    "overwritePartitions": "overwrite",
    "create": "error",
    "replace": "overwrite",
    "createOrReplace": "overwrite",
}
"""Methods that end `df.writeTo(...)`, with the write mode of each."""

MODE_POSITIONS: Mapping[str, int] = {"mode": 0, "outputMode": 0, "format": 0, "insertInto": 1, "jdbc": 2}
"""Positions of the mode or format in methods that take one first, third, or not as a format does."""

BATCH_ID = "number of the micro-batch"
LAYOUT_METHODS = frozenset(
    {"partitionBy", "bucketBy", "sortBy", "clusterBy", "using", "tableProperty", "partitionedBy"}
)


def call_on_writer(job: JobAnalysis, writer: Writer, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    """Evaluate a method call on a writer."""
    choice = _find_choice(name, arguments)
    if choice is not None:
        return merge_alternatives(
            call_on_writer(job, writer, name, _replace_argument(arguments, choice, alternative), line)
            for alternative in list_alternatives(choice)
        )
    argument = arguments.get(0, "source", "saveMode", "outputMode", "func", "f")
    if name in {"option", "options"}:
        return _set_options(writer, arguments, is_single_option=name == "option")
    if name == "format":
        return replace(writer, format=_get_lower_text(argument))
    if name in {"mode", "outputMode"}:
        return replace(writer, mode=_get_lower_text(argument))
    if name == "queryName":
        return replace(writer, options={**writer.options, name: arguments.get(0, name) or UnknownValue()})
    if name == "trigger":
        return replace(writer, trigger=",".join(arguments.keywords))
    if name == "foreachBatch":
        return _follow_batch_function(job, writer, arguments.get(0, "func"), line)
    if name == "foreach":
        job.trace.add_gap(line, "foreach: the writes of its function")
        return replace(writer, kind="foreach")
    if name in V2_MODES and writer.kind == "writeTo":
        return _end_write(job, replace(writer, mode=V2_MODES[name]), name, arguments, line)
    if (writer.is_stream and name in START_METHODS) or (not writer.is_stream and name in SAVE_METHODS):
        return _end_write(job, _apply_end_options(writer, name, arguments), name, arguments, line)
    if name in LAYOUT_METHODS:
        return writer
    job.trace.add_gap(line, f"{name}: an unknown method of a writer")
    return writer


def _find_choice(name: str, arguments: Arguments) -> OneOf | None:
    """Find a mode or format of which one of several values is set."""
    position = MODE_POSITIONS.get(name, 1)
    is_setting = name in MODE_POSITIONS.keys() | FORMATS
    values = [*(arguments.positional[position : position + 1] if is_setting else ())]
    values += [value for key, value in arguments.keywords.items() if key in {"mode", "outputMode", "format"}]
    return next((value for value in values if isinstance(value, OneOf)), None)


def _replace_argument(arguments: Arguments, old: JobValue, new: JobValue) -> Arguments:
    positional = [new if value is old else value for value in arguments.positional]
    keywords = {key: new if value is old else value for key, value in arguments.keywords.items()}
    return replace(arguments, positional=positional, keywords=keywords)


def _get_lower_text(value: JobValue | None) -> str:
    """Return a constant word in lower case; `?` if unknown."""
    text = get_text(value) if value is not None else None
    return "?" if text is None else text.lower()


def _set_options(writer: Writer, arguments: Arguments, *, is_single_option: bool) -> Writer:
    if not is_single_option:
        given = {name: override(writer.options.get(name), value) for name, value in arguments.keywords.items()}
        options = {**writer.options, **given}
        return replace(writer, options=options, is_complete=writer.is_complete and arguments.is_complete)
    key, value = arguments.get(0, "key"), arguments.get(1, "value")
    name = get_text(key) if key is not None else None
    if name is None or value is None:
        return replace(writer, is_complete=False)
    return replace(writer, options={**writer.options, name: value})


def _apply_end_options(writer: Writer, name: str, arguments: Arguments) -> Writer:
    """Apply the settings in the call that ends a writer."""
    end_options = {key: value for key, value in arguments.keywords.items() if key not in {"path", "name", "tableName"}}
    writer = replace(writer, is_complete=writer.is_complete and arguments.is_complete)
    for word in ("mode", "outputMode"):
        if word in end_options:
            writer = replace(writer, mode=_get_lower_text(end_options.pop(word)))
    if "format" in end_options:
        writer = replace(writer, format=_get_lower_text(end_options.pop("format")))
    if name == "insertInto":
        overwrite = arguments.get(1, "overwrite")
        mode_text = writer.mode or "append" if overwrite is None else str(describe_value(overwrite)).lower()
        modes = {"true": "overwrite", "false": "append", "overwrite": "overwrite", "append": "append"}
        writer = replace(writer, mode=modes.get(mode_text, "?"))
    elif name in FORMATS:
        mode_position = 2 if name == "jdbc" else 1
        mode = arguments.get(mode_position)
        writer = replace(writer, format=name, mode=writer.mode if mode is None else _get_lower_text(mode))
    elif name == "save" and len(arguments.positional) > 1:
        words = [_get_lower_text(value) for value in arguments.positional[1:3]]
        writer = replace(writer, format=words[0], mode=words[1] if len(words) > 1 else writer.mode)
    elif name in {"toTable", "table"}:
        writer = replace(writer, format=writer.format or "table")
    return replace(writer, options={**writer.options, **end_options})


def _end_write(job: JobAnalysis, writer: Writer, name: str, arguments: Arguments, line: int) -> JobValue:
    """Record the query that a call starts or saves."""
    target, column = _find_target(writer, name, arguments), getattr(arguments.node, "col_offset", 0)
    job.trace.add_query(writer, line, target, column=column, is_partial=name == "overwritePartitions")
    return UnknownValue("query")


def _find_target(writer: Writer, name: str, arguments: Arguments) -> str:
    """Return the table, path or topic that a call writes to; empty if unknown."""
    if name == "jdbc":
        target = arguments.get(1, "table")
    elif writer.format in {"jdbc", "kafka"}:
        target = get_option(writer.options, "dbtable" if writer.format == "jdbc" else "topic")
    elif writer.kind == "writeTo":
        target = writer.options.get("path")
    else:
        target = arguments.get(0, "path", "name", "tableName") or get_option(writer.options, "path")
    return "" if target is None else describe_value(target)


def _follow_batch_function(job: JobAnalysis, writer: Writer, function: JobValue | None, line: int) -> Writer:
    """Interpret the function of foreachBatch with a micro-batch, and record its effects."""
    sink = ForeachBatchSink(loop_depth=len(job.loops))
    node = ast.Call(func=ast.Name(id="foreachBatch"), args=[], keywords=[], lineno=line)
    for alternative in list_alternatives(function if function is not None else UnknownValue()):
        batch = job.trace.add_frame(Frame(op="batch", line=line, subject="micro-batch", is_stream=False))
        values = (batch, UnknownValue(f"{{{BATCH_ID}}}"))
        sink.micro_batches.append(batch)
        job.trace.active_sinks.append(sink)
        if job.call_value(alternative, Arguments(node=node, positional=values, keywords={})) is None:
            job.trace.add_gap(line, f"foreachBatch({describe_value(alternative).strip('{}')}): the rows that it writes")
        job.trace.active_sinks.pop()
    return replace(writer, kind="foreachBatch", sink=sink)


def is_idempotent_append(writer: Writer) -> bool | None:
    """Return whether a repeated write appends its rows only once; None if unknown.

    Delta skips a version that an application has written already; other formats ignore both options.
    """
    app_id, version = (get_option(writer.options, name) for name in ("txnAppId", "txnVersion"))
    if app_id is None or version is None or writer.format not in {None, "delta", "?"}:
        return False
    if (get_taint(app_id) | get_taint(version)) & {"clock", "random"}:
        return False
    versions = list_alternatives(version)
    if all(BATCH_ID in describe_value(app_id) + describe_value(choice) for choice in versions):
        return None if writer.format == "?" else True
    return False if all(isinstance(choice, Constant) for choice in versions) else None


KEYED_STORES = frozenset({"cassandra", "hbase", "redis"})
"""Stores that keep one row per key in any write mode."""


def is_upsert(writer: Writer) -> bool:
    """Return whether a store replaces rows by key, so that a repeated append changes nothing."""
    names = set((writer.format or "").split("."))
    if names & {"hudi"}:
        operation = get_option(writer.options, "hoodie.datasource.write.operation")
        return operation is None or "insert" not in describe_value(operation)
    if names & {"es", "elasticsearch"}:
        return get_option(writer.options, "es.mapping.id") is not None
    if names & {"mongodb", "mongo"}:
        return get_option(writer.options, "idFieldList") is not None
    return bool(names & KEYED_STORES)


def get_mode(writer: Writer) -> str:
    """Return the effective mode: the one set, else the default."""
    if writer.is_stream:
        return writer.mode or "append"
    if writer.format == "kafka":
        return "append"  # its only mode
    return writer.mode or "error"


def get_option(options: Mapping[str, JobValue], name: str) -> JobValue | None:
    """Find an option; names are case-insensitive."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)
