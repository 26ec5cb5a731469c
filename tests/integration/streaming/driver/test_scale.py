"""The ways of many rows say the same as the plain ones: epochs written by Spark, folds in little memory."""

# ruff: noqa: S608 -- names of the definition's own columns

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.definition import Avg, Count, Fixed, Max, Min, Pipeline, Sum
from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.kinds import SlidingWindows
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.records.fold import fold_sql
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.compaction import compactor, merge
from cutover.streaming.microbatch import aggregate
from cutover.streaming.sink import files
from cutover.streaming.sink.files import File
from cutover.timestamps import MICROSECONDS
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = [Event(id=i, minute=i / 20, key=None if i % 7 == 0 else f"k{i % 40}", partition=i % 2) for i in range(400)]
EVENTS += [Event(id=1000 + i, minute=0, logged=60) for i in range(20)]  # late
EVENTS += [Event(id=2000, raw=b"{"), Event(id=2001, key="drop"), Event(id=2002, minute=9000, logged=20)]
MINUTE = MICROSECONDS["minute"]
EVERY_TYPE: dict[str, Measure] = {
    "clicks": Count(),
    "ids": Sum("id"),
    "exact": Sum("CAST(id AS decimal(12,2)) / 4"),
    "mean": Avg("id"),
    "first": Min("k"),
    "newest": Max("at"),
}


def definition(topic: str) -> Pipeline:
    return replace(rig.pipeline(topic, cap=60), measures=EVERY_TYPE)


def rows(lake: PipelineLake) -> Counter[str]:
    """Return every row of the epoch log but the records, as text, and how often it stands there."""
    return Counter(repr(row) for row in rig.query_rows(lake, "SELECT * EXCLUDE (_unknown) FROM rows"))


def summarize_epochs(lake: PipelineLake) -> list[tuple[object, ...]]:
    """Return what each epoch counted, and how far it saw the time come."""
    return [(r.counts, r.records, r.unknown, r.max_event) for r in rig.records(lake)]


@pytest.mark.parametrize(
    "window", [Fixed(minutes=10), SlidingWindows(size=10 * MINUTE, every=4 * MINUTE)], ids=["fixed", "sliding"]
)
def test_epochs_that_overflow_hold_the_rows_of_plain_ones(
    quick: Settings,
    topic: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    window: SlidingWindows,
) -> None:
    pipeline = replace(definition(topic), window=window)
    plain = quick.model_copy(update={"home": tmp_path_factory.mktemp("plain")})
    overflowing = rig.fast(quick, overflow_rows=5)
    rig.send(quick, topic, EVENTS)

    driver.run_driver(PipelineLake(plain, pipeline), until="drain")
    collect, brought = aggregate.collect_partials, list[int]()

    def collected(frame: "DataFrame", definition: Pipeline) -> pa.Table:
        collected = collect(frame, definition)
        brought.append(collected.num_rows)
        return collected

    monkeypatch.setattr(aggregate, "collect_partials", collected)
    lake = PipelineLake(overflowing, pipeline)
    driver.run_driver(lake, until="drain")

    assert max(brought, default=0) <= overflowing.stream.overflow_rows + 1  # what the driver ever held
    overflow_rows = rows(lake)
    assert rig.list_spark_files(lake)
    assert rig.list_spark_files(PipelineLake(plain, pipeline)) == []
    assert overflow_rows == rows(PipelineLake(plain, pipeline))
    assert summarize_epochs(lake) == summarize_epochs(PipelineLake(plain, pipeline))
    assert overflow_rows.total() > len(EVENTS) // 2
    root = delta.local_root(rig.epoch_log(lake).table)
    assert root is not None
    assert list(root.glob("overflow-*")) == []


def test_fold_in_little_memory_holds_what_a_query_over_all_rows_returns(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick, overflow_rows=5, fold_memory="40MB"), definition(topic)
    rig.send(settings, topic, EVENTS)
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    version = versions.find_current_version(lake)
    assert version is not None
    log = rig.epoch_log(lake)
    schema = epoch_log_schema(pipeline)
    columns = schema.remove(schema.get_field_index("_kind"))
    listed_files = compactor.list_files(log.table)

    for kind in ("partial", "ledger", "epoch"):
        group = [file for file in listed_files if file.kind == kind]
        merged_file = merge.merge_group(lake, version.uri, group).file

        assert len(group) > 1
        assert (merged_file.first_epoch, merged_file.last_epoch) == (
            min(file.first_epoch for file in group),
            max(file.last_epoch for file in group),
        )
        with queries.open_duckdb() as connection:
            files.bind_files(connection, "before", version.uri, group, columns)
            files.bind_files(connection, "after", version.uri, [merged_file], columns)
            expected_query = fold_sql(pipeline, "before") if kind == "partial" else "SELECT * FROM before"
            names = ", ".join(item[0] for item in connection.execute(f"DESCRIBE {expected_query}").fetchall())
            rows_before = connection.execute(f"SELECT {names} FROM ({expected_query}) ORDER BY ALL").fetchall()
            rows_after = connection.execute(f"SELECT {names} FROM after ORDER BY ALL").fetchall()
            epochs = [row[0] for row in connection.execute("SELECT _epoch FROM after").fetchall()]
        assert rows_before == rows_after
        assert set(epochs) == {merged_file.last_epoch} if kind == "partial" else epochs == sorted(epochs)
        assert same_types(version.uri, merged_file, columns.names) == columns.types


def same_types(uri: str, file: File, names: list[str]) -> list[object]:
    """Return the types of a file's columns as other readers see them."""
    schema = pq.read_schema(f"{uri}/{file.path}")
    return [schema.field(name).type for name in names]
