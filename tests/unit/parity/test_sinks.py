"""Functions of foreachBatch: what a micro-batch overwrites, and the values that it computes of itself alone."""

import pytest

from cutover.parity.job import check_job

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'
TOTALS = "SELECT id, sum(v) v FROM b GROUP BY id"
MERGE = ".alias('s'), 't.id = s.id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()"


def kinds(*body: str) -> set[str]:
    lines = ["from delta.tables import DeltaTable", "from pyspark.sql import functions as F", "import requests"]
    lines += ["def write(batch, number):", *(f"    {line}" for line in body)]
    start = f"{READ}.writeStream.option('checkpointLocation', '/c').foreachBatch(write).start()"
    return {str(finding.construct) for finding in check_job("\n".join([*lines, start]), "x.py")}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["batch.write.mode('overwrite').saveAsTable('m')"], {"output-mode"}),
        (["spark.sql('TRUNCATE TABLE m')", "batch.write.mode('append').saveAsTable('m')"], {"output-mode"}),
        (["batch.createTempView('b')", "spark.sql('INSERT OVERWRITE m SELECT * FROM b')"], {"output-mode"}),
        (["batch.write.mode('overwrite').parquet(f'/o/{number}')"], set()),
        (["batch.write.mode('overwrite').option('replaceWhere', f'n = {number}').save('/o')"], set()),
        (["spark.table('m').unionByName(batch).write.mode('overwrite').saveAsTable('n')"], set()),
        (["spark.table('ev').groupBy('k').count().write.mode('overwrite').saveAsTable('m')"], set()),
    ],
)
def test_a_table_that_each_micro_batch_overwrites_loses_rows(body: list[str], expected: set[str]) -> None:
    assert kinds(*body) == expected


@pytest.mark.parametrize(
    ("removal", "expected"),
    [
        ("spark.sql(f'DELETE FROM m WHERE n = {number}')", set()),
        ("DeltaTable.forName(spark, 'm').delete(f'n = {number}')", set()),
        ("spark.sql('DELETE FROM m WHERE n = 1')", {"not-idempotent"}),
        ("spark.sql(f'DELETE FROM other WHERE n = {number}')", {"not-idempotent"}),
    ],
)
def test_rows_of_the_same_micro_batch_may_be_replaced(removal: str, expected: set[str]) -> None:
    append = "batch.withColumn('n', F.lit(number)).write.mode('append').saveAsTable('m')"

    assert kinds(removal, append) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["batch.groupBy('k').count().write.mode('overwrite').save(f'/o/{number}')"], {"micro-batch-totals"}),
        ([f"DeltaTable.forName(spark, 'm').merge(batch.groupBy('id').count(){MERGE}"], {"micro-batch-totals"}),
        (
            [
                "batch.createOrReplaceTempView('b')",
                f"spark.sql('MERGE INTO m USING ({TOTALS}) s ON m.id = s.id WHEN MATCHED THEN UPDATE SET *')",
            ],
            {"micro-batch-totals"},
        ),
        ([f"DeltaTable.forName(spark, 'm').merge(batch.groupBy('id').agg(F.max('at').alias('at')){MERGE}"], set()),
        (["batch.groupBy('k').count().show()", f"DeltaTable.forName(spark, 'm').merge(batch{MERGE}"], set()),
    ],
)
def test_totals_of_a_micro_batch_are_found_if_stored(body: list[str], expected: set[str]) -> None:
    assert kinds(*body) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("batch.withColumn('n', F.row_number().over(w)).where('n = 1')", {"dedup-within-watermark"}),
        ("batch.withColumn('before', F.lag('v').over(w))", {"micro-batch-totals"}),
        ("batch.withColumn('total', F.sum('v').over(w))", {"micro-batch-totals"}),
        ("batch.alias('a').join(batch.alias('b'), 'k')", {"micro-batch-totals"}),
        ("batch.join(spark.table('dimension'), 'k')", set()),
    ],
)
def test_rows_combined_within_a_micro_batch_are_found(rows: str, expected: set[str]) -> None:
    window = "w = Window.partitionBy('k').orderBy('offset')"
    start = "from pyspark.sql import Window"

    assert kinds(start, window, f"{rows}.write.mode('overwrite').save(f'/o/{{number}}')") == expected
    if "a')" not in rows:  # the latest row of each key in a micro-batch, merged, is what a merge takes
        merge = f"DeltaTable.forName(spark, 'm').merge({rows}{MERGE}"
        assert kinds(start, window, merge) == expected - {"dedup-within-watermark"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            [
                "if spark.catalog.tableExists('m'):",
                f"    DeltaTable.forName(spark, 'm').merge(batch{MERGE}",
                "else:",
                "    batch.write.mode('append').saveAsTable('m')",
            ],
            set(),
        ),
        (
            [
                "spark.conf.set('spark.sql.sources.partitionOverwriteMode', 'dynamic')",
                "batch.write.mode('overwrite').partitionBy('dt').parquet('/o')",
            ],
            {"not-understood"},
        ),
        (["batch.write.option('replaceWhere', 'k = 1').mode('overwrite').save('/o')"], {"not-understood"}),
    ],
)
def test_created_and_partly_replaced_tables_are_recognized(body: list[str], expected: set[str]) -> None:
    assert kinds(*body) == expected


@pytest.mark.parametrize("body", ["print(number)", "requests.post('http://x', json=batch.collect())"])
def test_a_function_that_writes_no_rows_is_not_understood(body: str) -> None:
    assert kinds(body) == {"not-understood"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["client.execute(f'INSERT INTO a VALUES ({batch.count()})')"], {"not-idempotent"}),
        (["client.execute(f'INSERT INTO a VALUES ({batch.count()}, {datetime.now()})')"], {"not-idempotent", "clock"}),
        (
            ["for row in batch.collect():", "    client.execute('INSERT INTO a VALUES (%s)', (row.id,))"],
            {"not-idempotent"},
        ),
        (
            ["rows = [(row.id,) for row in batch.collect()]", "client.executemany('INSERT INTO a VALUES (%s)', rows)"],
            {"not-idempotent"},
        ),
        (
            [
                "for row in batch.collect():",
                "    client.execute(f'INSERT INTO a VALUES ({row}) ON CONFLICT DO NOTHING')",
            ],
            {"not-understood"},
        ),
        (["for row in batch.toLocalIterator():", "    client.put_item(row.asDict())"], {"not-understood"}),
        (["logger.info('%s rows', batch.count())", "batch.write.mode('overwrite').save(f'/o/{number}')"], set()),
        (["if batch.count() == 0:", "    return", "batch.write.mode('overwrite').save(f'/o/{number}')"], set()),
    ],
)
def test_rows_that_leave_through_the_driver_are_followed_to_their_client(body: list[str], expected: set[str]) -> None:
    assert (
        kinds("from datetime import datetime", "import psycopg2", "client = psycopg2.connect('x')", *body) == expected
    )


def test_a_merge_by_the_session_of_the_batch_is_one() -> None:
    merge = "'MERGE INTO {target} t USING b ON t.id = b.id WHEN MATCHED THEN UPDATE SET *'.format(target='gold.t')"

    assert kinds("batch.createOrReplaceTempView('b')", f"batch._jdf.sparkSession().sql({merge})") == set()


WRITE = "batch.write.mode('overwrite').save(f'/o/{number}')"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["try:", f"    {WRITE}", "except Exception as error:", "    print(error)"], {"data-loss"}),
        (["try:", f"    {WRITE}", "except Exception:", "    return"], {"data-loss"}),
        (["try:", f"    {WRITE}", "except Exception:", "    print('failed')", "    raise"], set()),
        (["try:", f"    {WRITE}", "except Exception:", f"    {WRITE}"], set()),
        (
            [
                "for _ in range(3):",
                "    try:",
                f"        {WRITE}",
                "        break",
                "    except OSError:",
                "        pass",
            ],
            set(),
        ),
        (["try:", "    print(number)", "except Exception:", "    pass", WRITE], set()),
    ],
)
def test_a_failed_write_must_not_be_ignored(body: list[str], expected: set[str]) -> None:
    assert kinds(*body) == expected


@pytest.mark.parametrize(
    ("writer", "expected"),
    [
        ("format('org.apache.spark.sql.cassandra').mode('append').option('table', 't').save()", set()),
        ("format('hudi').mode('append').save('/o')", set()),
        ("format('hudi').option('hoodie.datasource.write.operation', 'insert').mode('append').save('/o')", None),
        ("format('org.elasticsearch.spark.sql').option('es.mapping.id', 'id').mode('append').save('i')", set()),
        ("format('org.elasticsearch.spark.sql').mode('append').save('i')", None),
        ("format('mongodb').option('idFieldList', 'id').mode('append').save()", set()),
        ("format('mongodb').mode('append').save()", None),
    ],
)
def test_a_store_with_one_row_per_key_counts_no_row_twice(writer: str, expected: set[str] | None) -> None:
    assert kinds(f"batch.write.{writer}") == ({"not-idempotent"} if expected is None else expected)
    (*batch,) = check_job(f"spark.table('a').write.{writer}", "x.py")
    assert [str(finding.construct) for finding in batch] == (["appended-again"] if expected is None else [])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("whenMatchedUpdate(set={'n': 't.n + s.n'})", {"not-idempotent"}),
        ("whenMatchedUpdate(set={'n': F.col('t.n') + F.col('s.n')})", {"not-idempotent"}),
        ("whenMatchedUpdate(set={'n': 's.n'})", set()),
        ("whenMatchedUpdate(set={'n': 'greatest(t.n, s.n)'})", set()),
        ("whenMatchedUpdate(condition='s.batch > t.batch', set={'n': 't.n + s.n'})", set()),
    ],
)
def test_an_accumulating_merge_counts_a_micro_batch_twice(change: str, expected: set[str]) -> None:
    merge = f".merge(batch.alias('s'), 't.id = s.id').{change}.execute()"

    assert kinds(f"DeltaTable.forName(spark, 'm').alias('t'){merge}") == expected


def test_an_accumulating_merge_in_sql_counts_rows_twice() -> None:
    merge = "spark.sql('MERGE INTO m t USING b s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + s.n')"

    assert kinds("batch.createOrReplaceTempView('b')", merge) == {"not-idempotent"}
    assert [str(finding.construct) for finding in check_job(merge, "x.py")] == ["not-understood"]
