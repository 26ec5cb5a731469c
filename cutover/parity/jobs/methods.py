"""Method calls by the kind of receiver: a session, a column, a list, or an unknown value."""

import re
import string
from contextlib import suppress
from dataclasses import replace

from cutover.parity.jobs import readers_and_writers
from cutover.parity.jobs.containers import LIST_METHODS, call_on_dict, call_on_list
from cutover.parity.jobs.frames import (
    READ_METHODS,
    call_on_frame,
    call_on_group,
    has_rows,
    list_frames,
    record_collected_rows,
    record_user_function,
)
from cutover.parity.jobs.readers_and_writers import call_on_reader, call_on_session, follow_sql, read_table
from cutover.parity.jobs.sqltext import parse_column, read_condition, record_removals
from cutover.parity.jobs.trace import Arguments, JobAnalysis, fill_template, make_column, mark_parameters, merge_columns
from cutover.parity.jobs.values import (
    Constant,
    DictValue,
    Frame,
    GroupedFrame,
    ImportedName,
    JobColumn,
    JobFunction,
    JobValue,
    LegacyValue,
    ListValue,
    Method,
    OneOf,
    Reader,
    Session,
    UnknownValue,
    Writer,
    derive_frame,
    describe_value,
    get_taint,
    get_text,
    list_alternatives,
    list_items,
    merge_alternatives,
    walk_values,
)
from cutover.parity.rules import Construct

MERGE_METHODS = frozenset(
    {"merge", "whenMatchedUpdateAll", "whenMatchedUpdate", "whenNotMatchedInsertAll", "whenNotMatchedInsert"}
    | {"whenMatchedDelete", "whenNotMatchedBySourceDelete", "whenNotMatchedBySourceUpdate"}
)
FRAME_ONLY_METHODS = frozenset(
    {"withWatermark", "withColumn", "withColumnRenamed", "selectExpr", "groupBy", "groupby", "dropDuplicates"}
    | {"dropDuplicatesWithinWatermark", "createOrReplaceTempView", "createTempView", "unionByName", "withColumns"}
)
"""Methods that only a DataFrame has, so that an unknown receiver must be one."""
POOL_METHODS = frozenset({"submit", "map", "imap", "apply_async", "map_async", "run_in_executor"})
"""Methods of thread and process pools that run a function."""

TEXT_METHODS = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "startswith", "endswith", "replace"}
    | {"removeprefix", "removesuffix", "isdigit", "find", "count"}
)
"""Methods of texts that are computed if all arguments are constants."""

RDD_SOURCES = frozenset(
    {"textFile", "parallelize", "wholeTextFiles", "sequenceFile", "binaryFiles", "newAPIHadoopFile", "range", "union"}
)
DSTREAM_WINDOWS = frozenset(
    {"window", "countByWindow", "reduceByWindow", "reduceByKeyAndWindow", "groupByKeyAndWindow"}
    | {"countByValueAndWindow", "updateStateByKey", "mapWithState"}
)


def call_method(job: JobAnalysis, method: Method, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Evaluate a method call by the kind of its receiver."""
    receiver, name, line = method.receiver, method.name, method.line
    match receiver:
        case Session():
            return call_on_session(job, name, arguments, line)
        case Reader():
            return call_on_reader(job, receiver, name, arguments, line)
        case Frame():
            return call_on_frame(job, receiver, name, arguments, line)
        case GroupedFrame():
            return call_on_group(job, receiver, name, arguments, line)
        case Writer():
            return readers_and_writers.call_on_writer(job, receiver, name, arguments, line)
        case JobColumn():
            return _call_on_column(receiver, name, arguments)
        case LegacyValue():
            return _call_on_legacy(job, receiver, name, line)
        case _:
            return _call_on_other(job, receiver, name, arguments, line)


def call_unbound(job: JobAnalysis, target: ImportedName, arguments: Arguments) -> JobValue:
    """Evaluate a call of an unbound method, such as `DataFrame.unionByName(a, b)`."""
    argument = arguments.get(0)
    method_arguments = replace(arguments, positional=arguments.positional[1:])
    if argument is None:
        return UnknownValue(target.path)
    name = target.path.rpartition(".")[2]
    return merge_alternatives(
        call_method(job, Method(alternative, name, arguments.node.lineno), method_arguments)
        for alternative in list_alternatives(argument)
    )


def _call_on_column(column: JobColumn, name: str, arguments: Arguments) -> JobColumn:
    argument = arguments.get(0)
    if name in {"alias", "name"} and argument is not None:
        return replace(column, alias=get_text(argument))
    operands = [
        JobColumn() if isinstance(value, Constant) else make_column(value)
        for value in walk_values(arguments.values)
        if not isinstance(value, ListValue)
    ]
    bounds = [make_column(value).names for value in arguments.positional[:2]] if name == "between" else []
    pairs = [*((names, column.names) for names in bounds[:1]), *((column.names, names) for names in bounds[1:])]
    merged = merge_columns([column, *operands], pairs)
    return replace(merged, functions=merged.functions | {name}) if name in {"over", "isNull"} else merged


def _call_on_legacy(job: JobAnalysis, legacy: LegacyValue, name: str, line: int) -> JobValue:
    """Evaluate a method call on a context, an RDD or a DStream."""
    if legacy.kind == "dstream":
        if name in DSTREAM_WINDOWS:
            job.trace.findings.add((line, Construct.DSTREAM, name))
        return legacy
    if legacy.kind == "context":
        return LegacyValue("rdd") if name in RDD_SOURCES else UnknownValue(f"sc.{name}")
    if name in READ_METHODS:
        return UnknownValue(name)
    if legacy.kind == "rdd":
        job.trace.add_gap(line, f"{name} of an RDD: the values that functions over its rows compute")
    if name == "toDF":
        return job.trace.add_frame(Frame(op="opaque", line=line, subject="RDD", is_stream=False))
    return LegacyValue("rows")  # reported once, here


def _call_on_other(job: JobAnalysis, receiver: JobValue, name: str, arguments: Arguments, line: int) -> JobValue:
    """Evaluate a method call on a value that is not one of Spark's."""
    if isinstance(receiver, ListValue) and name in LIST_METHODS:
        return call_on_list(job.trace.assignment_log, receiver, name, arguments)
    if isinstance(receiver, DictValue):
        return call_on_dict(job.trace.assignment_log, receiver, name, arguments)
    text = get_text(receiver)
    if text is not None or isinstance(receiver, Constant | OneOf):
        return _call_on_text(text, name, arguments)
    return _call_on_unknown(job, receiver, name, arguments, line)


def _call_on_text(text: str | None, name: str, arguments: Arguments) -> JobValue:
    constants = [value.value for value in arguments.values if isinstance(value, Constant)]
    if text is not None and name in TEXT_METHODS and len(constants) == len(arguments.values):
        with suppress(TypeError, ValueError):
            return Constant(getattr(text, name)(*constants))
    if text is not None and name == "format":
        return _format_text(text, arguments)
    taint = frozenset(source for value in arguments.values for source in get_taint(value))
    description = ", ".join(describe_value(value) for value in arguments.values)
    return UnknownValue(f"{text}.{name}({description})", taint)


def _format_text(text: str, arguments: Arguments) -> JobValue:
    """Evaluate `text.format(...)`."""
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
    return fill_template(pieces, values)


def _call_on_unknown(job: JobAnalysis, receiver: JobValue, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    description = describe_value(receiver)
    argument = arguments.get(0)
    if name == "getOrCreate":
        return Session()
    if name == "run" and description.endswith("notebook"):
        job.trace.add_gap(line, f"{description.strip('{}')}.run: the effect of the notebook that it runs")
    if name in FRAME_ONLY_METHODS:
        frame = job.trace.add_frame(Frame(op="unknown", line=line, subject=description.strip("{}")))
        return call_on_frame(job, frame, name, arguments, line)
    if name in MERGE_METHODS:
        return _record_merge(job, name, arguments, line)
    if name in POOL_METHODS and any(isinstance(value, JobFunction) for value in arguments.positional):
        return _run_in_pool(job, name, arguments)
    if name in {"add_argument", "setCurrentDatabase"} and argument is not None:
        _record_database_or_default(job, name, argument, arguments)
    if name == "sql" and argument is not None and get_text(argument) is not None:
        return follow_sql(job, argument, line)
    if _record_unknown_removal(job, description, name, arguments, line):
        return UnknownValue(name)
    if name == "toDF" and "DeltaTable" in description:
        return read_table(job, receiver, line)
    if name in {"foreachRDD", *DSTREAM_WINDOWS} and name != "window":
        job.trace.findings.add((line, Construct.DSTREAM, name))
        return LegacyValue("dstream")
    if name in {"register", "registerFunction"} and argument is not None:
        job.trace.registered_functions.add(describe_value(argument).lower())
        record_user_function(job, arguments.get(1, "f"), name, line)
        return JobColumn()
    taint = receiver.taint if isinstance(receiver, UnknownValue) else frozenset[str]()
    if has_rows(ListValue(list(arguments.values))) and description not in {"merge", "logger", "{log}", "{logger}"}:
        job.trace.add_gap(line, f"{description.strip('{}')}.{name}: its effect on a DataFrame")
        parents = tuple(list_frames(arguments.values))
        return job.trace.add_frame(derive_frame(parents, "opaque", line, subject=name))
    record_collected_rows(job, name, arguments, line)
    values = ", ".join(describe_value(value) for value in arguments.values)
    default = arguments.get(1, "default", "fallback") if name in {"get", "getenv", "pop"} else None
    return UnknownValue(f"{description}.{name}({values})", taint, default)


def _record_merge(job: JobAnalysis, name: str, arguments: Arguments, line: int) -> JobValue:
    """Record a MERGE built with Delta's API, with its source rows."""
    for sink in job.trace.active_sinks:
        sink.has_merge = True
        sink.merge_sources += list_frames(arguments.values)
    if name == "whenMatchedUpdate" and _adds_to_itself(arguments):
        job.trace.add_repeated_merge(line, "MERGE that adds to a column")
    text = get_text(arguments.get(1, "condition") or UnknownValue()) if name == "merge" else None
    if text is not None and not parse_column(text).names:
        job.trace.add_repeated_merge(line, "MERGE without a key")
    return UnknownValue("merge")


def _run_in_pool(job: JobAnalysis, name: str, arguments: Arguments) -> JobValue:
    """Interpret a function that a pool of threads or processes runs, once or per item of a list."""
    function_index = next(n for n, value in enumerate(arguments.positional) if isinstance(value, JobFunction))
    function, *function_arguments = arguments.positional[function_index:]
    items = list_items(function_arguments[0], arguments.node) if "map" in name and function_arguments else None
    argument_lists = [tuple(function_arguments)] if items is None else [(item,) for item in items]
    values: list[JobValue] = []
    for number, call_arguments in enumerate(argument_lists):
        job.trace.call_site.append(-1 - number)
        values.append(job.call_value(function, replace(arguments, positional=call_arguments)) or UnknownValue(name))
        job.trace.call_site.pop()
    return ListValue(values)


def _adds_to_itself(arguments: Arguments) -> bool:
    """Return whether `whenMatchedUpdate` unconditionally sets a column to a sum of itself and another column."""
    changes = next((value for value in arguments.values if isinstance(value, DictValue)), DictValue({}))
    has_condition = len(arguments.values) > 1
    for key, value in changes.items.items():
        text = get_text(value)
        column = make_column(value) if text is None else parse_column(text)
        if "+" in column.functions and str(key) in column.names and not has_condition:
            return True
    return False


def _record_database_or_default(job: JobAnalysis, name: str, argument: JobValue, arguments: Arguments) -> None:
    """Record the current database, or the default of a command-line argument."""
    if name == "setCurrentDatabase":
        job.trace.current_database = describe_value(argument).lower()
        return
    names = [text for value in arguments.positional if (text := get_text(value)) is not None]
    option = next((text for text in names if text.startswith("--")), get_text(argument) or "")
    dest = get_text(arguments.get(-1, "dest") or Constant(option.lstrip("-").replace("-", "_")))
    default = arguments.get(-1, "default")
    if dest and default is not None:
        job.trace.argument_defaults[dest] = default


DELTA_TABLE_CALL = re.compile(r"^[^(]*DeltaTable\.for(?:Name|Path)\(.*?, (.*)\)$")
REMOVING_STATEMENT = re.compile(r"\s*(truncate|delete|drop)\b", re.IGNORECASE)


def _record_unknown_removal(job: JobAnalysis, receiver_text: str, name: str, arguments: Arguments, line: int) -> bool:
    """Record the rows that a call outside of Spark removes; return whether it removes any."""
    argument = arguments.get(0, "condition", "path")
    table = DELTA_TABLE_CALL.match(receiver_text)
    if table is not None and name == "delete":
        text = None if argument is None else read_condition(mark_parameters(describe_value(argument))) or "?"
        job.trace.add_removal(table[1], line, f"{receiver_text}.delete", text)
        return True
    if argument is not None and receiver_text.strip("{}").endswith(".fs") and name in {"rm", "delete"}:
        job.trace.add_removal(describe_value(argument), line, f"{receiver_text.strip('{}')}.{name}")
        return True
    if argument is not None and REMOVING_STATEMENT.match(describe_value(argument)):
        record_removals(job.trace, mark_parameters(describe_value(argument)), line)
        return True
    return False
