"""Text and JSON of a streaming query for `cutover position CHECKPOINT`: operators, batches and versions."""

from collections.abc import Iterator, Sequence

from cutover.counts import count_noun
from cutover.durations import format_duration
from cutover.output.console import Line, make_table
from cutover.positions.delta_versions import TableVersion
from cutover.positions.position import format_topic_offsets
from cutover.positions.spark_checkpoint import Batch, LateRule, Operator, SparkCheckpoint
from cutover.timestamps import format_micros

SHOWN_BATCHES = 10
"""Newest batches that are printed; `--json` has all of them."""

_RULES = {
    LateRule.WINDOW: "drops the records of windows that end at or before the watermark (none in complete mode)",
    LateRule.ROW: "drops the records whose event time is at or before the watermark",
    LateRule.NEVER: "drops no record: its key has no event time with a watermark, so its state only grows",
    LateRule.UNKNOWN: "may drop late records; by which rule, the checkpoint does not show",
}


def list_query_lines(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion]) -> Iterator[Line]:
    """Yield the lines about a query, and a table of its newest batches."""
    first, last = checkpoint.batches[0], checkpoint.batches[-1]
    kept = count_noun(len(checkpoint.batches), "batch")
    yield f"Query {checkpoint.query_id}: {kept} kept, {first.number} to {last.number}."
    for operator in checkpoint.operators:
        delay = "" if operator.watermark_delay is None else f", watermark {format_duration(operator.watermark_delay)}"
        by = f" by {', '.join(operator.columns)}" if operator.columns else ""
        yield f"Operator {operator.id}, {operator.name}{by}{delay}: {_RULES[operator.late_rule]}."
    if not checkpoint.operators:
        yield "The checkpoint holds no state: a query without state drops no record by a watermark."
    shown = checkpoint.batches[-SHOWN_BATCHES:]
    if len(shown) < len(checkpoint.batches):
        yield f"The newest {SHOWN_BATCHES} batches (`--json` has all of them):"
    columns = ("batch", "offsets", "judged by watermark", "planned", "committed", "version")
    yield make_table(columns, (_list_cells(batch, versions) for batch in shown), right=("batch",))
    older = [version.version for version in versions if version.batch is None and not version.is_foreign]
    if older:
        yield f"{count_noun(len(older), 'version')} of the table, up to {older[-1]}, came from older batches."


def _list_cells(batch: Batch, versions: Sequence[TableVersion]) -> tuple[str, ...]:
    own_versions = [version for version in versions if version.batch == batch.number]
    return (
        str(batch.number),
        format_topic_offsets(batch.ends),
        "unknown" if batch.judged_by is None else format_micros(batch.judged_by or None) or "none",
        format_micros(batch.planned_at) or "",
        "yes" if batch.is_committed else "no",
        ", ".join(f"{version.version} ({version.evidence})" for version in own_versions),
    )


def encode_query(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion]) -> dict[str, object]:
    """Return the fields of a query in the JSON object that `--json` prints."""
    return {
        "query_id": checkpoint.query_id,
        "operators": [_encode_operator(operator) for operator in checkpoint.operators],
        "batches": [_encode_batch(batch, versions) for batch in checkpoint.batches],
    }


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
