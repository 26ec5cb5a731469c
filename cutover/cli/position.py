"""`cutover position CHECKPOINT`: what a Spark streaming job has read, judged and written, from its own files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from cutover.counts import count_noun
from cutover.durations import format_duration
from cutover.engine import storage
from cutover.output.console import Line, Output, make_table
from cutover.positions.delta_versions import TableVersion, list_versions
from cutover.positions.position import Position, find_position
from cutover.positions.spark_checkpoint import Batch, LateRule, Operator, SparkCheckpoint, read_checkpoint
from cutover.timestamps import format_micros

SHOWN = 10
"""Newest batches that are printed; `--json` has all of them."""

_RULES = {
    LateRule.WINDOW: "drops the records of windows that end at or before the watermark (none in complete mode)",
    LateRule.ROW: "drops the records whose event time is at or before the watermark",
    LateRule.NEVER: "drops no record: its key has no event time with a watermark, so its state only grows",
    LateRule.UNKNOWN: "may drop late records; by which rule, its checkpoint does not show",
}


def position(
    checkpoint: Annotated[str, typer.Argument(help="The query's checkpointLocation: a folder or a URI.")],
    table: Annotated[str | None, typer.Option(help="The Delta table that the query writes: a folder or a URI.")] = None,
) -> Output:
    """Show up to which offsets a streaming job has read, by which watermarks it judged, and what it wrote."""
    spark_checkpoint = read_checkpoint(_make_absolute(checkpoint))
    versions = () if table is None else list_versions(_make_absolute(table), spark_checkpoint)
    newest = find_position(spark_checkpoint, versions)
    return Output(
        document={
            "query_id": spark_checkpoint.query_id,
            "position": None if newest is None else newest.to_json(),
            "operators": [_encode_operator(operator) for operator in spark_checkpoint.operators],
            "batches": [_encode_batch(batch, versions) for batch in spark_checkpoint.batches],
        },
        lines=_list_lines(spark_checkpoint, versions, newest, table),
        exit_code=0 if newest is not None else 2,
    )


def _make_absolute(place: str) -> str:
    return place if storage.is_object_store(place) else str(Path(place.removeprefix("file://")).absolute())


def _list_lines(
    checkpoint: SparkCheckpoint,
    versions: tuple[TableVersion, ...],
    newest: Position | None,
    table: str | None,
) -> Iterator[Line]:
    first, last = checkpoint.batches[0], checkpoint.batches[-1]
    kept = count_noun(len(checkpoint.batches), "batch")
    yield f"Query {checkpoint.query_id}: {kept} kept, {first.number} to {last.number}."
    for operator in checkpoint.operators:
        delay = "" if operator.watermark_delay is None else f", watermark {format_duration(operator.watermark_delay)}"
        by = f" by {', '.join(operator.columns)}" if operator.columns else ""
        yield f"Operator {operator.id}, {operator.name}{by}{delay}: {_RULES[operator.late_rule]}."
    if not checkpoint.operators:
        yield "The query keeps no state, so a watermark drops no record."
    shown = checkpoint.batches[-SHOWN:]
    if len(shown) < len(checkpoint.batches):
        yield f"The newest {SHOWN} batches (`--json` has all of them):"
    columns = ("batch", "offsets", "judged by watermark", "planned", "committed", "version")
    yield make_table(columns, (_list_cells(batch, versions) for batch in shown), right=("batch",))
    unassigned = [version.version for version in versions if version.batch is None]
    if unassigned:
        versions_text = count_noun(len(unassigned), "version")
        yield f"{versions_text} of the table, the newest {unassigned[-1]}, came from no batch that is kept."
    yield _describe_position(newest, table)


def _describe_position(newest: Position | None, table: str | None) -> str:
    if newest is None:
        return "No batch has committed, so the table has no position yet. Next: run the query."
    offsets = "; ".join(f"{topic} {_format_offsets(ends)}" for topic, ends in sorted(newest.topics.items()))
    if table is None:
        return f"Position: {offsets}. Next: name its Delta table with `--table` to see which batch wrote which version."
    return (
        f"Position of the table: {offsets}, at version {newest.table_version}. Next: `--json` prints it for programs."
    )


def _list_cells(batch: Batch, versions: tuple[TableVersion, ...]) -> tuple[str, ...]:
    written = [version for version in versions if version.batch == batch.number]
    return (
        str(batch.number),
        "; ".join(f"{topic} {_format_offsets(ends)}" for topic, ends in sorted(batch.ends.items())),
        "unknown" if batch.judged_by is None else format_micros(batch.judged_by or None) or "none",
        format_micros(batch.planned_at) or "",
        "yes" if batch.is_committed else "no",
        ", ".join(f"{version.version} ({version.evidence})" for version in written),
    )


def _format_offsets(ends: Mapping[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(ends.items()))


def _encode_operator(operator: Operator) -> dict[str, object]:
    return {
        "id": operator.id,
        "name": operator.name,
        "columns": operator.columns,
        "watermark_delay_seconds": None if operator.watermark_delay is None else operator.watermark_delay / 1e6,
        "late_rule": operator.late_rule,
    }


def _encode_batch(batch: Batch, versions: tuple[TableVersion, ...]) -> dict[str, object]:
    return {
        "number": batch.number,
        "ends": {topic: {str(p): offset for p, offset in ends.items()} for topic, ends in batch.ends.items()},
        "planned_at": format_micros(batch.planned_at),
        "judged_by": format_micros(batch.judged_by or None),
        "is_judge_known": batch.judged_by is not None,
        "is_committed": batch.is_committed,
        "versions": [
            {"version": version.version, "evidence": version.evidence, "operation": version.operation}
            for version in versions
            if version.batch == batch.number
        ],
    }


COMMANDS = {"position": position}
