"""SQL that corrects the table of a batch job on a real server: applied, the table is what the definition says."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from cutover.cli import lake as lake_commands
from cutover.definition import BatchJob, Delta, Iceberg, Parquet, Postgres
from cutover.errors import DefinitionError, LakeError
from cutover.lake.registered_functions import JobRepair, find_job_repair
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema
from cutover.output.console import wrap_command
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import job_repair
from tests.integration.reconcile.lake_of import reconcile
from tests.integration.reconcile.test_batch_job import (
    COLUMNS,
    POSITION,
    READ,
    SERVER_TABLE,
    compute,
    execute_statements,
    find_job,
    open_lake,
    select,
    write_server,
)
from tests.support.servers.postgres import running_server

JOB = BatchJob(table=Postgres(table="analytics.sales", server="SALES_DB"), columns={"window_start": "hour"})


def draft(lake: PipelineLake, job: str = "batch") -> JobRepair:
    """Draft SQL as `cutover repair --job` does."""
    return find_job_repair()(lake, job)


def test_the_statements_make_a_table_in_postgres_what_the_definition_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path, JOB)
    rows = compute(READ)
    foreign = {**rows[0], "shop": "it's\\\x1b\u202e", "desk": None}
    wrong = {**rows[0], "revenue": rows[0]["revenue"] + 1, "mean": None}
    with running_server() as address:
        monkeypatch.setenv("SALES_DB", address)
        execute_statements(address, SERVER_TABLE)
        write_server(address, [wrong, rows[1], rows[1], foreign], POSITION)
        assert find_job(reconcile(lake).finding).different == 4

        drafted = draft(lake)

        assert dict(drafted.rows) == {"changed": 1, "missing": 1, "extra": 1, "repeated": 1}
        assert (drafted.dialect, drafted.table) == ("postgres", "env:SALES_DB#analytics.sales")
        assert find_job(reconcile(lake).finding).different == 4  # nothing was written
        execute_statements(address, *drafted.statements[1:-1])  # in one transaction, as BEGIN and COMMIT say
        found = find_job(reconcile(lake).finding)
        assert (found.level, found.different, found.written_later) == ("reproduced", 0, 0)
        again = draft(lake)
        assert (dict(again.rows), again.statements) == ({}, ())

        monkeypatch.setattr(job_repair, "MAX_ROWS", 0)
        write_server(address, [], POSITION)
        with pytest.raises(LakeError, match="at most 0 rows to correct, got 3"):
            draft(lake)
        execute_statements(address, "DELETE FROM analytics.cutover_position")
        with pytest.raises(LakeError, match="expected a position that the job has recorded"):
            draft(lake)


def test_the_statements_for_iceberg_are_accepted_by_spark_and_correct_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    # Without Iceberg's runtime, Spark's parser reads all of them, and a Delta table with the same rows is corrected.
    configuration = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    for name, value in configuration.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__JOBS__{name.upper()}", value)
    catalog = SqlCatalog("jobs", **configuration)
    catalog.create_namespace("n")
    rows = compute(READ)
    foreign = {**rows[0], "shop": "it's\\\x1b\u202e", "desk": None}
    spoiled = select([{**rows[0], "revenue": rows[0]["revenue"] + 1, "mean": None}, rows[1], rows[1], foreign])
    table = catalog.create_table("n.sales", schema=COLUMNS)
    table.append(spoiled, snapshot_properties={"cutover.position": json.dumps(POSITION)})
    write_deltalake(tmp_path / "delta", spoiled)
    lake = open_lake(tmp_path, BatchJob(table=Iceberg("iceberg://jobs/n.sales")))

    drafted = draft(lake)

    assert dict(drafted.rows) == {"changed": 1, "missing": 1, "extra": 1, "repeated": 1}
    parser = spark._jsparkSession.sessionState().sqlParser()
    property_name = "`spark.sql.iceberg.snapshot-property.cutover.position`"
    assert [statement for statement in drafted.statements if property_name in statement] == [
        drafted.statements[1],
        drafted.statements[-1],
    ]
    for statement in drafted.statements:
        parser.parsePlan(statement)
        spark.sql(statement.replace("MERGE INTO `jobs`.`n`.`sales`", f"MERGE INTO delta.`{tmp_path}/delta`"))
    corrected = DeltaTable(tmp_path / "delta").to_pyarrow_table().select(COLUMNS.names).to_pylist()
    assert sorted(corrected, key=str) == sorted(select(rows).to_pylist(), key=str)


@pytest.mark.parametrize(
    ("job", "side", "reason"),
    [
        (BatchJob(table=Parquet("/nightly")), "batch", "a folder of Parquet files"),
        (BatchJob(table=Iceberg("/nightly")), "batch", "no name in a catalog"),
        (BatchJob(table=Delta("/nightly")), "streaming", "expected `--job` batch, got `streaming`"),
        (BatchJob(table=Delta("/nightly")), "x" * 99, "got `" + 40 * "x" + "`"),
    ],
)
def test_rows_that_cannot_be_addressed_are_rejected_with_the_reason(
    tmp_path: Path, job: BatchJob, side: str, reason: str
) -> None:
    with pytest.raises(DefinitionError, match=reason):
        draft(open_lake(tmp_path, job), side)


def test_a_query_reads_the_table_of_a_job_at_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = open_lake(tmp_path, JOB)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(lake.pipeline))
    monkeypatch.setattr(lake_commands, "load_settings", lambda: lake.settings)
    monkeypatch.setattr(lake_commands, "load_command_definition", lambda *_: lake.pipeline)
    query = "SELECT * FROM batch_job ANTI JOIN serving USING (shop, desk, sales) ORDER BY ALL"
    with running_server() as address:
        monkeypatch.setenv("SALES_DB", address)
        execute_statements(address, SERVER_TABLE)
        write_server(address, [{**compute(READ)[0], "sales": 99}], POSITION)
        capsys.readouterr()

        wrap_command(lake_commands.sql)("sales", query)

        heading, row = capsys.readouterr().out.splitlines()
        assert heading.split(",") == ["hour", "shop", "desk", "sales", "revenue", "least", "most", "mean"]
        assert row.split(",")[1:4] == ["a", "1", "99"]
        execute_statements(address, "DELETE FROM analytics.cutover_position")
        with pytest.raises(LakeError, match="expected a position of the batch job"):
            wrap_command(lake_commands.sql)("sales", query)
