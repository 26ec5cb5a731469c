"""Each query judged by its own lineage: what its sources, its state and its sink mean for a batch over the same log."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from cutover.parity.jobs.appends import judge_batch
from cutover.parity.jobs.eventtime import UNIONS, JoinBound, bound_join, find_loss, find_window, has_event_time
from cutover.parity.jobs.paths import exclude_each_other
from cutover.parity.jobs.sinks import is_replaced, judge_sink
from cutover.parity.jobs.trace import Found, Query, Sink, Trace
from cutover.parity.jobs.values import (
    STATEFUL,
    Constant,
    Frame,
    JobColumn,
    JobValue,
    Reader,
    describe,
    get_taint,
    list_ancestors,
    list_settings,
)
from cutover.parity.jobs.writers import get_mode, get_option
from cutover.parity.rules import Construct

LOG_FORMATS: Mapping[str, str] = {
    "kafka": "startingOffsets",
    "pulsar": "startingOffsets",
    "kinesis": "initialPosition",
    "aws-kinesis": "kinesis.startingPosition",
    "eventhubs": "eventhubs.startingPosition",
}
"""Logs with the option that says where a stream begins; where it is omitted, at the end."""

STARTS = (
    *("startingoffsets", "initialposition", "startingposition", "kinesis.startingposition", "kinesis.initialposition"),
    *("eventhubs.startingposition", "eventhubs.startingpositions"),
)

BUCKETS = frozenset({"date_trunc", "to_date", "trunc"})
"""Functions that make a period of a time."""

SKIPS: Mapping[str, tuple[str, Construct, str]] = {
    "cleansource": ("delete", Construct.DATA_LOSS, "cleanSource"),
    "cloudfiles.includeexistingfiles": ("false", Construct.OFFSETS, "cloudFiles.includeExistingFiles"),
    "failondataloss": ("false", Construct.DATA_LOSS, "failOnDataLoss"),
    "ignorechanges": ("true", Construct.DATA_LOSS, "ignoreChanges"),
    "ignoredeletes": ("true", Construct.DATA_LOSS, "ignoreDeletes"),
    "skipchangecommits": ("true", Construct.DATA_LOSS, "skipChangeCommits"),
    "streaming-skip-overwrite-snapshots": ("true", Construct.DATA_LOSS, "streaming-skip-overwrite-snapshots"),
    "streaming-skip-delete-snapshots": ("true", Construct.DATA_LOSS, "streaming-skip-delete-snapshots"),
}
"""Options by which a stream skips what its source holds, has lost or has changed, with the value that does it."""

REPLACED = frozenset({"memory", "delta", "iceberg", "table"})
"""Sinks that hold, in complete mode, the newest result alone."""

FORGETFUL = "its timers fire by processing time"


def judge_queries(trace: Trace) -> Iterator[Found]:
    """Yield what is found in the queries of a job."""
    for frame in trace.frames:
        if frame.op == "source" and frame.source is not None and frame.source.is_stream:
            yield from _judge_source(frame, frame.source)
    certain, doubtful = set[tuple[int, Found]](), set[tuple[int, Found, int]]()
    for query in trace.queries:
        writer = query.writer
        if writer.frame.is_stream is (not writer.is_stream):
            continue  # the other arm of `readStream if streaming else read`: Spark refuses to mix them
        if exclude_each_other(writer.frame.arms | query.branches):
            continue
        findings = _judge_stream(query) if writer.is_stream else judge_batch(trace, query)
        handlers = [arm.line for arm in writer.frame.arms - query.branches if arm.is_handler]
        if handlers:
            doubtful |= {(query.line, finding, handlers[0]) for finding in findings}
        else:
            certain |= {(query.line, finding) for finding in findings}
    yield from (finding for _, finding in certain)
    certain_places = {(place, construct) for place, (_, construct, _) in certain}
    for place, (line, construct, subject), handled in doubtful:
        if (place, construct) not in certain_places:
            message = f"{subject}, if the try of line {handled} fails"
            yield line, Construct.NOT_UNDERSTOOD, subject if construct is Construct.NOT_UNDERSTOOD else message
    yield from _judge_checkpoints(trace)
    yield from _judge_open_streams(trace)


# -- sources


def _judge_source(frame: Frame, reader: Reader) -> Iterator[Found]:
    """Check the starting position of a stream and the records that it skips; defaults count as if written."""
    options = {name.lower(): value for name, value in reader.options.items()}
    is_log = reader.format in LOG_FORMATS or any(name.startswith(("kafka.", "subscribe")) for name in options)
    option = LOG_FORMATS.get(reader.format or "", "startingOffsets")
    begins = next((options[name] for name in STARTS if name in options), None)
    if is_log and begins is not None:
        yield from _judge_start(frame, begins, option)
    elif is_log and not options.keys() & {"startingtimestamp", "startingoffsetsbytimestamp"}:
        if reader.is_complete:
            yield frame.line, Construct.OFFSETS, f"{option} omitted, which is latest"
        else:
            yield frame.line, Construct.NOT_UNDERSTOOD, "options of the source that are not in the file"
    elif not is_log and "latest" in list_settings(options.get("startingversion", Constant("")))[0]:
        yield frame.line, Construct.OFFSETS, "startingVersion latest"
    for name, (value, construct, spelled) in SKIPS.items():
        texts, is_open = list_settings(options.get(name, Constant("")))
        if value in texts:
            yield frame.line, construct, f"{spelled} {value}"
        elif is_open:
            yield frame.line, Construct.NOT_UNDERSTOOD, f"{spelled}: a value that is not in the file"


def _judge_start(frame: Frame, begins: JobValue, option: str) -> Iterator[Found]:
    """Check the option that sets the starting position of a stream."""
    texts, is_open = list_settings(begins)
    end = next((text for text in texts if _is_end(text, option)), None)
    if end is not None:
        message = ", unless something outside of the file says otherwise" if is_open else ""
        yield frame.line, Construct.OFFSETS, f"{option} {end[:40]}{message}"
    elif "@latest" in describe(begins).lower():
        yield frame.line, Construct.OFFSETS, f"{option} @latest"
    elif is_open:
        yield frame.line, Construct.NOT_UNDERSTOOD, f"{option}: a value that is not in the file"


def _is_end(text: str, option: str) -> bool:
    """Return whether an option says that a stream begins at the end of a log, or of one of its partitions."""
    is_end = option == "startingOffsets" and '":-1' in text.replace(" ", "")
    return text == "latest" or is_end or "@latest" in text


# -- streams


def _judge_stream(query: Query) -> Iterator[Found]:
    writer, mode = query.writer, get_mode(query.writer)
    lineage = list_ancestors(writer.frame)
    for frame in lineage:
        if frame.op == "unknown":
            yield frame.line, Construct.NOT_UNDERSTOOD, f"{frame.what}: where the rows of a query come from"
    yield from judge_state(lineage, mode)
    if mode == "?":
        yield query.line, Construct.NOT_UNDERSTOOD, "outputMode: a value that is not in the file"
    elif mode in {"update", "complete"} and not is_replaced(writer, mode, REPLACED):
        overwrites = isinstance(writer.sink, Sink) and "overwrite" in {
            get_mode(item.writer) for item in writer.sink.writes
        }
        message = " and a foreachBatch that overwrites: what did not change is lost" if overwrites else ""
        yield query.line, Construct.OUTPUT_MODE, f"outputMode({mode}){message}"
    if isinstance(writer.sink, Sink):
        yield from judge_sink(writer.sink, query)
    elif writer.format == "kafka":
        yield query.line, Construct.NOT_IDEMPOTENT, "a sink of Kafka"
    elif writer.trigger == "continuous":
        yield query.line, Construct.NOT_IDEMPOTENT, "trigger(continuous)"
    yield from _judge_checkpoint(query)


def _judge_checkpoint(query: Query) -> Iterator[Found]:
    """Check that a query finds its checkpoint after a restart."""
    writer = query.writer
    place = get_option(writer.options, "checkpointLocation")
    if place is not None:
        if get_taint(place) & {"clock", "random"}:
            yield query.line, Construct.CHECKPOINT, "checkpointLocation by the clock or chance: every start begins anew"
    elif query.has_root and writer.is_complete:
        if get_option(writer.options, "queryName") is None:
            yield query.line, Construct.CHECKPOINT, "no queryName below the session's checkpointLocation"
    elif not query.has_root:
        if writer.is_complete:
            yield query.line, Construct.CHECKPOINT, "start without checkpointLocation"
        else:
            yield query.line, Construct.NOT_UNDERSTOOD, "options of the sink that are not in the file"


def judge_state(lineage: Sequence[Frame], mode: str) -> Iterator[Found]:
    """Find stateful operations of a stream, and the effect of its watermarks on them."""
    states = [frame for frame in lineage if frame.op in STATEFUL and frame.is_stream is not False]
    for state in states:
        parent = list_ancestors(state)[1:]
        lower = next((frame for frame in parent if frame in states), None)
        if lower is not None:
            yield state.line, Construct.CHAINED, f"{state.what} after {lower.what}"
        if state.op == "dedup":
            yield state.line, Construct.DEDUP, state.what
        if state.op == "aggregate":
            yield from _judge_groups(state, parent)
        elif state.op == "join":
            yield from _judge_join(state, parent)
    for mark in (frame for frame in lineage if frame.op == "watermark" and frame.is_stream is not False):
        yield from _judge_watermark(mark, states, lineage, mode)


def _judge_groups(state: Frame, frames: Sequence[Frame]) -> Iterator[Found]:
    """Check that the groups of an aggregation are removed at some point."""
    marks = [frame for frame in frames if frame.op == "watermark"]
    is_opaque = any(frame.op in {"opaque", "unknown"} for frame in frames)
    keys = state.keys or ()
    buckets = sorted({name for key in keys for name in _list_buckets(key, frames)})
    windows = [window for key in keys if (window := find_window(key, frames)) is not None]
    if buckets and not windows and not marks and not is_opaque:
        yield state.line, Construct.UNBOUNDED, f"groups by {', '.join(buckets)} without withWatermark"
    elif windows and not marks and not is_opaque:
        yield state.line, Construct.UNBOUNDED, "windows without withWatermark"
    elif windows and not marks:
        yield state.line, Construct.NOT_UNDERSTOOD, "windows of a DataFrame that may have a watermark"
    elif windows and not is_opaque and all(has_event_time(state, mark, frames) is False for mark in marks):
        marked = frozenset(name for mark in marks for name in mark.columns[0].names)
        is_changed = any(window.names & marked for window in windows)
        other = "a column computed from that of withWatermark" if is_changed else "another column than withWatermark"
        yield state.line, Construct.UNBOUNDED, f"windows of {other}"


def _judge_join(state: Frame, frames: Sequence[Frame]) -> Iterator[Found]:
    """Check that the rows buffered by a join of streams are removed at some point."""
    is_opaque = any(frame.op in {"opaque", "unknown"} for frame in frames)
    has_marks = all(any(frame.op == "watermark" for frame in list_ancestors(side)) for side in state.parents)
    join_bound = bound_join(state)
    if join_bound is JoinBound.UNKNOWN or (is_opaque and not has_marks):
        yield state.line, Construct.NOT_UNDERSTOOD, "join of streams: whether its condition bounds the time"
    elif join_bound is JoinBound.NONE or not has_marks:
        yield state.line, Construct.UNBOUNDED, "join of streams without a bound in time"
    elif join_bound is JoinBound.ONE:
        yield state.line, Construct.UNBOUNDED, "join of streams with a bound in time on one side only"


def _list_buckets(key: JobColumn, frames: Sequence[Frame]) -> frozenset[str]:
    """Return the functions that make a key a period of time, such as an hour or a day."""
    named = [column for frame in frames for column in frame.columns if column.alias and column.alias in key.names]
    return frozenset().union(*(column.functions & BUCKETS for column in (key, *named)))


def _judge_watermark(mark: Frame, states: Sequence[Frame], lineage: Sequence[Frame], mode: str) -> Iterator[Found]:
    """Check whether a watermark drops late rows; if not, state why."""
    behind = [state for state in states if mark in list_ancestors(state)]
    reasons = {state: _explain_idle(state, mark, mode) for state in behind}
    marks = [frame for frame in lineage if frame.op == "watermark"]  # one query has one watermark, the least of all
    drops = any(_explain_idle(state, other, mode) == "" for state in behind for other in marks)
    if not behind or drops:  # without state behind it a watermark changes nothing
        yield from ((mark.line, Construct.WATERMARK, mark.what) for _ in behind[:1])
        return
    if mode == "?" or any(frame.op == "opaque" and mark in list_ancestors(frame) for frame in lineage):
        return  # the mode, or what hides the columns, is named already
    unknown = [state for state, reason in reasons.items() if reason is None]
    if not unknown:
        why = "; ".join(dict.fromkeys(reason for reason in reasons.values() if reason))
        yield mark.line, Construct.IDLE_WATERMARK, f"{mark.what}: {why}"
    elif any(state.op != "state-function" for state in unknown):
        yield mark.line, Construct.NOT_UNDERSTOOD, f"{mark.what}: whether the grouping has its event time"


def _explain_idle(state: Frame, mark: Frame, mode: str) -> str | None:
    """Return why a state drops nothing behind a watermark; empty if it drops late rows; None if that is not known.

    Source:
        Spark's physical operators: an aggregate drops late rows by the event time among its grouping columns, in
        append and update mode; deduplication and joins drop them by the column of the row; functions over state drop
        them with timers of the event time alone. `UnsupportedOperationChecker` rejects aggregates in append mode
        without an event time among the grouping columns.
    """
    if state.op == "state-function":
        return {"event": "", "processing": FORGETFUL, "none": "its function has no timer"}.get(state.timer or "")
    if state.op != "aggregate":
        return ""
    if mode == "complete":
        return "complete mode keeps every group"
    parent = list_ancestors(state)[1:]
    has_time = has_event_time(state, mark, parent)
    if has_time is None or has_time:
        return "" if has_time else None
    rejected = "; in append mode Spark rejects such a query" if mode == "append" else ""
    return _explain_grouping(state, mark, parent) + rejected


def _explain_grouping(state: Frame, mark: Frame, frames: Sequence[Frame]) -> str:
    """Return why a grouping has no event time."""
    marked = ", ".join(sorted(mark.columns[0].names))
    keys = state.keys or ()
    if not keys:
        return f"a total over all rows, without the {marked} of the watermark"
    for key in keys:
        window = find_window(key, frames)
        if window is not None and not window.is_plain and window.names & mark.columns[0].names:
            return f"its window is over an expression of {marked}, which has no watermark"
    loss = find_loss(state, mark)
    if loss is not None and any(mark.columns[0].names & key.names for key in keys):
        how = (
            "keeps the watermark of its first DataFrame only"
            if loss.what in UNIONS
            else f"gives {marked} another value"
        )
        return f"{loss.what} of line {loss.line} {how}"
    names = sorted({name for key in keys for name in (key.names or {key.alias or "an expression"})})
    return f"grouped by {', '.join(names)}, without the {marked} of the watermark"


def _judge_checkpoints(trace: Trace) -> Iterator[Found]:
    """Yield queries that may run at the same time with one checkpoint."""
    by_place: dict[str, list[Query]] = defaultdict(list)
    for query in trace.queries:
        option = get_option(query.writer.options, "checkpointLocation") if query.writer.is_stream else None
        if option is not None and describe(option) != "?":
            by_place[describe(option)].append(query)
    for place, queries in by_place.items():
        for query in queries:
            described = _describe_query(query)
            others = (
                other_query
                for other_query in queries
                if other_query.site != query.site and _describe_query(other_query) != described
            )
            if any(not exclude_each_other(query.branches | other.branches) for other in others):
                message = place.replace("{", "").replace("}", "")
                yield query.line, Construct.CHECKPOINT, f"checkpointLocation {message} of several queries"


def _describe_query(query: Query) -> tuple[object, ...]:
    """Return the identity of a query: its call site without rounds, target and sources; a retry is the same query."""
    sources = [frame for frame in list_ancestors(query.writer.frame) if frame.source is not None]
    options = [
        {name: describe(value) for name, value in frame.source.options.items()} for frame in sources if frame.source
    ]
    return [line for line in query.site if line >= 0], query.target, [frame.what for frame in sources], options


def _judge_open_streams(trace: Trace) -> Iterator[Found]:
    """Find constructs in streams that the file defines and another file starts."""
    used = {id(parent) for frame in trace.frames for parent in _list_parents(frame)}
    lineages = [list_ancestors(query.writer.frame) for query in trace.queries]
    started = {id(frame) for lineage in lineages for frame in lineage}
    places = {(frame.op, frame.line, frame.what) for lineage in lineages for frame in lineage}
    for frame in trace.frames:
        if id(frame) in used or id(frame) in started or frame.is_stream is False or exclude_each_other(frame.arms):
            continue
        if frame.arms and (frame.op, frame.line, frame.what) in places:
            continue  # what the same statement makes by another arm is started; this arm does not lead there
        lineage = list_ancestors(frame)
        if frame.is_stream:
            yield from judge_state(lineage, "?")
        elif any(_depends_on_stream(item) for item in lineage):
            unknown = next((item for item in lineage if item.op in {"unknown", "opaque"}), frame)
            yield unknown.line, Construct.NOT_UNDERSTOOD, f"{unknown.what}: whether it is a stream"


def _list_parents(frame: Frame) -> Iterator[Frame]:
    """Yield what a DataFrame is made of, behind the arms by which it came."""
    for parent in frame.parents:
        yield parent
        if parent.op == "arm":
            yield from _list_parents(parent)


def _depends_on_stream(frame: Frame) -> bool:
    """Return whether an operation differs between a stream and a batch; totals by key alone do not."""
    if frame.op == "aggregate":
        return any(find_window(key, list_ancestors(frame)[1:]) for key in frame.keys or ())
    return frame.op in STATEFUL or frame.op == "watermark"
