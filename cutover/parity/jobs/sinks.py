"""Functions of foreachBatch: duplicate writes after a restart, lost rows, and totals of a single micro-batch."""

from collections.abc import Iterator

from cutover.parity.jobs.appends import is_certain, list_removals, makes_target
from cutover.parity.jobs.eventtime import UNIONS
from cutover.parity.jobs.trace import Found, Query, Removal, Sink, normalize_target
from cutover.parity.jobs.values import Constant, Frame, Writer, describe, list_ancestors
from cutover.parity.jobs.writers import NUMBER, get_mode, is_marked, is_upsert
from cutover.parity.rules import Construct

NUMBERED = normalize_target(f"{{{NUMBER}}}")
ADDITIVE = frozenset(
    {"count", "sum", "avg", "mean", "count_distinct", "countdistinct", "approx_count_distinct", "sum_distinct"}
    | {"stddev", "variance", "collect_list", "collect_set", "percentile_approx", "median", "count_if"}
)
"""Aggregates whose value over a micro-batch says nothing about all records until values are added up."""

NUMBERS = frozenset({"row_number", "rank", "dense_rank", "percent_rank"})
NEIGHBOURS = frozenset({"lag", "lead", "first", "last", "first_value", "last_value", "nth_value", "ntile", "cume_dist"})


def judge_sink(sink: Sink, query: Query) -> Iterator[Found]:
    """Find what the function of a micro-batch duplicates, loses, or computes from that micro-batch alone."""
    for write in sink.writes:
        lineage = list_ancestors(write.writer.frame)
        yield from _judge_write(write, lineage, sink, query)
        if not sink.merges:
            yield from _judge_choice(lineage, sink)
        yield from _judge_totals(lineage, sink)
    for merged in sink.merged:
        yield from _judge_totals(list_ancestors(merged), sink)
    for line in sink.swallowed:
        yield line, Construct.DATA_LOSS, "foreachBatch that goes on after a write that failed"
    for line in sink.sums:
        yield line, Construct.NOT_IDEMPOTENT, "MERGE that adds to a column"
    for line in sink.inserts:
        yield line, Construct.NOT_IDEMPOTENT, "INSERT of rows that foreachBatch has collected"
    if not (sink.writes or sink.merges or sink.inserts or sink.has_gap):
        yield query.line, Construct.NOT_UNDERSTOOD, "foreachBatch: what its function does with the rows"


def _judge_write(write: Query, lineage: list[Frame], sink: Sink, query: Query) -> Iterator[Found]:
    """Find appends that a repeated micro-batch duplicates, and tables that each micro-batch overwrites."""
    mode = get_mode(write.writer)
    if makes_target(write) or (mode == "append" and is_upsert(write.writer)):
        return
    removals = [removal for removal in list_removals(sink.removals, (), write) if is_certain(removal, write)]
    if mode == "append" and not is_marked(write.writer) and not any(_is_of_batch(removal) for removal in removals):
        if any(isinstance(removal, Removal) and removal.condition is None for removal in removals):
            yield from _judge_replacement(write, lineage, sink, query)
        else:
            yield query.line, Construct.NOT_IDEMPOTENT, "foreachBatch that appends"
    elif mode == "?":
        yield write.line, Construct.NOT_UNDERSTOOD, "mode: a value that is not in the file"
    elif mode == "overwrite":
        yield from _judge_replacement(write, lineage, sink, query)


def _is_of_batch(step: object) -> bool:
    """Return whether a removal deletes only the rows of the same micro-batch, which makes the append idempotent."""
    return isinstance(step, Removal) and NUMBERED in normalize_target(step.condition or "")


def _judge_replacement(write: Query, lineage: list[Frame], sink: Sink, query: Query) -> Iterator[Found]:
    """Find a table or path that each micro-batch replaces in append mode; `is_replaced` covers the other modes."""
    target = write.target
    is_fixed = bool(target) and NUMBERED not in target
    has_batch = any(batch in lineage for batch in sink.batches)
    keeps_old = any(frame.op in {"unknown", "opaque"} or _adds_old_rows(frame, target) for frame in lineage)
    if is_fixed and has_batch and not keeps_old and get_mode(query.writer) == "append":
        if not write.is_partial:
            subject = "foreachBatch that overwrites: rows of the micro-batches before are lost"
            yield query.line, Construct.OUTPUT_MODE, subject
        elif NUMBERED not in normalize_target(describe(write.writer.options.get("replaceWhere", Constant("")))):
            subject = "foreachBatch that overwrites partitions: whether they hold rows of the micro-batches before"
            yield write.line, Construct.NOT_UNDERSTOOD, subject


def _adds_old_rows(frame: Frame, target: str) -> bool:
    """Return whether the rows written contain those of the table itself, or of a table united with the micro-batch."""
    origins = [_find_origin(parent) for parent in frame.parents if frame.what in UNIONS]
    return any(origin.op == "source" for origin in origins) or (
        frame.op == "source" and normalize_target(frame.what) == target
    )


def _find_origin(frame: Frame) -> Frame:
    """Return the origin of a DataFrame's rows; of a join, the left side."""
    while frame.parents:
        frame = frame.parents[0]
    return frame


def _judge_choice(lineage: list[Frame], sink: Sink) -> Iterator[Found]:
    """Find rows that are deduplicated, numbered, or joined with each other within one micro-batch."""
    for frame in lineage:
        numbers = {
            name for column in frame.columns if "over" in column.functions for name in column.functions & NUMBERS
        }
        if frame.op == "dedup":
            yield frame.line, Construct.DEDUP, f"{frame.what} of a micro-batch"
        for name in sorted(numbers):
            yield frame.line, Construct.DEDUP, f"{name} of a micro-batch"
        if frame.what == "join" and all(_is_of_sink(parent, sink) for parent in frame.parents):
            yield frame.line, Construct.MICRO_BATCH, "join of a micro-batch with itself"


def _is_of_sink(frame: Frame, sink: Sink) -> bool:
    return any(batch in list_ancestors(frame) for batch in sink.batches)


def _judge_totals(lineage: list[Frame], sink: Sink) -> Iterator[Found]:
    """Find totals over one micro-batch."""
    for frame in lineage:
        functions = frame.functions if frame.op == "aggregate" else frozenset[str]()
        over = [column.functions for column in frame.columns if "over" in column.functions]
        totals = (functions & ADDITIVE).union(*(names & (ADDITIVE | NEIGHBOURS) for names in over))
        if totals and _is_of_sink(frame, sink):
            yield frame.line, Construct.MICRO_BATCH, f"{', '.join(sorted(totals))} of a micro-batch"


def is_replaced(writer: Writer, mode: str, formats: frozenset[str]) -> bool:
    """Return whether a sink replaces earlier results of the same group: by its format, a merge or its keys."""
    sink = writer.sink
    if not isinstance(sink, Sink):
        return is_upsert(writer) or (mode == "complete" and writer.format in formats)
    modes = {get_mode(write.writer) for write in sink.writes if not is_upsert(write.writer)}
    if sink.writes and not modes:
        return True
    overwrites = mode == "complete" and bool(modes) and modes <= {"overwrite"}
    return sink.merges or overwrites or (sink.has_gap and "append" not in modes)
