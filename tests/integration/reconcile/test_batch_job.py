"""A team's batch table at drawn positions: only windows whose records lie on both sides of it need its own rows."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from cutover.definition import BatchJob, Delta, Iceberg, Parquet, Pipeline, Postgres
from cutover.lake import batch_runs
from cutover.lake.batch_runs import JobRowsNote, replace_job_rows
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.positions import batch_table
from cutover.positions.position import PositionReport
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.cli.reconcile import list_explanation_lines
from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.result.parts import JobTable
from cutover.settings import Settings
from cutover.sources.binding import BoundTable, SourceBinder
from tests.integration.reconcile.lake_of import (
    PIPELINE,
    Sale,
    lake_of,
    log_of_lake,
    micros,
    reconcile,
    write,
    write_run,
)
from tests.support.servers.postgres import running_server
from tests.support.suite.depth import depth

_TYPES: dict[str, pa.DataType] = {
    "window_start": pa.timestamp("us", tz="UTC"),
    "shop": pa.string(),
    "desk": pa.int32(),
    "sales": pa.int64(),
    "revenue": pa.int64(),
    "least": pa.int64(),
    "most": pa.int64(),
    "mean": pa.float64(),
}
COLUMNS = pa.schema(list(_TYPES.items()))
SALES = st.lists(
    st.builds(
        Sale,
        epoch=st.integers(0, 2),
        hour=st.integers(0, 4),
        shop=st.sampled_from(["a", "b", None]),
        amount=st.integers(-3, 3),
        kind=st.sampled_from(["accepted", "accepted", "late"]),
    ),
    min_size=1,
    max_size=12,
)


def with_job(table: Path) -> Pipeline:
    return replace(PIPELINE, batch=BatchJob(table=Delta(str(table))))


def compute(sales: Sequence[Sale]) -> list[dict[str, Any]]:
    """Return the rows of a batch job that has read some records."""
    return [dict(row) for row in lake_of(sales).batch] if sales else []


def write_table(table: Path, rows: Sequence[dict[str, Any]], position: object) -> None:
    selected = [{name: row[name] for name in COLUMNS.names} for row in rows]
    note = CommitProperties(custom_metadata={"userMetadata": json.dumps(position)})
    write_deltalake(table, pa.Table.from_pylist(selected, schema=COLUMNS), mode="overwrite", commit_properties=note)


def find_job(finding: Finding) -> JobTable:
    (job,) = finding.jobs
    return job


@pytest.mark.quick
@depth(2, 60)
@given(sales=SALES, data=st.data())
def test_a_job_at_any_position_is_what_the_definition_says(sales: list[Sale], data: st.DataObject) -> None:
    ordered = sorted(sales, key=lambda sale: sale.epoch)
    end = data.draw(st.integers(0, len(ordered)))
    hours_before, hours_after = ({sale.hour for sale in part} for part in (ordered[:end], ordered[end:]))
    across = hours_before & hours_after
    rows = compute(ordered[:end])
    with TemporaryDirectory() as folder:
        pipeline, settings = with_job(Path(folder) / "job"), Settings(home=Path(folder) / "home")
        lake = PipelineLake(settings, pipeline)
        write(settings, lake_of(sales, pipeline), pipeline)
        write_table(Path(folder) / "job", rows, {"sales": {"0": end}})

        job = find_job(reconcile(lake).finding)

        assert (job.different, job.cells) == (0, ())
        assert job.level == ("bounded" if across else "reproduced")
        assert job.rows == sum((row["window_start"].hour not in across) for row in rows)

        windows = frozenset(map(micros, across))
        note = JobRowsNote(run_id="batch-1", topic_id="topic-1", ends={0: end}, windows=windows)
        at_position = [row for row in rows if row["window_start"].hour in across]
        replace_job_rows(
            lake, note, pa.Table.from_pylist(_complete(at_position, pipeline), schema=batch_schema(pipeline))
        )
        job = find_job(reconcile(lake).finding)
        assert (job.level, job.different, job.rows) == ("reproduced", 0, len(rows))

        if rows:
            place = data.draw(st.integers(0, len(rows) - 1))
            rows[place]["revenue"] += 1
            write_table(Path(folder) / "job", rows, {"sales": {"0": end}})
            finding = reconcile(lake).finding
            assert (finding.verdict, find_job(finding).different_values) == (Verdict.DIVERGED, 1)
            assert [cell.measure for cell in find_job(finding).cells] == ["revenue"]
            key = [None if rows[place][name] is None else str(rows[place][name]) for name in pipeline.key]
            explained = explain_cell(lake, rows[place]["window_start"], key, log=log_of_lake(lake_of(sales, pipeline)))
            assert explained.jobs[0].cells == find_job(finding).cells
            lines = " ".join(map(str, list_explanation_lines(explained)))
            assert "batch job  revenue is " in lines


def _complete(rows: Sequence[dict[str, Any]], pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return rows with the columns of the batch table."""
    names = batch_schema(pipeline).names
    return [{name: row.get(name) for name in names} for row in rows]


@given(sales=SALES, data=st.data())
@depth(5, 100)
def test_a_position_with_two_bounds_judges_windows_without_a_record_between_them(
    sales: list[Sale], data: st.DataObject
) -> None:
    ordered = sorted(sales, key=lambda sale: sale.epoch)
    lower = data.draw(st.integers(0, len(ordered)))
    end = data.draw(st.integers(lower, len(ordered)))
    upper = data.draw(st.integers(end, len(ordered)))
    position = {
        "format": "cutover.position/1",
        "topics": {"sales": {"0": lower}},
        "upto": {"sales": {"0": upper}},
    }
    with TemporaryDirectory() as folder:
        pipeline, settings = with_job(Path(folder) / "job"), Settings(home=Path(folder) / "home")
        write(settings, lake_of(sales, pipeline), pipeline)
        write_table(Path(folder) / "job", compute(ordered[:end]), position)

        job = find_job(reconcile(PipelineLake(settings, pipeline)).finding)

    between = {sale.hour for sale in ordered[lower:upper]}
    assert job.different == 0
    assert between or job.level == "reproduced" or job.not_judged > 0
    assert not between or job.level == "bounded" or job.not_judged == 0


READ = (Sale(hour=0), Sale(hour=0), Sale(hour=0, amount=2), Sale(hour=1, amount=4), Sale(hour=1, shop="b", amount=6))
UNREAD = (Sale(epoch=1, hour=2), Sale(epoch=1, hour=3))
POSITION = {"sales": {"0": len(READ)}}


def open_lake(tmp_path: Path, job: BatchJob) -> PipelineLake:
    """Write a lake whose batch path has read more than the job."""
    pipeline = replace(PIPELINE, batch=job)
    lake = PipelineLake(Settings(home=tmp_path / "home"), pipeline)
    write(lake.settings, lake_of([*READ, *UNREAD], pipeline), pipeline)
    return lake


def select(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{name: row[name] for name in COLUMNS.names} for row in rows], schema=COLUMNS)


@pytest.mark.parametrize("place", ["iceberg://jobs/n.sales", "folder"])
def test_an_iceberg_table_is_read_at_the_snapshot_of_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    configuration = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    for name, value in configuration.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__JOBS__{name.upper()}", value)
    catalog = SqlCatalog("jobs", **configuration)
    catalog.create_namespace("n")
    table = catalog.create_table("n.sales", schema=COLUMNS)
    table.append(select(compute(READ)), snapshot_properties={"cutover.position": json.dumps(POSITION)})
    job = BatchJob(table=Iceberg(table.location().removeprefix("file://") if place == "folder" else place))
    lake = open_lake(tmp_path, job)

    found = find_job(reconcile(lake).finding)
    assert (found.level, found.rows, found.version) == ("reproduced", 3, table.current_snapshot().snapshot_id)

    table.append(select(compute(READ[:1])))
    finding = reconcile(lake).finding
    assert finding.verdict is Verdict.NOT_COMPARABLE
    assert "without the property" in finding.sentence


def test_files_are_compared_only_if_none_is_newer_than_their_position(tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    lake = open_lake(tmp_path, BatchJob(table=Parquet(str(folder))))
    missing = reconcile(lake).finding
    assert (missing.verdict, missing.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert f"Table of the batch job, `{folder}`" in missing.sentence

    folder.mkdir()
    pq.write_table(select(compute(READ)), folder / "part-0.parquet")
    assert "neither commits nor a file" in reconcile(lake).finding.sentence
    (folder / "_cutover_position.json").write_text(json.dumps(POSITION), encoding="utf-8")
    assert find_job(reconcile(lake).finding).level == "reproduced"

    os.utime(folder / "part-0.parquet", times=(2e9, 2e9))
    assert "was written after it" in reconcile(lake).finding.sentence


def test_offsets_without_a_topic_id_are_not_held_against_a_job_if_the_topic_was_created_again(tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    lake = open_lake(tmp_path, BatchJob(table=Parquet(str(folder))))
    folder.mkdir()
    pq.write_table(select(compute(READ[1:])), folder / "part-0.parquet")
    (folder / "_cutover_position.json").write_text(json.dumps(POSITION), encoding="utf-8")
    job = find_job(reconcile(lake).finding)
    assert (job.is_attributed, job.doubts) == (True, ())

    (run,) = batch_runs.read_recorded_runs(lake)
    first_seen = datetime.fromisoformat(run.finished).timestamp()
    for file in folder.iterdir():
        os.utime(file, times=(first_seen - 1, first_seen - 1))
    finding = reconcile(lake).finding
    assert (finding.verdict, find_job(finding).is_attributed) == (Verdict.DIVERGED, False)
    assert finding.sentence.startswith("The table of the batch job is not what the definition says in ")
    assert "if topic `sales` was created again since" in finding.sentence

    earlier = replace(run, run_id="batch-0", topic_id="topic-0", stream_version=run.stream_version + 1)
    write_run(lake.settings, earlier, lake.pipeline)
    write_run(lake.settings, replace(run, run_id="batch-2"), lake.pipeline)
    finding = reconcile(lake).finding
    assert finding.verdict is Verdict.NOT_COMPARABLE
    assert "topic `sales`, which was created again" in finding.sentence

    position = {"format": "cutover.position/1", "topics": POSITION, "topic_ids": {"sales": "topic-1"}}
    (folder / "_cutover_position.json").write_text(json.dumps(position), encoding="utf-8")
    assert find_job(reconcile(lake).finding).is_attributed


def test_a_job_that_commits_while_its_table_is_read_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "job"
    write_table(table, compute(READ), POSITION)
    lake = open_lake(tmp_path, BatchJob(table=Delta(str(table))))
    find_position = batch_table.find_job_position

    def commit_meanwhile(job: BatchJob) -> PositionReport:
        report = find_position(job)
        write_table(table, compute([*READ, *UNREAD]), {"sales": {"0": len(READ) + len(UNREAD)}})
        return report

    monkeypatch.setattr(batch_table, "find_job_position", commit_meanwhile)
    monkeypatch.setattr("cutover.reconcile.run.compare_at_cut", compare_at_cut)  # once: the second reads another table
    job = find_job(reconcile(lake).finding)

    assert (job.level, job.version, job.rows) == ("reproduced", 0, 3)


SERVER_TABLE = """
CREATE SCHEMA IF NOT EXISTS analytics;
DROP TABLE IF EXISTS analytics.sales, analytics.cutover_position;
CREATE TABLE analytics.sales (
  hour timestamp, shop varchar(10), desk smallint, sales int, revenue numeric, least numeric(12, 3), most bigint,
  mean real
);
CREATE TABLE analytics.cutover_position (table_name text PRIMARY KEY, position jsonb NOT NULL);
"""


def write_server(address: str, rows: Sequence[dict[str, Any]], position: object) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(b"DELETE FROM analytics.sales")
        connection.execute(b"DELETE FROM analytics.cutover_position")
        with connection.cursor() as cursor:
            values = [tuple(row[name] for name in COLUMNS.names) for row in rows]
            cursor.executemany(b"INSERT INTO analytics.sales VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", values)
        connection.execute(b"INSERT INTO analytics.cutover_position VALUES ('sales', %s)", [json.dumps(position)])


def test_rows_of_a_server_are_those_of_the_position_that_was_read_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = BatchJob(table=Postgres(table="analytics.sales", server="SALES_DB"), columns={"window_start": "hour"})
    lake = open_lake(tmp_path, job)
    bind = SourceBinder.bind_postgres
    with running_server() as address:
        monkeypatch.setenv("SALES_DB", address)
        with psycopg.connect(address) as connection:
            connection.execute(SERVER_TABLE.encode())
        write_server(address, compute(READ), POSITION)

        def commit_meanwhile(*arguments: Any) -> BoundTable:
            write_server(address, [], {"sales": {"0": len(READ) + len(UNREAD)}})
            return bind(*arguments)

        monkeypatch.setattr(SourceBinder, "bind_postgres", commit_meanwhile)
        monkeypatch.setattr("cutover.reconcile.run.compare_at_cut", compare_at_cut)  # once, as above
        found = find_job(reconcile(lake).finding)
        assert (found.level, found.different, found.rows, found.version) == ("reproduced", 0, 3, None)

        monkeypatch.setattr(SourceBinder, "bind_postgres", bind)
        assert find_job(reconcile(lake).finding).cells[0].kind == "missing"  # the table is empty now
        with psycopg.connect(address) as connection:
            connection.execute(b"ALTER TABLE analytics.sales DROP COLUMN most")
        assert "expected a column `most`" in reconcile(lake).finding.sentence


def make_position(rows: int | None) -> dict[str, Any]:
    """Return the position of a job that also records how many rows it has written; None: it does not."""
    table = None if rows is None else {"rows": rows}
    return {
        "format": "cutover.position/1",
        "topics": POSITION,
        "topic_ids": {"sales": "topic-1"},
        "table": table,
    }


def execute_statements(address: str, *statements: str) -> None:
    with psycopg.connect(address) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_rows_that_somebody_wrote_or_deleted_later_are_not_held_against_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = BatchJob(table=Postgres(table="analytics.sales", server="SALES_DB"), columns={"window_start": "hour"})
    lake = open_lake(tmp_path, job)
    with running_server() as address:
        monkeypatch.setenv("SALES_DB", address)

        def compare(count: int | None, rows: Sequence[dict[str, Any]], *later: str) -> Finding:
            write_server(address, rows, make_position(count))
            execute_statements(address, *later)
            return reconcile(lake).finding

        execute_statements(address, SERVER_TABLE)
        all_rows, change = compute(READ), "UPDATE analytics.sales SET most = most + 1 WHERE shop = 'b'"
        found = find_job(compare(None, all_rows, change))
        assert (found.level, found.different, found.rows, found.written_later) == ("bounded", 0, 2, 1)
        found = find_job(compare(3, all_rows, "ANALYZE analytics.sales"))
        assert found.level == "reproduced"
        finding = compare(None, all_rows, "UPDATE analytics.sales SET most = most + 0")
        assert (finding.verdict, finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
        assert "of another writer, or of a savepoint" in finding.sentence

        other_rows = [{**row, "revenue": row["revenue"] + (row["shop"] != "b")} for row in all_rows]
        finding = compare(None, other_rows, change)
        assert (finding.verdict, find_job(finding).is_attributed) == (Verdict.DIVERGED, True)

        delete = "DELETE FROM analytics.sales WHERE shop = 'b'"
        finding = compare(None, all_rows, delete)
        assert (finding.verdict, find_job(finding).is_attributed) == (Verdict.DIVERGED, False)
        assert "the job does not write them, or they were deleted after" in finding.sentence
        finding = compare(3, all_rows, delete)
        assert finding.verdict is Verdict.NOT_COMPARABLE
        assert "expected the 3 rows that the job has recorded with its position, got 1 fewer" in finding.sentence
        finding = compare(2, all_rows[:2])
        assert (finding.verdict, find_job(finding).is_attributed) == (Verdict.DIVERGED, True)


def test_rows_of_a_transaction_that_began_before_the_jobs_are_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = BatchJob(table=Postgres(table="analytics.sales", server="SALES_DB"), columns={"window_start": "hour"})
    lake = open_lake(tmp_path, job)
    with running_server() as address:
        monkeypatch.setenv("SALES_DB", address)
        execute_statements(address, SERVER_TABLE)
        with psycopg.connect(address) as other:
            other.execute(b"SELECT pg_current_xact_id()")
            write_server(address, compute(READ), make_position(3))
            other.execute(b"UPDATE analytics.sales SET most = most + 1 WHERE shop = 'b'")
        finding = reconcile(lake).finding
        found = find_job(finding)
        assert (finding.verdict, found.different, found.is_attributed) == (Verdict.DIVERGED, 1, False)
        assert "The table of the batch job is not what the definition says" in finding.sentence
        assert "1 row is of an earlier transaction than the position" in finding.sentence

        execute_statements(address, "UPDATE analytics.cutover_position SET position = position")
        correct = "UPDATE analytics.sales SET most = most - 1 WHERE shop = 'b'"
        execute_statements(address, correct, "UPDATE analytics.cutover_position SET position = position")
        found = find_job(reconcile(lake).finding)
        assert (found.level, found.doubts, found.is_attributed) == ("reproduced", (), True)
