"""Joins of streams: bounds in time that filters after the join add, and conditions that do not hold for all rows."""

import pytest

from cutover.parity.job import check_job

START = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
def topic(t):
    r = spark.readStream.format("kafka").option("subscribe", t).option("startingOffsets", "earliest")
    return r.load()
i = topic("i").selectExpr("cast(key as string) a", "timestamp it").withWatermark("it", "1 hour")
k = topic("c").selectExpr("cast(key as string) b", "timestamp ct").withWatermark("ct", "2 hours")
i.createOrReplaceTempView("i")
k.createOrReplaceTempView("k")
"""
SINK = '.writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'
BOUND = "ct >= it AND ct <= it + interval 1 hour"


def kinds(rows: str) -> set[str]:
    return {str(finding.construct) for finding in check_job(f"{START}({rows.replace('BOUND', BOUND)}){SINK}", "x.py")}


@pytest.mark.parametrize(
    "rows",
    [
        "i.join(k, F.expr('a = b')).where('BOUND')",
        "i.join(k, F.expr('a = b'), 'inner').select('a', 'it', 'ct').filter('BOUND')",
        "i.join(k, F.expr('a = b')).where('ct >= it').where(F.col('ct') <= F.col('it') + F.expr('interval 1 hour'))",
        "i.join(k, F.expr('a = b AND ct >= it')).where('ct <= it + interval 1 hour')",
        "i.crossJoin(k).where('a = b AND BOUND')",
        "i.join(k, F.expr('a = b')).withColumnRenamed('ct', 'at').where('at BETWEEN it AND it + interval 1 hour')",
        "spark.sql('SELECT * FROM i, k WHERE a = b AND ct BETWEEN it AND it + interval 1 hour')",
        "spark.sql('SELECT * FROM i JOIN k ON a = b WHERE BOUND')",
        "spark.sql('SELECT * FROM (SELECT * FROM i CROSS JOIN k) WHERE a = b AND BOUND')",
    ],
)
def test_a_filter_after_an_inner_join_bounds_its_state(rows: str) -> None:
    assert kinds(rows) == {"watermark"}


@pytest.mark.parametrize(
    "rows",
    [
        "i.join(k, F.expr('a = b'), 'left').where('BOUND')",
        "i.join(k, F.expr('a = b'), 'full_outer').where('BOUND')",
        "spark.sql('SELECT * FROM i LEFT JOIN k ON a = b WHERE BOUND')",
        "i.join(k, F.expr('a = b')).where('ct >= it')",
        "i.join(k, F.expr('a = b')).where('ct >= it OR ct <= it + interval 1 hour')",
        "i.join(k, F.expr('a = b')).where((F.col('ct') >= F.col('it')) | (F.col('ct') <= F.col('it')))",
        "i.join(k, F.expr('a = b')).where('BOUND').union(i.join(k, F.expr('a = b')))",
        "[j := i.join(k, F.expr('a = b')), j.where('BOUND').union(j)][1]",
        "i.join(k, F.expr('a = b')).limit(5).where('BOUND')",
    ],
)
def test_other_filters_leave_the_state_unbounded(rows: str) -> None:
    assert "unbounded-state" in kinds(rows)


def test_a_filter_from_elsewhere_may_bound_a_join() -> None:
    assert kinds("i.join(k, F.expr('a = b')).where(CONDITION)") == {"watermark", "not-understood"}
    assert kinds("i.join(k, F.expr('a = b'), HOW).where('BOUND')") == {"watermark", "not-understood"}
