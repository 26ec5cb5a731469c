"""Writes: transaction identifiers of a micro-batch, modes that a condition chooses, and calls on one line."""

import pytest

from cutover.parity.job import check_job

START = "import sys, time, uuid\nfrom pyspark.sql import functions as F\n"
READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'


def find(source: str) -> list[str]:
    return [str(finding.construct) for finding in check_job(START + source, "x.py")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("option('txnAppId', 'a').option('txnVersion', number)", []),
        ("option('txnAppId', f'a-{sys.argv[1]}').option('txnVersion', int(number) + 1)", []),
        ("options(txnAppId='a', txnVersion=number)", []),
        ("option('txnappid', 'a').option('txnversion', str(number))", []),
        ("option('txnAppId', 'a').option('txnVersion', 1)", ["not-idempotent"]),
        ("option('txnAppId', str(uuid.uuid4())).option('txnVersion', number)", ["not-idempotent"]),
        ("option('txnAppId', 'a').option('txnVersion', int(time.time()))", ["not-idempotent"]),
        ("option('txnAppId', 'a').option('txnVersion', sys.argv[1])", ["not-understood"]),
        ("option('txnAppId', 'a')", ["not-idempotent"]),
        ("format('parquet').option('txnAppId', 'a').option('txnVersion', number)", ["not-idempotent"]),
        ("format('delta').option('txnAppId', 'a').option('txnVersion', number)", []),
        ("format(sys.argv[1]).option('txnAppId', 'a').option('txnVersion', number)", ["not-understood"]),
    ],
)
def test_only_the_number_of_the_micro_batch_makes_an_append_idempotent(options: str, expected: list[str]) -> None:
    function = f"def write(batch, number):\n    batch.write.{options}.mode('append').save('/o')\n"

    assert find(f'{function}{READ}.writeStream.foreachBatch(write).option("checkpointLocation", "/c").start()') == (
        expected
    )


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("write.mode('overwrite' if sys.argv[1] else 'append').parquet('/o')", ["appended-again"]),
        ("write.parquet('/o', mode='overwrite' if sys.argv[1] else 'append')", ["appended-again"]),
        ("write.parquet('/o', 'overwrite' if sys.argv[1] else 'append')", ["appended-again"]),
        ("write.mode('overwrite' if sys.argv[1] else 'error').parquet('/o')", []),
        ("write.mode(sys.argv[1]).parquet('/o')", ["not-understood"]),
    ],
)
def test_each_mode_that_a_condition_chooses_is_judged(write: str, expected: list[str]) -> None:
    assert find(f"spark.read.parquet('/in').{write}") == expected


def test_each_output_mode_that_a_condition_chooses_is_judged() -> None:
    sink = '.option("checkpointLocation", "/c").toTable("o")'

    assert find(f"{READ}.writeStream.outputMode('append' if sys.argv[1] else 'update'){sink}") == ["output-mode"]


@pytest.mark.parametrize(("condition", "expected"), [("1 = 0", ["not-idempotent"]), ("t.id = s.id", [])])
def test_a_merge_without_a_key_inserts_again(condition: str, expected: list[str]) -> None:
    merge = f"MERGE INTO o t USING b s ON {condition} WHEN NOT MATCHED THEN INSERT *"
    by_sql = f'batch.createOrReplaceTempView("b"); batch.sparkSession.sql("{merge}")'
    by_method = f'DeltaTable.forName(spark, "o").merge(batch, "{condition}").whenNotMatchedInsertAll().execute()'
    end = f'{READ}.writeStream.foreachBatch(write).option("checkpointLocation", "/c").start()'

    for body in (by_sql, by_method):
        assert find(f"from delta import DeltaTable\ndef write(batch, number):\n    {body}\n{end}") == expected


@pytest.mark.parametrize("kind", ["socket", "rate", "rate-micro-batch"])
def test_a_source_without_a_log_is_reported(kind: str) -> None:
    sink = '.writeStream.option("checkpointLocation", "/c").toTable("o")'

    assert find(f'spark.readStream.format("{kind}").load(){sink}') == ["not-understood"]


@pytest.mark.parametrize("separator", ["\n", "; "])
def test_two_calls_share_a_checkpoint(separator: str) -> None:
    function = f'def run(t):\n    {READ}.writeStream.option("checkpointLocation", "/c").toTable(t)\n'

    assert find(f"{function}run('a'){separator}run('b')") == ["checkpoint"]
    assert find(f"{function}run('a')") == []
