"""Archive of a job that runs while its checkpoint and its table are read."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cutover.clock import SystemClock
from cutover.definition import Count, Delta, Fixed, Pipeline, SparkStream, Topic
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.positions.followed_job import JobArchive
from cutover.settings import Settings
from tests.unit.positions.test_spark_checkpoint import write


def append(table: Path, number: int) -> None:
    """Append a row as the query's own batch does."""
    properties = CommitProperties(app_transactions=[Transaction("q", number)])
    write_deltalake(str(table), pa.table({"id": [number]}), mode="append", commit_properties=properties)


def test_a_batch_that_commits_while_the_table_is_read_gets_its_own_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, table = write(tmp_path / "checkpoint", commits=1), tmp_path / "table"
    append(table, 0)
    open_table = delta.open_table

    def open_before_a_commit(uri: str, version: int | None = None) -> DeltaTable:
        opened = open_table(uri, version)
        if uri == str(table) and not (checkpoint / "commits/1").exists():
            append(table, 1)
            (checkpoint / "commits/1").write_text('v1\n{"nextBatchWatermarkMs":0}')
        return opened

    monkeypatch.setattr(delta, "open_table", open_before_a_commit)
    pipeline = Pipeline(
        name="payments",
        source=Topic(name="t", schema="id bigint, at timestamp", event_time="at"),
        key=("id",),
        window=Fixed(hours=1),
        measures={"copies": Count()},
        stream=SparkStream(
            table=Delta(str(table)), checkpoint=str(checkpoint), output_mode="append", row_per_record=True
        ),
    )
    archive = JobArchive(PipelineLake(Settings(home=tmp_path / "home"), pipeline), SystemClock())

    assert [(row.number, row.table_version) for row in archive.update()] == [(0, 0)]
    assert [(row.number, row.table_version) for row in archive.update()] == [(0, 0), (1, 1)]
