"""Records in their places: window, key and values of each, for a fold of chosen records by plain Python."""

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
    """One record in one of its windows; it parsed and passed `where`."""

    group: Group  # of sessions: the window of the record alone
    row: CountedRow
    is_future: bool
    twin: Twin | None  # None: records have no id

    @property
    def position(self) -> tuple[int, int]:
        """(partition, offset)."""
        return self.row[1][1:]


def place_records(
    pipeline: Pipeline, records: Sequence[RawRecord], dimensions: DimensionsAt = no_dimensions
) -> Iterator[PlacedRecord]:
    """Yield what may count, whatever class it has: every record that parsed and passes, once for each window.

    Args:
        pipeline: The definition.
        records: Any records, any order.
        dimensions: What lookups take their columns from.
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
    """Return the result of some records, as if they were all there are."""
    groups: dict[Group, list[CountedRow]] = {}
    for placed in selected:
        groups.setdefault(placed.group, []).append(placed.row)
    merged_groups = merge_sessions(groups) if pipeline.window.merges else groups
    measures = compute_measures(pipeline, merged_groups)
    return {group: ResultRow(n=len(rows), measures=measures[group]) for group, rows in merged_groups.items()}


def _find_twin(pipeline: Pipeline, record: EvaluatedRecord, event: int) -> Twin | None:
    name = pipeline.source.record_id
    return None if name is None else (record.parsed.values[name], event)
