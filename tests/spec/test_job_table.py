"""Documented table of what `from_json` makes of each JSON token: Spark and the reference make the same."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cutover.records.parsing.parser import parse_records
from cutover.records.reference.parse import parse_record
from tests.support.rows.frames import frame
from tests.support.rows.job_table import PIPELINE, Parsed, render_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "definition-reference.md"


def _parse_in_python(records: Sequence[bytes]) -> list[Parsed]:
    parsed = [parse_record(record, PIPELINE.source) for record in records]
    return [(record.reason, record.values) for record in parsed]


def test_reference_gives_the_documented_table() -> None:
    assert render_table(_parse_in_python) in PAGE.read_text(encoding="utf-8")


def test_spark_gives_the_documented_table(spark: "SparkSession") -> None:
    def parse_in_spark(records: Sequence[bytes]) -> list[Parsed]:
        rows = [(record, 0, offset, datetime(2026, 1, 1, tzinfo=UTC)) for offset, record in enumerate(records)]
        parsed = parse_records(frame(spark, rows), PIPELINE).toArrow().sort_by("_offset").to_pylist()
        return [(row["_reason"], row) for row in parsed]

    assert render_table(parse_in_spark) in PAGE.read_text(encoding="utf-8")
