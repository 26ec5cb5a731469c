"""Constructs detected in the plans of a real Spark: of a DataFrame, of the output of explain, and of JSON."""

import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- as every job has it

from cutover.cli import app
from cutover.errors import DefinitionError
from cutover.parity.plans import live
from cutover.parity.rules import ParityFinding
from tests.support.planned_jobs import BY_TYPES, JOBS, explain, find_constructs, list_expected_constructs, plan_job

OUTSIDE_A_PLAN = {"not-idempotent", "checkpoint", "output-mode"}
"""Constructs of the writer, which no DataFrame holds."""

Case = tuple[Callable[["Tables"], DataFrame], list[tuple[str, str]]]


class Tables:
    """A table, a stream of Spark's own, and one of files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        columns = "id int, k string, x double, at timestamp, d date, m decimal(10, 2)"
        self.rows = spark.createDataFrame([], columns)
        self.rows.createOrReplaceTempView("t")
        self.stream = spark.readStream.format("rate").load().withColumn("k", F.expr("value % 3"))
        self.files = spark.readStream.schema(columns).json(str(folder))
        self.marked = self.stream.withWatermark("timestamp", "1 minute")
        other = self.stream.selectExpr("value AS other", "timestamp AS later")
        self.other, self.other_marked = other, other.withWatermark("later", "1 minute")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    session = spark.newSession()
    session.conf.unset("spark.sql.session.timeZone")
    session.conf.set("spark.sql.debug.maxToStringFields", "10000")
    return Tables(session, tmp_path_factory.mktemp("json"))


def random_text(value: str) -> str:
    return f"{value}{random.random()}"  # noqa: S311 -- that it is chance is the point


def uuid_text(value: str) -> str:
    return f"{value}{uuid.uuid4()}"


def find_value(value: str) -> int | None:
    return {"now": 1}.get(value)


def sorted_constructs(parity_findings: tuple[ParityFinding, ...]) -> list[tuple[str, str]]:
    return sorted((str(parity_finding.construct), parity_finding.subject) for parity_finding in parity_findings)


WATERMARK = ("watermark", "withWatermark")
CASES: dict[str, Case] = {
    "clock": (lambda t: t.rows.select(F.current_timestamp()), [("clock", "current_timestamp")]),
    "clock of a stream": (lambda t: t.stream.where("timestamp > now()"), [("clock", "now")]),
    "no clock": (lambda t: t.rows.select(F.unix_timestamp("at")), []),
    "random": (
        lambda t: t.rows.selectExpr("rand()", "uuid()", "monotonically_increasing_id()", "input_file_name()"),
        [("random", name) for name in ("input_file_name", "monotonically_increasing_id", "rand", "uuid")],
    ),
    "sample": (lambda t: t.rows.sample(0.5), [("random", "tablesample")]),
    "order": (
        lambda t: t.rows.groupBy("k").agg(F.first("x"), F.last("x"), F.collect_list("x")),
        [("order", "collect_list"), ("order", "first"), ("order", "last")],
    ),
    "sorted": (lambda t: t.rows.groupBy("k").agg(F.sort_array(F.collect_list("x")), F.size(F.collect_set("x"))), []),
    "sorted within": (lambda t: t.spark.sql("SELECT listagg(k) WITHIN GROUP (ORDER BY k) FROM t"), []),
    "numbered": (
        lambda t: t.rows.select(F.row_number().over(Window.partitionBy("k").orderBy("at"))),
        [("ties", "row_number")],
    ),
    "numbered by offset": (
        lambda t: t.rows.withColumn("_offset", F.col("id")).select(
            F.lag("x").over(Window.partitionBy("k").orderBy("at", "_offset"))
        ),
        [],
    ),
    "limit": (lambda t: t.rows.limit(3), [("limit", "limit")]),
    "limit in a subquery": (
        lambda t: t.spark.sql("SELECT * FROM t WHERE id IN (SELECT id FROM t LIMIT 2)"),
        [("limit", "limit")],
    ),
    "limit of sorted": (lambda t: t.rows.orderBy("id").select("k").limit(3), []),
    "limit of parts sorted": (lambda t: t.rows.sortWithinPartitions("id").limit(3), [("limit", "limit")]),
    "moments": (lambda t: t.rows.agg(F.stddev("id")), [("float-sum", "stddev of a double")]),
    "sum of a decimal": (lambda t: t.rows.agg(F.sum("m"), F.avg("id"), F.sum(F.col("x").cast("decimal(9,2)"))), []),
    "time zone": (
        lambda t: t.rows.select(F.hour("at"), F.to_date("at")),
        [("time-zone", "hour"), ("time-zone", "to_date")],
    ),
    "no time zone": (lambda t: t.rows.select(F.month("d"), F.year("d")), []),
    "names like calls": (lambda t: t.rows.withColumnRenamed("x", "rand()").select(F.col("`rand()`")), []),
    "stream with watermark": (
        lambda t: t.marked.groupBy(F.window("timestamp", "1 hour"), "k").count(),
        [WATERMARK],
    ),
    "watermark without a grouping by time": (
        lambda t: t.marked.groupBy("k").count(),
        [("watermark-without-effect", "withWatermark: no event time in the grouping")],
    ),
    "watermark without state": (
        lambda t: t.marked.select("k"),
        [],
    ),
    "watermark and a grouping by its column": (lambda t: t.marked.groupBy("timestamp").count(), [WATERMARK]),
    "stream without watermark": (
        lambda t: t.files.groupBy(F.window("at", "1 hour")).count(),
        [("unbounded-state", "windows without withWatermark")],
    ),
    "batch of windows": (lambda t: t.rows.groupBy(F.window("at", "1 hour")).count(), []),
    "totals by key": (lambda t: t.stream.groupBy("k").count(), []),
    "ids of a stream": (
        lambda t: t.marked.dropDuplicatesWithinWatermark(["value"]),
        [("dedup-within-watermark", "dropDuplicates"), WATERMARK],
    ),
    "two in a row": (
        lambda t: t.marked.dropDuplicates(["value", "timestamp"]).groupBy(F.window("timestamp", "1 hour")).count(),
        [("chained-state", "Aggregate after Deduplicate"), ("dedup-within-watermark", "dropDuplicates"), WATERMARK],
    ),
    "sort of a stream": (
        lambda t: t.stream.groupBy("k").count().orderBy("k"),
        [("output-mode", "sort of a stream, in complete mode only")],
    ),
    "join without a bound": (
        lambda t: t.marked.join(t.other_marked, F.expr("value = other")),
        [("unbounded-state", "join of streams without a bound in time"), WATERMARK],
    ),
    "join with a bound": (
        lambda t: t.marked.join(
            t.other_marked, F.expr("value = other AND later BETWEEN timestamp AND timestamp + INTERVAL 1 HOUR")
        ),
        [WATERMARK],
    ),
    "join with a bound and without watermarks": (
        lambda t: t.stream.join(t.other, F.expr("value = other AND later >= timestamp")),
        [("unbounded-state", "join of streams without a bound in time")],
    ),
    "join with a table": (lambda t: t.stream.join(t.rows, F.expr("value = id")), []),
    "many columns": (lambda t: t.rows.selectExpr(*(f"id AS c{number}" for number in range(60))), []),
}
"""Constructs detected in a DataFrame, and in the text of its analysed plan."""

LIVE: dict[str, Case] = {
    "sum of a double": (lambda t: t.rows.groupBy("k").agg(F.sum("x")), [("float-sum", "sum of a double")]),
    "cast to a date": (lambda t: t.rows.select(F.col("at").cast("date")), [("time-zone", "cast")]),
    "any row of an id": (lambda t: t.rows.dropDuplicates(["k"]), [("order", "dropDuplicates of some columns")]),
    "all columns": (lambda t: t.rows.distinct(), []),
    "said to be random": (
        lambda t: t.rows.select(F.udf(find_value, "int").asNondeterministic()("k")),
        [("udf", "find_value calls a function declared non-deterministic")],
    ),
    "pure": (lambda t: t.rows.select(F.udf(find_value, "int")("k")), []),
    "chance": (lambda t: t.rows.select(F.udf(random_text, "string")("k")), [("udf", "random_text calls random")]),
    "uuid": (lambda t: t.rows.select(F.udf(uuid_text, "string")("k")), [("udf", "uuid_text calls uuid4")]),
    "texts like calls": (lambda t: t.spark.sql("SELECT 'rand()' AS a, 'now()' AS b FROM t"), []),
}
"""What only Spark itself knows."""


@pytest.mark.quick
@pytest.mark.parametrize("name", [*CASES, *LIVE])
def test_a_dataframe_is_read_in_spark(tables: Tables, name: str) -> None:
    make, expects = (CASES | LIVE)[name]

    assert sorted_constructs(live.check_frame(make(tables))) == sorted(expects)


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_an_analysed_plan_says_the_same(tables: Tables, name: str) -> None:
    make, expects = CASES[name]

    assert sorted_constructs(live.check_text(explain(make(tables), "extended"), "x")) == sorted(expects)


@pytest.mark.parametrize("name", [name for name in CASES if "subquery" not in name and "by time" not in name])
def test_the_json_of_an_analysed_plan_says_the_same(tables: Tables, name: str) -> None:
    make, expects = CASES[name]

    assert sorted_constructs(live.check_text(make(tables)._jdf.queryExecution().analyzed().toJSON(), "x")) == sorted(
        expects
    )


@pytest.mark.parametrize("name", [name for name in CASES if "clock" not in name])
def test_a_formatted_plan_has_the_same_constructs_but_the_clock(tables: Tables, name: str) -> None:
    make, expects = CASES[name]
    text = live.check_text(explain(make(tables), "formatted"), "x")

    assert {str(finding.construct) for finding in text} == {construct for construct, _ in expects}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_jobs_are_judged_by_their_plans_as_by_their_texts(tables: Tables, job: Path) -> None:
    expected_constructs = (list_expected_constructs(job) - OUTSIDE_A_PLAN) | BY_TYPES.get(job.name, set())
    frames = plan_job(tables.spark, job)

    assert frames
    assert find_constructs("DataFrame", job, frames) == expected_constructs
    assert find_constructs("toJSON", job, frames) <= expected_constructs | {
        "time-zone"
    }  # which does not say who set one


def test_what_is_no_plan_is_refused_with_the_reason(tables: Tables) -> None:
    cut_short = explain(tables.rows, "extended").replace("id#", "... 3 more fields, id#", 1)
    for text, reason in [
        ("", "without an analysed"),
        ("SELECT 1", "without an analysed"),
        (explain(tables.rows, "simple"), "without an analysed"),
        ("== Analyzed Logical Plan ==\n\n== Physical Plan ==\n", "without an analysed"),
        ("[1, 2", "expected the JSON of a plan"),
        ('{"class": "x"}', "other JSON"),
        ('[{"class": "a.B", "num-children": 0}, {"class": "a.C", "num-children": 0}]', "expected one tree"),
        (cut_short, "maxToStringFields"),
    ]:
        with pytest.raises(DefinitionError, match=reason):
            live.check_text(text, "x.txt")
    with pytest.raises(DefinitionError, match=r"expected a DataFrame .* got builtins.int"):
        live.check_frame(3)  # type: ignore[arg-type]


@pytest.mark.quick
def test_the_command_names_the_line_of_the_plan(
    tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, as_json = tmp_path / "plan.txt", tmp_path / "plan.json"
    frame = tables.rows.select(F.rand())
    text.write_text(explain(frame, "extended"), encoding="utf-8")
    as_json.write_text(frame._jdf.queryExecution().logical().toJSON(), encoding="utf-8")

    assert app.main(["parity", "--plan", str(text), "--plan", str(as_json)]) == 1
    output = capsys.readouterr().out
    lines = text.read_text(encoding="utf-8").splitlines()
    number = int(output.partition("plan.txt:")[2].partition(":")[0])
    assert lines[number - 1].startswith("Project [rand(")
    assert output.splitlines()[-1].startswith("2 constructs in 2 files on which a stream and a batch differ.")
    assert app.main(["parity", "--plan", str(text), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["construct"] == "random"
    assert app.main(["parity"]) == 2


def test_a_deep_plan_is_read(tables: Tables) -> None:
    text = explain(tables.rows.select("id"), "extended")
    head, _, after_head = text.partition("== Optimized Logical Plan ==")
    title, _, tree = head.partition("== Analyzed Logical Plan ==\n")
    root = tree.splitlines()[1]
    deep = "\n".join(["id: int", root, *("   " * depth + "+- " + root for depth in range(3_000))])

    assert (
        live.check_text(f"{title}== Analyzed Logical Plan ==\n{deep}\n== Optimized Logical Plan =={after_head}", "x")
        == ()
    )
