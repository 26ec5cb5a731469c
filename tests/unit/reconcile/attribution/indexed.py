"""Shared fixtures: a definition with a lookup, batch runs of it, and their index."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from cutover.definition import Count, Fixed, Lookup, Pipeline, Topic
from cutover.lake.batch_runs import BatchRun
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import BATCH_INDEX, IndexKind
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

HOUR = 3_600_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PIPELINE = Pipeline(
    name="views",
    source=Topic(name="views", schema="at timestamp, ad string", event_time="at"),
    lookups={"ads": Lookup(table="ads", on={"ad": "ad"}, columns={"campaign": "string"})},
    key=("campaign",),
    window=Fixed(hours=1),
    measures={"views": Count()},
)


def span(start: int, end: int, version: int, *, partition: int = 0, table_id: str = "x") -> VersionSpan:
    return VersionSpan(partition=partition, first=start, next=end, version=version, table_id=table_id)


def make_run(name: str, **values: Any) -> BatchRun:
    """Build a batch run; the runs of one test are ordered by their names."""
    fields: dict[str, Any] = {
        "epoch": 0, "stream_version": 0, "topic": "views", "topic_id": "topic-1", "cluster_id": "cluster-1",
        "cut": {0: 100}, "scanned": {0: (0, 100)}, "watermark": None, "result_fingerprint": "r",
        "batch_fingerprint": "same", "isolation": "read_committed", "computed": (),
        "sequence": int.from_bytes(name.ljust(7).encode()[:7]),
    }  # fmt: skip
    return BatchRun(run_id=name, **(fields | values))


def make_index_row(
    run: str, hour: int, first_offset: int, last_offset: int, *, partition: int = 0, count: int = 1
) -> dict[str, Any]:
    """Build an index row: a run found records of an hour's window in the offsets `[first_offset, last_offset]`."""
    start = EPOCH + timedelta(hours=hour)
    place = {"_partition": partition, "first_offset": first_offset, "last_offset": last_offset, "_n": count}
    return {"_run": run, "window_start": start, "window_end": start + timedelta(hours=1), **place}


def write_index(
    settings: Settings,
    rows: Sequence[dict[str, Any]],
    runs: Sequence[BatchRun] = (),
    pipeline: Pipeline = PIPELINE,
) -> None:
    table = delta.ensure(PipelineLake(settings, pipeline).batch_uri("batch_index"), BATCH_INDEX)
    ranges = [row | {"_kind": IndexKind.RANGE, "_epoch": 0} for row in rows]
    run_rows = [{"_kind": IndexKind.RUN, "_run": run.run_id, "_epoch": 0, "_record": run.to_json()} for run in runs]
    commits.append(table, pa.Table.from_pylist([*ranges, *run_rows], schema=BATCH_INDEX))
