"""Fields at nested places that do not match the schema: named by their paths."""

import pytest

from cutover.definition import JsonField, Topic
from cutover.reconcile.watch.findings import describe_mismatch

TOPIC = Topic(
    name="t",
    schema="who string NOT NULL, at timestamp NOT NULL",
    event_time="at",
    fields={"who": JsonField(path="payload.`first name`"), "at": JsonField(path="payload.times[1]")},
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"payload": {"first name": "a", "times": [1, "2026-03-01"]}}', None),
        (b'{"payload": {"times": [1, "2026-03-01"]}}', "field `payload.`first name`` is missing"),
        (b'{"payload": {"first name": "a", "times": [1]}}', "field `payload.times[1]` is missing"),
        (b'{"payload": {"first name": 5, "times": [1, "2026-03-01"]}}', "field `payload.`first name`` is no string"),
        (b'{"payload": {"first name": "a", "times": 5}}', "field `payload.times[1]` is no timestamp"),
        (b'{"payload": {"first name": "a", "times": [1, "2026-03-01"]}, "who": 1}', "field `who` is not in the schema"),
    ],
)
def test_field_that_does_not_fit_is_named_by_its_path(value: bytes, expected: str | None) -> None:
    assert describe_mismatch(value, TOPIC) == expected
