"""Rows that a job only shows: a limit or a random sample of them changes no result."""

import pytest

from cutover.parity.job import check_job

START = "from pyspark.sql import functions as F\ndf = spark.read.parquet('/in')\n"
SINK = "\ndf.write.mode('overwrite').saveAsTable('o')\n"


def kinds(source: str) -> set[str]:
    return {str(finding.construct) for finding in check_job(START + source + SINK, "x.py")}


@pytest.mark.parametrize(
    "source",
    [
        "df.limit(5).show()",
        "df.sample(0.1).show()",
        "df.orderBy(F.rand()).limit(5).show()",
        "display(df.limit(5))",
        "print(df.limit(5).collect())",
        "some = df.limit(5)\nsome.show()",
        "some = df.limit(5)\nfew = some.select('a')\nprint(few.collect())",
        "spark.sql('SELECT * FROM a LIMIT 5').show()",
        "log.info(df.withColumn('now', F.current_timestamp()).count())",
        "def peek(d):\n    d.limit(5).show()\npeek(df)",
    ],
)
def test_rows_that_are_only_shown_are_no_result(source: str) -> None:
    assert kinds(source) == set()


@pytest.mark.parametrize(
    "source",
    [
        "df = df.limit(5)\ndf.show()",
        "df.limit(5).write.mode('overwrite').saveAsTable('p')",
        "some = df.limit(5)\nsome.show()\nsome.write.mode('overwrite').saveAsTable('p')",
        "def save(d):\n    d.write.mode('overwrite').saveAsTable('p')\nprint(save(df.limit(5)))",
        "some = df.limit(5)\nsome.createOrReplaceTempView('v')\nspark.sql('INSERT OVERWRITE p SELECT * FROM v')",
        "def some():\n    return df.limit(5)",
        "q = df.limit(5).write.mode('overwrite').saveAsTable('p')\nprint(q)",
        "spark.sql('INSERT OVERWRITE p SELECT * FROM a LIMIT 5').show()",
        "df.show(df := df.limit(5))",
    ],
)
def test_rows_that_are_also_used_are_checked(source: str) -> None:
    assert kinds(source) == {"limit"}
