"""Times in each format: the reference and Spark's parser agree on drawn texts and numbers."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.model.times import EPOCH_FORMATS, MONTHS
from cutover.definition.model.topic import JsonField, ParseForm
from cutover.records.parsing.parser import parse_records
from cutover.records.reference.parse import parse_record
from cutover.timestamps import to_micros
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERNS = (
    "dd.MM.yyyy HH:mm",
    "d.M.yyyy H:mm:ss",
    "MM/dd/yyyy hh:mm:ss a",
    "M/d/yyyy h:mm a",
    "dd/MMM/yyyy:HH:mm:ss Z",
    "yyyyMMdd'T'HHmmss",
    "ddMMyyyy",
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSSXXX",
    "yyyy-MM-dd HH:mm:ss.SSSXX",
    "yyyy 'year' MM-dd",
)
EDGES = (0, 1, -1, 999, -999, -1_000, 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, -30_610_224_000, 221_845_391_999)


def _draw_text(draw: random.Random, pattern: str) -> str:
    """Draw a text that often matches a pattern: each run of letters becomes a number or a name, rarely a wrong one."""
    wide = draw.random() < 0.1
    texts = {
        "yyyy": draw.choice(["2026", "2024", "1999", "0999", "9000", "0000", "+12026", "26", "-001"]),
        "MMM": draw.choice(MONTHS).title(),
        "a": draw.choice(["AM", "PM", "pm", "Am", "p"]),
        "XXX": draw.choice(["Z", "+01:30", "-18:00", "+18:01", "+00:00", "+0100", "z"]),
        "XX": draw.choice(["Z", "+0130", "-1800", "+1801", "+01:00"]),
        "Z": draw.choice(["+0130", "-1800", "+1801", "Z", "+0000"]),
    }
    limits = {"M": 12, "d": 29, "H": 23, "h": 12, "m": 59, "s": 59}
    text, quoted = "", False
    for run in _split_runs(pattern):
        if run == "'":
            quoted = not quoted
        elif quoted or not run[0].isalpha():
            text += run
        elif run in texts:
            text += texts[run]
        elif run[0] == "S":
            text += str(draw.randrange(10 ** draw.randint(1, len(run))))
        else:
            text += f"{draw.randint(0, limits[run[0]] + (40 if wide else 0)):0{len(run)}}"
    return text + draw.choice(["", "", "", "", " ", "x", "\n"])


def _split_runs(pattern: str) -> list[str]:
    runs: list[str] = []
    for character in pattern:
        if runs and character.isalpha() and runs[-1][0] == character:
            runs[-1] += character
        else:
            runs.append(character)
    return runs


JSON_FORMS: tuple[ParseForm, ...] = ("strict", "from_json")
IN_ONE_PLAN = 5
"""Formats of one topic, each of a column of its own: Spark takes longer to compile a plan than to read its records."""


def _check_agreement(spark: "SparkSession", values_by_format: Mapping[str, Sequence[object]], parse: ParseForm) -> None:
    """Check that both parsers read each value alike, in each format; the first one's column is the event time."""
    columns = {f"at{number}": time_format for number, time_format in enumerate(values_by_format)}
    topic = Topic(
        name="t",
        schema=", ".join(f"{column} timestamp" for column in columns),
        event_time="at0",
        fields={column: JsonField(time_format=time_format) for column, time_format in columns.items()},
        parse=parse,
    )
    pipeline = Pipeline(name="p", source=topic, key=("at1",), window=Fixed(hours=1), measures={"n": Count()})
    first_values = values_by_format[columns["at0"]]
    time = next(value for value in first_values if parse_record(_encode({"at0": value}), topic).reason is None)
    values = [(column, value) for column, name in columns.items() for value in values_by_format[name]]
    records = [_encode({"at0": time} | {column: value}) for column, value in values]
    rows = [(record, 0, offset, datetime(2026, 1, 1, tzinfo=UTC)) for offset, record in enumerate(records)]
    parsed = parse_records(frame(spark, rows), pipeline).toArrow().sort_by("_offset").to_pylist()

    times: Counter[str] = Counter()
    for (column, _), record, row in zip(values, records, parsed, strict=True):
        expected = parse_record(record, topic)
        assert (record, expected.reason) == (record, row["_reason"])
        if expected.reason is None:
            found = {name: None if row[name] is None else to_micros(row[name]) for name in columns}
            assert (record, dict(expected.values)) == (record, found)
            times[column] += found[column] is not None
    assert min(times[column] for column in columns) > 20


def _encode(values: Mapping[str, object]) -> bytes:
    return json.dumps(values).encode()


@pytest.mark.parametrize("parse", JSON_FORMS)
@pytest.mark.parametrize("first", range(0, len(PATTERNS), IN_ONE_PLAN))
def test_texts_of_patterns(first: int, parse: ParseForm, spark: "SparkSession") -> None:
    values: dict[str, list[object]] = {}
    for pattern in PATTERNS[first : first + IN_ONE_PLAN]:
        draw = random.Random(pattern)  # noqa: S311 -- drawn values of a test
        values[pattern] = [*(_draw_text(draw, pattern) for _ in range(300)), 1, None, "", True]

    _check_agreement(spark, values, parse)


@pytest.mark.parametrize("parse", JSON_FORMS)
def test_numbers_since_1970(parse: ParseForm, spark: "SparkSession") -> None:
    values: dict[str, list[object]] = {}
    for time_format, unit in EPOCH_FORMATS.items():
        draw = random.Random(time_format)  # noqa: S311 -- drawn values of a test
        numbers: list[object] = [draw.randint(-(2**63), 2**63) >> draw.randint(0, 40) for _ in range(100)]
        values[time_format] = [*EDGES, *(edge * unit for edge in EDGES), *numbers, "1", 1.5, None, True]

    _check_agreement(spark, values, parse)
