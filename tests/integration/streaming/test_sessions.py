"""Sessions on their whole way: epochs, a late row that joins two of them, a fold, both paths, comparison, `verify`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from cutover.batch import recompute
from cutover.definition import Accumulation, Count, EachEpoch, Lateness, Pipeline, Repeat, Sessions, Sum, Topic
from cutover.lake.serving.views import open_views
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.audit.run import audit_determinism
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import KafkaSettings, Settings, StreamSettings
from cutover.streaming import driver
from tests.support.drivers.fed import Fed, HandClock
from tests.support.log.logs import START, Send, ends_of, log_of
from tests.support.log.real_log import Writer
from tests.support.suite.quick_spark import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("comparisons_twice")

GAP = 600  # seconds
LONG = 20_000
Row = tuple[Any, ...]


def row(at: int, key: str, value: int) -> Send:
    """Return a record of partition 0 at a time in seconds after the log's begin, logged long after all others."""
    return Send(partition=0, ahead=at, fields={"k": key, "v": value})


# By epoch. In the third, `a` at 600 is exactly a gap from both sessions of `a`, and far behind the watermark.
EPOCHS: Sequence[Sequence[Send]] = (
    (row(0, "a", 1), row(2 * GAP, "a", 2), row(0, "b", 4)),
    (row(LONG, "a", 8),),
    (row(GAP, "a", 16), row(GAP // 2, "b", 32), row(LONG + 300, "a", 64)),
    (row(LONG + 300 + GAP, "a", 128),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """An installation in which both paths and the comparison have run."""

    lake: PipelineLake
    report: Report


@pytest.fixture(scope="module")
def streamed(spark: "SparkSession", kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> PipelineLake:
    """An installation in which the stream has read all records."""
    settings = Settings(
        home=tmp_path_factory.mktemp("sessions"),
        kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap),
        spark=QUICK,
        stream=StreamSettings(trigger_seconds=0.01, heartbeat_seconds=0.2, fold_every=2),
    )
    pipeline = Pipeline(
        name="whole-sessions",
        source=Topic(
            name="whole-sessions",
            schema="at timestamp NOT NULL, k string, v int",
            event_time="at",
            time_format="seconds",
        ),
        key=("k",),
        window=Sessions("10 minutes"),
        measures={"n": Count(), "total": Sum("v")},
        lateness=Lateness(out_of_orderness="0 seconds", max_ahead="30 days"),
        trigger=Repeat(EachEpoch()),
        accumulation=Accumulation.RETRACTING,
    )
    writer = Writer(settings)
    writer.make(pipeline.source.name)
    log = log_of([send for epoch in EPOCHS for send in epoch])
    writer.write(pipeline.source.name, log)
    lake = PipelineLake(settings, pipeline)
    fed = Fed(spark, lake, HandClock())
    read = 0
    for number, epoch in enumerate(EPOCHS):
        read += len(epoch)
        fed.feed(ends_of(log[:read]))
        if number == len(EPOCHS) - 2:
            fed.compact()
    driver.run_driver(lake, until="final")
    return lake


@pytest.fixture(scope="module")
def driven(streamed: PipelineLake) -> Driven:
    recompute.recompute_windows(streamed)
    return Driven(lake=streamed, report=run_reconciliation(streamed))


def view(lake: PipelineLake, query: str) -> list[Row]:
    """Return start and end in seconds after the log's begin, then further columns."""
    with open_views(lake) as connection:
        rows = connection.execute(query).fetchall()
    return [
        (round(start.timestamp()) - START, round(end.timestamp()) - START, *columns) for start, end, *columns in rows
    ]


@pytest.mark.quick
def test_the_stream_has_what_came_in_time(streamed: PipelineLake) -> None:
    rows = view(streamed, "SELECT window_start, window_end, k, n, total, _state FROM streaming ORDER BY k, 1")

    assert rows == [
        (0, GAP, "a", 1, 1, "final"),
        (2 * GAP, 3 * GAP, "a", 1, 2, "final"),
        (LONG, LONG + 300 + 2 * GAP, "a", 3, 8 + 64 + 128, "final"),
        (0, GAP, "b", 1, 4, "final"),
    ]


def test_the_batch_is_served_with_the_late_rows_and_nothing_twice(driven: Driven) -> None:
    columns = "window_start, window_end, k, n, total, _served_by, _state"
    rows = view(driven.lake, f"SELECT {columns} FROM serving ORDER BY k, 1")  # noqa: S608 -- of this file

    assert rows == [
        (0, 3 * GAP, "a", 3, 1 + 2 + 16, "batch", "final"),
        (LONG, LONG + 300 + 2 * GAP, "a", 3, 8 + 64 + 128, "batch", "final"),
        (0, GAP // 2 + GAP, "b", 2, 4 + 32, "batch", "final"),
    ]


def test_what_one_late_row_joins_is_one_difference_with_one_cause(driven: Driven) -> None:
    windows, causes = driven.report.finding.windows, driven.report.finding.causes

    assert (driven.report.finding.verdict, causes["unexplained"].rows, causes["late"].events) == (
        Verdict.EXPLAINED,
        0,
        2,
    )
    assert (windows.compared, windows.different, windows.open) == (2, 1, 0)  # by start: of both keys, of `a` alone


def test_explain_shows_the_sessions_of_both_sides_and_the_row_that_joins_them(driven: Driven) -> None:
    explanation = explain_cell(driven.lake, datetime.fromtimestamp(START, UTC), ["a"])

    assert (explanation.state, [(late.class_, late.offset) for late in explanation.rows]) == ("closed", [("late", 4)])
    assert [(session.side, session.records) for session in explanation.sessions] == [
        ("streaming", 1),
        ("streaming", 1),
        ("batch", 3),
    ]
    assert {value.measure: value.cause for value in explanation.values} == {
        "n": "late",
        "total": "late",
        "window_end": "late",
    }


def test_explain_takes_the_start_that_one_side_alone_has(driven: Driven) -> None:
    start = datetime.fromtimestamp(START, UTC) + timedelta(seconds=2 * GAP)

    explanation = explain_cell(driven.lake, start, ["a"])

    assert {(value.measure, value.streaming, value.batch) for value in explanation.values} >= {("n", 1, None)}
    assert len(explanation.sessions) == 3


def test_last_panes_that_were_not_taken_back_are_what_the_stream_has(driven: Driven) -> None:
    newest = "PARTITION BY window_start, window_end, k ORDER BY _epoch DESC, _order DESC"
    last_panes = f"(SELECT * FROM panes QUALIFY row_number() OVER ({newest}) = 1)"  # noqa: S608 -- of this file
    standing = f"(SELECT * FROM {last_panes} WHERE _pane <> 'retraction')"  # noqa: S608 -- of this file
    panes, stream = (
        view(driven.lake, f"SELECT window_start, window_end, k, n FROM {source} ORDER BY k, 1")  # noqa: S608 -- of this file
        for source in (standing, "streaming")
    )

    assert panes == stream


def test_verify_finds_every_epoch_right(driven: Driven) -> None:
    verification = verify_pipeline(driven.lake, exhaustive=True)

    assert {name: verification.checks[name].state for name in ("N1", "N3", "N4", "N5", "N6")} == dict.fromkeys(
        ("N1", "N3", "N4", "N5", "N6"), CheckState.HELD
    )
    assert verification.violations == ()
    assert "folds" in verification.checks["N4"].coverage


def test_replays_with_other_epochs_and_tasks_give_the_same_sessions(driven: Driven) -> None:
    determinism_audit = audit_determinism(driven.lake, replays=1, seed=3)

    assert (determinism_audit.exit_code, determinism_audit.rows) == (0, 3)
    assert {replay.blamed for replay in determinism_audit.replays} == {()}
