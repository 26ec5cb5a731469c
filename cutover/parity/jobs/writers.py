"""Methods of writers, of streams and of batches; each one that starts or saves makes a query."""

import ast
from collections.abc import Mapping
from dataclasses import replace

from cutover.parity.jobs.trace import Arguments, Sink
from cutover.parity.jobs.values import (
    Frame,
    JobValue,
    UnknownValue,
    Writer,
    alternatives,
    describe,
    get_text,
)
from cutover.parity.jobs.walk import Walk

FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "delta", "jdbc", "avro", "xml"})
STARTS = frozenset({"start", "toTable", "table"})
SAVES = frozenset({"save", "saveAsTable", "insertInto"}) | FORMATS
V2_MODES: Mapping[str, str] = {
    "append": "append",
    "overwrite": "overwrite",
    "overwritePartitions": "overwrite",
    "create": "error",
    "replace": "overwrite",
    "createOrReplace": "overwrite",
}
"""Methods that end `df.writeTo(...)`, and what they do."""

NUMBER = "number of the micro-batch"
ASIDE = frozenset({"partitionBy", "bucketBy", "sortBy", "clusterBy", "using", "tableProperty", "partitionedBy"})


def call_on_writer(job: Walk, writer: Writer, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    """Return what a method of a writer yields."""
    argument = arguments.get(0, "source", "saveMode", "outputMode", "func", "f")
    if name in {"option", "options"}:
        return _set_options(writer, arguments, single=name == "option")
    if name == "format":
        return replace(writer, format=_get_word(argument))
    if name in {"mode", "outputMode"}:
        return replace(writer, mode=_get_word(argument))
    if name == "queryName":
        return replace(writer, options={**writer.options, name: arguments.get(0, name) or UnknownValue()})
    if name == "trigger":
        return replace(writer, trigger=",".join(arguments.keywords))
    if name == "foreachBatch":
        return _follow_batches(job, writer, arguments.get(0, "func"), line)
    if name == "foreach":
        job.trace.add_gap(line, "foreach: what its function writes")
        return replace(writer, kind="foreach")
    if name in V2_MODES and writer.kind == "writeTo":
        return _end(job, replace(writer, mode=V2_MODES[name]), name, arguments, line)
    if (writer.is_stream and name in STARTS) or (not writer.is_stream and name in SAVES):
        return _end(job, _read_end(writer, name, arguments), name, arguments, line)
    if name in ASIDE:
        return writer
    job.trace.add_gap(line, f"{name}: no method of writers that is known here")
    return writer


def _get_word(value: JobValue | None) -> str:
    """Return a constant word in small letters; `?` for one that is not known."""
    text = get_text(value) if value is not None else None
    return "?" if text is None else text.lower()


def _set_options(writer: Writer, arguments: Arguments, *, single: bool) -> Writer:
    if not single:
        options = {**writer.options, **arguments.keywords}
        return replace(writer, options=options, is_complete=writer.is_complete and arguments.is_complete)
    key, value = arguments.get(0, "key"), arguments.get(1, "value")
    name = get_text(key) if key is not None else None
    if name is None or value is None:
        return replace(writer, is_complete=False)
    return replace(writer, options={**writer.options, name: value})


def _read_end(writer: Writer, name: str, arguments: Arguments) -> Writer:
    """Return a writer with what the call that ends it sets."""
    named = {key: value for key, value in arguments.keywords.items() if key not in {"path", "name", "tableName"}}
    writer = replace(writer, is_complete=writer.is_complete and arguments.is_complete)
    for word in ("mode", "outputMode"):
        if word in named:
            writer = replace(writer, mode=_get_word(named.pop(word)))
    if "format" in named:
        writer = replace(writer, format=_get_word(named.pop("format")))
    if name == "insertInto":
        overwrite = arguments.get(1, "overwrite")
        description = writer.mode or "append" if overwrite is None else str(describe(overwrite)).lower()
        modes = {"true": "overwrite", "false": "append", "overwrite": "overwrite", "append": "append"}
        writer = replace(writer, mode=modes.get(description, "?"))
    elif name in FORMATS:
        place = 2 if name == "jdbc" else 1
        mode = arguments.get(place)
        writer = replace(writer, format=name, mode=writer.mode if mode is None else _get_word(mode))
    elif name == "save" and len(arguments.positional) > 1:
        words = [_get_word(value) for value in arguments.positional[1:3]]
        writer = replace(writer, format=words[0], mode=words[1] if len(words) > 1 else writer.mode)
    elif name in {"toTable", "table"}:
        writer = replace(writer, format=writer.format or "table")
    return replace(writer, options={**writer.options, **named})


def _end(job: Walk, writer: Writer, name: str, arguments: Arguments, line: int) -> JobValue:
    """Note the query that a call starts or saves."""
    job.trace.add_query(writer, line, _find_target(writer, name, arguments), is_partial=name == "overwritePartitions")
    return UnknownValue("query")


def _find_target(writer: Writer, name: str, arguments: Arguments) -> str:
    """Return the table, path or topic that a call writes to, as far as it is known."""
    if name == "jdbc":
        place = arguments.get(1, "table")
    elif writer.format in {"jdbc", "kafka"}:
        place = get_option(writer.options, "dbtable" if writer.format == "jdbc" else "topic")
    elif writer.kind == "writeTo":
        place = writer.options.get("path")
    else:
        place = arguments.get(0, "path", "name", "tableName") or get_option(writer.options, "path")
    return "" if place is None else describe(place)


def _follow_batches(job: Walk, writer: Writer, function: JobValue | None, line: int) -> Writer:
    """Follow the function of foreachBatch with a micro-batch, and keep what it does."""
    sink = Sink(loops=len(job.loops))
    node = ast.Call(func=ast.Name(id="foreachBatch"), args=[], keywords=[], lineno=line)
    for alternative in alternatives(function if function is not None else UnknownValue()):
        batch = job.trace.keep(Frame(op="batch", line=line, what="micro-batch", is_stream=False))
        values = (batch, UnknownValue(f"{{{NUMBER}}}"))
        sink.batches.append(batch)
        job.trace.sinks.append(sink)
        if job.call_value(alternative, Arguments(node=node, positional=values, keywords={})) is None:
            job.trace.add_gap(line, f"foreachBatch({describe(alternative).strip('{}')}): what it writes")
        job.trace.sinks.pop()
    return replace(writer, kind="foreachBatch", sink=sink)


def is_marked(writer: Writer) -> bool:
    """Return whether what a write appends is appended once, however often it is run."""
    return {"txnAppId", "txnVersion"} <= set(writer.options)


UPSERTS = frozenset({"cassandra", "hbase", "redis"})
"""Stores that keep one row by key, whatever the mode of a write."""


def is_upsert(writer: Writer) -> bool:
    """Return whether a store replaces rows by their key, so that rows that are appended again change nothing."""
    names = set((writer.format or "").split("."))
    if names & {"hudi"}:
        operation = get_option(writer.options, "hoodie.datasource.write.operation")
        return operation is None or "insert" not in describe(operation)
    if names & {"es", "elasticsearch"}:
        return get_option(writer.options, "es.mapping.id") is not None
    if names & {"mongodb", "mongo"}:
        return get_option(writer.options, "idFieldList") is not None
    return bool(names & UPSERTS)


def get_mode(writer: Writer) -> str:
    """Return the mode that is in force: what was set, else the default."""
    if writer.is_stream:
        return writer.mode or "append"
    if writer.format == "kafka":
        return "append"  # it knows no other
    return writer.mode or "error"


def get_option(options: Mapping[str, JobValue], name: str) -> JobValue | None:
    """Return an option; their names differ by case alone nowhere."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)
