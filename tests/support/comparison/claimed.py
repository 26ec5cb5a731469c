"""Places of two results of the reference, and what a ledger says, as the reconciler takes them."""

from collections.abc import Mapping, Sequence

from cutover.definition import Pipeline, Sessions
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.log.kafka import RawRecord
from cutover.reconcile.attribution import log_rows
from cutover.reconcile.attribution.log_rows import FoldedPlace, Place
from cutover.records.classes import Class
from cutover.records.reference import Result, ResultRow
from cutover.records.reference.run import place_records


def ledger_of(stream: Result) -> dict[log_rows.Position, str]:
    """Return the class of each record that did not count, by position and window."""
    return {
        (row.partition, row.offset, row.window_start): str(row.cls)
        for row in stream.ledger
        if row.window_start is not None
    }


def places_of(pipeline: Pipeline, *sides: Result) -> list[Place]:
    """Return what is judged together, of all rows on some sides."""
    groups = {group for side in sides for group in side.rows}
    if not isinstance(pipeline.window, Sessions):
        return [Place(Interval(*group[:2]), group[2]) for group in sorted(groups, key=str)]
    keys = {group[2] for group in groups}
    return [
        Place(interval, key)
        for key in keys
        for interval in merge_intervals(Interval(*g[:2]) for g in groups if g[2] == key)
    ]


def rows_at(side: Result, place: Place) -> list[tuple[Interval, ResultRow]]:
    """Return the rows of a side at a place."""
    return [
        (Interval(start, end), row)
        for (start, end, key), row in side.rows.items()
        if key == place.key and place.interval.start <= start and end <= place.interval.end
    ]


def fold_log_by_place(
    pipeline: Pipeline, log: Sequence[RawRecord], stream: Result, batch: Result
) -> Mapping[Place, FoldedPlace]:
    """Fold the log's records by the places of both sides' rows."""
    places = places_of(pipeline, stream, batch)
    return log_rows.fold_places(pipeline, place_records(pipeline, log), ledger_of(stream), places, [Class.LATE])
