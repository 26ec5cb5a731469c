"""Functions of foreachBatch: duplicate writes after a restart, lost rows, and totals of a single micro-batch."""

from collections.abc import Iterator

from cutover.parity.jobs.appends import creates_target, is_certain, list_removals
from cutover.parity.jobs.eventtime import UNIONS
from cutover.parity.jobs.trace import Finding, ForeachBatchSink, Query, Removal, normalize_target
from cutover.parity.jobs.values import Constant, Frame, Writer, describe_value, list_ancestors
from cutover.parity.jobs.writers import BATCH_ID, get_mode, get_option, is_idempotent_append, is_upsert
from cutover.parity.rules import Construct

BATCH_ID_PARAMETER = normalize_target(f"{{{BATCH_ID}}}")
ADDITIVE = frozenset(
    {"count", "sum", "avg", "mean", "count_distinct", "countdistinct", "approx_count_distinct", "sum_distinct"}
    | {"stddev", "variance", "collect_list", "collect_set", "percentile_approx", "median", "count_if"}
)
"""Aggregates whose values over micro-batches must be combined to cover all records."""

RANKINGS = frozenset({"row_number", "rank", "dense_rank", "percent_rank"})
NEIGHBOURS = frozenset({"lag", "lead", "first", "last", "first_value", "last_value", "nth_value", "ntile", "cume_dist"})


def list_sink_findings(sink: ForeachBatchSink, query: Query) -> Iterator[Finding]:
    """Yield writes of a foreachBatch function that duplicate rows, lose rows or depend on a single micro-batch."""
    for write in sink.writes:
        lineage = list_ancestors(write.writer.frame)
        yield from _list_write_findings(write, lineage, sink, query)
        if not sink.has_merge:
            yield from _list_selection_findings(lineage, sink)
        yield from _list_total_findings(lineage, sink)
    for merged in sink.merge_sources:
        yield from _list_total_findings(list_ancestors(merged), sink)
    for line in sink.swallowing_lines:
        yield line, Construct.DATA_LOSS, "foreachBatch that continues after a failed write"
    for line, subject in sink.repeated_merges:
        yield line, Construct.NOT_IDEMPOTENT, subject
    for line in sink.insert_lines:
        yield line, Construct.NOT_IDEMPOTENT, "INSERT of rows that foreachBatch collected"
    if not (sink.writes or sink.has_merge or sink.insert_lines or sink.has_gap):
        yield query.line, Construct.NOT_UNDERSTOOD, "foreachBatch: the effect of its function on the rows"


def _list_write_findings(write: Query, lineage: list[Frame], sink: ForeachBatchSink, query: Query) -> Iterator[Finding]:
    """Yield appends that a retried micro-batch duplicates, and tables that each micro-batch overwrites."""
    mode = get_mode(write.writer)
    if creates_target(write) or (mode == "append" and is_upsert(write.writer)):
        return
    if mode == "append":
        yield from _list_append_findings(write, lineage, sink, query)
    elif mode == "?":
        yield write.line, Construct.NOT_UNDERSTOOD, "mode: a value that is not in the file"
    elif mode == "overwrite":
        yield from _list_replacement_findings(write, lineage, sink, query)


def _list_append_findings(
    write: Query, lineage: list[Frame], sink: ForeachBatchSink, query: Query
) -> Iterator[Finding]:
    """Yield an append that a retried micro-batch duplicates."""
    removals = [removal for removal in list_removals(sink.removals, (), write) if is_certain(removal, write)]
    is_idempotent = is_idempotent_append(write.writer)
    has_version = get_option(write.writer.options, "txnVersion") is not None
    if is_idempotent or any(_deletes_same_micro_batch(removal) for removal in removals):
        return
    if any(isinstance(removal, Removal) and removal.condition is None for removal in removals):
        yield from _list_replacement_findings(write, lineage, sink, query)
    elif is_idempotent is None:
        yield write.line, Construct.NOT_UNDERSTOOD, "txnVersion: whether it is the number of the micro-batch"
    else:
        message = ", with txnAppId and txnVersion that do not identify the micro-batch" if has_version else ""
        yield query.line, Construct.NOT_IDEMPOTENT, f"foreachBatch that appends{message}"


def _deletes_same_micro_batch(step: object) -> bool:
    """Return whether a removal deletes the rows of the same micro-batch, which makes the append idempotent."""
    return isinstance(step, Removal) and BATCH_ID_PARAMETER in normalize_target(step.condition or "")


def _list_replacement_findings(
    write: Query, lineage: list[Frame], sink: ForeachBatchSink, query: Query
) -> Iterator[Finding]:
    """Yield a target that each micro-batch replaces in append mode; `replaces_previous_results` covers other modes."""
    target = write.target
    is_fixed = bool(target) and BATCH_ID_PARAMETER not in target
    has_batch = any(batch in lineage for batch in sink.micro_batches)
    keeps_previous_rows = any(
        frame.op in {"unknown", "opaque"} or _includes_previous_rows(frame, target) for frame in lineage
    )
    if is_fixed and has_batch and not keeps_previous_rows and get_mode(query.writer) == "append":
        if not write.is_partial:
            subject = "foreachBatch that overwrites: rows of earlier micro-batches are lost"
            yield query.line, Construct.OUTPUT_MODE, subject
        elif BATCH_ID_PARAMETER not in normalize_target(
            describe_value(write.writer.options.get("replaceWhere", Constant("")))
        ):
            subject = "foreachBatch that overwrites partitions: whether they hold rows of earlier micro-batches"
            yield write.line, Construct.NOT_UNDERSTOOD, subject


def _includes_previous_rows(frame: Frame, target: str) -> bool:
    """Return whether the written rows include those of the target, or of a table in a union with the micro-batch."""
    origins = [_find_origin(parent) for parent in frame.parents if frame.subject in UNIONS]
    return any(origin.op == "source" for origin in origins) or (
        frame.op == "source" and normalize_target(frame.subject) == target
    )


def _find_origin(frame: Frame) -> Frame:
    """Find the origin of a DataFrame's rows; of a join, the left side."""
    while frame.parents:
        frame = frame.parents[0]
    return frame


def _list_selection_findings(lineage: list[Frame], sink: ForeachBatchSink) -> Iterator[Finding]:
    """Yield deduplications, row numbers and self-joins within one micro-batch."""
    for frame in lineage:
        numbers = {
            name for column in frame.columns if "over" in column.functions for name in column.functions & RANKINGS
        }
        if frame.op == "dedup":
            yield frame.line, Construct.DEDUP, f"{frame.subject} of a micro-batch"
        for name in sorted(numbers):
            yield frame.line, Construct.DEDUP, f"{name} of a micro-batch"
        if frame.subject == "join" and all(_depends_on_micro_batch(parent, sink) for parent in frame.parents):
            yield frame.line, Construct.MICRO_BATCH, "join of a micro-batch with itself"


def _depends_on_micro_batch(frame: Frame, sink: ForeachBatchSink) -> bool:
    return any(batch in list_ancestors(frame) for batch in sink.micro_batches)


def _list_total_findings(lineage: list[Frame], sink: ForeachBatchSink) -> Iterator[Finding]:
    """Yield totals over one micro-batch."""
    for frame in lineage:
        functions = frame.functions if frame.op == "aggregate" else frozenset[str]()
        window_functions = [column.functions for column in frame.columns if "over" in column.functions]
        totals = (functions & ADDITIVE).union(*(names & (ADDITIVE | NEIGHBOURS) for names in window_functions))
        if totals and _depends_on_micro_batch(frame, sink):
            yield frame.line, Construct.MICRO_BATCH, f"{', '.join(sorted(totals))} of a micro-batch"


def replaces_previous_results(writer: Writer, mode: str, formats: frozenset[str]) -> bool:
    """Return whether a sink replaces earlier results of the same group, by format, merge or key."""
    sink = writer.sink
    if not isinstance(sink, ForeachBatchSink):
        return is_upsert(writer) or (mode == "complete" and writer.format in formats)
    modes = {get_mode(write.writer) for write in sink.writes if not is_upsert(write.writer)}
    if sink.writes and not modes:
        return True
    overwrites = mode == "complete" and bool(modes) and modes <= {"overwrite"}
    return sink.has_merge or overwrites or (sink.has_gap and "append" not in modes)
