"""Methods of DataFrames and groups; each call returns the operation that Spark would add to the plan."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from cutover.parity import rules
from cutover.parity.jobs.readers_and_writers import record_taint
from cutover.parity.jobs.sqltext import read_column, read_condition
from cutover.parity.jobs.trace import Arguments, JobAnalysis, get_sql_text, make_column, merge_columns, read_join_type
from cutover.parity.jobs.values import (
    BoundFunction,
    Constant,
    DictValue,
    Frame,
    GroupedFrame,
    ImportedName,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    LegacyValue,
    ListValue,
    OneOf,
    Reader,
    UnknownValue,
    Writer,
    derive_frame,
    describe_value,
    get_taint,
    get_text,
    is_optional,
    list_alternatives,
    list_ancestors,
    merge_alternatives,
    walk_values,
)
from cutover.parity.rules import Construct, is_clock, is_external_service, is_pure, is_random

STATELESS_METHODS = frozenset(
    {"select", "selectExpr", "withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed", "drop", "alias"}
    | {"cache", "persist", "unpersist", "repartition", "repartitionByRange", "coalesce", "hint", "toDF", "fillna"}
    | {"dropna", "fill", "replace", "sort", "orderBy", "sortWithinPartitions", "limit", "sample", "sampleBy", "offset"}
    | {"checkpoint", "localCheckpoint", "unpivot", "melt", "observe", "to", "describe", "summary", "randomSplit"}
    | {"withMetadata", "colRegex"}
)
"""Methods that return rows of one DataFrame without state."""
COLUMN_METHODS = frozenset({"select", "selectExpr", "withColumn", "withColumns", "agg", "groupBy"})
"""Methods that compute columns."""

UNIONS = frozenset({"union", "unionAll", "unionByName"})
JOINS = frozenset({"join", "joinWith", "crossJoin"})
SUBTRACTIONS = frozenset({"exceptAll", "subtract", "intersect", "intersectAll"})
DEDUPLICATIONS = frozenset({"dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark", "distinct"})
VIEWS = frozenset(
    {"createOrReplaceTempView", "createTempView", "registerTempTable", "createGlobalTempView"}
    | {"createOrReplaceGlobalTempView"}
)
READ_METHODS = frozenset(
    {"show", "printSchema", "explain", "collect", "first", "head", "take", "tail", "count", "isEmpty", "columns"}
    | {
        "toLocalIterator",
        "toArrow",
        "schema",
        "dtypes",
        "isStreaming",
        "storageLevel",
        "exists",
        "inputFiles",
        "display",
    }
    | {"isLocal", "getNumPartitions", "toArrow"}
)
"""Methods that read rows or metadata and write nothing."""
COLLECT_METHODS = frozenset({"collect", "toLocalIterator"})
DRIVER_METHODS = COLLECT_METHODS | {"take", "head", "first", "tail", "count"}
"""Methods that return rows, or their number, to the driver."""

LOGGING_METHODS = frozenset({"info", "debug", "warning", "warn", "error", "exception", "critical", "log", "print"})
INSERT_STATEMENT = re.compile(r"\binsert\b", re.IGNORECASE)
UPSERT_STATEMENT = re.compile(r"on conflict|on duplicate key|insert ignore|\bmerge\b|where not exists", re.IGNORECASE)
ROW_FUNCTIONS = frozenset({"mapInPandas", "mapInArrow"})
PROCESSING_TIME_METHODS = frozenset(
    {"setTimeoutDuration", "getCurrentProcessingTimeInMs", "getCurrentProcessingTimeMs"}
)
"""Methods of a state function that depend on processing time."""

GROUP_FUNCTIONS = frozenset({"applyInPandas", "applyInArrow", "apply"})
STATE_FUNCTIONS = frozenset(
    {"applyInPandasWithState", "transformWithState", "transformWithStateInPandas", "flatMapGroupsWithState"}
    | {"mapGroupsWithState"}
)


def has_rows(value: JobValue) -> bool:
    """Return whether a value contains a DataFrame, a group, a reader or a writer."""
    return any(isinstance(item, Frame | Reader | Writer | GroupedFrame) for item in walk_values([value]))


def list_frames(values: Iterable[JobValue]) -> Iterator[Frame]:
    """Yield the DataFrames in values, including those of groups and writers."""
    for value in walk_values(values):
        if isinstance(value, Frame):
            yield value
        elif isinstance(value, GroupedFrame | Writer):
            yield value.frame


def call_on_frame(job: JobAnalysis, frame: Frame, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Evaluate a call of a DataFrame's method."""
    add_frame = job.trace.add_frame
    columns = tuple(list_columns(arguments))
    record_taint(job, columns, line)
    if name in COLUMN_METHODS:
        record_unknown_columns(job, arguments, line)
    if name in STATELESS_METHODS:
        return _make_step(job, frame, name, arguments, line)
    if name in {"where", "filter"}:
        value = arguments.get(0, "condition") or UnknownValue()
        condition = merge_columns(columns) if isinstance(value, JobColumn) else read_column(job.trace, value, line)
        condition = replace(condition, taint=condition.taint | get_taint(value))
        text = get_sql_text(value)
        subject = read_condition(text) if text is not None else ""
        if "isNull" in condition.functions and (joined := _find_left_join(frame)) is not None:
            frame = replace(frame, parents=joined.parents, subject=joined.subject, selects_new_rows=True)
        fields = {"subject": subject, "selects_new_rows": condition.varies, "keys": (condition,)}
        return add_frame(derive_frame((frame,), "filter", line, **fields))
    if name == "withWatermark":
        column = make_column(arguments.get(0, "eventTime") or UnknownValue())
        return add_frame(derive_frame((frame,), "watermark", line, subject=name, columns=(column,)))
    if name in {"groupBy", "groupby", "rollup", "cube", "groupByKey"}:
        keys = columns if arguments.is_complete and name != "groupByKey" else None
        return GroupedFrame(frame, keys, line)
    if name in DEDUPLICATIONS:
        return add_frame(
            derive_frame((frame,), "dedup", line, subject=name, keys=columns if arguments.is_complete else None)
        )
    if name == "agg":
        return add_frame(derive_frame((frame,), "aggregate", line, subject=name, functions=list_functions(arguments)))
    if name in JOINS | UNIONS | SUBTRACTIONS:
        return _combine_frames(job, frame, name, arguments, line)
    return _call_other_frame_method(job, frame, name, arguments, line)


def record_unknown_columns(job: JobAnalysis, arguments: Arguments, line: int) -> None:
    """Record columns that an unknown function computes, unless its call was recorded."""
    taint = {source for value in walk_values(arguments.values) for source in get_taint(value)}
    is_reported = any(item[:2] == (line, Construct.NOT_UNDERSTOOD) for item in job.trace.findings)
    if "function" in taint and not is_reported:
        job.trace.add_gap(line, "a column that a function from elsewhere computes")


def _call_other_frame_method(job: JobAnalysis, frame: Frame, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    argument = arguments.get(0, "name", "func")
    if name in VIEWS and argument is not None:
        job.trace.operation_count += 1
        job.trace.assignment_log.assign(job.trace.views, describe_value(argument).lower(), frame)
        return Constant(None)
    if name in {"transform", "pipe"} and argument is not None:
        values = (frame, *arguments.positional[1:])
        frame_arguments = replace(arguments, positional=values)
        return merge_alternatives(
            _call_with_frame(job, alternative, frame_arguments, name) for alternative in list_alternatives(argument)
        )
    if name in ROW_FUNCTIONS:
        record_user_function(job, argument, name, line)
        return job.trace.add_frame(derive_frame((frame,), "step", line, subject=name))
    if name == "writeTo":
        options = {} if (table := arguments.get(0, "table")) is None else {"path": table}
        return Writer(frame, is_stream=False, line=line, options=options, kind="writeTo")
    if name in READ_METHODS:
        returns_rows = name in (DRIVER_METHODS if job.trace.active_sinks else COLLECT_METHODS)
        is_moving = any(node.selects_new_rows for node in list_ancestors(frame))
        is_fixed = frame.op == "aggregate" and frame.functions == {"min"} and not is_moving
        return UnknownValue(name, frozenset({"rows"}) if returns_rows else frozenset(), is_fixed=is_fixed)
    if name in {"foreach", "foreachPartition", "toPandas", "pandas_api", "toJSON", "to_pandas_on_spark"}:
        job.trace.add_gap(line, f"{name}: its effect on rows outside of DataFrames")
        return LegacyValue("rdd") if name == "toJSON" else UnknownValue(name)
    job.trace.add_gap(line, f"{name}: an unknown method of a DataFrame")
    return job.trace.add_frame(derive_frame((frame, *list_frames(arguments.values)), "opaque", line, subject=name))


def _call_with_frame(job: JobAnalysis, function: JobValue, arguments: Arguments, name: str) -> JobValue:
    result = job.call_value(function, arguments)
    if result is not None:
        return result
    job.trace.add_gap(
        arguments.node.lineno, f"{name}({describe_value(function).strip('{}')}): its effect on a DataFrame"
    )
    return job.trace.add_frame(
        derive_frame(tuple(list_frames(arguments.values)), "opaque", arguments.node.lineno, subject=name)
    )


def _make_step(job: JobAnalysis, frame: Frame, name: str, arguments: Arguments, line: int) -> Frame:
    columns: tuple[JobColumn, ...] = ()
    if name == "withColumn":
        alias, column = arguments.get(0, "colName"), arguments.get(1, "col")
        if alias is not None and column is not None:
            columns = (replace(make_column(column), alias=get_text(alias)),)
    elif name == "withColumnRenamed":
        old, new = arguments.get(0, "existing"), arguments.get(1, "new")
        if old is not None and new is not None:
            columns = (replace(make_column(old), alias=get_text(new)),)
    elif name == "withColumns" and isinstance(table := arguments.get(0), DictValue):
        columns = tuple(replace(make_column(value), alias=str(key)) for key, value in table.items.items())
    elif name == "selectExpr":
        columns = tuple(read_column(job.trace, value, line) for value in flatten_lists(arguments.positional))
    else:
        columns = tuple(list_columns(arguments))
    is_empty = name == "limit" and describe_value(arguments.get(0, "num") or UnknownValue()) == "0"
    if (
        name == "limit"
        and not is_empty
        and not any(node.subject in {"orderBy", "sort"} for node in _list_preceding_steps(frame))
    ):
        job.trace.findings.add((line, Construct.LIMIT, "limit"))
    if name in {"sample", "sampleBy", "randomSplit"}:
        job.trace.findings.add((line, Construct.RANDOM, name))
    return job.trace.add_frame(derive_frame((frame,), "step", line, subject=name, columns=columns))


def _find_left_join(frame: Frame) -> Frame | None:
    """Find the left join directly before a DataFrame, whose unmatched rows can still be selected."""
    return next((node for node in _list_preceding_steps(frame) if node.subject == "left join"), None)


def _list_preceding_steps(frame: Frame) -> Iterator[Frame]:
    """Yield a DataFrame and the stateless steps directly before it."""
    while True:
        yield frame
        if frame.op != "step" or len(frame.parents) != 1:
            return
        frame = frame.parents[0]


def _combine_frames(job: JobAnalysis, frame: Frame, name: str, arguments: Arguments, line: int) -> JobValue:
    other = arguments.get(0, "other")
    results: list[JobValue] = []
    for right in list_alternatives(other if other is not None else UnknownValue()):
        if not isinstance(right, Frame):
            right = job.trace.add_frame(Frame(op="unknown", line=line, subject=describe_value(right).strip("{}")))  # noqa: PLW2901
        if name in UNIONS | SUBTRACTIONS:
            is_intersection = name.startswith("intersect")  # like a semi-join, it selects no other rows by itself
            fields: dict[str, object] = {"subject": name, "how": "semi" if is_intersection else ""}
            fields["selects_new_rows"] = name in SUBTRACTIONS and not is_intersection
            results.append(derive_frame((frame, right), "step", line, **fields))
            continue
        condition, how = (
            arguments.get(1, "on"),
            read_join_type(get_text(arguments.get(2, "how") or Constant("inner")) or "?"),
        )
        if frame.is_stream is False or right.is_stream is False:
            subject = "left join" if how == "left" else "join"
            is_moving = how in {"inner", "semi"} and isinstance(condition, JobColumn) and condition.varies
            fields = {"subject": subject, "how": how, "selects_new_rows": how == "anti" or is_moving}
            results.append(derive_frame((frame, right), "step", line, **fields))
            continue
        results.append(derive_frame((frame, right), "join", line, subject=name, how=how, **_read_condition(condition)))
    for result in results:
        if isinstance(result, Frame):
            job.trace.add_frame(result)
    return merge_alternatives(results)


def _read_condition(condition: JobValue | None) -> dict[str, object]:
    """Return the fields of a join's condition: its inequalities, and the columns that must be equal."""
    if condition is None:
        return {}
    columns = [make_column(value) for value in walk_values([condition]) if not isinstance(value, ListValue | OneOf)]
    if any(isinstance(value, UnknownValue) for value in walk_values([condition])):
        return {"selects_new_rows": None}
    return {"comparisons": tuple(pair for column in columns for pair in column.comparisons), "keys": tuple(columns)}


def list_columns(arguments: Arguments) -> Iterator[JobColumn]:
    """Yield the columns in a call's arguments."""
    for value in flatten_lists(arguments.values):
        yield make_column(value)


def list_functions(arguments: Arguments) -> frozenset[str]:
    """Return the aggregate functions in a call of `agg`, given as columns or as a dict."""
    by_column = {name for column in list_columns(arguments) for name in column.functions}
    by_dict = {
        describe_value(name)
        for table in arguments.positional
        if isinstance(table, DictValue)
        for name in table.items.values()
    }
    return frozenset(by_column | by_dict)


def flatten_lists(values: Iterable[JobValue]) -> Iterator[JobValue]:
    """Yield values, with lists flattened."""
    for value in values:
        if isinstance(value, ListValue):
            yield from flatten_lists(value.items)
        elif is_optional(value):
            yield from flatten_lists(list_alternatives(value))
        else:
            yield value


def call_on_group(job: JobAnalysis, group: GroupedFrame, name: str, arguments: Arguments, line: int) -> JobValue:
    """Evaluate a call of a group's method."""
    add_frame = job.trace.add_frame
    if name == "pivot":
        return group
    if name in {"agg", "count", "sum", "avg", "mean", "min", "max", "count_distinct"}:
        _record_named_aggregates(job, arguments, line)
        record_unknown_columns(job, arguments, line)
        functions = frozenset({name}) if name != "agg" else list_functions(arguments)
        frame = derive_frame(
            (group.frame,), "aggregate", group.line, subject="groupBy", keys=group.keys, functions=functions
        )
        return add_frame(frame)
    if name in GROUP_FUNCTIONS:
        record_user_function(job, arguments.get(0, "func"), name, line)
        return add_frame(derive_frame((group.frame,), "aggregate", group.line, subject=name, keys=group.keys))
    if name in STATE_FUNCTIONS:
        return _apply_state_function(job, group, name, arguments, line)
    if name == "cogroup":
        job.trace.add_gap(line, "cogroup: the effect of its function on two groups")
        frames = tuple(list_frames(arguments.values))
        return GroupedFrame(
            add_frame(derive_frame((group.frame, *frames), "opaque", line, subject=name)), group.keys, line
        )
    job.trace.add_gap(line, f"{name}: an unknown method of a group")
    return add_frame(derive_frame((group.frame,), "opaque", line, subject=name))


def _record_named_aggregates(job: JobAnalysis, arguments: Arguments, line: int) -> None:
    """Record order-dependent aggregates given as a dict: `agg({"item": "collect_list"})`."""
    for value in arguments.positional:
        names = [get_text(item) for item in value.items.values()] if isinstance(value, DictValue) else []
        for name in names:
            if name in rules.ORDER:
                job.trace.findings.add((line, Construct.ORDER, name))


def _apply_state_function(job: JobAnalysis, group: GroupedFrame, name: str, arguments: Arguments, line: int) -> Frame:
    timer_names = " ".join(_get_timer_kind(value) for value in arguments.values)
    timer = (
        "processing"
        if "processing" in timer_names
        else "event"
        if "event" in timer_names
        else "none"
        if "none" in timer_names
        else None
    )
    frame = derive_frame((group.frame,), "state-function", line, subject=name, keys=group.keys, timer=timer)
    calls = {
        part.attr
        for node in _list_state_function_nodes(arguments)
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
    }
    if timer == "processing" or calls & PROCESSING_TIME_METHODS:
        job.trace.findings.add((line, Construct.TIMER, name))
    else:
        job.trace.add_gap(line, f"{name}: the state that its function keeps between micro-batches")
    return job.trace.add_frame(frame)


def _list_state_function_nodes(arguments: Arguments) -> Iterator[ast.AST]:
    """Yield the definitions of the functions and objects that manage a state."""
    for value in walk_values(arguments.values):
        if isinstance(value, JobFunction):
            yield value.node
        elif isinstance(value, Instance):
            yield value.job_class.node


def _get_timer_kind(value: JobValue) -> str:
    """Return the timer kind that a value names, `processing`, `event` or `none`; empty for other values."""
    mode = value.path if isinstance(value, ImportedName) else get_text(value) or ""
    mode_name = mode.rpartition(".")[2].lower()
    timeout_kinds = {"processingtimetimeout": "processing", "processingtime": "processing", "eventtimetimeout": "event"}
    return timeout_kinds.get(mode_name, "") or {"eventtime": "event", "notimeout": "none", "none": "none"}.get(
        mode_name, ""
    )


def record_user_function(job: JobAnalysis, function: JobValue | None, name: str, line: int) -> None:
    """Record a function over rows that the file does not define; `FunctionCalls` checks those that it defines."""
    for alternative in list_alternatives(function or UnknownValue()):
        path = alternative.path if isinstance(alternative, ImportedName) else ""
        if isinstance(alternative, BoundFunction):
            record_user_function(job, alternative.function, name, line)
        elif isinstance(alternative, JobFunction | JobClass):
            job.called_nodes.add(alternative.node)
            _record_definition(job, alternative)
        elif isinstance(alternative, Instance):
            _record_definition(job, alternative.job_class)
        elif is_clock(path) or is_random(path) or is_external_service(path):
            job.trace.findings.add((line, Construct.UDF, f"{name} calls {path}"))
        elif not isinstance(alternative, JobColumn) and not (path and is_pure(path)):  # `udf` recorded a column
            job.trace.add_gap(line, f"{name}({describe_value(alternative).strip('{}')}): the values that it computes")


def _record_definition(job: JobAnalysis, value: JobFunction | JobClass) -> None:
    """Record the definition of a function over rows, or of a class of such functions, and the values that it calls."""
    if isinstance(value, JobClass):
        methods = [node for node in value.node.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
        job.trace.user_functions |= {node: f"{value.node.name}.{node.name}" for node in methods}
        return
    if value.node in job.trace.user_functions:
        return
    job.trace.user_functions[value.node] = value.name
    for node in ast.walk(value.node):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and (local := value.scope.find_enclosing(called.id)) is not None:
            record_user_function(job, local, f"{value.name} calls {called.id}", called.lineno)


def record_collected_rows(job: JobAnalysis, name: str, arguments: Arguments, line: int) -> None:
    """Record a call that receives rows collected by the job."""
    values = list(walk_values(arguments.values))
    if name in LOGGING_METHODS or not any("rows" in get_taint(value) for value in values):
        return
    texts = [describe_value(value) for value in values]
    is_insert = any(INSERT_STATEMENT.search(text) and not UPSERT_STATEMENT.search(text) for text in texts)
    if job.trace.active_sinks:
        record_taint(job, values, line)
    if job.trace.active_sinks and is_insert:
        job.trace.active_sinks[-1].insert_lines.add(line)
    elif is_insert:
        job.trace.add_gap(line, f"{name}: whether the next run inserts the collected rows again")
    else:
        job.trace.add_gap(line, f"{name}: its effect on collected rows")
