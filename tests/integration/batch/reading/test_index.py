"""On which earlier runs the next one builds. No Spark: runs are written as the batch path writes them."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.batch.read import index
from cutover.definition import Pipeline, Sql
from cutover.definition.compile.fingerprint import batch_fingerprint
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.tables import commits, delta
from cutover.lake.tables.checksums import read_once
from cutover.lake.tables.schemas import BATCH_INDEX, IndexKind, batch_ledger_schema
from cutover.log.cut import LogId
from cutover.pipeline_lake import BatchTable, PipelineLake
from cutover.settings import Settings
from tests.integration.batch.lab import rows_of
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, write_run

RUN = lake_of([Sale()]).run
LOG = LogId(cluster_id=RUN.cluster_id, topic=RUN.topic, topic_id=RUN.topic_id)


def ran(settings: Settings, *pipelines: Pipeline) -> None:
    """Record one run after another, each under its own definition of the batch side."""
    for number, pipeline in enumerate(pipelines):
        fingerprint = batch_fingerprint(pipeline)
        run = replace(
            RUN, run_id=f"batch-{number}", batch_fingerprint=fingerprint, finished=f"2026-01-0{number + 1}T00:00:00Z"
        )
        write_run(settings, run, pipeline)


def built_on(lake: PipelineLake) -> list[str]:
    return [run.run_id for run in index.load_history(lake, LOG).runs]


def test_a_run_builds_on_all_runs_before_it(settings: Settings) -> None:
    ran(settings, PIPELINE, PIPELINE)

    assert built_on(PipelineLake(settings, PIPELINE)) == ["batch-0", "batch-1"]


def test_another_sql_builds_on_nothing(settings: Settings, tmp_path: Path) -> None:
    ran(settings, PIPELINE)

    assert built_on(PipelineLake(settings, _with_sql(tmp_path))) == []


def test_going_back_to_an_earlier_sql_does_not_build_on_its_old_runs(settings: Settings, tmp_path: Path) -> None:
    other = _with_sql(tmp_path)
    ran(settings, PIPELINE, other, PIPELINE)

    assert built_on(PipelineLake(settings, other)) == []
    assert built_on(PipelineLake(settings, PIPELINE)) == ["batch-2"]


def test_a_run_that_was_recorded_meanwhile_is_read_with_those_before_it(settings: Settings) -> None:
    with read_once():
        for count in (1, 2):
            ran(settings, *[PIPELINE] * count)
            for _ in range(2):
                recorded_runs = batch_runs.read_recorded_runs(PipelineLake(settings, PIPELINE))
                assert {run.run_id for run in recorded_runs} == {f"batch-{number}" for number in range(count)}
                recorded_runs.clear()


TIMES = ("2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z", "2031-06-01T00:00:00Z", "2026-01-02T00:00:00Z", "", "9999")


def test_runs_keep_the_order_in_which_they_were_recorded_whatever_their_clocks_said(settings: Settings) -> None:
    for number, at in enumerate(TIMES):
        write_run(settings, replace(RUN, run_id=f"batch-{number}", scanned={0: (number, number + 1)}, finished=at))

    lake = PipelineLake(settings, PIPELINE)
    all_runs = batch_runs.read_effective_runs(lake)
    assert [(run.run_id, run.sequence) for run in all_runs] == [(f"batch-{n}", n) for n in range(len(TIMES))]
    assert index.load_history(lake, LOG).scanned == {0: len(TIMES)}


def test_runs_of_a_release_that_numbered_none_are_ordered_by_the_versions_that_they_left(settings: Settings) -> None:
    versions = [(0, 0), (1, 0), (1, 2), (3, 2)]
    lake = PipelineLake(settings, PIPELINE)
    table = delta.ensure(lake.batch_uri("batch_index"), BATCH_INDEX)
    for number, (ledger, batch) in enumerate(versions):
        at = f"2026-01-0{9 - number}T00:00:00Z"
        run = replace(RUN, run_id=f"batch-{number}", ledger_version=ledger, batch_version=batch, finished=at)
        row = {"_kind": IndexKind.RUN, "_run": run.run_id, "_epoch": run.epoch, "_record": run.to_json()}
        commits.append(table, pa.Table.from_pylist([row], schema=BATCH_INDEX))
    write_run(settings, replace(RUN, run_id="numbered", ledger_version=3, batch_version=2, finished="2026-01-01"))

    all_runs = batch_runs.read_effective_runs(lake)
    assert [run.run_id for run in all_runs] == ["batch-0", "batch-1", "batch-2", "batch-3", "numbered"]
    assert all_runs[-1].sequence == 4


@pytest.mark.quick
def test_a_run_that_another_host_overtook_is_refused_before_it_writes_and_does_not_count(settings: Settings) -> None:
    write_run(settings, replace(RUN, run_id="first"))
    lake = PipelineLake(settings, PIPELINE)
    history = index.load_history(lake, LOG)
    write_run(settings, replace(RUN, run_id="of another host"))
    ranges, nothing = BATCH_INDEX.empty_table(), batch_ledger_schema(PIPELINE).empty_table()
    overtaken = replace(RUN, run_id="overtaken")

    with pytest.raises(LakeError, match=r"expected to record run 1, another process(.|\n)*cutover batch sales"):
        index.record_scan(lake, history, ranges=ranges, ledger=nothing, run=overtaken)
    with pytest.raises(LakeError, match="expected to record run 1"):
        index.record_run(lake, overtaken, sequence=history.next_sequence)

    assert not delta.exists(lake.batch_uri("batch_ledger"))
    assert [run.run_id for run in batch_runs.read_recorded_runs(lake)] == ["first", "of another host"]


def scan(settings: Settings, history: index.IndexHistory, run_id: str) -> BatchRun:
    """Write one row of the index and one of the ledger as what a run found."""
    row = {"_kind": IndexKind.RANGE, "_run": run_id, "_epoch": 0, "_partition": 0, "first_offset": 0, "last_offset": 9}
    schema = batch_ledger_schema(PIPELINE)
    ledger = pa.Table.from_pylist([{"_run": run_id, "_epoch": 0, "_class": "malformed", "_n": 1}], schema=schema)
    ranges = pa.Table.from_pylist([row], schema=BATCH_INDEX)
    run = replace(RUN, run_id=run_id)
    index.record_scan(PipelineLake(settings, PIPELINE), history, ranges=ranges, ledger=ledger, run=run)
    return run


def list_run_ids(settings: Settings, name: BatchTable) -> set[str]:
    rows = rows_of(PipelineLake(settings, PIPELINE).batch_uri(name))
    return {row["_run"] for row in rows if row.get("_kind") != IndexKind.RUN}


def test_of_two_hosts_at_work_at_once_the_one_whose_rows_the_other_took_out_does_not_count(settings: Settings) -> None:
    lake = PipelineLake(settings, PIPELINE)
    history = index.load_history(lake, LOG)
    rows: dict[BatchTable, int] = {"batch_index": 1, "batch_ledger": 1}
    first_scan, second = (scan(settings, history, run_id) for run_id in ("a" * 32, "b" * 32))

    with pytest.raises(LakeError, match="expected to record run 0, another process"):
        index.record_run(lake, first_scan, sequence=0, rows=rows)
    index.record_run(lake, second, sequence=0, rows=rows)

    assert [run.run_id for run in batch_runs.read_recorded_runs(lake)] == [second.run_id]
    assert list_run_ids(settings, "batch_index") == list_run_ids(settings, "batch_ledger") == {second.run_id}


def test_rows_of_a_run_that_another_host_merged_with_others_are_there(settings: Settings) -> None:
    lake = PipelineLake(settings, PIPELINE)
    run = scan(settings, index.load_history(lake, LOG), "a" * 32)
    for name in ("batch_index", "batch_ledger"):
        table = delta.open_table(lake.batch_uri(name))
        commits.append(table, pa.Table.from_pylist([{"_run": "other"}], schema=delta.read_schema(table)))
        assert commits.compact(table.table_uri, files=1)

    index.record_run(lake, run, sequence=0, rows={"batch_index": 1, "batch_ledger": 1})

    assert [run.run_id for run in batch_runs.read_recorded_runs(lake)] == [run.run_id]


def _with_sql(folder: Path) -> Pipeline:
    (folder / "team.sql").write_text("SELECT 1")
    return replace(PIPELINE, batch=Sql("team.sql"), file=folder / "sales.py")
