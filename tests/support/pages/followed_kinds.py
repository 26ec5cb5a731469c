"""Table of the streaming jobs that can be followed, made by the checks that reject the others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutover.definition import (
    ApproxDistinct,
    Avg,
    Count,
    Daily,
    Delta,
    First,
    Fixed,
    Join,
    Lookup,
    Pipeline,
    Sessions,
    Sliding,
    SparkStream,
    Sum,
    Topic,
)
from cutover.definition.checks.definition import check_definition
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.joins import How
from cutover.definition.model.pipeline import OutputMode
from cutover.errors import DefinitionError
from cutover.log.topic_partitions import name_log, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.positions.followed_job import check_rules
from cutover.positions.spark_checkpoint import (
    GROUPING,
    JOIN,
    SESSIONS,
    Batch,
    LateRule,
    Operator,
    SparkCheckpoint,
)
from cutover.settings import Settings

HEAD = """\
## Which streaming jobs can be followed

[`cutover follow`](follow.md) repeats the batches of a job of your own. A row is a kind of job; its last column is what
the checks of `cutover lint` and `cutover follow` say of its definition and its checkpoint.

| job | output mode | sink | followed |
| --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job, with a definition of it and what its checkpoint holds."""

    job: str
    mode: OutputMode
    sink: str
    pipeline: Pipeline
    operators: Sequence[Operator]


def _operator(name: str, late_rule: LateRule, *columns: str) -> Operator:
    return Operator(id=0, name=name, columns=columns, watermark_delay=None, late_rule=late_rule)


GROUPED = _operator(GROUPING, LateRule.WINDOW, "window", "shop")
UNTIMED = _operator(GROUPING, LateRule.NEVER, "window", "shop")
BY_SESSION = _operator(SESSIONS, LateRule.WINDOW, "shop", "sessionStartTime")
ONCE = _operator("dedupe", LateRule.ROW, "id", "at")
ONCE_WITHIN = _operator("dedupeWithinWatermark", LateRule.ROW, "id")
ONCE_EVER = _operator("dedupe", LateRule.NEVER, "id")
UNKNOWN_ONCE = _operator("dedupe", LateRule.UNKNOWN, "id")
UNKNOWN_GROUP = _operator(GROUPING, LateRule.UNKNOWN, "window", "shop")

SOURCE = Topic(name="payments", schema="id bigint NOT NULL, shop string, at timestamp", event_time="at")
WINDOWS = Pipeline(name="payments", source=SOURCE, key=("shop",), window=Fixed(hours=1), measures={"n": Count()})
RECORDS = replace(WINDOWS, key=("id",), measures={"ids": Sum("id")})
IDS = replace(SOURCE, record_id="id")

NATIVE, MERGE, APPEND, OVERWRITE = "Delta", "MERGE", "append in `foreachBatch`", "overwrite in `foreachBatch`"
WRITES: dict[OutputMode, tuple[str, ...]] = {
    "append": (NATIVE, APPEND, MERGE),
    "update": (MERGE, APPEND),
    "complete": (NATIVE, OVERWRITE),
}


def _list_modes(
    job: str, pipeline: Pipeline, operators: Sequence[Operator], *modes: OutputMode, **fields: Any
) -> Iterator[JobKind]:
    """Yield a job in each output mode, once for all sinks that are treated alike."""
    for mode in modes:
        stream = SparkStream(table=Delta("/table"), checkpoint="/checkpoint", output_mode=mode, **fields)
        appends_updates = mode == "update" and not stream.row_per_record and not pipeline.window.merges
        sinks = ((MERGE,), (APPEND,)) if appends_updates else (WRITES[mode],)
        for names in sinks:
            is_ordered = appends_updates and names == (APPEND,)
            yield JobKind(
                job=job,
                mode=mode,
                sink=", ".join(names) + (" with `latest_by`" if is_ordered else ""),
                pipeline=replace(pipeline, stream=replace(stream, latest_by="batch" if is_ordered else None)),
                operators=operators,
            )


def list_kinds() -> Iterator[JobKind]:
    """Yield the kinds of jobs that the page names."""
    modes: tuple[OutputMode, ...] = ("append", "update", "complete")
    sliding = replace(WINDOWS, window=Sliding(size="1 hour", every="20 minutes"))
    sessions = replace(WINDOWS, window=Sessions(gap="10 minutes"))
    shops = {"shops": Lookup(table="shops", on={"shop": "shop"}, columns={"city": "string"})}
    yield from _list_modes("`window` (fixed)", WINDOWS, [GROUPED], *modes)
    yield from _list_modes("`window` (sliding)", sliding, [GROUPED], *modes)
    yield from _list_modes("`window` without a watermark", WINDOWS, [UNTIMED], "update", "complete")
    yield from _list_modes("`session_window`", sessions, [BY_SESSION], *modes)
    averages = replace(sessions, measures={"mean": Avg("id")})
    yield from _list_modes("`session_window`, an average", averages, [BY_SESSION], "append", "complete")
    yield from _list_modes("a row per record", RECORDS, [], *modes, row_per_record=True)
    yield from _list_deduplicated()
    yield from _list_modes(
        "`window`, then deduplication", replace(WINDOWS, source=IDS), [UNKNOWN_ONCE, UNKNOWN_GROUP], "append"
    )
    yield from _list_modes("two groupings", WINDOWS, [UNKNOWN_GROUP, UNKNOWN_GROUP], "append")
    yield from _list_joined()
    yield from _list_modes("join with a table", replace(WINDOWS, lookups=shops), [GROUPED], "append")
    stateful = _operator("transformWithStateExec", LateRule.UNKNOWN)
    yield from _list_modes("`transformWithState` and other state of your own", WINDOWS, [stateful], "append", "update")
    yield from _list_modes("days of a time zone, months", replace(WINDOWS, window=Daily("UTC")), [GROUPED], "append")
    measures: dict[str, Measure] = {"`approx_count_distinct`": ApproxDistinct("id"), "`first`, `last`": First("id")}
    for name, measure in measures.items():
        yield from _list_modes(f"`window`, {name}", replace(WINDOWS, measures={"m": measure}), [GROUPED], "append")


def _list_deduplicated() -> Iterator[JobKind]:
    """Yield jobs that drop repeated records, alone or before a grouping."""
    by_ids, records_by_ids = replace(WINDOWS, source=IDS), replace(RECORDS, source=IDS)
    sessions = replace(by_ids, window=Sessions(gap="10 minutes"))
    for name, operator in {
        "`dropDuplicates` by id and event time": ONCE,
        "`dropDuplicatesWithinWatermark` by id": ONCE_WITHIN,
        "`dropDuplicates` by id, without a watermark": ONCE_EVER,
        "`dropDuplicates` by id, with a watermark": UNKNOWN_ONCE,
    }.items():
        yield from _list_modes(name, records_by_ids, [operator], "append", "update", row_per_record=True)
        if operator in {ONCE, ONCE_WITHIN}:
            yield from _list_modes(
                f"{name}, then `window`", by_ids, [GROUPED, operator], "append", "update", "complete"
            )
    forever = "`dropDuplicates` by id, then `window`, without a watermark"
    yield from _list_modes(forever, by_ids, [UNTIMED, ONCE_EVER], "update", "complete")
    yield from _list_modes("deduplication, then `session_window`", sessions, [BY_SESSION, ONCE], "append")


def _list_joined() -> Iterator[JobKind]:
    """Yield jobs that join two topics, or one with itself."""
    joined = Join(right=replace(SOURCE, name="clicks"), on={"shop": "shop"})
    in_range = replace(joined, between=("0 seconds", "1 hour"), ids=("id", "id"))
    stream_join, unbounded_join = _operator(JOIN, LateRule.ROW), _operator(JOIN, LateRule.UNKNOWN)
    pairs = replace(WINDOWS, join=in_range)
    joins: Sequence[tuple[str, How, Sequence[Operator]]] = (
        ("inner join of two topics with a range of times", "inner", [stream_join]),
        ("the same, with one watermark", "inner", [unbounded_join]),
        ("the same, behind a deduplication", "inner", [stream_join, UNKNOWN_ONCE]),
        ("outer join of two topics with a range of times", "left", [stream_join]),
    )
    for name, how, operators in joins:
        definition = replace(pairs, join=replace(in_range, how=how))
        yield from _list_modes(name, definition, operators, "append", row_per_record=True)
    grouped_pairs = "inner join of two topics with a range of times, then `window`"
    yield from _list_modes(grouped_pairs, pairs, [UNKNOWN_GROUP, stream_join], "append")
    unranged = replace(WINDOWS, join=joined)
    yield from _list_modes(
        "join of two topics without a range of times", unranged, [stream_join], "append", row_per_record=True
    )
    yield from _list_modes("join of a topic with itself", RECORDS, [stream_join], "append", row_per_record=True)


def find_reason(kind: JobKind) -> str | None:
    """Find why a job cannot be followed, as the checks say it; None: it can."""
    ends = {topic: {0: 1} for topic in split_topics(name_log(kind.pipeline))}
    batch = Batch(number=0, ends=ends, planned_at=0, watermark=0, judged_by=0, is_committed=True)
    checkpoint = SparkCheckpoint(query_id="q", starts={}, batches=(batch,), operators=tuple(kind.operators))
    try:
        check_definition(kind.pipeline)
        check_rules(PipelineLake(Settings(home=Path("/unused")), kind.pipeline), checkpoint)
    except DefinitionError as error:
        return error.text.partition("\nHint: ")[2].rstrip(".") or error.text
    return None


def render_followed_kinds() -> str:
    """Return the section of the page."""
    rows = []
    for kind in list_kinds():
        reason = find_reason(kind)
        rows.append(f"| {kind.job} | {kind.mode} | {kind.sink} | {'yes' if reason is None else f'no: {reason}'} |")
    return HEAD + "\n".join(rows) + "\n"
