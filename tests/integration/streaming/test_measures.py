"""Every measure on its whole way: Kafka, Spark, Delta, fold, batch, comparison, report, `cutover sql` and `verify`."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cutover.batch import recompute
from cutover.definition import EachEpoch, Expect, Pipeline, Repeat, Sql
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.serving.views import open_views
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient, RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.records import reference
from cutover.settings import KafkaSettings, Settings, StreamSettings
from cutover.streaming import driver
from cutover.streaming.panes.rows import newest_epoch
from tests.integration.streaming.rig import over_topic
from tests.support.drivers.fed import Fed, HandClock
from tests.support.log.logs import ends_of
from tests.support.log.real_log import Writer
from tests.support.pages.capabilities import note_measures
from tests.support.rows.measured import PIPELINE, START, micros, raw_records
from tests.support.suite.quick_spark import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("comparisons_twice")

FIRST, NEXT = raw_records(90), raw_records(60, first_place=90, hour=6)
LATE = raw_records(30, first_place=150)
CONTRACT = (Expect(type="expect_column_values_to_not_be_null", arguments={"column": "n"}),)
LOG = [*FIRST, *NEXT, *LATE]


TEAM = """
    WITH counted AS (
        SELECT date_trunc('HOUR', at) AS hour, k, t, count(*) AS c FROM events WHERE t IS NOT NULL GROUP BY ALL),
    ranked AS (
        SELECT *, row_number() OVER (PARTITION BY hour, k ORDER BY c DESC, t) AS r FROM counted),
    top AS (
        SELECT hour, k, transform(array_sort(collect_list(struct(r, t, c))),
                                  x -> named_struct('value', x.t, 'count', x.c)) AS places
        FROM ranked WHERE r <= 2 GROUP BY ALL)
    SELECT date_trunc('HOUR', at) AS window_start, e.k, count(*) AS n, variance(v) AS spread, stddev(x) AS noisy,
           min_by(t, struct(at, _partition, _offset)) FILTER (WHERE t IS NOT NULL) AS opens,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY v) AS double) AS median, count(DISTINCT t) AS texts,
           any_value(places) AS places
    FROM events e LEFT JOIN top ON date_trunc('HOUR', at) = hour AND e.k <=> top.k
    GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """An installation in which both paths and the comparison have run."""

    lake: PipelineLake
    report: Report


@pytest.fixture(scope="module", params=[200_000, 4], ids=["collected", "overflow"])
def driven(
    request: pytest.FixtureRequest,
    spark: "SparkSession",
    kafka_bootstrap: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Driven:
    settings = Settings(
        home=tmp_path_factory.mktemp("measured"),
        kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap),
        spark=QUICK,
        stream=StreamSettings(trigger_seconds=0.01, heartbeat_seconds=0.2, overflow_rows=request.param),
    )
    pipeline = replace(over_topic(PIPELINE, f"measured-{request.param}"), contract=CONTRACT)
    pipeline = replace(pipeline, trigger=Repeat(EachEpoch()), changelog=f"{pipeline.source.name}-panes")
    writer = Writer(settings)
    writer.make(pipeline.source.name)
    writer.write(pipeline.source.name, LOG)
    lake = PipelineLake(settings, pipeline)
    fed = Fed(spark, lake, HandClock())
    for end in (FIRST[:45], FIRST, [*FIRST, *NEXT], LOG):
        fed.feed(ends_of(end))
    fed.compact()
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    return Driven(lake=lake, report=run_reconciliation(lake))


def test_a_teams_sql_agrees_within_what_each_measure_declares(
    driven: Driven, spark: "SparkSession", tmp_path: Path
) -> None:
    names = ("n", "spread", "noisy", "opens", "median", "texts", "places")
    measures = {name: PIPELINE.measures[name] for name in names}
    (tmp_path / "team.sql").write_text(TEAM, encoding="utf-8")
    pipeline = over_topic(replace(PIPELINE, measures=measures), f"{driven.lake.pipeline.source.name}-team")
    pipeline = replace(pipeline, batch=Sql("team.sql"), file=tmp_path / "team.py")
    writer = Writer(driven.lake.settings)
    writer.make(pipeline.source.name)
    writer.write(pipeline.source.name, FIRST)
    lake = replace(driven.lake, pipeline=pipeline)
    Fed(spark, lake, HandClock()).feed(ends_of(FIRST))
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)

    report = run_reconciliation(lake)

    assert report.finding.differences == ()
    assert (report.finding.verdict, report.finding.rows.compared > 0) == (Verdict.CONSISTENT, True)


def test_last_pane_of_every_window_has_what_the_stream_has(driven: Driven) -> None:
    measures = ", ".join(driven.lake.pipeline.measures)
    newest = "QUALIFY row_number() OVER (PARTITION BY window_start, k ORDER BY _epoch DESC, _order DESC) = 1"
    with open_views(driven.lake) as connection:
        expected, last_panes = (
            connection.execute(f"SELECT window_start, k, {measures} FROM {source} ORDER BY ALL").fetchall()  # noqa: S608
            for source in ("streaming", f"(FROM panes {newest})")
        )

    assert [row[:2] for row in expected] == [row[:2] for row in last_panes]
    pairs = [
        pair
        for expected_row, other in zip(expected, last_panes, strict=True)
        for pair in zip(expected_row, other, strict=True)
    ]
    assert [
        (expected_value, other)
        for expected_value, other in pairs
        if not same(to_plain(expected_value), to_plain(other))
    ] == []
    assert newest_epoch(LogClient(driven.lake.settings), str(driven.lake.pipeline.changelog), stream(driven)) == 2


def stream(driven: Driven) -> str:
    version = versions.find_current_version(driven.lake)
    assert version is not None
    return version.app_id


def differing(pipeline: Pipeline, rows: list[Mapping[str, Any]], log: list[RawRecord]) -> list[Any]:
    rows_by_cell = {(micros(row["window_start"]), row["k"]): row for row in rows}
    expected = {
        (start, key): row.measures
        for (start, _, (key,)), row in reference.compute_reference(pipeline, log).rows.items()
    }
    assert expected.keys() == rows_by_cell.keys()
    return [
        (place, name, value, rows_by_cell[place][name])
        for place, measures in expected.items()
        for name, value in measures.items()
        if not same(to_plain(value), to_plain(rows_by_cell[place][name]))
    ]


def rows_of(connection: Any, table: str) -> list[Mapping[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 -- of this file
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def test_the_stream_shows_what_plain_python_makes_of_what_was_in_time(driven: Driven) -> None:
    assert differing(driven.lake.pipeline, rows_of(open_views(driven.lake), "streaming"), [*FIRST, *NEXT]) == []
    note_measures(driven.lake.pipeline.measures.values(), "reference", "streaming")


def test_the_batch_is_what_plain_python_makes_of_all(driven: Driven) -> None:
    connection = queries.open_duckdb()
    delta.relation(connection, "batch", driven.lake.batch_uri())

    assert differing(driven.lake.pipeline, rows_of(connection, "batch"), LOG) == []
    note_measures(driven.lake.pipeline.measures.values(), "batch")


def test_late_records_explain_every_difference(driven: Driven) -> None:
    assert driven.report.finding.causes["unexplained"].rows == 0
    assert (driven.report.finding.verdict, driven.report.finding.causes["late"].events > 0) == (Verdict.EXPLAINED, True)
    assert {difference.measure for difference in driven.report.finding.differences} >= {
        "rows",
        "places",
        "opens",
        "cents",
        "low",
    }


def test_the_csv_file_holds_a_list_as_json(driven: Driven) -> None:
    sheet = next((driven.lake.settings.home / "reports").rglob("*.csv"))
    with sheet.open(encoding="utf-8", newline="") as file:
        lists = [row for row in csv.DictReader(file) if row["measure"] == "places"]

    assert {tuple(json.loads(row["batch"])[0]) for row in lists} == {("value", "count")}


def test_the_contract_is_checked_beside_columns_of_lists(driven: Driven) -> None:
    assert [result.success for result in driven.report.finding.contract] == [True]


def test_one_window_and_key_is_explained(driven: Driven) -> None:
    told_of = explain_cell(driven.lake, START, ["a"])

    assert {value.measure for value in told_of.values} == set(driven.lake.pipeline.measures)


def test_verify_finds_every_epoch_right(driven: Driven) -> None:
    verification = verify_pipeline(driven.lake, exhaustive=True)

    assert verification.checks["N4"].state is CheckState.HELD
    assert verification.violations == ()
