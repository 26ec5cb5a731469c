"""Event-time column of a watermark: operations that keep or lose it, and the effect on state."""

import pytest

from cutover.parity.job import check_job

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'
MARKED = f'{READ}.withWatermark("ts", "1 hour")'
SINK = '.writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'
LOST = {"watermark-without-effect", "unbounded-state"}


def kinds(source: str) -> set[str]:
    return {
        str(finding.construct)
        for finding in check_job(f"from pyspark.sql import functions as F\n{source}{SINK}", "x.py")
    }


@pytest.mark.parametrize(
    ("rows", "expected"),
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
        (f"{READ}.withWatermark(COLUMN, '1 hour')", {"not-understood"}),
    ],
)
def test_a_column_keeps_the_event_time_or_loses_it(rows: str, expected: set[str]) -> None:
    assert kinds(f"{rows}.groupBy(F.window('ts', '1 hour')).count()") == expected


def test_window_time_keeps_the_event_time() -> None:
    hours = f"{MARKED}.groupBy(F.window('ts', '1 hour'), 'k').count()"

    for column in ("F.window_time('window')", "'window'"):
        assert kinds(f"{hours}.groupBy(F.window({column}, '1 day')).count()") == {"watermark", "chained-state"}
    assert kinds(f"{MARKED}.groupBy(F.window(F.col('ts').cast('timestamp'), '1 hour')).count()") == LOST


REJECTED = "; in append mode Spark rejects such a query"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("groupBy('k').count()", "grouped by k, but not by ts or a window of it" + REJECTED),
        ("agg(F.count('*'))", "a total over all rows, without the ts of the watermark" + REJECTED),
        (
            "groupBy(F.window(F.col('ts').cast('timestamp'), '1 hour')).count()",
            "its window is over an expression of ts, which has no watermark" + REJECTED,
        ),
        (
            "withColumn('ts', F.col('other')).groupBy('ts').count()",
            "withColumn of line 2 gives ts another value" + REJECTED,
        ),
        (
            "withColumn('day', F.expr('ts + interval 1 day')).groupBy('day').count()",
            "grouped by day, but not by ts or a window of it" + REJECTED,
        ),
    ],
)
def test_an_ineffective_watermark_has_the_correct_reason(rows: str, reason: str) -> None:
    job = check_job(f"from pyspark.sql import functions as F\n{MARKED}.{rows}{SINK}", "x.py")

    assert [finding.subject for finding in job if finding.construct == "watermark-without-effect"] == [
        f"withWatermark: {reason}"
    ]


def test_the_reason_of_an_ineffective_watermark_depends_on_the_output_mode() -> None:
    def list_reasons(rows: str, mode: str) -> list[str]:
        sink = f".writeStream.outputMode('{mode}').format('memory').option('checkpointLocation', '/c').start()"
        job = check_job(f"from pyspark.sql import functions as F\n{rows}{sink}", "x.py")
        return [finding.subject for finding in job if finding.construct == "watermark-without-effect"]

    windows = f"{MARKED}.groupBy(F.window('ts', '1 hour')).count()"
    assert list_reasons(f"{MARKED}.select('k')", "append") == []
    assert list_reasons(windows, "update") == []
    assert list_reasons(windows, "complete") == ["withWatermark: complete mode keeps every group"]
    assert list_reasons(f"{MARKED}.groupBy('k').count()", "update") == [
        "withWatermark: grouped by k, but not by ts or a window of it"
    ]
    assert list_reasons(f"{READ}.union({MARKED}).groupBy('ts').count()", "update") == [
        "withWatermark: union of line 2 keeps the watermark of its first DataFrame only"
    ]


def test_an_unknown_column_may_be_that_of_the_window() -> None:
    source = "import yaml\nfrom pyspark.sql import functions as F\nconf = yaml.safe_load(open('c.yml'))\n"
    rows = f"{READ}.withWatermark(conf['at'], '1 hour').groupBy(F.window(conf['at'], '1 hour')).count(){SINK}"

    assert {str(finding.construct) for finding in check_job(source + rows, "x.py")} == {"watermark"}


LEFT = f"{MARKED}.selectExpr('key AS k1', 'ts AS t1', 'value AS v1')"
RIGHT = f"{MARKED}.selectExpr('key AS k2', 'ts AS t2', 'value AS v2')"
HOUR = "F.expr('interval 1 hour')"


@pytest.mark.parametrize(
    ("condition", "is_bounded"),
    [
        ("F.expr('k1 = k2 AND t2 >= t1 AND t2 <= t1 + interval 1 hour')", True),
        ("F.expr('k1 = k2 AND t2 BETWEEN t1 AND t1 + interval 1 hour')", True),
        (f"(F.col('k1') == F.col('k2')) & (F.col('t2') >= F.col('t1')) & (F.col('t2') < F.col('t1') + {HOUR})", True),
        (f"(a.k1 == b.k2) & b.t2.between(a.t1, a.t1 + {HOUR})", True),
        ("F.expr('k1 = k2 AND t1 = t2')", True),
        ("F.expr('k1 = k2')", False),
        ("F.expr('k1 = k2 AND t2 >= t1')", False),
        ("F.expr('k1 = k2 AND v1 > v2 AND v1 < v2 + 5')", False),
        ("F.expr('k1 = k2 AND t1 > v2 AND t1 < v2')", False),
    ],
)
def test_a_join_of_streams_is_bounded_by_the_event_times_of_both_sides(condition: str, is_bounded: bool) -> None:
    constructs = kinds(f"a = {LEFT}\nb = {RIGHT}\na.join(b, {condition})")

    assert constructs == ({"watermark"} if is_bounded else {"watermark", "unbounded-state"})


@pytest.mark.parametrize("option", ["ignoreChanges", "ignoreDeletes", "skipChangeCommits"])
def test_a_stream_that_skips_changes_of_its_table_is_found(option: str) -> None:
    rows = f"spark.readStream.option('{option}', {{}}).table('bronze').select('a')"

    assert kinds(rows.format("'true'")) == {"data-loss"}
    assert kinds(rows.format("False")) == set()


def test_all_watermarks_of_a_query_make_one() -> None:
    other = MARKED.replace("1 hour", "2 hours")

    assert kinds(f"{MARKED}.union({other}).groupBy(F.window('ts', '1 hour')).count()") == {"watermark"}


def test_groups_by_a_period_are_windows() -> None:
    for key in ("F.date_trunc('hour', 'ts')", "F.to_date('ts')"):
        rows = f"{READ}.withColumn('period', {key}).groupBy('period').count()"
        assert kinds(rows) == {"unbounded-state", "time-zone"}


@pytest.mark.parametrize("sink", ["format('iceberg')", "format('delta')", "trigger(availableNow=True)"])
def test_complete_mode_replaces_a_table(sink: str) -> None:
    source = f"{READ}.groupBy('k').count().writeStream.outputMode('complete').{sink}"
    start = ".option('checkpointLocation', '/c').toTable('t')"

    assert check_job(f"from pyspark.sql import functions as F\n{source}{start}", "x.py") == ()


def test_state_with_processing_time_timers_depends_on_the_clock() -> None:
    source = f"""
def count(key, rows, state):
    state.setTimeoutDuration(1000)
    yield from rows
class Sessions:
    def handleInputRows(self, key, rows, timers):
        self.handle.registerTimer(timers.getCurrentProcessingTimeInMs() + 1000)
        yield from rows
def by_event(key, rows, state):
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1000)
    yield from rows
rows = {MARKED}.groupBy('k')
"""
    timed = "rows.applyInPandasWithState({0}, 'a int', 'n int', 'append', TIMEOUT)"
    for function, is_found in (("count", True), ("by_event", False)):
        assert ("processing-time-timer" in kinds(f"{source}{timed.format(function)}")) is is_found
    assert "processing-time-timer" in kinds(f"{source}rows.transformWithState(Sessions(), 'a int', 'append', MODE)")
