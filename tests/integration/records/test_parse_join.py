"""Records of two topics become rows of one shape: each has the key, and nulls in place of the other side's columns."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from cutover.definition import Count, Fixed, Join, Pipeline, Topic
from cutover.records.parsing.parser import parse_records
from tests.support.rows.frames import LOG, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
PIPELINE = Pipeline(
    name="shown_and_clicked",
    source=Topic(name="shown", schema="at timestamp NOT NULL, ad string, place string, price int", event_time="at"),
    join=Join(
        right=Topic(
            name="clicked", schema="at timestamp NOT NULL, site string, banner string, cost bigint", event_time="at"
        ),
        on={"ad": "banner", "place": "site"},
        prefix="c_",
    ),
    key=("ad", "place"),
    window=Fixed(hours=1),
    measures={"pairs": Count()},
)
COLUMNS = ("ad", "place", "at", "price", "c_at", "c_site", "c_banner", "c_cost")


def parse(spark: "SparkSession", *records: tuple[bool, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of records of the right topic (true) or the left one (false), in their order."""
    rows = [
        (json.dumps({"at": NOON.isoformat()} | fields).encode(), 0, offset, NOON, is_right)
        for offset, (is_right, fields) in enumerate(records)
    ]
    table = parse_records(frame(spark, rows, f"{LOG}, _right boolean"), PIPELINE).toArrow().sort_by("_offset")
    assert table["_reason"].to_pylist() == [None] * len(records)
    return [{name: row[name] for name in COLUMNS} for row in table.to_pylist()]


@pytest.mark.quick
def test_row_of_either_topic_has_the_key_and_its_own_columns(spark: "SparkSession") -> None:
    left, right = parse(
        spark,
        (False, {"ad": "x", "place": "top", "price": 3}),
        (True, {"site": "top", "banner": "x", "cost": 5}),
    )

    nothing = dict.fromkeys(COLUMNS)
    assert left == nothing | {"ad": "x", "place": "top", "at": NOON, "price": 3}
    assert right == nothing | {
        "ad": "x",
        "place": "top",
        "c_at": NOON,
        "c_site": "top",
        "c_banner": "x",
        "c_cost": 5,
    }
