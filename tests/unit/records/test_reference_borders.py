"""The plain Python runner at the borders of epochs, and the places of records that may count."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import ApproxDistinct, Count, Fixed, Lateness, Pipeline, Topic
from cutover.log.kafka import RawRecord
from cutover.records.classes import Class
from cutover.records.reference import compute_reference, measures
from cutover.records.reference.measures import finish_measure, spark_hash
from cutover.records.reference.run import place_records

MICROS = 1_000_000
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp NOT NULL, k string", event_time="at", time_format="seconds"),
    where="k <> 'off'",
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
    lateness=Lateness(out_of_orderness="0 seconds", allowed="0 seconds", max_ahead="1 hour"),
)


def record(partition: int, offset: int, at: int, **fields: Any) -> RawRecord:
    value = json.dumps({"at": at, "k": "a", **fields}).encode()
    return RawRecord(partition=partition, offset=offset, log_time_micros=at * MICROS, value=value)


@pytest.mark.parametrize(
    ("log", "epochs", "expected"),
    [
        ([record(0, 0, 900), record(0, 1, 100)], [{0: 2}], [900]),
        ([record(0, 0, 900), record(1, 0, 100)], [{0: 1}, {0: 1, 1: 1}], [None, 100]),
        ([record(0, 0, 900), record(1, 0, 100), record(1, 1, 50)], [{0: 0, 1: 1}, {0: 1, 1: 1}], [None, 100]),
        ([record(0, 0, 900), record(1, 0, 950), record(0, 1, 901)], [{0: 1, 1: 1}, {0: 2, 1: 1}], [900, 901]),
        ([record(0, 0, 900), record(0, 1, 100), record(0, 2, 200)], [{0: 1}, {0: 2}, {0: 3}], [900, 900, 900]),
        ([], [{0: 0}], [None]),
    ],
    ids=["newest of an epoch", "new partition", "one of two unread", "slowest partition", "never back", "no record"],
)
def test_watermark_is_the_minimum_over_partitions_with_records(
    log: list[RawRecord], epochs: list[Mapping[int, int]], expected: list[int | None]
) -> None:
    result = compute_reference(PIPELINE, log, epochs=epochs)

    assert result.watermarks == tuple(None if at is None else at * MICROS for at in expected)


def test_a_partition_that_an_epoch_does_not_name_is_not_read_in_it() -> None:
    log = [record(0, 0, 10), record(1, 0, 20), record(1, 1, 30, new=1, other=2)]

    first_result, both = (
        compute_reference(PIPELINE, log, epochs=[{0: 1}]),
        compute_reference(PIPELINE, log, epochs=[{0: 1}, {0: 1, 1: 2}]),
    )

    assert [row.n for row in first_result.rows.values()] == [1]
    assert [row.n for row in both.rows.values()] == [3]
    assert (first_result.unknown, both.unknown) == (0, 2)


def test_a_record_dated_exactly_as_far_ahead_as_allowed_counts_and_one_beyond_is_future() -> None:
    log = [replace(record(0, at, at), log_time_micros=0) for at in (3_600, 3_601)]

    assert [(entry.offset, entry.cls) for entry in compute_reference(PIPELINE, log).ledger] == [(3_601, Class.FUTURE)]


def test_unknown_fields_of_all_well_formed_records_are_summed() -> None:
    log = [record(0, 0, 10, new=1), record(0, 1, 20, new=1, other=2), record(0, 2, 30, k=7, new=1)]

    assert compute_reference(PIPELINE, log).unknown == 3


def test_records_behind_one_that_cannot_count_have_their_places() -> None:
    log = [record(0, 0, 10, k=7), record(0, 1, 20, k="off"), record(1, 5, 4_000), record(0, 9, 10)]

    places = [
        (record_place.group, record_place.position, record_place.is_future, record_place.twin)
        for record_place in place_records(PIPELINE, log)
    ]

    hour = 3600 * MICROS
    assert places == [((hour, 2 * hour, ("a",)), (1, 5), False, None), ((0, hour, ("a",)), (0, 9), False, None)]


@pytest.mark.parametrize(
    ("values", "variance", "error_bound"),
    [
        ([1.0, 3.0], 2.0, (1 + 9) * 2.0**-48),
        ([-1.0, -3.0, -2.0], 1.0, (1 + 9 + 4) * 2.0**-48 / 2),
        ([0.0, 0.0, 0.0], 0.0, 3 * 2.0**-180 / 2),
        ([2.0**-70, -(2.0**-70)], 2.0**-139, 2.0**-187 + 2 * 2.0**-180),
    ],
    ids=["two", "negative ones", "zeros", "tiny ones"],
)
def test_a_variance_of_doubles_has_an_error_bound_for_rounding(
    values: list[float], variance: float, error_bound: float
) -> None:
    estimate: Any = measures.variance(values)

    assert (estimate, estimate.max_error) == (variance, pytest.approx(error_bound, rel=1e-12, abs=0))


@pytest.mark.parametrize("function", [measures.variance, measures.stddev])
def test_one_value_has_no_spread_and_whole_numbers_have_it_exactly(function: Any) -> None:
    assert function([1.0]) is None
    assert not isinstance(function([1, 3]), measures.ApproximateFloat)
    assert function([1, 3, 5]) == {measures.variance: 4.0, measures.stddev: 2.0}[function]


def test_a_deviation_of_doubles_lies_between_the_roots_of_both_ends_of_its_variance() -> None:
    estimate: Any = measures.stddev([1.0, 3.0])

    assert estimate == pytest.approx(2.0**0.5)
    assert estimate.max_error == pytest.approx(2.0**0.5 - (2.0 - 10 * 2.0**-48) ** 0.5, rel=0.1)


def test_distinct_count_is_estimated_from_k_values_on() -> None:
    largest_hash = max(spark_hash(value, "int") for value in range(16))

    assert finish_measure(ApproxDistinct("v", k=16), range(16), "int") == 15 * 2**64 // (largest_hash + 2**63)
