"""Lines of CSV in plain Python: cells as Spark's parser splits them, and values that are malformed."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from cutover.cli.init import reject_other_form
from cutover.definition import CsvOptions, Topic
from cutover.errors import DefinitionError
from cutover.records.classes import Reason
from cutover.records.reference.from_csv import split_line
from cutover.records.reference.parse import parse_record

TOPIC = Topic(name="t", schema="k string NOT NULL, v decimal(9,2), d date, at timestamp", event_time="at", parse="csv")


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("a,,b,", ["a", None, "b", None]),
        ('"a,b","c ""d"""', ["a,b", '"c ""d"""']),  # doubled quotes are no escape by default
        (r'"a \"b\"",c', ['a "b"', "c"]),
        ('"",b', ["", "b"]),
        ('"a" ,b', ["a", "b"]),
        ('"a"b,c', ['"a"b', "c"]),
        ('a"b,c', ['a"b', "c"]),
        ('"a', ["a"]),
        ("\n", []),
    ],
)
def test_cells_are_those_of_the_parser_of_spark(line: str, cells: list[str | None]) -> None:
    assert split_line(line, CsvOptions()) == cells


def test_a_line_is_read_by_position() -> None:
    topic = replace(TOPIC, csv=CsvOptions(delimiter=";", escape='"', null_value="NA"))

    parsed = parse_record(b'"x ""y""";1,234.5;NA;2026-03-02 01:02;more', topic)

    assert (parsed.reason, parsed.unknown) == (None, 1)
    assert {name: parsed.values[name] for name in "kvd"} == {"k": 'x "y"', "v": Decimal("1234.50"), "d": None}
    assert parse_record(b"x;1;2026-3-2;2026-03-02", topic).values["d"] == date(2026, 3, 2)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"a,1,,2026-03-02\n", None),
        (b'"a\nb",1,,2026-03-02', None),
        (b"a,1,,2026-03-02\nb,2,,2026-03-03", Reason.TYPE),
        (b"a,1,,2026-03-02\n\n", Reason.TYPE),
        (b"a\0,1,,2026-03-02", Reason.TYPE),
        (b"a,1,9999-01-01,2026-03-02", Reason.TYPE),
        (b",1,,2026-03-02", Reason.MISSING),
        (b"a,1", Reason.EVENT_TIME),
        (b"a,1,,12:30", Reason.EVENT_TIME),
    ],
)
def test_values_that_no_comparison_can_read_are_malformed(value: bytes, reason: Reason | None) -> None:
    assert parse_record(value, TOPIC).reason is reason


def test_init_names_what_reads_values_that_are_no_json() -> None:
    for starts, form in (({b"\0"}, "avro"), ({b"a", b"1"}, "csv")):
        with pytest.raises(DefinitionError, match=f'`parse="{form}"`'):
            reject_other_form("t", starts)
    reject_other_form("t", {b"a", b"{"})
