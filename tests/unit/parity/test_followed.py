"""Data flow of a job, followed from statement to statement; anything that cannot be followed is named with its line."""

import json
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.parity.job import check_job, check_script

KAFKA = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'
NO_MARK = "windows without withWatermark, which Spark rejects in append mode"
SINK = '.writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'


def find(source: str) -> list[tuple[str, int, str]]:
    return [(str(finding.construct), finding.line, finding.subject) for finding in check_job(source, "x.py")]


def kinds(source: str) -> list[str]:
    return [construct for construct, _, _ in find(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            f"df = {KAFKA}\ndf = df.groupBy(F.window('timestamp', '1 hour')).count()\ndf{SINK}",
            [("unbounded-state", 2, NO_MARK)],
            id="a name bound again",
        ),
        pytest.param(
            f"a = {KAFKA}.withWatermark('timestamp', '1 hour').groupBy(F.window('timestamp', '1 hour')).count()\n"
            f"b = {KAFKA}.groupBy(F.window('timestamp', '1 hour')).count()\na{SINK}",
            [
                ("watermark", 1, "withWatermark"),
                ("unbounded-state", 2, "windows without withWatermark"),
            ],
            id="a stream that another file starts",
        ),
        pytest.param(
            f"w = F.window('timestamp', '1 hour').alias('w')\n"
            f"df = {KAFKA}.select(w, 'key')\ndf.groupBy('w').count(){SINK}",
            [("unbounded-state", 3, NO_MARK)],
            id="a window with a name",
        ),
        pytest.param(
            f"def mark(df, on):\n    return df.withWatermark('timestamp', '1 hour') if on else df\n"
            f"mark({KAFKA}, len(sys.argv) > 1).groupBy(F.window('timestamp', '1 hour')).count(){SINK}",
            [
                ("unbounded-state", 3, NO_MARK),
                ("watermark", 2, "withWatermark"),
            ],
            id="a watermark in one of two arms",
        ),
        pytest.param(
            f"df = {KAFKA}.withWatermark('timestamp', '1 hour')\ndf.groupBy(F.window('other', '1 hour')).count(){SINK}",
            [
                ("unbounded-state", 2, "windows of another column than withWatermark"),
                (
                    "watermark-without-effect",
                    1,
                    (
                        "withWatermark: grouped by other, but not by timestamp or a window of it; "
                        "in append mode Spark rejects such a query"
                    ),
                ),
            ],
            id="windows of another column",
        ),
        pytest.param(
            f"{KAFKA}.withWatermark('timestamp', '1 hour').select('key'){SINK}",
            [],
            id="a watermark without state",
        ),
        pytest.param(
            f"{KAFKA}.withWatermark('timestamp', '1 hour').groupBy(F.window('timestamp', '1 hour')).count()"
            ".writeStream.outputMode('complete').format('memory').option('checkpointLocation', '/c').start()",
            [("watermark-without-effect", 1, "withWatermark: complete mode keeps every group")],
            id="complete mode",
        ),
    ],
)
def test_a_query_is_checked_by_its_own_lineage(source: str, expected: list[tuple[str, int, str]]) -> None:
    assert sorted(find(source)) == sorted(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            f"from shop import clean\nclean({KAFKA}){SINK}",
            [("not-understood", 2, "shop.clean: its effect on a DataFrame")],
        ),
        (
            f"{KAFKA}.writeStream.foreachBatch(upsert).option('checkpointLocation', '/c').start()",
            [("not-understood", 1, "foreachBatch(upsert): the rows that it writes")],
        ),
        (
            "spark.sql(open('x.sql').read())",
            [("not-understood", 1, "sql: a text that is built at run time, or not valid Spark SQL")],
        ),
        (
            "rows = spark.read.parquet('/in').rdd\nrows.map(str).saveAsTextFile('/o')",
            [("not-understood", 2, "map of an RDD: the values that functions over its rows compute")],
        ),
        ("x = 1", [("not-understood", 1, "the whole file: nothing in it reads, changes or writes a DataFrame")]),
        (
            f"import lib\nf = F.udf(lib.parse)\n{KAFKA}.select(f('value')){SINK}",
            [("not-understood", 2, "udf(lib.parse): the values that it computes")],
        ),
        (
            f"def run(events):\n    events.dropDuplicates(['id']){SINK}",
            [
                ("dedup-within-watermark", 2, "dropDuplicates"),
                ("not-understood", 2, "events: the origin of a query's rows"),
            ],
        ),
        (
            "def count(df):\n    return df.groupBy(window('at', '1 hour')).count()",
            [("not-understood", 2, "df: whether it is a stream")],
        ),
    ],
)
def test_unknown_code_is_named_with_its_line(source: str, expected: list[tuple[str, int, str]]) -> None:
    assert find(source) == expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ('option("subscribe", "t")', ["offsets"]),
        ('option("subscribe", "t").option("startingOffsets", "latest")', ["offsets"]),
        ('option("subscribe", "t").option("startingOffsets", \'{"t": {"0": -1}}\')', ["offsets"]),
        ('option("subscribe", "t").option("startingTimestamp", "0")', []),
        ('options(subscribe="t", startingOffsets="earliest")', []),
        ('option("subscribe", "t").option("startingOffsets", OFFSETS)', ["not-understood"]),
        ("options(**SETTINGS)", ["not-understood"]),
        ("option('startingOffsets', 'latest' if late else 'earliest')", ["offsets"]),
        ("options(**({'subscribe': 't'} | {'startingOffsets': 'earliest', 'failOnDataLoss': 'false'}))", ["data-loss"]),
        ("option('startingOffsets', os.environ.get('FROM', 'latest'))", ["offsets"]),
        ("option('startingOffsets', os.environ.get('FROM', 'earliest'))", ["not-understood"]),
        ('option("startingOffsets", "earliest").option("failOnDataLoss", False)', ["data-loss"]),
    ],
)
def test_a_default_of_a_source_counts_like_an_explicit_option(read: str, expected: list[str]) -> None:
    assert kinds(f'spark.readStream.format("kafka").{read}.load(){SINK}') == expected


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ('mode("append").parquet("/o")', ["appended-again"]),
        ('parquet("/o", mode="append")', ["appended-again"]),
        ('save("/o", format="delta", mode="append")', ["appended-again"]),
        ('insertInto("t")', ["appended-again"]),
        ('jdbc("jdbc:x", "t", "append")', ["appended-again"]),
        ('insertInto("t", overwrite=True)', []),
        ('mode("overwrite").parquet("/o")', []),
        ('parquet("/o")', []),
        ("mode(MODE).parquet('/o')", ["not-understood"]),
    ],
)
def test_a_batch_that_appends_all_that_it_reads_is_found(write: str, expected: list[str]) -> None:
    assert kinds(f'spark.read.format("kafka").option("subscribe", "t").load().write.{write}') == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("spark.read.parquet('/in').where(\"status = 'paid'\")", ["appended-again"]),
        ("spark.read.parquet('/in').where(col('day') == day)", []),
        ("spark.read.parquet('/in').where(\"day = '2026-01-01'\")", ["appended-again"]),
        ("spark.read.parquet(f'/in/{day}')", []),
        ("spark.read.table('a').join(spark.read.table('t'), 'id', 'left_anti')", []),
        ("spark.read.format('kafka').option('startingOffsets', offsets).load()", []),
        ("spark.read.format('jdbc').option('dbtable', 'orders').load()", ["appended-again"]),
        ("spark.createDataFrame([(1,)], 'a int')", []),
        ("load_orders(spark)", ["not-understood", "not-understood"]),
    ],
)
def test_a_batch_that_selects_new_rows_may_append(rows: str, expected: list[str]) -> None:
    source = f"from pyspark.sql.functions import col\nfrom shop import load_orders\nrows = {rows}\n"

    assert kinds(f"{source}rows.select('a').write.mode('append').saveAsTable('t')") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("batch.write.format('delta').mode('append').save('/o')", ["not-idempotent"]),
        ("batch.write.mode('overwrite').parquet(f'/o/{number}')", []),
        ("batch.write.option('txnAppId', 'a').option('txnVersion', number).mode('append').save('/o')", []),
        (
            (
                "batch.createOrReplaceTempView('b')\n    batch.sparkSession.sql('MERGE INTO t USING b ON t.k = b.k "
                "WHEN MATCHED THEN UPDATE SET *')"
            ),
            [],
        ),
        ("batch.createOrReplaceTempView('b')\n    spark.sql('INSERT INTO t SELECT * FROM b')", ["not-idempotent"]),
        ("batch.dropDuplicates(['id']).write.mode('overwrite').save(f'/o/{number}')", ["dedup-within-watermark"]),
        ("send(batch)", ["not-understood"]),
    ],
)
def test_the_function_of_a_micro_batch_is_followed(body: str, expected: list[str]) -> None:
    source = f"def write(batch, number):\n    {body}\n"

    assert (
        kinds(f"{source}{KAFKA}.writeStream.foreachBatch(write).option('checkpointLocation', '/c').start()") == expected
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET spark.sql.session.timeZone = UTC;\nSELECT to_date(at) FROM t", []),
        ("CREATE TEMP VIEW v AS SELECT a FROM s;\nINSERT INTO t SELECT a FROM v", [("appended-again", 2)]),
        ("INSERT OVERWRITE t SELECT a FROM s", []),
        ("WITH x AS (SELECT a FROM s WHERE a > (SELECT max(a) FROM t)) INSERT INTO t SELECT a FROM x", []),
        ("WITH x AS (SELECT a FROM s) INSERT INTO t SELECT a FROM x", [("appended-again", 1)]),
        ("SELECT a FROM STREAM(s)", [("not-understood", 1), ("not-understood", 1)]),
        ("OPTIMIZE t", []),
    ],
)
def test_a_script_of_sql_is_followed(text: str, expected: list[tuple[str, int]]) -> None:
    assert [(str(finding.construct), finding.line) for finding in check_script(text, "x.sql")] == expected


def test_exit_code_reports_unknown_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.py"
    file.write_text("total = 1 + 1\n", encoding="utf-8")

    assert app.main(["parity", str(file)]) == 2
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line.startswith("1 place not understood in 1 file")
    assert "0 constructs" not in last_line
    assert app.main(["parity", str(file), "--json"]) == 2
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["construct"], row["line"]) == ("not-understood", 1)


def test_a_construct_takes_precedence_over_unknown_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.py"
    file.write_text(f"from shop import clean\nclean({KAFKA}).limit(3){SINK}", encoding="utf-8")

    assert app.main(["parity", str(file)]) == 1
    assert "1 construct in 1 file on which a stream and a batch differ, and 1 place not understood." in (
        capsys.readouterr().out
    )
