"""Batch jobs whose tables are compared with a definition at the position that they have recorded."""

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from cutover.adoption.adopt import AdoptedBatchJob, adopt_batch_job
from cutover.adoption.draft import JobDraft, MeasureChoice
from cutover.adoption.trial import JobReading
from cutover.definition import Delta, Fixed, Iceberg, Parquet, Postgres
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.positions.batch_table import find_job_table_kind
from tests.unit.adoption.test_hypotheses import DRAFT, NOON, PAYMENTS, read_log, take_first

COMPLETE: JobDraft = replace(
    DRAFT,
    types={**DRAFT.types, "amount": "decimal(10,2)"},
    measures={"payments": MeasureChoice("Count"), "total": MeasureChoice("Sum", "amount")},
)


def write_table(folder: Path, reading: JobReading, position: object, *, change: int = 0) -> str:
    rows = [
        {"hour": row["hour"], "shop": row["merchant"], "payments": row["payments"] + change, "revenue": row["total"]}
        for row in reading.rows
    ]
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(position)} if position else {})
    write_deltalake(str(folder), pa.Table.from_pylist(rows), commit_properties=properties)
    return str(folder)


def adopt_table(place: str, reading: JobReading, draft: JobDraft = COMPLETE) -> AdoptedBatchJob:
    with queries.open_duckdb() as connection:
        return adopt_batch_job(connection, place, draft, reading, take_first)


def test_a_table_is_compared_at_its_position_and_its_columns_are_named(tmp_path: Path) -> None:
    reading = read_log(lambda each: each["at"] < "2026-03-01T14:00")  # two hours, of which the job has read all records
    batch = adopt_table(write_table(tmp_path / "t", reading, {"payments": {"0": 120}}), reading)

    assert batch.check is not None
    assert (batch.check.is_exact, batch.check.cells, batch.check.windows) == (True, 12, 2)
    columns = '{"merchant": "shop", "total": "revenue", "window_start": "hour"}'
    assert batch.render().startswith(f'BatchJob(table=Delta("{tmp_path}/t"), columns=')
    assert json.dumps(dict(batch.job.columns), sort_keys=True) == columns
    assert "all 12 of 12 cells" in batch.describe()


def test_the_start_of_windows_is_found_by_its_values(tmp_path: Path) -> None:
    reading = read_log(lambda each: each["at"] < "2026-03-01T14:00")
    rows = [
        {
            "day": row["hour"].date(),
            "written": datetime(2026, 3, 2, 4, 7, 9, tzinfo=UTC),
            "until": row["hour"] + timedelta(hours=1),
            "slot": row["hour"],
            "shop": row["merchant"],
            "payments": row["payments"],
            "revenue": row["total"],
        }
        for row in reading.rows
    ]
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps({"payments": {"0": 120}})})
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(rows), commit_properties=properties)

    batch = adopt_table(str(tmp_path / "t"), reading)

    assert batch.job.columns["window_start"] == "slot"
    assert batch.check is not None
    assert batch.check.is_exact


def test_cells_that_differ_are_counted(tmp_path: Path) -> None:
    reading = read_log(lambda each: each["at"] < "2026-03-01T14:00")
    batch = adopt_table(write_table(tmp_path / "t", reading, {"payments": {"0": 120}}, change=1), reading)

    assert batch.check is not None
    assert (batch.check.equal_cells, batch.check.cells) == (6, 12)
    assert {cell.column for cell in batch.check.differences} == {"payments"}


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        (None, "position"),
        ({"payments": {"0": len(PAYMENTS) + 1}}, "beyond the newest batch"),
        ({"other": {"0": 1}}, "one of other, expected `payments`"),
    ],
)
def test_a_table_whose_position_does_not_allow_it_is_not_tested(tmp_path: Path, position: object, reason: str) -> None:
    reading = read_log(lambda _: True)
    batch = adopt_table(write_table(tmp_path / "t", reading, position), reading)

    assert batch.check is None
    assert reason in batch.describe()


def test_a_missing_column_and_a_row_per_record_are_rejected(tmp_path: Path) -> None:
    reading = read_log(lambda _: True)
    place = str(tmp_path / "t")
    write_deltalake(place, pa.table({"payments": [1]}))
    with pytest.raises(DefinitionError, match="expected a column for `window_start`, it has payments"):
        adopt_table(place, reading)
    with pytest.raises(DefinitionError, match="row per window and key"):
        adopt_table(place, reading, replace(COMPLETE, row_per_record=True))


def test_the_kind_of_a_table_is_that_of_its_place(tmp_path: Path) -> None:
    assert find_job_table_kind("env:DB#s.t") == Postgres(table="s.t", server="DB")
    assert find_job_table_kind("iceberg://c/n.t") == Iceberg("iceberg://c/n.t")
    assert find_job_table_kind(str(tmp_path)) == Parquet(str(tmp_path))
    write_deltalake(str(tmp_path / "d"), pa.table({"a": [1]}))
    assert find_job_table_kind(str(tmp_path / "d")) == Delta(str(tmp_path / "d"))
    with pytest.raises(DefinitionError, match="got `postgresql://") as caught:
        find_job_table_kind("postgresql://me:hunter2@host/db#s.t")
    assert "hunter2" not in str(caught.value)


def test_a_table_with_the_days_of_another_zone_is_rejected_with_the_zone(tmp_path: Path) -> None:
    reading = read_log(lambda _: True)
    days: dict[tuple[date, str], list[Decimal]] = defaultdict(list)
    for each in PAYMENTS:  # from 12:00 to 16:00 in UTC, which is from 21:00 to 01:00 in Tokyo
        day = datetime.fromisoformat(each["at"]).astimezone(ZoneInfo("Asia/Tokyo")).date()
        days[day, each["merchant"]].append(Decimal(each["amount"]))
    rows = [
        {"hour": day, "shop": shop, "payments": len(amounts), "revenue": sum(amounts)}
        for (day, shop), amounts in days.items()
    ]
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps({"payments": {"0": len(PAYMENTS)}})})
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(rows), commit_properties=properties)

    with pytest.raises(DefinitionError, match=r"expected the windows of the streaming job \(1 d in UTC\)") as caught:
        adopt_table(str(tmp_path / "t"), reading, replace(COMPLETE, window=Fixed(days=1)))
    assert "days of Asia/" in str(caught.value)
    assert "reproduce all 12 of 12 cells" in str(caught.value)


def test_a_table_with_other_keys_or_without_rows_is_named(tmp_path: Path) -> None:
    reading = read_log(lambda _: True)
    position = {"payments": {"0": len(PAYMENTS)}}
    other = replace(reading, rows=[{**row, "merchant": row["merchant"].upper()} for row in reading.rows])
    with pytest.raises(
        DefinitionError, match=r"`merchant` in `shop`.*none of its 12 rows has a window and key of the 12"
    ):
        adopt_table(write_table(tmp_path / "other", other, position), reading)

    place = tmp_path / "empty"
    write_table(place, reading, position)
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(position)})
    no_rows = pa.Table.from_pylist([{"hour": NOON, "shop": "a", "payments": 1, "revenue": Decimal("1.00")}]).slice(0, 0)
    write_deltalake(str(place), no_rows, mode="overwrite", schema_mode="overwrite", commit_properties=properties)
    assert "it has no rows" in adopt_table(str(place), reading).describe()
