"""Change events of Debezium: rows after the change, with or without Kafka Connect's schema around them."""

import json

import pytest

from cutover.records.proposal.guess import Guess, Survey
from cutover.records.reference.parse import parse_object

EVENT = {"before": None, "after": {"id": 1, "op": "x"}, "op": "c", "ts_ms": 1_772_409_600_500}


def guess(*records: object) -> Guess:
    survey = Survey(is_cells=False)
    for line, record in enumerate(records, start=1):
        survey.add_object(line, dict(parse_object(json.dumps(record)).members))
    return survey.guess()


@pytest.mark.parametrize(
    ("record", "prefix"), [(EVENT, ""), ({"schema": {"type": "struct"}, "payload": EVENT}, "payload.")]
)
def test_columns_are_those_of_the_row_with_kind_and_time_of_the_change(record: object, prefix: str) -> None:
    guessed = guess(record)

    assert {name: field.path for name, field in guessed.fields.items()} == {
        "id": f"{prefix}after.id",
        "op_2": f"{prefix}after.op",
        "op": f"{prefix}op",
        "changed_at": f"{prefix}ts_ms",
    }
    assert (guessed.event_time, guessed.time_format, guessed.where) == ("changed_at", "millis", "op <> 'd'")


def test_record_with_a_field_called_after_is_no_change_event() -> None:
    guessed = guess({"after": 1, "before": 2, "op": "c", "at": "2026-03-02"})

    assert (dict(guessed.fields), guessed.where, guessed.event_time) == ({}, None, "at")
