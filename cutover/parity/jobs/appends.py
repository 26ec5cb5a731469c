"""Appends of batches: rows that each run reads again, and rows that the job removes first."""

import re
from collections.abc import Iterator, Sequence

from cutover.parity.jobs.paths import exclude_each_other
from cutover.parity.jobs.sqltext import PARAMETER, is_moving_query
from cutover.parity.jobs.trace import Found, JobStep, Query, Removal, Trace, normalize_target
from cutover.parity.jobs.values import Arm, Constant, Frame, JobValue, Reader, list_ancestors
from cutover.parity.jobs.writers import get_mode, is_upsert
from cutover.parity.rules import Construct

FULL = frozenset(
    {"kafka", "table", "parquet", "json", "csv", "orc", "text", "delta", "jdbc", "iceberg", "avro", "hudi"}
)
"""Sources of which a batch without a condition reads everything again."""

BOUNDS = frozenset(
    {"startingtimestamp", "startingoffsetsbytimestamp", "startingversion", "readchangefeed"}
    | {"readchangedata", "modifiedafter", "start-snapshot-id", "query"}
)
"""Options by which a batch may read a part only."""

REPLACES = frozenset({"overwrite", "error", "errorifexists", "default"})
"""Modes of a write after which a table holds only what was written; all but the first fail in the second run."""


def judge_batch(trace: Trace, query: Query) -> Iterator[Found]:
    """Find appends that write the same rows again in each run."""
    mode = get_mode(query.writer)
    if mode == "?":
        yield query.line, Construct.NOT_UNDERSTOOD, "mode: a value that is not in the file"
    lineage = list_ancestors(query.writer.frame)
    if mode != "append":
        for frame in lineage:
            if frame.op == "unknown":
                yield frame.line, Construct.NOT_UNDERSTOOD, f"{frame.what}: where the rows of a query come from"
        return
    if _is_bounded(query) or makes_target(query) or is_upsert(query.writer):
        yield from _judge_subtraction(query, lineage)
        return
    removals = list_removals(trace.removals, trace.queries, query)
    if any(is_certain(step, query) and _covers(step, query) for step in removals):
        return
    sources = [frame for frame in lineage if frame.op == "source" and frame.source is not None]
    unknown = next((frame for frame in lineage if frame.op in {"unknown", "opaque"}), None)
    if unknown is not None:
        yield unknown.line, Construct.NOT_UNDERSTOOD, f"{unknown.what}: whether an append adds what is there already"
    elif sources and all(_is_full(frame.source) for frame in sources if frame.source is not None):
        yield _judge_full_append(trace, query, removals, sources[0].what)


def _judge_full_append(trace: Trace, query: Query, removals: Sequence[JobStep], source: str) -> Found:
    """Judge an append of a whole source: repeated in each run, or unknown because rows may be removed or selected."""
    doubt = next((removal for removal in removals if _may_cover(removal, query)), None)
    others = (
        other_query for other_query in trace.queries if other_query.site == query.site and other_query is not query
    )
    if doubt is not None:
        subject = doubt.what if isinstance(doubt, Removal) else "overwrite"
        message = f"{subject} (line {doubt.line}): whether it removes what line {query.line} appends"
        return query.line, Construct.NOT_UNDERSTOOD, message
    if query.writer.frame.arms and any(_is_bounded(other) for other in others):
        message = f"append of all of {source} where no condition selects what is new: whether that runs again"
        return query.line, Construct.NOT_UNDERSTOOD, message
    return query.line, Construct.APPENDED_AGAIN, f"append of all of {source}"


def _is_bounded(query: Query) -> bool:
    """Return whether a condition selects other rows in the next run."""
    lineage = list_ancestors(query.writer.frame)
    return any(frame.is_bounded for frame in lineage if frame.op in {"filter", "step"})


def _judge_subtraction(query: Query, lineage: Sequence[Frame]) -> Iterator[Found]:
    """Find rows that are left out because they are in another table than the one appended to."""
    bounded = [frame for frame in lineage if frame.is_bounded and frame.op in {"filter", "step"}]
    subtractions = [frame for frame in bounded if frame.op == "step" and len(frame.parents) > 1]
    if not query.target or len(subtractions) < len(bounded):
        return
    for frame in subtractions:
        names = {normalize_target(node.what) for node in list_ancestors(frame.parents[1]) if node.op == "source"}
        if names and not any(_is_same(name, query.target) for name in names):
            subject = f"{frame.what} with {', '.join(sorted(names))}: whether it leaves out what was appended"
            yield frame.line, Construct.NOT_UNDERSTOOD, subject


def makes_target(query: Query) -> bool:
    """Return whether a write runs only if its target does not exist yet, so that there is nothing to append to."""
    arms = query.branches | query.writer.frame.arms
    return any(_tests(arm, query.target) and arm.number is False for arm in arms)


def _tests(arm: Arm, target: str) -> bool:
    """Return whether the condition of an arm checks that a table or path exists."""
    tested = normalize_target(arm.existence.replace("?", ""))
    name = target if "/" in target else target.rpartition(".")[2]
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", tested) is not None


def list_removals(removals: Sequence[Removal], writes: Sequence[Query], query: Query) -> list[JobStep]:
    """List the earlier steps that remove rows of a query's target, overwrites included."""
    replacing = [write for write in writes if not write.writer.is_stream and get_mode(write.writer) in REPLACES]
    return [
        step
        for step in (*removals, *replacing)
        if step.place < query.place
        and _is_same(step.target, query.target)
        and not exclude_each_other(step.branches | query.branches)
    ]


def is_certain(step: JobStep, query: Query) -> bool:
    """Return whether a step always runs before a query: in the same function, under no condition of its own.

    A condition that tests whether the table exists does not count: a missing table has no rows.
    """
    arms = {arm for arm in step.branches if not _tests(arm, step.target)}
    return step.root in {0, query.root} and arms <= query.branches


def _covers(step: JobStep, query: Query) -> bool:
    """Return whether a step removes all the rows that are appended: the whole table, or the same condition."""
    if not _is_exact(step.target, query.target):
        return False
    if isinstance(step, Query):
        return not step.is_partial
    if not isinstance(step, Removal) or step.condition is None:
        return True
    lineage = list_ancestors(query.writer.frame)
    return any(frame.op == "filter" and frame.what == step.condition for frame in lineage)


def _may_cover(step: JobStep, query: Query) -> bool:
    """Return whether a step may or may not remove the appended rows; a skipped condition is a known run without it."""
    skipped = step.branches - query.branches
    may_run = step.root not in {0, query.root} or any(arm.is_attempt for arm in skipped)
    return may_run or (is_certain(step, query) and not _covers(step, query))


def _is_exact(item: str, other: str) -> bool:
    """Return whether two names certainly denote the same table or path: equal, or with the same database and table."""
    parts = item.split("."), other.split(".")
    return item == other or (min(map(len, parts)) > 1 and parts[0][-2:] == parts[1][-2:])


def _is_same(item: str, other: str) -> bool:
    """Return whether two names may denote the same table; a name without a database matches any database."""
    if not item or not other or "/" in item + other:
        return bool(item) and item == other
    is_short = "." not in item or "." not in other
    return _is_exact(item, other) or (is_short and item.rpartition(".")[2] == other.rpartition(".")[2])


def _is_full(reader: Reader) -> bool:
    """Return whether a batch reads all of a source in each run."""
    options = {name.lower(): value for name, value in reader.options.items()}
    place = options.get("dbtable", options.get("path", Constant("")))
    if not reader.is_complete or not isinstance(place, Constant):
        return False
    text = str(place.value)
    if PARAMETER.search(text) or ("(" in text and is_moving_query(text)):
        return False
    if reader.format not in FULL and reader.format is not None:
        return False
    begins = options.get("startingoffsets")
    if begins is not None and not isinstance(begins, Constant):
        return False
    return not any(_moves(value) for name, value in options.items() if name in BOUNDS)


def _moves(value: JobValue) -> bool:
    """Return whether an option selects a different part in the next run; a literal does not."""
    return not isinstance(value, Constant) or is_moving_query(str(value.value))
