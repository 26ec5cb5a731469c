"""Placement of records: window, key and values of each record, and a fold of selected records in plain Python."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.log.kafka import RawRecord
from cutover.records.reference.joined import CountedRow
from cutover.records.reference.lookups import DimensionsAt, no_dimensions
from cutover.records.reference.run import (
    EvaluatedRecord,
    Group,
    ResultRow,
    Twin,
    compute_measures,
    evaluate_records,
    make_counted_row,
    merge_sessions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRecord:
    """Well-formed record that passes `where`, in one of its windows."""

    group: Group  # for sessions: the window of the single record
    row: CountedRow
    is_future: bool
    twin: Twin | None  # None: records have no id

    @property
    def position(self) -> tuple[int, int]:
        """Partition and offset."""
        return self.row[1][1:]


def place_records(
    pipeline: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt = no_dimensions
) -> Iterator[PlacedRecord]:
    """Yield each well-formed record that passes `where`, whatever its class, once per window.

    Args:
        pipeline: The definition.
        records: Any records, in any order.
        dimensions: Dimensions of the lookups.
    """
    for record in evaluate_records(pipeline, records, dimensions):
        evaluated, event = record.evaluated, record.event
        if evaluated is None or event is None or not evaluated.passes:
            continue
        row, twin = make_counted_row(record, evaluated), _find_twin(pipeline, record, event)
        for start, end in pipeline.window.assign_windows(event):
            group = (start, end, evaluated.key)
            yield PlacedRecord(group=group, row=row, is_future=record.is_future(pipeline), twin=twin)


def fold_records(pipeline: Pipeline, selected: Sequence[PlacedRecord]) -> Mapping[Group, ResultRow]:
    """Compute the result of the selected records only."""
    groups: dict[Group, list[CountedRow]] = {}
    for record in selected:
        groups.setdefault(record.group, []).append(record.row)
    merged_groups = merge_sessions(groups) if pipeline.window.merges else groups
    measures = compute_measures(pipeline, merged_groups)
    return {group: ResultRow(n=len(rows), measures=measures[group]) for group, rows in merged_groups.items()}


def _find_twin(pipeline: Pipeline, record: EvaluatedRecord, event: int) -> Twin | None:
    name = pipeline.source.record_id
    return None if name is None else (record.parsed.values[name], event)
