"""SQL that corrects Delta tables of jobs: applied by Spark, they are what the definition says."""

from dataclasses import replace

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.batch.recompute import recompute_windows
from cutover.definition import BatchJob, Delta
from cutover.engine import queries
from cutover.lake.registered_functions import JobRepair, find_job_repair
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Finding
from cutover.reconcile.run import run_reconciliation
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import send
from tests.support.batch_jobs import count_hours, encode_cut, write_delta
from tests.support.followed_jobs import EVENTS, JobTopic, by_ids, compare
from tests.support.jobs import append_to, clean_records

ENDS = {0: 30, 1: 30}


def count_differences(finding: Finding) -> list[tuple[str, int]]:
    assert finding.jobs, finding.sentence
    return [(job.side, job.different) for job in finding.jobs]


def apply_repair(spark: SparkSession, lake: PipelineLake, job: str) -> JobRepair:
    """Run the statements that are drafted for a job's table, in a session of their own as the team would."""
    drafted, session = find_job_repair()(lake, job), spark.newSession()
    for statement in drafted.statements:
        session.sql(statement)
    return drafted


def spoil(table: str, cut: str | None) -> None:
    """Change a row of a Delta table, remove one, repeat one, and add one of another key; the position stays."""
    with queries.open_duckdb() as connection:
        delta.relation(connection, "spoiled", table)
        read = queries.query_table(connection, "SELECT * FROM spoiled")
    rows = sorted(read.to_pylist(), key=lambda row: (row["window"]["start"], row["k"]))
    first, second, third = rows[1:4]
    wrong = {**first, "ids": first["ids"] + 1}
    foreign = {**third, "k": "o'ther\\\x1b \u202ekey"}
    others = [row for row in rows if row not in (first, second)]
    spoiled = pa.Table.from_pylist([*others, wrong, third, foreign], schema=read.schema)
    properties = None if cut is None else CommitProperties(custom_metadata={"userMetadata": cut})
    write_deltalake(table, spoiled, mode="overwrite", commit_properties=properties)


def test_the_tables_of_both_jobs_are_corrected_by_spark(rig: JobTopic) -> None:
    table, cut = rig.place / "nightly", encode_cut(rig.topic, ENDS)
    lake = rig.run("merge")
    lake = PipelineLake(lake.settings, replace(lake.pipeline, batch=BatchJob(table=Delta(str(table)))))
    write_delta(count_hours(rig.spark, rig.settings, rig.topic, cut), table, cut)
    spoil(str(table), cut)
    spoil(f"{rig.place}/table", None)
    assert count_differences(compare(lake)) == [("streaming", 4), ("batch", 4)]

    expected = {"changed": 1, "missing": 1, "extra": 1, "repeated": 1}
    assert dict(apply_repair(rig.spark, lake, "batch").rows) == expected
    assert dict(apply_repair(rig.spark, lake, "streaming").rows) == expected

    assert count_differences(run_reconciliation(lake).finding)[1] == ("batch", 0)
    send(rig.settings, rig.topic, [replace(event, minute=event.minute + 400) for event in EVENTS[:5]])
    rig.run("merge")
    assert run_driver(lake, until="drain") == 0
    recompute_windows(lake)
    assert count_differences(run_reconciliation(lake).finding) == [("streaming", 0), ("batch", 0)]


def test_values_of_single_records_are_corrected_and_missing_ones_left_to_the_job(rig: JobTopic) -> None:
    lake = PipelineLake(rig.settings, by_ids(rig.records()))
    table = f"{rig.place}/table"

    def write(rows: DataFrame, batch: int) -> None:
        wrong = rows.where("id <> 20").withColumn("amount", F.when(F.col("id") == 9, 0).otherwise(F.col("amount")))
        append_to(table)(wrong.withColumn("amount", F.col("amount").cast("decimal(20,2)")), batch)

    rig.run_query(clean_records, "append", write)
    (job,) = compare(lake).jobs
    assert job.different == 2

    drafted = apply_repair(rig.spark, lake, "streaming")

    assert dict(drafted.rows) == {"changed": 1, "left out": 1}
    amounts = rig.spark.read.format("delta").load(table).where("id = 9").select("amount").collect()
    assert [str(row["amount"]) for row in amounts] == ["11.25"]
