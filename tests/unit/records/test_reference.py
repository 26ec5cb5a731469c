"""Reference runner with hand-made logs: the class of each record and the result of each window."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import Avg, Count, First, Fixed, Last, Lateness, Lookup, Max, Pipeline, Sum, Topic
from cutover.errors import DefinitionError
from cutover.log.kafka import RawRecord
from cutover.records.classes import Class, Reason
from cutover.records.reference import Result, UncountedPair, compute_reference

HOUR = 3600
MICROS = 1_000_000
PIPELINE = Pipeline(
    name="p",
    source=Topic(
        name="t",
        schema="at timestamp NOT NULL, k string, v int, w int",
        event_time="at",
        time_format="seconds",
    ),
    where="v <> 99",
    derive={"double_v": "v * 2"},
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count(), "total": Sum("double_v"), "worst": Max("v"), "mean": Avg("v / w")},
    lateness=Lateness(out_of_orderness="10 minutes", allowed="0 seconds", max_ahead="1 hour"),
)


def record(offset: int, value: Mapping[str, Any] | bytes, *, partition: int = 0, log: int | None = None) -> RawRecord:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    at = value.get("at", 0) if isinstance(value, Mapping) else 0
    return RawRecord(
        partition=partition, offset=offset, log_time_micros=(at if log is None else log) * MICROS, value=raw
    )


def row(result: Result, start: int, key: str | None) -> tuple[int, Mapping[str, Any]]:
    window_row = result.rows[start * MICROS, (start + HOUR) * MICROS, (key,)]
    return window_row.n, dict(window_row.measures)


def test_measures_leave_nulls_out_and_keep_a_null_key() -> None:
    log = [
        record(0, {"at": 10, "k": None, "v": 3, "w": 2}),
        record(1, {"at": 3599, "v": 5, "w": None}),
        record(2, {"at": 3600, "k": "a", "v": -1, "w": 4}),
    ]

    result = compute_reference(PIPELINE, log)

    assert row(result, 0, None) == (2, {"n": 2, "total": 2 * 3 + 2 * 5, "worst": 5, "mean": 3 / 2})
    assert row(result, 3600, "a") == (1, {"n": 1, "total": 2 * -1, "worst": -1, "mean": -1 / 4})


def test_the_first_microsecond_of_1970_comes_before_the_second() -> None:
    source = Topic(name="t", schema="at timestamp NOT NULL, k string, v int", event_time="at")
    pipeline = replace(PIPELINE, source=source, derive={}, measures={"first": First("v"), "last": Last("v")})
    log = [
        record(0, {"at": "1970-01-01T00:00:00.000001Z", "k": "a", "v": 2}, log=0),
        record(1, {"at": "1970-01-01T00:00:00.000000Z", "k": "a", "v": 1}, log=0),
    ]

    assert row(compute_reference(pipeline, log), 0, "a") == (2, {"first": 1, "last": 2})


def test_a_failing_expression_makes_a_record_malformed_even_where_it_would_be_filtered() -> None:
    result = compute_reference(PIPELINE, [record(0, {"at": 10, "k": "a", "v": 99, "w": 0})])

    assert result.ledger == {
        UncountedPair(
            cls=Class.MALFORMED, partition=0, offset=0, window_start=None, event_time=None, reason=Reason.EXPRESSION
        )
    }


def test_filtered_records_are_counted_without_positions() -> None:
    result = compute_reference(PIPELINE, [record(0, {"at": 10, "k": "a", "v": 99, "w": 1})])

    assert (result.counts[Class.FILTERED], result.ledger) == (1, frozenset())


def test_an_event_of_2099_is_future_and_does_not_move_the_watermark() -> None:
    log = [record(0, {"at": 7200, "k": "a", "v": 1}), record(1, {"at": 4_070_908_800, "k": "a", "v": 1}, log=7200)]

    result = compute_reference(PIPELINE, log, epochs=[{0: 2}])

    assert result.counts[Class.FUTURE] == 1
    assert result.watermarks == ((7200 - 600) * MICROS,)


def test_rows_of_an_epoch_do_not_affect_each_others_lateness() -> None:
    log = [record(0, {"at": 20_000, "k": "a", "v": 1}), record(1, {"at": 10, "k": "a", "v": 1})]

    assert compute_reference(PIPELINE, log, epochs=[{0: 2}]).counts[Class.LATE] == 0
    assert compute_reference(PIPELINE, log, epochs=[{0: 1}, {0: 2}]).counts[Class.LATE] == 1


def test_a_partition_with_unread_records_holds_the_watermark() -> None:
    log = [record(0, {"at": 20_000, "k": "a", "v": 1}), record(0, {"at": 10, "k": "a", "v": 1}, partition=1)]

    result = compute_reference(PIPELINE, log, epochs=[{0: 1, 1: 0}, {0: 1, 1: 1}])

    assert result.watermarks == (None, (10 - 600) * MICROS)


def test_epochs_from_the_middle_of_a_stream_use_the_given_watermarks() -> None:
    log = [record(place, {"at": at, "k": "a", "v": 1, "w": 1}) for place, at in enumerate((10, 4000, 20))]

    result = compute_reference(PIPELINE, log, epochs=[{0: 2}, {0: 3}], watermarks=[None, HOUR * MICROS])

    assert {entry.offset for entry in result.ledger} == {2}
    assert row(result, 0, "a")[0] == row(result, 3600, "a")[0] == 1


WITH_IDS = replace(
    PIPELINE,
    source=replace(
        PIPELINE.source, schema="at timestamp NOT NULL, k string, v int, w int, i int NOT NULL", record_id="i"
    ),
)


def twin(offset: int, at: int, i: int | None, v: int = 1, *, partition: int = 0, log: int | None = None) -> RawRecord:
    fields = {"at": at, "k": "a", "v": v, "w": 1, "i": i}
    return record(
        offset, {name: value for name, value in fields.items() if value is not None}, partition=partition, log=log
    )


def classes(result: Result) -> dict[tuple[int, int], Class]:
    return {(entry.partition, entry.offset): entry.cls for entry in result.ledger}


def test_batch_counts_the_lowest_twin_and_the_stream_the_first_read() -> None:
    log = [twin(0, 20, 7), twin(0, 10, 7, partition=1), twin(1, 10, 7, partition=0)]

    batch = compute_reference(WITH_IDS, log)
    stream = compute_reference(WITH_IDS, log, epochs=[{0: 0, 1: 1}, {0: 2, 1: 1}])

    assert classes(batch) == {(1, 0): Class.DUPLICATE}
    assert classes(stream) == {(0, 1): Class.DUPLICATE}
    assert row(batch, 0, "a")[0] == row(stream, 0, "a")[0] == 2  # another event time is another record
    assert batch.id_conflicts == 1


def test_uncounted_records_register_no_id_and_a_missing_id_is_malformed() -> None:
    log = [twin(0, 10, 7, v=99), twin(1, 7_200, 7, log=0), twin(2, 10, 7), twin(3, 7_200, 7), twin(4, 10, None)]

    result = compute_reference(WITH_IDS, log)

    assert classes(result) == {(0, 1): Class.FUTURE, (0, 4): Class.MALFORMED}
    assert (result.counts[Class.FILTERED], result.counts[Class.ACCEPTED]) == (1, 2)


def test_duplicate_takes_precedence_over_late_until_its_id_expires() -> None:
    ends = [{0: end} for end in range(1, 6)]
    log = [twin(0, 10, 7), twin(1, 4_300, 8), twin(2, 10, 7), twin(3, 9_000, 9), twin(4, 10, 7)]

    result = compute_reference(WITH_IDS, log, epochs=ends)

    assert result.watermarks[1] == (4_300 - 600) * MICROS
    assert classes(result) == {(0, 2): Class.LATE, (0, 4): Class.LATE}
    longer = replace(WITH_IDS, source=replace(WITH_IDS.source, id_horizon="2 hours"))
    assert classes(compute_reference(longer, log, epochs=ends)) == {(0, 2): Class.DUPLICATE, (0, 4): Class.LATE}


def test_a_record_of_an_expired_minute_is_late_even_without_a_twin() -> None:
    shorter = replace(WITH_IDS, source=replace(WITH_IDS.source, id_horizon="5 minutes"))
    log = [twin(0, 3_000, 7), twin(1, 2_040, 8), twin(2, 2_100, 9)]

    result = compute_reference(shorter, log, epochs=[{0: 1}, {0: 3}])

    assert result.watermarks[0] == (3_000 - 600) * MICROS  # so ids of the minute of 2,100 seconds are still known
    assert classes(result) == {(0, 1): Class.LATE}


def test_known_ids_can_be_passed() -> None:
    assert classes(
        compute_reference(
            WITH_IDS, [twin(5, 10, 7)], epochs=[{0: 6}], watermarks=[None], known_twins=[(7, 10 * MICROS)]
        )
    ) == {(0, 5): Class.DUPLICATE}


def test_batch_truth_is_the_stream_and_its_late_rows() -> None:
    log = [
        record(offset, {"at": at, "k": "a", "v": 1}) for offset, at in enumerate([100, 9_000, 200, 20_000, 300, 9_100])
    ]

    batch, stream = (
        compute_reference(PIPELINE, log),
        compute_reference(PIPELINE, log, epochs=[{0: end} for end in range(1, 7)]),
    )

    assert (stream.counts[Class.LATE], stream.counts[Class.ACCEPTED]) == (3, 3)
    assert batch.counts[Class.ACCEPTED] == stream.counts[Class.ACCEPTED] + stream.counts[Class.LATE]


def test_a_row_gets_columns_of_its_epochs_dimension_or_nulls() -> None:
    lookup = Lookup(table="ads", on={"k": "ad"}, columns={"campaign": "string", "factor": "int"})
    pipeline = replace(
        PIPELINE,
        lookups={"ads": lookup},
        where="campaign <> 'off' OR campaign IS NULL",
        derive={"double_v": "v * factor"},
        key=("campaign",),
    )
    initial_ads = {("a",): {"campaign": "x", "factor": 2}, ("off",): {"campaign": "off", "factor": 0}}
    modified_ads = initial_ads | {("a",): {"campaign": "y", "factor": 3}}
    log = [record(n, {"at": 10, "k": k, "v": 5, "w": 1}) for n, k in enumerate(["a", "off", None, "new", "a"])]

    result = compute_reference(
        pipeline, log, dimensions=lambda raw: {"ads": modified_ads if raw.offset == 4 else initial_ads}
    )

    assert result.counts[Class.FILTERED] == 1
    assert {key: row.measures["total"] for (*_, (key,)), row in result.rows.items()} == {"x": 10, "y": 15, None: None}
    with pytest.raises(DefinitionError, match="expected the dimension of lookup `ads`, got none"):
        compute_reference(pipeline, log)
