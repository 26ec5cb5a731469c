"""The event time of a watermark: which columns keep it, and what it means for the state behind it."""

import pytest

from cutover.parity.job import check_job

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'
MARKED = f'{READ}.withWatermark("ts", "1 hour")'
SINK = '.writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'
LOST = {"watermark-without-effect", "unbounded-state"}


def kinds(source: str) -> set[str]:
    return {str(one.construct) for one in check_job(f"from pyspark.sql import functions as F\n{source}{SINK}", "x.py")}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (MARKED, {"watermark"}),
        (f"{MARKED}.withColumn('ts', F.date_trunc('minute', 'ts'))", LOST | {"time-zone"}),
        (f"{MARKED}.withColumn('ts', F.col('ts') + F.expr('interval 1 hour'))", LOST),
        (f"{MARKED}.selectExpr('ts + interval 1 hour AS ts')", LOST),
        (f"{MARKED}.withColumn('ts', F.col('other'))", LOST),
        (f"{MARKED}.withColumn('other', F.col('ts') + F.expr('interval 1 hour'))", {"watermark"}),
        (f"{MARKED}.withColumn('old', F.col('ts')).withColumn('ts', F.col('old'))", {"watermark"}),
        (f"{MARKED}.union({READ})", {"watermark"}),
        (f"{READ}.union({MARKED})", LOST),
        (f"{READ}.unionByName({MARKED})", LOST),
        (f"{MARKED}.dropDuplicates(['ts', 'id'])", {"watermark", "dedup-within-watermark", "chained-state"}),
        (f"{READ}.withWatermark(COLUMN, '1 hour')", set()),
    ],
)
def test_a_column_keeps_the_event_time_or_loses_it(rows: str, found: set[str]) -> None:
    assert kinds(f"{rows}.groupBy(F.window('ts', '1 hour')).count()") == found


def test_the_time_of_a_window_carries_the_event_time() -> None:
    hours = f"{MARKED}.groupBy(F.window('ts', '1 hour'), 'k').count()"

    for again in ("F.window_time('window')", "'window'"):
        assert kinds(f"{hours}.groupBy(F.window({again}, '1 day')).count()") == {"watermark", "chained-state"}
    assert kinds(f"{MARKED}.groupBy(F.window(F.col('ts').cast('timestamp'), '1 hour')).count()") == LOST


def test_what_a_watermark_does_not_end_is_said_by_its_columns() -> None:
    def say(rows: str) -> list[str]:
        found = check_job(f"from pyspark.sql import functions as F\n{rows}{SINK}", "x.py")
        return [one.what for one in found if one.construct == "watermark-without-effect"]

    assert say(f"{MARKED}.select('k')") == []
    assert say(f"{MARKED}.groupBy('k').count()") == ["withWatermark: grouped by k, without the ts of the watermark"]
    assert say(f"{READ}.union({MARKED}).groupBy('ts').count()") == [
        "withWatermark: the ts of the grouping is no longer that of the watermark"
    ]
