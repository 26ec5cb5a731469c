"""Times that are none: an event time with some other texts, and a column with the time at which the job ran."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cutover.adoption.draft import Stated
from cutover.adoption.hypotheses import verify
from cutover.adoption.proposal import begin_draft
from cutover.adoption.trial import evaluate_draft, omit_foreign_times
from cutover.errors import DefinitionError
from tests.unit.adoption.test_number_texts import NOON, RIDES, SHAPE, draft_rides, read_rides, sample_rides, search


def replace_times(is_broken: Callable[[int], bool], value: object) -> Sequence[Mapping[str, Any]]:
    return [{**ride, "at": value if is_broken(number) else ride["at"]} for number, ride in enumerate(RIDES)]


@pytest.mark.parametrize("value", ["yesterday", "", "2026-13-45T99:00:00Z", True, ["2026-03-01"]])
@pytest.mark.parametrize("first", [0, 7])
def test_a_field_of_which_few_values_are_no_times_is_the_event_time(value: object, first: int) -> None:
    sample = sample_rides(replace_times(lambda number: number % 100 == first, value))

    draft = begin_draft("rides", "/c", SHAPE, sample, Stated())

    assert (draft.event_time, draft.types["at"], draft.time_format) == ("at", "timestamp", "iso")
    assert draft.seen["event_time"].text.endswith("its only time; 6 sampled values are no times, and count as null")


def test_null_is_no_other_value() -> None:
    sample = sample_rides(replace_times(lambda number: number % 2 == 1, None))

    draft = begin_draft("rides", "/c", SHAPE, sample, Stated())

    assert draft.seen["event_time"].text.endswith("its only time")


def test_times_in_a_pattern_may_have_other_values_too() -> None:
    rides = [{**ride, "at": f"{number % 28 + 1}.03.2026 12:00:00"} for number, ride in enumerate(RIDES)]
    rides[0]["at"] = "unknown"

    draft = begin_draft("rides", "/c", SHAPE, sample_rides(rides), Stated())

    assert (draft.event_time, draft.time_format) == ("at", "d.M.yyyy HH:mm:ss")


def test_a_field_of_which_many_values_are_no_times_is_named_with_the_option_that_reads_it() -> None:
    sample = sample_rides(replace_times(lambda number: number % 4 == 0, "yesterday"))

    with pytest.raises(DefinitionError) as error:
        begin_draft("rides", "/c", SHAPE, sample, Stated())

    assert '`at` is no time in 150 of 600 values, such as "yesterday"' in str(error.value)
    assert "`--type at=timestamp` reads these as null." in str(error.value)
    stated = sample.state_types({"at": "timestamp"})
    assert begin_draft("rides", "/c", SHAPE, stated, Stated()).event_time == "at"


def test_numbers_are_no_nulls_of_a_job_which_reads_them_as_seconds() -> None:
    with pytest.raises(DefinitionError, match="with a time") as error:
        begin_draft("rides", "/c", SHAPE, sample_rides(replace_times(lambda number: number == 5, 0)), Stated())

    assert "is no time in" not in str(error.value)


def test_a_text_that_is_seldom_a_time_is_not_named() -> None:
    rides = [{**ride, "at": "2026-03-01" if number < 100 else f"ride {number}"} for number, ride in enumerate(RIDES)]

    with pytest.raises(DefinitionError, match="with the fields") as error:
        begin_draft("rides", "/c", SHAPE, sample_rides(rides), Stated())

    assert "is no time in" not in str(error.value)


def test_a_column_with_the_time_of_the_jobs_run_is_left_out_before_hypotheses_are_tried() -> None:
    draft = draft_rides(sample_rides())
    draft = replace(draft, value_columns={**draft.value_columns, "updated_at": "TIMESTAMP WITH TIME ZONE"})
    reading = read_rides(lambda ride: not ride["test"])
    rows = [{**row, "updated_at": datetime(2026, 11, 29, 14, n % 3, tzinfo=UTC)} for n, row in enumerate(reading.rows)]
    reading = replace(reading, rows=rows)

    trial = omit_foreign_times(evaluate_draft(draft, (), reading), (), reading)
    completed = search(trial.draft, reading)

    assert list(trial.draft.value_columns) == ["rides", "revenue", "longest_km"]
    assert "no field of the records has one of its times" in completed.omitted["updated_at"]
    assert verify(completed, reading).is_exact


def test_a_column_with_times_of_records_or_a_stated_measure_is_kept() -> None:
    draft = draft_rides(sample_rides())
    draft = replace(draft, value_columns={**draft.value_columns, "latest": "TIMESTAMP"})
    reading = read_rides(lambda _: True)
    known = [{**row, "latest": NOON.replace(tzinfo=None)} for row in reading.rows]
    foreign = [{**row, "latest": NOON.replace(tzinfo=None, microsecond=1)} for row in reading.rows]

    empty = [{**row, "latest": None} for row in reading.rows]

    for rows, stated, is_kept in (
        (known, (), True),
        (empty, (), True),
        (foreign, ("latest",), True),
        (foreign, (), False),
    ):
        trial = omit_foreign_times(evaluate_draft(draft, (), reading), stated, replace(reading, rows=rows))
        assert ("latest" in trial.draft.value_columns) == is_kept


def test_a_table_with_no_other_column_keeps_it() -> None:
    draft = replace(draft_rides(sample_rides()), value_columns={"updated_at": "TIMESTAMP"})
    reading = read_rides(lambda _: True)
    reading = replace(reading, rows=[{**row, "updated_at": datetime(2026, 11, 29, tzinfo=UTC)} for row in reading.rows])

    assert omit_foreign_times(evaluate_draft(draft, (), reading), (), reading).draft is draft
