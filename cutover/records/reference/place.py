"""Records in their places: window, key and values of each, for a fold of chosen records by plain Python."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.log.kafka import RawRecord
from cutover.records.reference.joined import Counted
from cutover.records.reference.lookups import At, nothing
from cutover.records.reference.run import (
    EvaluatedRecord,
    Group,
    ResultRow,
    Twin,
    judge,
    make_counted,
    measures_of,
    sessions_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One record in one of its windows; it parsed and passed `where`."""

    group: Group  # of sessions: the window of the record alone
    counted: Counted
    is_future: bool
    twin: Twin | None  # None: records have no id

    @property
    def position(self) -> tuple[int, int]:
        """(partition, offset)."""
        return self.counted[1][1:]


def place_records(pipeline: Pipeline, records: Sequence[RawRecord], dimensions: At = nothing) -> Iterator[Placed]:
    """Yield what may count, whatever class it has: every record that parsed and passes, once for each window.

    Args:
        pipeline: The definition.
        records: Any records, any order.
        dimensions: What lookups take their columns from.
    """
    for record in judge(pipeline, records, dimensions):
        evaluated, event = record.evaluated, record.event
        if evaluated is None or event is None or not evaluated.passes:
            continue
        counted, twin = make_counted(record, evaluated), _twin(pipeline, record, event)
        for start, end in pipeline.window.assign_windows(event):
            group = (start, end, evaluated.key)
            yield Placed(group=group, counted=counted, is_future=record.is_future(pipeline), twin=twin)


def fold_records(pipeline: Pipeline, chosen: Sequence[Placed]) -> Mapping[Group, ResultRow]:
    """Return the result of some records, as if they were all there are."""
    groups: dict[Group, list[Counted]] = {}
    for one in chosen:
        groups.setdefault(one.group, []).append(one.counted)
    whole = sessions_of(groups) if pipeline.window.merges else groups
    measures = measures_of(pipeline, whole)
    return {group: ResultRow(n=len(inside), measures=measures[group]) for group, inside in whole.items()}


def _twin(pipeline: Pipeline, record: EvaluatedRecord, event: int) -> Twin | None:
    name = pipeline.source.record_id
    return None if name is None else (record.parsed.values[name], event)
