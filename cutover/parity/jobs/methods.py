"""Methods by the kind of their receiver: what a call yields on a session, a column, a list, or something unknown."""

import re
import string
from dataclasses import replace

from cutover.parity.jobs import writers
from cutover.parity.jobs.frames import (
    LOOKS,
    call_on_frame,
    call_on_group,
    has_rows,
    list_frames,
    note_collected_rows,
    note_user_function,
    spread,
)
from cutover.parity.jobs.sources import call_on_reader, call_on_session, follow_sql, read_table
from cutover.parity.jobs.sqltext import note_removals, parse_column, read_condition
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import (
    Constant,
    Frame,
    Grouped,
    Imported,
    JobColumn,
    JobFunction,
    JobValue,
    Legacy,
    Listing,
    Method,
    OneOf,
    Reader,
    Session,
    Table,
    UnknownValue,
    Writer,
    alternatives,
    choose,
    derive,
    describe,
    fill_text,
    get_taint,
    get_text,
    list_items,
    make_column,
    mark_parameters,
    merge_columns,
    walk,
)
from cutover.parity.jobs.walk import Walk
from cutover.parity.rules import Construct

MERGES = frozenset(
    {"merge", "whenMatchedUpdateAll", "whenMatchedUpdate", "whenNotMatchedInsertAll", "whenNotMatchedInsert"}
    | {"whenMatchedDelete", "whenNotMatchedBySourceDelete", "whenNotMatchedBySourceUpdate"}
)
DISTINCTIVE = frozenset(
    {"withWatermark", "withColumn", "withColumnRenamed", "selectExpr", "groupBy", "groupby", "dropDuplicates"}
    | {"dropDuplicatesWithinWatermark", "createOrReplaceTempView", "createTempView", "unionByName", "withColumns"}
)
"""Methods that only a DataFrame has, whatever it is called."""
POOLS = frozenset({"submit", "map", "imap", "apply_async", "map_async", "run_in_executor"})
"""Methods of pools that run a function."""

RDD_SOURCES = frozenset(
    {"textFile", "parallelize", "wholeTextFiles", "sequenceFile", "binaryFiles", "newAPIHadoopFile", "range", "union"}
)
DSTREAM_WINDOWS = frozenset(
    {"window", "countByWindow", "reduceByWindow", "reduceByKeyAndWindow", "groupByKeyAndWindow"}
    | {"countByValueAndWindow", "updateStateByKey", "mapWithState"}
)


def call_method(job: Walk, method: Method, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Return what a method yields, by the kind of its receiver."""
    receiver, name, line = method.receiver, method.name, method.line
    match receiver:
        case Session():
            return call_on_session(job, name, arguments, line)
        case Reader():
            return call_on_reader(job, receiver, name, arguments, line)
        case Frame():
            return call_on_frame(job, receiver, name, arguments, line)
        case Grouped():
            return call_on_group(job, receiver, name, arguments, line)
        case Writer():
            return writers.call_on_writer(job, receiver, name, arguments, line)
        case JobColumn():
            return _call_on_column(receiver, name, arguments)
        case Legacy():
            return _call_on_legacy(job, receiver, name, line)
        case _:
            return _call_on_other(job, receiver, name, arguments, line)


def call_unbound(job: Walk, target: Imported, arguments: Arguments) -> JobValue:
    """Return what `DataFrame.unionByName(a, b)` yields."""
    argument = arguments.get(0)
    later_arguments = replace(arguments, positional=arguments.positional[1:])
    if argument is None:
        return UnknownValue(target.path)
    name = target.path.rpartition(".")[2]
    return choose(
        call_method(job, Method(alternative, name, arguments.node.lineno), later_arguments)
        for alternative in alternatives(argument)
    )


def _call_on_column(column: JobColumn, name: str, arguments: Arguments) -> JobColumn:
    argument = arguments.get(0)
    if name in {"alias", "name"} and argument is not None:
        return replace(column, alias=get_text(argument))
    others = [
        JobColumn() if isinstance(value, Constant) else make_column(value)
        for value in walk(arguments.values)
        if not isinstance(value, Listing)
    ]
    bounds = [make_column(value).names for value in arguments.positional[:2]] if name == "between" else []
    pairs = [*((names, column.names) for names in bounds[:1]), *((column.names, names) for names in bounds[1:])]
    merged = merge_columns([column, *others], pairs)
    return replace(merged, functions=merged.functions | {name}) if name in {"over", "isNull"} else merged


def _call_on_legacy(job: Walk, legacy: Legacy, name: str, line: int) -> JobValue:
    """Return what a context, an RDD or a DStream yields."""
    if legacy.kind == "dstream":
        if name in DSTREAM_WINDOWS:
            job.trace.found.add((line, Construct.DSTREAM, name))
        return legacy
    if legacy.kind == "context":
        return Legacy("rdd") if name in RDD_SOURCES else UnknownValue(f"sc.{name}")
    if name in LOOKS:
        return UnknownValue(name)
    if legacy.kind == "rdd":
        job.trace.add_gap(line, f"{name} of an RDD: what functions over its rows compute")
    if name == "toDF":
        return job.trace.keep(Frame(op="opaque", line=line, what="RDD", is_stream=False))
    return Legacy("rows")  # named once


def _call_on_other(job: Walk, receiver: JobValue, name: str, arguments: Arguments, line: int) -> JobValue:
    """Return what a method of something yields that is not known to be Spark's."""
    if isinstance(receiver, Listing) and name in {"append", "add", "insert", "extend"}:
        receiver.items += [item for value in arguments.positional[-1:] for item in spread([value])]
        return Constant(None)
    if isinstance(receiver, Listing) and name == "pop" and receiver.items:
        return choose(receiver.items)
    if isinstance(receiver, Table):
        return _call_on_table(job, receiver, name, arguments)
    text = get_text(receiver)
    if text is not None or isinstance(receiver, Constant | OneOf):
        return _call_on_text(text, name, arguments)
    return _call_on_unknown(job, receiver, name, arguments, line)


def _call_on_table(job: Walk, table: Table, name: str, arguments: Arguments) -> JobValue:
    if name in {"items", "values", "keys"}:
        rows: list[JobValue] = []
        for key, value in table.items.items():
            rows.append(value if name == "values" else Constant(key))
            if name == "items":
                rows[-1] = Listing([Constant(key), value])
        return Listing(rows, is_complete=table.is_complete)
    key, journal = arguments.get(0), job.trace.assignment_log
    if name in {"get", "pop", "setdefault"} and isinstance(key, Constant):
        existing = table.items.get(key.value)
        if existing is None and name == "setdefault":
            journal.assign(table.items, key.value, arguments.get(1) or Constant(None))
        return existing or arguments.get(1) or (Constant(None) if table.is_complete else UnknownValue())
    if name == "copy":
        return replace(table, items=dict(table.items))
    if name == "update":
        others = [value for value in arguments.positional if isinstance(value, Table)]
        for added, value in [*(pair for other in others for pair in other.items.items()), *arguments.keywords.items()]:
            journal.assign(table.items, added, value)
        is_known = arguments.is_complete and len(others) == len(arguments.positional)
        table.is_complete = table.is_complete and is_known and all(other.is_complete for other in others)
        return Constant(None)
    return UnknownValue(name)


def _call_on_text(text: str | None, name: str, arguments: Arguments) -> JobValue:
    if text is not None and name in {"strip", "lower", "upper"}:
        return Constant(getattr(text, name)())
    if text is not None and name == "format":
        return _format_text(text, arguments)
    taint = frozenset(mark for value in arguments.values for mark in get_taint(value))
    description = ", ".join(describe(value) for value in arguments.values)
    return UnknownValue(f"{text}.{name}({description})", taint)


def _format_text(text: str, arguments: Arguments) -> JobValue:
    """Return what `text.format(...)` yields."""
    pieces, values = [""], list[JobValue]()
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        return UnknownValue("format")
    for literal, field, _, _ in fields:
        pieces[-1] += literal
        if field is not None:
            number = int(field) if field.isdigit() else len(values) if not field else -1
            value = arguments.get(number, field)
            values.append(value if value is not None else UnknownValue(f"{{{field}}}"))
            pieces.append("")
    return fill_text(pieces, values)


def _call_on_unknown(job: Walk, receiver: JobValue, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    description = describe(receiver)
    argument = arguments.get(0)
    if name == "getOrCreate":
        return Session()
    if name == "run" and description.endswith("notebook"):
        job.trace.add_gap(line, f"{description.strip('{}')}.run: what the notebook does that it runs")
    if name in DISTINCTIVE:
        frame = job.trace.keep(Frame(op="unknown", line=line, what=description.strip("{}")))
        return call_on_frame(job, frame, name, arguments, line)
    if name in MERGES:
        return _note_merge(job, name, arguments, line)
    if name in POOLS and any(isinstance(value, JobFunction) for value in arguments.positional):
        return _run_elsewhere(job, name, arguments)
    if name in {"add_argument", "setCurrentDatabase"} and argument is not None:
        _note_default(job, name, argument, arguments)
    if name == "sql" and argument is not None and get_text(argument) is not None:
        return follow_sql(job, argument, line)
    if _note_unknown_removal(job, description, name, arguments, line):
        return UnknownValue(name)
    if name == "toDF" and "DeltaTable" in description:
        return read_table(job, receiver, line)
    if name in {"foreachRDD", *DSTREAM_WINDOWS} and name != "window":
        job.trace.found.add((line, Construct.DSTREAM, name))
        return Legacy("dstream")
    if name in {"register", "registerFunction"} and argument is not None:
        job.trace.registered.add(describe(argument).lower())
        note_user_function(job, arguments.get(1, "f"), name, line)
        return JobColumn()
    taint = receiver.taint if isinstance(receiver, UnknownValue) else frozenset[str]()
    if has_rows(Listing(list(arguments.values))) and description not in {"merge", "logger", "{log}", "{logger}"}:
        job.trace.add_gap(line, f"{description.strip('{}')}.{name}: what it does to a DataFrame")
        parents = tuple(list_frames(arguments.values))
        return job.trace.keep(derive(parents, "opaque", line, what=name))
    note_collected_rows(job, name, arguments, line)
    values = ", ".join(describe(value) for value in arguments.values)
    default = arguments.get(1, "default", "fallback") if name in {"get", "getenv", "pop"} else None
    return UnknownValue(f"{description}.{name}({values})", taint, default)


def _note_merge(job: Walk, name: str, arguments: Arguments, line: int) -> JobValue:
    """Note a MERGE by Delta's builder, with the rows that it takes."""
    for sink in job.trace.sinks:
        sink.merges = True
        sink.merged += list_frames(arguments.values)
    if name == "whenMatchedUpdate" and _sums_up(arguments):
        job.trace.add_sum(line)
    return UnknownValue("merge")


def _run_elsewhere(job: Walk, name: str, arguments: Arguments) -> JobValue:
    """Follow a function that a pool of threads or processes runs, once or for each item of a list."""
    place = next(n for n, value in enumerate(arguments.positional) if isinstance(value, JobFunction))
    later_arguments = arguments.positional[place:]
    many = list_items(later_arguments[1], arguments.node) if "map" in name and len(later_arguments) > 1 else None
    rounds = [later_arguments[1:]] if many is None else [(item,) for item in many]
    values: list[JobValue] = []
    for number, round_arguments in enumerate(rounds):
        job.trace.site.append(-1 - number)
        values.append(
            job.call_value(later_arguments[0], replace(arguments, positional=round_arguments)) or UnknownValue(name)
        )
        job.trace.site.pop()
    return Listing(values)


def _sums_up(arguments: Arguments) -> bool:
    """Return whether `whenMatchedUpdate` sets a column to a sum of itself and another column, under no condition."""
    changes = next((value for value in arguments.values if isinstance(value, Table)), Table({}))
    has_condition = len(arguments.values) > 1
    for key, value in changes.items.items():
        text = get_text(value)
        column = make_column(value) if text is None else parse_column(text)
        if "+" in column.functions and str(key) in column.names and not has_condition:
            return True
    return False


def _note_default(job: Walk, name: str, job_value: JobValue, arguments: Arguments) -> None:
    """Note the database in use, or the default of an argument of the command line."""
    if name == "setCurrentDatabase":
        job.trace.database = describe(job_value).lower()
        return
    names = [text for value in arguments.positional if (text := get_text(value)) is not None]
    long = next((text for text in names if text.startswith("--")), get_text(job_value) or "")
    dest = get_text(arguments.get(-1, "dest") or Constant(long.lstrip("-").replace("-", "_")))
    default = arguments.get(-1, "default")
    if dest and default is not None:
        job.trace.defaults[dest] = default


DELETES = re.compile(r"^[^(]*DeltaTable\.for(?:Name|Path)\(.*?, (.*)\)$")
REMOVES = re.compile(r"\s*(truncate|delete|drop)\b", re.IGNORECASE)


def _note_unknown_removal(job: Walk, message: str, name: str, arguments: Arguments, line: int) -> bool:
    """Note rows that a call on something that is not Spark's own removes; return whether it does."""
    argument = arguments.get(0, "condition", "path")
    table = DELETES.match(message)
    if table is not None and name == "delete":
        text = None if argument is None else read_condition(mark_parameters(describe(argument))) or "?"
        job.trace.add_removal(table[1], line, f"{message}.delete", text)
        return True
    if argument is not None and message.strip("{}").endswith(".fs") and name in {"rm", "delete"}:
        job.trace.add_removal(describe(argument), line, f"{message.strip('{}')}.{name}")
        return True
    if argument is not None and REMOVES.match(describe(argument)):
        note_removals(job.trace, mark_parameters(describe(argument)), line)
        return True
    return False
