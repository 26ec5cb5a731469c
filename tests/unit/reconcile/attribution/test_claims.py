"""Rows folded from the log whose records the ledger lists: copies of one id, wrong values, duplicate rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from cutover.definition import Count, First, Fixed, Last, Max, Min, Pipeline, Sum, Topic, TopK
from cutover.definition.windows.window_fn import Interval
from cutover.log.kafka import RawRecord
from cutover.reconcile.attribution import log_rows
from cutover.records import reference
from cutover.records.classes import Class
from cutover.records.reference import Result, ResultRow
from cutover.records.reference.run import place_records
from tests.support.comparison.claimed import fold_log_by_place, places_of, rows_at
from tests.support.log.logs import Send, ends_of, log_of

PIPELINE = Pipeline(
    name="p",
    source=Topic(
        name="t", schema="at timestamp, k string, v int, i int NOT NULL", event_time="at", time_format="seconds"
    ),
    key=("k",),
    window=Fixed(hours=1),
    measures={
        "n": Count(),
        "total": Sum("v"),
        "low": Min("v"),
        "high": Max("v"),
        "first": First("v"),
        "last": Last("v"),
        "top": TopK("v", k=3),
    },
)
IDS = replace(PIPELINE, source=replace(PIPELINE.source, record_id="i"))


def record(value: int, *, id_: int, key: str = "a", partition: int = 0, second: int = 10) -> Send:
    return Send(partition=partition, ahead=second, fields={"k": key, "v": value, "i": id_})


def both(pipeline: Pipeline, *epochs: Sequence[Send]) -> tuple[Sequence[RawRecord], Result, Result]:
    log = log_of([send for epoch in epochs for send in epoch])
    sizes = [sum(map(len, epochs[: n + 1])) for n in range(len(epochs))]
    ends = [ends_of(log[:size]) for size in sizes]
    return log, reference.compute_reference(pipeline, log, epochs=ends), reference.compute_reference(pipeline, log)


def spoilt(rows: list[tuple[Interval, ResultRow]], **values: object) -> list[tuple[Interval, ResultRow]]:
    return [(window, replace(row, measures={**row.measures, **values})) for window, row in rows]


@pytest.mark.parametrize("name", [name for name in PIPELINE.measures if name != "top"])
def test_a_wrong_value_beneath_a_late_record_is_seen_in_every_measure(name: str) -> None:
    late = record(99, id_=3, second=20)
    log, stream, batch = both(
        PIPELINE, [record(5, id_=1), record(7, id_=2, second=30)], [record(1, id_=4, second=90_000)], [late]
    )
    place = min(places_of(PIPELINE, stream), key=lambda place: place.interval.start)
    place_fold = fold_log_by_place(PIPELINE, log, stream, batch)[place]

    assert log_rows.matches_log(place_fold.stages[0], rows_at(stream, place))
    assert not log_rows.matches_log(place_fold.stages[0], spoilt(rows_at(stream, place), **{name: 98}))


COPIES = {
    "in the same partition": [record(9, id_=1), record(4, id_=1)],
    "in another partition, which lies lower": [record(9, id_=1, partition=1), record(4, id_=1, partition=0)],
    "under another key": [record(9, id_=1, partition=1, key="b"), record(4, id_=1, partition=0)],
}


@pytest.mark.parametrize("case", COPIES)
@pytest.mark.parametrize("together", [True, False], ids=["one epoch", "two epochs"])
def test_contradicting_copies_of_one_id_are_duplicates_for_every_measure(case: str, together: bool) -> None:
    other_records = [record(6, id_=2), record(5, id_=3, key="b"), record(1, id_=4, second=30)]
    copies = COPIES[case]
    epochs = [[*other_records, *copies]] if together else [[*other_records, copies[0]], copies[1:]]
    log, stream, batch = both(IDS, *epochs)

    folds = fold_log_by_place(IDS, log, stream, batch)

    assert stream.counts[Class.DUPLICATE] == batch.counts[Class.DUPLICATE] == 1
    for place, place_fold in folds.items():
        assert place_fold.are_twins_sound
        assert log_rows.matches_log(place_fold.stages[0], rows_at(stream, place))
        assert log_rows.matches_log(place_fold.batch, rows_at(batch, place))


LEDGERS: Mapping[str, tuple[dict[int, str], bool]] = {
    "the stream counted one": ({1: "duplicate"}, True),
    "the stream counted the other": ({0: "duplicate"}, True),
    "one came when its id was forgotten": ({1: "late"}, True),
    "both came too late": ({0: "late", 1: "late"}, True),
    "one was late, the other its duplicate": ({0: "late", 1: "duplicate"}, True),
    "the stream counted both": ({}, False),
    "the stream counted none": ({0: "duplicate", 1: "duplicate"}, False),
}


@pytest.mark.parametrize("case", LEDGERS)
def test_twins_are_sound_if_the_stream_counted_at_most_one(case: str) -> None:
    classes_by_offset, is_sound = LEDGERS[case]
    log = log_of([record(5, id_=1), record(5, id_=1)])
    batch = reference.compute_reference(IDS, log)
    (place,) = places_of(IDS, batch)
    ledger = {(0, offset, place.interval.start): name for offset, name in classes_by_offset.items()}

    folds = log_rows.fold_places(IDS, place_records(IDS, log), ledger, [place], [Class.LATE])

    assert folds[place].are_twins_sound is is_sound


def test_a_duplicate_row_is_not_confirmed_by_the_log() -> None:
    log, stream, batch = both(PIPELINE, [record(5, id_=1)])
    (place,) = places_of(PIPELINE, stream)
    rows = rows_at(stream, place)

    assert not log_rows.matches_log(fold_log_by_place(PIPELINE, log, stream, batch)[place].stages[0], [*rows, *rows])
