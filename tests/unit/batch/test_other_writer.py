"""A batch run whose table another writer commits to between reading and committing."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from cutover.batch.write import publish
from cutover.batch.write.replace import replace_windows
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

PIPELINE = Pipeline(
    name="flights",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
NOON, HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)


def rows(key: str) -> pa.Table:
    row = {"window_start": NOON, "window_end": NOON + HOUR, "k": key, "n": 1, "_n": 1, "_epoch": 0}
    return pa.Table.from_pylist([row], schema=batch_schema(PIPELINE))


def made() -> Any:
    start = round(NOON.timestamp()) * 1_000_000
    run = SimpleNamespace(run_id="batch-1", epoch=0)
    return SimpleNamespace(run=run, rows=rows("ours"), replaced=[(start, start + 3_600_000_000)], retained_rows=None)


def test_run_with_a_concurrent_commit_publishes_no_windows(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(*arguments: Any, **options: Any) -> int:
        commits.append(delta.open_table(uri), rows("theirs"))
        return replace_windows(*arguments, **options)

    lake = PipelineLake(settings, PIPELINE)
    uri = lake.batch_uri()
    monkeypatch.setattr(publish, "replace_windows", overtaken)

    with pytest.raises(CommitFailedError):
        publish._replace(lake, made())

    table = delta.open_table(uri)
    assert table.to_pyarrow_table()["k"].to_pylist() == ["theirs"]


def test_run_without_a_concurrent_commit_publishes_its_windows(settings: Settings) -> None:
    lake = PipelineLake(settings, PIPELINE)
    version = publish._replace(lake, made())

    table = delta.open_table(lake.batch_uri())
    assert (version, table.to_pyarrow_table()["k"].to_pylist()) == (1, ["ours"])
    assert next(delta.list_commits(table))["userMetadata"] == '{"run_id": "batch-1", "epoch": 0}'
