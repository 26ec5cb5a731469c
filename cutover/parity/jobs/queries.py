"""Findings of each query by its lineage: sources, state and sink, compared with a batch over the same log."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from cutover.parity.jobs.appends import list_batch_findings, list_sink_findings, replaces_previous_results
from cutover.parity.jobs.eventtime import (
    UNIONS,
    JoinBound,
    find_bounded_sides,
    find_loss,
    find_window,
    has_event_time,
    push_down_filters,
)
from cutover.parity.jobs.paths import are_contradictory
from cutover.parity.jobs.readers_and_writers import get_mode, get_option
from cutover.parity.jobs.trace import Finding, ForeachBatchSink, Query, Trace
from cutover.parity.jobs.values import (
    STATEFUL,
    Constant,
    Frame,
    JobColumn,
    JobValue,
    Reader,
    describe_value,
    get_taint,
    list_ancestors,
    list_option_texts,
)
from cutover.parity.rules import Construct

LOG_FORMATS: Mapping[str, str] = {
    "kafka": "startingOffsets",
    "pulsar": "startingOffsets",
    "kinesis": "initialPosition",
    "aws-kinesis": "kinesis.startingPosition",
    "eventhubs": "eventhubs.startingPosition",
}
"""Log formats with the option of a stream's starting position; the default is the end of the log."""

UNREPEATABLE_FORMATS = frozenset({"socket", "rate", "rate-micro-batch"})
"""Formats of streams without a log: their rows cannot be read again."""

START_OPTIONS = (
    *("startingoffsets", "initialposition", "startingposition", "kinesis.startingposition", "kinesis.initialposition"),
    *("eventhubs.startingposition", "eventhubs.startingpositions"),
)

PERIOD_FUNCTIONS = frozenset({"date_trunc", "to_date", "trunc"})
"""Functions that truncate a time to a period."""

SKIP_OPTIONS: Mapping[str, tuple[str, Construct, str]] = {
    "cleansource": ("delete", Construct.DATA_LOSS, "cleanSource"),
    "cloudfiles.includeexistingfiles": ("false", Construct.OFFSETS, "cloudFiles.includeExistingFiles"),
    "failondataloss": ("false", Construct.DATA_LOSS, "failOnDataLoss"),
    "ignorechanges": ("true", Construct.DATA_LOSS, "ignoreChanges"),
    "ignoredeletes": ("true", Construct.DATA_LOSS, "ignoreDeletes"),
    "skipchangecommits": ("true", Construct.DATA_LOSS, "skipChangeCommits"),
    "streaming-skip-overwrite-snapshots": ("true", Construct.DATA_LOSS, "streaming-skip-overwrite-snapshots"),
    "streaming-skip-delete-snapshots": ("true", Construct.DATA_LOSS, "streaming-skip-delete-snapshots"),
}
"""Options by which a stream skips existing, lost or changed records, with the value that enables it."""

REPLACING_FORMATS = frozenset({"memory", "delta", "iceberg", "table"})
"""Formats of sinks that keep only the latest result in complete mode."""

PROCESSING_TIME_REASON = "its timers fire by processing time"


def list_query_findings(trace: Trace) -> Iterator[Finding]:
    """Yield the findings of a job's queries."""
    for frame in trace.frames:
        if frame.op == "source" and frame.source is not None and frame.source.is_stream:
            yield from _list_source_findings(frame, frame.source)
    certain, conditional = set[tuple[int, Finding]](), set[tuple[int, Finding, int]]()
    for query in trace.queries:
        writer = query.writer
        if writer.frame.is_stream is (not writer.is_stream):
            continue  # the other branch of `readStream if streaming else read`: Spark rejects mixing them
        if are_contradictory(writer.frame.branches | query.branches):
            continue
        findings = _list_stream_findings(query) if writer.is_stream else list_batch_findings(trace, query)
        handlers = [branch.line for branch in writer.frame.branches - query.branches if branch.is_handler]
        if handlers:
            conditional |= {(query.line, finding, handlers[0]) for finding in findings}
        else:
            certain |= {(query.line, finding) for finding in findings}
    yield from (finding for _, finding in certain)
    certain_constructs = {(query_line, construct) for query_line, (_, construct, _) in certain}
    for query_line, (line, construct, subject), try_line in conditional:
        if (query_line, construct) not in certain_constructs:
            message = f"{subject}, if the try of line {try_line} fails"
            yield line, Construct.NOT_UNDERSTOOD, subject if construct is Construct.NOT_UNDERSTOOD else message
    yield from _list_shared_checkpoint_findings(trace)
    yield from _list_unstarted_stream_findings(trace)


# -- sources


def _list_source_findings(frame: Frame, reader: Reader) -> Iterator[Finding]:
    """Check the starting position of a stream and the records that it skips, including defaults."""
    options = {name.lower(): value for name, value in reader.options.items()}
    if reader.format in UNREPEATABLE_FORMATS:
        yield frame.line, Construct.NOT_UNDERSTOOD, f"{reader.format}: a source whose rows a batch cannot read"
    is_log = reader.format in LOG_FORMATS or any(name.startswith(("kafka.", "subscribe")) for name in options)
    option = LOG_FORMATS.get(reader.format or "", "startingOffsets")
    start_value = next((options[name] for name in START_OPTIONS if name in options), None)
    if is_log and start_value is not None:
        yield from _list_start_findings(frame, start_value, option)
    elif is_log and not options.keys() & {"startingtimestamp", "startingoffsetsbytimestamp"}:
        if reader.is_complete:
            yield frame.line, Construct.OFFSETS, f"{option} omitted, which is latest"
        else:
            yield frame.line, Construct.NOT_UNDERSTOOD, "options of the source that are not in the file"
    elif not is_log and "latest" in list_option_texts(options.get("startingversion", Constant("")))[0]:
        yield frame.line, Construct.OFFSETS, "startingVersion latest"
    for name, (value, construct, option_name) in SKIP_OPTIONS.items():
        texts, is_open = list_option_texts(options.get(name, Constant("")))
        if value in texts:
            yield frame.line, construct, f"{option_name} {value}"
        elif is_open:
            yield frame.line, Construct.NOT_UNDERSTOOD, f"{option_name}: a value that is not in the file"


def _list_start_findings(frame: Frame, start_value: JobValue, option: str) -> Iterator[Finding]:
    """Check the option that sets the starting position of a stream."""
    texts, is_open = list_option_texts(start_value)
    end = next((text for text in texts if _is_log_end(text, option)), None)
    if "none" in texts:
        yield frame.line, Construct.OFFSETS, f"{option} omitted, which is latest"
    elif end is not None:
        message = ", unless something outside of the file sets it" if is_open else ""
        yield frame.line, Construct.OFFSETS, f"{option} {end[:40]}{message}"
    elif "@latest" in describe_value(start_value).lower():
        yield frame.line, Construct.OFFSETS, f"{option} @latest"
    elif is_open:
        yield frame.line, Construct.NOT_UNDERSTOOD, f"{option}: a value that is not in the file"


def _is_log_end(text: str, option: str) -> bool:
    """Return whether a stream starts at the end of a log, or of one of its partitions."""
    is_end = option == "startingOffsets" and '":-1' in text.replace(" ", "")
    return text == "latest" or is_end or "@latest" in text


# -- streams


def _list_stream_findings(query: Query) -> Iterator[Finding]:
    writer, mode = query.writer, get_mode(query.writer)
    lineage = list_ancestors(writer.frame)
    for frame in lineage:
        if frame.op == "unknown":
            yield frame.line, Construct.NOT_UNDERSTOOD, f"{frame.subject}: the origin of a query's rows"
    yield from list_state_findings(lineage, mode)
    if mode == "?":
        yield query.line, Construct.NOT_UNDERSTOOD, "outputMode: a value that is not in the file"
    elif mode in {"update", "complete"} and not replaces_previous_results(writer, mode, REPLACING_FORMATS):
        overwrites = isinstance(writer.sink, ForeachBatchSink) and "overwrite" in {
            get_mode(item.writer) for item in writer.sink.writes
        }
        message = " and a foreachBatch that overwrites: what did not change is lost" if overwrites else ""
        yield query.line, Construct.OUTPUT_MODE, f"outputMode({mode}){message}"
    if isinstance(writer.sink, ForeachBatchSink):
        yield from list_sink_findings(writer.sink, query)
    elif writer.format == "kafka":
        yield query.line, Construct.NOT_IDEMPOTENT, "a sink of Kafka"
    elif writer.trigger == "continuous":
        yield query.line, Construct.NOT_IDEMPOTENT, "trigger(continuous)"
    yield from _list_checkpoint_findings(query)


def _list_checkpoint_findings(query: Query) -> Iterator[Finding]:
    """Check that a query finds its checkpoint after a restart."""
    writer = query.writer
    location = get_option(writer.options, "checkpointLocation")
    if location is not None and "none" in list_option_texts(location)[0] and not query.has_checkpoint_root:
        yield query.line, Construct.CHECKPOINT, "start without checkpointLocation"
    elif location is not None:
        if get_taint(location) & {"clock", "random"}:
            yield (
                query.line,
                Construct.CHECKPOINT,
                "checkpointLocation from the clock or chance: every start begins from scratch",
            )
    elif query.has_checkpoint_root and writer.is_complete:
        if get_option(writer.options, "queryName") is None:
            yield query.line, Construct.CHECKPOINT, "no queryName below the session's checkpointLocation"
    elif not query.has_checkpoint_root:
        if writer.is_complete:
            yield query.line, Construct.CHECKPOINT, "start without checkpointLocation"
        else:
            yield query.line, Construct.NOT_UNDERSTOOD, "options of the sink that are not in the file"


def list_state_findings(lineage: Sequence[Frame], mode: str) -> Iterator[Finding]:
    """Yield findings of a stream's stateful operations, and of the watermarks before them."""
    states = [frame for frame in lineage if frame.op in STATEFUL and frame.is_stream is not False]
    for state in states:
        ancestors = list_ancestors(state)[1:]
        upstream_state = next((frame for frame in ancestors if frame in states), None)
        if upstream_state is not None:
            yield state.line, Construct.CHAINED, f"{state.subject} after {upstream_state.subject}"
        if state.op == "dedup":
            yield state.line, Construct.DEDUP, state.subject
        if state.op == "aggregate":
            yield from _list_group_findings(state, ancestors, mode)
        elif state.op == "join":
            for join in push_down_filters(lineage, state):
                yield from _list_join_findings(join, ancestors)
    for watermark in (frame for frame in lineage if frame.op == "watermark" and frame.is_stream is not False):
        yield from _list_watermark_findings(watermark, states, lineage, mode)


GROUP_NOTES: Mapping[str, str] = {
    "append": ", which Spark rejects in append mode",
    "complete": ", in complete mode, which keeps every group",
}
"""Effect of each output mode on groups without a watermark."""


def _list_group_findings(state: Frame, frames: Sequence[Frame], mode: str) -> Iterator[Finding]:
    """Check that the groups of an aggregation are removed at some point."""
    watermarks = [frame for frame in frames if frame.op == "watermark"]
    is_opaque = any(frame.op in {"opaque", "unknown"} for frame in frames)
    keys = state.keys or ()
    buckets = sorted({name for key in keys for name in _list_period_functions(key, frames)})
    windows = [window for key in keys if (window := find_window(key, frames)) is not None]
    note = GROUP_NOTES.get(mode, "")
    if buckets and not windows and not watermarks and not is_opaque:
        yield state.line, Construct.UNBOUNDED, f"groups by {', '.join(buckets)} without withWatermark{note}"
    elif windows and not watermarks and not is_opaque:
        yield state.line, Construct.UNBOUNDED, f"windows without withWatermark{note}"
    elif windows and not watermarks:
        yield state.line, Construct.NOT_UNDERSTOOD, "windows of a DataFrame that may have a watermark"
    elif (
        windows and not is_opaque and all(has_event_time(state, watermark, frames) is False for watermark in watermarks)
    ):
        watermarked = frozenset(name for watermark in watermarks for name in watermark.columns[0].names)
        is_changed = any(window.names & watermarked for window in windows)
        time_column = (
            "a column computed from that of withWatermark" if is_changed else "another column than withWatermark"
        )
        yield state.line, Construct.UNBOUNDED, f"windows of {time_column}"


def _list_join_findings(state: Frame, frames: Sequence[Frame]) -> Iterator[Finding]:
    """Check that the rows buffered by a join of streams are removed at some point."""
    is_opaque = any(frame.op in {"opaque", "unknown"} for frame in frames)
    has_marks = all(any(frame.op == "watermark" for frame in list_ancestors(side)) for side in state.parents)
    join_bound = find_bounded_sides(state)
    if join_bound is JoinBound.UNKNOWN or (is_opaque and not has_marks):
        yield state.line, Construct.NOT_UNDERSTOOD, "join of streams: whether its condition bounds the time"
    elif join_bound is JoinBound.NONE or not has_marks:
        yield state.line, Construct.UNBOUNDED, "join of streams without a bound in time"
    elif join_bound is JoinBound.ONE:
        yield state.line, Construct.UNBOUNDED, "join of streams with a bound in time on one side only"


def _list_period_functions(key: JobColumn, frames: Sequence[Frame]) -> frozenset[str]:
    """List the functions that truncate a key to a period, such as an hour or a day."""
    aliased_columns = [
        column for frame in frames for column in frame.columns if column.alias and column.alias in key.names
    ]
    return frozenset().union(*(column.functions & PERIOD_FUNCTIONS for column in (key, *aliased_columns)))


def _list_watermark_findings(
    watermark: Frame, states: Sequence[Frame], lineage: Sequence[Frame], mode: str
) -> Iterator[Finding]:
    """Check whether a watermark drops late rows; if not, explain why."""
    stateful = [state for state in states if watermark in list_ancestors(state)]
    reasons = {state: _explain_idle(state, watermark, mode) for state in stateful}
    watermarks = [
        frame for frame in lineage if frame.op == "watermark"
    ]  # a query has one watermark, the minimum of all
    drops_rows = any(_explain_idle(state, other, mode) == "" for state in stateful for other in watermarks)
    if not stateful or drops_rows:  # without later state a watermark has no effect
        yield from ((watermark.line, Construct.WATERMARK, watermark.subject) for _ in stateful[:1])
        return
    if mode == "?" or any(frame.op == "opaque" and watermark in list_ancestors(frame) for frame in lineage):
        return  # the unknown mode or operation is already a finding
    unknown = [state for state, reason in reasons.items() if reason is None]
    if not unknown:
        reasons_text = "; ".join(dict.fromkeys(reason for reason in reasons.values() if reason))
        yield watermark.line, Construct.IDLE_WATERMARK, f"{watermark.subject}: {reasons_text}"
    elif any(state.op != "state-function" for state in unknown):
        yield watermark.line, Construct.NOT_UNDERSTOOD, f"{watermark.subject}: whether the grouping has its event time"


def _explain_idle(state: Frame, watermark: Frame, mode: str) -> str | None:
    """Explain why a stateful operation drops no late rows; empty if it drops them, None if unknown.

    Source:
        Spark's physical operators: an aggregate drops late rows by the event time among its grouping columns, in
        append and update mode; deduplication and joins drop them by the column of the row; state functions drop them
        only with event-time timers. `UnsupportedOperationChecker` rejects aggregates in append mode
        without an event time among the grouping columns.
    """
    if state.op == "state-function":
        return {"event": "", "processing": PROCESSING_TIME_REASON, "none": "its function has no timer"}.get(
            state.timer or ""
        )
    if state.op != "aggregate":
        return ""
    if mode == "complete":
        return "complete mode keeps every group"
    ancestors = list_ancestors(state)[1:]
    has_time = has_event_time(state, watermark, ancestors)
    if has_time is None or has_time:
        return "" if has_time else None
    append_note = "; in append mode Spark rejects such a query" if mode == "append" else ""
    return _explain_grouping(state, watermark, ancestors) + append_note


def _explain_grouping(state: Frame, watermark: Frame, frames: Sequence[Frame]) -> str:
    """Explain why a grouping has no event time."""
    watermarked = ", ".join(sorted(watermark.columns[0].names))
    keys = state.keys or ()
    if not keys:
        return f"a total over all rows, without the {watermarked} of the watermark"
    for key in keys:
        window = find_window(key, frames)
        if window is not None and not window.is_plain and window.names & watermark.columns[0].names:
            return f"its window is over an expression of {watermarked}, which has no watermark"
    loss = find_loss(state, watermark)
    if loss is not None and any(watermark.columns[0].names & key.names for key in keys):
        effect = (
            "keeps the watermark of its first DataFrame only"
            if loss.subject in UNIONS
            else f"gives {watermarked} another value"
        )
        return f"{loss.subject} of line {loss.line} {effect}"
    names = sorted({name for key in keys for name in _describe_key(key)})
    return f"grouped by {', '.join(names)}, but not by {watermarked} or a window of it"


def _describe_key(key: JobColumn) -> frozenset[str]:
    """Return the names of a grouping column; of an expression its alias or its functions."""
    if key.is_plain and key.names:
        return key.names
    return frozenset({key.alias}) if key.alias else key.functions or frozenset({"an expression"})


def _list_shared_checkpoint_findings(trace: Trace) -> Iterator[Finding]:
    """Yield queries that may run at the same time with the same checkpoint."""
    queries_by_location: dict[str, list[Query]] = defaultdict(list)
    for query in trace.queries:
        option = get_option(query.writer.options, "checkpointLocation") if query.writer.is_stream else None
        if option is not None and describe_value(option) != "?":
            queries_by_location[describe_value(option)].append(query)
    for location, queries in queries_by_location.items():
        for query in queries:
            identity = _get_query_identity(query)
            other_queries = (
                other_query
                for other_query in queries
                if other_query.call_site != query.call_site and _get_query_identity(other_query) != identity
            )
            if any(not are_contradictory(query.branches | other.branches) for other in other_queries):
                location_text = location.replace("{", "").replace("}", "")
                yield query.line, Construct.CHECKPOINT, f"checkpointLocation {location_text} of several queries"


def _get_query_identity(query: Query) -> tuple[object, ...]:
    """Return the identity of a query: call site without iterations, target and sources; a retry is the same query."""
    sources = [frame for frame in list_ancestors(query.writer.frame) if frame.source is not None]
    options = [
        {name: describe_value(value) for name, value in frame.source.options.items()}
        for frame in sources
        if frame.source
    ]
    return [line for line in query.call_site if line >= 0], query.target, [frame.subject for frame in sources], options


def _list_unstarted_stream_findings(trace: Trace) -> Iterator[Finding]:
    """Yield findings of streams that the file defines but does not start."""
    parent_ids = {id(parent) for frame in trace.frames for parent in _list_parents(frame)}
    lineages = [list_ancestors(query.writer.frame) for query in trace.queries]
    started_ids = {id(frame) for lineage in lineages for frame in lineage}
    started_operations = {(frame.op, frame.line, frame.subject) for lineage in lineages for frame in lineage}
    for frame in trace.frames:
        if (
            id(frame) in parent_ids
            or id(frame) in started_ids
            or frame.is_stream is False
            or are_contradictory(frame.branches)
        ):
            continue
        if frame.branches and (frame.op, frame.line, frame.subject) in started_operations:
            continue  # the same statement is started on another branch
        lineage = list_ancestors(frame)
        if frame.is_stream:
            yield from list_state_findings(lineage, "?")
        elif any(_depends_on_stream(item) for item in lineage):
            unknown = next((item for item in lineage if item.op in {"unknown", "opaque"}), frame)
            yield unknown.line, Construct.NOT_UNDERSTOOD, f"{unknown.subject}: whether it is a stream"


def _list_parents(frame: Frame) -> Iterator[Frame]:
    """Yield the parents of a DataFrame, through branch nodes."""
    for parent in frame.parents:
        yield parent
        if parent.op == "branch":
            yield from _list_parents(parent)


def _depends_on_stream(frame: Frame) -> bool:
    """Return whether an operation differs between a stream and a batch; totals by key alone do not."""
    if frame.op == "aggregate":
        return any(find_window(key, list_ancestors(frame)[1:]) for key in frame.keys or ())
    return frame.op in STATEFUL or frame.op == "watermark"
