"""`cutover position CHECKPOINT`: what a Spark streaming job has read, judged and written, from its own files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from cutover.counts import count_noun
from cutover.durations import format_duration
from cutover.engine import storage
from cutover.errors import DefinitionError
from cutover.output.console import Line, Output, make_table
from cutover.positions.delta_versions import TableVersion, list_table_versions
from cutover.positions.position import Position, UnknownPosition, find_position
from cutover.positions.spark_checkpoint import Batch, LateRule, Operator, SparkCheckpoint, read_checkpoint
from cutover.timestamps import format_micros

SHOWN = 10
"""Newest batches, and partitions of a topic, that are printed; `--json` has all of them."""

_RULES = {
    LateRule.WINDOW: "drops the records of windows that end at or before the watermark (none in complete mode)",
    LateRule.ROW: "drops the records whose event time is at or before the watermark",
    LateRule.NEVER: "drops no record: its key has no event time with a watermark, so its state only grows",
    LateRule.UNKNOWN: "may drop late records; by which rule, the checkpoint does not show",
}


def position(
    checkpoint: Annotated[str, typer.Argument(help="The query's checkpointLocation: a folder or a URI.")],
    table: Annotated[str | None, typer.Option(help="The Delta table that the query writes: a folder or a URI.")] = None,
) -> Output:
    """Show up to which offsets a streaming job has read, by which watermarks it judged, and what it wrote."""
    spark_checkpoint = read_checkpoint(_make_absolute(checkpoint, of="CHECKPOINT"))
    versions = None if table is None else list_table_versions(_make_absolute(table, of="--table"), spark_checkpoint)
    table_position = find_position(spark_checkpoint, versions)
    return Output(
        document={
            "query_id": spark_checkpoint.query_id,
            "position": table_position.to_json() if isinstance(table_position, Position) else None,
            "unknown": table_position.reason if isinstance(table_position, UnknownPosition) else None,
            "operators": [_encode_operator(operator) for operator in spark_checkpoint.operators],
            "batches": [_encode_batch(batch, versions or ()) for batch in spark_checkpoint.batches],
        },
        lines=_list_lines(spark_checkpoint, versions or (), table_position),
        exit_code=0 if isinstance(table_position, Position) else 2,
    )


def _make_absolute(place: str, *, of: str) -> str:
    """Return the absolute path of a folder, or the URI of one in an object store."""
    if not place.strip():
        msg = f"{of}: expected a folder or a URI, got none."
        raise DefinitionError(msg)
    if storage.is_object_store(place):
        if place.partition("://")[0] not in storage.SCHEMES:
            schemes = " or ".join(f"{name}://" for name in storage.SCHEMES)
            msg = f"{of}: expected a folder or a URI that begins with {schemes}, got `{place[:80]}`."
            raise DefinitionError(msg)
        return place
    if place.startswith("file:"):
        place = unquote(urlsplit(place).path)
    return str(Path(place).absolute())


def _list_lines(
    checkpoint: SparkCheckpoint, versions: Sequence[TableVersion], table_position: Position | UnknownPosition
) -> Iterator[Line]:
    first, last = checkpoint.batches[0], checkpoint.batches[-1]
    kept = count_noun(len(checkpoint.batches), "batch")
    yield f"Query {checkpoint.query_id}: {kept} kept, {first.number} to {last.number}."
    for operator in checkpoint.operators:
        delay = "" if operator.watermark_delay is None else f", watermark {format_duration(operator.watermark_delay)}"
        by = f" by {', '.join(operator.columns)}" if operator.columns else ""
        yield f"Operator {operator.id}, {operator.name}{by}{delay}: {_RULES[operator.late_rule]}."
    if not checkpoint.operators:
        yield "The checkpoint holds no state: a query without state drops no record by a watermark."
    shown = checkpoint.batches[-SHOWN:]
    if len(shown) < len(checkpoint.batches):
        yield f"The newest {SHOWN} batches (`--json` has all of them):"
    columns = ("batch", "offsets", "judged by watermark", "planned", "committed", "version")
    yield make_table(columns, (_list_cells(batch, versions) for batch in shown), right=("batch",))
    older = [version.version for version in versions if version.batch is None and not version.is_foreign]
    if older:
        yield f"{count_noun(len(older), 'version')} of the table, up to {older[-1]}, came from older batches."
    yield _describe_position(table_position)


def _describe_position(table_position: Position | UnknownPosition) -> str:
    if isinstance(table_position, UnknownPosition):
        return f"Position unknown: {table_position.reason}. Next: correct that, or run the query on."
    offsets = _format_topics(table_position.topics)
    if table_position.table_version is None:
        return f"Position: {offsets}. Next: name its Delta table with `--table` to see which batch wrote which version."
    version = table_position.table_version
    return f"Position of the table: {offsets}, at version {version}. Next: `--json` prints it for programs."


def _list_cells(batch: Batch, versions: Sequence[TableVersion]) -> tuple[str, ...]:
    own_versions = [version for version in versions if version.batch == batch.number]
    return (
        str(batch.number),
        _format_topics(batch.ends),
        "unknown" if batch.judged_by is None else format_micros(batch.judged_by or None) or "none",
        format_micros(batch.planned_at) or "",
        "yes" if batch.is_committed else "no",
        ", ".join(f"{version.version} ({version.evidence})" for version in own_versions),
    )


def _format_topics(topics: Mapping[str, Mapping[int, int]]) -> str:
    return "; ".join(f"{topic} {_format_offsets(ends)}" for topic, ends in sorted(topics.items()))


def _format_offsets(ends: Mapping[int, int]) -> str:
    shown = " ".join(f"{partition}:{offset}" for partition, offset in sorted(ends.items())[:SHOWN])
    return shown if len(ends) <= SHOWN else f"{shown} ... ({count_noun(len(ends), 'partition')})"


def _encode_operator(operator: Operator) -> dict[str, object]:
    return {
        "id": operator.id,
        "name": operator.name,
        "columns": operator.columns,
        "watermark_delay_seconds": None if operator.watermark_delay is None else operator.watermark_delay / 1e6,
        "late_rule": operator.late_rule,
    }


def _encode_batch(batch: Batch, versions: Sequence[TableVersion]) -> dict[str, object]:
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
