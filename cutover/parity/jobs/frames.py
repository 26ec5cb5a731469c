"""Methods of DataFrames and groups: each yields the operation that it stands for."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from cutover.parity import sql
from cutover.parity.jobs.sources import note_taint
from cutover.parity.jobs.sqltext import parse_column, read_condition
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import (
    Constant,
    Frame,
    Grouped,
    Imported,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    Legacy,
    Listing,
    OneOf,
    Reader,
    Table,
    UnknownValue,
    Writer,
    alternatives,
    choose,
    derive,
    describe,
    get_taint,
    get_text,
    make_column,
    merge_columns,
    walk,
)
from cutover.parity.jobs.walk import Walk
from cutover.parity.rules import Construct

STEPS = frozenset(
    {"select", "selectExpr", "withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed", "drop", "alias"}
    | {"cache", "persist", "unpersist", "repartition", "repartitionByRange", "coalesce", "hint", "toDF", "fillna"}
    | {"dropna", "fill", "replace", "sort", "orderBy", "sortWithinPartitions", "limit", "sample", "sampleBy", "offset"}
    | {"checkpoint", "localCheckpoint", "unpivot", "melt", "observe", "to", "describe", "summary", "randomSplit"}
    | {"withMetadata", "colRegex"}
)
"""Methods that yield rows of one DataFrame without state."""
UNIONS = frozenset({"union", "unionAll", "unionByName", "crossJoin"})
SUBTRACTIONS = frozenset({"exceptAll", "subtract", "intersect", "intersectAll"})
DEDUPLICATIONS = frozenset({"dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark", "distinct"})
VIEWS = frozenset(
    {"createOrReplaceTempView", "createTempView", "registerTempTable", "createGlobalTempView"}
    | {"createOrReplaceGlobalTempView"}
)
LOOKS = frozenset(
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
"""Methods that look at rows and write none."""
COLLECTS = frozenset({"collect", "toLocalIterator"})
VALUES = COLLECTS | {"take", "head", "first", "tail", "count"}
"""Methods that give rows, or their number, to the driver."""

LOGS = frozenset({"info", "debug", "warning", "warn", "error", "exception", "critical", "log", "print"})
INSERT = re.compile(r"\binsert\b", re.IGNORECASE)
UPSERT = re.compile(r"on conflict|on duplicate key|insert ignore|\bmerge\b|where not exists", re.IGNORECASE)
ROW_FUNCTIONS = frozenset({"mapInPandas", "mapInArrow"})
CLOCK_TIMERS = frozenset({"setTimeoutDuration", "getCurrentProcessingTimeInMs", "getCurrentProcessingTimeMs"})
"""Methods by which a function over a state goes by the clock."""

GROUP_FUNCTIONS = frozenset({"applyInPandas", "applyInArrow", "apply"})
STATE_FUNCTIONS = frozenset(
    {"applyInPandasWithState", "transformWithState", "transformWithStateInPandas", "flatMapGroupsWithState"}
    | {"mapGroupsWithState"}
)


def has_rows(value: JobValue) -> bool:
    """Return whether a value holds a DataFrame, or something that makes or takes one."""
    return any(isinstance(each, Frame | Reader | Writer | Grouped) for each in walk([value]))


def list_frames(values: Iterable[JobValue]) -> Iterator[Frame]:
    """Yield the DataFrames in values, those of groups and writers too."""
    for value in walk(values):
        if isinstance(value, Frame):
            yield value
        elif isinstance(value, Grouped | Writer):
            yield value.frame


def call_on_frame(job: Walk, frame: Frame, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Return what a method of a DataFrame yields."""
    keep = job.trace.keep
    columns = tuple(list_columns(arguments))
    note_taint(job, columns, line)
    if name in STEPS:
        return _make_step(job, frame, name, arguments, line)
    if name in {"where", "filter"}:
        text = get_text(arguments.get(0, "condition") or UnknownValue())
        job.trace.check_sql(text, line)
        condition = parse_column(text) if text is not None else merge_columns(columns)
        subject = read_condition(text) if text is not None else ""
        if "isNull" in condition.functions and (joined := _find_left_join(frame)) is not None:
            frame = replace(frame, parents=joined.parents, what=joined.what, is_bounded=True)
        return keep(
            derive((frame,), "filter", line, what=subject, is_bounded=condition.varies or bool(condition.taint))
        )
    if name == "withWatermark":
        of = make_column(arguments.get(0, "eventTime") or UnknownValue())
        return keep(derive((frame,), "watermark", line, what=name, columns=(of,)))
    if name in {"groupBy", "groupby", "rollup", "cube", "groupByKey"}:
        keys = columns if arguments.is_complete and name != "groupByKey" else None
        return Grouped(frame, keys, line)
    if name in DEDUPLICATIONS:
        return keep(derive((frame,), "dedup", line, what=name, keys=columns if arguments.is_complete else None))
    if name == "agg":
        return keep(derive((frame,), "aggregate", line, what=name, functions=list_functions(arguments)))
    if name in {"join", "joinWith"} | UNIONS | SUBTRACTIONS:
        return _combine(job, frame, name, arguments, line)
    return _call_on_frame_further(job, frame, name, arguments, line)


def _call_on_frame_further(job: Walk, frame: Frame, name: str, arguments: Arguments, line: int) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    argument = arguments.get(0, "name", "func")
    if name in VIEWS and argument is not None:
        job.trace.steps += 1
        job.trace.assignment_log.assign(job.trace.views, describe(argument).lower(), frame)
        return Constant(None)
    if name in {"transform", "pipe"} and argument is not None:
        values = (frame, *arguments.positional[1:])
        given = replace(arguments, positional=values)
        return choose(_call_with_frame(job, alternative, given, name) for alternative in alternatives(argument))
    if name in ROW_FUNCTIONS:
        note_user_function(job, argument, name, line)
        return job.trace.keep(derive((frame,), "step", line, what=name))
    if name == "writeTo":
        options = {} if (table := arguments.get(0, "table")) is None else {"path": table}
        return Writer(frame, is_stream=False, line=line, options=options, kind="writeTo")
    if name in LOOKS:
        is_rows = name in (VALUES if job.trace.sinks else COLLECTS)
        return UnknownValue(name, frozenset({"rows"}) if is_rows else frozenset())
    if name in {"foreach", "foreachPartition", "toPandas", "pandas_api", "toJSON", "to_pandas_on_spark"}:
        job.trace.add_gap(line, f"{name}: what happens to rows outside of DataFrames")
        return Legacy("rdd") if name == "toJSON" else UnknownValue(name)
    job.trace.add_gap(line, f"{name}: no method of DataFrames that is known here")
    return job.trace.keep(derive((frame, *list_frames(arguments.values)), "opaque", line, what=name))


def _call_with_frame(job: Walk, function: JobValue, arguments: Arguments, name: str) -> JobValue:
    if isinstance(function, JobFunction):
        return job.call_function(function, arguments)
    job.trace.add_gap(arguments.node.lineno, f"{name}({describe(function).strip('{}')}): what it does to a DataFrame")
    return job.trace.keep(derive(tuple(list_frames(arguments.values)), "opaque", arguments.node.lineno, what=name))


def _make_step(job: Walk, frame: Frame, name: str, arguments: Arguments, line: int) -> Frame:
    columns: tuple[JobColumn, ...] = ()
    if name == "withColumn":
        alias, column = arguments.get(0, "colName"), arguments.get(1, "col")
        if alias is not None and column is not None:
            columns = (replace(make_column(column), alias=get_text(alias)),)
    elif name == "withColumnRenamed":
        old, new = arguments.get(0, "existing"), arguments.get(1, "new")
        if old is not None and new is not None:
            columns = (replace(make_column(old), alias=get_text(new)),)
    elif name == "withColumns" and isinstance(table := arguments.get(0), Table):
        columns = tuple(replace(make_column(value), alias=str(key)) for key, value in table.items.items())
    elif name == "selectExpr":
        texts = [get_text(value) for value in spread(arguments.positional)]
        for text in texts:
            job.trace.check_sql(text, line)
        columns = tuple(parse_column(text or "") for text in texts)
    else:
        columns = tuple(list_columns(arguments))
    is_empty = name == "limit" and describe(arguments.get(0, "num") or UnknownValue()) == "0"
    if name == "limit" and not is_empty and not any(node.what in {"orderBy", "sort"} for node in _list_near(frame)):
        job.trace.found.add((line, Construct.LIMIT, "limit"))
    if name in {"sample", "sampleBy", "randomSplit"}:
        job.trace.found.add((line, Construct.RANDOM, name))
    return job.trace.keep(derive((frame,), "step", line, what=name, columns=columns))


def _find_left_join(frame: Frame) -> Frame | None:
    """Return the left join right before a DataFrame, if the rows that it did not match can still be selected."""
    return next((node for node in _list_near(frame) if node.what == "left join"), None)


def _list_near(frame: Frame) -> Iterator[Frame]:
    """Yield a DataFrame and the steps right before it that keep its order."""
    while True:
        yield frame
        if frame.op != "step" or len(frame.parents) != 1:
            return
        frame = frame.parents[0]


def _combine(job: Walk, frame: Frame, name: str, arguments: Arguments, line: int) -> JobValue:
    other = arguments.get(0, "other")
    results: list[JobValue] = []
    for right in alternatives(other if other is not None else UnknownValue()):
        if not isinstance(right, Frame):
            right = job.trace.keep(Frame(op="unknown", line=line, what=describe(right).strip("{}")))  # noqa: PLW2901
        if name in UNIONS | SUBTRACTIONS:
            is_bounded = name in SUBTRACTIONS
            results.append(derive((frame, right), "step", line, what=name, is_bounded=is_bounded))
            continue
        on, how = arguments.get(1, "on"), get_text(arguments.get(2, "how") or Constant("inner")) or ""
        if frame.is_stream is False or right.is_stream is False:
            subject = "left join" if how.startswith("left") and "anti" not in how else "join"
            results.append(derive((frame, right), "step", line, what=subject, is_bounded="anti" in how))
            continue
        results.append(derive((frame, right), "join", line, what=name, **_read_condition(on)))
    for result in results:
        if isinstance(result, Frame):
            job.trace.keep(result)
    return choose(results)


def _read_condition(on: JobValue | None) -> dict[str, object]:
    """Return what a join's condition says: the inequalities in it, and the columns that must be equal."""
    if on is None:
        return {}
    columns = [make_column(value) for value in walk([on]) if not isinstance(value, Listing | OneOf)]
    if any(isinstance(value, UnknownValue) for value in walk([on])):
        return {"is_bounded": None}
    return {"comparisons": tuple(pair for column in columns for pair in column.comparisons), "keys": tuple(columns)}


def list_columns(arguments: Arguments) -> Iterator[JobColumn]:
    """Yield the columns that a call names."""
    for value in spread(arguments.values):
        yield make_column(value)


def list_functions(arguments: Arguments) -> frozenset[str]:
    """Return the aggregates that a call of `agg` names, as columns or by a dict."""
    by_column = {name for column in list_columns(arguments) for name in column.functions}
    by_dict = {
        describe(name) for table in arguments.positional if isinstance(table, Table) for name in table.items.values()
    }
    return frozenset(by_column | by_dict)


def spread(values: Iterable[JobValue]) -> Iterator[JobValue]:
    """Yield values, those of lists one by one."""
    for value in values:
        if isinstance(value, Listing):
            yield from spread(value.items)
        else:
            yield value


def call_on_group(job: Walk, group: Grouped, name: str, arguments: Arguments, line: int) -> JobValue:
    """Return what a method of a group yields."""
    keep = job.trace.keep
    if name == "pivot":
        return group
    if name in {"agg", "count", "sum", "avg", "mean", "min", "max", "count_distinct"}:
        _note_named_aggregates(job, arguments, line)
        functions = frozenset({name}) if name != "agg" else list_functions(arguments)
        frame = derive((group.frame,), "aggregate", group.line, what="groupBy", keys=group.keys, functions=functions)
        return keep(frame)
    if name in GROUP_FUNCTIONS:
        note_user_function(job, arguments.get(0, "func"), name, line)
        return keep(derive((group.frame,), "aggregate", group.line, what=name, keys=group.keys))
    if name in STATE_FUNCTIONS:
        return _keep_state(job, group, name, arguments, line)
    if name == "cogroup":
        job.trace.add_gap(line, "cogroup: what its function makes of two groups")
        frames = tuple(list_frames(arguments.values))
        return Grouped(keep(derive((group.frame, *frames), "opaque", line, what=name)), group.keys, line)
    job.trace.add_gap(line, f"{name}: no method of groups that is known here")
    return keep(derive((group.frame,), "opaque", line, what=name))


def _note_named_aggregates(job: Walk, arguments: Arguments, line: int) -> None:
    """Note `agg({"item": "collect_list"})`."""
    for value in arguments.positional:
        names = [get_text(item) for item in value.items.values()] if isinstance(value, Table) else []
        for name in names:
            if name in sql.ORDER:
                job.trace.found.add((line, Construct.ORDER, name))


def _keep_state(job: Walk, group: Grouped, name: str, arguments: Arguments, line: int) -> Frame:
    message = " ".join(_name_timer(value) for value in arguments.values)
    timer = (
        "processing"
        if "processing" in message
        else "event"
        if "event" in message
        else "none"
        if "none" in message
        else None
    )
    frame = derive((group.frame,), "state-function", line, what=name, keys=group.keys, timer=timer)
    calls = {part.attr for node in _list_nodes(arguments) for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    if timer == "processing" or calls & CLOCK_TIMERS:
        job.trace.found.add((line, Construct.TIMER, name))
    else:
        job.trace.add_gap(line, f"{name}: what its function keeps between micro-batches")
    return job.trace.keep(frame)


def _list_nodes(arguments: Arguments) -> Iterator[ast.AST]:
    """Yield the definitions of the functions and objects that keep a state."""
    for value in walk(arguments.values):
        if isinstance(value, JobFunction):
            yield value.node
        elif isinstance(value, Instance):
            yield value.of.node


def _name_timer(value: JobValue) -> str:
    """Return `processing`, `event` or `none` if a value says when a state's timer fires."""
    message = value.path if isinstance(value, Imported) else get_text(value) or ""
    end = message.rpartition(".")[2].lower()
    timeout_kinds = {"processingtimetimeout": "processing", "processingtime": "processing", "eventtimetimeout": "event"}
    return timeout_kinds.get(end, "") or {"eventtime": "event", "notimeout": "none", "none": "none"}.get(end, "")


def note_user_function(job: Walk, function: JobValue | None, name: str, line: int) -> None:
    """Note a function over rows that is not in the file; one that is there is read as functions of users are."""
    for alternative in alternatives(function or UnknownValue()):
        if isinstance(alternative, JobFunction | JobClass):
            job.called.add(alternative.node)
        elif not isinstance(alternative, JobColumn):  # a function that `udf` was applied to
            job.trace.add_gap(line, f"{name}({describe(alternative).strip('{}')}): what it computes")


def note_collected_rows(job: Walk, name: str, arguments: Arguments, line: int) -> None:
    """Record a call that receives rows collected by the job."""
    values = list(walk(arguments.values))
    if name in LOGS or not any("rows" in get_taint(value) for value in values):
        return
    texts = [describe(value) for value in values]
    is_insert = any(INSERT.search(text) and not UPSERT.search(text) for text in texts)
    if job.trace.sinks:
        note_taint(job, values, line)
    if job.trace.sinks and is_insert:
        job.trace.sinks[-1].inserts.add(line)
    elif is_insert:
        job.trace.add_gap(line, f"{name}: whether the next run inserts again what was collected")
    else:
        job.trace.add_gap(line, f"{name}: what it does with rows that were collected")
