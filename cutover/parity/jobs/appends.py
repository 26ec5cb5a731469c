"""Writes that another run repeats: appends of batch jobs, and functions of foreachBatch.

A batch job may read the same rows in every run, or remove rows before it appends. A function of foreachBatch may write
twice after a restart, lose rows, or compute totals of a single micro-batch.
"""

import re
from collections.abc import Iterator, Sequence

from cutover.parity.jobs.eventtime import UNIONS
from cutover.parity.jobs.paths import are_contradictory
from cutover.parity.jobs.readers_and_writers import BATCH_ID, get_mode, get_option, is_idempotent_append, is_upsert
from cutover.parity.jobs.sqltext import PARAMETER, query_varies_between_runs
from cutover.parity.jobs.trace import Finding, ForeachBatchSink, JobStep, Query, Removal, Trace, normalize_target
from cutover.parity.jobs.values import Branch, Constant, Frame, JobValue, Reader, Writer, describe_value, list_ancestors
from cutover.parity.rules import Construct

FULL_READ_FORMATS = frozenset(
    {"kafka", "table", "parquet", "json", "csv", "orc", "text", "delta", "jdbc", "iceberg", "avro", "hudi"}
)
"""Source formats that a batch without a condition reads completely in every run."""

PARTIAL_READ_OPTIONS = frozenset(
    {"startingtimestamp", "startingoffsetsbytimestamp", "startingversion", "readchangefeed"}
    | {"readchangedata", "modifiedafter", "start-snapshot-id", "query"}
)
"""Options by which a batch may read only a part of its source."""

REPLACING_MODES = frozenset({"overwrite", "error", "errorifexists", "default"})
"""Write modes after which a table contains only the written rows; all but `overwrite` fail in the second run."""


def list_batch_findings(trace: Trace, query: Query) -> Iterator[Finding]:
    """Yield the appends that write the same rows again in every run."""
    mode = get_mode(query.writer)
    if mode == "?":
        yield query.line, Construct.NOT_UNDERSTOOD, "mode: a value that is not in the file"
    lineage = list_ancestors(query.writer.frame)
    if mode != "append":
        for frame in lineage:
            if frame.op == "unknown":
                yield frame.line, Construct.NOT_UNDERSTOOD, f"{frame.subject}: the origin of a query's rows"
        return
    selection = _Selection()
    selects_new_rows = selection.evaluate(query.writer.frame)
    if selects_new_rows or creates_target(query) or is_upsert(query.writer):
        yield from _list_subtraction_findings(query, lineage)
        return
    removals = list_removals(trace.removals, trace.queries, query)
    if any(is_certain(step, query) and _covers(step, query) for step in removals):
        return
    if selects_new_rows is False:
        yield _evaluate_full_append(trace, query, removals, selection.find_source(query.writer.frame).subject)
        return
    unknown = next(frame for frame in lineage if selection.is_cause(frame))
    yield (
        unknown.line,
        Construct.NOT_UNDERSTOOD,
        f"{unknown.subject}: whether an append adds rows that exist already",
    )


def _evaluate_full_append(trace: Trace, query: Query, removals: Sequence[JobStep], source: str) -> Finding:
    """Evaluate an append of a whole source: repeated in every run, or unknown if rows may be removed or selected."""
    possible_removal = next((removal for removal in removals if _may_cover(removal, query)), None)
    alternative_writes = (
        other_query
        for other_query in trace.queries
        if other_query.call_site == query.call_site and other_query is not query
    )
    if possible_removal is not None:
        subject = possible_removal.subject if isinstance(possible_removal, Removal) else "overwrite"
        message = f"{subject} (line {possible_removal.line}): whether it removes what line {query.line} appends"
        return query.line, Construct.NOT_UNDERSTOOD, message
    if query.writer.frame.branches and any(_Selection().evaluate(other.writer.frame) for other in alternative_writes):
        message = f"append of all of {source} where no condition selects new rows: whether that runs again"
        return query.line, Construct.NOT_UNDERSTOOD, message
    return query.line, Construct.APPENDED_AGAIN, f"append of all of {source}"


class _Selection:
    """Evaluation of which rows of a lineage the next run selects again, input by input."""

    def __init__(self) -> None:
        self.results: dict[int, bool | None] = {}

    def evaluate(self, frame: Frame) -> bool | None:
        """Return whether each row that the next run selects is another one; None if unknown."""
        if id(frame) not in self.results:
            self.results[id(frame)] = self._evaluate_operation(frame)
        return self.results[id(frame)]

    def _evaluate_operation(self, frame: Frame) -> bool | None:
        if frame.op in {"filter", "step"} and frame.selects_new_rows:
            return True
        if frame.op == "source":
            return frame.source is None or not _reads_everything(frame.source)
        inputs = [self.evaluate(parent) for parent in frame.parents]
        if frame.op in {"unknown", "opaque"}:
            return True if True in inputs else None
        if frame.how in {"left", "right"}:
            return inputs[frame.how == "right"]
        if frame.how in {"inner", "semi"} and True in inputs:  # rows of the other side may be selected again
            return True if inputs[0] or frame.how == "semi" else None
        return False if False in inputs else None if None in inputs else True

    def is_cause(self, frame: Frame) -> bool:
        """Return whether an operation is unknown in itself."""
        known_inputs = all(self.results.get(id(parent)) is not None for parent in frame.parents)
        return self.results.get(id(frame), True) is None and (frame.op in {"unknown", "opaque"} or known_inputs)

    def find_source(self, frame: Frame) -> Frame:
        """Find a source all of whose rows are selected again."""
        while frame.parents:
            frame = next(parent for parent in frame.parents if self.evaluate(parent) is False)
        return frame


def _list_subtraction_findings(query: Query, lineage: Sequence[Frame]) -> Iterator[Finding]:
    """Yield anti-joins and subtractions with a table other than the one appended to."""
    bounded = [frame for frame in lineage if frame.selects_new_rows and frame.op in {"filter", "step"}]
    subtractions = [frame for frame in bounded if len(frame.parents) > 1 and frame.how not in {"inner", "semi"}]
    if not query.target or len(subtractions) < len(bounded):
        return
    for frame in subtractions:
        names = {normalize_target(node.subject) for node in list_ancestors(frame.parents[1]) if node.op == "source"}
        if names and not any(_may_be_same_target(name, query.target) for name in names):
            subject = f"{frame.subject} with {', '.join(sorted(names))}: whether it leaves out what was appended"
            yield frame.line, Construct.NOT_UNDERSTOOD, subject


def creates_target(query: Query) -> bool:
    """Return whether a write runs only if its target does not exist yet."""
    branches = query.branches | query.writer.frame.branches
    return any(_tests_existence(branch, query.target) and branch.number is False for branch in branches)


def _tests_existence(branch: Branch, target: str) -> bool:
    """Return whether the condition of a branch checks that a table or path exists."""
    existence_test = normalize_target(branch.existence.replace("?", ""))
    name = target if "/" in target else target.rpartition(".")[2]
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", existence_test) is not None


def list_removals(removals: Sequence[Removal], writes: Sequence[Query], query: Query) -> list[JobStep]:
    """List the earlier steps that remove rows of a query's target, overwrites included."""
    overwrites = [write for write in writes if not write.writer.is_stream and get_mode(write.writer) in REPLACING_MODES]
    return [
        step
        for step in (*removals, *overwrites)
        if step.position < query.position
        and step.call_site != query.call_site  # another mode of the same write
        and _may_be_same_target(step.target, query.target)
        and not are_contradictory(step.branches | query.branches)
    ]


def is_certain(step: JobStep, query: Query) -> bool:
    """Return whether a step always runs before a query: in the same function, under no further condition.

    A test for the table's existence does not count as a condition: a missing table has no rows.
    """
    branches = {branch for branch in step.branches if not _tests_existence(branch, step.target)}
    return step.root_line in {0, query.root_line} and branches <= query.branches


def _covers(step: JobStep, query: Query) -> bool:
    """Return whether a step removes all rows that a query appends: the whole table, or the same condition."""
    if not _is_same_target(step.target, query.target):
        return False
    if isinstance(step, Query):
        return not step.is_partial
    if not isinstance(step, Removal) or step.condition is None:
        return True
    lineage = list_ancestors(query.writer.frame)
    return any(frame.op == "filter" and frame.subject == step.condition for frame in lineage)


def _may_cover(step: JobStep, query: Query) -> bool:
    """Return whether it is unknown if a step removes the appended rows; a skipped condition means that it does not."""
    skipped = step.branches - query.branches
    may_run = step.root_line not in {0, query.root_line} or any(branch.is_attempt for branch in skipped)
    return may_run or (is_certain(step, query) and not _covers(step, query))


def _is_same_target(left: str, right: str) -> bool:
    """Return whether two names denote the same table or path: equal, or with equal database and table."""
    parts = left.split("."), right.split(".")
    return left == right or (min(map(len, parts)) > 1 and parts[0][-2:] == parts[1][-2:])


def _may_be_same_target(left: str, right: str) -> bool:
    """Return whether two names may denote the same table; a name without a database matches any database."""
    if not left or not right or "/" in left + right:
        return bool(left) and left == right
    lacks_database = "." not in left or "." not in right
    return _is_same_target(left, right) or (lacks_database and left.rpartition(".")[2] == right.rpartition(".")[2])


def _reads_everything(reader: Reader) -> bool:
    """Return whether a batch reads all of a source in every run."""
    options = {name.lower(): value for name, value in reader.options.items()}
    source_location = options.get("dbtable", options.get("path", Constant("")))
    if not reader.is_complete or not isinstance(source_location, Constant):
        return False
    text = str(source_location.value)
    if PARAMETER.search(text) or ("(" in text and query_varies_between_runs(text)):
        return False
    if reader.format not in FULL_READ_FORMATS and reader.format is not None:
        return False
    start_value = options.get("startingoffsets")
    if start_value is not None and not isinstance(start_value, Constant):
        return False
    return not any(
        _option_varies_between_runs(value) for name, value in options.items() if name in PARTIAL_READ_OPTIONS
    )


def _option_varies_between_runs(value: JobValue) -> bool:
    """Return whether an option selects a different part in the next run; a literal does not."""
    return not isinstance(value, Constant) or query_varies_between_runs(str(value.value))


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
