"""Times in each format: the reference and Spark's parser agree on drawn texts and numbers."""

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.model.times import EPOCH_FORMATS, MONTHS
from cutover.definition.model.topic import ParseForm
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


def _check_agreement(spark: "SparkSession", time_format: str, values: list[object], parse: ParseForm) -> int:
    """Check that both parsers read each value alike, and return how many are times."""
    topic = Topic(
        name="t", schema="at timestamp, other timestamp", event_time="at", time_format=time_format, parse=parse
    )
    pipeline = Pipeline(name="p", source=topic, key=("other",), window=Fixed(hours=1), measures={"n": Count()})
    records = [json.dumps({"at": value, "other": value}).encode() for value in values]
    records += [json.dumps({"at": values[0], "other": value}).encode() for value in values]
    rows = [(record, 0, offset, datetime(2026, 1, 1, tzinfo=UTC)) for offset, record in enumerate(records)]
    parsed = parse_records(frame(spark, rows), pipeline).toArrow().sort_by("_offset").to_pylist()

    for record, row in zip(records, parsed, strict=True):
        expected = parse_record(record, topic)
        assert (record, expected.reason) == (record, row["_reason"])
        if expected.reason is None:
            assert (record, expected.values["at"]) == (record, to_micros(row["at"]))
    return sum(row["_reason"] is None for row in parsed)


@pytest.mark.parametrize("parse", JSON_FORMS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_of_a_pattern(pattern: str, parse: ParseForm, spark: "SparkSession") -> None:
    draw = random.Random(pattern)  # noqa: S311 -- drawn values of a test
    values: list[object] = [_draw_text(draw, pattern) for _ in range(300)]

    assert _check_agreement(spark, pattern, [*values, 1, None, "", True], parse) > 20


@pytest.mark.parametrize("parse", JSON_FORMS)
@pytest.mark.parametrize("time_format", EPOCH_FORMATS)
def test_numbers_since_1970(time_format: str, parse: ParseForm, spark: "SparkSession") -> None:
    draw = random.Random(time_format)  # noqa: S311 -- drawn values of a test
    numbers: list[object] = [draw.randint(-(2**63), 2**63) >> draw.randint(0, 40) for _ in range(100)]
    scaled: list[object] = [edge * EPOCH_FORMATS[time_format] for edge in EDGES]

    assert _check_agreement(spark, time_format, [*EDGES, *scaled, *numbers, "1", 1.5, None, True], parse) > 20
